"""Where elements of a register buffer lie: every element once, slices beside their wholes."""

from collections import Counter
from itertools import product

import pytest
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import (
    AccumulatorLayout,
    Cyclic,
    Digit,
    Fragment,
    mma_accumulator,
    parse_layout,
)


def places(layout, threads):
    """Which element each slot of each thread holds."""
    return {
        (slot, thread): tuple(each.constant for each in layout.place(slot, Index((), thread)))
        for slot, thread in product(range(layout.slots), range(threads))
    }


@pytest.mark.parametrize("shape,group", [((8, 4), 8), ((3, 5), 4), ((7,), 32)])
def test_cyclic_deals_elements_out(shape, group):
    layout = Cyclic(shape, group)
    held = Counter(places(layout, group).values())
    assert all(held[place] == 1 for place in product(*map(range, shape)))
    assert places(layout, group)[layout.slots - 1, 0][-1] == (layout.slots - 1) * group % shape[-1]


@pytest.mark.parametrize("tile", [(64, 64), (128, 128), (32, 64), (96, 128)])
@pytest.mark.parametrize(
    "layout",
    [
        AccumulatorLayout(1, 1),
        AccumulatorLayout(2, 1),
        AccumulatorLayout(2, 4),
        AccumulatorLayout(2, 4, paired_rows=True),
        AccumulatorLayout(2, 4, paired_columns=True),
        AccumulatorLayout(2, 2, paired_rows=True, paired_columns=True),
    ],
    ids=str,
)
def test_accumulators_hold_every_element_once(tile, layout):
    fragment = mma_accumulator(tile, layout)
    assert fragment.threads == 32 * layout.warp_rows * layout.warp_columns
    held = Counter(places(fragment, fragment.threads).values())
    assert held == Counter(product(range(tile[0]), range(tile[1])))


def test_one_tile_is_the_fragment_of_the_manual():
    fragment = mma_accumulator((16, 8), AccumulatorLayout(1, 1))
    found = places(fragment, 32)
    for lane, slot in product(range(32), range(4)):
        assert found[slot, lane] == (lane // 4 + 8 * (slot // 2), 2 * (lane % 4) + slot % 2)


def test_a_slice_lies_beside_its_whole():
    fragment = mma_accumulator((64, 32), AccumulatorLayout(4, 1))
    for kept in (0, 1):
        part = fragment.along((kept,))
        own, whole = places(part, 128), places(fragment, 128)
        assert part.slots == {0: 2, 1: 8}[kept]
        for slot, thread in whole:
            beside = fragment.slot_along((kept,), slot)
            assert own[beside, thread] == (whole[slot, thread][kept],)


def test_butterflies_stay_in_the_threads_that_share_a_row():
    fragment = mma_accumulator((64, 32), AccumulatorLayout(4, 1))
    assert fragment.lane_distances((1,)) == (1, 2)
    assert fragment.lane_distances((0,)) is None  # rows lie in four warps
    assert mma_accumulator((16, 32), AccumulatorLayout(1, 1)).lane_distances((0,)) == (4, 8, 16)
    assert list(fragment.along((0,)).owner_digits()) == [(1, 4)]


@pytest.mark.parametrize(
    "text,shape,slots",
    [
        ("mma(2x4)", (128, 128), 64),
        ("mma(2x4)", (1, 128, 1, 128), 64),
        ("mma(2x2) paired columns", (64, 64), 32),
        ("mma(2x2) paired rows, columns", (64, 64), 32),
        ("mma(4x1) rows 64x32", (64,), 2),
        ("mma(4x1) columns 64x32", (1, 32), 8),
    ],
)
def test_layouts_are_spelled(text, shape, slots):
    layout = parse_layout(text)
    assert str(layout) == text
    assert layout.of(shape).shape == shape
    assert layout.of(shape).slots == slots


@pytest.mark.parametrize("text", ["", "mma", "mma(2)", "mma(2x4) diagonals 4x4"])
def test_unknown_layouts_are_refused(text):
    with pytest.raises(ValueError, match="expected mma"):
        parse_layout(text)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no tile of mma"):
        mma_accumulator((24, 8), AccumulatorLayout(1, 1))
    with pytest.raises(ValueError, match="16 at a time"):
        mma_accumulator((16, 8), AccumulatorLayout(1, 1, paired_columns=True))
    with pytest.raises(ValueError, match="the digits reach"):
        Fragment((8,), (Digit(4, 0, 1),), ())
