"""Barriers with a count, and that of the cluster, in compiled code: warps come as a whole."""

from __future__ import annotations

from wia_compiler.simulators.ptx.jit.access import bail_if
from wia_compiler.simulators.ptx.jit.code import Function
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.layout import (
    CLUSTER_BARRIER,
    COUNTED,
    NAMED_BYTES,
    WarpLayout,
    word_offset,
)
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.named_barriers import BARRIER_COUNT, BlockBarrier
from wia_compiler.simulators.ptx.syntax import Immediate, Operand, Register
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import UnknownForm


def only_whole_warps(function: Function, bits: str) -> None:
    """Bail unless all lanes of the warp that have not ended are here."""
    alive = function.new("load i32, ptr %alive, align 4")
    bail_if(function, function.new(f"icmp ne i32 {alive}, {bits}"))


def write_arrival(lanes: Lanes, barrier: BlockBarrier, bits: str) -> tuple[str, str]:
    """A warp comes to a barrier with a count: whether it must wait (i1), and the barrier (i32).

    ``bits`` are its lanes; what ``red`` folds comes to its register as the barrier opens.
    """
    function = lanes.function
    which = _uniform(lanes, barrier.number)
    bail_if(function, function.new(f"icmp uge i32 {which}, {BARRIER_COUNT}"))
    if barrier.count is None:
        warps = word(function, "warp_count")
        count = function.new(f"trunc i64 {function.new(f'mul i64 {warps}, {WARP}')} to i32")
    else:
        count = _uniform(lanes, barrier.count)
    yes, threads = _asked(lanes, barrier, bits)
    came = function.new(
        f"call i32 @named_come(ptr %context, ptr %warp, i32 {which}, i32 {count}, i32 {yes}, "
        f"i32 {threads})"
    )
    bail_if(function, function.new(f"icmp slt i32 {came}, 0"))
    return function.new(f"icmp eq i32 {came}, 1"), which


def _asked(lanes: Lanes, barrier: BlockBarrier, bits: str) -> tuple[str, str]:
    """Of ``red`` the threads whose predicate holds, and all of the warp (0: it is no ``red``).

    Where the result goes is noted in the warp's memory.
    """
    function = lanes.function
    if barrier.action != "red":
        return "0", "0"
    assert barrier.asked is not None
    name = function.declare("llvm.ctpop.i32", "declare i32 @llvm.ctpop.i32(i32)")
    holds = mask_bits(function, lanes.read(barrier.asked, TYPES["pred"]))
    holds = function.new(f"and i32 {holds}, {bits}")
    result = lanes.scope.meant(barrier.result)
    assert isinstance(result, Register)
    if barrier.fold == "popc" and lanes.scope.register(result.name).bits != 32:
        raise UnknownForm("bar.red.popc to a register of other than 32 bits")
    offset = lanes.layout.registers.get(result.name)
    kind = 0 if offset is None else 1 + ("popc", "and", "or").index(barrier.fold)
    for place, number in ((lanes.layout.fold_kind, kind), (lanes.layout.fold_place, offset or 0)):
        to = function.new(f"getelementptr i8, ptr %warp, i64 {place}")
        function.emit(f"store i32 {number}, ptr {to}, align 4")
    yes, threads = (function.new(f"call i32 @{name}(i32 {each})") for each in (holds, bits))
    return yes, threads


def _uniform(lanes: Lanes, operand: Operand) -> str:
    """An operand that all lanes of the warp share, as an i32; bail where they do not."""
    function, type = lanes.function, TYPES["u32"]
    if isinstance(operand, Immediate):
        return str(int(operand.value))
    value = lanes.read(operand, type)
    vector = function.vector(type.value)
    bits = "-1" if lanes.mask is None else function.new("load i32, ptr %mask, align 4")
    for part, each in enumerate(value.parts):
        place = function.new(f"getelementptr i32, ptr %exchange, i64 {part * function.width}")
        function.emit(f"store {vector} {each}, ptr {place}, align 4")
    lane = function.new(f"call i32 @llvm.cttz.i32(i32 {bits}, i1 false)")
    lane = function.new(f"and i32 {lane}, {WARP - 1}")
    place = function.new(f"getelementptr i32, ptr %exchange, i32 {lane}")
    first = function.new(f"load i32, ptr {place}, align 4")
    different = function.new(f"call i32 @differing(ptr %exchange, i32 {first}, i32 {bits})")
    bail_if(function, function.new(f"icmp ne i32 {different}, 0"))
    return first


