"""The explorer without a browser's help: HTML that survives sanitising, and a full report file.

No script, no style that meaning hangs on: pictures are ``<img>`` with their SVG inside and words
for those who do not see them, the rest is ``<table>``, ``<pre>`` and ``<details>``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape

from wia_compiler.base.record import Stage

from wia_notebook import theme
from wia_notebook.views import (
    decisions,
    graph_svg,
    highlight,
    resources,
    ribbon,
    roofline,
    text_diff,
)
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.stage_graphs import Picture, StagePictures

Show = Callable[[Picture, str], str]
"""How a picture with its words becomes HTML."""

MAX_LINES = 160
"""Lines of one text in a notebook's output; the report has them all."""


def static_html(exhibit: Exhibit) -> str:
    """The twin that stands in the saved notebook beside the widget."""
    drawn = exhibit.pictures
    parts = [_head(exhibit), stage_table(exhibit), *_fusion(exhibit, drawn, image)]
    if exhibit.roofline is not None:
        parts.append(roofline_html(exhibit.roofline))
    parts += [
        _details(ribbon.title(stage.name), stage.language, stage.text, MAX_LINES, colours=False)
        for stage in exhibit.trace.stages
        if stage.changed and stage.level != "source"
    ]
    if exhibit.resources:
        parts.append(_fold("Resources", resources.resources_html(exhibit.resources)))
    return f'<div class="wia-static">{"".join(parts)}</div>'


def report_html(exhibit: Exhibit) -> str:
    """One self-contained file: every stage in full, coloured, with what it changed."""
    trace = exhibit.trace
    drawn = exhibit.pictures
    body = [_head(exhibit), f"<h2>Source</h2>{_listing('wia', trace.source)}"]
    body += ["<h2>Pipeline</h2>", stage_table(exhibit), *_fusion(exhibit, drawn, _inline)]
    if exhibit.roofline is not None:
        body += ["<h2>Roofline</h2>", roofline_html(exhibit.roofline, inline=True)]
    if exhibit.resources:
        body += ["<h2>Resources</h2>", resources.resources_html(exhibit.resources)]
    body.append("<h2>Every stage</h2>")
    previous: Stage | None = None
    for stage in trace.stages:
        body.append(_report_stage(stage, previous, drawn.get(stage.name)))
        previous = stage if stage.changed else previous
    stages = {stage.name for stage in trace.stages}
    body += [
        _details(name, name, text, None, colours=True)
        for name, text in exhibit.assembly.items()
        if name not in stages
    ]
    title = escape(f"{trace.kernel} for {trace.target}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_report_css()}</style></head>'
        f'<body><main class="wia-report">{"".join(body)}</main></body></html>\n'
    )


def image(picture: Picture, words: str) -> str:
    """A picture that a sanitiser lets through."""
    return svg_image(graph_svg.standalone(picture.svg), words)


