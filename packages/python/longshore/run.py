"""A run as the service shows it."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass
from typing import Any, Dict, Optional, Union

ENDED = frozenset(("COMPLETED", "FAILED", "CANCELLED"))

JsonObject = Dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run as the service answered it. `data` has every field, by its name in the API."""

    data: JsonObject

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def state(self) -> str:
        """PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED or CANCELLED."""
        return str(self.data["state"])

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def image(self) -> str:
        return str(self.data["image"])

    @property
    def inputs(self) -> JsonObject:
        return dict(self.data["inputs"])

    @property
    def outputs(self) -> JsonObject:
        """What the run has returned; before its end the template of the request."""
        return dict(self.data["outputs"])

    @property
    def progress(self) -> int:
        """0 to 100."""
        return int(self.data["progress"])

    @property
    def attempt(self) -> int:
        """Number of the current attempt, from 1."""
        return int(self.data["current_attempt"])

    @property
    def summary(self) -> JsonObject:
        """The execution summary: worker, times, why it failed."""
        return dict(self.data["execution_summary"])

    @property
    def cause(self) -> Optional[str]:
        """What kind of failure it was, such as `exit`, `oom` or `timeout`."""
        return self.summary.get("cause")

    @property
    def exit_code(self) -> Optional[int]:
        return self.summary.get("exit_code")

    @property
    def error_message(self) -> Optional[str]:
        return self.summary.get("error_message")


AnyRun = Union[Run, str]


def id_of(run: AnyRun) -> str:
    return quoted(run.id if isinstance(run, Run) else run)


def quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
