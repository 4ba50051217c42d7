"""A C++ text to a syntax tree of the language, or every fault in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wia_compiler.base.source import Source
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.constants import read_constants
from wia_compiler.frontend.cpp.context import Callee
from wia_compiler.frontend.cpp.faults import report_faults
from wia_compiler.frontend.cpp.functions import read_function
from wia_compiler.frontend.cpp.reading import CppText, Refused, named_children, parse_tree
from wia_compiler.frontend.cpp.refusals import refuse_construct
from wia_compiler.frontend.cpp.snippet import read_snippet
from wia_compiler.frontend.problems import Problems

if TYPE_CHECKING:
    from tree_sitter import Node

_OUTSIDE = frozenset(
    (
        "declaration",
        "expression_statement",
        "for_statement",
        "while_statement",
        "if_statement",
        "compound_statement",
        "return_statement",
    )
)
"""Statements that may stand outside of functions: together they are a kernel named ``snippet``."""

_PASSED_OVER = frozenset(
    ("preproc_def", "preproc_include", "preproc_call", "using_declaration", ";")
)


def parse(
    source: Source, bindings: Mapping[str, object], *, snippets_bind: bool = True
) -> syntax.Program:
    """The kernels of a C++ text: its functions, and its bare statements as ``snippet``.

    ``bindings`` are the values of names that the text does not declare; bare statements use them
    where ``snippets_bind`` says so, else such names are parameters. Raises ``CompileError`` with
    every fault: of the syntax first, then whatever is outside of the subset.
    """
    text = CppText(source, Problems(source))
    root = parse_tree(source).root_node
    report_faults(root, text)
    text.problems.raise_any()
    constants = read_constants(root, text)
    kernels: list[syntax.Kernel] = []
    callees: dict[str, Callee] = {}
    statements: list[Node] = []
    for node in named_children(root):
        try:
            if node.type == "function_definition":
                kernel, callee = read_function(node, text, constants, callees, bindings)
                kernels.append(kernel)
                callees[callee.name] = callee
            elif node.type in _OUTSIDE:
                statements.append(node)
            elif node.type not in _PASSED_OVER:
                raise refuse_construct(node, text)
        except Refused:
            continue
    is_empty = not kernels and not len(text.problems)
    if any(node.type != "declaration" for node in statements) or is_empty:
        known = bindings if snippets_bind else dict[str, object]()
        snippet = read_snippet(root, statements, text, constants, callees, known)
        kernels += [] if snippet is None else [snippet]
    text.problems.raise_any()
    return syntax.Program(source, tuple(kernels))
