"""The explorer's page in Chromium, without a notebook: links, keys, themes, hostile input."""

import dataclasses
import json
import os
import re

import pytest
from explorer_page import SAMPLE, press, trait
from notebook_sample import PTX, sample_exhibit
from wia_compiler.base.record import OpRow
from wia_compiler.base.source import Span
from wia_notebook.views import payload as payload_module
from wia_notebook.views.payload import payload

TABS = (
    "graph",
    "text",
    "decisions",
    "assembly",
    "roofline",
    "counters",
    "schedule",
    "resources",
)


def test_hover_links_graph_and_cell_and_leaves_no_trace(draw):
    page = draw()
    page.locator("[data-picture=fusion] .chip", has_text="relu").hover()
    page.locator(".wia-source .ln.hl").wait_for()
    assert page.locator(".wia-source .ln.hl").inner_text().strip().endswith("y = relu(y);")
    assert page.locator("[data-picture=infer-shapes] .node.hl .title").all_text_contents() == [
        "relu"
    ]
    page.locator(".wia-foot").hover()
    page.wait_for_function("!document.querySelector('.hl')")
    assert trait(page, "selected") == ""


def test_a_click_pins_and_a_second_one_unpins(draw):
    page = draw()
    group = page.locator("[data-picture=fusion] .group")
    group.click(position={"x": 20, "y": 10})
    assert trait(page, "selected") == "fusion/0"
    assert len(page.locator(".wia-source .ln.hl").all()) == 3
    card = page.locator(".wia-card").first.inner_text()
    assert "3 ops in one kernel" in card and "one consumer" in card
    group.click(position={"x": 20, "y": 10})
    assert trait(page, "selected") == ""


def test_links_follow_origins_where_lines_cannot_tell(draw):
    page = draw()
    # reduce_sum and div stand on one line; origins keep them apart.
    page.locator("[data-picture=fusion] .node", has_text="reduce_sum").click()
    page.wait_for_function("document.querySelectorAll('[data-picture] .node.hl').length === 2")
    assert set(page.locator("[data-picture] .node.hl .title").all_text_contents()) == {"reduce_sum"}


def test_machine_lines_link_back_and_are_explained(draw):
    page = draw(tab="assembly", stage="sass")
    page.locator(".ln", has_text="fma.rn.f32").hover()
    page.locator(".wia-source .ln.hl").wait_for()
    assert "conv2d" in page.locator(".wia-source .ln.hl").inner_text()
    words = page.locator(".wia-explain").inner_text()
    assert "fma.rn.f32 — one fused multiply-add" in words and "from line 8, conv2d" in words
    assert page.locator(".ln.hl", has_text="FFMA").count() == 1


def test_formats_stand_side_by_side_as_chosen(draw):
    page = draw(tab="assembly", stage="ptx")
    heads = page.locator(".wia-panel .wia-pane h4 span:first-child")
    assert heads.all_text_contents() == ["LLVM", "PTX"]
    page.get_by_role("button", name="SASS", exact=True).click()
    assert heads.all_text_contents() == ["PTX", "SASS"]
    page.get_by_role("button", name="PTX", exact=True).click()
    assert heads.all_text_contents() == ["SASS"]


def test_keys_step_search_and_unpin(draw):
    page = draw()
    press(page, "ArrowRight")
    assert trait(page, "stage") == "loops"
    press(page, *["ArrowLeft"] * 30)
    assert trait(page, "stage") == "source"
    press(page, "/")
    page.keyboard.type("ffma")
    page.keyboard.press("Enter")
    assert trait(page, "tab") == "assembly" and trait(page, "selected") == "text/sass/4"
    press(page, "Escape")
    assert trait(page, "selected") == ""
    press(page, "/")
    page.keyboard.type("ArrowRight nothing")
    page.keyboard.press("Escape")
    assert page.locator(".wia-results").is_hidden()
    tab = page.locator("[data-tab=assembly]")
    tab.focus()
    page.keyboard.press("ArrowRight")
    assert trait(page, "tab") == "roofline"
    page.keyboard.press("Home")
    assert trait(page, "tab") == "graph"


def long_pipeline():
    """The sample with as many stages as a GPU kernel has."""
    exhibit = sample_exhibit()
    stages = list(exhibit.trace.stages)
    idle = next(stage for stage in stages if not stage.changed)
    names = ("fold-constants", "cse", "dce", "decompose", "lower")
    made = [dataclasses.replace(idle, name=name, changed=name == "lower") for name in names]
    trace = dataclasses.replace(exhibit.trace, stages=(*stages[:5], *made, *stages[5:]))
    return payload(dataclasses.replace(exhibit, trace=trace))


