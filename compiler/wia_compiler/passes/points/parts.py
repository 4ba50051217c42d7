"""A nest of point code as leaves; several loops side by side are nests of their own then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import FunctionType, StringAttr

from wia_compiler.base.record import Decision
from wia_compiler.dialects import tile
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.points.loop_axes import NotRaised, is_lazy
from wia_compiler.passes.points.raise_loops import raise_nest

Part = tuple[func.FuncOp, list[int]]
"""A nest, and which of the arguments of the nest that it is part of it takes."""


def raised_parts(
    nest: func.FuncOp, names: Mapping[str, str], context: PassContext
) -> Sequence[Part]:
    """The nests to call for one nest of point code, in order, and a decision on each.

    ::

        nest { for i {…}   for i {…} }   →   nest { for i.0 { map } }   nest_1 { for i.0 { map } }

    Loops are told apart only where one of them at least becomes leaves; the others stay as they
    are. ``names`` are the names of axes in the text.
    """
    pieces = _pieces(nest)
    raised: list[func.FuncOp] = []
    decisions: list[Decision] = []
    for number, piece in enumerate(pieces):
        name = nest.sym_name.data + (f"_{number}" if number else "")
        made, reason = piece, "its loops are leaves that schedules can tile"
        try:
            made = raise_nest(piece, names, context.facts)
        except NotRaised as refusal:
            reason = str(refusal)
        made.sym_name = StringAttr(name)
        subjects = tuple(filter(None, [context.id_of(nest)]))
        decisions.append(Decision("raise", name, made is not piece, reason, {}, subjects))
        raised.append(made)
    if not any(decision.taken for decision in decisions):
        reasons = "; ".join(dict.fromkeys(each.reason for each in decisions))
        context.decisions.append(
            Decision("raise", nest.sym_name.data, False, reasons, {}, decisions[0].subjects)
        )
        return [(nest, list(range(len(nest.body.block.args))))]
    context.decisions += decisions
    return [_without_unused(each) for each in raised]


def _pieces(nest: func.FuncOp) -> list[func.FuncOp]:
    """A function for each loop at the top of a nest, where nothing else ties them together."""
    loops = [op for op in nest.body.block.ops if isinstance(op, tile.ForOp | scf.ForOp)]
    written = {op.memref for op in nest.walk() if isinstance(op, memref.StoreOp)}
    alone = all(
        isinstance(op, tile.ForOp | scf.ForOp | func.ReturnOp)
        or is_lazy(op)
        or (isinstance(op, memref.LoadOp) and op.memref not in written)
        for op in nest.body.block.ops
    )
    if len(loops) < 2 or not alone or any(op.results for op in loops):
        return [nest]
    pieces: list[func.FuncOp] = []
    for number in range(len(loops)):
        copy = nest.clone()
        for op, old in zip(copy.walk(), nest.walk(), strict=True):
            op.location = old.location
        own = [op for op in copy.body.block.ops if isinstance(op, tile.ForOp | scf.ForOp)]
        for loop in [*own[:number], *own[number + 1 :]]:
            loop.detach()
            loop.erase()
        _remove_unused(copy)
        pieces.append(copy)
    return pieces


def _remove_unused(nest: func.FuncOp) -> None:
    for op in reversed(list(nest.body.block.ops)):
        plain = is_lazy(op) or isinstance(op, memref.LoadOp)
        if plain and all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()


def _without_unused(nest: func.FuncOp) -> Part:
    """A nest that takes only the arguments that it uses."""
    block = nest.body.block
    used = [number for number, each in enumerate(block.args) if each.first_use is not None]
    for argument in [each for each in block.args if each.first_use is None]:
        block.erase_arg(argument)
    nest.function_type = FunctionType.from_lists([each.type for each in block.args], [])
    return nest, used
