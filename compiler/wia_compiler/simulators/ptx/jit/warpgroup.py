"""``wgmma``: a product of one warp at a time, kept beside its registers until it is waited for."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.decode_warpgroup import (
    ROWS,
    WarpgroupProduct,
    waits_for,
    warpgroup_product,
)
from wia_compiler.simulators.ptx.jit.access import Window as Places
from wia_compiler.simulators.ptx.jit.access import bail_if, gather, scatter
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import BOOL
from wia_compiler.simulators.ptx.jit.elements import rounded
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.layout import ISSUED, OPEN_GROUP, PRODUCT_HEADER
from wia_compiler.simulators.ptx.jit.loops import repeat, unless
from wia_compiler.simulators.ptx.jit.multiply import lane_constants, spill, sum_numbers
from wia_compiler.simulators.ptx.jit.shared_factor import SharedFactor
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.jit.values import joined
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.products import ORDER_FACTOR
from wia_compiler.simulators.ptx.syntax import Group, Operand, Register
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U64, U32, F64 = (np.dtype(kind) for kind in (np.uint64, np.uint32, np.float64))
_ROW_BYTES = 4 * WARP
"""One register of a warp."""


def write_warpgroup(lanes: Lanes, form: Form, number: int) -> None:
    """``wgmma``: products, their groups; the fence changes nothing here."""
    if lanes.active() is not None:
        bail_if(lanes.function, "true")
    action = form.one_of(("mma_async", "commit_group", "wait_group", "fence"))
    if action.endswith("group") and not lanes.layout.products:
        return
    match action:
        case "mma_async":
            _write_product(lanes, form, number)
        case "commit_group":
            place = _warp_place(lanes, OPEN_GROUP)
            _add(lanes.function, place, "1")
        case "wait_group":
            _write_wait(lanes, waits_for(form))
        case "fence":
            pass
        case _:
            raise UnknownForm(form.instruction.name)


def _warp_place(lanes: Lanes, offset: int) -> str:
    """A place of the warp's memory for products."""
    start = lanes.layout.products[""]
    return lanes.function.new(f"getelementptr i8, ptr %warp, i64 {start + offset}")


def _add(function: Function, place: str, amount: str) -> None:
    old = function.new(f"load i64, ptr {place}, align 8")
    function.emit(f"store i64 {function.new(f'add i64 {old}, {amount}')}, ptr {place}, align 8")


def _kept(lanes: Lanes, names: tuple[str, ...]) -> tuple[str, str]:
    """Where the group of a list of registers is noted (0: none, else 1 + group), and their bits."""
    offset = lanes.layout.products[",".join(names)]
    group = lanes.function.new(f"getelementptr i8, ptr %warp, i64 {offset}")
    bits = lanes.function.new(f"getelementptr i8, ptr %warp, i64 {offset + PRODUCT_HEADER}")
    return group, bits


def _register_place(function: Function, bits: str, number: int, part: int) -> str:
    offset = number * _ROW_BYTES + part * function.width * 4
    return function.new(f"getelementptr i8, ptr {bits}, i64 {offset}")


def _write_wait(lanes: Lanes, left: int) -> None:
    function = lanes.function
    open_group = function.new(f"load i64, ptr {_warp_place(lanes, OPEN_GROUP)}, align 8")
    limit = function.new(f"sub i64 {open_group}, {left}")
    for key in lanes.layout.products:
        if not key:
            continue
        names = tuple(key.split(","))
        place, bits = _kept(lanes, names)
        group = function.new(f"load i64, ptr {place}, align 8")
        some = function.new(f"icmp ne i64 {group}, 0")
        closed = function.new(f"icmp sle i64 {group}, {limit}")
        done = function.new(f"and i1 {some}, {closed}")
        rest = function.new(f"select i1 {done}, i64 0, i64 {group}")
        function.emit(f"store i64 {rest}, ptr {place}, align 8")
        type = function.vector(U32)
        for number, name in enumerate(names):
            old = lanes.read(Register(name), TYPES["b32"])
            parts: list[str] = []
            for part, before in enumerate(old.parts):
                at = _register_place(function, bits, number, part)
                held = function.new(f"load {type}, ptr {at}, align 64")
                parts.append(function.new(f"select i1 {done}, {type} {held}, {type} {before}"))
            lanes.write(Register(name), TYPES["b32"], Value(U32, tuple(parts)))


