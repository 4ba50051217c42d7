"""``StageTable``: the pipeline of one kernel as a table."""

from __future__ import annotations

from wia_compiler.base.record import Trace

from wia_notebook.views import ribbon
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.plain_text import columns
from wia_notebook.views.static_html import stage_table


class StageTable:
    """Level, name, change and time of each stage; ``trace`` holds the stages themselves."""

    def __init__(self, exhibit: Exhibit):
        self._exhibit = exhibit

    @property
    def trace(self) -> Trace:
        """The record."""
        return self._exhibit.trace

    def __repr__(self) -> str:
        trace = self.trace
        rows = [(s.opens_level, s.title, s.detail, s.time) for s in ribbon.steps(trace)]
        lines = columns([("level", "stage", "what it did", "time"), *rows])
        head = f"{trace.kernel} for {trace.target}"
        return "\n".join([head, *lines, *([self._exhibit.hint] if self._exhibit.hint else [])])

    def _repr_html_(self) -> str:
        return stage_table(self._exhibit)
