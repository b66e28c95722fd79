# SPDX-License-Identifier: MIT
"""gconv deconvolve: Richardson-Lucy and Wiener against float64, edges, flux, missing samples, total variation, Ctrl-C."""
import signal
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest


def convolve(x, psf, full):
    """With the taps turned, as a convolution, in any dimensions; only where the PSF lies inside, or wherever it touches."""
    if full:
        x = np.pad(x, [(n - 1, n - 1) for n in psf.shape])
    size = [n - m + 1 for n, m in zip(x.shape, psf.shape)]
    turned = np.flip(psf)
    return sum(turned[at] * x[tuple(slice(a, a + n) for a, n in zip(at, size))] for at in np.ndindex(psf.shape))


def lucy(y, psf, count):
    """By definition, in float64: the image is extended by the PSF (Bertero and Boccacci)."""
    psf, turned = psf / psf.sum(), np.flip(psf) / psf.sum()
    there = np.isfinite(y)
    y = np.where(there, y, 0)
    weight = convolve(there.astype(float), turned, True)
    inverse = np.where(weight > 0.01, 1 / np.maximum(weight, 1e-9), 0)
    x = convolve(y, turned, True) * inverse
    for _ in range(count):
        x = x * inverse * convolve(np.where(there, y / np.maximum(convolve(x, psf, False), 1e-6 * y.sum() / there.sum()), 0), turned, True)
    # H sees x[i + r] with the turned taps: the pixel of x below the PSF's centre is the last row less the centre
    first = [n - 1 - int(np.floor((psf * axis).sum() + 0.5)) for n, axis in zip(psf.shape, np.indices(psf.shape))]
    return x[tuple(slice(at, at + n) for at, n in zip(first, y.shape))]


