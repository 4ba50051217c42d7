"""docs/gpu.md: its examples run, its table of targets is complete."""

import re
from pathlib import Path

from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.hopper_schedule import COLUMN_TILES, MAX_STAGES, ROW_TILES
from wia_compiler.backends.gpu.target import targets

PAGE = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")


@needs_ptxas
def test_the_examples_run() -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/gpu.md", "exec"), names)


def test_every_target_is_listed() -> None:
    assert not [name for name in targets() if f"`{name}`" not in PAGE]


def test_the_tiles_are_those_of_the_schedule() -> None:
    assert sorted(ROW_TILES) == [64, 128] and sorted(COLUMN_TILES) == [64, 128, 256]
    assert f"{MAX_STAGES} at most" in PAGE
