"""Nests of ops that cut, join, surround and count: parts of results, index maps, lookups."""

import numpy as np
import pytest
from mid_building import kernel, lowered, sample, spec
from point_code import LAYOUTS, check_kernel, on_cpu, strided
from wia_compiler.backends.cpu.lower import LowerPass
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.dialects.text import print_ir
from wia_compiler.reference.tile import run_tile_module

SIZES = (0, 1, 3, 17, 127, 1000)


CASES = {
    "slice": lambda ops, x: ops.slice(x, starts=(1, None), stops=(-1, None), steps=(1, 2)),
    "flip": lambda ops, x: ops.slice(x, starts=(None, None), steps=(-1, -2)),
    "slice of nothing": lambda ops, x: ops.slice(x, starts=(5,), stops=(2,)),
    "pad": lambda ops, x: ops.pad(x, pad=(1, 2, 0, 3)),
    "pad with a value": lambda ops, x: ops.pad(x, pad=(2, 0), value=1),
    "pad between": lambda ops, x: ops.pad(x, pad=(1, 2, 3, 1), interior=(1, 2), value=1),
    "concat": lambda ops, x: ops.concat(x, x, dim=0),
    "concat of columns": lambda ops, x: ops.concat(x, x, x, dim=1),
    "iota": lambda ops, x: ops.iota(size=(3, 5), dim=0, dtype="i32"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_layouts(case, layout):
    x = strided(sample(spec((7, 9)), special=True), layout)
    check_kernel(kernel([spec((7, 9))], CASES[case]), [x])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_sizes(case, size):
    x = sample(spec((size, 3)), special=True)
    check_kernel(kernel([spec((size, 3))], CASES[case]), [x])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_dtypes(case, dtype):
    x = sample(spec((5, 6), dtype), special=True)
    check_kernel(kernel([spec((5, 6), dtype)], CASES[case]), [x])


def test_what_stands_before_and_after_is_computed_in_every_part():
    def body(ops, x, y):
        joined = ops.concat(ops.neg(x), ops.pad(y, pad=(1, 1, 0, 0), value=7), dim=0)
        return ops.mul(joined, joined)

    specs = [spec((3, 6)), spec((2, 4))]
    module = kernel(specs, body, fused=True)
    nests = check_kernel(module, [sample(each) for each in specs])
    assert "memref.alloc" not in print_ir(nests)
    assert print_ir(nests).count("func.call") == 4


def test_a_part_is_a_view_of_the_result():
    text = print_ir(lowered(kernel([spec((4, 6))], CASES["pad between"]))[0])
    assert "* 3 + " in text or "* 2 + " in text
    assert "arith.select" not in text and "bounds" not in text


def test_a_pad_of_zeros_is_read_in_place_by_what_folds_it():
    def body(ops, x):
        return ops.reduce_sum(ops.pad(x, pad=(2, 3)), dim=1)

    nests = check_kernel(
        kernel([spec((4, 6))], body, fused=True), [sample(spec((4, 6)))], tolerance=1e-6
    )
    assert "padded" in print_ir(nests)
    assert print_ir(nests).count("func.call") == 1


@pytest.mark.parametrize("value", [1, -2])
def test_a_pad_by_another_number_is_a_nest_of_its_own_before_a_fold(value):
    def body(ops, x):
        return ops.reduce_sum(ops.pad(x, pad=(2, 3), value=value), dim=1)

    check_kernel(kernel([spec((4, 6))], body, fused=True), [sample(spec((4, 6)))], tolerance=1e-6)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "u8", "i64", "f64", "bf16"])
def test_positions_in_every_dtype(dtype):
    def body(ops):
        return ops.iota(size=(300, 2), dim=0, dtype=dtype)

    check_kernel(kernel([], body), [])


def test_positions_enter_what_follows():
    def body(ops, x):
        rows = ops.iota(size=(17, 5), dim=0, dtype="f32")
        columns = ops.iota(size=(17, 5), dim=1, dtype="f32")
        return ops.reduce_sum(ops.mul(ops.add(x, rows), columns), dim=0)

    x = sample(spec((17, 5)))
    check_kernel(kernel([spec((17, 5))], body, fused=True), [x], tolerance=3e-6)


