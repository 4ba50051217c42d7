"""Memory of a GPU as MLIR's gpu dialect names it: ``#gpu.address_space<workgroup>``.

Up to the mid level a buffer has a scope, a word of the schedule (``"shared"``, ``"register"``); in
a kernel it has one of these, which is what nvgpu ops of any MLIR want their operands in.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class AddressSpace(StrEnum):
    """Whose memory it is: everyone's, a block's, a thread's."""

    GLOBAL = "global"
    WORKGROUP = "workgroup"
    PRIVATE = "private"


@irdl_attr_definition
class AddressSpaceAttr(EnumAttribute[AddressSpace]):
    """The memory space of a memref."""

    name = "gpu.address_space"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AddressSpace:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)


WORKGROUP = AddressSpaceAttr(AddressSpace.WORKGROUP)
"""Shared memory of a block."""
PRIVATE = AddressSpaceAttr(AddressSpace.PRIVATE)
"""Registers and the stack of a thread."""
SPACES = {"shared": WORKGROUP, "register": PRIVATE}
"""Of each scope of a schedule that a kernel has buffers in."""
_SCOPES = {space: scope for scope, space in SPACES.items()}


def scope_of_type(type: MemRefType[Attribute]) -> str:
    """The scope of a buffer, named or as a memory space; empty for main memory."""
    match type.memory_space:
        case StringAttr(data=scope):
            return scope
        case AddressSpaceAttr() as space:
            return _SCOPES.get(space, "")
        case _:
            return ""


def is_workgroup(type: Attribute) -> bool:
    """Whether a memref type is in shared memory."""
    return isinstance(type, MemRefType) and cast("MemRefType[Attribute]", type).memory_space == (
        WORKGROUP
    )
