"""``scf.parallel`` as functions that threads run on parts of its iterations.

::

    scf.parallel (%i) = (0) to (1000) step (8) { … %A[%i] … }
      →  define i1 @nest.chunk(ptr noalias %A, i64 %begin, i64 %end, ptr noalias %scratch) { … }
         define i1 @nest.thread(ptr %context, i64 %begin, i64 %end, ptr %scratch) { … @nest.chunk }
         in @nest: what the loop reads goes into %context, then
                   call i1 @wia_parallel(ptr @nest.thread, ptr %context, i64 125, i64 bytes)

``wia_parallel`` (the pool of the process) runs parts of 0 … 125 until all are done and says whether
it was told to stop. Loops of several variables count through them as one sequence, the last one
fastest. A buffer in the loop with the attribute ``wia.scratch`` lies so many bytes from the start
of memory that each thread has of its own; the loop's own ``wia.scratch`` says how large that is.

Where code runs without a pool (``interruptible`` off) the loop is one call of ``nest.chunk``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.dialects.walk import walk
from wia_compiler.passes.llvm.asking import (
    ask_whether_to_stop,
    begin_asking,
    end_asking,
    stop_if,
)
from wia_compiler.passes.llvm.memory import SCRATCH
from wia_compiler.passes.llvm.options import POOL
from wia_compiler.passes.llvm.types import LLVMError, size_bytes
from wia_compiler.passes.llvm.writer import Handler, Writer, symbol

_VIEWS = (memref.ViewOp, memref.SubviewOp, memref.ReinterpretCastOp, memref.CastOp)


@dataclass(frozen=True)
class _Captured:
    """A value that the loop reads and the function around it makes."""

    value: SSAValue
    type: str
    parameter: str
    """Its type and attributes as a parameter of the function of the loop's body."""


def parallel_handler(emit_block: Callable[[Writer, Block], None]) -> Handler:
    """The handler of ``scf.parallel``; ``emit_block`` writes the ops of a block."""

    def parallel(writer: Writer, op: scf.ParallelOp) -> None:
        if op.initVals:
            raise LLVMError("a parallel loop that folds has no form here")
        captured = _captured(writer, op)
        base = f"{writer.name}.{len(writer.module.outlined) // 2}"
        chunk, thread = symbol(f"{base}.chunk"), symbol(f"{base}.thread")
        turns = [
            _turns(*bounds) for bounds in zip(op.lowerBound, op.upperBound, op.step, strict=True)
        ]
        count, scratch = math.prod(turns), _bytes(op)
        known = dict(writer.values)
        writer.module.outlined += [
            lambda: _chunk(writer, op, (base, chunk), captured, turns, known, emit_block),
            lambda: _thread(writer, op, (base, thread), chunk, captured),
        ]
        values = [f"{each.type} {writer.values[each.value]}" for each in captured]
        if not writer.options.interruptible:
            memory = _alloca(writer, f"[{scratch} x i8]") if scratch else "null"
            arguments = [*values, "i64 0", f"i64 {count}", f"ptr {memory}"]
            writer.line(f"call i1 {chunk}({', '.join(arguments)})")
            return
        struct = _struct(captured)
        context = _alloca(writer, struct)
        for number, each in enumerate(captured):
            place = writer.temporary(
                f"getelementptr inbounds {struct}, ptr {context}, i64 0, i32 {number}"
            )
            writer.line(f"store {each.type} {writer.values[each.value]}, ptr {place}")
        told = writer.temporary(
            writer.call(
                POOL,
                "i1",
                [("ptr", thread), ("ptr", context), ("i64", str(count)), ("i64", str(scratch))],
            )
        )
        stop_if(writer, told)

    return parallel


def _captured(writer: Writer, op: scf.ParallelOp) -> list[_Captured]:
    """Values of the function that the loop reads, each once; constants are no values here."""
    inside: set[SSAValue] = {result for each in walk(op.body) for result in each.results}
    blocks = [block for each in walk(op) for region in each.regions for block in region.blocks]
    inside.update(argument for block in blocks for argument in block.args)
    read = dict.fromkeys(
        operand
        for each in walk(op.body)
        for operand in each.operands
        if operand not in inside and writer.values[operand].startswith("%")
    )
    roots = [_root(value) for value in read]
    found: list[_Captured] = []
    for value in read:
        type_ = writer.type(value)
        parameter = f"{type_} noundef"
        memory = value.type
        if isinstance(memory, MemRefType):
            element = cast("MemRefType[Attribute]", memory).element_type
            alone = roots.count(_root(value)) == 1
            alias = "noalias " if alone else ""
            parameter = f"{type_} {alias}noundef align {size_bytes(element)}"
        found.append(_Captured(value, type_, parameter))
    return found


def _root(value: SSAValue) -> SSAValue:
    """The memory that a memref is a view of."""
    while isinstance(value.owner, _VIEWS):
        value = value.owner.source
    return value


