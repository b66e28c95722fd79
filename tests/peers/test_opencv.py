# SPDX-License-Identifier: MIT
"""The program against OpenCV: filter2D on small arrays and on a photo of 4K size, and the named filters of both."""
import glob
import os
import subprocess
import tempfile
import unittest

import cv2
import numpy as np

from peer import gconv

BORDERS = {"zero": cv2.BORDER_CONSTANT, "replicate": cv2.BORDER_REPLICATE, "symmetric": cv2.BORDER_REFLECT,
           "reflect101": cv2.BORDER_REFLECT_101}
SIZES = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (7, 7), (1, 9), (9, 1), (2, 3), (11, 11)]


def gaussian(size, sigma):
    x = np.arange(size) - (size - 1) / 2
    line = np.exp(-(x**2) / (2 * sigma**2))
    return np.outer(line, line) / line.sum() ** 2


def laplacian_of_gaussian(size, sigma):
    x = np.arange(size) - (size - 1) / 2
    square = x[:, None] ** 2 + x**2
    plane = (square - 2 * sigma**2) / sigma**4 * gaussian(size, sigma)
    return plane - plane.mean()


FILTERS = {
    "sobel x": [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
    "scharr y": [[-3, -10, -3], [0, 0, 0], [3, 10, 3]],
    "laplacian 4": [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "laplacian 8": [[1, 1, 1], [1, -8, 1], [1, 1, 1]],
    "sharpen": [[0, -1, 0], [-1, 5, -1], [0, -1, 0]],
    "emboss": [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]],
    "roberts": [[1, 0], [0, -1]],
    "box 3": np.full((3, 3), 1 / 9),
    "gaussian 5": gaussian(5, 1.1),
    "gaussian 11": gaussian(11, 2),
    "log 9": laplacian_of_gaussian(9, 1.4) * 10,
    "motion 1x9": np.full((1, 9), 1 / 9),
}


def photo():
    """The photo $GCONV_PHOTO as it is; else the first in images/, enlarged to 3840 x 2160; else waves and noise."""
    if "GCONV_PHOTO" in os.environ:
        return os.environ["GCONV_PHOTO"], cv2.imread(os.environ["GCONV_PHOTO"], cv2.IMREAD_COLOR)
    folder = os.path.join(os.environ.get("GCONV_SOURCE_FOLDER", "."), "images")
    for path in sorted(glob.glob(os.path.join(folder, "*.jpg")) + glob.glob(os.path.join(folder, "*.png"))):
        image = cv2.imread(path, cv2.IMREAD_COLOR)
        if image is not None and min(image.shape[:2]) > 200:
            return os.path.basename(path), cv2.resize(image, (3840, 2160), interpolation=cv2.INTER_CUBIC)
    y, x = np.mgrid[0:2160, 0:3840]
    waves = 127 + 90 * np.sin(x / 37 + y / 91) * np.cos(y / 23)
    noise = np.random.default_rng(3).normal(0, 12, (2160, 3840, 3))
    return "a synthetic image", np.clip(waves[..., None] + noise, 0, 255).astype(np.uint8)


class OpenCvTest(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(5)

    def same_bytes(self, got, expected):
        """At most 1 level apart, on fewer than 1 sample in 10,000. Returns how many differ."""
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.dtype, np.uint8)
        difference = np.abs(got.astype(int) - expected)
        self.assertLessEqual(difference.max(), 1)
        self.assertLess((difference > 0).mean(), 1e-4)
        return int((difference > 0).sum())

    def test_file_storage(self):
        """Matrices that OpenCV writes, as YAML and XML, of each type, come in with every bit and by their names."""
        rng = np.random.default_rng(5)
        with tempfile.TemporaryDirectory() as folder:
            for extension in ("yml", "xml"):
                want = {f"k{i}": (rng.normal(size=(i + 1, 5)) * 10 ** rng.uniform(-3, 3)).astype(kind)
                        for i, kind in enumerate((np.float32, np.float64, np.int32, np.int16))}
                path = f"{folder}/kernels.{extension}"
                storage = cv2.FileStorage(path, cv2.FILE_STORAGE_WRITE)
                storage.write("comment", "no matrix")
                for name, plane in want.items():
                    storage.write(name, plane)
                storage.release()
                subprocess.run([os.environ["GCONV"], "make", path, "-o", f"{folder}/out.txt"], check=True)
                with open(f"{folder}/out.txt", encoding="utf-8") as file:
                    texts = file.read().removeprefix("# syntax: imagemagick\n").split(";\n")
                self.assertEqual(len(texts), len(want))
                for text, (name, plane) in zip(texts, want.items()):
                    title, size, *rows = text.splitlines()
                    self.assertEqual((title, size), (f"# {name}", f"5x{len(plane)}+2+{len(plane) // 2}:"))
                    np.testing.assert_array_equal(np.loadtxt(rows, ndmin=2).astype(np.float32), plane.astype(np.float32))

    def test_floats(self):
        image = self.random.random((37, 41, 3), np.float32)
        for size in SIZES:
            taps = self.random.uniform(-1, 1, size).astype(np.float32)
            taps /= np.abs(taps).sum()
            for border, code in BORDERS.items():
                with self.subTest(size=size, border=border):
                    expected = cv2.filter2D(image, cv2.CV_32F, taps, borderType=code)
                    np.testing.assert_allclose(gconv(image, taps, "--border", border), expected, rtol=0, atol=1e-5)

    def test_bytes(self):
        image = self.random.integers(0, 256, (241, 239, 3), np.uint8)
        for size in SIZES:
            taps = self.random.uniform(-0.5, 1, size).astype(np.float32)
            taps /= np.abs(taps).sum()
            for border, code in BORDERS.items():
                with self.subTest(size=size, border=border):
                    expected = cv2.filter2D(image, cv2.CV_8U, taps, borderType=code)
                    self.same_bytes(gconv(image, taps, "--border", border), expected)

    def test_anchor_of_even_sizes_and_offset(self):
        image = self.random.integers(0, 256, (31, 29), np.uint8)
        taps = np.array([[0.5, -0.25], [0.125, -0.375], [0.25, 0.5], [0, -0.5]], np.float32)
        expected = cv2.filter2D(image, cv2.CV_8U, taps, delta=51, borderType=cv2.BORDER_REPLICATE)
        self.same_bytes(gconv(image, taps, "--border", "replicate", "--offset", "0.2"), expected)

    def test_photo(self):
        name, image = photo()
        height, width, channels = image.shape
        print(f"\n{name}, {width} x {height} x {channels}, zero border: samples that differ from filter2D")
        for title, taps in FILTERS.items():
            with self.subTest(filter=title):
                kernel = np.array(taps, np.float32)
                expected = cv2.filter2D(image, cv2.CV_8U, kernel, borderType=cv2.BORDER_CONSTANT)
                differ = self.same_bytes(gconv(image, kernel), expected)
                print(f"  {title:12} {differ:6} of {image.size}, {differ / image.size:.1e}, by 1 level")

    def test_named_filters(self):
        image = self.random.random((40, 43), np.float32)
        peers = {
            "sobel_x": lambda border: cv2.Sobel(image, cv2.CV_32F, 1, 0, borderType=border),
            "sobel_y": lambda border: cv2.Sobel(image, cv2.CV_32F, 0, 1, borderType=border),
            "scharr_x": lambda border: cv2.Scharr(image, cv2.CV_32F, 1, 0, borderType=border),
            "scharr_y": lambda border: cv2.Scharr(image, cv2.CV_32F, 0, 1, borderType=border),
            "laplacian_4": lambda border: cv2.Laplacian(image, cv2.CV_32F, ksize=1, borderType=border),
            "gaussian:size=5,sigma=1.3": lambda border: cv2.GaussianBlur(image, (5, 5), 1.3, borderType=border),
            "gabor:size=9,sigma=2,theta=30,lambda=4,gamma=0.5,psi=90": lambda border: cv2.filter2D(
                image, cv2.CV_32F, cv2.getGaborKernel((9, 9), 2, np.pi / 6, 4, 0.5, np.pi / 2), borderType=border),
            "average:size=3": lambda border: cv2.blur(image, (3, 3), borderType=border),
        }
        for name, peer in peers.items():
            for border, code in BORDERS.items():
                with self.subTest(filter=name, border=border):
                    np.testing.assert_allclose(gconv(image, name, "--border", border), peer(code), rtol=0, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
