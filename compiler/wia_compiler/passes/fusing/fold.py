"""Batch normalisation after a convolution becomes part of the convolution's weights.

``batch_norm(conv2d(x, w), μ, σ², γ, β)`` is ``conv2d(x, w · γ/√(σ²+ε)) + (β - μ · γ/√(σ²+ε))`` in
exact arithmetic. The products with the weights are rounded before they are summed, so a result may
differ from that of the two ops by rounding: docs/numerics.md says so, and so does the decision.
Where it does not pay, batch_norm follows the convolution in its kernel, which rounds as the two ops
do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.types import Value, dtype_of, spec_of, tensor_type
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp, make_op
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.costs import THRESHOLD, bytes_text
from wia_compiler.passes.fusing.graph import opaque_users, sort_block, users_of, written_for
from wia_compiler.passes.fusing.report import Numbers

_CONVOLUTIONS = ("conv2d",)
_LAUNCHES_ADDED = 3
"""Kernels that compute γ/√(σ²+ε) and the shift of each channel, and scale the weights."""


def fold_batch_norms(block: Block, context: PassContext) -> None:
    """Fold every batch_norm of a block into the convolution before it, where that pays.

    Each that follows a convolution is recorded as a decision of kind ``fold``.
    """
    folded = False
    norms = [op for op in block.ops if isinstance(op, TensorOp) and op.name == "wia.batch_norm"]
    for norm in norms:
        convolution = norm.arguments[0].owner
        if not isinstance(convolution, TensorOp) or convolution.parent is not block:
            continue
        if convolution.declaration.name in _CONVOLUTIONS and _decide(convolution, norm, context):
            _fold(convolution, norm, context)
            folded = True
    if folded:
        sort_block(block)


def _decide(convolution: TensorOp, norm: TensorOp, context: PassContext) -> bool:
    """Whether to fold, with a decision that says why or why not."""
    numbers = _numbers(convolution, norm, context.facts)
    refusal = _refusal(convolution, norm)
    ratio = float(numbers["ratio"])
    taken = refusal is None and ratio > THRESHOLD
    if refusal is not None:
        reason, numbers["would_fuse_if"] = refusal
    elif taken:
        reason = (
            f"batch_norm goes into the weights: {numbers['saved_flops']} operations less, worth "
            f"{bytes_text(float(numbers['benefit']))} of traffic, benefit {ratio:.3g} × cost; "
            "weights × γ/√(σ²+ε) are rounded before they are summed"
        )
    else:
        reason = f"benefit {ratio:.2f} × cost, needs {THRESHOLD}: the weights are scaled each call"
        numbers["would_fuse_if"] = _condition(convolution, numbers, context.facts)
    name = convolution.declaration.name
    subjects = tuple(filter(None, [context.id_of(convolution), context.id_of(norm)]))
    context.decisions.append(
        Decision("fold", f"{name} → batch_norm", taken, reason, numbers, subjects)
    )
    return taken


def _refusal(convolution: TensorOp, norm: TensorOp) -> tuple[str, str] | None:
    """What forbids folding whatever it costs, and what would have to be otherwise."""
    name, dtype = convolution.declaration.name, norm.result_spec.dtype
    others = [user.declaration.name for user in users_of(convolution) if user is not norm]
    others += [*opaque_users(convolution), *written_for(convolution)]
    if others:
        return (
            f"{name} has another consumer, {others[0]}, which needs it as it is",
            f"nothing but batch_norm read {name}",
        )
    if dtype.name not in ("f32", "f64"):
        return (
            f"weights of {dtype} would be rounded to {dtype} again",
            f"the tensors were f32 or f64, not {dtype}",
        )
    if not float(str(norm.values["eps"])) > 0:
        return "eps is 0: a variance of 0 would make a weight of 0 NaN", "eps were above 0"
    return None


def _numbers(convolution: TensorOp, norm: TensorOp, facts: TargetFacts) -> Numbers:
    """What folding saves and costs, in bytes of traffic.

    Saved: of the operations that batch_norm does for each element, all but one addition. Paid: the
    weights are read and written once more, by kernels of their own.
    """
    elements = norm.result_spec.num_elements
    saved_flops = _saved_per_element(norm) * elements
    weights = _bytes_of(convolution.argument("weight"))
    benefit = saved_flops * facts.bytes_per_flop
    cost = 2 * weights + _LAUNCHES_ADDED * facts.launch_cost_bytes
    return {
        "saved_flops": saved_flops,
        "weight_bytes": weights,
        "added_launches": _LAUNCHES_ADDED,
        "benefit": round(benefit, 1),
        "cost": float(cost),
        "ratio": round(benefit / max(cost, 1), 3),
        "threshold": THRESHOLD,
    }


def _saved_per_element(norm: TensorOp) -> int:
    """Operations for an element: minus mean, times root, times weight, plus bias; one stays."""
    return 1 + (norm.argument("weight") is not None) + (norm.argument("bias") is not None)


def _condition(convolution: TensorOp, numbers: Numbers, facts: TargetFacts) -> str:
    spec = convolution.result_spec
    each = facts.bytes_per_flop * float(numbers["saved_flops"]) / max(spec.num_elements, 1)
    if not each:
        return "the result had elements"
    needed = math.floor(THRESHOLD * float(numbers["cost"]) / each) + 1
    return f"{convolution.declaration.name} gave {needed} elements or more, not {spec.num_elements}"


def _bytes_of(value: SSAValue | None) -> int:
    return 0 if value is None else spec_of(value.type).size_bytes


@dataclass
class _Writer:
    """Appends ops before one, with the location of what they are made from."""

    before: TensorOp
    sources: tuple[Operation, ...]

    def op(self, name: str, *operands: SSAValue, **attributes: Value) -> SSAValue:
        """An op's result."""
        op = make_op(name, operands, attributes)
        self._add(op)
        return op.result

    def number(self, number: float, like: SSAValue) -> SSAValue:
        """A scalar of the dtype of a value."""
        op = ConstantOp(number, tensor_type((), dtype_of(like.type)))
        self._add(op)
        return op.result

    def _add(self, op: Operation) -> None:
        op.location = merge_locations(self.sources)
        block = self.before.parent_block()
        assert block is not None
        block.insert_op_before(op, self.before)


