"""Walking through what an op holds, at the speed that a module of thousands of ops wants."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, Region


def walk(root: Operation | Region) -> Iterator[Operation]:
    """An op and all ops inside it, each before what it holds; of a region, those inside.

    As xDSL's own ``walk``, which runs a generator for each op. The op that was given last may be
    erased before the next is asked for.
    """
    if isinstance(root, Operation):
        yield root
        regions = root.regions
    else:
        regions = (root,)
    for region in regions:
        block = region.first_block
        while block is not None:
            op = block.first_op
            while op is not None:
                following = op.next_op
                if op.regions:
                    yield from walk(op)
                else:
                    yield op
                op = following
            block = block.next_block
