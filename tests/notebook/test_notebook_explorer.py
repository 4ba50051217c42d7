"""The explorer object and its widget, driven as the browser drives them."""

import json
import logging

import pytest
from IPython.core.interactiveshell import InteractiveShell
from notebook_sample import SampleSubject, sample_explorer
from wia_compiler.base.errors import WiaError
from wia_compiler.base.record import Trace
from wia_notebook.views import payload as payload_module
from wia_notebook.widget import assets

from wia_notebook import explorer as explorer_module


@pytest.fixture
def explorer():
    return sample_explorer()


@pytest.fixture
def sent(explorer, monkeypatch):
    messages = []
    monkeypatch.setattr(explorer.widget, "send", messages.append)
    return messages


def ask(explorer, **message):
    explorer.widget._handle_custom_msg(message, [])


def test_it_begins_at_fusion_on_the_graph(explorer):
    assert (explorer.widget.stage, explorer.widget.tab, explorer.widget.selected) == (
        "fusion",
        "graph",
        "",
    )
    assert explorer.widget.data["kernel"] == "conv_block"


def test_a_target_is_switched_and_the_stage_kept(explorer):
    explorer.widget.stage = "ptx"
    ask(explorer, type="target", target="gpu:sm_120")
    assert explorer.target == "gpu:sm_120" and explorer.widget.data["target"] == "gpu:sm_120"
    assert explorer.widget.stage == "ptx" and explorer.widget.status == {"text": "", "kind": ""}


def test_run_brings_the_roofline(explorer):
    assert explorer.widget.data["roofline"] is None
    ask(explorer, type="run")
    assert explorer.widget.tab == "roofline" and explorer.widget.data["roofline"]["rows"]


def test_errors_are_shown_where_they_were_asked_for(explorer):
    ask(explorer, type="target", target="gpu:sm_120")
    before = explorer.widget.data
    ask(explorer, type="run")
    assert explorer.widget.status == {
        "text": "no device for gpu:sm_120\n  help: choose another target",
        "kind": "error",
    }
    assert explorer.widget.data is before


def test_faults_of_ours_are_shown_too(explorer, monkeypatch, caplog):
    monkeypatch.setattr(SampleSubject, "measure", lambda *_: 1 / 0)
    with caplog.at_level(logging.CRITICAL):
        ask(explorer, type="run")
    assert explorer.widget.status == {
        "text": "ZeroDivisionError: division by zero",
        "kind": "error",
    }


def test_unknown_messages_do_nothing(explorer):
    ask(explorer, type="nonsense")
    ask(explorer)
    assert explorer.widget.status == {}


def test_exports_come_as_files(explorer, sent):
    for format in ("svg", "dot", "json", "html"):
        ask(explorer, type="export", format=format, stage="fusion")
    assert [message["name"] for message in sent] == [
        "conv_block.fusion.svg",
        "conv_block.fusion.dot",
        "conv_block.json",
        "conv_block.html",
    ]
    assert all(message["type"] == "file" for message in sent)
    assert Trace.from_json(sent[2]["text"]) == explorer.trace
    ask(explorer, type="export", format="exe")
    assert "expected one of svg, dot, json, html" in explorer.widget.status["text"]


def test_long_texts_are_sent_when_asked_for(sent, explorer, monkeypatch):
    monkeypatch.setattr(payload_module, "LATER_CHARACTERS", 300)
    explorer.show(target="gpu:sm_120")
    stages = {stage["name"]: stage for stage in explorer.widget.data["stages"]}
    assert stages["ptx"]["later"] == "17 lines" and "text" not in stages["ptx"]
    ask(explorer, type="text", name="ptx")
    text = explorer.stage("ptx").text
    assert sent == [{"type": "text", "name": "ptx", "target": "gpu:sm_120", "text": text}]


def test_save_writes_what_the_suffix_says(explorer, tmp_path):
    for name, start in (
        ("a.svg", "<svg"),
        ("a.dot", "digraph"),
        ("a.json", "{"),
        ("a.html", "<!doctype html>"),
    ):
        assert explorer.save(tmp_path / name).read_text(encoding="utf-8").startswith(start)
    with pytest.raises(WiaError, match="no export 'pdf'"):
        explorer.save(tmp_path / "a.pdf")


def test_the_bundle_has_a_widget_only_where_one_can_be_drawn(explorer, monkeypatch):
    static = explorer._repr_mimebundle_()
    assert set(static) == {"text/plain", "text/html"}
    monkeypatch.setattr(explorer_module, "_has_front_end", lambda: True)
    live = explorer._repr_mimebundle_()
    assert set(live) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert live["text/html"] == static["text/html"] and live["text/plain"].startswith(
        "conv_block(X"
    )
    assert set(explorer_module.Explorer([SampleSubject()], static=True)._repr_mimebundle_()) == set(
        static
    )


def test_the_environment_turns_widgets_off(monkeypatch):
    class ZMQInteractiveShell(InteractiveShell):
        pass

    InteractiveShell.clear_instance()
    shell = ZMQInteractiveShell.instance()
    try:
        monkeypatch.delenv("WIA_NOTEBOOK_STATIC", raising=False)
        assert explorer_module._has_front_end()
        monkeypatch.setenv("WIA_NOTEBOOK_STATIC", "1")
        assert not explorer_module._has_front_end()
    finally:
        shell.history_manager.end_session()
        ZMQInteractiveShell.clear_instance()


def test_the_front_end_is_small_and_asks_for_nothing():
    script, style = assets.script(), assets.style()
    assert len(script) < 70_000 and len(style) < 30_000
    for forbidden in (
        "innerHTML",
        "eval(",
        "new Function",
        "document.write",
        "fetch(",
        "http://",
        "https://",
    ):
        assert forbidden not in script.replace("http://www.w3.org", ""), forbidden
    assert "@import" not in style and "url(" not in style
    assert script.rstrip().endswith("export default { render };")
    assert "import " not in script.split("export default")[0].replace("important", "")


def test_every_module_is_bundled():
    on_disk = {path.stem for path in (assets._FOLDER / "js").glob("*.js")}
    assert on_disk == set(assets._MODULES)


def test_a_display_sends_little(explorer):
    assert len(json.dumps(explorer.widget.data)) < 60_000
    assert len(explorer._repr_mimebundle_()["text/html"]) < 60_000
