"""Client of the Longshore service: create runs of container images, wait for them, read their logs and feeds.

    from longshore import Longshore

    api = Longshore()
    run = api.wait(api.run_image("longshore/word-count", {"text": "to be or not to be"}))
    print(run.outputs)

One file, the standard library alone, Python 3.9 or newer. A client may be used by several threads.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import re
import ssl
import stat
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

__version__ = "0.1.0"
__all__ = [
    "ConfigurationError",
    "LogLine",
    "Longshore",
    "LongshoreError",
    "Refused",
    "Run",
    "RunCancelled",
    "RunFailed",
    "Unreachable",
]

DEFAULT_URL = "http://127.0.0.1:5555"
ENDED = frozenset(("COMPLETED", "FAILED", "CANCELLED"))
WAIT_S = 25
"""How long the service holds a request: less than the timeouts of usual proxies."""
ANSWER_S = 30
"""Silence after which a request counts as lost, beyond the time that the service holds it."""
LATE_S = 2
"""How long after its deadline an answer may come: the service holds for whole seconds, and the way takes time."""
FIRST_PATIENCE_S = 10
"""Patience with a service that this client has never reached."""
LONGEST_PAUSE_S = 5.0
LOG_GRACE_S = 10
"""Time to wait for the end of a log after its attempt: a stale worker never sends it."""
LAST_LINES = 20
LAST_CHARACTERS = 8_192
"""Of the last lines of a log that a failure has, all together."""
PIECE_S = 2
"""How long the end of a line is waited for: the pieces of one that is not finished come each second or so."""
MOST_PIECES = 1_000
MOST_CHARACTERS = 1_048_576
"""Pieces and characters of one line, as in the searches of the service."""
LOG_INTRO = " Its last log lines:\n"
"""Before the lines of the log in the error message of a worker."""

JsonObject = Dict[str, Any]


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
            text += ": " + "\n".join(map(_shown_line, said.strip().split("\n")))
        super().__init__("\n".join([text, *(f"  | {line}" for line in log)]))


class RunCancelled(LongshoreError):
    """A run was CANCELLED."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reason: Optional[str] = run.summary.get("cancel_reason")
        super().__init__(f"run {run.id} was cancelled" + (f": {self.reason}" if self.reason else ""))


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


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Longshore:
    """A client of one service.

    url, key: where the service is and who calls it. Without them: SERVICE_URL and SERVICE_API_KEY, then what `longshore login`
        has saved. A saved key is used for its own service alone.
    decimals: read fractions as Decimal, with all their digits; else as float. Integers are always exact, and a Decimal is
        always sent with all its digits.
    patience: seconds without an answer of the service before a call raises Unreachable; ten for a service never reached.

    No redirect is followed and no proxy is used, so the key is sent to the host of the URL alone.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        decimals: bool = False,
        patience: float = 300.0,
    ) -> None:
        said_url = url or os.environ.get("SERVICE_URL") or None
        said_key = key or os.environ.get("SERVICE_API_KEY") or None
        saved = None if said_url and said_key else _saved_login()
        self.url = _normal_url(said_url or (saved[0] if saved else DEFAULT_URL))
        if said_key is None and saved and _normal_url(saved[0]) == self.url:
            said_key = saved[1]
        if said_key is None:
            raise ConfigurationError(
                f'no API key for {self.url}: run "longshore login", set SERVICE_API_KEY or give key='
            )
        if not re.fullmatch(r"[\x21-\x7e]+", said_key):
            raise ConfigurationError("an API key has visible ASCII characters only")
        self._key = said_key
        self._decimals = decimals
        self._patience = patience
        self._place = urllib.parse.urlsplit(self.url)
        self._tls = ssl.create_default_context() if self._place.scheme == "https" else None
        self._was_reached = False

    def __repr__(self) -> str:
        return f"Longshore({self.url!r})"

    # Runs

    def run(
        self,
        definition: str,
        inputs: Optional[Mapping[str, Any]] = None,
        *,
        version: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        **options: Any,
    ) -> Run:
        """Creates a run of a definition, of its newest version unless one is given. It does not wait for its end.

        options: fields of the request, such as `priority=5`.
        idempotency_key: the same key never creates a second run; without one, each call has its own.
        """
        path = f"/definitions/{_quoted(definition)}/runs"
        return self._create(path, {"version": version}, {"inputs": inputs, **options}, idempotency_key)

    def run_image(
        self,
        image: str,
        inputs: Optional[Mapping[str, Any]] = None,
        *,
        idempotency_key: Optional[str] = None,
        **options: Any,
    ) -> Run:
        """Creates a run of a container image. It does not wait for its end.

        options: fields of the request, such as `args=["--fast"]`, `env={"LEVEL": "2"}`, `constraints={"ram_mb": 512}`.
        """
        return self._create("/runs", {}, {"image": image, "inputs": inputs, **options}, idempotency_key)

    def get(self, run: AnyRun) -> Run:
        """The run as it is now, without its events."""
        return self._read(run, {})

    def cancel(self, run: AnyRun, reason: Optional[str] = None) -> Run:
        """Cancels a run that has not ended; of one that has, nothing changes. Returns the run as it is then."""
        body = {} if reason is None else {"reason": reason}
        try:
            return Run(self._object(self._ask("POST", f"/runs/{_id(run)}/cancel", body=body)))
        except Refused:
            found = self.get(run)
            if not found.has_ended:
                raise
            return found

    def wait(
        self,
        run: AnyRun,
        *,
        until: str = "ended",
        timeout: Optional[float] = None,
        check: bool = True,
    ) -> Run:
        """Waits until a run has ended (or `started`) and returns it. The service holds the requests; a restart ends no wait.

        check: raise RunFailed or RunCancelled unless it is COMPLETED.
        Raises TimeoutError when that takes longer than `timeout` seconds, also if the service does not answer; the run
            goes on.
        """
        if until not in ("ended", "started"):
            raise ValueError("until must be 'ended' or 'started'")
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            hold = WAIT_S if deadline is None else max(0, math.ceil(min(WAIT_S, deadline - time.monotonic())))
            found = self._read(run, {"wait": hold, "until": until}, deadline)
            if found.has_ended or (until == "started" and found.state == "RUNNING"):
                return self._checked(found, deadline) if check else found
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {found.id} is {found.state} after {timeout} s")

    def map(
        self,
        definition: str,
        inputs: Iterable[Mapping[str, Any]],
        *,
        at_most: int = 10,
        check: bool = True,
        version: Optional[str] = None,
        **options: Any,
    ) -> Iterator[Run]:
        """Runs a definition once for each of the inputs, and yields the ended runs in the order of the inputs.

        at_most: so many runs that have not ended at a time; the inputs are read as they are needed, by other threads, one at
            a time. Reading them may wait for earlier results.
        check: raise RunFailed or RunCancelled as soon as a run has ended otherwise than COMPLETED; no further one is created
            then. Runs that were created go on.
        """
        return self._map(lambda each: self.run(definition, each, version=version, **options), inputs, at_most, check)

    def map_image(
        self,
        image: str,
        inputs: Iterable[Mapping[str, Any]],
        *,
        at_most: int = 10,
        check: bool = True,
        **options: Any,
    ) -> Iterator[Run]:
        """As `map`, with runs of a container image."""
        return self._map(lambda each: self.run_image(image, each, **options), inputs, at_most, check)

    # Logs and feeds

    def logs(self, run: AnyRun, *, follow: bool = False, attempt: Optional[int] = None) -> Iterator[LogLine]:
        """Yields the lines of the log of an attempt, the current one unless it is given.

        follow: wait for further lines until the log is complete; without `attempt`, go on with the attempts that follow.
            The newest line comes when the next one does, or after two seconds, because it may go on.
        Lines that are not stored are left out.
        """
        number = attempt or self.get(run).attempt
        while True:
            yield from self._log(run, number, follow)
            if not follow or attempt is not None:
                return
            found = self._attempt_end(run, number)
            if found.attempt == number:
                return
            number += 1

    def feed(self, topic: str, *, after: Optional[str] = None, follow: bool = True) -> Iterator[JsonObject]:
        """Yields the events of all runs with a topic, oldest first, each once.

        after: the `cursor` of the last event that was handled.
        follow: wait for new events; else end with the newest.
        """
        while True:
            query = {"topic": topic, "after": after, "wait": WAIT_S if follow else None, "limit": 500}
            page = self._object(self._ask("GET", "/feed", query=query))
            for event in page["events"]:
                yield event
                after = event["cursor"]
            if not follow and not page["has_more"]:
                return

    # What these are made of

    def _create(
        self, path: str, query: Mapping[str, Any], body: Mapping[str, Any], idempotency_key: Optional[str]
    ) -> Run:
        # The service keeps a key for two days, far longer than the patience with a lost answer.
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        given = {name: value for name, value in body.items() if value is not None}
        return Run(self._object(self._ask("POST", path, query=query, body=given, headers=headers)))

    def _read(self, run: AnyRun, query: Mapping[str, Any], deadline: Optional[float] = None) -> Run:
        path = f"/runs/{_id(run)}"
        whole = {"include_events": "false", **query}
        return Run(self._object(self._ask("GET", path, query=whole, deadline=deadline)))

    def _checked(self, run: Run, deadline: Optional[float] = None) -> Run:
        if run.state == "FAILED":
            raise RunFailed(run, self._last_lines(run, deadline))
        if run.state == "CANCELLED":
            raise RunCancelled(run)
        return run

    def _last_lines(self, run: Run, deadline: Optional[float]) -> List[str]:
        """The last lines of the log, for which the worker gets a moment after it has reported the end.

        After the deadline it does without an answer of the service: how the run has ended matters more.
        """
        query = {"attempt": run.attempt, "tail": LAST_LINES}
        found: List[str] = []
        for pause in (0.1, 0.4, 1.0, 2.0, 0.0):
            try:
                answer = self._ask("GET", f"/runs/{run.id}/logs", query=query, deadline=deadline)
            except TimeoutError:
                break
            found = _last_texts(self._lines(answer, run.attempt))
            if answer.headers.get("x-log-complete") == "true" or "worker_id" not in run.summary:
                break
            time.sleep(pause)
        return found

    def _log(self, run: AnyRun, attempt: int, follow: bool) -> Iterator[LogLine]:
        after: Optional[str] = None
        over_since: Optional[float] = None
        whole = _Pieces()
        while True:
            hold = 0 if not follow else WAIT_S if over_since is None and whole.line is None else PIECE_S
            query = {"after": after, "wait": hold or None, **({"attempt": attempt} if after is None else {})}
            answer = self._ask("GET", f"/runs/{_id(run)}/logs", query=query)
            lines = self._lines(answer, attempt)
            for piece in lines:
                for line in whole.add(piece):
                    yield replace(line, text=line.text.strip("\r"))
            after = answer.headers.get("x-log-next-cursor") or after
            has_more = answer.headers.get("x-log-has-more") == "true"
            is_over = answer.headers.get("x-log-complete") == "true" or not (follow or has_more)
            was_open = whole.line is not None
            if is_over or not (lines or has_more):
                for line in whole.end():
                    yield replace(line, text=line.text.strip("\r"))
            if is_over:
                return
            if lines or has_more or was_open or not follow:
                continue
            found = self.get(run)
            if not found.has_ended and found.attempt == attempt:
                continue
            over_since = over_since or time.monotonic()
            was_held = found.attempt > attempt or "worker_id" in found.summary
            if not was_held or time.monotonic() - over_since > LOG_GRACE_S:
                return

    def _lines(self, answer: _Answer, attempt: int) -> List[LogLine]:
        found: List[JsonObject] = [json.loads(text) for text in answer.body.split(b"\n") if text]
        return [
            LogLine(attempt, line["line"], line["text"], line["stream"], line["t"], line.get("continued", False))
            for line in found
            if "gap" not in line
        ]

    def _attempt_end(self, run: AnyRun, attempt: int) -> Run:
        """The run when the attempt is its last and has ended, or a further one has begun."""
        etag: Optional[str] = None
        while True:
            hold = {} if etag is None else {"wait": WAIT_S, "until": "changed"}
            headers = {} if etag is None else {"If-None-Match": etag}
            query = {"include_events": "false", **hold}
            answer = self._ask("GET", f"/runs/{_id(run)}", query=query, headers=headers)
            etag = answer.headers.get("etag")
            if answer.status != 304:
                found = Run(self._object(answer))
                if found.has_ended or found.attempt > attempt:
                    return found

    def _map(
        self, create: Callable[[Mapping[str, Any]], Run], inputs: Iterable[Mapping[str, Any]], at_most: int, check: bool
    ) -> Iterator[Run]:
        if at_most < 1:
            raise ValueError("at_most must be at least 1")
        work = _Work(inputs)

        def carry_out() -> None:
            try:
                for index, each in work:
                    run = create(each)
                    while not run.has_ended:
                        if work.is_over:
                            return
                        run = self._read(run, {"wait": WAIT_S, "until": "ended"})
                    work.settle(index, self._checked(run) if check else run)
            except BaseException as error:  # It is raised where the results are read.
                work.fail(error)

        def results() -> Iterator[Run]:
            threads = [threading.Thread(target=carry_out, daemon=True) for _ in range(at_most)]
            try:
                for thread in threads:
                    thread.start()
                yield from work.results()
            finally:
                work.stop()

        return results()

    def _object(self, answer: _Answer) -> JsonObject:
        fraction = Decimal if self._decimals else float
        found = json.loads(answer.body, parse_float=fraction)
        return dict(found)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        deadline: Optional[float] = None,
    ) -> _Answer:
        """Sends a request until the service has answered it. It must be one that may be sent again.

        deadline: time of the monotonic clock at which to raise TimeoutError, unless the patience ends before. It is sent
            once in any case, and an answer may come a moment later.
        """
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        target = self._place.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(given)}" if given else "")
        data = None if body is None else to_json(body).encode()
        sent = {"X-API-Key": self._key, "User-Agent": f"longshore-python/{__version__}", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = "application/json"
        limit = ANSWER_S + int(given.get("wait", 0)) + len(data or b"") / 65536
        began = time.monotonic()
        pause = 0.1
        while True:
            asked, reason = 0.0, ""
            left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                answer = self._send(method, target, data, sent, min(limit, left + LATE_S))
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise Unreachable(f"cannot trust the service at {self.url}: {error}") from error
                reason = str(error) or type(error).__name__
            else:
                self._was_reached = self._was_reached or _is_ours(answer)
                if answer.status == 304 or (answer.status in (200, 201) and _is_ours(answer)):
                    return answer
                refusal = _refusal_of(answer)
                if not _may_succeed_later(answer):
                    raise refusal
                reason, asked = str(refusal), _seconds(answer.headers.get("retry-after"))
            patience = self._patience if self._was_reached else min(self._patience, FIRST_PATIENCE_S)
            wait = max(asked, pause * random.uniform(0.5, 1.0))
            now = time.monotonic()
            if deadline is not None and deadline <= min(now + wait, began + patience):
                time.sleep(max(0.0, deadline - now))
                raise TimeoutError(f"no answer in time of the service at {self.url}: {reason}")
            if now + wait - began > patience:
                raise Unreachable(f"cannot reach the service at {self.url}: {reason}")
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _send(
        self, method: str, target: str, data: Optional[bytes], headers: Mapping[str, str], limit: float
    ) -> _Answer:
        host, port = self._place.hostname or "", self._place.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=limit)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=limit, context=self._tls)
        )
        try:
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return _Answer(response.status, fields, response.read())
        finally:
            connection.close()


class _Work:
    """Inputs that several threads carry out, and their results in the order of the inputs."""

    def __init__(self, inputs: Iterable[Mapping[str, Any]]) -> None:
        self._inputs = enumerate(inputs)
        self._reading = threading.Lock()
        """Of who reads an input. That may wait for a result, so the condition must not be held meanwhile."""
        self._changed = threading.Condition()
        self._results: Dict[int, Run] = {}
        self._begun = 0
        self._has_all = False
        self._failure: Optional[BaseException] = None
        self.is_over = False
        """Whether nothing more is to be done: it has failed, or nobody reads the results."""

    def __iter__(self) -> Iterator[Tuple[int, Mapping[str, Any]]]:
        while True:
            with self._reading:
                if self.is_over or self._has_all:
                    return
                try:
                    index, each = next(self._inputs)
                except StopIteration:
                    with self._changed:
                        self._has_all = True
                        self._changed.notify_all()
                    return
                except BaseException as error:
                    # Before another thread finds a generator that has raised at its end.
                    self.fail(error)
                    return
                with self._changed:
                    if self.is_over:
                        return
                    self._begun = index + 1
            yield index, each

    def settle(self, index: int, run: Run) -> None:
        with self._changed:
            self._results[index] = run
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self.is_over = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.is_over = True

    def results(self) -> Iterator[Run]:
        index = 0
        while True:
            with self._changed:
                while index not in self._results and self._failure is None:
                    if self._has_all and index >= self._begun:
                        return
                    self._changed.wait()
                if index not in self._results and self._failure is not None:
                    raise self._failure
                run = self._results.pop(index)
            yield run
            index += 1


def to_json(value: Any) -> str:
    """JSON with all digits of integers and Decimals. Raises TypeError or ValueError for what JSON cannot say."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, (float, Decimal)):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
        return float.__repr__(value) if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name of a field must be a str, not {name!r}")
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(to_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _id(run: AnyRun) -> str:
    return _quoted(run.id if isinstance(run, Run) else run)


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _normal_url(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text.strip())
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    is_plain = "@" not in parts.netloc and re.search(r"[\x00-\x20?#\x7f]", text.strip()) is None
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise ConfigurationError(
            "the URL of the service must be http:// or https:// without user name, query and fragment"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default = port is None or port == (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}{'' if is_default else f':{port}'}{parts.path}".rstrip("/")


# What is kept and shown of a line: `packages/common/src/shown-text.ts` has the same rule, and the same cases test both.

_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\\Z)"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b(?:[ -/]+[0-~]|[0-~])?"
)
_OTHER_ROW = re.compile("(\x1b(?:\\[[0-9;]*[ABEFHdf]|[DEM]))")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _last_state(text: str, is_begun: bool = False) -> str:
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


