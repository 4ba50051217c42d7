"""Every declared op: its class, its defaults, its rule, and text that parses back."""

import pytest
from wia_compiler.base.dtypes import BF16, BOOL, DTYPES, F16, F32, I32, U8, from_numpy
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import Origin, location, merge_locations, origins_of, spans_of
from wia_compiler.dialects.text import LinePrinter, parse_ir, print_ir
from wia_compiler.dialects.types import TensorSpec, from_attribute, tensor_type, to_attribute
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.ops import (
    DECLARATIONS,
    OPS,
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    FusedOp,
    YieldOp,
    make_op,
)
from xdsl.dialects import test as testing
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException


def value(*shape: int, dtype=F32, name: str = "A"):
    op = testing.TestOp(result_types=[tensor_type(shape, dtype)])
    op.results[0].name_hint = name
    return op.results[0]


def infer(name: str, *operands, **attributes) -> TensorSpec:
    return make_op(name, list(operands), attributes).result_spec


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((4, 8), (8, 2), (4, 2)),
        ((8,), (8,), ()),
        ((4, 8), (8,), (4,)),
        ((8,), (8, 2), (2,)),
        ((5, 1, 4, 8), (3, 8, 2), (5, 3, 4, 2)),
        ((0, 8), (8, 2), (0, 2)),
        ((4, 0), (0, 2), (4, 2)),
    ],
)
def test_matmul_has_the_ranks_of_torch(left, right, result) -> None:
    assert infer("matmul", value(*left), value(*right)).shape == result


def test_matmul_names_the_sides_and_sizes_that_disagree() -> None:
    with pytest.raises(InferenceError, match=r"axis 1 of A: tensor<4x8xf32> has size 8.*size 3"):
        infer("matmul", value(4, 8), value(3, 2, name="B"))


@pytest.mark.parametrize(
    ("shape", "weight", "attributes", "result"),
    [
        ((1, 3, 8, 8), (4, 3, 3, 3), {}, (1, 4, 6, 6)),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": 1}, (1, 4, 8, 8)),
        ((2, 4, 9, 7), (6, 2, 3, 3), {"groups": 2, "stride": (2, 1)}, (2, 6, 4, 5)),
        ((1, 1, 7, 7), (1, 1, 3, 3), {"dilation": 3}, (1, 1, 1, 1)),
        ((0, 3, 8, 8), (4, 3, 3, 3), {}, (0, 4, 6, 6)),
    ],
)
def test_conv2d_has_the_sizes_of_torch(shape, weight, attributes, result) -> None:
    assert infer("conv2d", value(*shape), value(*weight), **attributes).shape == result


@pytest.mark.parametrize(
    ("shape", "weight", "attributes", "message"),
    [
        ((3, 8, 8), (4, 3, 3, 3), {}, "N×C×H×W"),
        ((1, 3, 8, 8), (4, 2, 3, 3), {}, "axis 1 of"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"groups": 2}, "groups=2"),
        ((1, 3, 2, 2), (4, 3, 5, 5), {}, "does not fit"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"stride": 0}, "start at 1"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"stride": (1, 2, 3)}, "one whole number or 2"),
    ],
)
def test_conv2d_refuses(shape, weight, attributes, message) -> None:
    with pytest.raises(InferenceError, match=message):
        infer("conv2d", value(*shape), value(*weight), **attributes)


@pytest.mark.parametrize(
    ("dim", "keepdim", "result"),
    [(None, False, ()), (1, False, (2, 4)), (-1, True, (2, 3, 1)), ((0, 2), False, (3,))],
)
def test_reductions_take_axes(dim, keepdim, result) -> None:
    assert infer("reduce_sum", value(2, 3, 4), dim=dim, keepdim=keepdim).shape == result


@pytest.mark.parametrize("dim", [3, -4, (0, 0), True])
def test_reductions_refuse_wrong_axes(dim) -> None:
    with pytest.raises(InferenceError):
        infer("reduce_sum", value(2, 3, 4), dim=dim)


