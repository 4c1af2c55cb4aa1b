"""What the client raises on purpose."""

from __future__ import annotations

from typing import Iterable, List, Optional

from .lines import shown_line
from .run import Group, Run

LOG_INTRO = " Its last log lines:\n"
"""Before the lines of the log in the error message of a worker."""


class LongshoreError(Exception):
    """Anything that this module raises on purpose. `args` are those of the constructor: pickle makes an error anew of them."""


class ConfigurationError(LongshoreError):
    """The URL or the API key is missing or malformed."""


class Refused(LongshoreError):
    """The service has refused a request; nothing has changed."""

    def __init__(self, status: int, detail: str, errors: Iterable[str] = ()) -> None:
        self.status = status
        self.detail = detail
        self.errors: List[str] = list(errors)
        super().__init__(status, detail, self.errors)

    def __str__(self) -> str:
        return "; ".join([f"{self.status}: {self.detail}", *self.errors])


class Unreachable(LongshoreError):
    """The service has not answered for too long; a request that changes something may have been carried out."""


class RunFailed(LongshoreError):
    """A run has FAILED."""

    def __init__(self, run: Run, log: List[str]) -> None:
        self.run = run
        self.cause = run.cause
        self.exit_code = run.exit_code
        self.log = log
        """The last lines of the log of the last attempt as a terminal shows them: 20 and 8,192 characters at most."""
        super().__init__(run, log)

    def __str__(self) -> str:
        text = f"run {self.run.id} failed"
        if self.cause is not None:
            text += f" ({self.cause}{'' if self.exit_code is None else f', exit code {self.exit_code}'})"
        message = self.run.error_message
        if message:
            said = message.partition(LOG_INTRO)[0] if self.log else message
            text += ": " + "\n".join(map(shown_line, said.strip().split("\n")))
        return "\n".join([text, *(f"  | {line}" for line in self.log)])


class RunCancelled(LongshoreError):
    """A run was CANCELLED."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reason: Optional[str] = run.summary.get("cancel_reason")
        super().__init__(run)

    def __str__(self) -> str:
        return f"run {self.run.id} was cancelled" + (f": {self.reason}" if self.reason else "")


class GroupFailed(LongshoreError):
    """A group has failed or was cancelled."""

    def __init__(self, group: Group) -> None:
        self.group = group
        super().__init__(group)

    def __str__(self) -> str:
        data = self.group.data
        failed = data["failed_indexes"] or ", ".join(data["failed_refs"])
        parts = [f"group {self.group.id} is {self.group.state}", data["reason"], failed and f"failed: {failed}"]
        return "; ".join(part for part in parts if part)
