# SPDX-License-Identifier: MIT
"""separable and box on a GPU: filters of all sizes, held to float64 at every sample."""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
BORDERS = ("zero", "replicate", "symmetric", "reflect101", "wrap")


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Walks(CommandTest):
    def write(self, name, shape):
        image = numpy.random.default_rng(1).random(shape, dtype=numpy.float32)
        numpy.save(self.folder / name, image)
        return image

    def convolve(self, name, *words):
        self.gconv("-i", name, "-d", "cuda", "-a", "separable", "--verify", "-o", "out.npy", *words)
        return numpy.load(self.folder / "out.npy")

    def test_all_sizes(self):
        sizes = (3, 5, 9, 10, 15, 17, 23, 25, 31, 33, 40, 63, 65, 67)
        for i, shape in enumerate(((301, 701), (97, 259, 3), (50, 90, 4))):
            self.write("in.npy", shape)
            for j, size in enumerate(sizes):
                self.convolve("in.npy", "-f", f"gaussian:size={size},sigma={size / 5}", "--border", BORDERS[(i + j) % 5])

    def test_rows_and_columns_of_different_lengths(self):
        self.write("in.npy", (133, 600))
        for rows, columns in ((2, 64), (64, 2), (2, 250), (3, 90), (50, 3)):
            taps = " ".join(",".join(["0.01"] * columns) for _ in range(rows))
            self.convolve("in.npy", "-f", f"{rows}x{columns}: {taps}")

    def test_samples_that_are_not_finite_reach_no_further_than_the_filter(self):
        image = self.write("in.npy", (300, 500))
        clean = self.convolve("in.npy", "-f", "gaussian:size=31,sigma=6")
        for value in (numpy.nan, numpy.inf):
            image[150, 250] = value
            numpy.save(self.folder / "in.npy", image)
            spoilt = self.convolve("in.npy", "-f", "gaussian:size=31,sigma=6")
            odd = ~numpy.isfinite(spoilt)
            self.assertTrue(odd[135:166, 235:266].all())
            self.assertEqual(int(odd.sum()), 31 * 31)
            self.assertLess(float(abs(spoilt - clean)[~odd].max()), 1.8e-5)  # the bound of 31 x 31

    def test_samples_of_any_magnitude(self):
        image = self.write("in.npy", (200, 300))
        for scale in (1e-38, 1e-36, 1e-30, 1e-6, 1e6, 1e30, 1e34, 1e36):
            numpy.save(self.folder / "in.npy", image * numpy.float32(scale))
            self.convolve("in.npy", "-f", "gaussian:size=15,sigma=3")
        numpy.save(self.folder / "in.npy", image * numpy.float32(1e-38))  # to the right: several filters
        self.convolve("in.npy", "-f", "gaussian:size=5,sigma=1", "-f", "gaussian:size=15,sigma=3", "--combine", "max")

    def test_samples_that_grow_down_the_image(self):
        image = self.write("in.npy", (700, 300))
        image[:200] = 0  # as long as there is nothing, there is no scale
        image[200:] *= numpy.logspace(-38, 3, 500, dtype=numpy.float32)[:, None]
        image[300:400, :100] = 0
        numpy.save(self.folder / "in.npy", image)
        for size in (5, 15, 31):
            self.convolve("in.npy", "-f", f"gaussian:size={size},sigma={size / 5}", "--border", "constant:0.5")


class Boxes(CommandTest):
    """box has the bits of the CPU's."""

    def check(self, image, rows, columns, *words):
        numpy.save(self.folder / "in.npy", image)
        numpy.save(self.folder / "k.npy", numpy.full((rows, columns), 1 / (rows * columns), "f4"))
        for device in "cpu", "cuda":
            self.gconv("-i", "in.npy", "-f", "k.npy", "-d", device, "-a", "box", "-o", f"{device}.npy", *words)
        numpy.testing.assert_array_equal(*[numpy.load(self.folder / f"{device}.npy") for device in ("cpu", "cuda")])

    def test_all_shapes(self):
        random = numpy.random.default_rng(1)
        sizes = (1, 2, 3, 5, 8, 9, 16, 31, 32, 64, 101, 200)
        shapes = ((1, 150), (150, 1), (5, 3), (40, 64), (33, 65, 3), (70, 131, 2), (61, 700, 4), (30, 4100), (1100, 37, 3))
        for number in range(27):
            shape, border = shapes[number % 9], BORDERS[number % 5]
            rows, columns = sizes[number % 12], sizes[(number * 5 + number // 12) % 12]
            for kind in "u1", "u2":
                image = random.integers(0, numpy.iinfo(kind).max + 1, shape).astype(kind)
                with self.subTest(shape=shape, rows=rows, columns=columns, border=border, kind=kind):
                    for depth in ((), ("--depth", "float")):
                        self.check(image, rows, columns, "--border", border, *depth)

    def test_long_rows_of_taps_and_boxes_larger_than_the_image(self):
        random = numpy.random.default_rng(2)
        for shape, rows, columns in ((20, 5000), 3, 2000), ((40, 900, 3), 7, 683), ((30, 50, 2), 150, 170):
            for border in BORDERS:
                with self.subTest(shape=shape, border=border):
                    self.check(random.integers(0, 256, shape).astype("u1"), rows, columns, "--border", border)

    def test_what_it_refuses(self):
        for kind, rows, columns, reason in (("f4", 3, 3, "floats"), ("u2", 280, 290, "32 bits"), ("u1", 3, 2050, "2049 samples")):
            numpy.save(self.folder / "in.npy", numpy.zeros((300, 2060), kind))  # smaller ones need no column of 2050
            numpy.save(self.folder / "k.npy", numpy.full((rows, columns), 1, "f4"))
            said = self.gconv("-i", "in.npy", "-f", "k.npy", "-d", "cuda", "-a", "box", "-o", "out.npy", status=1)
            self.assertIn(reason, said.stderr)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
