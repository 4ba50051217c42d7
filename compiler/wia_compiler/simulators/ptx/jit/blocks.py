"""The loop over the blocks of a launch: their warps run in turn until all wait or end."""

from __future__ import annotations

from wia_compiler.simulators.ptx.jit.layout import (
    ASLEEP,
    BAIL,
    COPIES_BYTES,
    COUNTED,
    ISSUED,
    NAMED_BARRIERS,
    NAMED_BYTES,
    STUCK,
    WarpLayout,
    word_offset,
)
from wia_compiler.simulators.ptx.progress import MOST_STALLS
from wia_compiler.simulators.ptx.threads import WARP


def blocks_text(layout: WarpLayout) -> str:
    """``i32 @blocks(context, fresh, first, count)``: 0, or what ended it before.

    ``fresh`` is the memory of all warps of a block as it begins.
    """

    def word(name: str, result: str, type: str = "i64") -> str:
        return (
            f"  %{result}_place = getelementptr i8, ptr %context, i64 {word_offset(name)}\n"
            f"  %{result} = load {type}, ptr %{result}_place, align 8"
        )

    def put(name: str, value: str) -> str:
        return (
            f"  %{value}_to = getelementptr i8, ptr %context, i64 {word_offset(name)}\n"
            f"  store i64 %{value}, ptr %{value}_to, align 8"
        )

    warp_bytes = layout.size_bytes
    return f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i32 @blocks(ptr %context, ptr %fresh, i64 %first, i64 %count) {{
entry:
{word("nctaid.x", "wide")}
{word("nctaid.y", "high")}
{word("shared", "shared", "ptr")}
{word("shared_bytes", "shared_bytes")}
{word("local", "local", "ptr")}
{word("local_bytes", "local_bytes")}
{word("warps", "warps", "ptr")}
{word("warp_count", "warp_count")}
  %warp_bytes = mul i64 %warp_count, {warp_bytes}
  %lanes = mul i64 %warp_count, {WARP}
  %all_local = mul i64 %lanes, %local_bytes
  %last = add i64 %first, %count
  %states = alloca [{WARP} x i32], align 64
  %states_place = getelementptr i8, ptr %context, i64 {word_offset("states")}
  store ptr %states, ptr %states_place, align 8
  %named = alloca [{NAMED_BARRIERS * NAMED_BYTES} x i8], align 64
  %named_place = getelementptr i8, ptr %context, i64 {word_offset("named")}
  store ptr %named, ptr %named_place, align 8
  %mode_place = getelementptr i8, ptr %context, i64 {word_offset("mode")}
  br label %block
block:
  %number = phi i64 [ %first, %entry ], [ %following, %{_last(layout)} ]
  %over = icmp uge i64 %number, %last
  br i1 %over, label %finished, label %begin
begin:
  %x = urem i64 %number, %wide
  %row = udiv i64 %number, %wide
  %y = urem i64 %row, %high
  %z = udiv i64 %row, %high
{put("ctaid.x", "x")}
{put("ctaid.y", "y")}
{put("ctaid.z", "z")}
  call void @llvm.memset.p0.i64(ptr %shared, i8 0, i64 %shared_bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %local, i8 0, i64 %all_local, i1 false)
{word("copies", "copies", "ptr")}
  br label %clear
clear:
  %c = phi i64 [ 0, %begin ], [ %c_next, %clear ]
  %c_offset = mul i64 %c, {COPIES_BYTES}
  %c_place = getelementptr i8, ptr %copies, i64 %c_offset
  store <4 x i64> zeroinitializer, ptr %c_place, align 8
  %c_next = add i64 %c, 1
  %c_all = icmp uge i64 %c_next, %warp_count
  br i1 %c_all, label %ready_to_run, label %clear
ready_to_run:
  call void @llvm.memcpy.p0.p0.i64(ptr %warps, ptr %fresh, i64 %warp_bytes, i1 false)
  store [{WARP} x i32] zeroinitializer, ptr %states, align 64
  store [{NAMED_BARRIERS * NAMED_BYTES} x i8] zeroinitializer, ptr %named, align 64
  br label %round
round:
  ; Mode 1 lets lanes pass by those of their warp that sleep, mode 3 also ends waits for a phase.
  %mode = phi i64 [ 0, %ready_to_run ], [ 0, %look ], [ 0, %slept ], [ 1, %loosen ],
    [ 3, %expire ], [ 0, %released ]
  %stalls = phi i64 [ 0, %ready_to_run ], [ %stalls, %look ], [ %stalls, %slept ],
    [ %stalls, %loosen ], [ %stalled, %expire ], [ 0, %released ]
  %changes_before = phi i64 [ -1, %ready_to_run ], [ %changes_before, %look ],
    [ %changes_before, %slept ], [ %changes_before, %loosen ], [ %changes_now, %expire ],
    [ -1, %released ]
  store i64 %mode, ptr %mode_place, align 8
{word("budget", "budget")}
  br label %warp
warp:
  %at = phi i64 [ 0, %round ], [ %next, %step ]
  %state_place = getelementptr i32, ptr %states, i64 %at
  %state = load i32, ptr %state_place, align 4
  %free = icmp eq i32 %state, 0
  %slept_before = icmp eq i32 %state, {ASLEEP}
  %ready = or i1 %free, %slept_before
  br i1 %ready, label %run, label %skip
run:
  %offset = mul i64 %at, {warp_bytes}
  %memory = getelementptr i8, ptr %warps, i64 %offset
  %result = call i32 @warp(ptr %context, ptr %memory)
  %failed = icmp slt i32 %result, 0
  br i1 %failed, label %failure, label %ran
ran:
  ; A warp that ended is at no barrier ever again.
  %ends = icmp eq i32 %result, 0
  %new = select i1 %ends, i32 -1, i32 %result
  store i32 %new, ptr %state_place, align 4
  br label %step
skip:
  br label %step
step:
  %next = add i64 %at, 1
  %all = icmp uge i64 %next, %warp_count
  br i1 %all, label %scan, label %warp
scan:
  ; Whether any warp is left, can run, or sleeps.
  %s = phi i64 [ 0, %step ], [ %s_next, %scan ]
  %living = phi i1 [ false, %step ], [ %lives, %scan ]
  %runnable = phi i1 [ false, %step ], [ %runs, %scan ]
  %sleeping = phi i1 [ false, %step ], [ %sleeps, %scan ]
  %s_place = getelementptr i32, ptr %states, i64 %s
  %s_state = load i32, ptr %s_place, align 4
  %s_alive = icmp ne i32 %s_state, -1
  %s_ready = icmp eq i32 %s_state, 0
  %s_asleep = icmp eq i32 %s_state, {ASLEEP}
  %lives = or i1 %living, %s_alive
  %runs = or i1 %runnable, %s_ready
  %sleeps = or i1 %sleeping, %s_asleep
  %s_next = add i64 %s, 1
  %s_all = icmp uge i64 %s_next, %warp_count
  br i1 %s_all, label %some, label %scan
some:
  br i1 %lives, label %look, label %copies_end
look:
  br i1 %runs, label %round, label %rest
rest:
  br i1 %sleeps, label %slept, label %compare
slept:
  ; Somebody ran since the last look: those that sleep look again.
{word("budget", "budget_now")}
  %nobody = icmp eq i64 %budget_now, %budget
  br i1 %nobody, label %stall, label %round
stall:
  %strict = icmp eq i64 %mode, 0
  br i1 %strict, label %loosen, label %tally
loosen:
  br label %round
tally:
{word("changes", "changes_now")}
  %unchanged = icmp eq i64 %changes_now, %changes_before
  %counted = select i1 %unchanged, i64 %stalls, i64 0
  %stalled = add i64 %counted, 1
  %enough = icmp ugt i64 %stalled, {MOST_STALLS}
  br i1 %enough, label %stuck, label %expire
expire:
  br label %round
compare:
  ; All that live wait: a barrier opens if it is the same for all of them.
  %w = phi i64 [ 0, %rest ], [ %w_next, %compared ]
  %barrier = phi i32 [ 0, %rest ], [ %barrier_next, %compared ]
  %w_place = getelementptr i32, ptr %states, i64 %w
  %w_state = load i32, ptr %w_place, align 4
  %gone = icmp eq i32 %w_state, -1
  %unknown = icmp eq i32 %barrier, 0
  %same = icmp eq i32 %w_state, %barrier
  %fits = or i1 %unknown, %same
  %all_threads = icmp slt i32 %w_state, {COUNTED}
  %opens = and i1 %all_threads, %fits
  %fine = or i1 %gone, %opens
  br i1 %fine, label %compared, label %stuck
compared:
  %barrier_next = select i1 %gone, i32 %barrier, i32 %w_state
  %w_next = add i64 %w, 1
  %w_all = icmp uge i64 %w_next, %warp_count
  br i1 %w_all, label %release, label %compare
release:
  %r = phi i64 [ 0, %compared ], [ %r_next, %released ]
  %r_place = getelementptr i32, ptr %states, i64 %r
  %r_state = load i32, ptr %r_place, align 4
  %r_gone = icmp eq i32 %r_state, -1
  %r_new = select i1 %r_gone, i32 -1, i32 0
  store i32 %r_new, ptr %r_place, align 4
  br label %released
released:
  %r_next = add i64 %r, 1
  %r_all = icmp uge i64 %r_next, %warp_count
  br i1 %r_all, label %round, label %release
copies_end:
{word("outgoing", "outgoing")}
  %idle = icmp eq i64 %outgoing, 0
  br i1 %idle, label %ended, label %finish
finish:
  %finished_copies = call i1 @end_copies(ptr %context)
  br i1 %finished_copies, label %ended, label %failed_end
failed_end:
  ret i32 {BAIL}
{_agreement(layout)}
  %following = add i64 %number, 1
  br label %block
failure:
  ret i32 %result
stuck:
  ret i32 {STUCK}
finished:
  ret i32 0
}}
"""


def _last(layout: WarpLayout) -> str:
    """The label from which the next block begins."""
    return "go_on" if layout.products else "ended"


def _agreement(layout: WarpLayout) -> str:
    """The end of a block: the four warps of a warpgroup must have begun the same products."""
    if not layout.products:
        return "ended:"
    size, at = layout.size_bytes, layout.products[""] + ISSUED
    return f"""ended:
  br label %agree
agree:
  %g = phi i64 [ 0, %ended ], [ %g_next, %agreed ]
  %g_first = and i64 %g, -4
  %g_offset = mul i64 %g, {size}
  %g_at = add i64 %g_offset, {at}
  %g_place = getelementptr i8, ptr %warps, i64 %g_at
  %g_order = load i64, ptr %g_place, align 8
  %f_offset = mul i64 %g_first, {size}
  %f_at = add i64 %f_offset, {at}
  %f_place = getelementptr i8, ptr %warps, i64 %f_at
  %f_order = load i64, ptr %f_place, align 8
  %g_group = add i64 %g_first, 4
  %g_part = icmp ugt i64 %g_group, %warp_count
  %g_wanted = select i1 %g_part, i64 0, i64 %f_order
  %g_same = icmp eq i64 %g_order, %g_wanted
  br i1 %g_same, label %agreed, label %disagree
disagree:
  ret i32 {BAIL}
agreed:
  %g_next = add i64 %g, 1
  %g_all = icmp uge i64 %g_next, %warp_count
  br i1 %g_all, label %go_on, label %agree
go_on:"""
