"""Thirty-two table look-ups at once, for compiled loops.

    mask = sum_block(blocks, i, tables, threshold, sums)

Block i of blocks (n_blocks, B, 32), uint8, holds byte b of thirty-two codes side by side. Each half
byte picks one of sixteen entries of tables (B, 2, 32), uint8, of which entries 16 to 31 repeat 0 to
15; the first of the two tables is for the low half. The sums (32,), uint16, of the 2 B entries of
each code must stay below 65536. The result has bit l set where code l reaches the threshold.

With AVX2 a look-up of thirty-two entries is one instruction; elsewhere it is thirty-two loads.
Source: the shuffle-based scan of product quantiser codes (André, Kermarrec, Le Scouarnec, VLDB
2015), here for sign bits and byte-wise blocks.
"""

# The types below are those of a compiler's intermediate code.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 32
_BYTE, _SHORT, _WORD = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BYTES = ir.VectorType(_BYTE, LANES)
_SHORTS = ir.VectorType(_SHORT, LANES // 2)
_EVERY = list(range(LANES))


@intrinsic
def sum_block(typingctx, blocks, i, tables, threshold, sums):
    def codegen(context, builder, signature, args):
        places = [make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2, 4)]
        code, table, out = (place.data for place in places)
        n_bytes = cgutils.unpack_tuple(builder, places[0].shape, 3)[1]
        size = ir.Constant(n_bytes.type, LANES)
        begin = builder.mul(builder.mul(args[1], n_bytes), size)
        fast = "+avx2" in context.codegen()._tm_features
        # Even lanes hold the sums of both bytes of a pair (modulo 2^16), odd ones of the upper.
        both = cgutils.alloca_once_value(builder, ir.Constant(_SHORTS, [0] * 16))
        upper = cgutils.alloca_once_value(builder, ir.Constant(_SHORTS, [0] * 16))
        with cgutils.for_range(builder, n_bytes) as loop:
            offset = builder.mul(loop.index, size)
            v = _load(builder, code, builder.add(begin, offset))
            place = builder.mul(offset, ir.Constant(offset.type, 2))
            low = builder.and_(v, _constant(_BYTES, 15))
            high = builder.lshr(v, _constant(_BYTES, 4))
            for half, index in enumerate((low, high)):
                row = builder.add(place, ir.Constant(place.type, half * LANES))
                picked = _pick(builder, table, row, index, fast)
                pairs = builder.bitcast(picked, _SHORTS)
                builder.store(builder.add(builder.load(both), pairs), both)
                shifted = builder.lshr(pairs, _constant(_SHORTS, 8))
                builder.store(builder.add(builder.load(upper), shifted), upper)
        odd = builder.load(upper)
        even = builder.sub(builder.load(both), builder.shl(odd, _constant(_SHORTS, 8)))
        order = ir.Constant(
            ir.VectorType(_WORD, LANES), [lane // 2 + 16 * (lane % 2) for lane in _EVERY]
        )
        total = builder.shuffle_vector(even, odd, order)
        slot = builder.bitcast(out, total.type.as_pointer())
        builder.store(total, slot, align=2)
        limit = builder.insert_element(
            ir.Constant(total.type, ir.Undefined), args[3], ir.Constant(_WORD, 0)
        )
        zero = ir.Constant(ir.VectorType(_WORD, LANES), [0] * LANES)
        limits = builder.shuffle_vector(limit, limit, zero)
        return builder.bitcast(builder.icmp_unsigned(">=", total, limits), _WORD)

    return types.uint32(blocks, types.intp, tables, types.uint16, sums), codegen


def _constant(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _load(builder: Any, data: Any, offset: Any) -> Any:
    address = builder.bitcast(builder.gep(data, [offset]), _BYTES.as_pointer())
    return builder.load(address, align=1)


def _pick(builder: Any, table: Any, row: Any, index: Any, fast: bool) -> Any:
    """Entries of one table at thirty-two indices below sixteen."""
    if fast:
        kind = ir.FunctionType(_BYTES, [_BYTES, _BYTES])
        shuffle = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pshuf.b")
        return builder.call(shuffle, [_load(builder, table, row), index])
    picked = ir.Constant(_BYTES, ir.Undefined)
    for lane in _EVERY:
        number = ir.Constant(_WORD, lane)
        place = builder.zext(builder.extract_element(index, number), row.type)
        entry = builder.load(builder.gep(table, [builder.add(row, place)]), align=1)
        picked = builder.insert_element(picked, entry, number)
    return picked