def write_cluster_arrival(lanes: Lanes, bits: str) -> None:
    """``barrier.cluster.arrive``: a warp that has not arrived since it waited."""
    function = lanes.function
    if lanes.mask is not None:
        only_whole_warps(function, bits)
    place = function.new(f"getelementptr i8, ptr %warp, i64 {lanes.layout.cluster_phase}")
    before = function.new(f"load i32, ptr {place}, align 4")
    bail_if(function, function.new(f"icmp ne i32 {before}, 0"))
    phase = function.new("call i32 @cluster_phase(ptr %context)")
    function.emit(f"store i32 {phase}, ptr {place}, align 4")
    warps = function.new(f"trunc i64 {word(function, 'warp_count')} to i32")
    count = function.new(f"mul i32 {warps}, {WARP}")
    function.emit(
        f"call i32 @named_come(ptr %context, ptr %warp, i32 {CLUSTER_BARRIER}, i32 {count}, "
        "i32 0, i32 0)"
    )


def write_cluster_test(lanes: Lanes, bits: str, asked: str) -> str:
    """The lanes that run, if all of the cluster have arrived, else none (i32); ``asked`` wait."""
    function = lanes.function
    if lanes.mask is not None:
        only_whole_warps(function, bits)
    place = function.new(f"getelementptr i8, ptr %warp, i64 {lanes.layout.cluster_phase}")
    before = function.new(f"load i32, ptr {place}, align 4")
    early = function.new(f"icmp eq i32 {before}, 0")
    bail_if(function, function.new(f"and i1 {early}, {function.new(f'icmp ne i32 {asked}, 0')}"))
    phase = function.new("call i32 @cluster_phase(ptr %context)")
    same = function.new(f"icmp eq i32 {phase}, {before}")
    return function.new(f"select i1 {same}, i32 0, i32 {bits}")


def write_cluster_wait(lanes: Lanes) -> None:
    """``barrier.cluster.wait`` is over."""
    function = lanes.function
    place = function.new(f"getelementptr i8, ptr %warp, i64 {lanes.layout.cluster_phase}")
    function.emit(f"store i32 0, ptr {place}, align 4")


