"""What is outside of the subset: each construct by its name, with what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wia_compiler.frontend.cpp.reading import CppText, Refused, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = "write plain loops over all elements; the schedule maps them to threads"

# By node type of tree-sitter-cpp: what it is, what to write instead.
_CONSTRUCTS: dict[str, tuple[str, str]] = {
    "goto_statement": ("goto", "write a loop or an if"),
    "labeled_statement": ("a label", "write a loop or an if"),
    "switch_statement": ("switch", "write if … else if …"),
    "case_statement": ("a case", "write if … else if …"),
    "break_statement": ("break", "put its condition into the loop: while (i < n && !done) { … }"),
    "continue_statement": ("continue", "put the rest of the body into an if"),
    "do_statement": ("do … while", "write while (…) { … }, with the first round before it"),
    "for_range_loop": ("for over a range", "write for (int i = 0; i < N; i++) over indices"),
    "try_statement": ("try", "kernels raise nothing; check the arrays before the call"),
    "throw_statement": ("throw", "kernels raise nothing; check the arrays before the call"),
    "co_return_statement": ("a coroutine", "write a plain function"),
    "co_yield_statement": ("a coroutine", "write a plain function"),
    "lambda_expression": ("a lambda", "write a function of its own, or the expression itself"),
    "new_expression": ("new", "declare an array of fixed size: float acc[8][8]"),
    "delete_expression": ("delete", "local arrays go away by themselves"),
    "sizeof_expression": ("sizeof", "write the number of elements"),
    "alignof_expression": ("alignof", "leave it out"),
    "string_literal": ("a string", "kernels compute numbers"),
    "raw_string_literal": ("a string", "kernels compute numbers"),
    "char_literal": ("a character", "write its number"),
    "concatenated_string": ("a string", "kernels compute numbers"),
    "comma_expression": ("the comma operator", "write two statements"),
    "assignment_expression": ("an assignment inside an expression", "make it a statement before"),
    "update_expression": ("++ or -- inside an expression", "make it a statement: i += 1;"),
    "field_expression": ("a member of an object", "pass the numbers and arrays themselves"),
    "this": ("this", "pass what the function needs as parameters"),
    "class_specifier": ("a class", "write functions over arrays"),
    "struct_specifier": ("a struct", "pass its members as parameters"),
    "union_specifier": ("a union", "pass its members as parameters"),
    "enum_specifier": ("an enum", "write constants: const int TILE = 32;"),
    "template_declaration": ("a template", "write the function for float"),
    "template_function": ("a template", "call it without <…>"),
    "namespace_definition": ("a namespace", "write the functions outside of it"),
    "type_definition": ("typedef", "write the type itself"),
    "alias_declaration": ("a type alias", "write the type itself"),
    "concept_definition": ("a concept", "write the function for float"),
    "linkage_specification": ('extern "C"', "write the functions outside of it"),
    "compound_literal_expression": ("a value made by braces", "write its elements out"),
    "initializer_list": ("a list of values", "it initialises arrays: float w[3] = {1, 2, 3};"),
    "pointer_expression": ("an address or a dereference", "index the array: a[i]"),
    "null": ("a null pointer", "arrays are always there"),
    "user_defined_literal": ("a literal of your own", "write a plain number"),
    "gnu_asm_expression": ("assembly", "write C++; %%wia shows the assembly that it becomes"),
    "preproc_if": ("#if", "write the lines that count"),
    "preproc_ifdef": ("#ifdef", "write the lines that count"),
    "preproc_function_def": ("a macro with arguments", "write a function"),
    "static_assert_declaration": ("static_assert", "leave it out"),
    "compound_requirement": ("a requirement", "leave it out"),
    "seh_try_statement": ("__try", "leave it out"),
}

_OPERATORS: dict[str, tuple[str, str]] = {
    "<=>": ("the operator <=>", "compare with <, == or >"),
}

# Words of OpenCL and CUDA, where one thread is written and many run.
THREAD_WORDS: dict[str, tuple[str, str]] = {
    **{
        word: (f"{word} is OpenCL, where one thread of many is written", _LOOPS)
        for word in ("__kernel", "__global", "__local", "__private", "__constant")
    },
    **{
        word: (f"{word} is OpenCL, where one thread of many is written", _LOOPS)
        for word in ("get_global_id", "get_local_id", "get_group_id", "get_global_size")
    },
    **{
        word: (f"{word} is CUDA, where one thread of many is written", _LOOPS)
        for word in ("__global__", "__device__", "__host__", "__shared__", "__syncthreads")
    },
    **{
        word: (f"{word} is CUDA, where one thread of many is written", _LOOPS)
        for word in ("threadIdx", "blockIdx", "blockDim", "gridDim", "__launch_bounds__")
    },
    "barrier": ("barrier() waits for other threads, and there is one", "leave it out: " + _LOOPS),
}


def refuse_construct(node: Node, text: CppText) -> Refused:
    """Report a construct that is outside of the subset; raise what this gives."""
    kind = node.type
    operator = node.child_by_field_name("operator")
    if operator is not None and text_of(operator) in _OPERATORS:
        what, instead = _OPERATORS[text_of(operator)]
        return text.refuse(operator, f"{what} is outside of the subset", instead)
    what, instead = _CONSTRUCTS.get(
        kind, (f"'{_shortened(text_of(node))}'", "docs/front_ends.md lists what can be written")
    )
    place = node.children[0] if _is_statement(node) and node.children else node
    return text.refuse(place, f"{what} is outside of the subset of C++ that is read", instead)


def _is_statement(node: Node) -> bool:
    """Whether the first word of a node says enough: the carets of a whole block would not."""
    return node.end_point.row > node.start_point.row


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 30 else f"{line[:29]}…"
