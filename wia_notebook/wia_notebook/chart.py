"""``RooflineChart``: a profile's roofline as a plotly figure, a picture and text."""

from __future__ import annotations

from typing import Any

from wia_notebook.measure import roofline_of
from wia_notebook.views.plain_text import columns
from wia_notebook.views.roofline import Roofline, roofline_svg, rows, standalone
from wia_notebook.views.roofline_figure import roofline_figure
from wia_notebook.views.static_html import roofline_html

PLOTLY = "application/vnd.plotly.v1+json"


class RooflineChart:
    """Where a kernel stands below its machine; ``profile`` holds the run behind it."""

    def __init__(self, roofline: Roofline, profile: Any = None):
        self.roofline = roofline
        self.profile = profile

    @staticmethod
    def of(profile: Any) -> RooflineChart:
        """The chart of a profile."""
        return RooflineChart(roofline_of(profile), profile)

    @property
    def svg(self) -> str:
        """The picture as one self-contained SVG text."""
        return standalone(roofline_svg(self.roofline))

    def __repr__(self) -> str:
        lines = [f"roofline of {self.roofline.kernel}: {self.roofline.headline}"]
        return "\n".join([*lines, *columns([("what", "value", "from"), *rows(self.roofline)])])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {
            "text/plain": repr(self),
            "text/html": roofline_html(self.roofline),
        }
        if self.roofline.points:
            bundle[PLOTLY] = roofline_figure(self.roofline)
        return bundle
