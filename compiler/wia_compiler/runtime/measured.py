"""Counters of a GPU of this machine: a run of an artifact in a process that ncu watches."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wia_compiler.backends.gpu.execute import byte_range, gpu_is_here, host_bytes
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.target import ArraySpec, Artifact
from wia_compiler.profiler.ncu import (
    ncu_command,
    parse_instructions,
    parse_metrics,
    remarks_of,
    require_ncu,
    sums_of,
)

TIMEOUT_S = 300
DTYPES_BY_NUMPY = {np.dtype(each.numpy).name: np.dtype(each.numpy) for each in DTYPES.values()}
MODULE = "wia_compiler.runtime.run_artifact"


@dataclass(frozen=True)
class MeasuredRun:
    """``counters`` of all launches by Nsight Compute's names, and executions by instruction.

    ``by_offset`` counts warps, by entry and offset in it.
    """

    counters: Mapping[str, int | float]
    by_offset: Mapping[tuple[str, int], int]


def measure_counters(
    artifact: Artifact, inputs: Sequence[Any], outputs: Sequence[ArraySpec]
) -> MeasuredRun:
    """Run an artifact on this machine's GPU below ncu, twice: for its metrics and for its SASS.

    ``TargetError`` where there is no GPU, no ncu, no permission, or where the run fails.
    """
    if not gpu_is_here():
        raise TargetError("no GPU of this machine is seen by cupy")
    ncu = require_ncu()
    folder = Path(tempfile.mkdtemp(prefix="wia-ncu-"))
    try:
        write_run(folder, artifact, inputs, outputs)
        program = [sys.executable, "-m", MODULE, str(folder)]
        metrics = _run(ncu_command(ncu, program, by_instruction=False))
        instructions = _run(ncu_command(ncu, program, by_instruction=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return MeasuredRun(sums_of(parse_metrics(metrics)), parse_instructions(instructions))


def write_run(
    folder: Path, artifact: Artifact, inputs: Sequence[Any], outputs: Sequence[ArraySpec]
) -> None:
    """An artifact and its arrays as files, for ``run_artifact``."""
    for name, content in artifact.files.items():
        (folder / name).write_bytes(content)
    for number, array in enumerate(inputs):
        np.savez(folder / f"input{number}.npz", **_as_parts(array))
    told = {
        "target": artifact.target,
        "kernel": artifact.kernel,
        "files": sorted(artifact.files),
        "metadata": dict(artifact.metadata),
        "inputs": len(inputs),
        "outputs": [
            {"shape": each.spec.shape, "dtype": each.spec.dtype.numpy.name} for each in outputs
        ],
    }
    (folder / "run.json").write_text(json.dumps(told))


def _as_parts(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The memory that an array lies in, and how it lies there: strides are part of the code."""
    low, high = byte_range(array)
    return {
        "memory": np.array(host_bytes(array, low, high)),
        "first": np.int64(-low),
        "shape": np.array(array.shape, np.int64),
        "strides": np.array(array.strides, np.int64),
        "dtype": np.array(array.dtype.name),
    }


def read_array(path: Path) -> np.ndarray[Any, Any]:
    """An array of ``write_run``."""
    with np.load(path) as parts:
        return np.ndarray(
            tuple(parts["shape"]),
            DTYPES_BY_NUMPY[str(parts["dtype"])],
            parts["memory"].tobytes(),
            int(parts["first"]),
            tuple(parts["strides"]),
        )


def _run(command: Sequence[str]) -> str:
    line = shlex.join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TargetError(f"ncu was stopped after {TIMEOUT_S} s; reproduce: {line}") from None
    except OSError as error:
        raise TargetError(f"ncu could not be started: {error}; command: {line}") from error
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise TargetError(f"ncu failed: {remarks_of(said)}\nreproduce: {line}")
    return said
