"""``wia stages``: the stages of a kernel, the text of one, or the difference of two."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Sequence

from wia_compiler.base.record import Decision
from wia_compiler.runtime.cli_commands.common import (
    add_kernel_arguments,
    build_kernel,
    describe_stage,
    print_json,
    print_stages,
    read_kernel,
)

HELP = "list the stages of a kernel, show the text of one, or the difference of two"
EXAMPLES = """\
  wia stages mm.wia --args "A=f32[64,64], B=f32[64,64]"
  wia stages mm.wia --args "A=f32[64,64], B=f32[64,64]" --stage fusion
  wia stages mm.wia --args "A=f32[64,64], B=f32[64,64]" --diff dce fusion
  wia stages mm.wia --chapter"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_kernel_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--stage", "-s", metavar="NAME", help="print the text of this stage")
    what.add_argument(
        "--diff", "-d", nargs=2, metavar=("A", "B"), help="print what changed from stage A to B"
    )
    what.add_argument(
        "--decisions", action="store_true", help="print what was decided, taken or refused, and why"
    )
    what.add_argument(
        "--chapter",
        action="store_true",
        help="print the high-level IR in the notation of WIA-AI-011, chapter 5; needs no --args",
    )


def run(options: argparse.Namespace) -> int:
    """Build, then print what was asked for."""
    if options.chapter:
        text = read_kernel(options).ir("chapter")
        print_json({"form": "chapter", "text": text}) if options.json else print(text)
        return 0
    build = build_kernel(options)
    if options.diff is not None:
        before, after = (build.stage(name) for name in options.diff)
        lines = list(
            difflib.unified_diff(
                before.text.splitlines(),
                after.text.splitlines(),
                before.name,
                after.name,
                "",
                "",
                3,
                "",
            )
        )
        if options.json:
            print_json({"before": before.name, "after": after.name, "diff": lines})
        else:
            print("\n".join(lines) or f"{before.name} and {after.name} are equal")
    elif options.stage is not None:
        stage = build.stage(options.stage)
        if options.json:
            print_json({**describe_stage(stage), "text": stage.text})
        else:
            print(stage.text)
    elif options.decisions:
        _print_decisions(build.trace.decisions, options.json)
    elif options.json:
        print_json([describe_stage(stage) for stage in build.stages])
    else:
        print_stages(build)
    return 0


def _print_decisions(decisions: Sequence[Decision], as_json: bool) -> None:
    if as_json:
        print_json([dataclasses.asdict(decision) for decision in decisions])
        return
    for decision in decisions:
        numbers = ", ".join(f"{name} {value}" for name, value in decision.numbers.items())
        verdict = "taken  " if decision.taken else "refused"
        print(f"{verdict}  {decision.kind}  {decision.candidate}: {decision.reason}")
        if numbers:
            print(f"         {numbers}")
    if not decisions:
        print("no decisions were made")
