"""Runs and groups as the service shows them."""

from __future__ import annotations

import html
import os
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Optional, Union

from .json_text import to_json

ENDED = frozenset(("COMPLETED", "FAILED", "CANCELLED"))

MOST_SHOWN = 200
"""Characters of a value that a notebook shows."""

JsonObject = Dict[str, Any]


@dataclass(frozen=True, repr=False)
class Run:
    """A run as the service answered it. `data` has every field, by its name in the API."""

    data: JsonObject
    _client: ClassVar[Any] = None
    """The client that has read it; None: it came from another process."""

    def __getstate__(self) -> JsonObject:
        return {"data": self.data}

    def download(
        self, *names: str, to: Union[str, "os.PathLike[str]"] = ".", progress: bool = True
    ) -> List[Path]:
        """As `download` of the client that has read this run."""
        if self._client is None:
            raise ValueError("the run came from another process: use download of a client")
        found: List[Path] = self._client.download(self, *names, to=to, progress=progress)
        return found

    def __repr__(self) -> str:
        state = f"{self.state} {self.progress} %" if self.state == "RUNNING" else self.state
        failure = [str(each) for each in (self.cause, self.exit_code) if each is not None]
        parts = [self.id, state, *failure, self._made_of(), *([f"'{self.name}'"] if self.name else [])]
        return "<Run " + " ".join(_brief(part) for part in parts if part) + ">"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        started, finished = self.summary.get("started_at"), self.summary.get("finished_at")
        rows = {
            "run": self.id,
            "name": self.name,
            "of": self._made_of(),
            "state": f"{self.state}, attempt {self.attempt}, {self.progress} %",
            "time": " to ".join(str(each) for each in (started, finished) if each),
            "failure": ", ".join(str(each) for each in (self.cause, self.exit_code, self.error_message) if each),
            "inputs": self.inputs,
            "outputs": self.outputs,
        }
        cells = ((html.escape(_brief(name)), html.escape(_brief(value))) for name, value in rows.items() if value)
        return "<table>" + "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in cells) + "</table>"

    def _made_of(self) -> str:
        definition, version = self.data.get("op_definition"), self.data.get("op_definition_version")
        return f"{definition}/{version}" if definition else str(self.data.get("image", ""))

    @property
    def name(self) -> Optional[str]:
        return self.data.get("name")

    @property
    def labels(self) -> Dict[str, str]:
        return dict(self.data.get("labels", {}))

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


@dataclass(frozen=True, repr=False)
class Group:
    """A group as the service answered it. `data` has every field, by its name in the API."""

    data: JsonObject

    def __repr__(self) -> str:
        name = f" '{_brief(self.data['name'])}'" if self.data.get("name") else ""
        return f"<Group {self.id} {self.state} {self.progress} %{name}>"

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def state(self) -> str:
        """open, completed, failed or cancelled."""
        return str(self.data["state"])

    @property
    def has_ended(self) -> bool:
        return self.state != "open"

    @property
    def progress(self) -> int:
        """How many of 100 runs have ended."""
        return int(self.data["progress"])

    @property
    def counts(self) -> Dict[str, int]:
        """Numbers of runs by state, and of those of an array that are not created yet (`uncreated`)."""
        return dict(self.data["counts"])


AnyRun = Union[Run, str]


def id_of(run: AnyRun) -> str:
    return quoted(run.id if isinstance(run, Run) else run)


def _brief(value: Any) -> str:
    """The beginning of a value, in one line: texts as they are, others as JSON."""
    try:
        text = value if isinstance(value, str) else to_json(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    text = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * MOST_SHOWN]).split())
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
