"""Which ops of the stage before an op came from.

An op that a pass left in place is the same object. Any other op is related to those of the stage
before with which it shares location tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, Operation

from wia_compiler.dialects.location import origins_of
from wia_compiler.dialects.wia.ops import FusedOp

_NO_COPIES: Mapping[int, tuple[int, ...]] = {}


@dataclass
class OpsBefore:
    """The ops of a stage as they were before the next pass, which may erase them.

    ``ids`` and ``parents`` are those of its rows, ``arguments`` the ids of its blocks' arguments;
    ``copied_tokens`` maps a token that the pass made to those it stands for.
    """

    ids: Mapping[Operation, str] = field(default_factory=dict[Operation, str])
    parents: Mapping[Operation, Operation] = field(default_factory=dict[Operation, Operation])
    copied_tokens: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: _NO_COPIES)
    arguments: Mapping[BlockArgument, str] = field(default_factory=dict[BlockArgument, str])

    def __post_init__(self) -> None:
        self._tokens = {op: frozenset(o.token for o in origins_of(op)) for op in self.ids}
        self._by_token: dict[int, list[Operation]] = {}
        for op, tokens in self._tokens.items():
            for token in tokens:
                self._by_token.setdefault(token, []).append(op)
        self._order = {op: number for number, op in enumerate(self.ids)}
        self._known: dict[tuple[frozenset[int], bool], tuple[str, ...]] = {}

    def origins_of(self, op: Operation) -> tuple[str, ...]:
        """Ids, in the stage before, of the ops that ``op`` came from."""
        if op in self.ids:
            return (self.ids[op],)
        if isinstance(op, FusedOp):
            inner = [id for each in op.body.block.ops for id in self.origins_of(each)]
            return tuple(dict.fromkeys(inner))
        key = (self._tokens_before(op), bool(op.regions) or op.name == "func.call")
        if key not in self._known:
            self._known[key] = self._related(*key)
        return self._known[key]

    def origins_of_argument(self, argument: BlockArgument) -> tuple[str, ...]:
        """Ids, in the stage before, of what an argument of a block came from."""
        if argument in self.arguments:
            return (self.arguments[argument],)
        return self._related(self._tokens_before(argument), False)

    def _tokens_before(self, op: Operation | BlockArgument) -> frozenset[int]:
        return frozenset(
            before
            for origin in origins_of(op)
            for before in self.copied_tokens.get(origin.token, (origin.token,))
        )

    def _related(self, tokens: frozenset[int], holds_others: bool) -> tuple[str, ...]:
        related = {op for token in tokens for op in self._by_token.get(token, ())}
        same = {op for op in related if self._tokens[op] == tokens}
        if holds_others:
            # Of a function for several calls: all that was done for one of them.
            whole = same or {op for op in related if self._tokens[op] <= tokens}
            chosen = self._outermost(whole) if whole else self._innermost(related)
        else:
            chosen = self._innermost(same | self._shared(tokens, same, related) or related)
        return tuple(self.ids[op] for op in sorted(chosen, key=self._order.__getitem__))

    def _shared(
        self, tokens: frozenset[int], same: set[Operation], related: set[Operation]
    ) -> set[Operation]:
        """What stands in functions that ``same`` calls, where these stand for other calls too."""
        called = {op.callee.string_value() for op in same if isinstance(op, CallOp)}
        if not called:
            return set()
        wider = {op for op in related if self._tokens[op] > tokens}
        return {op for op in wider if self._function(op) in called}

    def _function(self, op: Operation) -> str:
        """The name of the function that holds an op."""
        holders = (op, *self._holders(op))
        return next((each.sym_name.data for each in holders if isinstance(each, FuncOp)), "")

    def _innermost(self, ops: set[Operation]) -> Sequence[Operation]:
        holding = {holder for op in ops for holder in self._holders(op)}
        return [op for op in ops if op not in holding]

    def _outermost(self, ops: set[Operation]) -> Sequence[Operation]:
        return [op for op in ops if not any(holder in ops for holder in self._holders(op))]

    def _holders(self, op: Operation) -> Iterator[Operation]:
        parent = self.parents.get(op)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)
