"""Finding the kernels of this folder."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

import wia_kernels
from wia_kernels.definition import KernelDefinition


@functools.cache
def definitions() -> Mapping[str, KernelDefinition]:
    """Every kernel of the library by name, in alphabetical order."""
    found: dict[str, KernelDefinition] = {}
    for module in pkgutil.iter_modules(wia_kernels.__path__):
        family = importlib.import_module(f"{wia_kernels.__name__}.{module.name}")
        for definition in getattr(family, "KERNELS", ()):
            if definition.name in found:
                raise ValueError(f"two kernels are named {definition.name!r}")
            found[definition.name] = definition
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """The names of all kernels, in alphabetical order."""
    return tuple(definitions())


def get(name: str) -> KernelDefinition:
    """The kernel of that name; ``KeyError`` lists the names that exist."""
    if name not in definitions():
        raise KeyError(f"no kernel {name!r}; there are: {', '.join(names())}")
    return definitions()[name]
