"""Every tutorial runs from top to bottom, and its notebook is what its script says."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))

SAID = {
    "01_one_cell": ("taken", "refused"),
    "02_your_own_kernels": (
        "carries sum from one iteration to the next",
        "index 8 lies outside 'A', which has size 8",
        "index 9 lies outside 'B', which has size 8",
        "pattern 'CancelLog' cannot be used",
        "the results are those of the kernel as written",
        "of the branches send a warp two ways",
    ),
    "03_schedules": (
        "GFLOP/s  what the compiler chooses",
        'wia.stage = "steady state"',
        "c[i - 1] (line 4) reads what c[i] (line 4) wrote 1 iteration of i before",
        "the vector registers hold",
        "the results are those of the kernel as written",
    ),
    "04_a_gpu_anywhere": (
        "0  shared_memory_bank_conflicts",
        "µs by the model, waits for",
        "no tensor cores: products of f32 run without tensor cores",
        "use_tensor_cores;",
        "1 launch, 0 bank conflicts",
        "race in shared memory",
        "index 256 of axis 0 lies outside 'A'",
    ),
}
"""What each tutorial prints, beside its picture and its explorers."""


def test_notebooks_are_written_from_their_scripts() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "notebooks.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"run tools/notebooks.py: {done.stdout}"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_tutorial_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    streams = "".join(output.get("text", "") for output in outputs)
    assert "fusion" in html, "the explorer's static twin shows the stages"
    for words in SAID[path.stem]:
        assert words in streams
    assert any("image/png" in output.get("data", {}) for output in outputs), "the picture is drawn"
