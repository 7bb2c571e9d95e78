"""Slices: ragged rows regrouped so that one GPU program sums 16 of them side by side (SELL-C-σ).

The rows of a bank (of one colour of it, where there are colours) are sorted by length and cut into slices
of `LANES` rows. A slice stores its entries column-major, padded to its longest row, so that entry k of all
lanes lies together. Padding has weight 0 and points at row 0, which is always there: no mask is needed.
A row longer than `LONGEST` is cut into segments that are summed apart and then together in a fixed order;
without that one hub would hold up a whole sweep.

Everything is made by array operations on the device of the table, once per stack.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.checks import expect_ids

LANES = 16
LONGEST = 64
# entries of a lane that are fetched together; lengths are multiples of it
UNROLL = 2


class Slices(NamedTuple):
    """The rows of every bank in slices; group g is colour g mod C of bank g div C.

    `columns` int32 and `weights` [cells] are the entries; slice s holds `slice_ptr[s] … slice_ptr[s+1]`
    (int64). `lane_row` int32 [slices · LANES] is the bank's row of each lane, −1 for none, and −2 − i for a
    segment that is summed into the bank's scratch row i; a slice holds rows or segments, never both.
    `group_ptr` int64 [groups + 1] bounds the slices of each group.

    `long_row` int32 are the rows that were cut: row l owns `long_count[l]` of the bank's scratch rows from
    `long_ptr[l]` on (int32), and `long_group` int64 [groups + 1] bounds the cut rows of each group.

    `colours` is C. `host_group` and `host_long` are NumPy copies of both bounds and `host_scratch` int64
    [banks] counts scratch rows, so that launches are sized without asking the device.
    """

    columns: Tensor
    weights: Tensor
    slice_ptr: Tensor
    lane_row: Tensor
    group_ptr: Tensor
    long_row: Tensor
    long_ptr: Tensor
    long_count: Tensor
    long_group: Tensor
    colours: int
    host_group: np.ndarray
    host_long: np.ndarray
    host_scratch: np.ndarray

    def uncoloured(self) -> Slices:
        """The same with one group a bank: colours lie one after another."""
        step = self.colours
        if step == 1:
            return self
        return self._replace(
            group_ptr=self.group_ptr[::step].contiguous(), long_group=self.long_group[::step].contiguous(),
            host_group=self.host_group[::step], host_long=self.host_long[::step], colours=1,
        )  # fmt: skip

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return len(self.slice_ptr) - 1

    @property
    def cells(self) -> int:
        """Stored entries, padding included."""
        return len(self.columns)


def build_slices(
    indptr: Tensor,
    indices: Tensor,
    weights: Tensor,
    ptr: Tensor,
    source_ptr: Tensor,
    colour_rows: Tensor | None = None,
    colour_ptr: Tensor | None = None,
) -> Slices:
    """Regroup stacked ragged rows.

    Args:
        indptr: int64 [rows + 1] over the stack.
        indices: int32 [entries], local to the bank.
        weights: float32 [entries].
        ptr: int64 [banks + 1], the rows of each bank.
        source_ptr: int64 [banks + 1], the rows that `indices` refer to.
        colour_rows: int32 [rows], local rows by bank and colour; None for one colour.
        colour_ptr: int64 [C·banks + 1], their boundaries.

    Returns:
        The slices, on the device of `indptr`.

    Raises:
        InvalidTensor: boundaries that do not ascend, or an id outside its bank.
    """
    expect_ids("indices", indptr, indices, ptr, source_ptr)
    device, banks = ptr.device, len(ptr) - 1
    if colour_rows is None or colour_ptr is None:
        colours = 1
        group = torch.repeat_interleave(torch.arange(banks, device=device), ptr.diff())
        local = torch.arange(len(group), device=device) - ptr[group]
    else:
        colours = max((len(colour_ptr) - 1) // max(banks, 1), 1)
        group = torch.repeat_interleave(torch.arange(len(colour_ptr) - 1, device=device), colour_ptr.diff())
        local = colour_rows.long()
    groups, bank = colours * banks, group // colours
    row = local + ptr[bank]
    degree = indptr[row + 1] - indptr[row]

    # virtual rows: whole rows, and the segments of long ones
    parts = ((degree + LONGEST - 1) // LONGEST).clamp_(min=1)
    of = torch.repeat_interleave(torch.arange(len(row), device=device), parts)
    part = _count_up(parts, of)
    begin = indptr[row[of]] + part * LONGEST
    length = torch.minimum(degree[of] - part * LONGEST, torch.tensor(LONGEST, device=device))
    cut = (degree > LONGEST)[of]
    scratch = torch.bincount(bank[of][cut], minlength=banks)
    scratch_row = torch.cumsum(cut, 0) - 1 - (torch.cumsum(scratch, 0) - scratch)[bank[of]]
    target = torch.where(cut, -2 - scratch_row, local[of])

    # longest first, segments before whole rows, inside each group
    kind = 2 * group[of] + (~cut).long()
    order = torch.sort(kind * (LONGEST + 1) + (LONGEST - length), stable=True).indices
    kind, length, begin, target = kind[order], length[order], begin[order], target[order]
    members = torch.bincount(kind, minlength=2 * groups)
    kind_ptr = _pointer((members + LANES - 1) // LANES)
    place = _count_up(members, kind)
    piece, lane = kind_ptr[kind] + place // LANES, place % LANES

    count = int(kind_ptr[-1])
    tallest = torch.zeros(count, dtype=torch.int64, device=device)
    tallest.scatter_reduce_(0, piece, length, "amax")
    slice_ptr = _pointer((tallest + UNROLL - 1) // UNROLL * UNROLL * LANES)
    lane_row = torch.full((count * LANES,), -1, dtype=torch.int32, device=device)
    lane_row[piece * LANES + lane] = target.int()

    entry = torch.repeat_interleave(torch.arange(len(order), device=device), length)
    step = _count_up(length, entry)
    source = begin[entry] + step
    cell = slice_ptr[piece[entry]] + step * LANES + lane[entry]
    cells = int(slice_ptr[-1])
    columns = torch.zeros(cells, dtype=torch.int32, device=device)
    values = torch.zeros(cells, dtype=weights.dtype, device=device)
    columns[cell], values[cell] = indices[source], weights[source]

    is_long = degree > LONGEST
    long_count = parts[is_long]
    long_bank = bank[is_long]
    first = torch.cumsum(long_count, 0) - long_count
    long_ptr = first - (torch.cumsum(scratch, 0) - scratch)[long_bank]
    group_ptr, long_group = (
        kind_ptr[::2].contiguous(),
        _pointer(torch.bincount(group[is_long], minlength=groups)),
    )
    return Slices(
        columns, values, slice_ptr, lane_row, group_ptr,
        local[is_long].int(), long_ptr.int(), long_count.int(), long_group, colours,
        group_ptr.cpu().numpy(), long_group.cpu().numpy(), scratch.cpu().numpy(),
    )  # fmt: skip


def _pointer(sizes: Tensor) -> Tensor:
    """int64 boundaries from sizes."""
    return torch.cat([sizes.new_zeros(1), torch.cumsum(sizes, 0)])


def _count_up(sizes: Tensor, owner: Tensor) -> Tensor:
    """0, 1, 2 … inside each run of `owner`, whose run i is `sizes[i]` long."""
    first = torch.cumsum(sizes, 0) - sizes
    return torch.arange(len(owner), device=owner.device) - first[owner]
