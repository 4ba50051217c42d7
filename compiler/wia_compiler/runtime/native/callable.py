"""The base of what is called with arrays: known kinds of calls run in machine code, others here."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from wia_compiler.runtime.native.library import interpreter_is_known, native_library
from wia_compiler.runtime.native.plans import Plan

MAX_PLANS = 32
"""Kinds of calls that one object finds in machine code; they are looked through in order."""

_HEAD = object.__basicsize__  # references and type
_CODE, _TABLE = _HEAD, _HEAD + 8


class _Member(ctypes.Structure):
    """CPython's ``PyMemberDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    """CPython's ``PyType_Slot``."""

    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    """CPython's ``PyType_Spec``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_DEFAULT, _BASETYPE, _VECTORCALL = 1 << 18, 1 << 10, 1 << 11  # Py_TPFLAGS_*
_TP_CALL, _TP_MEMBERS = 50, 72  # Py_tp_call, Py_tp_members
_SSIZE, _READ_ONLY = 19, 1  # T_PYSSIZET, READONLY
_VECTORCALL_OFFSET, _FLAGS = 56, 168  # PyTypeObject.tp_vectorcall_offset, .tp_flags
_DESCRIPTIONS: list[Any] = []  # the interpreter keeps addresses of what describes a type


def _made_base() -> type:
    """A type whose instances have room for the address of code and for that of plans.

    Where there is code, the interpreter calls it (PEP 590) before it thinks of ``__call__``.
    """
    if not interpreter_is_known():
        return object
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _SSIZE, _CODE, _READ_ONLY, None))
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
    slots = (_Slot * 3)(
        _Slot(_TP_MEMBERS, ctypes.addressof(members)), _Slot(_TP_CALL, call), _Slot(0, None)
    )
    name = b"wia_compiler.runtime.native.callable.CodeHolder"
    flags = _DEFAULT | _BASETYPE | _VECTORCALL
    spec = _Spec(name, _TABLE + 8, 0, flags, slots)
    _DESCRIPTIONS.extend((members, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(spec))


if TYPE_CHECKING:
    _CodeHolder = object
else:
    _CodeHolder = _made_base()


class NativeCallable(_CodeHolder):
    """``self(*arrays, out=None, **keywords)`` through the plans that it learnt, else in Python.

    Returns one array, or a tuple where there are several results. ``out=`` takes the array (a tuple
    or mapping for several outputs) to write into; inout parameters are updated in place. Raises
    ``ArgumentError`` before anything runs.

    A subclass has ``_call_in_python`` with that signature, which may ``_learn_plan`` on its way.
    """

    def __init__(self) -> None:
        self._plans: list[Plan] = []
        self._table: Any = None

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
        if not _takes_code(type(self)):
            return False
        library = native_library()
        assert library is not None
        plans = [plan, *self._plans[: MAX_PLANS - 1]]
        table = (ctypes.c_void_p * (len(plans) + 1))(*(each.address for each in plans))
        ctypes.c_void_p.from_address(id(self) + _TABLE).value = ctypes.addressof(table)
        ctypes.c_void_p.from_address(id(self) + _CODE).value = library.function("call")
        self._plans, self._table = plans, table
        return True


@functools.cache
def _takes_code(kind: type[NativeCallable]) -> bool:
    """Whether instances of this class are called through their code from now on.

    A class made in Python does not inherit that from its base where it has a ``__call__``, so it is
    told here, once it is certain that a type's fields lie where they are taken to lie.
    """
    if kind.__call__ is not NativeCallable.__call__ or native_library() is None:
        return False
    flags = ctypes.c_ulong.from_address(id(kind) + _FLAGS)
    offset = ctypes.c_ssize_t.from_address(id(kind) + _VECTORCALL_OFFSET).value
    if flags.value != kind.__flags__ or offset != _CODE:
        return False
    flags.value |= _VECTORCALL
    modified = ctypes.pythonapi.PyType_Modified
    modified.restype, modified.argtypes = None, [ctypes.py_object]
    modified(kind)
    return bool(kind.__flags__ & _VECTORCALL)
