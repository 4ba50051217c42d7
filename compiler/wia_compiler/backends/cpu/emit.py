"""The low level of a CPU to LLVM IR, assembly and an object file."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.cpu.elf import OBJECT, check_symbols, code_size
from wia_compiler.backends.cpu.host import Host
from wia_compiler.backends.cpu.lower import workspace_bytes
from wia_compiler.backends.cpu.optimise import needs_optimiser
from wia_compiler.base.record import Stage
from wia_compiler.base.source import Span
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.options import POOL, cpu_options
from wia_compiler.passes.llvm.spans import llvm_line_spans
from wia_compiler.passes.llvm.worker import CodeRequest, generate
from wia_compiler.passes.status_checks import checks_of
from wia_compiler.passes.target import ArraySpec, Artifact

_PLACE = re.compile(r"\s\.loc\s+\d+\s+(\d+)\s+(\d+)")
_DROPPED = re.compile(
    r"\s+\.(file|loc|cfi_\w+|p2align|type|size|globl|addrsig\w*|ident)\b|\.L(tmp|func)\w+:"
    r'|\s+\.section\s+"?\.(note|debug)|\s+\.intel_syntax|\s*$'
)


@dataclass(frozen=True)
class Listing:
    """Assembly without directives that do not matter to a reader, and where its lines came from."""

    text: str
    line_spans: Mapping[int, tuple[Span, ...]]


def entry_name(kernel: str) -> str:
    """The exported symbol: a C function that takes an array of pointers to the buffers."""
    return f"wia.{kernel}"


def generate_code(
    module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec], host: Host
) -> tuple[Artifact, Sequence[Stage]]:
    """Machine code for a lowered module, with the stages ``llvm`` and that of its assembly."""
    started = time.perf_counter_ns()
    emitted = emit_llvm(module, cpu_options(host.triple), context.source)
    written = time.perf_counter_ns()
    request = CodeRequest(
        emitted.text,
        host.triple,
        host.name,
        host.features,
        opt=2,
        tidy=not needs_optimiser(module),
        outputs=("assembly", "object"),
    )
    generated = generate(request)
    received = time.perf_counter_ns()
    listing = listing_of(generated.assembly, emitted.spans)
    check_symbols(generated.object, host.triple)
    finished = time.perf_counter_ns()
    stages = (
        Stage(
            "llvm",
            "low",
            "llvm",
            emitted.text,
            written - started,
            line_spans=llvm_line_spans(emitted),
        ),
        Stage(
            host.assembly,
            "machine",
            host.assembly,
            listing.text,
            generated.time_ns + finished - received,
            line_spans=listing.line_spans,
        ),
    )
    shares = f"@{POOL}(" in emitted.text
    artifact = Artifact(
        target=context.facts.name,
        kernel=context.kernel,
        files={OBJECT: generated.object},
        assembly={"llvm": emitted.text, host.assembly: listing.text},
        resources=resources_of(listing.text, generated.object, host.assembly),
        metadata={
            "entry": entry_name(context.kernel),
            "buffers": len(arguments),
            "workspace_bytes": workspace_bytes(module),
            "checks": checks_of(module, context.kernel, context.source),
            "interruptible": shares or "@wia.interrupted" in emitted.text,
            "parallel": shares,
        },
    )
    return artifact, stages


def listing_of(assembly: str, spans: Mapping[tuple[int, int], tuple[Span, ...]]) -> Listing:
    """What a reader wants of LLVM's assembly text: labels, instructions and constants."""
    lines: list[str] = []
    line_spans: dict[int, tuple[Span, ...]] = {}
    here: tuple[Span, ...] = ()
    for line in assembly.splitlines():
        place = _PLACE.match(line)
        if place is not None:
            here = spans.get((int(place[1]), int(place[2])), ())
        if _DROPPED.match(line):
            continue
        lines.append(line.expandtabs(8))
        is_instruction = line.startswith("\t") and not line.startswith("\t.")
        if here and is_instruction:
            line_spans[len(lines)] = here
        if line.startswith("\t.section") or line.startswith("\t.text"):
            here = ()
    return Listing("\n".join(lines) + "\n", line_spans)


def resources_of(listing: str, object_: bytes, assembly: str = "x86") -> Mapping[str, Any]:
    """What the code takes: its size, the widest vector it computes with, its use of the stack.

    ``stack_bytes`` is the largest frame and ``stack_accesses`` counts instructions that read or
    write one: spilled registers, and register buffers that did not become registers.
    """
    words = _WORDS[assembly]
    frames = [int(size, 0) << int(shift or 0) for size, shift in re.findall(words.frame, listing)]
    widths = (bits for bits, used in words.vectors if re.search(used, listing, re.MULTILINE))
    return {
        "code_bytes": code_size(object_),
        "vector_bits": next(widths, 0),
        "stack_bytes": max(frames, default=0),
        "stack_accesses": len(re.findall(words.stack, listing)),
    }


@dataclass(frozen=True)
class _Words:
    """Patterns of an assembly: what makes a frame, what reads one, vectors from the widest on.

    The groups of ``frame`` are a size and by how many bits that is shifted.
    """

    frame: str
    stack: str
    vectors: tuple[tuple[int, str], ...]


_WORDS = {
    "x86": _Words(
        r"\bsub\s+rsp, (\w+)()",
        r"\[(?:rsp|rbp)\b",
        ((512, "zmm"), (256, "ymm"), (128, r"^\s+v?(p\w+|\w+p[sd])\s+xmm")),
    ),
    "aarch64": _Words(
        r"\bsub\s+\w+, sp, #(\w+)(?:, lsl #(\d+))?",
        r"\[sp\b",
        ((128, r"\bv\d+\.(16b|8h|4s|2d)\b"), (64, r"\bv\d+\.(8b|4h|2s)\b")),
    ),
}
