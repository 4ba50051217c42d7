"""``Explorer``: what ``%%wia`` gives back: widget, static twin and text in one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wia_compiler.base.errors import WiaError
from wia_compiler.base.record import Stage, Trace
from wia_compiler.base.settings import Settings

from wia_notebook.subject import Subject
from wia_notebook.views import graph_svg
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.payload import later_text, payload
from wia_notebook.views.plain_text import plain_text
from wia_notebook.views.stage_graphs import groups_of
from wia_notebook.views.static_html import report_html, static_html

if TYPE_CHECKING:
    from wia_compiler.runtime.build import Build

    from wia_notebook.widget.explorer_widget import ExplorerWidget

SHOWN_TARGETS = ("cpu", "gpu:sm_80", "gpu:sm_90", "gpu:sm_120", "tpu:spec")
"""Targets offered in the header when they exist; the one in use is always there."""

MIME = {
    "svg": "image/svg+xml",
    "dot": "text/vnd.graphviz",
    "json": "application/json",
    "html": "text/html",
}


class Explorer:
    """Every stage of a kernel, from its text to the machine.

    In a notebook it draws itself; ``trace``, ``build`` and ``stage(name)`` give the same as data,
    ``save("report.html")`` writes one file that needs nothing else. ``result`` is what ``--run``
    gave.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        *,
        shown: str | None = None,
        target: str | None = None,
        static: bool = False,
        result: Any = None,
    ):
        self._subjects = {subject.name: subject for subject in subjects}
        self._shown = shown or subjects[-1].name
        self._target = target or self._subjects[self._shown].target
        self._static = static
        self._exhibit: Exhibit | None = None
        self._widget: ExplorerWidget | None = None
        self.result = result

    @property
    def kernel(self) -> str:
        """The kernel on show."""
        return self._shown

    @property
    def target(self) -> str:
        """The target on show."""
        return self._target

    @property
    def build(self) -> Build | None:
        """The build on show; ``None`` where shapes are not known."""
        return self._subjects[self._shown].built(self._target)

    @property
    def exhibit(self) -> Exhibit:
        """Everything on show, as plain data."""
        if self._exhibit is None:
            self._exhibit = self._make_exhibit(self._shown, self._target)
        return self._exhibit

    @property
    def trace(self) -> Trace:
        """The record on show."""
        return self.exhibit.trace

    def stage(self, name: str) -> Stage:
        """The stage of that name; ``KeyError`` lists the names that exist."""
        return self.trace.stage(name)

    @property
    def widget(self) -> ExplorerWidget:
        """The live view; made when it is first asked for."""
        if self._widget is None:
            from wia_notebook.widget.explorer_widget import ExplorerWidget

            trace = self.trace
            self._widget = ExplorerWidget(data=payload(self.exhibit), stage=first_stage(trace))
            self._widget.on_msg(self._receive)
        return self._widget

    def save(self, path: str | Path) -> Path:
        """Write what is on show; the suffix says what: .html (a report), .svg, .dot or .json."""
        path = Path(path)
        path.write_text(self.export(path.suffix.lstrip(".")), encoding="utf-8")
        return path

    def export(self, format: str, stage: str = "") -> str:
        """The text of a file: ``html``, ``json``, or ``svg`` and ``dot`` of a stage's graph."""
        if format == "html":
            return report_html(self.exhibit)
        if format == "json":
            return self.trace.to_json()
        if format not in ("svg", "dot"):
            raise WiaError(f"no export {format!r}: expected one of {', '.join(MIME)}")
        drawn = self.exhibit.pictures
        if not drawn:
            raise WiaError(f"{self._shown} has no stage with a graph")
        names = [each.name for each in self.trace.stages]
        upto = names[: names.index(stage) + 1] if stage in names else names
        name = next((n for n in reversed(upto) if n in drawn), next(iter(drawn)))
        picture = drawn[name].graph
        if format == "dot":
            return picture.dot
        if not picture.svg:
            raise WiaError(f"{name}: {picture.note}")
        return graph_svg.standalone(picture.svg)

    def show(self, *, kernel: str | None = None, target: str | None = None) -> None:
        """Put another kernel of the cell, or another target, on show."""
        shown, bound = kernel or self._shown, target or self._target
        self._exhibit = self._make_exhibit(shown, bound)
        self._shown, self._target = shown, bound
        if self._widget is not None:
            self._widget.show(payload(self._exhibit), stage=self._kept_stage())

    def run(self) -> None:
        """Run the kernel live and put its point on the roofline, after those of earlier runs."""
        self._subjects[self._shown].measure(self._target)
        self._show_anew(tab="roofline")

    def reschedule(self, schedule: str | None) -> None:
        """Build what is on show by a schedule, and run it again where it had run before.

        ``None`` leaves the schedule to the kernel's text and the target. ``CompileError`` says at
        its line why a schedule cannot be; what is on show then stays.
        """
        subject = self._subjects[self._shown]
        subject.reschedule(self._target, schedule)
        if subject.has_run(self._target):
            subject.measure(self._target)
        self._show_anew()

    def _show_anew(self, tab: str | None = None) -> None:
        self._exhibit = self._make_exhibit(self._shown, self._target)
        if self._widget is not None:
            self._widget.show(payload(self._exhibit), stage=self._kept_stage(), tab=tab)

    def _make_exhibit(self, kernel: str, target: str) -> Exhibit:
        names = list(self._subjects)
        return self._subjects[kernel].exhibit(target, kernels=names, targets=_targets(target))

    def _kept_stage(self) -> str:
        """The stage that was selected, where the new record has it too."""
        assert self._widget is not None
        names = {stage.name for stage in self.trace.stages}
        return self._widget.stage if self._widget.stage in names else first_stage(self.trace)

    def _receive(self, widget: ExplorerWidget, message: dict[str, Any], _: object) -> None:
        """What the browser asks for; whatever goes wrong is shown where it was asked."""
        actions: dict[str, Callable[[], None]] = {
            "target": lambda: self.show(target=str(message["target"])),
            "kernel": lambda: self.show(kernel=str(message["kernel"])),
            "run": self.run,
            "schedule": lambda: self.reschedule(_text_or_none(message.get("text"))),
            "text": lambda: self._send_text(str(message["name"])),
            "export": lambda: self._send_file(
                str(message["format"]), str(message.get("stage", ""))
            ),
        }
        action = actions.get(str(message.get("type")))
        if action is None:
            return
        widget.say(_WAITING.get(str(message["type"]), ""), "busy")
        try:
            action()
        except WiaError as error:
            widget.say(str(error), "error")
        except Exception as error:
            widget.say(f"{type(error).__name__}: {error}", "error")
            raise
        else:
            widget.say("")

    def _send_text(self, name: str) -> None:
        """A long text that the browser looks at for the first time."""
        text = later_text(self.exhibit, name)
        self.widget.send({"type": "text", "name": name, "target": self._target, "text": text})

    def _send_file(self, format: str, stage: str) -> None:
        name = (
            f"{self._shown}.{stage}.{format}"
            if format in ("svg", "dot") and stage
            else f"{self._shown}.{format}"
        )
        text = self.export(format, stage)
        self.widget.send({"type": "file", "name": name, "mime": MIME[format], "text": text})

    def __repr__(self) -> str:
        return plain_text(self.exhibit)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """The widget where a front end is likely, and always HTML and text that need none."""
        bundle = {"text/plain": repr(self), "text/html": static_html(self.exhibit)}
        if self._static or not _has_front_end():
            return bundle
        shown = self.widget._repr_mimebundle_()
        data = shown[0] if isinstance(shown, tuple) else shown
        return {**(data or {}), **bundle}


_WAITING = {
    "target": "building …",
    "kernel": "building …",
    "run": "running and measuring …",
    "schedule": "building by this schedule …",
    "export": "writing …",
}


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def first_stage(trace: Trace) -> str:
    """Where to begin: the pass that made groups, else the last one that left tensors."""
    grouping = [s.name for s in trace.stages if s.decisions and groups_of(s)]
    high = [stage.name for stage in trace.stages if stage.level == "high" and stage.changed]
    return (grouping or high[-1:] or [trace.stages[-1].name])[0]


def _targets(current: str) -> list[str]:
    from wia_compiler.runtime.targets import targets

    exist = targets()
    return [name for name in exist if name in SHOWN_TARGETS or name == current]


def _has_front_end() -> bool:
    """Whether a notebook that draws widgets is likely to be watching."""
    if Settings.read().notebook_static:
        return False
    try:
        import anywidget  # noqa: F401  # pyright: ignore[reportUnusedImport]
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return type(get_ipython()).__name__ == "ZMQInteractiveShell"
