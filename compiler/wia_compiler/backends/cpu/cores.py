"""How many cores this process may use: those it may run on, and what its container allows."""

from __future__ import annotations

import math
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def available_cores() -> int:
    """Cores that this process may keep busy at this moment, 1 at least."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, allowed_share())))


def allowed_share(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> float:
    """Cores' worth of time that control groups (version 2) give this process; inf without a limit.

    A limit holds for all groups below: ``cpu.max`` is read from the process's own group up.
    """
    try:
        lines = own_group.read_text().splitlines()
    except OSError:
        return math.inf
    own = next((line[len("0::/") :] for line in lines if line.startswith("0::/")), None)
    if own is None:
        return math.inf
    folder = groups / own
    limits = [_limit(each / "cpu.max") for each in (folder, *folder.parents)]
    return min(limits)


def _limit(file: Path) -> float:
    """``200000 100000`` (microseconds in each period) is two cores, ``max 100000`` no limit."""
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
