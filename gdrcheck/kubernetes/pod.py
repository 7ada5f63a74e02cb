"""``gdrcheck kubernetes pod``: the whole of a pod's life, from its arrival to its exit code."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from gdrcheck.kubernetes import sonobuoy
from gdrcheck.kubernetes.document import JobDocument, make_document, states_of
from gdrcheck.kubernetes.follower import Follower, NeverArrived
from gdrcheck.kubernetes.judging import absent_text, judge_run, leaders_code
from gdrcheck.kubernetes.leader import Leader
from gdrcheck.kubernetes.node_process import NODE_COMMAND, node_argv, run_node_process
from gdrcheck.kubernetes.place import OwnPlace, log_node, log_run, make_run_folder, run_text
from gdrcheck.kubernetes.settings import Settings
from gdrcheck.kubernetes.waits import measuring_s
from gdrcheck.node.clock import Stop
from gdrcheck.outcome import GdrcheckError, PeerError, Verdict
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.job_messages import MAX_ARCHIVE_BYTES, Arrived, JobVerdict
from gdrcheck.results import console, waivers
from gdrcheck.results.incoming import DONE_FILE, JUNIT_FILE, read_node
from gdrcheck.results.pack import pack
from gdrcheck.results.verdict import judge

FAIL, INCOMPLETE = 1, 2
# For the last words of a pod that was told to end, and will be ended by force soon.
HURRY_S = 5.0

WritePage = Callable[[Path], object]


class Say:
    """Prints whole lines, whoever calls; a block's lines may have others between them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)


