"""The explorer of a kernel that branches, in Chromium, in both themes."""

import os

import pytest
import wia_compiler as wia
from explorer_page import page_html
from lab_server import FLAGS, find_browser
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.payload import payload

TEXT = """kernel power(input A: tensor, input v: tensor, output w: tensor) {
    w = v;
    for i in 0..10 {
        w = A @ w;
        if (reduce_sum(w) > 1.0) { w = w * 0.5; } else { w = relu(w) + v; }
    }
}"""


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    if path is None:
        message = "no Chromium found: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def data():
    build = wia.compile(TEXT).power.build(wia.spec((64, 64), "f32"), wia.spec((64,), "f32"))
    return payload(Exhibit(build.trace, build.artifact.assembly, build.resources, outputs=["w"]))


def open_page(browser, data, **state):
    """The page, and the faults of its script."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.set_content(page_html(data, **state))
    page.locator(".wia[data-ready='1']").wait_for(timeout=10_000)
    return page, faults


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_blocks_are_frames_and_branches_have_words(browser, data, theme: str) -> None:
    page, faults = open_page(browser, data, theme=theme, stage="fusion")
    after = page.locator("[data-picture=fusion]")
    assert after.locator("g.frame.block").count() == 7
    words = after.locator("g.edge.branch text").all_text_contents()
    assert sorted(words) == ["false", "false", "true", "true"]
    ground = after.locator("g.frame.block rect").first
    fill = ground.evaluate("element => getComputedStyle(element).fill")
    assert fill == {"light": "rgb(248, 250, 252)", "dark": "rgb(11, 18, 32)"}[theme]
    assert faults == []
    page.close()


def test_a_click_on_an_op_in_a_block_lights_up_its_line(browser, data) -> None:
    page, faults = open_page(browser, data, stage="fusion")
    node = page.locator("[data-picture=fusion] g.node.f-contraction").first
    node.click()
    assert page.evaluate("window.model.get('selected')")
    lit = page.locator(".wia-source .ln.hl").all_inner_texts()
    assert [line.split("w = ")[1].strip() for line in lit] == ["A @ w;"]
    assert faults == []
    page.close()


def test_the_host_function_is_boxes_of_blocks(browser, data) -> None:
    page, faults = open_page(browser, data, stage="loops")
    text = page.locator(".wia-picture.nests").inner_text()
    assert "^body" in text and "if true" in text
    assert faults == []
    page.close()
