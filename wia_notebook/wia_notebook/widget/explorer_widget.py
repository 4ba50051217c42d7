"""The explorer's widget: what browser and Python share of its state."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from wia_notebook.views.highlight import javascript_patterns
from wia_notebook.widget import assets


class ExplorerWidget(anywidget.AnyWidget):
    """The whole explorer as one view; ``data`` is what ``views.payload`` makes of an exhibit.

    ``stage`` is the selected stage, ``compare`` the one it stands beside (empty: the last that
    changed something, ``-``: none), ``selected`` what is pinned (``fusion/3``, ``line/8``,
    ``text/ptx/12``), ``formats`` the assembly on show, ``metric`` the counter beside its lines,
    ``status`` a line with its kind.
    """

    _esm = assets.script()
    _css = assets.style()

    data = traitlets.Dict({}).tag(sync=True)
    patterns = traitlets.Dict(javascript_patterns()).tag(sync=True)
    stage = traitlets.Unicode("").tag(sync=True)
    compare = traitlets.Unicode("").tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    tab = traitlets.Unicode("graph").tag(sync=True)
    formats = traitlets.List(traitlets.Unicode(), []).tag(sync=True)
    metric = traitlets.Unicode("").tag(sync=True)
    status = traitlets.Dict({}).tag(sync=True)

    def say(self, text: str, kind: str = "done") -> None:
        """Show a line below the header: ``busy``, ``done`` or ``error``; empty text hides it."""
        self.status = {"text": text, "kind": kind if text else ""}

    def show(self, data: dict[str, Any], *, stage: str, tab: str | None = None) -> None:
        """Replace everything on show at once."""
        with self.hold_sync():
            self.data = data
            self.stage = stage
            self.selected = ""
            self.compare = ""
            self.formats = []
            if tab is not None:
                self.tab = tab
