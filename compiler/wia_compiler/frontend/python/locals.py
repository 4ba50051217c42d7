"""Arrays that a function makes: ``acc = np.zeros((8, 8), np.float32)``."""

from __future__ import annotations

import ast

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import dtype_name
from wia_compiler.frontend.python.expressions import read
from wia_compiler.frontend.python.known_names import MISSING, library_of
from wia_compiler.frontend.python.scope import Array, Scope

_VALUES = {"zeros": 0, "empty": 0, "ones": 1, "full": None}
_DEFAULT_DTYPES = {"numpy": "f64", "torch": "f32", "jax": "f32"}


def local_array(target: ast.Name, value: ast.expr, scope: Scope) -> syntax.Let | None:
    """``let acc: tensor<8, 8, f32> = 0;`` for a call that makes an array, else ``None``.

    What ``empty`` leaves undefined is 0 here.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    function = scope.known.object(value.func)
    name = value.func.attr
    like = name.endswith("_like")
    library = library_of(scope.known.object(value.func.value))
    if function is MISSING or library is None or name.removesuffix("_like") not in _VALUES:
        return None
    arguments = list(value.args)
    named = {each.arg: each.value for each in value.keywords}
    fill = _fill(name.removesuffix("_like"), value, arguments, scope)
    written = named.get("dtype")
    if written is None and library != "torch" and len(arguments) > 1:
        written = arguments.pop()
    if like:
        axes, dtype = _like(arguments[0] if arguments else value, scope)
    else:
        axes = _sizes(value, arguments, named.get("shape", named.get("size")), scope)
        dtype = _DEFAULT_DTYPES.get(library, "f32")
    if written is not None:
        found = dtype_name(
            written.value if isinstance(written, ast.Constant) else scope.known.object(written)
        )
        if found is None:
            raise scope.text.refuse(
                written, f"{ast.unparse(written)} is no dtype", "write np.float32"
            )
        dtype = found
    span = scope.text.span(value)
    scope.arrays[target.id] = Array(axes, dtype)
    type_ = syntax.TypeName(syntax.Word("tensor", span), (*axes, syntax.Word(dtype, span)), span)
    word = scope.text.word(target.id, target)
    return syntax.Let((word,), (fill,), span, (type_,))


def _fill(name: str, node: ast.Call, arguments: list[ast.expr], scope: Scope) -> syntax.Expression:
    span = scope.text.span(node)
    number = _VALUES[name]
    if number is not None:
        return syntax.Number(number, str(number), span)
    if len(arguments) < 2:
        raise scope.text.refuse(
            node, "full needs a shape and a value", "write np.full((8, 8), 1.0)"
        )
    return read(arguments.pop(1), scope)


def _like(node: ast.expr, scope: Scope) -> tuple[tuple[syntax.Word, ...], str]:
    array = scope.arrays.get(node.id) if isinstance(node, ast.Name) else None
    if array is None or array.axes is None or array.dtype is None:
        raise scope.text.refuse(
            node,
            "the sizes and dtype of this are not known from the text",
            'annotate the parameter: x: "tensor<M, N, f32>"',
        )
    return array.axes, array.dtype


def _sizes(
    node: ast.Call, arguments: list[ast.expr], named: ast.expr | None, scope: Scope
) -> tuple[syntax.Word, ...]:
    parts = arguments if named is None else [named]
    if len(parts) == 1 and isinstance(parts[0], ast.Tuple | ast.List):
        parts = parts[0].elts
    if len(parts) == 1 and isinstance(parts[0], ast.Attribute) and parts[0].attr == "shape":
        return _like_shape(parts[0].value, scope)
    words: list[syntax.Word] = []
    for each in parts:
        value = read(each, scope)
        number = scope.known.number(each)
        if isinstance(value, syntax.Number) and isinstance(value.value, int):
            words.append(syntax.Word(str(value.value), value.span))
        elif isinstance(number, int) and not isinstance(number, bool):
            words.append(syntax.Word(str(number), value.span))
        elif isinstance(value, syntax.Name) and value.text in scope.whole:
            words.append(syntax.Word(value.text, value.span))
        else:
            raise scope.text.refuse(
                each,
                "the size of an array is a number or a size of a parameter",
                "write np.zeros((8, 8), np.float32), or np.zeros(A.shape, np.float32)",
            )
    if not words:
        raise scope.text.refuse(node, "the shape is missing", "write np.zeros((8, 8), np.float32)")
    return tuple(words)


def _like_shape(node: ast.expr, scope: Scope) -> tuple[syntax.Word, ...]:
    array = scope.arrays.get(node.id) if isinstance(node, ast.Name) else None
    if array is None or array.axes is None:
        raise scope.text.refuse(
            node, "the shape of this is not known from the text", 'annotate it: "tensor<M, N>"'
        )
    return array.axes
