"""scf loops and branches, blocks of cf, calls and returns as LLVM blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, cf, func, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from wia_compiler.passes.control_flow import reachable_blocks
from wia_compiler.passes.llvm.asking import ask_whether_to_stop, stop_if
from wia_compiler.passes.llvm.types import LLVMError
from wia_compiler.passes.llvm.writer import Handler, Writer, symbol

EmitBlock = Callable[[Writer, Block], None]


def control_handlers(emit_block: EmitBlock) -> dict[str, Handler]:
    """Handlers of the ops that hold regions; ``emit_block`` writes the ops of a block.

    A region's terminator is left to the handler of the op that holds it.
    """

    def loop(writer: Writer, op: scf.ForOp) -> None:
        before = writer.block
        head, body, end = (writer.fresh(f"for_{part}") for part in ("head", "body", "end"))
        lower, upper = writer.typed(op.lb), writer.values[op.ub]
        type_ = writer.type(op.lb)
        writer.line(f"br label {head}")
        writer.label(head)
        variable, *carried = op.body.block.args
        names = [writer.fresh(value.name_hint) for value in (variable, *carried)]
        phis = [writer.reserve() for _ in names]
        for value, name in zip((variable, *carried), names, strict=True):
            writer.values[value] = name
        more = writer.temporary(f"icmp slt {type_} {names[0]}, {upper}")
        writer.line(f"br i1 {more}, label {body}, label {end}")
        writer.label(body)
        emit_block(writer, op.body.block)
        writer.enter(op)
        ask_whether_to_stop(writer, op)
        wraps = "nuw nsw" if _is_positive(op.lb) else "nsw"
        step = writer.temporary(f"add {wraps} {type_} {names[0]}, {writer.values[op.step]}")
        hints = [*writer.options.loop_metadata, *loop_hints(op)]
        writer.line(f"br label {head}{writer.module.metadata.loop(hints)}")
        _fill(writer, phis[0], names[0], type_, (lower.split(" ")[1], before), (step, writer.block))
        yielded = _terminator(op.body.block).operands
        for index, name, start, new in zip(phis[1:], names[1:], op.iter_args, yielded, strict=True):
            incoming = ((writer.values[start], before), (writer.values[new], writer.block))
            _fill(writer, index, name, writer.type(start), *incoming)
        for result, name in zip(op.results, names[1:], strict=True):
            writer.values[result] = name
        writer.label(end)

    def branch(writer: Writer, op: scf.IfOp) -> None:
        then, end = writer.fresh("then"), writer.fresh("if_end")
        has_else = bool(op.false_region.blocks)
        other = writer.fresh("else") if has_else else end
        writer.line(f"br {writer.typed(op.cond)}, label {then}, label {other}")
        ways: list[tuple[Sequence[SSAValue], str]] = []
        regions = [(then, op.true_region), *([(other, op.false_region)] if has_else else [])]
        for label, region in regions:
            writer.label(label)
            emit_block(writer, region.block)
            writer.enter(op)
            ways.append((_terminator(region.block).operands, writer.block))
            writer.line(f"br label {end}")
        writer.label(end)
        for index, result in enumerate(op.results):
            incoming = ", ".join(
                f"[ {writer.values[values[index]]}, {block} ]" for values, block in ways
            )
            writer.assign(result, f"phi {writer.type(result)} {incoming}")

    def while_(writer: Writer, op: scf.WhileOp) -> None:
        before = writer.block
        head, body, end = (writer.fresh(f"while_{part}") for part in ("head", "body", "end"))
        writer.line(f"br label {head}")
        writer.label(head)
        carried = op.before_region.block.args
        names = [writer.fresh(value.name_hint) for value in carried]
        phis = [writer.reserve() for _ in names]
        for value, name in zip(carried, names, strict=True):
            writer.values[value] = name
        emit_block(writer, op.before_region.block)
        writer.enter(op)
        condition = cast("scf.ConditionOp", _terminator(op.before_region.block))
        writer.line(f"br {writer.typed(condition.condition)}, label {body}, label {end}")
        for targets in (op.after_region.block.args, op.results):
            for target, value in zip(targets, condition.args, strict=True):
                writer.values[target] = writer.values[value]
        writer.label(body)
        emit_block(writer, op.after_region.block)
        writer.enter(op)
        ask_whether_to_stop(writer, op)
        writer.line(f"br label {head}{writer.module.metadata.loop(writer.options.loop_metadata)}")
        yielded = _terminator(op.after_region.block).operands
        for index, name, start, new in zip(phis, names, op.arguments, yielded, strict=True):
            incoming = ((writer.values[start], before), (writer.values[new], writer.block))
            _fill(writer, index, name, writer.type(start), *incoming)
        writer.label(end)

    return {
        "scf.for": loop,
        "scf.if": branch,
        "scf.while": while_,
        "cf.br": _branch,
        "cf.cond_br": _conditional_branch,
        "func.call": _call,
        "func.return": _return,
        "scf.yield": _nothing,
        "scf.reduce": _nothing,
        "scf.condition": _nothing,
    }


def _is_positive(value: SSAValue) -> bool:
    """Whether a bound is known to be 0 or more: what counts up from below 0 wraps as unsigned."""
    op = value.owner
    if isinstance(op, Block):
        loop = op.parent_op()
        return isinstance(loop, scf.ForOp) and value is op.args[0] and _is_positive(loop.lb)
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, IntegerAttr) and op.value.value.data >= 0
    grows = isinstance(op, arith.AddiOp | arith.MuliOp | arith.MinSIOp)
    return grows and all(_is_positive(each) for each in op.operands)


def loop_hints(op: Operation) -> list[str]:
    """``!llvm.loop`` entries from a loop's attributes.

    ``wia.unroll``: an integer count, or a unit for all iterations. ``wia.vector_width``: lanes,
    where 1 keeps the loop scalar. (``llvm.loop.vectorize.enable`` is never written: it would also
    allow LLVM to reorder float sums that carry no ``reassoc``.)
    """
    hints: list[str] = []
    match op.attributes.get("wia.unroll"):
        case UnitAttr():
            hints.append('!"llvm.loop.unroll.full"')
        case IntegerAttr() as count if count.value.data == 1:
            hints.append('!"llvm.loop.unroll.disable"')
        case IntegerAttr() as count:
            hints.append(f'!"llvm.loop.unroll.count", i32 {count.value.data}')
        case _:
            pass
    width = op.attributes.get("wia.vector_width")
    if isinstance(width, IntegerAttr):
        hints.append(f'!"llvm.loop.vectorize.width", i32 {width.value.data}')
    return hints


def _fill(writer: Writer, index: int, name: str, type_: str, *incoming: tuple[str, str]) -> None:
    pairs = ", ".join(f"[ {value}, {block} ]" for value, block in incoming)
    writer.fill(index, f"{name} = phi {type_} {pairs}")


def _terminator(block: Block) -> Operation:
    last = block.last_op
    if last is None:
        raise LLVMError("a region of scf ends with scf.yield or scf.condition")
    return last


def _branch(writer: Writer, op: cf.BranchOp) -> None:
    ask_whether_to_stop(writer, op)
    _note_way(writer, op.successor, op.arguments)
    writer.line(f"br label {writer.labels[op.successor]}")


def _conditional_branch(writer: Writer, op: cf.ConditionalBranchOp) -> None:
    ask_whether_to_stop(writer, op)
    then, other = (writer.labels[block] for block in op.successors)
    _note_way(writer, op.then_block, op.then_arguments)
    if op.then_block is not op.else_block or not op.else_arguments:
        if op.then_block is not op.else_block:
            _note_way(writer, op.else_block, op.else_arguments)
        writer.line(f"br {writer.typed(op.cond)}, label {then}, label {other}")
        return
    # A block cannot be entered from one other in two ways: the second leads through a third.
    between = writer.fresh("else")
    writer.line(f"br {writer.typed(op.cond)}, label {then}, label {between}")
    writer.label(between)
    _note_way(writer, op.else_block, op.else_arguments)
    writer.line(f"br label {other}")


def _note_way(writer: Writer, target: Block, values: Sequence[SSAValue]) -> None:
    passed = tuple(writer.values[value] for value in values)
    writer.ways.setdefault(target, []).append((passed, writer.block))


def emit_blocks(writer: Writer, region: Region, emit_block: EmitBlock) -> None:
    """The blocks of a function in an order in which values are made before they are read."""
    blocks = reachable_blocks(region)
    for block in blocks[1:]:
        writer.labels[block] = writer.fresh(block.name_hint or "block")
    reserved: list[tuple[SSAValue, int]] = []
    for block in blocks:
        if block is not blocks[0]:
            writer.label(writer.labels[block])
            for argument in block.args:
                writer.values[argument] = writer.fresh(argument.name_hint)
                reserved.append((argument, writer.reserve()))
        emit_block(writer, block)
    for argument, line in reserved:
        assert isinstance(argument, BlockArgument)
        ways = writer.ways.get(argument.block, [])
        incoming = [(passed[argument.index], block) for passed, block in ways]
        _fill(writer, line, writer.values[argument], writer.type(argument), *incoming)


def _call(writer: Writer, op: func.CallOp) -> None:
    arguments = ", ".join(writer.typed(value) for value in op.arguments)
    name = op.callee.string_value()
    callee = writer.module.functions.get(name) or symbol(name)
    if not op.res:
        if name in writer.module.watched.stoppable:
            stop_if(writer, writer.temporary(f"call i1 {callee}({arguments})"))
        else:
            writer.line(f"call void {callee}({arguments})")
        return
    if len(op.res) > 1:
        raise LLVMError(f"a call returns at most one value here, @{op.callee.string_value()} more")
    writer.assign(op.res[0], f"call {writer.type(op.res[0])} {callee}({arguments})")


def _return(writer: Writer, op: func.ReturnOp) -> None:
    if not op.arguments:
        writer.line("ret i1 false" if writer.stoppable else "ret void")
        return
    if len(op.arguments) > 1:
        raise LLVMError("a function returns at most one value here")
    writer.line(f"ret {writer.typed(op.arguments[0])}")


def _nothing(writer: Writer, op: Operation) -> None:
    """Written by the op that holds the region."""