def _write_product(lanes: Lanes, form: Form, number: int) -> None:
    product = warpgroup_product(form, lanes.scope)
    if product.left_name == "b1":
        raise UnknownForm(form.instruction.name)
    function = lanes.function
    name = f"{form.instruction.name.replace('.', '_')}_{_variant(product)}"
    if name not in function.outlined:
        function.outlined[name] = _product_text(function.other(), name, form, product)
    group_place, bits = _kept(lanes, product.names)
    group = function.new(f"load i64, ptr {group_place}, align 8")
    keeps = mask_bits(function, lanes.read(product.keeps, TYPES["pred"]))
    none = function.new(f"icmp eq i32 {keeps}, 0")
    every = function.new(f"icmp eq i32 {keeps}, -1")
    bail_if(function, function.new(f"icmp eq i1 {none}, {every}"))
    on_the_way = function.new(f"icmp ne i64 {group}, 0")
    known = function.new(f"or i1 {none}, {on_the_way}")
    had = [lanes.read(Register(each), TYPES["b32"]) for each in product.names]
    type = function.vector(U32)

    def keep() -> None:
        for register, value in enumerate(had):
            for part, each in enumerate(value.parts):
                place = _register_place(function, bits, register, part)
                function.emit(f"store {type} {each}, ptr {place}, align 64")

    right = _uniform(lanes, product.right)
    left, more = "0", ""
    if isinstance(product.left, Group):
        values = [lanes.read(each, TYPES["b32"]) for each in items_of(product.left)]
        more = "".join(f", {type} {part}" for value in values for part in value.parts)
    else:
        left = _uniform(lanes, product.left)
    unless(function, known, keep)
    first = function.new(f"getelementptr i8, ptr %warp, i64 {lanes.layout.first_thread}")
    thread = function.new(f"load i32, ptr {first}, align 4")
    warp = function.new(f"lshr i32 {thread}, 5")
    warp = function.new(f"zext i32 {function.new(f'and i32 {warp}, 3')} to i64")
    shared, limit = word(function, "shared", "ptr"), word(function, "shared_bytes")
    wrong = function.new(
        f"call i1 @{name}(ptr {bits}, ptr {shared}, i64 {limit}, i64 {left}, i64 {right}, "
        f"i1 {every}, i64 {warp}{more})"
    )
    bail_if(function, wrong)
    open_group = function.new(f"load i64, ptr {_warp_place(lanes, OPEN_GROUP)}, align 8")
    function.emit(
        f"store i64 {function.new(f'add i64 {open_group}, 1')}, ptr {group_place}, align 8"
    )
    issued = _warp_place(lanes, ISSUED)
    before = function.new(f"load i64, ptr {issued}, align 8")
    turned = function.new(f"mul i64 {before}, {ORDER_FACTOR}")
    function.emit(
        f"store i64 {function.new(f'add i64 {turned}, {number + 1}')}, ptr {issued}, align 8"
    )
    for each in product.names:
        lanes.write(Register(each), TYPES["b32"], function.splat(0xFFFFFFFF, U32))


def _variant(product: WarpgroupProduct) -> str:
    """What the words of an instruction leave open."""
    where = "registers" if isinstance(product.left, Group) else "shared"
    signs = "".join("p" if each > 0 else "m" for each in product.signs)
    return f"{where}_{signs}_{int(product.summed[0])}{int(product.summed[1])}"


def _uniform(lanes: Lanes, operand: Operand) -> str:
    """A number that all lanes share, as an i64; the launch bails where they do not."""
    function = lanes.function
    value = lanes.read(operand, TYPES["u64"])
    type = function.vector(U64)
    first = function.new(f"extractelement {type} {value.parts[0]}, i64 0")
    spread = function.spread(first, U64)
    same = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", value, spread)
    bail_if(function, function.new(f"icmp ne i32 {mask_bits(function, same)}, -1"))
    return first


def _product_text(function: Function, name: str, form: Form, product: WarpgroupProduct) -> str:
    """A function of the bits of the sum (in place), shared memory, descriptors; true: it bails."""
    n, k = product.columns, product.depth
    for label, count in (("x", ROWS * k), ("y", k * n), ("z", ROWS * n)):
        function.emit(f"%{label} = alloca [{count} x double], align 64")
    function.emit("%wrong = alloca i1, align 1")
    function.emit("store i1 false, ptr %wrong, align 1")
    type = function.vector(U32)
    arguments = ["ptr %bits", "ptr %shared", "i64 %limit", "i64 %left", "i64 %right"]
    arguments += ["i1 %keeps", "i64 %warp"]
    if isinstance(product.left, Group):
        fragment = product.left_fragment
        registers = [
            Value(U32, tuple(f"%a{r * function.parts + part}" for part in range(function.parts)))
            for r in range(fragment.registers)
        ]
        arguments += [f"{type} {part}" for value in registers for part in value.parts]
        spill(function, "x", fragment, registers, product.left_name, k)
        if product.signs[0] < 0:
            _negate(function, ROWS * k)
    else:
        first = function.new(f"mul i64 %warp, {ROWS}")
        SharedFactor(
            function, "x", "%left", product.left_name, ROWS, k, first, product.signs[0] < 0,
            product.summed[0], summed_inner=True,
        ).write()  # fmt: skip
    SharedFactor(
        function, "y", "%right", product.right_name, n, k, "0", product.signs[1] < 0,
        product.summed[1], summed_inner=False,
    ).write()  # fmt: skip
    _clear(function, ROWS * n)
    empty = function.new("xor i1 %keeps, true")
    unless(function, empty, lambda: _take_sums(function, product))
    _wide_product(function, n, k)
    _put_sums(function, form, product)
    function.emit(f"ret i1 {function.new('load i1, ptr %wrong, align 1')}")
    body = "\n".join(function.lines)
    return f"define internal i1 @{name}({', '.join(arguments)}) noinline {{\nentry:\n{body}\n}}"


