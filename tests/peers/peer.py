# SPDX-License-Identifier: MIT
"""Runs the gconv program on arrays: what the tests in this folder compare with other libraries."""
import os
import subprocess
import tempfile

import numpy as np

GCONV = os.environ["GCONV"]
BORDERS = ["zero", "replicate", "symmetric", "reflect101", "wrap"]


def gconv(image, taps, *options):
    """The output for an array H x W or H x W x C. `taps` is an array, or the name of a built-in filter."""
    with tempfile.TemporaryDirectory() as folder:
        source, kernel, target = (os.path.join(folder, name) for name in ["in.npy", "taps.npy", "out.npy"])
        np.save(source, image)
        if not isinstance(taps, str):
            np.save(kernel, np.asarray(taps, np.float32))
            taps = kernel
        command = [GCONV, "-i", source, "-f", taps, "-o", target, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        return np.load(target)