class Deconvolve(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(12)
        y, x = np.mgrid[:60, :70]
        self.true = (((y - 30) ** 2 + (x - 33) ** 2 < 300) * 0.5 + (x // 8 + y // 8) % 2 * 0.2 + 0.1).astype(np.float64)
        grid = np.mgrid[-4:5, -3:4]
        self.psf = np.exp(-(grid[0] ** 2 / 6 + (grid[1] - 1) ** 2 / 3))
        self.psf[0, 0] = 0.2
        centre = [int(np.floor((self.psf / self.psf.sum() * axis).sum() + 0.5)) for axis in np.indices(self.psf.shape)]
        around = [(size - 1 - at, at) for size, at in zip(self.psf.shape, centre)]
        full = convolve(np.pad(self.true, around, mode="symmetric"), self.psf / self.psf.sum(), False)
        self.blurred = (self.random.poisson(full * 5000) / 5000).astype(np.float32)
        np.save(self.folder / "y.npy", self.blurred)
        np.save(self.folder / "psf.npy", self.psf.astype(np.float32))

    def restore(self, name, *words):
        done = self.gconv("deconvolve", name, "--psf", "psf.npy", "-o", "r.npy", *words)
        return np.load(self.folder / "r.npy"), done.stderr

    def error(self, result):
        return np.sqrt(np.mean((result - self.true) ** 2))

    def test_richardson_lucy_is_that_of_float64(self):
        psf = np.load(self.folder / "psf.npy").astype(np.float64)
        for count in 1, 5, 30:
            for name, image in (("y", self.blurred), ("holes", self.blurred.copy())):
                if name == "holes":
                    image[10:13, 20:24] = image[40, 0] = np.nan
                    np.save(self.folder / "holes.npy", image)
                made, said = self.restore(f"{name}.npy", "-n", count)
                want = lucy(image.astype(np.float64), psf, count)
                np.testing.assert_allclose(made, want, atol=3e-5 * want.max(), err_msg=(name, count))
                self.assertTrue(np.isfinite(made).all())
                self.assertEqual("13 samples are missing" in said, name == "holes")
        self.assertLess(self.error(made), 0.85 * self.error(self.blurred))

    def test_flux_edges_and_acceleration(self):
        plain, _ = self.restore("y.npy", "-n", "60")
        self.assertAlmostEqual(plain.sum() / self.blurred.sum(), 1, delta=0.005)
        rim = np.ones(plain.shape, bool)
        rim[6:-6, 6:-6] = False
        self.assertLess(np.sqrt(np.mean((plain - self.true)[rim] ** 2)), 1.5 * self.error(plain))
        ten, _ = self.restore("y.npy", "-n", "10")
        fast, said = self.restore("y.npy", "-n", "10", "--accelerate", "-v")
        distance = lambda a: np.abs(a - plain).mean()
        self.assertLess(distance(fast), 0.6 * distance(ten))
        self.assertIn("iteration 10 of 10: change", said)
        _, said = self.restore("y.npy", "-n", "500", "--stop", "0.02", "-v")
        self.assertNotIn("iteration 500", said)

    def test_volumes(self):
        for shape, size in (((11, 24, 18), (5, 6, 3)), ((2, 9, 31), (4, 3, 7)), ((7, 8, 9), (3, 3, 2))):
            psf = np.exp(-sum((axis - n / 3) ** 2 for axis, n in zip(np.indices(size), size)) / 3).astype(np.float32)
            image = self.random.poisson(50, shape).astype(np.float32)
            image[1, 3:5, 2:4] = np.nan
            np.save(self.folder / "v.npy", image)
            np.save(self.folder / "psf3.npy", psf)
            for count in 1, 10:
                self.gconv("deconvolve", "v.npy", "--psf", "psf3.npy", "-o", "r.npy", "-n", count)
                made = np.load(self.folder / "r.npy")
                want = lucy(image.astype(float), psf.astype(float), count)
                np.testing.assert_allclose(made, want, atol=3e-5 * want.max())
            self.gconv("deconvolve", "v.npy", "--psf", "psf3.npy", "-o", "r.npy", "-n", "8", "--accelerate", "--tv", "0.002")
            fast = np.load(self.folder / "r.npy")
            self.assertAlmostEqual(np.nanmean(fast) / np.nanmean(image), 1, delta=0.03)
        self.gconv("deconvolve", "v.npy", "--psf", "gaussian:sigma=0.5x1x1.5", "-o", "r.npy", "-n", "3")
        line = [np.exp(-0.5 * (np.arange(-n, n + 1) / s) ** 2) for n, s in ((2, 0.5), (3, 1), (5, 1.5))]
        want = lucy(image.astype(float), np.einsum("i,j,k", *line), 3)
        np.testing.assert_allclose(np.load(self.folder / "r.npy"), want, atol=3e-5 * want.max())
        # Wiener: a constant stays, and a point far from the edges becomes the filter
        np.save(self.folder / "v.npy", np.full((6, 7, 9), 0.25, np.float32))
        self.gconv("deconvolve", "v.npy", "--psf", "psf3.npy", "-o", "r.npy", "--method", "wiener")
        np.testing.assert_allclose(np.load(self.folder / "r.npy"), 0.25, atol=1e-6)
        point = np.zeros((12, 21, 22), np.float32)
        point[6, 10, 11] = 1
        np.save(self.folder / "v.npy", point)
        self.gconv("deconvolve", "v.npy", "--psf", "psf3.npy", "-o", "r.npy", "--method", "wiener")
        centre = [int(np.floor((psf / psf.sum() * axis).sum() + 0.5)) for axis in np.indices(psf.shape)]
        padded = np.zeros((15, 24, 24))
        padded[:3, :3, :2] = psf / psf.sum()
        h = np.fft.fftn(np.roll(padded, [-at for at in centre], (0, 1, 2)))
        spectrum = np.fft.fftn(np.pad(point - point.mean(), ((0, 3), (0, 3), (0, 2)), constant_values=-point.mean()))
        want = np.real(np.fft.ifftn(spectrum * h.conj() / (abs(h) ** 2 + 0.01)))[:12, :21, :22] + point.mean()
        np.testing.assert_allclose(np.load(self.folder / "r.npy"), want, atol=1e-6)
        np.save(self.folder / "flat.npy", point[0] + 1)
        self.usage_error("planes", "deconvolve", "flat.npy", "--psf", "psf3.npy", "-o", "r.npy")

    def test_total_variation_smooths_a_flat_field(self):
        flat = (self.random.poisson(np.full((60, 70), 200)) / 400).astype(np.float32)
        np.save(self.folder / "flat.npy", flat)
        spread = [self.restore("flat.npy", "-n", "20", "--tv", weight)[0].std() for weight in ("0", "0.005", "0.02")]
        self.assertGreater(spread[0], spread[1])
        self.assertGreater(spread[1], spread[2])

    def test_wiener(self):
        results = [self.error(self.restore("y.npy", "--method", "wiener", "--noise", noise)[0]) for noise in ("0.001", "0.01")]
        self.assertLess(min(results), 0.85 * self.error(self.blurred))
        # by spectra of numpy, of an image that is its own extension: a constant stays, an impulse becomes the filter
        np.save(self.folder / "c.npy", np.full((31, 40), 0.25, np.float32))
        np.testing.assert_allclose(self.restore("c.npy", "--method", "wiener")[0], 0.25, atol=1e-6)
        point = np.zeros((63, 68), np.float32)
        point[31, 34] = 1
        np.save(self.folder / "p.npy", point)
        size, psf = (72, 75), np.load(self.folder / "psf.npy").astype(np.float64)
        centre = [int(np.floor((psf / psf.sum() * axis).sum() + 0.5)) for axis in np.indices(psf.shape)]
        padded = np.zeros(size)
        padded[:9, :7] = psf / psf.sum()
        h = np.fft.fft2(np.roll(padded, (-centre[0], -centre[1]), (0, 1)))
        spectrum = np.fft.fft2(np.pad(point - point.mean(), ((0, 9), (0, 7)), constant_values=-point.mean()))
        want = np.real(np.fft.ifft2(spectrum * h.conj() / (abs(h) ** 2 + 0.01)))[:63, :68] + point.mean()
        np.testing.assert_allclose(self.restore("p.npy", "--method", "wiener")[0], want, atol=1e-6)

    def test_pictures(self):
        photo = self.photo("a.png", 40, 30, channels=4)
        self.gconv("deconvolve", "a.png", "--psf", "gaussian:sigma=1", "-o", "r.png", "-n", "3")
        made = self.pixels("r.png")
        np.testing.assert_array_equal(made[..., 3], photo[..., 3])
        self.photo("p.png", 5, 5, channels=1)
        said = self.gconv("deconvolve", "a.png", "--psf", "p.png", "-o", "r.npy", "-n", "2", "--depth", "float").stderr
        self.assertEqual(np.load(self.folder / "r.npy").shape, (30, 40, 4))

    def test_ctrl_c_writes_the_result_so_far(self):
        np.save(self.folder / "large.npy", self.random.random((700, 800)).astype(np.float32))
        process = subprocess.Popen([GCONV, "deconvolve", "large.npy", "--psf", "psf.npy", "-o", "c.npy", "-n", "1000000", "-v"],
                                   cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, text=True)
        lines = [process.stderr.readline() for _ in range(3)]
        self.assertIn("iteration 1 of", "".join(lines))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertIn("stopped: this is the result after iteration", said)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(np.load(self.folder / "c.npy").shape, (700, 800))

    def test_what_is_refused(self):
        np.save(self.folder / "nan.npy", np.full((9, 9), np.nan, np.float32))
        for words in (("y.npy", "-o", "r.npy"), ("y.npy", "--psf", "psf.npy"), ("y.npy", "--psf", "sobel_x", "-o", "r.npy", "--method", "wiener"),
                      ("y.npy", "--psf", "psf.npy", "-o", "y.npy"),
                      ("y.npy", "--psf", "psf.npy", "-o", "psf.npy"), ("y.npy", "--psf", "psf.npy", "-o", "r.npy", "--method", "wiener", "--tv", "1"),
                      ("nan.npy", "--psf", "psf.npy", "-o", "r.npy"), ("y.npy", "--psf", "sobel", "-o", "r.npy"), ("y.npy", "--psf", "psf.npy", "-o", "r.xyz"),
                      ("nothing.npy", "--psf", "psf.npy", "-o", "r.npy"), ("y.npy", "--psf", "psf.npy", "-o", "none/r.npy")):
            self.usage_error("gconv: ", "deconvolve", *words)


if __name__ == "__main__":
    unittest.main()