def test_the_whole_pipeline_is_in_sight_at_the_width_of_a_notebook(draw):
    page = draw(long_pipeline(), width=1060)
    ribbon = page.locator(".wia-ribbon")
    assert ribbon.evaluate("e => e.scrollWidth <= e.clientWidth")
    chip = page.get_by_role("button", name="fold constants · no change")
    assert chip.bounding_box()["width"] < 20
    words = chip.locator(".lid")
    assert words.evaluate("e => getComputedStyle(e).opacity") == "0"
    chip.hover()
    assert words.evaluate("e => getComputedStyle(e).opacity") == "1"
    chip.click()
    assert trait(page, "stage") == "fold-constants" and chip.bounding_box()["width"] > 60


def test_a_narrow_ribbon_follows_the_stage_and_hints_at_more(draw):
    page = draw(long_pipeline(), width=500, stage="source")
    ribbon = page.locator(".wia-ribbon")
    assert "more-right" in ribbon.get_attribute("class")
    page.evaluate("() => model.set('stage', 'sass')")
    assert page.locator("[data-stage=sass]").evaluate(
        "e => e.getBoundingClientRect().right <= e.closest('nav').getBoundingClientRect().right"
    )
    assert "more-right" not in ribbon.get_attribute("class")
    assert "more-left" in ribbon.get_attribute("class")


def test_ops_are_reached_by_keyboard_alone(draw):
    page = draw()
    page.locator("[data-picture=fusion] .wia-picture").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert trait(page, "selected") == "fusion/arg:X"
    assert page.locator(".wia-card").first.inner_text().startswith("X")


def test_python_drives_the_view(draw):
    page = draw()
    page.evaluate(
        "() => { model.set('stage', 'schedule'); model.set('tab', 'text');"
        " model.set('selected', 'line/8'); }"
    )
    assert page.locator("[aria-current=step]").get_attribute("data-stage") == "schedule"
    assert page.locator(".ln.new", has_text="@grid").count() == 1
    page.evaluate("() => model.set('compare', '-')")
    assert page.locator(".ln.new").count() == 0
    page.evaluate("() => model.set('stage', 'no such stage')")
    assert page.locator("[aria-current=step]").get_attribute("data-stage") == "sass"
    page.evaluate("() => model.set('status', { text: 'no device\\n  help: x', kind: 'error' })")
    assert page.get_by_role("alert").inner_text() == "no device\n  help: x"


def test_buttons_ask_python(draw):
    page = draw()
    page.get_by_role("radio", name="sm_120").click()
    page.get_by_role("button", name="▶ Run").click()
    page.locator("[data-export=svg]").click()
    assert page.evaluate("sent") == [
        {"type": "target", "target": "gpu:sm_120"},
        {"type": "run"},
        {"type": "export", "format": "svg", "stage": "fusion"},
    ]


def test_decisions_light_what_they_are_about(draw):
    page = draw(tab="decisions")
    page.locator("tr", has_text="relu → reduce_sum").click()
    assert trait(page, "selected") == "canonicalize/2,3"
    lit = page.locator(".wia-source .ln.hl").all_inner_texts()
    assert len(lit) == 2 and "reduce_sum" in lit[1]


def test_what_was_decided_stands_under_its_numbers_and_stays_in_sight(draw):
    page = draw(tab="decisions", width=760)
    note = page.locator(".wia-note", has_text="div also reads it").first
    assert note.locator("b").inner_text() == "✕ refused"
    pane = page.locator(".wia-scroll:has(.wia-note)").first.bounding_box()
    words = note.locator("td > span").bounding_box()
    assert words["x"] + words["width"] <= pane["x"] + pane["width"]
    note.click()
    page.wait_for_function("() => model.get('selected') !== ''")
    assert trait(page, "selected") == "canonicalize/2,3"


def test_a_stage_without_a_graph_says_where_to_look(draw):
    page = draw(stage="ptx")
    page.get_by_role("button", name="Show the assembly").click()
    assert trait(page, "tab") == "assembly"


def test_the_graph_says_what_its_colours_mean(draw):
    page = draw()
    legend = page.locator(".wia-legend span")
    assert legend.all_inner_texts() == ["contraction", "elementwise", "reduction", "fusion"]
    page.evaluate("() => model.set('stage', 'schedule')")
    assert legend.all_inner_texts() == ["contraction", "elementwise", "loop"]


def test_the_cell_is_shown_as_it_was_written(draw):
    data = {**SAMPLE, "source": "# %%wia --run f(A)\n" + SAMPLE["source"]}
    page = draw(data)
    first = page.locator(".wia-source .ln").first
    assert first.inner_text().strip() == "1%%wia --run f(A)"
    assert "magic" in first.get_attribute("class")


