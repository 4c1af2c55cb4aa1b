"""A line that tells how far many runs, or a file on its way, are."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Iterable, NamedTuple, Optional, Sized, TextIO, Type


class Figures(NamedTuple):
    """Numbers of runs."""

    ended: int
    failed: int
    """Of the ended ones, those that are not COMPLETED."""
    going: int


class _Line:
    """A line of standard error that is written over."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._width = 0

    def clear(self) -> None:
        """Makes room on a terminal for what the program prints."""
        if self._width > 0 and self._out.isatty():
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _show(self, text: str) -> None:
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            pass  # Nobody looks any more; the runs matter.


class ProgressLine(_Line):
    """How far many runs are."""

    def __init__(self, out: TextIO, total: Optional[int]) -> None:
        super().__init__(out)
        self._total = total
        self._began = time.monotonic()

    @classmethod
    def wanted(cls, progress: Optional[bool], inputs: Iterable[object]) -> Optional[ProgressLine]:
        """One if it was asked for, or nothing was said and standard error is a terminal."""
        out: Optional[TextIO] = sys.stderr
        if out is None or progress is False or (progress is None and not out.isatty()):
            return None
        return cls(out, len(inputs) if isinstance(inputs, Sized) else None)

    def draw(self, figures: Figures) -> None:
        seconds = int(time.monotonic() - self._began)
        of = "" if self._total is None else f" of {self._total}"
        failed = f", {figures.failed} of them not completed" if figures.failed else ""
        text = f"{figures.ended}{of} runs ended{failed}, {figures.going} going on, {seconds // 60}:{seconds % 60:02}"
        self._show(text)

    def end(self, figures: Figures) -> None:
        self.draw(figures)
        self._write("\n")


class TransferLine(_Line):
    """How much of a file has been moved, while it is, on a terminal."""

    def __init__(self, what: str, total: int, *, wanted: bool = True) -> None:
        super().__init__(sys.stderr)
        self._what = "".join(each if each.isprintable() else " " for each in what)
        self._total = total
        self._drawn = 0.0
        self._is_seen = wanted and sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> TransferLine:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.clear()

    def moved(self, size: int) -> None:
        """Shows so many bytes, ten times a second at most."""
        now = time.monotonic()
        if not self._is_seen or now < self._drawn + 0.1:
            return
        self._drawn = now
        percent = 100 * size // self._total if self._total else 100
        text = f"{percent:3} % of {self._total / 1e6:.1f} MB  {self._what}"
        # A line that is wrapped cannot be written over.
        self._show(text[: shutil.get_terminal_size().columns - 1])
