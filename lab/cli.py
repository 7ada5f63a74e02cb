"""The command line: ``python3 -m lab``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lab import api, boot, state, status
from lab.errors import LabError
from lab.paths import state_directory

DEFAULT_IMAGE = "localhost/gdrcheck:dev"
_EPILOG = """\
examples:
  python3 -m lab up                     two nodes with the image of `make image`
  python3 -m lab up --nodes 4 --name four --no-image
  python3 -m lab ssh node1 -- rdma link
  python3 -m lab run -- ip -brief address
  ansible-playbook -i "$(python3 -m lab inventory)" validate.yml
  python3 -m lab down
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        result: int = options.action(options)
        return result
    except LabError as error:
        print(f"lab: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m lab",
        description="Virtual cluster nodes with sshd, podman, Soft-RoCE and a PCIe topology.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, action: object, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument(
            "--name", default=api.DEFAULT_NAME, help="which lab (default: %(default)s)"
        )
        added.set_defaults(action=action)
        return added

    up = command("up", _up, "build what is missing, boot the nodes and wait until they answer")
    up.add_argument(
        "--nodes", type=int, default=2, metavar="N", help="how many (default: %(default)s)"
    )
    image = up.add_mutually_exclusive_group()
    image.add_argument(
        "--image",
        default=DEFAULT_IMAGE,
        metavar="REF",
        help="container image of this host to have on the nodes (default: %(default)s)",
    )
    image.add_argument(
        "--no-image",
        dest="image",
        action="store_const",
        const=None,
        help="nodes without a container image",
    )
    up.add_argument(
        "--accel",
        choices=("auto", "kvm", "tcg"),
        default="auto",
        help="auto tries KVM by booting a kernel (default: %(default)s)",
    )
    up.add_argument(
        "--cpus",
        type=int,
        choices=(1, 2),
        default=1,
        help="processors per node; one is faster on a small machine (default: %(default)s)",
    )
    show = command(
        "status", _status, "what runs and where it answers; status 1 if anything does not run"
    )
    show.add_argument("--json", action="store_true", help="as one JSON object")
    ssh = command("ssh", _ssh, "a shell on a node, or a command after --")
    ssh.add_argument("node")
    ssh.add_argument("words", nargs="*", metavar="CMD")
    run = command("run", _run, "a command on all nodes at once; status 1 if it fails on any")
    run.add_argument("words", nargs="+", metavar="COMMAND")
    command("inventory", _inventory, "print the path of the lab's Ansible inventory")
    command("down", _down, "end the lab's processes and remove its state")
    return parser


def _up(options: argparse.Namespace) -> int:
    wish = boot.Wish(
        name=options.name,
        nodes=options.nodes,
        image=options.image,
        accelerator=options.accel,
        cpus=options.cpus,
    )
    boot.up(wish)
    options.json = False
    return _status(options)


def _status(options: argparse.Namespace) -> int:
    lab = state.load(state_directory(options.name))
    if lab is None:
        off = json.dumps({"name": options.name, "up": False})
        print(off if options.json else f"lab {options.name!r} is not up")
        return 1
    now = status.describe(lab)
    print(now.as_json() if options.json else now.as_text())
    return 0 if now.up else 1


def _ssh(options: argparse.Namespace) -> int:
    node = api.Lab(options.name).node(options.node)
    command = node.ssh_command(_as_command(options.words))
    os.execv(command[0], command)


def _run(options: argparse.Namespace) -> int:
    nodes = api.Lab(options.name).nodes
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        results = list(pool.map(lambda node: _run_on(node, options.words), nodes))
    return max(results)


def _run_on(node: api.Node, words: Sequence[str]) -> int:
    with subprocess.Popen(
        node.ssh_command(_as_command(words)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"{node.name}: {line}", end="" if line.endswith("\n") else "\n", flush=True)
    if process.returncode != 0:
        print(f"{node.name}: exit status {process.returncode}", file=sys.stderr)
    return 0 if process.returncode == 0 else 1


def _as_command(words: Sequence[str]) -> str | Sequence[str]:
    """One argument is shell text, several are a command's words."""
    return words[0] if len(words) == 1 else words


def _inventory(options: argparse.Namespace) -> int:
    lab = api.Lab(options.name)
    lab.state()
    print(lab.inventory)
    return 0


def _down(options: argparse.Namespace) -> int:
    boot.down(options.name)
    return 0
