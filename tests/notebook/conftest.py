"""A browser, and the explorer's page drawn in it."""

import os

import pytest
from explorer_page import SAMPLE, page_html
from lab_server import FLAGS, find_browser


@pytest.fixture(scope="module")
def chromium():
    path = find_browser()
    if path is None:
        message = "no Chromium found: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def draw(chromium):
    """``draw(data, width=…)``: a page with the explorer; faults of its script fail the test."""
    pages, faults = [], []

    def draw(data=SAMPLE, *, width=1200, **state):
        page = chromium.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.set_content(page_html(data, **state))
        page.locator(".wia[data-ready='1']").wait_for(timeout=10_000)
        return page

    yield draw
    for page in pages:
        page.close()
    assert faults == []
