"""What is judged of kernel modules and of the RDMA stack."""

from __future__ import annotations

from functools import partial

import pytest

from gdrcheck.facts import Facts, LogLine, Provider, Unreadable
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rails import resolve
from gdrcheck.rules import driver as rules
from gdrcheck.rules import gpudirect
from tests import facts as builders
from tests.rules.judging import said

LEFT_NOTHING = Unreadable(unreadable="the host collector did not run", privilege=True)
BROKEN = Unreadable(unreadable="file: Input/output error")
BOTH = {"registration": "both"}
REFUSED = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"


def machine(changes: dict[str, dict[str, object] | None], **host: object) -> Facts:
    """The node, with each named module changed; None leaves it out."""
    modules = [
        builders.module(name, **(changes.get(name) or {}))
        for name in {**builders.MODULES, **changes}
        if changes.get(name, {}) is not None
    ]
    values = {"modules": modules, "loaded_modules": [one.name for one in modules]}
    return builders.facts(host=builders.host(**(values | host)))


def loaded(name: str, facts: Facts, **profile: object) -> str:
    """What the check of one module says."""

    def rule(*asked: object) -> object:
        gpudirect.require_not_explained(name, *asked)  # type: ignore[arg-type]
        return rules.module_missing(name, *asked)  # type: ignore[arg-type]

    return said(rule, builders.profile(**profile), facts)  # type: ignore[arg-type]


def test_expected_modules_follow_from_the_promises() -> None:
    expected = partial(rules.expected_modules)
    assert expected(builders.profile()) == ("ib_core", "ib_uverbs", "nvidia")
    assert expected(builders.profile(gpus={"count": 0})) == ("ib_core", "ib_uverbs")
    more = builders.profile(registration="both", expect={"modules": ["mlx5_ib", "ib_core"]})
    assert expected(more) == ("ib_core", "ib_uverbs", "nvidia", "nvidia_peermem", "mlx5_ib")


def test_a_module_that_is_not_loaded_is_a_finding_with_its_file() -> None:
    line = LogLine(topic="symbols", seconds_since_boot=3, text="ib_uverbs: Unknown symbol x")
    facts = machine({"ib_uverbs": {"loaded": False}}, kernel_log=(line,))
    assert loaded("ib_core", facts) == "passed"
    finding = rules.module_missing("ib_uverbs", builders.profile(), facts)
    assert finding is not None
    assert finding.code == "DRV-MODULE-MISSING"
    assert finding.evidence["file on the host"].endswith("ib_uverbs.ko")
    assert finding.evidence["kernel log"] == line.text


def test_a_module_of_which_nothing_is_known_is_judged_by_its_name() -> None:
    facts = machine({}, loaded_modules=("gdrdrv",))
    assert loaded("gdrdrv", facts, expect={"modules": ["gdrdrv"]}) == "passed"
    assert loaded("gdrdrv", machine({})) == "DRV-MODULE-MISSING"
    assert loaded("gdrdrv", machine({}, loaded_modules=BROKEN)) == "error"


def test_a_module_whose_state_is_unreadable_is_no_finding() -> None:
    facts = machine({"ib_core": {"loaded": BROKEN}})
    assert loaded("ib_core", facts) == "error"
    assert rules.missing_modules(builders.profile(), facts) == ()


def test_missing_modules_are_those_that_rdma_devices_need() -> None:
    gone = {"loaded": False}
    facts = machine({"ib_core": gone, "mlx5_ib": gone, "nvidia": gone, "gdrdrv": gone})
    promised = builders.profile(registration="both", expect={"modules": ["mlx5_ib", "gdrdrv"]})
    found = rules.missing_modules(promised, facts)
    assert [finding.observed.split()[0] for finding in found] == ["ib_core", "mlx5_ib"]
    assert {finding.code for finding in found} == {"DRV-MODULE-MISSING"}
    assert rules.missing_modules(promised, builders.facts()) == ()


@pytest.mark.parametrize("name", rules.PEERMEM_MODULES)
def test_any_module_of_its_kind_serves_as_peermem(name: str) -> None:
    facts = machine({"nvidia_peermem": {"loaded": False}, name: {"loaded": True}})
    assert loaded("nvidia_peermem", facts, **BOTH) == "passed"


