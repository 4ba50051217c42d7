"""Copies on their way to shared memory, in compiled code: see ``mbarrier`` for when they arrive.

What a copy brings lies in a second shared memory, ``incoming``, at the place that it goes to, until
the phase that it counts for is over. ``arriving`` says of each 16 bytes whether a copy is on its
way there; a second one to the same place ends the launch, as the first would be lost here.
"""

from __future__ import annotations

from wia_compiler.simulators.ptx.jit.boxes import (
    BEFORE,
    BOX_WORDS,
    BYTES,
    INSIDE,
    MOVED_BITS,
    NAN,
    ROW_BYTES,
    ROWS,
    TYPE,
    Text,
)
from wia_compiler.simulators.ptx.jit.layout import CONTEXT, COPIES_BYTES, MOST_FLIGHTS
from wia_compiler.simulators.ptx.mbarrier import (
    EXPECTED_SHIFT,
    MARK,
    MARK_SHIFT,
    MOST_COUNT,
    MOST_TX,
    PHASE_SHIFT,
    TX_BITS,
    TX_SHIFT,
)
from wia_compiler.simulators.ptx.memory import DEVICE_BASE, SHARED_WINDOW, WINDOW_BYTES
from wia_compiler.simulators.ptx.tensor_box import CHUNK_BYTES

FLIGHT_WORDS = 8
_BARRIER, _SIZE, _PLACE, _MOVED, _ARRIVALS, _COUNTED, _THREAD, _UNTIL = range(FLIGHT_WORDS)
_LIST = 8
"""Words before the first flight: how many there are."""
_MOST_ROW_BYTES = 2048
_CHUNK = f"<{CHUNK_BYTES} x i8>"
_FULL_MARK = (MARK << MARK_SHIFT) - (1 << 64)


def transfers_text() -> str:
    """All functions of copies to shared memory."""
    return "\n".join(
        (
            _place_text(),
            _span_text(),
            _into_text(),
            _begin_text(),
            _settle_text(),
            _land_text(),
            _load_text(),
            _box_load_text(),
            _count_text(),
            _prefetch_text(),
        )
    )


def _place_text() -> str:
    """Where in shared memory an address is, or -1: ``address`` may be a generic one."""
    t = Text(
        "define internal i64 @shared_place(ptr %context, i64 %address, i64 %size, "
        "i64 %alignment) noinline"
    )
    inside = t.op("icmp ult", t.op("sub", "%address", SHARED_WINDOW), WINDOW_BYTES)
    place = t.op("sub", "%address", t.select(inside, SHARED_WINDOW, 0))
    low = t.op("and", place, t.op("sub", "%alignment", 1))
    t.refuse(t.op("icmp ne", low, 0))
    limit = t.word("shared_bytes")
    t.refuse(t.op("icmp ugt", place, limit))
    t.refuse(t.op("icmp ugt", t.op("add", place, "%size"), limit))
    t.emit(f"ret i64 {place}")
    return t.text("no:", "  ret i64 -1")


def _span_text() -> str:
    """Where in device memory a run of whole 16 bytes begins, or -1."""
    t = Text("define internal i64 @device_place(ptr %context, i64 %address, i64 %size) noinline")
    offset = t.op("sub", "%address", DEVICE_BASE)
    low = t.op("and", t.op("or", "%address", "%size"), CHUNK_BYTES - 1)
    t.refuse(t.op("icmp ne", low, 0))
    empty, some = t.function.fresh("empty"), t.function.fresh("some")
    t.emit(f"br i1 {t.op('icmp eq', '%size', 0)}, label %{empty}, label %{some}")
    t.start(empty)
    t.emit("ret i64 0")
    t.start(some)
    t.refuse(t.op("icmp uge", offset, t.word("arena_bytes")))
    end = t.load(t.word("ends", "ptr"), t.op("lshr", offset, 8))
    t.refuse(t.op("icmp ugt", t.op("add", offset, "%size"), end))
    t.emit(f"ret i64 {offset}")
    return t.text("no:", "  ret i64 -1")


