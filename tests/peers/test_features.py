# SPDX-License-Identifier: MIT
"""Features of pixels against their formulas in float64, by scipy, and against scikit-image where it is installed."""
import itertools
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from PIL import Image
from scipy import ndimage

try:
    import vigra
except Exception:  # none here, or one that was built for another NumPy, which raises all sorts of errors
    vigra = None

FEATURES = os.environ["GCONV_FEATURES"]
EIGENVALUES = ("structure", "hessian", "texture")


def gaussian_taps(sigma, order):
    """vigra::Kernel1D::initGaussianDerivative() with windows of 3.5 sigma, as weights of a correlation."""
    radius = max(int(3.5 * sigma + 0.5), 1)
    x = np.arange(-radius, radius + 1.0)
    bell = np.exp(-x**2 / (2 * sigma**2))
    taps = [bell, x / sigma**2 * bell, (x**2 / sigma**2 - 1) / sigma**2 * bell][order]
    if order == 2:
        taps = taps - taps.mean()
    return taps / (taps * [1, x, x**2 / 2][order]).sum()


def derivative(image, sigma, y, x):
    image = ndimage.correlate1d(image, gaussian_taps(sigma, y), axis=0, mode="mirror")
    return ndimage.correlate1d(image, gaussian_taps(sigma, x), axis=1, mode="mirror")


def eigenvalues(yy, xy, xx):
    values = np.linalg.eigvalsh(np.stack([np.stack([yy, xy], -1), np.stack([xy, xx], -1)], -1))
    return [values[..., 1], values[..., 0]]


def formula(kind, sigma, image):
    """The features of a kind, in float64."""
    def d(y, x, s=sigma):
        return derivative(image, s, y, x)
    if kind == "gaussian":
        return [d(0, 0)]
    if kind == "log":
        return [d(2, 0) + d(0, 2)]
    if kind == "gradient":
        return [np.hypot(d(1, 0), d(0, 1))]
    if kind == "dog":
        return [d(0, 0) - d(0, 0, 0.66 * sigma)]
    if kind == "structure":
        dy, dx = d(1, 0), d(0, 1)
        return eigenvalues(*(derivative(p, sigma / 2, 0, 0) for p in (dy * dy, dx * dy, dx * dx)))
    if kind == "hessian":
        return eigenvalues(d(2, 0), d(1, 1), d(0, 2))
    smooth = ndimage.gaussian_filter(image, sigma, mode="nearest", truncate=4)
    if kind == "intensity":
        return [smooth]
    if kind == "edges":
        dy, dx = (ndimage.correlate1d(ndimage.correlate1d(smooth, [-1, 0, 1], axis), [0.25, 0.5, 0.25], 1 - axis) for axis in (0, 1))
        return [np.sqrt((dy**2 + dx**2) / 2)]
    gradient = np.gradient(smooth)
    return eigenvalues(np.gradient(gradient[0], axis=0), np.gradient(gradient[0], axis=1), np.gradient(gradient[1], axis=1))