def test_the_cells_pane_is_as_wide_as_its_text_until_it_is_dragged(draw):
    long = {**SAMPLE, "source": "kernel f() { " + "Y = relu(Y); " * 20 + "}"}
    widths = [draw(d).locator(".wia-source").bounding_box()["width"] for d in (SAMPLE, long)]
    assert 230 <= widths[0] < widths[1] <= 0.33 * 1200
    page = draw(long)
    pane = page.locator(".wia-source")
    assert pane.locator(".wia-listing").evaluate("e => e.scrollWidth > e.clientWidth")
    edge = page.get_by_role("separator", name="width of your cell")
    box = edge.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 103, box["y"] + 50)
    page.mouse.up()
    assert abs(pane.bounding_box()["width"] - widths[1] - 100) < 6
    edge.press("ArrowLeft")
    assert abs(pane.bounding_box()["width"] - widths[1] - 76) < 6
    edge.dblclick()
    assert pane.bounding_box()["width"] == widths[1]


def long_assembly():
    """The sample with so many directives that nothing of the code is in sight at the top."""
    exhibit = sample_exhibit()
    text = "// a comment\n" * 100 + PTX + "\tnop;\n" * 100
    moved = {line + 100: (Span(8, 7, 8, 30),) for line in (9, 10)} | {190: (Span(9, 7, 9, 12),)}
    stages = tuple(
        dataclasses.replace(s, text=text, line_spans=moved) if s.name == "ptx" else s
        for s in exhibit.trace.stages
    )
    trace = dataclasses.replace(exhibit.trace, stages=stages)
    return payload(dataclasses.replace(exhibit, trace=trace, assembly={"ptx": text}))


def test_assembly_begins_at_the_entry_and_follows_what_is_pinned(draw):
    page = draw(long_assembly(), tab="assembly", stage="ptx")

    def first_in_sight():
        return page.locator(".wia-panel .wia-listing").evaluate("e => e.scrollTop / 19 + 1")

    assert first_in_sight() == 103
    page.evaluate("() => model.set('selected', 'line/9')")
    line = page.locator(".wia-panel .ln[data-line='190']")
    assert first_in_sight() < 190 and line.is_visible() and "hl" in line.get_attribute("class")
    assert line.evaluate(
        "e => e.offsetTop >= e.closest('.wia-listing').scrollTop && "
        "e.offsetTop < e.closest('.wia-listing').scrollTop + 520"
    )


def test_it_draws_once_the_page_gives_it_room(draw):
    page = draw(long_assembly(), tab="assembly", stage="ptx")
    page.evaluate(
        "() => { document.getElementById('root').style.display = 'none';"
        " model.set('data', { ...model.get('data'), origin: 'new' }); }"
    )
    assert page.locator(".wia-panel > *").count() == 0
    page.evaluate("() => { document.getElementById('root').style.display = ''; }")
    page.locator(".wia-panel .ln[data-line='103']").wait_for()
    listing = page.locator(".wia-panel .wia-listing")
    assert listing.evaluate("e => e.scrollTop / 19 + 1") == 103


def test_the_pages_own_styles_of_lists_stay_outside(draw):
    page = draw(tab="roofline")
    page.add_style_tag(content="dt { float: left; width: 20%; } dd { width: 70%; margin: 9px; }")
    name, value = page.locator(".wia-facts dt").first, page.locator(".wia-facts dd").first
    assert name.evaluate("e => getComputedStyle(e).float") == "none"
    assert value.evaluate("e => e.offsetHeight") == name.evaluate("e => e.offsetHeight")


def test_cleaning_up_leaves_no_listener(draw):
    page = draw()
    assert page.evaluate("model.count()") > 5
    page.evaluate("() => { model.set('data', { ...model.get('data') }); cleanup(); }")
    assert page.evaluate("model.count()") == 0


def test_long_listings_keep_few_lines_in_the_page(draw, monkeypatch):
    monkeypatch.setattr(payload_module, "LATER_CHARACTERS", 10**9)
    exhibit = sample_exhibit()
    text = PTX * 1000
    stages = tuple(
        dataclasses.replace(s, text=text) if s.name == "ptx" else s for s in exhibit.trace.stages
    )
    data = payload(
        dataclasses.replace(
            exhibit, trace=dataclasses.replace(exhibit.trace, stages=stages), assembly={"ptx": text}
        )
    )
    page = draw(data, tab="assembly", stage="ptx")
    assert page.locator(".wia-panel .ln").count() < 200
    page.evaluate(
        "() => { document.querySelector('.wia-panel .wia-listing').scrollTop = 19 * 9000; }"
    )
    page.locator(".wia-panel .ln[data-line='9001']").wait_for()
    page.evaluate("() => model.set('tab', 'text')")
    page.evaluate("() => model.set('compare', 'loops')")
    assert page.locator(".wia-panel .ln").count() < 400