def chunk_place(t: Text, place: str, number: str, moved: str) -> str:
    """Where a number of 16 bytes of a copy lies, which a swizzle may have moved."""
    plain = t.op("add", place, t.op("shl", number, 4))
    return t.op("xor", plain, t.op("and", t.op("lshr", plain, 3), moved))


def _into_text() -> str:
    """Bytes to ``incoming``; what they go to is all ones from now on."""
    t = Text(
        "define internal i1 @bring(ptr %context, ptr %source, i64 %place, i64 %size, "
        "i64 %moved) noinline"
    )
    shared, limit = t.word("shared", "ptr"), t.word("shared_bytes")
    incoming, arriving = t.word("incoming", "ptr"), t.word("arriving", "ptr")
    chunks = t.op("lshr", "%size", 4)
    number, label = t.each(chunks)
    to = chunk_place(t, "%place", number, "%moved")
    t.refuse(t.op("icmp ugt", t.op("add", to, CHUNK_BYTES), limit))
    mark = t.at(arriving, t.op("lshr", to, 4))
    t.refuse(t.op("icmp ne", t.new(f"load i8, ptr {mark}, align 1"), 0, "i8"))
    t.emit(f"store i8 1, ptr {mark}, align 1")
    content = t.new(f"load {_CHUNK}, ptr {t.at('%source', t.op('shl', number, 4))}, align 1")
    t.emit(f"store {_CHUNK} {content}, ptr {t.at(incoming, to)}, align 16")
    t.emit(f"store {_CHUNK} splat (i8 -1), ptr {t.at(shared, to)}, align 16")
    t.turn(number, label)
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def _begin_text() -> str:
    """Note a copy for a barrier that is initialised, or the arrival of a thread's own copies."""
    t = Text(
        "define internal i1 @begin_flight(ptr %context, i64 %barrier, i64 %size, i64 %place, "
        "i64 %moved, i64 %arrivals, i64 %thread, i64 %mark) noinline"
    )
    word = t.new(f"load i64, ptr {t.at(t.word('shared', 'ptr'), '%barrier')}, align 8")
    t.refuse(t.op("icmp ne", t.op("lshr", word, MARK_SHIFT), MARK))
    flights = t.word("flights", "ptr")
    count = t.load(flights, 0)
    t.refuse(t.op("icmp uge", count, MOST_FLIGHTS))
    t.store(flights, 0, t.op("add", count, 1))
    flight = t.new(
        f"getelementptr i64, ptr {flights}, i64 "
        f"{t.op('add', t.op('mul', count, FLIGHT_WORDS), _LIST)}"
    )
    values = {
        _BARRIER: "%barrier", _SIZE: "%size", _PLACE: "%place", _MOVED: "%moved",
        _ARRIVALS: "%arrivals", _COUNTED: 0, _THREAD: "%thread", _UNTIL: "%mark",
    }  # fmt: skip
    for place, value in values.items():
        t.store(flight, place, value)
    busy = t.word("in_flight_at", "ptr")
    at = t.op("lshr", "%barrier", 3)
    t.store(busy, at, t.op("add", t.load(busy, at, "i32"), 1, "i32"), "i32")
    add_word(t, "outgoing", 1)
    add_word(t, "changes", 1)
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def add_word(t: Text, name: str, amount: str | int) -> None:
    """Add to a word of the context."""
    t.store("%context", CONTEXT.index(name), t.op("add", t.word(name), amount))


