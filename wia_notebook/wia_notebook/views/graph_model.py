"""A graph as data: nodes, edges, frames. Making and drawing it is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeKind = Literal["argument", "constant", "op", "group", "result"]


@dataclass(frozen=True)
class Chip:
    """One op inside a collapsed group."""

    id: str
    label: str
    family: str


@dataclass(frozen=True)
class Node:
    """One box. ``id`` is the op's id, or ``arg:NAME`` and ``out:NAME`` for what goes in and out."""

    id: str
    kind: NodeKind
    title: str
    subtitle: str = ""
    family: str = "other"
    chips: tuple[Chip, ...] = ()
    note: str = ""
    tooltip: str = ""


@dataclass(frozen=True)
class Edge:
    """A value from one node to another; ``refused`` is why a fusion along it was not done.

    A ``branch`` leads from a node or a frame to the frame of the block that follows.
    """

    source: str
    target: str
    label: str = ""
    refused: str = ""
    branch: bool = False


@dataclass(frozen=True)
class Cluster:
    """A frame around ops that share a kernel (``planned``: will share one after the pass), or
    around those of a ``block`` of a kernel that branches.
    """

    id: str
    label: str
    members: tuple[str, ...]
    planned: bool = False
    block: bool = False


@dataclass(frozen=True)
class Graph:
    """What a picture shows."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...] = ()

    @property
    def has_blocks(self) -> bool:
        """Whether it is one of a kernel that branches."""
        return any(cluster.block for cluster in self.clusters)

    def node(self, id: str) -> Node:
        """The node of that id."""
        return next(node for node in self.nodes if node.id == id)


def op_id(node_id: str) -> str:
    """The id that a node stands for: a repeated argument or constant stands for the one."""
    return node_id.partition("#")[0]
