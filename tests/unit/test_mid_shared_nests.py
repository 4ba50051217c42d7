"""Nests that are equal are one function, called several times; any difference keeps them apart."""

import re

import numpy as np
import pytest
from building import context
from building import kernel as free_kernel
from building import specs as arguments
from mid_building import check, kernel, lowered, run, sample, spec
from wia_compiler.base.record import Stage
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.nests.share import structure_of
from wia_compiler.passes.pipeline import high_passes
from wia_compiler.passes.recorder import Recorder
from wia_compiler.passes.verify_tile import verify_tile
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

NEST = """
func.func @f(%x: memref<4x6xf32>, %y: memref<4x6xf32>, %s: memref<4xf32>) attributes {wia.nest} {
  tile.for %i0 in 4 step 1 axis "i.0" @serial {
    %acc = memref.alloc() : memref<1xf32, "register">
    tile.compute map @thread axes [i = 1] at (%i0) ins() outs(%acc[i] : memref<1xf32, "register">) {
      %0 = arith.constant 0.000000e+00 : f32
      tile.yield %0 : f32
    }
    tile.compute reduce @thread axes [i = 1, j = 6 reduce] at (%i0) ins(%x[%i0 + i, j]
        : memref<4x6xf32>, %y[%i0 + i, j] : memref<4x6xf32>)
        outs(%acc[i] : memref<1xf32, "register">) {
    ^bb0(%a: f32, %b: f32, %held: f32):
      %1 = arith.subf %a, %b : f32
      %2 = arith.addf %held, %1 : f32
      tile.yield %2 : f32
    }
    tile.compute map @thread axes [i = 1] at (%i0) ins(%acc[i] : memref<1xf32, "register">)
        outs(%s[%i0 + i] : memref<4xf32>) {
    ^bb0(%sum: f32):
      tile.yield %sum : f32
    }
  }
  func.return
}
"""


def structure(text: str):
    (nest,) = parse_ir(text).ops
    assert isinstance(nest, FuncOp)
    return structure_of(nest)


def test_names_and_places_make_no_difference():
    renamed = re.sub(r"%([a-z]+)", r"%other_\1", NEST).replace("@f(", "@g(")
    placed = renamed.replace("func.return", 'func.return loc("7|3:5-3:17")')
    assert structure(renamed) == structure(placed) == structure(NEST)
    assert hash(structure(placed)) == hash(structure(NEST))


@pytest.mark.parametrize(
    "old,new",
    [
        ("0.000000e+00", "1.000000e+00"),
        ("0.000000e+00", "-0.000000e+00"),
        ("4x6xf32", "4x6xf32, strided<[1, 4]>"),
        ("4x6xf32", "5x6xf32"),
        ("%x: memref<4x6xf32>", "%x: memref<4x6xf32>, %z: memref<4x6xf32>"),
        ("ins(%x[%i0 + i, j]", "ins(padded %x[%i0 + i, j]"),
        ("%x[%i0 + i, j]", "%x[%i0 + i, j - 1]"),
        ("[i = 1, j = 6 reduce]", "[i = 1, j = 6]"),
        ("[i = 1, j = 6 reduce]", "[i = 1 reduce, j = 6]"),
        ("j = 6", "j = 5"),
        ("at (%i0) ins(%x[", "at (%i0) bounds (%i0 + i < 3) ins(%x["),
        ("in 4 step 1", "in 3 step 1"),
        ("in 4 step 1", "in 4 step 2"),
        ("@serial", "@grid"),
        ("arith.subf", "arith.mulf"),
        ("arith.subf %a, %b", "arith.subf %b, %a"),
        ("arith.subf %a, %b", "arith.subf %a, %a"),
        ("tile.yield %sum", "%3 = arith.negf %sum : f32\n tile.yield %3"),
        ("reduce @thread", "reduce @block"),
        ("compute reduce", "compute contract"),
    ],
)
def test_every_other_difference_does(old: str, new: str):
    assert old in NEST
    assert structure(NEST.replace(old, new)) != structure(NEST)


def functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


def calls(module: ModuleOp) -> list[str]:
    return [
        op.callee.string_value() for op in functions(module)[0].walk() if isinstance(op, CallOp)
    ]


def chain(ops, x, w):
    for _ in range(5):
        x = ops.abs(ops.matmul(x, w))
    return x


@pytest.mark.parametrize("size", [1, 3, 17])
def test_equal_nests_are_one_function(size: int):
    specs = [spec((size, size)), spec((size, size))]
    arrays = [sample(each, seed) for seed, each in enumerate(specs)]
    nests = check(kernel(specs, chain), arrays, tolerance=3e-6)
    verify_tile(nests)
    assert len(functions(nests)) == 3
    assert len(calls(nests)) == 10 and len(set(calls(nests))) == 2


def test_a_call_passes_its_own_arrays():
    def body(ops, a, b):
        return [ops.sub(a, b), ops.sub(b, a)]

    specs = [spec((4, 3)), spec((4, 3))]
    arrays = [sample(each, seed) for seed, each in enumerate(specs)]
    nests, _ = lowered(kernel(specs, body))
    assert len(functions(nests)) == 2
    left, right = run(nests, arrays, specs)
    np.testing.assert_array_equal(left, arrays[0] - arrays[1])
    np.testing.assert_array_equal(right, arrays[1] - arrays[0])