def _settle_text() -> str:
    """Count what is on its way for a barrier, until its phase is over: 1, or 0 where it is not."""
    tx_mask = (1 << TX_BITS) - 1
    t = Text("define internal i64 @settle(ptr %context, i64 %place, i64 %phase) noinline")
    at = t.at(t.word("shared", "ptr"), "%place")
    flights = t.word("flights", "ptr")
    number, label = t.loop(t.load(flights, 0))
    start = t.op("add", t.op("mul", number, FLIGHT_WORDS), _LIST)
    flight = t.new(f"getelementptr i64, ptr {flights}, i64 {start}")
    other = t.op("icmp ne", t.load(flight, _BARRIER), "%place")
    done = t.op("icmp ne", t.load(flight, _COUNTED), 0)
    count = t.function.fresh("count")
    t.emit(f"br i1 {t.op('or', other, done, 'i1')}, label %{label}, label %{count}")
    t.start(count)
    t.store(flight, _COUNTED, 1)
    add_word(t, "changes", 1)
    word = t.new(f"load i64, ptr {at}, align 8")
    pending = t.op("and", word, MOST_COUNT)
    expected = t.op("and", t.op("lshr", word, EXPECTED_SHIFT), MOST_COUNT)
    tx = t.op("ashr", t.op("shl", word, 64 - TX_SHIFT - TX_BITS), 64 - TX_BITS)
    arrivals = t.load(flight, _ARRIVALS)
    t.refuse(t.op("icmp ugt", arrivals, pending))
    tx = t.op("sub", tx, t.load(flight, _SIZE))
    t.refuse(t.op("icmp slt", tx, -MOST_TX))
    pending = t.op("sub", pending, arrivals)
    over = t.op("icmp eq", t.op("or", pending, tx), 0)
    phase = t.op("and", t.op("lshr", word, PHASE_SHIFT), 1)
    phase = t.op("xor", phase, t.new(f"zext i1 {over} to i64"))
    made = t.op("or", t.select(over, expected, pending), t.op("shl", expected, EXPECTED_SHIFT))
    made = t.op("or", made, t.op("shl", t.op("and", tx, tx_mask), TX_SHIFT))
    made = t.op("or", made, t.op("shl", phase, PHASE_SHIFT))
    t.emit(f"store i64 {t.op('or', made, _FULL_MARK)}, ptr {at}, align 8")
    t.emit(f"br i1 {over}, label %over, label %{label}")
    t.start("over")
    t.emit("call void @land(ptr %context, i64 %place)")
    t.emit("ret i64 1")
    t.start(f"{label}_end")
    t.emit("ret i64 0")
    return t.text("no:", "  ret i64 -1")


def _land_text() -> str:
    """Show what counted for the phase of a barrier that is over."""
    t = Text("define internal void @land(ptr %context, i64 %place) noinline")
    flights, shared = t.word("flights", "ptr"), t.word("shared", "ptr")
    incoming, arriving = t.word("incoming", "ptr"), t.word("arriving", "ptr")
    count = t.load(flights, 0)
    t.store(flights, 0, 0)
    number, label = t.loop(count)
    start = t.op("add", t.op("mul", number, FLIGHT_WORDS), _LIST)
    flight = t.new(f"getelementptr i64, ptr {flights}, i64 {start}")
    mine = t.op("icmp eq", t.load(flight, _BARRIER), "%place")
    done = t.op("icmp ne", t.load(flight, _COUNTED), 0)
    lands = t.op("and", mine, done, "i1")
    keep, show, copies, own = (t.function.fresh(each) for each in ("keep", "show", "chunks", "own"))
    t.emit(f"br i1 {lands}, label %{show}, label %{keep}")
    t.start(keep)
    kept = t.load(flights, 0)
    to = t.op("add", t.op("mul", kept, FLIGHT_WORDS), _LIST)
    for each in range(FLIGHT_WORDS):
        t.store(flights, t.op("add", to, each), t.load(flight, each))
    t.store(flights, 0, t.op("add", kept, 1))
    t.emit(f"br label %{label}")
    t.start(show)
    busy, at = t.word("in_flight_at", "ptr"), t.op("lshr", "%place", 3)
    t.store(busy, at, t.op("sub", t.load(busy, at, "i32"), 1, "i32"), "i32")
    add_word(t, "outgoing", -1)
    is_own = t.op("icmp ne", t.load(flight, _ARRIVALS), 0)
    t.emit(f"br i1 {is_own}, label %{own}, label %{copies}")
    t.start(own)
    thread = t.load(flight, _THREAD)
    offset = t.op("mul", t.op("lshr", thread, 5), COPIES_BYTES)
    warp = t.at(t.word("copies", "ptr"), offset)
    lane, mark = t.op("and", thread, 31), t.load(flight, _UNTIL)
    t.emit(f"call void @arrive_lane(ptr {warp}, ptr {shared}, i64 {lane}, i64 {mark})")
    t.emit(f"br label %{label}")
    t.start(copies)
    place, moved = t.load(flight, _PLACE), t.load(flight, _MOVED)
    chunk, inner = t.each(t.op("lshr", t.load(flight, _SIZE), 4))
    to = chunk_place(t, place, chunk, moved)
    content = t.new(f"load {_CHUNK}, ptr {t.at(incoming, to)}, align 16")
    t.emit(f"store {_CHUNK} {content}, ptr {t.at(shared, to)}, align 16")
    t.emit(f"store i8 0, ptr {t.at(arriving, t.op('lshr', to, 4))}, align 1")
    t.turn(chunk, inner)
    t.repeat(label)
    t.emit("ret void")
    return t.text()


