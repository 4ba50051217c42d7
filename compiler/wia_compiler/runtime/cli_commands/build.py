"""``wia build``: compile a kernel and write every stage to a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.cli_commands.common import (
    add_kernel_arguments,
    build_kernel,
    describe_build,
    print_json,
    print_stages,
    stage_file_name,
)

if TYPE_CHECKING:
    from wia_compiler.runtime.build import Build

HELP = "compile a kernel; with -o write each stage, the record and the code to a folder"
EXAMPLES = """\
  wia build mm.wia --args "A=f32[1024,512], B=f32[512,256]"
  wia build mm.wia --kernel matmul --args "A=f16[64,64], B=f16[64,64]" --target gpu:sm_90 -o out
  wia build mm.wia --args "A=f32[64,64], B=f32[64,64]" --schedule mm.schedule
  cat mm.wia | wia build - --args "A=f32[8,8], B=f32[8,8]" --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_kernel_arguments(parser)
    parser.add_argument(
        "--output", "-o", metavar="DIR", help="folder to write stages, trace.json and code to"
    )
    parser.add_argument(
        "--emit", "-e", metavar="FORMAT", help="print one text: x86, llvm, ptx, sass, tpu …"
    )


def run(options: argparse.Namespace) -> int:
    """Build, then write and print what was asked for."""
    build = build_kernel(options)
    written = _write(build, Path(options.output)) if options.output is not None else []
    if options.json:
        sass = [row.to_data() for row in build.sass] if "sass" in build.formats else []
        written_to = [str(path) for path in written]
        print_json({**describe_build(build), "sass": sass, "written": written_to})
    elif options.emit is not None:
        print(build.assembly(options.emit))
    else:
        print(build)
        print_stages(build)
        for name, value in build.resources.items():
            print(f"{name}: {value}")
        if build.schedule:
            print(build.schedule)
        if written:
            print(f"wrote {len(written)} files to {options.output}")
    return 0


def _write(build: Build, folder: Path) -> list[Path]:
    contents: dict[str, bytes] = {
        stage_file_name(stage): stage.text.encode() for stage in build.stages
    }
    contents["trace.json"] = build.trace.to_json().encode()
    contents.update(build.artifact.files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ArgumentError(f"cannot write to {folder}: {error.strerror}") from None
    return [folder / name for name in contents]
