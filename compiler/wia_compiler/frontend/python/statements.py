"""Python statements to statements of the language."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import read_annotation
from wia_compiler.frontend.python.expressions import combined, read
from wia_compiler.frontend.python.indexing import subscript
from wia_compiler.frontend.python.locals import local_array
from wia_compiler.frontend.python.loops import for_statement
from wia_compiler.frontend.python.python_source import Refused
from wia_compiler.frontend.python.scope import Scope, assign

_COMPOUND: dict[type[ast.operator], str] = {
    ast.Add: "+=",
    ast.Sub: "-=",
    ast.Mult: "*=",
    ast.Div: "/=",
}
_OUTSIDE: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Break: ("break", "put its condition into the loop: while i < n and not done:"),
    ast.Continue: ("continue", "put the rest of the body into an if"),
    ast.With: ("with", "leave it out: a kernel holds no resources"),
    ast.Try: ("try", "kernels raise nothing; check the arrays before the call"),
    ast.Raise: ("raise", "kernels raise nothing; check the arrays before the call"),
    ast.Assert: ("assert", "check the arrays before the call; an annotation fixes their sizes"),
    ast.Import: ("import", "import it above the function"),
    ast.ImportFrom: ("import", "import it above the function"),
    ast.FunctionDef: ("a function inside a function", "write it above, with @wia.kernel"),
    ast.AsyncFunctionDef: ("async", "write a plain function"),
    ast.AsyncFor: ("async", "write a plain loop"),
    ast.AsyncWith: ("async", "leave it out"),
    ast.ClassDef: ("a class", "write functions over arrays"),
    ast.Delete: ("del", "leave it out: values that are not used cost nothing"),
    ast.Global: ("global", "return the value, or write to an output"),
    ast.Nonlocal: ("nonlocal", "return the value, or write to an output"),
    ast.Match: ("match", "write if … elif …"),
}


def read_statements(nodes: Sequence[ast.stmt], scope: Scope) -> None:
    """Read statements into ``scope.block``; each fault is reported, and the next one is read."""
    for node in nodes:
        try:
            _read_statement(node, scope)
        except Refused:
            _forget_what_it_sets(node, scope)


def _forget_what_it_sets(node: ast.stmt, scope: Scope) -> None:
    """What a broken statement would have set is not reported as missing."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            scope.variables.add(each.id)


def _read_statement(node: ast.stmt, scope: Scope) -> None:
    span = scope.text.span(node)
    match node:
        case ast.Assign():
            _assign(node, scope)
        case ast.AugAssign():
            _change(node, scope)
        case ast.AnnAssign():
            _declare(node, scope)
        case ast.For():
            for_statement(node, scope, read_statements)
        case ast.While():
            _refuse_else(node, node.orelse, scope)
            test = read(node.test, scope)
            with scope.nested() as block:
                read_statements(node.body, scope)
            keyword = scope.text.first_line(node)._replace(
                end_column=scope.text.span(node).column + 5
            )
            scope.block.append(syntax.While(test, tuple(block), keyword, span))
        case ast.If():
            _if(node, scope)
        case ast.Return():
            _return(node, scope)
        case ast.Pass():
            pass
        case ast.Expr(ast.Constant(str())):
            pass  # a docstring, or a comment in its manner
        case ast.Expr():
            read(node.value, scope)
            raise scope.text.refuse(node, "the value is not used", "give it to a name: x = …")
        case _:
            what, instead = _OUTSIDE.get(
                type(node), ("this", "docs/front_ends.md lists what can be written")
            )
            raise scope.text.refuse(node, f"{what} is outside of the subset of Python", instead)


def _assign(node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        if _is_shape(node.value):
            _name_sizes(target, node.value, scope)
        elif isinstance(target, ast.Name) and (local := local_array(target, node.value, scope)):
            scope.variables.add(target.id)
            scope.block.append(local)
        else:
            _set(target, node.value, node, scope)


def _is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return True
    inner = node.value if isinstance(node, ast.Subscript) else None
    is_len = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    )
    return is_len or (isinstance(inner, ast.Attribute) and inner.attr == "shape")


def _name_sizes(target: ast.expr, value: ast.expr, scope: Scope) -> None:
    """``M, K = A.shape`` and ``N = x.shape[0]``: names for sizes, which take no statement."""
    if not isinstance(value, ast.Attribute):
        name = _plain_name(target, scope)
        scope.aliases[name] = read(value, scope)
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise scope.text.refuse(
            target, "a shape is no value of a kernel", "name its sizes: M, N = A.shape"
        )
    for place, each in enumerate(target.elts):
        name = _plain_name(each, scope)
        size = scope.axis(value.value, place)
        array = scope.arrays[value.value.id] if isinstance(value.value, ast.Name) else None
        if array is not None and array.axes is not None and len(array.axes) != len(target.elts):
            raise scope.text.refuse(
                target, f"{len(target.elts)} names for {len(array.axes)} axes", "give one for each"
            )
        scope.aliases[name] = size


