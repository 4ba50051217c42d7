"""Loads objects into this process and calls them on numpy arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.backends.cpu.elf import OBJECT, check_symbols, undefined_symbols
from wia_compiler.backends.cpu.fastcall import fast_caller
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.backends.cpu.threads import start_pool
from wia_compiler.passes.llvm.library import llvm_binding
from wia_compiler.passes.llvm.options import POOL
from wia_compiler.passes.status_record import raise_failure
from wia_compiler.passes.target import Artifact, NativeCode

Array = NDArray[Any]
_NO_COUNTERS: Mapping[str, int | float] = {}
_LOADING = threading.Lock()


class CpuExecutable:
    """A kernel's machine code in this process.

    Calls may overlap: the code keeps no state, and the interpreter lock is released while it runs.
    Arrays must be what the kernel was built for (specs and strides): nothing is checked here. A
    kernel that may run for long (``interruptible``) stops at a signal, such as that of Ctrl-C, and
    the exception of its handler is raised. ``checks`` are what its code checks as it runs: the
    first access of a call outside its array raises ``OutOfRangeError``.
    """

    def __init__(
        self,
        engine: Any,
        address: int,
        buffers: int,
        workspace_bytes: int,
        *,
        interruptible: bool = False,
        checks: Sequence[Mapping[str, Any]] = (),
    ):
        self._engine = engine  # keeps the code in memory
        self._address = address
        self._workspace_bytes = workspace_bytes
        self._workspaces: list[Array] = []
        self._checks = checks
        self._interruptible = interruptible
        # ctypes looks for an exception only where it keeps the interpreter lock.
        prototype = ctypes.PYFUNCTYPE if interruptible else ctypes.CFUNCTYPE
        self._function = prototype(None, ctypes.c_void_p)(address)
        self._fast = fast_caller(address, buffers + 1)

    @property
    def native(self) -> NativeCode:
        """The entry for callers that are machine code themselves."""
        return NativeCode(
            self._address,
            self._workspace_bytes,
            self._interruptible,
            self._raise_noted if self._checks else None,
            owner=self,
        )

    def _raise_noted(self, record: bytes) -> None:
        raise_failure(np.frombuffer(record, np.uint8), self._checks)

    @property
    def entry_address(self) -> int:
        """Address of ``void entry(void *buffers[])``: inputs, outputs, then the workspace."""
        return self._address

    @property
    def entry_function(self) -> Any:
        """The entry as a ctypes function of one pointer.

        It releases the interpreter lock, but for a kernel that may run for long.
        """
        return self._function

    @property
    def workspace_bytes(self) -> int:
        """How large the workspace must be (aligned to 64 bytes); 0 where there is none."""
        return self._workspace_bytes

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Mapping[str, int | float]:
        """Run on these arrays; outputs are written in place."""
        if not self._workspace_bytes:
            self._run(tuple(inputs), tuple(outputs), None)
            return _NO_COUNTERS
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = _aligned_bytes(self._workspace_bytes)
        try:
            self._run(tuple(inputs), tuple(outputs), workspace)
            if self._checks:
                raise_failure(workspace, self._checks)
        finally:
            self._workspaces.append(workspace)
        return _NO_COUNTERS

    def _run(
        self, inputs: tuple[Array, ...], outputs: tuple[Array, ...], workspace: Array | None
    ) -> None:
        scratch = () if workspace is None else (workspace,)
        if self._fast is not None and self._fast(inputs, outputs, scratch):
            return
        addresses = [array.ctypes.data for array in (*inputs, *outputs, *scratch)]
        self._function((ctypes.c_void_p * len(addresses))(*addresses))


def load_executable(artifact: Artifact) -> CpuExecutable:
    """Load the object of an artifact and find its entry."""
    llvm = llvm_binding()
    object_ = artifact.files[OBJECT]
    check_symbols(object_, this_host().triple)
    with _LOADING:
        if POOL in undefined_symbols(object_):
            start_pool()
        engine = _engine(llvm)
        engine.add_object_file(llvm.ObjectFileRef.from_data(object_))
        engine.finalize_object()
        address = engine.get_function_address(artifact.metadata["entry"])
    metadata = artifact.metadata
    return CpuExecutable(
        engine,
        address,
        metadata["buffers"],
        metadata["workspace_bytes"],
        interruptible=metadata.get("interruptible", False),
        checks=metadata["checks"],
    )


def _engine(llvm: Any) -> Any:
    """An execution engine of its own for one object, so that its code is freed with it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(this_host().triple).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _aligned_bytes(size: int) -> Array:
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
