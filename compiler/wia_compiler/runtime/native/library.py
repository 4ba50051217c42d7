"""The two LLVM files of this folder as code in this process, and what that code has to know.

They are compiled once for a machine and kept beside the kernels; where this interpreter, or this
numpy, lays out its objects in another way than they know, there is no such code and calls go
through Python.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wia_compiler.base.disk_cache import DiskCache
from wia_compiler.passes.llvm.library import llvm_binding
from wia_compiler.runtime.session import read_settings

FILES = ("pool.ll", "entry.ll")
OBJECT = "native.o"
BUFFERS = 256
"""How many arrays one call may have in all; ``entry.ll`` keeps room for so many."""
_CACHE_BYTES = 4 << 20
_NEW_FROM_DESCR = 94  # place in numpy's table of C functions, the same since numpy 1.0
_HEAD = 16  # PyObject: references and type
_ARRAY_HANDLER = 88  # PyArrayObject_fields.mem_handler, since numpy 1.22


@dataclass(frozen=True)
class NativeLibrary:
    """The loaded code: addresses of its functions and variables by name."""

    engine: Any
    kept: tuple[Any, ...]

    def function(self, name: str) -> int:
        """The address of a function."""
        return int(self.engine.get_function_address(name))

    def variable(self, name: str) -> ctypes.c_int64:
        """A variable of 64 bits, to be read and written in place."""
        return ctypes.c_int64.from_address(self.engine.get_global_value_address(name))


class _Handler(ctypes.Structure):
    """numpy's ``PyDataMem_Handler``, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


@functools.cache
def native_library() -> NativeLibrary | None:
    """The library of this process, ``None`` where it knows too little of this interpreter."""
    tuple_offset = _offset_in_tuples() if interpreter_is_known() else 0
    if not (tuple_offset and _arrays_are_known()):
        return None
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(_object(llvm)))
    engine.finalize_object()
    handler = _Handler(
        b"wia",
        1,
        None,
        *(engine.get_function_address(f"numpy_{name}") for name in _HANDLER_FUNCTIONS),
    )
    capsule = _capsule(handler)
    names = (sys.intern("out"), sys.intern("_call_in_python"))
    library = NativeLibrary(engine, (handler, capsule, names))
    settings = read_settings()
    for name, value in {
        "ndarray": id(np.ndarray),
        "new_from_descr": _numpy_function(_NEW_FROM_DESCR),
        "handler": id(capsule),
        "tuple_offset": tuple_offset,
        "out_name": id(names[0]),
        "python_name": id(names[1]),
        "true_object": id(True),
        "false_object": id(False),
        "pool_limit": settings.pool_size_bytes,
        "pool_huge_pages": int(sys.platform == "linux"),
    }.items():
        library.variable(name).value = value
    return library


_HANDLER_FUNCTIONS = ("malloc", "calloc", "realloc", "free")


def _object(llvm: Any) -> bytes:
    """The object file, from the cache folder where it lies there."""
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in FILES]
    triple: str = llvm.get_default_triple()
    versions = (triple, llvm.get_host_cpu_name(), str(llvm.llvm_version_info), *texts)
    digest = hashlib.sha256("\0".join(versions).encode()).hexdigest()
    cache = DiskCache(read_settings().cache_dir / "native", _CACHE_BYTES)
    files = cache.read(digest)
    if files is not None:
        return files[OBJECT]
    module = llvm.parse_assembly(texts[0])
    for text in texts[1:]:
        module.link_in(llvm.parse_assembly(text))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic")
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    made: bytes = machine.emit_object(module)
    cache.write(digest, {OBJECT: made})
    return made


def _capsule(handler: _Handler) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(handler), b"mem_handler", None)


def _numpy_function(place: int) -> int:
    core = "numpy._core" if hasattr(np, "_core") else "numpy.core"
    table = importlib.import_module(f"{core}._multiarray_umath")._ARRAY_API
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return _read(pointer(table, None) + 8 * place)


def _offset_in_tuples() -> int:
    """Where the items of a tuple begin: 24 bytes in, 32 since Python 3.14; 0 where neither."""
    marks = (object(), object())
    for offset in (24, 32):
        if [_read(id(marks) + offset + 8 * place) for place in (0, 1)] == [id(m) for m in marks]:
            return offset
    return 0


def interpreter_is_known() -> bool:
    """Whether objects begin with a count of references and their type, on 64 bits each."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    is_wide = object.__basicsize__ == _HEAD and sys.maxsize > 1 << 32
    return sys.implementation.name == "cpython" and has_lock and is_wide


def _arrays_are_known() -> bool:
    """Whether the fields of an array lie where ``%Array`` of ``entry.ll`` has them."""
    if sys.platform == "win32":
        return False  # without posix_memalign
    own = np.zeros((4, 5), np.float32)
    for probe in (own, own[1:, ::2]):
        start = id(probe)
        fields: tuple[tuple[int, int], ...] = (
            (8, id(np.ndarray)),
            (16, probe.ctypes.data),
            (48, 0 if probe.base is None else id(probe.base)),
            (56, id(probe.dtype)),
        )
        if any(_read(start + place) != value for place, value in fields):
            return False
        axes, flags = (ctypes.c_int32.from_address(start + place).value for place in (24, 64))
        if (axes, flags) != (probe.ndim, probe.flags.num):
            return False
        for place, numbers in ((32, probe.shape), (40, probe.strides)):
            address = _read(start + place)
            if tuple(_read(address + 8 * axis) for axis in range(axes)) != numbers:
                return False
    capsule = _capsule(_Handler())
    handler = _read(id(own) + _ARRAY_HANDLER)
    return bool(handler) and _read(handler + 8) == _read(id(capsule) + 8)


def _read(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
