# SPDX-License-Identifier: MIT
"""gconv volume on a GPU: direct has the bytes of the CPU, other algorithms are near it."""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
FILTERS = ("gaussian:sigma=1x2x1.5", "box:size=3x5x2", "laplacian", "sobel", "log:sigma=1", "dog:sigma1=1", "sobel_z", "taps.npy", "plane.npy")
BORDERS = ("zero", "constant:2", "replicate", "symmetric", "reflect101", "wrap")


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Volume(CommandTest):
    def setUp(self):
        super().setUp()
        self.lot = numpy.random.default_rng(3)
        numpy.save(self.folder / "taps.npy", self.lot.normal(0, 1, (3, 4, 5)).astype("f4"))
        numpy.save(self.folder / "plane.npy", self.lot.normal(0, 1, (2, 1, 1)).astype("f4"))
        for name, shape in (("small", (13, 17, 23)), ("tall", (90, 33, 40)), ("two", (2, 5, 64))):
            numpy.save(self.folder / f"{name}.npy", self.lot.normal(0, 1, shape).astype("f4"))
        numpy.save(self.folder / "levels.npy", self.lot.integers(0, 65536, (40, 31, 29)).astype("u2"))

    def compare(self, name, *words, atol=2e-5):
        for device in "cpu", "cuda":
            self.gconv("volume", f"{name}.npy", "-d", device, "-o", f"{device}.npy", *words)
        made, expected = (numpy.load(self.folder / f"{device}.npy").astype(float) for device in ("cuda", "cpu"))
        if "direct" in words:
            numpy.testing.assert_array_equal(made, expected, str((name, words)))
        numpy.testing.assert_allclose(made, expected, rtol=0, atol=atol, err_msg=str((name, words)))

    def test_filters_borders_and_types(self):
        for number, spec in enumerate(FILTERS):
            border = BORDERS[number % len(BORDERS)]
            for name in ("small", "tall") if number % 2 else ("tall", "two"):
                self.compare(name, "-f", spec, "--border", border, "--algorithm", "direct")
            self.compare("tall", "-f", spec, "--border", BORDERS[(number + 3) % len(BORDERS)])
            self.compare("levels", "-f", spec, "--border", "replicate", "--range", "abs", "--algorithm", "direct")

    def test_strides_slabs_and_holes(self):
        self.compare("tall", "-f", "gaussian:sigma=2", "--stride", "3x2x1", "--algorithm", "direct")
        self.compare("tall", "-f", "gaussian:sigma=2", "--memory", "4M", "--border", "symmetric", "--algorithm", "direct")
        holes = numpy.load(self.folder / "tall.npy")
        holes[self.lot.random(holes.shape) < 0.2] = numpy.nan
        numpy.save(self.folder / "tall.npy", holes)
        self.compare("tall", "-f", "gaussian:sigma=1", "--nan", "skip", "--algorithm", "direct")
        self.compare("tall", "-f", "box:size=3", "--nan", "fill", "--border", "replicate")


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
