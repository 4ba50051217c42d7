"""What the magics do once their options are read."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import wia_compiler as wia
from IPython.core.error import UsageError
from wia_compiler.base.errors import WiaError
from wia_compiler.base.source import Source
from wia_compiler.runtime.argument_text import parse_arguments
from wia_compiler.runtime.build import Build
from wia_compiler.runtime.kernel import Kernel
from wia_compiler.runtime.program import Program, load_program
from wia_compiler.runtime.session import default_session, recording

from wia_notebook.errors import coloured_lines
from wia_notebook.explorer import Explorer
from wia_notebook.stage_table import StageTable
from wia_notebook.subject import Subject

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def run_cell(
    shell: Any,
    line: str,
    cell: str,
    *,
    target: str | None = None,
    arguments: str = "",
    run: str = "",
    language: str = "wia",
    debug: bool = False,
    verify: bool = False,
    quiet: bool = False,
    force: bool = False,
    static: bool = False,
) -> Explorer | None:
    """Compile a cell, put its kernels into the namespace, call one, show the explorer.

    Names that the cell uses and does not set are the user's variables of that name; those of bare
    C++ statements are parameters, which the call passes.
    """
    with user_errors(shell), recording(not quiet):
        source = cell_source(shell, line, cell, "//" if language == "c++" else "#")
        session = default_session()
        program = load_program(source, session, shell.user_ns, language, is_namespace=True)
        kernels = {
            name: kernel.to(target, debug=debug, verify=verify) for name, kernel in program.items()
        }
        shell.push(kernels)
        known = _arguments_from_text(kernels) | _arguments_from_option(kernels, arguments)
        if force:
            for name, given in known.items():
                forget(kernels[name], given)
        result = None
        if run:
            result, called = run_expression(shell, run, kernels, force=force)
            known |= called
        subjects = [Subject(kernel, known.get(name)) for name, kernel in kernels.items()]
        if quiet or not subjects:
            return None
        shown = [name for name in kernels if name in known]
        explorer = Explorer(
            subjects,
            shown=shown[-1] if shown else None,
            target=target,
            static=static,
            result=result,
        )
        assert explorer.exhibit is not None  # faults of the build belong to this cell
        return explorer


def cell_source(shell: Any, line: str, cell: str, comment: str = "#") -> Source:
    """The cell with its first line as a comment, so that line numbers are those of the cell."""
    executing = max(1, len(shell.user_ns.get("In", ())) - 1)
    first = f"{comment} %%wia {line}".rstrip()
    return Source(f"{first}\n{cell}", f"In [{executing}]")


def run_expression(
    shell: Any, text: str, kernels: Mapping[str, Kernel], *, force: bool = False
) -> tuple[Any, dict[str, Arguments]]:
    """Evaluate Python in the user's namespace; also what each kernel of the cell was called with.

    ``C = f(A, B)`` assigns; an expression gives its value.
    """
    tree = _parsed(text, "--run")
    called: dict[str, Arguments] = {}

    def recorder(kernel: Kernel) -> Any:
        def call(*arrays: Any, **keywords: Any) -> Any:
            given = {name: value for name, value in keywords.items() if name != "out"}
            if force and kernel.name not in called:
                forget(kernel, (arrays, given))
            called[kernel.name] = (arrays, given)
            return kernel(*arrays, **keywords)

        return call

    namespace = dict(shell.user_ns)
    before = dict(namespace)
    namespace.update({name: recorder(kernel) for name, kernel in kernels.items()})
    standing = dict(namespace)
    last = tree.body[-1]
    value = None
    if isinstance(last, ast.Expr):
        head = ast.Module(tree.body[:-1], [])
        exec(compile(head, "<--run>", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "<--run>", "eval"), namespace)
    else:
        exec(compile(tree, "<--run>", "exec"), namespace)
    new = {n: v for n, v in namespace.items() if n not in standing or v is not standing[n]}
    new.pop("__builtins__", None)
    shell.push({name: value for name, value in new.items() if before.get(name) is not value})
    return value, called


def profile_call(shell: Any, text: str, target: str | None, device: str | None = None) -> Any:
    """Profile the call of a kernel; a profile is given back as it is."""
    with user_errors(shell):
        kernel, given = _kernel_call(shell, text)
        if not isinstance(kernel, Kernel):
            return kernel
        subject = Subject(kernel, given)
        return subject.measure(target or kernel.target.name, device)


def stages_of(shell: Any, text: str, target: str | None) -> StageTable:
    """The stages of a build, of a kernel, or of a call of one."""
    if not text.strip():
        raise UsageError("%wia_stages: name a kernel, a build or a call: %wia_stages matmul(A, B)")
    with user_errors(shell), recording():
        tree = _parsed(text, "%wia_stages")
        if isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Call):
            found, given = _kernel_call(shell, text)
        else:
            found, given = _evaluate(shell, text), None
        if isinstance(found, Program):
            found = list(found.values())[-1]
        if isinstance(found, Build):
            return StageTable(
                Subject(None, None, found).exhibit(found.target.name, kernels=(), targets=())
            )
        if not isinstance(found, Kernel):
            raise UsageError(
                f"%wia_stages: {text} is a {type(found).__name__}, expected a kernel or a build"
            )
        if given is None:
            given = _arguments_from_text({found.name: found}).get(found.name)
        subject = Subject(found, given)
        return StageTable(subject.exhibit(target or found.target.name, kernels=(), targets=()))


def forget(kernel: Kernel, given: Arguments) -> None:
    """Take the code for these arguments out of memory and disk, so that it is compiled anew."""
    from wia_compiler.runtime.arguments import array_specs, read_specs
    from wia_compiler.runtime.session import cache_key

    specs = read_specs(kernel.signature, *given, kernel.unit.bindings)
    arguments = array_specs(kernel.signature, specs)
    key = cache_key(kernel.unit, arguments, kernel.target, kernel.options)
    session = default_session()
    session.disk_cache().remove(key.digest)
    session.forget()


@contextlib.contextmanager
def user_errors(shell: Any) -> Iterator[None]:
    """Errors of ours fail the cell with their message alone: carets, colours, no frames."""
    try:
        yield
    except WiaError as error:
        lines = coloured_lines(error, colours=_has_colours(shell))
        error._render_traceback_ = lambda: lines  # pyright: ignore[reportPrivateUsage]
        raise


def _has_colours(shell: Any) -> bool:
    return str(getattr(shell, "colors", "")).lower() != "nocolor"


def _arguments_from_text(kernels: Mapping[str, Kernel]) -> dict[str, Arguments]:
    """Specs of the kernels whose text states every size and dtype."""
    known: dict[str, Arguments] = {}
    for name, kernel in kernels.items():
        specs: dict[str, Any] = {}
        for parameter in kernel.signature.passed:
            dims, dtype = parameter.type.dims, parameter.type.dtype
            if parameter.role == "scalar":
                continue
            if dims is None or dtype is None or not all(isinstance(dim, int) for dim in dims):
                break
            specs[parameter.name] = wia.spec([int(d) for d in dims if d is not None], dtype.name)
        else:
            known[name] = ((), specs)
    return known


def _arguments_from_option(kernels: Mapping[str, Kernel], text: str) -> dict[str, Arguments]:
    """What --args says, for each kernel that has parameters of those names."""
    if not text:
        return {}
    given = parse_arguments(text)
    fitting = {
        name: {p.name: given[p.name] for p in kernel.signature.passed if p.name in given}
        for name, kernel in kernels.items()
    }
    unknown = [each for each in given if not any(each in found for found in fitting.values())]
    if unknown:
        names = {p.name for kernel in kernels.values() for p in kernel.signature.passed}
        raise UsageError(
            f"--args: no parameter {', '.join(unknown)}; the cell's kernels take "
            + ", ".join(sorted(names))
        )
    needed = {
        name: {p.name for p in kernel.signature.passed if p.role != "scalar"}
        for name, kernel in kernels.items()
    }
    complete = {name: found for name, found in fitting.items() if needed[name] <= set(found)}
    if not complete:
        name = max(fitting, key=lambda each: len(fitting[each]))
        missing = sorted(needed[name] - set(fitting[name]))
        raise UsageError(f"--args: {name} also needs {', '.join(missing)}")
    return {name: ((), found) for name, found in complete.items()}


def _kernel_call(shell: Any, text: str) -> tuple[Any, Arguments]:
    """``f(A, B)`` as the kernel and its arguments, evaluated but not called."""
    if not text.strip():
        raise UsageError("name a call of a kernel: matmul(A, B)")
    tree = _parsed(text, "the line")
    node = tree.body[0].value if isinstance(tree.body[0], ast.Expr | ast.Assign) else None
    if not isinstance(node, ast.Call):
        return _evaluate(shell, text), ((), {})
    namespace: dict[str, Any] = dict(shell.user_ns)
    function = eval(compile(ast.Expression(node.func), "<line>", "eval"), namespace)
    if not isinstance(function, Kernel):
        return _evaluate(shell, text), ((), {})
    catch = ast.Call(ast.Name("__wia_catch__", ast.Load()), node.args, node.keywords)
    namespace["__wia_catch__"] = lambda *arrays, **keywords: (arrays, keywords)
    expression = ast.fix_missing_locations(ast.Expression(ast.copy_location(catch, node)))
    arrays, keywords = eval(compile(expression, "<line>", "eval"), namespace)
    keywords.pop("out", None)
    return function, (arrays, keywords)


def _evaluate(shell: Any, text: str) -> Any:
    return eval(compile(text.strip(), "<line>", "eval"), dict(shell.user_ns))


def _parsed(text: str, what: str) -> ast.Module:
    try:
        tree = ast.parse(text.strip())
    except SyntaxError as error:
        raise UsageError(f"{what}: {text.strip()} is not Python: {error.msg}") from None
    if not tree.body:
        raise UsageError(f"{what}: expected an expression, found nothing")
    return tree