def _chunk(
    outer: Writer,
    op: scf.ParallelOp,
    names: tuple[str, str],
    captured: Sequence[_Captured],
    turns: Sequence[int],
    known: dict[SSAValue, str],
    emit_block: Callable[[Writer, Block], None],
) -> str:
    """The function that runs iterations %begin … %end of the loop."""
    shared = outer.module
    watches = any(each in shared.watched.loops for each in walk(op))
    writer = Writer(shared, names[0], stoppable=watches)
    place = shared.metadata.begin_function(names[0], op)
    writer.values.update({value: text for value, text in known.items() if text[0] != "%"})
    for reserved in ("begin", "end", "scratch"):
        writer.fresh(reserved)
    parameters: list[str] = []
    for each in captured:
        name = writer.fresh(each.value.name_hint or "arg")
        writer.values[each.value] = name
        parameters.append(f"{each.parameter} {name}")
    parameters += [
        "i64 noundef %begin",
        "i64 noundef %end",
        "ptr noalias noundef align 64 %scratch",
    ]
    writer.enter(op)
    if watches:
        begin_asking(writer)
    _count_through(writer, op, turns, emit_block)
    writer.line("ret i1 false")
    if watches:
        end_asking(writer)
    head = f"define internal i1 {names[1]}({', '.join(parameters)}) #0{place} {{"
    return "\n".join([head, "entry:", *writer.allocas, *writer.lines, "}"])


def _count_through(
    writer: Writer,
    op: scf.ParallelOp,
    turns: Sequence[int],
    emit_block: Callable[[Writer, Block], None],
) -> None:
    """A loop from %begin to %end, the loop's variables computed from its counter."""
    head, body, end = (writer.fresh(f"part_{part}") for part in ("head", "body", "end"))
    before, counter = writer.block, writer.fresh("turn")
    writer.line(f"br label {head}")
    writer.label(head)
    phi = writer.reserve()
    more = writer.temporary(f"icmp slt i64 {counter}, %end")
    writer.line(f"br i1 {more}, label {body}, label {end}")
    writer.label(body)
    left = counter
    for number in reversed(range(len(turns))):
        index = left
        if number:
            index = writer.temporary(f"urem i64 {left}, {turns[number]}")
            left = writer.temporary(f"udiv i64 {left}, {turns[number]}")
        step, start = _constant(op.step[number]), _constant(op.lowerBound[number])
        if step != 1:
            index = writer.temporary(f"mul nuw nsw i64 {index}, {step}")
        if start:
            index = writer.temporary(f"add nsw i64 {index}, {start}")
        writer.values[op.body.block.args[number]] = index
    emit_block(writer, op.body.block)
    writer.enter(op)
    ask_whether_to_stop(writer, op)
    following = writer.temporary(f"add nuw nsw i64 {counter}, 1")
    writer.line(f"br label {head}{writer.module.metadata.loop(writer.options.loop_metadata)}")
    incoming = f"[ %begin, {before} ], [ {following}, {writer.block} ]"
    writer.fill(phi, f"{counter} = phi i64 {incoming}")
    writer.label(end)


def _thread(
    outer: Writer,
    op: scf.ParallelOp,
    names: tuple[str, str],
    chunk: str,
    captured: Sequence[_Captured],
) -> str:
    """The function that the pool calls: what the loop reads comes out of the context."""
    place = outer.module.metadata.begin_function(f"{names[0]}.thread", op)
    writer = Writer(outer.module, names[0])
    writer.enter(op)
    struct = _struct(captured)
    passed: list[str] = []
    for number, each in enumerate(captured):
        at = writer.temporary(f"getelementptr inbounds {struct}, ptr %context, i64 0, i32 {number}")
        passed.append(f"{each.type} {writer.temporary(f'load {each.type}, ptr {at}')}")
    passed += ["i64 %begin", "i64 %end", "ptr %scratch"]
    told = writer.temporary(f"call i1 {chunk}({', '.join(passed)})")
    writer.line(f"ret i1 {told}")
    parameters = "ptr noalias noundef readonly %context, i64 %begin, i64 %end, ptr %scratch"
    head = f"define internal i1 {names[1]}({parameters}) #0{place} {{"
    return "\n".join([head, "entry:", *writer.lines, "}"])


def _struct(captured: Sequence[_Captured]) -> str:
    return f"{{ {', '.join(each.type for each in captured)} }}" if captured else "{}"


def _alloca(writer: Writer, type_: str) -> str:
    name = writer.fresh("context")
    writer.allocas.append(f"  {name} = alloca {type_}, align 64")
    return name


def _bytes(op: Operation) -> int:
    size = op.attributes.get(SCRATCH)
    return size.value.data if isinstance(size, IntegerAttr) else 0


def _turns(lower: SSAValue, upper: SSAValue, step: SSAValue) -> int:
    start, stop, by = _constant(lower), _constant(upper), _constant(step)
    return max(0, -(-(stop - start) // by))


def _constant(value: SSAValue) -> int:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    raise LLVMError("the bounds of a parallel loop are constants")
