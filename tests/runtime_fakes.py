"""A target whose machine is the reference interpreter, so that the runtime is tested alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from wia_compiler.base.dtypes import from_numpy
from wia_compiler.base.record import Decision, OpRow, Stage, Trace
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import ImportedProgram, import_program
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.options import CompileOptions
from wia_compiler.passes.recording.source_stage import source_stage
from wia_compiler.passes.target import ArraySpec, Artifact, Executable, Target
from wia_compiler.reference.interpret import run
from wia_compiler.runtime.program import Program, load_program
from wia_compiler.runtime.session import Session


@dataclass(frozen=True)
class FakeCompiled:
    """What the pipeline gives."""

    artifact: Artifact
    trace: Trace
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    flops: int
    bytes: int


@dataclass(frozen=True)
class FakeExecutable:
    """Runs a kernel's text on the reference interpreter."""

    program: ImportedProgram
    kernel: str

    def __call__(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Mapping[str, int | float]:
        results = run(self.program, self.kernel, list(inputs))
        for output, result in zip(outputs, results, strict=True):
            assert output.flags.c_contiguous and output.flags.aligned
            output[...] = result
        return {"runs": 1}


@dataclass(frozen=True)
class FakeTarget:
    """``fake``, or any other name that a test gives it."""

    name: str = "fake"
    options: tuple[str, ...] = ("option 1",)

    @property
    def facts(self) -> TargetFacts:
        return TargetFacts(self.name, 32, 0.1, 1000)

    def passes(self) -> Sequence[Any]:
        return ()

    def generate(self, module: Any, context: Any, arguments: Any) -> Any:
        raise NotImplementedError

    def load(self, artifact: Artifact) -> Executable:
        text = artifact.files["kernel.wia"].decode()
        return FakeExecutable(import_program(parse(Source(text))), artifact.kernel)


@dataclass
class FakeCompiler:
    """Counts its compilations; the code it makes is the program's text."""

    calls: list[str] = field(default_factory=list)
    options: list[CompileOptions] = field(default_factory=list)
    records: list[bool] = field(default_factory=list)
    delay_s: float = 0.0

    def __call__(
        self,
        program: ImportedProgram,
        kernel: str,
        arguments: Sequence[ArraySpec],
        target: Target,
        *,
        options: CompileOptions,
        record: bool = True,
    ) -> FakeCompiled:
        self.calls.append(kernel)
        self.options.append(options)
        self.records.append(record)
        time.sleep(self.delay_s)
        signature = program.kernels[kernel]
        zeros = [np.zeros(a.spec.shape, a.spec.dtype.numpy) for a in arguments]
        results = run(program, kernel, zeros)
        outputs = tuple(
            ArraySpec(name, TensorSpec(result.shape, from_numpy(result.dtype)))
            for name, result in zip(signature.output_names, results, strict=True)
        )
        text = signature.source.text
        row = OpRow("0", "wia.add", "add", "elementwise", spans=(Span(1, 1, 1, 5),))
        trace = Trace(
            kernel,
            str(signature),
            target.name,
            text,
            (
                source_stage(signature),
                Stage("import", "high", "mlir", "module {}", 10, (row,)),
                Stage(
                    "machine",
                    "machine",
                    "x86",
                    "ret",
                    decisions=(Decision("fuse", "a → b", False, "no", {"n": 1}),),
                ),
            ),
            signature.source.name,
        )
        artifact = Artifact(
            target.name,
            kernel,
            {"kernel.wia": text.encode()},
            {"x86": "ret"},
            {"code_bytes": 1},
            {"entry": kernel},
        )
        return FakeCompiled(artifact, trace, tuple(arguments), outputs, 7, 11)


def fake_session(compiler: FakeCompiler | None = None) -> Session:
    """A session whose every target is a fake of that name."""
    return Session(compiler or FakeCompiler(), lambda name: FakeTarget(name))


def fake_program(text: str, session: Session | None = None, name: str = "<wia>") -> Program:
    """A program of kernels that run on the reference interpreter."""
    return load_program(Source(text, name), session or fake_session())
