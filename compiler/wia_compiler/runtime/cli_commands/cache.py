"""``wia cache``: show, explain or clear the compiled kernels on disk."""

from __future__ import annotations

import argparse
import json

from wia_compiler.runtime.cli_commands.common import print_json

HELP = "show, explain or clear the cache of compiled kernels"
EXAMPLES = """\
  wia cache show
  wia cache explain 3f9a12c4
  wia cache clear"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "explain", "clear"),
        default="show",
        help="show lists the entries, explain says what an entry's code depends on (default: show)",
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="first characters of a digest")
    parser.set_defaults(usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    from wia_compiler.runtime.cache import cache

    if (options.key is not None) != (options.action == "explain"):
        options.usage_error("explain takes one KEY, show and clear take none")
    if options.action == "clear":
        removed = cache.clear()
        if options.json:
            print_json({"path": str(cache.path), "removed": removed})
        else:
            print(f"removed {removed} kernel{'s' if removed != 1 else ''} from {cache.path}")
    elif options.action == "explain":
        entry = cache.find(options.key)
        if options.json:
            print_json({"digest": entry.digest, "key": json.loads(entry.key.canonical_json)})
        else:
            print(entry.key.explain())
    elif options.json:
        print_json(
            {
                "path": str(cache.path),
                "size_bytes": cache.size_bytes,
                "limit_bytes": cache.limit_bytes,
                "entries": [
                    {
                        "digest": entry.digest,
                        "kernel": entry.key.kernel,
                        "target": entry.key.target,
                        "arguments": [argument._asdict() for argument in entry.key.arguments],
                        "size_bytes": entry.size_bytes,
                        "compile_time_ns": entry.compile_time_ns,
                        "used_at": entry.used_at,
                    }
                    for entry in cache.entries
                ],
            }
        )
    else:
        print(cache)
    return 0
