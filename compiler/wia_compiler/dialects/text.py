"""IR to MLIR text and back, with every dialect the project uses."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from io import StringIO

from xdsl.context import Context
from xdsl.dialects import builtin, cf, func, math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import CallIntrinsicOp
from xdsl.ir import Block, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from wia_compiler.dialects.arith_lanes import ArithLanes
from wia_compiler.dialects.arith_remf import RemFOp
from wia_compiler.dialects.gpu_dynamic_shared import DynamicSharedMemoryOp
from wia_compiler.dialects.gpu_ids import Gpu
from wia_compiler.dialects.gpu_shuffle import GpuShuffle
from wia_compiler.dialects.loop import Loop
from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.dialects.nvgpu import Nvgpu
from wia_compiler.dialects.nvgpu_hopper import NvgpuHopper
from wia_compiler.dialects.nvvm_barrier import BarrierOp
from wia_compiler.dialects.nvvm_warp import BarWarpSyncOp, RoundToTf32Op
from wia_compiler.dialects.tile import Tile
from wia_compiler.dialects.tpu.ops import Tpu
from wia_compiler.dialects.vector_elements import VectorElements
from wia_compiler.dialects.wia.ops import Wia

_DIALECTS = (
    builtin.Builtin,
    ArithLanes,
    cf.Cf,
    func.Func,
    Gpu,
    GpuShuffle,
    math.Math,
    memref.MemRef,
    scf.Scf,
    vector.Vector,
    VectorElements,
    Nvgpu,
    Wia,
    Loop,
    Tile,
    Tpu,
    NvgpuHopper,
)


def context() -> Context:
    """A fresh xDSL context that knows every dialect of every level."""
    made = Context()
    for dialect in _DIALECTS:
        made.load_dialect(dialect)
    made.load_op(RemFOp)
    made.load_op(CallIntrinsicOp)
    made.load_op(PrefetchOp)
    made.load_op(BarWarpSyncOp)
    made.load_op(BarrierOp)
    made.load_op(RoundToTf32Op)
    made.load_op(DynamicSharedMemoryOp)
    return made


def print_ir(op: Operation, *, locations: bool = False) -> str:
    """The MLIR text of an op; ``locations`` adds ``loc(…)`` after each op."""
    stream = StringIO()
    printer = _LocatingPrinter(stream, print_debuginfo=True) if locations else Printer(stream)
    printer.print_op(op)
    return stream.getvalue()


class _LocatingPrinter(Printer):
    """A printer whose ``scf.while`` has its location behind its regions, where it is read.

    xDSL 0.75 writes it there and, with the function type, in front of them as well.
    """

    def print_operation_type(self, op: Operation) -> None:
        if isinstance(op, scf.WhileOp) and not self.print_generic_format:
            self.print_function_type(op.operand_types, op.result_types)
        else:
            super().print_operation_type(op)


class _CountingStream(StringIO):
    """A text stream that knows on which line (from 1) it stands."""

    line = 1

    def write(self, text: str, /) -> int:
        self.line += text.count("\n")
        return super().write(text)


class LinePrinter(Printer):
    """A printer that also notes the line (from 1) on which each op, and each block, begins."""

    def __init__(self) -> None:
        self._counting = _CountingStream()
        super().__init__(self._counting)
        self.lines: dict[Operation, int] = {}
        self.block_lines: dict[Block, int] = {}

    def print_op(self, op: Operation) -> None:
        self.lines[op] = self._counting.line
        super().print_op(op)

    def print_block(
        self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True
    ) -> None:
        self.block_lines[block] = self._counting.line + 1  # a label stands on a line of its own
        super().print_block(block, print_block_args, print_block_terminator)

    @property
    def names_of_blocks(self) -> Mapping[Block, str]:
        """What the text calls each block, without ``^``."""
        return self._blocks

    @property
    def text(self) -> str:
        """What was printed so far."""
        return self._counting.getvalue()


def parse_ir(text: str, name: str = "<ir>") -> ModuleOp:
    """The module that an MLIR text holds; xDSL's ``ParseError`` says where it is wrong."""
    return _BitsParser(context(), text, name).parse_module()


class _BitsParser(Parser):
    """A parser to which ``dense<0xfff0000000000000>`` is what it is printed for: -inf.

    Infinities, NaN, and numbers that a few digits do not give are printed as their bits; xDSL 0.75
    reads them back as large integers where they stand in ``dense``.
    """

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        digits = element.span.text.removeprefix("0x")
        if digits == element.span.text:
            return element
        bits = int(digits, 16)
        if len(digits) > 4:
            kind = "f" if len(digits) == 8 else "d"
            (value,) = struct.unpack(f">{kind}", bits.to_bytes(len(digits) // 2, "big"))
        else:
            # f16 and bf16 alike: only their infinities and NaN are printed so.
            magnitude = bits & 0x7FFF
            size = float("inf" if magnitude in (0x7C00, 0x7F80) else "nan")
            value = size if bits == magnitude else -size
        return self._TensorLiteralElement(False, value, element.span)
