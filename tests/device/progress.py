"""What a script on the device says while it runs, and how long it may."""

from __future__ import annotations

import sys
import time

REHEARSAL_S = 3600.0
"""A simulator is not hurried."""


class Progress:
    """Lines with the seconds since the start; ``left_s`` is what remains of ``budget_s``."""

    def __init__(self, budget_s: float):
        self._start = time.monotonic()
        self._budget_s = budget_s
        self.failures: list[str] = []

    @property
    def left_s(self) -> float:
        return self._start + self._budget_s - time.monotonic()

    def say(self, text: str) -> None:
        """One line, at once."""
        elapsed = time.monotonic() - self._start
        print(f"[{elapsed:6.1f} s] {text}", flush=True)

    def fail(self, text: str) -> None:
        """Note a failure; the rest goes on."""
        self.failures.append(text)
        self.say(f"FAILED {text}")

    def end(self, done: int, of: int) -> None:
        """Say what was done; end with 1 where something failed or was not reached."""
        self.say(f"{done} of {of} done, {len(self.failures)} failed")
        if self.failures or done < of:
            print("\n".join(self.failures), file=sys.stderr, flush=True)
            sys.exit(1)
