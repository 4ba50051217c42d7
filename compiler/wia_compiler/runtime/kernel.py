"""A kernel of a program: called on arrays, built for specs, bound to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.signature import KernelSignature
from wia_compiler.passes.options import CompileOptions
from wia_compiler.passes.target import Target
from wia_compiler.runtime.arguments import (
    Arguments,
    array_specs,
    known_arrays,
    read_arguments,
    read_specs,
)
from wia_compiler.runtime.binding import in_order, python_signature
from wia_compiler.runtime.bound_values import BoundArrays
from wia_compiler.runtime.build import Build
from wia_compiler.runtime.fast_call import MAX_KINDS, FastCalls, kind_of
from wia_compiler.runtime.launch import PreparedCall
from wia_compiler.runtime.native.callable import NativeCallable
from wia_compiler.runtime.native.learn import plan_of
from wia_compiler.runtime.schedules import GivenSchedule, read_schedules
from wia_compiler.runtime.session import KernelUnit, Session
from wia_compiler.runtime.specs import Spec

if TYPE_CHECKING:
    from wia_compiler.profiler.profile import Profile

DEFAULT_TARGET = "cpu"

IrForm = Literal["mlir", "chapter"]


class Kernel(NativeCallable):
    """One kernel: ``kernel(A, B)`` compiles once for each kind of arguments, and runs."""

    def __init__(
        self,
        unit: KernelUnit,
        session: Session,
        target: str = DEFAULT_TARGET,
        options: CompileOptions | None = None,
    ):
        """``options`` are by default what the text itself says: its ``schedule`` blocks."""
        super().__init__()
        self._unit = unit
        self._session = session
        self._target_name = target
        self._options = options or CompileOptions(schedules=unit.schedules)
        self._bound = BoundArrays(unit.signature, unit.bindings)
        self._target: Target | None = None
        self._builds: dict[tuple[Spec, ...], Build] = {}
        self._fast = FastCalls()
        self._names = tuple(parameter.name for parameter in unit.signature.passed)
        # What help() and a notebook's tooltips show.
        self.__name__ = unit.signature.name
        self.__signature__ = python_signature(unit.signature)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._unit.signature.name

    @property
    def signature(self) -> KernelSignature:
        """Its parameters as declared."""
        return self._unit.signature

    @property
    def source(self) -> str:
        """Its text, as written."""
        return self._unit.texts[0].text

    @property
    def unit(self) -> KernelUnit:
        """The kernel with the program it stands in."""
        return self._unit

    @property
    def target(self) -> Target:
        """The target that calls and builds use."""
        if self._target is None:
            self._target = self._session.make_target(self._target_name)
        return self._target

    def ir(self, form: IrForm = "mlir") -> str:
        """The kernel's high-level IR, before any shape is known.

        ``mlir`` is MLIR text; ``chapter`` the notation of WIA-AI-011, chapter 5.1.1::

            func @k(%A: tensor) -> tensor {
                %C = tensor.relu %A : (tensor) -> tensor
                return %C
            }
        """
        if form not in get_args(IrForm):
            raise ArgumentError(f"ir(form={form!r}): expected one of {', '.join(get_args(IrForm))}")
        from wia_compiler.dialects.text import print_ir
        from wia_compiler.frontend.chapter_form import chapter_text
        from wia_compiler.passes.kernel_function import kernel_function

        function = kernel_function(self._unit.program.module, self.name)
        return chapter_text(function) if form == "chapter" else print_ir(function)

    @property
    def options(self) -> CompileOptions:
        """What calls and builds ask of the compiler beside arguments and target."""
        return self._options

    def to(
        self,
        target: str | None = None,
        *,
        schedule: GivenSchedule = None,
        debug: bool | None = None,
        verify: bool | None = None,
    ) -> Kernel:
        """The same kernel for another target, or built in another way; ``None`` keeps what it has.

        ``schedule`` says how its loops run: a text of directives (``"tile i 128; keep"``), of whole
        ``schedule`` blocks, or what ``build.schedule`` printed; ``"default"`` leaves it to the
        target. ``debug`` checks every index of loop-level text while it runs; ``verify``
        compares every stage of each build with the kernel as written, and names the first pass that
        changed what it computes. ``TargetError`` lists the targets that exist, ``CompileError`` is
        raised for a schedule that cannot be read.
        """
        given = read_schedules(schedule, self.name)
        options = CompileOptions(
            self._options.debug if debug is None else debug,
            self._options.verify if verify is None else verify,
            self._options.schedules if given is None else given,
        )
        bound = Kernel(self._unit, self._session, target or self._target_name, options)
        bound._target = self._target if target is None else self._session.make_target(target)
        return bound

    def build(
        self,
        *arrays: Any,
        target: str | None = None,
        schedule: GivenSchedule = None,
        debug: bool | None = None,
        verify: bool | None = None,
        **keywords: Any,
    ) -> Build:
        """Code for the shapes and dtypes of the arguments, which are arrays or ``wia.spec``.

        Scalars may be left out: their values are no part of the code. ``target``, ``schedule``,
        ``debug`` and ``verify`` override the kernel's own (see ``to``).
        """
        kernel = self
        if not (target is None and schedule is None and debug is None and verify is None):
            kernel = self.to(target, schedule=schedule, debug=debug, verify=verify)
        specs = read_specs(self.signature, arrays, keywords, self._unit.bindings)
        if not kernel._options.verify:
            return kernel._build(specs)
        known = known_arrays(self.signature, arrays, keywords, self._unit.bindings)
        return kernel._build(specs, known)

    def _call_in_python(self, *arrays: Any, out: Any = None, **keywords: Any) -> Any:
        if keywords:
            ordered = in_order(self._names, arrays, keywords)
            if ordered is None:
                return self._call(arrays, out, keywords)[0].finish()
            return self(*ordered, out=out) if out is not None else self(*ordered)
        bound = self._bound.read() if self._bound else ()
        kind = kind_of((*arrays, *bound) if bound else arrays, out)
        fast = self._fast.get(kind)
        if fast is not None:
            result = fast(arrays, out, bound)
            if result is not None:
                return result
        call, build = self._call(arrays, out, keywords)
        plan = plan_of(build, arrays, out, call, self._unit.bindings)
        if plan is None or not self._learn_plan(plan):
            self._fast.learn(kind, build, arrays, out, call, bound)
        return call.finish()

    def profile(
        self,
        *arrays: Any,
        target: str | None = None,
        device: str | None = None,
        **keywords: Any,
    ) -> Profile:
        """Run live on the arguments: time, counters, and where that stands on the roofline.

        The caller's arrays are read and never written. ``device`` (``"H100"``) is the product whose
        time is estimated where a GPU's code runs on the simulator.
        """
        kernel = self if target is None else self.to(target)
        arguments = read_arguments(self.signature, arrays, keywords, self._unit.bindings)
        return kernel._build(arguments.specs).profile(*arrays, device=device, **keywords)

    def _call(
        self, arrays: Sequence[Any], out: object, keywords: Mapping[str, Any]
    ) -> tuple[PreparedCall, Build]:
        arguments = read_arguments(self.signature, arrays, keywords, self._unit.bindings)
        build = self._builds.get(arguments.specs)
        if build is None:
            build = self._remember_build(arguments)
        call = build.prepare_arguments(arguments, out)
        call.execute()
        return call, build

    def _remember_build(self, arguments: Arguments) -> Build:
        specs = arguments.specs
        if len(self._builds) >= MAX_KINDS:
            self._builds.clear()
        self._builds[specs] = self._build(specs, arguments.arrays)
        return self._builds[specs]

    def _build(
        self, specs: Sequence[Spec], inputs: Sequence[NDArray[Any] | None] | None = None
    ) -> Build:
        """``inputs`` is what ``verify`` runs the stages on."""
        arguments, options = array_specs(self.signature, specs), self._options
        asked = replace(options, inputs=inputs) if options.verify else options
        loaded, report = self._session.build(self._unit, arguments, self.target, asked)
        return Build(self._unit, loaded, report, self._session, options)

    def __repr__(self) -> str:
        target = self._target_name if self._target is None else self._target.name
        return f"<wia.Kernel {self.signature} for {target}>"
