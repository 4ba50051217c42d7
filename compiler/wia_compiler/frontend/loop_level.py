"""Whether a loop or branch does something to whole tensors, as far as its text tells."""

from __future__ import annotations

from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.loop_expressions import element_of
from wia_compiler.frontend.vocabulary import ALIASES


def works_on_tensors(statement: syntax.Statement, body: Body) -> bool:
    """Whether it names an array without an index, takes a slice, calls a kernel or an op that is
    not elementwise.

    A name is that of an array where it is declared with axes or has elements in the text.
    """
    arrays = {p.name for p in body.signature.parameters if p.type.dims}
    numbers = {p.name for p in body.signature.parameters if p.role == "scalar"}
    named: list[syntax.Name] = []
    not_bare: set[int] = set()
    for node in syntax.walk(statement):
        match node:
            case syntax.Index():
                name, subscripts = element_of(node)
                if any(isinstance(each, syntax.Slice) for each in subscripts):
                    return True
                if name is not None:
                    arrays.add(name.text)
                    not_bare.add(id(name))
            case syntax.Call(callee=syntax.Name() as callee):
                if _takes_tensors(callee.text, body):
                    return True
                not_bare.add(id(callee))
            case syntax.Binary(operator=operator) if operator.text == "@":
                return True
            case syntax.For(variable=variable):
                numbers.add(variable.text)
            case syntax.Name():
                named.append(node)
            case _:
                pass
    arrays -= numbers
    return any(each.text in arrays and id(each) not in not_bare for each in named)


def _takes_tensors(name: str, body: Body) -> bool:
    declaration = DECLARATIONS.get(ALIASES.get(name, name))
    if name in body.signatures and (name != body.signature.name or declaration is None):
        return True
    return declaration is not None and declaration.family != "elementwise"
