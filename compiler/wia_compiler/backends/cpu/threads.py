"""The threads of this process that share the parallel loops of its kernels.

They are native: ``threads.ll`` starts them at the first loop that two or more can share, and no
Python runs on them. Kernels call ``wia_parallel`` there; one pool serves every kernel and every
Python thread that calls one. How many threads share a loop is what ``WIA_NUM_THREADS`` says when it
begins. A forked child starts workers of its own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wia_compiler.backends.cpu.cores import available_cores
from wia_compiler.base.settings import Settings
from wia_compiler.passes.llvm.library import llvm_binding

WAIT_NS = 50_000
"""How long a worker waits for the next loop before it sleeps: waking it takes as long again."""
MOST_THREADS = 256
_TEXT = Path(__file__).with_name("threads.ll")
_ALONE = """
declare ptr @malloc(i64)
declare void @free(ptr)
define i1 @wia_parallel(ptr %body, ptr %context, i64 %count, i64 %bytes) {
  %size = add i64 %bytes, 64
  %memory = call ptr @malloc(i64 %size)
  %place = ptrtoint ptr %memory to i64
  %past = add i64 %place, 63
  %aligned = and i64 %past, -64
  %scratch = inttoptr i64 %aligned to ptr
  %told = call i1 %body(ptr %context, i64 0, i64 %count, ptr %scratch)
  call void @free(ptr %memory)
  ret i1 %told
}
define i32 @wia_told_to_stop() { ret i32 -1 }
"""


@dataclass(frozen=True)
class _Machine:
    """``pause`` is LLVM's call for a turn of a waiting loop, ``futex`` a system call's number."""

    pause: str
    declaration: str
    futex: int


_MACHINES = {
    "x86_64": _Machine("@llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()", 202),
    "aarch64": _Machine(
        "@llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32 immarg)", 98
    ),
}


def wanted_threads() -> int:
    """How many threads share a loop that begins now, as the pool itself finds it out."""
    return min(Settings.read_threads() or _cores(), MOST_THREADS)


def supports_threads() -> bool:
    """Whether workers can be started on this system: the pool is written for Linux."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


@functools.cache
def start_pool() -> Any:
    """Let kernels that are loaded from now on find the pool; gives what keeps its code in memory.

    Where there can be no workers, each loop runs on the thread that calls.
    """
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Nothing here runs often enough for LLVM's optimiser to earn the 20 ms that it takes.
    target = llvm.Target.from_default_triple().create_target_machine(opt=0)
    text = _text() if supports_threads() else _ALONE
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
    engine.finalize_object()
    for name in ("wia_parallel", "wia_told_to_stop"):
        llvm.add_symbol(name, engine.get_function_address(name))
    if supports_threads():
        cores = ctypes.c_int32.from_address(engine.get_global_value_address("wia_cores"))
        cores.value = _cores()
        forget = ctypes.CFUNCTYPE(None)(engine.get_function_address("wia_forget"))
        os.register_at_fork(after_in_child=forget)
    return engine


def _text() -> str:
    machine = _MACHINES[platform.machine()]
    text = _TEXT.read_text(encoding="utf-8")
    for word, value in (
        ("PAUSE_DECLARATION", machine.declaration),
        ("PAUSE", machine.pause),
        ("FUTEX", str(machine.futex)),
        ("WAIT_NS", str(WAIT_NS)),
    ):
        text = text.replace(word, value)
    return text


@functools.cache
def _cores() -> int:
    return available_cores()
