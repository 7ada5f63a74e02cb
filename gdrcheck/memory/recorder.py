"""Turning errors of both drivers into refusals, and undoing everything on the way out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gdrcheck.gpu.errors import CudaError
from gdrcheck.outcome import ProbeError
from gdrcheck.registration import RangeKind, Refusal, Stage
from gdrcheck.verbs.errors import VerbsError

T = TypeVar("T")


class Stopped(Exception):
    """A step was refused; what, is with the recorder. Ends the attempt, whose resources close."""


@dataclass
class Held(Generic[T]):
    """A resource with the time that it took to make it and, once closed, to undo it."""

    resource: T
    opened_us: float
    closed_us: float = 0


class Recorder:
    """Keeps what was refused, in order; the first is the cause, the others came while closing.

    ``failure`` is the error behind the first when it is one of verbs.
    """

    def __init__(self) -> None:
        self._refusals: list[Refusal] = []
        self._aside = ""
        self.failure: VerbsError | None = None

    @property
    def refusal(self) -> Refusal | None:
        """The first refusal, with the text of those that followed; None when there was none."""
        if not self._refusals:
            return None
        first, *later = self._refusals
        text = "; while undoing it: ".join([first.text, *(refusal.text for refusal in later)])
        return replace(first, text=f"{text}; before: {self._aside}" if self._aside else text)

    def refuse(self, refusal: Refusal) -> Stopped:
        """Note what no error told; raise what this returns."""
        self._refusals.append(refusal)
        return Stopped(refusal.text)

    def set_aside(self) -> str:
        """Take back what was refused so far, since something else is tried in its place.

        Returns its text, which goes with what is refused later.
        """
        self._aside = self.refusal.text if self.refusal else ""
        self._refusals.clear()
        self.failure = None
        return self._aside

    @contextmanager
    def stage(
        self, stage: Stage, kind: RangeKind | None = None, length_bytes: int = 0
    ) -> Iterator[None]:
        """Note what the drivers refuse in the block, as refused at ``stage``; Stopped then."""
        try:
            yield
        except CudaError as error:
            refused = Refusal(
                stage, _text(error), cuda=error.name, range=kind, length_bytes=length_bytes
            )
            raise self.refuse(refused) from error
        except VerbsError as error:
            if not self._refusals:
                self.failure = error
            refused = Refusal(
                stage,
                _text(error),
                errno=error.error_number,
                range=kind,
                length_bytes=length_bytes,
            )
            raise self.refuse(refused) from error

    @contextmanager
    def held(
        self,
        resource: AbstractContextManager[T],
        opening: Stage,
        closing: Stage,
        kind: RangeKind | None = None,
        length_bytes: int = 0,
    ) -> Iterator[Held[T]]:
        """The opened resource, closed at the end of the block; each refusal with its stage."""
        with contextlib.ExitStack() as stack:
            with self.stage(opening, kind, length_bytes):
                begun = time.perf_counter_ns()
                opened = stack.enter_context(resource)
                held = Held(opened, (time.perf_counter_ns() - begun) / 1000)
            undo = stack.pop_all()

        def close() -> None:
            with self.stage(closing, kind, length_bytes):
                begun = time.perf_counter_ns()
                undo.close()
                held.closed_us = (time.perf_counter_ns() - begun) / 1000

        try:
            yield held
        except BaseException:
            # What ended the block matters more, whatever it was.
            with contextlib.suppress(Stopped):
                close()
            raise
        close()


def _text(error: ProbeError) -> str:
    # The GPU layer notes what else failed on the way.
    return "; ".join([str(error), *getattr(error, "__notes__", ())])
