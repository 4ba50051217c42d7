"""Our ops of a warpgroup: matrix products of tiles in shared memory (``wgmma``).

::

    %a = generate.descriptor(%tile) : memref<64x64xf16, #gpu.address_space<workgroup>> -> …
    %0 = mma.init.accumulator() : -> !warpgroup.accumulator<…>
    %1 = mma(%a, %b, %0)                               started; one product may still be running
    mma.store(%1, %slots)                              all are done; a thread's elements by slot

    %2 = mma.load(%slots)                              an accumulator of a thread's elements
    %3 = mma.registers(%p, %q, %b, %2)                 the left operand in registers
    mma.store(%3, %slots, %p, %q)

All 128 threads of a warpgroup (four warps, the first a multiple of four) must reach each of them.
Between ``mma`` and ``store`` an accumulator is nothing but an operand of further products.

MLIR's ``nvgpu.warpgroup`` has no words for these products: its operands are two-dimensional tiles
that a tensor map was made for, never panels nor registers, and what it stores goes to memory that
the block shares. So they are a dialect of ours, ``warpgroup``, in MLIR's generic form.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.nvgpu import fragment_type
from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    WarpgroupDescriptorType,
    element_bytes,
)

ROW_BYTES = 128
"""Of an operand's row in shared memory: one row of the swizzle."""
STEP_BYTES = 32
"""Of the folded axis that one ``wgmma`` takes: 16 elements of 16 bits, 32 of 8."""
LEFT_REGISTERS = 4
"""Of a thread, for each step of a left operand in registers: 16 rows of a warp by 32 bytes."""


def is_product_type(element: Attribute) -> bool:
    """Whether ``wgmma`` multiplies elements of that type here: f16, bf16, i8."""
    return isinstance(element, Float16Type | BFloat16Type) or element == IntegerType(8)


def sum_type(element: Attribute) -> Attribute:
    """What products of such elements are added up in."""
    return i32 if isinstance(element, IntegerType) else Float32Type()


@irdl_op_definition
class GenerateDescriptorOp(IRDLOperation):
    """Where an operand lies, as ``wgmma`` wants to be told (PTX ISA, matrix descriptor)."""

    name = "warpgroup.generate.descriptor"

    tensor = operand_def(MemRefType)
    descriptor = result_def(WarpgroupDescriptorType)

    def __init__(self, tensor: SSAValue, tile: MemRefType[Attribute]):
        type = WarpgroupDescriptorType(tile)
        super().__init__(operands=[tensor], result_types=[type])


@irdl_op_definition
class InitAccumulatorOp(IRDLOperation):
    """Sums of nothing: 0."""

    name = "warpgroup.mma.init.accumulator"

    matrixC = result_def(AccumulatorType)

    def __init__(self, columns: int, element: Attribute):
        type = AccumulatorType(VectorType(element, [64, columns]))
        super().__init__(result_types=[type])


