"""Point code whose independent loops run across vectors: lanes are iterations.

LLVM vectorises innermost loops. The innermost loop of a column sum as it is usually written carries
a sum, in order, and stays scalar; the loop around it is independent, and its neighbours read
neighbours: one vector holds the sums of many of its iterations, each in its own order.

::

    tile.for %j in 100 step 1 { %s = scf.for %k … { %sum + A[%k, %j] }   C[%j] = %s }
      →  tile.for %j in 100 step 64 {
           scf.if %j + 64 <= 100 { the same with vector<64xf32> }
           else { scf.for %v = %j to 100 step 16 { with vector<16xf32>, lanes below 100 } } }
"""

from __future__ import annotations

from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, VectorType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects import tile
from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.points.forms import Loop, PointForms
from wia_compiler.passes.points.lane_values import Mask, NotVectors
from wia_compiler.passes.points.lanes import Lanes
from wia_compiler.passes.points.loop_axes import carried_of, is_independent

LANES = "wia.lanes"
"""Attribute of a loop: how many of its iterations a schedule wants in a vector."""
_VECTORS = 4
"""Vectors that one turn works on: their sums do not wait for each other."""
_MOST_OPS = 200
"""Ops of a body that is written for several vectors in one turn."""


def vectorise_points(nest: func.FuncOp, vector_bytes: int) -> None:
    """Write loops of a nest for the lanes of vectors: those that a schedule names, and independent
    ones, where their bodies can be. The innermost that can is taken.
    """
    loops = [op for op in nest.walk() if isinstance(op, tile.ForOp | scf.ForOp)]
    for loop in reversed(loops):
        asked = loop.attributes.get(LANES)
        if asked is None and (hints_of(loop) or not _may(loop)):
            continue
        try:
            vectorise_loop(nest, loop, vector_bytes)
        except NotVectors:
            continue


def _may(loop: Loop) -> bool:
    return is_independent(loop) and not carried_of(loop)


def why_no_vectors(nest: func.FuncOp, loop: Loop, vector_bytes: int) -> str | None:
    """Why the iterations of a loop cannot be lanes; ``None`` where they can."""
    copy = nest.clone()
    pairs = zip(nest.walk(), copy.walk(), strict=True)
    same = next(new for old, new in pairs if old is loop)
    try:
        vectorise_loop(copy, cast("Loop", same), vector_bytes)
    except NotVectors as reason:
        return str(reason)
    return None


def vectorise_loop(nest: func.FuncOp, loop: Loop, vector_bytes: int) -> None:
    """Write one loop for vectors; ``NotVectors`` where it cannot be, and the nest is as it was."""
    forms = PointForms(nest)
    step = loop.step.value.data if isinstance(loop, tile.ForOp) else forms.constant(loop.step)
    if step != 1 or loop not in forms.atoms:
        raise NotVectors("it takes steps, or has one iteration")
    if any(isinstance(op, tile.ForOp | tile.ComputeOp) for op in loop.body.block.walk()):
        raise NotVectors("it holds leaves, or loops that stand for themselves")
    lanes = _lanes(loop, vector_bytes)
    asked = loop.attributes.pop(LANES, None)
    if isinstance(asked, IntegerAttr):
        width = narrow = asked.value.data
    else:
        small = sum(1 for _ in loop.body.block.walk()) <= _MOST_OPS // _VECTORS
        narrow = lanes
        width = _VECTORS * lanes if small and _trips(loop, forms) >= _VECTORS * lanes else lanes
    if width < 2:
        raise NotVectors("its numbers fill a vector register each")
    body = _Turn(forms, loop, width, narrow).block()
    if isinstance(loop, tile.ForOp):
        loop.properties["step"] = IntegerAttr(width, i64)
        loop.detach_region(loop.body)
        loop.add_region(Region(body))
        return
    body.add_op(_located(scf.YieldOp(), loop))
    emitter = IndexEmitter(Builder(InsertPoint.before(loop)), loop.location)
    made = scf.ForOp(loop.lb, loop.ub, emitter.constant(width), [], Region(body))
    made.location = loop.location
    made.attributes = dict(loop.attributes)
    block = loop.parent
    assert block is not None
    block.insert_op_before(made, loop)
    loop.detach()
    loop.erase()


