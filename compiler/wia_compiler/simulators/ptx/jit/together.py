"""Instructions of a whole warp under a predicate: all lanes take part, or none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wia_compiler.simulators.ptx.jit.access import bail_if
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.syntax import Register


def where_all_hold(
    lanes: Lanes, taken: str, written: Iterable[str], write: Callable[[], None]
) -> None:
    """Write what is done where ``taken`` (i32) has all lanes, and skipped where it has none.

    ``written`` are the registers that it changes. Anything between ends the launch.
    """
    function = lanes.function
    lanes.predicate = None
    for name in written:
        lanes.read(Register(name), lanes.scope.register(name))
    before = lanes.held()
    every = function.new(f"icmp eq i32 {taken}, -1")
    none = function.new(f"icmp eq i32 {taken}, 0")
    bail_if(function, function.new(f"icmp eq i1 {every}, {none}"))
    work, after = function.fresh("work"), function.fresh("after")
    skipped = function.label
    function.emit(f"br i1 {every}, label %{work}, label %{after}")
    function.start(work)
    write()
    made = lanes.matched(before)
    worked = function.label
    function.emit(f"br label %{after}")
    function.start(after)
    lanes.join(before, skipped, made, worked)
