"""The static twin, the report and the browser's record."""

import dataclasses
import json
from html.parser import HTMLParser

import pytest
from notebook_sample import PTX, sample_exhibit
from wia_compiler.base.record import Trace
from wia_notebook.views.payload import MAX_LINES as MAX_SENT
from wia_notebook.views.payload import later_text, payload
from wia_notebook.views.plain_text import plain_text
from wia_notebook.views.static_html import MAX_LINES, report_html, static_html

EXHIBIT = sample_exhibit(ran=True)


class Tags(HTMLParser):
    """Tags, attributes and text of an HTML text; unbalanced tags fail."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("img", "br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_twin_needs_neither_script_nor_style():
    found = Tags(static_html(EXHIBIT))
    assert not {"script", "style", "svg", "iframe", "link"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
    images = [value for name, value in found.attributes if name == "src"]
    assert len(images) == 3 and all(src.startswith("data:image/svg+xml;base64,") for src in images)
    alts = [value for name, value in found.attributes if name == "alt"]
    assert alts[:2] == [
        "graph before fusion: 5 ops · 5 launches",
        "graph after fusion: 5 ops · 3 launches",
    ]


def test_the_twin_says_what_the_explorer_shows():
    text = Tags(static_html(EXHIBIT)).text
    for part in (
        "conv_block",
        "infer shapes",
        "no change",
        "✕ refused",
        "fma.rn.f32",
        "Registers per thread",
        "compute bound",
        "38.2 GB/s",
    ):
        assert part in text


def test_long_texts_are_cut_and_counted():
    exhibit = dataclasses.replace(EXHIBIT, trace=_with_ptx(PTX * 100))
    html = static_html(exhibit)
    lines = len((PTX * 100).splitlines())
    assert f"⋯ {lines - MAX_LINES} more lines; the report has them all" in html
    assert report_html(exhibit).count("fma.rn") == 100


def test_the_report_is_one_file_that_asks_for_nothing():
    html = report_html(EXHIBIT)
    found = Tags(html.removeprefix("<!doctype html>"))
    assert "script" not in found.tags
    assert not [
        v for n, v in found.attributes if n in ("src", "href") and not str(v).startswith("data:")
    ]
    assert found.tags.count("svg") >= 4 and found.tags.count("details") >= 9
    assert "prefers-color-scheme:dark" in html
    assert "inline changed nothing" in found.text and "EXIT" in found.text


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=a>', "&lt;b&gt;", "행렬"]
)
def test_text_of_the_user_stays_text(hostile):
    trace = dataclasses.replace(
        EXHIBIT.trace, kernel=hostile, source=hostile, signature=f"({hostile})"
    )
    exhibit = dataclasses.replace(EXHIBIT, trace=trace, hint=hostile, outputs=(hostile,))
    for html in (static_html(exhibit), report_html(exhibit)):
        found = Tags(html.removeprefix("<!doctype html>"))
        assert hostile in found.text and "script" not in found.tags
        assert not [name for name, _ in found.attributes if name.startswith("on")]


def test_plain_text_is_a_table_with_the_decisions():
    text = plain_text(EXHIBIT)
    assert "  high     import" in text
    assert "relu → reduce_sum: ✕ refused: div also reads it, and 1.18 < 1.5" in text
    assert "roofline: compute bound, 39 % of the f32 FMA roof" in text
    assert max(map(len, text.splitlines())) < 140


def test_the_record_for_the_browser_repeats_no_text():
    made = payload(EXHIBIT)
    text = json.dumps(made)
    assert len(text) < 60_000
    stages = {stage["name"]: stage for stage in made["stages"]}
    assert stages["inline"]["same"] == "import" and "text" not in stages["inline"]
    assert [pane["stage"] for pane in made["assembly"]] == ["llvm", "ptx", "sass"]
    assert stages["fusion"]["plan"]["counts"] == "5 ops · 5 launches"
    assert stages["loops"]["nest"]["boxes"][0]["children"][0]["note"] == "@serial"
    first, last, numbers = stages["ptx"]["lines"][0]
    assert (first, last) == (9, 12) and [made["spans"][n] for n in numbers] == [(8, 7, 8, 30)]
    assert made["opcodes"]["ptx"]["fma.rn.f32"].startswith("one fused multiply-add")


def test_a_text_that_no_stage_holds_is_sent_with_its_pane():
    exhibit = dataclasses.replace(EXHIBIT, assembly={"ptx": "other"})
    assert payload(exhibit)["assembly"][0]["text"] == "other"


def test_a_record_survives_json_before_it_is_drawn():
    again = Trace.from_json(EXHIBIT.trace.to_json())
    assert payload(dataclasses.replace(EXHIBIT, trace=again)) == payload(EXHIBIT)


def _with_ptx(text):
    stages = tuple(
        dataclasses.replace(s, text=text) if s.name == "ptx" else s for s in EXHIBIT.trace.stages
    )
    return dataclasses.replace(EXHIBIT.trace, stages=stages)


def test_a_text_without_end_is_cut_and_says_so():
    exhibit = dataclasses.replace(EXHIBIT, trace=_with_ptx("nop\n" * (MAX_SENT + 17)), assembly={})
    lines = later_text(exhibit, "ptx").split("\n")
    assert len(lines) == MAX_SENT + 1 and lines[-1].startswith("… 18 more lines")
