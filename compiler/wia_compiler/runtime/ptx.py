"""``wia.ptx``: PTX text of anyone, run, counted and profiled without a GPU."""

from wia_compiler.runtime.ptx_profile import profile
from wia_compiler.simulators.ptx import Finding, Launch, PtxFault, TensorMap, run

__all__ = ["Finding", "Launch", "PtxFault", "TensorMap", "profile", "run"]
