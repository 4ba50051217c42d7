"""A fold that adds into main memory stays inside of it where its tiles are cut off."""

import numpy as np
import pytest
from building import context
from llvm_running import load_module
from point_code import nest
from wia_compiler.backends.cpu.lower import LowerPass

ROWS, COLUMNS, DEPTH = 6, 13, 5


@pytest.mark.parametrize(("height", "width"), [(4, 13), (6, 8), (4, 8), (1, 8)])
def test_rows_and_columns_past_the_end_are_left_alone(height: int, width: int) -> None:
    bounds = [f"%i0 + i < {ROWS}"] * bool(ROWS % height) + [f"%j0 + j < {COLUMNS}"] * (width == 8)
    module = nest(
        f"%a: memref<{ROWS}x{DEPTH}xf32>, %b: memref<{DEPTH}x{COLUMNS}xf32>,"
        f" %c: memref<{ROWS}x{COLUMNS}xf32>",
        f"""
        tile.for %i0 in {ROWS} step {height} axis "i" @serial {{
          tile.for %j0 in {COLUMNS} step {width} axis "j" @serial {{
            tile.compute contract @thread axes [i = {height}, j = {width}, k = {DEPTH} reduce]
                at (%i0, %j0) bounds ({", ".join(bounds)})
                ins(%a[%i0 + i, k] : memref<{ROWS}x{DEPTH}xf32>,
                    %b[k, %j0 + j] : memref<{DEPTH}x{COLUMNS}xf32>)
                outs(%c[%i0 + i, %j0 + j] : memref<{ROWS}x{COLUMNS}xf32>) {{
            ^bb0(%x: f32, %y: f32, %sum: f32):
              %product = arith.mulf %x, %y : f32
              %next = arith.addf %sum, %product : f32
              tile.yield %next : f32
            }}
          }}
        }}""",
    )
    random = np.random.default_rng(1)
    a = random.integers(-9, 9, (ROWS, DEPTH)).astype(np.float32)
    b = random.integers(-9, 9, (DEPTH, COLUMNS)).astype(np.float32)
    wide = np.full((ROWS + height, COLUMNS), 7, np.float32)
    LowerPass().run(module, context())
    load_module(module, "k", 3)([a, b], [wide[:ROWS]])
    np.testing.assert_array_equal(wide[:ROWS], 7 + a @ b)
    assert np.all(wide[ROWS:] == 7)
