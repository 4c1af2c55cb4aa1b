"""Runs: made, cancelled, waited for."""

from __future__ import annotations

import math
import time
import uuid
from typing import Any, Mapping, Optional

from .connection import WAIT_S
from .errors import Refused, RunCancelled, RunFailed
from .reads import Reads
from .run import AnyRun, Run, id_of, quoted


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

        options: fields of the request, such as `args=["--fast"]`, `env={"LEVEL": "2"}`, `constraints={"ram_mb": 512}`.
        """
        return self._create("/runs", {}, {"image": image, "inputs": inputs, **options}, idempotency_key)

    def cancel(self, run: AnyRun, reason: Optional[str] = None) -> Run:
        """Cancels a run that has not ended; of one that has, nothing changes. Returns the run as it is then."""
        body = {} if reason is None else {"reason": reason}
        try:
            return Run(self.object_of(self._ask("POST", f"/runs/{id_of(run)}/cancel", body=body)))
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

    def _create(
        self, path: str, query: Mapping[str, Any], body: Mapping[str, Any], idempotency_key: Optional[str]
    ) -> Run:
        # The service keeps a key for two days, far longer than the patience with a lost answer.
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        given = {name: value for name, value in body.items() if value is not None}
        return Run(self.object_of(self._ask("POST", path, query=query, body=given, headers=headers)))

    def _checked(self, run: Run, deadline: Optional[float] = None) -> Run:
        if run.state == "FAILED":
            raise RunFailed(run, self._last_lines(run, deadline))
        if run.state == "CANCELLED":
            raise RunCancelled(run)
        return run
