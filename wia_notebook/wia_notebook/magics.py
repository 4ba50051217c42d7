"""The magics: each parses its line, calls one function and returns an object.

Only IPython and the standard library are imported here; the rest when a magic runs.
"""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from wia_notebook.option_text import split_line

CELL_MAGICS = ("wia",)
LINE_MAGICS = ("wia_profile", "wia_roofline", "wia_stages", "wia_doctor")


@magics_class
class WiaMagics(Magics):
    """Compile, explain, run and measure kernels."""

    @magic_arguments()
    @argument(
        "-t", "--target", help="target to build for: cpu, gpu:sm_90, tpu:spec … (default: cpu)"
    )
    @argument(
        "-a",
        "--args",
        nargs="+",
        default=[],
        metavar="NAME=TYPE",
        help="shapes and dtypes of arguments: A=f32[1024,512],B=f32[512,256]",
    )
    @argument(
        "-r",
        "--run",
        nargs="+",
        default=[],
        metavar="EXPR",
        help="a Python expression that calls a kernel of the cell; its arrays fix the shapes",
    )
    @argument(
        "-l",
        "--language",
        default="wia",
        help="language of the cell: wia (kernels, IR notation) or c++ (default: wia)",
    )
    @argument("--debug", action="store_true", help="check every index of loops while they run")
    @argument(
        "--verify",
        action="store_true",
        help="compare every stage with the kernel as written; name the first that differs",
    )
    @argument("-q", "--quiet", action="store_true", help="define the kernels, show nothing")
    @argument("-f", "--force", action="store_true", help="compile anew, whatever the cache holds")
    @argument("--static", action="store_true", help="show HTML that needs no widgets")
    @argument("-h", "--help", action="store_true", help="show this help")
    @cell_magic
    def wia(self, line: str, cell: str) -> Any:
        """Compile the kernels of a cell and show every stage on the way to the machine.

        Each kernel lands in the namespace under its own name and is called with arrays. The
        explorer appears for the last kernel whose shapes are known: written in its text, given
        by --args, or taken from the call of --run. Free names of the text are your variables.
        Examples::

            %%wia
            %%wia --language c++
            %%wia --target gpu:sm_90 --args A=f32[1024,512],B=f32[512,256]
            %%wia --run C = matmul(A, B)
        """
        options = _parse(WiaMagics.wia, line)
        if options is None:
            return None
        from wia_notebook.cell import run_cell

        return run_cell(
            self.shell,
            line,
            cell,
            target=options.target,
            arguments=" ".join(options.args),
            run=" ".join(options.run),
            language=options.language,
            debug=options.debug,
            verify=options.verify,
            quiet=options.quiet,
            force=options.force,
            static=options.static,
        )

    @magic_arguments()
    @argument("-t", "--target", help="target to run on (default: the kernel's own)")
    @argument("-d", "--device", help="GPU to estimate the time of where there is none: H100")
    @argument("-h", "--help", action="store_true", help="show this help")
    @argument("call", nargs="*", metavar="EXPR", help="a call of a kernel: matmul(A, B)")
    @line_magic
    def wia_profile(self, line: str) -> Any:
        """Run a kernel live: its time with the spread, counters, and advice.

        The value is a ``Profile``; ``.roofline`` says where it stands below its machine.
        """
        options = _parse(WiaMagics.wia_profile, line)
        if options is None:
            return None
        from wia_notebook.cell import profile_call

        call = " ".join(options.call)
        return profile_call(self.shell, call, options.target, options.device)

    @magic_arguments()
    @argument("-t", "--target", help="target to run on (default: the kernel's own)")
    @argument("-d", "--device", help="GPU to estimate the time of where there is none: H100")
    @argument("-h", "--help", action="store_true", help="show this help")
    @argument("call", nargs="*", metavar="EXPR", help="a call of a kernel, or a profile")
    @line_magic
    def wia_roofline(self, line: str) -> Any:
        """Run a kernel live and draw its point below the ceilings of the machine."""
        options = _parse(WiaMagics.wia_roofline, line)
        if options is None:
            return None
        from wia_notebook.cell import profile_call
        from wia_notebook.chart import RooflineChart

        call = " ".join(options.call)
        return RooflineChart.of(profile_call(self.shell, call, options.target, options.device))

    @magic_arguments()
    @argument("-t", "--target", help="target whose stages to show (default: the kernel's own)")
    @argument("-h", "--help", action="store_true", help="show this help")
    @argument("kernel", nargs="*", metavar="K", help="a kernel, a build or a call")
    @line_magic
    def wia_stages(self, line: str) -> Any:
        """List the stages of a kernel: level, name, what each changed and its time."""
        options = _parse(WiaMagics.wia_stages, line)
        if options is None:
            return None
        from wia_notebook.cell import stages_of

        return stages_of(self.shell, " ".join(options.kernel), options.target)

    @magic_arguments()
    @argument("-h", "--help", action="store_true", help="show this help")
    @line_magic
    def wia_doctor(self, line: str) -> Any:
        """Say for each optional tool: found, its version, or the command that brings it."""
        if _parse(WiaMagics.wia_doctor, line) is None:
            return None
        import wia_compiler

        return wia_compiler.doctor()


def _parse(magic: Any, line: str) -> Any:
    """The options of a line; ``None`` after ``--help``, which prints the magic's help."""
    options = magic.parser.parse_args(split_line(line))
    if options.help:
        print(magic.__doc__.strip())
        return None
    return options


def unregister(shell: Any) -> None:
    """Take the magics away."""
    for kind, names in (("cell", CELL_MAGICS), ("line", LINE_MAGICS)):
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(WiaMagics.__name__, None)
