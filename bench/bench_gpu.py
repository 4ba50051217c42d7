"""Our GPU kernels beside Triton's, without a GPU: both PTX texts run on the simulator.

Run by ``make bench-gpu``. Each result is compared with numpy in float64 before anything is
reported. Counts are exact, of the PTX that each compiler emits; registers and spills are what ptxas
says; times are those of the model (``docs/profiling.md``), which is there to rank, with the same
sheet for both. Of Triton's variants the one with the least modelled time stands in the table, as
its autotuner would choose it by a clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import wia_compiler as wia
from wia_compiler.profiler.gpu_sheets import GpuSheet, sheet_for

HERE = Path(__file__).parent
TRITON = os.environ.get("BENCH_PY_TRITON", str(HERE.parent / ".bench/triton/bin/python"))
SECTORS = "derived__memory_l2_theoretical_sectors_global"
COPIED = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One kernel at one size: ours as text, Triton's as a grid and arguments by family.

    ``grid`` and ``arguments`` are made from a variant's meta-parameters and the arrays, result
    last. ``tolerance`` is relative to the largest magnitude of the reference.
    """

    family: str
    size: str
    text: str
    arrays: Mapping[str, Array]
    reference: Array
    tolerance: float
    grid: Any
    arguments: Any
    result: np.dtype[Any]


def cases() -> list[Case]:
    """Memory, rows, a transpose, products with and without tensor cores, attention."""
    generator = np.random.default_rng(11)

    def normal(*shape: int, dtype: Any = np.float32) -> Array:
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)

    return [
        _add(normal(1 << 22), normal(1 << 22)),
        _softmax(normal(1024, 1024)),
        _layer_norm(normal(1024, 1024), normal(1024), normal(1024)),
        _transpose(normal(1024, 2048)),
        *[
            _matmul(
                normal(rows, inner, dtype=dtype),
                normal(inner, columns, dtype=dtype),
                normal(columns, dtype=dtype),
            )
            for dtype, rows, columns, inner in (
                (np.float16, 1024, 1024, 1024),
                (np.float16, 256, 4096, 512),
                (np.float32, 512, 512, 512),
            )
        ],
        _attention(*(normal(1, 8, 1024, 64, dtype=np.float16) for _ in range(3))),
    ]


