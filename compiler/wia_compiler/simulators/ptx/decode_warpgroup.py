"""Steps of ``wgmma``: four warps multiply matrices of shared memory, and wait for the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.decode_multiply import (
    Matrices,
    elements,
    matrices,
    multiplied,
    multiplier,
    sum_type,
    sums,
)
from wia_compiler.simulators.ptx.descriptors import CHUNK_BYTES, UNUSED_BITS, Descriptors
from wia_compiler.simulators.ptx.fragments import Fragment, left_fragment, sum_fragment
from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.matrix_elements import (
    BITS,
    SUMS,
    numbers,
    rounded_sums,
    sizes_of,
)
from wia_compiler.simulators.ptx.operands import Scope, items_of, reader
from wia_compiler.simulators.ptx.products import WARPS_OF_GROUP
from wia_compiler.simulators.ptx.syntax import Group, Immediate, Instruction, Operand, Register
from wia_compiler.simulators.ptx.threads import WARP, Array, Mask
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

ROWS = 16
"""Rows of a product that one warp holds; a warpgroup has four times as many."""
_FACTOR_BITS = 256
"""Bits of a row of a factor that one instruction sums over, whatever its elements."""
_SUMS_OF = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "b1": ("s32",),
}  # fmt: skip


@dataclass(frozen=True)
class WarpgroupProduct:
    """A form of ``wgmma.mma_async``, seen by one of its warps.

    ``signs`` multiply the factors; ``summed`` says for each factor whether its contiguous axis is
    the summed one (K-major). ``names`` are the registers of the result, ``left`` is an address or
    the registers of the left factor.
    """

    names: tuple[str, ...]
    left: Operand
    right: Operand
    keeps: Operand
    left_name: str
    right_name: str
    sum_type: PtxType
    columns: int
    depth: int
    signs: tuple[int, int]
    summed: tuple[bool, bool]

    @property
    def added(self) -> Fragment:
        """How a warp's rows of the sum lie in its registers."""
        return sum_fragment(ROWS, self.columns, self.sum_type.lanes)

    @property
    def left_fragment(self) -> Fragment:
        """How a warp's rows of the left factor lie in its registers, where it has them."""
        return left_fragment(ROWS, self.depth, 32 // BITS[self.left_name])

    @property
    def flops(self) -> int:
        """Operations of one thread."""
        return 2 * ROWS * self.columns * self.depth // WARP


def warpgroup_product(form: Form, scope: Scope) -> WarpgroupProduct:
    """What a ``wgmma.mma_async`` multiplies; ``UnknownForm`` where there is no such product."""
    instruction = form.instruction
    name = instruction.name
    words = [w for w in instruction.modifiers if w in BITS or w in SUMS]
    if "sp" in form.flags:
        raise UnknownForm(f"{name}: products of sparse matrices")
    if len(words) != 3 or not {"sync", "aligned"} <= form.flags or len(instruction.operands) < 4:
        raise UnknownForm(name)
    result, left_name, right_name = words
    rows, columns, depth = sizes_of(form)
    bits = BITS[left_name]
    if rows != WARPS_OF_GROUP * ROWS or columns % 8 or not 8 <= columns <= 256:
        raise UnknownForm(f"{name}: its shape")
    if result not in _SUMS_OF.get(left_name, ()) or depth * bits != _FACTOR_BITS:
        raise UnknownForm(f"{name}: its types")
    if bits != BITS[right_name] or (bits > 8 and left_name != right_name):
        raise UnknownForm(f"{name}: its types")
    target, left, right, keeps, *numbers_ = instruction.operands
    constants = [_constant(form, each) for each in numbers_]
    counted = {16: 4 - isinstance(left, Group)}.get(bits, 0 if result == "s32" else 2)
    if len(constants) != counted:
        raise UnknownForm(f"{name} with {len(constants)} numbers behind scale-d, not {counted}")
    signs, turned = tuple(constants[:2]) or (1, 1), constants[2:]
    turns = (0, *turned) if isinstance(left, Group) else tuple(turned)
    turns = turns if len(turns) == 2 else (0, 0)
    if set(signs) - {1, -1} or set(turns) - {0, 1}:
        raise UnknownForm(f"{name}: signs are 1 or -1, transposes 0 or 1")
    type = sum_type(result)
    items = [scope.meant(each) for each in items_of(target)]
    names = tuple(each.name for each in items if isinstance(each, Register))
    if len(names) != ROWS * columns // WARP // type.lanes or len(items) != len(names):
        raise UnknownForm(f"{name} with {len(items)} registers of the result")
    summed = (not turns[0], not turns[1])
    return WarpgroupProduct(
        names, left, right, keeps, left_name, right_name, type, columns, depth,
        (signs[0], signs[1]), summed,
    )  # fmt: skip


def _constant(form: Form, operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise UnknownForm(f"{form.instruction.name} with a computed sign or transpose")
    return int(operand.value)


def decode_warpgroup(form: Form, number: int, scope: Scope) -> Step:
    """``wgmma``: products, their groups, and the fence before them."""
    word = form.one_of(("mma_async", "commit_group", "wait_group", "fence"))
    match word:
        case "mma_async":
            return _Multiply(form, number, scope).step
        case "commit_group":
            return lambda machine: machine.products.commit(whole_warps(machine, form))
        case "wait_group":
            return _decode_wait(form, scope)
        case "fence":
            return lambda machine: _fence(machine, form)
        case _:
            raise UnknownForm(form.instruction.name)


def whole_warps(machine: Machine, form: Form) -> Mask:
    """Which warps execute an instruction that is for whole warps; a fault where one parts."""
    rows = machine.threads.warps(machine.threads.mask)
    some, whole = np.asarray(rows.any(axis=1)), np.asarray(rows.all(axis=1))
    if not (some == whole).all():
        warp = int(np.argmax(some & ~whole))
        lane = int(np.argmin(rows[warp]))
        machine.fault(
            form.instruction,
            f"{machine.thread_name(WARP * warp + lane)} takes no part in it, other threads of its "
            "warp do",
            f"{form.instruction.name} is for whole warpgroups: let all 128 threads execute it",
        )
    return some


def _fence(machine: Machine, form: Form) -> None:
    warps = whole_warps(machine, form)
    if machine.product_checks is not None:
        machine.product_checks.fence(warps)


def waits_for(form: Form) -> int:
    """How many groups ``wait_group`` leaves on their way."""
    (operand,) = form.instruction.operands
    if not isinstance(operand, Immediate):
        raise UnknownForm(f"{form.instruction.name} of a computed number")
    return int(operand.value)


def _decode_wait(form: Form, scope: Scope) -> Step:
    left = waits_for(form)

    def step(machine: Machine) -> None:
        threads = machine.threads
        warps = whole_warps(machine, form)
        if machine.product_checks is not None:
            machine.product_checks.wait(machine, warps, left)
        if machine.checks is not None:
            # What a warp's products read is read by all of its lanes: any of them may tell.
            members = np.full(threads.count, 0xFFFFFFFF, np.uint32)
            machine.checks.order.warp_barrier(members)

        def put(name: str, bits: Array, lanes: Mask) -> None:
            old = threads.registers[name]
            threads.registers[name] = np.where(lanes, bits, old).astype(old.dtype)

        machine.products.wait(warps, left, put)

    return step


def check_warpgroups(machine: Machine, code: Sequence[Instruction]) -> None:
    """Once all threads have ended: the four warps of a group must have begun the same products."""
    found = machine.products.uneven(machine.threads.warps_per_block)
    if found is None:
        return
    number, first, second = found
    name = code[number].name
    if machine.threads.warps_per_block % WARPS_OF_GROUP:
        what = f"a block has {machine.threads.warps_per_block} warps, no multiple of 4"
    else:
        what = (
            f"the warp of {machine.thread_name(first * WARP)} executes it, that of "
            f"{machine.thread_name(second * WARP)} does not, or not as often or in this order"
        )
    machine.fault(
        code[number],
        f"{name} is for the four warps of a warpgroup together: {what}",
        "let all 128 threads of a warpgroup execute it, and launch blocks of 128 n threads",
    )


class _Multiply:
    """``wgmma.mma_async``: computed when it is issued, seen when it is waited for."""

    def __init__(self, form: Form, number: int, scope: Scope):
        self.form = form
        self.number = number
        self.product = product = warpgroup_product(form, scope)
        self.multiply = multiplier(form)
        self.names = product.names
        self.sums = [reader(Register(each), product.sum_type, scope) for each in product.names]
        self.bits = [reader(Register(each), TYPES["b32"], scope) for each in product.names]
        self.keeps = reader(product.keeps, TYPES["pred"], scope)
        self.right = reader(product.right, TYPES["u64"], scope)
        self.left = (
            [reader(each, TYPES["b32"], scope) for each in product.left.items if each is not None]
            if isinstance(product.left, Group)
            else reader(product.left, TYPES["u64"], scope)
        )

    def step(self, machine: Machine) -> None:
        """Begin the product in all warps that execute it."""
        threads, product = machine.threads, self.product
        warps = whole_warps(machine, self.form)
        chosen = np.flatnonzero(warps)
        y = self._shared(machine, chosen, self.right, "b") * product.signs[1]
        if callable(self.left):
            x = self._shared(machine, chosen, self.left, "a")
        else:
            held = elements(threads, self.left, product.left_name)[:, chosen]
            shape = (len(chosen), ROWS, product.depth)
            x = matrices(product.left_fragment, shape, held)
        x = x * product.signs[0]
        added = self._added(machine, chosen)
        total = multiplied(machine, self.form, self.multiply, x, y, added)
        made = rounded_sums(self.form, total, product.sum_type.value)
        fragment, packed = product.added, product.sum_type.lanes
        parts = made[:, fragment.rows, fragment.columns]
        parts = np.ascontiguousarray(
            parts.reshape(len(chosen), -1, packed, WARP).transpose(1, 0, 3, 2)
        ).view(np.uint32)[..., 0]
        bits: list[Array] = []
        for part in parts:
            row = np.zeros((len(warps), WARP), np.uint32)
            row[chosen] = part
            bits.append(row.reshape(-1))
        products = machine.products
        if machine.product_checks is not None:
            machine.product_checks.begin(machine, self.number, warps, products)
        products.note(self.number, warps)
        products.begin(self.names, bits, warps)
        lanes = np.repeat(warps, WARP)
        for name, read in zip(self.names, self.bits, strict=True):
            old = np.broadcast_to(read(threads), (threads.count,))
            threads.registers[name] = np.where(lanes, np.uint32(0xFFFFFFFF), old)

    def _added(self, machine: Machine, chosen: NDArray[np.intp]) -> Matrices:
        """What the product is added to; 0 in warps whose scale-d is false."""
        threads, product = machine.threads, self.product
        shape = (len(chosen), ROWS, product.columns)
        keeps = np.broadcast_to(self.keeps(threads), (threads.count,)).reshape(-1, WARP)[chosen]
        self._uniform(machine, keeps, chosen, "scale-d")
        if not keeps.any():
            return np.zeros(shape)
        if self.names in machine.products.pending:
            bits = machine.products.held(self.names, [read(threads) for read in self.bits])
            value = product.sum_type.value
            rows = [np.ascontiguousarray(each).view(value) for each in bits]
            held = np.concatenate(
                [each.astype("f8").reshape(-1, WARP, product.sum_type.lanes) for each in rows],
                axis=-1,
            )
            held = np.moveaxis(held, -1, 0)
        else:
            held = sums(threads, self.sums)
        added = matrices(product.added, shape, held[:, chosen])
        return np.where(keeps[:, :1, None], added, 0.0)

    def _uniform(self, machine: Machine, rows: Array, chosen: NDArray[np.intp], what: str) -> None:
        """All lanes of a warp must give the same."""
        apart = (rows != rows[:, :1]).any(axis=1)
        if apart.any():
            name = machine.thread_name(int(chosen[np.argmax(apart)]) * WARP)
            machine.fault(
                self.form.instruction,
                f"{what} of {self.form.instruction.name} differs between threads of a warp, that "
                f"of {name}",
                "compute it from what all threads of the warpgroup share",
            )

    def _shared(
        self,
        machine: Machine,
        chosen: NDArray[np.intp],
        read: Callable[..., Array],
        which: str,
    ) -> Matrices:
        """A factor of each warp, rows of it by columns, from shared memory."""
        threads, product = machine.threads, self.product
        words = np.broadcast_to(read(threads), (threads.count,)).reshape(-1, WARP)[chosen]
        self._uniform(machine, words, chosen, f"the descriptor of {which}")
        words = words[:, 0].astype(np.uint64)
        wrong = (words & np.uint64(UNUSED_BITS)) != 0
        if wrong.any():
            machine.fault(
                self.form.instruction,
                f"the descriptor {int(words[np.argmax(wrong)]):#x} of {which} has bits that "
                "descriptors of wgmma have not",
                "bits 0-13 are the address, 16-29 the leading, 32-45 the stride offset, all / 16, "
                "49-51 the base offset, 62-63 the swizzle",
            )
        left = which == "a"
        name = product.left_name if left else product.right_name
        summed = product.summed[0 if left else 1]
        size = ROWS if left else product.columns
        per_chunk = CHUNK_BYTES * 8 // BITS[name]
        down, across = (size, product.depth) if summed else (product.depth, size)
        rows, chunks = np.divmod(np.arange(down * across // per_chunk), across // per_chunk)
        if left:
            warp = chosen % (threads.warps_per_block) % WARPS_OF_GROUP
            first = ROWS * warp[:, None]
            rows, chunks = (rows + first, chunks + 0 * first) if summed else (
                rows + 0 * first, chunks + first // per_chunk
            )  # fmt: skip
        addresses = Descriptors.of(words).chunk_addresses(
            np.atleast_2d(rows), np.atleast_2d(chunks), contiguous_summed=summed
        )
        held = machine.shared_chunks(self.form.instruction, self.number, chosen, addresses)
        found = numbers(held, name).reshape(len(chosen), down, across)
        return found if left == summed else found.transpose(0, 2, 1)
