"""nvidia-smi's text, of driver 580 about one H200, as tests on a real GPU read it.

The identities are invented; rows that nothing reads are left out.
"""

from __future__ import annotations

import pytest

from tests.gpu import smi

UUID = "GPU-00000000-0000-0000-0000-000000000001"
OTHER = "GPU-00000000-0000-0000-0000-000000000002"
QUERY = f"""
==============NVSMI LOG==============

Timestamp                                              : Mon Nov 30 14:43:30 2026
Driver Version                                         : 580.159.04
CUDA Version                                           : 13.0

Attached GPUs                                          : 2
GPU 00000000:00:06.0
    Product Name                                       : NVIDIA H200
    Persistence Mode                                   : Enabled
    Serial Number                                      : 1650000000000
    GPU UUID                                           : {UUID}
    VBIOS Version                                      : 96.00.A5.00.1A
    Board Part Number                                  : 692-2G520-0282-001
    Inforom Version
        ECC Object                                     : 7.16
    GPU Recovery Action                                : None
    GSP Firmware Version                               : 580.159.04
    PCI
        Bus                                            : 0x00
        Bus Id                                         : 00000000:00:06.0
        GPU Link Info
            PCIe Generation
                Max                                    : 5
                Current                                : 1
                Device Max                             : 5
                Host Max                               : N/A
            Link Width
                Max                                    : 16x
                Current                                : 8x
        Bridge Chip
            Type                                       : N/A
        Replays Since Reset                            : 2
    Clocks Event Reasons
        Idle                                           : Not Active
        HW Slowdown                                    : Not Active
            HW Thermal Slowdown                        : Not Active
        Sync Boost                                     : Not Active
    ECC Mode
        Current                                        : Enabled
        Pending                                        : Disabled
    ECC Errors
        Volatile
            SRAM Correctable                           : 1
            SRAM Uncorrectable Parity                  : 2
            SRAM Uncorrectable SEC-DED                 : 4
            DRAM Correctable                           : 8
            DRAM Uncorrectable                         : 16
        Aggregate
            SRAM Correctable                           : 0
            SRAM Uncorrectable Parity                  : 0
            SRAM Uncorrectable SEC-DED                 : 0
            DRAM Correctable                           : 0
            DRAM Uncorrectable                         : 32
            SRAM Threshold Exceeded                    : Yes
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                                    : 64
    Retired Pages
        Single Bit ECC                                 : N/A
        Double Bit ECC                                 : N/A
        Pending Page Blacklist                         : N/A
    Remapped Rows
        Correctable Error                              : 3
        Inactive Correctable Error                     : 0
        Uncorrectable Error                            : 4
        Inactive Uncorrectable Error                   : 0
        Pending                                        : Yes
        Remapping Failure Occurred                     : No
        Bank Remap Availability Histogram
            Max                                        : 3072 bank(s)
    Temperature
        GPU Current Temp                               : 43 C
        GPU T.Limit Temp                               : 44 C
        Memory Current Temp                            : 41 C
    GPU Power Readings
        Average Power Draw                             : 145.77 W
        Current Power Limit                            : 500.00 W
        Requested Power Limit                          : 500.00 W
        Default Power Limit                            : 700.00 W
        Min Power Limit                                : 200.00 W
        Max Power Limit                                : 700.00 W
    GPU Memory Power Readings\x20
        Average Power Draw                             : 53.72 W
    Max Clocks
        Graphics                                       : 1980 MHz
        SM                                             : 1980 MHz
        Memory                                         : 3201 MHz
    Max Customer Boost Clocks
        Graphics                                       : 1980 MHz
    Processes                                          : None

GPU 00000000:00:07.0
    Persistence Mode                                   : Disabled
    GPU UUID                                           : {OTHER}
    VBIOS Version                                      : N/A
    ECC Mode
        Current                                        : N/A
        Pending                                        : N/A
    Retired Pages
        Single Bit ECC                                 : 5
        Double Bit ECC                                 : 6
        Pending Page Blacklist                         : No
    Remapped Rows                                      : N/A
"""
SPEEDS = f"""GPU 0: NVIDIA H200 (UUID: {UUID})
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA H200 (UUID: {OTHER})
\t Link 0: 25 GB/s
"""
ERRORS = f"""GPU 0: NVIDIA H200 (UUID: {UUID})
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 1
\t Link 0: CRC Errors: 2

\t Link 1: Replay Errors: N/A
"""


def test_a_query_is_read_as_the_probe_says_it() -> None:
    gpus = smi.gpus(QUERY)
    assert list(gpus) == [UUID, OTHER]
    assert smi.health(gpus[UUID]) == {
        "vbios": "96.00.A5.00.1A",
        "board_part": "692-2G520-0282-001",
        "gsp_firmware": "580.159.04",
        "persistence": "on",
        "recovery_action": "none",
        "clocks.max_graphics_mhz": 1980,
        "clocks.max_memory_mhz": 3201,
        "power.limit_w": 500.0,
        "power.default_w": 700.0,
        "power.max_w": 700.0,
        "pcie.width": 8,
        "pcie.max_width": 16,
        "pcie.max_generation": 5,
        "ecc.mode": "enabled",
        "ecc.pending": "disabled",
        "ecc.volatile.correctable": 9,
        "ecc.volatile.uncorrectable": 22,
        "ecc.aggregate.correctable": 0,
        "ecc.aggregate.uncorrectable": 32,
        "ecc.sram_threshold_exceeded": True,
        "row_remap.correctable": 3,
        "row_remap.uncorrectable": 4,
        "row_remap.pending": True,
        "row_remap.failed": False,
        "retired_pages": None,
    }
    assert smi.moving(gpus[UUID]) == {
        "temperature.gpu_c": 43,
        "temperature.memory_c": 41,
        "pcie.replays": 2,
    }


def test_what_a_gpu_does_not_have_is_none() -> None:
    values = smi.health(smi.gpus(QUERY)[OTHER])
    for path in ("vbios", "ecc", "row_remap", "recovery_action", "power.limit_w"):
        assert values[path] is None
    assert values["persistence"] == "off"
    assert values["retired_pages.double_bit"] == 6
    assert values["retired_pages.pending"] is False


def test_links_are_read_by_gpu_and_number() -> None:
    assert smi.link_speeds(SPEEDS) == {UUID: {0: 26.562, 1: None}, OTHER: {0: 25.0}}
    assert smi.link_errors(ERRORS) == {UUID: {(0, "Replay"): 0, (0, "Recovery"): 1, (0, "CRC"): 2}}


@pytest.mark.parametrize(("word", "action"), list(smi.RECOVERY_ACTIONS.items()))
def test_each_action_has_the_name_of_the_facts(word: str, action: str) -> None:
    text = QUERY.replace("GPU Recovery Action                                : None", "XX")
    row = f"GPU Recovery Action                                : {word}"
    assert smi.health(smi.gpus(text.replace("XX", row))[UUID])["recovery_action"] == action
