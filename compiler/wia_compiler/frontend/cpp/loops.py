"""``for`` loops: those that count become loops over a range, others ``while`` loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Context, Loop, Variable
from wia_compiler.frontend.cpp.declarations import declaration, let
from wia_compiler.frontend.cpp.expressions import condition, index
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of, unwrapped
from wia_compiler.frontend.cpp.values import Typed, binary, constant
from wia_compiler.frontend.ranges import rounds_down, value_down

if TYPE_CHECKING:
    from tree_sitter import Node

ReadNode = Callable[["Node", Context], None]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = frozenset(("int", "long", "long long", "short", "int64_t", "int32_t", "ptrdiff_t", "auto"))


@dataclass(frozen=True)
class Header:
    """``for (int name = start; name test stop; name += size)``, the parts as nodes.

    ``sign`` is -1 where the loop counts down; ``size`` is ``None`` for ``++`` and ``--``.
    """

    name: Node
    start: Node
    test: str
    stop: Node
    sign: int
    size: Node | None

    @property
    def goal(self) -> list[Node]:
        """What is looked at again in every round."""
        return [self.stop] if self.size is None else [self.stop, self.size]


def for_statement(node: Node, context: Context, read_body: ReadNode, effect: ReadNode) -> None:
    """``for (int i = 0; i < N; i++) …`` becomes ``for i in 0..N { … }``.

    A loop that counts down runs over how far it has come: ``i = start - i_down``. What changes its
    own variable or bound becomes a ``while`` with the step at the end of its body.
    """
    header = counting_header(node)
    if header is None or not _counts(header, node, context):
        _as_while(node, context, read_body, effect)
    elif header.sign > 0:
        _count_up(node, header, context, read_body)
    else:
        _count_down(node, header, context, read_body)


def counting_header(node: Node) -> Header | None:
    """The parts of a header that counts; ``None`` for any other."""
    first = _first(node)
    test = node.child_by_field_name("condition")
    update = node.child_by_field_name("update")
    if first is None or test is None or update is None:
        return None
    name, start = first
    test, step = unwrapped(test), _step(unwrapped(update), text_of(name))
    if test.type != "binary_expression" or step is None:
        return None
    operator = text_of(field_of(test, "operator"))
    left, right = unwrapped(field_of(test, "left")), unwrapped(field_of(test, "right"))
    if text_of(right) == text_of(name) and operator in _FLIPPED:
        operator, left, right = _FLIPPED[operator], right, left
    if text_of(left) != text_of(name) or operator not in _FLIPPED:
        return None
    return Header(name, start, operator, right, *step)


def _first(node: Node) -> tuple[Node, Node] | None:
    """The variable and its first value: ``int i = 0`` or ``i = 0``."""
    start = node.child_by_field_name("initializer")
    if start is None:
        return None
    if start.type == "assignment_expression":
        name, value = field_of(start, "left"), field_of(start, "right")
        plain = text_of(field_of(start, "operator")) == "=" and name.type == "identifier"
        return (name, value) if plain else None
    declarators = start.children_by_field_name("declarator")
    if len(declarators) != 1 or declarators[0].type != "init_declarator":
        return None
    name, value = field_of(declarators[0], "declarator"), field_of(declarators[0], "value")
    whole = text_of(field_of(start, "type")) in _WHOLE
    return (name, value) if name.type == "identifier" and whole else None


def _step(update: Node, name: str) -> tuple[int, Node | None] | None:
    """``i++`` as ``(1, None)``, ``i -= e`` as ``(-1, e)``, ``i = i + e`` as ``(1, e)``."""
    if update.type == "update_expression" and text_of(field_of(update, "argument")) == name:
        return (1 if text_of(field_of(update, "operator")) == "++" else -1), None
    if update.type != "assignment_expression" or text_of(field_of(update, "left")) != name:
        return None
    operator, right = text_of(field_of(update, "operator")), unwrapped(field_of(update, "right"))
    if operator == "=" and right.type == "binary_expression":
        operator = f"{text_of(field_of(right, 'operator'))}="
        if text_of(field_of(right, "left")) != name:
            return None
        right = field_of(right, "right")
    sign = {"+=": 1, "-=": -1}.get(operator)
    return None if sign is None else (sign, right)


def _counts(header: Header, node: Node, context: Context) -> bool:
    """Whether the loop counts what its header says: nothing in it moves variable or goal."""
    name = text_of(header.name)
    if header.test not in (("<", "<=") if header.sign > 0 else (">", ">=")):
        return False
    if header.name.parent is not None and header.name.parent.type == "assignment_expression":
        variable = context.find(name)
        if variable is not None or name not in context.counters:
            return False
    looked_at = {text_of(each) for part in header.goal for each in _walk(part)}
    elements = any(each.type == "subscript_expression" for p in header.goal for each in _walk(p))
    start = {text_of(each) for each in _walk(header.start)} if header.sign < 0 else set[str]()
    changed = names_set(field_of(node, "body"))
    if elements or name in looked_at or (looked_at | start | {name}) & changed:
        return False
    if header.size is None:
        return True
    with context.silently():
        size = index(header.size, context)
    positive = size.constant is not None and size.constant > 0
    return positive or (header.sign > 0 and size.constant is None and size.is_natural)


def _count_up(node: Node, header: Header, context: Context, read_body: ReadNode) -> None:
    start = index(header.start, context)
    stop = _above(index(header.stop, context), header.test == "<=")
    step = None if header.size is None else index(header.size, context)
    if step is not None and step.constant == 1:
        step = None
    known = 1 if step is None else step.constant
    name = text_of(header.name)
    variable = _loop_variable(name, start.is_natural, context)
    loop = Loop(variable.spelling, start.node, stop.node, None if known is None else int(known))
    with context.nested(loop=loop) as block:
        context.scopes[-1][name] = variable
        read_body(field_of(node, "body"), context)
    _add_for(node, header, variable.spelling, (start, stop, step), block, context)


def _count_down(node: Node, header: Header, context: Context, read_body: ReadNode) -> None:
    span = context.text.span(header.name)
    start = index(header.start, context)
    # The last value is the goal itself or the one above it; the range ends before it.
    stop = _above(index(header.stop, context), False)
    if header.test == ">=":
        stop = _moved(stop, -1)
    size = 1 if header.size is None else int(index(header.size, context).constant or 1)
    name = text_of(header.name)
    counter = context.fresh(f"{name}_down", plain=True)
    rounds = rounds_down(start.node, stop.node, size, context.text.span(header.stop))
    natural = stop.constant is not None and stop.constant >= -1
    variable = _loop_variable(name, natural, context)
    # For the sizes of arrays: the variable is below its first value plus one.
    loop = Loop(variable.spelling, stop.node, _moved(start, 1).node, None)
    with context.nested(loop=loop) as block:
        context.scopes[-1][name] = variable
        value = Typed(value_down(start.node, counter, size, span), "i64")
        block.append(let(header.name, variable.spelling, value, "any", span, context))
        read_body(field_of(node, "body"), context)
    parts = (constant(0, "i64", span), Typed(rounds, "i64"), None)
    _add_for(node, header, counter, parts, block, context)


def _add_for(
    node: Node,
    header: Header,
    variable: str,
    parts: tuple[Typed, Typed, Typed | None],
    block: list[syntax.Statement],
    context: Context,
) -> None:
    start, stop, step = parts
    context.block.append(
        syntax.For(
            syntax.Word(variable, context.text.span(header.name)),
            start.node,
            stop.node,
            None if step is None else step.node,
            tuple(block),
            context.text.span(node.children[0]),
            context.text.span(node),
        )
    )


def _loop_variable(name: str, natural: bool, context: Context) -> Variable:
    spelling = context.spelling(name)
    return Variable(
        name, spelling, "index", "i64", is_local=True, is_fixed=True, is_natural=natural
    )


def _above(stop: Typed, is_last: bool) -> Typed:
    """Where a range ends that still holds ``stop`` (``i <= stop``), or ends before it."""
    return _moved(stop, 1) if is_last else stop


def _moved(value: Typed, by: int) -> Typed:
    span = value.node.span
    if value.constant is not None:
        return constant(int(value.constant) + by, "i64", span)
    one = constant(abs(by), "i64", span).node
    return Typed(binary("+" if by > 0 else "-", value.node, one), "i64")


def _as_while(node: Node, context: Context, read_body: ReadNode, effect: ReadNode) -> None:
    """``for (a; b; c) d`` as ``a; while (b) { d; c; }`` with names of its own."""
    context.scopes.append({})
    first = node.child_by_field_name("initializer")
    if first is not None and first.type == "declaration":
        declaration(first, context)
    elif first is not None:
        effect(first, context)
    test = node.child_by_field_name("condition")
    span = context.text.span(node)
    test_node = syntax.Boolean(True, span) if test is None else condition(test, context).node
    with context.nested(conditional=True) as block:
        read_body(field_of(node, "body"), context)
        update = node.child_by_field_name("update")
        if update is not None:
            effect(update, context)
    context.scopes.pop()
    keyword = context.text.span(node.children[0])
    context.block.append(syntax.While(test_node, tuple(block), keyword, span))


def names_set(node: Node) -> set[str]:
    """The variables that a part of the text sets."""
    found: set[str] = set()
    for each in _walk(node):
        if each.type == "assignment_expression":
            found.add(text_of(unwrapped(field_of(each, "left"))))
        elif each.type == "update_expression":
            found.add(text_of(unwrapped(field_of(each, "argument"))))
    return found


def counters(roots: list[Node]) -> set[str]:
    """The variables that only ``for`` loops with ``i = …`` in their head use, and these set."""
    uses: dict[str, bool] = {}
    pending = [(root, frozenset[str]()) for root in roots]
    while pending:
        node, counted = pending.pop()
        if node.type == "identifier":
            inside = text_of(node) in counted or _is_declared_here(node)
            uses[text_of(node)] = uses.get(text_of(node), True) and inside
        if node.type == "for_statement":
            header = counting_header(node)
            first = node.child_by_field_name("initializer")
            if header is not None and first is not None and first.type == "assignment_expression":
                counted = counted | {text_of(header.name)}
        pending.extend((child, counted) for child in node.children)
    return {name for name, inside in uses.items() if inside}


def _is_declared_here(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "declaration"


def _walk(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(named_children(each))