def test_the_largest_of_nothing_is_refused_and_the_sum_is_not() -> None:
    with pytest.raises(InferenceError, match="undefined"):
        infer("reduce_max", value(2, 0), dim=1)
    assert infer("reduce_sum", value(2, 0), dim=1).shape == (2,)


@pytest.mark.parametrize(
    ("shape", "wanted", "result"),
    [((2, 6), (3, -1), (3, 4)), ((), (1,), (1,)), ((0, 3), (0,), (0,)), ((4,), (2, 2), (2, 2))],
)
def test_reshape(shape, wanted, result) -> None:
    assert infer("reshape", value(*shape), shape=wanted).shape == result


@pytest.mark.parametrize("wanted", [(5,), (-1, -1), (-2, 6), (-1, 5), (1.5,)])
def test_reshape_refuses(wanted) -> None:
    with pytest.raises(InferenceError):
        infer("reshape", value(2, 6), shape=wanted)


def test_movement_shapes() -> None:
    assert infer("transpose", value(2, 3, 4)).shape == (2, 4, 3)
    assert infer("permute", value(2, 3, 4), dims=(2, 0, 1)).shape == (4, 2, 3)
    assert infer("broadcast", value(3, 1), shape=(2, 3, 4)).shape == (2, 3, 4)
    assert infer("flatten", value(2, 3, 4), start_dim=1).shape == (2, 12)
    with pytest.raises(InferenceError, match="does not stretch"):
        infer("broadcast", value(3, 2), shape=(3, 4))
    with pytest.raises(InferenceError, match="is not an order"):
        infer("permute", value(2, 3), dims=(0, 0))


def test_dtypes_do_not_mix() -> None:
    with pytest.raises(InferenceError, match="f32 and f16 do not mix"):
        infer("add", value(4), value(4, dtype=F16, name="B"))
    with pytest.raises(InferenceError, match="needs a float"):
        infer("exp", value(4, dtype=I32))
    with pytest.raises(InferenceError, match="needs numbers"):
        infer("add", value(4, dtype=BOOL), value(4, dtype=BOOL))
    with pytest.raises(InferenceError, match="needs bool"):
        infer("logical_and", value(4), value(4))
    assert infer("lt", value(4), value(3, 1, name="B")) == TensorSpec((3, 4), BOOL)
    assert infer("cast", value(4), dtype="bf16").dtype == BF16


def test_broadcasting_names_the_axis_and_both_sides() -> None:
    with pytest.raises(
        InferenceError, match=r"axis \d of A: .* has size 3, axis \d of B: .* has size 4"
    ):
        infer("add", value(2, 3), value(4, name="B"))


def test_flops() -> None:
    assert make_op("matmul", [value(4, 8), value(8, 2)]).flops == 2 * 4 * 8 * 2
    assert make_op("conv2d", [value(1, 3, 8, 8), value(4, 3, 3, 3)]).flops == 2 * 4 * 36 * 27
    assert make_op("add", [value(4), value(4)]).flops == 4
    assert make_op("transpose", [value(4, 2)]).flops == 0


def test_optional_operands_are_known_by_name() -> None:
    op = make_op("layer_norm", {"input": value(2, 8), "bias": value(8, name="b")}, {"eps": 1e-6})
    assert op.given == ("input", "bias")
    assert op.argument("bias") is not None
    assert op.argument("weight") is None
    assert op.values["eps"] == 1e-6
    op.verify()


def test_unspecialised_operands_give_an_unspecialised_result() -> None:
    unknown = testing.TestOp(result_types=[AnyTensorType()]).results[0]
    op = make_op("add", [unknown, value(4)])
    assert isinstance(op.result.type, AnyTensorType)
    op.verify()


def test_make_op_refuses_missing_and_unknown_attributes() -> None:
    with pytest.raises(InferenceError, match="needs shape"):
        make_op("reshape", [value(4)])
    with pytest.raises(ValueError, match="no attribute"):
        make_op("relu", [value(4)], {"slope": 1.0})