def _plain_name(node: ast.expr, scope: Scope) -> str:
    if not isinstance(node, ast.Name):
        raise scope.text.refuse(node, "only a name can stand for a size", "write M, N = A.shape")
    return node.id


def _set(target: ast.expr, value: ast.expr, node: ast.stmt, scope: Scope) -> None:
    span = scope.text.span(node)
    pairs = isinstance(target, ast.Tuple | ast.List)
    if pairs and isinstance(value, ast.Tuple | ast.List):
        values = tuple(read(each, scope) for each in value.elts)
    else:
        values = (read(value, scope),)
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    places = tuple(_place(each, scope) for each in targets)
    scope.block.append(syntax.Assign(places, syntax.Word("=", span), values, span))


def _place(target: ast.expr, scope: Scope) -> syntax.Expression:
    """What an assignment sets: a variable, an element, or with ``C[:]`` a whole array."""
    if isinstance(target, ast.Name):
        scope.check_name(target.id, target)
        if target.id in scope.aliases:
            raise scope.text.refuse(
                target, f"{target.id!r} is a size and cannot be set", "use another name"
            )
        if target.id not in scope.arrays and target.id not in scope.numbers:
            scope.variables.add(target.id)
        scope.whole.discard(target.id)
        return syntax.Name(target.id, scope.text.span(target))
    if isinstance(target, ast.Subscript):
        if _is_everything(target.slice) and isinstance(target.value, ast.Name):
            return syntax.Name(target.value.id, scope.text.span(target))
        return subscript(target, scope, lambda part: read(part, scope))
    raise scope.text.refuse(
        target, f"{ast.unparse(target)} cannot be set", "set a name or an element: C[i, j] = …"
    )


def _is_everything(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is ...
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(
        isinstance(each, ast.Slice) and each.lower is each.upper is each.step is None
        for each in parts
    )


def _change(node: ast.AugAssign, scope: Scope) -> None:
    span = scope.text.span(node)
    value = read(node.value, scope)
    if isinstance(node.target, ast.Name) and node.target.id not in scope.local:
        raise scope.text.refuse(
            node.target,
            f"{node.target.id!r} has no value here",
            f"set it before: {node.target.id} = 0.0",
        )
    place = _place(node.target, scope)
    operator = _COMPOUND.get(type(node.op))
    if operator is not None:
        scope.block.append(assign(place, value, span, operator))
        return
    current = read(node.target, scope)
    scope.block.append(assign(place, combined(node.op, current, value, node, scope), span))


def _declare(node: ast.AnnAssign, scope: Scope) -> None:
    """``s: "f32" = 0.0`` becomes ``let s: f32 = 0.0;``."""
    if not isinstance(node.target, ast.Name):
        raise scope.text.refuse(node.target, "only a name can have a type", 'write s: "f32" = 0.0')
    annotation = read_annotation(node.annotation, scope.text, scope.known.evaluate)
    if annotation.role is not None:
        raise scope.text.refuse(
            node.annotation, "a variable is no input and no output", 'write s: "f32" = 0.0'
        )
    span = scope.text.span(node)
    scope.check_name(node.target.id, node.target)
    values = () if node.value is None else (read(node.value, scope),)
    word = scope.text.word(node.target.id, node.target)
    scope.variables.add(node.target.id)
    scope.whole.discard(node.target.id)
    scope.block.append(syntax.Let((word,), values, span, (annotation.type,)))


def _if(node: ast.If, scope: Scope) -> None:
    span = scope.text.span(node)
    test = read(node.test, scope)
    with scope.nested() as first:
        read_statements(node.body, scope)
    with scope.nested() as second:
        read_statements(node.orelse, scope)
    keyword = scope.text.first_line(node)._replace(end_column=span.column + 2)
    scope.block.append(syntax.If(test, tuple(first), tuple(second), keyword, span))


def _refuse_else(node: ast.stmt, otherwise: list[ast.stmt], scope: Scope) -> None:
    if otherwise:
        raise scope.text.refuse(
            node, "else of a loop is outside of the subset of Python", "write it behind the loop"
        )


def _return(node: ast.Return, scope: Scope) -> None:
    span = scope.text.span(node)
    if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        scope.block.append(syntax.Return((), span))
        return
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    scope.block.append(syntax.Return(tuple(read(each, scope) for each in values), span))
