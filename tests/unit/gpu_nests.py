"""Scheduled nests as text, for tests of the lowering alone."""

from collections.abc import Sequence

import numpy as np
from unit.gpu_interpreter import Buffer, run_kernel
from wia_compiler.backends.gpu.lower import lower_nest
from wia_compiler.dialects.text import parse_ir
from xdsl.dialects.func import FuncOp


def leaf(
    kind: str,
    level: str,
    axes: str,
    ivs: str,
    body: str,
    *,
    ins: Sequence[str] = (),
    outs: Sequence[str],
    bounds: str = "",
) -> str:
    """One ``tile.compute``; operands are ``%x[%i0 + i, j] : memref<…>``."""
    asked = f"bounds ({bounds})" if bounds else ""
    return (
        f"tile.compute {kind} @{level} axes [{axes}] at ({ivs}) {asked} "
        f"ins({', '.join(ins)}) outs({', '.join(outs)}) {{\n{body}\n}}\n"
    )


def nest(arguments: str, body: str, threads: int) -> FuncOp:
    """A nest function in a module of its own."""
    module = parse_ir(
        f"func.func @nest({arguments}) attributes {{wia.nest, wia.block_size = {threads}}} "
        f"{{\n{body}\nfunc.return\n}}"
    )
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def run_nest(
    function: FuncOp,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    max_blocks: int = 2**31 - 1,
) -> None:
    """Lower a nest and run it; every element of the outputs must be written."""
    lower_nest(function, max_blocks=max_blocks)
    function.verify()
    results = [Buffer(array, written=False) for array in outputs]
    run_kernel(function, [*(Buffer(array) for array in inputs), *results])
    assert all(result.valid.all() for result in results)


def matmul(rows: int, columns: int, depth: int) -> FuncOp:
    """C = A @ B in tiles of 64 × 64 × 16, 4 × 4 a thread, operands staged in shared memory."""
    a, b, c = f"{rows}x{depth}xf32", f"{depth}x{columns}xf32", f"{rows}x{columns}xf32"
    tile_a, tile_b = 'memref<64x16xf32, "shared">', 'memref<16x64xf32, "shared">'
    accumulator = '%acc[i, j] : memref<4x4xf32, "register">'
    copy = "^bb0(%x: f32): tile.yield %x : f32"
    fill = leaf(
        "map", "thread", "i = 4, j = 4", "", "%z = arith.constant 0.0 : f32\ntile.yield %z : f32",
        outs=[accumulator],
    )  # fmt: skip
    stage_a = leaf(
        "copy", "block", "i = 64, k = 16", "%i0, %k0", copy,
        ins=[f"padded %a[%i0 + i, %k0 + k] : memref<{a}>"], outs=[f"%as[i, k] : {tile_a}"],
    )  # fmt: skip
    stage_b = leaf(
        "copy", "block", "k = 16, j = 64", "%k0, %j0", copy,
        ins=[f"padded %b[%k0 + k, %j0 + j] : memref<{b}>"], outs=[f"%bs[k, j] : {tile_b}"],
    )  # fmt: skip
    contract = leaf(
        "contract", "thread", "i = 4, j = 4, k = 16 reduce", "%i1, %j1",
        "^bb0(%x: f32, %y: f32, %s: f32):\n%p = arith.mulf %x, %y : f32\n"
        "%r = arith.addf %s, %p : f32\ntile.yield %r : f32",
        ins=[f"%as[%i1 + i, k] : {tile_a}", f"%bs[k, %j1 + j] : {tile_b}"],
        outs=[accumulator],
    )  # fmt: skip
    epilogue = leaf(
        "map", "thread", "i = 4, j = 4", "%i0, %j0, %i1, %j1", copy,
        ins=[accumulator],
        outs=[f"%c[%i0 + %i1 + i, %j0 + %j1 + j] : memref<{c}>"],
        bounds=f"%i0 + %i1 + i < {rows}, %j0 + %j1 + j < {columns}",
    )  # fmt: skip
    body = f"""
    tile.for %i0 in {rows} step 64 axis "i.0" @grid {{
      tile.for %j0 in {columns} step 64 axis "j.0" @grid {{
        %as = memref.alloc() : memref<64x16xf32, "shared">
        %bs = memref.alloc() : memref<16x64xf32, "shared">
        tile.for %i1 in 64 step 4 axis "i.1" @thread {{
          tile.for %j1 in 64 step 4 axis "j.1" @thread {{
            %acc = memref.alloc() : memref<4x4xf32, "register">
            {fill}
            tile.for %k0 in {depth} step 16 axis "k.0" @serial {{ {stage_a} {stage_b} {contract} }}
            {epilogue}
          }}
        }}
      }}
    }}"""
    return nest(f"%a: memref<{a}>, %b: memref<{b}>, %c: memref<{c}>", body, 256)


def softmax(rows: int, length: int, level: str, threads: int) -> FuncOp:
    """Each row in registers of a warp or block: read once, max, exp and sum, divide."""
    x, row = f"memref<{rows}x{length}xf32>", f'memref<{length}xf32, "register">'
    scalar = 'memref<f32, "register">'
    warps = threads // 32
    at, place = ("%i0, %i1", "%i0 + %i1") if level == "warp" else ("%i0", "%i0")
    bounds = f"{place} < {rows}" if level == "warp" else ""

    def constant(number: str, name: str) -> str:
        return leaf(
            "map", level, "", at, f"%z = arith.constant {number} : f32\ntile.yield %z : f32",
            outs=[f"%{name}[] : {scalar}"],
        )  # fmt: skip

    def each(body: str, ins: Sequence[str], outs: Sequence[str], kind: str = "map") -> str:
        axes = f"j = {length}{' reduce' if kind == 'reduce' else ''}"
        return leaf(kind, level, axes, at, body, ins=ins, outs=outs, bounds=bounds)

    steps = [
        each("^bb0(%v: f32): tile.yield %v : f32", [f"%x[{place}, j] : {x}"],
             [f"%r[j] : {row}"], "copy"),
        constant("0xff800000", "m"),
        each("^bb0(%v: f32, %h: f32):\n%w = arith.maximumf %h, %v : f32\ntile.yield %w : f32",
             [f"%r[j] : {row}"], [f"%m[] : {scalar}"], "reduce"),
        each("^bb0(%v: f32, %h: f32):\n%d = arith.subf %v, %h : f32\n%q = math.exp %d : f32\n"
             "tile.yield %q : f32",
             [f"%r[j] : {row}", f"%m[] : {scalar}"], [f"%e[j] : {row}"]),
        constant("0.0", "s"),
        each("^bb0(%v: f32, %h: f32):\n%w = arith.addf %h, %v : f32\ntile.yield %w : f32",
             [f"%e[j] : {row}"], [f"%s[] : {scalar}"], "reduce"),
        each("^bb0(%v: f32, %h: f32):\n%w = arith.divf %v, %h : f32\ntile.yield %w : f32",
             [f"%e[j] : {row}", f"%s[] : {scalar}"], [f"%y[{place}, j] : {x}"]),
    ]  # fmt: skip
    inside = "\n".join(
        [*(f"%{name} = memref.alloc() : {row}" for name in "re"),
         *(f"%{name} = memref.alloc() : {scalar}" for name in "ms"), *steps]
    )  # fmt: skip
    if level == "warp":
        inside = f'tile.for %i1 in {warps} step 1 axis "i.1" @warp {{ {inside} }}'
    step = warps if level == "warp" else 1
    body = f'tile.for %i0 in {rows} step {step} axis "i.0" @grid {{ {inside} }}'
    return nest(f"%x: {x}, %y: {x}", body, threads)
