# SPDX-License-Identifier: MIT
"""gconv.filter() with samples that are missing: as astropy.convolution.convolve() defines it, in float64."""
import unittest

from helper import LONG, gconv, np

import scipy.ndimage as ndimage

BORDERS = {"zero": "constant", "replicate": "nearest", "wrap": "wrap"}


def interpolate(image, kernel, border):
    """astropy's nan_treatment="interpolate", of its kernels that are normalised: NaN leaves the sum, and the weights."""
    there = np.isfinite(image)
    total = ndimage.convolve(np.where(there, image, 0).astype(float), kernel.astype(float), mode=BORDERS[border])
    weight = ndimage.convolve(there.astype(float), kernel.astype(float), mode=BORDERS[border], cval=1)
    none = ndimage.convolve(there.astype(int), (kernel != 0).astype(int), mode=BORDERS[border], cval=1) == 0
    return np.where(none, np.nan, total / np.where(none, 1, weight))


class Holes(unittest.TestCase):
    def test_random_calls_agree_with_the_definition(self):
        random = np.random.default_rng(45)
        for case in range(2000 if LONG else 300):
            rows, columns = random.integers(0, 6, 2) * 2 + 1
            kernel = (random.random((rows, columns)) + 0.01).astype(np.float32)
            image = (random.normal(0, 1, random.integers(3, 60, 2)) * 10 ** random.uniform(-2, 2)).astype(np.float32)
            image[random.random(image.shape) < random.choice([0, 0.01, 0.3])] = np.nan
            border = str(random.choice(list(BORDERS)))
            preserve = bool(random.integers(2))
            algorithm = str(random.choice(["auto", "direct", "fft"]))
            wanted = interpolate(image, kernel, border)
            if preserve:
                wanted[np.isnan(image)] = np.nan
            result = gconv.filter(image, kernel, border=border, flip=True, nan="skip" if preserve else "fill",
                                  scale=1 / float(kernel.astype(float).sum()), algorithm=algorithm, least_weight=1e-30)
            np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted), str(case))
            size = np.nanmax(np.abs(image), initial=1e-9)
            np.testing.assert_allclose(result, wanted, rtol=0, atol=1.5e-6 * size, err_msg=f"{case} {algorithm}")

    def test_where_astropy_was_wrong(self):
        image = np.ones((20, 20), np.float32)
        np.testing.assert_allclose(gconv.filter(image, np.ones((3, 3)) / 9, nan="fill"), 1, atol=1e-6)  # corners were 0.444
        image[5:12, 5:12] = np.nan
        for algorithm in "direct", "fft":  # of holes larger than the kernel, convolve_fft() made zeros
            result = gconv.filter(image, np.ones((3, 3)) / 9, nan="fill", algorithm=algorithm)
            self.assertTrue(np.isnan(result[6:11, 6:11]).all())
            self.assertEqual(np.isnan(result).sum(), 25)
            np.testing.assert_allclose(result[~np.isnan(result)], 1, atol=1e-6)
        image[15, 15] = np.inf  # it spread in one function, and was NaN in the other
        self.assertTrue(np.isfinite(gconv.filter(image, "gaussian:sigma=4", nan="fill")).all())
        with self.assertRaisesRegex(gconv.ArgumentError, "sums to 0"):
            gconv.filter(image, "sobel_x", nan="fill")

    def test_weights_nodata_and_types(self):
        random = np.random.default_rng(1)
        image = random.integers(1, 255, (30, 40)).astype(np.uint8)
        weights = random.random((30, 40))
        wanted = ndimage.correlate(image * weights, np.ones((5, 5)), mode="constant")
        wanted /= ndimage.correlate(weights, np.ones((5, 5)), mode="constant")
        result = gconv.filter(image, np.full((5, 5), 0.04), weights=weights)
        self.assertLessEqual(np.abs(result - np.rint(wanted)).max(), 1)
        image[3:9, 4:8] = 0
        result = gconv.filter(image, np.full((5, 5), 0.04), nodata=0)
        self.assertTrue((result[3:9, 4:8] == 0).all())
        wide = gconv.filter(np.where(image == 0, np.nan, image), np.full((5, 5), 0.04), nan="skip")
        self.assertEqual(wide.dtype, np.float64)
        self.assertLessEqual(np.abs(np.nan_to_num(wide) - result).max(), 0.5001)
        with self.assertRaisesRegex(gconv.ArgumentError, "each pixel has a weight"):
            gconv.filter(image, "box", weights=np.ones((3, 3)))


if __name__ == "__main__":
    unittest.main()
