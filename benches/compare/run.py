"""Run the comparison, in the environment that has NumPy, zarr-python and matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import environments, figure, plans, report, results, workloads
from .measure import Outcome, measure
from .methods import METHODS, Facts, Method
from .options import Options, affinity, parse

if TYPE_CHECKING:
    from .case import Case
    from .workloads import Workload


def main() -> int:
    """Run what was asked for. Gives the exit code: 1 if a result was wrong or zarrow failed."""
    options = parse()
    affinity(options.threads)
    chosen = [each for each in workloads.WORKLOADS.values() if options.wants_workload(each.name)]
    methods = [each for each in METHODS.values() if options.wants_method(each.name, each.kind)]
    if not chosen:
        sys.exit(f"no workload is named {' or '.join(options.workloads)}; see ARGS=--list")
    if options.list_only:
        print(
            "Workloads:",
            *(f"  {each.name:12} {each.title}; {each.detail}" for each in chosen),
            sep="\n",
        )
        print("Methods:", *(f"  {each.name}" for each in methods), sep="\n")
        return 0
    found = environments.load()
    findings = results.begin(options, found)
    failures: list[str] = []
    for workload in chosen:
        case = workloads.ensure(workload, options.folder, options.scale)
        outcomes = compare(workload, case, methods, found, options)
        entry = results.entry(case, outcomes)
        findings["workloads"].append(entry)
        print(f"\n{report.section(entry)}", flush=True)
        report.save(findings, options.output)  # after each: a run that is stopped leaves the rest
        failures += wrong(workload, outcomes)
    print(f"\n{report.overview(findings)}\n")
    figure.draw(findings, options.figure)
    print(f"Written: {options.output / 'results.md'}, results.json, {options.figure}")
    for failure in failures:
        print(f"\nWRONG: {failure}", file=sys.stderr)
    return bool(failures)


def compare(
    workload: Workload,
    case: Case,
    methods: list[Method],
    found: list[environments.Environment],
    options: Options,
) -> list[Outcome]:
    """Measure the methods that fit a workload, and say of the others why they do not."""
    csr = workload.dataset == "cells"
    facts = Facts(case.count, case.ndim, csr=csr, npy=case.npy is not None, cold=case.cold)
    fitting, outcomes = [], []
    for method in methods:
        reason = method.refuses(facts)
        if reason is None and (method.quick or options.scale.all_methods):
            fitting.append(method)
        elif reason:
            outcomes.append(Outcome(method.name, method.kind, note=reason))
    plan = plans.ensure(case, options.folder)
    warm(case)
    return measure(case, fitting, found, plan, options) + outcomes


def warm(case: Case) -> None:
    """Read all files once, so that they are in the page cache."""
    paths = [*map(Path, case.paths), *filter(None, [case.npy])]
    for path in paths:
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file():
                file.read_bytes()


def wrong(workload: Workload, outcomes: list[Outcome]) -> list[str]:
    """Say what must not be: results that differ from NumPy's, and errors of zarrow or the limit."""
    return [
        f"{workload.name}, {outcome.method}: {outcome.note or 'not equal to the result of NumPy'}"
        for outcome in outcomes
        if outcome.equal is False or (outcome.kind != "peer" and outcome.note)
    ]


if __name__ == "__main__":
    sys.exit(main())