def _located(op: Operation, like: Operation) -> Operation:
    op.location = like.location
    return op


def _trips(loop: Loop, forms: PointForms) -> int:
    atom = forms.atoms[loop]
    return atom.high - atom.low + 1


def _lanes(loop: Loop, vector_bytes: int) -> int:
    """Iterations that a register holds of the widest number that differs between them."""
    widest = 1
    for op in loop.body.block.walk():
        for value in (*op.results, *(op.operands if isinstance(op, memref.StoreOp) else ())):
            whole = isinstance(value.type, IndexType) or value.type in (i1, i64)
            if not whole and not isinstance(value.type, VectorType) and _is_number(value.type):
                widest = max(widest, size_bytes(value.type))
    return vector_bytes // max(widest, 4)


def _is_number(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType) or type_.name in ("f16", "bf16", "f32", "f64")


class _Turn:
    """What takes the place of a loop's body: ``width`` iterations, fewer of them at the end."""

    def __init__(self, forms: PointForms, loop: Loop, width: int, narrow: int):
        self.forms = forms
        self.loop = loop
        self.width = width
        self.narrow = narrow

    def block(self) -> Block:
        """One turn, for the loop's variable as the block's argument."""
        loop = self.loop
        made = Block(arg_types=[INDEX])
        variable = loop.body.block.args[0]
        made.args[0].name_hint = variable.name_hint
        emitter = IndexEmitter(Builder(InsertPoint.at_end(made)), loop.location)
        trips = self._known_trips()
        if trips is not None and trips % self.width == 0:
            self._whole(made.args[0], emitter)
            return made
        end = self._end(emitter)
        full, rest = Block(), Block()
        next_turn = emitter.add(made.args[0], emitter.constant(self.width))
        fits = emitter.emit(arith.CmpiOp(next_turn, end, "sle"))
        self._whole(made.args[0], emitter.nested(full))
        full.add_op(_located(scf.YieldOp(), loop))
        self._rest(made.args[0], end, emitter.nested(rest))
        rest.add_op(_located(scf.YieldOp(), loop))
        emitter.builder.insert(_located(scf.IfOp(fits, [], Region(full), Region(rest)), loop))
        return made

    def _known_trips(self) -> int | None:
        if isinstance(self.loop, tile.ForOp):
            return self.loop.extent.value.data
        first, last = self.forms.constant(self.loop.lb), self.forms.constant(self.loop.ub)
        return None if first is None or last is None else last - first

    def _end(self, emitter: IndexEmitter) -> SSAValue:
        if isinstance(self.loop, tile.ForOp):
            return emitter.constant(self.loop.extent.value.data)
        return self.loop.ub

    def _whole(self, first: SSAValue, emitter: IndexEmitter) -> None:
        last = emitter.add(first, emitter.constant(self.width - 1))
        self._write(first, last, self.width, emitter, Mask())

    def _rest(self, first: SSAValue, end: SSAValue, emitter: IndexEmitter) -> None:
        """The last iterations, ``narrow`` of them at a time, those past the end masked."""
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = self.loop.body.block.args[0].name_hint
        inside = emitter.nested(body)
        here = body.args[0]
        room = inside.subtract(end, here)
        shape = vector_type(i1, self.narrow)
        mask = inside.emit(vector.CreateMaskOp.build(operands=[[room]], result_types=[shape]))
        last = inside.add(here, inside.constant(self.narrow - 1))
        last = inside.minimum(last, inside.subtract(end, inside.constant(1)))
        self._write(here, last, self.narrow, inside, Mask(mask))
        body.add_op(_located(scf.YieldOp(), self.loop))
        loop = scf.ForOp(first, end, emitter.constant(self.narrow), [], Region(body))
        emitter.builder.insert(_located(loop, self.loop))

    def _write(
        self, first: SSAValue, last: SSAValue, width: int, emitter: IndexEmitter, mask: Mask
    ) -> None:
        variable = self.loop.body.block.args[0]
        lanes = Lanes(self.forms, variable, width, first, last)
        lanes.block(self.loop.body.block, emitter.builder, mask)
