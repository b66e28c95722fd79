# SPDX-License-Identifier: MIT
"""direct on a GPU: images of all the widths that patches, walks and the ends of rows make of them, with the bits of the CPU."""
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
    def filters(self, lot):
        for size in SIZES:
            taps = lot.standard_normal((size, size)) / size + 1.5 / size ** 2
            yield from ("-f", f"{size}x{size}: " + " ".join(",".join(f"{tap:.5f}" for tap in row) for row in taps))

    def compare(self, kind, number, shapes, *words):
        """All filters on images of these shapes, in one run a device."""
        lot = numpy.random.default_rng(number)
        for shape in shapes:
            image = lot.random(shape, dtype=numpy.float32) if kind == "f32" else lot.integers(0, 256, shape, dtype=numpy.uint8)
            (self.folder / "in").mkdir(exist_ok=True)
            numpy.save(self.folder / "in" / ("x".join(map(str, shape)) + ".npy"), image)
        filters = list(self.filters(lot))
        for device in ("cpu", "cuda"):
            self.gconv("-i", "in", *filters, "-d", device, "-a", "direct", "-o", device, "--format", "npy", *words)
        names = self.files("cpu")
        self.assertEqual(len(names), len(shapes) * len(SIZES))
        for name in names:
            made, expected = (numpy.load(self.folder / device / name) for device in ("cuda", "cpu"))
            self.assertEqual(made.tobytes(), expected.tobytes(), f"{kind} {name} {words}")
        for folder in ("in", "cpu", "cuda"):
            shutil.rmtree(self.folder / folder)

    def test_borders(self):
        for kind in ("u8", "f32"):
            for number, border in enumerate(BORDERS):
                self.compare(kind, number, SMALL, "--border", border)

    def test_paddings_and_epilogues(self):
        for kind in ("u8", "f32"):
            self.compare(kind, 10, SMALL, "--padding", "full", "--border", "wrap")
            self.compare(kind, 11, SMALL, "--padding", "valid")
            self.compare(kind, 12, SMALL, "--range", "abs", "--border", "replicate")

    def test_larger_images(self):
        for kind in ("u8", "f32"):
            self.compare(kind, 20, LARGE)
            self.compare(kind, 21, LARGE, "--border", "reflect101")


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
