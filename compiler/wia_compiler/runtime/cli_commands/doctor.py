"""``wia doctor``: what of the tools this machine has, and what brings the others."""

from __future__ import annotations

import argparse

HELP = "say for each tool whether it was found, or the command that brings it"
EXAMPLES = """\
  wia doctor
  wia doctor --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options beside --json."""


def run(options: argparse.Namespace) -> int:
    """Look and print; 1 where something that is required is missing."""
    from wia_compiler.runtime.doctor import doctor

    diagnosis = doctor()
    print(diagnosis.to_json() if options.json else diagnosis)
    return 0 if diagnosis.healthy else 1
