"""onnxruntime's CPU provider: weights prepacked, inputs and outputs bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workloads import Inputs, Workload

from contenders import Call, Contender
from contenders._onnx_models import onnx_model

REQUIRES = ("onnxruntime", "onnx", "numpy")


@dataclass(frozen=True)
class OnnxRuntime(Contender):
    """Runs each family as an ONNX model."""

    threads: int = 1

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        import onnxruntime

        made = onnx_model(workload, inputs)
        if made is None:
            return None
        model, fed = made
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        for name, array in fed.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            binding.bind_ortvalue_input(name, value)
        output = session.get_outputs()[0].name
        binding.bind_output(output)
        session.run_with_iobinding(binding)
        result = binding.get_outputs()[0]
        binding.bind_ortvalue_output(output, result)
        run = session.run_with_iobinding

        def call() -> Any:
            run(binding)
            return result

        return call


def make(threads: int) -> Contender:
    import onnxruntime

    return OnnxRuntime(
        onnxruntime.__version__, {}, to_numpy=lambda result: result.numpy(), threads=threads
    )
