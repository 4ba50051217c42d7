"""Copies in order do what copies at once would do, whatever overwrites whatever."""

from hypothesis import given
from hypothesis import strategies as st
from wia_compiler.base.dtypes import F32
from wia_compiler.passes.nests.edge_copies import EdgeCopy, in_order
from wia_compiler.passes.nests.views import View, view
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(0, 7), min_size=n, max_size=n)))
def test_arrays_take_their_new_values_at_once(sources: list[int]) -> None:
    """Array ``i`` becomes what array ``sources[i]`` held; 6 and 7 are written by nobody."""
    memories = Block(arg_types=[IndexType()] * 20).args
    arrays = [view(memory, (3,), F32) for memory in memories[:8]]
    spare = iter(memories[8:])
    wanted = [
        EdgeCopy(arrays[place], arrays[source], arrays[source].value)
        for place, source in enumerate(sources)
    ]
    ordered = in_order(wanted, lambda copy: view(next(spare), copy.target.shape, F32))
    held: dict[View, int] = {array: number for number, array in enumerate(arrays)}
    for copy in ordered:
        held[copy.target] = held[copy.source]
    assert [held[array] for array in arrays[: len(sources)]] == sources
    rings = _rings(sources)
    moved = sum(place != source for place, source in enumerate(sources))
    assert len(ordered) == moved + rings, "a ring takes one copy more, all else none"


def _rings(sources: list[int]) -> int:
    found: set[frozenset[int]] = set()
    for start in range(len(sources)):
        seen, place = [start], sources[start]
        while place < len(sources) and place not in seen:
            seen.append(place)
            place = sources[place]
        if place == start and len(seen) > 1:
            found.add(frozenset(seen))
    return len(found)


def test_an_array_filled_from_itself_in_another_order_goes_through_a_temporary() -> None:
    memory, other = Block(arg_types=[IndexType()] * 2).args
    whole = view(memory, (2, 3), F32)
    turned = view(memory, (2, 3), F32, (1, 2))
    spare = view(other, (2, 3), F32)
    ordered = in_order([EdgeCopy(whole, turned, memory)], lambda copy: spare)
    assert [(copy.target, copy.source) for copy in ordered] == [(spare, turned), (whole, spare)]
