# SPDX-License-Identifier: MIT
"""fft of layers on a GPU, with tiles of all sizes and blocks that share filters, against direct, which is exact."""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
BOUND = 6.2e-6  # of the largest tiles and 9 channels, relative to the largest sample times the sum of |weights|
BORDERS = ("zero", "replicate", "symmetric", "reflect101", "wrap")


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Tiles(CommandTest):
    def compare(self, samples, filters, rows, columns, *words, bound=BOUND):
        groups = int(words[words.index("--groups") + 1]) if "--groups" in words else 1
        shape = (filters, samples.shape[1] // groups, rows, columns)
        weights = numpy.random.default_rng(filters).standard_normal(shape, dtype=numpy.float32)
        numpy.save(self.folder / "in.npy", samples)
        numpy.save(self.folder / "bank.npy", weights)
        made = {}
        for algorithm in ("direct", "fft"):
            self.gconv("-i", "in.npy", "--layout", "nchw", "-f", "./bank.npy", "-d", "cuda", "-a", algorithm, *words, "-o",
                       "out.npy")
            made[algorithm] = numpy.load(self.folder / "out.npy")
        finite, what = numpy.isfinite(made["direct"]), f"{samples.shape}, {weights.shape}, {words}"
        numpy.testing.assert_array_equal(numpy.isfinite(made["fft"]), finite, what)
        self.assertTrue(finite.any(), what)
        largest = numpy.abs(samples[numpy.isfinite(samples)]).max() * numpy.abs(weights).sum((1, 2, 3)).max()
        self.assertLessEqual(numpy.abs(made["fft"][finite] - made["direct"][finite]).max(), bound * largest, what)

    @staticmethod
    def samples(*shape):
        return numpy.random.default_rng(shape[3]).standard_normal(shape, dtype=numpy.float32)

    def test_tiles_of_all_sizes(self):
        for number, (rows, columns) in enumerate(((8, 8), (64, 64), (13, 150), (150, 13), (300, 5), (5, 300), (3, 700), (700, 3))):
            with self.subTest(rows=rows, columns=columns):
                self.compare(self.samples(1, 3, 260 + rows, 270 + columns), 2, rows, columns, "--border", BORDERS[number % 5])

    def test_many_filters_and_channels(self):
        for channels, filters in ((3, 16), (3, 40), (9, 33), (1, 130), (40, 3)):
            with self.subTest(channels=channels, filters=filters):
                self.compare(self.samples(3, channels, 190, 201), filters, 11, 11)

    def test_strides_dilations_groups_and_batches(self):
        for words in (("--stride", "2"), ("--stride", "3", "--dilation", "2"), ("--groups", "4"), ("--padding", "valid"),
                      ("--groups", "2", "--stride", "2", "--activation", "relu"), ("--workspace", "20M")):
            with self.subTest(words=words):
                self.compare(self.samples(5, 4, 140, 301), 8, 9, 17, *words)

    def test_samples_that_are_not_finite_reach_no_further_than_the_filter(self):
        samples = self.samples(2, 3, 150, 160)
        samples[1, 2, 70, 80] = numpy.nan
        samples[0, 0, 20, 33] = -numpy.inf
        self.compare(samples, 4, 12, 12)

    def test_an_image_has_the_same_bits_in_a_batch(self):
        samples = self.samples(7, 3, 150, 160)
        numpy.save(self.folder / "bank.npy", numpy.random.default_rng(1).random((5, 3, 16, 16), dtype=numpy.float32))
        made = []
        for part in samples, samples[4:5]:
            numpy.save(self.folder / "in.npy", part)
            self.gconv("-i", "in.npy", "--layout", "nchw", "-f", "./bank.npy", "-d", "cuda", "-a", "fft", "-o", "out.npy")
            made.append(numpy.load(self.folder / "out.npy"))
        numpy.testing.assert_array_equal(made[0][4:5], made[1])


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
