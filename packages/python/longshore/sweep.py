"""Many inputs, a run for each."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from .connection import ANSWER_S
from .progress import Figures, ProgressLine
from .run import Run

Inputs = Mapping[str, Any]


class Sweep(Iterator[Run]):
    """The ended runs of many inputs, one after the other; `with` around it has Ctrl-C within the loop's body count as well."""

    def __init__(
        self,
        work: Work,
        carry_out: Callable[[], None],
        cancel: Callable[[List[str], str], int],
        *,
        at_most: int,
        in_order: bool,
        line: Optional[ProgressLine],
        cancel_on_interrupt: bool,
    ) -> None:
        self._work = work
        self._cancel = cancel
        self._cancels_on_interrupt = cancel_on_interrupt
        self._results = _results(work, carry_out, at_most, in_order, line)

    def __next__(self) -> Run:
        try:
            return next(self._results)
        except KeyboardInterrupt as interrupt:
            self._interrupted(interrupt)
            raise

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, _type: object, error: Optional[BaseException], _trace: object) -> None:
        if isinstance(error, KeyboardInterrupt) and not self._work.is_over:
            self._interrupted(error)
        self.close()

    def close(self) -> None:
        """Creates no further run. Those that were created go on."""
        self._work.stop()

    def cancel(self, reason: str = "cancelled from Python") -> int:
        """Creates no further run, and cancels those that have not ended. Returns how many it has cancelled."""
        self.close()
        return self._cancel(self._work.left(), reason)

    def _interrupted(self, interrupt: KeyboardInterrupt) -> None:
        if self._cancels_on_interrupt:
            text = f"{self.cancel('interrupted')} runs were cancelled"
        else:
            self.close()
            text = f"{len(self._work.left())} runs go on; with cancel_on_interrupt=True they would be cancelled"
        interrupt.args = interrupt.args or (text,)


def _results(
    work: Work, carry_out: Callable[[], None], at_most: int, in_order: bool, line: Optional[ProgressLine]
) -> Iterator[Run]:
    # It knows nothing of the sweep, so that one that nobody reads any more ends the work.
    threads = [threading.Thread(target=carry_out, daemon=True) for _ in range(at_most)]
    try:
        for thread in threads:
            thread.start()
        yield from work.results(in_order, line)
    finally:
        work.stop()
        if line is not None:
            line.end(work.figures())


class Work:
    """Inputs that several threads carry out, and their results in the order of the inputs."""

    def __init__(self, inputs: Iterable[Inputs]) -> None:
        self._inputs = enumerate(inputs)
        self._reading = threading.Lock()
        """Of who reads an input. That may wait for a result, so the condition must not be held meanwhile."""
        self._changed = threading.Condition()
        self._results: Dict[int, Run] = {}
        self._open: Dict[int, Optional[Run]] = {}
        """Runs that have not ended; None: it is being created."""
        self._begun = 0
        self._ended = 0
        self._failed = 0
        self._has_all = False
        self._failure: Optional[BaseException] = None
        self.is_over = False
        """Whether nothing more is to be done: it has failed, or nobody reads the results."""

    def __iter__(self) -> Iterator[Tuple[int, Inputs]]:
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
                    self._open[index] = None
            yield index, each

    def created(self, index: int, run: Run) -> None:
        with self._changed:
            self._open[index] = run
            self._changed.notify_all()

    def ended(self, index: int, run: Run) -> None:
        with self._changed:
            self._open.pop(index, None)
            self._ended += 1
            self._failed += run.state != "COMPLETED"
            self._changed.notify_all()

    def settle(self, index: int, run: Run) -> None:
        with self._changed:
            self._results[index] = run
            self._changed.notify_all()

    def not_created(self, index: int) -> None:
        with self._changed:
            self._open.pop(index, None)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self.is_over = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def left(self) -> List[str]:
        """Ids of the runs that have not ended, when the work is over: also of those that are being created now."""
        with self._changed:
            self._changed.wait_for(lambda: None not in self._open.values(), ANSWER_S)
            return [run.id for run in self._open.values() if run is not None]

    def figures(self) -> Figures:
        with self._changed:
            return Figures(self._ended, self._failed, len(self._open))

    def results(self, in_order: bool, line: Optional[ProgressLine]) -> Iterator[Run]:
        shown: Optional[Figures] = None
        next_index = 0
        while True:
            with self._changed:
                index = next_index if in_order else next(iter(self._results), next_index)
                run = self._results.pop(index, None)
                if run is None and self._failure is not None:
                    raise self._failure
                if run is None and (self.is_over or (self._has_all and next_index >= self._begun)):
                    return
                figures = Figures(self._ended, self._failed, len(self._open))
                if run is None and (line is None or figures == shown):
                    self._changed.wait()
                    continue
            if run is not None:
                next_index += 1
                if line is not None:
                    line.clear()
                    shown = None
                yield run
            elif line is not None:
                line.draw(figures)
                shown = figures
