"""What a kernel's text says about its parameters, checked: types, roles, defaults."""

from __future__ import annotations

import re

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.base.signature import (
    DeclaredType,
    KernelSignature,
    ParameterDeclaration,
    Role,
)
from wia_compiler.base.source import Span
from wia_compiler.dialects.wia.literals import literal_fault
from wia_compiler.frontend import syntax
from wia_compiler.frontend.literals import out_of_range
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.suggestions import DTYPE_ELSEWHERE, in_words, nearest, with_article

TENSOR = "tensor"
_FORMS = "tensor, tensor<1024, f32>, tensor<M, K, f32>, tensor<4x8xf32> or tensor<?x?xf32>"
_LARGEST_SIZE = 2**63 - 1


def signature_of(
    kernel: syntax.Kernel | syntax.Function, results: int, problems: Problems
) -> KernelSignature:
    """The signature of a kernel or func that returns ``results`` values; faults are reported."""
    seen: dict[str, syntax.Parameter] = {}
    declarations: list[ParameterDeclaration] = []
    for parameter in kernel.parameters:
        name = parameter.name
        if name.text in seen:
            first = seen[name.text].name.span
            problems.report(
                f"parameter {name.text!r} stands twice; the first is on line {first.line}",
                name.span,
                "give one of them another name",
            )
            continue
        seen[name.text] = parameter
        if isinstance(kernel, syntax.Kernel):
            _check_name(name, problems)
        declarations.append(_declaration(parameter, problems))
    return KernelSignature(
        kernel.name.text, tuple(declarations), problems.source, results, kernel.name.span
    )


def _check_name(name: syntax.Word, problems: Problems) -> None:
    if name.text in DTYPES:
        problems.report(
            f"{name.text!r} is the name of a dtype", name.span, "give the parameter another name"
        )


def _declaration(parameter: syntax.Parameter, problems: Problems) -> ParameterDeclaration:
    declared = declared_type(parameter.type, problems)
    scalar = declared.dims == ()
    role: Role = parameter.role or "input"
    if scalar and role == "inout":
        problems.report(
            f"{parameter.name.text!r} is a scalar, which is passed by value and cannot be inout",
            parameter.type.span,
            "make it an output, or a tensor",
        )
    if scalar and role == "input":
        role = "scalar"
    default = _default(parameter, declared, role, problems)
    return ParameterDeclaration(parameter.name.text, role, declared, default, parameter.span)


def _default(
    parameter: syntax.Parameter, declared: DeclaredType, role: Role, problems: Problems
) -> bool | int | float | None:
    default = parameter.default
    if default is None:
        return None
    if role != "scalar" or declared.dtype is None:
        problems.report(
            f"only a scalar input has a default; {parameter.name.text!r} is {with_article(role)} "
            f"of type {declared}",
            default.span,
            f"remove it, or declare {parameter.name.text}: f32",
        )
        return None
    if isinstance(default, syntax.Number):
        reason = out_of_range(default.value, default.text)
        if reason is not None:
            problems.report(reason, default.span)
            return None
    fault = literal_fault(default.value, declared.dtype)
    if fault is not None:
        hint = f"change the number, or the dtype of {parameter.name.text}"
        problems.report(fault[0], default.span, hint)
        return None
    return held(default.value, declared.dtype)


def held(number: bool | int | float, dtype: DType) -> bool | int | float:
    """A number that ``dtype`` can hold as a Python number of its kind."""
    if dtype.is_float:
        return float(number)
    return int(number) if dtype.is_integer else number


def declared_type(written: syntax.TypeName, problems: Problems) -> DeclaredType:
    """The type that a text spells; a wrong one is reported and taken as ``tensor``."""
    name = written.name.text
    if name == TENSOR:
        return DeclaredType() if written.entries is None else _tensor(written, problems)
    if name not in DTYPES:
        near = DTYPE_ELSEWHERE.get(name) or nearest(name, [TENSOR, *DTYPES])
        hint = f"did you mean {near!r}?" if near else f"types are {TENSOR}, {in_words(DTYPES)}"
        problems.report(f"no type {name!r}", written.name.span, hint)
        return DeclaredType()
    if written.entries is not None:
        sizes = ", ".join(entry.text for entry in written.entries)
        problems.report(
            f"{name!r} is a scalar and has no sizes",
            written.span,
            f"write {TENSOR}<{sizes}, {name}>",
        )
    return DeclaredType((), DTYPES[name])


def _tensor(written: syntax.TypeName, problems: Problems) -> DeclaredType:
    entries = written.entries or ()
    dims: list[int | str | None] = []
    dtype: DType | None = None
    for place, entry in enumerate(entries):
        last = place == len(entries) - 1
        found_dims, found_dtype = _entry(entry, last, problems)
        dims.extend(found_dims)
        dtype = found_dtype or dtype
    return DeclaredType(tuple(dims) if dims else None, dtype)


def _entry(
    entry: syntax.Word, last: bool, problems: Problems
) -> tuple[list[int | str | None], DType | None]:
    """Sizes and dtype of ``1024``, ``4x8xf32``, ``?x?``, ``M`` or ``f32``."""
    text = entry.text
    if text in DTYPES:
        if not last:
            problems.report("the dtype comes last", entry.span, f"write {TENSOR}<…, {text}>")
        return [], DTYPES[text]
    if text[0].isdigit() or text[0] == "?":
        return _run_of_sizes(entry, last, problems)
    if text in DTYPE_ELSEWHERE:
        near = DTYPE_ELSEWHERE[text]
        problems.report(f"no dtype {text!r}", entry.span, f"did you mean {near!r}?")
        return [], DTYPES[near]
    if re.fullmatch(rf"\w+x(\w+x)*({'|'.join(DTYPES)})", text):
        parts = ", ".join(text.split("x"))
        problems.report(
            f"named sizes are not joined by 'x', found {text!r}", entry.span, f"write {parts}"
        )
        return [], None
    return [text], None


def _run_of_sizes(
    entry: syntax.Word, last: bool, problems: Problems
) -> tuple[list[int | str | None], DType | None]:
    dims: list[int | str | None] = []
    parts = entry.text.split("x")
    column = entry.span.column
    for place, part in enumerate(parts):
        span = Span(entry.span.line, column, entry.span.line, column + max(1, len(part)))
        column += len(part) + 1
        if part == "?":
            dims.append(None)
        elif part.isdecimal() and (len(part) > 19 or int(part) > _LARGEST_SIZE):
            problems.report(f"size {part[:24]} is larger than any tensor", span)
        elif part.isdecimal():
            dims.append(int(part))
        elif part in DTYPES and place == len(parts) - 1:
            if not last:
                problems.report("the dtype comes last", span, f"write {TENSOR}<…, {part}>")
            return dims, DTYPES[part]
        else:
            near = DTYPE_ELSEWHERE.get(part) or nearest(part, DTYPES)
            hint = f"did you mean {near!r}?" if near else f"write {_FORMS}"
            problems.report(f"expected a size or a dtype, found {part!r}", span, hint)
    return dims, None
