"""The machine's state and what each instruction of the table does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.tpu import meaning
from wia_compiler.dialects.tpu.instructions import INSTRUCTIONS, Work
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.dialects.tpu.meaning import Tile
from wia_compiler.dialects.tpu.program import Instruction, Operand, Window
from wia_compiler.simulators.tpu.clock import Clock
from wia_compiler.simulators.tpu.counters import Counters
from wia_compiler.simulators.tpu.memory import HbmTensor, MemoryFault, Ring

_FUNCTIONS: Mapping[str, Callable[[Tile], Tile]] = {"relu": meaning.relu}


class Core:
    """Memories, the array and the clocks of one run."""

    def __init__(
        self,
        machine: SystolicMachine,
        hbm: Mapping[str, HbmTensor],
        rings: Mapping[str, Ring],
        double_buffered: bool,
    ):
        self.machine = machine
        self.hbm = hbm
        self.rings = rings
        self.registers: dict[str, int] = {}
        self.counters = Counters()
        self.ideal = Clock(machine, double_buffered, ideal_memory=True)
        self.real = Clock(machine, double_buffered, ideal_memory=False)
        self.clocks = (self.ideal, self.real)
        self.weights: Tile | None = None
        self.queued: Ring | None = None
        self._effects: dict[str, Callable[[Instruction], int]] = {
            "dma_in": self._dma_in,
            "clear": self._clear,
            "load_weights": self._load_weights,
            "stream_input": self._stream_input,
            "systolic_execute": self._systolic_execute,
            "vector_add": self._vector_add,
            "activate": self._activate,
            "vector_round": self._vector_round,
            "store_output": self._store_output,
        }

    def step(self, instruction: Instruction) -> int:
        """Run one instruction; returns the cycles its unit was busy."""
        self.counters.instructions += 1
        return self._effects[instruction.mnemonic](instruction)

    def _dma_in(self, instruction: Instruction) -> int:
        destination, source = instruction.operands
        assert isinstance(source, Window)
        ring = self.rings[str(destination)]
        tensor = self.hbm[source.tensor]
        tile = tensor.read(source, self.registers, ring.declaration.dtype)
        moved = tile.size * DTYPES[tensor.declaration.dtype].size_bytes
        cycles = self._cycles("dma_in", Work(hbm_bytes=moved))
        ring.fill(tile)
        for clock in self.clocks:
            clock.transfer("read", cycles, (tensor.declaration.name,), (ring.key,))
        self.counters.hbm_read_bytes += moved
        self.counters.memory_cycles += cycles
        return cycles

    def _store_output(self, instruction: Instruction) -> int:
        destination, source = instruction.operands
        assert isinstance(destination, Window)
        reads = [self.rings[source].key] if isinstance(source, str) else []
        tensor = self.hbm[destination.tensor]
        moved = tensor.write(destination, self.registers, self._value(source))
        cycles = self._cycles("store_output", Work(hbm_bytes=moved))
        for clock in self.clocks:
            clock.transfer("write", cycles, reads, (), produces=tensor.declaration.name)
        self.counters.hbm_written_bytes += moved
        self.counters.memory_cycles += cycles
        return cycles

    def _clear(self, instruction: Instruction) -> int:
        destination, shape = instruction.operands
        assert isinstance(shape, Window)
        tensor = self.hbm[shape.tensor]
        ring = self.rings[str(destination)]
        ring.fill(np.zeros(tensor.tile_shape(shape, self.registers), np.float32))
        for clock in self.clocks:
            clock.clear(ring.key)
        return 0

    def _load_weights(self, instruction: Instruction) -> int:
        ring = self.rings[str(instruction.operands[1])]
        self.weights = ring.read()
        cycles = self._cycles("load_weights", Work(len(self.weights)))
        for clock in self.clocks:
            clock.load_weights(cycles, ring.key)
        self.counters.weight_loads += 1
        self.counters.weight_cycles += cycles
        return cycles

    def _stream_input(self, instruction: Instruction) -> int:
        ring = self.rings[str(instruction.operands[1])]
        ring.read()
        self.queued = ring
        return 0

    def _systolic_execute(self, instruction: Instruction) -> int:
        if self.weights is None:
            raise MemoryFault("the array holds no weights", "load_weights first")
        if self.queued is None:
            raise MemoryFault("no input rows are queued", "stream_input before each pass")
        inputs = self.queued.read()
        if inputs.shape[1] != len(self.weights):
            raise MemoryFault(
                f"the input tile has {inputs.shape[1]} columns, the weights have "
                f"{len(self.weights)} rows",
                "both are the summed axis: take the same part of it",
            )
        ring = self.rings[str(instruction.operands[1])]
        sums = ring.read()
        rows, columns = len(inputs), self.weights.shape[1]
        if sums.shape != (rows, columns):
            raise MemoryFault(
                f"the pass gives {rows}x{columns} sums, {ring.declaration.name} was cleared for "
                f"{sums.shape[0]}x{sums.shape[1]}"
            )
        np.add(sums, meaning.systolic_product(inputs, self.weights), out=sums)
        cycles = self._cycles("systolic_execute", Work(rows))
        for clock in self.clocks:
            clock.execute(rows, cycles, self.queued.key, ring.key)
        self.queued = None
        self.counters.systolic_executes += 1
        self.counters.systolic_cycles += cycles
        self.counters.rows_streamed += rows
        self.counters.macs_used += rows * self.weights.size
        self.counters.mapping += self.weights.size / (self.machine.rows * self.machine.columns)
        return cycles

    def _vector_add(self, instruction: Instruction) -> int:
        destination, left, right = instruction.operands
        tiles = [self._value(operand) for operand in (left, right)]
        for axis, name in enumerate(("rows", "columns")):
            sizes = {tile.shape[axis] for tile in tiles} - {1}
            if len(sizes) > 1:
                raise MemoryFault(
                    f"adds tiles of {tiles[0].shape[axis]} and {tiles[1].shape[axis]} {name}"
                )
        return self._vector(destination, meaning.add(*tiles), (left, right))

    def _activate(self, instruction: Instruction) -> int:
        function, destination, source = instruction.operands
        result = _FUNCTIONS[str(function)](self._value(source))
        return self._vector(destination, result, (source,))

    def _vector_round(self, instruction: Instruction) -> int:
        destination, source, dtype = instruction.operands
        result = meaning.round_to(self._value(source), str(dtype))
        return self._vector(destination, result, (source,))

    def _vector(self, destination: Operand, tile: Tile, sources: tuple[Operand, ...]) -> int:
        reads = [self.rings[each].key for each in sources if isinstance(each, str)]
        ring = self.rings[str(destination)]
        ring.fill(tile)
        cycles = self._cycles("vector_add", Work(*tile.shape))
        for clock in self.clocks:
            clock.vector(cycles, reads, (ring.key,))
        self.counters.vector_cycles += cycles
        return cycles

    def _value(self, operand: Operand) -> Tile:
        if isinstance(operand, float):
            return np.full((1, 1), operand, np.float32)
        return self.rings[str(operand)].read()

    def _cycles(self, mnemonic: str, work: Work) -> int:
        return INSTRUCTIONS[mnemonic].cycles(self.machine, work)
