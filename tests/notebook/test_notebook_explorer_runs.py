"""What the explorer's page shows of a run: roofline, counts by line, advice, schedules."""

import dataclasses

from explorer_page import trait
from notebook_sample import sample_exhibit
from wia_notebook.views.payload import payload


def test_a_roofline_before_and_after_a_run(draw):
    page = draw(payload(sample_exhibit()), tab="roofline", width=1060)
    assert "Not measured yet" in page.locator(".wia-panel").inner_text()
    run = page.get_by_role("button", name="Run and measure")
    assert run.bounding_box()["width"] < 200
    run.click()
    assert page.evaluate("sent") == [{"type": "run"}]
    page = draw(tab="roofline", width=1060)
    figure, numbers = (pane.bounding_box() for pane in page.locator(".roof > .wia-pane").all())
    assert figure["y"] == numbers["y"] and figure["width"] > numbers["width"] > 220
    words = page.locator(".wia-facts .fact").all_inner_texts()
    assert [text.split("\n")[-1] for text in words] == [
        "median of 9 warm samples",
        "counted from the IR",
        "measured on this machine",
    ]
    assert "reuse of X is low" in page.locator(".roof .wia-card").first.inner_text()


def test_bars_show_what_a_run_counted_at_each_line(draw):
    page = draw(tab="assembly", stage="ptx")
    filled = page.locator(".wia-panel .ln:has(.bar > span)")
    assert ["fma.rn.f32" in text for text in filled.all_inner_texts()] == [False, False, True]
    assert (
        "6\u202f592 warp instructions, simulated" in page.locator(".wia-panel h4").last.inner_text()
    )
    widths = filled.locator(".bar > span").evaluate_all("all => all.map(e => e.offsetWidth)")
    assert widths == sorted(widths) and widths[2] > 20 * widths[0]
    cell = page.locator(".wia-source .ln:has(.bar > span)")
    assert cell.count() == 2
    page.get_by_label("counter beside the lines").select_option("bank conflicts")
    assert trait(page, "metric") == "bank conflicts"
    assert "ld.global" in filled.inner_text() and cell.get_attribute("data-line") == "9"
    filled.click()
    words = page.locator(".wia-explain").inner_text()
    assert "128 warp instructions · 32 bank conflicts · simulated" in words


def test_a_line_of_ptx_and_what_it_became_are_marked_together(draw):
    page = draw(tab="assembly", stage="sass", selected="text/ptx/10")
    marked = page.locator(".wia-panel .ln.at")
    assert [("fma" in text, "FFMA" in text) for text in marked.all_inner_texts()] == [
        (True, False),
        (False, True),
    ]
    assert "becomes FFMA at line 4 of SASS" in page.locator(".wia-explain").inner_text()
    page.locator(".ln", has_text="LDG").click()
    assert trait(page, "selected") == "text/sass/3"
    assert "ld.global" in marked.first.inner_text()


def test_without_a_run_there_are_no_bars(draw):
    page = draw(payload(sample_exhibit()), tab="assembly", stage="ptx")
    assert page.locator(".bar, .metric").count() == 0


def test_advice_that_a_schedule_can_follow_is_applied_by_a_button(draw):
    page = draw(tab="roofline")
    first, second = page.locator(".roof .wia-card").all()
    assert "low reuse" in first.inner_text() and "1.4 × by the model" in first.inner_text()
    assert second.locator("button").count() == 0
    first.get_by_role("button", name="Apply").click()
    assert page.evaluate("sent") == [{"type": "schedule", "text": "tile i 64"}]


def test_the_schedule_is_text_to_change(draw):
    page = draw(tab="schedule", stage="ptx")
    area = page.get_by_label("schedule", exact=True)
    assert "tile i 64, j 64;" in area.input_value()
    assert page.get_by_role("button", name="Back to the target's choice").is_disabled()
    area.fill("tile i 32")
    page.get_by_role("button", name="Apply").click()
    area.fill("tile i 16")
    area.press("Control+Enter")
    assert page.evaluate("sent") == [
        {"type": "schedule", "text": "tile i 32"},
        {"type": "schedule", "text": "tile i 16"},
    ]
    own = payload(dataclasses.replace(sample_exhibit(), own_schedule=True))
    page = draw(own, tab="schedule")
    page.get_by_role("button", name="Back to the target's choice").click()
    assert page.evaluate("sent") == [{"type": "schedule", "text": None}]


def test_counters_keep_their_names(draw):
    page = draw(tab="counters")
    assert page.locator(".wia-counters td").all_inner_texts() == [
        "ptx_inst_executed",
        "6 592",
        "simulated",
    ]
    page = draw(payload(sample_exhibit()), tab="counters")
    assert "Not measured yet" in page.locator(".wia-panel").inner_text()
