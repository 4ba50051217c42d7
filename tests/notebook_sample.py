"""A small record with every kind of stage, written by hand: what the views are tested on."""

from __future__ import annotations

import dataclasses

from wia_compiler.base.errors import TargetError
from wia_compiler.base.record import Decision, OpRow, Stage, Trace
from wia_compiler.base.source import Span
from wia_notebook.explorer import Explorer
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.line_counts import LineCounts, LineMetric
from wia_notebook.views.roofline import Advice, Ceiling, Point, Roofline

SOURCE = """// one layer of a vision model
kernel conv_block(
  input  X: tensor,
  input  W: tensor,
  input  b: tensor,
  output Y: tensor
) {
  y = conv2d(X, W, padding=1);
  y = y + b;
  y = relu(y);
  Y = y / reduce_sum(y);
}
"""

Y_TYPE = "tensor<8x64x224x224xf32>"
Y_BYTES = 8 * 64 * 224 * 224 * 4
SPANS = {
    "conv2d": Span(8, 7, 8, 30),
    "add": Span(9, 7, 9, 12),
    "relu": Span(10, 7, 10, 14),
    "reduce_sum": Span(11, 11, 11, 24),
    "div": Span(11, 7, 11, 24),
}


def _op(
    id: str,
    label: str,
    family: str,
    operands: tuple[str, ...],
    *,
    origins: tuple[str, ...] = (),
    parent: str | None = None,
    line: int = 0,
    flops: int = 0,
    scalar: bool = False,
    typed: bool = True,
) -> OpRow:
    return OpRow(
        id,
        f"wia.{label}",
        label,
        family,  # pyright: ignore[reportArgumentType]
        operands,
        ("tensor<f32>" if scalar else Y_TYPE) if typed else "!wia.tensor",
        (SPANS[label],),
        origins,
        parent,
        line,
        flops if typed else 0,
        (4 if scalar else Y_BYTES) if typed else 0,
    )


def _plain(typed: bool, origins: bool) -> tuple[OpRow, ...]:
    same = (lambda id: (id,)) if origins else (lambda id: ())
    add_flops = 8 * 64 * 224 * 224
    return (
        _op(
            "0",
            "conv2d",
            "contraction",
            ("arg:X", "arg:W"),
            origins=same("0"),
            line=2,
            flops=11_098_128_384,
            typed=typed,
        ),
        _op(
            "1",
            "add",
            "elementwise",
            ("0", "arg:b"),
            origins=same("1"),
            line=3,
            flops=add_flops,
            typed=typed,
        ),
        _op(
            "2",
            "relu",
            "elementwise",
            ("1",),
            origins=same("2"),
            line=4,
            flops=add_flops,
            typed=typed,
        ),
        _op(
            "3",
            "reduce_sum",
            "reduction",
            ("2",),
            origins=same("3"),
            line=5,
            flops=add_flops,
            scalar=True,
            typed=typed,
        ),
        _op(
            "4",
            "div",
            "elementwise",
            ("2", "3"),
            origins=same("4"),
            line=6,
            flops=add_flops,
            typed=typed,
        ),
        OpRow("5", "func.return", "return", "other", ("4",), origins=same("5"), line=7),
    )


def _text(typed: bool) -> str:
    t = Y_TYPE if typed else "!wia.tensor"
    x, w, b = (
        ("tensor<8x3x224x224xf32>", "tensor<64x3x3x3xf32>", "tensor<64x1x1xf32>")
        if typed
        else (t, t, t)
    )
    s = "tensor<f32>" if typed else t
    return f"""func.func @conv_block(%X: {x}, %W: {w}, %b: {b}) -> {t} {{
  %y = wia.conv2d %X, %W {{padding = 1}} : ({x}, {w}) -> {t}
  %y_1 = wia.add %y, %b : ({t}, {b}) -> {t}
  %y_2 = wia.relu %y_1 : ({t}) -> {t}
  %0 = wia.reduce_sum %y_2 : ({t}) -> {s}
  %Y = wia.div %y_2, %0 : ({t}, {s}) -> {t}
  func.return %Y : {t}
}}
"""


X_TYPE, W_TYPE, B_TYPE = (
    "tensor<8x3x224x224xf32>",
    "tensor<64x3x3x3xf32>",
    "tensor<64x1x1xf32>",
)


