"""What an explorer shows of one kernel: the record and what stands around it, as plain data."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wia_compiler.base.record import Trace

from wia_notebook.views.line_counts import LineCounts
from wia_notebook.views.roofline import Roofline
from wia_notebook.views.stage_graphs import StagePictures, pictures


@dataclass(frozen=True)
class Exhibit:
    """One kernel for one target.

    ``assembly`` maps each format that exists to its text, in the order of lowering;
    ``resources`` is what ``build.resources`` holds; ``origin`` says where the code came from
    (``from cache · 1.8 ms``); ``roofline`` is there once the kernel ran. ``outputs`` are the
    names of what comes out, ``signature`` the header's text (else the record's). ``hint`` says
    what to do to see more, where stages are missing. ``counts`` has what a run counted along the
    lines of an assembly format, or of the ``cell``; ``made_of`` names, for a format, the one that
    its lines were made of, and the line there of each of them (SASS of PTX). ``schedule`` is
    the text of what was applied; ``own_schedule`` says that it is the reader's, not the target's.
    """

    trace: Trace
    assembly: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: str = ""
    outputs: Sequence[str] = ()
    targets: Sequence[str] = ()
    kernels: Sequence[str] = ()
    roofline: Roofline | None = None
    hint: str = ""
    signature: str = ""
    counts: Mapping[str, LineCounts] = field(default_factory=dict[str, LineCounts])
    made_of: Mapping[str, tuple[str, Mapping[int, int]]] = field(
        default_factory=dict[str, tuple[str, Mapping[int, int]]]
    )
    schedule: str = ""
    own_schedule: bool = False

    @functools.cached_property
    def pictures(self) -> dict[str, StagePictures]:
        """The graphs of its stages, drawn once for all who show them."""
        return pictures(self.trace, self.outputs)

    @property
    def header(self) -> str:
        """The signature to show beside the kernel's name."""
        return self.signature or self.trace.signature.removeprefix(self.trace.kernel)
