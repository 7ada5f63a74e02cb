"""The operating system is what the profile promises."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.profile import Profile
from gdrcheck.rules import host

pytestmark = pytest.mark.usefixtures("node")


def check_os(profile: Profile, facts: Facts) -> None:
    """The node runs the promised distribution."""
    gates.fail(host.os_differs(profile, facts))


def check_kernel(profile: Profile, facts: Facts) -> None:
    """The node runs the promised kernel."""
    gates.fail(host.kernel_differs(profile, facts))


def check_command_line(profile: Profile, facts: Facts) -> None:
    """The kernel was started with every promised word."""
    gates.fail(host.command_line_lacks(profile, facts))


def check_iommu(profile: Profile, facts: Facts) -> None:
    """DMA addresses of GPUs and NICs are translated, or not, as promised."""
    gates.fail(host.iommu_differs(profile, facts))
