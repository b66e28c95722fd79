# SPDX-License-Identifier: MIT
"""gconv deconvolve on a GPU: near float64, and near the CPU with all options."""
import pathlib
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest
from test_deconvolve import lucy

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Restore(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(5)

    def make(self, shape, size, holes=False):
        """An image of counts and a PSF off its centre, as files."""
        psf = np.exp(-sum((axis - n / 3) ** 2 for axis, n in zip(np.indices(size), size)) / 4).astype(np.float32)
        image = self.random.poisson(60, shape).astype(np.float32)
        if holes:
            image[self.random.random(shape) < 0.02] = np.nan
        np.save(self.folder / "y.npy", image)
        np.save(self.folder / "psf.npy", psf)
        return image, psf

    def restore(self, device, *words):
        said = self.gconv("deconvolve", "y.npy", "--psf", "psf.npy", "-d", device, "-o", f"{device}.npy", *words).stderr
        return np.load(self.folder / f"{device}.npy"), said

    def test_richardson_lucy_is_that_of_float64(self):
        for shape, size in (((60, 71), (9, 7)), ((41, 300), (12, 2)), ((270, 33), (1, 5)), ((11, 24, 18), (5, 6, 3)),
                            ((2, 9, 31), (4, 3, 7)), ((37, 8, 9), (3, 3, 2))):
            image, psf = self.make(shape, size, holes=True)
            for count in 1, 10:
                want = lucy(image.astype(float), psf.astype(float), count)
                np.testing.assert_allclose(self.restore("cuda", "-n", count)[0], want, atol=3e-5 * want.max(), err_msg=(shape, count))

    def test_options_are_those_of_the_cpu(self):
        for shape, size in (((160, 201), (9, 7)), ((64, 55, 3), (6, 5)), ((20, 64, 55), (5, 6, 3)), ((1100, 1300), (32, 32))):
            self.make(shape, size, holes=True)
            for words in (("-n", 6), ("-n", 8, "--accelerate"), ("-n", 5, "--tv", "0.01"), ("-n", 5, "--accelerate", "--tv", "0.002"),
                          ("-n", 50, "--stop", "0.02"), ("--method", "wiener"), ("--method", "wiener", "--noise", "0.1")):
                made, want = (self.restore(device, *words)[0] for device in ("cuda", "cpu"))
                self.assertGreater(want.max(), 60)
                np.testing.assert_allclose(made, want, atol=1e-4 * want.max(), err_msg=(shape, words))

    def test_what_is_told(self):
        self.make((60, 70), (5, 5), holes=True)
        lines = [[line.split() for line in self.restore(device, "-n", "4", "-v")[1].splitlines() if "deviance" in line]
                 for device in ("cuda", "cpu")]
        self.assertEqual(len(lines[0]), 4)
        for made, want in zip(*lines):
            for at in -1, -3, -5:  # deviance, flux, change
                self.assertAlmostEqual(float(made[at].strip(",")) / float(want[at].strip(",")), 1, delta=0.01)
        self.make((2, 30000), (3, 3))
        refused = self.gconv("deconvolve", "y.npy", "--psf", "psf.npy", "-d", "cuda", "-o", "r.npy", status=1)
        self.assertIn("take the device cpu", refused.stderr)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
