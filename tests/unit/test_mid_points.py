"""Free-form nests: point code between loops and leaves, on the interpreter and on the CPU."""

import numpy as np
import pytest
import wia_compiler as wia
from building import context
from point_code import check_both, interpreted, nest
from wia_compiler.backends.cpu.lower import LowerPass, workspace_bytes
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.tile_leaf import TileError
from wia_compiler.runtime.targets import make_target
from xdsl.utils.exceptions import VerifyException

CONSTANTS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
"""
PREFIX_SUM = (
    CONSTANTS
    + """
  %n = arith.constant 17 : index
  %zero = arith.constant 0.0 : f32
  tile.for %i in 5 step 1 axis "i.0" @serial {
    %last = scf.for %j = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
      %x0 = memref.load %x[%i, %j] : memref<5x17xf32>
      %more = arith.addf %sum, %x0 : f32
      memref.store %more, %y[%i, %j] : memref<5x17xf32>
      scf.yield %more : f32
    } {wia.axis = "j"}
    memref.store %last, %z[%i] : memref<5xf32>
  }
"""
)


def test_a_loop_carries_what_its_iterations_pass_on():
    module = nest("%x: memref<5x17xf32>, %y: memref<5x17xf32>, %z: memref<5xf32>", PREFIX_SUM)
    x = np.random.default_rng(0).standard_normal((5, 17)).astype(np.float32)
    y, z = check_both(module, [x], [((5, 17), np.float32), (5, np.float32)])
    expected = np.add.accumulate(x, axis=1)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z, expected[:, -1])


BRANCHES = (
    CONSTANTS
    + """
  tile.for %i in 9 step 1 axis "i.0" @serial {
    %v = memref.load %x[%i] : memref<9xi64>
    %zero = arith.constant 0 : i64
    %positive = arith.cmpi sgt, %v, %zero : i64
    %r = scf.if %positive -> (i64) {
      %hundred = arith.constant 100 : i64
      %q = arith.divsi %hundred, %v : i64
      scf.yield %q : i64
    } else {
      scf.yield %zero : i64
    }
    scf.if %positive {
      %w = arith.index_cast %r : i64 to index
      %l = memref.alloca() : memref<2xi64, "register">
      memref.store %r, %l[%c1] : memref<2xi64, "register">
      %back = memref.load %l[%c1] : memref<2xi64, "register">
      memref.store %back, %y[%i] : memref<9xi64>
    } else {
      memref.store %v, %y[%i] : memref<9xi64>
    }
  }
"""
)


def test_branches_are_taken_by_the_iterations_of_their_condition():
    x = np.array([5, 0, -3, 100, 7, -1, 0, 1, 9])
    module = nest("%x: memref<9xi64>, %y: memref<9xi64>", BRANCHES)
    (y,) = check_both(module, [x], [(9, np.int64)])
    np.testing.assert_array_equal(y, [20, 0, -3, 1, 14, -1, 0, 100, 11])


COLLATZ = """
  tile.for %i in 20 step 1 axis "i.0" @serial {
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %none = arith.constant 0 : i64
    %start = memref.load %x[%i] : memref<20xi64>
    %end, %steps = scf.while (%n = %start, %count = %none) : (i64, i64) -> (i64, i64) {
      %go = arith.cmpi sgt, %n, %one : i64
      scf.condition(%go) %n, %count : i64, i64
    } do {
    ^bb0(%n: i64, %count: i64):
      %bit = arith.andi %n, %one : i64
      %odd = arith.cmpi eq, %bit, %one : i64
      %half = arith.divsi %n, %two : i64
      %triple = arith.muli %n, %three : i64
      %up = arith.addi %triple, %one : i64
      %next = arith.select %odd, %up, %half : i64
      %counted = arith.addi %count, %one : i64
      scf.yield %next, %counted : i64, i64
    }
    memref.store %steps, %y[%i] : memref<20xi64>
  }