def _load_text() -> str:
    """``cp.async.bulk`` to shared memory: from device memory, or from shared memory."""
    t = Text(
        "define internal i1 @load_run(ptr %context, i1 %from_shared, i64 %target, i64 %source, "
        "i64 %size, i64 %bar, ptr %slot) noinline"
    )
    to = t.new("call i64 @shared_place(ptr %context, i64 %target, i64 %size, i64 16)")
    t.refuse(t.op("icmp slt", to, 0))
    t.refuse(t.op("icmp ne", t.op("and", "%size", CHUNK_BYTES - 1), 0))
    barrier = t.new("call i64 @shared_place(ptr %context, i64 %bar, i64 8, i64 8)")
    t.refuse(t.op("icmp slt", barrier, 0))
    t.emit("br i1 %from_shared, label %near, label %far")
    t.start("near")
    here = t.new("call i64 @shared_place(ptr %context, i64 %source, i64 %size, i64 16)")
    t.refuse(t.op("icmp slt", here, 0))
    # Of what overlaps its target, all is read before any of it is written: not so here.
    apart = t.op("sub", here, to)
    t.refuse(t.op("icmp ult", apart, "%size"))
    t.refuse(t.op("icmp ult", t.op("sub", to, here), "%size"))
    near = t.at(t.word("shared", "ptr"), here)
    t.emit("br label %go")
    t.start("far")
    there = t.new("call i64 @device_place(ptr %context, i64 %source, i64 %size)")
    t.refuse(t.op("icmp slt", there, 0))
    t.emit(f"call void @count_run_of(ptr %slot, i64 {there}, i64 %size)")
    far = t.at(t.word("arena", "ptr"), there)
    last = t.function.label
    t.emit("br label %go")
    t.start("go")
    near_label = _label_before(t, "far")
    source = t.new(f"phi ptr [ {near}, %{near_label} ], [ {far}, %{last} ]")
    brought = t.new(f"call i1 @bring(ptr %context, ptr {source}, i64 {to}, i64 %size, i64 0)")
    t.refuse(t.op("xor", brought, "true", "i1"))
    t.emit(
        f"%begun = call i1 @begin_flight(ptr %context, i64 {barrier}, i64 %size, i64 {to}, i64 0, "
        "i64 0, i64 0, i64 0)"
    )
    t.emit("ret i1 %begun")
    return t.text("no:", "  ret i1 false")


def _label_before(t: Text, label: str) -> str:
    """The block that ends where a label stands."""
    at = t.function.lines.index(f"{label}:")
    return next(each[:-1] for each in reversed(t.function.lines[:at]) if not each.startswith(" "))


