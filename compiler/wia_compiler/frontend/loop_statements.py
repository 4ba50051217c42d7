"""Statements that name single elements to one ``loop.nest`` among a kernel's tensor ops.

``statements.py`` asks ``is_loop_level`` of each statement and hands every longest run of such
statements to ``import_loops``. Elements read elsewhere are read by ``ElementsOutside``.
Variables that change become values carried by loops, arrays are changed in place inside the nest.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, OpResult, Region, SSAValue

from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import ConditionOp, LoadOp, YieldOp
from wia_compiler.dialects.loop_text import INDEX
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, LiteralType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, literal_of
from wia_compiler.frontend.expressions import value_of
from wia_compiler.frontend.loop_assignments import assign
from wia_compiler.frontend.loop_body import NestBody
from wia_compiler.frontend.loop_expressions import ElementReader, element_of, names_element
from wia_compiler.frontend.loop_lets import import_let, refuse_name
from wia_compiler.frontend.loop_level import works_on_tensors


def is_loop_level(statement: syntax.Statement, body: Body) -> bool:
    """Whether a statement works on single elements: it stores to one, or is a loop or branch that
    names some and does nothing to whole tensors. (``x = A[0];`` names one and is a statement over
    tensors; so is a loop that also says ``x = relu(x);``, whose inner loops are looked at anew.)
    """
    match statement:
        case syntax.Assign():
            return any(names_element(target) for target in statement.targets)
        case syntax.For() | syntax.If() | syntax.While():
            return names_element(statement) and not works_on_tensors(statement, body)
        case _:
            return False


def import_loops(statements: Sequence[syntax.Statement], body: Body) -> None:
    """Add one ``loop.nest`` for a run of loop-level statements, and bind the names that they set.

    ``for i in 0..N { C[i] = A[i]; }`` becomes ``%C1 = loop.nest (%A …, inout %C …) { loop.for … }``
    after which ``C`` stands for ``%C1``. Faults are reported to ``body``.
    """
    nest = _nest(body, *statements)
    before = dict(nest.values)
    faults = len(body.problems)
    _Statements(nest).run(statements)
    span = statements[0].span.cover(statements[-1].span)
    if len(body.problems) == faults:
        nest.finish(before, span)
        return
    for name in nest.values:  # what it would have set is not reported as missing
        body.values.setdefault(name, None)
    for node in syntax.walk(*statements):
        for target in node.targets if isinstance(node, syntax.Assign) else ():
            name = element_of(target)[0] if isinstance(target, syntax.Index) else target
            if isinstance(name, syntax.Name):
                body.values.setdefault(name.text, None)


class ElementsOutside:
    """Reads single elements in statements over tensors (``x = A[0] * 2;``), for ``Body.elements``.

    ``A[i, j]`` becomes a nest that gives this element as a scalar.
    """

    def __init__(self, body: Body):
        self.body = body

    def takes(self, node: syntax.Expression) -> bool:
        """Whether a node is one element; slices are tensors."""
        return isinstance(node, syntax.Index) and not any(
            isinstance(each, syntax.Slice) for each in node.subscripts
        )

    def value(self, node: syntax.Expression, depth: int) -> SSAValue | None:
        """The element, as a result of a nest; ``None`` after faults were reported."""
        nest = _nest(self.body, node)
        value = value_of(node, nest, depth + 1)
        if not isinstance(value, OpResult) or not isinstance(value.op, LoadOp):
            return None
        before, names = dict(nest.values), dict(self.body.values)
        name = f"{value.op.array.name_hint}_element"
        nest.values[name] = value
        nest.finish(before, node.span)
        result = self.body.values[name]
        self.body.values.clear()
        self.body.values.update(names)
        return result


def _nest(body: Body, *roots: object) -> NestBody:
    nest = NestBody(
        body.signature,
        body.signatures,
        body.functions,
        body.problems,
        body.tokens,
        body.bound,
        outer=body,
    )
    Region(nest.block)
    nest.elements = ElementReader(nest)
    nest.capture_all(*roots)
    return nest


class _Statements:
    """Walks statements and fills the nest."""

    def __init__(self, body: NestBody):
        self.body = body
        self.reader = ElementReader(body)

    def run(self, statements: Sequence[syntax.Statement]) -> None:
        """Import statements in the current scope."""
        for statement in statements:
            match statement:
                case syntax.Assign():
                    assign(statement, self.body, self.reader)
                case syntax.Let():
                    import_let(statement, self.body)
                case syntax.For():
                    self._for(statement)
                case syntax.If():
                    self._if(statement)
                case syntax.While():
                    self._while(statement)
                case syntax.Return():
                    self.body.report(
                        "return stands in a loop over elements, which has no early end",
                        statement.span,
                        "set a variable, and return after the loop",
                    )

    def _for(self, node: syntax.For) -> None:
        body, name = self.body, node.variable.text
        bounds = [self._bound(each) for each in (node.start, node.stop)]
        if node.step is None:
            bounds.append(body.add(ConstantOp(1, LiteralType()), node.keyword).result)
        else:
            bounds.append(self._bound(node.step))
        hides = refuse_name(name, node.variable.span, body, binds=True)
        carried = self._carried(node.body)
        before = dict(body.values)
        starts = [before[each] for each in carried]
        with body.scope([INDEX, *self._open(carried)]) as block:
            if not hides:
                body.bind(name, block.args[0], node.variable.span)
                body.mine.discard(name)  # a loop inside that takes the name hides it
                body.fixed.add(name)
            self._enter(carried, block.args[1:])
            self.run(node.body)
            self._yield(carried, node)
            inside = body.values
        self._leave(inside, "inside the loop only, which may run 0 times")
        lower, upper, step = bounds
        known = [each for each in starts if each is not None]
        if lower is None or upper is None or step is None or len(known) < len(starts):
            return
        op = ForOp((lower, upper, step), name, known, Region(block))
        self._bind_results(carried, body.add(op, node.span).outputs, node)

    def _bound(self, node: syntax.Expression) -> SSAValue | None:
        value = value_of(node, self.body)
        number = literal_of(value)
        if isinstance(number, bool | float):
            self.body.report(
                f"the bounds of a loop are whole numbers, found {str(number).lower()}",
                node.span,
                "write a whole number, or convert: cast(…, i64)",
            )
        return value

    def _while(self, node: syntax.While) -> None:
        body = self.body
        carried = self._carried(node.body)
        starts = [body.values[each] for each in carried]
        with body.scope(self._open(carried)) as test:
            self._enter(carried, test.args)
            condition = value_of(node.condition, body)
            if condition is not None:
                body.add(ConditionOp(condition), node.condition.span)
        with body.scope(self._open(carried)) as block:
            self._enter(carried, block.args)
            self.run(node.body)
            self._yield(carried, node)
            inside = body.values
        self._leave(inside, "inside the loop only, which may run 0 times")
        known = [each for each in starts if each is not None]
        if condition is None or len(known) < len(starts):
            return
        op = WhileOp(known, Region(test), Region(block))
        self._bind_results(carried, body.add(op, node.span).outputs, node)

    def _if(self, node: syntax.If) -> None:
        body = self.body
        condition = value_of(node.condition, body)
        before = dict(body.values)
        ways: list[dict[str, SSAValue | None]] = []
        lets: set[str] = set()
        regions: list[Region] = []
        for statements in (node.body, node.otherwise):
            with body.scope() as block:
                self.run(statements)
                ways.append(body.values)
                regions.append(Region(block))
            lets |= {n.text for s in statements if isinstance(s, syntax.Let) for n in s.names}
        first, second = ways
        names = [each for each in (first | second) if each not in lets or each in before]
        both = [each for each in names if each in first and each in second]
        changed = [each for each in both if first[each] is not second[each]]
        for name in names:
            if name not in both:
                body.partial[name] = f"{name!r} is set in one branch of the if only"
        for name in lets - set(before):
            body.partial[name] = f"{name!r} lives in a branch of the if only"
        pairs = [(first[each], second[each]) for each in changed]
        for region, values in zip(
            regions, zip(*pairs, strict=True) if pairs else ((), ()), strict=True
        ):
            given = [value for value in values if value is not None]
            saved, body.block = body.block, region.block
            body.add(YieldOp(given), node.span)
            body.block = saved
        if condition is None or any(None in pair for pair in pairs):
            for name in changed:
                body.values[name] = None
            return
        types = [AnyTensorType() for _ in changed]
        op = body.add(IfOp(condition, types, regions[0], regions[1]), node.span)
        self._bind_results(changed, op.outputs, node)

    def _carried(self, statements: Sequence[syntax.Statement]) -> list[str]:
        """The variables from before a loop that its body sets, in order of the text."""
        found: dict[str, None] = {}
        for node in syntax.walk(*statements):
            for target in node.targets if isinstance(node, syntax.Assign) else ():
                if isinstance(target, syntax.Name) and target.text in self.body.values:
                    found[target.text] = None
        fixed = self.body.fixed
        return [name for name in found if name not in fixed]

    def _open(self, carried: Sequence[str]) -> list[Attribute]:
        return [AnyTensorType() for _ in carried]

    def _enter(self, carried: Sequence[str], arguments: Sequence[SSAValue]) -> None:
        for name, argument in zip(carried, arguments, strict=True):
            argument.name_hint = name
            self.body.values[name] = argument

    def _yield(self, carried: Sequence[str], node: syntax.For | syntax.While) -> None:
        values = [self.body.values[name] for name in carried]
        given = [value for value in values if value is not None]
        self.body.add(YieldOp(given), node.span)

    def _leave(self, inside: dict[str, SSAValue | None], why: str) -> None:
        for name in inside:
            if name not in self.body.values:
                self.body.partial[name] = f"{name!r} is set {why}"

    def _bind_results(
        self, names: Sequence[str], results: Sequence[SSAValue], node: syntax.Statement
    ) -> None:
        for name, result in zip(names, results, strict=True):
            self.body.bind(name, result, node.span)
