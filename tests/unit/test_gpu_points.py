"""Nests of point code on a GPU: which loops become threads, and the code of one thread."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from building import context
from point_code import nest
from unit.gpu_programs import run_module
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.lower import LowerPass
from wia_compiler.backends.gpu.schedule import SchedulePass
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.base.dtypes import from_numpy
from wia_compiler.base.errors import TargetError
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.target import ArraySpec
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.tile import run_tile_module
from xdsl.dialects.builtin import ModuleOp

Array = np.ndarray[Any, Any]
ARCHITECTURE = ARCHITECTURES["sm_90"]


def check(
    module: ModuleOp, inputs: Sequence[Array], shape: tuple[int, ...], *, max_blocks: int = 2**31
) -> tuple[Array, list[int], str]:
    """What a nest writes, before and after scheduling, and as threads that races are looked for in.

    The threads of a block of each launch, and the reason of the schedule, come with it.
    """
    wanted = np.full(shape, 7, inputs[0].dtype)
    run_tile_module(module, inputs, [wanted])
    asked = context()
    SchedulePass(ARCHITECTURE).run(module, asked)
    module.verify()
    verify_tile(module)
    made = np.full(shape, 7, inputs[0].dtype)
    run_tile_module(module, inputs, [made])
    np.testing.assert_array_equal(made, wanted)
    LowerPass(max_blocks=max_blocks, expands_math=False).run(module, asked)
    module.verify()
    made = np.full(shape, 7, inputs[0].dtype)
    run_module(module, inputs, [made])
    np.testing.assert_array_equal(made, wanted)
    sizes = [
        op.attributes["wia.block_size"].value.data
        for op in module.ops
        if "wia.nest" in op.attributes
    ]
    return wanted, sizes, asked.decisions[0].reason


def matmul(rows: int, columns: int, depth: int) -> ModuleOp:
    a, b, c = (
        f"memref<{x}x{y}xf32>" for x, y in ((rows, depth), (depth, columns), (rows, columns))
    )
    return nest(
        f"%a: {a}, %b: {b}, %c: {c}",
        f"""
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %depth = arith.constant {depth} : index
        %start = arith.constant 0.0 : f32
        tile.for %i in {rows} step 1 axis "i" @serial {{
          tile.for %j in {columns} step 1 axis "j" @serial {{
            %sum = scf.for %k = %zero to %depth step %one iter_args(%s = %start) -> (f32) {{
              %x = memref.load %a[%i, %k] : {a}
              %y = memref.load %b[%k, %j] : {b}
              %p = arith.mulf %x, %y : f32
              %r = arith.addf %s, %p : f32
              scf.yield %r : f32
            }} {{wia.axis = "k"}}
            memref.store %sum, %c[%i, %j] : {c}
          }}
        }}""",
    )


@pytest.mark.parametrize("rows,columns,depth", [(1, 1, 1), (3, 17, 5), (40, 33, 20), (16, 16, 4)])
def test_outer_loops_become_threads(rows, columns, depth):
    rng = np.random.default_rng(rows)
    a, b = rng.random((rows, depth), np.float32), rng.random((depth, columns), np.float32)
    module = matmul(rows, columns, depth)
    c, sizes, reason = check(module, [a, b], (rows, columns))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    points = rows * columns
    assert sizes == [256 if points > 224 else -(-points // 32) * 32]
    assert reason == "a thread for each point of i × j"


def test_more_blocks_than_a_grid_holds():
    a, b = np.ones((40, 2), np.float32), np.ones((2, 33), np.float32)
    c, _, _ = check(matmul(40, 33, 2), [a, b], (40, 33), max_blocks=2)
    assert (c == 2).all()


TWO_LOOPS = """
    %n = arith.constant {last} : index
    tile.for %i in {size} step 1 axis "i" @serial {{
      %x = memref.load %a[%i] : memref<{size}xf32>
      %y = arith.addf %x, %x : f32
      memref.store %y, %b[%i] : memref<{size}xf32>
    }}
    tile.for %i in {size} step 2 axis "i" @serial {{
      %m = arith.subi %n, %i : index
      %x = memref.load %a[%m] : memref<{size}xf32>
      memref.store %x, %b[%i] : memref<{size}xf32>
    }}"""


@pytest.mark.parametrize("size", [1, 2, 3, 127, 1000])
def test_loops_side_by_side_become_launches(size):
    body = TWO_LOOPS.format(size=size, last=size - 1)
    module = nest(f"%a: memref<{size}xf32>, %b: memref<{size}xf32>", body)
    a = np.arange(size, dtype=np.float32)
    b, sizes, _ = check(module, [a], (size,))
    assert len(sizes) == 2
    wanted = a * 2
    wanted[::2] = a[::-1][::2]
    np.testing.assert_array_equal(b, wanted)
    host = next(op for op in module.ops if "wia.host" in op.attributes)
    calls = [op.callee.string_value() for op in host.walk() if op.name == "func.call"]
    assert calls == ["n", "n_1"]


def test_what_carries_a_value_runs_in_one_thread():
    """A running sum: each element needs the one before it."""
    module = nest(
        "%a: memref<100xi32>, %b: memref<100xi32>",
        """
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %size = arith.constant 100 : index
        %start = arith.constant 0 : i32
        %sum = scf.for %k = %zero to %size step %one iter_args(%s = %start) -> (i32) {
          %x = memref.load %a[%k] : memref<100xi32>
          %r = arith.addi %s, %x : i32
          memref.store %r, %b[%k] : memref<100xi32>
          scf.yield %r : i32
        } {wia.axis = "k"}""",
    )
    a = np.arange(100, dtype=np.int32)
    b, sizes, reason = check(module, [a], (100,))
    np.testing.assert_array_equal(b, np.cumsum(a))
    assert sizes == [1] and "one thread" in reason


def test_loops_beside_a_store_are_not_dealt_out():
    """The store before the loop is seen by every iteration: threads would not wait for it."""
    module = nest(
        "%a: memref<50xi32>, %b: memref<50xi32>",
        """
        %last = arith.constant 49 : index
        %x = memref.load %a[%last] : memref<50xi32>
        memref.store %x, %b[%last] : memref<50xi32>
        tile.for %i in 49 step 1 axis "i" @serial {
          %y = memref.load %b[%last] : memref<50xi32>
          memref.store %y, %b[%i] : memref<50xi32>
        }""",
    )
    b, sizes, _ = check(module, [np.arange(50, dtype=np.int32)], (50,))
    assert (b == 49).all() and sizes == [1]


def test_while_loops_branches_and_local_arrays_of_a_thread():
    """Steps of Collatz's sequence, counted in a local array; threads leave at different turns."""
    module = nest(
        "%a: memref<60xi64>, %b: memref<60xi64>",
        """
        %zero = arith.constant 0 : index
        %n0 = arith.constant 0 : i64
        %n1 = arith.constant 1 : i64
        %n2 = arith.constant 2 : i64
        %n3 = arith.constant 3 : i64
        tile.for %i in 60 step 1 axis "i" @serial {
          %count = memref.alloca() : memref<1xi64, "register">
          memref.store %n0, %count[%zero] : memref<1xi64, "register">
          %x = memref.load %a[%i] : memref<60xi64>
          %end = scf.while (%v = %x) : (i64) -> i64 {
            %more = arith.cmpi sgt, %v, %n1 : i64
            scf.condition(%more) %v : i64
          } do {
          ^bb0(%v: i64):
            %c = memref.load %count[%zero] : memref<1xi64, "register">
            %d = arith.addi %c, %n1 : i64
            memref.store %d, %count[%zero] : memref<1xi64, "register">
            %odd = arith.remsi %v, %n2 : i64
            %is_odd = arith.cmpi eq, %odd, %n1 : i64
            %next = scf.if %is_odd -> (i64) {
              %t = arith.muli %v, %n3 : i64
              %u = arith.addi %t, %n1 : i64
              scf.yield %u : i64
            } else {
              %h = arith.divsi %v, %n2 : i64
              scf.yield %h : i64
            }
            scf.yield %next : i64
          }
          %steps = memref.load %count[%zero] : memref<1xi64, "register">
          memref.store %steps, %b[%i] : memref<60xi64>
        }""",
    )

    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        return count

    a = np.arange(60, dtype=np.int64)
    b, _, _ = check(module, [a], (60,))
    np.testing.assert_array_equal(b, [steps(int(value)) for value in a])


