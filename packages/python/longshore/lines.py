"""Lines of a log: what is kept and shown of them, and how their pieces are joined."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, Iterable, Iterator, List, Optional

LAST_LINES = 20
LAST_CHARACTERS = 8_192
"""Of the last lines of a log that a failure has, all together."""
MOST_PIECES = 1_000
MOST_CHARACTERS = 1_048_576
"""Pieces and characters of one line, as in the searches of the service."""


@dataclass(frozen=True)
class LogLine:
    """A line that a container printed, without what carriage returns have written over; `str(line)` is its text."""

    attempt: int
    number: int
    """From 0, also counting lines that are not stored."""
    text: str
    stream: str
    """`stdout` or `stderr`."""
    t: str
    """When it was printed, ISO 8601."""
    continued: bool
    """Whether it goes on with an earlier line: other lines came in between, or nothing for some time."""

    def __str__(self) -> str:
        return self.text


# What is kept and shown of a line: `packages/common/src/shown-text.ts` has the same rule, and the same cases test both.

_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\\Z)"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b(?:[ -/]+[0-~]|[0-~])?"
)
_OTHER_ROW = re.compile("(\x1b(?:\\[[0-9;]*[ABEFHdf]|[DEM]))")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_state(text: str, is_begun: bool = False) -> str:
    """A line, or a piece of one, without what carriage returns have written over.

    is_begun: the text goes on with a line, and a carriage return in front stays, because it writes over what was before.
    """
    if "\r" not in text:
        return text
    parts = _OTHER_ROW.split(text)
    return "".join(
        part if index % 2 else _last_state_of_row(part, is_begun or index > 0) for index, part in enumerate(parts)
    )


def _last_state_of_row(text: str, is_begun: bool) -> str:
    written = text.rstrip("\r")
    end = "" if len(written) == len(text) else "\r"
    before, _, last = written.rpartition("\r")
    begin = "\r" if is_begun and len(last) < len(written) else ""
    return f"{begin}{last}{end}"


def shown_line(text: str) -> str:
    """A line as a terminal would show it: its last state without escape sequences and control characters."""
    if _CONTROLS.search(text) is None:
        return text
    rows = (_shown_row(row) for row in _OTHER_ROW.split(last_state(text))[::2])
    return " ".join(row for row in rows if row)


def _shown_row(text: str) -> str:
    written = _SEQUENCES.sub("", text)
    return _CONTROLS.sub("", _without_backspaces(written) if "\b" in written else written)


def _without_backspaces(text: str) -> str:
    cells: List[str] = []
    at = 0
    for character in text:
        if character == "\b":
            at = max(0, at - 1)
        else:
            cells[at : at + 1] = [character]
            at += 1
    return "".join(cells)


class Pieces:
    """Joins the pieces of lines that follow each other. A carriage return in front of a joined line writes over earlier pieces."""

    def __init__(self) -> None:
        self.line: Optional[LogLine] = None
        """The last line, which may go on."""
        self._next = 0
        self._count = 0

    def add(self, piece: LogLine) -> Iterator[LogLine]:
        """Yields the line before when the piece does not belong to it."""
        line = self.line
        if line is not None and self._goes_on(line, piece):
            self.line = replace(line, text=last_state(line.text + piece.text, line.continued))
            self._count += 1
        else:
            yield from self.end()
            self.line = replace(piece, text=last_state(piece.text, piece.continued))
            self._count = 1
        self._next = piece.number + 1

    def end(self) -> Iterator[LogLine]:
        """Yields the last line."""
        line, self.line = self.line, None
        if line is not None:
            yield line

    def _goes_on(self, line: LogLine, piece: LogLine) -> bool:
        is_next = piece.continued and piece.stream == line.stream and piece.number == self._next
        return is_next and self._count < MOST_PIECES and len(line.text) < MOST_CHARACTERS


def last_texts(pieces: Iterable[LogLine]) -> List[str]:
    """The last lines as a terminal shows them, without pieces over which later ones of their line have written."""
    whole = Pieces()
    joined = [line for piece in pieces for line in whole.add(piece)] + list(whole.end())
    lines: List[LogLine] = []
    begun: Dict[str, List[LogLine]] = {}
    for line in joined:
        own = begun.get(line.stream, []) if line.continued else []
        if own and (line.text.startswith("\r") or own[-1].text.endswith("\r")):
            lines = [each for each in lines if each not in own]
            own = []
        begun[line.stream] = [*own, line]
        lines.append(line)
    texts: List[str] = []
    room = LAST_CHARACTERS
    for line in lines[: -LAST_LINES - 1 : -1]:
        text = shown_line(line.text)
        texts.append(text[-room:])
        room -= len(text)
        if room <= 0:
            break
    return texts[::-1]
