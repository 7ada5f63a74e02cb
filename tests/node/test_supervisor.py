"""What a supervised run leaves behind, whatever its checks do."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from gdrcheck import probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.node.clock import CaseLimit, Elapsed, Stop
from gdrcheck.node.phase import PhasePlan, run_phase
from gdrcheck.node.record import Record
from gdrcheck.outcome import Outcome
from gdrcheck.probes import counters
from gdrcheck.run import Deadlines
from tests.node.support import (
    assignment,
    run_spec,
    short_waits,
    supervised,
    write_checks,
)
from tests.probes import trees


def test_image_is_the_one_that_the_container_was_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDRCHECK_IMAGE_ID", "sha256:really")
    ran = supervised(tmp_path, write_checks(tmp_path, node_a="def check_a(): pass"))
    assert ran.report.run is not None
    assert ran.report.run.image_id == "sha256:really"


def test_a_supervisor_that_breaks_delivers_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ValueError("65 characters\nare too many")

    monkeypatch.setattr("gdrcheck.node.supervisor.ready_rails", breaks)
    checks = write_checks(tmp_path, node_a="def check_a(): pass")
    spec = run_spec("node1", "node2", waits=short_waits())
    ran = supervised(tmp_path, checks, spec=spec)
    assert ran.exit_code == 2
    assert ran.cases["a[node1]"].outcome is Outcome.PASSED
    said = "the supervisor failed: ValueError: 65 characters\\nare too many"
    assert ran.cases["supervisor_completed[node1]"].message == said
    assert ran.report.done is not None
    assert ran.report.done.reason == said


def test_phase_deadline_ends_the_rest(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_slow="""
        def check_slow():
            with step("waiting"):
                time.sleep(60)
        def check_never(): pass
        """,
    )
    waits = Deadlines(
        completion_s=0.1, connect_s=0.2, check_s=2.8, rail_s=2.9, rendezvous_s=1, phase_s=3
    )
    # On a busy machine the phase may end before it planned anything: an error as well.
    ran = supervised(tmp_path, checks, spec=run_spec(waits=waits))
    assert ran.exit_code == 2
    assert {case.outcome for case in ran.report.cases} == {Outcome.ERROR}


def test_stop_ends_the_run_with_a_result_for_each_case(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_stop=f"""
        def check_done(): pass
        def check_running():
            open("{tmp_path}/running", "w").close()
            with step("waiting"):
                time.sleep(60)
        def check_later(): pass
        """,
    )
    stop = Stop()

    def stop_when_running() -> None:
        while not (tmp_path / "running").exists():
            time.sleep(0.05)
        stop.request("stopped by SIGTERM")

    threading.Thread(target=stop_when_running, daemon=True).start()
    ran = supervised(tmp_path, checks, spec=run_spec(waits=short_waits(60, 120)), stop=stop)
    assert ran.cases["done[node1]"].outcome is Outcome.PASSED
    assert "stopped by SIGTERM on node1, while: waiting" in ran.cases["running[node1]"].message
    assert ran.cases["later[node1]"].message == "not run: stopped by SIGTERM"
    assert ran.report.done is not None
    assert ran.report.done.reason == "stopped by SIGTERM"


def test_probes_that_fail_do_not_stop_the_run(tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> Facts:
        raise ZeroDivisionError("sysfs is odd")

    checks = write_checks(tmp_path, node_a="def check_a(): pass")
    ran = supervised(tmp_path, checks, collect=broken)
    assert "sysfs is odd" in ran.cases["facts_read[node1]"].message
    assert ran.cases["a[node1]"].outcome is Outcome.PASSED
    assert ran.exit_code == 2


def test_a_device_whose_driver_hangs_does_not_cost_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, over, read = tmp_path / "root", threading.Event(), counters.read_text
    trees.pci_nic(root, "mlx5_0", "0000:19:00.0", "eth1")
    trees.pci_nic(root, "mlx5_1", "0000:1a:00.0", "eth2")

    def hanging(path: Path) -> str | Unreadable:
        if "mlx5_1" in str(path):
            over.wait()
        return read(path)

    monkeypatch.setattr(counters, "read_text", hanging)
    checks = write_checks(tmp_path, node_a="def check_a(): pass")
    try:
        ran = supervised(tmp_path, checks, collect=partial(probes.collect, root=root))
    finally:
        over.set()
    assert ran.cases["a[node1]"].outcome is Outcome.PASSED
    assert "facts_read[node1]" not in ran.cases
    facts = Facts.model_validate_json((ran.out / "facts.json").read_bytes())
    well, sick = (facts.rdma_device(name) for name in ("mlx5_0", "mlx5_1"))
    assert well is not None
    assert well.ports[0].state == "ACTIVE"
    assert sick is not None
    why = Unreadable(unreadable="mlx5_1: its driver gave no answer within 0.75 s")
    assert sick.ports[0].state == why


def test_held_lock_is_told_and_nothing_runs(tmp_path: Path) -> None:
    checks = write_checks(tmp_path, node_a="def check_a(): pass")
    lock = tmp_path / "lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = supervised(tmp_path, checks, lock=lock)
    (case,) = ran.report.cases
    assert case.outcome is Outcome.ERROR
    assert case.findings[0].code == "RUN-LOCKED"
    assert ran.exit_code == 2
    assert ran.report.done is not None
    assert ran.report.done.reason.startswith("RUN-LOCKED")


def test_nothing_to_run_is_an_error(tmp_path: Path) -> None:
    ran = supervised(tmp_path, write_checks(tmp_path))
    (case,) = ran.report.cases
    assert (case.outcome, ran.exit_code) == (Outcome.ERROR, 2)
    assert "nothing to run" in case.message


def test_a_file_that_does_not_import_does_not_hide_the_others(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path, node_bad="import no_such_module", node_good="def check_good(): pass"
    )
    ran = supervised(tmp_path, checks)
    assert ran.cases["good[node1]"].outcome is Outcome.PASSED
    bad = ran.cases["checks_collected[node1, checks/node/check_bad.py]"]
    assert bad.outcome is Outcome.ERROR
    assert "no_such_module" in bad.message
    assert ran.exit_code == 2


def test_pytest_that_dies_before_its_plan(tmp_path: Path) -> None:
    ran = supervised(tmp_path, write_checks(tmp_path, node_dies="os._exit(9)"))
    message = ran.cases["node_phase_completed[node1]"].message
    assert "process exited with 9 before it planned any case" in message
    assert ran.exit_code == 2


def test_pytest_that_hangs_before_its_plan(tmp_path: Path) -> None:
    task = assignment(tmp_path, run_spec(), write_checks(tmp_path, node_hangs="time.sleep(60)"))
    plan = PhasePlan(
        phase="node",
        checks=task.checks,
        out=task.out,
        options=("--gdrcheck-node=node1", f"--gdrcheck-events={task.out}/events.jsonl"),
        start_s=1,
        case_limit=CaseLimit(60),
        phase_s=60,
    )
    with Record(task.out / "events.jsonl", "node1", Elapsed()) as record:
        run_phase(plan, record, Stop())
        message = record.ledger.ended["node_phase_completed[node1]"].message
    assert "killed after 1 s without a result before it planned any case" in message


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    same = """
    @devices("rxe0")
    def check_same(device): pass
    """
    ran = supervised(tmp_path, write_checks(tmp_path, node_a=same, node_b=same))
    (case,) = ran.report.cases
    assert "same[node1/rxe0]: both" in case.message
    assert case.outcome is Outcome.ERROR


def test_pytest_exit_does_not_drop_the_rest(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_exit="""
        def check_gives_up(): pytest.exit("enough")
        def check_after(): pass
        """,
    )
    ran = supervised(tmp_path, checks)
    assert ran.cases["gives_up[node1]"].outcome is Outcome.ERROR
    assert ran.cases["after[node1]"].outcome is Outcome.PASSED


def test_crash_after_the_last_case_is_an_error(tmp_path: Path) -> None:
    checks = write_checks(
        tmp_path,
        node_late="""
        import atexit
        def check_plants(): atexit.register(os._exit, 11)
        """,
    )
    ran = supervised(tmp_path, checks)
    assert ran.cases["plants[node1]"].outcome is Outcome.PASSED
    assert "outside of any case" in ran.cases["node_phase_completed[node1]"].message
    assert ran.exit_code == 2


def test_sigterm_reaches_the_checks(tmp_path: Path) -> None:
    """The whole command, as the container's PID 1 gets its signal."""
    checks = write_checks(
        tmp_path,
        node_a=f"""
        def check_a():
            open("{tmp_path}/running", "w").write(str(os.getpid()))
            time.sleep(60)
        """,
    )
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "run.json").write_text(run_spec().model_dump_json())
    (tmp_path / "secret").write_text("ab" * 32 + "\n")
    code = f"""
        from pathlib import Path
        import sys
        from gdrcheck.node.command import run_node
        root = Path({str(tmp_path)!r})
        sys.exit(run_node(run_file=root / "run.json", secret_file=root / "secret", node="node1",
                          out=root / "out", checks=root / "checks"))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], text=True)
    while not (tmp_path / "running").exists() or not (tmp_path / "running").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 2
    assert json.loads((out / "done.json").read_text())["reason"] == "stopped by SIGTERM"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "running").read_text()), 0)
    assert checks.is_dir()


def test_supervisor_loads_no_driver() -> None:
    code = (
        "import sys, gdrcheck.node.command; "
        "print([name for name in sys.modules if name.startswith('cuda.') or name.split('.')[0] in "
        "('pyverbs', 'pytest', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
