"""The explorer in JupyterLab in a headless Chromium, offline: what is drawn, clicked and linked."""

import json
import os
import re

import nbformat
import pytest
from lab_server import find_browser, lab_page, lab_server

CELLS = [
    "%load_ext wia_notebook\n"
    "import numpy as np\n"
    "X = np.random.rand(1, 3, 32, 40).astype('f4')\n"
    "W = np.random.rand(8, 3, 3, 3).astype('f4')\n"
    "b = np.random.rand(8, 1, 1).astype('f4')",
    "%%wia --run Y = edges(X, W, b)\n"
    "// eight directions of light and dark\n"
    "kernel edges(input X: tensor, input W: tensor, input b: tensor, output Y: tensor) {\n"
    "    y = conv2d(X, W, padding=1);\n"
    "    y = y + b;\n"
    "    Y = relu(y);\n"
    "}",
    "%wia_roofline edges(X, W, b)",
    "print('ALL-DONE', 6 * 7, Y.shape)",
]


def notebook_text(cells):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    return nbformat.writes(made)


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    if path is None:
        message = "no Chromium found: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    return path


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    (folder / "explorer.ipynb").write_text(notebook_text(CELLS))
    with lab_server(folder) as address, lab_page(address, browser) as shown:
        shown.folder = folder
        shown.faults = []
        shown.page.on("pageerror", lambda error: shown.faults.append(str(error)))
        shown.open(address, "explorer.ipynb")
        shown.run_all("ALL-DONE 42 (1, 8, 32, 40)")
        shown.page.locator(".wia[data-ready='1']").wait_for(timeout=60_000)
        try:
            yield shown
        except BaseException:
            shown.picture("explorer")
            raise


@pytest.fixture
def explorer(lab):
    explorer = lab.page.locator(".wia")
    explorer.locator("[data-stage=fusion]").click()
    explorer.locator("[data-tab=graph]").click()
    explorer.focus()
    lab.page.keyboard.press("Escape")
    lab.page.mouse.move(5, 5)
    return explorer


def test_the_cell_draws_the_explorer(explorer):
    assert explorer.locator(".kernel").inner_text() == "edges"
    assert "X f32[1×3×32×40]" in explorer.locator(".sig").inner_text()
    stages = explorer.locator("[data-stage]").all_inner_texts()
    titles = [text.split("\n")[0] for text in stages]
    assert titles[:4] == ["source", "import", "inline", "infer shapes"] and titles[-1] == "x86"
    assert explorer.locator("[data-stage=fusion]").get_attribute("aria-current") == "step"
    assert "none" in explorer.locator("[data-stage=inline]").get_attribute("class")
    assert not re.search(r"object|undefined|NaN", explorer.inner_text())


def test_before_and_after_fusion_stand_side_by_side(explorer):
    pictures = explorer.locator("[data-picture] svg.wia-graph")
    assert pictures.count() == 2
    before, after = pictures.nth(0), pictures.nth(1)
    assert before.locator(".node .title").all_text_contents() == ["conv2d", "add", "relu"]
    assert before.locator(".planned").count() == 1
    assert after.locator(".chip").all_text_contents() == ["conv2d", "add", "relu"]
    assert "1 launch" in explorer.locator("[data-picture=fusion] h4").inner_text().lower()
    left, right = before.bounding_box(), after.bounding_box()
    assert left["x"] + left["width"] <= right["x"] and left["height"] > 150


def test_pointing_at_an_op_lights_its_line_and_a_click_pins_it(lab, explorer):
    op = explorer.locator("[data-picture]").first.locator(".node", has_text="add")
    op.hover()
    lit = explorer.locator(".wia-source .ln.hl")
    lit.wait_for()
    assert "y = y + b" in lit.inner_text()
    explorer.locator("[data-picture=fusion] .chip.hl", has_text="add").wait_for()
    op.click()
    lab.page.mouse.move(5, 5)
    assert "pinned" in explorer.locator(".wia-source .state").inner_text().lower()
    explorer.locator("[data-tab=assembly]").click()
    explorer.locator(".wia-pane .ln.hl").first.wait_for()
    explorer.locator("[data-tab=text]").click()
    texts = explorer.locator(".wia-panel .ln.hl").all_inner_texts()
    assert any("wia.add" in text for text in texts)


def test_a_line_of_the_cell_lights_its_ops_everywhere(explorer):
    explorer.locator(".wia-source .ln", has_text="conv2d").click()
    assert explorer.locator("[data-picture] .node.hl .title").first.text_content() == "conv2d"
    card = explorer.locator(".wia-card", has_text="line 4").inner_text()
    assert re.search(r"x86\s+\d+ line", card)


def test_arrow_keys_step_through_the_stages(lab, explorer):
    current = explorer.locator("[aria-current=step]")
    explorer.focus()
    lab.page.keyboard.press("ArrowRight")
    assert current.get_attribute("data-stage") == "decompose"
    lab.page.keyboard.press("ArrowRight")
    assert current.get_attribute("data-stage") == "loops"
    assert explorer.locator(".wia-nest").first.is_visible()
    lab.page.keyboard.press("ArrowLeft")
    assert current.get_attribute("data-stage") == "decompose"
    assert lab.page.locator(".jp-Notebook .jp-CodeCell").count() >= len(CELLS)


def test_text_of_two_stages_as_a_diff(explorer):
    explorer.locator("[data-tab=text]").click()
    assert explorer.locator(".ln.new", has_text="wia.fused").count() == 1
    explorer.locator("[aria-label='compare with']").select_option("loops")
    assert explorer.locator(".ln.gone").count() > 3
    explorer.locator("[aria-label='compare with']").select_option("")
    assert explorer.locator(".ln.gone").count() == 0


