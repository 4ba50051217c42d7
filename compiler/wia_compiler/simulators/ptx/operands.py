"""Operands of an instruction: what reads them, and what takes its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.syntax import (
    Address,
    Entry,
    Group,
    Immediate,
    Operand,
    Pair,
    Register,
    Symbol,
)
from wia_compiler.simulators.ptx.threads import Array, Threads
from wia_compiler.simulators.ptx.types import HOLDERS, TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import UnknownForm

Read = Callable[[Threads], Array]
Write = Callable[[Threads, Array], None]
_SPECIAL_BITS = {"%gridid": 64, "%clock64": 64, "%globaltimer": 64}


@dataclass(frozen=True)
class Scope:
    """What names mean in one entry of one launch: registers, and addresses of variables."""

    entry: Entry
    addresses: Mapping[str, int]

    @cached_property
    def frame(self) -> frozenset[str]:
        """Names of the variables for arguments and results of calls."""
        return frozenset(each.name for each in self.entry.variables if each.space == "param")

    def register(self, name: str) -> PtxType:
        """The declared type of a register; special registers have 32 bits, few of them 64."""
        declared = self.entry.registers.get(name)
        if declared is not None:
            return declared
        if name == "%is_explicit_cluster":
            return TYPES["pred"]
        if name.startswith(_COORDINATES) or name in _KNOWN:
            return TYPES[f"u{_SPECIAL_BITS.get(name, 32)}"]
        raise UnknownForm(f"no register {name}")

    def meant(self, operand: Operand | None) -> Operand | None:
        """A register may be declared without ``%``: its name alone does not tell."""
        if isinstance(operand, Symbol) and operand.name in self.entry.registers:
            return Register(operand.name)
        return operand

    def address(self, symbol: Symbol) -> int:
        """Where a variable lies in its space."""
        if symbol.name not in self.addresses:
            raise UnknownForm(f"no variable {symbol.name!r}")
        return self.addresses[symbol.name] + symbol.offset


_COORDINATES = (
    "%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%clusterid.", "%nclusterid.", "%cluster_ctaid.",
    "%cluster_nctaid.",
)  # fmt: skip
_KNOWN = (
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%lanemask_eq", "%lanemask_lt",
    "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%total_smem_size", "%clock", "%clock64",
    "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%clock_hi", "%dynamic_smem_size",
    "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster",
)  # fmt: skip


def reader(operand: Operand, type: PtxType, scope: Scope) -> Read:
    """What gives an operand's value in every thread, as numbers of a type."""
    operand = scope.meant(operand) or operand
    match operand:
        case Register():
            return _register_reader(operand, type, scope)
        case Immediate():
            constant = _constant(operand, type)
            return lambda threads: constant
        case Symbol("WARP_SZ"):
            return lambda threads: np.full((), 32, type.value)
        case Symbol():
            address = np.full((), scope.address(operand), np.uint64).astype(type.value)
            return lambda threads: address
        case _:
            raise UnknownForm(f"an operand {operand} where a value is expected")


def _register_reader(operand: Register, type: PtxType, scope: Scope) -> Read:
    name, declared = operand.name, scope.register(operand.name)
    if declared.kind == "predicate":
        if operand.negated:
            return lambda threads: ~threads.read(name).astype(np.bool_)
        return lambda threads: threads.read(name).astype(np.bool_)
    narrower = type.bits < declared.bits

    def read(threads: Threads) -> Array:
        value = threads.read(name)
        if value.ndim == 0 or narrower or value.dtype != type.holder:
            value = value.astype(type.holder)
        if type.lanes > 1:
            # A constant in every thread is one number in memory, which has no halves side by side.
            value = np.ascontiguousarray(value)
        value = value.view(type.value)
        return value.reshape(*value.shape[:-1], -1, type.lanes) if type.lanes > 1 else value

    return read


def _constant(operand: Immediate, type: PtxType) -> Array:
    if type.kind == "predicate":
        return np.full((), bool(operand.value), np.bool_)
    if operand.bits is not None:
        bits = np.full((), operand.value, HOLDERS[operand.bits])
        if type.kind == "float" and type.bits != operand.bits:
            return bits.view(f"f{operand.bits // 8}").astype(type.value)
        return bits.astype(type.holder).view(type.value)
    if type.kind == "float" and isinstance(operand.value, float):
        return np.full((), operand.value, type.value)
    whole = int(operand.value) % (1 << type.bits)
    made = np.full((1,), whole, type.holder).view(type.value)
    return made if type.lanes > 1 else made.reshape(())


def is_predicate(operand: Operand, scope: Scope) -> bool:
    """Whether an operand is a register that holds a truth value."""
    meant = scope.meant(operand)
    return isinstance(meant, Register) and scope.register(meant.name).kind == "predicate"


def address_reader(operand: Operand, scope: Scope) -> Read:
    """What gives the address in brackets in every thread, as unsigned 64 bits."""
    if not isinstance(operand, Address):
        raise UnknownForm(f"an operand {operand} where an address is expected")
    offset = np.uint64(operand.offset % (1 << 64))
    base = scope.meant(operand.base)
    if base is None:
        fixed = np.full((), offset, np.uint64)
        return lambda threads: fixed
    bits = scope.register(base.name).bits if isinstance(base, Register) else 64
    read = reader(base, TYPES[f"u{bits}"], scope)
    if bits == 64:
        return lambda threads: read(threads) + offset
    # An address of 32 bits (shared memory) wraps within them.
    low = np.uint64((1 << bits) - 1)
    return lambda threads: (read(threads).astype(np.uint64) + offset) & low


def writer(operand: Operand | None, type: PtxType, scope: Scope) -> Write:
    """What puts results of a type into a register; a wider register is filled up by sign or 0."""
    operand = scope.meant(operand)
    match operand:
        case None | Pair(None, None):
            return lambda threads, value: None
        case Register():
            pass
        case _:
            raise UnknownForm(f"an operand {operand} where a register is expected")
    name, declared = operand.name, scope.register(operand.name)
    holder = declared.holder
    same = declared.bits == type.bits

    def write(threads: Threads, value: Any) -> None:
        made = np.asarray(value)
        if made.dtype != type.value:
            made = made.astype(type.value)
        if type.lanes > 1:
            made = np.ascontiguousarray(made).view(type.holder)[..., 0]
        elif same:
            made = made.view(holder)
        else:
            made = made.astype(np.int64 if type.kind == "signed" else np.uint64).astype(holder)
        threads.write(name, made, declared)

    return write


def writers(operand: Operand, types: tuple[PtxType, ...], scope: Scope) -> tuple[Write, ...]:
    """What takes each result of an instruction: a pair takes two."""
    if isinstance(operand, Pair):
        return (
            writer(operand.first, types[0], scope),
            writer(operand.second, types[-1], scope),
        )
    return (writer(operand, types[0], scope),)


def items_of(operand: Operand) -> tuple[Any, ...]:
    """The elements of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, Group) else (operand,)
