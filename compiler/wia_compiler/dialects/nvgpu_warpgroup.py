"""MLIR's nvgpu ops of a warpgroup: matrix products of tiles in shared memory (``wgmma``).

::

    %a = nvgpu.warpgroup.generate.descriptor %tile : memref<64x64xf16, "shared"> -> …
    %0 = nvgpu.warpgroup.mma.init.accumulator -> !nvgpu.warpgroup.accumulator<…>
    %1 = nvgpu.warpgroup.mma %a, %b, %0 : …            started; one product may still be running
    nvgpu.warpgroup.mma.store %1, %slots : …           all are done; a thread's elements by slot

All 128 threads of a warpgroup (four warps, the first a multiple of four) must reach each of them.
Between ``mma`` and ``store`` an accumulator is nothing but an operand of further products.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    I64,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    WarpgroupDescriptorType,
    element_bytes,
)

ROW_BYTES = 128
"""Of an operand's row in shared memory: one row of the swizzle."""
STEP_BYTES = 32
"""Of the folded axis that one ``wgmma`` takes: 16 elements of 16 bits, 32 of 8."""


def is_product_type(element: Attribute) -> bool:
    """Whether ``wgmma`` multiplies elements of that type here: f16, bf16, i8."""
    return isinstance(element, Float16Type | BFloat16Type) or element == IntegerType(8)


def sum_type(element: Attribute) -> Attribute:
    """What products of such elements are added up in."""
    return i32 if isinstance(element, IntegerType) else Float32Type()


@irdl_op_definition
class GenerateDescriptorOp(IRDLOperation):
    """Where an operand lies, as ``wgmma`` wants to be told (PTX ISA, matrix descriptor)."""

    name = "nvgpu.warpgroup.generate.descriptor"

    tensor = operand_def(MemRefType)
    descriptor = result_def(WarpgroupDescriptorType)

    assembly_format = "$tensor attr-dict `:` type($tensor) `->` type($descriptor)"

    def __init__(self, tensor: SSAValue, tile: MemRefType[Attribute]):
        type = WarpgroupDescriptorType(tile)
        super().__init__(operands=[tensor], result_types=[type])


@irdl_op_definition
class InitAccumulatorOp(IRDLOperation):
    """Sums of nothing: 0."""

    name = "nvgpu.warpgroup.mma.init.accumulator"

    matrixC = result_def(AccumulatorType)

    assembly_format = "attr-dict `->` type($matrixC)"

    def __init__(self, columns: int, element: Attribute):
        type = AccumulatorType(VectorType(element, [64, columns]))
        super().__init__(result_types=[type])


@irdl_op_definition
class WarpgroupMmaOp(IRDLOperation):
    """``matrixD = matrixA @ matrixB + matrixC``, started; at most ``waitGroup`` products run after.

    ``matrixA`` is 64 × K, ``matrixB`` columns × K (*K-major*); ``transposeA`` and ``transposeB``
    say that an operand lies in panels along its rows instead. K is what the descriptors' tiles
    have, in steps of 32 bytes.
    """

    name = "nvgpu.warpgroup.mma"

    descriptorA = operand_def(WarpgroupDescriptorType)
    descriptorB = operand_def(WarpgroupDescriptorType)
    matrixC = operand_def(AccumulatorType)
    waitGroup = prop_def(IntegerAttr[I64])
    transposeA = opt_prop_def(UnitAttr)
    transposeB = opt_prop_def(UnitAttr)
    matrixD = result_def(AccumulatorType)

    assembly_format = (
        "$descriptorA `,` $descriptorB `,` $matrixC (`transposeA` $transposeA^)? "
        "(`transposeB` $transposeB^)? `wait` $waitGroup attr-dict `:` type($descriptorA) `,` "
        "type($descriptorB) `,` type($matrixC) `->` type($matrixD)"
    )

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        accumulator: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        wait_group: int = 1,
    ):
        super().__init__(
            operands=[a, b, accumulator],
            properties={
                "waitGroup": IntegerAttr(wait_group, i64),
                "transposeA": UnitAttr() if transpose_a else None,
                "transposeB": UnitAttr() if transpose_b else None,
            },
            result_types=[accumulator.type],
        )

    @property
    def depth(self) -> int:
        """Elements of the folded axis."""
        return _sides(self.descriptorA, self.transposeA is not None)[1]

    def verify_(self) -> None:
        a, b = (cast(WarpgroupDescriptorType, each.type).tensor for each in self.operands[:2])
        total = cast(AccumulatorType, self.matrixC.type).fragmented
        rows, depth = _sides(self.descriptorA, self.transposeA is not None)
        columns, other = _sides(self.descriptorB, self.transposeB is not None)
        if a.element_type != b.element_type or not is_product_type(a.element_type):
            raise VerifyException(f"no wgmma of {a.element_type} and {b.element_type}")
        if total.element_type != sum_type(a.element_type):
            raise VerifyException(f"products of {a.element_type} are not added up in {total}")
        if (rows, columns) != tuple(total.get_shape()) or depth != other:
            raise VerifyException(f"{rows} × {depth} times {other} × {columns} is no {total}")
        size = element_bytes(a.element_type)
        if depth * size % STEP_BYTES:
            raise VerifyException(
                f"wgmma folds {STEP_BYTES // size} elements at a time, not {depth}"
            )
        if size != 2 and (self.transposeA is not None or self.transposeB is not None):
            raise VerifyException("wgmma transposes elements of 16 bits only")
        if self.matrixD.type != self.matrixC.type:
            raise VerifyException("a product has the type of what it is added to")


@irdl_op_definition
class StoreAccumulatorOp(IRDLOperation):
    """Wait for all products; put what this thread holds into its register buffer, slot by slot."""

    name = "nvgpu.warpgroup.mma.store"

    matrixD = operand_def(AccumulatorType)
    dst = operand_def(MemRefType)

    assembly_format = "$matrixD `,` $dst attr-dict `:` type($matrixD) `to` type($dst)"

    def __init__(self, accumulator: SSAValue, slots: SSAValue):
        super().__init__(operands=[accumulator, slots])

    def verify_(self) -> None:
        held = cast(AccumulatorType, self.matrixD.type)
        slots = cast("MemRefType[Attribute]", self.dst.type)
        wanted = ([held.slots], held.fragmented.element_type)
        if (list(slots.get_shape()), slots.element_type) != wanted:
            raise VerifyException(f"a thread holds {held.slots} elements of {held}, not {slots}")


def _sides(descriptor: SSAValue, transposed: bool) -> tuple[int, int]:
    """Rows (columns of B) and depth of an operand."""
    shape = cast(WarpgroupDescriptorType, descriptor.type).tensor.get_shape()
    if not transposed:
        return (shape[0], shape[1]) if len(shape) == 2 else (0, 0)
    return (shape[0] * shape[2], shape[1]) if len(shape) == 3 else (0, 0)


WARPGROUP_OPS: list[type[Operation]] = [
    GenerateDescriptorOp,
    InitAccumulatorOp,
    WarpgroupMmaOp,
    StoreAccumulatorOp,
]
