"""The function of a module that holds the kernel being compiled."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The module's functions by name, in order."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def kernel_function(module: ModuleOp, kernel: str) -> FuncOp:
    """The function of that name; ``KeyError`` lists the names that exist."""
    functions = functions_of(module)
    if kernel not in functions:
        raise KeyError(f"no function {kernel!r} in the module; there are: {', '.join(functions)}")
    return functions[kernel]


def return_of(function: FuncOp) -> ReturnOp:
    """The op that ends a function of one block."""
    last = function.body.block.last_op
    if not isinstance(last, ReturnOp):
        raise TypeError(f"function {function.sym_name.data!r} does not end with func.return")
    return last


def update_function_type(function: FuncOp) -> None:
    """Make a function's type that of its arguments and of the values it returns."""
    results = [value.type for value in return_of(function).operands]
    function.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in function.body.block.args], results
    )