def test_a_peermem_that_is_asked_for_by_name_is_that_one() -> None:
    facts = machine({"nvidia_peermem": {"loaded": False}, "nv_peer_mem": {}})
    promised = BOTH | {"expect": {"modules": ["nvidia_peermem"]}}
    assert loaded("nvidia_peermem", facts, **promised) == "DRV-MODULE-MISSING"


def test_one_cause_is_one_finding() -> None:
    gone: dict[str, dict[str, object] | None] = {"nvidia": {"loaded": False}}
    without = machine(gone).model_copy(update={"nvidia": None, "nvml": None})
    for name in ("nvidia", "nvidia_peermem"):
        assert loaded(name, without, **BOTH) == "blocked by DRV-NVIDIA-MISSING at node1"
    line = LogLine(topic="peermem", seconds_since_boot=3, text=REFUSED)
    refused = machine({"nvidia_peermem": {"loaded": False}}, kernel_log=(line,))
    assert loaded("nvidia_peermem", refused, **BOTH) == "blocked by DRV-PEERMEM-SYMBOLS at node1"
    absent = machine({"nvidia_peermem": {"loaded": False}})
    assert loaded("nvidia_peermem", absent, **BOTH) == "DRV-MODULE-MISSING"
    promised = {"gpus": {"count": 0}, "expect": {"modules": ["nvidia"]}}
    assert loaded("nvidia", without, **promised) == "DRV-MODULE-MISSING"


@pytest.mark.parametrize(
    ("ofed", "expected", "outcome"),
    [
        ("inbox", None, "not judged"),
        ("inbox", "inbox", "passed"),
        ("MLNX_OFED_LINUX-24.10-0.7.0.0", "MLNX_OFED_LINUX-24.10-*", "passed"),
        ("MLNX_OFED_LINUX-23.10-0.5.5.0", "MLNX_OFED_LINUX-24.10-*", "DRV-OFED"),
        (LEFT_NOTHING, "inbox", "error"),
        (LEFT_NOTHING, None, "not judged"),
    ],
)
def test_the_stack_is_the_promised_one(ofed: object, expected: str | None, outcome: str) -> None:
    facts = builders.facts(rdma_stack=builders.rdma_stack(ofed=ofed))
    promised = builders.profile(expect={"ofed": expected} if expected else {})
    assert said(rules.ofed_differs, promised, facts) == outcome


def at(tree: str) -> dict[str, object]:
    return {"path": f"/lib/modules/{builders.KERNEL}/{tree}/x.ko"}


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "passed"),
        ({name: at("updates/dkms") for name in rules.ONE_TREE}, "passed"),
        ({"mlx5_core": at("updates/dkms")}, "DRV-STACK-MIXED"),
        ({"ib_core": at("extra"), "ib_uverbs": at("extra")}, "DRV-STACK-MIXED"),
        ({"ib_core": {"path": "(builtin)"}}, "passed"),
        ({"mlx5_ib": at("updates") | {"loaded": False}}, "passed"),
        ({"irdma": at("updates")}, "passed"),
        ({"nvidia": at("kernel")}, "passed"),
        ({"ib_core": {"loaded": False}}, "blocked by DRV-MODULE-MISSING at node1"),
        ({"mlx5_ib": {"path": LEFT_NOTHING}}, "not judged"),
        ({"mlx5_ib": {"path": BROKEN}}, "not judged"),
        ({"mlx5_ib": {"path": None}}, "not judged"),
        ({name: {"path": BROKEN} for name in rules.ONE_TREE}, "not judged"),
        ({"ib_core": {"path": BROKEN}, "mlx5_ib": at("updates")}, "DRV-STACK-MIXED"),
        ({"ib_core": {"path": None}, "mlx5_ib": at("updates")}, "DRV-STACK-MIXED"),
    ],
)
def test_the_rdma_modules_are_of_one_source(
    changes: dict[str, dict[str, object] | None], outcome: str
) -> None:
    assert said(rules.stack_mixed, builders.profile(), machine(changes)) == outcome


def test_a_mixed_stack_names_who_is_from_where() -> None:
    finding = rules.stack_mixed(builders.profile(), machine({"mlx5_core": at("updates/dkms")}))
    assert finding is not None
    assert "updates: mlx5_core" in finding.observed
    assert "kernel: ib_core ib_uverbs mlx5_ib" in finding.observed


