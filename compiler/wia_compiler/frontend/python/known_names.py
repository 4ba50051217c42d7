"""What the names of a Python function stand for outside of it: numbers, arrays, kernels …"""

from __future__ import annotations

import ast
import builtins
import types
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

MISSING = object()


@dataclass(frozen=True)
class KnownNames:
    """Closure variables first, then globals: looked up when they are needed, as Python does."""

    names: Mapping[str, Any]
    resolved: dict[str, str] = field(default_factory=dict[str, str])
    """How names were read (``F.relu`` as ``relu``): part of what the code depends on."""

    @staticmethod
    def of(function: types.FunctionType) -> KnownNames:
        """The names that a function sees."""
        closure: dict[str, Any] = {}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                closure[name] = cell.cell_contents
            except ValueError:
                continue  # set later in the function around it
        return KnownNames(ChainMap(closure, function.__globals__))

    def object(self, node: ast.expr) -> Any:
        """What a name or ``module.name`` stands for, or ``MISSING``."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, vars(builtins).get(node.id, MISSING))
        if isinstance(node, ast.Attribute):
            base = self.object(node.value)
            if isinstance(base, types.ModuleType):
                return getattr(base, node.attr, MISSING)
        return MISSING

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an annotation; ``MISSING`` where it has none."""
        expression = ast.Expression(node)
        try:
            return eval(compile(expression, "<annotation>", "eval"), dict(self.names))
        except Exception:
            return MISSING

    def number(self, node: ast.expr) -> bool | int | float | None:
        """The number that a name or a module's constant stands for."""
        value = self.object(node)
        if isinstance(value, np.generic):
            value = cast("Any", value).item()
        return value if isinstance(value, bool | int | float) else None


def library_of(value: Any) -> str | None:
    """The first part of the name of the module that an object is, or comes from."""
    name = value.__name__ if isinstance(value, types.ModuleType) else None
    if name is None:
        name = getattr(value, "__module__", None)
    if name is None and isinstance(value, np.ufunc):
        name = "numpy"
    return name.split(".")[0] if isinstance(name, str) else None


def is_array(value: Any) -> bool:
    """Whether an object is an array (modules have functions of these names)."""
    return (
        not isinstance(value, types.ModuleType | type)
        and hasattr(value, "shape")
        and hasattr(value, "dtype")
    )
