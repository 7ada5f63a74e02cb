"""What needs a process of its own: death by signal, hangs, order of calls, forks."""

from __future__ import annotations

import ctypes
import signal

import pytest
from cuda.bindings import driver

from lab.emulated_gpu import build, loaded
from lab.emulated_gpu.config import Faults
from tests.emulated_gpu.emulation import Emulation

pytestmark = pytest.mark.usefixtures("emulation")

OPEN = """
import ctypes, os, threading
assert int(driver.cuInit(0)[0]) == 0
context = driver.cuDevicePrimaryCtxRetain(0)[1]
driver.cuCtxSetCurrent(context)
"""


@pytest.mark.parametrize("touch", ["ctypes.string_at(pointer, 1)", "ctypes.memset(pointer, 0, 1)"])
def test_a_cpu_that_touches_gpu_memory_dies(emulation: Emulation, touch: str) -> None:
    done = emulation.run(
        f"{OPEN}\npointer = int(driver.cuMemAlloc(4096)[1])\nprint('before', flush=True)\n{touch}"
    )
    assert done.stdout == "before\n"
    assert done.returncode == -signal.SIGSEGV


def test_nothing_works_before_initialisation_but_the_version(emulation: Emulation) -> None:
    done = emulation.run(
        """
calls = [driver.cuDeviceGetCount, driver.cuCtxSynchronize, driver.cuMemGetInfo]
print(*(int(call()[0]) for call in calls), int(driver.cuMemAlloc(10)[0]))
print(*map(int, driver.cuDriverGetVersion()), int(driver.cuInit(0)[0]))
"""
    )
    assert done.stdout.split() == ["3", "3", "3", "3", "0", "13000", "0"], done.stderr


def test_a_forked_child_has_no_driver(emulation: Emulation) -> None:
    done = emulation.run(
        f"{OPEN}\nif os.fork() == 0:\n    os._exit(int(driver.cuMemGetInfo()[0]))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    assert done.stdout.split() == ["3"], done.stderr


@pytest.mark.parametrize("function", ["cuMemAlloc", "cuCtxSynchronize", "cuInit"])
def test_a_hanging_call_does_not_return_and_holds_nobody_up(
    emulation: Emulation, function: str
) -> None:
    emulation.set(faults=Faults(hang=[function], after={function: 1}))
    arguments = {"cuMemAlloc": "10", "cuInit": "0"}.get(function, "")
    done = emulation.run(
        f"""{OPEN}
def call():
    driver.cuCtxSetCurrent(context)
    for _ in range(2):
        driver.{function}({arguments})
    print("came back", flush=True)
thread = threading.Thread(target=call, daemon=True)
thread.start()
thread.join(0.5)
print(thread.is_alive(), int(driver.cuMemGetInfo()[0]), flush=True)
os._exit(0)
"""
    )
    assert done.stdout == "True 0\n", done.stderr


def test_other_functions_are_absent() -> None:
    library = ctypes.CDLL(build.LIBCUDA)
    assert not hasattr(library, "cuMemAllocAsync")
    with pytest.raises(Exception, match="cuMemAllocAsync is not found"):
        driver.cuMemAllocAsync(10, 0)


def test_only_what_is_meant_for_others_is_exported() -> None:
    library = ctypes.CDLL(build.LIBCUDA)
    assert ctypes.c_int.in_dll(library, "gdrcheck_emulated_gpu").value == 1
    # The three libraries have these each for itself.
    assert not hasattr(library, "emulated_config")


def test_an_older_driver_lacks_what_came_later(emulation: Emulation) -> None:
    found = ctypes.c_void_p()
    get = ctypes.CDLL(build.LIBCUDA).cuGetProcAddress_v2

    def asked(name: bytes, version: int) -> tuple[int, bool]:
        return get(name, ctypes.byref(found), version, ctypes.c_uint64(0), None), bool(found)

    assert asked(b"cuFlushGPUDirectRDMAWrites", 11030) == (0, True)
    emulation.set(cuda_version=11020)
    assert asked(b"cuFlushGPUDirectRDMAWrites", 11030) == (500, False)
    assert asked(b"cuMemAlloc", 3020) == (0, True)
    assert asked(b"cuMemAlloc", 2000) == (500, False)


def test_threads_share_the_driver_safely(emulation: Emulation) -> None:
    done = emulation.run(
        f"""{OPEN}
def work(number):
    driver.cuCtxSetCurrent(context)
    for round in range(200):
        size = 1000 + 700 * number + round
        pointer = driver.cuMemAlloc(size)[1]
        driver.cuMemcpyHtoD(pointer, bytes([number]) * size, size)
        back = bytearray(size)
        driver.cuMemcpyDtoH(back, pointer, size)
        assert back == bytes([number]) * size
        assert int(driver.cuMemFree(pointer)[0]) == 0
threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
free, total = driver.cuMemGetInfo()[1:]
print(free == total)
"""
    )
    assert done.stdout == "True\n", done.stderr
    assert done.stderr == ""


def test_a_second_load_only_changes_the_file(emulation: Emulation) -> None:
    other = Emulation(emulation.path.with_name("other.conf"))
    other.set(cuda_version=12010)
    loaded.in_process(other.path)
    assert driver.cuDriverGetVersion()[1] == 12010
