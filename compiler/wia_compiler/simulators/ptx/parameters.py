"""Arguments of a launch as the bytes of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx.syntax import Entry, Variable
from wia_compiler.simulators.ptx.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap


def parameter_bytes(
    entry: Entry,
    args: Sequence[Any],
    pointers: Sequence[int],
    maps: Mapping[str, tuple[bytes, int]],
    addresses: dict[str, int],
) -> NDArray[np.uint8]:
    """Lay the parameters out, in order and aligned; their places go to ``addresses``.

    ``pointers`` are the device addresses of the arrays among ``args``, in order; ``maps`` has the
    bytes of each tensor map, and where they lie in device memory, by the parameter's name.
    """
    if len(args) != len(entry.parameters):
        expected = ", ".join(f"{each.name}: {each.type.name}" for each in entry.parameters)
        raise ArgumentError(
            f"args: got {len(args)}, {entry.name} takes {len(entry.parameters)}: {expected}"
        )
    content = bytearray()
    waiting = list(pointers)
    for parameter, value in zip(entry.parameters, args, strict=True):
        content.extend(bytes(-len(content) % parameter.align))
        addresses[parameter.name] = len(content)
        if isinstance(value, np.ndarray):
            content.extend(_pointer(parameter, waiting.pop(0)))
        elif isinstance(value, TensorMap):
            content.extend(_map(parameter, *maps[parameter.name]))
        else:
            content.extend(_by_value(parameter, value))
    return np.frombuffer(bytes(content), np.uint8)


def _map(parameter: Variable, content: bytes, address: int) -> bytes:
    """A tensor map: its bytes, or the address of them where a pointer is expected."""
    if parameter.size_bytes != MAP_BYTES:
        return _pointer(parameter, address)
    if parameter.align < MAP_ALIGNMENT:
        raise ArgumentError(
            f"{parameter.name}: a tensor map aligned to {parameter.align} bytes, expected "
            f".align {MAP_ALIGNMENT}"
        )
    return content


def _pointer(parameter: Variable, address: int) -> bytes:
    if parameter.type.bits != 64 or parameter.count != 1 or parameter.type.kind == "float":
        raise ArgumentError(
            f"{parameter.name}: got an array, expected {_expected(parameter)} by value"
        )
    return address.to_bytes(8, "little")


def _expected(parameter: Variable) -> str:
    if parameter.count == 1:
        return f"a {parameter.type.name}"
    return f"{parameter.size_bytes} bytes"


def _by_value(parameter: Variable, value: Any) -> bytes:
    type, size = parameter.type, parameter.size_bytes
    if isinstance(value, bytes):
        made = value
    elif isinstance(value, np.generic):
        made = value.tobytes()
    elif isinstance(value, bool | int | float) and parameter.count == 1:
        return _number(parameter, value)
    else:
        raise ArgumentError(
            f"{parameter.name}: got a {_name(value)}, expected an array, a numpy scalar, a number "
            "or bytes"
        )
    if len(made) != size:
        raise ArgumentError(
            f"{parameter.name}: got {len(made)} bytes ({_name(value)}), expected {size} "
            f"({type.name})"
        )
    return made


def _number(parameter: Variable, value: bool | int | float) -> bytes:
    type = parameter.type
    if type.kind == "float":
        return np.array(value, type.value).tobytes()
    if isinstance(value, float):
        if type.kind != "bits" or type.bits not in (32, 64):
            raise ArgumentError(f"{parameter.name}: got {value}, expected a whole number")
        return np.array(value, f"f{type.bits // 8}").tobytes()
    low, high = -(1 << (type.bits - 1)), (1 << type.bits) - 1
    if not low <= value <= high:
        raise ArgumentError(f"{parameter.name}: {value} does not fit {type.name}")
    return (value % (1 << type.bits)).to_bytes(type.size_bytes, "little")


def _name(value: Any) -> str:
    return type(value).__name__
