"""A notebook that shows a kernel from text to machine.

``%load_ext wia_notebook`` brings ``%%wia`` and its companions. Loading is quick: everything heavy
is imported when a magic first needs it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register magics, completion and display; ``unload_ipython_extension`` takes them away."""
    from wia_notebook import completion, display, magics

    shell.register_magics(magics.WiaMagics)
    completion.register(shell)
    display.register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Undo what ``load_ipython_extension`` did."""
    from wia_notebook import completion, display, magics

    magics.unregister(shell)
    completion.unregister(shell)
    display.unregister(shell)
