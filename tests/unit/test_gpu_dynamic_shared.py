"""Shared memory whose size is the launch's: above the 48 KiB that buffers of the code can have."""

import numpy as np
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.emit import generate
from wia_compiler.backends.gpu.launch import LaunchPlan
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import parse_ir, print_ir

TEXT = """
func.func @nest(%x: memref<4xf32>, %y: memref<4xf32>) attributes {gpu.kernel,
    wia.block_size = 32, wia.grid_size = 1, wia.dynamic_shared_bytes = 100016} {
  %i = arith.constant 3 : index
  %start = arith.constant 100000 : index
  %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
  %tile = memref.view %bytes[%start][] : memref<?xi8, #gpu.address_space<workgroup>>
      to memref<4xf32, #gpu.address_space<workgroup>>
  %element = memref.load %x[%i] : memref<4xf32>
  memref.store %element, %tile[%i] : memref<4xf32, #gpu.address_space<workgroup>>
  "gpu.barrier"() : () -> ()
  %moved = memref.load %tile[%i] : memref<4xf32, #gpu.address_space<workgroup>>
  memref.store %moved, %y[%i] : memref<4xf32>
  func.return
}
func.func @host(%x: memref<4xf32>, %y: memref<4xf32>) attributes {wia.host} {
  func.call @nest(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}
"""


def test_text_reads_back():
    module = parse_ir(TEXT)
    module.verify()
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)


@needs_ptxas
def test_more_than_the_code_can_allocate():
    row = ARCHITECTURES["sm_90"]
    module = parse_ir(TEXT)
    made = generate(module, target="gpu:sm_90", kernel="k", source=Source(""), architecture=row)
    (launch,) = LaunchPlan.from_metadata(made.artifact.metadata).launches
    assert launch.dynamic_shared_bytes == 100016
    assert made.artifact.resources["shared_bytes"] >= 100016
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    ptx = made.artifact.assembly["ptx"]
    for engine in ("numpy", "compiled"):
        y[:] = 0
        wia.ptx.run(
            ptx,
            launch.entry,
            1,
            32,
            [x, y],
            shared_bytes=launch.dynamic_shared_bytes,
            engine=engine,
        )
        assert y.tolist() == [0, 0, 0, 3]
