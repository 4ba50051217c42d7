"""A kernel that has been built, and how it is written to and read from the cache on disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.record import Stage, Trace, stages_from_json
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.target import ArraySpec, Artifact, Executable, Target
from wia_compiler.runtime.cache_key import CacheKey

COMPILED = "compiled.json"
TRACE = "trace.json"
LATER = "later.json"


@dataclass(frozen=True)
class BuiltKernel:
    """Code for one cache key with its record.

    ``compile_time_ns`` is what the compilation took when it happened, ``size_bytes`` the
    compulsory traffic: inputs read once, outputs written once. ``read_trace`` gives the record,
    which is large and seldom wanted, so that it is made or parsed only when someone looks;
    ``read_later`` those of its stages that come later still (``Artifact.later``).
    """

    key: CacheKey
    artifact: Artifact
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    flops: int
    size_bytes: int
    compile_time_ns: int
    read_trace: Callable[[], Trace]
    read_later: Callable[[Trace], tuple[Stage, ...]]


class LoadedKernel:
    """A built kernel in this process; record and machine code are brought in when first needed."""

    def __init__(self, built: BuiltKernel, target: Target):
        self.built = built
        self.target = target
        self._lock = threading.Lock()
        self._trace: Trace | None = None
        self._later: tuple[Stage, ...] | None = None
        self._executable: Executable | None = None

    @property
    def trace(self) -> Trace:
        """The record of the compilation."""
        if self._trace is None:
            self._trace = self.built.read_trace()
        return self._trace

    @property
    def later_stages(self) -> tuple[Stage, ...]:
        """The stages of ``artifact.later``."""
        if self._later is None:
            self._later = self.built.read_later(self.trace) if self.built.artifact.later else ()
        return self._later

    @property
    def executable(self) -> Executable:
        """The code, ready to run; ``TargetError`` where this machine lacks what that needs."""
        with self._lock:
            if self._executable is None:
                self._executable = self.target.load(self.built.artifact)
            return self._executable


def encode(built: BuiltKernel) -> dict[str, bytes]:
    """The files of a new cache entry: ``compiled.json`` and those of the artifact.

    ``trace.json`` and ``later.json`` come to them when someone has looked at the record.
    """
    artifact = built.artifact
    compiled = {
        "key": json.loads(built.key.canonical_json),
        "target": artifact.target,
        "kernel": artifact.kernel,
        "files": sorted(artifact.files),
        "assembly": dict(artifact.assembly),
        "resources": dict(artifact.resources),
        "metadata": dict(artifact.metadata),
        "later": artifact.later,
        "inputs": [_encode_spec(spec) for spec in built.inputs],
        "outputs": [_encode_spec(spec) for spec in built.outputs],
        "flops": built.flops,
        "size_bytes": built.size_bytes,
        "compile_time_ns": built.compile_time_ns,
    }
    return {
        **artifact.files,
        COMPILED: json.dumps(compiled, ensure_ascii=False, separators=(",", ":")).encode(),
    }


def decode(
    key: CacheKey,
    files: Mapping[str, bytes],
    make_trace: Callable[[], Trace],
    make_later: Callable[[Artifact, Trace], tuple[Stage, ...]],
) -> BuiltKernel | None:
    """What ``encode`` wrote; ``None`` where the entry belongs to another key.

    ``make_trace`` makes the record where the entry has none, ``make_later`` its later stages.
    """
    compiled: dict[str, Any] = json.loads(files[COMPILED])
    if compiled["key"] != json.loads(key.canonical_json):
        return None
    artifact = Artifact(
        target=compiled["target"],
        kernel=compiled["kernel"],
        files={name: files[name] for name in compiled["files"]},
        assembly=compiled["assembly"],
        resources=compiled["resources"],
        metadata=compiled["metadata"],
        later=tuple(compiled["later"]),
    )
    record, later = files.get(TRACE), files.get(LATER)

    def read_trace() -> Trace:
        return make_trace() if record is None else Trace.from_json(record.decode())

    def read_later(trace: Trace) -> tuple[Stage, ...]:
        return make_later(artifact, trace) if later is None else stages_from_json(later.decode())

    return BuiltKernel(
        key=key,
        artifact=artifact,
        inputs=_decode_specs(compiled["inputs"]),
        outputs=_decode_specs(compiled["outputs"]),
        flops=compiled["flops"],
        size_bytes=compiled["size_bytes"],
        compile_time_ns=compiled["compile_time_ns"],
        read_trace=read_trace,
        read_later=read_later,
    )


def _encode_spec(spec: ArraySpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "shape": spec.spec.shape,
        "dtype": spec.spec.dtype.name,
        "label": spec.spec.label,
        "strides": spec.strides,
    }


def _decode_specs(rows: Sequence[Mapping[str, Any]]) -> tuple[ArraySpec, ...]:
    return tuple(
        ArraySpec(
            row["name"],
            TensorSpec(tuple(row["shape"]), DTYPES[row["dtype"]], row["label"]),
            None if row["strides"] is None else tuple(row["strides"]),
        )
        for row in rows
    )
