# SPDX-License-Identifier: MIT
"""The program against scipy.ndimage and scipy.signal, which compute in float64."""
import unittest

import numpy as np
from scipy import ndimage, signal

from peer import gconv

MODES = {"zero": "constant", "constant:0.25": "constant", "replicate": "nearest", "symmetric": "reflect",
         "reflect101": "mirror", "wrap": "wrap"}
SIZES = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2, 5), (1, 9), (9, 1), (11, 10)]


class ScipyTest(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)

    def taps(self, size):
        return self.random.uniform(-1, 1, size).astype(np.float32)

    def near(self, got, expected, taps, largest=1.0):
        """float32 sums are within a rounding a tap of the true ones."""
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.dtype, np.float32)
        bound = (taps.size + 4) * 2.0**-24 * np.abs(taps).sum() * largest
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound)

    def test_float_borders_and_sizes(self):
        image = self.random.random((17, 14), np.float32)
        for size in SIZES:
            taps = self.taps(size)
            for border, mode in MODES.items():
                for flip, function in [((), ndimage.correlate), (("--flip",), ndimage.convolve)]:
                    with self.subTest(size=size, border=border, flip=flip):
                        value = 0.25 if ":" in border else 0
                        expected = function(image.astype(float), taps.astype(float), mode=mode, cval=value)
                        self.near(gconv(image, taps, "--border", border, *flip), expected, taps)

    def test_bytes(self):
        image = self.random.integers(0, 256, (19, 23), np.uint8)
        for size in SIZES:
            taps = self.taps(size)
            taps /= np.abs(taps).sum()
            for border, mode in MODES.items():
                with self.subTest(size=size, border=border):
                    expected = ndimage.correlate(image.astype(float), taps.astype(float), mode=mode,
                                                 cval=0.25 * 255 if ":" in border else 0)
                    got = gconv(image, taps, "--border", border)
                    self.assertEqual(got.dtype, np.uint8)
                    self.assertLess(np.abs(got - np.clip(expected, 0, 255)).max(), 0.5 + 1e-3)

    def test_filters_larger_than_the_image(self):
        image = self.random.random((3, 2), np.float32)
        pads = {"replicate": "edge", "symmetric": "symmetric", "reflect101": "reflect", "wrap": "wrap"}
        taps = self.taps((11, 13))
        for border, pad in pads.items():
            with self.subTest(border=border):
                padded = np.pad(image.astype(float), ((5, 5), (6, 6)), mode=pad)
                expected = signal.correlate2d(padded, taps.astype(float), mode="valid")
                self.near(gconv(image, taps, "--border", border), expected, taps)

    def test_valid_and_full(self):
        image = self.random.random((12, 9), np.float32)
        for size in SIZES:
            taps = self.taps(size)
            for padding in ["valid", "full"]:
                if padding == "valid" and (size[0] > 12 or size[1] > 9):
                    continue
                with self.subTest(size=size, padding=padding):
                    plain, kernel = image.astype(float), taps.astype(float)
                    for flip, turned in [((), kernel), (("--flip",), kernel[::-1, ::-1])]:
                        inside = padding == "valid"
                        expected = self.inside(plain, turned) if inside else signal.correlate2d(plain, turned)
                        self.near(gconv(image, taps, "--padding", padding, *flip), expected, taps)

    @staticmethod
    def inside(image, taps):
        """scipy's `valid` swaps image and filter where that is larger along an axis; the windows do not."""
        windows = np.lib.stride_tricks.sliding_window_view(image, taps.shape)
        return np.einsum("pqrs,rs->pq", windows, taps)

    def test_what_is_not_finite_spreads_no_further_than_the_taps(self):
        """Through transforms it would, over a whole tile. Where sums are infinite, or neither, all must agree."""
        image = self.random.normal(size=(300, 900, 3)).astype("f4")
        image[0, 0], image[150, 444, 1], image[299, 899, 2], image[40:90, 300:320] = np.nan, np.nan, np.nan, np.nan
        taps = self.taps((21, 2)) @ self.taps((2, 19))  # of rank 2, as separable wants it
        for border in ("zero", "symmetric"):
            expected = np.dstack([ndimage.correlate(image[..., c].astype(float), taps.astype(float), mode=MODES[border])
                                  for c in range(3)])
            for algorithm in ("direct", "sparse", "separable", "fft", "im2col"):
                with self.subTest(border=border, algorithm=algorithm):
                    got = gconv(image, taps, "--border", border, "-d", "cpu", "-a", algorithm)
                    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
                    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-3)
        image[200, 100:103], image[230, 600, 0], image[236, 610, 0] = (np.inf, -np.inf, 1e30), np.inf, 1e37
        exact, got = (gconv(image, taps, "-d", "cpu", "-a", algorithm).astype(float) for algorithm in ("direct", "fft"))
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-3)

    def test_colour_planes_are_filtered_one_by_one(self):
        image, taps = self.random.random((10, 11, 3), np.float32), self.taps((4, 3))
        planes = [image[..., c].astype(float) for c in range(3)]
        expected = np.dstack([ndimage.convolve(plane, taps.astype(float), mode="wrap") for plane in planes])
        self.near(gconv(image, taps, "--border", "wrap", "--flip"), expected, taps)


if __name__ == "__main__":
    unittest.main()
