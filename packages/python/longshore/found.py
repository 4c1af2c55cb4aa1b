"""Runs that filters match: listed, or changed all together."""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Iterator, Mapping, Optional

from .run import JsonObject, Run, quoted
from .runs import Runs

FILTERS = frozenset(
    ("state", "op_definition", "image", "topic", "selector", "concurrency_key", "label", "name", "name_prefix", "cause")
    + ("exit_code", "worker_id", "created_by", "rerun_of", "schedule", "group")
)
TIMES = {
    "created_since": "created[gte]",
    "created_until": "created[lte]",
    "ended_since": "ended[gte]",
    "ended_until": "ended[lte]",
}
PAGE = 100
POLL_S = 0.5


class Found(Runs):
    """Calls about all runs that filters match."""

    def list(self, **filters: Any) -> Iterator[Run]:
        """Yields the runs that match all filters, newest first, without their events; pages are read as they are needed.

        filters: `state`, `op_definition`, `image`, `topic`, `selector`, `concurrency_key`, `label`, `name`, `name_prefix`,
            `cause`, `exit_code`, `worker_id`, `created_by` (`"me"`: this API key), `rerun_of`, `schedule`, `group` as in `GET /runs`;
            `created_since`, `created_until`, `ended_since` and `ended_until`, each a datetime with a time zone or a timedelta
            before now.
            `label` is a dict, `"key=value"`, `"key"`, or a list of these.
        """
        return self._list(_filter_of(filters))

    def bulk(
        self,
        action: str,
        value: Any = None,
        *,
        dry_run: bool = False,
        expect: Optional[int] = None,
        reason: Optional[str] = None,
        all: bool = False,
        wait: bool = True,
        **filters: Any,
    ) -> JsonObject:
        """Does `cancel`, `retry`, `labels` or `priority` with all runs that match the filters, which are those of `list`.

        value: the labels to set, None as a label's value removes it; or the priority.
        dry_run: change nothing; the answer says what matches.
        expect: so many runs match, else Refused, and nothing is changed.
        all: needed without a filter.
        wait: for the end; the answer says how many were changed, and which were refused and why. Else it has the `id`.
        """
        empty = sorted(name for name, each in filters.items() if each is None or each in ("", (), [], {}))
        if empty:
            raise ValueError(f"the filter {empty[0]} is empty and would match more runs than meant")
        body: JsonObject = {"action": action, "filter": _filter_of(filters)}
        said = {"value": value, "dry_run": dry_run or None, "expect": expect, "reason": reason, "all": all or None}
        body.update((name, each) for name, each in said.items() if each is not None)
        answer = self._object("POST", "/bulk-operations", body=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        if dry_run:
            return {**answer, "runs": [self._run(each) for each in answer["runs"]]}
        operation = {**answer, "state": "running"}
        while wait and operation["state"] == "running":
            if "done" in operation:
                time.sleep(POLL_S)
            operation = self._object("GET", f"/bulk-operations/{quoted(answer['id'])}")
        return operation if wait else answer

    def _list(self, given: Mapping[str, Any]) -> Iterator[Run]:
        query = {**given, "limit": PAGE, "include_events": "false"}
        while True:
            page = self._object("GET", "/runs", query=query)
            for each in page["data"]:
                yield self._run(each)
            if not page["has_more"] or not page["data"]:
                return
            query["starting_after"] = page["data"][-1]["id"]


def _filter_of(given: Mapping[str, Any]) -> JsonObject:
    """The filter as the API takes it. Raises TypeError for an unknown name: it must not match more than was meant."""
    unknown = sorted(given.keys() - FILTERS - TIMES.keys())
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no filter: there are {', '.join(sorted(FILTERS | TIMES.keys()))}")
    found = {TIMES.get(name, name): value for name, value in given.items() if value is not None}
    for name in found.keys() & set(TIMES.values()):
        found[name] = _seconds_of(found[name])
    label = found.get("label")
    if isinstance(label, Mapping):
        found["label"] = [key if text is None else f"{key}={text}" for key, text in label.items()]
    elif isinstance(label, str):
        found["label"] = [label]
    if isinstance(found.get("selector"), (list, tuple)):
        found["selector"] = ",".join(found["selector"])
    return found


def _seconds_of(t: Any) -> int:
    if isinstance(t, timedelta):
        t = datetime.now(timezone.utc) - t
    if not isinstance(t, datetime) or t.tzinfo is None:
        raise TypeError("a time must be a datetime with a time zone, or a timedelta before now")
    return int(t.timestamp())
