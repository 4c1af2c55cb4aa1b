"""Runs: made, cancelled, waited for."""

from __future__ import annotations

import time
import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .connection import hold_s
from .errors import Refused, RunCancelled, RunFailed
from .reads import Reads
from .run import AnyRun, JsonObject, Run, id_of, quoted


class Runs(Reads):
    """Calls that make, change and wait for runs."""

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

        inputs: a Path as the value of an input is a local file or folder, which is sent; the worker gets a URL in its place.
        options: fields of the request, such as `priority=5`.
        idempotency_key: the same key never creates a second run; without one, each call has its own.
        """
        path = f"/definitions/{quoted(definition)}/runs"
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

        options: fields of the request, such as `args=["--fast"]`, `env={"LEVEL": "2"}`, `constraints={"ram_mb": 512}`. A value
            of `files` may be the content as a str or as bytes, or the Path of a local file, whose content and executability
            the container's file gets. `in_files` has, by the path in the container, the Path of a local file or folder, which is
            sent, or what the API takes as a source; `out_files` has what is kept: by its name the path or what the API takes.
        """
        return self._create("/runs", {}, {"image": image, "inputs": inputs, **options}, idempotency_key)

    def cancel(self, run: AnyRun, reason: Optional[str] = None) -> Run:
        """Cancels a run that has not ended; of one that has, nothing changes. Returns the run as it is then."""
        body = {} if reason is None else {"reason": reason}
        try:
            return self._run(self._object("POST", f"/runs/{id_of(run)}/cancel", body=body))
        except Refused:
            found = self.get(run)
            if not found.has_ended:
                raise
            return found

    def retry(self, run: AnyRun) -> Run:
        """Opens another attempt of a run, whatever state it is in, once even if the answer is lost."""
        for result in self._change_each("retry", [run.id if isinstance(run, Run) else run]):
            if "error" in result:
                error = result["error"]
                raise Refused(int(result["status"]), str(error["detail"]), error.get("errors", []))
        return self.get(run)

    def label(self, run: AnyRun, labels: Optional[Mapping[str, Optional[str]]] = None, *, name: Optional[str] = None) -> Run:
        """Sets labels of a run, and its name. None as the value of a label removes it, and an empty name that of the run."""
        body: Dict[str, Any] = {"labels": dict(labels or {})}
        if name is not None:
            body["name"] = name or None
        return self._run(self._object("PATCH", f"/runs/{id_of(run)}/labels", body=body))

    def rerun(
        self,
        run: AnyRun,
        *,
        definition_version: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        **changes: Any,
    ) -> Run:
        """Creates a run like another that has ended, from what was asked for then.

        definition_version: `"latest"` or a version of its definition; unless given, the one that the run is of.
        changes: fields of the request that replace those of the run's, such as `inputs={"text": "b"}`, each as a whole; None is
            as if the request had not given it; labels are merged. Name and `start_at` are not taken over.
        """
        body = {"definition_version": definition_version, "changes": self._fields(changes)}
        return self._create(f"/runs/{id_of(run)}/rerun", {}, body, idempotency_key)

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
            found = self._read(run, {"wait": hold_s(deadline), "until": until}, deadline)
            if found.has_ended or (until == "started" and found.state == "RUNNING"):
                return self._checked(found, deadline) if check else found
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {found.id} is {found.state} after {timeout} s")

    def _change_each(self, change: str, ids: Sequence[str], **fields: Any) -> List[JsonObject]:
        """`cancel` or `retry` of up to 100 runs, each once even if the answer is lost. Returns a result for each of the ids."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = self._object("POST", f"/runs/batch/{change}", body={"ids": ids, **fields}, headers=headers)
        return [dict(result) for result in answer["results"]]

    def _create(
        self, path: str, query: Mapping[str, Any], body: Mapping[str, Any], idempotency_key: Optional[str]
    ) -> Run:
        # The service keeps a key for two days, far longer than the patience with a lost answer.
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        given = self._fields({name: value for name, value in body.items() if value is not None})
        return self._run(self._object("POST", path, query=query, body=given, headers=headers))

    def _checked(self, run: Run, deadline: Optional[float] = None) -> Run:
        if run.state == "FAILED":
            raise RunFailed(run, self._last_lines(run, deadline))
        if run.state == "CANCELLED":
            raise RunCancelled(run)
        return run
