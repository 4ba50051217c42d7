"""IR to MLIR text and back, with every dialect the project uses."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO

from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from wia_compiler.dialects.arith_remf import RemFOp
from wia_compiler.dialects.gpu_ids import Gpu
from wia_compiler.dialects.gpu_shuffle import GpuShuffle
from wia_compiler.dialects.loop import Loop
from wia_compiler.dialects.tile import Tile
from wia_compiler.dialects.tpu.ops import Tpu
from wia_compiler.dialects.wia.ops import Wia

_DIALECTS = (
    builtin.Builtin,
    arith.Arith,
    cf.Cf,
    func.Func,
    Gpu,
    GpuShuffle,
    math.Math,
    memref.MemRef,
    scf.Scf,
    vector.Vector,
    Wia,
    Loop,
    Tile,
    Tpu,
)


def context() -> Context:
    """A fresh xDSL context that knows every dialect of every level."""
    made = Context()
    for dialect in _DIALECTS:
        made.load_dialect(dialect)
    made.load_op(RemFOp)
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
    return Parser(context(), text, name).parse_module()
