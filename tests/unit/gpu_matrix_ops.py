"""Ops of warps and of vectors on the interpreter of kernels: ldmatrix, mma.sync, cp.async.

A vector of a lane is an array with the threads first. Copies arrive at once: that nobody reads them
before they were waited for is what the PTX simulator checks. Lanes that give places of rows to
``ldmatrix`` count as those that read them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

WARP = 32
_G, _T = np.arange(WARP) // 4, np.arange(WARP) % 4


def step(run: Any, op: Operation, active: Any) -> bool:
    """Run an op of a warp or of vectors for the threads that are active; whether it is one."""
    rule = _RULES.get(op.name)
    if rule is not None:
        rule(run, op, active)
    return rule is not None


def _dense(op: Operation) -> tuple[int, ...]:
    return tuple(op.results[0].type.get_shape())  # type: ignore[attr-defined]


def _from_elements(run: Any, op: Operation, active: Any) -> None:
    values = np.stack([run.values[each] for each in op.operands], axis=1)
    run.values[op.results[0]] = values.reshape(run.threads, *_dense(op))


def _extract(run: Any, op: Operation, active: Any) -> None:
    place = op.properties["static_position"].get_values()  # type: ignore[attr-defined]
    run.values[op.results[0]] = run.values[op.operands[0]][(slice(None), *place)]


def _slice(run: Any, op: Operation, active: Any) -> None:
    attributes = {**op.properties, **op.attributes}
    first = attributes["offsets"].data[0].value.data  # type: ignore[attr-defined]
    rows = slice(first, first + _dense(op)[0])
    run.values[op.results[0]] = run.values[op.operands[0]][:, rows]


def _moved(run: Any, indices: Any, number: int) -> list[Any]:
    """Indices of the ``number``-th neighbour along the last dimension, as values of their own."""
    places = [run.values[index] for index in indices]
    return [*places[:-1], places[-1] + number]


class _Places:
    """Arrays where an interpreter expects values: they stand for indices."""

    def __init__(self, run: Any, places: list[Any]):
        self.keys = [object() for _ in places]
        run.values.update(zip(self.keys, places, strict=True))


def _load(run: Any, op: Operation, active: Any) -> None:
    source, *indices = op.operands
    elements = [
        run.load(source, _Places(run, _moved(run, indices, n)).keys, active)
        for n in range(_dense(op)[0])
    ]
    run.values[op.results[0]] = np.stack(elements, axis=1)


def _store(run: Any, op: Operation, active: Any) -> None:
    value, target, *indices = op.operands
    for n in range(run.values[value].shape[1]):
        keys = _Places(run, _moved(run, indices, n)).keys
        run.store(run.values[value][:, n], target, keys, active)


def _copy(run: Any, op: Any, active: Any) -> None:
    count = op.dstElements.value.data
    given = (
        run.values[op.srcElements] if op.srcElements is not None else np.full(run.threads, count)
    )
    for n in range(count):
        inside = active & (n < given)
        value = run.load(op.src, _Places(run, _moved(run, op.srcIndices, n)).keys, inside)
        keys = _Places(run, _moved(run, op.dstIndices, n)).keys
        run.store(np.where(inside, value, np.zeros((), value.dtype)), op.dst, keys, active)


def _nothing(run: Any, op: Operation, active: Any) -> None:
    for result in op.results:
        run.values[result] = None


def _warp_barrier(run: Any, op: Operation, active: Any) -> None:
    """What lanes of a warp wrote is seen by the others of it; between warps nothing changes."""
    for buffer in run.shared:
        buffer.reset()


def _view(run: Any, op: Operation, active: Any) -> None:
    """A buffer of its own, also where parts of a launch's memory overlap: each is written first."""
    run.allocate_view(op.results[0])


def _load_matrix(run: Any, op: Any, active: Any) -> None:
    tiles, turned = op.numTiles.value.data, bool(op.transpose.value.data)
    lanes = np.arange(run.threads) % WARP
    gives = active & (lanes < 8 * tiles)
    rows = np.stack(
        [
            run.load(op.memref, _Places(run, _moved(run, op.indices, n)).keys, gives)
            for n in range(8)
        ],
        axis=1,
    ).reshape(-1, WARP, 8)
    found = np.zeros((rows.shape[0], WARP, tiles, 2), rows.dtype)
    for tile in range(tiles):
        matrix = rows[:, 8 * tile : 8 * tile + 8]
        for n in (0, 1):
            place = (2 * _T + n, _G) if turned else (_G, 2 * _T + n)
            found[:, :, tile, n] = matrix[(slice(None), *place)]
    run.values[op.res] = found.reshape(run.threads, tiles, 2)


def _multiply(run: Any, op: Any, active: Any) -> None:
    """``m16n8k8`` and ``m16n8k16`` of 16-bit elements, summed in f32 (PTX ISA, fragments)."""
    rows, columns, depth = op.shape
    assert (rows, columns) == (16, 8), op.shape
    a, b, c = (
        run.values[each].astype(np.float32).reshape(-1, WARP, *run.values[each].shape[1:])
        for each in (op.matrixA, op.matrixB, op.matrixC)
    )
    left = np.zeros((a.shape[0], rows, depth), np.float32)
    right = np.zeros((a.shape[0], depth, columns), np.float32)
    for register in range(a.shape[2]):
        for n in (0, 1):
            along = 2 * _T + n + 8 * (register // 2)
            left[:, _G + 8 * (register % 2), along] = a[:, :, register, n]
    for register in range(b.shape[2]):
        for n in (0, 1):
            right[:, 2 * _T + n + 8 * register, _G] = b[:, :, register, n]
    total = left @ right
    sums = np.stack(
        [
            np.stack([total[:, _G + 8 * half, 2 * _T + n] for n in (0, 1)], axis=2)
            for half in (0, 1)
        ],
        axis=2,
    )
    run.values[op.res] = (c + sums).reshape(run.threads, 2, 2)


_RULES: dict[str, Callable[[Any, Any, Any], None]] = {
    "vector.from_elements": _from_elements,
    "vector.extract": _extract,
    "vector.extract_strided_slice": _slice,
    "vector.load": _load,
    "vector.store": _store,
    "nvgpu.device_async_copy": _copy,
    "nvgpu.device_async_create_group": _nothing,
    "nvgpu.device_async_wait": _nothing,
    "gpu.dynamic_shared_memory": _nothing,
    "memref.view": _view,
    "nvvm.bar.warp.sync": _warp_barrier,
    "nvgpu.ldmatrix": _load_matrix,
    "nvgpu.mma.sync": _multiply,
}
