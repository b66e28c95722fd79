# SPDX-License-Identifier: MIT
"""direct and integer on a GPU: images of all the widths that patches, walks and the ends of rows make of them, with the bits
of direct on the CPU."""
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
BORDERS = ("zero", "constant:0.25", "replicate", "symmetric", "reflect101", "wrap")
SIZES = (2, 3, 5, 6, 7, 9, 11, 13, 15, 17)
SMALL = ((40, 131), (19, 100), (133, 257), (23, 515), (70, 128), (600, 131), (61, 97, 3), (24, 130, 4))
LARGE = ((1100, 4101),)  # of more samples than go in small patches


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Direct(CommandTest):
    algorithm = "direct"
    kinds = ("u8", "f32")
    borders = BORDERS
    count = len(SIZES)

    def filters(self, lot):
        for size in SIZES:
            taps = lot.standard_normal((size, size)) / size + 1.5 / size ** 2
            yield from ("-f", f"{size}x{size}: " + " ".join(",".join(f"{tap:.5f}" for tap in row) for row in taps))

    def compare(self, kind, number, shapes, *words):
        """All filters on images of these shapes, in one run a device."""
        lot = numpy.random.default_rng(number)
        for shape in shapes:
            image = lot.random(shape, dtype=numpy.float32) if kind == "f32" else lot.integers(0, 256, shape, dtype=numpy.uint8)
            if self.algorithm == "integer" and shape[0] % 2 == 1:
                image = lot.choice((0, 255), shape, p=(0.1, 0.9)).astype(numpy.uint8)
            (self.folder / "in").mkdir(exist_ok=True)
            numpy.save(self.folder / "in" / ("x".join(map(str, shape)) + ".npy"), image)
        filters = list(self.filters(lot))
        for device, algorithm in (("cpu", "direct"), ("cuda", self.algorithm)):
            self.gconv("-i", "in", *filters, "-d", device, "-a", algorithm, "-o", device, "--format", "npy", *words)
        names = self.files("cpu")
        self.assertEqual(len(names), len(shapes) * self.count)
        for name in names:
            made, expected = (numpy.load(self.folder / device / name) for device in ("cuda", "cpu"))
            self.assertEqual(made.tobytes(), expected.tobytes(), f"{kind} {name} {words}")
        for folder in ("in", "cpu", "cuda"):
            shutil.rmtree(self.folder / folder)

    def test_borders(self):
        for kind in self.kinds:
            for number, border in enumerate(self.borders):
                self.compare(kind, number, SMALL, "--border", border)

    def test_paddings_and_epilogues(self):
        for kind in self.kinds:
            self.compare(kind, 10, SMALL, "--padding", "full", "--border", "wrap")
            self.compare(kind, 11, SMALL, "--padding", "valid")
            self.compare(kind, 12, SMALL, "--range", "abs", "--border", "replicate")

    def test_larger_images(self):
        for kind in self.kinds:
            self.compare(kind, 20, LARGE)
            self.compare(kind, 21, LARGE, "--border", "reflect101")


class Integer(Direct):
    """Integers over powers of two, the extremes of 8 bits among them; images of white and black have the largest sums."""
    algorithm = "integer"
    kinds = ("u8",)
    borders = (*(border for border in BORDERS if ":" not in border), "constant:1")  # a level of the input
    sizes = ((3, 3), (5, 5), (7, 7), (3, 2), (1, 5), (7, 6), (5, 3))
    count = 2 * len(sizes)

    def filters(self, lot):
        for rows, columns in self.sizes:
            small, large = lot.integers(-9, 10, (rows, columns)) / 4, lot.choice((-128, 127, 1), (rows, columns)) / 64
            for taps in (small, large):
                yield from ("-f", f"{rows}x{columns}: " + " ".join(",".join(f"{tap:.6f}" for tap in row) for row in taps))

    def test_scales_and_types(self):
        self.compare("u8", 30, SMALL, "--scale", "3", "--offset", "0.25")
        self.compare("u8", 31, SMALL, "--scale", "0.125", "--range", "abs")
        self.compare("u8", 32, SMALL, "--range", "signed", "--border", "wrap")
        self.compare("u8", 33, SMALL, "--depth", "float")

    def test_magnitudes(self):
        self.count, sizes = 1, self.sizes
        for self.sizes in ((3, 3),), ((5, 5),), ((7, 7),):
            self.compare("u8", 40, SMALL, "--combine", "magnitude", "--border", "symmetric")
        self.sizes = sizes


class Toeplitz(CommandTest):
    def test_tiny_taps(self):
        """Their quanta are below the smallest normal float: results keep their bits all the same."""
        lot = numpy.random.default_rng(7)
        numpy.save(self.folder / "in.npy", lot.integers(0, 256, (70, 90), dtype=numpy.uint8))
        for size in (3, 7, 11):
            taps = f"{size}x{size}: " + " ".join(",".join(f"{tap:.9e}" for tap in row) for row in lot.uniform(-1e-37, 1e-37, (size, size)))
            for device, algorithm in (("cpu", "direct"), ("cuda", "toeplitz")):
                self.gconv("-i", "in.npy", "-f", taps, "-d", device, "-a", algorithm, "-o", f"{device}.npy", "--depth", "float")
            made, expected = (numpy.load(self.folder / f"{device}.npy").astype(float) for device in ("cuda", "cpu"))
            numpy.testing.assert_allclose(made, expected, rtol=0, atol=1e-5 * numpy.abs(expected).max())


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
