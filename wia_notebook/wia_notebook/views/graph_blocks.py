"""The graph of a kernel that branches: a frame for each block, branches from frame to frame.

A frame reads like a kernel of its own: above, what comes from elsewhere (the block's arguments,
values of other blocks, parameters); below, what its branch passes on. So no data line crosses from
one frame to another, and the lines between frames are where control goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.base.record import OpRow, Stage

from wia_notebook.views import units
from wia_notebook.views.graph import group_node, op_node
from wia_notebook.views.graph_model import Cluster, Edge, Graph, Node, NodeKind
from wia_notebook.views.graph_shape import CONTAINERS, HIDDEN, Shape

ARGUMENT = "block.argument"


def has_blocks(stage: Stage) -> bool:
    """Whether control branches in a stage."""
    return any(row.successors for row in stage.ops)


def block_graph(
    stage: Stage, *, names: Sequence[str] = (), saved: Mapping[str, str] | None = None
) -> Graph:
    """The graph of a stage of several blocks; fused groups are boxes.

    ``names`` are the kernel's outputs in order; ``saved`` maps a group's id to what fusing it
    saved.
    """
    shape = Shape(stage)
    blocks = list(dict.fromkeys(row.block for row in shape.top))
    made = [_Block(block, blocks[0], shape, names, saved or {}) for block in blocks]
    for each in made:
        each.build()
    nodes = tuple(node for each in made for node in each.nodes.values())
    edges = tuple(edge for each in made for edge in (*each.edges.values(), *each.branches))
    return Graph(nodes, edges, tuple(each.cluster for each in made))


@dataclass
class _Block:
    """One frame in the making."""

    name: str
    first: str
    shape: Shape
    results: Sequence[str]
    saved: Mapping[str, str]
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict[tuple[str, str], Edge])
    branches: list[Edge] = field(default_factory=list[Edge])

    def __post_init__(self) -> None:
        self.rows = [row for row in self.shape.top if row.block == self.name]
        self.own = {row.id for row in self.rows}
        self.home = {inner.id: row.id for row in self.rows for inner in self.shape.inside(row.id)}

    @property
    def cluster(self) -> Cluster:
        """The frame around everything of the block."""
        label = "entry" if self.name == self.first else f"^{self.name}"
        return Cluster(frame_id(self.name), label, tuple(self.nodes), block=True)

    def build(self) -> None:
        """Fill nodes and edges, in order of the text."""
        for row in self.rows:
            if row.name == ARGUMENT:
                self.nodes[row.id] = _argument_node(row)
        for row in self.rows:
            if row.name in ("cf.br", "cf.cond_br"):
                self._branch(row)
            elif row.name == "func.return":
                self._return(row)
            elif row.name not in (ARGUMENT, "wia.constant"):
                members = self.shape.members(row.id)
                saved = self.saved.get(row.id, "")
                self.nodes[row.id] = group_node(row, members, saved) if members else op_node(row)
                for reader in (row, *self.shape.inside(row.id)):
                    self._reads(reader)

    def _reads(self, row: OpRow) -> None:
        if row.name in (*CONTAINERS, *HIDDEN) or self.shape.members(row.id):
            return
        target = self.home.get(row.id, row.id)
        for operand in row.operands:
            self._edge(operand, target)

    def _edge(self, operand: str, target: str) -> None:
        for producer in self.shape.producers(operand):
            source = self._source(producer, target)
            if source != target and source in self.nodes:
                self.edges.setdefault((source, target), Edge(source, target, self._size(operand)))

    def _size(self, operand: str) -> str:
        row = self.shape.rows.get(operand)
        return units.size(row.size_bytes) if row is not None and row.size_bytes >= 1024 else ""

    def _source(self, producer: str, reader: str) -> str:
        """The node that stands for a value in this frame; what is from elsewhere gets one."""
        if producer in self.home:
            return self.home[producer]
        row = self.shape.rows.get(producer)
        if row is not None and row.name == "wia.constant":
            copy = f"{producer}#{self.name}:{reader}"
            return self._add(copy, op_node(row))
        if producer in self.own:
            return producer
        if row is None:
            name = producer.partition(":")[2]
            return self._add(f"{producer}#{self.name}", _end(name, f"parameter {name}"))
        outer = self.shape.rows.get(row.parent or "", row)
        name = next(iter((*row.names, *outer.names)), outer.label)
        return self._add(f"{row.id}#{self.name}", _end(name, f"{name} of ^{outer.block}"))

    def _add(self, id: str, node: Node) -> str:
        self.nodes.setdefault(
            id, Node(id, node.kind, node.title, node.subtitle, node.family, tooltip=node.tooltip)
        )
        return id

    def _branch(self, row: OpRow) -> None:
        """A branch that decides is a box; what it passes on are pills below."""
        decides = row.name == "cf.cond_br"
        source = row.id if decides else frame_id(self.name)
        passed = list(row.operands)
        if decides:
            self.nodes[row.id] = op_node(row)
            self._edge(passed[0], row.id)
        for number, block in enumerate(row.successors):
            word = ("true", "false")[number] if decides else ""
            self.branches.append(Edge(source, frame_id(block), word, branch=True))
        values = passed[1:] if decides else passed
        taken = [argument for block in row.successors for argument in self._arguments(block)]
        for number, (operand, argument) in enumerate(zip(values, taken, strict=False)):
            id = f"{row.id}#pass{number}"
            tooltip = f"becomes {argument.label} of ^{argument.block}"
            self.nodes[id] = _end(f"→ {argument.label}", tooltip, id, "result")
            self._edge(operand, id)

    def _arguments(self, block: str) -> list[OpRow]:
        return [r for r in self.shape.top if r.name == ARGUMENT and r.block == block]

    def _return(self, row: OpRow) -> None:
        for index, operand in enumerate(row.operands):
            name = self.results[index] if index < len(self.results) else f"result{index}"
            id = f"out:{name}"
            self.nodes[id] = _end(name, f"output {name}", id, "result")
            self._edge(operand, id)


def frame_id(block: str) -> str:
    """The id of a block's frame."""
    return f"block:{block}"


def _argument_node(row: OpRow) -> Node:
    type = units.type_text(row.result_type)
    return _end(row.label, f"{row.label}: {type}, which branches to ^{row.block} pass", row.id)


def _end(title: str, tooltip: str, id: str = "", kind: NodeKind = "argument") -> Node:
    return Node(id, kind, title, family="movement", tooltip=tooltip)
