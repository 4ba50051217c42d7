"""Write docs/ops.md: every op of the language, from its declaration, with its example run.

    python tools/op_reference.py            writes the page
    python tools/op_reference.py --check    says whether it is current

Results on the page are those of the reference; the tests run the same examples on the CPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wia_compiler as wia
from wia_compiler.base.dtypes import BOOL, DTYPES, F32, I32, from_numpy
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.aliases import ALIASES
from wia_compiler.dialects.wia.declaration import Example, OpDeclaration
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.frontend.vocabulary import signature_text
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.pipeline import specialized
from wia_compiler.passes.target import ArraySpec

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ops.md"

TITLES = {
    "elementwise": "Element by element",
    "reduction": "Folds, norms, pools and losses",
    "contraction": "Products and convolutions",
    "movement": "Moving elements",
}

HEAD = """\
# Ops

Written by `tools/op_reference.py` from the declarations in `wia_compiler.dialects.wia`; a test
keeps it current and runs every example on the reference and on the CPU.

Parameters with a default are optional; `none` leaves one out. `axis` is `dim`, `keepdims` is
`keepdim`, `kernel` is `kernel_size`. *Cost* is that of the example: operations by the convention of
the op's family, and the bytes that it must read and write. What holds for every op (rounding,
literals, broadcasting, integers) is on [the numerics page](numerics.md).
"""


def array_of(value: object) -> np.ndarray[Any, Any]:
    """An input of an example: numbers, i32, f32 or bool by their kind, or (dtype, numbers)."""
    if isinstance(value, tuple):
        name, numbers = value
        return np.asarray(numbers, DTYPES[str(name)].numpy)
    plain = np.asarray(value)
    dtype = {"f": F32, "i": I32, "b": BOOL}[plain.dtype.kind]
    return plain.astype(dtype.numpy)


def kernel_text(example: Example) -> str:
    """A kernel that returns the example's call."""
    parameters = ", ".join(f"input {name}: tensor" for name, _ in example.inputs)
    return f"kernel example({parameters}) {{ return {example.call}; }}"


def number(value: Any) -> str:
    """One element as the page shows it: six digits of a float, all of an integer."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | np.integer):
        return str(int(value))
    wide = float(value)
    if np.isnan(wide) or np.isinf(wide):
        return str(wide)
    short = f"{wide:.6g}"
    return short if any(each in short for each in ".en") else f"{short}.0"


def array_text(array: np.ndarray[Any, Any]) -> str:
    """``[[1.0, 2.0], [3.0, 4.0]]``."""
    if array.ndim == 0:
        return number(array[()])
    return f"[{', '.join(array_text(row) for row in array)}]"


def spec_text(array: np.ndarray[Any, Any]) -> str:
    """``2×3 f32``, ``f32`` for one number."""
    dtype = from_numpy(array.dtype)
    return f"{'×'.join(str(size) for size in array.shape)} {dtype}".strip()


def example_lines(declaration: OpDeclaration) -> Iterable[str]:
    """The example: its inputs, its call and the result of the reference, and what it costs."""
    example = declaration.example
    if example is None:
        raise SystemExit(f"{declaration.name} has no example: add with_example(…) to its row")
    inputs = {name: array_of(value) for name, value in example.inputs}
    result = np.asarray(
        wia.reference(wia.compile(kernel_text(example))["example"], *inputs.values())
    )
    yield "```text"
    width = max((len(name) for name in inputs), default=0)
    for name, array in inputs.items():
        yield f"{name:{width}} = {array_text(array)}  # {spec_text(array)}"
    yield f"{example.call}"
    yield f"{'→':>{max(width, 1)}} {array_text(result)}  # {spec_text(result)}"
    yield "```"


def parameter_lines(declaration: OpDeclaration) -> Iterable[str]:
    """Other spellings of the op and of its parameters."""
    others = [alias for alias, name in ALIASES.items() if name == declaration.name]
    if declaration.operator:
        yield f"Operator: `{declaration.operator}`."
    if others:
        yield f"Also: {', '.join(f'`{each}`' for each in others)}."
    kinds = {
        "tensors": "a list of arrays",
        "optional_tensor": "an array, may be left out",
        "attribute": "a constant",
    }
    notes: list[str] = []
    for parameter in declaration.parameters:
        if parameter.kind == "tensor":
            continue
        names = f"`{parameter.name}`"
        if parameter.aliases:
            names += f" (or {', '.join(f'`{alias}`' for alias in parameter.aliases)})"
        notes.append(f"{names} {kinds[parameter.kind]}")
    if len(notes) < len(declaration.parameters) and notes:
        notes.append("the others are arrays")
    if notes:
        yield f"Parameters: {'; '.join(notes)}."


def section(declaration: OpDeclaration) -> str:
    """What the page says of one op."""
    lines = [
        f"### `{signature_text(declaration)}`",
        "",
        declaration.doc,
        "",
        f"- Shapes and dtypes: {declaration.rule}.",
    ]
    if declaration.numerics:
        lines.append(f"- Numerics: {declaration.numerics}")
    lines += [f"- {note}" for note in parameter_lines(declaration)]
    lines += [f"- {cost_of(declaration)}", "", *example_lines(declaration)]
    return "\n".join(lines)


def cost_of(declaration: OpDeclaration) -> str:
    """FLOPs and bytes of the example's call, counted on the op as it was specialised."""
    example = declaration.example
    assert example is not None
    op = specialised_op(declaration, example)
    return f"Cost: {op.flops:,} operations, {op.moved_bytes:,} bytes in the example."


def specialised_op(declaration: OpDeclaration, example: Example) -> TensorOp:
    """The op of the example with the types that it has for the example's inputs."""
    arguments: list[ArraySpec] = []
    for name, value in example.inputs:
        array = array_of(value)
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        arguments.append(ArraySpec(name, TensorSpec(array.shape, dtype)))
    imported = import_program(parse(Source(kernel_text(example))))
    ops = kernel_function(specialized(imported, "example", arguments), "example").walk()
    named = (op for op in ops if isinstance(op, TensorOp))
    return next(op for op in named if op.declaration is declaration)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, title in TITLES.items():
        rows = [row for row in DECLARATIONS.values() if row.family == family]
        names = " ".join(f"[`{row.name}`](#{anchor(row)})" for row in sorted(rows, key=_name))
        parts.append(f"- **{title}**: {names}")
    parts.append("")
    for family, title in TITLES.items():
        rows = [row for row in DECLARATIONS.values() if row.family == family]
        parts.append(f"## {title}\n")
        parts += [f"{section(row)}\n" for row in sorted(rows, key=_name)]
    return "\n".join(parts).rstrip() + "\n"


def anchor(declaration: OpDeclaration) -> str:
    """The link that a heading gets on GitHub: lower case, letters, digits, ``-`` and ``_``."""
    text = signature_text(declaration).lower().replace(" ", "-")
    return "".join(each for each in text if each.isalnum() or each in "-_")


def _name(declaration: OpDeclaration) -> str:
    return declaration.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` fail where it is not current."""
    parser = argparse.ArgumentParser(description="write docs/ops.md from the op declarations")
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    options = parser.parse_args(arguments)
    text = page()
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    current = PAGE.is_file() and PAGE.read_text("utf-8") == text
    if not current:
        print("docs/ops.md is not current: run python tools/op_reference.py", file=sys.stderr)
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
