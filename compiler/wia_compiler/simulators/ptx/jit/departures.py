"""Bulk copies out of shared memory, in compiled code: in groups, done as late as they may be.

A copy is noted with what it was asked for; its bytes are read when its thread waits for its group,
and written when it waits without ``.read``, at the latest when the block ends (see ``bulk``). What
was read and is not written yet lies in ``taken``; once that is full, the launch is given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.combiners import COMBINERS
from wia_compiler.simulators.ptx.jit.boxes import (
    BEFORE,
    BOX_WORDS,
    BYTES,
    INSIDE,
    MOVED_BITS,
    ROW_BYTES,
    ROWS,
    TYPE,
    Text,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import reinterpreted
from wia_compiler.simulators.ptx.jit.layout import MOST_DEPARTURES, TAKEN_BYTES
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.jit.transfers import add_word, chunk_place
from wia_compiler.simulators.ptx.tensor_box import CHUNK_BYTES
from wia_compiler.simulators.ptx.tensor_map import ELEMENTS

DEPARTURE_WORDS = 16
_THREAD, _GROUP, _TAKEN, _SIZE, _PLACE, _MOVED, _TARGET, _MAP, _AXES, _TYPE, _COMBINE = range(11)
_COORDINATES = 11
_LIST = 8
"""Words before the first one: how many there are, how much of ``taken`` is in use."""
_CHUNK = f"<{CHUNK_BYTES} x i8>"


def departures_text(function: Function, reductions: Iterable[str]) -> str:
    """All functions of copies out of shared memory, and the ``reductions`` that are used."""
    return "\n".join(
        (
            _note_text(),
            _store_text(),
            _box_store_text(),
            _take_text(),
            _finish_text(),
            _wait_text(),
            _end_text(),
            *(_reduction_text(function, each) for each in sorted(reductions)),
        )
    )


def _entry_of(t: Text, number: str) -> str:
    start = t.op("add", t.op("mul", number, DEPARTURE_WORDS), _LIST)
    return t.new(f"getelementptr i64, ptr {t.word('departures', 'ptr')}, i64 {start}")


def _note_text() -> str:
    """The next departure of a thread, for the group that it has open; null where there are many."""
    t = Text("define internal ptr @depart(ptr %context, i64 %thread, i64 %size) noinline")
    list_ = t.word("departures", "ptr")
    count = t.load(list_, 0)
    t.refuse(t.op("icmp uge", count, MOST_DEPARTURES))
    t.store(list_, 0, t.op("add", count, 1))
    entry = _entry_of(t, count)
    t.store(entry, _THREAD, "%thread")
    t.store(entry, _GROUP, t.load(t.word("open_groups", "ptr"), "%thread"))
    t.store(entry, _TAKEN, -1)
    t.store(entry, _SIZE, "%size")
    add_word(t, "outgoing", 1)
    t.emit(f"ret ptr {entry}")
    return t.text("no:", "  ret ptr null")


def _store_text() -> str:
    """``cp.async.bulk`` and ``cp.reduce.async.bulk`` to device memory."""
    t = Text(
        "define internal i1 @store_run(ptr %context, i64 %thread, i64 %target, i64 %source, "
        "i64 %size, i64 %type, ptr %combine, ptr %slot) noinline"
    )
    to = t.new("call i64 @device_place(ptr %context, i64 %target, i64 %size)")
    t.refuse(t.op("icmp slt", to, 0))
    place = t.new("call i64 @shared_place(ptr %context, i64 %source, i64 %size, i64 16)")
    t.refuse(t.op("icmp slt", place, 0))
    t.emit(f"call void @count_run_of(ptr %slot, i64 {to}, i64 %size)")
    entry = t.new("call ptr @depart(ptr %context, i64 %thread, i64 %size)")
    t.refuse(t.new(f"icmp eq ptr {entry}, null"))
    for at, value in ((_PLACE, place), (_MOVED, 0), (_TARGET, to), (_AXES, 0), (_TYPE, "%type")):
        t.store(entry, at, value)
    t.store(entry, _COMBINE, "%combine", "ptr")
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def _box_store_text() -> str:
    """``cp.async.bulk.tensor`` to device memory; ``coordinates`` are a row of lanes each."""
    t = Text(
        "define internal i1 @store_box(ptr %context, i64 %thread, i64 %map, ptr %coordinates, "
        "i64 %axes, i64 %source, ptr %combine, ptr %slot) noinline"
    )
    box = t.new(f"alloca [{BOX_WORDS} x i64], align 8")
    opened = t.new(
        f"call i1 @box_open(ptr %context, i64 %map, ptr %coordinates, i64 %axes, ptr {box})"
    )
    t.refuse(t.op("xor", opened, "true", "i1"))
    total, moved = t.load(box, BYTES), t.load(box, MOVED_BITS)
    place = t.new(f"call i64 @shared_place(ptr %context, i64 %source, i64 {total}, i64 128)")
    t.refuse(t.op("icmp slt", place, 0))
    limit = t.word("shared_bytes")
    number, label = t.loop(t.op("lshr", total, 4))
    far = t.op("add", chunk_place(t, place, number, moved), CHUNK_BYTES)
    t.refuse(t.op("icmp ugt", far, limit))
    t.repeat(label)
    counted = t.new(
        "call i1 @count_box(ptr %context, i64 %map, ptr %coordinates, i64 %axes, "
        f"ptr {box}, ptr %slot)"
    )
    t.refuse(t.op("xor", counted, "true", "i1"))
    entry = t.new(f"call ptr @depart(ptr %context, i64 %thread, i64 {total})")
    t.refuse(t.new(f"icmp eq ptr {entry}, null"))
    for at, value in ((_PLACE, place), (_MOVED, moved), (_MAP, "%map"), (_AXES, "%axes")):
        t.store(entry, at, value)
    t.store(entry, _COMBINE, "%combine", "ptr")
    for axis in range(5):
        t.store(entry, _COORDINATES + axis, t.load("%coordinates", 32 * axis))
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def _take_text() -> str:
    """Read what a departure copies; there must be room for it."""
    t = Text("define internal i1 @take(ptr %context, ptr %departure) noinline")
    has = t.op("icmp sge", t.load("%departure", _TAKEN), 0)
    t.emit(f"br i1 {has}, label %yes, label %read")
    t.start("read")
    list_, size = t.word("departures", "ptr"), t.load("%departure", _SIZE)
    used = t.load(list_, 1)
    after = t.op("add", used, size)
    t.refuse(t.op("icmp ugt", after, TAKEN_BYTES))
    t.store(list_, 1, after)
    to, shared = t.at(t.word("taken", "ptr"), used), t.word("shared", "ptr")
    place, moved = t.load("%departure", _PLACE), t.load("%departure", _MOVED)
    number, label = t.loop(t.op("lshr", size, 4))
    source = t.at(shared, chunk_place(t, place, number, moved))
    content = t.new(f"load {_CHUNK}, ptr {source}, align 16")
    t.emit(f"store {_CHUNK} {content}, ptr {t.at(to, t.op('shl', number, 4))}, align 1")
    t.repeat(label)
    t.store("%departure", _TAKEN, used)
    t.emit("br label %yes")
    return t.text("yes:", "  ret i1 true", "no:", "  ret i1 false")


def _finish_text() -> str:
    """Write what a departure copies."""
    t = Text("define internal i1 @depart_now(ptr %context, ptr %departure) noinline")
    box = t.new(f"alloca [{BOX_WORDS} x i64], align 8")
    coordinates = t.new("alloca [160 x i64], align 8")
    list_ = t.word("departures", "ptr")
    used = t.load(list_, 1)
    new = t.op("icmp slt", t.load("%departure", _TAKEN), 0)
    took = t.new("call i1 @take(ptr %context, ptr %departure)")
    t.refuse(t.op("xor", took, "true", "i1"))
    # What was read for this alone makes room again.
    t.store(list_, 1, t.select(new, used, t.load(list_, 1)))
    content = t.at(t.word("taken", "ptr"), t.load("%departure", _TAKEN))
    arena, limit = t.word("arena", "ptr"), t.word("arena_bytes")
    axes, size = t.load("%departure", _AXES), t.load("%departure", _SIZE)
    t.emit(f"br i1 {t.op('icmp eq', axes, 0)}, label %run, label %boxed")
    t.start("run")
    to = t.at(arena, t.load("%departure", _TARGET))
    _write(t, to, content, size, t.load("%departure", _TYPE), "yes")
    t.start("boxed")
    for axis in range(5):
        t.store(coordinates, 32 * axis, t.load("%departure", _COORDINATES + axis))
    map = t.load("%departure", _MAP)
    opened = t.new(
        f"call i1 @box_open(ptr %context, i64 {map}, ptr {coordinates}, i64 {axes}, ptr {box})"
    )
    t.refuse(t.op("xor", opened, "true", "i1"))
    row, before, inside = (t.load(box, each) for each in (ROW_BYTES, BEFORE, INSIDE))
    number, label = t.loop(t.load(box, ROWS))
    start = t.new(f"call i64 @box_row(ptr {box}, i64 {number})")
    there = t.function.fresh("there")
    t.emit(f"br i1 {t.op('icmp slt', start, 0)}, label %{label}, label %{there}")
    t.start(there)
    t.refuse(t.op("icmp ugt", t.op("add", start, inside), limit))
    source = t.at(content, t.op("add", t.op("mul", number, row), before))
    _write(t, t.at(arena, start), source, inside, t.load(box, TYPE), label)
    t.start(f"{label}_end")
    t.emit("br label %yes")
    return t.text("yes:", "  ret i1 true", "no:", "  ret i1 false")


def _write(t: Text, to: str, source: str, size: str, type: str, then: str) -> None:
    """Put bytes to their place, or what a reduction makes of both; go on to a label."""
    combine = t.load("%departure", _COMBINE, "ptr")
    plain, reduce = t.function.fresh("plain"), t.function.fresh("reduce")
    none = t.new(f"icmp eq ptr {combine}, null")
    t.emit(f"br i1 {none}, label %{plain}, label %{reduce}")
    t.start(plain)
    t.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")
    t.emit(f"br label %{then}")
    t.start(reduce)
    done = t.new(f"call i1 {combine}(ptr {to}, ptr {source}, i64 {size}, i64 {type})")
    t.emit(f"br i1 {done}, label %{then}, label %no")


def _wait_text() -> str:
    """Groups of a thread but the ``left`` newest are done, or have been read."""
    t = Text(
        "define internal i1 @wait_departures(ptr %context, i64 %thread, i64 %left, "
        "i1 %reads_only) noinline"
    )
    newest = t.op("sub", t.load(t.word("open_groups", "ptr"), "%thread"), "%left")
    list_ = t.word("departures", "ptr")
    count = t.load(list_, 0)
    t.store(list_, 0, 0)
    number, label = t.loop(count)
    entry = _entry_of(t, number)
    other = t.op("icmp ne", t.load(entry, _THREAD), "%thread")
    later = t.op("icmp sge", t.load(entry, _GROUP), newest)
    keep, due, read, now = (t.function.fresh(each) for each in ("keep", "due", "read", "now"))
    t.emit(f"br i1 {t.op('or', other, later, 'i1')}, label %{keep}, label %{due}")
    t.start(due)
    t.emit(f"br i1 %reads_only, label %{read}, label %{now}")
    t.start(read)
    took = t.new(f"call i1 @take(ptr %context, ptr {entry})")
    t.refuse(t.op("xor", took, "true", "i1"))
    t.emit(f"br label %{keep}")
    t.start(now)
    done = t.new(f"call i1 @depart_now(ptr %context, ptr {entry})")
    t.refuse(t.op("xor", done, "true", "i1"))
    add_word(t, "outgoing", -1)
    t.emit(f"br label %{label}")
    t.start(keep)
    kept = t.load(list_, 0)
    to = _entry_of(t, kept)
    for each in range(DEPARTURE_WORDS):
        t.store(to, each, t.load(entry, each))
    t.store(list_, 0, t.op("add", kept, 1))
    t.repeat(label)
    # Once nothing is on its way, all of ``taken`` is free.
    none = t.op("icmp eq", t.load(list_, 0), 0)
    t.store(list_, 1, t.select(none, 0, t.load(list_, 1)))
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def _end_text() -> str:
    """A block ends: what goes out is done, what comes in is lost."""
    t = Text("define internal i1 @end_copies(ptr %context) noinline")
    list_, flights = t.word("departures", "ptr"), t.word("flights", "ptr")
    number, label = t.loop(t.load(list_, 0))
    done = t.new(f"call i1 @depart_now(ptr %context, ptr {_entry_of(t, number)})")
    t.refuse(t.op("xor", done, "true", "i1"))
    t.repeat(label)
    t.store(list_, 0, 0)
    t.store(list_, 1, 0)
    t.store(flights, 0, 0)
    shared_bytes = t.word("shared_bytes")
    for name, shift in (("arriving", 4), ("in_flight_at", 1)):
        size = t.op("lshr", t.op("add", shared_bytes, 15), shift)
        t.emit(
            f"call void @llvm.memset.p0.i64(ptr {t.word(name, 'ptr')}, i8 0, i64 {size}, i1 false)"
        )
    add_word(t, "outgoing", t.op("sub", 0, t.word("outgoing")))
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def reduction_name(operation: str) -> str:
    """The function that combines bytes of device memory with others."""
    return f"@reduce_{operation}"


def _reduction_text(function: Function, operation: str) -> str:
    """Element by element, for each type that the operation is of."""
    t = Text(
        f"define internal i1 {reduction_name(operation)}(ptr %to, ptr %from, i64 %size, "
        "i64 %type) noinline"
    )
    t.function.declarations = function.declarations
    bits = operation in ("and", "or", "xor", "inc", "dec")
    known = [
        number for number, each in enumerate(ELEMENTS) if not bits or each.kind in "ui"
    ]  # fmt: skip
    cases = " ".join(f"i64 {number}, label %type{number}" for number in known)
    t.emit(f"switch i64 %type, label %no [ {cases} ]")
    for number in known:
        dtype = ELEMENTS[number]
        t.start(f"type{number}")
        at, label = t.loop(t.op("udiv", "%size", dtype.itemsize))
        holder = np.dtype(f"u{dtype.itemsize}")
        word = element_type(holder)
        places = [t.new(f"getelementptr {word}, ptr {each}, i64 {at}") for each in ("%to", "%from")]
        values: list[Any] = []
        for each in places:
            scalar = t.new(f"load {word}, ptr {each}, align 1")
            made = t.new(f"insertelement <1 x {word}> poison, {word} {scalar}, i64 0")
            values.append(
                Traced(t.function, reinterpreted(t.function, Value(holder, (made,)), dtype))
            )
        result: Any = COMBINERS[operation](values[0], values[1], values[1])
        new = reinterpreted(t.function, result.astype(dtype).value, holder)
        scalar = t.new(f"extractelement <1 x {word}> {new.parts[0]}, i64 0")
        t.emit(f"store {word} {scalar}, ptr {places[0]}, align 1")
        t.repeat(label)
        t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")
