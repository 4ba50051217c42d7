"""The compiled engine: an entry as machine code, kept in memory, run block by block."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.passes.llvm.library import llvm_binding
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from wia_compiler.simulators.ptx.bulk_copies import BulkUnit
from wia_compiler.simulators.ptx.counted import Counted, Executed
from wia_compiler.simulators.ptx.graph import BasicBlock
from wia_compiler.simulators.ptx.jit.blocks import blocks_text
from wia_compiler.simulators.ptx.jit.callbacks import Callbacks
from wia_compiler.simulators.ptx.jit.departures import DEPARTURE_WORDS
from wia_compiler.simulators.ptx.jit.kept import EntryCode, kept_code
from wia_compiler.simulators.ptx.jit.layout import (
    CONTEXT,
    COPIES_BYTES,
    COUNTED_WORDS,
    DONE,
    MOST_DEPARTURES,
    MOST_FLIGHTS,
    SPENT,
    TAKEN_BYTES,
    TRAFFIC_WORDS,
    WarpLayout,
)
from wia_compiler.simulators.ptx.jit.program import write_program
from wia_compiler.simulators.ptx.jit.transfers import FLIGHT_WORDS
from wia_compiler.simulators.ptx.limits import MAX_THREADS
from wia_compiler.simulators.ptx.mbarrier import BARRIER_BYTES, Barriers
from wia_compiler.simulators.ptx.memory import DeviceMemory
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.syntax import Entry, Instruction, Module
from wia_compiler.simulators.ptx.threads import WARP, Size
from wia_compiler.simulators.ptx.traffic import Traffic
from wia_compiler.simulators.ptx.values.form import UnknownForm

_TRIPLE = "x86_64-unknown-linux-gnu"
_BLOCKS_AT_A_TIME = 1 << 12
"""Blocks between two looks at signals: a long launch can be interrupted."""


@dataclass(frozen=True)
class Compiled:
    """An entry's machine code, loaded; ``engine`` keeps it in memory."""

    code: EntryCode
    address: int
    engine: Any


@dataclass(frozen=True)
class Spent(Exception):
    """The launch ran more instructions than its budget; ``at`` is where it was."""

    at: int


@functools.cache
def _lanes_of_a_vector() -> int:
    features = llvm_binding().get_host_cpu_features()
    return 16 if features.get("avx512f") and features.get("avx512bw") else 8


_LOADED: dict[tuple[str, str, bool, bool], Compiled | None] = {}
_MOST_LOADED = 64


def is_at_hand(module: Module, entry: Entry, counts_memory: bool) -> bool:
    """Whether code for an entry was made before."""
    keys = ((module.source.text, entry.name, counts_memory, parted) for parted in (False, True))
    return any(_LOADED.get(key) is not None for key in keys)


def compiled_entry(
    module: Module,
    entry: Entry,
    blocks: Sequence[BasicBlock],
    scope: Scope,
    *,
    counts_memory: bool,
    parted: bool,
) -> Compiled | None:
    """Machine code for an entry; ``None`` where it holds an instruction that is not written.

    ``parted`` asks for code that also runs some lanes of a warp without the others.
    """
    text = module.source.text
    whole = (text, entry.name, counts_memory, True)
    key = whole if whole in _LOADED else (text, entry.name, counts_memory, parted)
    if key not in _LOADED:
        while len(_LOADED) >= _MOST_LOADED:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = _compile(key, blocks, entry.instructions, scope)
    return _LOADED[key]


def _compile(
    key: tuple[str, str, bool, bool],
    blocks: Sequence[BasicBlock],
    code: Sequence[Instruction],
    scope: Scope,
) -> Compiled | None:
    llvm = llvm_binding()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    versions = (cpu, features, str(llvm.llvm_version_info))
    made = kept_code((*map(str, key), *versions), lambda: _made(key, blocks, code, scope))
    if made is None:
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(made.object))
    engine.finalize_object()
    return Compiled(made, engine.get_function_address("blocks"), engine)


def _made(
    key: tuple[str, str, bool, bool],
    blocks: Sequence[BasicBlock],
    code: Sequence[Instruction],
    scope: Scope,
) -> EntryCode | None:
    _, _, counts_memory, parted = key
    try:
        program = write_program(
            blocks,
            code,
            scope,
            width=_lanes_of_a_vector(),
            counts_memory=counts_memory,
            parted=parted,
        )
    except UnknownForm:
        return None
    llvm = llvm_binding()
    request = CodeRequest(
        program.text + blocks_text(program.layout),
        _TRIPLE,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        opt=0,  # three quarters as fast as -O1, which takes four times as long to compile
        vectorize=False,
        outputs=("object",),
    )
    object_ = shared_worker().generate(request).object
    return EntryCode(object_, program.layout, program.accesses, program.predicated)


