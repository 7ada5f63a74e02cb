"""``gdrcheck merge``: the files of all nodes become one JUnit file, one summary, one verdict."""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gdrcheck.ib_links import IbLinks
from gdrcheck.outcome import InputError, Outcome
from gdrcheck.results import (
    blame,
    cabling,
    console,
    data,
    data_build,
    differences,
    fleet,
    folder,
    foreign,
    junit,
    junit_limits,
    plain,
    reproduce,
    states,
    summary,
    waivers,
)
from gdrcheck.results.arrivals import all_reports
from gdrcheck.results.cases import FLEET, PAIRS, CaseResult
from gdrcheck.results.files import write_atomic
from gdrcheck.results.incoming import JUNIT_FILE, NodeReport
from gdrcheck.results.owed import missing_cases
from gdrcheck.results.pairs import missing_pairs
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.results.steps import Steps
from gdrcheck.results.summary import Summary
from gdrcheck.results.verdict import judge
from gdrcheck.results.wide import WidePairs
from gdrcheck.results.wide_rails import WideRails
from gdrcheck.run import RunSpec

SUMMARY_FILE = "summary.json"
EXTRA_DIRECTORY = "extra_junit"
PASSED = Outcome.PASSED


def main(args: argparse.Namespace, write_page: Callable[[Path], object]) -> int:
    """The command; returns 0 PASS, 1 FAIL, 2 INCOMPLETE. InputError for unusable input.

    ``write_page`` makes the page of the folder, when all other files of the merge are there.
    """
    told = _read_states(args.states) if args.states is not None else None
    steps = Steps(sys.stderr)
    with folder.alone(args.results_dir):
        # A large run is millions of objects that stay to the end: there is nothing to collect.
        with _without_collector():
            result = merge(args.results_dir, told, args.extra_junit, steps)
        with steps.step("writing the page"):
            write_page(args.results_dir)
    if args.json:
        print(result.model_dump_json(indent=2))
    else:
        print(console.text(result, args.results_dir))
    return result.verdict.exit_code


@contextmanager
def _without_collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def merge(
    results_dir: Path,
    told: SeenStates | None,
    extra_dir: Path | None = None,
    steps: Steps | None = None,
) -> Summary:
    """Write junit.xml, summary.json and data.json.gz into ``results_dir``; returns the summary.

    Reads run.json and nodes/<node>/ there. ``told`` is kept there as states.json; None: the kept
    one counts. A node that the states do not name did its part if it left results. InputError when
    run.json or the states cannot be used; whatever a node or another tool sent becomes a case
    instead. The run's secret is removed at the end. ``steps`` is told what is being done.
    """
    steps = steps or Steps(None)
    spec = folder.read_run(results_dir)
    seen = told if told is not None else folder.kept_states(results_dir)
    strangers = sorted(set(seen.nodes) - {node.name for node in spec.nodes})
    if strangers:
        source = "states" if told is not None else str(results_dir / folder.STATES_FILE)
        names = plain.one_line(", ".join(strangers))
        raise InputError(f"{source}: nodes that are not in the run: {names}")
    if extra_dir is not None and not extra_dir.is_dir():
        raise InputError(
            f"--extra-junit {extra_dir}: no such folder; expected one with JUnit files"
        )
    links = folder.ib_links(results_dir)
    extra = [one for one in (results_dir / EXTRA_DIRECTORY, extra_dir) if one is not None]
    foreign_cases = foreign.read_directories(extra)
    with steps.step("reading what the nodes sent, node", len(spec.nodes)):
        wide = WidePairs(spec)
        reports = all_reports(results_dir, spec, seen, steps, wide)
    with steps.step("looking for what is missing"):
        node_states = {name: _state(report, seen) for name, report in reports.items()}
        cases = _cases(spec, reports, node_states, links, wide)
        cases += foreign_cases
    with steps.step(f"judging {len(cases)} cases"):
        rails = WideRails(wide) if wide else None
        result = plain.in_lines(_summary(spec, seen, cases, reports, node_states, wide, rails))
    with steps.step(f"making {data.DATA_FILE}"):
        everything = data_build.build(spec, cases, reports, wide)
    with steps.step(f"making {JUNIT_FILE}"):
        xml = junit.document(
            junit_limits.fit(_suites(spec, cases, wide), rails),
            hosts={node.name: node.name for node in spec.nodes},
            properties=_properties(result),
            timestamp=f"{spec.created:%Y-%m-%dT%H:%M:%S}",
            versions={node.name: node.versions for node in everything.nodes},
        )
    # Should a write fail, the page of an earlier merge must not look like that of this one.
    (results_dir / console.REPORT_FILE).unlink(missing_ok=True)
    if told is not None:
        folder.keep_states(results_dir, told)
    write_atomic(results_dir / JUNIT_FILE, xml)
    write_atomic(results_dir / SUMMARY_FILE, result.model_dump_json(indent=2).encode() + b"\n")
    with steps.step(f"writing {data.DATA_FILE}"):
        data.write(results_dir / data.DATA_FILE, everything)
    folder.remove_secret(results_dir)
    return result


