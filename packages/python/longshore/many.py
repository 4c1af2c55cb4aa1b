"""Many runs at a time."""

from __future__ import annotations

import concurrent.futures
import os
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from .connection import WAIT_S
from .futures import RunFuture, Watch
from .progress import Figures, ProgressLine
from .run import AnyRun, JsonObject, Run
from .runs import Runs
from .sweep import Inputs, Sweep, Work

MOST_IDS = 100
"""Of a batch."""


class Many(Runs):
    """Calls about many runs at a time."""

    def map(
        self,
        definition: str,
        inputs: Iterable[Inputs],
        *,
        at_most: int = 10,
        check: bool = True,
        in_order: bool = True,
        cancel_on_interrupt: bool = False,
        progress: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        version: Optional[str] = None,
        **options: Any,
    ) -> Sweep:
        """Runs a definition once for each of the inputs, and yields the ended runs.

        at_most: so many runs that have not ended at a time; the inputs are read as they are needed, by other threads, one at
            a time. Reading them may wait for earlier results.
        check: raise RunFailed or RunCancelled as soon as a run has ended otherwise than COMPLETED; no further one is created
            then. Runs that were created go on.
        in_order: yield them in the order of the inputs, else as they end.
        cancel_on_interrupt: at Ctrl-C cancel the runs that have not ended, else they go on. Within the body of a loop it needs
            `with` around the sweep.
        progress: a line about it on standard error; None: only if that is a terminal.
        idempotency_key: that of the nth run, from 0, is `KEY/n`: the same call again makes no second run and goes on where it
            was, for two days.
        name: of the runs, with `{index}` and values of their inputs, such as `"trial-{index}-{inputs[rate]}"`.
        """

        given = self._fields(options)

        def create(each: Inputs, own: JsonObject) -> Run:
            return self.run(definition, each, version=version, **given, **own)

        named = (name, idempotency_key)
        return self._map(create, inputs, named, at_most, check, in_order, cancel_on_interrupt, progress)

    def map_image(
        self,
        image: str,
        inputs: Iterable[Inputs],
        *,
        at_most: int = 10,
        check: bool = True,
        in_order: bool = True,
        cancel_on_interrupt: bool = False,
        progress: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        **options: Any,
    ) -> Sweep:
        """As `map`, with runs of a container image."""

        given = self._fields(options)

        def create(each: Inputs, own: JsonObject) -> Run:
            return self.run_image(image, each, **given, **own)

        named = (name, idempotency_key)
        return self._map(create, inputs, named, at_most, check, in_order, cancel_on_interrupt, progress)

    def submit(
        self, definition: str, inputs: Optional[Inputs] = None, *, check: bool = True, **options: Any
    ) -> RunFuture:
        """Creates a run as `run` does, and returns a `concurrent.futures.Future` of its end; `run` of it is the created run.

        check: the future raises RunFailed or RunCancelled unless the run is COMPLETED.
        """
        return self.watch(self.run(definition, inputs, **options), check=check)

    def submit_image(
        self, image: str, inputs: Optional[Inputs] = None, *, check: bool = True, **options: Any
    ) -> RunFuture:
        """As `submit`, with a run of a container image."""
        return self.watch(self.run_image(image, inputs, **options), check=check)

    def watch(self, run: AnyRun, *, check: bool = True) -> RunFuture:
        """A future of the end of a run that was created before. A few threads wait for all of them."""
        future = RunFuture(run if isinstance(run, Run) else self.get(run))

        def look(wait: int) -> bool:
            try:
                found = self._read(future.run, {"wait": wait, "until": "ended"})
                if found.has_ended:
                    future.set_result(self._checked(found) if check else found)
                return found.has_ended
            except BaseException as error:  # It is raised where the result is read.
                future.set_exception(error)
                return True

        pid, watch = self._watch or (0, None)
        if watch is None or pid != os.getpid():
            # A fork has no threads of its parent.
            watch = Watch()
            self._watch = (os.getpid(), watch)
        watch.add(look)
        return future

    def as_completed(
        self,
        runs: Iterable[Union[AnyRun, RunFuture]],
        *,
        check: bool = True,
        timeout: Optional[float] = None,
        progress: Optional[bool] = None,
    ) -> Iterator[Run]:
        """Yields runs, or the runs of futures, as they end.

        check: raise RunFailed or RunCancelled for one that is not COMPLETED.
        progress: a line about it on standard error; None: only if that is a terminal.
        Raises TimeoutError when some have not ended after so many seconds; they go on.
        """
        futures = [each if isinstance(each, RunFuture) else self.watch(each, check=check) for each in runs]
        line = ProgressLine.wanted(progress, futures)

        figures = Figures(0, 0, len(futures))
        try:
            if line is not None:
                line.draw(figures)
            for future in concurrent.futures.as_completed(futures, timeout):
                failed = future.exception() is not None or future.result().state != "COMPLETED"
                figures = Figures(figures.ended + 1, figures.failed + failed, figures.going - 1)
                if line is not None:
                    line.clear()
                yield future.result()
                if line is not None:
                    line.draw(figures)
        except concurrent.futures.TimeoutError as error:
            raise TimeoutError(str(error)) from None
        finally:
            if line is not None:
                line.end(figures)

    _watch: Optional[Tuple[int, Watch]] = None

    def _map(
        self,
        create: Callable[[Inputs, JsonObject], Run],
        inputs: Iterable[Inputs],
        named: Tuple[Optional[str], Optional[str]],
        at_most: int,
        check: bool,
        in_order: bool,
        cancel_on_interrupt: bool,
        progress: Optional[bool],
    ) -> Sweep:
        if at_most < 1:
            raise ValueError("at_most must be at least 1")
        name, key = named
        work = Work(inputs)

        def made(index: int, each: Inputs) -> Run:
            own: JsonObject = {} if key is None else {"idempotency_key": f"{key}/{index}"}
            try:
                if name is not None:
                    own["name"] = name.format(index=index, inputs=each)
                run = create(each, own)
            except BaseException:
                work.not_created(index)
                raise
            work.created(index, run)
            return run

        def carry_out() -> None:
            try:
                for index, each in work:
                    run = made(index, each)
                    while not run.has_ended:
                        if work.is_over:
                            return
                        run = self._read(run, {"wait": WAIT_S, "until": "ended"})
                    work.ended(index, run)
                    work.settle(index, self._checked(run) if check else run)
            except BaseException as error:  # It is raised where the results are read.
                work.fail(error)

        return Sweep(
            work,
            carry_out,
            self._cancel_all,
            at_most=at_most,
            in_order=in_order,
            line=ProgressLine.wanted(progress, inputs),
            cancel_on_interrupt=cancel_on_interrupt,
        )

    def _cancel_all(self, ids: List[str], reason: str) -> int:
        """Returns how many it has cancelled: others have ended."""
        cancelled = 0
        for first in range(0, len(ids), MOST_IDS):
            results = self._change_each("cancel", ids[first : first + MOST_IDS], reason=reason)
            cancelled += sum(1 for result in results if result["status"] == 204)
        return cancelled