def texture(height, width, seed=0):
    """Noise of several grains, with an edge: u8."""
    rng = np.random.default_rng(seed)
    image = sum(ndimage.gaussian_filter(rng.random((height, width)), s) * (3 + 4 * s) for s in (0, 1, 3))
    image[height // 3:, width // 2:] += 1
    image -= image.min()
    return (255 * image / image.max()).astype(np.uint8)


class Features(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gconv-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def features(self, image, text, channels=0, threads=2, status=0, **env):
        path = self.folder / ("i.npy" if image.dtype == np.float32 else "i.png")
        if image.dtype == np.float32:
            np.save(path, image)
        else:
            Image.fromarray(image).save(path)
        result = subprocess.run([FEATURES, path, text, self.folder / "o.npy", str(channels), str(threads)], stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "GCONV_MOST_THREADS": "16", **env}, check=False)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else np.load(self.folder / "o.npy").reshape(-1, *image.shape[:2])

    def check(self, got, kind, sigma, image):
        for i, expected in enumerate(formula(kind, sigma, image)):
            allowed = max(1e-4 * abs(expected).max(), abs(image).max() * 2**-21)  # differences of float32 are as fine as their terms
            self.assertLessEqual(abs(got[i] - expected).max(), allowed, f"{kind} {sigma}, output {i}, {image.shape}")

    def test_formulas(self):
        kinds = ["gaussian", "log", "gradient", "dog", "structure", "hessian", "intensity", "edges", "texture"]
        sigmas = [0.3, 1, 1.6, 5]
        text = ", ".join(f"{kind} {' '.join(map(str, sigmas))}" for kind in kinds)
        for height, width in ((97, 610), (33, 40), (5, 3), (1, 19), (2, 2)):  # tiles end within, halos are larger than images
            image = texture(max(height, 4), max(width, 4))[:height, :width]
            got = iter(self.features(np.ascontiguousarray(image), text if min(height, width) > 1 else text.rpartition(",")[0]))
            for kind, sigma in itertools.product(kinds if min(height, width) > 1 else kinds[:-1], sigmas):
                self.check([next(got) for _ in range(1 + (kind in EIGENVALUES))], kind, sigma, image / 255)
            self.assertIsNone(next(got, None))

    def test_flat_images(self):
        """A weighted mean of equal numbers is that number, and derivatives of them are 0: exactly, at any sigma and size of image."""
        kinds = ["gaussian", "intensity", "log", "gradient", "dog", "structure", "hessian", "edges", "texture"]
        text = ", ".join(f"{kind} 0.1 1 10 64" for kind in kinds)
        for height, width, value in ((120, 130, 0.7), (20, 13, 65535), (40, 600, 1e-3)):
            got = self.features(np.full((height, width), value, np.float32), text)
            self.assertTrue((got[:8] == np.float32(value)).all(), f"{value}")
            self.assertFalse(got[8:].any(), f"{value}")

    def test_largest_sigmas(self):
        """Windows of up to 512 pixels, on images larger and smaller than these, and on an image far from 0."""
        image, sigma = texture(140, 560).astype(np.float32) / np.float32(255), 64
        for plain, offset in ((image, 0), (image[:50, :70], 0), (image[:9, :2], 0), (image, 100)):
            part = plain + np.float32(offset)
            for kind in ("gaussian", "log", "gradient", "dog", "structure", "hessian", "intensity"):
                got = self.features(part, f"{kind} {sigma}")
                own = formula(kind, sigma, plain.astype(float))
                for i, expected in enumerate(formula(kind, sigma, part.astype(float))):
                    of_levels = abs(part).max() * (2**-21 if kind in ("gaussian", "intensity", "dog") else 2**-23 / sigma**2)
                    allowed = max(of_levels, 5e-6 * max(1, offset) * abs(own[i]).max())
                    self.assertLessEqual(abs(got[i] - expected).max(), allowed, f"{kind} {sigma}, output {i}, {part.shape}, {offset}")

    @unittest.skipIf(vigra is None, "no vigra here")
    def test_vigra(self):
        """The functions that ilastik calls, with windows of 3.5 sigma, at all sigmas of the set `ilastik`."""
        filters, image = vigra.filters, texture(180, 230)
        x = (image / np.float32(255)).astype(np.float32)
        for sigma in (0.3, 0.7, 1.0, 1.6, 3.5, 5.0, 10.0):
            expected = {"gaussian": filters.gaussianSmoothing(x, sigma, window_size=3.5)}
            if sigma > 0.3:
                expected["log"] = filters.laplacianOfGaussian(x, sigma, window_size=3.5)
                expected["gradient"] = filters.gaussianGradientMagnitude(x, sigma, window_size=3.5)
                expected["dog"] = expected["gaussian"] - filters.gaussianSmoothing(x, 0.66 * sigma, window_size=3.5)
                expected["structure"] = filters.structureTensorEigenvalues(x, sigma, 0.5 * sigma, window_size=3.5)
                expected["hessian"] = filters.hessianOfGaussianEigenvalues(x, sigma, window_size=3.5)
            for kind, values in expected.items():
                planes = np.moveaxis(np.array(values).reshape(*image.shape, -1), -1, 0)
                for own, other in zip(self.features(image, f"{kind} {sigma}"), planes, strict=True):
                    self.assertLessEqual(abs(own - other).max(), 1e-4 * abs(other).max(), f"{kind} {sigma}")

    def test_kinds_of_images(self):
        gray = texture(40, 50)
        rgb = np.dstack([gray, gray[::-1], gray[:, ::-1]])
        rgba = np.dstack([rgb, gray])
        text = "gaussian 1, hessian 2"
        each = np.concatenate([self.features(np.ascontiguousarray(rgb[..., c]), text) for c in range(3)])
        np.testing.assert_array_equal(self.features(rgb, text), each)
        np.testing.assert_array_equal(self.features(rgba, text, 3), each)
        np.testing.assert_array_equal(self.features(gray, text, 3), np.tile(each[:3], (3, 1, 1)))
        weights = np.array([0.299, 0.587, 0.114])
        self.check(self.features(rgb, text, 1), "gaussian", 1, rgb @ weights / 255)
        self.check(self.features((gray / np.float32(255)).astype(np.float32), text), "gaussian", 1, gray / 255)
        deep = gray.astype(np.uint16) * 257
        np.testing.assert_array_equal(self.features(deep, text), each[:3])

    def test_bits_do_not_depend_on_threads_bands_and_vectors(self):
        image = texture(150, 530)
        text = "gaussian 1.6, structure 3, texture 2, dog 5"
        expected = self.features(image, text, threads=1)
        for rows in (32, 64, 96):
            np.testing.assert_array_equal(self.features(image, text, ROWS=str(rows)), expected)
        np.testing.assert_array_equal(self.features(image, text, threads=5), expected)
        for isa in ("plain", "avx2"):
            np.testing.assert_array_equal(self.features(image[:40], text, GCONV_ISA=isa), self.features(image[:40], text))

    def test_sets(self):
        image = texture(70, 60)
        self.assertEqual(len(self.features(image, "default")), 20)
        self.assertEqual(len(self.features(image, "ilastik, gaussian 2")), 50)
        got = self.features(image, "skimage")
        kinds = [(k, s) for s in (0.5, 1, 2, 4, 8, 16) for k in ("intensity", "edges", "texture")]
        planes = iter(got)
        for kind, sigma in kinds:
            self.check([next(planes) for _ in range(1 + (kind == "texture"))], kind, sigma, image / 255)
        try:
            from skimage.feature import multiscale_basic_features
        except ImportError:
            return
        theirs = np.moveaxis(multiscale_basic_features(image), -1, 0)
        exact = [plane for kind, sigma in kinds for plane in formula(kind, sigma, image / 255)]
        for k in range(24):  # as near to the formulas as theirs, which are float32 with sums in float64
            own, other = abs(got[k] - exact[k]).max(), abs(theirs[k] - exact[k]).max()
            self.assertLessEqual(own, max(4 * other, 1e-4 * abs(exact[k]).max()), f"feature {k}")

    def test_wrong_lists(self):
        image = texture(8, 8)
        for text, says in (("gaussian", "gaussian: say at which sigmas"), ("blur 1", 'there is no feature "blur"'), ("", "has an empty place"),
                           ("gaussian 1,,log 1", "has an empty place"), ("gaussian 0", "it must be 0.1 to 64"), ("log 65", "it must be 0.1 to 64"),
                           ("log x", 'the sigma "x" is no number of pixels'), ("ilastik 1", "has sigmas of its own"), ("log nan", "is no number of pixels"),
                           ("gaussian " + " ".join(["1"] * 600), "more than 512 features")):
            self.assertIn(says, self.features(image, text, status=1))


if __name__ == "__main__":
    unittest.main()
