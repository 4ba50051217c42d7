"""The instructions by which a watched loop asks whether it should stop (see ``interrupts``)."""

from __future__ import annotations

from xdsl.ir import Operation

from wia_compiler.passes.llvm.writer import Writer

_SEEN = "%wia.seen"
_TURNS = "%wia.turns"
_STOPPED = "%wia.stopped"
_MASK = 1023
"""A counted loop looks at the clock every 1024th time."""


def begin_asking(writer: Writer) -> None:
    """At the start of a function: when it last asked, and how often its loops went round."""
    writer.allocas.append(f"  {_SEEN} = alloca i64, align 8")
    writer.allocas.append(f"  {_TURNS} = alloca i64, align 8")
    now = writer.temporary("call i64 @llvm.readcyclecounter()")
    writer.line(f"store i64 {now}, ptr {_SEEN}, align 8")
    writer.line(f"store i64 0, ptr {_TURNS}, align 8")


def end_asking(writer: Writer) -> None:
    """At the end of a function: where it goes when it is told to stop."""
    writer.label(_STOPPED)
    writer.line("ret i1 true")


def ask_whether_to_stop(writer: Writer, loop: Operation) -> None:
    """Where a loop is about to go round; nothing for a loop that is not watched."""
    pace = writer.module.watched.loops.get(loop)
    if pace is None:
        return
    on = writer.fresh("go_on")
    if pace == "counted":
        turns = writer.temporary(f"load i64, ptr {_TURNS}, align 8")
        more = writer.temporary(f"add i64 {turns}, 1")
        writer.line(f"store i64 {more}, ptr {_TURNS}, align 8")
        low = writer.temporary(f"and i64 {more}, {_MASK}")
        round_ = writer.temporary(f"icmp eq i64 {low}, 0")
        look = writer.fresh("look")
        writer.line(f"br i1 {round_}, label {look}, label {on}")
        writer.label(look)
    now = writer.temporary("call i64 @llvm.readcyclecounter()")
    seen = writer.temporary(f"load i64, ptr {_SEEN}, align 8")
    past = writer.temporary(f"sub i64 {now}, {seen}")
    due = writer.temporary(f"icmp ugt i64 {past}, {writer.options.clock_ticks}")
    ask = writer.fresh("ask")
    writer.line(f"br i1 {due}, label {ask}, label {on}")
    writer.label(ask)
    writer.line(f"store i64 {now}, ptr {_SEEN}, align 8")
    told = writer.temporary("call i1 @wia.interrupted()")
    writer.line(f"br i1 {told}, label {_STOPPED}, label {on}")
    writer.label(on)


def stop_if(writer: Writer, told: str) -> None:
    """After a call of a function that was told to stop, or was not."""
    on = writer.fresh("go_on")
    writer.line(f"br i1 {told}, label {_STOPPED}, label {on}")
    writer.label(on)
