"""What the README shows works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python_runs(tmp_path: Path) -> None:
    first, second, third = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    program = f"{first}\nassert Z.tolist() == [2, 3, 4, 5, 6], Z\n{second}\n{third}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "wia.fused" in done.stdout
    assert ".visible .entry" in done.stdout
    assert "occupancy" in done.stdout
    assert "256.0 # matmul" in done.stdout
    assert re.search(r"thread_tile i \d+, j \d+;", done.stdout)  # as many as the CPU has room for
    assert "1 True\n0 " in done.stdout and "sass_inst_predicted (predicted)" in done.stdout


def test_its_cell_runs_in_ipython() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    lines = [line.removeprefix("    ") for line in README.split("\n") if line.startswith("    ")]
    text = "\n".join(lines)
    cell = text[text.index("%%wia") : text.index("\n}") + 2]
    shell = InteractiveShell()
    shell.run_cell("%load_ext wia_notebook").raise_error()
    shell.run_cell(
        "import numpy as np\n"
        "A, B, bias = (np.ones(shape, np.float32) for shape in ((3, 4), (4, 5), (5,)))"
    ).raise_error()
    shell.run_cell(cell).raise_error()
    assert (
        shell.user_ns["matmul_bias_relu"](*(shell.user_ns[n] for n in ("A", "B", "bias"))).sum()
        == 75
    )


def test_every_page_it_links_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