class Pod:
    """One pod. ``command`` starts the node's own part; ``write_page`` makes the page of a run."""

    def __init__(
        self,
        settings: Settings,
        write_page: WritePage,
        *,
        sonobuoy_dir: Path | None = None,
        command: Sequence[str] = NODE_COMMAND,
    ) -> None:
        self._settings = settings
        self._write_page = write_page
        self._sonobuoy_dir = sonobuoy_dir
        self._command = command
        self._say = Say()
        self._stop = Stop()

    def run(self) -> int:
        """The whole life; the exit code by what is held against this pod's own node.

        Installs handlers for SIGTERM and SIGINT, so it wants the main thread.
        """
        _stop_on_signals(self._stop)
        _log_with(self._say)
        settings = self._settings
        self._say(
            f"pod {settings.me} of {settings.pods} on node {settings.node}, "
            f"at {settings.address}: profile {settings.profile_name}"
        )
        try:
            code = self._lead() if settings.leads else self._follow()
        except (GdrcheckError, OSError) as error:
            self._say(f"INCOMPLETE: {error}")
            code = INCOMPLETE
        self._say(f"exit code {code}: " + _EXIT_WORDS[code])
        return code

    def _lead(self) -> int:
        settings, say, waits = self._settings, self._say, self._settings.waits
        with Leader(settings) as leader:
            say(f"waiting for {settings.pods - 1} other pods, {settings.arrival_s:g} s at most")
            arrived, document = leader.begin(settings.arrival_s, self._stop, datetime.now(UTC))
            deadline = Deadline.after(waits.gathering_s(settings.scaled))
            say(f"run {document.run.run_id}: {', '.join(document.present)}")
            knocked = leader.knocked
            if missing := absent_text(document):
                say(f"{missing}{'; ' if knocked else ''}{knocked}")
            archive, why = self._measure(document)
            say("gathering the results of the other pods")
            archives, lost = leader.gather(deadline, self._stop)
            for node, reason in lost.items():
                say(f"{node}: {reason}")
            place = make_run_folder(
                settings.results, document, {settings.node: archive, **archives}, settings.ib_links
            )
            if why:
                lost = {**lost, settings.node: why}
            seen = states_of(settings, arrived, lost, knocked)
            summary, verdicts = judge_run(place, seen, self._write_page)
            say(console.text(summary, place))
            leader.tell(verdicts, HURRY_S if self._stop.reason else waits.farewell_s)
            log_run(say, document, settings.node, place, summary)
            self._deliver(place / JUNIT_FILE)
            own = verdicts.pop(settings.node)
            self._tell_why(own)
            others = [verdicts[node].exit_code for node in document.present if node in verdicts]
            code = leaders_code(summary.verdict, own.exit_code, others)
            if code != own.exit_code:
                say("nothing is held against any pod's own node: index 0 speaks for the run")
            return code

    def _follow(self) -> int:
        settings, say = self._settings, self._say
        with ExitStack() as stack:
            follower = stack.enter_context(Follower(settings))
            say(f"reporting to index 0 at {settings.leader_host} port {settings.job_port}")
            try:
                document = follower.document(self._stop)
            except NeverArrived as error:
                return self._alone(error)
            say(f"run {document.run.run_id}: {', '.join(document.present)}")
            deadline = Deadline.after(settings.waits.verdict_s(settings.scaled))
            archive, _ = self._measure(document)
            if len(archive) > MAX_ARCHIVE_BYTES:
                say(f"{len(archive)} bytes of results are more than index 0 takes")
                archive = b""
            follower.deliver(archive)
            self._deliver(self._place(document).out / JUNIT_FILE)
            say("waiting for the verdict of the run")
            try:
                verdict = follower.verdict(deadline, self._stop)
            except PeerError as error:
                return self._unjudged(document, error)
            say(f"verdict of the run: {verdict.verdict}")
            self._tell_why(verdict)
            return verdict.exit_code

    def _alone(self, error: PeerError) -> int:
        """Index 0 never came: this node is measured by itself, so that its log has that much."""
        settings = self._settings
        self._say(f"{error}; this node is measured alone")
        own = Arrived(
            index=settings.index, token="0" * 32, node=settings.node, address=settings.address
        )
        document = make_document(settings, (own,), datetime.now(UTC))
        self._measure(document)
        self._deliver(self._place(document).out / JUNIT_FILE)
        return self._unjudged(document, error)

    def _place(self, document: JobDocument) -> OwnPlace:
        return OwnPlace.of(self._settings.results, document.run.run_id, self._settings.node)

    def _measure(self, document: JobDocument) -> tuple[bytes, str]:
        """This node's own part: its results, which are then in the log as well, and why its process
        did not end in order if that is so."""
        settings = self._settings
        place = self._place(document)
        place.make()
        place.run_file.write_bytes(run_text(document))
        argv = node_argv(settings, document, place.run_file, place.out, self._command)
        deadline = Deadline.after(measuring_s(settings.scaled))
        why = run_node_process(argv, place.out, deadline, self._stop, self._say)
        if why:
            self._say(why)
            # Its last word was too early: whoever reads the results, index 0 or not, shall see it.
            (place.out / DONE_FILE).unlink(missing_ok=True)
        archive = pack(place.out)
        log_node(self._say, document, settings.node, archive)
        return archive, why

    def _unjudged(self, document: JobDocument, error: PeerError) -> int:
        """The exit code when nobody judged the run: never 0. This node's results are in its log."""
        self._say(f"INCOMPLETE: no verdict of the run: {error}")
        self._say("what this node measured is in this log: gdrcheck collect --from-log FILE")
        node = self._settings.node
        report = read_node(self._place(document).out, node, document.run.run_id, "not run")
        own = [case for case in report.cases if case.suite == node]
        verdict = judge(waivers.apply(document.run, own)).verdict
        return FAIL if verdict is Verdict.FAIL else INCOMPLETE

    def _tell_why(self, verdict: JobVerdict) -> None:
        for line in verdict.why:
            self._say(f"{self._settings.node}: {line}")

    def _deliver(self, junit: Path) -> None:
        if self._sonobuoy_dir is not None:
            sonobuoy.deliver(self._sonobuoy_dir, junit)


_EXIT_WORDS = {
    0: "nothing is held against this node",
    1: "this node is not as promised",
    2: "not everything of this node, or of the run, was measured",
}


def _stop_on_signals(stop: Stop) -> None:
    def handle(number: int, _frame: FrameType | None) -> None:
        stop.request(f"stopped by {signal.Signals(number).name}")

    # PID 1 ignores signals that it has no handler for.
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


class _SayHandler(logging.Handler):
    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(self.format(record))


def _log_with(say: Say) -> None:
    handler = _SayHandler(say)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("gdrcheck")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
