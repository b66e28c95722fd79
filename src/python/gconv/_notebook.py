# SPDX-License-Identifier: MIT
"""Display in notebooks: filters and images as pictures, numbers as tables."""
from __future__ import annotations

import html
from typing import Any

import numpy as np

from ._arrays import host
from ._errors import ArgumentError
from ._files import encode

__all__ = ["Shown", "bars", "picture_of_taps", "show", "table"]

_SIDE = 160  #: the approximate side of a filter's picture, in pixels


def _enlarged(picture, side):
    """Repeats pixels, so that the longer side has about `side` pixels."""
    times = max(1, side // max(picture.shape[:2]))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def picture_of_taps(planes):
    """Returns a PNG of planes of taps, side by side: 0 is grey; the largest |tap| of each plane is black or white."""
    tiles = []
    for taps in planes:
        most = np.abs(taps).max() or 1
        tile = _enlarged(np.rint(128 + 127 * taps / most).astype(np.uint8), _SIDE)
        tiles += [tile, None]
    height = max(tile.shape[0] for tile in tiles[::2])
    pads = [np.full((height, 8), 255, np.uint8) if tile is None else
            np.pad(tile, ((0, height - tile.shape[0]), (0, 0)), constant_values=255) for tile in tiles[:-1]]
    return encode(np.hstack(pads), "png")


def _cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    return html.escape(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))


def table(rows):
    """Returns a table of names and values as HTML."""
    return "<table>" + "".join(f"<tr><th>{html.escape(str(name))}</th><td>{_cell(value)}</td></tr>" for name, value in rows) + "</table>"


def bars(times):
    """Returns a table of times in milliseconds, {name: ms}, as HTML, with a bar for each."""
    most = max(times.values(), default=0) or 1
    return "<table>" + "".join(
        f'<tr><th>{html.escape(name.removesuffix("_ms"))}</th><td>{value:.2f} ms</td>'
        f'<td><div style="background:#4a90d9;height:0.8em;width:{160 * value / most:.0f}px"></div></td></tr>'
        for name, value in times.items()) + "</table>"


class Shown:
    """An image that notebooks draw; show() makes it."""

    def __init__(self, png: bytes, text: str) -> None:
        """Not for users, who call show()."""
        self._png, self._text = png, text

    def _repr_png_(self):
        return self._png

    def __repr__(self):
        return self._text


def show(image: Any, *, stretch: bool = False) -> Shown:
    """Returns an object that a notebook draws as an image, if it is the last value of a cell.

    image: H x W or H x W x C: grey, RGB, or with alpha; of any array library. uint8, uint16, or float32, where 1 is white.
    stretch: the smallest sample becomes black and the largest white: for derivatives, and other ranges of numbers."""
    array = host(image)
    if array.ndim not in (2, 3) or array.ndim == 3 and not 1 <= array.shape[2] <= 4 or array.size == 0:
        raise ArgumentError(f"show() draws H x W or H x W x C of up to 4 channels, and this has the shape {array.shape}")
    text = f"<image: {' x '.join(map(str, array.shape))}, {array.dtype}>"
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    if stretch or array.dtype not in (np.uint8, np.uint16, np.float32, np.float64, np.float16):
        array = array.astype(np.float64)
        finite = array[np.isfinite(array)]
        low, high = (finite.min(), finite.max()) if finite.size else (0, 1)
        array = (array - low) / ((high - low) or 1)
    if array.dtype.kind == "f":
        array = np.rint(np.clip(np.nan_to_num(array), 0, 1) * 255)
    elif array.dtype == np.uint16:
        array = array >> 8
    return Shown(encode(_enlarged(np.ascontiguousarray(array.astype(np.uint8)), 64), "png"), text)
