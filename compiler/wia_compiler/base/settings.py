"""Every environment variable that the project reads, typed, in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class Settings:
    """What the environment says; ``Settings.read()`` takes it anew at each call.

    ``WIA_CACHE_DIR``       folder of compiled kernels (default: the user's cache folder)
    ``WIA_CACHE_SIZE``      bytes that folder may hold, with an optional K, M or G (default 1G)
    ``WIA_NUM_THREADS``     threads that share a kernel's loops, read at each call (default:
                            ``OMP_NUM_THREADS``, which joblib sets, else the cores there are)
    ``WIA_POOL_SIZE``       bytes of dead results that are kept for new ones (default 256M; 0: none)
    ``WIA_DOT``             the Graphviz ``dot`` to draw graphs with (default: found, or built in)
    ``WIA_NOTEBOOK_STATIC`` 1 shows HTML instead of widgets
    ``WIA_VERIFY``          1 verifies the IR after every pass
    ``CUDA_HOME``           folder of a CUDA toolkit: where ptxas and nvdisasm are looked for last
    """

    cache_dir: Path
    cache_size_bytes: int
    num_threads: int | None
    dot: str | None
    notebook_static: bool
    verify: bool
    cuda_home: Path | None = None
    pool_size_bytes: int = 256 << 20

    @staticmethod
    def read() -> Settings:
        """The settings of this moment; a value that is wrong raises ``ValueError`` naming it."""
        environment = os.environ
        cuda_home = environment.get("CUDA_HOME") or environment.get("CUDA_PATH")
        cache_dir = environment.get("WIA_CACHE_DIR") or platformdirs.user_cache_dir("wia-notebook")
        return Settings(
            cache_dir=Path(cache_dir).expanduser(),
            cache_size_bytes=_size("WIA_CACHE_SIZE", environment.get("WIA_CACHE_SIZE") or "1G"),
            num_threads=Settings.read_threads(),
            dot=environment.get("WIA_DOT") or None,
            notebook_static=environment.get("WIA_NOTEBOOK_STATIC", "0") not in ("", "0"),
            verify=environment.get("WIA_VERIFY", "0") not in ("", "0"),
            cuda_home=Path(cuda_home) if cuda_home else None,
            pool_size_bytes=_size("WIA_POOL_SIZE", environment.get("WIA_POOL_SIZE") or "256M"),
        )

    @staticmethod
    def read_threads() -> int | None:
        """How many threads the environment allows at this moment; ``None`` where it says nothing.

        ``OMP_NUM_THREADS`` may be a list, of which the first number counts, or something that is
        for others to complain about.
        """
        own = os.environ.get("WIA_NUM_THREADS")
        if own:
            return _positive("WIA_NUM_THREADS", own)
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return int(first) if first.isdecimal() and int(first) > 0 else None


def _size(name: str, text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1].upper() in units else (text, 1)
    try:
        return int(float(number) * unit)
    except ValueError:
        raise ValueError(
            f"{name}={text!r}: expected a number of bytes such as 500M or 1G"
        ) from None


def _positive(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{name}={text!r}: expected a whole number from 1")
    return int(text)
