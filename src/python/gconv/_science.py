# SPDX-License-Identifier: MIT
"""Numbers of images: stats(); blur undone: deconvolve()."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._arguments import choose, real, whole
from ._arrays import host
from ._errors import ArgumentError
from ._filters import resolve
from ._types import Kernel

__all__ = ["deconvolve", "stats"]

METHODS = {"rl": 0, "wiener": 1}


def given_image(image):
    """A path, or an array of NumPy with contiguous rows."""
    if isinstance(image, (str, bytes, os.PathLike)):
        return os.fspath(image)
    return np.require(host(image), requirements=["C", "ALIGNED"])


def stats(image: Any, *, percentiles: Sequence[float] = (1, 50, 99), max_pixels: int = 0) -> dict[str, Any]:
    """The numbers of an image: a dict of channels, each a dict, and, of several colours, "all" for them together.

    image: a path, or an array H x W or H x W x C of uint8, uint16 or float32.
    percentiles: up to 16, from 0 to 100, interpolated as numpy.percentile() does.
    Each channel has count, missing (NaN, infinities and no data, which all else leaves out), mean, std, min, max, black and
    white (shares of samples at the ends of the range), noise (Immerkaer), noise_mad (Donoho), focus (the variance of the
    Laplacian, border reflect101), percentiles, and histogram (256 bins over histogram_range).
    "white_level" and "histogram_range" are of the image.
    """
    channels, white, span = _core.stats(given_image(image), [real("percentiles", one) for one in percentiles],
                                        whole("max_pixels", max_pixels, 0, 2 ** 63))
    found: dict[str, Any] = {one.pop("channel"): one for one in channels}
    found["white_level"] = white
    found["histogram_range"] = span
    return found


def deconvolve(image: Any, psf: Kernel, *, method: str = "rl", iterations: int = 0, accelerate: bool = False, tv: float = 0.0,
               stop: float = 0.0, noise: float = 0.0, info: bool = False) -> Any:
    """Undoes the blur by a point spread function. Returns an array of float32 of the shape of the image, in its units: of
    integers, 1 is white.

    image: H x W or H x W x C (the last of 2 or 4 is alpha, which stays); each colour is restored by itself. psf: taps, or
        what filter() takes for one filter; it is divided by its sum, and centred at its centre of mass.
    method: "rl", Richardson-Lucy, for counts, or "wiener". iterations: of rl, at most; 0: 20. accelerate: by the steps
        before (Biggs and Andrews). tv: the weight of total variation, such as 0.002. stop: when an iteration changes less
        than this share. noise: of wiener, the ratio of the power of noise to that of the image; 0: 0.01.
    NaN is missing: rl fills it. Edges and flux: docs/guide.md. info=True: returns (array, dict) with iterations, change,
    flux, psf_sum, psf_centre, negative, missing.
    """
    filters = resolve(psf)
    if len(filters) != 1:
        raise ArgumentError(f"psf: {len(filters)} filters: a point spread function is one")
    given = given_image(image)
    if not hasattr(given, "shape") or given.ndim not in (2, 3):
        raise ArgumentError("image: give an array H x W or H x W x C")
    found, told = _core.deconvolve(given, [filters[0]._as_tuple()],
                                   {"method": choose("method", method, METHODS), "iterations": whole("iterations", iterations),
                                    "accelerated": bool(accelerate), "total_variation": real("tv", tv),
                                    "change": real("stop", stop), "noise": real("noise", noise)})
    result = found.reshape(given.shape)
    return (result, told) if info else result
