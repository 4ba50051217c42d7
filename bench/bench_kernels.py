"""Our kernels beside the peers that are installed, in one interleaved run; see README.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from contenders import contender_module, contender_names
from measure import Process, Row, measure
from report import lines_of, row_as_json, table_of
from wia_compiler.profiler.ceilings import measured_ceilings
from workloads import chosen


def main() -> int:
    """Parse the command line, run the chosen workloads, print the table."""
    options = _options()
    if options.requires:
        print("\n".join(contender_module(options.requires).REQUIRES))
        return 0
    names = [name for name in options.contenders.split(",") if name] or contender_names()
    processes: list[Process] = []
    for name in names:
        process = Process(name, options.threads)
        if process.fault:
            print(f"{name}: left out, {process.fault}")
        else:
            processes.append(process)
            print(f"{name} {process.greeting['version']}", flush=True)
    rows: list[Row] = []
    workloads = list(chosen(options.only, options.grow))
    try:
        for row in measure(workloads, processes, options.threads, options.seconds):
            rows.append(row)
            print(lines_of(row), flush=True)
    finally:
        for process in processes:
            process.close()
    table = table_of(
        rows, [process.name for process in processes], measured_ceilings(threads=options.threads)
    )
    print(f"\n{table}")
    if options.markdown:
        Path(options.markdown).write_text(table + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps([row_as_json(row) for row in rows], indent=2))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose names hold one of these words")
    parser.add_argument("--contenders", default="", help="names, by commas; default: all there are")
    parser.add_argument("--threads", type=int, default=1, help="threads of every contender")
    parser.add_argument("--seconds", type=float, default=6.0, help="sampling time per workload")
    parser.add_argument("--grow", type=int, default=1, help="times as much work: 4, 16")
    parser.add_argument("--markdown", help="a file for the table")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument(
        "--requires", metavar="NAME", help="print what pip installs for a contender"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
