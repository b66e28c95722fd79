# SPDX-License-Identifier: MIT
"""Numbers of images: stats()."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._arguments import real, whole
from ._arrays import host

__all__ = ["stats"]


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
