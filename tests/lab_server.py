"""JupyterLab on 127.0.0.1 with everything of its own, and Chromium that may talk to it alone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-default-apps",
    "--disable-domain-reliability",
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# JupyterLab virtualises cells unless told not to, and asks for news on the internet.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}
# Not the toolbar's indicator: it reads idle before a kernel exists, and run-all is then dropped.
KERNEL_READY = """async () => {
  const widget = window.jupyterapp?.shell?.currentWidget;
  const session = widget?.sessionContext ?? widget?.context?.sessionContext;
  if (!session) return false;
  await session.ready;
  const kernel = session.session?.kernel;
  return !!kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""


def find_browser() -> str | None:
    """The path of a Chromium, or ``None``."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextlib.contextmanager
def lab_server(folder: Path) -> Iterator[str]:
    """JupyterLab serving ``folder``; gives its address. Its log is in the error when it dies."""
    home = Path(tempfile.mkdtemp(prefix="wia-lab-"))
    for name, settings in SETTINGS.items():
        path = home / "config/lab/user-settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    extension = home / "data/labextensions/wia-notebook"
    shutil.copytree(ROOT / "wia_notebook/wia_notebook/labextension", extension)
    rooms = [ROOT / room for room in ("compiler", "kernels", "wia_notebook", "tests")]
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "WIA_CACHE_DIR": str(home / "cache"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, rooms)),
    }
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={folder}",
        "--expose-app-in-browser",
    ]
    log = home / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
    try:
        _wait_for(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


@dataclass
class LabPage:
    """A notebook open in the browser; ``external`` are requests that were refused."""

    page: Any
    external: list[str] = field(default_factory=list[str])

    def open(self, address: str, notebook: str) -> None:
        """Open a notebook and wait for its kernel."""
        self.page.goto(f"{address}/lab/tree/{notebook}?reset", wait_until="domcontentloaded")
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=120_000)
        self.page.wait_for_function(KERNEL_READY, timeout=60_000, polling=250)

    def run_all(self, sentinel: str) -> None:
        """Run every cell; the last prints ``sentinel``."""
        self.page.wait_for_function(
            "window.jupyterapp?.commands?.hasCommand('notebook:run-all-cells')"
        )
        self.command("notebook:run-all-cells")
        done = self.page.locator(".jp-OutputArea-output", has_text=sentinel)
        failed = self.page.locator("[data-mime-type$=stderr]", has_text="rror")
        try:
            done.or_(failed).first.wait_for(timeout=120_000)
            assert not failed.count(), failed.first.inner_text()
        except BaseException:
            self.picture("run_all")
            raise

    def picture(self, name: str) -> None:
        """Keep a screenshot among the artifacts of the tests."""
        folder = ROOT / "tests/.artifacts"
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png")

    def command(self, name: str, **arguments: Any) -> None:
        """Execute a JupyterLab command without waiting for its end."""
        self.page.evaluate(
            "([name, args]) => void window.jupyterapp.commands.execute(name, args)",
            [name, arguments],
        )


@contextlib.contextmanager
def lab_page(
    address: str, browser: str, *, width: int = 1300, height: int = 1400, scale: float = 1
) -> Iterator[LabPage]:
    """A page of a fresh browser profile; whatever is not from ``address`` is refused and noted."""
    from playwright.sync_api import sync_playwright

    with (
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory(prefix="wia-chromium-") as profile,
    ):
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=browser,
            headless=True,
            args=FLAGS,
            viewport={"width": width, "height": height},
            device_scale_factor=scale,
            accept_downloads=True,
        )
        shown = LabPage(context.pages[0] if context.pages else context.new_page())

        def gate(route: Any) -> None:
            if route.request.url.startswith((address, "data:", "blob:")):
                route.continue_()
            else:
                shown.external.append(route.request.url)
                route.abort()

        context.route("**/*", gate)
        try:
            yield shown
        finally:
            context.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended: {log.read_text()[-4000:]}")
        try:
            urllib.request.urlopen(f"{address}/api/status", timeout=1)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer within 120 s: {log.read_text()[-4000:]}")
