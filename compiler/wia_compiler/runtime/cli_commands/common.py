"""What several commands share: reading the program, its arguments, and printing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source

if TYPE_CHECKING:
    from wia_compiler.base.record import Stage
    from wia_compiler.runtime.build import Build
    from wia_compiler.runtime.kernel import Kernel

CPP_SUFFIXES = frozenset((".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"))

# File name suffixes by the language of a stage's text.
SUFFIXES = {
    "wia": ".wia",
    "mlir": ".mlir",
    "llvm": ".ll",
    "x86": ".s",
    "aarch64": ".s",
    "ptx": ".ptx",
    "sass": ".sass",
    "tpu": ".tpu",
}


def add_kernel_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose a kernel, its arguments and its target."""
    parser.add_argument(
        "file", metavar="FILE", help="program text (.wia, .cpp); - reads standard input"
    )
    parser.add_argument("--kernel", "-k", metavar="NAME", help="kernel (default: the only one)")
    parser.add_argument(
        "--args",
        "-a",
        metavar="ARGS",
        default="",
        help='arrays and scalars: "A=f32[1024,512], alpha=2.0"',
    )
    parser.add_argument(
        "--language",
        "-l",
        metavar="LANGUAGE",
        help="wia or c++ (default: by the file's name, else wia)",
    )
    parser.add_argument(
        "--debug", action="store_true", help="check every index of loops while they run"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare every stage with the kernel as written; name the first that differs",
    )
    parser.add_argument("--target", "-t", metavar="TARGET", help="see wia targets (default: cpu)")
    parser.add_argument(
        "--schedule",
        metavar="FILE",
        help="schedule blocks or directives to use instead of the text's own; "
        '"default" for what the target chooses',
    )


def read_kernel(options: argparse.Namespace) -> Kernel:
    """The kernel that the options name, bound to their target."""
    from wia_compiler.runtime.program import compile
    from wia_compiler.runtime.schedules import DEFAULT

    language = options.language or language_of(options.file)
    program = compile(read_source(options.file), language=language)
    name: str | None = options.kernel
    if name is None and len(program) == 1:
        (name,) = program
    if name is None:
        raise ArgumentError(
            f"{options.file} holds {len(program)} kernels: {', '.join(program)}\n"
            f"  help: choose one with --kernel NAME"
        )
    if name not in program:
        raise ArgumentError(f"no kernel {name!r} in {options.file}: {', '.join(program)}")
    kernel = program[name]
    given: str | None = options.schedule
    if given is not None and given != DEFAULT:
        given = read_source(given).text
    return kernel.to(options.target, schedule=given, debug=options.debug, verify=options.verify)


def language_of(file: str) -> str:
    """The language that the name of a file says."""
    return "c++" if Path(file).suffix in CPP_SUFFIXES else "wia"


def read_source(file: str) -> Source:
    """The text of a file, or of standard input for ``-``."""
    if file == "-":
        return Source(sys.stdin.read(), "<stdin>")
    try:
        return Source(Path(file).read_text(encoding="utf-8"), file)
    except OSError as error:
        raise ArgumentError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{file} is not UTF-8 text: {error.reason}") from None


def build_kernel(options: argparse.Namespace) -> Build:
    """The kernel of the options, built for their arguments, with its record."""
    from wia_compiler.runtime.argument_text import parse_arguments
    from wia_compiler.runtime.binding import bind
    from wia_compiler.runtime.session import recording

    kernel = read_kernel(options)
    given = parse_arguments(options.args)
    with recording():
        return kernel.build(*bind(kernel.signature, (), given, scalars_may_be_absent=True))


def print_json(data: object) -> None:
    """Print plain data as JSON."""
    print(json.dumps(data, ensure_ascii=False, indent=2, default=str))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns under a header; columns of numbers stand right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    numeric = [
        bool(rows) and all(row[i][:1].isdigit() or not row[i] for row in rows)
        for i in range(len(header))
    ]
    for row in [header, *rows]:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        print("  ".join(cells).rstrip())


def stage_file_name(stage: Stage) -> str:
    """``fusion.mlir``: the stage's name with the suffix of its language."""
    return f"{stage.name}{SUFFIXES.get(stage.language, '.txt')}"


def describe_build(build: Build) -> Mapping[str, Any]:
    """What ``--json`` says about a build."""
    return {
        "kernel": build.kernel,
        "target": build.target.name,
        "inputs": [_spec(spec) for spec in build.inputs],
        "outputs": [_spec(spec) for spec in build.outputs],
        "flops": build.flops,
        "size_bytes": build.size_bytes,
        "cache": {
            "hit": build.cache.hit,
            "digest": build.cache.digest,
            "compile_time_ns": build.cache.compile_time_ns,
            "build_time_ns": build.cache.build_time_ns,
        },
        "formats": build.formats,
        "resources": dict(build.resources),
        "schedule": build.schedule,
        "stages": [describe_stage(stage) for stage in build.stages],
    }


def describe_stage(stage: Stage) -> Mapping[str, Any]:
    """What ``--json`` says about a stage."""
    return {
        "name": stage.name,
        "level": stage.level,
        "language": stage.language,
        "time_ns": stage.time_ns,
        "changed": stage.changed,
        "summary": stage.summary,
        "ops": len(stage.ops),
        "decisions": len(stage.decisions),
    }


def print_stages(build: Build) -> None:
    """Print the stages as a table."""
    print_table(
        ("stage", "level", "ms", "ops", "lines", "changed", "summary"),
        [
            (
                stage.name,
                stage.level,
                f"{stage.time_ns / 1e6:.2f}",
                str(len(stage.ops)) if stage.ops else "",
                str(len(stage.text.splitlines())),
                "yes" if stage.changed else "-",
                stage.summary,
            )
            for stage in build.stages
        ],
    )


def _spec(spec: Any) -> Mapping[str, Any]:
    return {
        "name": spec.name,
        "shape": list(spec.spec.shape),
        "dtype": spec.spec.dtype.name,
        "strides": None if spec.strides is None else list(spec.strides),
    }