def _fused_ops() -> tuple[OpRow, ...]:
    spans = (SPANS["conv2d"], SPANS["add"], SPANS["relu"])
    group = OpRow(
        "0",
        "wia.fused",
        "fused_conv_add_relu",
        "fusion",
        ("arg:X", "arg:W", "arg:b"),
        Y_TYPE,
        spans,
        ("0", "1", "2"),
        None,
        2,
        11_149_508_608,
        Y_BYTES,
    )
    return (
        group,
        _op(
            "1",
            "conv2d",
            "contraction",
            ("arg:X", "arg:W"),
            origins=("0",),
            parent="0",
            line=3,
            flops=11_098_128_384,
        ),
        _op(
            "2",
            "add",
            "elementwise",
            ("1", "arg:b"),
            origins=("1",),
            parent="0",
            line=4,
            flops=25_690_112,
        ),
        _op(
            "3", "relu", "elementwise", ("2",), origins=("2",), parent="0", line=5, flops=25_690_112
        ),
        OpRow("4", "wia.yield", "yield", "other", ("3",), parent="0", line=6),
        _op(
            "5",
            "reduce_sum",
            "reduction",
            ("0",),
            origins=("3",),
            line=8,
            flops=25_690_112,
            scalar=True,
        ),
        _op("6", "div", "elementwise", ("0", "5"), origins=("4",), line=9, flops=25_690_112),
        OpRow("7", "func.return", "return", "other", ("6",), origins=("5",), line=10),
    )


FUSED_TEXT = f"""func.func @conv_block(%X: {X_TYPE}, %W: {W_TYPE}, %b: {B_TYPE}) -> {Y_TYPE} {{
  %y = wia.fused "fused_conv_add_relu" {{
    %y_1 = wia.conv2d %X, %W {{padding = 1}} : ({X_TYPE}, {W_TYPE}) -> {Y_TYPE}
    %y_2 = wia.add %y_1, %b : ({Y_TYPE}, tensor<64x1x1xf32>) -> {Y_TYPE}
    %y_3 = wia.relu %y_2 : ({Y_TYPE}) -> {Y_TYPE}
    wia.yield %y_3 : {Y_TYPE}
  }}
  %0 = wia.reduce_sum %y : ({Y_TYPE}) -> tensor<f32>
  %Y = wia.div %y, %0 : ({Y_TYPE}, tensor<f32>) -> {Y_TYPE}
  func.return %Y : {Y_TYPE}
}}
"""

DECISIONS = (
    Decision(
        "vertical",
        "conv2d → add",
        True,
        "one consumer, fits the register budget",
        {"registers": 9, "register_capacity": 64, "other_users": 0, "benefit": 4.1, "cost": 1.0},
        ("0", "1"),
    ),
    Decision(
        "vertical",
        "add → relu",
        True,
        "one consumer, fits the register budget",
        {"registers": 11, "register_capacity": 64, "other_users": 0, "benefit": 6.72, "cost": 1.0},
        ("1", "2"),
    ),
    Decision(
        "vertical",
        "relu → reduce_sum",
        False,
        "div also reads it, and 1.18 < 1.5",
        {"registers": 12, "register_capacity": 64, "other_users": 1, "benefit": 1.18, "cost": 1.0},
        ("2", "3"),
    ),
)

LOOPS_TEXT = """func.func @conv_block_0(%X: memref<8x3x224x224xf32>) attributes {wia.nest} {
  tile.for %n in 8 step 1 axis "n" @serial {
    tile.for %c in 64 step 1 axis "c" @serial {
      tile.compute window @thread axes [h = 224, w = 224, r = 3 reduce, s = 3 reduce]
      tile.compute map @thread axes [h = 224, w = 224]
    }
  }
  func.return
}
"""


def _loop_ops(level: str, origins: bool) -> tuple[OpRow, ...]:
    def row(
        id: str,
        label: str,
        family: str,
        parent: str | None,
        line: int,
        from_: tuple[str, ...],
        spans: tuple[Span, ...],
    ) -> OpRow:
        return OpRow(
            id,
            f"tile.{label.split()[0]}",
            label,
            family,
            (),
            "",
            spans,
            from_ if origins else (id,),
            parent,
            line,
        )  # pyright: ignore[reportArgumentType]

    fused = (SPANS["conv2d"], SPANS["add"], SPANS["relu"])
    return (
        OpRow("0", "func.func", "conv_block_0", "other", spans=fused, origins=("0",), line=1),
        row("1", f"for n @{level}", "loop", "0", 2, ("0",), fused),
        row("2", "for c @serial", "loop", "1", 3, ("0",), fused),
        row("3", "compute window", "contraction", "2", 4, ("1",), (SPANS["conv2d"],)),
        row("4", "compute map", "elementwise", "2", 5, ("2", "3"), (SPANS["add"], SPANS["relu"])),
    )


