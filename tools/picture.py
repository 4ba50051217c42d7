"""Take the README's picture: the explorer as the first tutorial draws it in JupyterLab.

Needs the test environment and a Chromium: ``.venv/bin/python tools/picture.py``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from lab_server import find_browser, lab_page, lab_server  # noqa: E402

PICTURE = ROOT / "docs" / "explorer.png"
WIDTH, HEIGHT = 1380, 1300
SCALE = 2  # pixels of the picture for each of the page, for sharp screens


def main() -> int:
    """Run the tutorial's first cells and write ``docs/explorer.png``."""
    browser = find_browser()
    if browser is None:
        print("no Chromium found: apt-get install chromium", file=sys.stderr)
        return 1
    notebook = json.loads((ROOT / "tutorials" / "01_one_cell.ipynb").read_text(encoding="utf-8"))
    first = next(
        index for index, cell in enumerate(notebook["cells"]) if "%%wia" in cell["source"][:8]
    )
    done = {**notebook["cells"][1], "id": "done", "source": "print('ALL-DONE', 6 * 7)"}
    notebook["cells"] = [*notebook["cells"][: first + 1], done]
    folder = Path(tempfile.mkdtemp(prefix="wia-picture-"))
    (folder / "tutorial.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with (
        lab_server(folder) as address,
        lab_page(address, browser, width=WIDTH, height=HEIGHT, scale=SCALE) as shown,
    ):
        shown.open(address, "tutorial.ipynb")
        shown.run_all("ALL-DONE 42")
        shown.command("application:toggle-left-area")
        explorer = shown.page.locator(".wia[data-ready='1']").first
        explorer.wait_for(timeout=60_000)
        explorer.scroll_into_view_if_needed()
        # The fused kernel is pinned, so that the lines it comes from are lit and it is explained.
        explorer.locator("[data-picture=fusion] .group .title").first.click()
        shown.page.mouse.move(5, 5)
        explorer.locator(".wia-source .ln.hl").first.wait_for()
        explorer.screenshot(path=PICTURE)
    print("wrote", PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
