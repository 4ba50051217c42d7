"""The function of a module that holds the kernel being compiled."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The module's functions by name, in order."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def kernel_function(module: ModuleOp, kernel: str) -> FuncOp:
    """The function of that name; ``KeyError`` lists the names that exist."""
    functions = functions_of(module)
    if kernel not in functions:
        raise KeyError(f"no function {kernel!r} in the module; there are: {', '.join(functions)}")
    return functions[kernel]


def entry_of(function: FuncOp) -> Block:
    """The block that a function begins with, whose arguments are the function's."""
    first = function.body.blocks.first
    if first is None:
        raise TypeError(f"function {function.sym_name.data!r} has no body")
    return first


def return_of(function: FuncOp) -> ReturnOp:
    """The op by which a function ends; whatever its blocks, it has one."""
    for block in function.body.blocks:
        if isinstance(block.last_op, ReturnOp):
            return block.last_op
    raise TypeError(f"function {function.sym_name.data!r} does not end with func.return")


def update_function_type(function: FuncOp) -> None:
    """Make a function's type that of its arguments and of the values it returns."""
    results = [value.type for value in return_of(function).operands]
    function.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in entry_of(function).args], results
    )
