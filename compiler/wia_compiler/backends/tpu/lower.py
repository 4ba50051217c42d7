"""Mid level to the machine's instructions: leaves become DMA, passes through the array, vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    FunctionType,
    LocationAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.backends.tpu.buffers import Buffers
from wia_compiler.backends.tpu.spelling import check_nest, refuse
from wia_compiler.backends.tpu.tile_axes import TileAxes, extent_of, product_of, tile_axes_of
from wia_compiler.backends.tpu.vector_body import VectorBody
from wia_compiler.backends.tpu.windows import FlatView, NotAWindow, flat_view_of, window_of
from wia_compiler.base.record import Level
from wia_compiler.dialects.location import common_location
from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.dialects.tpu.machine import SPEC, SystolicMachine
from wia_compiler.dialects.tpu.ops import (
    ClearOp,
    DmaInOp,
    LoadWeightsOp,
    StoreOutputOp,
    StreamInputOp,
    SystolicExecuteOp,
)
from wia_compiler.dialects.tpu.window import WindowSpec
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.host import HOST
from wia_compiler.passes.nests.writer import NEST


@dataclass(frozen=True)
class LowerToTpuPass:
    """One function of ``tpu`` ops for the whole kernel, from its host function and nests.

    ::

        host { call @nest(%A, %B, %C) }      func @nest { tile.for %j0 { … contract acc += A * B } }
          →  func @k { tile.for %j0 { tpu.clear … tpu.dma_in … tpu.systolic_execute … } }
    """

    machine: SystolicMachine = SPEC

    name: ClassVar[str] = "lower"
    level: ClassVar[Level] = "low"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite ``module`` in place; ``TargetError`` for what the machine cannot spell."""
        functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
        (host,) = [op for op in functions if HOST in op.attributes]
        nests = {op.sym_name.data: op for op in functions if NEST in op.attributes}
        lowered = _Lowering(self.machine, context).host(host, nests)
        for op in functions:
            op.detach()
            op.erase()
        module.body.block.add_op(lowered)


