"""Loops of LLVM IR over numbers from 0 on."""

from __future__ import annotations

from collections.abc import Callable

from wia_compiler.simulators.ptx.jit.code import Function


def repeat(function: Function, count: int, body: Callable[[str], None]) -> None:
    """Write a loop: ``body`` writes one turn and is told the name of its number, an i64."""
    before, turn, end, after = (function.fresh(each) for each in ("before", "turn", "end", "after"))
    number, following = function.fresh("%number"), function.fresh("%following")
    function.emit(f"br label %{before}")
    function.start(before)
    function.emit(f"br label %{turn}")
    function.start(turn)
    function.emit(f"{number} = phi i64 [ 0, %{before} ], [ {following}, %{end} ]")
    body(number)
    function.emit(f"br label %{end}")
    function.start(end)
    function.emit(f"{following} = add i64 {number}, 1")
    over = function.new(f"icmp eq i64 {following}, {count}")
    function.emit(f"br i1 {over}, label %{after}, label %{turn}")
    function.start(after)


def each_lane(function: Function, bits: str, body: Callable[[str], None]) -> None:
    """Write a loop over the lanes whose bit is set, which ``body`` is told (an i32)."""
    before, turn, work, end, after = (
        function.fresh(each) for each in ("before", "turn", "work", "end", "after")
    )
    function.emit(f"br label %{before}")
    function.start(before)
    function.emit(f"br label %{turn}")
    function.start(turn)
    following = function.fresh("%following")
    rest = function.new(f"phi i32 [ {bits}, %{before} ], [ {following}, %{end} ]")
    none = function.new(f"icmp eq i32 {rest}, 0")
    function.emit(f"br i1 {none}, label %{after}, label %{work}")
    function.start(work)
    name = function.declare("llvm.cttz.i32", "declare i32 @llvm.cttz.i32(i32, i1)")
    body(function.new(f"call i32 @{name}(i32 {rest}, i1 true)"))
    function.emit(f"br label %{end}")
    function.start(end)
    less = function.new(f"sub i32 {rest}, 1")
    function.emit(f"{following} = and i32 {rest}, {less}")
    function.emit(f"br label %{turn}")
    function.start(after)


def unless(function: Function, condition: str, body: Callable[[], None]) -> None:
    """Write what is done where a condition does not hold."""
    skipped, after = function.fresh("otherwise"), function.fresh("after")
    function.emit(f"br i1 {condition}, label %{after}, label %{skipped}")
    function.start(skipped)
    body()
    function.emit(f"br label %{after}")
    function.start(after)
