"""The targets: every folder of ``backends`` with a ``target.py`` is one family of them."""

from __future__ import annotations

import difflib
import functools
import importlib
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

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


@runtime_checkable
class WantsSimulator(Protocol):
    """A target whose kernels can run on a simulator of their text, named by its folder."""

    @property
    def simulator(self) -> str: ...

    def with_simulator(self, simulate: Any) -> Target:
        """The same target, whose kernels run on ``simulate``."""
        ...


def targets() -> list[str]:
    """Names of every target that kernels can be built for: ``cpu``, ``gpu:sm_90`` …"""
    return [name for family in families() for name in _folder(family).targets()]


@functools.cache
def families() -> tuple[str, ...]:
    """Names of the folders: ``cpu``, ``gpu`` …"""
    (root,) = wia_compiler.backends.__path__
    return tuple(sorted(path.parent.name for path in Path(root).glob("*/target.py")))


@functools.cache
def make_target(name: str) -> Target:
    """The target of that name; a family's name alone (``gpu``) is its default.

    ``TargetError`` lists what there is and the nearest name.
    """
    family = name.partition(":")[0]
    if family in families():
        folder = _folder(family)
        if name in (family, *folder.targets()):
            return _with_simulator(folder.make_target(name))
    known = targets()
    near = difflib.get_close_matches(name, [*known, *families()], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TargetError(f"no target {name!r}: expected one of {', '.join(known)}{hint}")


def _with_simulator(target: Target) -> Target:
    """A target that asks for a simulator gets the one in the folder that it names.

    Backends and simulators know nothing of each other; here is where they meet.
    """
    if not isinstance(target, WantsSimulator):
        return target
    folder = f"wia_compiler.simulators.{target.simulator}"

    def simulate(*arguments: Any, **keywords: Any) -> Any:
        return importlib.import_module(folder).run(*arguments, **keywords)

    return target.with_simulator(simulate)


def _folder(family: str) -> TargetFolder:
    # One at a time: a kernel for the CPU need not wait for what the others import.
    return cast(TargetFolder, importlib.import_module(f"wia_compiler.backends.{family}.target"))
