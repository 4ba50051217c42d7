"""The first tutorial as a reader meets it: in JupyterLab, offline, run from top to bottom."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("jupyterlab")

from lab_server import find_browser, lab_page, lab_server

ROOT = Path(__file__).resolve().parents[2]
SENTINEL = "ALL-DONE 42"


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    browser = find_browser()
    if browser is None:
        message = "no Chromium found: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    folder = tmp_path_factory.mktemp("tutorials")
    notebook = json.loads((ROOT / "tutorials" / "01_one_cell.ipynb").read_text(encoding="utf-8"))
    last = {**notebook["cells"][1], "id": "sentinel", "source": "print('ALL-DONE', 6 * 7)"}
    notebook["cells"].append(last)
    (folder / "tutorial.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with lab_server(folder) as address, lab_page(address, browser) as shown:
        shown.open(address, "tutorial.ipynb")
        shown.run_all(SENTINEL)
        shown.page.locator(".wia[data-ready='1']").nth(2).wait_for(timeout=60_000)
        yield shown


def test_every_tab_of_the_first_explorer_is_drawn(tutorial) -> None:
    explorer = tutorial.page.locator(".wia").first
    expected = {
        "graph": "fused_conv2d_add_relu",
        "text": "wia.fused",
        "decisions": "conv2d → add",
        "assembly": "LLVM",
        "roofline": "measure",
        "resources": "code",
    }
    for tab, text in expected.items():
        explorer.locator(f"[data-tab={tab}]").click()
        assert text.lower() in explorer.locator(".wia-panel").inner_text().lower(), tab
    explorer.locator("[data-tab=graph]").click()


def test_the_refusal_is_drawn_with_its_reason(tutorial) -> None:
    explorer = tutorial.page.locator(".wia").nth(1)
    explorer.locator("[data-stage=fusion]").click()
    explorer.locator("[data-tab=graph]").click()
    before = explorer.locator("[data-picture]").first
    assert "refused" in before.inner_text().lower()
    assert "relu stays with" in before.inner_text().lower()


def test_the_gpu_build_shows_ptx_and_its_resources(tutorial) -> None:
    explorer = tutorial.page.locator(".wia").nth(2)
    explorer.locator("[data-tab=assembly]").click()
    # A long text is sent when it is looked at.
    entry = explorer.locator(".wia-panel .ln", has_text=".visible .entry edges_kernel")
    entry.wait_for(timeout=60_000)
    assert "Registers per thread" in explorer.inner_text()


def test_the_roofline_and_the_picture_are_drawn(tutorial) -> None:
    page = tutorial.page
    page.locator(".js-plotly-plot .main-svg").first.wait_for(state="attached", timeout=60_000)
    picture = page.locator(".jp-OutputArea-output img[src^='data:image/png']").last
    picture.wait_for(state="attached")
    assert picture.evaluate("image => image.naturalWidth") == 960


def test_nothing_was_asked_of_the_network(tutorial) -> None:
    assert tutorial.external == []
