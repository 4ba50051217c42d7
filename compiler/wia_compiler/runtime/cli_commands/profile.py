"""``wia profile``: one live run of a kernel and where it stands on the roofline."""

from __future__ import annotations

import argparse

from wia_compiler.runtime.cli_commands.common import (
    add_kernel_arguments,
    print_json,
    read_kernel,
    read_source,
)

HELP = "run a kernel live and say where it stands on the roofline"
EXAMPLES = """\
  wia profile mm.wia --args "A=f32[1024,512], B=f32[512,256]"
  wia profile mm.wia --args "A=f32[512,512], B=f32[512,512]" --json
  wia profile mm.wia --args "A=f32[256,256], B=f32[256,256]" --target gpu --device H200
  wia profile mm.wia --args "A=f32[256,256], B=f32[256,256]" --target gpu --lines source
  wia profile mm.wia --args "A=f32[256,256], B=f32[256,256]" --target gpu --compare my.schedule"""
LINES = ("ptx", "source", "sass")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_kernel_arguments(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="GPU to estimate the time of where the simulator runs (default: by the target)",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--lines",
        choices=LINES,
        help="counts of each line of the PTX, of the source or of the SASS instead (GPU targets)",
    )
    shown.add_argument(
        "--compare",
        metavar="FILE",
        nargs="?",
        const="",
        help="side by side with another schedule on the same inputs (a file, or default); without "
        "FILE counters simulated beside measured",
    )


def run(options: argparse.Namespace) -> int:
    """Profile on random inputs and print the result."""
    from wia_compiler.runtime.argument_text import parse_arguments
    from wia_compiler.runtime.random_inputs import random_arguments
    from wia_compiler.runtime.schedules import DEFAULT

    kernel = read_kernel(options)
    given = parse_arguments(options.args)
    arguments = random_arguments(kernel.signature, given, seed=options.seed)
    profile = kernel.profile(*arguments, device=options.device)
    shown = profile
    if options.lines is not None:
        table = profile.lines
        views = {"ptx": lambda: table, "source": table.by_source, "sass": table.by_sass}
        shown = views[options.lines]()
    elif options.compare is not None:
        other: str = options.compare
        if other and other != DEFAULT:
            other = read_source(other).text
        given = kernel.build(*arguments, schedule=other) if other else None
        shown = profile.compare(given)
    if options.json:
        print_json(shown.to_data())
    else:
        print(shown)
    return 0
