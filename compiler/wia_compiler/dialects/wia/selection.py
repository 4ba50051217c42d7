"""Tables looked up by number, classes as vectors, and halves of matrices."""

from __future__ import annotations

from typing import Any

from wia_compiler.base.dtypes import BOOL, DTYPES
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula
from wia_compiler.dialects.wia.indexing import OUT_OF_RANGE, read_selected, require_index
from wia_compiler.dialects.wia.movement import free
from wia_compiler.dialects.wia.rules import describe


def _infer_embedding(operands: Operands, attributes: Attributes) -> TensorSpec:
    index, weight = operands["input"], operands["weight"]
    require_index(index, "embedding")
    if weight.rank != 2:
        raise InferenceError(
            f"embedding's weight is a table rows×width, found {describe(weight)}",
            "embedding(index, weight): the index comes first",
        )
    return TensorSpec((*index.shape, weight.shape[1]), weight.dtype)


def _embedding(call: Call[Any], a: Algebra[Any]) -> Any:
    index = call["input"]
    flat = a.reshape(index, (a.spec(index).num_elements,))
    return a.reshape(a.op("index_select", call["weight"], flat, dim=0), call.result.shape)


def _infer_one_hot(operands: Operands, attributes: Attributes) -> TensorSpec:
    index, classes = operands["input"], attributes["num_classes"]
    require_index(index, "one_hot")
    if not isinstance(classes, int) or isinstance(classes, bool) or classes < 1:
        raise InferenceError(
            f"one_hot's num_classes is a whole number from 1, found {classes!r}",
            "a shape cannot depend on values: say how many classes there are",
        )
    dtype = DTYPES.get(str(attributes["dtype"]))
    if dtype is None:
        raise InferenceError(f"no dtype {attributes['dtype']!r}", f"there are {', '.join(DTYPES)}")
    return TensorSpec((*index.shape, classes), dtype)


def _one_hot(call: Call[Any], a: Algebra[Any]) -> Any:
    index = call["input"]
    number = a.cast(index, DTYPES["i64"])
    column = a.reshape(number, (*a.spec(index).shape, 1))
    classes = a.named("iota", {}, {"size": call.integer("num_classes")})
    return a.cast(a.op("eq", column, classes), call.result.dtype)


def _infer_triangle(op: str):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand, diagonal = operands["input"], attributes["diagonal"]
        if operand.rank < 2:
            raise InferenceError(f"{op} needs …×M×N, found {describe(operand)}", "add an axis")
        if not isinstance(diagonal, int) or isinstance(diagonal, bool):
            raise InferenceError(
                f"{op}'s diagonal is a whole number, found {diagonal!r}",
                "0 is the main diagonal, 1 the one right of it",
            )
        return TensorSpec(operand.shape, operand.dtype)

    return infer


def _triangle(comparison: str) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        x = call["input"]
        rows, columns = a.spec(x).shape[-2:]
        row = a.reshape(a.named("iota", {}, {"size": rows}), (rows, 1))
        column = a.named("iota", {}, {"size": columns})
        edge = a.op("add", row, a.constant(call.integer("diagonal"), row))
        kept = a.op(comparison, column, edge)
        if call.result.dtype == BOOL:
            return a.op("logical_and", kept, x)
        return a.op("where", kept, x, a.constant(0, x))

    return formula


def _triangle_row(name: str, comparison: str, doc: str) -> OpDeclaration:
    return OpDeclaration(
        name,
        "movement",
        (Parameter("input"), Parameter("diagonal", "attribute", 0)),
        _infer_triangle(name),
        free,
        doc,
        primitive=False,
        formula=_triangle(comparison),
        access="free",
        rule="any dtype; …×M×N; shape and dtype of input",
    )


_MATRIX = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]

SELECTION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "embedding",
        "movement",
        (Parameter("input"), Parameter("weight")),
        _infer_embedding,
        free,
        "The row of a table for each number of input.",
        primitive=False,
        formula=_embedding,
        access="free",
        read_bytes=read_selected("input"),
        rule="input is integers, weight rows×width; shape of input with width behind it, dtype of "
        "weight",
        numerics=OUT_OF_RANGE,
    ).with_example("embedding(index, table)", index=[2, 0], table=[[1, 2], [3, 4], [5, 6]]),
    OpDeclaration(
        "one_hot",
        "movement",
        (
            Parameter("input"),
            Parameter("num_classes", "attribute"),
            Parameter("dtype", "attribute", "i64"),
        ),
        _infer_one_hot,
        free,
        "A row of num_classes elements for each number: 1 at its place, 0 elsewhere; of a number "
        "that is no class, all 0.",
        primitive=False,
        formula=_one_hot,
        access="free",
        rule="integers; shape of input with num_classes behind it; dtype as given",
    ).with_example("one_hot(x, 3)", x=[2, 0]),
    _triangle_row(
        "tril", "le", "The lower triangle, 0 above the diagonal, which can be shifted right."
    ).with_example("tril(x)", x=_MATRIX),
    _triangle_row(
        "triu", "ge", "The upper triangle, 0 below the diagonal, which can be shifted right."
    ).with_example("triu(x, 1)", x=_MATRIX),
)
