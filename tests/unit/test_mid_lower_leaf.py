"""Leaves as scalar loops: bounds, padding, folds, unrolling, a thread's share of the points."""

import numpy as np
import pytest
from mid_building import assert_close, kernel, lowered, result_specs, sample, spec
from unit.gpu_interpreter import Buffer, run_kernel
from wia_compiler.dialects.text import print_ir
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import LeafContext, Span
from wia_compiler.passes.lower_leaf import lower_leaf_to_loops
from wia_compiler.passes.tile_rewrites import (
    leaves_of,
    stage_operand,
    tile_axis,
    tile_reduction,
)
from wia_compiler.reference.interpret import run_module
from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint


def lower(nest, unroll=1, leaf=None):
    """Loops of a nest to scf, leaves by ``leaf`` or ``lower_leaf_to_loops``."""
    for op in [op for op in nest.walk() if isinstance(op, ComputeOp)]:
        builder = Builder(InsertPoint.before(op))
        if leaf is not None:
            leaf(op, builder)
        else:
            lower_leaf_to_loops(LeafContext(op), builder, unroll=unroll)
        op.detach()
        op.erase()
    for op in reversed([op for op in nest.walk() if isinstance(op, ForOp)]):
        numbers = (0, op.extent.value.data, op.step.value.data)
        constants = [arith.ConstantOp(IntegerAttr(n, IndexType())) for n in numbers]
        body = op.body.detach_block(0)
        body.add_op(scf.YieldOp())
        loop = scf.ForOp(*constants, [], Region(body))
        op.parent_block().insert_ops_before([*constants, loop], op)
        op.detach()
        op.erase()
    nest.verify()


def run(module, arrays, rewrite=lambda nest: None, **options):
    """The nest of a one-nest kernel, lowered, against the reference."""
    nests, _ = lowered(module)
    (nest,) = (op for op in nests.ops if isinstance(op, FuncOp) and "wia.nest" in op.attributes)
    rewrite(nest)
    lower(nest, **options)
    one = IntegerAttr(1, 64)
    nest.attributes |= {"wia.block_size": one, "wia.grid_size": one}
    outputs = [np.zeros(each.shape, each.dtype.numpy) for each in result_specs(module)]
    types = [argument.type.get_shape() for argument in nest.body.block.args]
    shaped = [array.reshape(type) for array, type in zip([*arrays, *outputs], types, strict=True)]
    buffers = [Buffer(array, written=number < len(arrays)) for number, array in enumerate(shaped)]
    run_kernel(nest, buffers)
    for buffer, want in zip(buffers[len(arrays) :], run_module(module, "k", arrays), strict=True):
        assert buffer.valid.all()
        assert_close(buffer.array.reshape(want.shape), want, 1e-5)
    return nest


M, K, N = 7, 9, 5
MATMUL = kernel([spec((M, K)), spec((K, N))], lambda ops, a, b: ops.matmul(a, b))
MATRICES = [sample(spec((M, K))), sample(spec((K, N)), 1)]


def ragged(nest):
    tile_axis(nest, "i", 3)
    tile_axis(nest, "j", 4)
    (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data == "contract")
    return tile_reduction(leaf, "k", 4)


@pytest.mark.parametrize("unroll", [1, 4, 100])
def test_matmul(unroll):
    run(MATMUL, MATRICES, unroll=unroll)
    run(MATMUL, MATRICES, ragged, unroll=unroll)


def test_ragged_edges_are_upper_bounds_not_branches():
    nest = run(MATMUL, MATRICES, ragged)
    assert not [op for op in nest.walk() if isinstance(op, scf.IfOp)]
    assert [op for op in nest.walk() if isinstance(op, arith.MinSIOp)]


def test_sums_are_carried_and_may_be_reassociated():
    text = print_ir(run(MATMUL, MATRICES, ragged))
    assert "iter_args" in text
    assert "fastmath<reassoc,contract>" in text and "fastmath<contract>" in text
    rows = kernel([spec((3, 5))], lambda ops, a: ops.reduce_sum(a, dim=1))
    text = print_ir(run(rows, [sample(spec((3, 5)))]))
    assert "arith.addf" in text and "fastmath<reassoc>" in text and "contract" not in text
    product = kernel([spec((3, 5))], lambda ops, a: ops.mul(ops.add(a, a), a), fused=True)
    assert "fastmath" not in print_ir(run(product, [sample(spec((3, 5)))]))


def test_unrolling_leaves_no_loops_of_small_axes():
    nest = run(MATMUL, MATRICES, lambda nest: tile_axis(nest, "j", 5), unroll=16)
    sizes = [op.ub.owner.value.value.data for op in nest.walk() if isinstance(op, scf.ForOp)]
    assert sizes == [M, N]


