"""The verifier table of the mid level: what it refuses, and that the interpreter refuses it too."""

import numpy as np
import pytest
from mid_building import kernel, lowered, sample, spec
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.verify_tile import SCOPES, verify_tile
from wia_compiler.reference.tile import run_tile_module
from wia_compiler.reference.tile_leaf import TileError
from xdsl.utils.exceptions import VerifyException

ROWS = kernel([spec((4, 6))], lambda ops, a: ops.exp(ops.reduce_sum(a, dim=1)), fused=True)


def text():
    return print_ir(lowered(ROWS)[0])


def test_a_nest_is_accepted_and_its_text_reads_back():
    module = parse_ir(text())
    verify_tile(module)
    assert print_ir(module) == text()


# Each row: what the message says, what is replaced, by what, how often.
FAULTS = [
    ("one host function", "attributes {wia.host}", "attributes {wia.nest}", 1),
    ("every function but the host", "attributes {wia.nest}", "", 1),
    ("calls @other", "func.call @group", "func.call @other", 1),
    ("one of register", '"register"', '"stack"', -1),
    ("a later level", "@serial {", '@serial { tile.for %n0 in 2 step 1 axis "n.0" @grid { }', 1),
    ("walks an axis that a leaf folds", 'axis "i.0" @serial', 'axis "j.0" @grid', 1),
    ("names an axis twice", "axes [i = 1] at", "axes [i = 1, i = 1] at", 1),
    ("does not hold func.call", "%3 = math.exp %sum_2 : f32", "func.call @k() : () -> ()", 1),
    ("not what it held combined", "arith.addf", "arith.subf", 1),
    ("holds no element type", "xf32", "xf80", -1),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault[0] for fault in FAULTS])
def test_faults(fault):
    message, old, new, count = fault
    broken = text().replace(old, new, count)
    if "func.call @k()" in new:
        broken = broken.replace("tile.yield %3", "tile.yield %sum_2")
    if "xf80" in new:
        broken = broken.replace("f32", "f80")
    assert broken != text()
    with pytest.raises(VerifyException, match=message):
        verify_tile(parse_ir(broken))


def nest(body, memory="%x: memref<4xf32>, %y: memref<4xf32>"):
    host = memory.replace("%x", "%a").replace("%y", "%b")
    types = ", ".join(part.split(": ")[1] for part in memory.split(", %"))
    return parse_ir(f"""
      func.func @k({host}) attributes {{wia.host}} {{
        func.call @n(%a, %b) : ({types}) -> ()
        func.return
      }}
      func.func @n({memory}) attributes {{wia.nest}} {{ {body} func.return }}
    """)


def copy(axes, source, target, *, bounds="", kind="map", level="thread"):
    return f"""
      tile.compute {kind} @{level} axes [{axes}] at () {bounds}
        ins({source} : memref<4xf32>) outs({target} : memref<4xf32>) {{
        ^bb0(%e: f32): tile.yield %e : f32 }}
    """


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("outside its memref", copy("i = 5", "%x[i]", "%y[i mod 4]")),
        ("written outside", copy("i = 4", "%x[i]", "%y[i + 1]")),
        ("written twice", copy("i = 4", "%x[i]", "%y[i floordiv 2]")),
        ("not written everywhere", copy("i = 3", "%x[i]", "%y[i]")),
        ("before it is written", copy("i = 4", "%y[i]", "%y[3 - i]")),
    ],
)
def test_the_interpreter_refuses(message, body):
    module = nest(body.replace("3 - i", "i"))
    array = sample(spec((4,)))
    with pytest.raises(TileError, match=message):
        run_tile_module(module, [array], [np.zeros(4, np.float32)])


def test_the_interpreter_checks_layouts():
    nests, _ = lowered(kernel([spec((4, 6))], lambda ops, a: ops.neg(a)))
    with pytest.raises(TileError, match="is not memref"):
        run_tile_module(nests, [sample(spec((6, 4))).T], [np.zeros((4, 6), np.float32)])


def test_bounds_keep_points_out():
    body = copy("i = 7", "%x[i]", "%y[i]", bounds="bounds (i < 4)")
    array, result = sample(spec((4,))), np.zeros(4, np.float32)
    run_tile_module(nest(body), [array], [result])
    np.testing.assert_array_equal(result, array)


def test_scopes_are_those_that_the_dialect_names():
    from wia_compiler.dialects import tile

    assert tile.__doc__ is not None and all(f'"{scope}"' in tile.__doc__ for scope in SCOPES)


def test_loops_one_by_one_are_loops_all_at_once(monkeypatch):
    nests, _ = lowered(ROWS)
    array = sample(spec((4, 6)))
    results = [np.zeros(4, np.float32) for _ in range(2)]
    run_tile_module(nests, [array], results[:1])
    monkeypatch.setitem(run_tile_module.__globals__, "_LARGEST_BATCH", 1)
    run_tile_module(nests, [array], results[1:])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("fptosi", np.nan, OverflowError),
        ("fptosi", 300.0, OverflowError),
        ("fptosi", -129.0, OverflowError),
        ("fptoui", 256.0, OverflowError),
        ("fptoui", -1.0, OverflowError),
    ],
)
def test_undefined_conversions_are_refused(name, value, error):
    body = f"""
      tile.compute map @thread axes [i = 4] at ()
        ins(%x[i] : memref<4xf32>) outs(%y[i] : memref<4xi8>) {{
        ^bb0(%e: f32):
          %r = arith.{name} %e : f32 to i8
          tile.yield %r : i8 }}
    """
    module = nest(body, "%x: memref<4xf32>, %y: memref<4xi8>")
    run_tile_module(module, [np.full(4, 100.5, np.float32)], [np.zeros(4, np.int8)])
    with pytest.raises(error):
        run_tile_module(module, [np.full(4, value, np.float32)], [np.zeros(4, np.int8)])


@pytest.mark.parametrize(("a", "b"), [(1, 0), (-128, -1)])
def test_undefined_divisions_are_refused(a, b):
    body = """
      tile.compute map @thread axes [i = 4] at ()
        ins(%x[i] : memref<4xi8>) outs(%y[i] : memref<4xi8>) {
        ^bb0(%e: i8):
          %d = arith.constant DIVISOR : i8
          %r = arith.divsi %e, %d : i8
          tile.yield %r : i8 }
    """.replace("DIVISOR", str(b))
    module = nest(body, "%x: memref<4xi8>, %y: memref<4xi8>")
    with pytest.raises(ZeroDivisionError):
        run_tile_module(module, [np.full(4, a, np.int8)], [np.zeros(4, np.int8)])
