"""perftest's command lines and its JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.outcome import ProbeError
from gdrcheck.pairing.perftest_tool import (
    Gpu,
    Settings,
    client_command,
    numbers,
    server_command,
    timeout,
)
from gdrcheck.pairing.tools import PerftestPlan

BANDWIDTH = PerftestPlan(kind="bandwidth", size_bytes=1 << 20, iterations=500, queue_pairs=4)
LATENCY = PerftestPlan(kind="latency", size_bytes=64, iterations=1000)
ROCE = Settings(device="mlx5_0", port=1, gid_index=3)
# As ib_write_bw and ib_send_lat of perftest 25.01 wrote them, between two Soft-RoCE nodes.
BANDWIDTH_JSON = b"""{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Dual_port": "OFF",
"Device": "rxe0",
"Number_of_qps": 1,
"Transport_type": "IB",
"Connection_type": "RC",
"Using_SRQ": "OFF",
"PCIe_relax_order": "ON",
"ibv_wr_API": "OFF",
"TX_depth": 32,
"CQ_Moderation": 1,
"Mtu": 4096,
"Link_type": "Ethernet",
"GID_index": 1,
"Max_inline_data": 0,
"rdma_cm_QPs": "OFF",
"Use_ROCm_memory": "OFF",
"Data_ex_method": "Ethernet"
},
"results": {
"MsgSize": 65536,
"n_iterations": 100,
"BW_peak": 0.25,
"BW_average": 0.23,
"MsgRate": 0.000441
}
}
"""
LATENCY_JSON = b"""{
"test_info": {"test": "Send_Latency_Test", "PCIe_relax_order": "ON", "Mtu": 4096},
"results": {
"MsgSize": 64,
"n_iterations": 1000,
"t_min": 366.13,
"t_max": 804.11,
"t_typical": 387.02,
"t_avg": 391.50,
"t_stdev": 21.02,
"percentile_99": 488.21,
"percentile_99.9": 804.11
}
}
"""


def pairs(command: tuple[str, ...]) -> set[tuple[str, str]]:
    return set(pairwise(command))


def test_both_ends_are_told_the_same_of_the_measurement() -> None:
    server = server_command(Path("ib_write_bw"), BANDWIDTH, ROCE, "10.0.0.2", 40_000)
    client = client_command(
        Path("ib_write_bw"), BANDWIDTH, ROCE, "10.0.0.2", 40_000, Path("out.json")
    )
    common = {
        *(("-d", "mlx5_0"), ("-i", "1"), ("-x", "3"), ("-p", "40000"), ("-s", "1048576")),
        *(("-n", "500"), ("-q", "4"), ("-t", "32"), ("-u", "17")),
    }
    assert common <= pairs(server)
    assert common <= pairs(client)
    # Without it the figures are in MiB/s.
    assert "--report_gbits" in client
    assert ("--bind_source_ip", "10.0.0.2") in pairs(server)
    assert ("--out_json_file", "out.json") in pairs(client)
    assert "--out_json" in client
    # The one word that is no option makes it the client.
    assert client[-1] == "10.0.0.2"
    assert server[-2] == "--bind_source_ip"


def test_latency_has_one_queue_pair_and_its_own_unit() -> None:
    command = client_command(Path("ib_send_lat"), LATENCY, ROCE, "10.0.0.2", 1, Path("o"))
    assert not {"-q", "-t", "--report_gbits"} & set(command)


def test_what_the_profile_says_of_the_path_is_told_too() -> None:
    settings = Settings(
        device="mlx5_0",
        port=2,
        gid_index=None,
        pkey_index=7,
        traffic_class=106,
        service_level=3,
        path_mtu=2048,
        completion_s=30,
    )
    found = pairs(server_command(Path("ib_write_bw"), BANDWIDTH, settings, "fd00::2", 1))
    assert {
        *(("-i", "2"), ("--pkey_index", "7"), ("--tclass", "106"), ("-S", "3"), ("-m", "2048")),
        ("-u", "18"),
    } <= found
    assert "-x" not in {word for word, _ in found}
    assert "--ipv6-addr" in {word for word, _ in found}


@pytest.mark.parametrize(("method", "flags"), [("dmabuf", 1), ("peermem", 0)])
def test_gpu_memory_is_of_the_gpu_and_by_the_method_of_the_rail(method: Any, flags: int) -> None:
    plan = BANDWIDTH.model_copy(update={"source": "gpu"})
    settings = Settings(device="mlx5_0", port=1, gid_index=3, gpu=Gpu("0000:24:00.0", method))
    client = client_command(Path("x"), plan, settings, "10.0.0.2", 1, Path("o"))
    server = server_command(Path("x"), plan, settings, "10.0.0.2", 1)
    assert ("--use_cuda_bus_id", "0000:24:00.0") in pairs(client)
    assert client.count("--use_cuda_dmabuf") == flags
    if flags:
        # perftest refuses the other order.
        assert client.index("--use_cuda_dmabuf") > client.index("--use_cuda_bus_id")
    # The sink's memory is the host's.
    assert not any("cuda" in word for word in server)


@given(st.floats(min_value=0.001, max_value=100_000))
def test_all_retries_fit_into_half_of_the_deadline(completion_s: float) -> None:
    exponent = timeout(completion_s)
    assert 14 <= exponent <= 21
    if 14 < exponent < 21:
        assert completion_s / 4 < 7 * 4.096e-6 * 2**exponent <= completion_s / 2


def test_bandwidth_is_read() -> None:
    found = numbers("bandwidth", BANDWIDTH_JSON, "ib_write_bw")
    assert (found.gbps, found.size_bytes, found.iterations) == (0.23, 65536, 100)
    assert (found.mtu, found.relaxed_ordering, found.typical_us) == (4096, "ON", None)


def test_latency_is_read() -> None:
    found = numbers("latency", LATENCY_JSON, "ib_send_lat")
    assert (found.typical_us, found.p99_us) == (387.02, 488.21)
    assert (found.min_us, found.max_us, found.gbps) == (366.13, 804.11, None)


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("bandwidth", b"", "no usable form"),
        ("bandwidth", b"{", "no usable form"),
        ("bandwidth", LATENCY_JSON, "results.BW_average"),
        ("latency", BANDWIDTH_JSON, "results.t_typical"),
        ("bandwidth", BANDWIDTH_JSON.replace(b"0.23", b"0.00"), "results.BW_average"),
        ("bandwidth", BANDWIDTH_JSON.replace(b"0.23", b"NaN"), "no usable|results.BW_average"),
        ("bandwidth", BANDWIDTH_JSON.replace(b"100,", b"0,"), "results.n_iterations"),
        ("bandwidth", BANDWIDTH_JSON.replace(b'"results"', b'"result"'), "results"),
    ],
)
def test_what_is_no_measurement_is_an_error(kind: Any, text: bytes, told: str) -> None:
    with pytest.raises(ProbeError, match=told):
        numbers(kind, text, "x")


@given(st.binary(max_size=200))
def test_any_bytes_are_numbers_or_an_error(text: bytes) -> None:
    try:
        numbers("bandwidth", text, "x")
    except ProbeError:
        return
    assert json.loads(text)["results"]["BW_average"] > 0
