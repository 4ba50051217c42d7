"""``func @NAME(…) { … }``, the IR notation, to a function.

Blocks are imported so that one comes after those that lead to it on every way: their values are in
sight in it (dominance). A name has one value in the whole function (SSA).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.ir import Block, SSAValue

from wia_compiler.base.signature import DeclaredType
from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, Exit, give_name, is_made_of_literals
from wia_compiler.frontend.control_flow import condition_of
from wia_compiler.frontend.expressions import results_of, value_of
from wia_compiler.frontend.functions import declare_type, enter, finish
from wia_compiler.frontend.labels import Labels, labels_of
from wia_compiler.frontend.signatures import declared_type
from wia_compiler.frontend.suggestions import did_you_mean
from wia_compiler.frontend.typed_lets import typed_value


def import_function(function: syntax.Function, body: Body) -> func.FuncOp | None:
    """The function of a func; ``None`` after its faults were reported."""
    if function.blocks is None:
        body.report(
            f"func @{function.name.text} has no body",
            function.name.span,
            "write what it computes: { %c = add(%a, %b)  return %c }, or remove the line",
        )
        return None
    faults = len(body.problems)
    enter(body)
    _Notation(function, function.blocks, body).run()
    if len(body.problems) == faults and not body.exits:
        body.report(
            f"func @{function.name.text} never returns",
            function.name.span,
            "end a block with return %x, and branch to it",
        )
    if len(body.problems) > faults:
        return None
    return finish(body, function.span)


@dataclass
class _Notation:
    """One walk through the blocks of a func.

    ``where`` says in which block and on which line each value is set; ``ends`` what is in sight at
    the end of each block that was imported.
    """

    function: syntax.Function
    syntax_blocks: Sequence[syntax.Block]
    body: Body
    where: dict[str, tuple[int, Span]] = field(default_factory=dict[str, tuple[int, Span]])
    ends: dict[int, dict[str, SSAValue | None]] = field(
        default_factory=dict[int, dict[str, "SSAValue | None"]]
    )

    def run(self) -> None:
        """Import every block; faults go to the body."""
        labels = labels_of(self.syntax_blocks, self.body.problems)
        self._note_values()
        made = {0: self.body.block}
        for number in sorted(labels.order)[1:]:
            block = self.syntax_blocks[number]
            label = "entry" if block.label is None else block.label.text
            names = [p.name.text for p in block.parameters]
            made[number] = self.body.start_block(label, names)
        arguments = dict(self.body.values)
        for number in labels.order:
            self.body.block = made[number]
            closest = labels.closest.get(number)
            self.body.values = dict(arguments if closest is None else self.ends[closest])
            self._say_what_is_not_in_sight(number)
            if number:
                self._enter_block(self.syntax_blocks[number], made[number])
            self._lines(number, labels, made)
            self.ends[number] = self.body.values

    def _note_values(self) -> None:
        parameters = {p.name.text: (0, p.name.span) for p in self.function.parameters}
        self.where.update(parameters)
        for number, block in enumerate(self.syntax_blocks):
            words = [p.name for p in block.parameters]
            for line in block.lines:
                words.extend(line.results if isinstance(line, syntax.Operation) else ())
            for word in words:
                first = self.where.setdefault(word.text, (number, word.span))
                if first[1] is not word.span:
                    self.body.report(
                        f"'%{word.text}' is set twice; the first is on line {first[1].line}",
                        word.span,
                        "a value is set once: give one of them another name",
                    )

    def _say_what_is_not_in_sight(self, number: int) -> None:
        body = self.body
        body.unset = {}
        for name, (place, span) in self.where.items():
            if name in body.values:
                continue
            label = self.syntax_blocks[place].label
            here = "below" if place == number else f"in {_shown(label)}, which not every way"
            end = "" if place == number else " to this block passes"
            body.unset[name] = f"'%{name}' is set on line {span.line}, {here}{end}"

    def _enter_block(self, block: syntax.Block, made: Block) -> None:
        body = self.body
        for parameter, argument in zip(block.parameters, made.args, strict=True):
            declared = declared_type(parameter.type, body.problems)
            _bind(parameter.name.text, _typed(argument, declared, parameter, body), body)

    def _lines(self, number: int, labels: Labels, made: Mapping[int, Block]) -> None:
        block = self.syntax_blocks[number]
        for place, line in enumerate(block.lines):
            match line:
                case syntax.Operation():
                    import_operation(line, self.body)
                    continue
                case syntax.Branch():
                    self._branch(line, labels, made)
                case syntax.ConditionalBranch():
                    self._conditional(line, labels, made)
                case syntax.Return():
                    self._return(line)
            rest = block.lines[place + 1 :]
            if rest:
                self.body.report(
                    "this is never reached", rest[0].span, "remove it, or begin a block: ^label:"
                )
            return
        self._no_end(number)

    def _no_end(self, number: int) -> None:
        block = self.syntax_blocks[number]
        name = "the func" if block.label is None else f"block {_shown(block.label)}"
        span = block.label.span if block.label is not None else self.function.name.span
        following = self.syntax_blocks[number + 1 : number + 2]
        on = f"br ^{following[0].label.text}" if following and following[0].label else "return %x"
        if block.label is None and len(self.syntax_blocks) == 1:
            self.body.report(
                f"func @{self.function.name.text} returns nothing", span, f"end it with {on}"
            )
        else:
            self.body.report(f"{name} does not say where it goes on", span, f"end it with {on}")

    def _branch(self, line: syntax.Branch, labels: Labels, made: Mapping[int, Block]) -> None:
        target = self._target(line.target, labels)
        if target is not None:
            self.body.add(BranchOp(made[target[0]], *target[1]), line.span)

    def _conditional(
        self, line: syntax.ConditionalBranch, labels: Labels, made: Mapping[int, Block]
    ) -> None:
        condition = condition_of(line.condition, self.body)
        first = self._target(line.first, labels)
        second = self._target(line.second, labels)
        if condition is None or first is None or second is None:
            return
        op = ConditionalBranchOp(condition, made[first[0]], first[1], made[second[0]], second[1])
        self.body.add(op, line.span)

    def _target(self, target: syntax.Target, labels: Labels) -> tuple[int, list[SSAValue]] | None:
        values = [value_of(each, self.body) for each in target.arguments]
        known = [value for value in values if value is not None]
        number = labels.numbers.get(target.label.text)
        if number is None:
            known = [f"^{each}" for each in labels.numbers]
            near = did_you_mean(f"^{target.label.text}", known)
            hint = near or f"begin a block with ^{target.label.text}:"
            self.body.report(f"no label ^{target.label.text}", target.label.span, hint)
            return None
        parameters = self.syntax_blocks[number].parameters
        if len(values) != len(parameters):
            takes = ", ".join(f"%{p.name.text}" for p in parameters) or "nothing"
            self.body.report(
                f"^{target.label.text} takes {len(parameters)} value{'s' * (len(parameters) != 1)}"
                f", found {len(values)}",
                target.span,
                f"it takes {takes}",
            )
            return None
        return (number, known) if len(known) == len(values) else None

    def _return(self, line: syntax.Return) -> None:
        body, results = self.body, self.function.results
        expected = body.signature.results
        if not line.values and not expected:
            body.report(
                f"func @{self.function.name.text} returns nothing", line.span, "write return %x"
            )
            return
        if len(line.values) != expected:
            said = "its type says" if results is not None else "elsewhere"
            body.report(
                f"{len(line.values)} value{'s' * (len(line.values) != 1)} returned, "
                f"{said} {expected}",
                line.span,
                "every return gives as many values as the func's type has",
            )
            return
        values = [value_of(each, body) for each in line.values]
        for place, value in enumerate(values):
            if value is None:
                return
            if results is not None and place < len(results):
                declared = declared_type(results[place], body.problems)
                name = value.name_hint or f"result {place}"
                values[place] = declare_type(value, name, declared, results[place].span, body)
        known = tuple(value for value in values if value is not None)
        body.exits.append(Exit(body.block, known, line.span))


def import_operation(line: syntax.Operation, body: Body) -> None:
    """``%a, %b = value : signature``; each result is bound to its name."""
    faults = len(body.problems)
    count = len(line.results)
    if isinstance(line.value, syntax.Call):
        found = results_of(line.value, body)
    else:
        value = value_of(line.value, body)
        found = None if value is None else (value,)
    if found is None or len(body.problems) > faults:
        for word in line.results:
            _bind(word.text, None, body)
        return
    if len(found) != count:
        body.report(
            f"{len(found)} value{'s' * (len(found) != 1)} for {count} name{'s' * (count != 1)}",
            line.span,
            "both sides must agree",
        )
    values: list[SSAValue | None] = [*found[:count], *[None] * (count - len(found))]
    if line.signature is not None:
        values = _checked(line, line.signature, values, body)
    for word, value in zip(line.results, values, strict=True):
        _bind(word.text, value, body)


def _checked(
    line: syntax.Operation,
    signature: syntax.Signature,
    values: list[SSAValue | None],
    body: Body,
) -> list[SSAValue | None]:
    """The values under the types that the line gives them."""
    if len(signature.results) != len(values):
        body.report(
            f"the types are of {len(signature.results)} values, the line sets {len(values)}",
            signature.span,
            "one type for each value: : (tensor, tensor) -> (tensor, tensor)",
        )
        return values
    call = line.value
    given = len(call.arguments) if isinstance(call, syntax.Call) else None
    operands = signature.operands
    if operands is not None and given is not None and isinstance(call, syntax.Call):
        tensors = [a for a in call.arguments if isinstance(a.value, syntax.Value)]
        if len(operands) < len(tensors) and len(operands) != given:
            body.report(
                f"the types are of {len(operands)} operands, the op has {given}", signature.span
            )
    for place, written in enumerate(signature.results):
        declared = declared_type(written, body.problems)
        value = values[place]
        if value is None or declared == DeclaredType():
            continue
        if is_made_of_literals(value):
            values[place] = typed_value(line.results[place], written, value, body)
        else:
            name = line.results[place].text
            values[place] = declare_type(value, name, declared, written.span, body)
    return values


def _typed(
    argument: SSAValue, declared: DeclaredType, parameter: syntax.Parameter, body: Body
) -> SSAValue:
    return declare_type(argument, parameter.name.text, declared, parameter.span, body)


def _bind(name: str, value: SSAValue | None, body: Body) -> None:
    body.values[name] = value
    body.unset.pop(name, None)
    if value is not None:
        give_name(value, name)


def _shown(label: syntax.Word | None) -> str:
    return "the first block" if label is None else f"^{label.text}"
