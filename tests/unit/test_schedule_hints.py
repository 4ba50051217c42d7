"""Where unroll, jam, accumulators, pipeline and prefetch go in a nest, and what becomes of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.loop_hints import (
    WHOLE,
    LoopHints,
    Prefetch,
    axis_hints,
    hints_of,
    lost_hints,
    note_axis_hints,
    note_hints,
)
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.scf_rewrites.loops import trip_count
from xdsl.dialects import scf

MATMUL = """
kernel mm(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N, f32>) {
    for i in 0..M { for j in 0..N {
        let sum = 0.0;
        for k in 0..K { sum += A[i, k] * B[k, j]; }
        C[i, j] = sum;
    } }
}"""
ADD = """
kernel add(input a: tensor<N, f32>, input b: tensor<N, f32>, output c: tensor<N, f32>) {
    for i in 0..N { c[i] = a[i] + b[i]; }
}"""
TOTAL = """
kernel total(input a: tensor<N, f32>, output s: f32) {
    let sum = 0.0;
    for i in 0..N { sum += a[i]; }
    s = sum;
}"""
COUNTED = """
kernel counted(input a: tensor<N, f32>, input n: tensor<1, i64>, output c: tensor<N, f32>) {
    for i in 0..min(n[0], N) { c[i] = a[i] * 2.0; }
}"""


def build_of(text: str, schedule: str, *arrays: Any, **options: Any) -> wia.Build:
    program = wia.compile(text)
    return program[list(program)[-1]].build(*arrays, schedule=schedule, **options)


def matrices(rows: int = 40, depth: int = 50, columns: int = 60) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    shapes = ((rows, depth), (depth, columns))
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in shapes)  # pyright: ignore[reportReturnType]


def noted(build: wia.Build) -> dict[str, LoopHints]:
    """The hints of a nest as scheduled, by the names of loops and axes."""
    found: dict[str, LoopHints] = {}
    for op in parse_ir(build.stage("schedule").text).walk():
        if isinstance(op, ForOp) and hints_of(op):
            found[op.axis.data] = hints_of(op)
        if isinstance(op, ComputeOp):
            found |= {axis: axis_hints(op, axis) for axis in op.axis_names if axis_hints(op, axis)}
    return found


def test_hints_are_attributes_that_read_back() -> None:
    module = parse_ir("""
      func.func @f(%a: memref<8xf32>) {
        tile.for %i0 in 8 step 1 axis "i.0" @serial {
          tile.compute map @thread axes [i = 1] at (%i0) ins() outs(%a[%i0 + i] : memref<8xf32>) {
            %0 = arith.constant 0.0 : f32
            tile.yield %0 : f32
          }
        }
        func.return
      }""")
    hints = LoopHints(WHOLE, 2, 3, 4, (Prefetch("a", 0, 32, 2),), independent=True)
    (loop,) = (op for op in module.walk() if isinstance(op, ForOp))
    (leaf,) = (op for op in module.walk() if isinstance(op, ComputeOp))
    note_hints(loop, hints)
    note_axis_hints(leaf, "i", hints)
    again = parse_ir(print_ir(module))
    assert print_ir(again) == print_ir(module)
    (loop,) = (op for op in again.walk() if isinstance(op, ForOp))
    (leaf,) = (op for op in again.walk() if isinstance(op, ComputeOp))
    assert hints_of(loop) == axis_hints(leaf, "i") == hints
    assert lost_hints(leaf) == ["i"]
    note_hints(loop, LoopHints())
    note_axis_hints(leaf, "i", LoopHints())
    assert not loop.attributes and not leaf.attributes


@pytest.mark.parametrize(
    ("schedule", "where"),
    [
        ("unroll k 4", ["k"]),
        ("unroll j 4", ["j.0"]),
        ("tile k 32; unroll k 4", ["k"]),
        ("tile k 32; unroll k.0 4", ["k.0"]),
        ("tile k 32; unroll k.1 4", ["k"]),
        ("thread_tile k 4; unroll k 4", ["k.0"]),
        ("thread_tile i 4, j 16; unroll j 2", ["j.0"]),
        ("tile i 8; unroll_and_jam i 2", ["i.1"]),
        ("prefetch B 8", ["k"]),
        ("prefetch A 1 at i.0", ["i.0"]),
        ("prefetch C 4", ["j.0"]),
        ("tile i 16, j 16, k 16; cache A at k.0; pipeline k.0 2", ["k.0"]),
    ],
)
def test_a_name_means_the_innermost_loop_that_there_will_be(
    schedule: str, where: list[str]
) -> None:
    A, B = matrices()
    build = build_of(MATMUL, schedule, A, B)
    assert list(noted(build)) == where
    told = [each for each in build.trace.decisions if each.kind == "expand"]
    assert told and all(each.taken for each in told)
    np.testing.assert_array_equal(build(A, B), build_of(MATMUL, "", A, B)(A, B))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 17, 3), (3, 1, 1), (0, 4, 5), (5, 0, 3)])
def test_one_schedule_serves_every_size(sizes: tuple[int, int, int]) -> None:
    """Axes of one point have no loop, and a nest of nothing has none at all."""
    A, B = matrices(*sizes)
    lines = (
        "tile k 8; unroll_and_jam i 2; unroll k 4; accumulators k 2; pipeline k 2; prefetch B 4;"
        "accumulators 2; prefetch A 2, L2"
    )
    build = build_of(MATMUL, lines, A, B)
    np.testing.assert_allclose(build(A, B), A @ B, rtol=1e-5, atol=1e-5)


def test_an_iteration_of_vectors_is_a_vector() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    build = build_of(ADD, "vectorize i 16; unroll i 4", a, b)
    turns = [op for op in parse_ir(build.stage("lower").text).walk() if isinstance(op, scf.ForOp)]
    assert trip_count(turns[0]) == 1000 // 16 // 4
    assert print_ir(turns[0]).count("vector.store") == 4
    np.testing.assert_array_equal(build(a, b), a + b)


def test_points_that_are_written_out_have_no_loop_to_unroll() -> None:
    A = np.ones((5, 7), np.float32)
    text = "kernel k(input A: tensor, output C: tensor) { C = reduce_sum(A, axis=1); }"
    build = build_of(text, "pipeline j 2", A)
    (told,) = [each for each in build.trace.decisions if each.kind == "expand"]
    assert not told.taken and "its points are written out" in told.reason


def test_accumulators_announce_another_order() -> None:
    """Without them a sum of the text is its own; with them it is the one that they define."""
    a = np.random.default_rng(1).standard_normal(103).astype(np.float32)
    assert build_of(TOTAL, "unroll i 4; prefetch a 32", a)(a) == np.add.accumulate(a)[-1]
    parts = a[:102].reshape(-1, 3).astype(np.float32)
    sums = np.add.accumulate(parts, axis=0)[-1]
    assert build_of(TOTAL, "accumulators 3", a)(a) == ((sums[0] + sums[1]) + sums[2]) + a[102]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_accumulators_round_as_the_text_does(dtype: str) -> None:
    """A sum in a narrow variable is rounded at every step, and so is each of its parts."""
    number = DTYPES[dtype].numpy.type
    text = (
        f"kernel t(input a: tensor<N, {dtype}>, output s: {dtype}) "
        f"{{ let sum: {dtype} = 0; for i in 0..N {{ sum += a[i]; }} s = sum; }}"
    )
    a = (np.random.default_rng(3).standard_normal(37) * 9).astype(number)
    parts = [number(0), *(number(-0.0) for _ in range(3))]
    for place, value in enumerate(a[:36]):
        parts[place % 4] = number(parts[place % 4] + value)
    total = parts[0]
    for value in (*parts[1:], a[36]):
        total = number(total + value)
    assert build_of(text, "accumulators 4", a)(a) == total


def test_a_checked_build_allows_for_the_new_order() -> None:
    a = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    build = build_of(TOTAL, "accumulators 8; unroll i 16; pipeline i 2", a, verify=True)
    assert [each for each in build.trace.decisions if each.kind == "verify"]


@pytest.mark.parametrize("count", [0, 1, 3, 17, 40])
def test_loops_whose_length_comes_with_the_data(count: int) -> None:
    a, n = np.arange(40, dtype=np.float32), np.array([count])
    build = build_of(COUNTED, "unroll i 4; pipeline i 2", a, n)
    wanted = np.where(np.arange(40) < count, 2 * a, 0)
    np.testing.assert_array_equal(build(a, n), wanted)


def test_all_of_an_unknown_length_cannot_be_written_out() -> None:
    specs = (wia.spec((40,), "f32"), wia.spec((1,), "i64"))
    with pytest.raises(wia.CompileError, match="as many iterations as the data says"):
        build_of(COUNTED, "unroll i", *specs)


def test_the_empty_schedule_is_for_every_nest() -> None:
    body = "C = reduce_sum(A @ B, dim=1);"
    text = f"kernel two(input A: tensor, input B: tensor, output C: tensor) {{ {body} }}"
    A, B = matrices(5, 7, 7)
    build = build_of(text, "", A, B)
    told = [each for each in build.trace.decisions if each.kind == "schedule"]
    assert len(told) == 2 and not any(each.taken for each in told)
    np.testing.assert_allclose(build(A, B), (A @ B).sum(1), rtol=1e-4, atol=1e-4)


def test_prefetches_reach_the_machine_code() -> None:
    specs = (wia.spec((1000,), "f32"),) * 2
    for level, instruction in (("", "prefetcht0"), (", L2", "prefetcht1"), (", L3", "prefetcht2")):
        build = build_of(ADD, f"prefetch a 64{level}", *specs)
        assert instruction in build.assembly("x86")


def test_unrolled_rows_share_what_they_load() -> None:
    """Four rows of a product read each number of B once."""
    A, B = matrices()
    lower = build_of(MATMUL, "unroll_and_jam i 4", A, B).stage("lower").text
    turn = lower[lower.index("scf.for") :].split("{wia.unroll", 1)[0]
    assert len(re.findall(r"memref.load %A\[", turn)) == 4
    assert len(re.findall(r"memref.load %B\[", turn)) == 1
