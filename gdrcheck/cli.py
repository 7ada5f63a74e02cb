"""The command ``gdrcheck``: parses options, hands over, turns expected errors into exit code 2.

Each command imports what it needs when it runs, so that ``gdrcheck node`` starts fast and the
command line works where parts of the software, such as pyverbs, are missing.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from gdrcheck import __version__
from gdrcheck.outcome import InputError

Handler = Callable[[argparse.Namespace], int]

OK = 0
INPUT_ERROR = 2
# Not 1, which means FAIL.
UNFORESEEN = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

_EXAMPLES = """\
examples:
  gdrcheck profile check inventory/profiles/h200_ib.yml
  gdrcheck explain MR-ENOMEM-MEMLOCK
  gdrcheck variables

exit codes: 0 done or PASS, 1 FAIL, 2 INCOMPLETE or wrong input, 3 a bug in gdrcheck
"""


_CODE_HELP = "for example PORT-NOT-ACTIVE; PORT alone lists all codes of ports"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: the process's own) and return its exit code."""
    _print_any_name()
    args, unknown = _parser().parse_known_args(argv)
    if unknown:
        # The usage to show is that of the command, not that of all of them.
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    handler: Handler = args.handler
    try:
        code = handler(args)
        sys.stdout.flush()
    except InputError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return INPUT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone, as with `| head`.
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        place = error.filename if error.filename is not None else args.output
        print(f"{place}: " if place else "", error.strerror or error, sep="", file=sys.stderr)
        _drop_what_cannot_be_printed()
        return INPUT_ERROR
    # The outermost hook: Python's own way out would be the exit code of a FAIL.
    except Exception:
        traceback.print_exc()
        return UNFORESEEN
    return code


def _print_any_name() -> None:
    """What a stream cannot encode is an escape there: no result is lost for a letter."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_what_cannot_be_printed() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """What standard output still holds goes nowhere: else Python complains again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gdrcheck",
        description="Tells whether every GPU of a cluster can use every NIC it should, directly.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gdrcheck {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_explain(commands)
    _add_facts(commands)
    _add_topo(commands)
    _add_profile(commands)
    _add_pingpong(commands)
    _add_variables(commands)
    _add_schema(commands)
    _add_prepare(commands)
    _add_node(commands)
    _add_merge(commands)
    _add_results(commands)
    _add_jobs(commands)
    return parser


_Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add(
    commands: _Commands[argparse.ArgumentParser],
    name: str,
    text: str,
    handler: Handler,
    output: str = "standard output",
) -> argparse.ArgumentParser:
    """The parser of a command; ``output`` is what it writes to where an error names no file."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(handler=handler, output=output, parser=parser)
    return parser


def _add_explain(commands: _Commands[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "explain", "what a finding's code means and what to do", _explain)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("code", nargs="?", metavar="CODE", help=_CODE_HELP)
    what.add_argument("--list", action="store_true", help="all codes with their titles")
    what.add_argument("--markdown", action="store_true", help="all codes as a page")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _explain(args: argparse.Namespace) -> int:
    from gdrcheck.commands import explain

    return explain.run(args)


def _add_facts(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.options import add_facts

    add_facts(_add(commands, "facts", "what this machine is: the facts that checks judge", _facts))


def _facts(args: argparse.Namespace) -> int:
    from gdrcheck.commands import facts

    return facts.run(args)


def _add_topo(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.options import add_topo

    text = "PCI Express tree, distance of each GPU to each NIC, and the rails"
    add_topo(_add(commands, "topo", text, _topo))


def _topo(args: argparse.Namespace) -> int:
    from gdrcheck.commands import topo

    return topo.run(args)


def _add_profile(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.options import add_profile

    text = "check a profile, list its keys, or write a first one from facts"
    add_profile(_add(commands, "profile", text, _profile))


def _profile(args: argparse.Namespace) -> int:
    from gdrcheck.commands import profile

    return profile.run(args)


def _add_pingpong(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.pingpong.options import add_pingpong

    text = "prove by hand that GPU memory of two machines reaches each other over RDMA"
    add_pingpong(_add(commands, "pingpong", text, _pingpong))


def _pingpong(args: argparse.Namespace) -> int:
    from gdrcheck.commands.pingpong import command

    return command.run(args)


def _add_variables(commands: _Commands[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "variables", "the inventory variables that gdrcheck knows", _variables)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _variables(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from gdrcheck.variables import VARIABLES, as_text

    if args.json:
        _print_json([asdict(variable) for variable in VARIABLES])
    else:
        print(as_text(VARIABLES))
    return OK


def _add_schema(commands: _Commands[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "schema", "the JSON Schemas of gdrcheck's files", _schema)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", metavar="NAME", help="for example events")
    what.add_argument("--list", action="store_true", help="the names of all schemas")
    what.add_argument("--write", type=Path, metavar="DIR", help="write all of them to DIR")


def _schema(args: argparse.Namespace) -> int:
    from gdrcheck import schemas

    if args.list:
        print("\n".join(schemas.names()))
    elif args.write is not None:
        for path in schemas.write(args.write):
            print(path)
    else:
        print(schemas.schema_text(args.name), end="")
    return OK


def _add_prepare(commands: _Commands[argparse.ArgumentParser]) -> None:
    text = "check inventory and profiles and make a run's folder; for the playbook"
    parser = _add(commands, "prepare", text, _prepare, output="")
    parser.epilog = "Reads the inventory as JSON from standard input, answers in JSON."
    parser.add_argument(
        "--playbook-dir", type=Path, required=True, metavar="DIR", help="folder of the playbook"
    )
    parser.add_argument(
        "--results-dir",
        type=Path,
        metavar="DIR",
        help="folder for the results of all runs (default: gdrcheck_results_dir)",
    )


def _prepare(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gdrcheck.prepare import MAX_INPUT_BYTES, parse_inventory, prepare

    inventory = parse_inventory(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1))
    prepared = prepare(inventory, args.playbook_dir, args.results_dir, datetime.now(UTC))
    print(prepared.model_dump_json())
    return OK


def _add_node(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.node.options import add_arguments

    text = "run the checks of one node; the container's entry point"
    add_arguments(_add(commands, "node", text, _node, output=""))


def _node(args: argparse.Namespace) -> int:
    from gdrcheck.node.command import run_node

    return run_node(
        run_file=args.run,
        secret_file=args.secret,
        node=args.node,
        out=args.out,
        lock=args.lock,
        present=args.present,
    )


def _add_merge(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.results.options import add_arguments

    text = "merge the results of all nodes into one JUnit file and one verdict"
    add_arguments(_add(commands, "merge", text, _merge, output=""))


def _merge(args: argparse.Namespace) -> int:
    from gdrcheck.report import page
    from gdrcheck.results import merge

    return merge.main(args, page.write)


def _add_results(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.result_options import COMMANDS

    for command in COMMANDS:
        command.add(_add(commands, command.name, command.text, command.handler, output=""))


def _add_jobs(commands: _Commands[argparse.ArgumentParser]) -> None:
    from gdrcheck.commands.job_options import COLLECT, KUBERNETES, OF_KUBERNETES

    group = commands.add_parser("kubernetes", help=KUBERNETES, description=KUBERNETES)
    of_group = group.add_subparsers(required=True, metavar="COMMAND")
    for parent, command in ((commands, COLLECT), *((of_group, one) for one in OF_KUBERNETES)):
        command.add(_add(parent, command.name, command.text, command.handler, output=""))


def _print_json(data: object) -> None:
    import json

    print(json.dumps(data, indent=2, ensure_ascii=False))
