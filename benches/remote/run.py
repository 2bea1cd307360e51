"""Run the comparison, in the environment that the readers have."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compare import plans, workloads
from ..compare.options import affinity
from ..compare.results import machine, revision
from . import ideal, programs, report
from .measure import Bench, Outcome, Server, measure_decode, measure_turns
from .methods import METHODS, Method
from .options import Options, parse
from .workloads import ALL

if TYPE_CHECKING:
    from ..compare.environments import Environment
    from ..compare.workloads import Workload


def main() -> int:
    """Run what was asked for. Gives the exit code: 1 if a result was wrong or zarrow failed."""
    options = parse()
    affinity(options.threads)
    chosen = [each for each in ALL if options.wants_workload(each.name)]
    methods = [each for each in METHODS.values() if options.wants_method(each.name)]
    if not chosen:
        sys.exit(f"no workload is named {' or '.join(options.workloads)}; see ARGS=--list")
    if options.list_only:
        print(*(f"{each.name}: {each.title}; {each.detail}" for each in chosen), sep="\n")
        print(*(f"  {each.name}" for each in methods), sep="\n")
        return 0
    found = programs.load()
    results = {
        "date": time.strftime("%Y-%m-%d"),
        "scale": options.scale.name,
        "threads": options.threads,
        "machine": machine(),
        "revision": revision(),
        "packages": {"python": found.version, **found.packages},
        "conditions": [each.name for each in options.conditions],
        "turns": measure_turns(options),
        "workloads": [],
    }
    failures: list[str] = []
    for workload in chosen:
        failures += compare(workload, methods, found, options, results)
    print(f"Written: {options.output / 'results.md'}, results.json")
    for failure in failures:
        print(f"\nWRONG: {failure}", file=sys.stderr)
    return bool(failures)


def compare(
    workload: Workload,
    methods: list[Method],
    found: Environment,
    options: Options,
    results: dict[str, Any],
) -> list[str]:
    """Measure a workload under all conditions. Gives what must not be."""
    case = workloads.ensure(workload, options.folder, options.scale)
    source = options.folder / "data" / workload.dataset
    keys = [str(Path(path).relative_to(source)) for path in case.paths]
    plan = plans.ensure(case, options.folder)
    ranges = ideal.write(case, plan, source)
    decode = measure_decode(plan, case, options)
    entry = {
        "name": case.name,
        "title": case.title,
        "detail": case.detail,
        "selections": case.count,
        "decode": decode,
        "rows": [],
    }
    results["workloads"].append(entry)
    fitting = [
        method
        for method in methods
        if (method.quick or options.scale.all_methods) and not (method.one_axis and case.ndim > 1)
    ]
    outcomes: list[Outcome] = []
    server = Server(source)
    bench = Bench(case, keys, server, found, options)
    try:
        for condition in options.conditions:
            for label, file in ranges.items():
                outcomes += bench.measure_ideal(file, label, decode, condition)
            outcomes += [bench.measure(method, condition) for method in fitting]
            entry["rows"] = list(map(report.as_row, outcomes))
            print(f"\n{report.section(entry, condition.name)}", flush=True)
            report.save(results, options.output)  # a run that is stopped leaves what it has
    finally:
        server.close()
    return [
        f"{case.name} at {each.condition}, {each.method}: {each.note or 'not the values of NumPy'}"
        for each in outcomes
        if each.equal is False or (each.kind == "zarrow" and each.note)
    ]


if __name__ == "__main__":
    sys.exit(main())
