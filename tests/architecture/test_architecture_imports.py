"""What importing costs and what it may not bring along."""

import json
import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    """Names of the modules a fresh interpreter holds after a statement."""
    program = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import wia_compiler", {"llvmlite", "xdsl", "lark", "IPython", "ipywidgets", "plotly"}),
        (
            "import wia_compiler as wia; wia.compile('kernel k(input A: tensor, output C: tensor)"
            " { C = A + A; }')",
            {"IPython", "ipywidgets", "plotly", "cupy", "graphviz", "matplotlib"},
        ),
        ("import wia_kernels", {"IPython", "llvmlite", "plotly"}),
        (
            "import wia_notebook",
            {"numpy", "ipywidgets", "plotly", "graphviz", "cupy", "nbformat", "xdsl", "llvmlite"},
        ),
    ],
)
def test_an_import_brings_only_what_it_needs(statement: str, forbidden: set[str]) -> None:
    assert not forbidden & modules_after(statement)
