# SPDX-License-Identifier: MIT
"""gconv.filter for Dask arrays, chunk by chunk. Each chunk gets as many pixels of its neighbours as the filter reaches, so
the result is the same as for the whole array.

    edges = gconv.filter(dask_array, "sobel")               # calls this module; nothing is computed yet
"""
from __future__ import annotations

from typing import Any

import dask.array
import numpy as np

from ._arguments import choose, pair
from ._arrays import check_axes
from ._errors import UnsupportedError
from ._filter import COMBINES, TYPES, type_number
from ._filter import filter as _filter
from ._filters import resolve
from ._types import Border, Kernel, Pair

__all__ = ["filter", "reach"]

_OF_THE_WHOLE = {"padding": "same", "stride": 1, "gray": False, "alpha": None, "out": None, "device": None}


def reach(kernel: Kernel, dilation: Pair = 1) -> tuple[int, int]:
    """Returns how many rows and columns away from its pixel filters read: the depth for map_overlap."""
    down, across = pair("dilation", dilation, 1)
    ends = [(max(one.anchor[axis], one.taps.shape[axis] - 1 - one.anchor[axis])) for axis in (0, 1) for one in resolve(kernel)]
    half = len(ends) // 2
    return max(ends[:half]) * down, max(ends[half:]) * across


def filter(image: Any, kernel: Kernel, *, axes: str | None = None, border: Border = "zero", dilation: Pair = 1,
           combine: str | None = None, dtype: Any = None, **options: Any) -> Any:
    """gconv.filter for a Dask array, with the same arguments. Returns a Dask array, or a tuple of them.

    Raises UnsupportedError for options that need the whole array (range="minmax", weights=), and for options that change
    the shape (padding=, stride=, gray=, combine="stack")."""
    filters = resolve(kernel)
    combine = ("magnitude" if filters.gradient else "none") if combine is None else combine
    choose("combine", combine, COMBINES)
    changed = [name for name, usual in _OF_THE_WHOLE.items() if options.get(name, usual) != usual]
    if options.get("range") == "minmax" or combine == "stack" or options.get("weights") is not None or changed:
        raise UnsupportedError("Dask arrays are filtered chunk by chunk, into results of the same shape: "
                               "without weights=, padding=, "
                               'stride=, gray=, alpha=, out=, device=, range="minmax" and combine="stack"')
    if combine == "none" and len(filters) > 1:
        return tuple(filter(image, one, axes=axes, border=border, dilation=dilation, dtype=dtype, **options) for one in filters)
    letters = check_axes(image.shape, axes)
    down, across = reach(filters, dilation)
    whole = {letters.index("C"): -1} if "C" in letters else {}  # the channels of a pixel stay together
    made = np.dtype(list(TYPES)[type_number(dtype)] if dtype is not None else "float32" if image.dtype == bool else image.dtype)
    periodic = {letters.index(letter): "periodic" for letter in "HW"} if border == "wrap" else "none"
    return dask.array.map_overlap(
        _chunk, image.rechunk(whole), filters=tuple(filters),
        depth={letters.index("H"): down, letters.index("W"): across}, boundary=periodic, dtype=made,
        meta=np.empty((0,) * image.ndim, made), axes=letters, border=border, dilation=dilation, combine=combine,
        result_type=dtype, **{name: value for name, value in options.items() if name not in _OF_THE_WHOLE})


def _chunk(block, *, filters, result_type, **options):
    return _filter(block, list(filters), dtype=result_type, **options)
