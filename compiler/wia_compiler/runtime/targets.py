"""The targets: every folder of ``backends`` with a ``target.py`` is one family of them."""

from __future__ import annotations

import difflib
import functools
import importlib
from pathlib import Path
from typing import Any, Protocol, cast

import wia_compiler.backends
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.target import Target


class TargetFolder(Protocol):
    """What a folder's ``target.py`` offers."""

    def targets(self) -> Any:
        """Names of its targets, the default one first."""
        ...

    def make_target(self, name: str) -> Target:
        """The target of that name."""
        ...


@functools.cache
def _folders() -> dict[str, TargetFolder]:
    (root,) = wia_compiler.backends.__path__
    names = sorted(path.parent.name for path in Path(root).glob("*/target.py"))
    return {
        name: cast(TargetFolder, importlib.import_module(f"wia_compiler.backends.{name}.target"))
        for name in names
    }


def targets() -> list[str]:
    """Names of every target that kernels can be built for: ``cpu``, ``gpu:sm_90`` …"""
    return [name for folder in _folders().values() for name in folder.targets()]


@functools.cache
def make_target(name: str) -> Target:
    """The target of that name; a family's name alone (``gpu``) is its default.

    ``TargetError`` lists what there is and the nearest name.
    """
    family = name.partition(":")[0]
    folder = _folders().get(family)
    if folder is not None and name in (family, *folder.targets()):
        return folder.make_target(name)
    known = targets()
    near = difflib.get_close_matches(name, [*known, *_folders()], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TargetError(f"no target {name!r}: expected one of {', '.join(known)}{hint}")
