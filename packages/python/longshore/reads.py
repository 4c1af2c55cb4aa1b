"""What is read of runs: their state, logs and feeds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, Optional

from .connection import WAIT_S, Answer
from .files import Files
from .json_text import from_json
from .lines import LAST_LINES, LogLine, Pieces, last_texts
from .run import AnyRun, JsonObject, Run, id_of

LOG_GRACE_S = 10
"""Time to wait for the end of a log after its attempt: a stale worker never sends it."""
SOONEST_UNCHANGED_S = 2.0
"""A poll that a proxy answers sooner, although nothing has changed, is followed by a pause."""
PIECE_S = 2
"""How long the end of a line is waited for: the pieces of one that is not finished come each second or so."""


class Reads(Files):
    """What is read of runs."""

    def get(self, run: AnyRun) -> Run:
        """The run as it is now, without its events."""
        return self._read(run, {})

    def explain(self, run: AnyRun) -> JsonObject:
        """Why a run is in its state: what it waits for, which workers could take it. `summary` says it in a sentence."""
        return self._object("GET", f"/runs/{id_of(run)}/explain")

    def events(self, run: AnyRun, *, after: int = -1, follow: bool = False) -> Iterator[JsonObject]:
        """Yields the events of a run, oldest first.

        after: the `id` of the last event that was handled.
        follow: wait for new events until the run has ended.
        """
        path = f"/runs/{id_of(run)}/events"
        while True:
            has_ended = not follow or self.get(run).has_ended
            page = self._object("GET", path, query={"after": after, "wait": None if has_ended else WAIT_S})
            for event in page["events"]:
                yield event
                after = event["id"]
            if has_ended:
                return

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
            query: Dict[str, Any] = {"topic": topic, "after": after, "wait": WAIT_S if follow else None, "limit": 500}
            page = self._object("GET", "/feed", query=query)
            for event in page["events"]:
                yield event
                after = event["cursor"]
            if not follow and not page["has_more"]:
                return

    def _read(self, run: AnyRun, query: Mapping[str, Any], deadline: Optional[float] = None) -> Run:
        path = f"/runs/{id_of(run)}"
        whole = {"include_events": "false", **query}
        return self._run(self._read_json(self._ask("GET", path, query=whole, deadline=deadline)))

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
            found = last_texts(self._lines(answer, run.attempt))
            if answer.headers.get("x-log-complete") == "true" or "worker_id" not in run.summary:
                break
            time.sleep(pause)
        return found

    def _log(self, run: AnyRun, attempt: int, follow: bool) -> Iterator[LogLine]:
        after: Optional[str] = None
        over_since: Optional[float] = None
        whole = Pieces()
        while True:
            hold = 0 if not follow else WAIT_S if over_since is None and whole.line is None else PIECE_S
            query = {"after": after, "wait": hold or None, **({"attempt": attempt} if after is None else {})}
            answer = self._ask("GET", f"/runs/{id_of(run)}/logs", query=query)
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

    def _lines(self, answer: Answer, attempt: int) -> List[LogLine]:
        found: List[JsonObject] = [from_json(text) for text in answer.body.split(b"\n") if text]
        return [
            LogLine(attempt, line["line"], line["text"], line["stream"], line["t"], line.get("continued", False))
            for line in found
            if "gap" not in line
        ]

    def _attempt_end(self, run: AnyRun, attempt: int) -> Run:
        """The run when the attempt is its last and has ended, or a further one has begun."""
        hold: Dict[str, Any] = {}
        headers: Dict[str, str] = {}
        before: Optional[bytes] = None
        while True:
            asked = time.monotonic()
            query = {"include_events": "false", **hold}
            answer = self._ask("GET", f"/runs/{id_of(run)}", query=query, headers=headers)
            # Proxies may remove the tag.
            etag = answer.headers.get("etag")
            headers = {} if etag is None else {"If-None-Match": etag}
            hold = {"wait": WAIT_S, "until": "changed"}
            if answer.status != 304 and answer.body != before:
                before = answer.body
                found = self._run(self._read_json(answer))
                if found.has_ended or found.attempt > attempt:
                    return found
            else:
                time.sleep(max(0.0, SOONEST_UNCHANGED_S - (time.monotonic() - asked)))
