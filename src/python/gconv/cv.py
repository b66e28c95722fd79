# SPDX-License-Identifier: MIT
"""The linear filters of OpenCV on NumPy arrays: the same names, arguments, defaults, types, borders and anchors.

    import gconv.cv as cv2

Images are uint8, uint16, int16 or float32, H x W or H x W x C. Sums are float32 and are rounded once, to nearest even.
docs/python.md says by how much results may differ from OpenCV's. Unsupported calls (other types such as float64,
BORDER_WRAP, BORDER_TRANSPARENT) go to OpenCV if it is installed, with a gconv.Warning the first time; else UnsupportedError
is raised.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from ._arguments import real
from ._errors import ArgumentError
from ._filter import filter as _filter
from ._filters import Filter
from ._original import NotOurs as _NotOurs, or_original
from ._passes import are_finite
from ._repeat import repeated
from ._types import ArrayLike, Function, Numbers, Pair

__all__ = ["GaussianBlur", "Laplacian", "Scharr", "Sobel", "blur", "boxFilter", "filter2D", "sepFilter2D"]

BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT, BORDER_WRAP, BORDER_REFLECT_101, BORDER_TRANSPARENT = range(6)
BORDER_DEFAULT, BORDER_ISOLATED = BORDER_REFLECT_101, 16
CV_8U, CV_8S, CV_16U, CV_16S, CV_32S, CV_32F, CV_64F = range(7)
FILTER_SCHARR = -1

_BORDERS = {BORDER_CONSTANT: "zero", BORDER_REPLICATE: "replicate", BORDER_REFLECT: "symmetric", BORDER_REFLECT_101: "reflect101"}
_TYPES = {CV_8U: "uint8", CV_16U: "uint16", CV_16S: "int16", CV_32F: "float32"}
_RESULTS = {"uint8": ("uint8", "int16", "float32"), "uint16": ("uint16", "float32"), "int16": ("int16", "float32"),
            "float32": ("float32",)}


_SPECTRAL = 130  # from this number of taps on, OpenCV's filter2D uses Fourier transforms, in which a NaN spreads


_NAMES = {np.dtype(name): name for name in _RESULTS}  # types in the processor's byte order
_WHITE = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}


def _check(src, ddepth, border, dst):
    if type(src) is not np.ndarray or src.dtype not in _NAMES:
        raise _NotOurs(f"arrays of the type {getattr(src, 'dtype', type(src).__name__)} are not taken")
    if src.ndim not in (2, 3) or src.size == 0:
        raise _NotOurs("only images H x W and H x W x C are taken")
    if ddepth != -1 and _TYPES.get(ddepth) not in _RESULTS[_NAMES[src.dtype]]:
        raise _NotOurs(f"results of the depth {ddepth} of {src.dtype} are not taken")
    if dst is not None and not isinstance(dst, np.ndarray):
        raise _NotOurs("a dst that is no array is not taken")
    if border & ~BORDER_ISOLATED not in _BORDERS:
        raise _NotOurs(f"the border type {border} is not taken")


def _taken(function: Function) -> Function:
    """Decorates a function: calls that raise _NotOurs, as from _check(), are passed to OpenCV."""
    return repeated(or_original("cv2", TypeError)(function), "kernel", "kernelX", "kernelY")


@functools.lru_cache(256)
def _kernel(make, arguments, anchor, divisor, skips):
    """Returns the filter with the taps make(*arguments), and whether samples under taps of 0 count. With `skips` they do
    not count, unless all taps are 0: then OpenCV keeps one of them."""
    taps = make(*arguments)
    rows, columns = taps.shape
    column, row = anchor
    place = (rows // 2 if row == -1 else row, columns // 2 if column == -1 else column)
    zeros = not taps.all()
    marked = zeros and skips and bool(taps.any())
    if marked:
        taps = np.where(taps == 0, np.float32(-0.0), taps)  # -0 means that there is no tap
    return Filter(taps, anchor=place, divisor=divisor, marked=marked), zeros and not marked


def _two(name, value, what):
    try:
        first, second = map(operator.index, value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}={value!r}: give {what}, two whole numbers") from None
    return first, second


def _apply(src, ddepth, make, arguments, anchor, delta, border, dst, divisor=1.0, skips=False):
    """Filters each channel with the taps make(*arguments). anchor is (column, row); -1 is the middle. skips: OpenCV ignores
    samples under taps of 0 here, even if they are NaN or infinite. If not `skips`, such images go to OpenCV."""
    kernel, zeros_count = _kernel(make, arguments, _two("anchor", anchor, "(column, row)"), divisor, skips and src.dtype == np.float32)
    if zeros_count and not are_finite(src):
        raise _NotOurs("NaN and infinities under taps of 0 are not taken")
    kind = _NAMES[src.dtype] if ddepth == -1 else _TYPES[ddepth]
    name = _BORDERS[border & ~BORDER_ISOLATED]
    image = src[..., 0] if src.ndim == 3 and src.shape[2] == 1 else src  # OpenCV drops the axis of a single channel
    fits = type(dst) is np.ndarray and dst.shape == image.shape and dst.dtype == kind and dst.flags.writeable
    out = dst if fits and not np.may_share_memory(dst, src) else None
    white = _WHITE["float32" if image.dtype == np.int16 else _NAMES[image.dtype]]  # gconv.filter() makes floats of int16
    if kind == "float32":  # gconv computes in units where 1 is white
        result = _filter(image, kernel, border=name, scale=white, offset=real("delta", delta), dtype=kind, out=out)
    else:
        result = _filter(image, kernel, border=name, offset=real("delta", delta) / white, dtype=kind, out=out)
    if fits and result is not dst:
        dst[...] = result
        return dst
    return result


def _line(kernel, what):
    line = np.asarray(kernel, np.float64)
    if line.ndim == 0 or line.size == 0:
        raise ArgumentError(f"{what}={kernel!r}: give one number or more")
    return line.reshape(-1).tobytes()


def _plane(column, row):
    """A column times a row, rounded to float32 once."""
    return np.outer(column, row).astype(np.float32)


def _given(taps, shape):
    """Returns taps from bytes of float32."""
    return np.frombuffer(taps, np.float32).reshape(shape)


def _given_lines(column, row):
    """Returns the taps of a column and a row from bytes of float64."""
    return _plane(np.frombuffer(column), np.frombuffer(row))


@_taken
def filter2D(src: Numbers, ddepth: int, kernel: ArrayLike, dst: Numbers | None = None, anchor: Sequence[int] = (-1, -1),
             delta: float = 0, borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.filter2D: correlates each channel with a kernel of any size."""
    _check(src, ddepth, borderType, dst)
    taps = np.asarray(kernel, np.float32)
    taps = taps.reshape(-1, 1) if taps.ndim == 1 else taps
    if taps.ndim != 2 or taps.size == 0:
        raise ArgumentError(f"kernel is a plane of numbers, and this has the shape {taps.shape}")
    return _apply(src, ddepth, _given, (taps.tobytes(), taps.shape), anchor, delta, borderType, dst, skips=taps.size < _SPECTRAL)


