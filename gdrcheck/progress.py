"""How far a task is on its hosts, in one line, for whoever watches a run. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

# A task that takes less leaves no line, if all went well.
WORTH_S = 2
MAX_NAMES = 3


class Phase:
    """One task while it lasts, by the clock ``now``. ``forks``: on how many hosts at once;
    ``planned_s``: what it is planned to take, 0 when nobody knows.
    """

    def __init__(
        self,
        name: str,
        hosts: int,
        forks: int,
        planned_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = printable(name)
        self.hosts = hosts
        self._forks = forks
        self._planned_s = planned_s
        self._now = now
        self._began_s = now()
        self._started_s: dict[str, float] = {}
        self._took_s: dict[str, float] = {}
        self._skipped: set[str] = set()
        self._failing: dict[str, None] = {}

    def start(self, host: str) -> None:
        """The task begins on ``host``."""
        self._started_s[host] = self._now()

    def end(self, host: str, *, failed: bool) -> None:
        """It has ended there."""
        self._took_s[host] = self._now() - self._started_s.get(host, self._began_s)
        if failed:
            self._failing[host] = None

    def skip(self, host: str) -> None:
        """It is not for ``host``."""
        self._skipped.add(host)

    def line(self, room: int) -> str:
        """``Wait for the container: 3/8 hosts, 1 failing (node3), 45 s, about 20 s left, ...``

        With less ``room`` than that needs, less of it, and at last without the name of the task.
        """
        done = f"{self._done}/{self.hosts} hosts"
        failing = f"{len(self._failing)} failing" if self._failing else ""
        elapsed, left = seconds(self._elapsed_s()), self._left()
        texts = (
            self._named([done, self._failures(), elapsed, left, self._waiting()]),
            self._named([done, failing, elapsed, left]),
            self._named([done, failing, elapsed]),
        )
        return next((text for text in texts if len(text) <= room), joined([done, failing, elapsed]))

    def last_line(self) -> str:
        """The same once the task is over; empty for one that is not worth a line."""
        elapsed_s = self._elapsed_s()
        if not self._failing and (elapsed_s < WORTH_S or not self._took_s):
            return ""
        skipped = f"skipped on {len(self._skipped)}" if self._skipped else ""
        done = f"{len(self._took_s)}/{self.hosts} hosts in {seconds(elapsed_s)}"
        return self._named([done, skipped, self._failures(), self._slowest()])

    def _named(self, parts: Sequence[str]) -> str:
        return f"{self.name}: {joined(parts)}"

    @property
    def _done(self) -> int:
        return len(self._took_s) + len(self._skipped)

    def _elapsed_s(self) -> float:
        return self._now() - self._began_s

    def _is_over(self, host: str) -> bool:
        return host in self._took_s or host in self._skipped

    def _left(self) -> str:
        """How long it is likely to take from now on, and who says so; or that nobody knows.

        What is planned takes its time on all hosts at once, however many Ansible waits for.
        """
        if self._done >= self.hosts:
            return ""
        if self._planned_s:
            left_s = self._planned_s - self._elapsed_s()
            if left_s >= 0:
                return f"about {seconds(left_s)} left by plan"
            return f"{seconds(-left_s)} longer than planned"
        left_s = self._left_by_hosts_s()
        return f"about {seconds(math.ceil(left_s))} left" if left_s > 0 else "time left unknown"

    def _left_by_hosts_s(self) -> float:
        """By what hosts took so far, as many at once as there are forks; not above 0 when that
        does not tell: none has ended, or the others take longer.
        """
        if not self._took_s:
            return 0.0
        mean_s = sum(self._took_s.values()) / len(self._took_s)
        waves = -(-(self.hosts - self._done) // self._forks)
        running = [at for host, at in self._started_s.items() if not self._is_over(host)]
        return waves * mean_s - (self._now() - min(running, default=self._now()))

    def _failures(self) -> str:
        if not self._failing:
            return ""
        return f"{len(self._failing)} failing ({names(list(self._failing))})"

    def _waiting(self) -> str:
        running = [host for host in self._started_s if not self._is_over(host)]
        if self._done and 0 < len(running) <= MAX_NAMES:
            return f"waiting for {names(running)}"
        return self._slowest()

    def _slowest(self) -> str:
        if len(self._took_s) < 2:
            return ""
        host, took_s = max(self._took_s.items(), key=lambda item: item[1])
        return f"slowest {names([host])} {seconds(took_s)}" if took_s >= 1 else ""


def joined(parts: Sequence[str]) -> str:
    """Those parts that say something."""
    return ", ".join(part for part in parts if part)


def names(hosts: Sequence[str]) -> str:
    """``node1, node2, node3 and 4 more``"""
    shown = ", ".join(printable(host) for host in hosts[:MAX_NAMES])
    more = len(hosts) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def seconds(value_s: float) -> str:
    """``45 s``, ``12 min 5 s``"""
    minutes, rest = divmod(round(value_s), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def printable(text: str) -> str:
    """``text`` in letters that neither steer a terminal nor are wider than one column."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
