"""Groups: arrays, and runs that depend on each other."""

from __future__ import annotations

import time
import uuid
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Union

from .catalog import Catalog
from .connection import hold_s
from .errors import GroupFailed, Refused
from .found import PAGE, Found
from .run import Group, JsonObject, Run, quoted
from .sweep import Inputs

AnyGroup = Union[Group, str]


class Groups(Found, Catalog):
    """Calls about groups, which the service carries out without this program."""

    def array(
        self, definition: str, inputs: Union[int, Iterable[Inputs]], *, version: Optional[str] = None, **options: Any
    ) -> Group:
        """Creates an array: a run of a definition for each of the inputs, at most 10,000. It does not wait for its end.

        inputs: or a number of runs, which differ by their variable SERVICE_ARRAY_INDEX.
        options: `max_parallel`, so many that execute at a time; `max_failed`, so many failures end it; `name`, `labels` and
            `depends_on` of the group; `idempotency_key`, as of a run. Others are fields of each run, such as `priority=5`.
        """
        return self._array({"definition": definition, "version": version}, inputs, options)

    def array_image(self, image: str, inputs: Union[int, Iterable[Inputs]], **options: Any) -> Group:
        """As `array`, with runs of a container image."""
        return self._array({"image": image}, inputs, options)

    def pipeline(
        self,
        runs: Mapping[str, Mapping[str, Any]],
        inputs: Optional[Inputs] = None,
        *,
        idempotency_key: Optional[str] = None,
        **fields: Any,
    ) -> Group:
        """Creates runs that depend on each other, all or none. It does not wait for their end.

        runs: by a name within the group, the fields of each request, with `image` or `definition`. Its `depends_on` lists names,
            such as `["prepare"]`, or what the API takes. An input may be the output of such a run:
            `{"$from": {"ref": "prepare", "output": "/rows"}}`.
        inputs: of every run that takes them.
        fields: of the group, such as `name`, `labels`, `max_parallel`, `on_failure="cancel_group"`.
        """
        each = [{"ref": ref, **self._fields(run), **_dependencies(run)} for ref, run in runs.items()]
        return self._create_group({"runs": each, "inputs": inputs, **fields}, idempotency_key)

    def group(self, group: AnyGroup) -> Group:
        """The group as it is now."""
        return self._group(group, {})

    def groups(self, **filters: Any) -> Iterator[Group]:
        """Yields groups, newest first; filters: `state`, `name` and `schedule` as in `GET /groups`."""
        return map(Group, self._pages("/groups", lambda each: str(each["id"]), most=PAGE, **filters))

    def members(self, group: AnyGroup) -> Dict[Any, Run]:
        """The runs of a group by their names within it, or of an array by their indexes."""
        found = {_name_of(run): run for run in self.list(group=_id_of(group))}
        return {name: found[name] for name in sorted(found)}

    def wait_group(self, group: AnyGroup, *, timeout: Optional[float] = None, check: bool = True) -> Group:
        """Waits until a group has ended and returns it.

        check: raise GroupFailed unless it is completed.
        Raises TimeoutError when that takes longer than `timeout` seconds; the group goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._group(group, {"wait": hold_s(deadline)}, deadline)
            if found.has_ended:
                if check and found.state != "completed":
                    raise GroupFailed(found)
                return found
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"group {found.id} is {found.state} after {timeout} s")

    def cancel_group(self, group: AnyGroup, reason: Optional[str] = None) -> Group:
        """Cancels the runs of a group that have not ended; of one that has, nothing changes. Returns the group as it is then."""
        body = {} if reason is None else {"reason": reason}
        try:
            return Group(self._object("POST", f"/groups/{_id_of(group)}/cancel", body=body))
        except Refused:
            found = self.group(group)
            if not found.has_ended:
                raise
            return found

    def retry_group(self, group: AnyGroup, *, all: bool = False) -> Group:
        """Opens another attempt of what failed, with what that had cancelled. What is completed stays, unless `all`."""
        return Group(self._object("POST", f"/groups/{_id_of(group)}/retry", body={"only": "all" if all else "failed"}))

    def _array(self, run: JsonObject, inputs: Union[int, Iterable[Inputs]], options: JsonObject) -> Group:
        key = options.pop("idempotency_key", None)
        of_group = ("max_parallel", "max_failed", "name", "labels", "depends_on")
        fields = {name: options.pop(name) for name in of_group if name in options}
        given = {name: value for name, value in self._fields({**run, **options}).items() if value is not None}
        members: JsonObject = {"size": inputs} if isinstance(inputs, int) else {"inputs": [self._fields({"inputs": each})["inputs"] for each in inputs]}
        return self._create_group({"array": {**members, "run": given}, **fields}, key)

    def _create_group(self, body: JsonObject, key: Optional[str]) -> Group:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        given = {name: value for name, value in body.items() if value is not None}
        return Group(self._object("POST", "/groups", body=given, headers=headers))

    def _group(self, group: AnyGroup, query: JsonObject, deadline: Optional[float] = None) -> Group:
        return Group(self._read_json(self._ask("GET", f"/groups/{_id_of(group)}", query=query, deadline=deadline)))


def _id_of(group: AnyGroup) -> str:
    return quoted(group.id if isinstance(group, Group) else group)


def _name_of(run: Run) -> Any:
    """The index of a run in its array, or its name in its group."""
    return run.data["array"]["index"] if run.data["array"] else run.data["group"]["ref"]


def _dependencies(run: Mapping[str, Any]) -> JsonObject:
    """`depends_on` as the API takes it."""
    conditions = run.get("depends_on")
    return {} if conditions is None else {"depends_on": [{"ref": each} if isinstance(each, str) else each for each in conditions]}
