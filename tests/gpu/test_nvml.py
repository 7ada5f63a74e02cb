"""The GPU probe on a real GPU, against what nvidia-smi says of the same machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gdrcheck.facts import Facts, Nvml, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.probes.gpu import read_nvml
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu as rules

pytestmark = pytest.mark.gpu

MIB = 1 << 20
LIVE_ROOT = Path("/")
TOOL_S = 60
# A process with a context on the first GPU, until its input ends.
HOLDER = """
import ctypes, sys
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
status = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print(status, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def tool() -> ElementTree.Element:
    """What ``nvidia-smi -q`` prints, as XML."""
    done = subprocess.run(
        ["nvidia-smi", "-q", "-x"], capture_output=True, timeout=TOOL_S, check=True
    )
    return ElementTree.fromstring(done.stdout)


@pytest.fixture(scope="module")
def nvml() -> Nvml:
    answer = read_nvml(LIVE_ROOT)
    assert isinstance(answer, Nvml), answer
    return answer


@contextmanager
def context_on_first_gpu() -> Iterator[int]:
    """The process id of a process that has a CUDA context; it ends on leaving."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"0\n"
            yield holder.pid
        finally:
            holder.kill()


def slot_of(element: ElementTree.Element) -> str:
    domain, _, rest = element.attrib["id"].partition(":")
    return f"{int(domain, 16):04x}:{rest}".lower()


def test_the_probe_and_nvidia_smi_see_the_same_gpus(tool: ElementTree.Element, nvml: Nvml) -> None:
    assert nvml.lost == {}
    assert [gpu.slot for gpu in nvml.gpus] == sorted(slot_of(one) for one in tool.iter("gpu"))
    assert nvml.driver_version == tool.findtext("driver_version")
    assert nvml.cuda_version == tool.findtext("cuda_version")


def test_each_gpu_is_described_as_by_nvidia_smi(tool: ElementTree.Element, nvml: Nvml) -> None:
    for element in tool.iter("gpu"):
        gpu = nvml.gpu(slot_of(element))
        assert gpu is not None
        assert gpu.uuid == element.findtext("uuid")
        assert gpu.model == element.findtext("product_name")
        memory, bar1 = gpu.memory_total_bytes, gpu.bar1_total_bytes
        assert isinstance(memory, int)
        assert isinstance(bar1, int)
        assert f"{memory // MIB} MiB" == element.findtext("fb_memory_usage/total")
        assert f"{bar1 // MIB} MiB" == element.findtext("bar1_memory_usage/total")
        mig = {None: "N/A"}.get(gpu.mig, str(gpu.mig).capitalize())
        assert mig == element.findtext("mig_mode/current_mig")
        assert str(gpu.compute_mode).capitalize() == element.findtext("compute_mode")
        assert (gpu.fabric_state is None) == (element.findtext("fabric/state") in (None, "N/A"))


def test_a_process_with_a_context_is_listed() -> None:
    with context_on_first_gpu() as pid:
        answer = read_nvml(LIVE_ROOT)
    assert isinstance(answer, Nvml), answer
    seen = [gpu.processes for gpu in answer.gpus if isinstance(gpu.processes, tuple)]
    assert pid in [process.pid for processes in seen for process in processes]


def test_pci_and_the_driver_show_the_same_gpus(facts: Facts) -> None:
    assert not isinstance(facts.pci, Unreadable), facts.pci
    assert isinstance(facts.nvml, Nvml), facts.nvml
    on_pci = [function.slot for function in facts.pci.nvidia_gpus]
    assert on_pci == [gpu.slot for gpu in facts.nvml.gpus]


def test_a_profile_made_of_what_is_there_has_no_finding(facts: Facts) -> None:
    assert isinstance(facts.nvml, Nvml), facts.nvml
    gpus = facts.nvml.gpus
    assert gpus
    profile = Profile.model_validate({"gpus": {"count": len(gpus), "model": gpus[0].model}})
    assert rules.extra(profile, facts) is None
    for number, gpu in enumerate(gpus):
        where = Where(node=facts.node, gpu=f"gpu{number}")
        answer = rules.answering(where, gpu.slot, profile, facts)
        assert rules.wrong_model(where, answer, profile) is None
    one_more = Profile.model_validate({"gpus": {"count": len(gpus) + 1, "model": "*"}})
    finding = rules.missing(Where(node=facts.node, gpu="gpu99"), None, one_more, facts)
    assert finding is not None
    assert finding.code == "GPU-MISSING"