def test_long_texts_come_when_they_are_looked_at(draw):
    data = json.loads(json.dumps(SAMPLE))
    ptx = next(stage for stage in data["stages"] if stage["name"] == "ptx")
    del ptx["text"]
    page = draw(
        {
            **data,
            "stages": [ptx | {"later": "17 lines"} if s is ptx else s for s in data["stages"]],
        },
        tab="assembly",
        stage="sass",
    )
    panel = page.locator(".wia-panel")
    assert "17 lines: the running kernel sends" in panel.inner_text()
    assert page.locator(".ln", has_text="FFMA").count() == 1
    page.evaluate("() => { model.set('stage', 'llvm'); model.set('stage', 'sass'); }")
    assert page.evaluate("sent") == [{"type": "text", "name": "ptx"}]
    answer = {"type": "text", "name": "ptx", "target": "gpu:sm_90", "text": PTX}
    page.evaluate("(answer) => model.receive(answer)", {**answer, "target": "cpu"})
    assert page.locator(".ln", has_text="fma.rn.f32").count() == 0
    page.evaluate("(answer) => model.receive(answer)", answer)
    page.locator(".ln", has_text="fma.rn.f32").hover()
    assert "one fused multiply-add" in page.locator(".wia-explain").inner_text()
    page.evaluate("() => model.set('tab', 'text')")
    assert "-" not in page.locator(".wia-bar select").input_value()
    assert page.evaluate("sent.length") == 1


def test_the_diff_of_long_texts_is_right_and_folded(draw, monkeypatch):
    monkeypatch.setattr(payload_module, "LATER_CHARACTERS", 10**9)
    exhibit = sample_exhibit()
    old = [f"%{i} = op.a %{max(0, i - 1)} : tensor<{i % 7}xf32>" for i in range(3000)]
    new = [line.replace("%", "%1") for line in old]
    new[1500:1500] = ["inserted"]
    del new[2000:2010]
    texts = {"canonicalize": "\n".join(old), "fusion": "\n".join(new)}
    stages = tuple(
        dataclasses.replace(s, text=texts.get(s.name, s.text), changed=s.changed or s.name in texts)
        for s in exhibit.trace.stages
    )
    data = payload(
        dataclasses.replace(exhibit, trace=dataclasses.replace(exhibit.trace, stages=stages))
    )
    page = draw(data, tab="text", compare="canonicalize")
    assert "−10 +1 lines" in page.locator(".wia-bar").inner_text()
    assert page.locator(".ln.new").inner_text().strip().endswith("inserted")
    assert page.locator(".ln.gone").count() == 10
    page.locator(".wia-fold").first.click()
    assert page.locator(".wia-panel .ln").count() < 400


def test_too_many_ops_become_a_table(draw):
    exhibit = sample_exhibit()
    rows = tuple(
        OpRow(str(i), "wia.add", "add", "elementwise", (str(i - 1),) if i else (), "tensor<4xf32>")
        for i in range(2000)
    )
    stages = tuple(
        dataclasses.replace(s, ops=rows, decisions=()) if s.name == "fusion" else s
        for s in exhibit.trace.stages
    )
    data = payload(
        dataclasses.replace(exhibit, trace=dataclasses.replace(exhibit.trace, stages=stages))
    )
    page = draw(data)
    pane = page.locator("[data-picture=fusion]").inner_text()
    assert "more than a picture can show" in pane and re.search(r"add\s+2000", pane)


