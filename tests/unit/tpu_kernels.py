"""Kernels compiled for ``tpu:spec`` from their text and run on the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from wia_compiler.backends.tpu.target import make_target
from wia_compiler.base.dtypes import from_numpy
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.pipeline import Compiled, compile_kernel
from wia_compiler.passes.target import ArraySpec
from wia_compiler.simulators.tpu import run

Array = np.ndarray[Any, Any]
TARGET = make_target("tpu").with_simulator(run)


class Ran(NamedTuple):
    """One run: outputs in order, counters, and what was compiled."""

    outputs: list[Array]
    counters: Mapping[str, int | float]
    compiled: Compiled


def compile_text(text: str, **arrays: Array) -> Compiled:
    """The first kernel of a text, for arrays of these shapes, dtypes and strides."""
    program = import_program(parse(Source(text)))
    name = next(iter(program.kernels))
    specs = [_spec(p.name, arrays[p.name]) for p in program.kernels[name].inputs]
    return compile_kernel(program, name, specs, TARGET)


def run_text(text: str, **arrays: Array) -> Ran:
    """Compile and run."""
    compiled = compile_text(text, **arrays)
    outputs = [np.empty(o.spec.shape, o.spec.dtype.numpy) for o in compiled.outputs]
    executable = TARGET.load(compiled.artifact)
    counters = executable([arrays[spec.name] for spec in compiled.inputs], outputs)
    return Ran(outputs, counters, compiled)


def result(expression: str, **arrays: Array) -> Array:
    """What ``C = expression`` gives for inputs of the arrays' names."""
    inputs = ", ".join(f"input {name}: tensor" for name in arrays)
    text = f"kernel k({inputs}, output C: tensor) {{ C = {expression}; }}"
    return run_text(text, **arrays).outputs[0]


def as_bf16(array: Array) -> Array:
    """The array rounded to bf16, as f64."""
    return array.astype(ml_dtypes.bfloat16).astype(np.float64)


def product(a: Array, b: Array) -> Array:
    """The product of operands rounded to bf16, in f64."""
    return as_bf16(a) @ as_bf16(b)


def assert_close(found: Array, expected: Array, depth: int, a: Array, b: Array) -> None:
    """Within the documented bound: (K + 2) · 2⁻²⁴ · Σ|a·b|, and one rounding to the dtype."""
    assert found.shape == expected.shape
    sums = np.abs(as_bf16(a)) @ np.abs(as_bf16(b))
    unit = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[str(from_numpy(found.dtype))]
    bound = (depth + 2) * 2.0**-24 * sums + unit * np.abs(expected) * 1.01
    assert (np.abs(found.astype(np.float64) - expected) <= bound).all()


def _spec(name: str, array: Array) -> ArraySpec:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    strides = tuple(stride // array.itemsize for stride in array.strides)
    in_order = array.flags.c_contiguous
    return ArraySpec(name, TensorSpec(array.shape, dtype, name), None if in_order else strides)