PTX = """.version 8.4
.target sm_90
.visible .entry conv_block_0(.param .u64 p0, .param .u64 p1)
{
\t.reg .f32 %f<8>;
\tld.param.u64 %rd1, [p0];
\tmov.u32 %r1, %tid.x;
$L__BB0_2:
\tld.global.nc.f32 %f1, [%rd1];
\tfma.rn.f32 %f4, %f1, %f2, %f4;
\tsetp.ne.s32 %p2, %r21, 27;
\t@%p2 bra $L__BB0_2;
\tadd.rn.f32 %f5, %f4, %f3;
\tmax.NaN.f32 %f6, %f5, 0f00000000;
\tst.global.f32 [%rd1], %f6;
\tret;
}
"""
SASS = """        /*0000*/ LDC R1, c[0x0][0x28] ;
        /*0010*/ S2R R0, SR_TID.X ;
        /*0020*/ LDG.E.CONSTANT R8, [R20.64] ;
        /*0030*/ FFMA R4, R8, R33, R4 ;
        /*0040*/ ISETP.NE.AND P0, PT, R21, 0x1b, PT ;
        /*0050*/ @P0 BRA 0x20 ;
        /*0060*/ FADD R5, R4, R60 ;
        /*0070*/ FMNMX.NAN R6, RZ, R5, !PT ;
        /*0080*/ STG.E [R2.64], R6 ;
        /*0090*/ EXIT ;
"""
LLVM = """define ptx_kernel void @conv_block_0(ptr %X, ptr %W, ptr %b, ptr %y) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %loop
loop:
  %acc = phi float [ 0.0, %entry ], [ %next, %loop ]
  %next = call float @llvm.fma.f32(float %a, float %w, float %acc)
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
_PTX_LINES = {
    9: ("conv2d",),
    10: ("conv2d",),
    11: ("conv2d",),
    12: ("conv2d",),
    13: ("add",),
    14: ("relu",),
    15: ("relu",),
}
_SASS_LINES = {
    3: ("conv2d",),
    4: ("conv2d",),
    5: ("conv2d",),
    6: ("conv2d",),
    7: ("add",),
    8: ("relu",),
    9: ("relu",),
}


def _spans(lines: dict[int, tuple[str, ...]]) -> dict[int, tuple[Span, ...]]:
    return {line: tuple(SPANS[name] for name in names) for line, names in lines.items()}


def sample_trace() -> Trace:
    """``conv_block`` for a GPU: unchanged passes, a refusal, loops, LLVM, PTX, SASS."""
    typed = _text(True)
    return Trace(
        "conv_block",
        "(X f32[8×3×224×224], W f32[64×3×3×3], b f32[64×1×1]) → Y f32[8×64×224×224]",
        "gpu:sm_90",
        SOURCE,
        (
            Stage("source", "source", "wia", SOURCE, 0, summary="12 lines"),
            Stage(
                "import",
                "high",
                "mlir",
                _text(False),
                1_900_000,
                _plain(False, False),
                summary="5 ops",
            ),
            Stage(
                "inline", "high", "mlir", _text(False), 40_000, _plain(False, True), changed=False
            ),
            Stage(
                "infer-shapes", "high", "mlir", typed, 410_000, _plain(True, True), summary="5 ops"
            ),
            Stage(
                "canonicalize", "high", "mlir", typed, 200_000, _plain(True, True), changed=False
            ),
            Stage(
                "fusion",
                "high",
                "mlir",
                FUSED_TEXT,
                900_000,
                _fused_ops(),
                DECISIONS,
                summary="5 → 3 ops",
            ),
            Stage(
                "loops",
                "mid",
                "mlir",
                LOOPS_TEXT,
                1_100_000,
                _loop_ops("serial", True),
                summary="2 loops",
            ),
            Stage(
                "schedule",
                "mid",
                "mlir",
                LOOPS_TEXT.replace('"n" @serial', '"n" @grid'),
                2_300_000,
                _loop_ops("grid", False),
                summary="2 loops",
            ),
            Stage(
                "llvm",
                "low",
                "llvm",
                LLVM,
                6_000_000,
                line_spans=_spans({7: ("conv2d",)}),
                summary="11 lines",
            ),
            Stage(
                "ptx",
                "machine",
                "ptx",
                PTX,
                21_000_000,
                line_spans=_spans(_PTX_LINES),
                summary="18 lines",
            ),
            Stage(
                "sass",
                "machine",
                "sass",
                SASS,
                12_000_000,
                line_spans=_spans(_SASS_LINES),
                summary="10 lines",
            ),
        ),
        "In [3]",
    )


RESOURCES: dict[str, object] = {
    "architecture": "sm_90",
    "kernels": 1,
    "threads_per_block": 256,
    "registers": 54,
    "shared_bytes": 32768,
    "spill_store_bytes": 0,
    "spill_load_bytes": 0,
    "occupancy": 0.625,
    "occupancy_limiter": "registers",
    "warnings": [],
    "entries": {
        "conv_block_0": {"registers": 54, "shared_bytes": 32768, "occupancy": 0.625, "limits": {}}
    },
}


class SampleSubject:
    """Stands where a real kernel's ``Subject`` would, with the record of this file."""

    name = "conv_block"
    target = "gpu:sm_90"

    def __init__(self) -> None:
        self.runs = 0

    def built(self, target: str) -> None:
        """No build."""
        return None

    def measure(self, target: str) -> None:
        """Count the runs; a target that cannot run says so."""
        if target != "gpu:sm_90":
            raise TargetError(f"no device for {target}\n  help: choose another target")
        self.runs += 1

    def exhibit(self, target: str, *, kernels: object, targets: object) -> Exhibit:
        """The record, with a roofline once it ran."""
        return sample_exhibit(target, ran=self.runs > 0)


