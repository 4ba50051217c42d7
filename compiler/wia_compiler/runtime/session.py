"""From a kernel and its argument types to code: memory, then disk, then the compiler."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from wia_compiler.base.disk_cache import DiskCache
from wia_compiler.base.errors import WiaError
from wia_compiler.base.record import Stage, Trace, stages_to_json
from wia_compiler.base.schedule import Schedule
from wia_compiler.base.settings import Settings
from wia_compiler.base.signature import KernelSignature
from wia_compiler.passes.options import DEFAULT_OPTIONS, CompileOptions
from wia_compiler.passes.target import ArraySpec, Artifact, LaterStages, Target
from wia_compiler.runtime.bound_values import BoundNumber
from wia_compiler.runtime.built import LATER, TRACE, BuiltKernel, LoadedKernel, decode, encode
from wia_compiler.runtime.cache_key import ArgumentKey, CacheKey, KernelText, versions

if TYPE_CHECKING:
    from wia_compiler.frontend import syntax
    from wia_compiler.frontend.import_dsl import ImportedProgram
    from wia_compiler.passes.pipeline import Compiled

LOGGER = logging.getLogger("wia")

Hit = Literal["memory", "disk", "miss"]


class CompileFunction(Protocol):
    """The compiler's pipeline as builds call it."""

    def __call__(
        self,
        program: ImportedProgram,
        kernel: str,
        arguments: Sequence[ArraySpec],
        target: Target,
        *,
        options: CompileOptions,
        record: bool,
    ) -> Compiled:
        """One kernel for one target and one set of arguments; ``record``: its record is wanted."""
        ...


# Kernels that stay loaded in this process; the least recently used one makes room.
MEMORY_ENTRIES = 256


@dataclass(frozen=True)
class KernelUnit:
    """One kernel of a program with everything its code depends on but the arguments.

    ``texts`` holds the kernel and those it calls, as written in ``language``. ``bindings`` are the
    values of free names: arrays are looked up there at each call, ``numbers`` are what the text
    took from there for good. ``tree`` is the program as written, for kernels that call this one.
    ``schedules`` are the blocks of the text that are for this kernel.
    """

    program: ImportedProgram
    signature: KernelSignature
    texts: tuple[KernelText, ...]
    language: str = "wia"
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    numbers: tuple[BoundNumber, ...] = ()
    tree: syntax.Program | None = None
    schedules: tuple[Schedule, ...] = ()


@dataclass(frozen=True)
class CacheReport:
    """Where a build came from.

    ``hit`` is ``"memory"``, ``"disk"`` or ``"miss"``; ``compile_time_ns`` is what the compiler took
    when it made the code (here or in an earlier process), ``build_time_ns`` what this build took.
    """

    hit: Hit
    key: CacheKey
    digest: str
    compile_time_ns: int
    build_time_ns: int

    def __str__(self) -> str:
        where = {"memory": "from memory", "disk": "from disk", "miss": "compiled"}[self.hit]
        return f"{where} in {self.build_time_ns / 1e6:.1f} ms"


_RECORDING: ContextVar[bool] = ContextVar("recording", default=False)


@contextlib.contextmanager
def recording(wanted: bool = True) -> Generator[None]:
    """Builds inside write their record as they go.

    For those who look at it anyway: a record that is asked for later takes all steps once more.
    """
    token = _RECORDING.set(wanted)
    try:
        yield
    finally:
        _RECORDING.reset(token)


