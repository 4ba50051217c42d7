"""Text to tree: precedence, types, spans, words that are keywords only where they can be."""

from __future__ import annotations

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.dsl import parse

CHAPTER = """\
// WIA DSL 예제
kernel matmul_kernel(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    // 고수준 텐서 표기법
    C = A @ B;  // 행렬 곱셈
}
"""


def expression(text: str) -> syntax.Expression:
    program = parse(Source(f"kernel k() {{ x = {text}; }}"))
    (statement,) = program.kernels[0].body
    assert isinstance(statement, syntax.Assign)
    return statement.values[0]


def shown(node: object) -> str:
    """The tree with every grouping spelled out."""
    match node:
        case syntax.Name():
            return node.text
        case syntax.Number():
            return node.text
        case syntax.Boolean():
            return str(node.value).lower()
        case syntax.String():
            return repr(node.value)
        case syntax.Group():
            return shown(node.inner)
        case syntax.ListOf():
            return f"[{' '.join(shown(item) for item in node.items)}]"
        case syntax.Unary():
            return f"({node.operator.text} {shown(node.operand)})"
        case syntax.Binary():
            return f"({shown(node.left)} {node.operator.text} {shown(node.right)})"
        case syntax.Conditional():
            parts = (node.condition, node.first, node.second)
            return f"(? {' '.join(shown(part) for part in parts)})"
        case syntax.Argument():
            keyword = f"{node.keyword.text}=" if node.keyword else ""
            return keyword + shown(node.value)
        case syntax.Call():
            return f"{shown(node.callee)}({', '.join(shown(a) for a in node.arguments)})"
        case syntax.Slice():
            parts = (node.start, node.stop, node.step)
            return ":".join("" if part is None else shown(part) for part in parts)
        case syntax.Index():
            return f"{shown(node.base)}[{', '.join(shown(s) for s in node.subscripts)}]"
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a * b @ c / d // e % f", "(((((a * b) @ c) / d) // e) % f)"),
        ("a ** b ** c", "(a ** (b ** c))"),
        ("-a ** b", "(- (a ** b))"),
        ("a ** -b", "(a ** (- b))"),
        ("-a * b", "((- a) * b)"),
        ("--a", "(- (- a))"),
        ("!a == b", "((! a) == b)"),
        ("a + b < c * d", "((a + b) < (c * d))"),
        ("a < b && c >= d || e != f", "(((a < b) && (c >= d)) || (e != f))"),
        ("a || b && c", "(a || (b && c))"),
        ("a ? b : c ? d : e", "(? a b (? c d e))"),
        ("a || b ? c + d : e", "(? (a || b) (c + d) e)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("f(a, axis=1, keepdims=true)", "f(a, axis=1, keepdims=true)"),
        ("f(a,)", "f(a)"),
        ("f()", "f()"),
        ("f(x)(y)[i]", "f(x)(y)[i]"),
        ("A[i, j]", "A[i, j]"),
        ("A[0:16, :, ::2, 1:, c ? a : b]", "A[0:16:, ::, ::2, 1::, (? c a b)]"),
        ("-A[0] ** f(x)", "(- (A[0] ** f(x)))"),
        ("[1, -2, [3]]", "[1 (- 2) [3]]"),
        ("[1, 2,]", "[1 2]"),
        ("[]", "[]"),
        ("f(x, approximate='tanh')", "f(x, approximate='tanh')"),
        ('f(x, "tanh")', "f(x, 'tanh')"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert shown(expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("0x10", 16),
        ("0XfF", 255),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e-5", 1e-5),
        ("2.5E+3", 2500.0),
        ("1e3", 1000.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    node = expression(text)
    assert isinstance(node, syntax.Number)
    assert (node.value, type(node.value), node.text) == (value, type(value), text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a // b", "(a // b)"),
        ("a//2", "(a // 2)"),
        ("a // (b + 1) // c", "((a // (b + 1)) // c)"),
        ("a // -b", "(a // (- b))"),
        ("a // f(b)", "(a // f(b))"),
        ("c ? a // b : d", "(? c (a // b) d)"),
        ("a // the left side\n + b", "(a + b)"),
        ("a // 왼쪽\n + b", "(a + b)"),
        ("a //\n + b", "(a + b)"),
        ("a # left\n + b", "(a + b)"),
        ("a /* // x */ + b", "(a + b)"),
        ("a /**/ / /***/ b", "(a / b)"),
        ("f(a, // b\n b)", "f(a, b)"),
    ],
)
def test_slashes_are_division_after_a_value_and_comments_elsewhere(text: str, tree: str) -> None:
    assert shown(expression(text)) == tree


def test_the_chapter_s_kernel_parses_as_written() -> None:
    (kernel,) = parse(Source(CHAPTER)).kernels
    assert kernel.name.text == "matmul_kernel"
    assert [(p.role, p.name.text, p.type.name.text) for p in kernel.parameters] == [
        ("input", "A", "tensor"),
        ("input", "B", "tensor"),
        ("output", "C", "tensor"),
    ]
    (statement,) = kernel.body
    assert statement.span == Span(8, 5, 8, 15)


def test_spans_are_exact_after_wide_characters_and_tabs() -> None:
    line = "\tC =\t/* 행렬 */ relu(A) + 가나;"
    source = Source(
        f"kernel k(input A: tensor, output C: tensor) {{\n{line}\n}}".replace("가나", "B")
    )
    (statement,) = parse(source).kernels[0].body
    assert isinstance(statement, syntax.Assign)
    value = statement.values[0]
    assert isinstance(value, syntax.Binary)
    text = source.line(2)
    for node, words in (
        (value, "relu(A) + B"),
        (value.left, "relu(A)"),
        (value.right, "B"),
        (value.operator, "+"),
        (statement, "C =\t/* 행렬 */ relu(A) + B;"),
    ):
        span = node.span
        assert text[span.column - 1 : span.end_column - 1] == words


def test_a_span_may_cover_lines() -> None:
    source = Source("kernel k() {\n  x = f(\n    a\n  );\n}")
    (statement,) = parse(source).kernels[0].body
    assert isinstance(statement, syntax.Assign)
    assert statement.values[0].span == Span(2, 7, 4, 4)
    assert statement.span == Span(2, 3, 4, 5)


def test_keywords_are_names_where_the_grammar_has_no_use_for_them() -> None:
    text = "kernel step(input kernel: tensor, output output: tensor, input: tensor, in: f32) {}"
    with pytest.raises(CompileError):
        parse(Source(text))
    program = parse(
        Source(
            "kernel step(input kernel: tensor, output output: tensor, scale: f32) {\n"
            "  let step = max_pool(kernel, kernel=2, input=3, in=4);\n"
            "  output = step + kernel * scale;\n}"
        )
    )
    assert [p.name.text for p in program.kernels[0].parameters] == ["kernel", "output", "scale"]


def test_every_statement_parses() -> None:
    program = parse(
        Source(
            "kernel k(inout D: tensor<?x?xf32>, n: i32 = -3, b: bool = true) {\n"
            "  let a, c = f(D), 2; a, c = c, a; D += a; D -= a; D *= a; D /= a;\n"
            "  C[i, j] += A[i, k] * B[k, j]; g(a);\n"
            "  if (a > c) { x = 1; } else if b { x = 2; } else { x = 3; }\n"
            "  for i in 0..n { } for j in a+1..n*2 step 4 { y = j; }\n"
            "  while (true) { return; }\n"
            "  return a, c;\n"
            "}"
        )
    )
    kernel = program.kernels[0]
    kinds = [type(statement).__name__ for statement in kernel.body]
    assert kinds == ["Let", *["Assign"] * 7, "If", "For", "For", "While", "Return"]
    conditional = kernel.body[8]
    assert isinstance(conditional, syntax.If)
    assert isinstance(conditional.otherwise[0], syntax.If)
    loop = kernel.body[10]
    assert isinstance(loop, syntax.For)
    assert (shown(loop.start), shown(loop.stop), shown(loop.step)) == ("(a + 1)", "(n * 2)", "4")
    assert [p.default.value for p in kernel.parameters if p.default] == [-3, True]


def test_walk_visits_every_node_in_text_order() -> None:
    program = parse(Source("kernel k() { x = f(a + b, c=d)[e]; return g; }"))
    names = [node.text for node in syntax.walk(program) if isinstance(node, syntax.Name)]
    assert names == ["x", "f", "a", "b", "d", "e", "g"]


def test_long_sums_and_deep_brackets_parse_without_recursion() -> None:
    assert isinstance(expression(" + ".join(["a"] * 5000)), syntax.Binary)
    assert isinstance(expression("(" * 3000 + "a" + ")" * 3000), syntax.Group)


def test_a_number_with_thousands_of_digits_is_read() -> None:
    node = expression("9" * 10_000)
    assert isinstance(node, syntax.Number)
    assert node.value > 2**63
