"""The options of ``gdrcheck kubernetes render``. Light: every help text needs this."""

from __future__ import annotations

import argparse
from pathlib import Path

OVERLAYS = ("rdma-shared", "sriov", "privileged")
COMPONENTS = ("host-facts", "results-pvc")
EXAMPLES = """\
examples (what is written in capitals, and the names of resources and networks, is yours):
  gdrcheck kubernetes render --profile inventory/profiles/h200_ib.yml --nodes 16 \\
      --image REGISTRY/gdrcheck@sha256:DIGEST --overlay rdma-shared \\
      --rdma-resource rdma/rdma_shared_device_a=1 --component host-facts --out job
  gdrcheck kubernetes render --profile two_rails.yml --nodes 16 \\
      --image REGISTRY/gdrcheck@sha256:DIGEST --overlay sriov \\
      --rdma-resource VENDOR/RAIL0=1 --rdma-resource VENDOR/RAIL1=1 \\
      --network rail0-net --network rail1-net --out job
  gdrcheck kubernetes render --profile inventory/profiles/h200_ib.yml --nodes 16 \\
      --image REGISTRY/gdrcheck@sha256:DIGEST --overlay privileged --out job
  ansible-playbook playbooks/kubernetes.yml -e gdrcheck_rendered=job

docs/kubernetes.md goes from here to a verdict, also with kubectl alone.

exit codes: 0 the folder was made, 2 wrong input, and then nothing was
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck kubernetes render`` to ``parser``."""
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_run(parser)
    _add_place(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        type=Path,
        required=True,
        metavar="FILE",
        help="what was bought: the same file that an inventory names",
    )
    parser.add_argument(
        "--nodes", required=True, metavar="N", help="number of nodes, each of which gets one pod"
    )
    parser.add_argument(
        "--image", required=True, metavar="REF", help="the image, best as NAME@sha256:DIGEST"
    )
    parser.add_argument(
        "--rounds", default="4", metavar="N", help="rounds of pairs: a number, or all (default: 4)"
    )
    parser.add_argument(
        "--time-scale", default="1", metavar="X", help="factor on every deadline (default: 1)"
    )
    parser.add_argument(
        "--arrival-s",
        default="600",
        metavar="S",
        help="how long the first pod waits for the last one, in seconds (default: 600)",
    )
    parser.add_argument(
        "--port",
        default="18600",
        metavar="PORT",
        help="TCP port of the channel; the next one is taken too (default: 18600)",
    )
    parser.add_argument(
        "--neighbours",
        choices=("none", "lldp"),
        default="none",
        help="lldp: learn where the cables lead; with the component host-facts",
    )
    parser.add_argument(
        "--ib-links",
        type=Path,
        metavar="FILE",
        help="output of ibnetdiscover or iblinkinfo, for what InfiniBand cables lead to",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--overlay",
        choices=OVERLAYS,
        required=True,
        help="how the pods get at the NICs: by a device plugin that shares them, by virtual "
        "functions, or, without a device plugin, as privileged containers",
    )
    parser.add_argument(
        "--component",
        choices=COMPONENTS,
        action="append",
        default=[],
        help="host-facts: a privileged init container reads what needs root on the host; "
        "results-pvc: keep the results on a volume; may be repeated",
    )
    parser.add_argument(
        "--rdma-resource",
        action="append",
        default=[],
        metavar="NAME=COUNT",
        help="what the device plugin calls the NICs (kubectl describe node: Allocatable), and how "
        "many a pod takes; not for the overlay privileged; may be repeated",
    )
    parser.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="NAME",
        help="for the overlay sriov: a network attachment of multus, as NAME, NAMESPACE/NAME or "
        "NAME@INTERFACE; repeated for each rail, in order",
    )
    parser.add_argument(
        "--gpu-resource",
        default="nvidia.com/gpu",
        metavar="NAME",
        help="what the device plugin calls the GPUs (default: nvidia.com/gpu)",
    )
    parser.add_argument(
        "--cpu", metavar="N", help="whole CPUs a pod (default: 2, and 2 for each rail)"
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory a pod, as 20Gi (default: 4Gi, and 2Gi for each rail)",
    )
    parser.add_argument(
        "--namespace",
        default="gdrcheck",
        metavar="NAME",
        help="a namespace for nothing else; is made if it is not there (default: gdrcheck)",
    )
    parser.add_argument(
        "--node-selector",
        action="append",
        default=[],
        metavar="LABEL=VALUE",
        help="take only nodes with this label; may be repeated",
    )
    parser.add_argument(
        "--toleration",
        action="append",
        default=[],
        metavar="KEY",
        help="take nodes with this taint too, whatever its value and effect, as "
        "node.kubernetes.io/unschedulable for cordoned ones; may be repeated",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to make; holds a secret"
    )
