"""Words of each language, opcodes in plain words, line diffs."""

import re

import pytest
from notebook_sample import FUSED_TEXT, LLVM, PTX, SASS, SOURCE, sample_trace
from wia_notebook.views import highlight, opcodes, text_diff

LINES = {
    "wia": (
        "  y = conv2d(X, padding=1); // note",
        [("op", "conv2d"), ("nu", "1"), ("cm", "// note")],
    ),
    "mlir": (
        '%y = wia.fused @f (%X : tensor<8x3xf32>) axis "n.0" @grid',
        [
            ("va", "%y"),
            ("op", "wia.fused"),
            ("la", "@f"),
            ("va", "%X"),
            ("ty", "tensor"),
            ("ty", "f32"),
            ("st", '"n.0"'),
            ("la", "@grid"),
        ],
    ),
    "llvm": (
        "  %next = call float @llvm.fma.f32(float %a) ; x",
        [
            ("va", "%next"),
            ("op", "call"),
            ("ty", "float"),
            ("la", "@llvm.fma.f32"),
            ("ty", "float"),
            ("va", "%a"),
            ("cm", "; x"),
        ],
    ),
    "x86": (
        "\tvfmadd231ps zmm0, zmm1, dword ptr [rax + 4]",
        [
            ("op", "\tvfmadd231ps"),
            ("va", "zmm0"),
            ("va", "zmm1"),
            ("ty", "dword ptr"),
            ("va", "rax"),
            ("nu", "4"),
        ],
    ),
    "aarch64": (
        "\tfmla    v24.4s, v27.4s, v25.s[0]",
        [("op", "\tfmla"), ("va", "v24.4s"), ("va", "v27.4s"), ("va", "v25.s[0]")],
    ),
    "ptx": ("\t@%p2 bra $L__BB0_2;", [("op", "@%p2 bra"), ("la", "$L__BB0_2")]),
    "sass": (
        "        /*0030*/ FFMA R4, R8, RZ, !PT ;",
        [
            ("cm", "/*0030*/"),
            ("op", "FFMA"),
            ("va", "R4"),
            ("va", "R8"),
            ("va", "RZ"),
            ("va", "!PT"),
        ],
    ),
    "tpu": ("  systolic_execute 128x128 // go", [("op", "  systolic_execute"), ("cm", "// go")]),
}


@pytest.mark.parametrize("language", LINES)
def test_words_of_a_line(language):
    line, expected = LINES[language]
    found = list(highlight.words(language, line))
    assert "".join(text for _, text in found) == line
    assert [each for each in found if each in expected] == expected


@pytest.mark.parametrize("text", [SOURCE, FUSED_TEXT, LLVM, PTX, SASS, "", "a\tb é 행렬"])
@pytest.mark.parametrize("language", [*highlight.PATTERNS, "unknown"])
def test_no_character_is_lost(language, text):
    for line in text.splitlines():
        assert "".join(piece for _, piece in highlight.words(language, line)) == line


def test_html_is_escaped():
    assert highlight.html("wia", '<script>"a"&') == (
        '&lt;script&gt;<span class="w-st">&quot;a&quot;</span>&amp;'
    )


def test_javascript_gets_the_same_patterns():
    for language, pattern in highlight.javascript_patterns().items():
        assert "(?P<" not in pattern
        assert re.sub(r"\(\?<(?=[a-z]+>)", "(?P<", pattern) == highlight.PATTERNS[language]


@pytest.mark.parametrize(
    ("language", "opcode", "words"),
    [
        ("ptx", "fma.rn.f32", "fused multiply-add"),
        ("ptx", "ld.global.nc.f32", "read-only"),
        ("ptx", "max.NaN.f32", "NaN if either"),
        ("sass", "LDG.E.CONSTANT", "global"),
        ("sass", "IMAD.MOV.U32", "copy a register"),
        ("x86", "vfmadd231ps", "multiply-add"),
        ("x86", "jne", "jump if"),
        ("aarch64", "fmla", "add"),
        ("aarch64", "fcvtn2", "convert"),
        ("aarch64", "b.lo", "jump"),
        ("aarch64", "bfi", ""),
        ("tpu", "systolic_execute", "array"),
        ("llvm", "phi", "edge"),
        ("ptx", "nonsense", ""),
        ("ptx", "addc", ""),
        ("wia", "add", ""),
    ],
)
def test_opcodes_in_words(language, opcode, words):
    found = opcodes.explain(language, opcode)
    assert words in found and bool(words) == bool(found)


def test_opcode_of_a_line_leaves_its_guard_out():
    assert highlight.opcode("ptx", "\t@%p2 bra $L__BB0_2;") == "bra"
    assert highlight.opcode("sass", "   /*0050*/ @P0 BRA 0x20 ;") == "BRA"
    assert highlight.opcode("ptx", "$L__BB0_2:") == ""


def test_most_machine_lines_of_the_sample_are_explained():
    for language, text in (("ptx", PTX), ("sass", SASS)):
        used = {highlight.opcode(language, line) for line in text.splitlines()} - {""}
        assert opcodes.explanations(language, used).keys() == used


def test_a_diff_leaves_value_numbers_out():
    rows = text_diff.diff_lines("%0 = a %1\nb\nc", "%4 = a %7\nnew\nc")
    assert [(row.kind, row.text) for row in rows] == [
        ("same", "%4 = a %7"),
        ("gone", "b"),
        ("new", "new"),
        ("same", "c"),
    ]
    assert (rows[0].before, rows[0].after) == (1, 1)
    assert text_diff.same_but_for_numbers("%y_12 %acc ^bb3") == "%y %acc ^_"


def test_a_diff_as_html_counts_what_it_leaves_out():
    before = "\n".join(f"line {i}" for i in range(30))
    html = text_diff.diff_html(before, before.replace("line 15", "<b>"))
    assert "⋯ 12 unchanged lines" in html and "⋯ 11 unchanged lines" in html
    assert '<span class="d-new">+ &lt;b&gt;</span>' in html
    assert "- line 15" in html


def test_stage_diff_shows_the_group_that_came():
    trace = sample_trace()
    rows = text_diff.diff_lines(trace.stage("canonicalize").text, trace.stage("fusion").text)
    assert any(row.kind == "new" and "wia.fused" in row.text for row in rows)
