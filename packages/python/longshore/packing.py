"""Folders as archives: equal content gives equal bytes."""

from __future__ import annotations

import gzip
import os
import posixpath
import re
import stat
import tarfile
from pathlib import Path
from typing import IO, Dict, List, Tuple, cast

MOST_ENTRIES = 20_000
MOST_LINKS = 40
"""Links that are followed before they count as a circle."""
RULES = (".longshoreignore", ".dockerignore")


def list_folder(folder: Path) -> List[tarfile.TarInfo]:
    """What a folder has, in the order of the bytes of the names; without what `.longshoreignore`, else `.dockerignore`, names, and
    `.git`. Raises ValueError that names what must not be sent."""
    rules = _Rules(folder)
    links: Dict[str, str] = {}
    found: List[tarfile.TarInfo] = []

    def walk(under: str) -> bool:
        has_any = False
        for entry in os.scandir(folder / under):
            name = posixpath.join(under, entry.name)
            is_left_out = rules.leave_out(name)
            if entry.name == ".git" or (is_left_out and not rules.has_exceptions):
                continue
            has_below = walk(name) if entry.is_dir(follow_symlinks=False) else False
            if is_left_out and not has_below:
                continue
            has_any = True
            found.append(_entry_of(folder, name))
            if len(found) > MOST_ENTRIES:
                raise ValueError(f"{folder} has more than {MOST_ENTRIES} files and folders: name what is not needed in {RULES[0]}")
            if found[-1].issym():
                links[name] = found[-1].linkname
        return has_any

    walk("")
    for name in links:
        if _leads_out(name, links):
            raise ValueError(f"{folder / name} is a link that leads out of {folder}")
    return sorted(found, key=lambda each: os.fsencode(each.name))


def pack_folder(folder: Path, entries: List[tarfile.TarInfo], out: IO[bytes]) -> None:
    """Writes a tar archive with gzip. Raises ValueError when a file changes meanwhile."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as packed:
        with tarfile.open(fileobj=cast(IO[bytes], packed), mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in entries:
                if not entry.isreg():
                    tar.addfile(entry)
                    continue
                with open(folder / entry.name, "rb") as content:
                    if os.fstat(content.fileno()).st_size != entry.size:
                        raise ValueError(f"{folder / entry.name} has changed")
                    tar.addfile(entry, content)


def _entry_of(folder: Path, name: str) -> tarfile.TarInfo:
    path = folder / name
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    if stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISREG(found.st_mode):
        entry.size, entry.mode = found.st_size, 0o755 if found.st_mode & 0o100 else 0o644
    else:
        raise ValueError(f"{path} is neither a file, a folder nor a link")
    return entry


def _leads_out(link: str, links: Dict[str, str]) -> bool:
    """Whether a link, by itself or by others on its way, leads out of the folder, or goes in a circle."""
    left, followed = link.split("/"), 0
    at: List[str] = []
    while left:
        part = left.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        target = links.get("/".join([*at, part]))
        if target is None:
            at.append(part)
            continue
        followed += 1
        if target.startswith("/") or followed > MOST_LINKS:
            return True
        left = target.split("/") + left
    return False


class _Rules:
    """What is left out, by the rules of Docker."""

    def __init__(self, folder: Path) -> None:
        self._rules: List[Tuple[bool, re.Pattern[str]]] = []
        for name in RULES:
            try:
                text = (folder / name).read_text(encoding="utf-8-sig")
            except FileNotFoundError:
                continue
            for line in text.split("\n"):
                if not line.startswith("#") and line.strip() not in ("", "!"):
                    is_exception = line.strip().startswith("!")
                    pattern = line.strip()[is_exception:].strip()
                    cleaned = posixpath.normpath(pattern).lstrip("/")
                    try:
                        self._rules.append((is_exception, re.compile(_expression(cleaned), re.DOTALL)))
                    except re.error:
                        raise ValueError(f"{folder / name}: {line!r} is no pattern") from None
            break
        self.has_exceptions = any(is_exception for is_exception, _ in self._rules)

    def leave_out(self, name: str) -> bool:
        parts = name.split("/")
        above = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
        is_left_out = False
        for is_exception, expression in self._rules:
            if any(expression.fullmatch(each) for each in above):
                is_left_out = not is_exception
        return is_left_out


def _expression(pattern: str) -> str:
    """A pattern as a regular expression: `**` stands for any folders, `*` and `?` for what is within a part."""
    found, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**", at):
            at += 3 if pattern.startswith("**/", at) else 2
            found += ".*" if at >= len(pattern) else "(?:.*/)?"
            continue
        end = pattern.find("]", at + 1)
        if char == "[" and end > 0:
            found += pattern[at : end + 1]
            at = end
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            found += re.escape(pattern[at])
        else:
            found += {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char)
        at += 1
    return found
