"""What is held against a node itself, and what is not: its partner's doing, the run's."""

from __future__ import annotations

from gdrcheck.results.blame import Suspect
from gdrcheck.results.own_blame import own_blame
from tests.results.compared import Made, Pair, finding

FOUR = ("n1", "n2", "n3", "n4")
PORT = "port_active[n1/mlx5_0]"


def codes(made: Made) -> dict[str, int]:
    side = made.build()
    return {node: blame.exit_code for node, blame in own_blame(side.summary, side.data).items()}


def ways(one: str, other: str, kind: str = "passed", nic: str = "mlx5_0") -> list[Pair]:
    ends = f"{one}/{nic}", f"{other}/{nic}"
    return [Pair(*ends, kind), Pair(*ends[::-1], kind)]


def test_a_run_that_passed_holds_nothing_against_anybody() -> None:
    assert codes(Made(nodes=FOUR)) == dict.fromkeys(FOUR, 0)


def test_the_node_that_the_evidence_names_is_to_blame_alone() -> None:
    made = Made(
        nodes=("n1", "n2"),
        cases={"n1": {PORT: "failed"}},
        findings={PORT: finding("n1", nic="mlx5_0")},
        pairs=ways("n1", "n2", "blocked"),
    )
    assert codes(made) == {"n1": 1, "n2": 0}
    side = made.build()
    assert "PORT-NOT-ACTIVE at n1/mlx5_0" in own_blame(side.summary, side.data)["n1"].why[0]


def test_a_node_that_was_not_measured_itself_is_not_good() -> None:
    made = Made(nodes=("n1", "n2"), cases={"n1": {PORT: "error"}}, pairs=ways("n1", "n2"))
    assert codes(made) == {"n1": 2, "n2": 0}


def test_a_pair_that_was_not_measured_is_held_against_both_when_nothing_explains_it() -> None:
    assert codes(Made(nodes=("n1", "n2"), pairs=ways("n1", "n2", "error"))) == {"n1": 2, "n2": 2}


def test_a_pair_that_fails_and_tells_no_end_apart_is_held_against_both() -> None:
    suspect = Suspect(place=("n1/mlx5_0", "n2/mlx5_0"), reason="fails", cases=("x",))
    made = Made(nodes=FOUR, pairs=ways("n1", "n2", "failed"), suspects=(suspect,))
    assert codes(made) == {"n1": 2, "n2": 2, "n3": 0, "n4": 0}


def test_a_rail_that_the_pairs_point_to_is_to_blame_alone() -> None:
    suspect = Suspect(place=("n2/mlx5_0",), reason="fails with all", cases=("x",))
    made = Made(nodes=FOUR, pairs=ways("n1", "n2", "failed"), suspects=(suspect,))
    assert codes(made) == {"n1": 0, "n2": 1, "n3": 0, "n4": 0}


def test_what_is_wrong_with_the_run_is_held_against_no_node() -> None:
    made = Made(nodes=FOUR, cases={"fleet": {"pairs_measured[fleet]": "error"}})
    assert codes(made) == dict.fromkeys(FOUR, 0)


def test_a_node_whose_results_are_not_whole_is_not_good() -> None:
    made = Made(
        nodes=("n1", "n2"),
        cases={
            "fleet": {"every_node_reported[n2]": "error"},
            "pairs": {"pair_measured[n1 -> n2]": "blocked"},
        },
    )
    assert codes(made) == {"n1": 0, "n2": 2}


def test_a_node_without_any_partner_is_not_good() -> None:
    made = Made(nodes=FOUR, cases={"pairs": {"pair_measured[n3]": "error"}})
    assert codes(made) == {"n1": 0, "n2": 0, "n3": 2, "n4": 0}


def test_a_bad_rail_of_the_partner_explains_nothing_on_another_rail() -> None:
    suspect = Suspect(place=("n1/mlx5_1", "n2/mlx5_1"), reason="fails", cases=("x",))
    made = Made(
        nodes=("n1", "n2"),
        cases={"n1": {PORT: "failed"}},
        findings={PORT: finding("n1", nic="mlx5_0")},
        pairs=ways("n1", "n2", "blocked"),
    )
    failed = [*made.pairs, *ways("n1", "n2", "failed", "mlx5_1")]
    assert codes(made.but(pairs=failed, suspects=(suspect,))) == {"n1": 1, "n2": 2}
    unmeasured = [*made.pairs, *ways("n1", "n2", "error", "mlx5_1")]
    assert codes(made.but(pairs=unmeasured)) == {"n1": 1, "n2": 2}
    # Nor does one that is only not known.
    for case in (PORT, "registers[n1/gpu0/mlx5_0, dma-buf]"):
        open_too = made.but(cases={"n1": {case: "error"}}, findings={}, pairs=unmeasured)
        assert codes(open_too) == {"n1": 2, "n2": 2}
    for case in ("os[n1]", "registers[n1/gpu0/mlx5_1, dma-buf]"):
        open_too = made.but(cases={"n1": {case: "error"}}, findings={}, pairs=unmeasured)
        assert codes(open_too) == {"n1": 2, "n2": 0}


def test_a_bad_rail_of_the_partner_explains_what_failed_there() -> None:
    suspect = Suspect(place=("n1/mlx5_0", "n2/mlx5_0"), reason="fails", cases=("x",))
    made = Made(
        nodes=("n1", "n2"),
        cases={"n1": {PORT: "failed"}},
        findings={PORT: finding("n1", nic="mlx5_0")},
        pairs=ways("n1", "n2", "failed"),
        suspects=(suspect,),
    )
    assert codes(made) == {"n1": 1, "n2": 0}
    assert codes(made.but(findings={PORT: finding("n1")})) == {"n1": 1, "n2": 0}


def test_a_partner_that_is_bad_as_a_whole_explains_everything() -> None:
    made = Made(nodes=("n1", "n2"), states={"n1": "no result"}, pairs=ways("n1", "n2", "error"))
    assert codes(made) == {"n1": 2, "n2": 0}
