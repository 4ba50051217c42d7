"""What a pattern does where it matches, as an xDSL rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.graph import sort_block
from wia_compiler.passes.fusing.report import Numbers
from wia_compiler.passes.patterns.firings import Firings
from wia_compiler.passes.patterns.kernel import make_kernel
from wia_compiler.passes.patterns.matching import Match, Matcher, NearMiss
from wia_compiler.passes.patterns.pattern import Pattern
from wia_compiler.passes.patterns.soundness import Checked, check
from wia_compiler.passes.patterns.specialized import specialize


@dataclass
class PatternRewrite(RewritePattern):
    """One pattern over one kernel: fires where it matches and records that, and near misses."""

    pattern: Pattern
    context: PassContext
    firings: Firings
    note_misses: bool = False
    missed: int = 0
    checked: dict[tuple[TensorSpec, ...], Checked | str] = field(
        default_factory=dict["tuple[TensorSpec, ...]", "Checked | str"]
    )
    fired: int = 0

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace the match that ends in ``op``, if there is one.

        What nearly matched is recorded where ``note_misses`` is set, when nothing fires any more.
        """
        if not isinstance(op, TensorOp):
            return
        found = Matcher(self.pattern, op).find()
        if isinstance(found, Match):
            kernel = self.pattern.kernel
            found = self._fuse(found, rewriter) if kernel else self._replace(found, rewriter)
        made_by_pattern = op in self.firings.generation
        if isinstance(found, NearMiss) and self.note_misses and not made_by_pattern:
            self.missed += 1
            row: Numbers = {"matched_ops": len(found.ops), "would_fire_if": found.unless}
            self._record(False, found.ops, found.reason, row)

    def _replace(self, match: Match, rewriter: PatternRewriter) -> NearMiss | None:
        """Put the rewrite's ops in the place of the matched ones."""
        pattern, root = self.pattern, match.values[self.pattern.root.result].owner
        values = [match.values.get(value) for value in pattern.free]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not isinstance(root, TensorOp):
            raise ValueError("every free value of a pattern stands in its match")
        specs = tuple(spec_of(value.type) for value in known)
        if specs not in self.checked:
            self.checked[specs] = check(pattern, specs, self.context)
        checked = self.checked[specs]
        if isinstance(checked, str):
            return NearMiss(match.ops, f"not tried, so not used: {checked}", "it could be tried")
        side = specialize(pattern, pattern.declaration.rewrite, specs, self.context)
        results, made = side.copy_ops(known)
        self._record_firing(match, made, checked)
        location = merge_locations(match.ops)
        for new in made:
            new.location = location
            rewriter.insert(new)
        for old, new in zip(pattern.results, results, strict=True):
            value = match.values[old]
            hint = value.name_hint
            rewriter.replace_all_uses_with(value, new)
            if hint is not None and isinstance(new.owner, Operation):
                new.name_hint = hint
        block = root.parent_block()
        for each in reversed(match.ops):
            if each.result.first_use is None:
                each.detach()
                each.erase()
        if block is not None and len(pattern.results) > 1:
            sort_block(block)
        return None

    def _fuse(self, match: Match, rewriter: PatternRewriter) -> NearMiss | None:
        """Make the matched ops the kernel that the rewrite names."""
        made = make_kernel(self.pattern, match, self.context)
        if isinstance(made, NearMiss):
            return made
        self._record(True, match.ops, made.reason, made.numbers)
        self.firings.note(self.pattern, match.ops, [made.op], made.reason)
        rewriter.notify_op_modified(made.op)
        return None

    def _record_firing(self, match: Match, made: Sequence[Operation], checked: Checked) -> None:
        listed = ", ".join(op.declaration.name for op in match.ops)
        names = ", ".join(op.declaration.name for op in made if isinstance(op, TensorOp))
        reason = f"{listed} → {names or 'a value that is there'}"
        row: Numbers = {
            "matched_ops": len(match.ops),
            "new_ops": sum(1 for op in made if not isinstance(op, ConstantOp)),
            "inputs_tried": checked.trials,
            "largest_difference_ulp": round(checked.difference, 2),
        }
        self.firings.note(self.pattern, match.ops, made, reason)
        self._record(True, match.ops, reason, row)

    def _record(self, taken: bool, ops: Sequence[TensorOp], reason: str, numbers: Numbers) -> None:
        self.fired += taken
        subjects = tuple(filter(None, [self.context.id_of(op) for op in ops]))
        self.context.decisions.append(
            Decision("pattern", self.pattern.title, taken, reason, numbers, subjects)
        )