def test_every_tab_draws_something(explorer):
    for tab, expected in (
        ("decisions", "✓ fused"),
        ("assembly", "LLVM"),
        ("roofline", "Run and measure"),
        ("counters", "Run and measure"),
        ("schedule", "What was applied"),
        ("resources", "Code "),
    ):
        explorer.locator(f"[data-tab={tab}]").click()
        assert expected.lower() in explorer.locator(".wia-panel").inner_text().lower()
        assert explorer.locator(f"[data-tab={tab}]").get_attribute("aria-selected") == "true"


def test_search_finds_an_opcode(lab, explorer):
    explorer.focus()
    lab.page.keyboard.press("/")
    lab.page.keyboard.type("vmov")
    explorer.locator(".wia-results li.on").wait_for()
    lab.page.keyboard.press("Enter")
    assert explorer.locator("[data-tab=assembly]").get_attribute("aria-selected") == "true"
    assert "vmov" in explorer.locator(".wia-pane .ln.at").inner_text()


def test_run_puts_a_point_on_the_roofline(explorer):
    explorer.locator("button.btn", has_text="Run").first.click()
    explorer.locator(".wia-roofline .point.now").wait_for(timeout=60_000)
    text = explorer.locator(".wia-panel").inner_text()
    assert "measured on this machine" in text and "counted from the IR" in text


def test_another_target_is_built_and_what_it_lacks_is_said(lab, explorer):
    explorer.get_by_role("radio", name="sm_90").click()
    explorer.locator("[data-stage=ptx]").wait_for(timeout=60_000)
    explorer.locator("[data-tab=assembly]").click()
    assert "ld.param" in explorer.locator(".wia-panel").inner_text()
    explorer.get_by_role("radio", name="CPU").click()
    explorer.locator("[data-stage=x86]").wait_for(timeout=60_000)


def test_exports_are_files(lab, explorer):
    for name, start in (
        ("svg", "<svg"),
        ("dot", "digraph"),
        ("json", "{"),
        ("html", "<!doctype html>"),
    ):
        with lab.page.expect_download() as download:
            explorer.locator(f"[data-export={name}]").click()
        text = download.value.path().read_text(encoding="utf-8")
        assert text.startswith(start), name
        assert download.value.suggested_filename.endswith(f".{name}")


def test_plotly_draws_the_roofline(lab):
    lab.page.locator(".js-plotly-plot .main-svg").first.wait_for(state="attached", timeout=60_000)
    assert lab.page.locator(".js-plotly-plot .gtitle").first.text_content().startswith("edges:")


def test_the_cell_is_coloured_as_the_language(lab):
    cell = lab.page.locator(".jp-CodeCell").nth(1)
    assert cell.locator(".cm-wia-kw").all_inner_texts()[:3] == ["kernel", "input", "input"]
    assert "conv2d" in cell.locator(".cm-wia-op").all_inner_texts()
    assert lab.page.locator(".jp-CodeCell").first.locator(".cm-wia").count() == 0


def test_dark_theme_and_narrow_pages(lab, explorer):
    light = explorer.evaluate("element => getComputedStyle(element).backgroundColor")
    lab.command("apputils:change-theme", theme="JupyterLab Dark")
    lab.page.locator("body[data-jp-theme-light=false]").wait_for(state="attached", timeout=30_000)
    dark = explorer.evaluate("element => getComputedStyle(element).backgroundColor")
    ink = explorer.evaluate("element => getComputedStyle(element).color")
    assert (
        light == "rgb(255, 255, 255)" and dark == "rgb(17, 24, 39)" and ink == "rgb(229, 231, 235)"
    )
    # JupyterLab draws the figure anew in another theme; it must come back at its full height.
    lab.page.wait_for_function(
        "document.querySelector('.js-plotly-plot .main-svg')?.getBoundingClientRect().height > 300"
    )
    lab.picture("explorer_dark")
    lab.command("apputils:change-theme", theme="JupyterLab Light")
    lab.page.locator("body[data-jp-theme-light=true]").wait_for(state="attached", timeout=30_000)
    lab.page.set_viewport_size({"width": 760, "height": 1400})
    lab.page.wait_for_function("document.querySelector('.wia').clientWidth < 760")
    boxes = explorer.locator("[data-picture]").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().x)"
    )
    assert boxes[0] == boxes[1]  # one above the other
    wide = explorer.evaluate("element => element.scrollWidth <= element.clientWidth + 1")
    assert wide
    lab.picture("explorer_narrow")
    lab.page.set_viewport_size({"width": 1300, "height": 1400})


def test_the_saved_notebook_shows_the_static_twin(lab):
    from nbconvert import HTMLExporter

    path = lab.folder / "explorer.ipynb"
    lab.command("docmanager:save")
    lab.page.wait_for_function(
        "!window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=30_000
    )
    saved = nbformat.read(path, 4)
    bundle = saved.cells[1].outputs[0]["data"]
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= bundle.keys()
    assert len(json.dumps(bundle["text/html"])) < 300_000
    html, _ = HTMLExporter(sanitize_html=True).from_notebook_node(saved)
    assert html.count("data:image/svg+xml;base64,") >= 2
    assert "fused_conv2d_add_relu" in html and "✓ fused" in html


def test_nothing_was_asked_of_other_machines(lab):
    assert lab.external == []
    assert [fault for fault in lab.faults if "wia" in fault] == []