def constants(ops, a):
    return [ops.add(a, ops.constant(value, "f32")) for value in (0.0, -0.0, 1.0)]


def folds(ops, a):
    return [ops.reduce_sum(a, dim=0), ops.reduce_sum(a, dim=1)]


def one_array_twice(ops, a):
    return [ops.mul(a, a), ops.mul(a, ops.neg(a)), ops.neg(a)]


def transposed(ops, a):
    return [ops.matmul(a, a), ops.matmul(a, ops.permute(a, dims=(1, 0)))]


@pytest.mark.parametrize(
    "body,count", [(constants, 3), (folds, 2), (one_array_twice, 3), (transposed, 2)]
)
def test_kernels_whose_nests_differ_keep_them(body, count: int):
    nests = check(kernel([spec((6, 6))], body), [sample(spec((6, 6)))], tolerance=3e-6)
    assert len(functions(nests)) == 1 + count


def test_strides_and_signs_keep_nests_apart():
    def shifted(ops, a, b):
        return [ops.add(a, ops.constant(1, "i32")), ops.add(b, ops.constant(1, "i32"))]

    arrays = [sample(spec((4, 6), "i32")), sample(spec((6, 4), "i32")).T]
    same = [spec((4, 6), "i32")] * 2
    assert len(functions(check(kernel(same, shifted), arrays))) == 3
    assert len(functions(check(kernel(same, shifted), [arrays[0], arrays[0]]))) == 2

    def halved(ops, a, b):
        return [ops.reduce_max(a, dim=0), ops.reduce_max(b, dim=0)]

    bytes_ = [spec((4, 6), "i8"), spec((4, 6), "u8")]
    arrays = [sample(each, special=True) for each in bytes_]
    assert len(functions(check(kernel(bytes_, halved), arrays))) == 3


def test_every_caller_is_found_from_the_shared_nest():
    module = kernel([spec((4, 4)), spec((4, 4))], chain)
    nests, lowering = lowered(module)
    host, matmul, absolute = functions(nests)
    lines = [Span(line, 1, line, 9) for line in range(1, 11)]
    for nest, wanted in ((matmul, lines[0::2]), (absolute, lines[1::2])):
        assert spans_of(nest) == tuple(wanted)
        for op in nest.body.walk():
            assert spans_of(op) == tuple(wanted), op.name
    found = [spans_of(op) for op in host.walk() if isinstance(op, CallOp)]
    assert found == [(line,) for line in lines]
    shared = [each for each in lowering.decisions if each.kind == "share"]
    assert [(each.candidate, each.taken, each.numbers) for each in shared] == [
        ("k_matmul", True, {"calls": 5}),
        ("k_abs", True, {"calls": 5}),
    ]


def test_a_lone_call_is_no_decision():
    nests, lowering = lowered(kernel([spec((4, 4))], lambda ops, a: ops.abs(a)))
    assert len(functions(nests)) == 2
    assert not lowering.decisions


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    """Two equal fused groups and one product of another shape."""

    def body(b, x, w, v):
        for _ in range(2):
            x = b.op("relu", b.op("matmul", x, w))
        return b.op("matmul", x, v)

    recorder = Recorder(free_kernel(["x", "w", "v"], body), context(), True)
    recorder.note("import", "high")
    inputs = arguments(x="8x8xf32", w="8x8xf32", v="8x3xf32")
    for step in (*high_passes(inputs), LowerToNestsPass()):
        recorder.run(step)
    return {stage.name: stage for stage in recorder.stages}


def test_rows_of_calls_and_of_the_shared_nest_come_from_what_they_do(stages: dict[str, Stage]):
    before, loops = stages["decompose"], stages["loops"]
    groups = [row.id for row in before.ops if row.name == "wia.fused"]
    product = [row.id for row in before.ops if row.label == "matmul" and row.parent is None]
    first, second, last = [row for row in loops.ops if row.name == "func.call"]
    assert [row.origins for row in (first, second, last)] == [(each,) for each in groups + product]
    shared = next(row for row in loops.ops if row.name == "func.func" and row.label == first.label)
    assert second.label == first.label != last.label
    assert shared.origins == tuple(groups)
    contract = next(row for row in loops.ops if row.label == "contract")
    assert {before.op(id).label for id in contract.origins} == {"matmul"}
    assert len(contract.origins) == 2


def test_a_shared_nest_reads_what_each_call_passes(stages: dict[str, Stage]):
    loops = stages["loops"]
    arrays = [row.id for row in loops.ops if row.name == "memref.alloc" and row.parent == "0"]
    contract = next(row for row in loops.ops if row.label == "contract")
    assert contract.operands[:3] == ("arg:x", arrays[0], "arg:w")


def test_operations_are_counted_once(stages: dict[str, Stage]):
    wanted = 2 * (2 * 8 * 8 * 8 + 8 * 8) + 2 * 8 * 8 * 3
    rows = stages["dce"].ops
    assert sum(row.flops for row in rows) == wanted
    assert sum(row.flops for row in stages["loops"].ops) == 0


def test_the_decision_names_the_groups(stages: dict[str, Stage]):
    (shared,) = [each for each in stages["loops"].decisions if each.kind == "share"]
    groups = [row.id for row in stages["decompose"].ops if row.name == "wia.fused"]
    assert shared.subjects == tuple(groups)
    assert shared.numbers == {"calls": 2}
