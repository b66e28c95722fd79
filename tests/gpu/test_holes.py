# SPDX-License-Identifier: MIT
"""--nan, --weights, --nodata, --border normalize on a GPU: verified against float64, and near to the CPU; direct has its bits."""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
SHAPES = ((2, 97), (12, 11), (37, 53), (130, 67, 3), (200, 333))
WAYS = ("direct", "separable", "fft", "auto")
BORDERS = ("normalize", "zero", "constant:2", "replicate", "symmetric", "reflect101", "wrap")
FILTERS = ("gaussian:sigma=2", "box:size=5", "gaussian:size=41,sigma=8", "[1 2 0 7]", "sharpen")


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Holes(CommandTest):
    def setUp(self):
        super().setUp()
        self.lot = numpy.random.default_rng(45)
        for kind in "f", "u":
            (self.folder / kind).mkdir()
        for number, shape in enumerate(SHAPES):
            floats = self.lot.normal(3, 1, shape).astype("f4")
            floats[self.lot.random(shape) < 0.1] = numpy.nan
            floats[shape[0] // 3:shape[0] // 2, shape[1] // 3:shape[1] // 2] = numpy.inf if number % 2 else numpy.nan
            numpy.save(self.folder / f"f/{number}.npy", floats)
            numpy.save(self.folder / f"u/{number}.npy", self.lot.integers(0, 256, shape).astype("u1"))

    def compare(self, folder, way, *words):
        """Filters a folder on both devices, the GPU's results verified. Results without a number are at the same places."""
        for device in "cuda", "cpu":
            self.gconv("-i", folder, "-d", device, "-a", "auto" if device == "cpu" and way != "direct" else way, "-o", f"{device}/",
                       "--format", "npy", *words, *(["--verify"] if device == "cuda" else []))
        self.assertEqual(self.files("cpu"), self.files("cuda"))
        self.assertGreater(len(self.files("cuda")), 3)
        for name in self.files("cuda"):
            made, expected = (numpy.load(self.folder / device / name).astype(float) for device in ("cuda", "cpu"))
            numpy.testing.assert_array_equal(numpy.isnan(made), numpy.isnan(expected), f"{way} {words}")
            if way == "direct":
                numpy.testing.assert_array_equal(made, expected, str(words))
            numpy.testing.assert_allclose(made, expected, rtol=0, atol=1 if folder == "u" else 1e-4, err_msg=f"{way} {words}")

    def test_ways_borders_and_kinds(self):
        number = 0
        for way in WAYS:
            for border in BORDERS:
                number += 1
                name = "gaussian:sigma=2" if way == "separable" else FILTERS[number % len(FILTERS)]
                nan = ("skip", "fill", "zero")[number % 3]
                self.compare("f", way, "-f", name, "--nan", nan, "--border", border, "--depth", "float")

    def test_no_data_strides_and_several_filters(self):
        for way in WAYS:
            self.compare("u", way, "-f", "gaussian:sigma=2", "--nodata", "7", "--nan", "fill", "--border", "replicate")
            strides = ("--stride", "2") if way not in ("fft", "separable") else ()
            self.compare("u", way, "-f", "gaussian:sigma=2", "--nodata", "200", *strides, "--depth", "float", "--scale", "2")
            several = ("-f", "gaussian:sigma=1", "--combine", "max") if way in ("direct", "auto") else ()
            self.compare("f", way, "-f", "gaussian:sigma=2", *several, "--nan", "skip", "--depth", "float")

    def test_weights(self):
        for number, shape in enumerate(SHAPES):
            numpy.save(self.folder / "w.npy", self.lot.integers(0, 3, shape[:2]).astype("u1"))
            numpy.save(self.folder / "w.npy", (numpy.load(self.folder / "w.npy") + (number == 0)).astype("f4"))
            for way in WAYS if number else ():
                words = ("-i", f"f/{number}.npy", "-f", "gaussian:sigma=2", "--weights", "w.npy", "--nan", "fill", "--depth", "float")
                self.gconv(*words, "-d", "cuda", "-a", way, "-o", "g.npy", "--verify")
                self.gconv(*words, "-d", "cpu", "-o", "c.npy")
                numpy.testing.assert_allclose(numpy.load(self.folder / "g.npy"), numpy.load(self.folder / "c.npy"), rtol=0, atol=1e-4)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
