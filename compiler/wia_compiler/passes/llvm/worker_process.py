"""The program that the worker process runs: parses, optimises and generates code with LLVM.

It imports llvmlite and nothing of this package, and answers on stdout what it reads on stdin, one
message each way: four bytes of length, a JSON header, then the header's ``blobs`` (name, length) in
order. Run on a file it reproduces one request::

    python -I worker_process.py FILE.ll --triple nvptx64-nvidia-cuda --cpu sm_90 --opt 2
"""

import argparse
import json
import signal
import struct
import sys

import llvmlite.binding as llvm


class Generator:
    """Keeps one target machine for each machine, CPU, feature set and level that was asked for."""

    def __init__(self):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        llvm.initialize_native_asmparser()
        llvm.set_option("", "--x86-asm-syntax=intel")
        self.machines = {}

    def machine(self, triple, cpu, features, opt):
        """The target machine; its code may be loaded anywhere, constants lie within 2 GB of it."""
        key = (triple, cpu, features, opt)
        if key not in self.machines:
            self.machines[key] = llvm.Target.from_triple(triple).create_target_machine(
                cpu=cpu, features=features, opt=opt, reloc="pic", codemodel="default"
            )
        return self.machines[key]

    def run(self, request, text):
        """The assembly, and what else the request wants (``ir``, ``object``), name to bytes."""
        opt = request["opt"]
        machine = self.machine(request["triple"], request["cpu"], request["features"], opt)
        module = llvm.parse_assembly(text)
        module.verify()
        if opt:
            tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
            tuning.loop_vectorization = request["vectorize"]
            tuning.slp_vectorization = request["vectorize"]
            tuning.loop_unrolling = True
            builder = llvm.create_pass_builder(machine, tuning)
            builder.getModulePassManager().run(module, builder)
        outputs = {}
        if "ir" in request["outputs"]:
            outputs["ir"] = str(module).encode()
        assembly = machine.emit_assembly(module)
        outputs["assembly"] = assembly.encode()
        if "object" in request["outputs"]:
            outputs["object"] = machine.emit_object(assembled(assembly, request["triple"]))
        return outputs


def assembled(assembly, triple):
    """A module of nothing but this assembly text: its object is that very text, assembled.

    Line and frame directives are left out; they would only grow the object.
    """
    lines = [f'target triple = "{triple}"']
    for line in assembly.splitlines():
        if not line.startswith(("\t.loc\t", "\t.file\t", "\t.cfi_")):
            quoted = line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", "\\09")
            lines.append(f'module asm "{quoted}"')
    return llvm.parse_assembly("\n".join(lines))


def read_exactly(stream, size):
    """That many bytes, or ``None`` at the end of the stream."""
    data = b""
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            return None
        data += part
    return data


def read_message(stream):
    """One message as (header, blobs by name), or ``None`` at the end of the stream."""
    head = read_exactly(stream, 4)
    if head is None:
        return None
    header = json.loads(read_exactly(stream, struct.unpack("<I", head)[0]))
    return header, {name: read_exactly(stream, size) for name, size in header["blobs"]}


def write_message(stream, header, blobs):
    """Write one message."""
    header = {**header, "blobs": [[name, len(blob)] for name, blob in blobs.items()]}
    data = json.dumps(header).encode()
    stream.write(struct.pack("<I", len(data)) + data + b"".join(blobs.values()))
    stream.flush()


def serve():
    """Answer requests until stdin closes, which is when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    generator = Generator()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (message := read_message(requests)) is not None:
        request, blobs = message
        try:
            outputs = generator.run(request, blobs["ir"].decode())
        except Exception as error:
            write_message(answers, {"error": f"{type(error).__name__}: {error}"}, {})
        else:
            write_message(answers, {}, outputs)


def main():
    """Serve, or run one file and print its assembly."""
    parser = argparse.ArgumentParser(description="generate code for one LLVM IR file")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--triple", default=llvm.get_process_triple())
    parser.add_argument("--cpu", default="")
    parser.add_argument("--features", default="")
    parser.add_argument("--opt", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.file is None:
        serve()
        return
    request = {**vars(arguments), "vectorize": True, "outputs": ["assembly"]}
    with open(arguments.file, encoding="utf-8") as file:
        print(Generator().run(request, file.read())["assembly"].decode())


if __name__ == "__main__":
    main()
