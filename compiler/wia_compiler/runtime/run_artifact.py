"""``python -m wia_compiler.runtime.run_artifact FOLDER``: one run on this machine's GPU.

The folder is what ``write_run`` of ``wia_compiler.runtime.measured`` wrote; a profiler watches
the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from wia_compiler.backends.gpu.execute import load_on_gpu
from wia_compiler.passes.target import Artifact
from wia_compiler.runtime.measured import DTYPES_BY_NUMPY, read_array


def run_folder(folder: Path) -> None:
    """Load the artifact, run it once on the arrays that lie beside it."""
    told = json.loads((folder / "run.json").read_text())
    files = {name: (folder / name).read_bytes() for name in told["files"]}
    artifact = Artifact(told["target"], told["kernel"], files, {}, {}, told["metadata"])
    inputs = [read_array(folder / f"input{number}.npz") for number in range(told["inputs"])]
    outputs = [np.zeros(each["shape"], DTYPES_BY_NUMPY[each["dtype"]]) for each in told["outputs"]]
    load_on_gpu(artifact)(inputs, outputs)


if __name__ == "__main__":
    run_folder(Path(sys.argv[1]))
