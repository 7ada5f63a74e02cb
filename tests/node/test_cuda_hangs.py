"""CUDA that hangs or dies while it is started concerns every GPU of the node, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.outcome import Outcome
from tests.node.support import Ran, supervised, write_checks

HEAD = """
from checks.conftest import Device
def both(*gpus):
    return pytest.mark.parametrize("gpu", [
        pytest.param(Device(None, gpu), id=f"node1/{gpu}") for gpu in gpus])
"""
AFTER = """
@both("gpu0", "gpu1")
def check_gpu_opens(gpu): pass
@devices("rxe0")
def check_nic(device): pass
"""


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("time.sleep(60)", "hung"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died"),
    ],
)
def test_every_gpu_is_blocked_when_cuda_does_not_start(tmp_path: Path, ends: str, why: str) -> None:
    starts = f"""
def check_cuda_starts():
    with step("cuInit"):
        {ends}
"""
    ran = supervised(tmp_path, write_checks(tmp_path, node_cuda=HEAD + starts + AFTER))
    victim = ran.cases["cuda_starts[node1]"]
    assert victim.outcome is Outcome.ERROR
    assert "while: cuInit" in victim.message
    for gpu in ("gpu0", "gpu1"):
        case = ran.cases[f"gpu_opens[node1/{gpu}]"]
        assert (case.outcome, case.blocked_by) == (Outcome.BLOCKED, "cuda_starts[node1]")
        assert f"which {why} while CUDA was started" in case.message
    assert ran.cases["nic[node1/rxe0]"].outcome is Outcome.PASSED


@pytest.mark.parametrize("step", ["cuInit", "cuDeviceGetName on 0000:1b:00.0"])
def test_cuda_that_hangs_when_it_is_started_again_is_charged_to_no_single_gpu(
    tmp_path: Path, step: str
) -> None:
    """After a kernel that never returned, whoever comes next starts CUDA in a new process."""
    ran = _kernel_hangs_then(tmp_path, step)
    assert ran.cases["gpu_pattern[node1/gpu0]"].outcome is Outcome.ERROR
    first, second = (ran.cases[f"gpu_pattern[node1/gpu{number}]"] for number in (1, 2))
    assert first.outcome is Outcome.ERROR
    assert (second.outcome, second.blocked_by) == (Outcome.BLOCKED, "gpu_pattern[node1/gpu1]")
    assert "while CUDA was started" in second.message


def test_a_kernel_that_hangs_on_one_gpu_leaves_the_others(tmp_path: Path) -> None:
    ran = _kernel_hangs_then(tmp_path, None)
    assert "while: cuLaunchKernel" in ran.cases["gpu_pattern[node1/gpu0]"].message
    assert ran.cases["gpu_later[node1/gpu0]"].outcome is Outcome.BLOCKED
    for name in ("gpu_pattern[node1/gpu1]", "gpu_pattern[node1/gpu2]", "gpu_later[node1/gpu1]"):
        assert ran.cases[name].outcome is Outcome.PASSED


def test_two_gpus_that_hang_together_leave_the_others(tmp_path: Path) -> None:
    body = """
class Pair:
    def __init__(self, one, other):
        self.where = Where(node="node1", gpu=one, peer=f"node1/{other}")
def pairs(*both):
    return pytest.mark.parametrize("pair", [
        pytest.param(Pair(*two), id="node1/{} -> node1/{}".format(*two)) for two in both])
@pairs(("gpu0", "gpu1"), ("gpu1", "gpu2"), ("gpu2", "gpu3"))
def check_gpu_peers(pair):
    if pair.where.gpu == "gpu0":
        with step("cuCtxSynchronize"):
            time.sleep(60)
@both("gpu0", "gpu1", "gpu2")
def check_gpu_later(gpu): pass
"""
    ran = supervised(tmp_path, write_checks(tmp_path, node_cuda=HEAD + body))
    blocked = {id_ for id_, case in ran.cases.items() if case.outcome is Outcome.BLOCKED}
    assert blocked == {
        "gpu_peers[node1/gpu1 -> node1/gpu2]",
        "gpu_later[node1/gpu0]",
        "gpu_later[node1/gpu1]",
    }
    passed = {id_ for id_, case in ran.cases.items() if case.outcome is Outcome.PASSED}
    assert passed >= {"gpu_peers[node1/gpu2 -> node1/gpu3]", "gpu_later[node1/gpu2]"}


def _kernel_hangs_then(root: Path, step_of_gpu1: str | None) -> Ran:
    body = f"""
@both("gpu0", "gpu1", "gpu2")
def check_gpu_pattern(gpu):
    if gpu.where.gpu == "gpu0":
        with step("cuLaunchKernel"):
            time.sleep(60)
    if gpu.where.gpu == "gpu1" and {step_of_gpu1!r}:
        with step({step_of_gpu1!r}):
            time.sleep(60)
@both("gpu0", "gpu1")
def check_gpu_later(gpu): pass
"""
    return supervised(root, write_checks(root, node_cuda=HEAD + body))
