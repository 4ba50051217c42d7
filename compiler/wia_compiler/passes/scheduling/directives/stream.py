"""``stream``: results that are written past the caches."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.leaf_hints import note_streamed
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "stream ARRAY, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Write an array with stores that leave the caches to what is read again.

    ``stream C``::

        map C[%i0 + i] = …   →   map C[%i0 + i] = … {wia.streamed = [0]}

    It pays where the array is larger than the last cache, and costs where it is read soon after.
    Legal for what the nest writes once and does not read: a sum that waits in the array between
    blocks is read again.
    """
    for entry in directive.entries:
        array = nest.array(entry)
        readers = [leaf for leaf in nest.leaves() if array in leaf.inputs]
        writers = [leaf for leaf in nest.leaves() if array in leaf.outputs]
        if not writers:
            written = [
                name
                for name, value in nest.arrays().items()
                if any(value in leaf.outputs for leaf in nest.leaves())
            ]
            raise IllegalRewrite(
                f"no leaf writes {entry.name}",
                hint=f"the nest writes {', '.join(written)}",
                span=entry.span,
            )
        if readers or any(leaf.folds for leaf in writers):
            raise IllegalRewrite(
                f"the nest reads {entry.name} again after it has written it",
                hint="stream what is written once, by a map",
                span=entry.span,
            )
        for leaf in writers:
            for number, each in enumerate(leaf.outputs):
                if each is array:
                    note_streamed(leaf, number)
