"""The commands about Kubernetes Jobs, with their options. Light: every help needs this."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gdrcheck.commands.result_options import Command
from gdrcheck.kubernetes.render_options import add_arguments as add_render

COLLECT_EXAMPLES = """\
examples:
  kubectl -n gdrcheck logs -l job-name=gdrcheck -c gdrcheck --prefix --tail=-1 \\
      --ignore-errors > pods.log
  gdrcheck collect --from-log pods.log
  gdrcheck collect --from-log pod0.log pod1.log --out results

exit codes: 0 PASS, 1 FAIL, 2 INCOMPLETE, or logs that do not hold the results of one run
"""
POD_TEXT = """\
Nothing to start by hand: the Job that gdrcheck kubernetes render makes does it.

Reads its environment: JOB_COMPLETION_INDEX, NODE_NAME, POD_IP, GDRCHECK_PODS, and optionally
GDRCHECK_JOB, GDRCHECK_SERVICE, GDRCHECK_LEADER, GDRCHECK_PORT, GDRCHECK_JOB_PORT, GDRCHECK_ROUNDS,
GDRCHECK_TIME_SCALE, GDRCHECK_DEADLINES, GDRCHECK_ARRIVAL_S, GDRCHECK_IMAGE_ID, GDRCHECK_LOCK; and
below /run/gdrcheck: profile/NAME.yml, secret/secret, host/, results/.

exit codes: 0 nothing is held against this node, 1 it is not as promised, 2 not all was measured
"""


def _add_collect(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck collect`` to ``parser``."""
    parser.epilog = COLLECT_EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--from-log",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="logs of the pods, each whole; that of index 0 is enough unless results are large",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder for the results of all runs; DIR/RUN-ID is made (default: results)",
    )


def _add_pod(parser: argparse.ArgumentParser) -> None:
    """Add what help says about ``gdrcheck kubernetes pod`` to ``parser``; it has no options."""
    parser.epilog = POD_TEXT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def _collect(args: argparse.Namespace) -> int:
    from gdrcheck.kubernetes.collect import collect
    from gdrcheck.report import page

    return collect(args.from_log, args.out, page.write)


def _render(args: argparse.Namespace) -> int:
    from gdrcheck.kubernetes import render

    return render.run(args)


def _pod(_args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gdrcheck.kubernetes import sonobuoy
    from gdrcheck.kubernetes.pod import Pod
    from gdrcheck.kubernetes.settings import read_settings
    from gdrcheck.report import page

    settings = read_settings(os.environ, today=datetime.now(UTC).date())
    return Pod(settings, page.write, sonobuoy_dir=sonobuoy.folder_of(os.environ)).run()


KUBERNETES = "run the checks as a Kubernetes Job"
OF_KUBERNETES = (
    Command("render", "write the manifests of a Job for a profile", add_render, _render),
    Command("pod", "one pod of the Job; its container's entry point", _add_pod, _pod),
)
COLLECT = Command(
    "collect",
    "make the folder of a run out of the logs of a Job's pods, and judge it",
    _add_collect,
    _collect,
)