def _box_load_text() -> str:
    """``cp.async.bulk.tensor`` to shared memory; ``coordinates`` are a row of lanes each."""
    t = Text(
        "define internal i1 @load_box(ptr %context, i64 %target, i64 %map, ptr %coordinates, "
        "i64 %axes, i64 %bar, ptr %slot) noinline"
    )
    box = t.new(f"alloca [{BOX_WORDS} x i64], align 8")
    row_bytes = t.new(f"alloca [{_MOST_ROW_BYTES} x i8], align 64")
    opened = t.new(
        f"call i1 @box_open(ptr %context, i64 %map, ptr %coordinates, i64 %axes, ptr {box})"
    )
    t.refuse(t.op("xor", opened, "true", "i1"))
    total, row = t.load(box, BYTES), t.load(box, ROW_BYTES)
    t.refuse(t.op("icmp ugt", row, _MOST_ROW_BYTES))
    to = t.new(f"call i64 @shared_place(ptr %context, i64 %target, i64 {total}, i64 128)")
    t.refuse(t.op("icmp slt", to, 0))
    barrier = t.new("call i64 @shared_place(ptr %context, i64 %bar, i64 8, i64 8)")
    t.refuse(t.op("icmp slt", barrier, 0))
    counted = t.new(
        "call i1 @count_box(ptr %context, i64 %map, ptr %coordinates, i64 %axes, "
        f"ptr {box}, ptr %slot)"
    )
    t.refuse(t.op("xor", counted, "true", "i1"))
    arena, limit = t.word("arena", "ptr"), t.word("arena_bytes")
    before, inside = t.load(box, BEFORE), t.load(box, INSIDE)
    whole = t.op("icmp eq", inside, row)
    is_nan = t.op("icmp ne", t.load(box, NAN), 0)
    fill = t.select(is_nan, t.load("@nan_bits", t.load(box, TYPE)), 0)
    moved = t.load(box, MOVED_BITS)
    number, label = t.loop(t.load(box, ROWS))
    start = t.new(f"call i64 @box_row(ptr {box}, i64 {number})")
    there = t.op("icmp sge", start, 0)
    plain, patch, part, ready = (
        t.function.fresh(each) for each in ("plain", "patch", "part", "ready")
    )
    t.emit(f"br i1 {t.op('and', there, whole, 'i1')}, label %{plain}, label %{patch}")
    t.start(plain)
    t.refuse(t.op("icmp ugt", t.op("add", start, inside), limit))
    direct = t.at(arena, start)
    plain_end = t.function.label
    t.emit(f"br label %{ready}")
    t.start(patch)
    step, inner = t.loop(t.op("lshr", row, 3))
    t.store(row_bytes, step, fill)
    t.repeat(inner)
    patched = t.function.label
    t.emit(f"br i1 {there}, label %{part}, label %{ready}")
    t.start(part)
    t.refuse(t.op("icmp ugt", t.op("add", start, inside), limit))
    t.emit(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {t.at(row_bytes, before)}, "
        f"ptr {t.at(arena, start)}, i64 {inside}, i1 false)"
    )
    part_end = t.function.label
    t.emit(f"br label %{ready}")
    t.start(ready)
    source = t.new(
        f"phi ptr [ {direct}, %{plain_end} ], [ {row_bytes}, %{patched} ], "
        f"[ {row_bytes}, %{part_end} ]"
    )
    place = t.op("add", to, t.op("mul", number, row))
    brought = t.new(
        f"call i1 @bring(ptr %context, ptr {source}, i64 {place}, i64 {row}, i64 {moved})"
    )
    t.refuse(t.op("xor", brought, "true", "i1"))
    t.repeat(label)
    t.emit(
        f"%begun = call i1 @begin_flight(ptr %context, i64 {barrier}, i64 {total}, i64 {to}, "
        f"i64 {moved}, i64 0, i64 0, i64 0)"
    )
    t.emit("ret i1 %begun")
    return t.text("no:", "  ret i1 false")


