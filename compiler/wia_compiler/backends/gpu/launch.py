"""A kernel's host side as data: which entries run, in which order, on which buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """One kernel launch: ``blocks`` × ``threads`` of ``entry`` on ``buffers``.

    Buffers are numbers: the kernel's inputs and outputs in order, then the plan's workspaces.
    ``dynamic_shared_bytes`` is what the launch must ask for beside the entry's static shared memory.
    """

    entry: str
    blocks: int
    threads: int
    buffers: tuple[int, ...]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class LaunchPlan:
    """All launches in order, and the bytes of each workspace (intermediates between launches)."""

    launches: tuple[Launch, ...]
    workspace_bytes: tuple[int, ...] = ()

    def to_metadata(self) -> Mapping[str, Any]:
        """The plan as JSON values, for an artifact."""
        return {
            "launches": [
                {
                    "entry": launch.entry,
                    "grid": [launch.blocks, 1, 1],
                    "block": [launch.threads, 1, 1],
                    "dynamic_shared_bytes": launch.dynamic_shared_bytes,
                    "buffers": list(launch.buffers),
                }
                for launch in self.launches
            ],
            "workspace_bytes": list(self.workspace_bytes),
        }

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> LaunchPlan:
        """Read what ``to_metadata`` wrote."""
        launches = tuple(
            Launch(
                row["entry"],
                row["grid"][0],
                row["block"][0],
                tuple(row["buffers"]),
                row["dynamic_shared_bytes"],
            )
            for row in metadata["launches"]
        )
        return LaunchPlan(launches, tuple(metadata["workspace_bytes"]))
