"""This project, on the CPU."""

from __future__ import annotations

from workloads import Inputs, Workload

from contenders import Call, Contender

REQUIRES: tuple[str, ...] = ()


def environment(threads: int) -> dict[str, str]:
    return {"WIA_NUM_THREADS": str(threads)}


def cache_environment(folder: str) -> dict[str, str]:
    return {"WIA_CACHE_DIR": folder}


class Wia(Contender):
    """Kernels are text: every family has one."""

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        import wia_compiler

        (kernel,) = wia_compiler.compile(workload.text).values()
        arrays = list(inputs.values())
        match arrays:
            case [x]:
                return lambda: kernel(x)
            case [x, y]:
                return lambda: kernel(x, y)
            case _:
                return lambda: kernel(*arrays)


def make(threads: int) -> Contender:
    from importlib.metadata import version

    return Wia(version("wia-notebook"), {})
