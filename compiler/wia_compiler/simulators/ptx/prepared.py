"""A launch before it runs: memory laid out, arguments in place, instructions decoded."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx.bulk_copies import BulkUnit
from wia_compiler.simulators.ptx.checks import Checks
from wia_compiler.simulators.ptx.cluster_barrier import ClusterBarrier
from wia_compiler.simulators.ptx.clusters import Clusters
from wia_compiler.simulators.ptx.copies import Copies
from wia_compiler.simulators.ptx.counted import Counted
from wia_compiler.simulators.ptx.decode import Decoded, decode
from wia_compiler.simulators.ptx.decode_warpgroup import check_warpgroups
from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.findings import Findings
from wia_compiler.simulators.ptx.graph import BasicBlock, blocks_of, waits_for_phase
from wia_compiler.simulators.ptx.jitter import Jitter
from wia_compiler.simulators.ptx.limits import STATIC_SHARED_BYTES, max_shared_bytes
from wia_compiler.simulators.ptx.machine import Machine
from wia_compiler.simulators.ptx.mbarrier import Barriers
from wia_compiler.simulators.ptx.memory import DeviceMemory
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.parameters import parameter_bytes
from wia_compiler.simulators.ptx.regions import DeviceArrays
from wia_compiler.simulators.ptx.schedule import OutOfPatience, Scheduler, spent_budget
from wia_compiler.simulators.ptx.syntax import Entry, Module, Variable
from wia_compiler.simulators.ptx.tensor_map import MAP_BYTES, TensorMap
from wia_compiler.simulators.ptx.threads import WARP, Size, Threads

_THREADS_AT_A_TIME = 8192
"""Threads in one chunk: enough that numpy's own cost vanishes, few enough to stay in the caches."""


@dataclass(frozen=True)
class LaunchSizes:
    """The sizes of a launch, whether memory is counted, and the warp instructions it may run.

    ``jitter`` moves approximate results.
    """

    grid: Size
    block: Size
    counts_memory: bool
    budget: int | None
    jitter: Jitter | None = None
    cluster: Size | None = None

    @property
    def clusters(self) -> Clusters:
        """The clusters that the grid falls into."""
        return Clusters(self.grid, self.cluster or (1, 1, 1), self.cluster is not None)


def is_loaded() -> bool:
    """Whether the compiled engine was used before in this process."""
    return "wia_compiler.simulators.ptx.jit.engine" in sys.modules


