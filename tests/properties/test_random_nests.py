"""Random programs: fused, decomposed and lowered to nests they compute what the reference says."""

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mid_building import Ops, assert_close, kernel, lowered, result_specs, run, sample, spec
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import spec_of
from wia_compiler.passes.canonicalize import Canonicalize
from wia_compiler.passes.cse import Cse
from wia_compiler.passes.dce import Dce
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from xdsl.ir import SSAValue

SIZES = st.sampled_from([1, 1, 2, 3, 3, 4, 6])
SHAPES = st.lists(SIZES, max_size=3).map(tuple)
STEPS = (
    "neg",
    "add",
    "max",
    "softmax",
    "reduce",
    "permute",
    "reshape",
    "broadcast",
    "matmul",
    "where",
)


def extend(
    ops: Ops, values: list[SSAValue], step: str, draw: Callable[..., int]
) -> SSAValue | None:
    """One more value from those there are; ``None`` where the step does not apply."""
    value = values[draw(len(values))]
    shape = spec_of(value.type).shape
    match step:
        case "neg":
            return ops.neg(value)
        case "permute":
            turned = draw(max(len(shape), 1))
            order = (
                [*range(len(shape))][::-1]
                if draw(2)
                else [*range(turned, len(shape)), *range(turned)]
            )
            return ops.permute(value, dims=tuple(order))
        case "reshape":
            sizes = [size for size in shape if size != 1]
            joined = (int(np.prod(shape)),)
            choices = [joined, tuple(sizes), (*shape, 1), (1, *shape), tuple(reversed(shape))]
            return ops.reshape(value, shape=choices[draw(len(choices))])
        case "broadcast":
            return ops.broadcast(value, shape=(2, *(3 if size == 1 else size for size in shape)))
        case "reduce" if shape:
            axis = draw(len(shape))
            name = ("reduce_sum", "reduce_max")[draw(2)]
            return getattr(ops, name)(value, dim=axis, keepdim=bool(draw(2)))
        case "softmax" if shape:
            return _softmax(ops, value, draw(len(shape)))
        case "add" | "max" | "where" | "matmul":
            return _pair(ops, values, step, value, draw)
        case _:
            return None


def _softmax(ops: Ops, value: SSAValue, axis: int) -> SSAValue:
    e = ops.exp(ops.sub(value, ops.reduce_max(value, dim=axis, keepdim=True)))
    return ops.div(e, ops.reduce_sum(e, dim=axis, keepdim=True))


def _pair(
    ops: Ops, values: list[SSAValue], step: str, value: SSAValue, draw: Callable[..., int]
) -> SSAValue | None:
    other = values[draw(len(values))]
    shapes = [spec_of(each.type).shape for each in (value, other)]
    if step == "matmul":
        square = len(shapes[0]) == len(shapes[1]) == 2
        if not square or shapes[0][1] != shapes[1][0]:
            return None
        return ops.matmul(value, other)
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    if step == "where":
        return ops.where(ops.lt(value, other), other, value)
    return getattr(ops, step)(value, other)


@st.composite
def programs(draw_value):
    inputs = draw_value(st.lists(SHAPES, min_size=1, max_size=3))
    steps = draw_value(st.lists(st.sampled_from(STEPS), min_size=1, max_size=9))
    numbers = draw_value(st.lists(st.integers(0, 11), min_size=60, max_size=60))
    results = draw_value(st.integers(1, 3))
    return inputs, steps, numbers, results


def build(program, *, fused=False):
    inputs, steps, numbers, results = program

    def body(ops: Ops, *arguments: SSAValue) -> list[SSAValue]:
        choices = iter(numbers)
        values = list(arguments)
        for step in steps:
            made = extend(ops, values, step, lambda count: next(choices) % count)
            if made is not None and spec_of(made.type).num_elements <= 5000:
                values.append(made)
        return values[-results:]

    return kernel([spec(shape) for shape in inputs], body, fused=fused)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_random_programs(program):
    module = build(program)
    arrays = [sample(spec(shape), seed) for seed, shape in enumerate(program[0])]
    wanted = run_module(module, "k", arrays)
    context = PassContext(Source(""), "k", TargetFacts("test", 64, 0.001, 1_000_000))
    outputs = result_specs(module)
    for step in (Canonicalize(), Cse(), Dce(), Fusion(), Decompose()):
        step.run(module, context)
        module.verify()
    nests, _ = lowered(module)
    verify_tile(nests)
    for have, want in zip(run(nests, arrays, outputs), wanted, strict=True):
        assert_close(have, want, 1e-5)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_random_groups(program):
    """Whole programs as one group, with all its results: one nest where it can be, else several."""
    module = build(program, fused=True)
    arrays = [sample(spec(shape), seed) for seed, shape in enumerate(program[0])]
    wanted = run_module(module, "k", arrays)
    nests, _ = lowered(module)
    verify_tile(nests)
    for have, want in zip(run(nests, arrays, result_specs(module)), wanted, strict=True):
        assert_close(have, want, 1e-5)
