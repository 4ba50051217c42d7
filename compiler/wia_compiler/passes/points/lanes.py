"""Point code of one loop written for the lanes of vectors: each lane is one iteration.

Every op is done for all lanes in the order of the text, so that each iteration rounds as it did.
A branch whose condition differs between lanes is taken by some of them: both ways are computed and
each lane keeps its own. A loop inside that ends at another number for each lane runs until the
last one is done; the iterations that all lanes have need no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.arith_lanes import SelectLanesOp
from wia_compiler.passes.lane_ops import on_lanes, splat
from wia_compiler.passes.points.lane_values import LaneValues, Mask, NotVectors


class Lanes(LaneValues):
    """Writes blocks of a loop's body anew for ``width`` iterations of it."""

    def block(self, source: Block, builder: Builder, mask: Mask) -> None:
        """Write the ops of a block, all but its terminator."""
        for op in source.ops:
            match op:
                case scf.ForOp():
                    self._loop(op, builder, mask)
                case scf.IfOp():
                    self._branch(op, builder, mask)
                case memref.LoadOp():
                    self._load(op, builder, mask)
                case memref.StoreOp():
                    self._store(op, builder, mask)
                case scf.YieldOp():
                    pass
                case _:
                    self._scalar(op, builder)

    def _branch(self, op: scf.IfOp, builder: Builder, mask: Mask) -> None:
        if not self.differs(op.cond):
            self._whole_branch(op, builder, mask)
            return
        if any(inner.regions for region in op.regions for inner in region.block.ops):
            raise NotVectors("a branch that some lanes take holds a loop or a branch")
        condition = self.vector(op.cond, builder, op)
        other = self._insert(
            builder,
            arith.XOrIOp(condition, self._insert(builder, splat(True, self._type(i1)), op)),
            op,
        )
        yielded: list[list[SSAValue]] = []
        for region, taken in ((op.true_region, condition), (op.false_region, other)):
            if not region.blocks:
                continue
            lanes = self._both(mask.lanes, taken, builder, op)
            self.block(region.block, builder, Mask(lanes, certain=False))
            last = region.block.last_op
            assert last is not None
            yielded.append([self.vector(each, builder, last) for each in last.operands])
        for number, result in enumerate(op.results):
            chosen = SelectLanesOp(condition, yielded[0][number], yielded[1][number])
            self._define(result, self._insert(builder, chosen, op))

    def _both(
        self, one: SSAValue | None, other: SSAValue, builder: Builder, like: Operation
    ) -> SSAValue:
        if one is None:
            return other
        return self._insert(builder, arith.AndIOp(one, other), like)

    def _whole_branch(self, op: scf.IfOp, builder: Builder, mask: Mask) -> None:
        """A branch that all lanes take alike."""
        blocks: list[Block] = []
        for region in op.regions:
            if not region.blocks:
                continue
            made = Block()
            inside = Builder(InsertPoint.at_end(made))
            self.block(region.block, inside, mask)
            last = region.block.last_op
            assert last is not None
            end = scf.YieldOp(*(self.vector(each, inside, last) for each in last.operands))
            end.location = last.location
            made.add_op(end)
            blocks.append(made)
        condition = self.values.get(op.cond, op.cond)
        types = [self._type(each.type) for each in op.results]
        regions = [Region(each) for each in blocks]
        made_if = scf.IfOp(condition, types, regions[0], regions[1] if regions[1:] else None)
        made_if.location = op.location
        builder.insert(made_if)
        for value, result in zip(op.results, made_if.results, strict=True):
            self._define(value, result)

    def _loop(self, op: scf.ForOp, builder: Builder, mask: Mask) -> None:
        if self.differs(op.step) or any(isinstance(a.type, IndexType) for a in op.iter_args):
            raise NotVectors("a loop inside takes steps that differ between lanes")
        carried = [self.vector(each, builder, op) for each in op.iter_args]
        if not self.differs(op.lb) and not self.differs(op.ub):
            bounds = [self.values.get(each, each) for each in (op.lb, op.ub)]
            carried = self._turns(op, builder, bounds, carried, mask)
        else:
            carried = self._ragged_loop(op, builder, carried, mask)
        for value, made in zip(op.results, carried, strict=True):
            self._define(value, made)

    def _ragged_loop(
        self, op: scf.ForOp, builder: Builder, carried: list[SSAValue], mask: Mask
    ) -> list[SSAValue]:
        """A loop whose bounds grow from lane to lane: before and after what all lanes have, masks.

        ::

            for k in 0..j + 1   →   for k in 0..first + 1 { all lanes }
                                    for k in first + 1..last + 1 { lanes of which k < j + 1 }
        """
        if any(each in self.vectors for each in (op.lb, op.ub)) or not mask.certain:
            raise NotVectors("a loop inside has bounds that data says, or stands in a branch")
        if self.differs(op.lb) and self.forms.constant(op.step) != 1:
            raise NotVectors("a loop inside starts apart in each lane and takes steps")
        lowest, begun = self._ends(op.lb, builder, op)
        ended, highest = self._ends(op.ub, builder, op)
        pick = arith.MaxSIOp
        begun = self._insert(builder, pick(lowest, begun), op)
        ended = self._insert(builder, pick(begun, ended), op)
        highest = self._insert(builder, pick(ended, highest), op)
        if self.differs(op.lb):
            carried = self._turns(op, builder, (lowest, begun), carried, mask, test=True)
        if self.forms.constant(op.step) != 1:
            begun, ended = lowest, self._whole_steps(op, lowest, ended, builder)
        carried = self._turns(op, builder, (begun, ended), carried, mask)
        if self.differs(op.ub):
            carried = self._turns(op, builder, (ended, highest), carried, mask, test=True)
        return carried

    def _whole_steps(
        self, op: scf.ForOp, first: SSAValue, end: SSAValue, builder: Builder
    ) -> SSAValue:
        """The place that a loop with steps is at where it would go past ``end``."""
        step = self.values.get(op.step, op.step)
        room = self._insert(builder, arith.SubiOp(end, first), op)
        more = self._insert(builder, arith.SubiOp(step, self._number(builder, 1, op)), op)
        turns = self._insert(builder, arith.AddiOp(room, more), op)
        turns = self._insert(builder, arith.DivUIOp(turns, step), op)
        gone = self._insert(builder, arith.MuliOp(turns, step), op)
        return self._insert(builder, arith.AddiOp(first, gone), op)

    def _ends(
        self, bound: SSAValue, builder: Builder, like: Operation
    ) -> tuple[SSAValue, SSAValue]:
        """A bound in the lane where it is lowest, and where it is highest."""
        first = self.values.get(bound, bound)
        if not self.differs(bound):
            return first, first
        last = self.lasts[bound]
        grows = self._growth(self.forms.form(bound)) > 0
        return (first, last) if grows else (last, first)

    def _turns(
        self,
        op: scf.ForOp,
        builder: Builder,
        bounds: Sequence[SSAValue],
        carried: Sequence[SSAValue],
        mask: Mask,
        *,
        test: bool = False,
    ) -> list[SSAValue]:
        """The loop between two bounds; ``test``: for the lanes whose own bounds hold."""
        body = Block(arg_types=[IndexType(), *(each.type for each in carried)])
        variable, *held = op.body.block.args
        self.values[variable] = body.args[0]
        body.args[0].name_hint = variable.name_hint
        for value, made in zip(held, body.args[1:], strict=True):
            self._define(value, made)
        inside = Builder(InsertPoint.at_end(body))
        own = replace(mask)
        if test:
            own = Mask(self._inside(op, variable, inside, mask), certain=mask.certain)
        self.block(op.body.block, inside, own)
        last = op.body.block.last_op
        assert last is not None
        yielded = [self.vector(each, inside, last) for each in last.operands]
        if test and own.lanes is not None:
            yielded = [
                self._insert(inside, SelectLanesOp(own.lanes, new, old), last)
                for new, old in zip(yielded, body.args[1:], strict=True)
            ]
        end = scf.YieldOp(*yielded)
        end.location = last.location
        body.add_op(end)
        step = self.values.get(op.step, op.step)
        loop = scf.ForOp(bounds[0], bounds[1], step, list(carried), Region(body))
        loop.location = op.location
        loop.attributes = dict(op.attributes)
        builder.insert(loop)
        return list(loop.results)

    def _inside(
        self, op: scf.ForOp, variable: SSAValue, builder: Builder, mask: Mask
    ) -> SSAValue | None:
        """The lanes whose own loop has an iteration here."""
        lanes = mask.lanes
        here = self.vector(variable, builder, op)
        for bound, word in ((op.lb, "sge"), (op.ub, "slt")):
            if self.differs(bound):
                other = self.vector(bound, builder, op)
                like = arith.CmpiOp(variable, variable, word)
                test = self._insert(builder, on_lanes(like, [here, other], self.width), op)
                lanes = self._both(lanes, test, builder, op)
        return lanes
