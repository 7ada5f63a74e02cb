"""The ends that lost speed with most of their partners: together they tell more than one. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median_low

from gdrcheck.results.compare_model import SlowerEnd
from gdrcheck.results.compare_rows import Ends, Kind

# So many partners at least; fewer say nothing that the pairs themselves do not.
MIN_PARTNERS = 3


def slower_ends(
    kind: Kind,
    number: str,
    values: Iterable[tuple[Ends, float]],
    limit: Callable[[int], float],
) -> list[SlowerEnd]:
    """The ends of which the median of all partners is beyond ``limit`` of their number; each once,
    for both ways of the data before one of them.

    ``values``: between which ends, and how much longer it takes than it did, as a logarithm.
    """
    outs: defaultdict[str, list[float]] = defaultdict(list)
    ins: defaultdict[str, list[float]] = defaultdict(list)
    for (source, sink), slowdown in values:
        outs[source].append(slowdown)
        ins[sink].append(slowdown)
    found = []
    for place in dict.fromkeys((*outs, *ins)):
        out, into = outs.get(place, []), ins.get(place, [])
        for role, slowdowns in (("both", out + into), ("source", out), ("sink", into)):
            if len(slowdowns) < MIN_PARTNERS:
                continue
            # A partner that is slow itself must not make this end so: more than half have to be.
            middle = median_low(slowdowns)
            beyond = limit(len(slowdowns))
            if middle > beyond:
                found.append(
                    SlowerEnd(
                        place=place,
                        role=role,
                        check=kind.check,
                        mode=kind.mode,
                        operation=kind.operation,
                        number=number,
                        pairs=len(slowdowns),
                        slower_share=round(math.expm1(middle), 4),
                        limit_share=round(math.expm1(beyond), 4),
                    )
                )
                break
    return found
