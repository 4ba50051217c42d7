"""Two versions of a leaf's vector code: for tiles that are whole, and for those at an edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.vector_plan import Condition
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.emit_index import IndexEmitter

Write = Callable[[IndexEmitter, bool], None]
"""Writes one version; whether it is the one with the tests."""


def write_versions(
    leaf: ComputeOp,
    ivs: Sequence[SSAValue],
    emitter: IndexEmitter,
    tested: Sequence[Condition],
    write: Write,
) -> None:
    """The version without tests where all that is ``tested`` holds at every point of the leaf.

    Where nothing is tested there is no other version.
    """
    if not tested:
        write(emitter, False)
        return
    whole = _holds_everywhere(leaf, ivs, emitter, tested)
    blocks = {False: Block(), True: Block()}
    for masked, block in blocks.items():
        write(emitter.nested(block), masked)
        emitter.close(block)
    emitter.put(scf.IfOp(whole, [], Region(blocks[False]), Region(blocks[True])))


def _holds_everywhere(
    leaf: ComputeOp,
    ivs: Sequence[SSAValue],
    emitter: IndexEmitter,
    conditions: Sequence[Condition],
) -> SSAValue:
    """Whether all conditions hold at every point: each at the corners where it is extreme."""
    tests: list[SSAValue] = []
    for condition in conditions:
        form = linear_form(condition.expression)
        for highest in (False, True):
            corner = [
                emitter.constant(
                    size - 1 if (form.terms.get(AffineDimExpr(axis), 0) > 0) == highest else 0
                )
                for axis, size in enumerate(leaf.sizes)
            ]
            value = emitter.affine(condition.expression, corner, ivs)
            tests.append(emitter.below(value, condition.limit))
    return emitter.both(list(dict.fromkeys(tests)))
