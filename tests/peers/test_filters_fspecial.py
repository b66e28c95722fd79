#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Built-in filters against formulas written down a second time, with numpy, and against OpenCV and scipy.

The functions f_* follow the published text of MATLAB's fspecial, whose disk is computed quite differently from gconv's.
"""
import os
import subprocess
import unittest

import cv2
import numpy as np
from scipy import ndimage, special

GCONV = os.environ.get("GCONV", "gconv")
EPS = np.finfo(float).eps


def make(spec):
    text = subprocess.run([GCONV, "make", spec], check=True, capture_output=True, text=True).stdout
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    return np.array([[float(number) for number in row.split()] for row in rows])


def grid(rows, columns):
    y, x = np.mgrid[-(rows - 1) / 2:(rows - 1) / 2 + 1, -(columns - 1) / 2:(columns - 1) / 2 + 1]
    return y[:rows, :columns], x[:rows, :columns]


def f_gaussian(rows, columns, sigma):
    y, x = grid(rows, columns)
    h = np.exp(-(x * x + y * y) / (2 * sigma * sigma))
    h[h < EPS * h.max()] = 0
    return h / h.sum()


def f_log(rows, columns, sigma):
    y, x = grid(rows, columns)
    h = f_gaussian(rows, columns, sigma) * (x * x + y * y - 2 * sigma**2) / sigma**4
    return h - h.sum() / h.size


def f_laplacian(alpha):
    a, b = alpha / 4, (1 - alpha) / 4
    return 4 / (alpha + 1) * np.array([[a, b, a], [b, -1, b], [a, b, a]])


def f_unsharp(alpha):
    return np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]) - f_laplacian(alpha)


def f_disk(rad):
    crad = int(np.ceil(rad - 0.5))
    y, x = np.mgrid[-crad:crad + 1, -crad:crad + 1]
    big, small = np.maximum(abs(x), abs(y)).astype(float), np.minimum(abs(x), abs(y)).astype(float)
    root = lambda v: np.sqrt(np.maximum(v, 0))
    m1 = np.where(rad**2 < (big + 0.5)**2 + (small - 0.5)**2, small - 0.5, root(rad**2 - (big + 0.5)**2))
    m2 = np.where(rad**2 > (big - 0.5)**2 + (small + 0.5)**2, small + 0.5, root(rad**2 - (big - 0.5)**2))
    s1, s2 = np.arcsin(np.clip(m1 / rad, -1, 1)), np.arcsin(np.clip(m2 / rad, -1, 1))
    area = rad**2 * (0.5 * (s2 - s1) + 0.25 * (np.sin(2 * s2) - np.sin(2 * s1))) - (big - 0.5) * (m2 - m1) + m1 - small + 0.5
    far, near = (big + 0.5)**2 + (small + 0.5)**2, (big - 0.5)**2 + (small - 0.5)**2
    on_rim = ((rad**2 < far) & (rad**2 > near)) | ((small == 0) & (big - 0.5 < rad) & (big + 0.5 >= rad))
    h = np.where(on_rim, area, 0) + (far < rad**2)
    h[crad, crad] = min(np.pi * rad**2, np.pi / 2)
    if crad > 0 and rad > crad - 0.5 and rad**2 < (crad - 0.5)**2 + 0.25:
        m = np.sqrt(rad**2 - (crad - 0.5)**2)
        cap = 2 * (rad**2 * (0.5 * np.arcsin(m / rad) + 0.25 * np.sin(2 * np.arcsin(m / rad))) - m * (crad - 0.5))
        for i, j in ((2 * crad, crad), (crad, 2 * crad), (crad, 0), (0, crad)):
            h[i, j] = cap
        for i, j in ((2 * crad - 1, crad), (crad, 2 * crad - 1), (crad, 1), (1, crad)):
            h[i, j] -= cap
    h[crad, crad] = min(h[crad, crad], 1)
    return h / h.sum()


def f_motion(length, theta):
    length = max(1, length)
    half = (length - 1) / 2
    phi = theta % 180 / 180 * np.pi
    cosphi, sinphi = np.cos(phi), np.sin(phi)
    sign = np.sign(cosphi)
    sx = int(np.fix(half * cosphi + sign - length * EPS))
    sy = int(np.fix(half * sinphi + 1 - length * EPS))
    x, y = np.meshgrid(sign * np.arange(abs(sx) + 1), np.arange(sy + 1))
    dist = y * cosphi - x * sinphi
    last = (np.hypot(x, y) >= half) & (abs(dist) <= 1)
    beyond = half - abs((x[last] + dist[last] * sinphi) / cosphi)
    dist[last] = np.hypot(dist[last], beyond)
    dist = np.maximum(1 + EPS - abs(dist), 0)
    rows, columns = dist.shape
    h = np.zeros((2 * rows - 1, 2 * columns - 1))
    h[:rows, :columns] = np.rot90(dist, 2)
    h[rows - 1:, columns - 1:] = dist
    h /= h.sum() + EPS * length * length
    return np.flipud(h) if cosphi > 0 else h


class Fspecial(unittest.TestCase):
    def check(self, spec, expected, relative=1e-6):
        """To float32: each tap rounded once, computed by two ways that may differ in float64's last digits."""
        got = make(spec)
        self.assertEqual(got.shape, expected.shape, spec)
        np.testing.assert_allclose(got, expected, rtol=relative, atol=1e-12 + 1e-8 * abs(expected).max(), err_msg=spec)

    def test_gaussian_and_log(self):
        for rows, columns, sigma in ((3, 3, 0.5), (5, 5, 1), (9, 9, 2), (4, 6, 1.3), (1, 21, 3), (31, 31, 1), (8, 8, 20)):
            spec = f"size={rows}x{columns},sigma={sigma}"
            self.check("gaussian:" + spec, f_gaussian(rows, columns, sigma))
            self.check("log:" + spec, f_log(rows, columns, sigma))
        self.check("gaussian", f_gaussian(3, 3, 0.5))
        self.check("gaussian:sigma=1.5", f_gaussian(11, 11, 1.5))
        self.check("log", f_log(5, 5, 0.5))

    def test_laplacian_and_unsharp(self):
        for alpha in (0, 0.1, 0.2, 0.5, 1):
            self.check(f"laplacian:alpha={alpha}", f_laplacian(alpha))
            self.check(f"unsharp:alpha={alpha}", f_unsharp(alpha))
        self.check("laplacian_8", 3 * f_laplacian(0.5))

    def test_disk(self):
        for radius in (0.3, 0.5, 0.55, 0.7, 0.75, 1, 1.2, 1.4, 1.5, 1.51, 1.6, 2, 2.5, 2.52, 3, 3.3, 5, 7.07, 10, 10.51, 25, 60.3):
            self.check(f"disk:radius={radius}", f_disk(radius), 2e-6)

    def test_motion(self):
        for length in (1, 2, 3, 5, 9, 9.5, 15, 20, 31):
            for theta in (0, 1, 17, 30, 45, 60, 89, 90, 91, 120, 135, 150, 179, 180, 225, -30):
                self.check(f"motion:len={length},theta={theta}", f_motion(length, theta))

    def test_fspecial_derivatives(self):
        sobel = np.array([[1, 2, 1], [0, 0, 0], [-1, -2, -1]])
        prewitt = np.array([[1, 1, 1], [0, 0, 0], [-1, -1, -1]])
        self.check("sobel_y", -sobel)
        self.check("sobel_x", -sobel.T)
        self.check("prewitt_y", -prewitt)
        self.check("prewitt_x", -prewitt.T)