"""


def test_a_while_goes_on_for_each_iteration_as_long_as_it_does():
    def steps(n):
        return 0 if n <= 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    module = nest("%x: memref<20xi64>, %y: memref<20xi64>", COLLATZ)
    x = np.arange(20)
    (y,) = check_both(module, [x], [(20, np.int64)])
    np.testing.assert_array_equal(y, [steps(n) for n in range(20)])


# Loops whose bounds depend on loops around them; a leaf inside a branch inside such a loop.
TRIANGLE = (
    CONSTANTS
    + """
  tile.for %i in 6 step 1 axis "i.0" @serial {
    tile.compute map @thread axes [i = 1, j = 6] at (%i) ins()
        outs(%y[%i + i, j] : memref<6x6xf32>) {
      %zero = arith.constant 0.0 : f32
      tile.yield %zero : f32
    }
    %end = arith.addi %i, %c1 : index
    scf.for %j = %c0 to %end step %c1 {
      %bit = arith.andi %j, %c1 : index
      %even = arith.cmpi eq, %bit, %c0 : index
      scf.if %even {
        tile.compute map @thread axes [i = 1, e = 1] at (%i, %j)
            ins(%x[%i + i, %j + e] : memref<6x6xf32>)
            outs(%y[%i + i, %j + e] : memref<6x6xf32>) {
        ^bb0(%a: f32):
          %b = arith.addf %a, %a : f32
          tile.yield %b : f32
        }
      }
    } {wia.axis = "j"}
  }
"""
)


def test_leaves_stand_in_loops_and_branches_of_point_code():
    module = nest("%x: memref<6x6xf32>, %y: memref<6x6xf32>", TRIANGLE)
    x = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
    (y,) = check_both(module, [x], [((6, 6), np.float32)])
    even = (np.arange(6) % 2 == 0)[None, :]
    np.testing.assert_array_equal(y, np.where(even, np.tril(2 * x), 0))


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("names its axis", PREFIX_SUM.replace('{wia.axis = "j"}', "")),
        (
            "stands in a scf.for",
            PREFIX_SUM.replace(
                "%x0 =",
                'tile.for %t in 2 step 1 axis "t.0" @thread { %u = arith.addi %t, %t : index }'
                "%x0 =",
            ),
        ),
        (
            "one of register",
            PREFIX_SUM.replace("%x0 =", "%b = memref.alloca() : memref<2xf32>\n%x0 ="),
        ),
    ],
)
def test_the_verifier_refuses(message, body):
    module = nest("%x: memref<5x17xf32>, %y: memref<5x17xf32>, %z: memref<5xf32>", body)
    with pytest.raises(VerifyException, match=message):
        verify_tile(module)


@pytest.mark.parametrize(
    ("message", "old", "new"),
    [
        ("at index 17 of an axis of size 17", "%n = arith.constant 17", "%n = arith.constant 18"),
        ("to the same element", "%z[%i]", "%z[%c0]"),
        ("before it is written", "memref.load %x[", "memref.load %y["),
        ("step above 0", "step %c1 iter_args", "step %c0 iter_args"),
    ],
)
def test_the_interpreter_refuses(message, old, new):
    body = PREFIX_SUM.replace(old, new)
    assert body != PREFIX_SUM
    module = nest("%x: memref<5x17xf32>, %y: memref<5x17xf32>, %z: memref<5xf32>", body)
    outputs = [np.zeros((5, 17), np.float32), np.zeros(5, np.float32)]
    with pytest.raises(TileError, match=message):
        interpreted(module, [np.ones((5, 17), np.float32)], outputs)


def test_a_large_local_buffer_lives_in_the_workspace_not_on_the_stack():
    body = (
        CONSTANTS
        + """
      %n = arith.constant 20000 : index
      %l = memref.alloca() : memref<20000xf32, "register">
      scf.for %j = %c0 to %n step %c1 {
        %v = memref.load %x[%j] : memref<20000xf32>
        memref.store %v, %l[%j] : memref<20000xf32, "register">
      } {wia.axis = "j"}
      %v = memref.load %l[%c1] : memref<20000xf32, "register">
      memref.store %v, %y[] : memref<f32>
    """
    )
    module = nest("%x: memref<20000xf32>, %y: memref<f32>", body)
    from building import context

    made = module.clone()
    LowerPass().run(made, context())
    made.verify()
    assert workspace_bytes(made) >= 80_000


def test_a_target_that_cannot_run_point_code_says_so():
    module = nest("%x: memref<9xi64>, %y: memref<9xi64>", BRANCHES)
    with pytest.raises(wia.TargetError, match="point by point"):
        for step in make_target("tpu:spec").passes():
            step.run(module, context())