class _Lowering:
    def __init__(self, machine: SystolicMachine, context: PassContext):
        self.machine = machine
        self.context = context
        self.block = Block()
        self.buffers = Buffers(self.block)
        self.values: dict[SSAValue, SSAValue] = {}
        self.axes = TileAxes(None, None)
        self.shape_leaf: ComputeOp | None = None
        self.views: list[memref.ReinterpretCastOp] = []
        self.caller: LocationAttr | None = None
        self.located: dict[int, LocationAttr] = {}

    def host(self, host: func.FuncOp, nests: dict[str, func.FuncOp]) -> func.FuncOp:
        for argument in host.body.block.args:
            new = self.block.insert_arg(argument.type, len(self.block.args))
            new.name_hint = argument.name_hint
            self.values[argument] = new
        calls = Counter(
            op.callee.string_value() for op in host.body.block.ops if isinstance(op, func.CallOp)
        )
        for op in host.body.block.ops:
            self.caller, self.located = None, {}
            match op:
                case memref.AllocOp() | memref.ReinterpretCastOp():
                    self._add(op.clone(self.values), op.location)
                case func.CallOp():
                    name = op.callee.string_value()
                    self.caller = op.location if calls[name] > 1 else None
                    self._nest(nests[name], op.arguments)
                case _:
                    self._add(func.ReturnOp(), op.location)
        self.buffers.finish()
        self._check_memory(host)
        type = FunctionType.from_lists([argument.type for argument in self.block.args], [])
        made = func.FuncOp(host.sym_name.data, type, Region(self.block))
        made.attributes[HOST] = UnitAttr()
        made.location = host.location
        return made

    def _add(self, op: Operation, location: LocationAttr) -> None:
        op.location = self._location(location)
        self.block.add_op(op)

    def _location(self, location: LocationAttr) -> LocationAttr:
        """Of a nest that several calls share, each call's copy came from what that call did."""
        if self.caller is None:
            return location
        # Ops of the nest hold their locations, so none has the id of another; hashing is slower.
        if id(location) not in self.located:
            self.located[id(location)] = common_location(location, self.caller)
        return self.located[id(location)]

    def _nest(self, nest: func.FuncOp, arguments: Sequence[SSAValue]) -> None:
        check_nest(self.context, nest)
        leaves = [op for op in nest.walk() if isinstance(op, ComputeOp)]
        for inner, outer in zip(nest.body.block.args, arguments, strict=True):
            self.values[inner] = self.values[outer]
        self.axes = tile_axes_of(leaves)
        # The sums have the shape of what the nest writes.
        self.shape_leaf = leaves[-1]
        before = self.block.last_op
        self._ops(nest.body.block)
        for view in self.views:
            if before is None:
                first = self.block.first_op
                assert first is not None
                self.block.insert_op_before(view, first)
            else:
                self.block.insert_op_after(view, before)
        self.views = []

    def _ops(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case ForOp():
                    self._loop(op)
                case memref.AllocOp():
                    self.values[op.memref] = self._sums(op)
                case ComputeOp():
                    self._leaf(op)
                case _:
                    pass

    def _loop(self, op: ForOp) -> None:
        loop = ForOp(op.axis.data, op.extent.value.data, op.step.value.data)
        loop.induction_variable.name_hint = op.induction_variable.name_hint
        self.values[op.induction_variable] = loop.induction_variable
        self._add(loop, op.location)
        outside, self.block = self.block, loop.body.block
        self._ops(op.body.block)
        self.block = outside

    def _leaf(self, leaf: ComputeOp) -> None:
        if leaf.kind.data == "contract":
            self._contract(leaf)
        elif not leaf.inputs and self._is_on_chip(leaf.outputs[0]):
            self._clear(leaf)
        else:
            self._map(leaf)

    def _sums(self, op: memref.AllocOp) -> SSAValue:
        assert self.shape_leaf is not None
        shape = self._tile_shape(self.shape_leaf)
        return self.buffers.accumulators("accumulators", shape, op)

    def _tile_shape(self, leaf: ComputeOp) -> tuple[int, int]:
        return extent_of(leaf, self.axes.rows), extent_of(leaf, self.axes.columns)

    def _is_on_chip(self, value: SSAValue) -> bool:
        return isinstance(value.owner, memref.AllocOp)

    def _clear(self, leaf: ComputeOp) -> None:
        assert self.shape_leaf is not None
        last = self.shape_leaf
        output = last.outputs[0]
        tensor, window = self._window(last, len(last.inputs), output, self.axes)
        accumulators = self.values[leaf.outputs[0]]
        self._add(ClearOp(accumulators, tensor, window), leaf.location)

    def _contract(self, leaf: ComputeOp) -> None:
        product = product_of(leaf)
        where = leaf.location
        weights = self._dma(
            leaf, product.weights, "weight_buffer", TileAxes(product.depth, product.axes.columns)
        )
        self._add(LoadWeightsOp(weights), where)
        inputs = self._dma(
            leaf, product.inputs, "input_buffer", TileAxes(product.axes.rows, product.depth)
        )
        self._add(StreamInputOp(inputs), where)
        accumulators = self.values[leaf.outputs[0]]
        self._add(SystolicExecuteOp(self.machine.size, accumulators), where)

    def _map(self, leaf: ComputeOp) -> None:
        shape = self._tile_shape(leaf)
        held: list[SSAValue] = []
        for number, value in enumerate(leaf.inputs):
            if self._is_on_chip(value):
                held.append(self.values[value])
                continue
            tensor, window = self._window(leaf, number, value, self.axes)
            buffer = self.buffers.f32(_numbered("operand_buffer", number), window.limits, leaf)
            self._add(DmaInOp(buffer, tensor, window), _reader_location(leaf, number))
            held.append(buffer)
        body = VectorBody(
            lambda number: self.buffers.f32(_numbered("output_buffer", number), shape, leaf),
            lambda op, for_op: self._add(op, for_op.location),
        )
        results = body.run(leaf.body.block, held)
        for number, (value, tile) in enumerate(zip(leaf.outputs, results, strict=True)):
            tensor, window = self._window(leaf, len(leaf.inputs) + number, value, self.axes)
            location = _writer_location(leaf, number)
            self._add(StoreOutputOp(tile.held, tensor, window), location)

    def _dma(self, leaf: ComputeOp, number: int, name: str, axes: TileAxes) -> SSAValue:
        """Bring an operand's tile to the buffer of that name, as bf16."""
        value = leaf.inputs[number]
        tensor, window = self._window(leaf, number, value, axes)
        buffer = self.buffers.bf16(name, window.limits, leaf)
        self._add(DmaInOp(buffer, tensor, window), leaf.location)
        return buffer

    def _window(
        self, leaf: ComputeOp, number: int, value: SSAValue, axes: TileAxes
    ) -> tuple[SSAValue, WindowSpec]:
        """The tensor that holds an operand of ``leaf``, and the operand's tile in it."""
        affine = leaf.maps.data[number].data
        tensor = self.values[value]
        try:
            return tensor, window_of(leaf, affine, value, axes, self.values)
        except NotAWindow as reason:
            try:
                flat = flat_view_of(leaf, affine, value, axes, self.values)
            except NotAWindow:
                name = value.name_hint or f"operand {number}"
                refuse(self.context, [leaf], f"tpu:spec cannot move {name}: {reason}")
            return self._view(tensor, flat, leaf.location), flat.window

    def _check_memory(self, host: func.FuncOp) -> None:
        used, capacity = self.buffers.vmem_bytes, self.machine.vmem_bytes
        if used > capacity:
            refuse(
                self.context,
                [host],
                f"{host.sym_name.data} needs {used} bytes of buffers, VMEM has {capacity}",
            )

    def _view(self, tensor: SSAValue, flat: FlatView, location: LocationAttr) -> SSAValue:
        """The memory of ``tensor`` as ``flat`` says; a view of a view is one of the tensor."""
        while isinstance(tensor.owner, memref.ReinterpretCastOp):
            tensor = tensor.owner.source
        element = cast("MemRefType[Attribute]", tensor.type).element_type
        type = MemRefType(element, flat.shape, StridedLayoutAttr(flat.strides))
        view = memref.ReinterpretCastOp(tensor, [], [], [], [0], flat.shape, flat.strides, type)
        view.result.name_hint = tensor.name_hint
        view.location = self._location(location)
        self.views.append(view)
        return view.result


def _reader_location(leaf: ComputeOp, number: int) -> LocationAttr:
    """Where the op that first reads an input of a leaf came from."""
    for op in leaf.body.block.ops:
        if leaf.body.block.args[number] in op.operands and not isinstance(op, YieldOp):
            return op.location
    return leaf.location


def _writer_location(leaf: ComputeOp, number: int) -> LocationAttr:
    """Where the op that computes an output of a leaf came from."""
    last = leaf.body.block.last_op
    assert isinstance(last, YieldOp)
    owner = last.arguments[number].owner
    return owner.location if isinstance(owner, Operation) else leaf.location


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name