@dataclass
class Launching:
    """One launch on compiled code: its memory, and the numbers that the code counts up."""

    compiled: Compiled
    device: DeviceMemory
    parameters: NDArray[np.uint8]
    shared_bytes: int
    local_bytes: int
    block_count: int
    code: Sequence[Instruction]
    counts_memory: bool
    dynamic_bytes: int = 0

    bulk_traffic: dict[tuple[int, str], Traffic] = field(
        default_factory=dict[tuple[int, str], Traffic]
    )

    def run(self, grid: Size, block: Size, first_rank: int, budget: int | None) -> bool:
        """Run every block; ``False`` where the launch must be run from its start in another way.

        Raises ``Spent`` where the budget does not do.
        """
        layout = self.compiled.code.layout
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // WARP)
        fresh = _fresh_warps(layout, warps, threads, block, first_rank)
        shared = aligned(np.zeros(-(-self.shared_bytes // 16) * 16 + 64, np.uint8))
        unit = BulkUnit(
            self.device,
            self.parameters,
            shared,
            len(shared),
            self.shared_bytes,
            self.counts_memory,
            Barriers(shared),
            traffic=self.bulk_traffic,
        )
        callbacks = Callbacks(unit)
        words: dict[str, Any] = {
            "arena": self.device.arena,
            "arena_bytes": len(self.device.arena),
            "ends": self.device.ends,
            "shared": shared,
            "shared_bytes": self.shared_bytes,
            "dynamic_bytes": self.dynamic_bytes,
            "local": np.zeros(max(1, self.local_bytes * warps * WARP), np.uint8),
            "local_bytes": self.local_bytes,
            "parameters": self.parameters,
            "warps_executed": np.zeros(self.block_count, np.int64),
            "threads_executed": np.zeros(self.block_count, np.int64),
            "predicated": np.zeros(len(self.code), np.int64),
            "branches": np.zeros(len(self.code), np.int64),
            "divergent": np.zeros(len(self.code), np.int64),
            "traffic": np.zeros(
                (max(1, len(self.compiled.code.accesses)), TRAFFIC_WORDS), np.int64
            ),
            "budget": np.iinfo(np.int64).max if budget is None else budget,
            "warps": aligned(np.zeros(len(fresh) + 64, np.uint8)),
            "warp_count": warps,
            "copies": np.zeros(warps * COPIES_BYTES, np.uint8),
            "threads": threads,
            "in_flight_at": np.zeros(len(shared) // BARRIER_BYTES + 1, np.int32),
            "call": callbacks.address,
            "parameters_bytes": len(self.parameters),
        }
        if any(each.opcode == "cp" for each in self.code):
            words |= _room_for_copies(len(shared))
        for axis, size, count in zip("xyz", block, grid, strict=True):
            words |= {f"ntid.{axis}": size, f"nctaid.{axis}": count}
        self.words = words
        context = np.zeros(len(CONTEXT), np.int64)
        for place, name in enumerate(CONTEXT):
            value = words.get(name, 0)
            context[place] = value.ctypes.data if isinstance(value, np.ndarray) else value
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        function = prototype(self.compiled.address)
        total = grid[0] * grid[1] * grid[2]
        for start in range(0, total, _BLOCKS_AT_A_TIME):
            count = min(_BLOCKS_AT_A_TIME, total - start)
            result = function(context.ctypes.data, fresh.ctypes.data, start, count)
            if callbacks.raised is not None:
                raise callbacks.raised
            if result == SPENT:
                raise Spent(int(context[CONTEXT.index("at")]))
            if result:
                return False
        return True

    def counted(self) -> Counted:
        """What the run counted."""
        words = self.words
        executed = Executed(words["warps_executed"], words["threads_executed"])
        for at in self.compiled.code.predicated:
            executed.predicated[at] = int(words["predicated"][at])
        for at in np.flatnonzero(words["branches"]):
            executed.branches[int(at)] = int(words["branches"][at])
            executed.divergent[int(at)] = int(words["divergent"][at])
        traffic: dict[tuple[int, str], Traffic] = {}
        for slot, (at, space, size) in enumerate(self.compiled.code.accesses):
            numbers = words["traffic"][slot][:COUNTED_WORDS]
            if numbers[0]:
                requests, sectors, ideal, wavefronts, least = map(int, numbers)
                traffic[at, space] = Traffic(requests, sectors, ideal, wavefronts, least, size)
        return Counted(executed, traffic | self.bulk_traffic)


def _room_for_copies(shared_bytes: int) -> dict[str, NDArray[Any]]:
    """Memory for copies on their way, to and from shared memory."""
    return {
        "flights": np.zeros(8 + MOST_FLIGHTS * FLIGHT_WORDS, np.int64),
        "incoming": aligned(np.zeros(shared_bytes + 64, np.uint8)),
        "arriving": np.zeros(shared_bytes // 16 + 16, np.uint8),
        "departures": np.zeros(8 + MOST_DEPARTURES * DEPARTURE_WORDS, np.int64),
        "taken": np.zeros(TAKEN_BYTES, np.uint8),
        "open_groups": np.zeros(MAX_THREADS, np.int64),
    }


def aligned(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The part of a buffer of 64 bytes too many that begins at a multiple of 64."""
    start = -raw.ctypes.data % 64
    return raw[start : len(raw) - 64 + start]


def _fresh_warps(
    layout: WarpLayout, warps: int, threads: int, block: Size, first_rank: int
) -> NDArray[np.uint8]:
    """The memory of all warps of a block before its first instruction."""
    memory = aligned(np.zeros(warps * layout.size_bytes + 64, np.uint8))
    rows = memory.reshape(warps, layout.size_bytes)
    number = np.arange(warps * WARP, dtype=np.uint32).reshape(warps, WARP)
    places = np.where(number < threads, first_rank, DONE).astype(np.int32)
    _put(rows, 0, places)
    x, y = np.uint32(block[0]), np.uint32(block[1])
    for axis, value in zip("xyz", (number % x, number // x % y, number // (x * y)), strict=True):
        _put(rows, layout.coordinates[f"%tid.{axis}"], value)
    _put(rows, layout.first_thread, number[:, :1])
    return memory


def _put(rows: NDArray[np.uint8], offset: int, values: NDArray[Any]) -> None:
    content = np.ascontiguousarray(values).view(np.uint8).reshape(len(rows), -1)
    rows[:, offset : offset + content.shape[1]] = content