def test_a_large_graph_is_legible_and_scrolls_to_what_is_pinned(draw):
    exhibit = sample_exhibit()
    last = 60
    rows = [OpRow("0", "wia.add", "add", "elementwise", ("arg:X", "arg:b"), "tensor<4xf32>")]
    rows += [
        OpRow(str(i), "wia.mul", f"mul{i}", "elementwise", (str(i - 1), "0"), "tensor<4xf32>")
        for i in range(1, last)
    ]
    wide = [OpRow(f"w{i}", "wia.exp", "exp", "elementwise", ("0",), "t") for i in range(40)]
    stages = tuple(
        dataclasses.replace(s, ops=(*rows, *wide), decisions=()) if s.name == "fusion" else s
        for s in exhibit.trace.stages
    )
    data = payload(
        dataclasses.replace(exhibit, trace=dataclasses.replace(exhibit.trace, stages=stages))
    )
    page = draw(data)
    picture = page.locator("[data-picture=fusion] .wia-picture")
    inside = """e => {
      const own = e.getBoundingClientRect();
      const box = e.closest('.wia-picture').getBoundingClientRect();
      return own.top < box.bottom && own.bottom > box.top &&
        own.left < box.right && own.right > box.left;
    }"""
    assert picture.locator("[data-op='arg:X']").evaluate(inside)
    assert picture.locator("[data-op='0']").bounding_box()["height"] > 20
    final = picture.locator(f"[data-op='{last - 1}']")
    assert not final.evaluate(inside)
    page.evaluate("(last) => model.set('selected', 'fusion/' + last)", last - 1)
    assert final.evaluate(inside)
    page.get_by_role("button", name="fit the pane").click()
    assert picture.evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=window.hit=1>",
        "</script><script>window.hit=1</script>",
        '"><svg onload=window.hit=1>',
    ],
)
def test_text_of_the_user_never_becomes_markup(draw, hostile):
    exhibit = sample_exhibit()
    ops = (
        dataclasses.replace(
            exhibit.trace.stage("fusion").ops[1], label=hostile, parent=None, id="0"
        ),
    )
    stages = tuple(
        dataclasses.replace(s, text=hostile, ops=ops if s.level == "high" else (), summary=hostile)
        for s in exhibit.trace.stages
    )
    trace = dataclasses.replace(
        exhibit.trace, stages=stages, source=hostile, kernel=hostile, signature=hostile
    )
    data = payload(
        dataclasses.replace(
            exhibit, trace=trace, hint=hostile, origin=hostile, assembly={"ptx": hostile}
        )
    )
    page = draw(data, selected="fusion/0")
    for tab in ("text", "decisions", "assembly", "roofline", "resources", "graph"):
        page.evaluate("(tab) => model.set('tab', tab)", tab)
    assert page.evaluate("window.hit") is None
    assert page.locator(".wia img, .wia script").count() == 0
    assert hostile in page.locator(".wia-head").inner_text()


def test_an_svg_with_a_script_in_it_loses_it(draw):
    data = json.loads(json.dumps(SAMPLE))
    stage = next(stage for stage in data["stages"] if stage["name"] == "fusion")
    stage["graph"]["svg"] = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="window.hit=1">'
        '<script>window.hit=1</script><a href="javascript:0"><rect/></a>'
        '<g data-op="0" onclick="window.hit=1"/></svg>'
    )
    page = draw(data)
    picture = page.locator("[data-picture=fusion]")
    assert picture.locator("script, a").count() == 0
    assert page.evaluate("window.hit") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 900, 700, 420])
def test_nothing_overflows_at_any_width(draw, theme, width):
    page = draw(width=width, theme=theme)
    for tab in TABS:
        page.evaluate("(tab) => model.set('tab', tab)", tab)
        root = page.locator(".wia")
        assert root.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), tab
        assert page.locator(".wia-panel").inner_text().strip()
        if os.environ.get("WIA_SCREENSHOTS"):
            page.screenshot(
                path=f"{os.environ['WIA_SCREENSHOTS']}/{tab}_{width}_{theme}.png", full_page=True
            )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", TABS)
def test_text_has_enough_contrast(draw, theme, tab):
    page = draw(theme=theme, tab=tab)
    ratios = page.evaluate(CONTRAST)
    assert min(ratio for ratio, _ in ratios) >= 4.0, sorted(ratios)[:5]


def test_every_control_has_a_name(draw):
    page = draw()
    controls = "button, input, select, textarea, [role=button]"
    for tab in reversed(TABS):
        page.evaluate("(tab) => model.set('tab', tab)", tab)
        nameless = page.evaluate(
            f"() => [...document.querySelectorAll('.wia :is({controls})')]"
            ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label')))"
            ".map(e => e.outerHTML)"
        )
        assert nameless == []
    assert page.get_by_role("tab", selected=True).inner_text() == "Graph"
    assert page.get_by_role("tabpanel").get_attribute("aria-labelledby").endswith("-graph")


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > .5) return colour;
    }
    return [255, 255, 255];
  };
  const out = [];
  for (const element of document.querySelectorAll('.wia *')) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest('svg') || !element.offsetParent || element.disabled) continue;
    const a = light(parse(getComputedStyle(element).color)), b = light(ground(element));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    out.push([ratio, element.className + ': ' + element.textContent.slice(0, 30)]);
  }
  return out;
}"""
