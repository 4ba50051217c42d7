"""What the leaves of an attention in shared tiles compute for one score, weight or sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import BOOL, I64
from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_tiles import BlockTiles
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.casts import cast_scalar

_APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
"""Weights that are rounded to 11 or 8 bits may come from an instruction within 2 ulp of f32."""


@dataclass(frozen=True)
class Scores:
    """The arithmetic of one attention whose tiles are ``tiles``."""

    heads: Heads
    tiles: BlockTiles

    @property
    def scales_first(self) -> bool:
        """Whether scores are scaled as they come.

        Elsewhere they are compared as they are and their differences scaled, which is the same.
        """
        return self.heads.scale <= 0 or self.heads.mask_dtype not in (None, BOOL)

    @property
    def factor(self) -> float:
        """Scores times it are powers of two: the scale and the change from e."""
        return self.heads.scale * math.log2(math.e)

    def widened(self, body: Body, x: SSAValue) -> SSAValue:
        """An operand's element as tiles have it."""
        return cast_scalar(body, x, self.heads.dtype, self.tiles.dtype)

    def narrowed(self, body: Body, x: SSAValue) -> SSAValue:
        """A weight as it is multiplied."""
        return cast_scalar(body, x, self.heads.wide, self.tiles.dtype)

    def rounded(self, body: Body, x: SSAValue) -> SSAValue:
        """An element of the result."""
        return cast_scalar(body, x, self.heads.wide, self.heads.dtype)

    def multiply_add(self, body: Body, a: SSAValue, b: SSAValue, held: SSAValue) -> SSAValue:
        """A step of a product of tiles."""
        tile, wide = self.tiles.dtype, self.heads.wide
        a, b = (cast_scalar(body, each, tile, wide) for each in (a, b))
        return body.add(arith.AddfOp(held, body.add(arith.MulfOp(a, b))))

    def masked(
        self,
        body: Body,
        score: SSAValue,
        mask: Sequence[SSAValue],
        place: Sequence[SSAValue],
        last_key: int | None,
        is_causal: bool,
    ) -> SSAValue:
        """A score scaled where that is not done later, masked, and -inf from ``last_key`` on.

        ``place`` has the positions of its query and key, where they are asked for.
        """
        heads, wide = self.heads, self.heads.wide
        lowest = body.constant(-math.inf, wide)
        if self.scales_first:
            score = body.add(arith.MulfOp(score, body.constant(self.factor, wide)))
        if mask and heads.mask_dtype == BOOL:
            score = body.select(mask[0], score, lowest)
        elif mask and heads.mask_dtype is not None:
            added = cast_scalar(body, mask[0], heads.mask_dtype, wide)
            added = body.add(arith.MulfOp(added, body.constant(math.log2(math.e), wide)))
            score = body.add(arith.AddfOp(score, added))
        if is_causal:
            row, column = place
            score = body.select(body.compare("sle", column, row), score, lowest)
        if last_key is not None:
            inside = body.compare("slt", place[1], body.constant(last_key, I64))
            score = body.select(inside, score, lowest)
        return score

    def power(self, body: Body, score: SSAValue, largest: SSAValue) -> SSAValue:
        """``2 ** ((score - largest) * factor)``; 0 where the row has seen no score but -inf."""
        wide = self.heads.wide
        none = body.compare("oeq", largest, body.constant(-math.inf, wide))
        finite = body.select(none, body.constant(0, wide), largest)
        if self.scales_first:
            below = body.add(arith.SubfOp(score, finite))
        else:
            factor = body.constant(self.factor, wide)
            ends = body.add(arith.MulfOp(finite, body.constant(-self.factor, wide)))
            below = body.add(math_dialect.FmaOp(score, factor, ends))
        return body.add(
            math_dialect.Exp2Op(below, _APPROXIMATE if self.tiles.has_products else None)
        )

    def weighted(self, body: Body, x: SSAValue, weight: SSAValue, held: SSAValue) -> SSAValue:
        """``held + x * weight``."""
        return body.add(arith.AddfOp(held, body.add(arith.MulfOp(x, weight))))

    def quotient(self, body: Body, total: SSAValue, weights: SSAValue) -> SSAValue:
        """The mean of the values; 0 for a row that sees no key."""
        wide = self.heads.wide
        none = body.compare("oeq", weights, body.constant(0, wide))
        divisor = body.select(none, body.constant(1, wide), weights)
        return body.add(arith.DivfOp(total, divisor))


def same(body: Body, x: SSAValue) -> SSAValue:
    """What is read."""
    return x


def maximum(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    """The larger one; NaN where one is."""
    return body.add(arith.MaximumfOp(held, x))


def product(body: Body, x: SSAValue, y: SSAValue) -> SSAValue:
    """``x * y``."""
    return body.add(arith.MulfOp(x, y))


def total(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    """``held + x``."""
    return body.add(arith.AddfOp(held, x))
