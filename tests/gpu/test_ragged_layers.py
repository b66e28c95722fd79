# SPDX-License-Identifier: MIT
"""direct for layers on a GPU: small filters on images whose rows of outputs begin anywhere in memory, with the bits of the CPU.

The same for gemm, with so many outputs that it takes its wider tiles on a GPU of 132 multiprocessors.
"""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Ragged(CommandTest):
    def compare(self, images, channels, height, width, filters, size, *words, algorithm="direct"):
        lot = numpy.random.default_rng(width)
        numpy.save(self.folder / "in.npy", lot.standard_normal((images, channels, height, width), dtype=numpy.float32))
        numpy.save(self.folder / "bank.npy", lot.standard_normal((filters, channels, size, size), dtype=numpy.float32))
        for device, own in (("cuda", algorithm), ("cpu", "direct")):
            self.gconv("-i", "in.npy", "--layout", "nchw", "-f", "./bank.npy", "-d", device, "-a", own, "-o", f"{device}.npy",
                       *words)
        made, expected = ((self.folder / f"{device}.npy").read_bytes() for device in ("cuda", "cpu"))
        self.assertEqual(made, expected, f"{images} x {channels} x {height} x {width}, {filters} of {size}, {words}")

    def test_widths(self):
        for width in (112, 113, 114, 115, 116, 120, 224, 225, 226, 227, 258, 514, 899, 1027, 2051):
            self.compare(2, 3, 99, width, 7, 3, "--padding", "valid")

    def test_shapes_with_a_kernel_of_their_own(self):
        for channels, size, stride in ((1, 3, 1), (1, 5, 1), (1, 7, 1), (3, 3, 1), (3, 3, 2), (3, 5, 1)):
            for width in (223, 1030):
                self.compare(3, channels, 131, width, 19, size, "--padding", "valid", "--stride", stride)
                self.compare(1, channels, 64, width, 5, size, "--padding", "1", "--stride", stride, "--activation", "relu")

    def test_few_rows(self):
        for height in range(3, 9):
            for width in (130, 131):
                self.compare(2, 3, height, width, 5, 3, "--padding", "valid")

    def test_more_blocks_than_the_device_takes_at_a_time(self):
        for width in (225, 226):
            self.compare(17, 3, 225, width, 9, 3, "--padding", "valid")

    def test_wide_tiles_of_gemm(self):
        self.compare(3, 3, 104, 108, 64, 3, "--activation", "tanh", algorithm="gemm")
        self.compare(3, 5, 103, 109, 100, 3, "--activation", "relu", algorithm="gemm")
        self.compare(3, 2, 150, 150, 20, 3, "--activation", "leaky:0.1", algorithm="gemm")
        self.compare(9, 70, 67, 59, 70, 1, algorithm="gemm")

    def test_activations(self):
        for activation in ("relu", "leaky:0.1", "tanh"):
            self.compare(2, 3, 70, 221, 6, 3, "--activation", activation)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
