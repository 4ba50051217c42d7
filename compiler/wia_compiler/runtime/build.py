"""A kernel built for given shapes, dtypes and target: its record, its texts, and a call."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError, TargetError
from wia_compiler.base.record import Stage, Trace
from wia_compiler.base.schedule import schedule_text
from wia_compiler.base.signature import KernelSignature
from wia_compiler.passes.options import DEFAULT_OPTIONS, CompileOptions
from wia_compiler.passes.target import ArraySpec, Artifact, Executable, Target
from wia_compiler.runtime.arguments import Arguments, read_arguments
from wia_compiler.runtime.binding import in_order
from wia_compiler.runtime.bound_values import BoundArrays
from wia_compiler.runtime.built import LoadedKernel
from wia_compiler.runtime.fast_call import FastCalls, kind_of
from wia_compiler.runtime.launch import PreparedCall, prepare_call
from wia_compiler.runtime.native.callable import NativeCallable
from wia_compiler.runtime.native.learn import plan_of
from wia_compiler.runtime.schedules import GivenSchedule, read_schedules
from wia_compiler.runtime.session import CacheReport, KernelUnit, Session
from wia_compiler.runtime.specs import Spec

if TYPE_CHECKING:
    from wia_compiler.backends.gpu.sass_table import SassRow
    from wia_compiler.profiler.profile import Profile


class Build(NativeCallable):
    """What ``kernel.build`` gives: one specialisation of a kernel for one target.

    ``trace`` is the record of how it came about, ``cache`` where it came from, ``inputs`` and
    ``outputs`` what it takes and gives, ``flops`` its arithmetic and ``size_bytes`` its compulsory
    traffic. Calling it runs the code that was built.
    """

    def __init__(
        self,
        unit: KernelUnit,
        loaded: LoadedKernel,
        cache: CacheReport,
        session: Session,
        options: CompileOptions = DEFAULT_OPTIONS,
    ):
        super().__init__()
        self._unit = unit
        self._options = options
        self._session = session
        self._loaded = loaded
        self._fast = FastCalls()
        self._names = tuple(parameter.name for parameter in unit.signature.passed)
        self._bound = BoundArrays(unit.signature, unit.bindings)
        self.cache = cache

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self._unit.signature.name

    @property
    def signature(self) -> KernelSignature:
        """The kernel's parameters as its text declares them."""
        return self._unit.signature

    @property
    def target(self) -> Target:
        """What it was built for."""
        return self._loaded.target

    def to(self, target: str | None = None, *, schedule: GivenSchedule = None) -> Build:
        """The same shapes and dtypes for another target or by another schedule, as ``Kernel.to``.

        ``TargetError`` lists the targets that exist, or says what this one cannot do;
        ``CompileError`` says at its line why a schedule cannot be.
        """
        bound = self.target if target is None else self._session.make_target(target)
        given = read_schedules(schedule, self.kernel)
        options = (
            self._options if given is None else dataclasses.replace(self._options, schedules=given)
        )
        loaded, cache = self._session.build(self._unit, self.inputs, bound, options)
        return Build(self._unit, loaded, cache, self._session, options)

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Shape, dtype and layout of each argument, in order (scalars have no axes)."""
        return self._loaded.built.inputs

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        """Shape and dtype of each result, in order."""
        return self._loaded.built.outputs

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, counted from the high-level IR."""
        return self._loaded.built.flops

    @property
    def size_bytes(self) -> int:
        """Compulsory traffic of one call: every input read once, every output written once."""
        return self._loaded.built.size_bytes

    @functools.cached_property
    def trace(self) -> Trace:
        """The record of the compilation.

        ``source`` is the program's text of this moment: kernels in the cache outlive changes of the
        text around them.
        """
        source, made = self._unit.signature.source, self._loaded.trace
        stages = (*made.stages, *self._loaded.later_stages)
        return dataclasses.replace(made, stages=stages, source=source.text, source_name=source.name)

    @property
    def stages(self) -> list[Stage]:
        """Every stage in order, from the text to the machine."""
        return list(self.trace.stages)

    def stage(self, name: str) -> Stage:
        """The stage of that name; ``ArgumentError`` lists the names that exist."""
        is_later = name in self.artifact.later
        for stage in self._loaded.later_stages if is_later else self._loaded.trace.stages:
            if stage.name == name:
                return stage
        names = [*(stage.name for stage in self._loaded.trace.stages), *self.artifact.later]
        raise ArgumentError(f"{self.kernel}: no stage {name!r}, {_expected(name, names)}")

    @property
    def schedule(self) -> str:
        """How its loops run: the ``schedule`` blocks that were applied, as the language reads them.

        They are the user's where there are some, else what the target chose; pasted into the text
        or given as ``schedule=``, they give the same code.
        """
        return schedule_text(self.kernel, self._loaded.trace.decisions)

    @property
    def artifact(self) -> Artifact:
        """What code generation left: files, texts, resources, metadata."""
        return self._loaded.built.artifact

    @property
    def formats(self) -> list[str]:
        """The names that ``assembly`` takes."""
        return [*self.artifact.assembly, *self.artifact.later]

    def assembly(self, format: str) -> str:
        """The text in that format: ``ptx``, ``sass``, ``tpu``, ``x86``, ``llvm`` …

        ``TargetError`` lists the formats that exist for this target.
        """
        if format in self.artifact.later:
            return self.stage(format).text
        try:
            return self.artifact.assembly[format]
        except KeyError:
            missing = self.resources.get("missing")
            remedy = missing or "build it for a target that has it; wia doctor lists missing tools"
            raise TargetError(
                f"{self.kernel}: no {format!r} text for target {self.target.name}, "
                f"{_expected(format, self.formats)}\n  help: {remedy}"
            ) from None

    @functools.cached_property
    def sass(self) -> tuple[SassRow, ...]:
        """The SASS as a table: opcode, operands, unit, line of the PTX, places of the source.

        ``TargetError`` where there is no SASS (see ``assembly``).
        """
        from wia_compiler.backends.gpu.sass_table import sass_rows

        text = self.assembly("sass")
        stage = self.stage("sass")
        return sass_rows(text, stage.made_of, stage.line_spans)

    @property
    def resources(self) -> Mapping[str, Any]:
        """Registers, shared memory, spills, occupancy, code size … where the target has them."""
        return self.artifact.resources

    @property
    def executable(self) -> Executable:
        """The code, loaded; ``TargetError`` where this machine lacks what that needs."""
        return self._loaded.executable

    @property
    def simulated(self) -> bool:
        """Whether running it means running its text on a simulator."""
        return getattr(self.executable, "simulate", None) is not None

    def prepare(self, *arrays: Any, out: object = None, **keywords: Any) -> PreparedCall:
        """Check the arguments and allocate the outputs; running is then ``execute()``.

        For timing and counting: ``execute()`` may be repeated, ``finish()`` gives the result.
        """
        arguments = read_arguments(self.signature, arrays, keywords, self._unit.bindings)
        return self.prepare_arguments(arguments, out)

    def prepare_arguments(self, arguments: Arguments, out: object = None) -> PreparedCall:
        """As ``prepare``, for arguments that have been read already."""
        inputs = [
            self._as_built(array, came, built)
            for array, came, built in zip(
                arguments.arrays, arguments.specs, self.inputs, strict=True
            )
        ]
        return prepare_call(
            self.signature,
            self.executable,
            inputs,
            self.outputs,
            inouts=arguments.inouts,
            out=out,
        )

    def _call_in_python(self, *arrays: Any, out: Any = None, **keywords: Any) -> Any:
        if keywords:
            ordered = in_order(self._names, arrays, keywords)
            if ordered is not None:
                return self(*ordered, out=out) if out is not None else self(*ordered)
        bound = self._bound.read() if self._bound else ()
        kind = kind_of((*arrays, *bound) if bound else arrays, out)
        fast = None if keywords else self._fast.get(kind)
        if fast is not None:
            result = fast(arrays, out, bound)
            if result is not None:
                return result
        call = self.prepare(*arrays, out=out, **keywords)
        call.execute()
        if not keywords:
            plan = plan_of(self, arrays, out, call, self._unit.bindings)
            if plan is None or not self._learn_plan(plan):
                self._fast.learn(kind, self, arrays, out, call, bound)
        return call.finish()

    def profile(self, *arrays: Any, device: str | None = None, **keywords: Any) -> Profile:
        """Run live on the arguments: time, counters, and where that stands on the roofline.

        The caller's arrays are read and never written. ``device`` (``"H100"``) is the product whose
        time is estimated where a GPU's code runs on the simulator.
        """
        from wia_compiler.runtime.profiling import profile_build

        return profile_build(self, arrays, keywords, device=device)

    def _as_built(self, array: NDArray[Any], came: Spec, built: ArraySpec) -> NDArray[Any]:
        expected = Spec(built.spec.shape, built.spec.dtype, built.strides)
        if came == expected:
            return array
        same_elements = came.shape == expected.shape and came.dtype == expected.dtype
        if same_elements and expected.strides is None:
            return array.copy(order="C")
        raise ArgumentError(
            f"{self.kernel}({built.name}): got {came}, this was built for {expected}\n"
            f"  help: call the kernel itself, which builds for what it is given"
        )

    def __repr__(self) -> str:
        arguments = ", ".join(
            f"{spec.name}: {Spec(spec.spec.shape, spec.spec.dtype, spec.strides)}"
            for spec in self.inputs
        )
        results = ", ".join(str(Spec(spec.spec.shape, spec.spec.dtype)) for spec in self.outputs)
        return (
            f"<wia.Build {self.kernel}({arguments}) -> {results} for {self.target.name}: "
            f"{self.cache}; assembly: {', '.join(self.formats) or 'none'}>"
        )


def _expected(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"expected one of {', '.join(names) or 'none'}{hint}"
