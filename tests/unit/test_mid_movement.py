"""Movement ops: folded into maps and views, with index arithmetic only where memory demands it."""

import numpy as np
import pytest
from mid_building import check, kernel, lowered, sample, spec
from wia_compiler.passes.nests.views import reshape_groups

RESHAPES = [
    ((6, 4), (24,)),
    ((24,), (6, 4)),
    ((6, 4), (4, 6)),
    ((2, 3, 4), (6, 4)),
    ((2, 3, 4), (2, 12)),
    ((6, 4), (1, 6, 1, 4, 1)),
    ((1, 6, 1, 4), (6, 4)),
    ((4, 9), (6, 6)),
    ((1,), ()),
    ((), (1, 1)),
    ((0, 4), (2, 0)),
    ((5, 6, 7), (7, 6, 5)),
]


@pytest.mark.parametrize("shapes", RESHAPES)
@pytest.mark.parametrize("place", ["alone", "before", "after", "of a transpose", "in the middle"])
def test_reshape(shapes, place):
    old, new = shapes
    array = sample(spec(old))

    def body(ops, a):
        match place:
            case "alone":
                return ops.reshape(a, shape=new)
            case "before":
                return ops.neg(ops.reshape(a, shape=new))
            case "after":
                return ops.reshape(ops.neg(a), shape=new)
            case "of a transpose":
                back = tuple(reversed(range(len(old))))
                return ops.neg(ops.reshape(ops.permute(a, dims=back), shape=new))
            case _:
                return ops.abs(ops.reshape(ops.neg(a), shape=new))

    if place == "of a transpose":
        array = np.array(array.T, order="C").T
    for fused in (False, True):
        check(kernel([spec(old)], body, fused=fused), [array])


def test_reshape_of_strided_input():
    array = sample(spec((12, 8)))[::2, ::2]
    module = kernel(
        [spec(array.shape)], lambda ops, a: ops.neg(ops.reshape(a, shape=(4, 6))), fused=True
    )
    check(module, [array])


@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_permute(dims):
    each = spec((2, 3, 4))
    for body in (
        lambda ops, a: ops.permute(a, dims=dims),
        lambda ops, a: ops.neg(ops.permute(a, dims=dims)),
        lambda ops, a: ops.permute(ops.neg(a), dims=dims),
    ):
        for fused in (False, True):
            check(kernel([each], body, fused=fused), [sample(each)])


def test_broadcast():
    each = spec((3, 1))
    module = kernel([each], lambda ops, a: ops.broadcast(a, shape=(2, 3, 5)))
    check(module, [sample(each)])


def test_movement_between_kernels_costs_no_copy():
    each = spec((6, 4))

    def body(ops, a):
        moved = ops.permute(ops.reshape(ops.neg(a), shape=(2, 12)), dims=(1, 0))
        return ops.exp(moved)

    module = kernel([each], body)
    nests = check(module, [sample(each)], tolerance=1e-6)
    assert len(list(nests.ops)) == 3


def test_movement_of_constants():
    module = kernel(
        [spec((3,))], lambda ops, a: ops.add(a, ops.broadcast(ops.constant(2.0, "f32"), shape=(3,)))
    )
    check(module, [sample(spec((3,)))])


def test_transposes_are_maps():
    each = spec((5, 7))
    other = spec((7, 5))
    module = kernel(
        [each, other], lambda ops, a, b: ops.add(ops.permute(a, dims=(1, 0)), b), fused=True
    )
    nests, _ = lowered(module)
    assert "%a[%j0 + j, %i0 + i]" in str(nests)


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((6, 4), (2, 3, 4), [([0], [0, 1]), ([1], [2])]),
        ((4,), (4, 1), [([0], [0]), ([], [1])]),
        ((1, 4), (4,), [([0, 1], [0])]),
        ((2, 3), (3, 2), [([0, 1], [0, 1])]),
    ],
)
def test_reshape_groups(old, new, groups):
    assert reshape_groups(old, new) == groups