def _add(x: Array, y: Array) -> Case:
    return Case(
        "add",
        f"{x.size}",
        "kernel k(input x: tensor, input y: tensor, output out: tensor) { out = x + y; }",
        {"x": x, "y": y},
        x.astype(float) + y,
        1e-6,
        lambda meta: -(-x.size // meta["block"]),
        lambda out: [x, y, out, np.int32(x.size)],
        x.dtype,
    )


def _softmax(x: Array) -> Case:
    powers = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return Case(
        "softmax",
        "x".join(map(str, x.shape)),
        "kernel k(input x: tensor, output out: tensor) { out = softmax(x, dim=1); }",
        {"x": x},
        powers / powers.sum(1, keepdims=True),
        1e-5,
        lambda meta: x.shape[0],
        lambda out: [x, out, np.int32(x.shape[1])],
        x.dtype,
    )


def _layer_norm(x: Array, weight: Array, bias: Array) -> Case:
    centred = x.astype(float) - x.astype(float).mean(1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    return Case(
        "layer_norm",
        "x".join(map(str, x.shape)),
        """kernel k(input x: tensor, input weight: tensor, input bias: tensor, output out: tensor) {
          out = layer_norm(x, weight=weight, bias=bias);
        }""",
        {"x": x, "weight": weight, "bias": bias},
        scaled * weight + bias,
        1e-5,
        lambda meta: x.shape[0],
        lambda out: [x, weight, bias, out, np.int32(x.shape[1])],
        x.dtype,
    )


def _transpose(x: Array) -> Case:
    rows, columns = x.shape
    return Case(
        "transpose",
        f"{rows}x{columns}",
        "kernel k(input x: tensor, output out: tensor) { out = transpose(x, 0, 1); }",
        {"x": x},
        x.T.astype(float),
        0.0,
        lambda meta: (-(-rows // meta["high"]), -(-columns // meta["wide"])),
        lambda out: [x, out, np.int32(rows), np.int32(columns)],
        x.dtype,
    )


def _matmul(a: Array, b: Array, bias: Array) -> Case:
    (rows, inner), columns = a.shape, b.shape[1]
    name = {"float16": "f16", "float32": "f32"}[a.dtype.name]
    return Case(
        f"matmul {name}",
        f"{rows}x{columns}x{inner} bias relu",
        """kernel k(input a: tensor, input b: tensor, input bias: tensor, output out: tensor) {
          out = relu(a @ b + bias);
        }""",
        {"a": a, "b": b, "bias": bias},
        np.maximum(a.astype(float) @ b.astype(float) + bias, 0),
        2e-3 if name == "f16" else 1e-5,
        lambda meta: -(-rows // meta["high"]) * -(-columns // meta["wide"]),
        lambda out: [a, b, bias, out, np.int32(rows), np.int32(columns), np.int32(inner)],
        a.dtype,
    )


def _attention(q: Array, k: Array, v: Array) -> Case:
    _, heads, length, width = q.shape
    scores = q.astype(float) @ k.astype(float).swapaxes(2, 3) / np.sqrt(width)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    scale = np.float32(1.4426950408889634 / np.sqrt(width))
    return Case(
        "attention",
        f"{heads}x{length}x{width} f16",
        """kernel k(input q: tensor, input k: tensor, input v: tensor, output out: tensor) {
          out = attention(q, k, v);
        }""",
        {"q": q, "k": k, "v": v},
        powers / powers.sum(-1, keepdims=True) @ v.astype(float),
        4e-3,
        lambda meta: (length // meta["high"], heads),
        lambda out: [q, k, v, out, np.int32(length), scale],
        q.dtype,
    )


@dataclass(frozen=True)
class Found:
    """What is known of one compiler's kernel: counts, resources, modelled time in seconds."""

    counters: Mapping[str, float]
    registers: int
    spills: int
    launches: int
    time: float
    limiter: str
    note: str = ""

    def cells(self) -> list[str]:
        """For the table."""
        count = self.counters.get
        return [
            f"{count('ptx_inst_executed', 0) / 1e3:.0f} k",
            f"{(count(SECTORS, 0) + count(COPIED, 0)) / 1e3:.0f} k",
            f"{count('shared_memory_bank_conflicts', 0):.0f}",
            f"{self.registers}{f' ({self.spills} B spilled)' if self.spills else ''}",
            f"{1e6 * self.time:.1f} µs {self.limiter}",
        ]


def ours(case: Case, target: str, sheet: GpuSheet) -> Found:
    """Our kernel by its default schedule."""
    (kernel,) = wia.compile(case.text).values()
    build = kernel.build(*case.arrays.values(), target=target)
    check(case, build(*case.arrays.values()), "ours")
    return _found(build.profile(*case.arrays.values(), device=sheet.name))


def tritons(case: Case, variants: Sequence[Mapping[str, Any]], sheet: GpuSheet) -> Found:
    """The fastest of Triton's variants, by the model."""
    return min((_triton(case, each, sheet) for each in variants), key=_time)


def _time(found: Found) -> float:
    return found.time


def _triton(case: Case, variant: Mapping[str, Any], sheet: GpuSheet) -> Found:
    out = np.zeros(case.reference.shape, case.result)
    arguments = [*case.arguments(out)]
    # Triton adds pointers to scratch memory that these kernels do not use.
    declared = variant["ptx"].partition(".entry")[2].partition("{")[0].count(".param")
    arguments += [np.uint64(0)] * (declared - len(arguments))
    profile = wia.ptx.profile(
        variant["ptx"],
        variant["entry"],
        case.grid(variant["meta"]),
        variant["threads"],
        arguments,
        device=sheet.name,
        shared_bytes=variant["shared_bytes"],
        budget=None,
    )
    check(case, out, f"triton {variant['meta']}")
    meta = ", ".join(f"{name} {value}" for name, value in variant["meta"].items())
    return _found(profile, meta)


def _found(profile: Any, note: str = "") -> Found:
    resources = profile.resources
    return Found(
        profile.counters,
        resources.get("registers", 0),
        resources.get("spill_store_bytes", 0) + resources.get("spill_load_bytes", 0),
        resources["kernels"],
        profile.estimate.time,
        profile.estimate.limiter,
        note,
    )


def check(case: Case, result: Array, who: str) -> None:
    """Raise where a result is wrong."""
    error = np.abs(result.astype(float) - case.reference).max() / np.abs(case.reference).max()
    if not error <= case.tolerance:
        raise AssertionError(f"{case.family} {case.size}, {who}: off by {error:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_80", help="sm_80 (default), sm_90 …")
    parser.add_argument("--device", default=None, help="GPU of the model (default: by the target)")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--requires", action="store_true", help="print what Triton's side needs")
    options = parser.parse_args()
    if options.requires:
        print("triton\nnumpy")
        return
    sheet = sheet_for(f"gpu:{options.target}", options.device)
    if sheet is None:
        parser.error(f"no data sheet of a GPU for {options.target}")
    capability = options.target.removeprefix("sm_").rstrip("a")
    peer = subprocess.run(
        [TRITON, HERE / "gpu_triton.py", capability], capture_output=True, text=True, check=True
    )
    compiled = json.loads(peer.stdout)
    wanted = [each for each in options.only.split(",") if each]
    print(f"Triton {compiled['version']}, ours for gpu:{options.target}; model of {sheet.name}\n")
    heads = ["kernel", "by", "warp instructions", "sectors", "conflicts", "registers", "model"]
    print("| " + " | ".join([*heads, "Triton ÷ ours"]) + " |")
    print("| " + " | ".join(["---"] * (len(heads) + 1)) + " |")
    for case in cases():
        if wanted and not any(case.family.startswith(each) for each in wanted):
            continue
        own = ours(case, f"gpu:{options.target}", sheet)
        peers = tritons(case, compiled["families"][case.family], sheet)
        print(_row(f"{case.family} {case.size}", "ours", own, f"{peers.time / own.time:.2f}"))
        print(_row("", f"Triton: {peers.note}", peers, ""), flush=True)


def _row(name: str, who: str, found: Found, ratio: str) -> str:
    return "| " + " | ".join([name, who, *found.cells(), ratio]) + " |"


if __name__ == "__main__":
    main()