@dataclass
class Session:
    """What builds share in one process: loaded kernels, the cache on disk, targets.

    ``compile_kernel`` is the compiler's pipeline and ``make_target`` finds targets by name; tests
    put their own in place.
    """

    compile_kernel: CompileFunction
    make_target: Callable[[str], Target]
    _loaded: OrderedDict[str, LoadedKernel] = field(
        default_factory=OrderedDict[str, LoadedKernel], init=False
    )
    _disks: dict[tuple[Any, ...], DiskCache] = field(
        default_factory=dict[tuple[Any, ...], DiskCache], init=False
    )
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def build(
        self,
        unit: KernelUnit,
        arguments: Sequence[ArraySpec],
        target: Target,
        options: CompileOptions = DEFAULT_OPTIONS,
    ) -> tuple[LoadedKernel, CacheReport]:
        """Code for these arguments, compiled only where neither memory nor disk has it.

        With ``options.verify`` it is always compiled: the stages are what is verified.
        """
        started = time.perf_counter_ns()
        key = cache_key(unit, arguments, target, options)
        digest = key.digest
        with self._lock:
            hit: Hit = "memory"
            loaded = None if options.verify else self._loaded.get(digest)
            if loaded is None:
                hit, built = self._from_disk_or_compiler(unit, arguments, target, key, options)
                loaded = LoadedKernel(built, target)
                self._loaded[digest] = loaded
                if len(self._loaded) > MEMORY_ENTRIES:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(digest)
        took = time.perf_counter_ns() - started
        report = CacheReport(hit, key, digest, loaded.built.compile_time_ns, took)
        level = logging.INFO if hit == "miss" else logging.DEBUG
        suffix = "" if hit == "miss" else f" ({hit})"
        LOGGER.log(level, "JIT %s: %.1f ms%s", key.kernel, took / 1e6, suffix)
        return loaded, report

    def disk_cache(self) -> DiskCache:
        """The cache in the folder, and of the size, that the environment names at this moment."""
        settings = read_settings()
        place = (settings.cache_dir, settings.cache_size_bytes)
        with self._lock:
            if place not in self._disks:
                self._disks[place] = DiskCache(
                    settings.cache_dir / "kernels", settings.cache_size_bytes
                )
            return self._disks[place]

    def forget(self) -> None:
        """Drop every kernel from memory; those in use stay alive."""
        from wia_compiler.backends.gpu.machine_code import assembled
        from wia_compiler.passes.llvm.worker import generate

        with self._lock:
            self._loaded.clear()
            generate.cache_clear()
            assembled.cache_clear()

    def _from_disk_or_compiler(
        self,
        unit: KernelUnit,
        arguments: Sequence[ArraySpec],
        target: Target,
        key: CacheKey,
        options: CompileOptions,
    ) -> tuple[Hit, BuiltKernel]:
        disk, digest = self.disk_cache(), key.digest

        def compiled(record: bool) -> Compiled:
            return self.compile_kernel(
                unit.program, key.kernel, arguments, target, options=options, record=record
            )

        def make_trace() -> Trace:
            return _kept(compiled(record=True).trace, disk, digest)

        def make_later(artifact: Artifact, trace: Trace) -> tuple[Stage, ...]:
            made = tuple(cast(LaterStages, target).later_stages(artifact, trace))
            disk.extend(digest, LATER, stages_to_json(made).encode())
            return made

        files = None if options.verify else disk.read(digest)
        stored = decode(key, files, make_trace, make_later) if files is not None else None
        if stored is not None:
            return "disk", stored
        started = time.perf_counter_ns()
        fresh = compiled(record=options.verify or _RECORDING.get())
        built = BuiltKernel(
            key=key,
            artifact=fresh.artifact,
            inputs=tuple(fresh.inputs),
            outputs=tuple(fresh.outputs),
            flops=fresh.flops,
            size_bytes=fresh.bytes,
            compile_time_ns=time.perf_counter_ns() - started,
            read_trace=lambda: _kept(fresh.trace, disk, digest),
            read_later=lambda trace: make_later(fresh.artifact, trace),
        )
        disk.write(digest, encode(built))
        return "miss", built


def _kept(trace: Trace, disk: DiskCache, digest: str) -> Trace:
    """The record, once it lies beside its kernel on disk."""
    disk.extend(digest, TRACE, trace.to_json().encode())
    return trace


def cache_key(
    unit: KernelUnit,
    arguments: Sequence[ArraySpec],
    target: Target,
    options: CompileOptions = DEFAULT_OPTIONS,
) -> CacheKey:
    """The key of one specialisation: all that its code depends on."""
    return CacheKey(
        kernel=unit.signature.name,
        sources=unit.texts,
        arguments=tuple(_argument_key(argument) for argument in arguments),
        target=target.name,
        options=tuple(target.options),
        flags=(
            f"language {unit.language}",
            *_schedule_flags(options),
            *(f"binding {number.name} = {number.value!r}" for number in unit.numbers),
            *(("debug",) if options.debug else ()),
        ),
        versions=versions(),
    )


def _schedule_flags(options: CompileOptions) -> tuple[str, ...]:
    written = tuple(" ".join(str(each).split()) for each in options.schedules or ())
    return written or ("schedule default",)


def _argument_key(argument: ArraySpec) -> ArgumentKey:
    layout = "C" if argument.strides is None else f"strides {','.join(map(str, argument.strides))}"
    return ArgumentKey(argument.name, argument.spec.dtype.name, argument.spec.shape, layout)


def read_settings() -> Settings:
    """The settings of this moment; a value that cannot be read is a ``WiaError`` naming it."""
    try:
        return Settings.read()
    except ValueError as error:
        raise WiaError(str(error)) from None


@functools.cache
def default_session() -> Session:
    """The session that ``wia.compile`` builds in: one a process."""
    from wia_compiler.runtime.targets import make_target

    return Session(_compile_kernel, make_target)


def _compile_kernel(
    program: ImportedProgram,
    kernel: str,
    arguments: Sequence[ArraySpec],
    target: Target,
    *,
    options: CompileOptions,
    record: bool,
) -> Compiled:
    # The passes take a while to import, and a kernel that lies in the cache needs none of them.
    from wia_compiler.passes.pipeline import compile_kernel

    return compile_kernel(program, kernel, arguments, target, options=options, record=record)
