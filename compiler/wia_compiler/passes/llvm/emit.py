"""A module of func, scf, memref, arith, math, vector and gpu ops as LLVM IR text.

::

    emitted = emit_llvm(module, x86_options(triple), source)      # or nvptx_options()
    emitted.text                                                  # one .ll module
    emitted.spans[(line, column)]                                 # source spans behind a ``.loc``

Functions become ``define``s of the same name: memrefs are pointers (``noalias``, aligned to one
element) to their element [0, 0, …], scalars are passed by value. Entry points
(``options.entry_attribute``) are exported, the others internal. The text is the same for the same
module and options. Transcendental ``math`` ops have no LLVM form here: run ``expand_math`` first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue

from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.nvgpu_hopper_types import TensorMapType
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.llvm.asking import begin_asking, end_asking
from wia_compiler.passes.llvm.atomics import ATOMICS
from wia_compiler.passes.llvm.control import control_handlers, emit_blocks
from wia_compiler.passes.llvm.conversions import CONVERSIONS
from wia_compiler.passes.llvm.debug import Metadata
from wia_compiler.passes.llvm.gpu_ops import GPU
from wia_compiler.passes.llvm.interrupts import (
    DECLARATIONS,
    NOTHING,
    TELLS_WORKERS,
    interrupted_text,
    watched_loops,
)
from wia_compiler.passes.llvm.memory import MEMORY, global_text
from wia_compiler.passes.llvm.nvgpu_hopper import NVGPU_HOPPER, tensor_map_parameter
from wia_compiler.passes.llvm.nvgpu_ops import NVGPU
from wia_compiler.passes.llvm.options import POOL, EmitOptions
from wia_compiler.passes.llvm.parallel import parallel_handler
from wia_compiler.passes.llvm.scalars import SCALARS
from wia_compiler.passes.llvm.types import LLVMError, llvm_type, size_bytes
from wia_compiler.passes.llvm.vectors import VECTORS
from wia_compiler.passes.llvm.writer import ModuleWriter, Writer, symbol


@dataclass(frozen=True)
class EmittedModule:
    """LLVM IR text, and the source spans behind each (line, column) that its locations name."""

    text: str
    spans: Mapping[tuple[int, int], tuple[Span, ...]]


def emit_llvm(
    module: ModuleOp, options: EmitOptions, source: Source | None = None
) -> EmittedModule:
    """The LLVM IR of a lowered module.

    ``source`` names the file of debug locations; without it, or with ``options.debug_info`` off,
    there are none. Raises ``LLVMError`` for an op that has no LLVM form.
    """
    metadata = Metadata(source if options.debug_info else None)
    watched = watched_loops(module) if options.interruptible else NOTHING
    shared = ModuleWriter(options, metadata, watched)
    functions: list[str] = []
    shared.functions = {
        op.sym_name.data: _function_symbol(op, options)
        for op in module.body.block.ops
        if isinstance(op, func.FuncOp) and not op.is_declaration
    }
    calls = Counter(op.callee.string_value() for op in walk(module) if isinstance(op, func.CallOp))
    for op in module.body.block.ops:
        if options.skipped_attribute is not None and options.skipped_attribute in op.attributes:
            continue
        match op:
            case func.FuncOp() if op.is_declaration:
                _declare(shared, op)
            case func.FuncOp():
                functions.append(_function(shared, op, calls[op.sym_name.data]))
                functions += _outlined(shared)
                if options.packed_entry and options.entry_attribute in op.attributes:
                    functions.append(_packed_entry(shared, op))
            case memref.GlobalOp():
                shared.globals.append(f"{symbol(op.sym_name.data)} = {global_text(op, options)}")
            case _:
                raise LLVMError(f"no LLVM form for {op.name} at the top of a module")
    head = [f'target triple = "{options.triple}"']
    if options.data_layout:
        head.insert(0, f'target datalayout = "{options.data_layout}"')
    parts = ["\n".join(head)]
    if shared.globals:
        parts.append("\n".join(shared.globals))
    parts += functions
    if watched.loops:
        shares = POOL in shared.declarations
        parts.append(interrupted_text(tells_workers=shares))
        shared.declarations |= DECLARATIONS
        if shares:
            shared.declarations |= TELLS_WORKERS
    if shared.declarations:
        parts.append("\n".join(shared.declarations[name] for name in sorted(shared.declarations)))
    parts.append('attributes #0 = { mustprogress nounwind "no-trapping-math"="true" }')
    tail = metadata.text()
    if tail:
        parts.append(tail)
    return EmittedModule("\n\n".join(parts) + "\n", metadata.spans)


def _function_symbol(op: func.FuncOp, options: EmitOptions) -> str:
    """The name as it is, except beside packed entries, where none of these is exported.

    There it gets an ending: a kernel may be called ``memcpy`` or ``rax``.
    """
    if not options.packed_entry:
        return symbol(op.sym_name.data)
    ending = "host" if options.entry_attribute in op.attributes else "nest"
    return symbol(f"{op.sym_name.data}.{ending}")


def _declare(shared: ModuleWriter, op: func.FuncOp) -> None:
    results = [llvm_type(each, shared.options) for each in op.function_type.outputs]
    parameters = [llvm_type(each, shared.options) for each in op.function_type.inputs]
    shared.declare(op.sym_name.data, results[0] if results else "void", parameters)


def _function(shared: ModuleWriter, op: func.FuncOp, calls: int) -> str:
    options = shared.options
    name = op.sym_name.data
    stoppable = name in shared.watched.stoppable
    writer = Writer(shared, name, stoppable=stoppable)
    place = shared.metadata.begin_function(name, op)
    parameters = [_parameter(writer, argument) for argument in op.body.blocks[0].args]
    results = list(op.function_type.outputs)
    if len(results) > 1:
        raise LLVMError(f"@{name} returns {len(results)} values, expected at most one")
    writer.enter(op)
    if any(each in shared.watched.loops for each in walk(op)):
        begin_asking(writer)
    emit_blocks(writer, op.body, _emit_block)
    if stoppable:
        end_asking(writer)
    is_entry = options.entry_attribute in op.attributes and not options.packed_entry
    words = ["define"]
    if not is_entry:
        words.append("internal")
    elif options.entry_convention:
        words.append(options.entry_convention)
    nothing = "i1" if stoppable else "void"
    words.append(llvm_type(results[0], options) if results else nothing)
    words.append(f"{shared.functions[name]}({', '.join(parameters)})")
    for attribute, spelled in _LAUNCH_BOUNDS:
        bound = op.attributes.get(attribute)
        if is_entry and isinstance(bound, IntegerAttr):
            words.append(f'"{spelled}"="{bound.value.data}"')
    if calls > 1:
        # A nest that is called often is worth its call; copies of it would be compiled each.
        words.append("noinline")
    words.append(f"#0{place} {{")
    return "\n".join([" ".join(words), "entry:", *writer.allocas, *writer.lines, "}"])


def _outlined(shared: ModuleWriter) -> list[str]:
    """The functions that the last one needs, and those that they need."""
    texts: list[str] = []
    while shared.outlined:
        texts.append(shared.outlined.pop(0)())
    return texts


def _packed_entry(shared: ModuleWriter, op: func.FuncOp) -> str:
    """The exported C function that takes an array of pointers and calls the entry point on them."""
    name = shared.options.packed_entry + op.sym_name.data
    writer = Writer(shared, name)
    place = shared.metadata.begin_function(name, op)
    writer.enter(op)
    passed: list[str] = []
    for number, argument in enumerate(op.body.blocks[0].args):
        if not isinstance(argument.type, MemRefType):
            raise LLVMError(f"a packed entry takes memrefs, @{op.sym_name.data} {argument.type}")
        slot = writer.temporary(f"getelementptr inbounds ptr, ptr %buffers, i64 {number}")
        passed.append(
            f"ptr {writer.temporary(f'load ptr, ptr {slot}, align 8', argument.name_hint)}"
        )
    result = "i1" if op.sym_name.data in shared.watched.stoppable else "void"
    writer.line(f"call {result} {shared.functions[op.sym_name.data]}({', '.join(passed)})")
    writer.line("ret void")
    head = f"define void {symbol(name)}(ptr noalias noundef readonly %buffers) #0{place} {{"
    return "\n".join([head, "entry:", *writer.lines, "}"])


_LAUNCH_BOUNDS = (("wia.block_size", "nvvm.maxntid"), ("wia.min_blocks", "nvvm.minctasm"))


def _parameter(writer: Writer, argument: SSAValue) -> str:
    name = writer.fresh(argument.name_hint or "arg")
    writer.values[argument] = name
    type_ = writer.type(argument)
    memref_type = argument.type
    if isinstance(memref_type, TensorMapType):
        return tensor_map_parameter(name)
    if not isinstance(memref_type, MemRefType):
        return f"{type_} noundef {name}"
    element = cast("MemRefType[Attribute]", memref_type).element_type
    alignment = max(size_bytes(element), _declared_alignment(argument))
    return f"{type_} noalias noundef align {alignment} {name}"


def _declared_alignment(argument: SSAValue) -> int:
    """The argument attribute ``llvm.align`` in bytes, 1 where there is none."""
    if not isinstance(argument, BlockArgument):
        return 1
    function = argument.block.parent_op()
    if not isinstance(function, func.FuncOp) or function.arg_attrs is None:
        return 1
    alignment = function.arg_attrs.data[argument.index].data.get("llvm.align")
    return alignment.value.data if isinstance(alignment, IntegerAttr) else 1


def _emit_block(writer: Writer, block: Block) -> None:
    for op in block.ops:
        handler = _HANDLERS.get(op.name)
        if handler is None:
            raise LLVMError(f"no LLVM form for {op.name}")
        writer.enter(op)
        handler(writer, op)


_HANDLERS = {
    **SCALARS,
    **CONVERSIONS,
    **MEMORY,
    **ATOMICS,
    **VECTORS,
    **GPU,
    **NVGPU_HOPPER,
    **NVGPU,
    **control_handlers(_emit_block),
    "scf.parallel": parallel_handler(_emit_block),
}
