"""The loops that find a machine's limits, as LLVM IR, and their machine code in this process."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from wia_compiler.profiler.machine import Machine

# Enough independent sums to cover the latency of two FMA units (2 × 4 or 5 cycles), few enough to
# stay in the 16 registers of AVX2 beside both factors.
FMA_SUMS = 12
READ_SUMS = 8

Kernel = Callable[[int, int, int], None]
"""``kernel(address, elements or rounds, repeats)``."""


@dataclass
class MicroKernels:
    """Compiled loops; ``engine`` owns their memory.

    * ``fma_f32``, ``fma_f64``  (buffer, rounds, _): rounds × FMA_SUMS vectors of multiply-adds
    * ``read``   (buffer, elements, repeats): read ``elements`` i32 ``repeats`` times
    * ``triad``  (buffer, elements, repeats): a[i] = b[i] + c[i]·c[i] over three arrays of f32
    * ``stream`` the same with stores that bypass the caches
    """

    kernels: dict[str, Kernel]
    engine: Any = field(repr=False)


def compile_micro_kernels(machine: Machine) -> MicroKernels:
    """Generate, compile and load the loops for ``machine``, which must be this one."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    text = module_text(machine.vector_bytes)
    triple = llvm.get_process_triple()
    request = CodeRequest(
        text,
        triple,
        machine.cpu,
        machine.features,
        vectorize=False,
        outputs=("object",),
    )
    code = shared_worker().generate(request).object
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(triple).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    names = ("fma_f32", "fma_f64", "read", "triad", "stream")
    kernels: dict[str, Kernel] = {n: prototype(engine.get_function_address(n)) for n in names}
    return MicroKernels(kernels, engine)


def module_text(vector_bytes: int) -> str:
    """All loops as one LLVM module for vectors of that many bytes."""
    wide, half = f"<{vector_bytes // 4} x float>", f"<{vector_bytes // 8} x double>"
    return "\n".join(
        [
            _fma("fma_f32", wide, "f32", vector_bytes),
            _fma("fma_f64", half, "f64", vector_bytes),
            _read(f"<{vector_bytes // 4} x i32>", vector_bytes),
            _triad("triad", wide, vector_bytes, ""),
            _triad("stream", wide, vector_bytes, ", !nontemporal !0"),
            f"declare {wide} @llvm.fma.v{vector_bytes // 4}f32({wide}, {wide}, {wide})",
            f"declare {half} @llvm.fma.v{vector_bytes // 8}f64({half}, {half}, {half})",
            "!0 = !{i32 1}",
            "",
        ]
    )


def _fma(name: str, vector: str, element: str, vector_bytes: int) -> str:
    """sum = sum · a + b for independent sums; a and b come from memory, so nothing folds."""
    lanes = vector.split()[0].removeprefix("<")
    sums = range(FMA_SUMS)
    phis = [f"  %s{n} = phi {vector} [ %b, %entry ], [ %t{n}, %loop ]" for n in sums]
    fma = f"call {vector} @llvm.fma.v{lanes}{element}"
    steps = [f"  %t{n} = {fma}({vector} %s{n}, {vector} %a, {vector} %b)" for n in sums]
    stores = [
        f"  %p{n} = getelementptr {vector}, ptr %buffer, i64 {n + 2}\n"
        f"  store {vector} %t{n}, ptr %p{n}, align {vector_bytes}"
        for n in sums
    ]
    return "\n".join(
        [
            f"define void @{name}(ptr %buffer, i64 %rounds, i64 %unused) {{",
            "entry:",
            f"  %a = load {vector}, ptr %buffer, align {vector_bytes}",
            f"  %pb = getelementptr {vector}, ptr %buffer, i64 1",
            f"  %b = load {vector}, ptr %pb, align {vector_bytes}",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %rounds",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
        ]
    )


def _read(vector: str, vector_bytes: int) -> str:
    lanes = vector_bytes // 4
    sums = range(READ_SUMS)
    outer = [f"  %o{n} = phi {vector} [ zeroinitializer, %entry ], [ %t{n}, %after ]" for n in sums]
    inner = [f"  %s{n} = phi {vector} [ %o{n}, %outer ], [ %t{n}, %loop ]" for n in sums]
    loads = [
        f"  %j{n} = add i64 %i, {n * lanes}\n"
        f"  %p{n} = getelementptr i32, ptr %buffer, i64 %j{n}\n"
        f"  %v{n} = load {vector}, ptr %p{n}, align {vector_bytes}\n"
        f"  %t{n} = add {vector} %s{n}, %v{n}"
        for n in sums
    ]
    folds = ["  %f0 = add " + f"{vector} %t0, zeroinitializer"]
    folds += [f"  %f{n} = add {vector} %f{n - 1}, %t{n}" for n in sums if n]
    return "\n".join(
        [
            "define void @read(ptr %buffer, i64 %elements, i64 %repeats) {",
            *_head(),
            *outer,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %outer ], [ %next, %loop ]",
            *inner,
            *loads,
            *_tail(READ_SUMS * lanes, "elements"),
            *folds,
            f"  store {vector} %f{READ_SUMS - 1}, ptr %buffer, align {vector_bytes}",
            "  ret void",
            "}",
        ]
    )


def _triad(name: str, vector: str, vector_bytes: int, hint: str) -> str:
    lanes = vector_bytes // 4
    body: list[str] = []
    for n in range(4):
        body += [
            f"  %j{n} = add i64 %i, {n * lanes}",
            f"  %pa{n} = getelementptr float, ptr %buffer, i64 %j{n}",
            f"  %pb{n} = getelementptr float, ptr %pa{n}, i64 %third",
            f"  %pc{n} = getelementptr float, ptr %pb{n}, i64 %third",
            f"  %b{n} = load {vector}, ptr %pb{n}, align {vector_bytes}",
            f"  %c{n} = load {vector}, ptr %pc{n}, align {vector_bytes}",
            f"  %m{n} = call {vector} @llvm.fma.v{lanes}f32"
            f"({vector} %c{n}, {vector} %c{n}, {vector} %b{n})",
            f"  store {vector} %m{n}, ptr %pa{n}, align {vector_bytes}{hint}",
        ]
    return "\n".join(
        [
            f"define void @{name}(ptr %buffer, i64 %third, i64 %repeats) {{",
            *_head(),
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %outer ], [ %next, %loop ]",
            *body,
            *_tail(4 * lanes, "third"),
            "  ret void",
            "}",
        ]
    )


def _head() -> list[str]:
    return [
        "entry:",
        "  br label %outer",
        "outer:",
        "  %r = phi i64 [ 0, %entry ], [ %again, %after ]",
    ]


def _tail(step: int, count: str) -> list[str]:
    return [
        f"  %next = add i64 %i, {step}",
        f"  %more = icmp slt i64 %next, %{count}",
        "  br i1 %more, label %loop, label %after",
        "after:",
        "  %again = add i64 %r, 1",
        "  %repeat = icmp slt i64 %again, %repeats",
        "  br i1 %repeat, label %outer, label %done",
        "done:",
    ]
