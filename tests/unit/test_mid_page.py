"""The page on the mid level shows a nest as it is, and lists every rewrite, level and scope."""

import re
from pathlib import Path
from typing import get_args

from mid_building import kernel, lowered, spec
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.tile import LeafKind, LoopLevel
from wia_compiler.passes import tile_rewrites
from wia_compiler.passes.tile_rewrites import IllegalRewrite
from wia_compiler.passes.verify_tile import SCOPES

PAGE = (Path(__file__).parents[2] / "docs" / "mid_level.md").read_text(encoding="utf-8")
LOOKS = (
    "axis_of",
    "find_loop",
    "innermost_loops",
    "is_folded",
    "leaves_of",
    "loops_around",
    "loops_of",
    "replace_leaf",
    "scope_of",
)


def test_the_nest_on_the_page_is_what_the_pass_makes():
    (shown,) = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)

    def body(ops, a, b, c):
        zero = ops.constant(0.0, "f32")
        return ops.max(ops.add(ops.matmul(a, b), c), zero)

    inputs = [spec((37, 29)), spec((29, 23)), spec((23,))]
    nests, _ = lowered(kernel(inputs, body, fused=True))
    made = print_ir(list(nests.ops)[1])
    assert _without_names(print_ir(parse_ir(shown).body.block.first_op)) == _without_names(made)


def _without_names(text: str) -> str:
    """The text with values and the function numbered in order of appearance."""
    names: dict[str, str] = {}
    number = lambda found: names.setdefault(found[0], f"%{len(names)}")  # noqa: E731
    return re.sub(r"@(fused_matmul_add_relu|group)", "@nest", re.sub(r"%\w+", number, text))


def test_the_tables_are_complete():
    rewrites = set(tile_rewrites.__all__) - {*LOOKS, IllegalRewrite.__name__}
    missing = [name for name in sorted(rewrites) if f"`{name}(" not in PAGE]
    words = [*get_args(LoopLevel), *get_args(LeafKind), *SCOPES]
    missing += [word for word in words if not re.search(rf"`[^`]*\b{word}\b[^`]*`", PAGE)]
    assert not missing
