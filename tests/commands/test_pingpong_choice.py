"""Which NIC and GPU gdrcheck pingpong takes: what is named, else what lies closest together."""

from __future__ import annotations

import threading

import pytest

from gdrcheck.commands.pingpong.choice import Choice, Wanted, choose
from gdrcheck.facts import Facts, Unreadable, VerbsDevice
from gdrcheck.outcome import InputError
from gdrcheck.probes.side_by_side import side_by_side
from tests import facts as build
from tests.commands.support import two_sockets


def taken(choice: Choice) -> tuple[str, int, str | None]:
    return choice.rail.nic, choice.rail.port, choice.rail.gpu


def chosen(facts: Facts, **wanted: object) -> tuple[str, int, str | None]:
    return taken(choose(facts, Wanted(**wanted)))  # type: ignore[arg-type]


def test_without_wishes_it_is_the_first_gpu_and_the_nic_beside_it() -> None:
    # The NIC beside gpu0 is the second by name.
    assert chosen(two_sockets()) == ("mlx5_1", 1, "gpu0")


@pytest.mark.parametrize(
    "name", ["1", "gpu1", "0000:96:05.0", "96:05.0", "GPU-00000000-0000-0000-0000-000000000002"]
)
def test_a_gpu_is_named_by_number_slot_or_uuid_and_takes_its_nic(name: str) -> None:
    facts = two_sockets()
    gpus = (
        build.gpu("0000:16:05.0"),
        build.gpu("0000:96:05.0", uuid="GPU-00000000-0000-0000-0000-000000000002"),
    )
    facts = facts.model_copy(update={"nvml": build.nvml(gpus=gpus)})
    choice = choose(facts, Wanted(gpu=name))
    assert taken(choice) == ("mlx5_0", 1, "gpu1")
    assert choice.rail.gpu_slot == "0000:96:05.0"


def test_a_nic_takes_the_gpu_beside_it() -> None:
    assert chosen(two_sockets(), device="mlx5_0") == ("mlx5_0", 1, "gpu1")
    assert chosen(two_sockets(), device="mlx5_0", gpu="0") == ("mlx5_0", 1, "gpu0")


def test_no_gpu_is_a_choice_and_having_none_is_a_lack() -> None:
    choice = choose(two_sockets(), Wanted(gpu="none"))
    assert (choice.gpu_number, choice.gpu_unwanted) == (None, True)
    bare = build.facts(pci=build.pci_tree(functions=(build.pci_function(parent=None),)))
    choice = choose(bare, Wanted())
    assert (choice.gpu_number, choice.gpu_unwanted) == (None, False)
    assert choice.gpu_lacks == "no NVIDIA GPU on PCI"
    choice = choose(build.facts(pci=Unreadable(unreadable="denied")), Wanted())
    assert choice.gpu_lacks == "the PCI functions are unreadable: denied"


def test_the_port_is_the_active_one_or_the_named_one() -> None:
    ports = (build.port(state="DOWN"), build.port(number=2))
    facts = build.facts(rdma_devices=(build.rdma_device(ports=ports),))
    assert chosen(facts, device="mlx5_0")[1] == 2
    assert chosen(facts, device="mlx5_0", port=1)[1] == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(device="mlx5_O"), "-d mlx5_O: no such RDMA device; there are: mlx5_0; did you"),
        (
            Wanted(gid_index=77),
            "-x 77: mlx5_0 port 1 has no such entry; there are: "
            "0 (fe80::b83f:d203:aa:1, IB/RoCE v1)",
        ),
        (Wanted(port=3), "-i 3: mlx5_0 has no such port; it has: 1"),
        (Wanted(gpu="4"), "--gpu 4: no such GPU; there are: gpu0 (0000:1b:00.0)"),
        (Wanted(gpu="GPU-no"), "--gpu GPU-no: no such GPU"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(wanted: Wanted, said: str) -> None:
    with pytest.raises(InputError) as error:
        choose(build.facts(), wanted)
    assert str(error.value).startswith(said)


def test_without_a_nic_each_is_told_with_its_reason() -> None:
    down = build.rdma_device(ports=(build.port(state="DOWN"),))
    closed = build.rdma_device(
        verbs=VerbsDevice(name="mlx5_0", error="EACCES", error_number=13, ports=())
    )
    with pytest.raises(InputError, match=r"mlx5_0: no port is active"):
        choose(build.facts(rdma_devices=(down,)), Wanted())
    with pytest.raises(InputError, match=r"mlx5_0: does not open: EACCES.*In a container give"):
        choose(build.facts(rdma_devices=(closed,)), Wanted())
    with pytest.raises(InputError, match="is unreadable: denied"):
        choose(build.facts(rdma_devices=Unreadable(unreadable="denied")), Wanted())


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(device="mlx5_0")])
def test_a_machine_without_rdma_is_told_where_to_look(wanted: Wanted) -> None:
    with pytest.raises(InputError, match=r"rdma link show.*lspci.*modprobe.*--device options"):
        choose(build.facts(rdma_devices=()), wanted)


def test_a_driver_that_is_late_is_told_once_with_the_option_that_waits_longer() -> None:
    over = threading.Event()
    late = side_by_side({"rxe0": lambda: over.wait(20)}, 0.01)["rxe0"]
    over.set()
    devices = (build.rdma_device("rxe0", ports=(build.port(state=late), build.port(state=late))),)
    with pytest.raises(InputError) as error:
        choose(build.facts(rdma_devices=devices), Wanted())
    assert str(error.value).startswith(
        "no RDMA device of this machine can be used: rxe0: its driver gave no answer within 0.01 s."
    )
    assert str(error.value).count("rxe0") == 1
    assert "--time-scale" in str(error.value)
