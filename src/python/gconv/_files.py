# SPDX-License-Identifier: MIT
"""Image files, and their bytes in memory: read(), write(), decode(), encode(), header(), formats()."""
from __future__ import annotations

import errno
import io
import os
from collections.abc import Mapping, Sequence
from typing import IO, Any, Literal, overload

import numpy as np

from . import _core
from ._arguments import choose, flag, flags, real, table, whole
from ._arrays import host
from ._errors import ArgumentError
from ._types import Numbers, Path

__all__ = ["decode", "encode", "formats", "header", "read", "write"]

COMPRESSIONS = {"none": 0, "deflate": 1, "lzw": 2, "zstd": 3}


METADATA = ("icc", "exif", "xmp", "comment")
_NOT_WRITTEN = frozenset("axes format frames height width channels alpha dtype jpeg_quality".split())  # of what read() tells


def _is_stream(given):
    """Returns whether the argument is a stream, such as io.BytesIO, a socket's file, or an open file."""
    return hasattr(given, "read") and not hasattr(given, "__fspath__")


def _bytes_of(data):
    """Returns the rest of a stream, or the bytes of a bytes, bytearray, memoryview or array."""
    found = data.read() if _is_stream(data) else data
    if isinstance(found, str):
        raise ArgumentError("the image is text: open the file in binary mode (\"rb\"); gconv.read() takes paths")
    try:
        view = memoryview(found)
    except TypeError:
        raise TypeError(f"{type(data).__name__} is not bytes: give bytes, bytearray, memoryview, or a binary stream such as "
                        f"io.BytesIO; gconv.read() takes paths") from None
    return view if view.contiguous else view.tobytes()


def _result(found, info):
    array, axes, said = found
    return (array, {"axes": axes, **said}) if flag("info", info) else array


@overload
def read(path: Path | IO[bytes], *, max_pixels: int = ..., info: Literal[False] = ...) -> Numbers: ...
@overload
def read(path: Path | IO[bytes], *, max_pixels: int = ..., info: Literal[True]) -> tuple[Numbers, dict[str, Any]]: ...
def read(path: Path | IO[bytes], *, max_pixels: int = 0, info: bool = False) -> Any:
    """Reads an image file (PNG, JPEG, TIFF, WebP, PNM, PFM, .npy ...). The content tells its format.

    Returns a NumPy array: H x W if it is grey, H x W x C in colour (the last of 2 or 4 channels is alpha), with N in front
    for several frames or pages. Planar .npy and .npz are C x H x W. The type is uint8 (0..255), uint16 (0..65535), or
    float32, where 1 is white. The camera's orientation is applied. "FILE:MEMBER" is one array of a .npz or one page of a
    TIFF. info=True: returns (array, dict) with axes, alpha, exif, xmp, icc, comment, pixels_per_metre (down, across).
    path: may be a binary stream, such as io.BytesIO, which is read to its end.
    max_pixels: a larger image raises LimitError; 0: 2^30.
    Raises FileError (an OSError), or FormatError if the contents are wrong.
    """
    if _is_stream(path):
        return decode(path, max_pixels=max_pixels, info=info)
    return _result(_core.read_image(os.fspath(path), whole("max_pixels", max_pixels, 0, 2 ** 63)), info)


@overload
def decode(data: Any, *, member: str | int | None = ..., max_pixels: int = ..., info: Literal[False] = ...) -> Numbers: ...
@overload
def decode(data: Any, *, member: str | int | None = ..., max_pixels: int = ...,
           info: Literal[True]) -> tuple[Numbers, dict[str, Any]]: ...
def decode(data: Any, *, member: str | int | None = None, max_pixels: int = 0, info: bool = False) -> Any:
    """Reads an image from bytes in memory. The result is the same as that of read() for a file with these bytes.

    data: bytes, bytearray, memoryview, an array of bytes, or a binary stream such as io.BytesIO, which is read to its end.
    member: one array of a .npz by its name, or one page or frame by its number, from 1 on.
    """
    chosen = "" if member is None else str(member)
    if member is not None and not chosen:
        raise ArgumentError("member='': give the name of an array, or the number of a page; None: all")
    return _result(_core.decode(_bytes_of(data), chosen, whole("max_pixels", max_pixels, 0, 2 ** 63)), info)


def header(path: Path | IO[bytes]) -> dict[str, Any]:
    """Reads only the header of an image file: a dict with format, frames, height, width, channels, dtype, alpha,
    pixels_per_metre and so on. path: may be a binary stream; for bytes, header(io.BytesIO(data))."""
    return _core.decode_header(_bytes_of(path), "") if _is_stream(path) else _core.read_header(os.fspath(path))


