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


def unless(function: Function, condition: str, body: Callable[[], None]) -> None:
    """Write what is done where a condition does not hold."""
    skipped, after = function.fresh("otherwise"), function.fresh("after")
    function.emit(f"br i1 {condition}, label %{after}, label %{skipped}")
    function.start(skipped)
    body()
    function.emit(f"br label %{after}")
    function.start(after)
