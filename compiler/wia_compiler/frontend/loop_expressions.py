"""Expressions inside a nest: elements, and sides that are computed only where they are needed."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Region, SSAValue

from wia_compiler.dialects.loop_control import IfOp
from wia_compiler.dialects.loop_elements import LoadOp, YieldOp
from wia_compiler.dialects.wia.ops import DECLARATIONS, AnyTensorType, ConstantOp, LiteralType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import literal_of
from wia_compiler.frontend.expressions import value_of
from wia_compiler.frontend.loop_body import NestBody
from wia_compiler.frontend.vocabulary import ALIASES


class ElementReader:
    """Reads what names elements for the body of a nest."""

    def __init__(self, body: NestBody):
        self.body = body

    def takes(self, node: syntax.Expression) -> bool:
        """Elements, calls of what is no scalar op, and ways that must not always be computed."""
        match node:
            case syntax.Index() | syntax.Call():
                return isinstance(node, syntax.Index) or self._refuses(node)
            case syntax.Binary(operator=operator):
                if operator.text in ("&&", "||"):
                    return names_element(node.right)
                return operator.text == "@"
            case syntax.Conditional():
                return names_element(node.first) or names_element(node.second)
            case syntax.Name(text):
                return text in self.body.partial or self._rank(text) > 0 or self.body.is_array(text)
            case _:
                return False

    def value(self, node: syntax.Expression, depth: int) -> SSAValue | None:
        """The value of such a node; ``None`` after its faults were reported."""
        match node:
            case syntax.Index():
                return self._load(node, depth)
            case syntax.Binary(operator=operator) if operator.text == "@":
                self._refuse_tensor("'@'", node)
            case syntax.Binary():
                return self._logical(node, depth)
            case syntax.Conditional():
                return self._conditional(node, depth)
            case syntax.Call(callee=syntax.Name(text)):
                self._refuse_tensor(text, node)
            case syntax.Name(text) if text in self.body.partial:
                self.body.report(
                    self.body.partial[text],
                    node.span,
                    f"set it before: let {text} = …;",
                )
            case syntax.Name(text):
                rank = self._rank(text)
                axes = {0: "is a tensor", 1: "has 1 axis"}.get(rank, f"has {rank} axes")
                self.body.report(
                    f"{text!r} {axes}, expected one element of it inside a loop over elements",
                    node.span,
                    f"write {text}[{', '.join('ijklmn'[: max(rank, 1)])}]",
                )
            case _:
                pass
        return None

    def _refuses(self, node: syntax.Call) -> bool:
        if not isinstance(node.callee, syntax.Name):
            return False
        name = node.callee.text
        declaration = DECLARATIONS.get(ALIASES.get(name, name))
        hidden = name in self.body.signatures and name != self.body.signature.name
        if hidden or name in self.body.values:
            return hidden
        return declaration is not None and declaration.family != "elementwise"

    def _refuse_tensor(self, name: str, node: syntax.Expression) -> None:
        shown = name if name == "'@'" else repr(name)
        kind = "is a kernel" if name in self.body.signatures else "works on whole tensors"
        self.body.report(
            f"{shown} {kind} and cannot stand in a loop over elements",
            node.span,
            "compute it before the loop, or write its elements out",
        )

    def _rank(self, name: str) -> int:
        """Axes of an array by its declaration; 0 where the text does not say."""
        if self.body.values.get(name) not in self.body.captured:
            return 0
        declared = (p.type.dims for p in self.body.signature.parameters if p.name == name)
        return len(next(declared, None) or ())

    def _load(self, node: syntax.Index, depth: int) -> SSAValue | None:
        name, subscripts = element_of(node)
        array = None if name is None else self._array(name)
        if name is None:
            self.body.report(
                "only a named array has elements", node.span, "name it first: let x = …;"
            )
        indices = self.indices(node, name, subscripts, depth)
        if array is None or indices is None:
            return None
        op = self.body.add(LoadOp(array, indices), node.span)
        return op.result

    def _array(self, name: syntax.Name) -> SSAValue | None:
        """The array that a name stands for where its elements are read."""
        body = self.body
        if name.text in body.values and not self._is_number(name):
            return body.values[name.text]
        return None if name.text in body.values else value_of(name, body)

    def _is_number(self, name: syntax.Name) -> bool:
        """Report a name that stands for a number and so has no elements."""
        value = self.body.values[name.text]
        scalar = any(p.name == name.text and p.role == "scalar" for p in self.body.signature.inputs)
        if scalar or name.text in self.body.fixed or literal_of(value) is not None:
            self.body.report(
                f"{name.text!r} is a number and has no elements",
                name.span,
                "index an array",
            )
            return True
        return False

    def indices(
        self,
        node: syntax.Index,
        name: syntax.Name | None,
        subscripts: list[syntax.Expression | syntax.Slice],
        depth: int,
    ) -> list[SSAValue] | None:
        """The values of an access's subscripts; ``None`` after faults were reported."""
        rank = 0 if name is None else self._rank(name.text)
        if rank and name is not None and rank != len(subscripts):
            found = "1 index" if len(subscripts) == 1 else f"{len(subscripts)} indices"
            self.body.report(
                f"{found} for {name.text!r}, which has {rank} ax{'i' if rank == 1 else 'e'}s",
                node.span,
                f"write {name.text}[{', '.join('ijklmn'[:rank])}]",
            )
            return None
        values = [self._index(each, depth) for each in subscripts]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def _index(self, subscript: syntax.Expression | syntax.Slice, depth: int) -> SSAValue | None:
        if isinstance(subscript, syntax.Slice):
            self.body.report(
                "a slice is a tensor and cannot stand in a loop over elements",
                subscript.span,
                "write one index for each axis",
            )
            return None
        value = value_of(subscript, self.body, depth + 1)
        number = literal_of(value)
        if number is not None and (isinstance(number, bool | float)):
            shown = str(number).lower()
            self.body.report(
                f"an index is a whole number, found {shown}",
                subscript.span,
                "convert it: cast(…, i64)",
            )
            return None
        return value

    def _logical(self, node: syntax.Binary, depth: int) -> SSAValue | None:
        """``a && b``: b is computed only where a holds (``||``: where it does not)."""
        left = value_of(node.left, self.body, depth + 1)
        both = node.operator.text == "&&"

        def right() -> SSAValue | None:
            return value_of(node.right, self.body, depth + 1)

        def known() -> SSAValue | None:
            return self.body.add(ConstantOp(not both, LiteralType()), node.span).result

        return self._choose(left, *((right, known) if both else (known, right)), node)

    def _conditional(self, node: syntax.Conditional, depth: int) -> SSAValue | None:
        condition = value_of(node.condition, self.body, depth + 1)

        def first() -> SSAValue | None:
            return value_of(node.first, self.body, depth + 1)

        def second() -> SSAValue | None:
            return value_of(node.second, self.body, depth + 1)

        return self._choose(condition, first, second, node)

    def _choose(
        self,
        condition: SSAValue | None,
        first: Callable[[], SSAValue | None],
        second: Callable[[], SSAValue | None],
        node: syntax.Expression,
    ) -> SSAValue | None:
        regions: list[Region] = []
        failed = condition is None
        for way in (first, second):
            with self.body.scope() as block:
                value = way()
                failed = failed or value is None
                self.body.add(YieldOp([] if value is None else [value]), node.span)
            regions.append(Region(block))
        if failed or condition is None:
            return None
        op = IfOp(condition, [AnyTensorType()], regions[0], regions[1])
        return self.body.add(op, node.span).outputs[0]


def element_of(
    node: syntax.Index,
) -> tuple[syntax.Name | None, list[syntax.Expression | syntax.Slice]]:
    """The array of an access and its subscripts; ``A[i][j]`` is ``A[i, j]``."""
    subscripts: list[syntax.Expression | syntax.Slice] = []
    base: syntax.Expression = node
    while isinstance(base, syntax.Index):
        subscripts = [*base.subscripts, *subscripts]
        base = base.base
        while isinstance(base, syntax.Group):
            base = base.inner
    return (base if isinstance(base, syntax.Name) else None), subscripts


def names_element(*roots: object) -> bool:
    """Whether single elements are named in a text (``A[i]``; slices are tensors)."""
    return any(
        isinstance(node, syntax.Index)
        and not any(isinstance(each, syntax.Slice) for each in node.subscripts)
        for node in syntax.walk(*roots)
    )
