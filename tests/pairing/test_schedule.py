"""The schedule: everybody meets as promised, and every node computes the same."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck.pairing.schedule import Pair, partner, rounds
from gdrcheck.run import NodeSpec


def nodes_of(count: int, leaves: list[str | None] | None = None) -> list[NodeSpec]:
    return [
        NodeSpec(name=f"n{i}", address="127.0.0.1", profile="p", leaf=leaves[i] if leaves else None)
        for i in range(count)
    ]


some_nodes = st.integers(2, 64).flatmap(
    lambda count: st.lists(
        st.sampled_from([None, "a", "b", "c", "d"]), min_size=count, max_size=count
    ).map(lambda leaves: nodes_of(count, leaves))
)
any_limit = st.one_of(st.just("all"), st.integers(1, 70))


@given(some_nodes, any_limit)
@settings(deadline=None)
def test_rounds_are_disjoint_and_full_and_no_pair_meets_twice(nodes, limit):
    schedule = rounds(nodes, limit)
    seen = Counter(frozenset(pair) for turn in schedule for pair in turn)
    assert set(seen.values()) <= {1}
    for turn in schedule:
        present = [name for pair in turn for name in pair]
        assert len(present) == len(set(present)) == len(nodes) // 2 * 2


@given(some_nodes)
@settings(deadline=None)
def test_all_covers_every_pair_once(nodes):
    met = [frozenset(pair) for turn in rounds(nodes, "all") for pair in turn]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in combinations((n.name for n in nodes), 2)}


@given(some_nodes, st.integers(1, 70))
@settings(deadline=None)
def test_a_limit_takes_the_first_rounds_of_all(nodes, limit):
    assert rounds(nodes, limit) == rounds(nodes, "all")[:limit]


@given(some_nodes, any_limit)
@settings(deadline=None)
def test_the_initiator_stands_earlier_in_the_list(nodes, limit):
    place = {node.name: i for i, node in enumerate(nodes)}
    for turn in rounds(nodes, limit):
        assert all(place[pair.initiator] < place[pair.responder] for pair in turn)


@given(some_nodes)
@settings(deadline=None)
def test_the_first_round_meets_inside_the_leaves_as_far_as_possible(nodes):
    leaf = {node.name: node.leaf for node in nodes}
    sizes = Counter(node.leaf for node in nodes if node.leaf is not None)
    first = rounds(nodes, 1)[0]
    inside = sum(leaf[a] is not None and leaf[a] == leaf[b] for a, b in first)
    assert inside == sum(size // 2 for size in sizes.values())


@pytest.mark.parametrize(("leaf_count", "size"), [(2, 2), (3, 4), (4, 8), (5, 6), (31, 32)])
def test_with_equal_even_leaves_the_other_rounds_are_wholly_across(leaf_count, size):
    nodes = nodes_of(leaf_count * size, [f"l{i % leaf_count}" for i in range(leaf_count * size)])
    leaf = {node.name: node.leaf for node in nodes}
    inside, *others = rounds(nodes, 1 + (leaf_count - 1) * size)
    assert all(leaf[a] == leaf[b] for a, b in inside)
    assert not any(leaf[a] == leaf[b] for turn in others for a, b in turn)


def test_partner_finds_the_pair_or_the_rest():
    schedule = rounds(nodes_of(3), "all")
    assert [partner(schedule, "n0", r) for r in range(3)].count(None) == 1
    assert {partner(schedule, "n0", r) for r in range(3)} - {None} == {
        Pair("n0", "n1"),
        Pair("n0", "n2"),
    }


def test_one_node_has_no_round():
    assert rounds(nodes_of(1), "all") == ()


def test_a_thousand_nodes_have_five_hundred_pairs_a_round():
    labels = [f"leaf{i // 37}" for i in range(1000)]
    assert [len(turn) for turn in rounds(nodes_of(1000, labels), 4)] == [500] * 4
    assert [len(turn) for turn in rounds(nodes_of(1000), 4)] == [500] * 4
