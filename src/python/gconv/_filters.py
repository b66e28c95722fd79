# SPDX-License-Identifier: MIT
"""Filters: planes of coefficients with a name, an anchor, a divisor and an offset."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import _core
from ._arguments import flag, pair, real
from ._arrays import floats
from ._errors import ArgumentError
from ._types import ArrayLike, Kernel, NDArray, Numbers, Path

__all__ = ["Filter", "Filters", "read_filters", "resolve", "write_filters"]


class Filter:
    """One plane of coefficients: immutable data.

    The response at a pixel is the sum of taps[r, s] * sample[y + r - anchor[0], x + s - anchor[1]], divided by `divisor`,
    plus `offset`, in levels of 0..255.

    taps: R x S numbers, float32. anchor: the tap that lies on the pixel, (row, column); by default (R // 2, S // 2).
    marked: a tap of -0 means that there is no tap: the sample there is ignored, even if it is NaN. read_filters() sets this
    for `identity` and for ImageMagick's marks. If it is False, -0 is 0. Raises ArgumentError if these are not valid.
    """

    __slots__ = ("name", "taps", "anchor", "divisor", "offset", "marked", "_key")
    name: str
    taps: NDArray[np.float32]
    anchor: tuple[int, int]
    divisor: float
    offset: float
    marked: bool

    def __init__(self, taps: ArrayLike, *, name: str = "kernel", anchor: Sequence[int] | None = None, divisor: float = 1.0,
                 offset: float = 0.0, marked: bool = False) -> None:
        taps = np.array(floats(taps, "a filter"))
        if taps.ndim != 2 or taps.size == 0:
            raise ArgumentError(f"a filter is a plane of numbers, rows x columns, and this has the shape {taps.shape}")
        if not np.isfinite(taps).all():
            raise ArgumentError("a filter has a coefficient that is infinite or NaN")
        taps.flags.writeable = False
        rows, columns = taps.shape
        anchor = (rows // 2, columns // 2) if anchor is None else pair("anchor", anchor, 0)
        if not (0 <= anchor[0] < rows and 0 <= anchor[1] < columns):
            raise ArgumentError(f"the anchor {anchor} lies outside the filter, which has {rows} x {columns} taps")
        for key, value in (("name", str(name)), ("taps", taps), ("anchor", anchor), ("divisor", real("divisor", divisor)),
                           ("offset", real("offset", offset)), ("marked", flag("marked", marked))):
            object.__setattr__(self, key, value)
        object.__setattr__(self, "_key", (taps.tobytes(), taps.shape, anchor, self.divisor, self.offset, self.marked))

    def __setattr__(self, name, value):
        raise AttributeError("a filter never changes: make another one")

    def __eq__(self, other):
        return isinstance(other, Filter) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return f"<gconv.Filter {self.name}: {self.taps.shape[0]} x {self.taps.shape[1]}>"

    def _repr_png_(self):
        from ._notebook import picture_of_taps  # that module imports this one
        return picture_of_taps([self.taps])

    def __reduce__(self):
        return _filter_of, (self.taps, self.name, self.anchor, self.divisor, self.offset, self.marked)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        """The coefficients, taps / divisor."""
        taps = self.taps / np.float32(self.divisor)
        return taps if dtype is None else taps.astype(dtype)

    def to_text(self) -> str:
        """Returns the filter as the text of a file that read_filters() reads, without loss."""
        return _core.filter_text([self._as_tuple()])

    def analyze(self) -> dict[str, Any]:
        """A dict: sum, positive_sum, negative_sum, zero_taps, rank (1: separable), of taps / divisor."""
        return _core.analyze([self._as_tuple()])

    def _as_tuple(self):
        return (self.name, self.taps, *self.anchor, self.divisor, self.offset, self.marked)


def _filter_of(taps, name, anchor, divisor, offset, marked=False):
    return Filter(taps, name=name, anchor=anchor, divisor=divisor, offset=offset, marked=marked)


class Filters(tuple[Filter, ...]):
    """Several filters. gradient: they are the two derivatives of one name, such as "sobel"."""

    gradient = False

    def __new__(cls, filters: Iterable[Filter], gradient: bool = False) -> Filters:
        made = super().__new__(cls, filters)
        made.gradient = flag("gradient", gradient)
        return made

    def _repr_png_(self):
        from ._notebook import picture_of_taps
        return picture_of_taps([one.taps for one in self[:16]]) if self else None

    def __reduce__(self):
        return Filters, (tuple(self), self.gradient)


def _shipped(spec):
    """Returns the path of a filter file that is shipped with the package, or None."""
    folder = pathlib.Path(_core.__file__).parent / "share" / "gconv" / "filters"
    spec = os.fsdecode(spec)
    if os.sep in spec or "\0" in spec or not folder.is_dir():
        return None
    for name in (spec, spec + ".txt"):
        if (folder / name).is_file():
            return str(folder / name)
    return None


def read_filters(spec: Path, *, syntax: str | None = None) -> Filters:
    """Reads the filters that a text means, as for `gconv -f`: a file, a name with parameters ("gaussian:size=9,sigma=2"),
    coefficients ("[0 -1 0; -1 5 -1; 0 -1 0]"), or the name of a filter that comes with gconv.

    Returns Filters, a tuple of Filter. Raises ArgumentError if the text means no filter, FormatError if a file is wrong.
    """
    spec = os.fspath(spec)
    try:
        gradient, filters = _core.read_filters(spec, syntax)
    except ArgumentError:
        shipped = _shipped(spec)
        if shipped is None:
            raise
        gradient, filters = _core.read_filters(shipped, syntax)
    return Filters((_filter_of(taps, name, (row, column), *rest) for name, taps, row, column, *rest in filters), gradient)


def write_filters(path: Path, filters: Kernel) -> None:
    """Writes one filter or several to a text file, whole or not at all, so that read_filters() reads them again."""
    _core.write_filters(os.fspath(path), [one._as_tuple() for one in resolve(filters)])


def _is_one(item):
    return isinstance(item, (str, os.PathLike, Filter, Filters)) or getattr(item, "ndim", 0) == 2


def resolve(kernel):
    """Converts a kernel argument to Filters."""
    if isinstance(kernel, Filters):
        return kernel
    if isinstance(kernel, Filter):
        return Filters((kernel,))
    if isinstance(kernel, (str, os.PathLike)):
        return read_filters(kernel)
    if isinstance(kernel, (list, tuple)) and any(_is_one(item) for item in kernel):
        return Filters(one for item in kernel for one in resolve(item))
    taps = floats(kernel, "a filter")
    if taps.ndim == 3 and taps.size:
        return Filters(Filter(plane, name=f"kernel_{k + 1}") for k, plane in enumerate(taps))
    return Filters((Filter(taps),))
