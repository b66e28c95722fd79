# SPDX-License-Identifier: MIT
"""What the tests of the Python package share: the package of the build folder, and images."""
import glob
import os
import sys

SKIPPED = 77
LONG = bool(os.environ.get("GCONV_LONG_TESTS"))

if os.environ.get("GCONV_PYTHON_PACKAGE"):  # the folder of a build; else the package that is installed
    folder = os.environ["GCONV_PYTHON_PACKAGE"]
    if not glob.glob(os.path.join(folder, "gconv", "_core*.so")):
        print(f"skipped: the build has no Python package, as {sys.executable} has no nanobind or no headers, or it was not wanted")
        sys.exit(SKIPPED)
    sys.path.insert(0, folder)

import numpy as np  # noqa: E402

import gconv  # noqa: E402,F401

TYPES = (np.uint8, np.uint16, np.float32)


def draw_image(random, shape, dtype):
    """Numbers from black to white."""
    if np.dtype(dtype).kind == "f":
        return random.random(shape).astype(dtype)
    if np.dtype(dtype) == bool:
        return random.random(shape) < 0.5
    return random.integers(0, min(np.iinfo(dtype).max, 65535) + 1, shape).astype(dtype)


def draw_kernel(random, rows, columns):
    """Coefficients that sum up to 1 or so."""
    taps = random.normal(size=(rows, columns))
    return (taps / np.abs(taps).sum()).astype(np.float32)


def round_to(dtype, values):
    """What a sample of an integer type becomes: rounded to nearest even, saturated."""
    if np.dtype(dtype).kind == "f":
        return values
    return np.clip(np.rint(values), np.iinfo(dtype).min, np.iinfo(dtype).max)
