# SPDX-License-Identifier: MIT
"""Image files: read(), write(), and what a file says without its pixels."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._arguments import choose, real, whole
from ._arrays import host
from ._errors import ArgumentError
from ._types import Path

__all__ = ["formats", "header", "read", "write"]

COMPRESSIONS = {"none": 0, "deflate": 1, "lzw": 2, "zstd": 3}


def read(path: Path, *, max_pixels: int = 0, info: bool = False) -> Any:
    """Reads an image file (PNG, JPEG, TIFF, WebP, PNM, PFM, .npy ...): its format is known by its content.

    Returns an array of NumPy: H x W of grey, H x W x C of colour (the last of 2 or 4 is alpha), with N in front for several
    frames or pages; .npy and .npz of planes are C x H x W. uint8 0..255, uint16 0..65535, or float32, where 1 is white. The
    orientation that a camera noted is applied. "FILE:MEMBER" is one array of a .npz or one page of a TIFF.
    info=True: returns (array, dict) with axes, alpha, exif, xmp, icc, comment, pixels_per_metre (down, across).
    max_pixels: a larger image raises LimitError; 0: 2^30.
    Raises FileError (an OSError), FormatError where the contents are wrong.
    """
    array, axes, found = _core.read_image(os.fspath(path), whole("max_pixels", max_pixels, 0, 2 ** 63))
    return (array, {"axes": axes, **found}) if info else array


def header(path: Path) -> dict[str, Any]:
    """What a file says of its image, without reading its pixels: a dict with format, frames, height, width, channels, dtype,
    alpha, pixels_per_metre and so on."""
    return _core.read_header(os.fspath(path))


def write(path: Path, image: Any, *, axes: str | None = None, format: str | None = None, quality: int = 0,
          lossless: bool = False, png_level: int = 0, compression: str = "none", alpha: bool | None = None,
          pixels_per_metre: float | Sequence[float] | None = None, keep_existing: bool = False) -> None:
    """Writes an array as an image file, whole or not at all: by the extension of `path`, or as `format`.

    image: uint8, uint16 or float32, or int16 for .npy; H x W, H x W x C (the last of 2 or 4 channels is alpha, unless
        alpha=False), or with axes= any other order. png_level: 1 (fast) to 9, or -1: not compressed. quality: of JPEG and WebP, 1 to 100; 0: 90.
    compression: of TIFF: "none", "deflate", "lzw" or "zstd". keep_existing: raise ExistsError rather than replace a file.
    pixels_per_metre: a number, or (down, across). Raises UnsupportedError for a type that the format does not hold.
    """
    image = host(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32, np.int16):
        raise ArgumentError(f"the image has numbers of the type {image.dtype}: files hold uint8, uint16 and float32, and .npy "
                            f"int16")
    options = {"quality": whole("quality", quality), "lossless": bool(lossless), "png_level": whole("png_level", png_level, -1),
               "compression": choose("compression", compression, COMPRESSIONS), "keep_existing": bool(keep_existing)}
    if format is not None:
        options["format"] = str(format)
    if alpha is not None:
        options["alpha"] = bool(alpha)
    if pixels_per_metre is not None:
        both = (pixels_per_metre,) * 2 if np.ndim(pixels_per_metre) == 0 else tuple(pixels_per_metre)
        if len(both) != 2:
            raise ArgumentError(f"pixels_per_metre={pixels_per_metre!r}: give a number, or two, (down, across)")
        options["pixels_per_metre_y"], options["pixels_per_metre_x"] = (real("pixels_per_metre", one) for one in both)
    image = np.require(image, requirements=["C", "ALIGNED"])
    _core.write_image(os.fspath(path), image, axes, options)


def formats() -> list[dict[str, Any]]:
    """The image formats of this build: dicts with name, extensions, help, reads, writes, dtypes."""
    return _core.formats()
