"""What LLVM IR text has to look like for one kind of machine: frozen data, one maker a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

POOL = "wia_parallel"
"""The function that shares a loop among the threads of a process (see ``parallel``)."""
NVPTX_REGISTERS: Mapping[str, str] = {
    "gpu.thread_id": "llvm.nvvm.read.ptx.sreg.tid",
    "gpu.block_id": "llvm.nvvm.read.ptx.sreg.ctaid",
    "gpu.block_dim": "llvm.nvvm.read.ptx.sreg.ntid",
    "gpu.grid_dim": "llvm.nvvm.read.ptx.sreg.nctaid",
}


@dataclass(frozen=True)
class EmitOptions:
    """How one kind of machine spells a module.

    ``triple``             LLVM's name of the machine
    ``data_layout``        its data layout string (empty: LLVM uses the triple's)
    ``entry_attribute``    functions that carry it are entry points: exported, ``entry_convention``
    ``skipped_attribute``  functions that carry it are left out (a host that launches)
    ``packed_entry``       prefix of a second function for each entry point that takes an array of
                           pointers (``void wia.NAME(void *buffers[])``); then only that is exported
    ``global_space``       address space of memrefs without a memory space
    ``bf16``               ``native``: LLVM's ``bfloat``; ``integer``: carried as ``i16``, rounded
                           by integers (x86 without AVX512-BF16 would call a helper)
    ``f64_to_half``        ``native``, or ``odd``: f64 goes to f16/bf16 through an f32 rounded to
                           odd, which rounds once in all and calls nothing
    ``extremum``           ``intrinsic``: maximumf is ``llvm.maximum``; ``select``: with a constant
                           operand it is a compare and a select (one instruction on x86, not five)
    ``loop_metadata``      entries of every loop's ``!llvm.loop`` node
    ``registers``          spelling of gpu.thread_id … ; the dimension is appended (``.x``)
    ``barrier``            the call that gpu.barrier becomes
    ``clock_ticks``        what ``llvm.readcyclecounter`` counts in some 20 ms
    ``interruptible``      long loops ask Python whether to stop (``interrupts``)
    ``debug_info``         write ``!dbg`` so that ``.loc`` lines name the source
    ``constant_offsets``   an element is the constant part of its index away from the address of
                           the rest, which neighbours share: an instruction adds it by itself
    """

    triple: str
    data_layout: str = ""
    entry_attribute: str = "wia.host"
    skipped_attribute: str | None = None
    entry_convention: str = ""
    packed_entry: str = ""
    global_space: int = 0
    bf16: Literal["native", "integer"] = "native"
    f64_to_half: Literal["native", "odd"] = "odd"
    extremum: Literal["intrinsic", "select"] = "intrinsic"
    loop_metadata: tuple[str, ...] = ()
    registers: Mapping[str, str] = field(default_factory=dict[str, str])
    barrier: str = ""
    clock_ticks: int = 50_000_000
    interruptible: bool = False
    debug_info: bool = True
    constant_offsets: bool = False


def x86_options(triple: str, *, interruptible: bool = True, debug_info: bool = True) -> EmitOptions:
    """Options for x86-64; each ``wia.host`` function is exported as ``wia.NAME(buffers)``.

    It is called in a Python process, without the interpreter lock; ``interruptible`` off makes code
    that runs in any process.
    """
    return EmitOptions(
        triple,
        packed_entry="wia.",
        bf16="integer",
        extremum="select",
        interruptible=interruptible,
        debug_info=debug_info,
    )


def aarch64_options(triple: str) -> EmitOptions:
    """Options for AArch64, called as x86 code is.

    ``maximum`` is one instruction there. The counter that user code may read ticks at 25 MHz on
    older cores and at 1 GHz on newer ones, so that loops there look after 0.5 ms already.
    """
    return EmitOptions(
        triple, packed_entry="wia.", bf16="integer", clock_ticks=500_000, interruptible=True
    )


def cpu_options(triple: str) -> EmitOptions:
    """Options for a CPU that runs code in this process, by its triple."""
    return aarch64_options(triple) if triple.startswith("aarch64") else x86_options(triple)


def nvptx_options(*, debug_info: bool = True) -> EmitOptions:
    """Options for NVIDIA GPUs; kernels carry ``gpu.kernel``, ``wia.host`` functions are left out.

    Integer attributes of a kernel become launch bounds: ``wia.block_size`` ``nvvm.maxntid``,
    ``wia.min_blocks`` (blocks an SM must be able to hold) ``nvvm.minctasm``.
    """
    return EmitOptions(
        "nvptx64-nvidia-cuda",
        entry_attribute="gpu.kernel",
        skipped_attribute="wia.host",
        entry_convention="ptx_kernel",
        global_space=1,
        loop_metadata=('!"llvm.loop.unroll.disable"',),
        registers=NVPTX_REGISTERS,
        barrier="llvm.nvvm.barrier.cta.sync.aligned.all",
        debug_info=debug_info,
        constant_offsets=True,
    )
