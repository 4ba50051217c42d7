"""Who is timed: one library a file, each in a process and an environment of its own.

A file has ``REQUIRES`` (what pip installs for it; empty: this project's own environment) and
``make(threads)``, which imports the library and gives a ``Contender``. It may have ``SHARES``
(whose environment it runs in), ``environment(threads)`` (variables of its process) and
``cache_environment(folder)`` (those that put its cache on disk there). The files are the list of
contenders: ``_`` begins those that only help.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from workloads import Array, Inputs, Workload

Call = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """A library under test: how it computes each family, on arrays of its own.

    ``formulas`` maps a family to a function of a workload's arrays, in order, and its options as
    keywords; ``adopt`` makes one of the library's arrays, ``compile`` prepares a formula for its
    arrays, ``finish`` waits for a result. None of these but ``finish`` is timed.
    """

    version: str
    formulas: Mapping[str, Callable[..., Any]]
    adopt: Callable[[Array], Any] = np.asarray
    to_numpy: Callable[[Any], Array] = np.asarray
    compile: Callable[[Callable[..., Any], list[Any]], Callable[..., Any]] | None = None
    finish: Callable[[Any], Any] | None = None

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        """A callable that computes the workload once, or ``None`` where this library does not."""
        formula = self.formulas.get(workload.family)
        if formula is None:
            return None
        arrays = [self.adopt(array) for array in inputs.values()]
        function = _with_options(formula, workload.options)
        if self.compile is not None:
            function = self.compile(function, arrays)
        return _call(function, arrays, self.finish)


def _with_options(formula: Callable[..., Any], options: Mapping[str, int]) -> Callable[..., Any]:
    if not options:
        return formula
    return lambda *arrays: formula(*arrays, **options)


def _call(
    function: Callable[..., Any], arrays: list[Any], finish: Callable[[Any], Any] | None
) -> Call:
    """A call without the cost of unpacking, which would count against those that are fast."""
    if finish is not None:
        return lambda: finish(function(*arrays))
    match arrays:
        case [x]:
            return lambda: function(x)
        case [x, y]:
            return lambda: function(x, y)
        case _:
            return lambda: function(*arrays)


def contender_names() -> list[str]:
    """All contenders, ours first."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    return ["wia", *(name for name in files if name != "wia")]


def contender_module(name: str) -> ModuleType:
    """The file of a contender; it imports its library only in ``make``."""
    return importlib.import_module(f"contenders.{name}")
