"""Maps and copies as vector code: each element once, whole vectors, then a masked one.

::

    map y[i] = f(x[i]) over 1000   →   scf.for %i = 0 to 992 step 16 { load, f, store }
                                        masked load, f, masked store of the last 8
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from wia_compiler.backends.cpu.lane_access import LaneAccess
from wia_compiler.backends.cpu.lane_plan import LanePlan
from wia_compiler.backends.cpu.lane_walk import LaneWalk, Place, Points, Values
from wia_compiler.backends.cpu.vector_body import emit_fixed_ops, emit_vector_body
from wia_compiler.dialects.leaf_hints import streamed_outputs
from wia_compiler.passes.emit_index import IndexEmitter


def lower_map_to_vectors(plan: LanePlan, builder: Builder) -> None:
    """Write a map's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    _Map(plan).write(emitter)


class _Map:
    def __init__(self, plan: LanePlan):
        self.plan = plan
        self.walk = LaneWalk(plan)
        self.access = LaneAccess(plan)
        self.known: dict[object, SSAValue] = {}
        accesses = plan.accesses[len(plan.leaf.inputs) :]
        dense = [n for n in sorted(streamed_outputs(plan.leaf)) if accesses[n] == "dense"]
        # Vectors are aligned for one output alone; others may lie differently.
        self.streamed = dense[0] if dense else None

    def write(self, emitter: IndexEmitter) -> None:
        self.access.prepare(emitter)
        start = self.walk.start(emitter)
        self.walk.loops(emitter, self.plan.outer, start, [], self._row)

    def _row(self, emitter: IndexEmitter, points: Points, held: Values) -> Values:
        """All points along the lanes."""
        self.access.load_fixed(emitter, points)
        self.known = emit_fixed_ops(self.plan.leaf, emitter, self.access.fixed, self.plan.lanes)
        if self.streamed is None or not self._is_long():
            return self.walk.lanes(emitter, points, held, self._vector)
        head = self._points_before_alignment(emitter, self.streamed, points)
        self.walk.aligned_lanes(emitter, points, head, self._vector)
        return held

    def _is_long(self) -> bool:
        """Whether aligning the first vector pays: it takes a masked one before it."""
        return self.plan.leaf.sizes[self.plan.axis] >= 4 * self.plan.lanes

    def _points_before_alignment(
        self, emitter: IndexEmitter, output: int, points: Points
    ) -> SSAValue:
        """How many points an output's row is from the next address that a whole vector has."""
        size = self.access.vector_bytes(output)
        element = size // self.plan.lanes
        address = self.access.address(emitter, output, points)
        missing = emitter.subtract(emitter.constant(0), address)
        missing = emitter.binary(arith.AndIOp, missing, emitter.constant(size - 1))
        return emitter.binary(arith.DivUIOp, missing, emitter.constant(element))

    def _vector(self, place: Place, held: Values) -> Values:
        inputs = self.access.inputs(place)
        lanes, known = self.plan.lanes, dict(self.known)
        results = emit_vector_body(self.plan.leaf, place.emitter, inputs, lanes, known)
        for output, value in enumerate(results):
            self.access.store(place, output, value, stream=output == self.streamed)
        return held