@_taken
def sepFilter2D(src: Numbers, ddepth: int, kernelX: ArrayLike, kernelY: ArrayLike, dst: Numbers | None = None,
                anchor: Sequence[int] = (-1, -1), delta: float = 0, borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.sepFilter2D: correlates rows with kernelX and columns with kernelY."""
    _check(src, ddepth, borderType, dst)
    lines = _line(kernelY, "kernelY"), _line(kernelX, "kernelX")
    return _apply(src, ddepth, _given_lines, lines, anchor, delta, borderType, dst)


_SMALL_GAUSSIANS = {1: (1,), 3: (0.25, 0.5, 0.25), 5: (0.0625, 0.25, 0.375, 0.25, 0.0625),
                    7: (0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125),
                    9: (4 / 256, 13 / 256, 30 / 256, 51 / 256, 60 / 256, 51 / 256, 30 / 256, 13 / 256, 4 / 256)}


def _gaussian(size, sigma):
    """Returns the line of cv2.getGaussianKernel()."""
    if sigma <= 0 and size in _SMALL_GAUSSIANS:
        return np.array(_SMALL_GAUSSIANS[size])
    sigma = sigma if sigma > 0 else ((size - 1) * 0.5 - 1) * 0.3 + 0.8
    line = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / sigma) ** 2)
    return line / line.sum()


def _fixed_point(line, bits):
    """Rounds a Gaussian to multiples of 2^-bits, as OpenCV does for integers. The rounding error of a coefficient is
    carried to the next one towards the middle; the middle makes the sum 1."""
    whole, left = np.zeros(line.size), 0.0
    for i in range(line.size // 2):
        wanted = line[i] * 2 ** bits + left
        whole[i] = whole[-1 - i] = np.rint(wanted)
        left = wanted - whole[i]
    whole[line.size // 2] = 2 ** bits - whole.sum()
    return whole / 2 ** bits


def _gaussian_plane(height, sigma_y, width, sigma_x, bits):
    column, row = _gaussian(height, sigma_y), _gaussian(width, sigma_x)
    return _plane(_fixed_point(column, bits), _fixed_point(row, bits)) if bits else _plane(column, row)


def _shrink(src, size):
    """Returns (width, height) of a box: images of one row get a box of height 1, images of one column a box of width 1."""
    return (1 if src.shape[1] == 1 else size[0]), (1 if src.shape[0] == 1 else size[1])


@_taken
def GaussianBlur(src: Numbers, ksize: Pair, sigmaX: float, dst: Numbers | None = None, sigmaY: float = 0,
                 borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.GaussianBlur. ksize is (width, height), both odd, or 0: found from sigma. For integers, coefficients are rounded
    to multiples of 1/256 or 1/65536, as in OpenCV; gconv.kernels.gaussian() does not round."""
    _check(src, -1, borderType, dst)
    if not np.isfinite((sigmaX, sigmaY)).all():
        raise _NotOurs("sigmas that are infinite or NaN are not taken")
    sigma_y = sigmaY if sigmaY > 0 else sigmaX
    reach = 3 if src.dtype == np.uint8 else 4
    ksize = _two("ksize", ksize, "(width, height)")
    wanted = ksize if borderType & ~BORDER_ISOLATED == BORDER_CONSTANT else _shrink(src, ksize)
    width, height = size = [int(round(sigma * reach * 2 + 1)) | 1 if one <= 0 and sigma > 0 else int(one)
                            for one, sigma in zip(wanted, (sigmaX, sigma_y))]
    if min(size) < 1 or width % 2 == 0 or height % 2 == 0:
        raise ArgumentError(f"ksize={ksize}: both are odd, or 0 where sigma is above 0")
    bits = {"uint8": 8, "uint16": 16}.get(_NAMES[src.dtype])
    return _apply(src, -1, _gaussian_plane, (height, sigma_y, width, sigmaX, bits), (-1, -1), 0, borderType, dst)


@_taken
def boxFilter(src: Numbers, ddepth: int, ksize: Pair, dst: Numbers | None = None, anchor: Sequence[int] = (-1, -1),
              normalize: bool = True, borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.boxFilter: the mean, or with normalize=False the sum, of a box of ksize, (width, height)."""
    _check(src, ddepth, borderType, dst)
    if not isinstance(normalize, (bool, int, np.bool_)):
        raise _NotOurs(f"normalize={normalize!r} is not taken")
    ksize = _two("ksize", ksize, "(width, height)")
    width, height = _shrink(src, ksize) if normalize and borderType & BORDER_ISOLATED else ksize
    if min(width, height) < 1:
        raise ArgumentError(f"ksize={ksize}: both are at least 1")
    return _apply(src, ddepth, np.ones, ((height, width), np.float32), anchor, 0, borderType, dst,
                  width * height if normalize else 1.0)


@_taken
def blur(src: Numbers, ksize: Pair, dst: Numbers | None = None, anchor: Sequence[int] = (-1, -1),
         borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.blur: the mean of a box of ksize, (width, height)."""
    _check(src, -1, borderType, dst)
    return boxFilter(src, -1, ksize, dst, anchor, True, borderType)


def _has_even_rows(src):
    """Returns whether rows have an even number of samples. Else OpenCV reads the last one under taps of 0, too."""
    return src[0].size % 2 == 0


def _derivative(order, size):
    """Returns the line of cv2.getDerivKernels(): smoothing 1 1, as often as fits, and `order` differences -1 1."""
    if size == 1:
        size = 3 if order > 0 else 1
    if size <= order:
        raise ArgumentError(f"ksize={size} is too small for a derivative of order {order}")
    line = np.ones(1)
    for _ in range(size - order - 1):
        line = np.convolve(line, (1, 1))
    for _ in range(order):
        line = np.convolve(line, (-1, 1))
    return line


def _sobel_plane(dx, dy, size, scale):
    return _plane(_derivative(dy, size) * scale, _derivative(dx, size))


def _scharr_plane(dx, scale):
    difference, smooth = np.array((-1.0, 0, 1)), np.array((3.0, 10, 3))
    column, row = (smooth, difference) if dx else (difference, smooth)
    return _plane(column * scale, row)


def _laplacian_plane(size, scale):
    if size == 1:
        taps = np.array(((0, 1, 0), (1, -4, 1), (0, 1, 0)), float)
    elif size == 3:
        taps = np.array(((2, 0, 2), (0, -8, 0), (2, 0, 2)), float)
    else:
        second, smooth = _derivative(2, size), _derivative(0, size)
        taps = np.outer(second, smooth) + np.outer(smooth, second)
    return (taps * scale).astype(np.float32)


@_taken
def Sobel(src: Numbers, ddepth: int, dx: int, dy: int, dst: Numbers | None = None, ksize: int = 3, scale: float = 1,
          delta: float = 0, borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.Sobel: the derivative of order dx across and dy down. ksize is 1, 3, 5 ... 31, or FILTER_SCHARR."""
    if ksize == FILTER_SCHARR:
        return Scharr(src, ddepth, dx, dy, dst, scale, delta, borderType)
    _check(src, ddepth, borderType, dst)
    if ksize % 2 == 0 or not 1 <= ksize <= 31 or dx < 0 or dy < 0 or dx + dy < 1:
        raise ArgumentError(f"dx={dx}, dy={dy}, ksize={ksize}: the orders are at least 0, one of them above, and ksize is odd, "
                            f"from 1 to 31")
    skips = (ksize <= 3 or ksize == 5 and max(dx, dy) == 1) and _has_even_rows(src)
    return _apply(src, ddepth, _sobel_plane, (dx, dy, ksize, real("scale", scale)), (-1, -1), delta, borderType, dst, skips=skips)


@_taken
def Scharr(src: Numbers, ddepth: int, dx: int, dy: int, dst: Numbers | None = None, scale: float = 1, delta: float = 0,
           borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.Scharr: the first derivative across (dx=1, dy=0) or down (dx=0, dy=1)."""
    _check(src, ddepth, borderType, dst)
    if sorted((dx, dy)) != [0, 1]:
        raise ArgumentError(f"dx={dx}, dy={dy}: one of them is 1, and the other 0")
    return _apply(src, ddepth, _scharr_plane, (dx, real("scale", scale)), (-1, -1), delta, borderType, dst, skips=_has_even_rows(src))


@_taken
def Laplacian(src: Numbers, ddepth: int, dst: Numbers | None = None, ksize: int = 1, scale: float = 1, delta: float = 0,
              borderType: int = BORDER_DEFAULT) -> Numbers:
    """cv2.Laplacian: the sum of the second derivatives; with ksize 1, of the 4 nearest neighbours."""
    _check(src, ddepth, borderType, dst)
    if ksize % 2 == 0 or not 1 <= ksize <= 31:
        raise ArgumentError(f"ksize={ksize}: it is odd, from 1 to 31")
    return _apply(src, ddepth, _laplacian_plane, (ksize, real("scale", scale)), (-1, -1), delta, borderType, dst, skips=ksize <= 3)