def _negate(function: Function, count: int) -> None:
    def turn(number: str) -> None:
        place = function.new(f"getelementptr <8 x double>, ptr %x, i64 {number}")
        held = function.new(f"load <8 x double>, ptr {place}, align 8")
        function.emit(
            f"store <8 x double> {function.new(f'fneg <8 x double> {held}')}, ptr {place}, align 8"
        )

    repeat(function, count // 8, turn)


def _clear(function: Function, count: int) -> None:
    def turn(number: str) -> None:
        place = function.new(f"getelementptr <8 x double>, ptr %z, i64 {number}")
        function.emit(f"store <8 x double> zeroinitializer, ptr {place}, align 8")

    repeat(function, count // 8, turn)


def _blocks(function: Function, product: WarpgroupProduct, number: str) -> tuple[str, str, int]:
    """For 8 columns of the sum: where its registers and its numbers begin, how many registers."""
    count = len(product.names) // (product.columns // 8)
    offset = function.new(f"mul i64 {number}, {count * _ROW_BYTES}")
    bits = function.new(f"getelementptr i8, ptr %bits, i64 {offset}")
    numbers = function.new(f"getelementptr <8 x double>, ptr %z, i64 {number}")
    return bits, numbers, count


def _places(function: Function, product: WarpgroupProduct, base: str, slot: int) -> Places:
    fragment = product.added
    offsets = 8 * (fragment.rows[slot] * product.columns + fragment.columns[slot])
    return Places(base, lane_constants(function, offsets, U64), "")


def _take_sums(function: Function, product: WarpgroupProduct) -> None:
    """The registers of the sum to its matrix."""
    type = function.vector(U32)

    def turn(number: str) -> None:
        bits, numbers, count = _blocks(function, product, number)
        slot = 0
        for register in range(count):
            parts: list[str] = []
            for part in range(function.parts):
                place = _register_place(function, bits, register, part)
                parts.append(function.new(f"load {type}, ptr {place}, align 64"))
            for each in sum_numbers(function, Value(U32, tuple(parts)), product.sum_type):
                scatter(function, _places(function, product, numbers, slot), None, [each])
                slot += 1

    repeat(function, product.columns // 8, turn)


def _put_sums(function: Function, form: Form, product: WarpgroupProduct) -> None:
    """The matrix of the sum, rounded, to its registers."""
    type, packed = function.vector(U32), product.sum_type.lanes

    def turn(number: str) -> None:
        bits, numbers, count = _blocks(function, product, number)
        for register in range(count):
            made = [
                rounded(
                    function,
                    gather(function, _places(function, product, numbers, slot), None, F64, 0),
                    product.sum_type.value,
                    form,
                )
                for slot in range(register * packed, (register + 1) * packed)
            ]
            value = joined(function, made, U32) if packed > 1 else made[0]
            for part, each in enumerate(value.parts):
                place = _register_place(function, bits, register, part)
                function.emit(f"store {type} {each}, ptr {place}, align 64")

    repeat(function, product.columns // 8, turn)


def _wide_product(function: Function, n: int, k: int) -> None:
    """z = z + x y, eight rows by eight columns at a time."""
    row = "<8 x double>"
    name = "llvm.fma.v8f64"
    function.declare(name, f"declare {row} @{name}({row}, {row}, {row})")

    def columns(number: str) -> None:
        begin = function.new(f"getelementptr {row}, ptr %z, i64 {number}")
        right = function.new(f"getelementptr {row}, ptr %y, i64 {number}")

        def rows(block: str) -> None:
            shift = function.new(f"mul i64 {block}, {8 * n}")
            sums = function.new(f"getelementptr double, ptr {begin}, i64 {shift}")
            lead = function.new(f"mul i64 {block}, {8 * k}")
            left = function.new(f"getelementptr double, ptr %x, i64 {lead}")
            places = [
                function.new(f"getelementptr double, ptr {sums}, i64 {i * n}") for i in range(8)
            ]
            totals = [function.new(f"load {row}, ptr {each}, align 8") for each in places]
            for at in range(k):
                below = function.new(f"getelementptr double, ptr {right}, i64 {at * n}")
                held = function.new(f"load {row}, ptr {below}, align 8")
                for i in range(8):
                    place = function.new(f"getelementptr double, ptr {left}, i64 {i * k + at}")
                    scalar = function.new(f"load double, ptr {place}, align 8")
                    first = function.new(f"insertelement {row} poison, double {scalar}, i64 0")
                    spread = function.new(
                        f"shufflevector {row} {first}, {row} poison, <8 x i32> zeroinitializer"
                    )
                    totals[i] = function.new(
                        f"call {row} @{name}({row} {spread}, {row} {held}, {row} {totals[i]})"
                    )
            for place, total in zip(places, totals, strict=True):
                function.emit(f"store {row} {total}, ptr {place}, align 8")

        repeat(function, ROWS // 8, rows)

    repeat(function, n // 8, columns)
