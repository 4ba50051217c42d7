"""Write tests/data/torch_results.npz: what PyTorch gives for every case of tests/peer_cases.py.

    python -m venv TORCH; TORCH/bin/pip install torch numpy
    TORCH/bin/python tools/record_torch.py

PyTorch is no dependency of the project or of its tests: they read the file. A case that PyTorch
cannot compute stops the tool.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from peer_cases import CASES, Case  # noqa: E402


def call(case: Case) -> Any:
    """PyTorch's result of a case."""
    tensors = {name: torch.from_numpy(array) for name, array in case.arrays().items()}
    if case.torch:
        return eval(case.torch, {"torch": torch, "F": F}, {**tensors, **case.attributes})
    function = getattr(F, case.op, None) or getattr(torch, case.op)
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:  # a builtin, which takes its tensors by place
        names = []
    if set(tensors) <= set(names):
        return function(**tensors, **case.attributes)
    return function(*tensors.values(), **case.attributes)


def main() -> None:
    """Compute and store every case, by its number."""
    results: dict[str, np.ndarray[Any, Any]] = {}
    for number, case in enumerate(CASES):
        try:
            results[str(number)] = call(case).numpy()
        except Exception as error:
            raise SystemExit(
                f"case {number}, {case.op} {dict(case.attributes)}: {error}"
            ) from error
    path = ROOT / "tests" / "data" / "torch_results.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, version=np.array(torch.__version__), **results)
    print(f"{len(results)} results of torch {torch.__version__}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
