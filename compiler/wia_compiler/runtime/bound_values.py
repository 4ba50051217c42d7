"""The values of free names: which arrays a call adds, which numbers the text took for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.signature import KernelSignature


class BoundNumber(NamedTuple):
    """A number that stands in the code in place of a free name."""

    name: str
    value: bool | int | float


class BoundArrays:
    """The bound parameters of a kernel, looked up in ``bindings`` at each call; false where none.

    ``params.0`` is the first element of the tuple that ``params`` is bound to.
    """

    def __init__(self, signature: KernelSignature, bindings: Mapping[str, Any]):
        self._signature = signature
        self._bindings = bindings
        self._names = [p.name for p in signature.parameters if p.role == "bound"]
        self._is_plain = not any("." in name for name in self._names)

    def __bool__(self) -> bool:
        return bool(self._names)

    def read(self) -> tuple[Any, ...]:
        """Their values at this moment; ``ArgumentError`` where one is gone or something else."""
        if self._is_plain:
            try:
                return tuple([self._bindings[name] for name in self._names])
            except KeyError:
                pass  # said below, with the name
        return tuple(_value(self._signature, name, self._bindings) for name in self._names)


def bound_arrays(signature: KernelSignature, bindings: Mapping[str, Any]) -> list[Any]:
    """The values of the bound parameters, in order, as ``bindings`` has them at this moment.

    Raises ``ArgumentError`` where a name is gone or has become something else.
    """
    return list(BoundArrays(signature, bindings).read())


def bound_numbers(names: Iterable[str], bindings: Mapping[str, Any]) -> tuple[BoundNumber, ...]:
    """The numbers among ``names``, each once and in order of names; tuples give their elements."""
    found: list[BoundNumber] = []
    for name in sorted({name for name in names if name in bindings}):
        value = bindings[name]
        parts: list[tuple[str, Any]] = [(name, value)]
        if isinstance(value, tuple | list):
            elements = cast("Sequence[Any]", value)
            parts = [(f"{name}.{place}", element) for place, element in enumerate(elements)]
        for part, number in parts:
            if isinstance(number, np.generic):
                number = cast("Any", number).item()
            if isinstance(number, bool | int | float):
                found.append(BoundNumber(part, number))
    return tuple(found)


def _value(signature: KernelSignature, name: str, bindings: Mapping[str, Any]) -> Any:
    base, dot, place = name.partition(".")
    where = f"{signature.name}({name})"
    if base not in bindings:
        raise ArgumentError(
            f"{where}: {base!r} was bound when the kernel was compiled and is gone\n"
            f"  help: set {base} again"
        )
    value = bindings[base]
    if not dot:
        return value
    is_sequence = isinstance(value, tuple | list)
    elements = cast("Sequence[Any]", value) if is_sequence else ()
    if int(place) >= len(elements):
        raise ArgumentError(
            f"{where}: {base!r} was a tuple of at least {int(place) + 1} arrays when the kernel "
            f"was compiled, found {_described(value)}\n  help: compile the kernel again"
        )
    return elements[int(place)]


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(cast('Sequence[Any]', value))} elements"
    return f"a {type(value).__name__}"
