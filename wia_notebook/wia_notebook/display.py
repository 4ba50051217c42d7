"""How IPython shows the compiler's own objects; the compiler itself knows nothing of notebooks."""

from __future__ import annotations

from typing import Any

_SHOWN = {
    ("wia_compiler.runtime.build", "Build"): "build_bundle",
    ("wia_compiler.runtime.program", "Program"): "program_bundle",
    ("wia_compiler.profiler.profile", "Profile"): "profile_bundle",
}


def register(shell: Any) -> None:
    """Name the functions below as formatters; none of the types is imported for that."""
    formatter = shell.display_formatter.mimebundle_formatter
    for (module, name), function in _SHOWN.items():
        formatter.for_type_by_name(module, name, globals()[function])


def unregister(shell: Any) -> None:
    """Give the types back their plain form."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in _SHOWN:
        formatter.deferred_printers.pop((module, name), None)
        for known in [
            t for t in formatter.type_printers if (t.__module__, t.__name__) == (module, name)
        ]:
            formatter.type_printers.pop(known)


def build_bundle(build: Any) -> Any:
    """A build shows the explorer."""
    from wia_notebook.explorer import Explorer
    from wia_notebook.subject import Subject

    return Explorer([Subject(None, None, build)])._repr_mimebundle_()


def program_bundle(program: Any) -> Any:
    """A program shows the explorer of its kernels."""
    from wia_notebook.explorer import Explorer
    from wia_notebook.subject import Subject

    if not program:
        return {"text/plain": repr(program)}
    return Explorer([Subject(kernel) for kernel in program.values()])._repr_mimebundle_()


def profile_bundle(profile: Any) -> Any:
    """A profile shows its roofline and all its numbers."""
    from wia_notebook.measure import roofline_of
    from wia_notebook.views.static_html import roofline_html

    return {"text/html": roofline_html(roofline_of(profile)), "text/plain": str(profile)}
