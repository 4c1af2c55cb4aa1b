"""Files that runs get and leave."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import ssl
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Mapping, Optional, Union

from .connection import Connection
from .errors import LongshoreError
from .packing import list_folder, pack_folder
from .progress import TransferLine
from .run import AnyRun, JsonObject, id_of, quoted

TRIES = 5
"""Requests to the store in a row that bring nothing."""
SILENCE_S = 120
"""After which a request to the store counts as lost."""
CHUNK = 1 << 20


class TransferFailed(LongshoreError):
    """A file could not be sent to the store of the service, or fetched from it."""


class Files(Connection):
    """Calls that move files."""

    def download(
        self, run: AnyRun, *names: str, to: Union[str, "os.PathLike[str]"] = ".", progress: bool = True
    ) -> List[Path]:
        """Fetches the files that a run has left, below the folder `to`, and returns their paths.

        names: those of `artifacts.out`, or of single files of a pattern, such as `plots/a.png`; without any, all.
        progress: a line about it on standard error, if that is a terminal.
        What an earlier call has fetched of a file is not fetched again. Raises ValueError for a name that the run has not left,
        TransferFailed.
        """
        listed = self._read_json(self._ask("GET", f"/runs/{id_of(run)}/artifacts"))
        for name in names:
            if not any(_is_of(each, name) for each in listed):
                left = ", ".join(each["name"] for each in listed) or "none"
                raise ValueError(f"the run has left no file {name!r}; it has left {left}")
        wanted = [each for each in listed if not names or any(_is_of(each, name) for name in names)]
        for each in wanted:
            if names and each["state"] != "stored":
                raise ValueError(f"{each['name']} is {each['state']}")
        return [self._fetch(run, each, Path(to), progress) for each in wanted if each["state"] == "stored"]

    def _fields(self, fields: Mapping[str, Any]) -> JsonObject:
        """Fields of a request as the API takes them. Local files of `in_files`, `artifacts` and `inputs` are sent."""
        given = {name: value for name, value in fields.items() if name not in ("in_files", "out_files")}
        if given.get("files") is not None:
            given["files"] = {place: _file(content) for place, content in given["files"].items()}
        inputs = given.get("inputs")
        if isinstance(inputs, Mapping) and any(isinstance(value, Path) for value in inputs.values()):
            sent = self._upload_each(inputs)
            given["inputs"] = {**inputs, **{name: {"$artifact": {"file": sent[name]["file"]}} for name in sent}}
        artifacts, added, targets = given.get("artifacts") or {}, fields.get("in_files"), fields.get("out_files")
        sources = {**(artifacts.get("in") or {}), **(added or {})}
        if added is not None or targets is not None or any(isinstance(source, Path) for source in sources.values()):
            sent = self._upload_each(sources)
            out = {name: {"path": path} if isinstance(path, str) else path for name, path in (targets or {}).items()}
            given["artifacts"] = {**artifacts, "in": {**sources, **sent}, "out": {**(artifacts.get("out") or {}), **out}}
        return given

    def _body(self, body: Any) -> Any:
        """A definition or a schedule as the API takes it, with the runs in it."""
        if isinstance(body, list):
            return [self._body(each) for each in body]
        if not isinstance(body, Mapping):
            return body
        inner = {name: self._body(body[name]) for name in ("run", "runs", "group", "array") if name in body}
        return self._fields({**body, **inner})

    def _upload_each(self, values: Mapping[str, Any]) -> Dict[str, JsonObject]:
        """Sends the files and folders among the values, after all have been read and packed. Returns each as a source of `in`."""
        with tempfile.TemporaryDirectory(prefix="longshore-") as temporary:
            local = {
                name: _Local(value, Path(temporary) / str(at))
                for at, (name, value) in enumerate(values.items())
                if isinstance(value, Path)
            }
            return {name: self._upload(each) for name, each in local.items()}

    def _upload(self, local: _Local) -> JsonObject:
        """Sends a file, unless the service has it from the same key. Returns it as a source of `in`."""
        body = {"name": local.name, "bytes": local.bytes, "sha256": local.sha256}
        made = self._object("POST", "/files", body={**body, **({"content_type": "application/gzip"} if local.is_folder else {})})
        file_id = str(made["id"])
        upload = made.get("upload")
        with TransferLine(f"sent: {local.name}", local.bytes) as line:
            if upload is not None and "parts" in upload:
                first, etags = 0, []
                for part in upload["parts"]:
                    etags.append(self._send_piece(local, file_id, part, range(first, first + part["bytes"]), line))
                    first += part["bytes"]
                self._object("POST", f"/files/{file_id}/complete", body={"etags": etags})
            elif upload is not None:
                self._send_piece(local, file_id, upload, range(local.bytes), line)
        if upload is not None and not self._is_stored(file_id):
            raise TransferFailed(f"the service has not got all of {local.path}")
        return {"file": file_id, **({"unpack": True} if local.is_folder else {})}

    def _is_stored(self, file_id: str) -> bool:
        return bool(self._object("GET", f"/files/{file_id}")["state"] == "stored")

    def _send_piece(
        self, local: _Local, file_id: str, piece: Mapping[str, Any], place: range, line: TransferLine
    ) -> str:
        """Returns the entity tag that the store gave; empty: none, or its answer was lost."""
        for tried in range(TRIES):
            given = {name: value for name, value in piece["headers"].items() if name.lower() != "content-length"}
            headers = {**given, "Content-Length": str(len(place))}
            reason, may_pass = "", True
            with open(local.path, "rb") as content:
                content.seek(place.start)
                body = _read(content, place, line)
                try:
                    with _Exchange(piece["method"], piece["url"], headers, self._tls, body) as answer:
                        answer.read()
                        if 200 <= answer.status < 300:
                            return answer.headers.get("ETag") or ""
                        reason = f"the store answers HTTP {answer.status}"
                        may_pass = answer.status >= 500 or answer.status in (408, 429)
                except (OSError, http.client.HTTPException) as error:
                    reason = str(error) or type(error).__name__
            # The bytes may have arrived although the answer did not.
            if self._is_stored(file_id):
                return ""
            if tried + 1 == TRIES or not may_pass:
                break
            time.sleep(0.1 * 3**tried)
        raise TransferFailed(f"cannot send {local.path}: {reason}")

    def _fetch(self, run: AnyRun, artifact: JsonObject, folder: Path, progress: bool) -> Path:
        name, size, sha256 = artifact["name"], artifact["bytes"], artifact["sha256"]
        target = _place(folder, name)
        if sha256 is not None and not target.is_symlink() and target.is_file() and _sum(target) == (size, sha256):
            return target
        told = repr((id_of(run), name, artifact["attempt"], size, sha256)).encode()
        part = target.with_name(f".longshore-{hashlib.sha256(told).hexdigest()[:32]}.part")
        # What Windows does not have is left out there.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        line = TransferLine(f"fetched: {name}", size, wanted=progress)
        with line, open(os.open(part, flags, 0o666), "r+b", buffering=0) as out:
            self._fetch_rest(run, name, size, out, line)
        if sha256 is not None and _sum(part)[1] != sha256:
            part.unlink()
            raise TransferFailed(f"{name} has arrived with another checksum than {sha256}")
        os.replace(part, target)
        return target

    def _fetch_rest(self, run: AnyRun, name: str, size: int, out: IO[bytes], line: TransferLine) -> None:
        """Fetches what is missing, with a new URL for each request."""
        failures = 0
        while True:
            there = os.fstat(out.fileno()).st_size
            if there > size:
                out.truncate(0)
            elif there == size:
                return
            path = f"/runs/{id_of(run)}/artifacts/{quoted(name)}"
            url = self._object("GET", path, query={"redirect": "false"})["url"]
            headers = {"Range": f"bytes={there}-"} if 0 < there < size else {}
            try:
                with _Exchange("GET", url, headers, self._tls) as answer:
                    is_rest = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {there}-")
                    if answer.status in (200, 416):
                        # All of it, or it has no such range.
                        out.truncate(0)
                    if answer.status != 200 and not is_rest:
                        raise OSError(f"the store answers HTTP {answer.status}")
                    for chunk in iter(lambda: answer.read(CHUNK), b""):
                        _write(out, chunk)
                        line.moved(out.tell())
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            else:
                reason = "the store has given another number of bytes"
            failures = 0 if os.fstat(out.fileno()).st_size > there else failures + 1
            if failures == TRIES:
                raise TransferFailed(f"cannot fetch {name}: {reason}")
            time.sleep(0.1 * 3**failures)


class _Local:
    """A local file, or a folder as the archive that is sent of it."""

    def __init__(self, path: Path, archive: Path) -> None:
        self.is_folder = path.is_dir()
        self.name = Path(os.path.abspath(path)).name or "files"
        self.path = path
        if self.is_folder:
            self.name, self.path = f"{self.name}.tar.gz", archive
            entries = list_folder(path)
            with open(archive, "wb") as out:
                pack_folder(path, entries, out)
        elif not path.is_file():
            raise ValueError(f"{path} is neither a file nor a folder")
        self.bytes, self.sha256 = _sum(self.path)


class _Exchange:
    """A request to a store, whose answer is read within the `with`. No redirect is followed."""

    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        tls: Optional[ssl.SSLContext],
        body: Optional[Iterator[bytes]] = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
        self._connection = (
            http.client.HTTPConnection(host, port, timeout=SILENCE_S)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(host, port, timeout=SILENCE_S, context=tls or ssl.create_default_context())
        )
        self._asked = (method, f"{parts.path}?{parts.query}", body, dict(headers))

    def __enter__(self) -> http.client.HTTPResponse:
        try:
            method, target, body, headers = self._asked
            self._connection.request(method, target, body, headers)
            return self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _is_of(artifact: Mapping[str, Any], name: str) -> bool:
    return bool(artifact["name"] == name or artifact["name"].startswith(name.rstrip("/") + "/"))


def _place(folder: Path, name: str) -> Path:
    """Where an artifact is put, with the folders on the way. Raises ValueError for a name or a link that leads elsewhere."""
    parts = name.split("/")
    for part in parts:
        # One with a drive or a backslash is another name for Windows.
        if part in ("", ".", "..") or "\0" in part or os.path.basename(part) != part:
            raise ValueError(f"{name!r} is no name of a file here")
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts[:-1]:
        folder = folder / part
        if not folder.is_symlink():
            folder.mkdir(exist_ok=True)
        else:
            raise ValueError(f"{folder} is a link, which is not followed")
    return folder / parts[-1]


def _write(out: IO[bytes], chunk: bytes) -> None:
    try:
        while chunk:
            chunk = chunk[out.write(chunk) :]
    except OSError as error:
        raise TransferFailed(f"cannot write what arrives: {error}") from error


def _read(content: IO[bytes], place: range, line: TransferLine) -> Iterator[bytes]:
    at = place.start
    while at < place.stop:
        chunk = content.read(min(CHUNK, place.stop - at))
        if not chunk:
            raise OSError("the file has become shorter")
        at += len(chunk)
        line.moved(at)
        yield chunk


def _sum(path: Path) -> tuple[int, str]:
    """The number of bytes of a file, and their checksum."""
    found, size = hashlib.sha256(), 0
    with open(path, "rb") as content:
        for chunk in iter(lambda: content.read(CHUNK), b""):
            found.update(chunk)
            size += len(chunk)
    return size, found.hexdigest()


def _file(content: Any) -> Any:
    """A value of `files` as the API takes it."""
    if isinstance(content, str):
        return {"content": content}
    if isinstance(content, bytes):
        return _bytes(content)
    if not isinstance(content, Path):
        return content
    return {**_bytes(content.read_bytes()), **({"mode": "0555"} if os.access(content, os.X_OK) else {})}


def _bytes(content: bytes) -> JsonObject:
    """As a text, which people can read in the run, if it is UTF-8 without NUL."""
    try:
        if b"\0" not in content:
            return {"content": content.decode("utf-8")}
    except UnicodeDecodeError:
        pass
    return {"content_base64": base64.b64encode(content).decode("ascii")}