def _shown_line(text: str) -> str:
    """A line as a terminal would show it: its last state without escape sequences and control characters."""
    if _CONTROLS.search(text) is None:
        return text
    rows = (_shown_row(row) for row in _OTHER_ROW.split(_last_state(text))[::2])
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


class _Pieces:
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
            self.line = replace(line, text=_last_state(line.text + piece.text, line.continued))
            self._count += 1
        else:
            yield from self.end()
            self.line = replace(piece, text=_last_state(piece.text, piece.continued))
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


def _last_texts(pieces: Iterable[LogLine]) -> List[str]:
    """The last lines as a terminal shows them, without pieces over which later ones of their line have written."""
    whole = _Pieces()
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
        text = _shown_line(line.text)
        texts.append(text[-room:])
        room -= len(text)
        if room <= 0:
            break
    return texts[::-1]


def _saved_login() -> Optional[Tuple[str, str]]:
    """URL and key that `longshore login` has saved; None: there are none. Raises ConfigurationError."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of the variable has relative paths ignored.
    folder = Path(base) if os.path.isabs(base) else Path(os.environ.get("HOME") or Path.home()) / ".config"
    path = folder / "longshore" / "config.json"
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if os.name != "nt" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{path} holds a key and others can read it: chmod 600 it, or log in again")
    try:
        saved = json.loads(text)
        url, key = saved["url"], saved["api_key"]
    except (ValueError, TypeError, KeyError):
        url, key = None, None
    if not isinstance(url, str) or not isinstance(key, str):
        raise ConfigurationError(f"{path} cannot be read: log in again")
    return url, key


def _is_ours(answer: _Answer) -> bool:
    """Whether an answer has a form of the service: a proxy may answer 200 with a page of its own."""
    media_type = answer.headers.get("content-type", "").split(";")[0].strip().lower()
    return media_type in ("application/json", "application/x-ndjson")


def _may_succeed_later(answer: _Answer) -> bool:
    if answer.status in (200, 201, 408, 425, 429):
        return True
    if answer.status == 503 and "retry-after" not in answer.headers:
        # The service's own 503 without it is about a feature that is not configured.
        return not _is_ours(answer)
    return answer.status >= 500


def _refusal_of(answer: _Answer) -> Refused:
    if 300 <= answer.status < 400:
        return Refused(answer.status, "the answer is a redirect, which is not followed: correct the URL of the service")
    try:
        body = json.loads(answer.body)
        return Refused(answer.status, str(body["detail"]), [str(error) for error in body.get("errors", [])])
    except (ValueError, TypeError, KeyError, AttributeError):
        return Refused(answer.status, "not an answer of a Longshore service")


def _seconds(text: Optional[str]) -> float:
    seconds = int(text) if text is not None and re.fullmatch("[0-9]{1,4}", text) else 0
    return float(seconds) if seconds < 3600 else 0.0
