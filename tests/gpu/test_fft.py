# SPDX-License-Identifier: MIT
"""fft on a GPU with samples or sums that are not finite, in tiles and in lines: each output is finite where the definition's is,
and near it. The definition is direct on the CPU."""
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
SHAPES = ((15, 15), (63, 63), (101, 101), (2, 171), (171, 2))  # tiles of 64, 128 and 160 points, and lines
BOUND = 2.7e-5  # of (sum of |tap|) * largest sample


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Fft(CommandTest):
    def setUp(self):
        super().setUp()
        self.lot = numpy.random.default_rng(1)

    def compare(self, image, filters, *words):
        """Filters an image by fft on the GPU and by direct on the CPU, compares the results, and returns the latter."""
        numpy.save(self.folder / "in.npy", image)
        for i, taps in enumerate(filters):
            numpy.save(self.folder / f"taps{i}.npy", taps.astype(numpy.float32))
        taken = [word for i in range(len(filters)) for word in ("-f", f"taps{i}.npy")]
        for device, algorithm in (("cpu", "direct"), ("cuda", "fft")):
            self.gconv("-i", "in.npy", *taken, "-d", device, "-a", algorithm, "-o", f"{device}/", "--format", "npy", "--depth", "float",
                       *words)
        largest = float(numpy.abs(image[numpy.isfinite(image)]).max()) * max(float(numpy.abs(taps).sum()) for taps in filters)
        names = self.files("cpu")
        self.assertEqual(names, self.files("cuda"))
        for name in names:
            made, expected = (numpy.load(self.folder / device / name) for device in ("cuda", "cpu"))
            finite = numpy.isfinite(expected)
            what = f"{[taps.shape for taps in filters]} {words}"
            numpy.testing.assert_array_equal(numpy.isfinite(made), finite, what)
            if image.dtype == numpy.float32:
                difference = numpy.abs(made[finite].astype(float) - expected[finite])
                self.assertLess(float(difference.max()), BOUND * largest, what)
        for device in ("cuda", "cpu"):
            shutil.rmtree(self.folder / device)
        return expected

    def test_samples_that_are_not_finite(self):
        for shape in SHAPES:
            image = self.lot.random((320, 640), dtype=numpy.float32)
            image[150, 250], image[10, 635], image[319, 3] = numpy.nan, numpy.inf, -numpy.inf
            taps = [self.lot.random(shape) + 0.1 for _ in range(2)]
            expected = self.compare(image, taps[:1])
            self.assertTrue(0 < (~numpy.isfinite(expected)).sum() <= 3 * shape[0] * shape[1])
            self.compare(image, taps, "--combine", "none", "--border", "wrap")
            self.compare(image, taps, "--combine", "max", "--border", "reflect101")

    def test_finite_samples_whose_spectrum_overflows(self):
        wave = numpy.cos(numpy.arange(640) * (2 * numpy.pi / 64))
        for shape in SHAPES:
            image = numpy.broadcast_to(1e36 * wave, (320, 640)).astype(numpy.float32)
            taps = self.lot.random(shape)
            expected = self.compare(image, [taps * 50 / taps.sum()], "--border", "wrap")
            self.assertTrue(numpy.isfinite(expected).all())

    def test_results_that_overflow_beside_others(self):
        for shape in SHAPES:
            image = self.lot.random((320, 640), dtype=numpy.float32)
            image[150, 250] = 1e37
            expected = self.compare(image, [self.lot.uniform(100, 200, shape)])
            self.assertEqual(int((~numpy.isfinite(expected)).sum()), shape[0] * shape[1])


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
