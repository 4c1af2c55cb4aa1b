"""What the client raises on purpose."""

from __future__ import annotations

from typing import Iterable, List, Optional

from .lines import shown_line
from .run import Run

LOG_INTRO = " Its last log lines:\n"
"""Before the lines of the log in the error message of a worker."""


class LongshoreError(Exception):
    """Anything that this module raises on purpose."""


class ConfigurationError(LongshoreError):
    """The URL or the API key is missing or malformed."""


class Refused(LongshoreError):
    """The service has refused a request; nothing has changed."""

    def __init__(self, status: int, detail: str, errors: Iterable[str] = ()) -> None:
        self.status = status
        self.detail = detail
        self.errors: List[str] = list(errors)
        super().__init__("; ".join([f"{status}: {detail}", *self.errors]))


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
        text = f"run {run.id} failed"
        if run.cause is not None:
            text += f" ({run.cause}{'' if run.exit_code is None else f', exit code {run.exit_code}'})"
        if run.error_message:
            said = run.error_message.partition(LOG_INTRO)[0] if log else run.error_message
            text += ": " + "\n".join(map(shown_line, said.strip().split("\n")))
        super().__init__("\n".join([text, *(f"  | {line}" for line in log)]))


class RunCancelled(LongshoreError):
    """A run was CANCELLED."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reason: Optional[str] = run.summary.get("cancel_reason")
        super().__init__(f"run {run.id} was cancelled" + (f": {self.reason}" if self.reason else ""))
