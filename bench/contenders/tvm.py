"""Apache TVM's Relax from ONNX models, its default pipeline, not tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workloads import Array, Inputs, Workload

from contenders import Call, Contender
from contenders._onnx_models import onnx_model

REQUIRES = ("apache-tvm", "onnx", "numpy")


def environment(threads: int) -> dict[str, str]:
    return {"TVM_NUM_THREADS": str(threads)}


@dataclass(frozen=True)
class Tvm(Contender):
    """Runs each family as an ONNX model."""

    threads: int = 1

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        made = onnx_model(workload, inputs)
        if made is None:
            return None
        model, fed = made
        target = tvm.target.Target(
            {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()}
        )
        device = tvm.cpu()
        with tvm.transform.PassContext(opt_level=3):
            built = tvm.compile(from_onnx(model, keep_params_in_input=False), target=target)
        machine = relax.VirtualMachine(built, device)
        arguments = [tvm.runtime.tensor(array, device) for array in fed.values()]
        main = machine["main"]
        return lambda: main(*arguments)


def _to_numpy(result: Any) -> Array:
    return result.numpy() if hasattr(result, "numpy") else result[0].numpy()


def make(threads: int) -> Contender:
    import tvm

    return Tvm(tvm.__version__, {}, to_numpy=_to_numpy, threads=threads)