def _cases(
    spec: RunSpec,
    reports: Mapping[str, NodeReport],
    node_states: Mapping[str, SeenState],
    links: IbLinks | None,
    wide: WidePairs,
) -> list[CaseResult]:
    """Every case of the run but those of other tools, waivers applied."""
    cases: list[CaseResult] = []
    for name, report in reports.items():
        cases += report.cases or [fleet.no_result(name, node_states[name])]
    cases = _once(cases)
    cases += missing_cases(spec, reports, node_states)
    cases += missing_pairs(spec, cases, reports, node_states, wide)
    cases = waivers.apply(spec, cases)
    compared = [
        *differences.all_differences(spec, reports),
        *cabling.all_cabling(spec, reports, links),
    ]
    return [
        *cases,
        *fleet.every_node_reported(reports, node_states),
        *fleet.profiles_promise_enough(spec),
        *fleet.promises_measured(spec),
        fleet.same_image(spec, reports),
        fleet.pairs_measured(spec, cases, pairs_passed=wide.passed),
        *fleet.waivers_current(spec),
        *waivers.apply(spec, compared),
    ]


def _once(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """A name that is claimed again stays with the first; each further claim is an error."""
    if len({case.id for case in cases}) == len(cases):
        return list(cases)
    seen: dict[str, set[str]] = defaultdict(set)
    again: Counter[tuple[str, str]] = Counter()
    kept = []
    for case in cases:
        ids = seen[case.suite]
        if case.id in ids:
            again[case.suite, case.id] += 1
            case = replace(
                case,
                id=f"{case.id} (#{again[case.suite, case.id] + 1})",
                outcome=Outcome.ERROR,
                message=f"another result for {case.id}: {case.outcome} {case.message}",
            )
        else:
            ids.add(case.id)
        kept.append(case)
    return kept


def _state(report: NodeReport, seen: SeenStates) -> SeenState:
    if report.node in seen.nodes:
        state = seen.nodes[report.node]
        if seen.check_mode and state.state == "ok":
            return SeenState(state="no result", reason="check mode: nothing measured")
        return state
    if report.cases:
        return SeenState(state="ok")
    return SeenState(state="no result", reason="nothing arrived")


def _summary(
    spec: RunSpec,
    seen: SeenStates,
    cases: Sequence[CaseResult],
    reports: Mapping[str, NodeReport],
    node_states: Mapping[str, SeenState],
    wide: WidePairs,
    rails: WideRails | None,
) -> Summary:
    judged = judge(cases, pairs_passed=wide.passed)
    # Nearly all cases just passed: of those most parts of a summary have nothing to say.
    notable = [
        case for case in cases if case.outcome is not PASSED or case.findings or case.waivers
    ]
    applied = dict.fromkeys(waiver for case in notable for waiver in case.waivers)
    return Summary(
        run_id=spec.run_id,
        gdrcheck_version=spec.gdrcheck_version,
        created=spec.created,
        verdict=judged.verdict,
        reasons=judged.reasons,
        check_mode=seen.check_mode,
        limited_to=spec.limited_to,
        emulated=any(summary.is_emulated(report) for report in reports.values()),
        software_rdma=any(summary.has_software_rdma(report) for report in reports.values()),
        image_id=spec.image_id,
        counts=summary.counts(cases, wide.counts()),
        findings=summary.findings(notable),
        failed_without_finding=summary.failed_without_finding(notable),
        unmeasured=summary.unmeasured(notable, wide=bool(wide)),
        suspects=blame.suspects(cases, rails),
        reproduce=reproduce.reproductions(spec, notable, reports),
        waivers=tuple(applied),
        nodes=summary.node_summaries(spec, notable, reports, node_states),
        duration_s=summary.duration_s(reports),
    )


def _suites(
    spec: RunSpec, cases: Sequence[CaseResult], wide: WidePairs
) -> dict[str, list[CaseResult]]:
    """Nodes in the run's order, then pairs, fleet, and other tools' files."""
    suites: dict[str, list[CaseResult]] = defaultdict(list)
    for case in cases:
        suites[case.suite].append(case)
    if wide:
        # Also where no case of a pair has anything to tell.
        suites[PAIRS] += ()
    order = dict.fromkeys((*(node.name for node in spec.nodes), PAIRS, FLEET, *suites))
    return {name: suites[name] for name in order if name in suites}


def _properties(result: Summary) -> dict[str, str]:
    properties = {
        "run_id": result.run_id,
        "verdict": str(result.verdict),
        "scope": result.scope,
        "gdrcheck_version": result.gdrcheck_version,
        "image_id": result.image_id,
    }
    if result.limited_to:
        properties["limited_to"] = result.limited_to
    if result.emulated:
        properties["EMULATED"] = "true"
    if result.software_rdma:
        properties["SOFT-ROCE"] = "true"
    return properties


def _read_states(source: str) -> SeenStates:
    if source == "-":
        return states.parse(sys.stdin.buffer.read(folder.MAX_STATES_BYTES), "standard input")
    try:
        return states.parse(Path(source).read_bytes(), source)
    except OSError as error:
        raise InputError(f"--states {source}: {error.strerror}") from error