def named_text(layout: WarpLayout) -> str:
    """``@named_come``: 0 where the barrier opens or nobody waits for it, 1 where it does not."""

    def load(name: str, result: str, type: str = "i64") -> str:
        return (
            f"  %{result}_place = getelementptr i8, ptr %context, i64 {word_offset(name)}\n"
            f"  %{result} = load {type}, ptr %{result}_place, align 8"
        )

    return f"""
define internal i32 @differing(ptr %values, i32 %value, i32 %mask) noinline {{
  %all = load <32 x i32>, ptr %values, align 4
  %one = insertelement <32 x i32> poison, i32 %value, i64 0
  %every = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %others = icmp ne <32 x i32> %all, %every
  %bits = bitcast <32 x i1> %others to i32
  %found = and i32 %bits, %mask
  ret i32 %found
}}

; The generation of the cluster's barrier, plus one.
define internal i32 @cluster_phase(ptr %context) noinline {{
{load("named", "named", "ptr")}
  %place = getelementptr i8, ptr %named, i64 {CLUSTER_BARRIER * NAMED_BYTES + 8}
  %generation = load i32, ptr %place, align 4
  %more = add i32 %generation, 1
  ret i32 %more
}}

; The fold of a ``red`` to the register of a warp that noted where it is.
define internal void @fold_out(ptr %memory, i32 %yes, i32 %threads) noinline {{
entry:
  %kind_place = getelementptr i8, ptr %memory, i64 {layout.fold_kind}
  %kind = load i32, ptr %kind_place, align 4
  %where_place = getelementptr i8, ptr %memory, i64 {layout.fold_place}
  %where = load i32, ptr %where_place, align 4
  %to = getelementptr i8, ptr %memory, i32 %where
  switch i32 %kind, label %end [ i32 1, label %popc i32 2, label %and i32 3, label %or ]
popc:
  %one = insertelement <32 x i32> poison, i32 %yes, i64 0
  %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  store <32 x i32> %all, ptr %to, align 4
  ret void
and:
  %every = icmp eq i32 %yes, %threads
  %both = sext i1 %every to i32
  store i32 %both, ptr %to, align 1
  ret void
or:
  %some = icmp ne i32 %yes, 0
  %any = sext i1 %some to i32
  store i32 %any, ptr %to, align 1
  ret void
end:
  ret void
}}

define internal i32 @named_come(ptr %context, ptr %own, i32 %number, i32 %count, i32 %yes,
    i32 %threads) noinline {{
entry:
{load("named", "named", "ptr")}
{load("states", "states", "ptr")}
{load("warp_count", "warps")}
{load("warps", "memory", "ptr")}
  %far = icmp ugt i32 %number, {BARRIER_COUNT}
  %low = and i32 %count, {WARP - 1}
  %odd = icmp ne i32 %low, 0
  %none = icmp eq i32 %count, 0
  %bad0 = or i1 %far, %odd
  %bad = or i1 %bad0, %none
  br i1 %bad, label %refuse, label %known
known:
  %offset = mul i32 %number, {NAMED_BYTES}
  %place = getelementptr i8, ptr %named, i32 %offset
  %arrived = load i32, ptr %place, align 4
  %expected_place = getelementptr i8, ptr %place, i64 4
  %before = load i32, ptr %expected_place, align 4
  %first = icmp eq i32 %arrived, 0
  %expected = select i1 %first, i32 %count, i32 %before
  store i32 %expected, ptr %expected_place, align 4
  %now = add i32 %arrived, {WARP}
  %differs = icmp ne i32 %expected, %count
  %beyond = icmp ugt i32 %now, %expected
  %yes_place = getelementptr i8, ptr %place, i64 12
  %threads_place = getelementptr i8, ptr %place, i64 16
  %yes_old = load i32, ptr %yes_place, align 4
  %threads_old = load i32, ptr %threads_place, align 4
  %yes_before = select i1 %first, i32 0, i32 %yes_old
  %threads_before = select i1 %first, i32 0, i32 %threads_old
  %yes_now = add i32 %yes_before, %yes
  %threads_now = add i32 %threads_before, %threads
  store i32 %yes_now, ptr %yes_place, align 4
  store i32 %threads_now, ptr %threads_place, align 4
  %folds = icmp ne i32 %threads, 0
  %folded = icmp ne i32 %threads_before, 0
  %mixed0 = icmp ne i1 %folds, %folded
  %later = xor i1 %first, true
  %mixed = and i1 %mixed0, %later
  %wrong0 = or i1 %differs, %beyond
  %wrong = or i1 %wrong0, %mixed
  br i1 %wrong, label %refuse, label %come
come:
  %opens = icmp eq i32 %now, %expected
  %left = select i1 %opens, i32 0, i32 %now
  store i32 %left, ptr %place, align 4
  br i1 %opens, label %open, label %wait
open:
  %generation_place = getelementptr i8, ptr %place, i64 8
  %generation = load i32, ptr %generation_place, align 4
  %following = add i32 %generation, 1
  store i32 %following, ptr %generation_place, align 4
  %code = add i32 %number, {COUNTED}
  br i1 %folds, label %own_fold, label %each
own_fold:
  call void @fold_out(ptr %own, i32 %yes_now, i32 %threads_now)
  br label %each
each:
  %w = phi i64 [ 0, %open ], [ 0, %own_fold ], [ %next, %waked ]
  %state_place = getelementptr i32, ptr %states, i64 %w
  %state = load i32, ptr %state_place, align 4
  %here = icmp eq i32 %state, %code
  %new = select i1 %here, i32 0, i32 %state
  store i32 %new, ptr %state_place, align 4
  %gives = and i1 %here, %folds
  br i1 %gives, label %give, label %waked
give:
  %offset_of = mul i64 %w, {layout.size_bytes}
  %theirs = getelementptr i8, ptr %memory, i64 %offset_of
  call void @fold_out(ptr %theirs, i32 %yes_now, i32 %threads_now)
  br label %waked
waked:
  %next = add i64 %w, 1
  %all = icmp uge i64 %next, %warps
  br i1 %all, label %opened, label %each
opened:
  ret i32 0
wait:
  ret i32 1
refuse:
  ret i32 -1
}}
"""