def svg_image(svg: str, words: str) -> str:
    """An SVG text as ``<img>``."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(words, quote=True)}" src="data:image/svg+xml;base64,{data}">'


def stage_table(exhibit: Exhibit) -> str:
    """The pipeline as a table; what changed nothing says so."""
    rows = "".join(
        f"<tr><td>{escape(step.opens_level)}</td><td>{_strong(step.title, step.changed)}</td>"
        f"<td>{escape(step.detail)}</td><td>{escape(step.time)}</td></tr>"
        for step in ribbon.steps(exhibit.trace)
    )
    head = "<tr><th>level</th><th>stage</th><th>what it did</th><th>time</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def roofline_html(shown: roofline.Roofline, *, inline: bool = False) -> str:
    """The picture, every number with its origin, and advice."""
    svg = roofline.roofline_svg(shown)
    words = f"roofline of {shown.kernel}: {shown.headline}"
    picture = svg if inline else svg_image(roofline.standalone(svg), words)
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td><td>{escape(origin)}</td></tr>"
        for name, value, origin in roofline.rows(shown)
    )
    head = "<tr><th>what</th><th>value</th><th>from</th></tr>"
    advice = "".join(f"<p>{escape(each.text)}</p>" for each in shown.advice)
    return f"<p>{escape(words)}</p>{picture}<table>{head}{rows}</table>{advice}"


def _head(exhibit: Exhibit) -> str:
    trace = exhibit.trace
    facts = " · ".join(part for part in (trace.target, exhibit.origin) if part)
    hint = f"<p>{escape(exhibit.hint)}</p>" if exhibit.hint else ""
    return (
        f"<p><b>{escape(trace.kernel)}</b> <code>{escape(exhibit.header)}</code><br>"
        f"{escape(facts)}</p>{hint}"
    )


def _fusion(exhibit: Exhibit, drawn: dict[str, StagePictures], show: Show) -> list[str]:
    """Before and after the pass that fused, with its decisions; else the last graph there is."""
    trace = exhibit.trace
    fusing = [stage for stage in trace.stages if stage.name in drawn and drawn[stage.name].plan]
    if not fusing:
        last = next((s for s in reversed(trace.stages) if s.name in drawn), None)
        if last is None:
            return []
        return [_shown(drawn[last.name].graph, f"{ribbon.title(last.name)}", show)]
    parts: list[str] = []
    for stage in fusing:
        plan = drawn[stage.name].plan
        assert plan is not None
        title = ribbon.title(stage.name)
        before = _shown(plan, f"before {title}", show)
        after = _shown(drawn[stage.name].graph, f"after {title}", show)
        parts.append(f"<table><tbody><tr><td>{before}</td><td>{after}</td></tr></tbody></table>")
        parts.append(decisions.decisions_html(stage.decisions))
    return parts


def _shown(picture: Picture, title: str, show: Show) -> str:
    if not picture.svg:
        return f"<p><b>{escape(title)}</b> {escape(picture.note)}</p>"
    words = f"graph {title}: {picture.counts}"
    return f"<p><b>{escape(title)}</b> {escape(picture.counts)}</p>{show(picture, words)}"


def _inline(picture: Picture, words: str) -> str:
    return f"<div>{picture.svg}</div>"


def _report_stage(stage: Stage, previous: Stage | None, drawn: StagePictures | None) -> str:
    title = ribbon.title(stage.name)
    if not stage.changed:
        return f"<p><b>{escape(title)}</b> changed nothing</p>"
    parts = [f"<div>{drawn.graph.svg}</div>" if drawn is not None else ""]
    if stage.decisions:
        parts.append(decisions.decisions_html(stage.decisions))
    if previous is not None and previous.language == stage.language:
        parts.append(_fold("what it changed", text_diff.diff_html(previous.text, stage.text)))
    parts.append(_listing(stage.language, stage.text))
    return _fold(f"{title} · {ribbon.detail(stage)}", "".join(parts))


def _details(title: str, language: str, text: str, limit: int | None, *, colours: bool) -> str:
    lines = text.splitlines()
    shown = lines if limit is None else lines[:limit]
    left = len(lines) - len(shown)
    note = f"\n⋯ {left} more lines; the report has them all" if left else ""
    inside = "\n".join(
        highlight.html(language, line) if colours else escape(line) for line in shown
    )
    return _fold(f"{title} · {len(lines)} lines", f"<pre>{inside}{note}</pre>")


def _listing(language: str, text: str) -> str:
    return (
        "<pre>" + "\n".join(highlight.html(language, line) for line in text.splitlines()) + "</pre>"
    )


def _fold(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _strong(text: str, strong: bool) -> str:
    return f"<b>{escape(text)}</b>" if strong else escape(text)


def _report_css() -> str:
    words = {
        "kw": "fusion",
        "ty": "elementwise",
        "op": "accent",
        "cm": "faint",
        "nu": "number",
        "st": "string",
        "la": "loop",
    }
    coloured = "".join(f".w-{kind}{{color:var(--wia-{colour})}}" for kind, colour in words.items())
    return (
        theme.page_css("body")
        + graph_svg.CSS
        + roofline.CSS
        + coloured
        + f"body{{margin:0;background:var(--wia-bg);color:var(--wia-ink);"
        f"font:14px/1.5 {theme.SANS}}}"
        ".wia-report{max-width:1100px;margin:0 auto;padding:24px}"
        "h2{font-size:15px;margin:26px 0 8px}svg{max-width:100%;height:auto}"
        f"pre,code{{font:12px/1.55 {theme.MONO}}}code{{color:var(--wia-dim)}}"
        "pre{overflow:auto;background:var(--wia-panel);border:1px solid var(--wia-line);"
        "border-radius:8px;padding:10px 12px;max-height:70vh}"
        "table{border-collapse:collapse;margin:8px 0}td,th{text-align:left;padding:4px 12px 4px 0;"
        "border-bottom:1px solid var(--wia-line);font-size:13px;vertical-align:top}"
        "th{color:var(--wia-dim)}details{border-bottom:1px solid var(--wia-line);padding:6px 0}"
        "summary{cursor:pointer;font-weight:600}.d-gone{color:var(--wia-bad)}"
        ".d-new{color:var(--wia-good)}.d-skip{color:var(--wia-faint)}"
    )
