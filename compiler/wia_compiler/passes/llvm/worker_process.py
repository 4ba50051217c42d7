"""The program that the worker process runs: parses, optimises and generates code with LLVM.

It imports llvmlite and two files of this package, and answers on stdout what it reads on stdin. Run
on a file it repeats one request and prints the assembly::

    python -I worker_process.py FILE.ll --triple nvptx64-nvidia-cuda --cpu sm_90 --opt 2
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def _sibling(name: str) -> ModuleType:
    """A file beside this one as a module of its own: the package would bring in all of xDSL."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"wia_worker_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Generator:
    """Keeps one target machine for each machine, CPU, feature set and level that was asked for."""

    def __init__(self) -> None:
        self.llvm: Any = _sibling("library").llvm_binding()
        self.llvm.initialize_all_targets()
        self.llvm.initialize_all_asmprinters()
        self.llvm.initialize_native_asmparser()
        if platform.machine().lower() in ("x86_64", "amd64"):  # elsewhere LLVM knows no such option
            self.llvm.set_option("", "--x86-asm-syntax=intel")
        # Loops of few iterations would else be one masked vector, whose stores LLVM 22 gets wrong
        # where they truncate (see ``_whole`` in vectors.py); they are a vector and a rest instead.
        self.llvm.set_option("", "--vectorizer-min-trip-count=0")
        self.machines: dict[tuple[str, str, str, int], Any] = {}

    def machine(self, triple: str, cpu: str, features: str, opt: int) -> Any:
        """The target machine; its code may be loaded anywhere, constants lie within 2 GB of it."""
        key = (triple, cpu, features, opt)
        if key not in self.machines:
            self.machines[key] = self.llvm.Target.from_triple(triple).create_target_machine(
                cpu=cpu, features=features, opt=opt, reloc="pic", codemodel="default"
            )
        return self.machines[key]

    def run(self, request: dict[str, Any], text: str) -> dict[str, bytes]:
        """The assembly, and what else the request wants (``ir``, ``object``), name to bytes."""
        opt: int = request["opt"]
        machine = self.machine(request["triple"], request["cpu"], request["features"], opt)
        module = self.llvm.parse_assembly(text)
        module.verify()
        if opt:
            tuning = self.llvm.create_pipeline_tuning_options(speed_level=opt)
            tuning.loop_vectorization = request["vectorize"]
            tuning.slp_vectorization = request["vectorize"]
            tuning.loop_unrolling = True
            builder = self.llvm.create_pass_builder(machine, tuning)
            passes = self.tidying() if request["tidy"] else builder.getModulePassManager()
            passes.run(module, builder)
        outputs: dict[str, bytes] = {}
        if "ir" in request["outputs"]:
            outputs["ir"] = str(module).encode()
        generates = "object" in request["outputs"] and not self.assembles(request["triple"])
        whole = module.clone() if generates else None
        assembly: str = machine.emit_assembly(module)
        outputs["assembly"] = assembly.encode()
        if "object" in request["outputs"]:
            shown = whole or self.assembled(assembly, request["triple"])
            outputs["object"] = machine.emit_object(shown)
        return outputs

    def assembles(self, triple: str) -> bool:
        """Whether this LLVM reads assembly of a machine: llvmlite brings in that of its own alone.

        The object of another machine is generated beside its assembly, from the same module.
        """
        return triple.startswith(self.llvm.get_default_triple().partition("-")[0])

    def tidying(self) -> Any:
        """The passes of code that is as fast as it gets, but for what writing it down left over."""
        passes = self.llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        return passes

    def assembled(self, assembly: str, triple: str) -> Any:
        """A module of nothing but this assembly text: its object is that very text, assembled.

        Line and frame directives are left out; they would only grow the object. Constants stand
        behind the code, in its section: a loader may put two sections more than 2 GiB apart, where
        32-bit distances do not reach, and LLVM's then aborts.
        """
        lines = [f'target triple = "{triple}"']
        for line in assembly.splitlines():
            if line.startswith("\t.section\t.rodata"):
                line = "\t.text"
            if not line.startswith(("\t.loc\t", "\t.file\t", "\t.cfi_")):
                quoted = line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", "\\09")
                lines.append(f'module asm "{quoted}"')
        return self.llvm.parse_assembly("\n".join(lines))


def serve() -> None:
    """Answer requests until stdin closes, which is when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    generator, messages = Generator(), _sibling("messages")
    while (message := messages.read_message(sys.stdin.buffer)) is not None:
        request, blobs = message
        try:
            outputs = generator.run(request, blobs["ir"].decode())
        except Exception as error:
            failure = {"error": f"{type(error).__name__}: {error}"}
            messages.write_message(sys.stdout.buffer, failure, {})
        else:
            messages.write_message(sys.stdout.buffer, {}, outputs)


def main() -> None:
    """Serve, or run one file and print its assembly."""
    parser = argparse.ArgumentParser(description="generate code for one LLVM IR file")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--triple")
    parser.add_argument("--cpu", default="")
    parser.add_argument("--features", default="")
    parser.add_argument("--opt", type=int, default=2)
    parser.add_argument("--tidy", action="store_true")
    arguments = parser.parse_args()
    if arguments.file is None:
        serve()
        return
    request = {**vars(arguments), "vectorize": True, "outputs": ["assembly"]}
    text = Path(arguments.file).read_text(encoding="utf-8")
    sys.stdout.write(Generator().run(request, text)["assembly"].decode())


if __name__ == "__main__":
    main()
