"""Write tutorials/*.ipynb from the percent-format scripts beside them.

``python tools/notebooks.py`` writes; ``--check`` only says which notebooks differ (exit code 1).
A script holds cells that begin with ``# %%`` (code) or ``# %% [markdown]`` (text, each line after
``# ``). A code cell whose first line is a magic after ``# `` (``# %%wia``, ``# %load_ext``) is
uncommented, so that the script stays valid Python.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parent.parent / "tutorials"
CELL_HEAD = re.compile(r"^# %%( \[markdown\])?$", re.MULTILINE)
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def cells(script: str) -> list[dict[str, Any]]:
    """The notebook cells of a percent-format script, without outputs."""
    made: list[dict[str, Any]] = []
    _, *blocks = CELL_HEAD.split(script)
    for markdown, body in zip(blocks[::2], blocks[1::2], strict=True):
        lines = body.strip("\n").split("\n")
        identity = f"cell-{len(made):02}"
        if markdown:
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
            made.append({"cell_type": "markdown", "id": identity, "metadata": {}, "source": source})
            continue
        if lines[0].startswith("# %"):
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        made.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "id": identity,
                "metadata": {},
                "outputs": [],
                "source": "\n".join(lines),
            }
        )
    return made


def notebook(script: str) -> str:
    """The text of the ``.ipynb`` file of a script."""
    content = {
        "cells": cells(script),
        "metadata": METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def main() -> int:
    """Write or check every notebook."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    arguments = parser.parse_args()
    stale: list[str] = []
    for script in sorted(TUTORIALS.glob("[0-9]*.py")):
        target = script.with_suffix(".ipynb")
        text = notebook(script.read_text(encoding="utf-8"))
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        stale.append(target.name)
        if not arguments.check:
            target.write_text(text, encoding="utf-8")
    verb = "differs from its script:" if arguments.check else "wrote"
    for name in stale:
        print(verb, name)
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