def test_a_wrong_result_type_does_not_verify() -> None:
    op = OPS["relu"]([value(4)], {}, tensor_type((5,), F32))
    with pytest.raises(VerifyException, match="yields"):
        op.verify()


def test_every_declaration_is_complete() -> None:
    for name, declaration in DECLARATIONS.items():
        assert declaration.name == name
        assert declaration.doc.endswith("."), name
        assert declaration.tensor_parameters, name
        for literal in declaration.literal_operands:
            assert declaration.parameter(literal) is not None, (name, literal)


def test_text_parses_back_with_locations() -> None:
    body = value(4, 8), value(8, name="b")
    matmul = make_op("matmul", list(body), location=location(Origin(7, Span(3, 5, 3, 17))))
    constant = ConstantOp(1.5, tensor_type((4,), F32))
    declare = DeclareOp(
        matmul.result, kernel="k", parameter="C", dims=("M", None, 3), dtype=F32, scope=2
    )
    add = make_op("add", [matmul.result, constant.result])
    fused = FusedOp("fused_relu", [add.result], [add.result.type])
    relu = make_op("relu", [fused.body.block.args[0]])
    fused.body.block.add_ops([relu, YieldOp([relu.result])])
    owners = [operand.owner for operand in body]
    module = ModuleOp([*owners, matmul, constant, declare, add, fused])
    module.verify()
    for locations in (False, True):
        text = print_ir(module, locations=locations)

        assert "wia.fused @fused_relu" in text
    assert 'loc("7|3:5-3:17")' in print_ir(module, locations=True)
    assert declare.declared_dims == ("M", None, 3)
    assert declare.declared_dtype == F32


def test_ir_text_round_trips() -> None:
    text = """builtin.module {
  func.func @k(%A: tensor<4x8xf32>, %B: tensor<8xui8>) -> tensor<4xf32> {
    %0 = wia.constant 5.000000e-01 : f64 : tensor<8xf32>
    %1 = wia.cast %B {dtype = "f32"} : (tensor<8xui8>) -> tensor<8xf32>
    %2 = wia.add %0, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = wia.fused @fused_matmul_exp (%4 = %A : tensor<4x8xf32>, %5 = %2 : tensor<8xf32>) -> (tensor<4xf32>) {
      %6 = wia.matmul %4, %5 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
      %7 = wia.exp %6 : (tensor<4xf32>) -> tensor<4xf32>
      wia.yield %7 : tensor<4xf32>
    }
    func.return %3 : tensor<4xf32>
  }
}"""  # noqa: E501
    module = parse_ir(text)
    module.verify()
    printed = print_ir(module)
    assert print_ir(parse_ir(printed)) == printed
    printer = LinePrinter()
    printer.print_op(module)
    assert printer.text == printed
    lines = printed.split("\n")
    for op, line in printer.lines.items():
        assert op.name in lines[line - 1]


def test_locations_merge_each_origin_once() -> None:
    first = make_op("relu", [value(4)], location=location(Origin(1, Span(1, 1, 1, 2))))
    second = make_op("exp", [first.result], location=location(Origin(2, Span(2, 1, 2, 2))))
    merged = make_op("neg", [first.result], location=merge_locations([first, second, first]))
    assert [origin.token for origin in origins_of(merged)] == [1, 2]
    assert spans_of(merged) == (Span(1, 1, 1, 2), Span(2, 1, 2, 2))
    assert origins_of(make_op("neg", [first.result])) == ()


@pytest.mark.parametrize("item", [None, True, 3, -1, 1e-5, float("inf"), "tanh", (1, (2, None))])
def test_attributes_hold_python_values(item) -> None:
    back = from_attribute(to_attribute(item))
    assert back == item
    assert type(back) is type(item)


def test_dtypes_name_their_numpy_dtypes() -> None:
    for row in DTYPES.values():
        assert from_numpy(row.numpy) is row
        assert row.accumulator in DTYPES
    assert from_numpy("complex64") is None
    assert from_numpy(">f4") is None
    assert U8.is_integer
    assert not BOOL.is_integer