def test_padded_window_and_guards():
    from wia_compiler.dialects.wia.ops import make_op

    x, w = spec((1, 2, 5, 6)), spec((3, 2, 3, 3))

    def body(ops, x, w):
        op = make_op("conv2d", {"input": x, "weight": w}, {"padding": 1, "stride": (2, 1)})
        return ops.append(op)

    def rewrite(nest):
        tile_axis(nest, "x", 4)
        (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data == "window")
        loop, leaf = tile_reduction(leaf, "c", 2)
        stage_operand(leaf, 0, loop, "packed")

    module, arrays = kernel([x, w], body), [sample(x), sample(w)]
    nest = run(module, arrays)
    assert [op for op in nest.walk() if isinstance(op, arith.SelectOp)]
    run(module, arrays, rewrite)


def test_bounds_that_do_not_grow_with_an_axis_are_branches():
    each = spec((4, 6))

    def body(ops, a):
        return ops.reshape(ops.neg(ops.permute(a, dims=(1, 0))), shape=(3, 8))

    run(kernel([each], body, fused=True), [sample(each)])
    nests, _ = lowered(kernel([spec((10,))], lambda ops, a: ops.neg(a)))
    (leaf,) = leaves_of(nests)
    from wia_compiler.passes.tile_rewrites import replace_leaf
    from xdsl.ir.affine import AffineExpr

    falling = AffineExpr.symbol(0) * -1 + 6
    leaf = replace_leaf(leaf, bounds=[(falling, 7)])
    lower(leaf.parent_op().parent_op())
    text = print_ir(nests)
    assert "scf.if" in text and "ult" in text


def test_carried_values_and_spans():
    """A leaf whose fold starts from a value, over every second point, twice: a thread's share."""
    each = spec((11,))

    def leaf_in_two_shares(op, builder):
        if op.kind.data != "reduce":
            lower_leaf_to_loops(LeafContext(op), builder)
            return
        emitter = IndexEmitter(builder, op.location)
        held = [emitter.emit(memref.LoadOp.get(op.outputs[0], []))]
        for start in (0, 1):
            spans = {"i": Span(emitter.constant(start), 2)}
            held = lower_leaf_to_loops(LeafContext(op, spans=spans), builder, carried=held)
        builder.insert(memref.StoreOp.get(held[0], op.outputs[0], []))

    run(
        kernel([each], lambda ops, a: ops.reduce_max(a, dim=0)),
        [sample(each)],
        leaf=leaf_in_two_shares,
    )


def test_fixed_points():
    each = spec((6,))

    def leaf_by_points(op, builder):
        emitter = IndexEmitter(builder, op.location)
        for position in range(2):
            context = LeafContext(op, points={"i": emitter.constant(position)})
            assert lower_leaf_to_loops(context, builder) == []

    module = kernel([each], lambda ops, a: ops.neg(a))
    run(module, [sample(each)], lambda nest: tile_axis(nest, "i", 2), leaf=leaf_by_points)


def test_every_emitted_op_has_the_location_of_what_it_came_from():
    from wia_compiler.dialects.location import origins_of

    nests, _ = lowered(kernel([spec((3, 4)), spec((4,))], lambda ops, a, b: ops.add(a, b)))
    for leaf in leaves_of(nests):
        lower_leaf_to_loops(LeafContext(leaf), Builder(InsertPoint.before(leaf)))
        leaf.detach()
        leaf.erase()
    lowered_ops = [
        op for op in nests.walk() if op.name.partition(".")[0] in ("scf", "arith", "memref")
    ]
    assert lowered_ops and all(origins_of(op) for op in lowered_ops)


def test_index_arithmetic_is_folded_and_emitted_once():
    from xdsl.dialects.builtin import UnknownLoc
    from xdsl.ir.affine import AffineExpr

    block = Block(arg_types=[IndexType()])
    emitter = IndexEmitter(Builder(InsertPoint.at_end(block)), UnknownLoc())
    d = AffineExpr.dimension(0)
    first = emitter.affine(d * 4 + 3, [block.args[0]])
    assert emitter.affine(d * 4 + 3, [block.args[0]]) is first
    assert emitter.constant_of(emitter.affine(d * 4 + 3, [emitter.constant(5)])) == 23
    assert emitter.affine(d * 1 + 0, [block.args[0]]) is block.args[0]
    before = len(list(block.ops))
    emitter.affine((d * 4 + 3) // 2, [emitter.constant(5)])
    assert all(isinstance(op, arith.ConstantOp) for op in list(block.ops)[before:])