INDEX_DTYPES = ("i64", "i32", "i16", "i8", "u8")


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dim, dtype):
    index = np.array([2, 0, 2, 1, 0], DTYPES[dtype].numpy)

    def body(ops, x, i):
        return ops.index_select(x, i, dim=dim)

    module = kernel([spec((3, 4)), spec((5,), dtype)], body)
    check_kernel(module, [sample(spec((3, 4)), special=True), index])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1])
def test_gather(dim, layout):
    x = strided(sample(spec((6, 5))), layout)
    index = np.random.default_rng(0).integers(0, 5, (4, 5))

    def body(ops, x, i):
        return ops.gather(x, i, dim=dim)

    check_kernel(kernel([spec((6, 5)), spec((4, 5), "i64")], body), [x, index])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lookups_of_every_dtype(dtype):
    x = sample(spec((9, 3), dtype), special=True)
    index = np.array([8, 0, 3, 3])

    def body(ops, x, i):
        return ops.index_select(x, i, dim=0)

    check_kernel(kernel([spec((9, 3), dtype), spec((4,), "i64")], body), [x, index])


def test_a_lookup_is_folded_and_transposed_in_one_nest():
    def body(ops, x, i):
        rows = ops.index_select(x, ops.add(i, i), dim=0)
        return ops.reduce_sum(ops.permute(ops.mul(rows, rows), dims=(1, 0)), dim=1)

    specs = [spec((40, 7)), spec((19,), "i64")]
    index = np.random.default_rng(1).integers(0, 20, 19)
    nests = check_kernel(kernel(specs, body, fused=True), [sample(specs[0]), index], tolerance=3e-6)
    assert print_ir(nests).count("func.call") == 1


@pytest.mark.parametrize("run", [run_tile_module, on_cpu])
@pytest.mark.parametrize("bad", [3, -1, 1 << 40])
def test_an_index_out_of_range_is_an_error_that_names_it(run, bad):
    def body(ops, x, i):
        return ops.index_select(x, i, dim=0)

    nests, _ = lowered(kernel([spec((3, 2)), spec((4,), "i64")], body))
    arrays = [sample(spec((3, 2))), np.array([1, 0, bad, 2])]
    with pytest.raises(OutOfRangeError, match=str(bad)):
        run(nests, arrays, [np.zeros((4, 2), np.float32)])


def test_a_row_that_is_looked_up_is_checked_once():
    def body(ops, x, i):
        return ops.index_select(x, i, dim=0)

    nests, found = lowered(kernel([spec((50, 9)), spec((20,), "i64")], body))
    LowerPass().run(nests, found)
    text = print_ir(nests)
    assert text.index("scf.for %i0") < text.index("scf.if") < text.index("scf.for %j0")


def test_a_lookup_of_what_is_computed_on_the_way_is_a_nest_of_its_own():
    def body(ops, x, i):
        return ops.index_select(ops.exp(x), i, dim=0)

    specs = [spec((3, 2)), spec((4,), "i64")]
    module = kernel(specs, body, fused=True)
    nests = check_kernel(module, [sample(specs[0]), np.array([2, 0, 1, 1])], tolerance=1e-6)
    assert print_ir(nests).count("func.call") == 2


AFTER = {
    "pad": lambda ops, s, x, i: ops.pad(s, pad=(1, 2)),
    "concat": lambda ops, s, x, i: ops.concat(ops.reduce_max(x, dim=0), s, dim=0),
    "slice": lambda ops, s, x, i: ops.slice(s, starts=(1,)),
    "index_select": lambda ops, s, x, i: ops.index_select(s, i, dim=0),
    "index": lambda ops, s, x, i: ops.index_select(x, ops.argmax(x, dim=0), dim=0),
}


@pytest.mark.parametrize("case", AFTER)
def test_what_moves_the_result_of_a_fold_in_its_group_is_computed_after_it(case):
    def body(ops, x, i):
        return AFTER[case](ops, ops.reduce_sum(x, dim=1), x, i)

    specs = [spec((6, 4)), spec((3,), "i64")]
    index = np.array([5, 0, 2])
    check_kernel(kernel(specs, body, fused=True), [sample(specs[0]), index], tolerance=1e-6)