def _write_options(quality, lossless, png_level, compression, alpha, pixels_per_metre, metadata):
    options = {**flags(lossless=lossless), "quality": whole("quality", quality),
               "png_level": whole("png_level", png_level, -1),
               "compression": choose("compression", compression, COMPRESSIONS)}
    metadata = table("metadata", metadata)
    for name in metadata.keys() - _NOT_WRITTEN - {*METADATA, "pixels_per_metre"}:
        raise ArgumentError(f"metadata has {name!r}: it may have {', '.join(METADATA)} and pixels_per_metre")
    for name in METADATA:
        if metadata.get(name) is not None:
            try:
                options[name] = bytes(memoryview(metadata[name]))
            except TypeError:
                raise ArgumentError(f"metadata[{name!r}]={metadata[name]!r}: give bytes") from None
    if pixels_per_metre is None:
        pixels_per_metre = metadata.get("pixels_per_metre")
    if alpha is not None:
        options["alpha"] = flag("alpha", alpha)
    if pixels_per_metre is not None:
        both = (pixels_per_metre,) * 2 if np.ndim(pixels_per_metre) == 0 else tuple(pixels_per_metre)
        if len(both) != 2:
            raise ArgumentError(f"pixels_per_metre={pixels_per_metre!r}: give a number, or two, (down, across)")
        found = [real("pixels_per_metre", one) for one in both]
        options["pixels_per_metre_y"], options["pixels_per_metre_x"] = found
        if not all(0 <= one < 2 ** 31 for one in found):
            raise ArgumentError(f"pixels_per_metre={pixels_per_metre!r}: it is from 0 (unknown) to {2 ** 31 - 1}")
    return options


def _samples(image):
    image = host(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32, np.int16):
        raise ArgumentError(f"the image has numbers of the type {image.dtype}: files hold uint8, uint16 and float32, and .npy "
                            f"int16")
    return np.require(image, requirements=["C", "ALIGNED"])


def _put_all(stream, made):
    """Writes all bytes to a stream. An unbuffered stream, such as a socket's, may take a part of them at a time."""
    while made:
        taken = stream.write(made)
        if taken == 0 or taken is None and isinstance(stream, io.RawIOBase):
            raise BlockingIOError(errno.EAGAIN, f"the stream takes no more bytes for now, and {len(made)} are left: make it a "
                                                f"blocking one")
        made = memoryview(made)[len(made) if taken is None else taken:]


def write(path: Path | IO[bytes], image: Any, *, axes: str | None = None, format: str | None = None, quality: int = 0,
          lossless: bool = False, png_level: int = 0, compression: str = "none", alpha: bool | None = None,
          pixels_per_metre: float | Sequence[float] | None = None, metadata: Mapping[str, Any] | None = None,
          keep_existing: bool = False) -> None:
    """Writes an array as an image file, whole or not at all. The format is `format`, or that of the extension of `path`.

    path: may be a binary stream, such as io.BytesIO, which needs `format`.
    image: uint8, uint16 or float32, or int16 for .npy; H x W, H x W x C (the last of 2 or 4 channels is alpha, unless
        alpha=False), or with axes= any other order.
    quality: for JPEG and WebP, 1 to 100; 0: 90. png_level: 1 (fast) to 9, or -1: not compressed.
    compression: for TIFF, "none", "deflate", "lzw" or "zstd". keep_existing: raise ExistsError rather than replace a file.
    pixels_per_metre: a number, or (down, across). metadata: a dict as read(info=True) returns it; its icc, exif, xmp,
    comment and pixels_per_metre are written.
    Raises UnsupportedError if the format cannot hold the type.
    """
    if hasattr(path, "write") and not hasattr(path, "__fspath__"):
        if format is None:
            raise ArgumentError("a stream has no name that tells the format: give format=")
        made = encode(image, format, axes=axes, quality=quality, lossless=lossless, png_level=png_level,
                      compression=compression, alpha=alpha, pixels_per_metre=pixels_per_metre, metadata=metadata)
        _put_all(path, made)
        return
    options = _write_options(quality, lossless, png_level, compression, alpha, pixels_per_metre, metadata)
    options["keep_existing"] = flag("keep_existing", keep_existing)
    if format is not None:
        options["format"] = str(format)
    _core.write_image(os.fspath(path), _samples(image), axes, options)


def encode(image: Any, format: str, *, axes: str | None = None, quality: int = 0, lossless: bool = False, png_level: int = 0,
           compression: str = "none", alpha: bool | None = None, pixels_per_metre: float | Sequence[float] | None = None,
           metadata: Mapping[str, Any] | None = None) -> bytes:
    """Returns the bytes that write() would write to a file. format: "png", "jpeg", "webp", "tiff", "npy" ...
    (gconv.formats()). The other arguments are those of write()."""
    options = _write_options(quality, lossless, png_level, compression, alpha, pixels_per_metre, metadata)
    if not isinstance(format, str) or not format:
        raise ArgumentError(f"format={format!r}: give the name of a format, such as \"png\": gconv.formats() lists them")
    options["format"] = format
    return _core.encode(_samples(image), axes, options)


def formats() -> list[dict[str, Any]]:
    """The image formats of this build: dicts with name, extensions, help, reads, writes, dtypes."""
    return _core.formats()
