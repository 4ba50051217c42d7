"""An AArch64 processor in this process (Unicorn's), which runs the objects of such targets."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import arm64_const as registers
from wia_compiler.backends.cpu.elf import OBJECT
from wia_compiler.passes.target import Artifact

_CODE, _OUTSIDE, _SCRATCH = 0x1000_0000, 0x1400_0000, 0x3000_0000  # calls reach 128 MB
_DATA, _STACK = 0x4000_0000, 0x7000_0000
_MEGABYTE = 1 << 20
_RETURN_0 = (0xD2800000, 0xD65F03C0)  # mov x0, #0; ret
# wia_parallel(body, context, count, bytes) → body(context, 0, count, scratch): the memory's address
# follows the code.
_PARALLEL = (0xAA0003E4, 0xAA0103E0, 0xD2800001, 0x58000063, 0xD61F0080, 0xD503201F)


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    offset: int
    size: int
    link: int
    info: int
    address: int


def run_on_aarch64(
    artifact: Artifact, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]
) -> None:
    """Call an artifact's entry on arrays; outputs are written in place."""
    machine: Any = unicorn.Uc(  # pyright: ignore[reportPrivateImportUsage]
        unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM
    )
    machine.ctl_set_cpu_model(registers.UC_CPU_ARM64_MAX)
    machine.reg_write(registers.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floating point is allowed
    for start in (_CODE, _OUTSIDE, _SCRATCH, _STACK):
        machine.mem_map(start, 16 * _MEGABYTE)
    entry = _load(machine, artifact.files[OBJECT], artifact.metadata["entry"])
    arrays = [*inputs, *outputs]
    workspace = np.zeros(artifact.metadata["workspace_bytes"], np.uint8)
    places = _place(machine, [*arrays, workspace])
    table = _STACK + 15 * _MEGABYTE
    machine.mem_write(table, struct.pack(f"<{len(places)}Q", *places))
    machine.reg_write(registers.UC_ARM64_REG_SP, _STACK + 8 * _MEGABYTE)
    machine.reg_write(registers.UC_ARM64_REG_X0, table)
    end = _OUTSIDE + 15 * _MEGABYTE
    machine.reg_write(registers.UC_ARM64_REG_LR, end)
    machine.emu_start(entry, end)
    for array, place in zip(outputs, places[len(inputs) :], strict=False):
        assert array.flags.c_contiguous
        raw = machine.mem_read(place, max(array.nbytes, 1))[: array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(bytes(raw), np.uint8)


def _place(machine: Any, arrays: Sequence[NDArray[Any]]) -> list[int]:
    """Copy arrays into the machine's memory, with an unmapped page behind each; their addresses."""
    places: list[int] = []
    here = _DATA
    for array in arrays:
        size = -(-max(array.nbytes, 1) // 4096) * 4096
        machine.mem_map(here, size)
        start = here + size - -(-array.nbytes // 64) * 64  # aligned, its end near that of the page
        machine.mem_write(start, np.ascontiguousarray(array).tobytes())
        places.append(start)
        here += size + 4096
    return places


def _load(machine: Any, data: bytes, entry: str) -> int:
    """Place an object's sections, resolve what they refer to; the address of a symbol."""
    sections = _sections(data)
    addresses: dict[int, int] = {}
    here = _CODE
    for number, section in enumerate(sections):
        if section.size and section.type in (1, 8):  # SHT_PROGBITS, SHT_NOBITS
            here = -(-here // 64) * 64
            addresses[number] = here
            if section.type == 1:
                content = data[section.offset : section.offset + section.size]
                machine.mem_write(here, content)
            here += section.size
    (table,) = (section for section in sections if section.type == 2)
    symbols = list(_symbols(data, table, sections[table.link], addresses, machine))
    for section in sections:
        if section.type == 4 and section.info in addresses:  # SHT_RELA
            for place in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", data, place)
                target = symbols[info >> 32][1] + addend
                _relocate(machine, addresses[section.info] + offset, info & 0xFFFFFFFF, target)
    return dict(symbols)[entry]


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + n * size) for n in range(count)]
    texts = rows[names][4]

    def named(offset: int) -> str:
        return data[texts + offset : data.index(b"\0", texts + offset)].decode()

    return [_Section(named(r[0]), r[1], r[4], r[5], r[6], r[7], r[3]) for r in rows]


def _symbols(
    data: bytes, table: _Section, names: _Section, addresses: dict[int, int], machine: Any
) -> Iterator[tuple[str, int]]:
    outside = _OUTSIDE
    for place in range(table.offset, table.offset + table.size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, place)
        start = names.offset + name
        text = data[start : data.index(b"\0", start)].decode()
        if section == 0 and text:
            _write_outside(machine, outside, text)
            yield text, outside
            outside += 64
        else:
            yield text, addresses.get(section, 0) + value


def _write_outside(machine: Any, place: int, name: str) -> None:
    """Code for a function that the object calls and does not define."""
    if name == "wia_parallel":
        machine.mem_write(place, struct.pack("<6IQ", *_PARALLEL, _SCRATCH))
        return
    machine.mem_write(place, struct.pack("<2I", *_RETURN_0))
    if name in ("memcpy", "memmove", "memset"):
        machine.hook_add(unicorn.UC_HOOK_CODE, _memory_function(name), begin=place, end=place)


def _memory_function(name: str) -> Any:
    def run(machine: Any, *_: object) -> None:
        target, source, size = (
            machine.reg_read(getattr(registers, f"UC_ARM64_REG_X{n}")) for n in range(3)
        )
        if name == "memset":
            machine.mem_write(target, bytes([source & 255]) * size)
        else:
            machine.mem_write(target, bytes(machine.mem_read(source, size)))

    return run


def _relocate(machine: Any, place: int, kind: int, target: int) -> None:
    """Write an address into code or data, as ELF for the Arm 64-bit architecture says."""
    if kind in (257, 260):  # ABS64, PREL64
        machine.mem_write(place, struct.pack("<q", target - (place if kind == 260 else 0)))
        return
    if kind in (258, 261):  # ABS32, PREL32
        machine.mem_write(place, struct.pack("<i", target - (place if kind == 261 else 0)))
        return
    (word,) = struct.unpack("<I", machine.mem_read(place, 4))
    if kind == 275:  # ADR_PREL_PG_HI21
        pages = (target >> 12) - (place >> 12)
        word |= ((pages & 3) << 29) | (((pages >> 2) & 0x7FFFF) << 5)
    elif kind in (282, 283):  # JUMP26, CALL26
        word |= ((target - place) >> 2) & 0x3FFFFFF
    elif kind in _LOW_BITS:
        word |= ((target & 0xFFF) >> _LOW_BITS[kind]) << 10
    else:
        raise NotImplementedError(f"relocation {kind}")
    machine.mem_write(place, struct.pack("<I", word))


# ADD_ABS_LO12_NC, LDST8 … LDST128_ABS_LO12_NC: by how many bits the offset is scaled.
_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