def _count_text() -> str:
    """``@count_run_of`` and ``@count_box``: a request and the sectors of device memory."""
    run = Text("define internal void @count_run_of(ptr %slot, i64 %start, i64 %size) noinline")
    run.emit("%none = icmp eq ptr %slot, null")
    run.emit("br i1 %none, label %end, label %count")
    run.start("count")
    last = run.op("lshr", run.op("sub", run.op("add", "%start", "%size"), 1), 5)
    sectors = run.op("add", run.op("sub", last, run.op("lshr", "%start", 5)), 1)
    empty = run.op("icmp eq", "%size", 0)
    tally(run, run.select(empty, 0, sectors), "%size")
    run.emit("br label %end")
    t = Text(
        "define internal i1 @count_box(ptr %context, i64 %map, ptr %coordinates, i64 %axes, "
        "ptr %box, ptr %slot) noinline"
    )
    state = t.new("alloca [4 x i64], align 8")
    for place, value in enumerate((0, -1, 0, -1)):
        t.store(state, place, value)
    t.emit("%none = icmp eq ptr %slot, null")
    t.emit("br i1 %none, label %end, label %count")
    t.start("count")
    inside = t.load("%box", INSIDE)
    number, label = t.loop(t.load("%box", ROWS))
    start = t.new(f"call i64 @box_row(ptr %box, i64 {number})")
    counts = t.function.fresh("counts")
    t.emit(f"br i1 {t.op('icmp slt', start, 0)}, label %{label}, label %{counts}")
    t.start(counts)
    # Rows in ascending order: each counts the sectors beyond those of the rows before.
    t.emit(f"%sorted = icmp sge i64 {start}, {t.load(state, 3)}")
    t.emit("br i1 %sorted, label %ascends, label %ask")
    t.start("ascends")
    t.store(state, 3, start)
    first = t.op("lshr", start, 5)
    last = t.op("lshr", t.op("sub", t.op("add", start, inside), 1), 5)
    known = t.op("add", t.load(state, 1), 1)
    new = t.select(t.op("icmp sgt", first, known), first, known)
    more = t.op("sub", t.op("add", last, 1), new)
    more = t.select(t.op("icmp sgt", more, 0), more, 0)
    t.store(state, 0, t.op("add", t.load(state, 0), more))
    t.store(state, 1, t.select(t.op("icmp sge", last, known), last, t.load(state, 1)))
    t.store(state, 2, t.op("add", t.load(state, 2), inside))
    t.repeat(label)
    tally(t, t.load(state, 0), t.load(state, 2))
    t.emit("br label %end")
    t.start("ask")
    t.emit("%asked = call i64 @call_out(ptr %context, i64 %map, i64 %axes, ptr %coordinates)")
    t.refuse(t.op("icmp slt", "%asked", 0))
    sectors, size = t.op("lshr", "%asked", 32), t.op("and", "%asked", 0xFFFFFFFF)
    tally(t, sectors, size)
    t.emit("br label %end")
    return "\n".join(
        (run.text("end:", "  ret void"), t.text("end:", "  ret i1 true", "no:", "  ret i1 false"))
    )


def tally(t: Text, sectors: str, size: str) -> None:
    ideal = t.op("lshr", t.op("add", size, 31), 5)
    for place, amount in enumerate(("1", sectors, ideal)):
        t.store("%slot", place, t.op("add", t.load("%slot", place), amount))


def _prefetch_text() -> str:
    """``@prefetch_run`` and ``@prefetch_box``: nothing but their checks."""
    run = Text("define internal i1 @prefetch_run(ptr %context, i64 %source, i64 %size) noinline")
    place = run.new("call i64 @device_place(ptr %context, i64 %source, i64 %size)")
    run.emit(f"ret i1 {run.op('icmp sge', place, 0)}")
    box = Text(
        "define internal i1 @prefetch_box(ptr %context, i64 %map, ptr %coordinates, i64 %axes) "
        "noinline"
    )
    room = box.new(f"alloca [{BOX_WORDS} x i64], align 8")
    opened = box.new(
        f"call i1 @box_open(ptr %context, i64 %map, ptr %coordinates, i64 %axes, ptr {room})"
    )
    box.emit(f"ret i1 {opened}")
    return "\n".join((run.text(), box.text()))
