"""The browser's half of the explorer as one module and one style sheet."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from wia_notebook import theme
from wia_notebook.views import graph_svg, roofline

_FOLDER = Path(__file__).parent
_MODULES = (
    "dom",
    "highlight",
    "diff",
    "links",
    "listing",
    "texts",
    "decisions_tab",
    "resources_tab",
    "graph_tab",
    "text_tab",
    "line_counts",
    "assembly_tab",
    "roofline_tab",
    "counters_tab",
    "schedule_tab",
    "source",
    "ribbon",
    "search",
    "export",
    "store",
    "explorer",
)
"""Each stands after those it imports; ``script`` joins them into one module, no build tool."""

_IMPORT = re.compile(r'^import [^;]*? from "\./[\w]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|const|let|class)", re.MULTILINE)
_COMMENT = re.compile(r"^ *// .*\n", re.MULTILINE)
_INDENT = re.compile(r"^ +", re.MULTILINE)


@cache
def script() -> str:
    """All modules as one ES module whose default export is the widget."""
    parts = [(_FOLDER / "js" / f"{name}.js").read_text(encoding="utf-8") for name in _MODULES]
    return "".join(_module(name, text) for name, text in zip(_MODULES, parts, strict=True))


def _module(name: str, text: str) -> str:
    """A module's own names stay inside a block; what it exports goes out of it."""
    names = re.findall(r"^export (?:function|const) (\w+)", text, re.MULTILINE)
    body = _INDENT.sub("", _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", text))))
    if name == "explorer":
        return body
    return (
        f"const {{{', '.join(names)}}} = (() => {{\n{body}return {{{', '.join(names)}}};\n}})();\n"
    )


@cache
def style() -> str:
    """The style sheet with the theme's colours."""
    own = _INDENT.sub("", (_FOLDER / "explorer.css").read_text(encoding="utf-8"))
    return theme.page_css(".wia") + own + graph_svg.CSS + roofline.CSS
