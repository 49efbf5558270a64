"""Four machine instructions that compiled loops need and Numba does not offer by name.

    floats_at(address, n), bytes_at(address, n)   an array over memory found by its address
    ordered_bits(x), float_of(bits)               int32 that sorts as the float32 does, and back
    prefetch(address)                             ask for a cache line before it is needed
    popcount(word)                                number of ones of a uint64

Addresses come from `Rows.addresses`, which must stay alive meanwhile; nothing is checked.
"""

# The types below are those of a compiler's intermediate code.
# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_INT32 = ir.IntType(32)


@intrinsic
def _pointer(typingctx, address):
    def build(context, builder, signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), build


@njit(cache=True, inline="always")
def floats_at(address, n):
    return carray(_pointer(address), n, types.float32)


@njit(cache=True, inline="always")
def bytes_at(address, n):
    return carray(_pointer(address), n, types.uint8)


@njit(cache=True, inline="always")
def words_at(address, n):
    return carray(_pointer(address), n, types.uint64)


@intrinsic
def _bits(typingctx, x):
    def build(context, builder, signature, args):
        return builder.bitcast(args[0], _INT32)

    return types.int32(types.float32), build


@njit(cache=True, inline="always")
def ordered_bits(x):
    bits = _bits(x)
    return bits ^ types.int32(0x7FFFFFFF) if bits < 0 else bits


@intrinsic
def _float(typingctx, x):
    def build(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), build


@njit(cache=True, inline="always")
def float_of(bits):
    return _float(bits ^ types.int32(0x7FFFFFFF) if bits < 0 else bits)


@intrinsic
def prefetch(typingctx, address):
    """Read access, high locality, data cache."""

    def build(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        constants = [ir.Constant(_INT32, value) for value in (0, 3, 1)]
        builder.call(function, [pointer, *constants])
        return context.get_dummy_value()

    return types.none(types.int64), build


@intrinsic
def popcount(typingctx, word):
    def build(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), build
