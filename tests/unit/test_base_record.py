"""The record is plain data: it goes to JSON and comes back equal."""

import pytest
from wia_compiler.base.record import Decision, OpRow, Stage, Trace
from wia_compiler.base.source import Span


def example() -> Trace:
    row = OpRow(
        "1", "wia.relu", "relu", "elementwise", ("arg:A",), "tensor<4xf32>", (Span(1, 2, 1, 6),),
        ("0",), None, 3, 4, 16,
    )  # fmt: skip
    decision = Decision("vertical", "conv2d → relu", False, "왜냐하면", {"ratio": 1.18}, ("0", "1"))
    fusion = Stage("fusion", "high", "mlir", "%0 = …", 12, (row,), (decision,), True, "2 → 1 ops")
    ptx = Stage("ptx", "machine", "ptx", "ret;", line_spans={1: (Span(1, 2, 1, 6),)}, changed=False)
    return Trace("k", "k(A: tensor<4xf32>)", "cpu", "kernel k…", (fusion, ptx), "In [1]")


def test_json_brings_back_an_equal_record() -> None:
    trace = example()
    assert Trace.from_json(trace.to_json()) == trace


def test_stages_and_ops_are_found_by_name() -> None:
    trace = example()
    assert trace.stage("fusion").op("1").label == "relu"
    assert [decision.taken for decision in trace.decisions] == [False]
    with pytest.raises(KeyError, match="there are: fusion, ptx"):
        trace.stage("fuse")
    with pytest.raises(KeyError):
        trace.stage("fusion").op("9")
