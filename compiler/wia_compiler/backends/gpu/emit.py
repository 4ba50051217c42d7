"""From kernels to PTX, and from there to what ptxas and nvdisasm say about it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.bounds import relax_bounds
from wia_compiler.backends.gpu.launch import plan_of
from wia_compiler.backends.gpu.machine_code import machine_code
from wia_compiler.backends.gpu.resources import resources_of
from wia_compiler.backends.gpu.sass import parse_sass
from wia_compiler.backends.gpu.tools import disassemble
from wia_compiler.base.errors import TargetError
from wia_compiler.base.record import Stage
from wia_compiler.base.source import Source, Span
from wia_compiler.passes.llvm.emit import EmittedModule, emit_llvm
from wia_compiler.passes.llvm.nvgpu_support import check_architecture
from wia_compiler.passes.llvm.options import nvptx_options
from wia_compiler.passes.llvm.spans import llvm_line_spans
from wia_compiler.passes.llvm.worker import CodeRequest, Generated
from wia_compiler.passes.llvm.worker import generate as generate_code
from wia_compiler.passes.status_checks import checks_of
from wia_compiler.passes.target import Artifact

TRIPLE = "nvptx64-nvidia-cuda"
OPTIMIZATION_LEVEL = 3
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
_EXTERNAL = re.compile(r"^\s*\.extern\s+\.func.*?([\w.$]+)\s*(?:\(|$)", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+\s+)?[a-z][\w.]*\b.*;")

LineSpans = Mapping[int, tuple[Span, ...]]


@dataclass(frozen=True)
class GpuCode:
    """What ``generate`` leaves: an artifact, and the stages on the way to it."""

    artifact: Artifact
    stages: tuple[Stage, ...]


def generate(
    module: ModuleOp,
    *,
    target: str,
    kernel: str,
    source: Source,
    architecture: Architecture,
    with_sass: bool = True,
) -> GpuCode:
    """PTX, and where ptxas is there the cubin and resources, of a lowered module.

    ``with_sass`` off leaves SASS out of what ``sass_stage`` is asked for later.
    """
    entries = entry_names(module, kernel)
    plan = plan_of(module, entries)
    started = time.perf_counter_ns()
    emitted = _emit(module, entries, source)
    llvm_done = time.perf_counter_ns()
    generated = _generated(emitted.text, architecture)
    ptx = generated.assembly
    spans = ptx_line_spans(ptx, emitted.spans)
    machine = machine_code(ptx, architecture)
    if machine.log is not None and (relaxed := relax_bounds(ptx, machine.log, architecture)) != ptx:
        ptx, machine = relaxed, machine_code(relaxed, architecture)
    llvm_spans = llvm_line_spans(emitted)
    stages = [
        Stage("llvm", "low", "llvm", emitted.text, llvm_done - started, line_spans=llvm_spans),
        Stage("ptx", "machine", "ptx", ptx, generated.time_ns, line_spans=spans),
    ]
    files = {"kernel.ptx": ptx.encode()}
    assembly = {"llvm": emitted.text, "ptx": ptx}
    metadata = {**plan.to_metadata(), "checks": checks_of(module, kernel, source)}
    if machine.cubin is not None:
        files["kernel.cubin"] = machine.cubin
    resources = resources_of(architecture, plan.launches, machine.log, cubin=machine.cubin)
    if machine.missing is not None:
        resources["missing"] = machine.missing
    later = ("sass",) if with_sass and machine.has_sass else ()
    artifact = Artifact(target, kernel, files, assembly, resources, metadata, later)
    return GpuCode(artifact, tuple(stages))


def sass_stage(cubin: bytes, spans: LineSpans) -> Stage:
    """What nvdisasm makes of the code; ``spans`` are those of the PTX.

    It takes longer than ptxas, half a second and more, so that only who looks at SASS waits for it.
    """
    started = time.perf_counter_ns()
    sass = parse_sass(disassemble(cubin))
    traced = {line: spans[at] for line, at in sass.ptx_lines.items() if at in spans}
    spent = time.perf_counter_ns() - started
    return Stage(
        "sass", "machine", "sass", sass.text, spent, line_spans=traced, made_of=sass.ptx_lines
    )


def _generated(llvm: str, architecture: Architecture) -> Generated:
    check_architecture(llvm, architecture.capability)
    features = f"+{architecture.ptx_version}"
    request = CodeRequest(
        llvm, TRIPLE, architecture.name, features, opt=OPTIMIZATION_LEVEL, vectorize=False
    )
    generated = generate_code(request)
    refuse_calls(generated.assembly)
    return generated


def entry_names(module: ModuleOp, kernel: str) -> Mapping[str, str]:
    """What each kernel is called in the PTX: a lone one ``NAME_kernel``, several as their nests."""
    nests = [op.sym_name.data for op in functions_of(module) if "gpu.kernel" in op.attributes]
    if len(nests) == 1:
        return {nests[0]: kernel if kernel.endswith("_kernel") else f"{kernel}_kernel"}
    return {name: name for name in nests}


def functions_of(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp)]


def _emit(module: ModuleOp, entries: Mapping[str, str], source: Source) -> EmittedModule:
    copy = module.clone()
    for function in functions_of(copy):
        entry = entries.get(function.sym_name.data)
        if entry is None:
            function.detach()
        else:
            function.sym_name = StringAttr(entry)
    return emit_llvm(copy, nvptx_options(), source)


def refuse_calls(ptx: str) -> None:
    """``TargetError`` where the PTX calls a function that it does not define.

    LLVM takes an intrinsic it does not know for such a function without a word.
    """
    names = sorted(set(_EXTERNAL.findall(ptx)))
    if names:
        raise TargetError(
            f"the PTX calls {', '.join(names)}, which it does not define: "
            "an op was lowered to an intrinsic that this target does not have"
        )


def ptx_line_spans(ptx: str, spans: Mapping[tuple[int, int], tuple[Span, ...]]) -> LineSpans:
    """For each instruction's line (from 1), the source spans of the last ``.loc`` before it."""
    found: dict[int, tuple[Span, ...]] = {}
    current: tuple[Span, ...] = ()
    for number, line in enumerate(ptx.split("\n"), start=1):
        if line.startswith((".visible", "}")):
            current = ()
        elif match := _LOC.match(line):
            place = (int(match[1]), int(match[2]))
            # Line 0 marks what LLVM moved or joined: it serves the statement it stands in.
            current = spans.get(place, ()) if place[0] else current
        elif current and _INSTRUCTION.match(line):
            found[number] = current
    return found
