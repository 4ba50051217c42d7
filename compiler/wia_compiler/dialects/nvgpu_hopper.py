"""MLIR's nvgpu and nvvm ops for GPUs of capability 9.0: barriers, tensor copies, roles of warps.

::

    %map = nvgpu.tma.create.descriptor %a box[%c128, %c64] : memref<*xf16> -> !nvgpu.tensor…   host
    nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes : !nvgpu.mbarrier.group<…>           producer
    nvgpu.tma.async.load %map[%i, %k], %full[%s] to %tile : …
    nvgpu.mbarrier.try_wait.parity %full[%s], %phase, %ticks : !nvgpu.mbarrier.group<…>    consumer
    %token = nvgpu.mbarrier.arrive %empty[%s] : !nvgpu.mbarrier.group<…> -> !nvgpu.mbarrier.token

Names, operands, text and meaning are MLIR's. Sizes of a box are in the type of its map as well;
tokens of arrivals are of no use here, since phases are waited for by parity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    I64,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    UnrankedMemRefType,
    i1,
    i64,
)
from xdsl.dialects.memref import CastOp
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
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
)
from wia_compiler.dialects.nvgpu_warpgroup import WARPGROUP_OPS


@irdl_attr_definition
class BarrierTokenType(ParametrizedAttribute, TypeAttribute):
    """``!nvgpu.mbarrier.token``: the phase of a barrier that a thread arrived in."""

    name = "nvgpu.mbarrier.token"


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
    token = result_def(BarrierTokenType)

    assembly_format = "$barriers `[` $index `]` attr-dict `:` type($barriers) `->` type($token)"

    def __init__(self, barriers: SSAValue, index: SSAValue):
        super().__init__(operands=[barriers, index], result_types=[BarrierTokenType()])


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

    ``ticks`` is for how many nanoseconds the machine may let the thread sleep before it looks
    again. It is a hint, which this compiler leaves to the machine.
    """

    name = "nvgpu.mbarrier.try_wait.parity"

    barriers = operand_def(BarrierGroupType)
    index = operand_def(IndexType)
    phase = operand_def(i1)
    ticks = operand_def(IndexType)

    assembly_format = "$barriers `[` $index `]` `,` $phase `,` $ticks attr-dict `:` type($barriers)"

    def __init__(self, barriers: SSAValue, index: SSAValue, phase: SSAValue, ticks: SSAValue):
        super().__init__(operands=[barriers, index, phase, ticks])


@irdl_op_definition
class TensorMapCreateOp(IRDLOperation):
    """The tensor map of a global array, made by the host before a launch.

    The array comes by ``memref.cast`` from a type with sizes; ``boxDimensions`` are constants, the
    sizes that the type of the map has.
    """

    name = "nvgpu.tma.create.descriptor"

    unranked = operand_def(UnrankedMemRefType)
    boxDimensions = var_operand_def(IndexType)
    tensorMap = result_def(TensorMapType)

    assembly_format = (
        "$unranked `box` `[` $boxDimensions `]` attr-dict `:` type($unranked) `->` type($tensorMap)"
    )

    def __init__(self, unranked: SSAValue, box: Sequence[SSAValue], type: TensorMapType):
        super().__init__(operands=[unranked, list(box)], result_types=[type])

    @property
    def tensor(self) -> SSAValue:
        """The array with its sizes."""
        source = self.unranked.owner
        if not isinstance(source, CastOp) or not isinstance(source.source.type, MemRefType):
            raise VerifyException("a tensor map is made of what memref.cast gives of a memref")
        return source.source

    def verify_(self) -> None:
        array = cast("MemRefType[Attribute]", self.tensor.type)
        box = self.tensorMap.type.tensor
        sizes = [
            each.owner.value for each in self.boxDimensions if isinstance(each.owner, ConstantOp)
        ]
        found = [each.value.data for each in sizes if isinstance(each, IntegerAttr)]
        if found != list(box.get_shape()):
            raise VerifyException(f"sizes {found} for a box of {box}")
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
        if held != box:
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
    [BarrierGroupType, BarrierTokenType, TensorMapType, WarpgroupDescriptorType, AccumulatorType],
)
