"""At least 99 % of the ops of every stage, and of the lines of its texts, name their source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from corpus import TARGETS, Sample, Snapshot, samples, snapshots
from wia_compiler.dialects.text import parse_ir, print_ir

LEAST = 0.99

_EACH = pytest.mark.parametrize("sample", samples(), ids=str)
_TARGET = pytest.mark.parametrize("target", TARGETS)


def _every(target: str) -> Iterator[Snapshot]:
    for sample in samples():
        yield from snapshots(sample, target)


@_TARGET
def test_ops_of_every_stage_name_their_source(target: str) -> None:
    count, missing = Counter[str](), Counter[str]()
    names: dict[str, Counter[str]] = {}
    for stage in _every(target):
        count[stage.name] += stage.count
        missing[stage.name] += len(stage.missing)
        names.setdefault(stage.name, Counter()).update(stage.missing)
    shares = {name: 1 - missing[name] / count[name] for name in count}
    for name, share in shares.items():
        print(f"{target} {name}: {share:.2%} of {count[name]} ops, without: {dict(names[name])}")
    short = {name: names[name] for name, share in shares.items() if share < LEAST}
    assert not short, f"ops without a source location: {short}"


@_TARGET
@_EACH
def test_text_of_every_stage_reads_back(sample: Sample, target: str) -> None:
    for stage in snapshots(sample, target):
        assert print_ir(parse_ir(stage.text)) == stage.text, stage.name
        assert print_ir(parse_ir(stage.with_locations), locations=True) == stage.with_locations