CHECKED = """
    tile.for %i in 40 step 1 axis "i" @serial {
      %n = arith.constant 10 : index
      %zero = arith.constant 0 : i32
      %fine = arith.cmpi ult, %i, %n : index
      tile.check %fine [%i] of "A" sizes [10 : i64] number 0
      %x = scf.if %fine -> (i32) {
        %y = memref.load %a[%i] : memref<10xi32>
        scf.yield %y : i32
      } else {
        scf.yield %zero : i32
      }
      memref.store %x, %b[%i] : memref<40xi32>
    }"""


def test_accesses_out_of_range_are_left_out():
    module = nest("%a: memref<10xi32>, %b: memref<40xi32>", CHECKED)
    asked = context()
    SchedulePass(ARCHITECTURE).run(module, asked)
    LowerPass(expands_math=False).run(module, asked)
    b = np.full(40, 7, np.int32)
    run_module(module, [np.arange(1, 11, dtype=np.int32)], [b])
    np.testing.assert_array_equal(b, [*range(1, 11), *[0] * 30])


def test_leaves_beside_point_code_are_refused():
    module = nest(
        "%a: memref<4xf32>, %b: memref<4xf32>",
        """
        %zero = arith.constant 0 : index
        %x = memref.load %a[%zero] : memref<4xf32>
        memref.store %x, %b[%zero] : memref<4xf32>
        tile.compute map @thread axes [i = 4] at () ins(%a[i] : memref<4xf32>)
          outs(%b[i] : memref<4xf32>) {
        ^bb0(%y: f32):
          tile.yield %y : f32
        }""",
    )
    with pytest.raises(TargetError, match="mixes leaves with loops"):
        SchedulePass(ARCHITECTURE).run(module, context())


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_the_assembler_takes_it_without_spills(architecture):
    target = GpuTarget(ARCHITECTURES[architecture])
    module, asked = matmul(40, 33, 20), context("k")
    for step in target.passes():
        step.run(module, asked)
    arrays = [np.ones((40, 20), "f4"), np.ones((20, 33), "f4"), np.ones((40, 33), "f4")]
    specs = [
        ArraySpec(name, TensorSpec(each.shape, from_numpy(each.dtype), name))
        for name, each in zip("abc", arrays, strict=True)
    ]
    artifact, _ = target.generate(module, asked, specs)
    assert artifact.resources["spill_store_bytes"] == 0
    assert "fma.rn.f32" not in artifact.assembly["ptx"], "each op of point code rounds once"
