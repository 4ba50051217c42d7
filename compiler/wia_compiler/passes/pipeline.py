"""The page: every step from a kernel's text to what a target runs, in order.

A stage's name is the name of its dump, of its cache entry and of its label in the explorer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp

from wia_compiler.base.record import Stage, Trace
from wia_compiler.base.settings import Settings
from wia_compiler.base.signature import KernelSignature
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.types import spec_of
from wia_compiler.passes.canonicalize import Canonicalize
from wia_compiler.passes.control_flow import copy_function
from wia_compiler.passes.counting import flops_of
from wia_compiler.passes.cse import Cse
from wia_compiler.passes.dce import Dce
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.expand import Expand
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fold_constants import FoldConstants
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.inline import Inline
from wia_compiler.passes.kernel_function import entry_of, functions_of, kernel_function, return_of
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.options import DEFAULT_OPTIONS, CompileOptions
from wia_compiler.passes.recorder import Recorder
from wia_compiler.passes.target import ArraySpec, Artifact, Target

if TYPE_CHECKING:
    from wia_compiler.passes.stage_check import StageCheck


def high_passes(
    arguments: Sequence[ArraySpec], patterns: Sequence[PatternDeclaration] = ()
) -> tuple[Pass, ...]:
    """Tensor ops to kernels of primitives; the stages ``source`` and ``import`` lie before."""
    return (
        Inline(),  # before shapes: a callee is specialised to what its caller passes
        InferShapes(tuple(arguments)),  # everything after it knows sizes and dtypes
        *_pattern_passes(patterns),  # on the user's own ops, as the pattern writes them
        Expand(),  # ops of several kernels, where there are any; what follows tidies their steps
        Canonicalize(),
        FoldConstants(),
        Cse(),  # after folding: constants that became equal merge
        Dce(),  # after CSE, before fusion: an unused op would count as another consumer
        Fusion(),  # on whole ops: a softmax is one candidate, not five
        Decompose(),  # after fusion, so that decisions speak of the user's ops
    )


def _pattern_passes(patterns: Sequence[PatternDeclaration]) -> tuple[Pass, ...]:
    """The stage ``patterns``, which programs without ``pattern`` blocks do not have."""
    if not patterns:
        return ()
    # It brings the reference, which rewrites are tried with.
    from wia_compiler.passes.apply_patterns import ApplyPatterns

    return (ApplyPatterns(tuple(patterns)),)


def mid_passes(arguments: Sequence[ArraySpec]) -> tuple[Pass, ...]:
    """Kernels of primitives to loop nests, the same for every target."""
    return (LowerToNestsPass(tuple(argument.strides for argument in arguments)),)


class Imported(Protocol):
    """What the front end leaves: ``ImportedProgram`` of ``frontend.import_dsl``."""

    @property
    def module(self) -> ModuleOp:
        """One function a kernel, not specialised."""
        ...

    @property
    def kernels(self) -> dict[str, KernelSignature]:
        """What each kernel takes and gives."""
        ...

    @property
    def patterns(self) -> tuple[PatternDeclaration, ...]:
        """The ``pattern`` blocks of the text, in order."""
        ...


@dataclass(frozen=True)
class Compiled:
    """A kernel for one target and one set of arguments.

    ``flops`` counts the operations of the kernel's ops by their declarations, once each, also those
    of a branch that may not run or of a loop that runs often (a ``count`` decision says so);
    ``bytes`` what must move at least: inputs that are used read once, outputs written once.
    ``read_trace`` gives the record.
    """

    artifact: Artifact
    read_trace: Callable[[], Trace]
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    flops: int
    bytes: int

    @functools.cached_property
    def trace(self) -> Trace:
        """The record of the compilation."""
        return self.read_trace()


def compile_kernel(
    imported: Imported,
    kernel: str,
    arguments: Sequence[ArraySpec],
    target: Target,
    *,
    options: CompileOptions = DEFAULT_OPTIONS,
    record: bool = True,
) -> Compiled:
    """Compile one kernel of a program for ``arguments``, its inputs in order.

    Writing down what every step leaves takes as long as the steps. Without ``record`` that is put
    off until someone asks for the record: then the steps are taken once more, and lead to the same
    stages, as lowering is deterministic. ``options.verify`` always records.

    Raises ``CompileError`` where the arguments do not fit the program, ``TargetError`` where the
    target cannot make code, with ``options.verify`` ``VerificationError`` where a pass changed the
    answer. ``imported`` is left as it is.
    """
    signature = imported.kernels[kernel]
    module = needed_functions(imported.module, kernel)
    context = PassContext(signature.source, kernel, target.facts, options=options)
    records = record or options.verify
    recorder = Recorder(module, context, Settings.read().verify, records=records)
    recorder.begin(signature)
    _run(recorder, high_passes(arguments)[:2])
    flops = flops_of(kernel_function(module, kernel))
    outputs = _outputs(module, kernel, signature)
    if options.verify:
        # It brings the interpreters of two levels, which no other build needs.
        from wia_compiler.passes.stage_check import StageCheck, inputs_for

        inputs = inputs_for(arguments, options.inputs)
        sums = flops if _splits_sums(options) else 0
        recorder.check = StageCheck.of(module, kernel, inputs, outputs, sums)
    _run(recorder, high_passes(arguments, imported.patterns)[2:])
    size_bytes = _compulsory_bytes(module, kernel, arguments, outputs)
    _run(recorder, mid_passes(arguments))
    _run(recorder, target.passes())
    artifact, stages = target.generate(module, context, [*arguments, *outputs])
    if recorder.check is not None:
        stages = _checked_code(recorder.check, artifact, target, stages)

    def read_trace() -> Trace:
        if not records:
            return compile_kernel(imported, kernel, arguments, target, options=options).trace
        return Trace(
            kernel,
            _signature_text(kernel, arguments),
            target.name,
            signature.source.text,
            (*recorder.stages, *stages),
            signature.source.name,
        )

    return Compiled(artifact, read_trace, tuple(arguments), outputs, flops, size_bytes)


def _splits_sums(options: CompileOptions) -> bool:
    """Whether a schedule lets sums that the text writes out be added in another order."""
    lines = (line for schedule in options.schedules for line in schedule.directives)
    return any(line.name == "accumulators" for line in lines)


def specialized(imported: Imported, kernel: str, arguments: Sequence[ArraySpec]) -> ModuleOp:
    """One kernel as written, with the types that it has for ``arguments``.

    What ``wia.reference`` runs: nothing is optimised. Raises ``CompileError`` where the arguments
    do not fit the program.
    """
    module = needed_functions(imported.module, kernel)
    signature = imported.kernels[kernel]
    context = PassContext(signature.source, kernel, TargetFacts("none", 0, 0.0, 0))
    for step in high_passes(arguments)[:2]:
        step.run(module, context)
    return module


def _checked_code(
    check: StageCheck, artifact: Artifact, target: Target, stages: Sequence[Stage]
) -> Sequence[Stage]:
    """The stages of code generation, the last of which says that the code was run."""
    *before, last = stages
    decisions = check.machine_code(artifact, target, last.name)
    return (*before, replace(last, decisions=(*last.decisions, *decisions)))


def _run(recorder: Recorder, passes: Sequence[Pass]) -> None:
    """Run passes in order; the last of each level is verified."""
    for number, step in enumerate(passes, start=1):
        if isinstance(step, Expand) and not step.applies(recorder.module, recorder.context):
            continue  # most kernels have no such op, and then there is no such stage
        ends_level = number == len(passes) or passes[number].level != step.level
        recorder.run(step, verify=ends_level)


def needed_functions(module: ModuleOp, kernel: str) -> ModuleOp:
    """A copy of the kernel and of what it calls, directly or not, in order of the text."""
    functions = functions_of(module)
    needed: set[str] = set()
    pending = [kernel_function(module, kernel)]
    while pending:
        function = pending.pop()
        needed.add(function.sym_name.data)
        called = [op.callee.string_value() for op in function.walk() if isinstance(op, CallOp)]
        pending += [functions[name] for name in called if name not in needed]
    return ModuleOp([copy_function(functions[name]) for name in functions if name in needed])


def _outputs(module: ModuleOp, kernel: str, signature: KernelSignature) -> tuple[ArraySpec, ...]:
    values = return_of(kernel_function(module, kernel)).operands
    return tuple(
        ArraySpec(name, spec_of(value.type))
        for name, value in zip(signature.output_names, values, strict=True)
    )


def _compulsory_bytes(
    module: ModuleOp, kernel: str, arguments: Sequence[ArraySpec], outputs: Sequence[ArraySpec]
) -> int:
    parameters = entry_of(kernel_function(module, kernel)).args
    read = (
        _distinct_bytes(argument)
        for argument, value in zip(arguments, parameters, strict=True)
        if value.first_use is not None
    )
    return sum(read) + sum(output.spec.size_bytes for output in outputs)


def _distinct_bytes(argument: ArraySpec) -> int:
    """Bytes of an array's elements, those of an axis of stride 0 once."""
    spec = argument.spec
    strides = argument.strides or (1,) * spec.rank
    sizes = [
        size if stride or not size else 1 for size, stride in zip(spec.shape, strides, strict=True)
    ]
    return math.prod(sizes) * spec.dtype.size_bytes


def _signature_text(kernel: str, arguments: Sequence[ArraySpec]) -> str:
    listed = ", ".join(f"{argument.name}: {argument.spec}" for argument in arguments)
    return f"{kernel}({listed})"