def test_what_is_known_of_the_stack_and_what_is_not_is_told() -> None:
    facts = machine({"mlx5_ib": {"path": None}, "mlx5_core": {"path": BROKEN}})
    with pytest.raises(NotJudged) as raised:
        rules.stack_mixed(builders.profile(), facts)
    assert str(raised.value) == (
        f"kernel: ib_core ib_uverbs; mlx5_core: {BROKEN.unreadable}; "
        "mlx5_ib: the host has no file of it"
    )


def test_without_rails_the_stack_is_nobodys_business() -> None:
    assert said(rules.stack_mixed, builders.profile(rails=None), builders.facts()) == "skipped"


MLX5 = Provider(name="mlx5", library="libmlx5-rdmav34.so")


def provider(driver: object, providers: object) -> str:
    facts = builders.facts(
        rdma_devices=(builders.rdma_device(driver=driver),),
        rdma_stack=builders.rdma_stack(providers=providers),
    )
    return said(rules.providers_missing, builders.profile(), facts)


@pytest.mark.parametrize(
    ("driver", "providers", "outcome"),
    [
        ("mlx5_core", (MLX5,), "passed"),
        ("mlx5_core", (), "DRV-PROVIDER-MISSING"),
        ("mlx5_core", (Provider(name="mlx5", library=None),), "DRV-PROVIDER-MISSING"),
        ("bnxt_en", (MLX5,), "DRV-PROVIDER-MISSING"),
        ("software", (MLX5,), "not judged"),
        ("unheard_of", (), "not judged"),
        (BROKEN, (MLX5,), "error"),
        ("mlx5_core", BROKEN, "error"),
    ],
)
def test_the_image_has_the_provider_of_the_nic(
    driver: object, providers: object, outcome: str
) -> None:
    assert provider(driver, providers) == outcome


def test_one_provider_that_is_missing_is_one_finding_that_names_its_nics() -> None:
    drivers = {"mlx5_0": "mlx5_core", "mlx5_1": "mlx5_core", "bnxt_re0": "bnxt_en"}
    facts = builders.facts(
        rdma_devices=tuple(
            builders.rdma_device(name, driver=driver, slot=f"0000:1{number}:00.0")
            for number, (name, driver) in enumerate(drivers.items())
        ),
        rdma_stack=builders.rdma_stack(providers=(MLX5.model_copy(update={"name": "bnxt_re"}),)),
    )
    rails = {"count": 3, "nics": [{"name": name} for name in drivers]}
    promised = builders.profile(rails=rails)
    finding = rules.providers_missing(promised, facts)
    assert finding is not None
    assert finding.where.text() == "node1"
    assert finding.observed == "libibverbs.d names no mlx5, for mlx5_0 mlx5_1"
    blocks = [rules.provider_missing(rail, facts) for rail in resolve(promised, facts)]
    assert [block.code if block else None for block in blocks] == [finding.code] * 2 + [None]


def test_what_is_not_known_of_providers_blocks_nothing() -> None:
    for changes in ({"providers": BROKEN}, {}):
        facts = builders.facts(
            rdma_stack=builders.rdma_stack(**changes),
            rdma_devices=(builders.rdma_device(driver="mlx5_core" if changes else BROKEN),),
        )
        (rail,) = resolve(builders.profile(), facts)
        assert rules.provider_missing(rail, facts) is None


def test_providers_are_judged_where_there_are_rails_with_devices() -> None:
    assert (
        said(rules.providers_missing, builders.profile(rails=None), builders.facts()) == "skipped"
    )
    without = builders.facts(rdma_devices=())
    blocked = said(rules.providers_missing, builders.profile(), without)
    assert blocked == "blocked by no rail has its device"


def test_reasons_name_what_was_read() -> None:
    with pytest.raises(NotJudged, match="OFED is inbox"):
        rules.ofed_differs(builders.profile(), builders.facts())
    with pytest.raises(ProbeError, match="module ib_core is unreadable: file"):
        rules.module_missing(
            "ib_core", builders.profile(), machine({"ib_core": {"loaded": BROKEN}})
        )
