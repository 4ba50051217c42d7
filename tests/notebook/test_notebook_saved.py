"""A notebook run by nbclient and read without a kernel: the static twin is what remains."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

ROOT = Path(__file__).parents[2]
CELLS = [
    "%load_ext wia_notebook\nimport numpy as np\nA = np.ones((17, 3), np.float32)",
    "%%wia --run B = scale(A)\n"
    "kernel scale(input A: tensor, output B: tensor) {\n  B = relu(A * 2.0 + 1.0);\n}",
    "%wia_roofline scale(A)",
    "%wia_stages scale(A)",
    "scale.build(A, target='gpu:sm_90')",
]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    rooms = [str(ROOT / room) for room in ("compiler", "kernels", "wia_notebook")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(rooms),
        "WIA_CACHE_DIR": str(folder / "cache"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    client = NotebookClient(made, timeout=120, kernel_name="python3", store_widget_state=False)
    client.execute(env=environment)
    return made


def test_every_cell_carries_html_and_text(notebook):
    explorer = notebook.cells[1].outputs[0]["data"]
    assert "application/vnd.jupyter.widget-view+json" in explorer
    assert "data:image/svg+xml;base64," in explorer["text/html"]
    assert explorer["text/plain"].startswith("scale(A f32[17×3]) → B f32[17×3]")
    roofline = notebook.cells[2].outputs[0]["data"]
    assert {"application/vnd.plotly.v1+json", "text/html", "text/plain"} <= roofline.keys()
    assert "x86" in notebook.cells[3].outputs[0]["data"]["text/plain"]
    assert "ld.global" in notebook.cells[4].outputs[0]["data"]["text/html"]
    assert not [o for cell in notebook.cells for o in cell.outputs if o.output_type == "stream"]


@pytest.mark.parametrize("sanitize", [False, True])
def test_nbconvert_shows_the_twin_and_loads_nothing_for_it(notebook, sanitize):
    html, _ = HTMLExporter(sanitize_html=sanitize).from_notebook_node(notebook)
    assert html.count("data:image/svg+xml;base64,") >= 5
    for part in ("fused_mul_add_relu", "✓ fused", "infer shapes", "roofline of scale"):
        assert part in html
    assert "jupyter.widget-view" not in html


def test_the_saved_notebook_is_small(notebook):
    assert len(nbformat.writes(notebook)) < 600_000
