"""What compiled code finds where: the context of a launch, and the memory of a warp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.simulators.ptx.jit.liveness import results_of_products
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.threads import WARP

CONTEXT = (
    *("arena", "arena_bytes", "ends", "shared", "shared_bytes", "local", "local_bytes"),
    *("parameters", "warps_executed", "threads_executed", "predicated", "branches", "divergent"),
    *("traffic", "budget", "ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z"),
    *("ctaid.x", "ctaid.y", "ctaid.z", "warps", "warp_count", "threads", "at", "copies"),
    *("states", "named", "mode", "changes", "outgoing", "in_flight_at", "call"),
    *("parameters_bytes", "flights", "incoming", "arriving", "departures", "taken", "open_groups"),
    "dynamic_bytes",
)
"""Names of the context's 64-bit words, in order: addresses and numbers."""
COUNTED_WORDS = 5
"""Numbers of one memory instruction: requests, sectors, ideal, wavefronts, ideal."""
TRAFFIC_WORDS = 32
"""The numbers, and from bytes 64 on the last pattern of units that was counted: its mask (i32),
what it counted for (two words from byte 72), its distances from lane 0 (32 × i32 from byte 128)."""
BAIL, SPENT, STUCK, PARTED = -1, -2, -3, -4
"""Why compiled code ends before the launch does: for what only the other engine does or says, the
budget, barriers that never open, lanes that part ways in code for whole warps."""
MOST_COPIES = 256
"""Asynchronous copies of a warp that may be on their way at once."""
COPY_BYTES = 8 + 8 + 4 * WARP + 16 * WARP + 8
"""One of them: its group, the bytes of a lane, where each lane's go (-1: nowhere), the bytes, its
number among all of the warp."""
COPIES_BYTES = 64 + MOST_COPIES * COPY_BYTES
"""All of a warp: the open group, the number of copies, how many there were, then these."""
COUNTED, ASLEEP = 100, 1000
"""The state of a warp: 0 where it can run, -1 where it has ended, n + 1 where it waits at barrier n
of all threads, ``COUNTED`` + n at one with a count, ``ASLEEP`` for the phase of an mbarrier."""
NAMED_BYTES = 32
NAMED_BARRIERS = 17
"""The barriers of a block: how many threads came, for how many it is, its generation, of ``red``
those whose predicate holds and all (i32 each); the last is that of the cluster."""
CLUSTER_BARRIER = 16
BULK_VALUES = 12
"""Operands of a bulk copy at most."""
MOST_FLIGHTS, MOST_DEPARTURES = 4096, 1024
"""Copies to shared memory, and out of it, that may be on their way in a block."""
TAKEN_BYTES = 1 << 22
"""Room for what copies out of shared memory have read and not written yet."""
OPEN_GROUP, ISSUED, PRODUCT_HEADER = 0, 8, 64
"""Of the products of a warp: where the open group and the order of all are; a list's header."""
DONE = 0x7FFFFFFF
"""The place of a lane that has ended, or that no thread is."""


def word_offset(name: str) -> int:
    """Where a word of the context lies, in bytes."""
    return 8 * CONTEXT.index(name)


@dataclass(frozen=True)
class WarpLayout:
    """The memory of a warp, in bytes: the places of its lanes (i32) first, then these.

    ``first_thread`` is the number of its lane 0 in the block, ``cluster_phase`` what the generation
    of the cluster's barrier was when it arrived there, plus one (0: it has not arrived).
    ``products`` are, for each list of registers that ``wgmma`` has its results in (joined by
    commas), where the group of the one on its way and its bits lie; for ``""`` where the open group
    and the order of all lie.
    """

    registers: Mapping[str, int]
    size_bytes: int
    coordinates: Mapping[str, int]
    first_thread: int
    products: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def cluster_phase(self) -> int:
        """Beside ``first_thread``."""
        return self.first_thread + 16

    @property
    def fold_kind(self) -> int:
        """What a warp wants of the ``red`` it waits at: 1 for popc, 2 and, 3 or, 0 nothing."""
        return self.first_thread + 20

    @property
    def fold_place(self) -> int:
        """Where its result goes, in the warp's memory."""
        return self.first_thread + 24


def warp_layout(kept: Sequence[str], scope: Scope) -> WarpLayout:
    """Lay out the registers that outlive a block, the widest first."""
    offset = 4 * WARP
    coordinates: dict[str, int] = {}
    for axis in "xyz":
        coordinates[f"%tid.{axis}"] = offset
        offset += 4 * WARP
    first_thread = offset
    offset += 64
    registers: dict[str, int] = {}
    for name in sorted(kept, key=lambda each: -scope.register(each).bits):
        declared = scope.register(name)
        size = WARP // 8 if declared.kind == "predicate" else WARP * declared.holder.itemsize
        registers[name] = offset
        offset += size
    offset = -(-offset // 64) * 64
    products: dict[str, int] = {}
    for names in results_of_products(scope):
        products.setdefault("", offset)
        offset += PRODUCT_HEADER if len(products) == 1 else 0
        products[",".join(names)] = offset
        offset += PRODUCT_HEADER + 4 * WARP * len(names)
    return WarpLayout(registers, offset, coordinates, first_thread, products)
