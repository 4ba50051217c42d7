""" "Interrupt kernel" in a notebook stops an endless loop; the next cell runs as ever."""

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SETUP = """
%load_ext wia_notebook
import numpy as np
ones = np.ones(100, np.float32)
"""
CELL = """%%wia -q
kernel endless(input a: tensor, output x: tensor) {
    x = a;
    while (reduce_max(x) > -1.0) { x = x * 1.0000001; }
}
kernel next_one(input a: tensor, output b: tensor) { b = a + 1; }
"""
RUN = """endless.build(ones)
print("running", flush=True)
endless(ones)
"""
AFTER = "next_one(ones).sum()"


class Listening(NotebookClient):
    """A client that tells when a cell prints something."""

    def process_message(self, message, cell, cell_index):
        """Note a stream, beside what every client does."""
        made = super().process_message(message, cell, cell_index)
        if message["msg_type"] == "stream":
            self.printed.set()
        return made


def test_interrupt_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, CELL, RUN, AFTER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = Listening(notebook, timeout=120, kernel_name="python3")

    async def run() -> None:
        client.printed = asyncio.Event()
        async with client.async_setup_kernel():
            for number in (0, 1):
                await client.async_execute_cell(cells[number], number)
            client.printed.clear()
            endless = asyncio.ensure_future(client.async_execute_cell(cells[2], 2))
            await client.printed.wait()
            await client.km.interrupt_kernel()
            with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
                await endless
            await client.async_execute_cell(cells[3], 3)

    asyncio.run(run())
    assert cells[3].outputs[0]["data"]["text/plain"] in ("np.float32(200.0)", "200.0")
