"""The command line ``wia``: every command is a thin call of the public surface."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from wia_compiler.base.errors import WiaError

# One file of ``cli_commands`` each, in the order in which the help lists them.
COMMANDS = ("build", "run", "stages", "profile", "fmt", "cache", "targets", "doctor")

EXIT_OK, EXIT_USER_ERROR, EXIT_INTERRUPTED = 0, 1, 130


class CommandModule(Protocol):
    """What a file of ``cli_commands`` offers."""

    HELP: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Do it; the exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 where it worked, 1 for a mistake that a message explains, 2 for usage."""
    options = _parser().parse_args(arguments)
    module = _module(options.command)
    try:
        status = module.run(options)
        sys.stdout.flush()
        return status
    except WiaError as error:
        print(error, file=sys.stderr)
        return EXIT_USER_ERROR
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    import wia_compiler

    parser = argparse.ArgumentParser(
        prog="wia",
        description="Compile tensor kernels and show everything between the text and the machine.",
        epilog="wia COMMAND --help shows options and examples of a command",
    )
    parser.add_argument("--version", action="version", version=f"wia {wia_compiler.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = _module(name)
        command = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.HELP,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--json", action="store_true", help="print JSON")
        module.add_arguments(command)
    return parser


def _module(name: str) -> CommandModule:
    return cast(CommandModule, importlib.import_module(f"wia_compiler.runtime.cli_commands.{name}"))


if __name__ == "__main__":
    sys.exit(main())
