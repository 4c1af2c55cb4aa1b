"""A line that tells how far many runs are."""

from __future__ import annotations

import sys
import time
from typing import Iterable, NamedTuple, Optional, Sized, TextIO


class Figures(NamedTuple):
    """Numbers of runs."""

    ended: int
    failed: int
    """Of the ended ones, those that are not COMPLETED."""
    going: int


class ProgressLine:
    """A line of standard error that is written over."""

    def __init__(self, out: TextIO, total: Optional[int]) -> None:
        self._out = out
        self._total = total
        self._began = time.monotonic()
        self._width = 0

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
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def clear(self) -> None:
        """Makes room on a terminal for what the program prints."""
        if self._width > 0 and self._out.isatty():
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def end(self, figures: Figures) -> None:
        self.draw(figures)
        self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            pass  # Nobody looks any more; the runs matter.
