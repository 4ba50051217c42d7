"""Bulk copies: what is on its way from shared to device memory, in the groups of its thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass
class Outgoing:
    """A copy to device memory: its bytes are read, then written, as late as they may be.

    ``read`` gives the bytes of shared memory, ``write`` puts them to their place; ``number`` is
    that of the instruction.
    """

    thread: int
    group: int
    number: int
    read: Callable[[], Bytes]
    write: Callable[[Bytes], None]
    content: Bytes | None = None

    def take(self) -> None:
        """Read what is copied; afterwards the shared memory may be written again."""
        if self.content is None:
            self.content = self.read()

    def finish(self) -> None:
        """Write what is copied."""
        self.take()
        assert self.content is not None
        self.write(self.content)


class BulkGroups:
    """The outgoing copies of some threads, in the order in which they were begun."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._outgoing: list[Outgoing] = []

    def begin(
        self, thread: int, number: int, read: Callable[[], Bytes], write: Callable[[Bytes], None]
    ) -> None:
        """A copy of a thread, in the group that is open."""
        group = self._open.get(thread, 0)
        self._outgoing.append(Outgoing(thread, group, number, read, write))

    def commit(self, thread: int) -> None:
        """Close the group of a thread."""
        self._open[thread] = self._open.get(thread, 0) + 1

    def wait(self, thread: int, left: int, *, reads_only: bool) -> None:
        """All closed groups of a thread but the ``left`` newest are done, or have been read."""
        newest = self._open.get(thread, 0) - left
        rest: list[Outgoing] = []
        for each in self._outgoing:
            if each.thread != thread or each.group >= newest:
                rest.append(each)
            elif reads_only:
                each.take()
                rest.append(each)
            else:
                each.finish()
        self._outgoing = rest

    def finish(self) -> list[Outgoing]:
        """The kernel ends: all copies are done; those whose bytes nobody waited to be read."""
        unread = [each for each in self._outgoing if each.content is None]
        for each in self._outgoing:
            each.finish()
        self._outgoing = []
        return unread
