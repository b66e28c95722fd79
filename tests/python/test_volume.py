# SPDX-License-Identifier: MIT
"""gconv.volume(), deconvolve() of volumes, and local statistics by filter()."""
import pickle
import unittest

from helper import gconv, np

try:
    from scipy import ndimage
except ImportError:
    ndimage = None


class Volume(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)
        self.array = self.random.normal(0, 1, (9, 12, 14)).astype(np.float32)

    @unittest.skipIf(ndimage is None, "SciPy is not installed")
    def test_filters(self):
        taps = self.random.normal(0, 1, (3, 2, 4))
        double = self.array.astype(float)
        for array in (self.array, double, np.asfortranarray(self.array), self.array[::-1]):
            np.testing.assert_allclose(gconv.volume(array, taps), ndimage.correlate(array.astype(float), taps, mode="constant"), atol=2e-5)
        made = gconv.volume(self.array, "gaussian:sigma=1x2x1,truncate=4", border="symmetric", stride=(2, 1, 3))
        np.testing.assert_allclose(made, ndimage.gaussian_filter(double, (1, 2, 1))[::2, :, ::3], atol=1e-5)
        levels = self.random.integers(0, 256, (5, 6, 7, 3)).astype(np.uint8)
        made = gconv.volume(levels, "box:size=3", border="replicate")
        self.assertEqual((made.dtype, made.shape), (np.uint8, levels.shape))
        wanted = ndimage.uniform_filter(levels[..., 1].astype(float), 3, mode="nearest")
        np.testing.assert_allclose(made[..., 1], np.rint(wanted), atol=1)
        self.assertEqual(gconv.volume(levels[..., 0], "box", dtype="float32").dtype, np.float32)

    def test_holes_and_refusals(self):
        holes = np.full((5, 6, 7), 4, np.float32)
        holes[2, 3, 3] = np.nan
        np.testing.assert_allclose(gconv.volume(holes, "gaussian:sigma=1", nan="fill"), 4, rtol=1e-6)
        self.assertEqual(np.isnan(gconv.volume(holes, "gaussian:sigma=1", nan="skip")).sum(), 1)
        weights = np.ones((6, 7))
        weights[3, 3] = 0
        holes[2, 3, 3] = 1e6
        np.testing.assert_allclose(gconv.volume(holes, "box", weights=weights), 4, rtol=1e-6)
        for wrong in ((holes[0], "box"), (holes, "median"), (holes, np.ones((2, 2))), (holes, "box", {"stride": (1, 2)}),
                      (holes, "box", {"weights": np.ones(3)}), (holes, "box", {"border": "none"})):
            with self.assertRaises((ValueError, NotImplementedError)):
                gconv.volume(*wrong[:2], **(wrong[2] if len(wrong) > 2 else {}))

    def test_deconvolve(self):
        psf = np.exp(-((np.indices((5, 5, 5)) - 2) ** 2).sum(0) / 2)
        true = np.zeros((12, 20, 22), np.float32)
        true[6, 10, 11] = 100
        blurred = gconv.volume(true, psf / psf.sum()) + np.float32(1)
        made, told = gconv.deconvolve(blurred, psf, iterations=15, info=True)
        self.assertEqual((made.shape, told["psf_centre"]), (true.shape, (2, 2, 2)))
        self.assertEqual(np.unravel_index(made.argmax(), made.shape), (6, 10, 11))
        self.assertGreater(made.max(), 2 * blurred.max())
        self.assertAlmostEqual(made.sum() / blurred.sum(), 1, delta=0.01)

    def test_local_statistics(self):
        image = (self.random.normal(0, 1, (30, 40)) + 1e5).astype(np.float32)
        window = image[5:10, 10:15].astype(float)
        self.assertAlmostEqual(float(gconv.filter(image, "std:size=5")[7, 12]), window.std(), delta=1e-6)
        self.assertAlmostEqual(float(gconv.filter(image, "variance:size=5")[7, 12]), window.var(), delta=1e-6)
        self.assertAlmostEqual(float(gconv.filter(image, "contrast:size=5")[7, 12]), (window[2, 2] - window.mean()) / window.std(), delta=1e-5)
        plan = gconv.Plan("std:size=5", image.shape, image.dtype)
        for again in (plan, pickle.loads(pickle.dumps(plan))):
            np.testing.assert_array_equal(again(image), gconv.filter(image, "std:size=5"))
            self.assertIn("std:size=5", repr(again))
        self.assertAlmostEqual(float(gconv.filter(image, "std:size=5")[0, 0]), image[:3, :3].astype(float).std(), delta=1e-6)
        with self.assertRaises(ValueError):
            gconv.filter(image, "std:sigma=1")


if __name__ == "__main__":
    unittest.main()
