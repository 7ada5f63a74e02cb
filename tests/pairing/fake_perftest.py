"""perftest without RDMA: a server and a client that meet on a TCP port, as the real ones do.

    fake_perftest.py OPTIONS... [ADDRESS]

FAKE_PERFTEST says what is wrong: ``server dies``, ``client dies``, ``client hangs``, ``deaf``,
``no json``, ``stays``, ``other size``, ``refused``, ``rounded to nothing``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

WITH_VALUE = {
    *("-d", "-i", "-p", "-s", "-n", "-u", "-x", "-m", "-S", "-q", "-t"),
    *("--tclass", "--pkey_index", "--bind_source_ip", "--out_json_file", "--use_cuda_bus_id"),
}


def main() -> int:
    words, options, address = iter(sys.argv[1:]), {}, None
    for word in words:
        if word in WITH_VALUE:
            options[word] = next(words)
        elif word.startswith("-"):
            options[word] = ""
        else:
            address = word
    wrong = os.environ.get("FAKE_PERFTEST", "")
    port = int(options["-p"])
    return (
        serve(options, port, wrong) if address is None else measure(options, address, port, wrong)
    )


def serve(options: dict[str, str], port: int, wrong: str) -> int:
    if wrong == "server dies":
        print("Couldn't get context for the device")
        return 1
    if wrong == "deaf":
        time.sleep(60)
    with socket.create_server((options["--bind_source_ip"], port)) as server:
        met, _ = server.accept()
        with met:
            said = met.recv(16)
    if wrong == "stays":
        time.sleep(60)
    if said != b"done":
        print("ethernet_read_keys: Couldn't read remote address")
        return 1
    return 0


def measure(options: dict[str, str], address: str, port: int, wrong: str) -> int:
    if wrong == "refused":
        print(f"Couldn't connect to {address}:{port}\nUnable to open file descriptor for socket")
        return 1
    with socket.create_connection((address, port)) as met:
        if wrong == "client dies":
            print(" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81")
            return 1
        if wrong == "client hangs":
            time.sleep(60)
        met.sendall(b"done")
    if wrong != "no json":
        size = 1 if wrong == "other size" else int(options["-s"])
        results = {"MsgSize": size, "n_iterations": int(options["-n"])}
        if "--report_gbits" in options:
            average = 0.0 if wrong == "rounded to nothing" else 391.5
            results |= {"BW_peak": 392.1, "BW_average": average, "MsgRate": 0.7}
        else:
            results |= {"t_min": 1.1, "t_max": 9.5, "t_typical": 1.4, "t_avg": 1.5}
            results |= {"t_stdev": 0.1, "percentile_99": 2.2, "percentile_99.9": 4.4}
        info = {"test": "RDMA_Write_BW_Test", "PCIe_relax_order": "ON", "Mtu": 4096}
        with open(options["--out_json_file"], "w") as file:
            json.dump({"test_info": info, "results": results}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