class SecondOpinions(unittest.TestCase):
    def test_gaussian_is_opencvs(self):
        for size, sigma in ((3, 0.8), (7, 1.4), (21, 3)):  # its even sizes are not symmetric in 4.6
            line = cv2.getGaussianKernel(size, sigma, cv2.CV_64F)
            np.testing.assert_allclose(make(f"gaussian:size={size},sigma={sigma}"), line @ line.T, rtol=1e-6, atol=1e-15)

    def test_derivatives_are_opencvs(self):
        for name, ksize in (("sobel", 3), ("scharr", cv2.FILTER_SCHARR)):
            kx, ky = cv2.getDerivKernels(1, 0, ksize)
            np.testing.assert_array_equal(make(name + "_x"), ky @ kx.T)
            np.testing.assert_array_equal(make(name + "_y"), kx @ ky.T)

    def test_laplacians_are_opencvs_and_scipys(self):
        spot = np.zeros((5, 5))
        spot[2, 2] = 1
        np.testing.assert_array_equal(make("laplacian_4"), ndimage.laplace(spot)[1:4, 1:4])
        np.testing.assert_array_equal(make("laplacian_4"), cv2.Laplacian(spot, cv2.CV_64F, ksize=1)[1:4, 1:4])

    def test_sobel_and_prewitt_answer_as_scipys(self):
        image = np.random.default_rng(1).random((9, 11))
        for name, function in (("sobel", ndimage.sobel), ("prewitt", ndimage.prewitt)):
            for axis, suffix in ((1, "_x"), (0, "_y")):
                np.testing.assert_allclose(ndimage.correlate(image, make(name + suffix)), function(image, axis), atol=1e-12)

    def test_gabor_is_opencvs(self):
        for size, sigma, theta, lam, gamma, psi in ((21, 3, 0, 6, 0.5, 0), (15, 2, 30, 4, 1, 90), (31, 4, 135, 10, 0.7, 45)):
            expected = cv2.getGaborKernel((size, size), sigma, np.radians(theta), lam, gamma, np.radians(psi))
            got = make(f"gabor:size={size},sigma={sigma},theta={theta},lambda={lam},gamma={gamma},psi={psi}")
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)

    def test_binomial_is_repeated_averages(self):
        line = np.ones(1)
        for size in range(1, 12):
            np.testing.assert_allclose(make(f"binomial:size={size}"), np.outer(line, line), rtol=1e-7)
            line = np.convolve(line, [0.5, 0.5])

    def test_stars_are_moffats_and_airys(self):
        for rows, columns, fwhm, beta in ((9, 9, 3, 2.5), (4, 7, 1.2, 1), (29, 29, 3.5, 4.765)):
            y, x = grid(rows, columns)
            alpha = fwhm / (2 * np.sqrt(2**(1 / beta) - 1))
            star = (1 + (x * x + y * y) / alpha**2)**-beta
            got = make(f"moffat:size={rows}x{columns},fwhm={fwhm},beta={beta}")
            np.testing.assert_allclose(got, star / star.sum(), rtol=1e-6)
            self.assertAlmostEqual((1 + (fwhm / 2 / alpha)**2)**-beta, 0.5)
            y, x = grid(2 * rows, columns)
            ring = special.jn_zeros(1, 1)[0] * np.hypot(x, y) / fwhm
            disk = (2 * special.j1(np.maximum(ring, 1e-9)) / np.maximum(ring, 1e-9))**2
            got = make(f"airy:size={2 * rows}x{columns},radius={fwhm}")
            np.testing.assert_allclose(got, disk / disk.sum(), rtol=2e-6, atol=1e-10)
        self.assertEqual(make("moffat:fwhm=2").shape, (17, 17))
        self.assertEqual(make("airy:radius=2.2").shape, (19, 19))

    def test_dog_is_a_difference(self):
        np.testing.assert_allclose(make("dog:size=9,sigma1=1,sigma2=2"), f_gaussian(9, 9, 1) - f_gaussian(9, 9, 2), rtol=1e-5,
                                   atol=1e-9)


if __name__ == "__main__":
    unittest.main()
