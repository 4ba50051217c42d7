"""Assemble every kernel of the library for every architecture and print what ptxas says of it.

    python tools/assembler_report.py [--kernel NAME] [--architecture sm_90] [--sizes 1] [--faults]

Exits with 1 where there is a spill, a stack, a warning, or no block that fits on an SM.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("compiler", "kernels", "tests")]

from unit.gpu_gate import Checked, check_all, library_cases  # noqa: E402
from wia_compiler.backends.gpu.architecture import ARCHITECTURES  # noqa: E402

COLUMNS = ("registers", "spill_store_bytes", "shared_bytes", "threads_per_block", "occupancy")


def line_of(found: Checked) -> str:
    """One case in a line."""
    resources = found.resources
    numbers = "  ".join(
        f"{resources.get(name, 0):>{len(name)}.3g}"
        if name == "occupancy"
        else f"{resources.get(name, 0):>{len(name)}}"
        for name in COLUMNS
    )
    limiter = resources.get("occupancy_limiter", "")
    told = f"  FAULT: {'; '.join(found.faults)}" if found.faults else ""
    return f"{numbers}  {limiter:13}  {found.case}{told}"


def main() -> int:
    """Print the table; 1 where the gate refuses something."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel", help="this kernel alone")
    parser.add_argument("--architecture", choices=ARCHITECTURES, help="this architecture alone")
    parser.add_argument("--sizes", type=int, help="the first so many shapes of each kernel (all)")
    parser.add_argument("--faults", action="store_true", help="only what the gate refuses")
    options = parser.parse_args()
    architectures = [options.architecture] if options.architecture else list(ARCHITECTURES)
    cases = [
        case
        for case in library_cases(architectures, sizes=options.sizes)
        if options.kernel in (None, case.kernel.name)
    ]
    found = check_all(cases)
    print("  ".join((*COLUMNS, "limited by   ", "kernel, dtype, shapes, architecture")))
    for each in found:
        if each.faults or not options.faults:
            print(line_of(each))
    faults = sum(bool(each.faults) for each in found)
    print(f"{len(found)} builds for {len(architectures)} architectures, {faults} with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
