"""Plans: what ``entry.ll`` has to know of one kind of call, written into its records."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DType
from wia_compiler.passes.target import ArraySpec, NativeCode
from wia_compiler.runtime.native.library import BUFFERS, native_library

Array = NDArray[Any]

_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # NPY_ARRAY_*
_LONG_WORK = 1 << 15
"""Bytes and operations of a call beside which handing the interpreter lock over is little: 2 µs."""


class _Plan(ctypes.Structure):
    _fields_ = (
        ("positional", ctypes.c_int64),
        ("out_form", ctypes.c_int64),
        ("input_count", ctypes.c_int64),
        ("inputs", ctypes.c_void_p),
        ("output_count", ctypes.c_int64),
        ("outputs", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("releases_lock", ctypes.c_int64),
        ("owner", ctypes.c_void_p),
        ("on_failure", ctypes.c_void_p),
        ("out_count", ctypes.c_int64),
        ("writes_given", ctypes.c_int64),
        ("reads_bound", ctypes.c_int64),
    )


class _Input(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int64),
        ("dtype", ctypes.c_void_p),
        ("axes", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("low", ctypes.c_int64),
        ("high", ctypes.c_int64),
        ("dictionary", ctypes.c_void_p),
        ("key", ctypes.c_void_p),
    )


class _Output(ctypes.Structure):
    _fields_ = (
        ("inout", ctypes.c_int64),
        ("dtype", ctypes.c_void_p),
        ("axes", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("place", ctypes.c_int64),
    )


@dataclass(frozen=True)
class ArrayArgument:
    """An array that is passed; ``written`` is for inout parameters."""

    array: Array
    written: bool = False


@dataclass(frozen=True)
class BoundArgument:
    """An array that stands under ``name`` in ``bindings`` at the time of each call."""

    array: Array
    bindings: dict[str, Any]
    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """The same value at every call: the default of a scalar that is left out."""

    array: Array


@dataclass(frozen=True)
class ScalarArgument:
    """A Python number that is passed for a scalar of that dtype."""

    dtype: DType


Argument = ArrayArgument | BoundArgument | ConstantArgument | ScalarArgument

_SCALAR_KINDS = {"f64": 3, "f32": 4, "bool": 6}


def takes_natively(number: object, dtype: DType) -> bool:
    """Whether numbers of this very type become scalars of this dtype in machine code."""
    if dtype.kind == "float":
        return type(number) is float and dtype.name in _SCALAR_KINDS
    return type(number) is (bool if dtype.kind == "bool" else int)


class Plan:
    """One kind of call, as records in memory; ``address`` is what a kernel's table holds.

    ``arguments`` are the kernel's inputs in order, of which the first ``positional`` are passed.
    ``inouts`` has, for each output, the number of the argument that it updates (-1: none).
    ``out_form`` says what ``out=`` is: 0 nothing, 1 an array, 2 a tuple of arrays. ``work`` is
    about how many bytes and operations a call takes.
    """

    def __init__(
        self,
        code: NativeCode,
        arguments: Sequence[Argument],
        outputs: Sequence[ArraySpec],
        *,
        positional: int,
        inouts: Sequence[int],
        out_form: int = 0,
        work: int = 0,
    ):
        self._kept: list[Any] = [code]
        inputs = (_Input * len(arguments))(*(self._input(each) for each in arguments))
        given = [number for number, inout in enumerate(inouts) if inout < 0]
        records = (_Output * len(outputs))(
            *(
                self._output(spec, inout, given.index(number) if inout < 0 else 0)
                for number, (spec, inout) in enumerate(zip(outputs, inouts, strict=True))
            )
        )
        self._kept += [inputs, records]
        self._record = _Plan(
            positional=positional,
            out_form=out_form,
            input_count=len(inputs),
            inputs=ctypes.addressof(inputs),
            output_count=len(records),
            outputs=ctypes.addressof(records),
            code=code.address,
            workspace_bytes=code.workspace_bytes,
            releases_lock=int(code.interruptible or work >= _LONG_WORK),
            owner=id(self),
            on_failure=None if code.on_failure is None else id(code.on_failure),
            out_count=len(given),
            writes_given=int(out_form > 0 or len(given) < len(outputs)),
            reads_bound=int(any(isinstance(each, BoundArgument) for each in arguments)),
        )

    @property
    def address(self) -> int:
        """Where the record lies, as long as this object lives."""
        return ctypes.addressof(self._record)

    def _input(self, argument: Argument) -> _Input:
        if isinstance(argument, ScalarArgument):
            return _scalar(argument.dtype)
        if isinstance(argument, ConstantArgument):
            self._kept.append(argument.array)
            return _Input(kind=2, dtype=argument.array.ctypes.data)
        array = argument.array
        in_order = array.flags.c_contiguous
        low, high = _extent(array)
        record = _Input(
            kind=0,
            dtype=self._address(array.dtype),
            axes=array.ndim,
            sizes=self._numbers(array.shape),
            strides=None if in_order else self._numbers(array.strides),
            flags=_ALIGNED | (_C_CONTIGUOUS if in_order else 0),
            low=low,
            high=high,
        )
        if isinstance(argument, BoundArgument):
            record.kind = 1
            record.dictionary = self._address(argument.bindings)
            record.key = self._address(sys.intern(argument.name))
        elif argument.written:
            record.flags |= _WRITEABLE
        return record

    def _output(self, spec: ArraySpec, inout: int, place: int) -> _Output:
        dtype, shape = spec.spec.dtype.numpy, spec.spec.shape
        self._kept.append(dtype)
        return _output_record(dtype, shape, self._numbers(shape), inout, place)

    def _address(self, kept: object) -> int:
        self._kept.append(kept)
        return id(kept)

    def _numbers(self, values: Sequence[int]) -> int:
        numbers = _numbers(values)
        self._kept.append(numbers)
        return ctypes.addressof(numbers)


def fits_plans(arguments: int, outputs: int) -> bool:
    """Whether a call has few enough arrays for ``entry.ll``: inputs, outputs and a workspace."""
    return arguments + outputs < BUFFERS


def new_array(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An array with no values yet, as plans make them; large ones in memory that is used again."""
    library = native_library()
    if library is None:
        return np.empty(shape, dtype)
    sizes = _numbers(shape)
    record = _output_record(dtype, shape, ctypes.addressof(sizes))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(library.function("new_array"))
    return make(ctypes.addressof(record))


def _output_record(
    dtype: np.dtype[Any], shape: Sequence[int], sizes: int, inout: int = -1, place: int = 0
) -> _Output:
    size_bytes = math.prod(shape) * dtype.itemsize
    return _Output(
        inout=inout, dtype=id(dtype), axes=len(shape), sizes=sizes, bytes=size_bytes, place=place
    )


def _numbers(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _scalar(dtype: DType) -> _Input:
    if dtype.name in _SCALAR_KINDS:
        return _Input(kind=_SCALAR_KINDS[dtype.name])
    low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
    high = (1 << (dtype.bits if dtype.kind == "uint" else dtype.bits - 1)) - 1
    return _Input(kind=5, flags=low, low=high)


def _extent(array: Array) -> tuple[int, int]:
    """Bytes from an array's data to the start of its lowest and the end of its highest element."""
    if array.size == 0:
        return 0, 0
    spans = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    return sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans) + array.itemsize
