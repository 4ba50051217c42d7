"""What the blocks of a high-level function must satisfy, which xDSL's own checks leave out."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.passes.control_flow import Dominance, Edge, edges_into, reachable_blocks
from wia_compiler.passes.kernel_function import entry_of

_LAST_OPS = (BranchOp, ConditionalBranchOp, ReturnOp)


def verify_blocks(function: FuncOp, *, typed: bool) -> None:
    """Check how a function's blocks end, what they pass on, and that values are made before use.

    ``typed`` also checks the types that edges pass (after infer-shapes) and that control reaches
    every block. Raises ``VerifyException``.
    """
    name = function.sym_name.data
    blocks = list(function.body.blocks)
    lasts = [block.last_op for block in blocks]
    for last in lasts:
        if not isinstance(last, _LAST_OPS):
            found = last.name if last is not None else "nothing"
            raise VerifyException(f"a block of @{name} ends with a branch or return, found {found}")
    returns = sum(isinstance(last, ReturnOp) for last in lasts)
    if returns != 1:
        raise VerifyException(f"@{name} has one func.return, found {returns}")
    if any(entry_of(function) in last.successors for last in lasts if last is not None):
        raise VerifyException(f"a branch leads to the first block of @{name}")
    if typed and len(reachable_blocks(function.body)) != len(blocks):
        raise VerifyException(f"@{name} has a block that control does not reach")
    for edges in edges_into(function.body).values():
        for edge in edges:
            _verify_edge(edge, typed)
    _verify_order(function.body, frozenset())


def _verify_edge(edge: Edge, typed: bool) -> None:
    passed, taken = edge.values, edge.target.args
    if len(passed) != len(taken):
        raise VerifyException(
            f"{edge.branch.name} passes {len(passed)} values to a block of {len(taken)} arguments"
        )
    for value, argument in zip(passed, taken, strict=True):
        if typed and value.type != argument.type:
            raise VerifyException(
                f"{edge.branch.name} passes {value.type} for an argument of {argument.type}"
            )
    branch = edge.branch
    if isinstance(branch, ConditionalBranchOp) and not isinstance(branch.cond.owner, ConditionOp):
        raise VerifyException("cf.cond_br decides by a wia.condition")


def _verify_order(region: Region, outside: frozenset[SSAValue]) -> None:
    """Each op reads what was computed before it on every way, inside the region or around it."""
    dominance = Dominance.of(region)
    places = {op: number for block in region.blocks for number, op in enumerate(block.ops)}
    seen = set(outside)
    for block in reachable_blocks(region):
        seen.update(block.args)
        for op in block.ops:
            for value in op.operands:
                if value not in outside and not _is_before(value, op, dominance, places):
                    hint = f" %{value.name_hint}" if value.name_hint else ""
                    raise VerifyException(f"{op.name} reads a value{hint} that is not made yet")
            isolated = op.has_trait(IsolatedFromAbove)
            for inner in op.regions:
                known = frozenset[SSAValue]() if isolated else _visible(seen, block, dominance)
                _verify_order(inner, known)
            seen.update(op.results)


def _visible(values: set[SSAValue], block: Block, dominance: Dominance) -> frozenset[SSAValue]:
    """Of the values made so far, those that an op of ``block`` may read in its own regions."""

    def is_visible(value: SSAValue) -> bool:
        made = _block_of(value)
        return made is None or made not in dominance.closest or dominance.dominates(made, block)

    return frozenset(value for value in values if is_visible(value))


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _is_before(
    value: SSAValue, op: Operation, dominance: Dominance, places: Mapping[Operation, int]
) -> bool:
    made, here = _block_of(value), op.parent
    if made is None or here is None or made not in dominance.closest:
        return False
    if made is not here:
        return dominance.dominates(made, here)
    owner = value.owner
    return isinstance(value, BlockArgument) or (
        isinstance(owner, Operation) and places[owner] < places[op]
    )
