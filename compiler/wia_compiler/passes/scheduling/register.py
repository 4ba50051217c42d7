"""Which directives there are: the files of two folders, imported when first asked for."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from typing import Protocol, cast

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling import directives, points
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite


class DirectiveModule(Protocol):
    """What a file of ``directives`` and ``points`` offers."""

    SYNTAX: str
    """How its line is written: ``tile AXIS SIZE, … [@LEVEL]``."""

    def apply(self, nest: ScheduledNest, directive: Directive) -> None:
        """Change the nest as the line says; ``IllegalRewrite`` where results would change."""
        ...


@functools.cache
def directive_names() -> tuple[str, ...]:
    """The names of all directives, in alphabetical order."""
    found = pkgutil.iter_modules(directives.__path__)
    return tuple(sorted(each.name for each in found if not each.name.startswith("_")))


@functools.cache
def _point_names() -> frozenset[str]:
    return frozenset(each.name for each in pkgutil.iter_modules(points.__path__))


def find_directive(name: str, *, on_points: bool = False) -> DirectiveModule:
    """The directive of that name; ``IllegalRewrite`` names the nearest, or all.

    ``on_points`` asks for its form on point code, where there is one.
    """
    known = directive_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise IllegalRewrite(f"no directive {name!r}", hint=hint)
    folder = points if on_points and name in _point_names() else directives
    return cast(DirectiveModule, importlib.import_module(f"{folder.__name__}.{name}"))
