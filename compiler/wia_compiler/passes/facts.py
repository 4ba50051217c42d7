"""What a target tells the shared passes about itself; they never ask which target it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetFacts:
    """Facts of the hardware that decisions are made from.

    ``register_capacity`` is how many values of 32 bits one thread can keep (a GPU thread's
    registers less a reserve; on a CPU the vector registers times their lanes).
    ``bytes_per_flop`` is memory bandwidth over arithmetic rate: how many FLOPs one byte costs is
    its inverse. ``launch_cost_bytes`` is a kernel launch expressed in bytes of traffic.
    ``vector_bytes`` is the width of one vector register (4 where there are none).
    ``parallel_rows`` is how many rows it takes to keep all processors busy when each folds one
    row at a time (a GPU's multiprocessors).
    ``folds_products`` says that products of values computed on the way can be folded as rows are;
    a systolic array multiplies what lies in memory.
    ``kept_row_elements`` is up to which length a kernel keeps values of a row that several passes
    over the row need; longer ones are computed anew in each.
    ``cache_bytes`` are the sizes of the data caches that a processor reads through, the nearest
    first; empty where schedules need not know them.
    ``keeps_tiles`` says that one nest may keep tiles of several arrays in near memory over a loop
    and work on them with leaves of its choice (attention); without it such ops are split.
    ``shared_bytes`` is near memory that the threads of a block share, where code runs in blocks of
    threads (a GPU): attention is then one nest whose tiles lie there. ``tile_products`` are the
    dtypes whose tiles such a block multiplies by instructions of their own (tensor cores),
    ``warpgroup_products`` those of which four warps at once multiply 64 rows that lie in shared
    memory, and ``copies_alone`` says that tiles come to shared memory without registers on the way.
    ``widens_operands`` says that a matrix product can read narrower numbers than it multiplies, and
    makes them wider on the way: as it copies a tile, or in registers.
    ``masks_edges`` says that vectors leave out the taps of a window that lie outside of its array,
    so that edges need no nests of their own.
    ``keeps_order`` says that a fold can be done in the order of the text, one rounding for each
    operation (loops over elements); a systolic array adds in an order of its own.
    """

    name: str
    register_capacity: int
    bytes_per_flop: float
    launch_cost_bytes: int
    vector_bytes: int = 4
    parallel_rows: int = 1
    kept_row_elements: int = 0
    cache_bytes: tuple[int, ...] = ()
    folds_products: bool = True
    keeps_tiles: bool = False
    shared_bytes: int = 0
    tile_products: tuple[str, ...] = ()
    warpgroup_products: tuple[str, ...] = ()
    copies_alone: bool = False
    masks_edges: bool = False
    widens_operands: bool = False
    keeps_order: bool = True
