"""Triton's PTX for the workloads of ``bench_gpu.py``: runs in Triton's environment, needs no GPU.

``python gpu_triton.py CAPABILITY`` prints one JSON object: for each family a list of variants, each
with its PTX, entry, threads of a block, bytes of dynamic shared memory and meta-parameters. The
kernels are what Triton's users write for these formulas; which variant is best the reader says, as
Triton's autotuner would.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

REQUIRES = ("triton", "numpy")


@triton.jit
def add(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < count
    total = tl.load(x + at, mask=there) + tl.load(y + at, mask=there)
    tl.store(out + at, total, mask=there)


@triton.jit
def softmax(x, out, columns, block: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, block)
    values = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, block: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, block)
    there = at < columns
    values = tl.load(x + row + at, mask=there, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(there, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    result = centred * scale * tl.load(weight + at, mask=there) + tl.load(bias + at, mask=there)
    tl.store(out + row + at, result, mask=there)


@triton.jit
def transpose(x, out, rows, columns, high: tl.constexpr, wide: tl.constexpr):
    i = tl.program_id(0) * high + tl.arange(0, high)
    j = tl.program_id(1) * wide + tl.arange(0, wide)
    there = (i[:, None] < rows) & (j[None, :] < columns)
    tile = tl.load(x + i[:, None] * columns + j[None, :], mask=there)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile), mask=tl.trans(there))


@triton.jit
def matmul(
    a, b, bias, out, rows, columns, inner,
    high: tl.constexpr, wide: tl.constexpr, deep: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    tiles_down, tiles_across = tl.cdiv(rows, high), tl.cdiv(columns, wide)
    number = tl.program_id(0)
    first = number // (group * tiles_across) * group
    in_group = min(tiles_down - first, group)
    place = number % (group * tiles_across)
    i = (first + place % in_group) * high + tl.arange(0, high)
    j = place // in_group * wide + tl.arange(0, wide)
    k = tl.arange(0, deep)
    left = a + (i % rows)[:, None] * inner + k[None, :]
    right = b + k[:, None] * columns + (j % columns)[None, :]
    sums = tl.zeros((high, wide), dtype=tl.float32)
    for start in range(0, inner, deep):
        rest = inner - start
        left_tile = tl.load(left, mask=k[None, :] < rest, other=0.0)
        right_tile = tl.load(right, mask=k[:, None] < rest, other=0.0)
        sums = tl.dot(left_tile, right_tile, sums, input_precision="ieee")
        left += deep
        right += deep * columns
    sums = tl.maximum(sums + tl.load(bias + j % columns)[None, :].to(tl.float32), 0.0)
    there = (i[:, None] < rows) & (j[None, :] < columns)
    place_of = out + i[:, None] * columns + j[None, :]
    tl.store(place_of, sums.to(out.dtype.element_ty), mask=there)


@triton.jit
def attention(
    q, k, v, out, length, scale,
    width: tl.constexpr, high: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * length * width
    i = tl.program_id(0) * high + tl.arange(0, high)
    e = tl.arange(0, width)
    queries = tl.load(q + head + i[:, None] * width + e[None, :])
    largest = tl.full((high,), -float("inf"), tl.float32)
    total = tl.zeros((high,), tl.float32)
    sums = tl.zeros((high, width), tl.float32)
    for start in range(0, length, wide):
        j = start + tl.arange(0, wide)
        keys = tl.load(k + head + j[None, :] * width + e[:, None])
        scores = tl.dot(queries, keys) * scale
        larger = tl.maximum(largest, tl.max(scores, 1))
        powers = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(largest - larger)
        total = total * shrink + tl.sum(powers, 1)
        values = tl.load(v + head + j[:, None] * width + e[None, :])
        sums = tl.dot(powers.to(values.dtype), values, sums * shrink[:, None])
        largest = larger
    result = sums / total[:, None]
    tl.store(out + head + i[:, None] * width + e[None, :], result.to(out.dtype.element_ty))


def pointers(type_: str, *names: str) -> dict[str, str]:
    """The signature of arrays of one type."""
    return {name: f"*{type_}" for name in names}


def sizes(*names: str) -> dict[str, str]:
    """The signature of sizes: multiples of 16, as Triton finds out at a call."""
    return dict.fromkeys(names, "i32")


TILES = (
    {"high": 128, "wide": 128, "deep": 32, "group": 8, "num_warps": 4, "num_stages": 4},
    {"high": 128, "wide": 256, "deep": 64, "group": 8, "num_warps": 8, "num_stages": 3},
    {"high": 128, "wide": 64, "deep": 32, "group": 8, "num_warps": 4, "num_stages": 4},
    {"high": 64, "wide": 64, "deep": 32, "group": 8, "num_warps": 4, "num_stages": 4},
)
FLAT_TILES = (
    {"high": 128, "wide": 128, "deep": 16, "group": 8, "num_warps": 8, "num_stages": 3},
    {"high": 64, "wide": 64, "deep": 16, "group": 8, "num_warps": 4, "num_stages": 3},
)
HEADS = (
    {"width": 64, "high": 128, "wide": 64, "num_warps": 4, "num_stages": 3},
    {"width": 64, "high": 64, "wide": 64, "num_warps": 4, "num_stages": 3},
)
PRODUCT = sizes("rows", "columns", "inner")
FAMILIES: dict[str, tuple[Any, dict[str, str], tuple[dict[str, int], ...]]] = {
    "add": (
        add,
        pointers("fp32", "x", "y", "out") | sizes("count"),
        ({"block": 1024}, {"block": 2048}),
    ),
    "softmax": (
        softmax,
        pointers("fp32", "x", "out") | sizes("columns"),
        ({"block": 1024}, {"block": 1024, "num_warps": 8}),
    ),
    "layer_norm": (
        layer_norm,
        pointers("fp32", "x", "weight", "bias", "out") | sizes("columns"),
        ({"block": 1024}, {"block": 1024, "num_warps": 8}),
    ),
    "transpose": (
        transpose,
        pointers("fp32", "x", "out") | sizes("rows", "columns"),
        ({"high": 32, "wide": 32}, {"high": 64, "wide": 64}),
    ),
    "matmul f16": (matmul, pointers("fp16", "a", "b", "bias", "out") | PRODUCT, TILES),
    "matmul f32": (matmul, pointers("fp32", "a", "b", "bias", "out") | PRODUCT, FLAT_TILES),
    "attention": (
        attention,
        pointers("fp16", "q", "k", "v", "out") | sizes("length") | {"scale": "fp32"},
        HEADS,
    ),
}


def compiled(
    function: Any, signature: dict[str, str], meta: dict[str, int], capability: int
) -> dict[str, Any]:
    """One variant's PTX and how to launch it."""
    constants = {name: value for name, value in meta.items() if not name.startswith("num_")}
    options = {name: value for name, value in meta.items() if name.startswith("num_")}
    source = ASTSource(
        function,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs={(len(signature) + n,): value for n, value in enumerate(constants.values())},
        attrs={
            (number,): [["tt.divisibility", 16]]
            for number, type_ in enumerate(signature.values())
            if type_ == "i32" or type_.startswith("*")
        },
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return {
        "ptx": made.asm["ptx"],
        "entry": made.metadata.name,
        "threads": 32 * made.metadata.num_warps,
        "shared_bytes": made.metadata.shared,
        "meta": meta,
    }


def main() -> None:
    capability = int(sys.argv[1])
    found = {
        family: [compiled(function, signature, meta, capability) for meta in metas]
        for family, (function, signature, metas) in FAMILIES.items()
    }
    json.dump({"version": triton.__version__, "families": found}, sys.stdout)


if __name__ == "__main__":
    main()