@irdl_op_definition
class WarpgroupMmaOp(IRDLOperation):
    """``matrixD = matrixA @ matrixB + matrixC``, started.

    At most ``waitGroup`` products run after it; without that, all that were on their way.

    ``matrixA`` is 64 × K, ``matrixB`` columns × K (*K-major*), in panels of 128 bytes of K where
    there are several; ``transposeA`` and ``transposeB`` say that an operand lies in panels along
    its rows instead. K is what the descriptors' tiles have, in steps of 32 bytes.
    """

    name = "warpgroup.mma"

    descriptorA = operand_def(WarpgroupDescriptorType)
    descriptorB = operand_def(WarpgroupDescriptorType)
    matrixC = operand_def(AccumulatorType)
    waitGroup = opt_prop_def(IntegerAttr[I64])
    transposeA = opt_prop_def(UnitAttr)
    transposeB = opt_prop_def(UnitAttr)
    matrixD = result_def(AccumulatorType)

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        accumulator: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        wait_group: int | None = 1,
    ):
        super().__init__(
            operands=[a, b, accumulator],
            properties={
                "waitGroup": None if wait_group is None else IntegerAttr(wait_group, i64),
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
        a = cast(WarpgroupDescriptorType, self.descriptorA.type).tensor.element_type
        rows, depth = _sides(self.descriptorA, self.transposeA is not None)
        _check_product(self, a, rows, depth)
        if element_bytes(a) != 2 and self.transposeA is not None:
            raise VerifyException(_TRANSPOSES)


@irdl_op_definition
class WarpgroupMmaRegistersOp(IRDLOperation):
    """The same with ``matrixA`` in registers: 64 × K, a vector of each thread for 32 bytes of K.

    Thread ``32 w + 4 g + t`` has of each 16 columns of 16 bits the elements (16 w + g, 2 t) and
    its neighbour, (16 w + g + 8, 2 t), (16 w + g, 2 t + 8), (16 w + g + 8, 2 t + 8) and theirs
    (PTX ISA, register fragments of wgmma.mma_async): what two times 8 columns of an accumulator
    are to it. They must not change before the product is waited for.
    """

    name = "warpgroup.mma.registers"

    fragments = var_operand_def(VectorType)
    descriptorB = operand_def(WarpgroupDescriptorType)
    matrixC = operand_def(AccumulatorType)
    transposeB = opt_prop_def(UnitAttr)
    matrixD = result_def(AccumulatorType)

    def __init__(
        self,
        fragments: Sequence[SSAValue],
        b: SSAValue,
        accumulator: SSAValue,
        *,
        transpose_b: bool = False,
    ):
        super().__init__(
            operands=[list(fragments), b, accumulator],
            properties={"transposeB": UnitAttr() if transpose_b else None},
            result_types=[accumulator.type],
        )

    def verify_(self) -> None:
        if not self.fragments:
            raise VerifyException("a left operand in registers has at least one step")
        held = cast("VectorType[Attribute]", self.fragments[0].type)
        element = held.element_type
        wanted = fragment_type(element, LEFT_REGISTERS)
        if any(each.type != wanted for each in self.fragments):
            raise VerifyException(f"a step of a left operand is {wanted}, found {held}")
        depth = len(self.fragments) * STEP_BYTES // element_bytes(element)
        _check_product(self, element, 64, depth)


def _check_product(
    op: WarpgroupMmaOp | WarpgroupMmaRegistersOp, element: Attribute, rows: int, depth: int
) -> None:
    """Raise where a left operand of that type and size is not multiplied by the right one."""
    b = cast(WarpgroupDescriptorType, op.descriptorB.type).tensor.element_type
    total = cast(AccumulatorType, op.matrixC.type).fragmented
    columns, other = _sides(op.descriptorB, op.transposeB is not None)
    if element != b or not is_product_type(element):
        raise VerifyException(f"no wgmma of {element} and {b}")
    if total.element_type != sum_type(element):
        raise VerifyException(f"products of {element} are not added up in {total}")
    if (rows, columns) != tuple(total.get_shape()) or depth != other:
        raise VerifyException(f"{rows} × {depth} times {other} × {columns} is no {total}")
    size = element_bytes(element)
    if depth * size % STEP_BYTES:
        raise VerifyException(f"wgmma folds {STEP_BYTES // size} elements at a time, not {depth}")
    if size != 2 and op.transposeB is not None:
        raise VerifyException(_TRANSPOSES)
    if op.matrixD.type != op.matrixC.type:
        raise VerifyException("a product has the type of what it is added to")


_TRANSPOSES = "wgmma transposes elements of 16 bits only"


@irdl_op_definition
class LoadAccumulatorOp(IRDLOperation):
    """The accumulator that is made of what this thread holds, slot by slot."""

    name = "warpgroup.mma.load"

    src = operand_def(MemRefType)
    matrixC = result_def(AccumulatorType)

    def __init__(self, slots: SSAValue, columns: int):
        element = cast("MemRefType[Attribute]", slots.type).element_type
        type = AccumulatorType(VectorType(element, [64, columns]))
        super().__init__(operands=[slots], result_types=[type])

    def verify_(self) -> None:
        _check_slots(self.matrixC, self.src)


@irdl_op_definition
class StoreAccumulatorOp(IRDLOperation):
    """Wait for products; put what this thread holds into its register buffer, slot by slot.

    All but the ``waitGroup`` newest products are done then (without it, all). ``held`` are left
    operands in registers of what is waited for.
    """

    name = "warpgroup.mma.store"

    matrixD = operand_def(AccumulatorType)
    dst = operand_def(MemRefType)
    held = var_operand_def(VectorType)
    waitGroup = opt_prop_def(IntegerAttr[I64])

    def __init__(
        self,
        accumulator: SSAValue,
        slots: SSAValue,
        *,
        wait_group: int = 0,
        held: Sequence[SSAValue] = (),
    ):
        waiting = {"waitGroup": IntegerAttr(wait_group, i64)} if wait_group else {}
        super().__init__(operands=[accumulator, slots, list(held)], properties=waiting)

    @property
    def running(self) -> int:
        """Products that may still be running afterwards."""
        return 0 if self.waitGroup is None else self.waitGroup.value.data

    def verify_(self) -> None:
        _check_slots(self.matrixD, self.dst)


def _check_slots(accumulator: SSAValue, slots: SSAValue) -> None:
    held = cast(AccumulatorType, accumulator.type)
    found = cast("MemRefType[Attribute]", slots.type)
    wanted = ([held.slots], held.fragmented.element_type)
    if (list(found.get_shape()), found.element_type) != wanted:
        raise VerifyException(f"a thread holds {held.slots} elements of {held}, not {found}")


def _sides(descriptor: SSAValue, transposed: bool) -> tuple[int, int]:
    """Rows (columns of B) and depth of an operand."""
    shape = cast(WarpgroupDescriptorType, descriptor.type).tensor.get_shape()
    if not transposed:
        return (shape[0], shape[1]) if len(shape) == 2 else (shape[1], shape[0] * shape[2])
    return (shape[0] * shape[2], shape[1]) if len(shape) == 3 else (0, 0)


WARPGROUP_OPS: list[type[Operation]] = [
    GenerateDescriptorOp,
    InitAccumulatorOp,
    WarpgroupMmaOp,
    WarpgroupMmaRegistersOp,
    LoadAccumulatorOp,
    StoreAccumulatorOp,
]
