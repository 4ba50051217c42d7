"""The base of what is called with arrays: known kinds of calls run in machine code, others here."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

from wia_compiler.runtime.native.library import native_library, offset_of_slot
from wia_compiler.runtime.native.plans import Plan

MAX_PLANS = 32
"""Kinds of calls that one object finds in machine code; they are looked through in order."""


class NativeCallable:
    """``self(*arrays, out=None, **keywords)`` through the plans that it learnt, else in Python.

    Returns one array, or a tuple where there are several results. ``out=`` takes the array (a tuple
    or mapping for several outputs) to write into; inout parameters are updated in place. Raises
    ``ArgumentError`` before anything runs.

    A subclass has ``_call_in_python`` with that signature, which may ``_learn_plan`` on its way.
    """

    __slots__ = ("_plans", "_table")

    def __init__(self) -> None:
        self._plans: list[Plan] = []
        self._table = bytes(8)

    def __call__(self, *arrays: Any, out: Any = None, **keywords: Any) -> Any:
        """Run on arrays; gives one array, or a tuple of several."""
        return self._call_in_python(*arrays, out=out, **keywords)

    def _call_in_python(self, *arrays: Any, out: Any = None, **keywords: Any) -> Any:
        raise NotImplementedError

    def _learn_plan(self, plan: Plan) -> bool:
        """Take this plan for calls that fit it; the oldest one is forgotten where there are many.

        A call that runs at this moment keeps the plan that it found. False where this interpreter
        takes no plans.
        """
        if not _install():
            return False
        plans = [plan, *self._plans[: MAX_PLANS - 1]]
        addresses = [each.address for each in plans]
        self._table = struct.pack(f"{len(addresses) + 1}P", *addresses, 0)
        self._plans = plans
        return True


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_METHODS: list[_Method] = []  # the interpreter keeps the addresses
_FASTCALL_WITH_KEYWORDS = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS


@functools.cache
def _install() -> bool:
    """Make the machine code the ``__call__`` of the class; whether there is such code here."""
    library = native_library()
    offset = offset_of_slot(NativeCallable(), "_table")
    if library is None or not offset:
        return False
    library.variable("table_offset").value = offset
    documentation = b"__call__($self, *arrays, out=None, **keywords)\n--\n\nRun on arrays."
    method = _Method(b"__call__", library.function("call"), _FASTCALL_WITH_KEYWORDS, documentation)
    _METHODS.append(method)
    new = ctypes.pythonapi.PyDescr_NewMethod
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.py_object, ctypes.c_void_p]
    NativeCallable.__call__ = new(NativeCallable, ctypes.addressof(method))
    return True
