"""``wia fmt``: lay the text of kernels out anew."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from wia_compiler.base.errors import WiaError
from wia_compiler.base.source import Source
from wia_compiler.runtime.cli_commands.common import print_json, read_source

HELP = "format kernels: one indentation, one spacing; comments and empty lines stay"
EXAMPLES = """\
  wia fmt mm.wia softmax.wia
  wia fmt --check kernels/*.wia
  wia fmt --diff mm.wia
  cat mm.wia | wia fmt -"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="program text (.wia); - reads standard input"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a file would change"
    )
    parser.add_argument(
        "--diff", action="store_true", help="write nothing; print what would change"
    )


def run(options: argparse.Namespace) -> int:
    """Format each file; 1 where one has errors, or where ``--check`` finds one to change."""
    from wia_compiler.runtime.formatting import format, write_file

    keep = options.check or options.diff
    results: list[dict[str, object]] = []
    failed = False
    for file in options.files:
        try:
            source = read_source(file)
            formatted = format(source)
            changed = formatted != source.text
            if options.diff and not options.json:
                sys.stdout.writelines(_diff(source, formatted))
            elif file == "-" and not options.json and not options.check:
                print(formatted, end="")
            if changed and not keep and file != "-":
                write_file(Path(file), formatted)
        except WiaError as error:
            failed = True
            results.append({"file": file, "error": str(error)})
            if not options.json:
                print(error, file=sys.stderr)
            continue
        results.append({"file": file, "changed": changed})
        if changed and not options.json and file != "-" and not options.diff:
            print(f"{'would change' if keep else 'formatted'} {file}")
        failed = failed or (options.check and changed)
    if options.json:
        print_json(results)
    return 1 if failed else 0


def _diff(source: Source, formatted: str) -> list[str]:
    lines = difflib.unified_diff(
        source.text.splitlines(), formatted.splitlines(), source.name, "formatted", lineterm=""
    )
    return [f"{line}\n" for line in lines]
