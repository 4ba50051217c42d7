"""Random chains of ops that cut, join, surround and look up, as one group and as many kernels."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mid_building import check, kernel, spec
from wia_compiler.dialects.types import spec_of

FOLDS = ("reduce_sum", "reduce_max", "argmax", "cumsum", "window", None)


@st.composite
def programs(draw):
    """Shapes of two inputs and a list of steps; each step draws what it needs when it is built."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    steps = draw(st.lists(st.integers(0, 10), min_size=1, max_size=6))
    return shape, steps, draw(st.sampled_from(FOLDS)), draw(st.integers(0, 2**32 - 1))


def build(ops, values, steps, fold, seed):
    """Append the steps to ``values``, which grow; the last value and what it folds to."""
    random = np.random.default_rng(seed)
    for step in steps:
        x = values[random.integers(len(values))]
        values.append(STEPS[step](ops, x, values, random))
    last = values[-1]
    return [last, *folded(ops, last, fold, random)]


def shape_of(value):
    return spec_of(value.type).shape


def cut(ops, x, values, random):
    shape = shape_of(x)
    starts = tuple(int(random.integers(0, size)) for size in shape)
    steps = tuple(int(random.choice([1, 2, -1])) for _ in shape)
    stops = tuple(None for _ in shape)
    return ops.slice(x, starts=starts, stops=stops, steps=steps)


def surround(ops, x, values, random):
    ends = tuple(int(random.integers(0, 3)) for _ in range(2 * len(shape_of(x))))
    between = tuple(int(random.integers(0, 2)) for _ in shape_of(x))
    return ops.pad(x, pad=ends, interior=between, value=int(random.integers(0, 3)))


def append(ops, x, values, random):
    alike = [v for v in values if shape_of(v) == shape_of(x)]
    others = [alike[random.integers(len(alike))] for _ in range(random.integers(1, 3))]
    return ops.concat(x, *others, dim=int(random.integers(len(shape_of(x)))))


def pick(ops, x, values, random):
    dim = int(random.integers(len(shape_of(x))))
    places = ops.iota(size=(int(random.integers(1, 5)),), dim=0, dtype="i64")
    wrapped = ops.mod(places, ops.constant(shape_of(x)[dim], "i64"))
    return ops.index_select(x, wrapped, dim=dim)


def turn(ops, x, values, random):
    return ops.permute(x, dims=tuple(int(n) for n in random.permutation(len(shape_of(x)))))


def flat(ops, x, values, random):
    return ops.reshape(x, shape=(int(np.prod(shape_of(x))),))


def number(ops, x, values, random):
    return ops.add(x, ops.iota(size=shape_of(x), dim=-1, dtype="f32"))


def both(ops, x, values, random):
    alike = [v for v in values if shape_of(v) == shape_of(x)]
    return ops.max(x, alike[random.integers(len(alike))])


def negative(ops, x, values, random):
    return ops.neg(x)


STEPS = [cut, surround, append, pick, turn, flat, number, both, negative, cut, surround]


def folded(ops, x, fold, random):
    dim = int(random.integers(len(shape_of(x))))
    match fold:
        case None:
            return []
        case "cumsum":
            return [ops.cumsum(x, dim=dim)]
        case "window":
            size = min(3, shape_of(x)[-1])
            return [
                ops.reduce_window(x, kind="max", kernel_size=(size,), stride=(1,), padding=size - 1)
            ]
        case "argmax":
            return [ops.argmax(x, dim=dim)]
        case _:
            return [getattr(ops, fold)(x, dim=dim)]


@settings(max_examples=40, deadline=None)
@given(programs(), st.booleans())
def test_one_nest_or_many_compute_what_the_reference_does(program, fused):
    shape, steps, fold, seed = program

    def body(ops, a, b):
        return build(ops, [a, b], steps, fold, seed)

    # Whole numbers, so that sums are exact in any order.
    random = np.random.default_rng(seed)
    arrays = [random.integers(-9, 9, shape).astype(np.float32) for _ in range(2)]
    check(kernel([spec(shape), spec(shape)], body, fused=fused), arrays)
