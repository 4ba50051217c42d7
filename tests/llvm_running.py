"""Runs modules of the low level on this CPU without the rest of the compiler."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from wia_compiler.backends.cpu.execute import CpuExecutable, load_executable
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.backends.cpu.lower import workspace_bytes
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.expand_math import ExpandOptions, expand_math
from wia_compiler.passes.llvm.emit import emit_llvm
from wia_compiler.passes.llvm.options import x86_options
from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker
from wia_compiler.passes.status_checks import checks_of
from wia_compiler.passes.target import Artifact
from xdsl.dialects.builtin import ModuleOp

Array = NDArray[Any]


def load_module(module: ModuleOp, name: str, buffers: int, *, opt: int = 2) -> CpuExecutable:
    """The host function of a lowered module, loaded."""
    host = this_host()
    text = emit_llvm(module, x86_options(host.triple)).text
    request = CodeRequest(
        text, host.triple, host.name, host.features, opt=opt, outputs=("assembly", "object")
    )
    metadata = {
        "checks": checks_of(module, name, Source("")),
        "entry": f"wia.{name}",
        "buffers": buffers,
        "workspace_bytes": workspace_bytes(module),
    }
    files = {"kernel.o": shared_worker().generate(request).object}
    return load_executable(Artifact("cpu", name, files, {}, {}, metadata))


def elementwise(
    body: str,
    inputs: Sequence[str],
    output: str,
    *,
    count: int,
    opt: int = 2,
    options: ExpandOptions | None = None,
) -> Callable[..., Array]:
    """A function of arrays of ``count`` elements: ``body`` makes ``%y`` from ``%x0``, ``%x1`` …"""
    parameters = ", ".join(f"%a{n}: memref<{count}x{t}>" for n, t in enumerate(inputs))
    loads = "\n".join(
        f"%x{n} = memref.load %a{n}[%i] : memref<{count}x{t}>" for n, t in enumerate(inputs)
    )
    module = parse_ir(f"""
        func.func @k({parameters}, %o: memref<{count}x{output}>) attributes {{wia.host}} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %n = arith.constant {count} : index
          scf.for %i = %c0 to %n step %c1 {{
            {loads}
            {body}
            memref.store %y, %o[%i] : memref<{count}x{output}>
          }}
          func.return
        }}""")
    expand_math(module, options)
    module.verify()
    executable = load_module(module, "k", len(inputs) + 1, opt=opt)

    def run(*arrays: Array, dtype: Any) -> Array:
        result = np.zeros(count, dtype)
        executable(arrays, [result])
        return result

    return run
