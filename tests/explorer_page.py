"""The explorer's page without a notebook: the widget's own files beside a stand-in model."""

from __future__ import annotations

import json
from typing import Any

from notebook_sample import sample_exhibit
from wia_notebook.views.highlight import javascript_patterns
from wia_notebook.views.payload import payload
from wia_notebook.widget import assets

MODEL = """
const state = %s, listeners = {};
window.sent = [];
window.model = {
  get: (name) => state[name],
  set(name, value) {
    if (JSON.stringify(state[name]) === JSON.stringify(value)) return;
    state[name] = value;
    for (const listener of [...(listeners["change:" + name] ?? [])]) listener();
  },
  save_changes() {},
  on: (name, listener) => (listeners[name] ??= []).push(listener),
  off(name, listener) {
    listeners[name] = (listeners[name] ?? []).filter((each) => each !== listener);
  },
  send: (message) => window.sent.push(message),
  receive: (message) => (listeners["msg:custom"] ?? []).forEach((listener) => listener(message)),
  count: () => Object.values(listeners).flat().length,
};
const source = new Blob([%s], { type: "text/javascript" });
const widget = (await import(URL.createObjectURL(source))).default;
window.cleanup = widget.render({ model: window.model, el: document.getElementById("root") });
"""


def page_html(data: dict[str, Any], *, theme: str = "light", **state: Any) -> str:
    """A page that draws the explorer of ``data``; ``window.model`` is the other side."""
    traits = {
        "data": data,
        "patterns": javascript_patterns(),
        "stage": "fusion",
        "compare": "",
        "selected": "",
        "tab": "graph",
        "formats": [],
        "status": {},
        **state,
    }
    script = MODEL % (_json(traits), _json(assets.script()))
    light = "true" if theme == "light" else "false"
    return (
        f'<!doctype html><meta charset="utf-8"><style>{assets.style()}</style>'
        f'<body data-jp-theme-light="{light}"><div id="root"></div>'
        f'<script type="module">{script}</script>'
    )


def _json(value: Any) -> str:
    return json.dumps(value).replace("</", "<\\/")


SAMPLE = payload(sample_exhibit(ran=True))
"""What the page is drawn from where a test says nothing else."""


def trait(page: Any, name: str) -> Any:
    """The value of one of the widget's traits."""
    return page.evaluate("(name) => model.get(name)", name)


def press(page: Any, *keys: str) -> None:
    """Press keys with the explorer in focus."""
    page.locator(".wia").focus()
    for key in keys:
        page.keyboard.press(key)
