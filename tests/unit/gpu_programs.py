"""Programs through the whole pipeline for a GPU, and their kernels on the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from unit.gpu_interpreter import Buffer, dtype_of, run_kernel
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.lower import LowerPass
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.base.dtypes import from_numpy
from wia_compiler.base.record import Stage
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.pipeline import Compiled, compile_kernel
from wia_compiler.passes.target import ArraySpec, Artifact
from wia_compiler.reference.tile import run_tile_module
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import SSAValue

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CapturingTarget(GpuTarget):
    """A GPU target that keeps the module after some of its passes instead of making PTX of it."""

    lowers: bool = True
    modules: list[ModuleOp] = field(default_factory=list)

    def passes(self):
        schedule = super().passes()[0]
        # numpy has exp and erf: no need to expand them.
        return (schedule, LowerPass(expands_math=False)) if self.lowers else (schedule,)

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        self.modules.append(module)
        return Artifact(self.name, context.kernel, {}, {}), ()


def spec_of(name: str, array: Array) -> ArraySpec:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    strides = None
    if not array.flags.c_contiguous:
        strides = tuple(stride // array.itemsize for stride in array.strides)
    return ArraySpec(name, TensorSpec(array.shape, dtype, name), strides)


def compile_text(
    text: str, arrays: Sequence[Array], target: GpuTarget, *, record: bool = False
) -> Compiled:
    """Compile the last kernel of a text for these arrays; each pass leaves valid IR.

    The record, which takes as long as the passes, is made when a test looks at it; ``record``
    saves one that always does the second compilation.
    """
    imported = import_program(parse(Source(text)))
    name = list(imported.kernels)[-1]
    names = [parameter.name for parameter in imported.kernels[name].inputs]
    specs = [spec_of(each, array) for each, array in zip(names, arrays, strict=True)]
    with mock.patch.dict(os.environ, WIA_VERIFY="1"):
        return compile_kernel(imported, name, specs, target, record=record)


def build(
    text: str, arrays: Sequence[Array], architecture: str, *, with_sass: bool = False
) -> Compiled:
    """PTX of the last kernel of a text."""
    return compile_text(text, arrays, GpuTarget(ARCHITECTURES[architecture], with_sass))


Runner = Callable[[ModuleOp, Sequence[Array], Sequence[Array]], None]


def interpret(text: str, arrays: Sequence[Array], architecture: str = "sm_90") -> list[Array]:
    """The outputs of the last kernel of a text, computed thread by thread."""
    return _outputs(text, arrays, CapturingTarget(ARCHITECTURES[architecture]), run_module)


def scheduled(text: str, arrays: Sequence[Array], architecture: str = "sm_90") -> list[Array]:
    """Its outputs, computed by the reference of the mid level from the scheduled nests."""
    target = CapturingTarget(ARCHITECTURES[architecture], lowers=False)
    return _outputs(text, arrays, target, run_tile_module)


def _outputs(
    text: str, arrays: Sequence[Array], target: CapturingTarget, run: Runner
) -> list[Array]:
    compiled = compile_text(text, arrays, target)
    (module,) = target.modules
    outputs = [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in compiled.outputs]
    run(module, arrays, outputs)
    return outputs


def run_module(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run a lowered module's host function; every element of the outputs must be written."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    (host,) = (op for op in functions.values() if "wia.host" in op.attributes)
    results = [Buffer(_carried(array), written=False) for array in outputs]
    buffers: dict[SSAValue, Buffer] = dict(
        zip(
            host.body.block.args,
            [*(Buffer(_carried(array)) for array in inputs), *results],
            strict=True,
        )
    )
    for op in host.body.block.ops:
        match op:
            case memref.AllocOp():
                buffers[op.memref] = _allocate(op.memref)
            case memref.ReinterpretCastOp():
                type = op.result.type
                assert isinstance(type, MemRefType)
                strides = tuple(op.static_strides.get_values())
                buffers[op.result] = buffers[op.source].view(type.get_shape(), strides)
            case CallOp():
                arguments = [buffers[value] for value in op.arguments]
                for buffer in arguments:
                    buffer.writer[...] = -1  # a launch waits for those before it
                run_kernel(functions[op.callee.root_reference.data], arguments)
            case _:
                pass
    assert all(result.valid.all() for result in results)


def _carried(array: Array) -> Array:
    """u8 is i8 below the high level."""
    return array.view(np.int8) if array.dtype == np.uint8 else array


def _allocate(value: SSAValue) -> Buffer:
    type = value.type
    assert isinstance(type, MemRefType)
    return Buffer(np.zeros(type.get_shape(), dtype_of(type.element_type)), written=False)
