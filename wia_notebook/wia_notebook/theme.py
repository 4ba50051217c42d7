"""The one table of colours: a role or op family, its ink and its ground, in light and in dark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from wia_compiler.base.record import Family

LIGHT: Mapping[str, str] = {
    "bg": "#ffffff",
    "panel": "#f8fafc",
    "line": "#e2e8f0",
    "ink": "#0f172a",
    "dim": "#526077",
    "faint": "#64748b",
    "edge": "#94a3b8",
    "accent": "#4f46e5",
    "accent-bg": "#eef2ff",
    "good": "#047857",
    "good-bg": "#ecfdf5",
    "bad": "#b91c1c",
    "bad-bg": "#fef2f2",
    "contraction": "#4f46e5",
    "contraction-bg": "#eef2ff",
    "elementwise": "#0f766e",
    "elementwise-bg": "#f0fdfa",
    "reduction": "#b45309",
    "reduction-bg": "#fffbeb",
    "movement": "#475569",
    "movement-bg": "#f1f5f9",
    "fusion": "#7c3aed",
    "fusion-bg": "#f5f3ff",
    "loop": "#0369a1",
    "loop-bg": "#f0f9ff",
    "other": "#57606a",
    "other-bg": "#f6f8fa",
    "highlight": "#fef08a",
    "number": "#0b7285",
    "string": "#9a3412",
}

DARK: Mapping[str, str] = {
    "bg": "#111827",
    "panel": "#0b1220",
    "line": "#263244",
    "ink": "#e5e7eb",
    "dim": "#a3adbb",
    "faint": "#828c9b",
    "edge": "#6b7280",
    "accent": "#a5b4fc",
    "accent-bg": "#1e1b4b",
    "good": "#6ee7b7",
    "good-bg": "#052e24",
    "bad": "#fca5a5",
    "bad-bg": "#3b0d0d",
    "contraction": "#a5b4fc",
    "contraction-bg": "#1e1b4b",
    "elementwise": "#5eead4",
    "elementwise-bg": "#042f2e",
    "reduction": "#fcd34d",
    "reduction-bg": "#3a2504",
    "movement": "#cbd5e1",
    "movement-bg": "#1f2937",
    "fusion": "#c4b5fd",
    "fusion-bg": "#1f1536",
    "loop": "#7dd3fc",
    "loop-bg": "#082f49",
    "other": "#c9d1d9",
    "other-bg": "#1c2431",
    "highlight": "#713f12",
    "number": "#67e8f9",
    "string": "#fdba74",
}

FAMILIES: tuple[Family, ...] = get_args(Family)

FAMILY_TITLES: Mapping[Family, str] = {
    "contraction": "contraction",
    "elementwise": "elementwise",
    "reduction": "reduction",
    "movement": "data movement",
    "fusion": "fusion",
    "loop": "loop",
}
"""What a legend says of each colour, in its order; ``other`` needs no words."""

SANS = 'system-ui, "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'

_DARK_PAGES = (
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    "body.vscode-high-contrast:not(.vscode-high-contrast-light)",
    'html[theme="dark"]',
)
_LIGHT_PAGES = (
    'body[data-jp-theme-light="true"]',
    "body.vscode-light",
    "body.vscode-high-contrast-light",
    'html[theme="light"]',
)


def variables(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties: ``--wia-ink:#0f172a;…``."""
    return "".join(f"--wia-{name}:{value};" for name, value in colours.items())


def page_css(selector: str) -> str:
    """CSS that gives ``selector`` the colours of the page it stands in.

    The page's own statement (JupyterLab's, VS Code's or Colab's attribute) wins over the
    system's ``prefers-color-scheme``.
    """
    dark = ",".join(f"{page} {selector}" for page in _DARK_PAGES)
    light = ",".join(f"{page} {selector}" for page in _LIGHT_PAGES)
    return (
        f"{selector}{{{variables(LIGHT)}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{{selector}{{{variables(DARK)}color-scheme:dark}}}}"
        f"{light}{{{variables(LIGHT)}color-scheme:light}}"
        f"{dark}{{{variables(DARK)}color-scheme:dark}}"
    )


def picture_css() -> str:
    """CSS for a picture that stands alone (a file, an ``<img>``): follows the reader's system."""
    return (
        f"svg{{{variables(LIGHT)}}}@media (prefers-color-scheme:dark){{svg{{{variables(DARK)}}}}}"
    )
