"""What is judged of NVIDIA's driver."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.rules import gpudirect
from gdrcheck.rules import nvidia as rules
from tests import facts as builders
from tests.rules.judging import Rule, said

LEFT_NOTHING = Unreadable(unreadable="the host collector did not run", privilege=True)
BROKEN = Unreadable(unreadable="file: Input/output error")
SERVICE = "nvidia-fabricmanager.service"
ALL = {"driver": "580.*", "cuda": "12.8", "open_module": True, "fabric_manager": "active"}
OTHERS = (
    rules.version_differs,
    rules.kind_differs,
    rules.cuda_old,
    rules.fabric_manager,
    gpudirect.dmabuf_impossible,
    gpudirect.peermem_inert,
    gpudirect.peermem_symbols,
)


def without_driver() -> Facts:
    return builders.facts(nvidia=None, nvml=None)


def with_driver(**changes: object) -> Facts:
    return builders.facts(nvidia=builders.nvidia_driver(**changes))


def test_a_missing_driver_is_one_finding_that_blocks_the_rest() -> None:
    promised = builders.profile(expect=ALL | {"fabric_manager": None}, registration="both")
    finding = rules.nvidia_missing(promised, without_driver())
    assert finding is not None
    assert finding.code == "DRV-NVIDIA-MISSING"
    assert finding.evidence["GPUs on PCI"] == builders.GPU_SLOT
    for rule in OTHERS:
        assert said(rule, promised, without_driver()) == "blocked by DRV-NVIDIA-MISSING at node1"
    assert said(rules.nvidia_missing, promised, builders.facts()) == "passed"


@pytest.mark.parametrize("rule", [rules.nvidia_missing, *OTHERS])
@pytest.mark.parametrize("gpus", [None, {"count": 0}])
def test_a_node_without_promised_gpus_needs_no_driver(rule: Rule, gpus: object) -> None:
    assert said(rule, builders.profile(gpus=gpus), without_driver()) == "skipped"


def test_a_promise_about_the_driver_is_judged_though_no_gpus_are_promised() -> None:
    promised = builders.profile(gpus=None, expect={"driver": "580.*"})
    assert said(rules.nvidia_missing, promised, without_driver()) == "DRV-NVIDIA-MISSING"
    assert said(rules.version_differs, promised, builders.facts()) == "passed"


@pytest.mark.parametrize("rule", OTHERS)
def test_a_driver_that_cannot_be_read_is_an_error(rule: Rule) -> None:
    facts = builders.facts(nvidia=BROKEN)
    assert said(rule, builders.profile(expect=ALL, registration="both"), facts) == "error"


@pytest.mark.parametrize(
    ("rule", "key", "field", "good", "bad", "code"),
    [
        (rules.version_differs, "driver", "version", "580.9", "570.9", "DRV-NVIDIA-VERSION"),
        (rules.kind_differs, "open_module", "open_module", True, False, "DRV-NVIDIA-PROPRIETARY"),
        (rules.cuda_old, "cuda", "cuda", "12.8", "12.7", "DRV-CUDA-OLD"),
    ],
)
def test_a_promised_value_of_the_driver(
    rule: Rule, key: str, field: str, good: object, bad: object, code: str
) -> None:
    promised = builders.profile(expect={key: ALL[key]})
    assert said(rule, promised, with_driver(**{field: good})) == "passed"
    assert said(rule, promised, with_driver(**{field: bad})) == code
    assert said(rule, promised, with_driver(**{field: BROKEN})) == "error"
    assert said(rule, builders.profile(), with_driver(**{field: bad})) == "not judged"


def test_an_open_module_is_wrong_where_the_other_is_promised() -> None:
    promised = builders.profile(expect={"open_module": False})
    assert said(rules.kind_differs, promised, builders.facts()) == "DRV-NVIDIA-PROPRIETARY"


@pytest.mark.parametrize(
    ("cuda", "outcome"),
    [("12.8", "passed"), ("12.10", "passed"), ("13.0", "passed"), ("9.9", "DRV-CUDA-OLD")],
)
def test_versions_of_cuda_are_numbers_not_texts(cuda: str, outcome: str) -> None:
    promised = builders.profile(expect={"cuda": "12.8"})
    assert said(rules.cuda_old, promised, with_driver(cuda=cuda)) == outcome


def test_the_version_of_cuda_is_blocked_when_nvml_is_silent() -> None:
    facts = with_driver(cuda=BROKEN).model_copy(update={"nvml": BROKEN})
    promised = builders.profile(expect={"cuda": "12.8"})
    assert said(rules.cuda_old, promised, facts) == "blocked by GPU-NVML-FAILED at node1"


def fabric(
    *, states: tuple[object, ...], unit: object = "not-found", switches: object = ()
) -> Facts:
    """A machine with GPUs in these fabric states, that service and those NVSwitches."""
    gpus = tuple(
        builders.gpu(f"0000:{number:02x}:00.0", fabric_state=state)
        for number, state in enumerate(states)
    )
    units = unit if isinstance(unit, Unreadable) else {SERVICE: unit}
    return builders.facts(
        host=builders.host(units=units),
        nvidia=builders.nvidia_driver(nvswitches=switches),
        nvml=builders.nvml(gpus=gpus),
    )


SWITCHES = ("0000:07:00.0",)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (fabric(states=(None,)), "skipped"),
        (fabric(states=(None,), unit="failed"), "skipped"),
        (fabric(states=("completed", "completed"), unit="active"), "passed"),
        (fabric(states=("completed",)), "passed"),
        (fabric(states=("completed", "in_progress"), unit="active"), "DRV-FABRIC-MANAGER"),
        (fabric(states=("completed", BROKEN)), "error"),
        (fabric(states=(None,), switches=SWITCHES), "DRV-FABRIC-MANAGER"),
        (fabric(states=(None,), switches=SWITCHES, unit="active"), "passed"),
        (fabric(states=(None,), switches=SWITCHES, unit=LEFT_NOTHING), "not judged"),
        (fabric(states=(None,), switches=SWITCHES, unit=BROKEN), "error"),
        (fabric(states=(None,), switches=BROKEN), "error"),
    ],
)
def test_the_fabric_is_judged_where_there_is_one(facts: Facts, outcome: str) -> None:
    assert said(rules.fabric_manager, builders.profile(), facts) == outcome


@pytest.mark.parametrize(
    ("promise", "unit", "states", "outcome"),
    [
        ("active", "active", (None,), "passed"),
        ("active", "inactive", (None,), "DRV-FABRIC-MANAGER"),
        ("active", "activating", (None,), "DRV-FABRIC-MANAGER"),
        ("absent", "masked", (None,), "passed"),
        *(
            ("absent", unit, (None,), "DRV-FABRIC-MANAGER")
            for unit in ("failed", "activating", "deactivating", "reloading", "bad-setting")
        ),
        ("active", "active", ("in_progress",), "DRV-FABRIC-MANAGER"),
        ("absent", "not-found", (None,), "passed"),
        ("absent", "inactive", (None,), "passed"),
        ("absent", "active", (None,), "DRV-FABRIC-MANAGER"),
        ("active", LEFT_NOTHING, ("completed",), "error"),
    ],
)
def test_a_promise_about_the_service_is_judged_everywhere(
    promise: str, unit: object, states: tuple[object, ...], outcome: str
) -> None:
    promised = builders.profile(expect={"fabric_manager": promise})
    assert said(rules.fabric_manager, promised, fabric(states=states, unit=unit)) == outcome


def test_a_silent_nvml_does_not_prove_that_there_is_no_fabric() -> None:
    facts = builders.facts(nvml=BROKEN)
    outcome = said(rules.fabric_manager, builders.profile(), facts)
    assert outcome == "blocked by GPU-NVML-FAILED at node1"
