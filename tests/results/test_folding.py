"""Many places in few words, and no place that was not there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.results.folding import fold, listed

GROUP = re.compile(r"(.*?)\[([0-9,-]+)\](.*)")
NODES = st.builds(
    "{}{}{}".format,
    st.sampled_from(("node", "gpu-", "rack1-n", "", "10.0.0.")),
    st.from_regex(r"0{0,2}[0-9]{1,3}", fullmatch=True),
    st.sampled_from(("", "a", ".example.com", ".rack2")),
)
BODIES = st.builds("{}{}".format, NODES, st.sampled_from(("", "/gpu0/mlx5_0", "/mlx5_1")))
PLACES = BODIES | st.builds("{} (with {})".format, BODIES, NODES)


def unfolded(text: str) -> list[str]:
    """The places that ``text`` stands for, written out."""
    match = GROUP.fullmatch(text)
    if match is None:
        return [text]
    before, ranges, after = match.groups()
    numbers = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        width = len(first)
        numbers += [f"{one:0{width}d}" for one in range(int(first), int(last or first) + 1)]
    return [f"{before}{number}{after}" for number in numbers]


def of_folded(text: str) -> set[str]:
    """The same of a place with its peers."""
    body, _, rest = text.partition(" (with ")
    if not rest:
        return set(unfolded(body))
    peers = [
        one
        for part in re.split(r", (?![0-9])", rest.removesuffix(")"))
        for item in ([part] if "[" in part else part.split(", "))
        for one in unfolded(item)
    ]
    return {f"{one} (with {peer})" for one in unfolded(body) for peer in peers}


@given(st.lists(BODIES, max_size=12))
def test_nothing_is_lost_and_nothing_is_added(places: list[str]) -> None:
    folded = fold(places)
    found = [place for text in folded for place in unfolded(text)]
    assert sorted(found) == sorted(set(places))


@given(st.lists(PLACES, max_size=12))
def test_places_with_peers_are_all_there(places: list[str]) -> None:
    assert set().union(*map(of_folded, fold(places))) == set(places)


@pytest.mark.parametrize(
    ("places", "folded"),
    [
        ([f"gpu{number:03d}" for number in range(1, 17)], ["gpu[001-016]"]),
        ([f"n{number:02d}" for number in range(8, 12)], ["n[08-11]"]),
        (["n1", "n01"], ["n1", "n01"]),
        (["n1.a.net/r0", "n2.a.net/r0", "n1.b.net/r0"], ["n[1-2].a.net/r0", "n1.b.net/r0"]),
        (["rack2node1", "rack2node2"], ["rack2node[1-2]"]),
        (["10.0.0.1", "10.0.0.2"], ["10.0.0.[1-2]"]),
        (["n7/r0 (with n1)", "n7/r0 (with n2)"], ["n7/r0 (with n[1-2])"]),
        (["n1/r0 (with n7)", "n2/r0 (with n7)"], ["n[1-2]/r0 (with n7)"]),
        (["n1/r0", "n1/r0"], ["n1/r0"]),
        (["n" + 5000 * "9", "n" + 5000 * "8"], ["n" + 5000 * "9", "n" + 5000 * "8"]),
    ],
)
def test_ranges(places: list[str], folded: list[str]) -> None:
    assert fold(places) == folded


def test_what_does_not_fit_is_counted() -> None:
    places = [f"{letter}/rxe0" for letter in "abcdef"]
    assert listed(places, 100) == "a/rxe0, b/rxe0, c/rxe0, d/rxe0, e/rxe0, f/rxe0"
    assert listed(places, 39) == "a/rxe0, b/rxe0 and 4 more places"
    assert listed(places[:2], 1) == "a/rxe0 and 1 more place"
    assert listed([], 10) == ""
