"""Weighted sums of gathered rows, kept in registers.

A loop over a width that is known at run time only keeps its sums in memory: each entry waits for the last
one's store. Here the number of columns, `lanes`, is part of a type, and LLVM holds their sums in vector
registers. Product and sum are rounded one after the other, so that a column has the same bits in every
width. The rows of x that come next are fetched ahead; they are too far apart for the processor to guess.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# a row of 32 columns takes 5 ns to add and 16 entries' time to come from the third-level cache
AHEAD = 16
_LINE = 64
_WIDEST = 32

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()
_PREFETCH = ir.FunctionType(ir.VoidType(), [_POINTER, _INT, _INT, _INT])


def pieces(width: int) -> list[tuple[int, tuple[int, ...]]]:
    """Cut columns into runs of 32, 16, 8, 4, 2 and 1: the first column of each, and its `lanes`.

    `lanes` is a tuple of that length: numba compiles a kernel for each length, as it is part of the type.
    """
    found: list[tuple[int, tuple[int, ...]]] = []
    column = 0
    while column < width:
        count = min(_WIDEST, 1 << ((width - column).bit_length() - 1))
        found.append((column, (0,) * count))
        column += count
    return found


@intrinsic
def gathered_sum(typing, lanes, x, at, indices, weights, begin, end, out):
    """out[:] = Σ_p weights[p] · x.flat[at + indices[p]·width + (0 … lanes)], p from `begin` to `end`."""
    signature = types.void(lanes, x, types.int64, indices, weights, types.int64, types.int64, out)

    def generate(context, builder, signature, arguments):
        _, x, at, indices, weights, begin, end, out = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        vector = ir.VectorType(_FLOAT, signature.args[0].count)
        stride = cgutils.unpack_tuple(builder, x.shape)[1]

        def row(place):
            index = builder.sext(builder.load(builder.gep(indices.data, [place])), _LONG)
            return builder.gep(x.data, [builder.add(at, builder.mul(index, stride))])

        def add(begin, end, total, ahead):
            """The sum after the entries up to `end`, fetching `ahead` or not."""
            before = builder.block
            loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
            builder.cbranch(builder.icmp_signed("<", begin, end), loop, done)
            builder.position_at_end(loop)
            place, sofar = builder.phi(_LONG), builder.phi(vector)
            if ahead:
                _fetch(builder, row(builder.add(place, _LONG(AHEAD))), vector)
            weight = builder.load(builder.gep(weights.data, [place]))
            values = builder.load(builder.bitcast(row(place), vector.as_pointer()), align=4)
            added = builder.fadd(sofar, builder.fmul(_spread(builder, weight, vector), values))
            following = builder.add(place, _LONG(1))
            for phi, first, later in ((place, begin, following), (sofar, total, added)):
                phi.add_incoming(first, before)
                phi.add_incoming(later, loop)
            builder.cbranch(builder.icmp_signed("<", following, end), loop, done)
            builder.position_at_end(done)
            result = builder.phi(vector)
            result.add_incoming(total, before)
            result.add_incoming(added, loop)
            return result

        near = builder.sub(end, _LONG(AHEAD))
        long = builder.icmp_signed("<", begin, near)
        result = add(begin, near, ir.Constant(vector, None), ahead=True)
        result = add(builder.select(long, near, begin), end, result, ahead=False)
        builder.store(result, builder.bitcast(out.data, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fetch(typing, lanes, x, at, indices, begin, end):
    """Have the first rows of x that a later `gathered_sum` will read brought near."""
    signature = types.void(lanes, x, types.int64, indices, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        _, x, at, indices, begin, end = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        vector = ir.VectorType(_FLOAT, signature.args[0].count)
        stride = cgutils.unpack_tuple(builder, x.shape)[1]
        most = builder.add(begin, _LONG(AHEAD))
        end = builder.select(builder.icmp_signed("<", most, end), most, end)
        with cgutils.for_range_slice(builder, begin, end, _LONG(1)) as (place, _):
            index = builder.sext(builder.load(builder.gep(indices.data, [place])), _LONG)
            _fetch(builder, builder.gep(x.data, [builder.add(at, builder.mul(index, stride))]), vector)
        return context.get_dummy_value()

    return signature, generate


def _fetch(builder, row, vector):
    """Prefetch every cache line of a row's `vector.count` values for reading."""
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_POINTER], _PREFETCH)
    start = builder.bitcast(row, _POINTER)
    for offset in range(0, 4 * vector.count, _LINE):
        builder.call(prefetch, [builder.gep(start, [_LONG(offset)]), _INT(0), _INT(3), _INT(1)])


def _spread(builder, value, vector):
    """A vector of copies of one value."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _INT(0))
    zeros = ir.Constant(ir.VectorType(_INT, vector.count), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)
