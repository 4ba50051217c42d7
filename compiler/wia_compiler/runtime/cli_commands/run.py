"""``wia run``: run a kernel on random inputs and compare it with the reference."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from wia_compiler.runtime.cli_commands.common import (
    add_kernel_arguments,
    print_json,
    print_table,
    read_kernel,
)

if TYPE_CHECKING:
    from wia_compiler.runtime.comparison import Comparison

HELP = "run a kernel on random inputs and compare the result with the reference"
EXAMPLES = """\
  wia run mm.wia --args "A=f32[1024,512], B=f32[512,256]"
  wia run saxpy.wia --args "x=f32[1000], y=f32[1000], alpha=2.0" --seed 7
  wia run mm.wia --args "A=f32[200,300], B=f32[300,100]" --target tpu
  wia run tiled.cpp --args "A=f32[65,33], B=f32[33,70]" --debug"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_kernel_arguments(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs (default: 5)")


def run(options: argparse.Namespace) -> int:
    """Run, time and compare; 1 where the result is wrong."""
    from wia_compiler.runtime.argument_text import parse_arguments
    from wia_compiler.runtime.comparison import compare_results
    from wia_compiler.runtime.random_inputs import random_arguments
    from wia_compiler.runtime.reference_call import reference

    kernel = read_kernel(options)
    given = parse_arguments(options.args)
    arguments = random_arguments(kernel.signature, given, seed=options.seed)
    build = kernel.build(*arguments)
    call = build.prepare(*arguments)
    counters = dict(call.execute())
    times_ns = [_time_ns(call.execute) for _ in range(max(1, options.repeat))]
    expected: Any = reference(kernel, *arguments)
    if len(build.outputs) == 1:
        expected = (expected,)
    comparisons = compare_results(build, call.inputs, call.outputs, expected)
    time_ns = int(np.median(times_ns))
    correct = all(comparison.agrees for comparison in comparisons)
    if options.json:
        print_json(
            {
                "kernel": build.kernel,
                "target": build.target.name,
                "time_ns": time_ns,
                "times_ns": times_ns,
                "flops": build.flops,
                "size_bytes": build.size_bytes,
                "counters": counters,
                "cache": build.cache.hit,
                "correct": correct,
                "results": [{**vars(c), "agrees": c.agrees} for c in comparisons],
            }
        )
    else:
        print(build)
        print(f"time {time_ns / 1e3:.1f} µs (median of {len(times_ns)}), {build.flops} flops")
        for name, value in counters.items():
            print(f"{name}: {value}")
        _print_comparisons(comparisons)
    return 0 if correct else 1


def _print_comparisons(comparisons: list[Comparison]) -> None:
    print_table(
        ("result", "is", "mean", "largest difference", "allowed", "reference"),
        [
            (
                comparison.name,
                comparison.result,
                f"{comparison.mean:.6g}",
                f"{comparison.largest_difference:.3g}",
                f"{comparison.allowed:.3g}",
                "agrees" if comparison.agrees else "DISAGREES",
            )
            for comparison in comparisons
        ],
    )


def _time_ns(function: Any) -> int:
    started = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - started
