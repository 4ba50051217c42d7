"""Additions and subtractions of numbers longer than a register: with the carry of the one before.

The carry is a register of every thread, ``CARRY``, which the parser adds to the operands.
"""

from __future__ import annotations

from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row
from wia_compiler.simulators.ptx.values.integers import product_high

CARRY = "%CC.CF"
TAKES = {"addc": "add", "subc": "sub", "madc": "mad"}
"""What adds the carry, and what it is without it."""
_FLAGS = frozenset({"cc", "lo", "hi"})


def _unsigned(form: Form) -> PtxType:
    return TYPES[f"u{form.type.bits}"]


def _sum(form: Form, a: Array, b: Array, carry: Array | None) -> tuple[Array, Array]:
    total = a + b
    over = total < a
    if carry is None:
        return total, over
    more = total + carry.astype(total.dtype)
    return more, over | (more < total)


def _difference(form: Form, a: Array, b: Array, borrow: Array | None) -> tuple[Array, Array]:
    total = a - b
    under = a < b
    if borrow is None:
        return total, under
    less = total - borrow.astype(total.dtype)
    return less, under | (less > total)


def _add(form: Form, a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    return _sum(form, a, b, carry)


def _subtract(form: Form, a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    return _difference(form, a, b, carry)


def _multiply_add(
    form: Form, a: Array, b: Array, c: Array, carry: Array | None = None
) -> tuple[Array, Array]:
    type = form.type
    if "hi" not in form.flags:
        return _sum(form, a * b, c, carry)
    high = product_high(a.view(type.value), b.view(type.value), type)
    return _sum(form, high.view(a.dtype), c, carry)


def carry_row(form: Form) -> Row | None:
    """The row of an instruction that takes the carry or leaves one."""
    opcode = form.instruction.opcode
    takes = opcode in TAKES
    name = TAKES.get(opcode, opcode)
    if not takes and "cc" not in form.flags:
        return None
    compute = {"add": _add, "sub": _subtract, "mad": _multiply_add}.get(name)
    if compute is None:
        return None
    count = 3 if name == "mad" else 2
    predicate = TYPES["pred"]

    def sources(form: Form) -> tuple[PtxType, ...]:
        return (_unsigned(form),) * count + (predicate,) * takes

    def results(form: Form) -> tuple[PtxType, ...]:
        return (_unsigned(form), predicate) if "cc" in form.flags else (_unsigned(form),)

    return Row(sources, results, compute, "integer", _FLAGS)
