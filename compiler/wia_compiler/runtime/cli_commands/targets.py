"""``wia targets``: what kernels can be built for."""

from __future__ import annotations

import argparse
import dataclasses

from wia_compiler.runtime.cli_commands.common import print_json, print_table

HELP = "list the targets that kernels can be built for"
EXAMPLES = """\
  wia targets
  wia targets --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options beside --json."""


def run(options: argparse.Namespace) -> int:
    """List every target with its facts."""
    from wia_compiler.runtime.targets import make_target, targets

    found = [make_target(name) for name in targets()]
    if options.json:
        print_json(
            [
                {
                    "name": target.name,
                    "facts": dataclasses.asdict(target.facts),
                    "options": list(target.options),
                }
                for target in found
            ]
        )
    else:
        print_table(
            ("target", "values a thread keeps", "bytes per flop", "vector bytes"),
            [
                (
                    target.name,
                    str(target.facts.register_capacity),
                    f"{target.facts.bytes_per_flop:.3g}",
                    str(target.facts.vector_bytes),
                )
                for target in found
            ],
        )
    return 0
