# SPDX-License-Identifier: MIT
"""stats(): statistics of images; deconvolve(): undoes blur; volume(): filters of three dimensions."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._arguments import choose, flag, is_for, real, whole
from ._arrays import floats, host, warn_of_rounding
from ._errors import ArgumentError
from ._filter import filter_options
from ._filters import Filters, resolve
from ._types import Border, Kernel, Nan, Range

__all__ = ["deconvolve", "stats", "volume"]

METHODS = {"rl": 0, "wiener": 1}


def given_image(image):
    """Returns a path, or a contiguous NumPy array."""
    if isinstance(image, (str, bytes, os.PathLike)):
        return os.fspath(image)
    return np.require(host(image), requirements=["C", "ALIGNED"])


def stats(image: Any, *, percentiles: Sequence[float] = (1, 50, 99), max_pixels: int = 0) -> dict[str, Any]:
    """Statistics of an image: a dict with a dict for each channel and, if there are several colours, "all" for all of them.

    image: a path, or an array H x W or H x W x C of uint8, uint16 or float32.
    percentiles: up to 16, from 0 to 100, interpolated as numpy.percentile() does.
    Each channel has count, missing (NaN, infinities and no data, which count nowhere else), mean, std, min, max, black and
    white (shares of samples at the ends of the range), noise (Immerkaer), noise_mad (Donoho), focus (the variance of the
    Laplacian, border reflect101), percentiles, and histogram (256 bins over histogram_range). The image also has
    "white_level" and "histogram_range".
    """
    channels, white, span = _core.stats(given_image(image), [real("percentiles", one) for one in percentiles],
                                        whole("max_pixels", max_pixels, 0, 2 ** 63))
    found: dict[str, Any] = {one.pop("channel"): one for one in channels}
    found["white_level"] = white
    found["histogram_range"] = span
    return found


def _planes_of(taps):
    """Returns the planes of K x R x S taps as Filters."""
    taps = floats(taps, "a kernel of K x R x S taps")
    if taps.ndim != 3 or taps.size == 0:
        raise ArgumentError(f"a kernel in three dimensions is a name, or K x R x S taps, and this has the shape {taps.shape}")
    return Filters([resolve(plane)[0] for plane in taps])


def _volume_of(array):
    """Checks an array Z x H x W, or Z x H x W x C of up to 4 channels. Returns it as uint8, uint16 or float32."""
    values = np.asarray(host(array))
    if values.ndim not in (3, 4) or values.size == 0 or values.ndim == 4 and values.shape[3] > 4:
        raise ArgumentError(f"a volume is an array Z x H x W, or Z x H x W x C of up to 4 channels, and this is {values.shape}")
    warn_of_rounding(values)
    return np.ascontiguousarray(values, values.dtype if values.dtype.name in ("uint8", "uint16") else np.float32)


def _three(name, value, check):
    values = (value,) * 3 if np.ndim(value) == 0 else tuple(value)
    if len(values) != 3:
        raise ArgumentError(f"{name}={value!r}: give one number, or three, (z, y, x)")
    return [check(name, one) for one in values]


def deconvolve(image: Any, psf: Kernel, *, method: str = "rl", iterations: int = 0, accelerate: bool = False, tv: float = 0.0,
               stop: float = 0.0, noise: float = 0.0, info: bool = False, device: str = "cpu") -> Any:
    """Undoes the blur by a point spread function. Returns a float32 array of the shape of the image, in the units of a
    float image; if the image has integers, 1 is white.

    image: H x W or H x W x C (the last of 2 or 4 is alpha, which stays); each colour is restored by itself. psf: taps, or a
        kernel as for filter() that is one filter; it is divided by its sum, and centred at its centre of mass. With taps K
        x R x S, the image is a volume, Z x H x W.
    method: "rl", Richardson-Lucy, for counts, or "wiener". iterations: of rl, at most; 0: 20. accelerate: extrapolate from
        previous steps (Biggs and Andrews). tv: the weight of total variation, such as 0.002. stop: when an iteration
        changes less than this share. noise: of wiener, the ratio of the power of noise to that of the image; 0: 0.01.
    device: "cpu", or a GPU, "cuda". NaN are missing samples, which rl fills. Edges and flux: docs/guide.md. info=True:
    returns (array, dict) with iterations, change, flux, psf_sum, psf_centre, negative, missing.
    """
    filters = _planes_of(psf) if np.ndim(psf) == 3 else resolve(psf)
    if len(filters) != 1 and np.ndim(psf) != 3:
        raise ArgumentError(f"psf: {len(filters)} filters: a point spread function is one")
    given = _volume_of(image) if len(filters) > 1 else given_image(image)
    if not hasattr(given, "shape") or given.ndim not in (2, 3) and len(filters) == 1:
        raise ArgumentError("image: give an array H x W or H x W x C")
    info = flag("info", info)
    options = {"method": choose("method", method, METHODS), "iterations": whole("iterations", iterations),
               "accelerated": flag("accelerate", accelerate), "total_variation": real("tv", tv),
               "change": real("stop", stop), "noise": real("noise", noise)}
    for name, value in (("iterations", iterations), ("accelerate", accelerate), ("tv", tv), ("stop", stop)):
        is_for(name, value, method == "rl", 'method="rl": "wiener" has no iterations')
    is_for("noise", noise, method == "wiener", 'method="wiener"')
    found, told = _core.deconvolve(given, [one._as_tuple() for one in filters], options, str(device))
    result = found.reshape(given.shape)
    return (result, told) if info else result


def volume(array: Any, kernel: Any, *, border: Border | None = None, border_value: float = 0.0, stride: Any = 1, spacing: Any = 0,
           flip: bool = False, dtype: Any = None, scale: float = 1.0, offset: float = 0.0, range: Range = "clamp",
           algorithm: str = "auto", nan: Nan = "keep", weights: Any = None, preserve_nan: bool = False, nodata: float | None = None,
           least_weight: float | None = None, device: str = "cpu") -> Any:
    """Filters a volume: an array Z x H x W, or Z x H x W x C of up to 4 channels.

    array: uint8 and uint16 are filtered directly, other types are converted to float32.
    kernel: K x R x S taps, or a name: "gaussian:sigma=2", "gaussian:sigma=1x2x2" (z, y, x), also with order=0x0x1 (a
        derivative) and truncate=4; "box:size=3", "sobel" or "gradient" (magnitudes), "sobel_x", "derivative_z", "laplacian",
        "log:sigma=2", "dog:sigma1=1", or the path of a .npy file of taps. Lengths may be in "um", by the spacing.
    stride, spacing: one number, or three, (z, y, x). spacing: micrometres between voxels. weights: Z x H x W, or H x W.
    Other options are those of filter(); the border holds along z, too. device: "cpu", or a GPU, "cuda". Returns a NumPy
    array. gconv.ndimage has scipy.ndimage's functions, for arrays of any number of dimensions.
    """
    values, strides = _volume_of(array), _three("stride", stride, lambda name, one: whole(name, one, 1))
    filters = str(kernel) if isinstance(kernel, (str, os.PathLike)) else [one._as_tuple() for one in _planes_of(kernel)]
    seen = None if weights is None else np.ascontiguousarray(host(weights), np.float32)
    if seen is not None and (seen.ndim not in (2, 3) or seen.size == 0):
        raise ArgumentError("weights= is an array of numbers, Z x H x W or H x W")
    options = filter_options(Filters([]), border=border, border_value=border_value, stride=tuple(strides[1:]), flip=flip, dtype=dtype,
                             combine="none", scale=scale, offset=offset, range=range, algorithm=algorithm, nan=nan,
                             weights=None if seen is None else seen.reshape(-1, seen.shape[-1]), preserve_nan=preserve_nan,
                             nodata=nodata, least_weight=least_weight)
    if seen is not None:
        options["weights"] = seen.reshape(-1, *seen.shape[-2:])
    spacing = _three("spacing", spacing, real)
    if not all(0 <= one < np.inf for one in spacing):
        raise ArgumentError(f"spacing={spacing!r}: micrometres between voxels are above 0, or 0 where they are unknown")
    return _core.filter_volume(values, filters, {**options, "stride_z": strides[0]}, spacing, str(device))
