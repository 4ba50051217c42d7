"""Every op of the language by name: the tables of all families, in the order of the docs."""

from __future__ import annotations

from wia_compiler.dialects.wia.activations import ACTIVATIONS
from wia_compiler.dialects.wia.arrangement import ARRANGEMENT
from wia_compiler.dialects.wia.attention import ATTENTION
from wia_compiler.dialects.wia.bits import BITS
from wia_compiler.dialects.wia.contraction import CONTRACTION
from wia_compiler.dialects.wia.convolution import CONVOLUTION
from wia_compiler.dialects.wia.declaration import OpDeclaration
from wia_compiler.dialects.wia.elementwise import ELEMENTWISE
from wia_compiler.dialects.wia.functions import FUNCTIONS
from wia_compiler.dialects.wia.global_pooling import GLOBAL_POOLING
from wia_compiler.dialects.wia.indexing import INDEXING
from wia_compiler.dialects.wia.losses import LOSSES
from wia_compiler.dialects.wia.movement import MOVEMENT
from wia_compiler.dialects.wia.normalization import NORMALIZATION
from wia_compiler.dialects.wia.padding import PADDING
from wia_compiler.dialects.wia.parts import PARTS
from wia_compiler.dialects.wia.placement import PLACEMENT
from wia_compiler.dialects.wia.pooling import POOLING
from wia_compiler.dialects.wia.quantization import QUANTIZATION
from wia_compiler.dialects.wia.reduction import REDUCTION
from wia_compiler.dialects.wia.scans import SCANS
from wia_compiler.dialects.wia.selection import SELECTION
from wia_compiler.dialects.wia.statistics import STATISTICS
from wia_compiler.dialects.wia.transposed_convolution import TRANSPOSED_CONVOLUTION
from wia_compiler.dialects.wia.windows import WINDOWS

DECLARATIONS: dict[str, OpDeclaration] = {
    row.name: row
    for row in (
        *ELEMENTWISE,
        *FUNCTIONS,
        *ACTIVATIONS,
        *BITS,
        *QUANTIZATION,
        *REDUCTION,
        *STATISTICS,
        *SCANS,
        *NORMALIZATION,
        *WINDOWS,
        *POOLING,
        *GLOBAL_POOLING,
        *LOSSES,
        *CONTRACTION,
        *CONVOLUTION,
        *TRANSPOSED_CONVOLUTION,
        *ATTENTION,
        *MOVEMENT,
        *ARRANGEMENT,
        *PARTS,
        *PLACEMENT,
        *PADDING,
        *INDEXING,
        *SELECTION,
    )
}
