"""A call of a kernel in a third of a microsecond: a C function for CPython, written in LLVM IR.

ctypes needs some three microseconds for each array's address. Here one function, generated once
in a process, reads the addresses out of the array objects, releases the interpreter lock and calls
the kernel. A kernel that was interrupted leaves an exception behind, which is raised. It is used
where the layout of objects is the one it knows; ctypes serves otherwise.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.passes.llvm.library import llvm_binding

Caller = Callable[[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]], bool]

_TYPE_OFFSET = 8  # PyObject.ob_type
_DATA_OFFSET = 16  # PyArrayObject.data, the first field after the object's head
_METH_FASTCALL = 0x80

_TEXT = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyErr_Occurred()

; The addresses of a tuple's arrays, from %place on; the next place, or null for another type.
define internal ptr @addresses(ptr %tuple, ptr %place) {{
entry:
  %count = call i64 @PyTuple_Size(ptr %tuple)
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %store ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %body, label %end
body:
  %item = call ptr @PyTuple_GetItem(ptr %tuple, i64 %index)
  %type_place = getelementptr i8, ptr %item, i64 {type_offset}
  %type = load i64, ptr %type_place
  %known = icmp eq i64 %type, {ndarray}
  br i1 %known, label %store, label %fail
store:
  %data_place = getelementptr i8, ptr %item, i64 {data_offset}
  %data = load ptr, ptr %data_place
  %slot = getelementptr ptr, ptr %place, i64 %index
  store ptr %data, ptr %slot
  %next = add i64 %index, 1
  br label %head
end:
  %after = getelementptr ptr, ptr %place, i64 %index
  ret ptr %after
fail:
  ret ptr null
}}

define ptr @call(ptr %self, ptr %arguments, i64 %number) {{
entry:
  %kernel = call ptr @PyLong_AsVoidPtr(ptr %self)
  %buffers = alloca [{limit} x ptr], align 8
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %place = phi ptr [ %buffers, %entry ], [ %after, %body ]
  %more = icmp slt i64 %index, %number
  br i1 %more, label %body, label %run
body:
  %slot = getelementptr ptr, ptr %arguments, i64 %index
  %tuple = load ptr, ptr %slot
  %after = call ptr @addresses(ptr %tuple, ptr %place)
  %next = add i64 %index, 1
  %known = icmp ne ptr %after, null
  br i1 %known, label %head, label %fail
run:
  %thread = call ptr @PyEval_SaveThread()
  call void %kernel(ptr %buffers)
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call ptr @PyErr_Occurred()
  %stopped = icmp ne ptr %raised, null
  br i1 %stopped, label %stop, label %done
stop:
  ret ptr null
done:
  %true = inttoptr i64 {true} to ptr
  call void @Py_IncRef(ptr %true)
  ret ptr %true
fail:
  %false = inttoptr i64 {false} to ptr
  call void @Py_IncRef(ptr %false)
  ret ptr %false
}}
"""

_LIMIT = 256


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def fast_caller(address: int, buffers: int) -> Caller | None:
    """A function of (inputs, outputs, workspaces) that calls ``void kernel(void *buffers[])``.

    It takes tuples of ``buffers`` arrays at most in all, and gives ``False`` and does nothing where
    one is of a subclass of ndarray. ``None`` where there are too many buffers, or where this
    interpreter's objects are not laid out as known.
    """
    made = _compiled() if buffers <= _LIMIT else None
    if made is None:
        return None
    definition, _ = made
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.addressof(definition), address, None)


@functools.cache
def _compiled() -> tuple[_MethodDefinition, Any] | None:
    if not _layout_is_known():
        return None
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _TEXT.format(
        type_offset=_TYPE_OFFSET,
        data_offset=_DATA_OFFSET,
        ndarray=id(np.ndarray),
        true=id(True),
        false=id(False),
        limit=_LIMIT,
    )
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    address = engine.get_function_address("call")
    return _MethodDefinition(b"kernel", address, _METH_FASTCALL, None), engine


def _layout_is_known() -> bool:
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    probe = np.zeros(3)[1:]
    read = ctypes.c_void_p.from_address
    return read(id(probe) + _DATA_OFFSET).value == probe.ctypes.data and read(
        id(probe) + _TYPE_OFFSET
    ).value == id(np.ndarray)
