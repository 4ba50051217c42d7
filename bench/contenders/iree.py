"""IREE's llvm-cpu backend for this CPU at O3, from StableHLO."""

from __future__ import annotations

from typing import Any

from contenders import Contender
from contenders._jax_formulas import formulas

REQUIRES = ("iree-base-compiler", "iree-base-runtime", "jax[cpu]")


def environment(threads: int) -> dict[str, str]:
    return {"JAX_PLATFORMS": "cpu"}


def make(threads: int) -> Contender:
    from importlib.metadata import version

    import iree.compiler
    import iree.runtime
    import jax
    from jax import export

    iree.runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")
    config = iree.runtime.Config("local-task")

    def compile(function: Any, arrays: list[Any]) -> Any:
        text = export.export(jax.jit(function))(
            *(jax.numpy.asarray(array.to_host()) for array in arrays)
        ).mlir_module()
        options = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
        binary = iree.compiler.compile_str(
            text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=options
        )
        module = iree.runtime.VmModule.copy_buffer(config.vm_instance, binary)
        context = iree.runtime.SystemContext(config=config)
        context.add_vm_module(module)
        return context.modules[module.name]["main"]

    return Contender(
        version("iree-base-compiler"),
        formulas(),
        adopt=lambda array: iree.runtime.asdevicearray(config.device, array),
        to_numpy=lambda result: result.to_host(),
        compile=compile,
    )
