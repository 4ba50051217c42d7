"""MLIR's nvgpu and nvvm ops for GPUs of capability 9.0: barriers, tensor copies, roles of warps.

::

    %maps = nvgpu.tma.create.descriptor %a box [128, 64] : memref<…> -> !nvgpu.tensormap…   host
    nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes : !nvgpu.mbarrier.group<…>           producer
    nvgpu.tma.async.load %map[%i, %k], %full[%s] to %tile : …
    nvgpu.mbarrier.try_wait.parity %full[%s], %phase : !nvgpu.mbarrier.group<…>            consumer
    nvgpu.mbarrier.arrive %empty[%s] : !nvgpu.mbarrier.group<…>

Names, operands and meaning are MLIR's, with these differences: boxes have static sizes, a wait has
no time limit of its own, and a plain arrival gives no token, since phases are waited for by parity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, MemRefType, UnitAttr, i1, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    BarrierGroupType,
    TensorMapType,
    WarpgroupDescriptorType,
    element_bytes,
)
from wia_compiler.dialects.nvgpu_warpgroup import WARPGROUP_OPS


@irdl_op_definition
class BarrierCreateOp(IRDLOperation):
    """``%b = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<…>``: barriers of a block."""

    name = "nvgpu.mbarrier.create"

    barriers = result_def(BarrierGroupType)

    assembly_format = "attr-dict `->` type($barriers)"

    def __init__(self, count: int):
        super().__init__(result_types=[BarrierGroupType.of(count)])


@irdl_op_definition
class BarrierInitOp(IRDLOperation):
    """A barrier whose phase ends when ``count`` threads have arrived, and the bytes have."""

    name = "nvgpu.mbarrier.init"

    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)
    count = operand_def(IndexType)

    assembly_format = "$barriers `[` $index `]` `,` $count attr-dict `:` type($barriers)"

    def __init__(self, barriers: SSAValue, index: SSAValue, count: SSAValue):
        super().__init__(operands=[barriers, index, count])


@irdl_op_definition
class BarrierArriveOp(IRDLOperation):
    """One arrival: all that this thread did before is seen by whoever waits for the phase."""

    name = "nvgpu.mbarrier.arrive"

    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)

    assembly_format = "$barriers `[` $index `]` attr-dict `:` type($barriers)"

    def __init__(self, barriers: SSAValue, index: SSAValue):
        super().__init__(operands=[barriers, index])


@irdl_op_definition
class BarrierExpectOp(IRDLOperation):
    """One arrival, and ``txcount`` bytes more that copies bring before the phase ends."""

    name = "nvgpu.mbarrier.arrive.expect_tx"

    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)
    txcount = operand_def(IndexType)

    assembly_format = "$barriers `[` $index `]` `,` $txcount attr-dict `:` type($barriers)"

    def __init__(self, barriers: SSAValue, index: SSAValue, txcount: SSAValue):
        super().__init__(operands=[barriers, index, txcount])


@irdl_op_definition
class BarrierWaitOp(IRDLOperation):
    """Wait until the phase of that parity is over: the barrier begins in phase 0, so a wait for
    parity 1 passes on a new one.
    """

    name = "nvgpu.mbarrier.try_wait.parity"

    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)
    phase = operand_def(i1)

    assembly_format = "$barriers `[` $index `]` `,` $phase attr-dict `:` type($barriers)"

    def __init__(self, barriers: SSAValue, index: SSAValue, phase: SSAValue):
        super().__init__(operands=[barriers, index, phase])


@irdl_op_definition
class TensorMapCreateOp(IRDLOperation):
    """The tensor map of a global array, made by the host before a launch."""

    name = "nvgpu.tma.create.descriptor"

    tensor = operand_def(MemRefType)
    tensorMap = result_def(TensorMapType)

    assembly_format = "$tensor attr-dict `:` type($tensor) `->` type($tensorMap)"

    def __init__(self, tensor: SSAValue, type: TensorMapType):
        super().__init__(operands=[tensor], result_types=[type])

    def verify_(self) -> None:
        array = cast("MemRefType[Attribute]", self.tensor.type)
        box = self.tensorMap.type.tensor
        if len(box.get_shape()) != len(array.get_shape()):
            raise VerifyException(f"a box of {box} has another rank than {array}")
        if box.element_type != array.element_type:
            raise VerifyException(f"a box of {box} has other elements than {array}")


@irdl_op_definition
class TensorMapPrefetchOp(IRDLOperation):
    """Bring the 128 bytes of a tensor map near before the first copy needs them."""

    name = "nvgpu.tma.prefetch.descriptor"

    tensorMap = operand_def(TensorMapType)

    assembly_format = "$tensorMap attr-dict `:` type($tensorMap)"

    def __init__(self, tensor_map: SSAValue):
        super().__init__(operands=[tensor_map])


@irdl_op_definition
class TensorLoadOp(IRDLOperation):
    """Copy the box at ``coordinates`` (of its first element, the dense dimension last) to ``dst``.

    Its bytes count for the phase of a barrier, those outside of the array too, which arrive as 0.
    """

    name = "nvgpu.tma.async.load"

    tensorMap = operand_def(TensorMapType)
    coordinates = var_operand_def(IndexType)
    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)
    dst = operand_def(MemRefType)

    assembly_format = (
        "$tensorMap `[` $coordinates `]` `,` $barriers `[` $index `]` `to` $dst attr-dict `:` "
        "type($tensorMap) `,` type($barriers) `->` type($dst)"
    )

    def __init__(
        self,
        tensor_map: SSAValue,
        coordinates: Sequence[SSAValue],
        barriers: SSAValue,
        index: SSAValue,
        dst: SSAValue,
    ):
        super().__init__(operands=[tensor_map, list(coordinates), barriers, index, dst])

    def verify_(self) -> None:
        box = cast(TensorMapType, self.tensorMap.type).tensor
        held = cast("MemRefType[Attribute]", self.dst.type)
        if len(self.coordinates) != len(box.get_shape()):
            raise VerifyException(f"{len(self.coordinates)} coordinates for a box of {box}")
        if _bytes(held) != _bytes(box) or held.element_type != box.element_type:
            raise VerifyException(f"a box of {box} does not fill {held}")


@irdl_op_definition
class FenceBarrierInitOp(IRDLOperation):
    """New barriers are seen by copies that will signal them."""

    name = "nvvm.fence.mbarrier.init"

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class ElectOp(IRDLOperation):
    """``%one = nvvm.elect.sync -> i1``: true in one thread of the warp, which all must reach."""

    name = "nvvm.elect.sync"

    pred = result_def(i1)

    assembly_format = "attr-dict `->` type($pred)"

    def __init__(self) -> None:
        super().__init__(result_types=[i1])


@irdl_op_definition
class SetMaxRegisterOp(IRDLOperation):
    """Registers that each thread of this warpgroup may use from here on, given or taken.

    ``nvvm.setmaxregister increase 232``; a multiple of 8 from 24 to 256. All threads of the
    warpgroup must get here; an increase waits until other warpgroups gave enough.
    """

    name = "nvvm.setmaxregister"

    regCount = prop_def(IntegerAttr[I64])
    decrease = opt_prop_def(UnitAttr)

    assembly_format = "(`decrease` $decrease^):(`increase`)? $regCount attr-dict"

    def __init__(self, count: int, *, decrease: bool = False):
        super().__init__(
            properties={
                "regCount": IntegerAttr(count, i64),
                "decrease": UnitAttr() if decrease else None,
            }
        )

    def verify_(self) -> None:
        count = self.regCount.value.data
        if count % 8 or not 24 <= count <= 256:
            raise VerifyException(f"registers are a multiple of 8 from 24 to 256, found {count}")


def _bytes(type: MemRefType[Attribute]) -> int:
    count = 1
    for size in type.get_shape():
        count *= size
    return count * element_bytes(type.element_type)


NvgpuHopper = Dialect(
    "nvgpu_hopper",
    [
        BarrierCreateOp,
        BarrierInitOp,
        BarrierArriveOp,
        BarrierExpectOp,
        BarrierWaitOp,
        TensorMapCreateOp,
        TensorMapPrefetchOp,
        TensorLoadOp,
        FenceBarrierInitOp,
        ElectOp,
        SetMaxRegisterOp,
        *WARPGROUP_OPS,
    ],
    [BarrierGroupType, TensorMapType, WarpgroupDescriptorType, AccumulatorType],
)