def sample_roofline() -> Roofline:
    """A point below three ceilings."""
    return Roofline(
        "conv_block",
        (
            Ceiling("DRAM", "memory", 38.2e9, "measured on this machine", main=True),
            Ceiling("L2", "memory", 210e9, "measured on this machine"),
            Ceiling("f32 FMA", "compute", 105e9, "measured on this machine", main=True),
        ),
        (Point("conv_block", 21.4, 41e9, 38e9, 42e9, 39.0),),
        "compute bound, 39 % of the f32 FMA roof",
        (
            ("time", "271 ms", "median of 9 warm samples"),
            ("FLOPs", "11.2 GFLOP", "counted from the IR"),
        ),
        (("ptx_inst_executed", "6 592", "simulated"),),
        (
            Advice(
                "reuse of X is low: tile the channels",
                "low reuse",
                "simulated",
                "tile i 64",
                "1.4 × by the model",
            ),
            Advice("one more sentence"),
        ),
    )


def sample_counts() -> dict[str, LineCounts]:
    """Counts of the PTX and the cell, as a run leaves them."""
    ptx = [
        LineMetric("warp instructions", {6: 64, 9: 128, 10: 6400}),
        LineMetric("bank conflicts", {9: 32}),
        LineMetric("divergent branches", {12: 0}),
    ]
    cell = [
        LineMetric("warp instructions", {8: 6464, 9: 128}),
        LineMetric("bank conflicts", {9: 32}),
    ]
    return {"ptx": LineCounts("simulated", ptx), "cell": LineCounts("simulated", cell)}


def sample_exhibit(target: str = "gpu:sm_90", *, ran: bool = False) -> Exhibit:
    """All that an explorer shows of the sample."""
    trace = dataclasses.replace(sample_trace(), target=target)
    return Exhibit(
        trace,
        {"llvm": LLVM, "ptx": PTX, "sass": SASS},
        RESOURCES,
        "from disk · 1.8 ms",
        ("Y",),
        ("cpu", "gpu:sm_90", "gpu:sm_120"),
        ("conv_block",),
        sample_roofline() if ran else None,
        counts=sample_counts() if ran else {},
        made_of={"sass": ("ptx", {3: 9, 4: 10, 5: 11})},
        schedule="schedule conv_block {\n    tile i 64, j 64;\n}\n",
    )


def sample_explorer() -> Explorer:
    """An explorer of the sample."""
    return Explorer([SampleSubject()])  # pyright: ignore[reportArgumentType]
