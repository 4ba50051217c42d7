"""``tile.check`` written out: code that notes in the status record what failed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.status_record import NUMBERS, Check

RECORD = MemRefType(i64, [NUMBERS])
ADDI = 1
"""``arith::AtomicRMWKind::addi`` of MLIR."""
_TABLE = "wia.checks"


def lower_checks(module: ModuleOp, *, is_shared: bool = False) -> None:
    """Write each ``tile.check`` out; does nothing where there is none.

    ::

        tile.check %ok [%i] of "A" sizes [8] number 0
          →  scf.if not %ok { if %status[0] == 0 { %status[0] = 1; %status[1] = %i } }

    Nests that check take ``%status`` behind their arrays; the host, which allocates it first of
    all, clears it. What the checks are about is kept on the host function (``checks_of``).

    ``is_shared`` is for threads that run at once: the first to add 1 to the record's last number
    writes it.
    """
    nests = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, func.FuncOp) and any(isinstance(each, CheckOp) for each in walk(op))
    }
    if not nests:
        return
    table: dict[int, ArrayAttr[Attribute]] = {}
    for nest in nests.values():
        block = nest.body.blocks[0]
        status = block.insert_arg(RECORD, _place_of_status(block.args))
        status.name_hint = "status"
        for op in list(walk(nest)):
            if isinstance(op, CheckOp):
                table[op.number.value.data] = _row(op)
                _write(op, status, is_shared)
        _update_type(nest)
    for op in module.ops:
        if isinstance(op, func.FuncOp) and "wia.host" in op.attributes:
            _prepare(op, nests)
            op.attributes[_TABLE] = ArrayAttr([table[number] for number in range(len(table))])


def checks_of(module: ModuleOp, kernel: str, source: Source) -> list[dict[str, Any]]:
    """What the checks of a lowered module are about, by number, as JSON values."""
    found: list[dict[str, Any]] = []
    for op in module.ops:
        for row in cast("ArrayAttr[Any]", op.attributes.get(_TABLE, ArrayAttr([]))):
            span, array, sizes = (each.data for each in row)
            line = source.line(Span.parse(span).line) if span else ""
            numbers = [size.value.data for size in sizes]
            found.append(asdict(Check(kernel, span, line, array, numbers)))
    return found


def _row(op: CheckOp) -> ArrayAttr[Attribute]:
    span = next(iter(spans_of(op)), None)
    text = "" if span is None else str(span)
    return ArrayAttr([StringAttr(text), op.array, op.sizes])


def _place_of_status(arguments: Sequence[SSAValue]) -> int:
    """Behind the last array."""
    arrays = [n for n, value in enumerate(arguments) if isinstance(value.type, MemRefType)]
    return arrays[-1] + 1 if arrays else 0


def _write(op: CheckOp, status: SSAValue, is_shared: bool) -> None:
    before: list[Operation] = []

    def add(made: Operation, ops: list[Operation]) -> SSAValue | None:
        made.location = op.location
        ops.append(made)
        return made.results[0] if made.results else None

    def constant(number: int, type_: IntegerType | IndexType, ops: list[Operation]) -> SSAValue:
        value = add(arith.ConstantOp(IntegerAttr(number, type_)), ops)
        assert value is not None
        return value

    def store(value: SSAValue, place: int, ops: list[Operation]) -> None:
        add(memref.StoreOp.get(value, status, [constant(place, IndexType(), ops)]), ops)

    note: list[Operation] = []
    store(constant(op.number.value.data + 1, i64, note), 0, note)
    for place, index in enumerate(op.indices, start=1):
        number = add(arith.IndexCastOp(index, i64), note)
        assert number is not None
        store(number, place, note)
    add(scf.YieldOp(), note)
    failed: list[Operation] = []
    if is_shared:
        one, last = constant(1, i64, failed), constant(NUMBERS - 1, IndexType(), failed)
        first = add(_added(one, status, last), failed)
    else:
        first = add(memref.LoadOp.get(status, [constant(0, IndexType(), failed)]), failed)
    assert first is not None
    none = add(arith.CmpiOp(first, constant(0, i64, failed), "eq"), failed)
    assert none is not None
    add(scf.IfOp(none, [], Region(Block(note))), failed)
    add(scf.YieldOp(), failed)
    holds = constant(1, i1, before)
    outside = add(arith.XOrIOp(op.condition, holds), before)
    assert outside is not None
    add(scf.IfOp(outside, [], Region(Block(failed))), before)
    block = op.parent
    assert block is not None
    block.insert_ops_before(before, op)
    op.detach()
    op.erase()


def _added(value: SSAValue, buffer: SSAValue, place: SSAValue) -> memref.AtomicRMWOp:
    """``memref.atomic_rmw addi``: what was there before."""
    return memref.AtomicRMWOp.build(
        operands=[value, buffer, [place]],
        properties={"kind": IntegerAttr(ADDI, i64)},
        result_types=[value.type],
    )


def _prepare(host: func.FuncOp, nests: dict[str, func.FuncOp]) -> None:
    block = host.body.blocks[0]
    record = memref.AllocOp([], [], RECORD)
    record.memref.name_hint = "status"
    place = arith.ConstantOp(IntegerAttr(0, IndexType()))
    zero = arith.ConstantOp(IntegerAttr(0, i64))
    clear = memref.StoreOp.get(zero, record.memref, [place])
    made = [record, place, zero, clear]
    for op in made:
        op.location = host.location
    first = block.first_op
    assert first is not None
    block.insert_ops_before(made, first)
    for op in walk(host.body):
        if isinstance(op, func.CallOp) and op.callee.string_value() in nests:
            place_of_status = _place_of_status(op.operands)
            op.operands = [
                *op.operands[:place_of_status],
                record.memref,
                *op.operands[place_of_status:],
            ]


def _update_type(function: func.FuncOp) -> None:
    inputs = [argument.type for argument in function.body.blocks[0].args]
    function.function_type = FunctionType.from_lists(inputs, [])