class Prepared:
    """An entry with its memory laid out and its instructions decoded."""

    def __init__(self, module: Module, entry: Entry, args: Sequence[Any], shared_bytes: int):
        self.module = module
        self.entry = entry
        self._args = args
        self.device = DeviceMemory()
        arrays, names = _arrays_of(entry, args)
        self._maps = maps = _maps_of(entry, args)
        self.names = [*names, *(f"the array of {name}" for name in maps)]
        # Variables first: their addresses are part of the code, those of arrays are arguments.
        addresses = self._variables(shared_bytes)
        mapped = [each.array for each in maps.values()]
        self.arrays = DeviceArrays(self.device, [*arrays, *mapped], self.names)
        places = {name: self.device.reserve(name, MAP_BYTES) for name in maps}
        self.device.close()
        self.arrays.fill()
        pointers, bases = self.arrays.addresses[: len(arrays)], self.arrays.addresses[len(arrays) :]
        tensors = {
            name: (each.at(base).encoded(), places[name])
            for (name, each), base in zip(maps.items(), bases, strict=True)
        }
        for content, address in tensors.values():
            self.device.put(address, content)
        self.parameters = parameter_bytes(entry, args, pointers, tensors, addresses)
        scope = Scope(entry, addresses)
        self.blocks: tuple[BasicBlock, ...] = blocks_of(entry, module.source)
        self.code: list[Decoded] = [
            decode(each, number, scope, module.source)
            for number, each in enumerate(entry.instructions)
        ]
        self.scope = scope

    def _variables(self, shared_bytes: int) -> dict[str, int]:
        """Where each variable lies: shared and local ones from 0 on, others in device memory."""
        addresses: dict[str, int] = {}
        used = {"shared": 0, "local": 0}
        dynamic: list[Variable] = []
        for each in (*self.module.variables, *self.entry.variables):
            if each.space in ("global", "const"):
                content = np.zeros(each.size_bytes, np.uint8)
                if each.initial:
                    content[: len(each.initial)] = np.frombuffer(each.initial, np.uint8)
                addresses[each.name] = self.device.add(each.name, content)
            elif each.space == "shared" and each.count == 0:
                dynamic.append(each)
            else:
                # Arguments of calls lie in local memory.
                space = "shared" if each.space == "shared" else "local"
                start = -(-used[space] // each.align) * each.align
                addresses[each.name] = start
                used[space] = start + each.size_bytes
        if used["shared"] > STATIC_SHARED_BYTES:
            raise ArgumentError(
                f"{self.entry.name} declares {used['shared']} bytes of shared memory, "
                f"expected at most {STATIC_SHARED_BYTES}: more must be dynamic"
            )
        for each in dynamic:
            addresses[each.name] = -(-used["shared"] // each.align) * each.align
        self.shared_bytes = max([used["shared"], *(addresses[each.name] for each in dynamic)])
        self.shared_bytes += shared_bytes
        self.dynamic_bytes = shared_bytes
        most = max_shared_bytes(self.module.target)
        if self.shared_bytes > most:
            raise ArgumentError(
                f"shared_bytes: a block asks for {self.shared_bytes} bytes of shared memory, "
                f"{self.module.target} has {most}"
            )
        self.local_bytes = used["local"]
        return addresses

    def checks(
        self, launch: LaunchSizes, findings: Findings, written: Mapping[int, NDArray[np.bool_]]
    ) -> Checks:
        """Checks for a launch; ``written`` is by the number of the argument."""
        arrays = [
            number for number, value in enumerate(self._args) if isinstance(value, np.ndarray)
        ]
        known: dict[int, NDArray[np.bool_]] = {}
        for number, mask in written.items():
            if number not in arrays:
                raise ArgumentError(f"written: argument {number} is no array")
            array = self._args[number]
            if not array.flags.c_contiguous or mask.shape != (array.nbytes,):
                raise ArgumentError(
                    f"written: argument {number} must be dense, with one bool for each of its "
                    f"{array.nbytes} bytes"
                )
            known[self.arrays.addresses[arrays.index(number)]] = mask
        code = self.entry.instructions
        elements = [each.array.itemsize for each in self._maps.values()]
        return Checks(
            findings, code, self.device, launch.grid, launch.block, known, min([16, *elements])
        )

    def run_numpy(
        self, launch: LaunchSizes, patience: float | None = None, checks: Checks | None = None
    ) -> Counted | None:
        """Run all blocks, some at a time, in order; ``None`` where patience ran out.

        ``patience`` are the seconds that it may take, estimated from what is done.
        """
        counted = Counted.nothing(len(self.blocks))
        if not self.code:
            return counted
        started = time.process_time()
        grid, block = launch.grid, launch.block
        total = grid[0] * grid[1] * grid[2]
        warps = -(-block[0] * block[1] * block[2] // WARP)
        clusters = launch.clusters
        order, together = clusters.order(), clusters.blocks
        # All blocks of a cluster run at once.
        chunk = max(1, _THREADS_AT_A_TIME // (warps * WARP * together)) * together
        scheduler = Scheduler(
            self.blocks, self.code, self.scope, self.module.source, launch.budget, patience
        )
        multiplies = any(each.opcode == "wgmma" for each in self.entry.instructions)
        with np.errstate(all="ignore"):
            for first in range(0, total, chunk):
                count = min(chunk, total - first)
                threads = Threads(order[first : first + count], grid, block)
                places = (threads.specials[f"%ctaid.{axis}"] for axis in "xyz")
                threads.specials |= clusters.specials(tuple(places))  # pyright: ignore[reportArgumentType]
                threads.specials["%total_smem_size"] = np.full((), self.shared_bytes, np.uint32)
                threads.specials["%dynamic_smem_size"] = np.full((), self.dynamic_bytes, np.uint32)
                shared = np.zeros((count, _row(self.shared_bytes)), np.uint8)
                bulk = BulkUnit(
                    self.device,
                    self.parameters,
                    shared.reshape(-1),
                    shared.shape[-1],
                    self.shared_bytes,
                    launch.counts_memory,
                    Barriers(shared),
                    traffic=counted.traffic,
                    cluster_blocks=together,
                )
                machine = Machine(
                    self.module.source,
                    threads,
                    self.device,
                    self.parameters,
                    shared,
                    np.zeros((threads.count, _row(self.local_bytes)), np.uint8),
                    Copies(threads.count, None if checks is None else checks.arrived),
                    bulk,
                    ClusterBarrier.of(threads.block_of, together),
                    together,
                    launch.counts_memory,
                    counted.traffic,
                    checks,
                    {"shared": self.shared_bytes, "local": self.local_bytes},
                )
                machine.jitter = launch.jitter
                if checks is not None:
                    bulk.checks, bulk.barriers.on_phase = checks, checks.order.complete
                    checks.begin(threads, first, machine.shared.shape[-1], machine.local.shape[-1])
                    if multiplies:
                        machine.product_checks = checks.products(self.scope)
                try:
                    scheduler.run(machine, counted.executed)
                    bulk.end()
                    if multiplies:
                        check_warpgroups(machine, self.entry.instructions)
                except OutOfPatience:
                    return None
        if checks is not None:
            checks.finish()
        counted.seconds = time.process_time() - started
        return counted

    @property
    def ways(self) -> tuple[bool, ...]:
        """Whether to compile for lanes that part: one way after the other."""
        waits = any(waits_for_phase(each) for each in self.entry.instructions)
        return (True,) if waits else (False, True)

    def is_compiled(self, launch: LaunchSizes) -> bool:
        """Whether machine code for the entry is at hand."""
        if not is_loaded():
            return False
        from wia_compiler.simulators.ptx.jit.engine import is_at_hand

        return is_at_hand(self.module, self.entry, launch.counts_memory)

    def run_compiled(self, launch: LaunchSizes, *, parted: bool) -> Counted | None:
        """Run all blocks as machine code; ``None`` where it must be done in another way.

        ``parted`` is for warps of which some lanes run without the others.
        """
        if not self.code:
            return Counted.nothing(0)
        # LLVM takes a while to load, and a launch on the other engine needs none of it.
        from wia_compiler.simulators.ptx.jit.engine import Launching, Spent, compiled_entry

        compiled = compiled_entry(
            self.module,
            self.entry,
            self.blocks,
            self.scope,
            counts_memory=launch.counts_memory,
            parted=parted,
        )
        if compiled is None:
            return None
        launching = Launching(
            compiled,
            self.device,
            self.parameters,
            self.shared_bytes,
            self.local_bytes,
            len(self.blocks),
            self.entry.instructions,
            launch.counts_memory,
            self.dynamic_bytes,
        )
        first = self.blocks[0].rank
        started = time.process_time()
        try:
            finished = launching.run(launch.grid, launch.block, first, launch.budget)
        except Spent as spent:
            fault = spent_budget(self.code[spent.at].instruction, self.module.source)
            raise PtxFault(fault) from None
        if not finished:
            return None
        counted = launching.counted()
        counted.seconds = time.process_time() - started
        return counted

    def finish(self) -> None:
        """Write device memory back to the arrays."""
        refused = self.arrays.copy_back()
        if refused:
            names = ", ".join(self.names[number] for number in refused)
            raise ArgumentError(f"{names}: {self.entry.name} writes to it, but it is read-only")


def _row(size_bytes: int) -> int:
    """Bytes of one block's or thread's memory such that the next is aligned for every access."""
    return -(-size_bytes // 16) * 16


def _maps_of(entry: Entry, args: Sequence[Any]) -> dict[str, TensorMap]:
    """Tensor maps among the arguments, by the names of their parameters."""
    return {
        parameter.name: value
        for parameter, value in zip(entry.parameters, args, strict=False)
        if isinstance(value, TensorMap)
    }


def _arrays_of(entry: Entry, args: Sequence[Any]) -> tuple[list[NDArray[Any]], list[str]]:
    found: list[NDArray[Any]] = []
    names: list[str] = []
    for number, value in enumerate(args):
        if isinstance(value, np.ndarray):
            found.append(cast("NDArray[Any]", value))
            known = number < len(entry.parameters)
            names.append(entry.parameters[number].name if known else f"argument {number}")
    return found, names
