"""Products of one matrix with several others: side by side in one product, where that is faster.

``q = x @ wq``, ``k = x @ wk``, ``v = x @ wv`` → ``p = x @ concat(wq, wk, wv)`` and a slice of ``p``
for each. Every element is the same sum of the same products; the order of the sum is free by the
contract (docs/numerics.md).

Two things make it pay: ``x`` is read once, and narrow products fill the lanes of a vector together.
It costs moving the weights once more, and the results where they are not read in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp, make_op
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.costs import THRESHOLD, bytes_text
from wia_compiler.passes.fusing.graph import depends_on, sort_block, written_for
from wia_compiler.passes.fusing.report import Numbers, horizontal_decision


@dataclass(frozen=True)
class Joint:
    """What joining products of ``left`` with ``rights`` saves and costs, in bytes of traffic.

    A product takes as long as the larger of its arithmetic, with columns filled up to whole
    vectors, and of its traffic. ``copied`` are bytes of results that have to be written apart.
    """

    left: TensorSpec
    rights: tuple[TensorSpec, ...]
    copied: int
    copies: int
    facts: TargetFacts

    @property
    def saved_launches(self) -> int:
        """Products less, a concatenation and copies more; may be below 0."""
        return len(self.rights) - 2 - self.copies

    @property
    def benefit(self) -> float:
        """The products one by one against all in one."""
        apart = sum(self._time((right.shape[1],)) for right in self.rights)
        together = self._time([right.shape[1] for right in self.rights])
        return max(apart - together, 0.0) + max(self.saved_launches, 0) * self._launch

    @property
    def cost(self) -> float:
        """Weights and copied results are read and written once more."""
        weights = sum(right.size_bytes for right in self.rights)
        added = max(-self.saved_launches, 0) * self._launch
        return 2.0 * (weights + self.copied) + added

    @property
    def ratio(self) -> float:
        """Benefit over cost."""
        return self.benefit / max(self.cost, 1.0)

    @property
    def _launch(self) -> int:
        return self.facts.launch_cost_bytes

    def _time(self, columns: Sequence[int]) -> float:
        rows, depth = self.left.num_elements // max(self.left.shape[-1], 1), self.left.shape[-1]
        size = self.left.dtype.size_bytes
        lanes = max(self.facts.vector_bytes // size, 1)
        filled = -(-sum(columns) // lanes) * lanes
        arithmetic = 2 * rows * depth * filled * self.facts.bytes_per_flop
        traffic = size * (rows * depth + (rows + depth) * sum(columns))
        return max(arithmetic, float(traffic))

    def with_columns(self, columns: int) -> Joint:
        """The same with so many columns each."""
        rights = tuple(TensorSpec((r.shape[0], columns), r.dtype) for r in self.rights)
        before = sum(right.shape[1] for right in self.rights)
        copied = self.copied * columns * len(rights) // max(before, 1)
        return Joint(self.left, rights, copied, self.copies, self.facts)


def join_projections(block: Block, context: PassContext) -> None:
    """Join the products of one value in a block where it pays; each candidate is recorded."""
    joined = False
    for ops in _candidates(block):
        if _decide(ops, context):
            _join(ops, context)
            joined = True
    if joined:
        sort_block(block)


def _candidates(block: Block) -> Iterator[list[TensorOp]]:
    """Products whose left side is one value, none of which needs the result of another."""
    found: dict[SSAValue, list[TensorOp]] = {}
    for op in block.ops:
        if isinstance(op, TensorOp) and op.name == "wia.matmul":
            left, right = op.arguments
            constant = isinstance(left.owner, ConstantOp) or isinstance(right.owner, ConstantOp)
            if spec_of(right.type).rank == 2 and spec_of(left.type).rank > 1 and not constant:
                found.setdefault(left, []).append(op)
    for ops in found.values():
        apart: list[TensorOp] = []
        for op in ops:
            if not depends_on(op.arguments[1], set(apart)):
                apart.append(op)
        if len(apart) > 1:
            yield apart


def _decide(ops: Sequence[TensorOp], context: PassContext) -> bool:
    copied = [op for op in ops if written_for(op)]
    joint = Joint(
        spec_of(ops[0].arguments[0].type),
        tuple(spec_of(op.arguments[1].type) for op in ops),
        sum(op.result_spec.size_bytes for op in copied),
        len(copied),
        context.facts,
    )
    narrow = min(right.shape[1] for right in joint.rights)
    taken = narrow > 1 and joint.ratio > THRESHOLD
    numbers: Numbers = {
        "weight_bytes": sum(right.size_bytes for right in joint.rights),
        "copied_bytes": joint.copied,
        "saved_launches": joint.saved_launches,
        "benefit": round(joint.benefit, 1),
        "cost": round(joint.cost, 1),
        "ratio": round(joint.ratio, 3),
        "threshold": THRESHOLD,
    }
    name = ops[0].arguments[0].name_hint or "one value"
    if narrow <= 1:
        reason = "a product with one column runs at the speed of memory by itself"
        numbers["would_fuse_if"] = f"each had 2 columns or more, not {narrow}"
    elif taken:
        reason = (
            f"side by side in one product they read {name} once and fill vectors together: worth "
            f"{bytes_text(joint.benefit)} of traffic, benefit {joint.ratio:.3g} × cost"
        )
    else:
        reason = (
            f"one nest holds one contraction, and side by side in one product their weights move "
            f"once more: benefit {joint.ratio:.2f} × cost, needs {THRESHOLD}"
        )
        columns = _columns_that_pay(joint)
        if columns:
            widest = max(right.shape[1] for right in joint.rights)
            numbers["would_fuse_if"] = f"each had {columns} columns or fewer, not {widest}"
        else:
            numbers["would_fuse_if"] = f"a nest could hold {len(ops)} contractions"
    context.decisions.append(
        horizontal_decision([[op] for op in ops], taken, reason, numbers, context)
    )
    return taken


def _columns_that_pay(joint: Joint) -> int:
    """The most columns each, among halves of what they have, with which joining would pay."""
    columns = max(right.shape[1] for right in joint.rights) // 2
    while columns > 1 and joint.with_columns(columns).ratio <= THRESHOLD:
        columns //= 2
    return columns if columns > 1 else 0


def _join(ops: Sequence[TensorOp], context: PassContext) -> None:
    block, last = ops[-1].parent_block(), ops[-1]
    assert block is not None
    location = merge_locations(ops)
    weights = make_op("concat", [op.arguments[1] for op in ops], {"dim": 1})
    product = make_op("matmul", [ops[0].arguments[0], weights.result])
    made: list[Operation] = [weights, product]
    context.ids[id(product)] = context.id_of(ops[0])
    shape = product.result_spec.shape
    first = 0
    for op in ops:
        stop = first + op.result_spec.shape[-1]
        starts = (*(0 for _ in shape[:-1]), first)
        stops = (*shape[:-1], stop)
        part = make_op("slice", [product.result], {"starts": starts, "stops": stops})
        part.result.name_hint = op.result.name_hint
        context.ids[id(part)] = context.id_of(op)
        op.result.replace_all_uses_with(part.result)
        made.append(part)
        first = stop
    for each in made:
        each.location = location
        block.insert_op_before(each, last)
    for op in ops:
        op.detach()
        op.erase()
