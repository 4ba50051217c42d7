"""``wia profile``: one live run of a kernel and where it stands on the roofline."""

from __future__ import annotations

import argparse
import dataclasses

from wia_compiler.runtime.cli_commands.common import add_kernel_arguments, print_json, read_kernel

HELP = "run a kernel live and say where it stands on the roofline"
EXAMPLES = """\
  wia profile mm.wia --args "A=f32[1024,512], B=f32[512,256]"
  wia profile mm.wia --args "A=f32[512,512], B=f32[512,512]" --json
  wia profile mm.wia --args "A=f32[256,256], B=f32[256,256]" --target gpu --device H200"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_kernel_arguments(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="GPU to estimate the time of where the simulator runs (default: by the target)",
    )


def run(options: argparse.Namespace) -> int:
    """Profile on random inputs and print the result."""
    from wia_compiler.runtime.argument_text import parse_arguments
    from wia_compiler.runtime.random_inputs import random_arguments

    kernel = read_kernel(options)
    given = parse_arguments(options.args)
    arguments = random_arguments(kernel.signature, given, seed=options.seed)
    profile = kernel.profile(*arguments, device=options.device)
    if options.json:
        print_json(dataclasses.asdict(profile))
    else:
        print(profile)
    return 0
