"""What NVML says of this node's GPUs at the end of the run, against what it said before."""

from __future__ import annotations

import pytest

from checks.conftest import PromisedGpu
from gdrcheck import gates
from gdrcheck.facts import Facts, Nvml, Unreadable
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu as gpu_rules
from gdrcheck.rules import gpu_after as rules
from gdrcheck.xids import XidWatch


@pytest.mark.node_case("gpus")
def check_gpu_errors_grew(
    gpu: PromisedGpu,
    profile: Profile,
    facts: Facts,
    nvml_after: Nvml | Unreadable | None,
    xid_watch: XidWatch,
    request: pytest.FixtureRequest,
) -> None:
    """The GPU still answers, counts no new errors, and the driver reported none during the run."""
    before = gpu_rules.answering(gpu.where, gpu.slot, profile, facts)
    gates.fail(rules.gone(gpu.where, before.slot, nvml_after))
    both = rules.ends(gpu.where, before, nvml_after, xid_watch)
    request.node.user_properties += rules.told(both, xid_watch, before.slot).items()
    gates.fail(rules.grown(both, xid_watch, before.slot))
