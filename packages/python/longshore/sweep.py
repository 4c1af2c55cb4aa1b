"""Many runs at a time."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple

from .connection import WAIT_S
from .run import Run
from .runs import Runs


class Sweeps(Runs):
    """Calls that make a run for each of many inputs."""

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

    def _map(
        self, create: Callable[[Mapping[str, Any]], Run], inputs: Iterable[Mapping[str, Any]], at_most: int, check: bool
    ) -> Iterator[Run]:
        if at_most < 1:
            raise ValueError("at_most must be at least 1")
        work = Work(inputs)

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


class Work:
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
