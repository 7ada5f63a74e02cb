"""How GPUs are set: as promised, and what nobody promised is not judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdrcheck.facts import Gpu, Power, Unreadable
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Blocked, NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_settings as rules
from tests import facts as make
from tests.gpu_facts import gpu_health

GPU0 = Where(node="node1", gpu="gpu0")
UNREAD = Unreadable(unreadable="Unknown Error")
NO_POWER = Power(draw_w=None, limit_w=None, default_w=None, max_w=None)
Rule = Callable[[Where, Gpu, Profile], Finding | None]


def gpu(**health: object) -> Gpu:
    return make.gpu(health=gpu_health(**health))


def promise(**expect: object) -> Profile:
    return make.profile(expect=expect)


@pytest.mark.parametrize(
    ("rule", "good", "bad", "expect", "code"),
    [
        (
            rules.wrong_ecc_mode,
            gpu(),
            gpu(ecc={"mode": "disabled"}),
            {"ecc": "enabled"},
            "ECC-MODE",
        ),
        (rules.wrong_ecc_mode, gpu(ecc=None), gpu(), {"ecc": "disabled"}, "ECC-MODE"),
        (rules.wrong_ecc_mode, gpu(), gpu(ecc=None), {"ecc": "enabled"}, "ECC-MODE"),
        (rules.wrong_vbios, gpu(), gpu(vbios="96.00.74.00.11"), {"vbios": "96.00.A5.*"}, "VBIOS"),
        (rules.wrong_vbios, gpu(), gpu(vbios=None), {"vbios": "96.00.A5.*"}, "VBIOS"),
        (
            rules.wrong_compute_mode,
            gpu(),
            make.gpu(compute_mode="prohibited"),
            {"compute_mode": "default"},
            "COMPUTE-MODE",
        ),
        (
            rules.wrong_persistence,
            gpu(),
            gpu(persistence="off"),
            {"persistence": "on"},
            "PERSISTENCE",
        ),
        (
            rules.wrong_persistence,
            gpu(persistence=None),
            gpu(),
            {"persistence": "off"},
            "PERSISTENCE",
        ),
        (
            rules.low_power_limit,
            gpu(),
            gpu(power={"limit_w": 699.9}),
            {"power_limit_w": 700},
            "POWER-LIMIT",
        ),
        (rules.low_power_limit, gpu(), gpu(power=NO_POWER), {"power_limit_w": 700}, "POWER-LIMIT"),
    ],
)
def test_what_is_promised_is_judged(
    rule: Rule, good: Gpu, bad: Gpu, expect: dict[str, object], code: str
) -> None:
    assert rule(GPU0, good, promise(**expect)) is None
    found = rule(GPU0, bad, promise(**expect))
    assert found is not None
    assert (found.code, found.where, found.severity) == (f"GPU-{code}", GPU0, Severity.FAIL)


@pytest.mark.parametrize(
    ("rule", "health", "expect"),
    [
        (rules.wrong_ecc_mode, {"ecc": UNREAD}, {"ecc": "enabled"}),
        (rules.wrong_vbios, {"vbios": UNREAD}, {"vbios": "*"}),
        (rules.wrong_persistence, {"persistence": UNREAD}, {"persistence": "on"}),
        (rules.low_power_limit, {"power": {"limit_w": UNREAD}}, {"power_limit_w": 700}),
    ],
)
def test_what_was_not_read_is_an_error_where_it_is_judged(
    rule: Rule, health: dict[str, object], expect: dict[str, object]
) -> None:
    with pytest.raises(ProbeError, match="Unknown Error"):
        rule(GPU0, gpu(**health), promise(**expect))


@pytest.mark.parametrize(
    "rule",
    [rules.wrong_ecc_mode, rules.wrong_compute_mode, rules.wrong_persistence],
    ids=lambda rule: rule.__name__,
)
def test_a_value_that_nobody_promised_is_no_finding(rule: Rule) -> None:
    odd = make.gpu(
        compute_mode="prohibited",
        health=gpu_health(ecc={"mode": "disabled"}, persistence="off"),
    )
    assert rule(GPU0, odd, promise()) is None


def test_vbios_that_nobody_promised_is_told() -> None:
    with pytest.raises(NotJudged, match=r"VBIOS is 96\.00\.A5\.00\.1A; the profile promises none"):
        rules.wrong_vbios(GPU0, gpu(), promise())


def test_a_limit_below_the_default_is_a_warning_without_a_promise() -> None:
    found = rules.low_power_limit(GPU0, gpu(power={"limit_w": 500.0}), promise())
    assert found is not None
    assert (found.severity, found.observed, found.expected) == (
        Severity.WARN,
        "500 W",
        "at least 700 W",
    )
    promised = promise(power_limit_w=500)
    assert rules.low_power_limit(GPU0, gpu(power={"limit_w": 500.0}), promised) is None
    for power in (NO_POWER, {"default_w": UNREAD}):
        silent = gpu(power=power)
        with pytest.raises(NotJudged, match="power limit: "):
            rules.low_power_limit(GPU0, silent, promise())
        # The case has judged something else then.
        assert rules.low_power_limit(GPU0, silent, promise(persistence="on")) is None


@pytest.mark.parametrize(
    ("mode", "promised", "wrong"),
    [
        ("on", "off", True),
        ("off", "on", True),
        ("on", "on", False),
        (None, "off", False),
        (None, "on", True),
    ],
)
def test_confidential_computing(mode: str | None, promised: str, wrong: bool) -> None:
    facts = make.facts(nvml=make.nvml(confidential_computing=mode))
    found = rules.wrong_confidentiality(promise(confidential_computing=promised), facts)
    assert (found is not None) is wrong
    assert found is None or (found.code, found.where) == ("GPU-CONFIDENTIAL", Where(node="node1"))


def test_confidential_computing_without_promise_mode_or_answer() -> None:
    with pytest.raises(NotJudged, match="is on; the profile promises none"):
        rules.wrong_confidentiality(
            promise(), make.facts(nvml=make.nvml(confidential_computing="on"))
        )
    with pytest.raises(NotPromised, match="has no confidential computing"):
        rules.wrong_confidentiality(promise(), make.facts())
    with pytest.raises(NotPromised, match="promises no GPUs"):
        rules.wrong_confidentiality(make.profile(gpus=None), make.facts())
    silent = make.facts(nvml=Unreadable(unreadable="NVML: Unknown Error"))
    with pytest.raises(Blocked, match="GPU-NVML-FAILED"):
        rules.wrong_confidentiality(promise(confidential_computing="off"), silent)
    unread = make.facts(nvml=make.nvml(confidential_computing=UNREAD))
    with pytest.raises(ProbeError, match="confidential computing"):
        rules.wrong_confidentiality(promise(confidential_computing="off"), unread)