def _fold(convolution: TensorOp, norm: TensorOp, context: PassContext) -> None:
    write = _Writer(convolution, (convolution, norm))
    mean, variance = norm.argument("running_mean"), norm.argument("running_var")
    weights = convolution.argument("weight")
    assert mean is not None and variance is not None and weights is not None
    eps = write.number(float(str(norm.values["eps"])), variance)
    factor = write.op("rsqrt", write.op("add", variance, eps))
    scale, bias = norm.argument("weight"), norm.argument("bias")
    if scale is not None:
        factor = write.op("mul", factor, scale)
    factor.name_hint = "factor"
    channels = convolution.result_spec.shape[1]
    tall = write.op("reshape", factor, shape=(channels, 1, 1, 1))
    scaled = write.op("mul", weights, tall)
    scaled.name_hint = weights.name_hint
    own = convolution.argument("bias")
    centre = mean if own is None else write.op("sub", mean, own)
    shift = write.op("mul", centre, factor)
    shift = write.op("neg", shift) if bias is None else write.op("sub", bias, shift)
    shift.name_hint = "shift"
    names = list(convolution.given)
    convolution.operands[names.index("weight")] = scaled
    if own is not None:
        convolution.operands[names.index("bias")] = shift
        _replace(norm, convolution.result)
        return
    wide = write.op("reshape", shift, shape=(channels, 1, 1))
    sum_ = make_op("add", [convolution.result, wide])
    sum_.location = norm.location
    block = norm.parent_block()
    assert block is not None
    block.insert_op_before(sum_, norm)
    context.ids[id(sum_)] = context.id_of(norm)
    _replace(norm, sum_.result)


def _replace(norm: TensorOp, value: SSAValue) -> None:
    hint = norm.result.name_hint
    norm.result.replace_all_uses_with(value)
    value.name_hint = hint or value.name_hint
    norm.detach()
    norm.erase()
