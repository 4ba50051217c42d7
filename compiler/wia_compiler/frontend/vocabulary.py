"""The words of the language with one line on each: for completion, highlighting and help.

Importing this is cheap; ``operations()`` reads the op declarations at its first call.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wia_compiler.dialects.wia.aliases import ALIASES

if TYPE_CHECKING:
    from wia_compiler.dialects.types import Value
    from wia_compiler.dialects.wia.declaration import OpDeclaration, Parameter

KEYWORDS: dict[str, str] = {
    "kernel": "kernel NAME(parameters) { statements }: what compiles to one callable",
    "input": "input A: TYPE: an array that the call passes in",
    "output": "output C: TYPE: an array that the kernel gives back; set it with C = …;",
    "inout": "inout D: TYPE: an array that is passed in and given back changed",
    "let": "let x = expression; or let x: TYPE = expression; names a value",
    "return": "return a, b; gives values back where the kernel has no outputs; return; ends early",
    "if": "if c { … } else { … }: one of two blocks, by one bool (c ? a : b chooses by element)",
    "else": "the block of if where the condition does not hold",
    "for": "for i in 0..N step 4 { … }: i is 0, 4, 8 … below N",
    "in": "between a loop's variable and its range",
    "step": "the distance between two values of a loop's variable",
    "while": "while c { … }: again as long as one bool holds",
    "func": "func @f(%x: tensor) -> tensor { lines }: a kernel in the IR notation",
    "call": "%y = call @f(%x): what f(%x) does, whatever op is named f",
    "br": "br ^label(%x): goes on at a label, with its arguments",
    "cond_br": "cond_br %c, ^then, ^else: goes on where the condition says",
    "pattern": "pattern NAME { match: lines rewrite: lines }: a rewrite of your own",
    "match": "match: the ops that a pattern looks for",
    "rewrite": "rewrite: what a pattern puts in their place",
    "schedule": "schedule KERNEL { tile i 128; unroll k 4; }: how a kernel is run",
    "at": "pack A at j.0: the loop of a schedule at which a tile is copied",
    "true": "the bool that holds",
    "false": "the bool that does not hold",
}
"""Reserved words where the grammar can take them."""

DIRECTIVES: dict[str, str] = {
    "accumulators": "accumulators k 4: so many partial sums, each over every fourth point",
    "cache": "cache A at i.0: a tile of an array in a local buffer, its axes as they lie",
    "dot": "dot: four neighbouring products of 8-bit integers added at a time, after pack",
    "fuse_at": "fuse_at P i: what P computes, computed at a loop of what reads it",
    "keep": "keep: what several passes over a row compute is computed once",
    "pack": "pack A at i.0: a tile of an array, copied to the order in which it is read",
    "parallel": "parallel i: iterations are shared among threads",
    "pipeline": "pipeline k 2: loads run so many stages ahead of what uses them",
    "prefetch": "prefetch A 32, L2: an array is brought nearer so many iterations ahead",
    "reorder": "reorder j, i: the order in which loops stand one in another",
    "stream": "stream C: a result is written past the caches",
    "thread_tile": "thread_tile i 8, j 32: points of the innermost leaf, sums in registers",
    "tile": "tile i 128, j 128, k 32: blocks of the iteration space",
    "unroll": "unroll k 4: so many iterations in one turn",
    "unroll_and_jam": "unroll_and_jam i 4: iterations of an outer loop in one turn of the inner",
    "use_tensor_cores": "use_tensor_cores: products by units that multiply whole tiles",
    "vectorize": "vectorize j 16: so many lanes along an axis",
}
"""What the lines of a schedule may begin with."""

TYPES: dict[str, str] = {
    "tensor": "an array; tensor<M, K, f32> or tensor<4x8xf32> fixes sizes and dtype",
    "f64": "64-bit float (IEEE 754 binary64)",
    "f32": "32-bit float (IEEE 754 binary32)",
    "f16": "16-bit float (IEEE 754 binary16); sums are carried in f32",
    "bf16": "16-bit float with f32's exponent range; sums are carried in f32",
    "i64": "64-bit signed integer; wraps",
    "i32": "32-bit signed integer; wraps",
    "i16": "16-bit signed integer; wraps",
    "i8": "8-bit signed integer; wraps",
    "u8": "8-bit unsigned integer; wraps",
    "bool": "true or false",
}
"""``tensor`` and the dtypes; a dtype alone is a scalar."""


@dataclass(frozen=True)
class OperatorRow:
    """Operators of one precedence: their spellings, the ops they are, how they group."""

    spellings: tuple[str, ...]
    operations: tuple[str, ...]
    grouping: str


OPERATORS: tuple[OperatorRow, ...] = (
    OperatorRow(("? :",), ("where",), "right"),
    OperatorRow(("||",), ("logical_or",), "left"),
    OperatorRow(("&&",), ("logical_and",), "left"),
    OperatorRow(
        ("==", "!=", "<", "<=", ">", ">="), ("eq", "ne", "lt", "le", "gt", "ge"), "no chains"
    ),
    OperatorRow(("+", "-"), ("add", "sub"), "left"),
    OperatorRow(("*", "/", "//", "%", "@"), ("mul", "div", "floordiv", "mod", "matmul"), "left"),
    OperatorRow(("- (sign)", "!"), ("neg", "logical_not"), "prefix"),
    OperatorRow(("**",), ("pow",), "right"),
    OperatorRow(("f(x)", "A[i]"), (), "postfix"),
)
"""From the loosest to the tightest."""


@dataclass(frozen=True)
class Operation:
    """One op that a kernel can call: ``softmax(input, dim=-1)`` and what it means."""

    name: str
    signature: str
    doc: str
    family: str
    operator: str | None
    parameters: tuple[str, ...]


@functools.cache
def operations() -> dict[str, Operation]:
    """Every op by the name a call uses, aliases included, in alphabetical order."""
    from wia_compiler.dialects.wia.ops import DECLARATIONS

    names = {**{name: name for name in DECLARATIONS}, **ALIASES}
    return {name: _operation(name, DECLARATIONS[names[name]]) for name in sorted(names)}


def describe(word: str) -> str | None:
    """One line on a word of the language, or ``None`` where it is not one."""
    if word in KEYWORDS:
        return KEYWORDS[word]
    if word in TYPES:
        return TYPES[word]
    operation = operations().get(word)
    return f"{operation.signature}: {operation.doc}" if operation is not None else None


def signature_text(declaration: OpDeclaration, name: str | None = None) -> str:
    """How to call an op: ``softmax(input, dim=-1)``."""
    parameters = ", ".join(_parameter_text(parameter) for parameter in declaration.parameters)
    return f"{name or declaration.name}({parameters})"


def _operation(name: str, declaration: OpDeclaration) -> Operation:
    parameters = tuple(
        each
        for parameter in declaration.parameters
        for each in (parameter.name, *parameter.aliases)
    )
    return Operation(
        name,
        signature_text(declaration, name),
        declaration.doc,
        declaration.family,
        declaration.operator,
        parameters,
    )


def _parameter_text(parameter: Parameter) -> str:
    from wia_compiler.dialects.wia.declaration import Required

    default = parameter.default
    if isinstance(default, Required):
        return parameter.name
    return f"{parameter.name}={_literal(default)}"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return "none" if value is None else str(value).lower()
