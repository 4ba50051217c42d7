"""What a kernel takes and gives, as its text declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wia_compiler.base.dtypes import DType
from wia_compiler.base.source import Source, Span

Role = Literal["input", "output", "inout", "scalar", "bound"]


@dataclass(frozen=True)
class DeclaredType:
    """A parameter's type as written.

    ``dims`` is ``None`` where rank and sizes are free (``tensor``), else a size, a name or ``None``
    (``?``) for each axis; ``()`` is a scalar. ``dtype`` is ``None`` where it is free.
    """

    dims: tuple[int | str | None, ...] | None = None
    dtype: DType | None = None

    def __str__(self) -> str:
        if self.dims == () and self.dtype is not None:
            return str(self.dtype)
        if self.dims is None:
            return "tensor" if self.dtype is None else f"tensor<{self.dtype}>"
        dims = ["?" if dim is None else str(dim) for dim in self.dims]
        return f"tensor<{', '.join([*dims, *([str(self.dtype)] if self.dtype else [])])}>"


@dataclass(frozen=True)
class ParameterDeclaration:
    """One parameter of a kernel.

    One of role ``bound`` stands for a free name of the text (``params.0`` for the first element of
    a tuple): its array comes from ``bindings=``, not with the call.
    """

    name: str
    role: Role
    type: DeclaredType
    default: bool | int | float | None = None
    span: Span | None = None


@dataclass(frozen=True)
class KernelSignature:
    """A kernel's name and parameters in order; bound ones come last.

    ``results`` counts the values of ``return`` where it has no outputs.
    """

    name: str
    parameters: tuple[ParameterDeclaration, ...]
    source: Source
    results: int = 0
    span: Span | None = None

    @property
    def inputs(self) -> tuple[ParameterDeclaration, ...]:
        """What comes in: what a call passes, then what is bound."""
        return (*self.passed, *(p for p in self.parameters if p.role == "bound"))

    @property
    def passed(self) -> tuple[ParameterDeclaration, ...]:
        """What a call passes in: input, inout and scalar parameters."""
        return tuple(p for p in self.parameters if p.role not in ("output", "bound"))

    @property
    def output_names(self) -> tuple[str, ...]:
        """What a call gives back, in order: output and inout parameters, or ``result0`` …"""
        names = tuple(p.name for p in self.parameters if p.role in ("output", "inout"))
        return names or tuple(f"result{index}" for index in range(self.results))

    def __str__(self) -> str:
        parts = [
            f"{p.role} {p.name}: {p.type}" if p.role != "scalar" else f"{p.name}: {p.type}"
            for p in self.parameters
            if p.role != "bound"
        ]
        return f"{self.name}({', '.join(parts)})"
