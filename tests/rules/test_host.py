"""What is judged of the operating system."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Iommu, Unreadable
from gdrcheck.outcome import NotJudged
from gdrcheck.rules import host as rules
from tests import facts as builders
from tests.rules.judging import Rule, said

LEFT_NOTHING = Unreadable(unreadable="the host collector did not run", privilege=True)
BROKEN = Unreadable(unreadable="file: Input/output error")
RULES = (
    rules.os_differs,
    rules.kernel_differs,
    rules.command_line_lacks,
    rules.iommu_differs,
)


def judge(rule: Rule, expect: dict[str, object], **host: object) -> str:
    facts = builders.facts(host=builders.host(**host))
    return said(rule, builders.profile(expect=expect), facts)


@pytest.mark.parametrize("rule", RULES)
def test_what_nobody_promises_is_shown_and_not_judged(rule: Rule) -> None:
    with pytest.raises(NotJudged, match=r"Ubuntu 24|6\.8\.0|iommu=pt|dmar0"):
        rule(builders.profile(), builders.facts())


@pytest.mark.parametrize("rule", RULES)
def test_what_nobody_promises_may_be_unreadable(rule: Rule) -> None:
    values = {"os": LEFT_NOTHING, "kernel": BROKEN, "command_line": BROKEN}
    iommu = Iommu(units=BROKEN, default_domain=BROKEN)
    assert judge(rule, {}, iommu=iommu, **values) == "not judged"


@pytest.mark.parametrize(
    ("rule", "key", "value", "good", "bad", "code"),
    [
        (rules.os_differs, "os", "Debian 13", "Debian*", "Ubuntu*", "HOST-OS"),
        (rules.kernel_differs, "kernel", "6.8.0-60", "6.8.0-60", "6.8.0-6", "HOST-KERNEL"),
        (
            rules.command_line_lacks,
            "command_line",
            "ro iommu=pt pci=realloc",
            ["iommu=pt", "pci=*"],
            ["iommu=pt", "iommu"],
            "HOST-COMMAND-LINE",
        ),
    ],
)
def test_a_promised_text_is_compared_as_a_pattern(
    rule: Rule, key: str, value: str, good: object, bad: object, code: str
) -> None:
    assert judge(rule, {key: good}, **{key: value}) == "passed"
    assert judge(rule, {key: bad}, **{key: value}) == code
    for unread in (LEFT_NOTHING, BROKEN):
        assert judge(rule, {key: good}, **{key: unread}) == "error"


def test_the_words_that_are_missing_are_named() -> None:
    profile = builders.profile(expect={"command_line": ["ro", "hugepages=*", "iommu=pt"]})
    finding = rules.command_line_lacks(profile, builders.facts())
    assert finding is not None
    assert finding.observed == "without hugepages=*"


MODES = ("off", "passthrough", "translated")


@pytest.mark.parametrize(
    ("units", "domain", "right"),
    [
        ((), None, "off"),
        (("dmar0",), "identity", "passthrough"),
        (("smmu3.0x1",), "DMA", "translated"),
        (("dmar0",), "mixed", None),
    ],
)
def test_the_iommu_is_what_units_and_domain_say(
    units: tuple[str, ...], domain: str | None, right: str | None
) -> None:
    iommu = Iommu.model_validate({"units": units, "default_domain": domain})
    said_of = {mode: judge(rules.iommu_differs, {"iommu": mode}, iommu=iommu) for mode in MODES}
    assert said_of == {mode: "passed" if mode == right else "HOST-IOMMU" for mode in MODES}


def test_an_iommu_that_is_on_is_not_off_though_no_group_shows_its_mode() -> None:
    iommu = Iommu(units=("dmar0",), default_domain=None)
    said_of = {mode: judge(rules.iommu_differs, {"iommu": mode}, iommu=iommu) for mode in MODES}
    assert said_of == {"off": "HOST-IOMMU", "passthrough": "error", "translated": "error"}


def test_an_iommu_that_cannot_be_read_is_an_error_when_promised() -> None:
    for iommu in (
        Iommu(units=BROKEN, default_domain=None),
        Iommu(units=("dmar0",), default_domain=BROKEN),
    ):
        assert judge(rules.iommu_differs, {"iommu": "off"}, iommu=iommu) == "error"
