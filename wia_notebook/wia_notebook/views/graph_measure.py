"""How large a node of a graph is: text widths of the fonts that the pictures ask for."""

from __future__ import annotations

from wia_notebook.views.graph_model import Chip, Edge, Node

CHIP_HEIGHT, CHIP_GAP, CHIPS_PER_ROW = 22.0, 6.0, 4
_NARROW = frozenset("iljtfrI.,:;|!'()[]/ ·")
_WIDE = frozenset("mwMW@%")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that ``text`` takes at ``size``, for DejaVu Sans (the widest of the usual fonts)."""
    em = sum(
        0.36 if c in _NARROW else 0.95 if c in _WIDE else 1.0 if ord(c) > 0x2E80 else 0.62
        for c in text
    )
    return em * size * (1.09 if bold else 1.0)


def chip_width(chip: Chip) -> float:
    """A chip's width."""
    return max(40.0, text_width(chip.label, 10.5) + 16)


def chip_rows(node: Node) -> list[tuple[Chip, ...]]:
    """The chips of a group in rows that fit side by side."""
    chips = node.chips[:12]
    return [chips[i : i + CHIPS_PER_ROW] for i in range(0, len(chips), CHIPS_PER_ROW)]


def hidden_chips(node: Node) -> int:
    """How many members the chips leave out."""
    return max(0, len(node.chips) - 12)


def node_size(node: Node) -> tuple[float, float]:
    """Width and height of a node's box."""
    if node.kind in ("argument", "result"):
        return max(48.0, text_width(node.title, 11) + 24), 22.0
    if node.kind == "constant":
        return max(34.0, text_width(node.title, 10.5) + 16), 20.0
    title = text_width(node.title, 12.5, bold=True) + 26
    subtitle = text_width(node.subtitle, 10) + 22
    if node.kind == "op":
        return max(104.0, title, subtitle), 38.0 if node.subtitle else 30.0
    rows = chip_rows(node)
    chips = max((sum(chip_width(c) + CHIP_GAP for c in row) for row in rows), default=0) + 26
    note = text_width(node.note, 10) + 24
    height = (
        46 + len(rows) * (CHIP_HEIGHT + CHIP_GAP) + (16 if node.note or hidden_chips(node) else 2)
    )
    return max(150.0, title, subtitle, chips, note), height


def label_lines(edge: Edge) -> list[str]:
    """What stands at an edge: a size, or up to three lines of why fusing along it was refused."""
    if not edge.refused:
        return [edge.label] if edge.label else []
    lines = [""]
    for word in f"✕ refused: {edge.refused}".split():
        if lines[-1] and len(lines[-1]) + len(word) > 30:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if len(lines) <= 3 else [*lines[:2], f"{lines[2]} …"]


def label_size(edge: Edge) -> tuple[float, float]:
    """Width and height of what stands at an edge."""
    lines = label_lines(edge)
    size = 10 if edge.refused else 9.5
    return max((text_width(line, size) for line in lines), default=0) + 6, 12.5 * len(lines)
