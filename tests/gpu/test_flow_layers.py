# SPDX-License-Identifier: MIT
"""gemm-3xfp16 for layers of few taps and many filters, of so many tiles that blocks store whole lines, against direct on a GPU.

The same for filters of 1 x 1 on few channels, whose tiles have their own scales; and gemm-tensor, within what tf32 rounds.
"""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it
BOUND = 1.1e-5  # of gemm-3xfp16 for 24 units, relative to the largest sample times the sum of |weights|
BOUNDS = {"tf32": 1.1e-3, "bf16": 8e-3}  # of gemm-tensor


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Flow(CommandTest):
    def setUp(self):
        super().setUp()
        numpy.save(self.folder / "one.npy", numpy.ones((1, 1, 1, 1), numpy.float32))
        words = ["-i", "one.npy", "-f", "./one.npy", "-d", "cuda", "-a", "gemm-3xfp16", "-o", "out.npy"]
        result = subprocess.run([GCONV, *words], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, text=True,
                                check=False)
        if "compute capability 9.0" in result.stderr:
            self.skipTest("this GPU is no Hopper")

    def compare(self, samples, filters, rows, columns, *words, math="tf32", same_infinities=True):
        weights = numpy.random.default_rng(filters).standard_normal((filters, samples.shape[1], rows, columns), dtype=numpy.float32)
        numpy.save(self.folder / "in.npy", samples)
        numpy.save(self.folder / "bank.npy", weights)
        bounds = {"direct": 0, "gemm-3xfp16": BOUND, "gemm-tensor": BOUNDS[math]}
        for algorithm in bounds:
            leave = ("--math", math) if algorithm == "gemm-tensor" else ()
            self.gconv("-i", "in.npy", "--layout", "nchw", "-f", "./bank.npy", "-d", "cuda", "-a", algorithm, *leave, "-o",
                       f"{algorithm}.npy", *words)
        expected = numpy.load(self.folder / "direct.npy")
        finite = numpy.isfinite(expected)
        largest = numpy.abs(samples[numpy.isfinite(samples)]).max() * numpy.abs(weights).sum((1, 2, 3)).max()
        for algorithm, bound in bounds.items():
            made, what = numpy.load(self.folder / f"{algorithm}.npy"), f"{algorithm}, {samples.shape}, {weights.shape}, {words}"
            if same_infinities:
                numpy.testing.assert_array_equal(made[~finite], expected[~finite], what)
            numpy.testing.assert_array_equal(numpy.isfinite(made), finite, what)
            self.assertLessEqual(numpy.abs(made[finite] - expected[finite]).max(), bound * largest, what)

    @staticmethod
    def samples(*shape):
        return numpy.random.default_rng(shape[3]).standard_normal(shape, dtype=numpy.float32)

    def test_lines(self):
        valid = ("--padding", "valid")
        self.compare(self.samples(30, 3, 57, 68), 70, 8, 8, *valid)
        self.compare(self.samples(20, 3, 67, 71), 200, 8, 8, "--padding", "3", "--activation", "relu")
        self.compare(self.samples(16, 6, 41, 67), 128, 4, 8, *valid, "--activation", "leaky:0.1")
        self.compare(self.samples(9, 3, 128, 128), 128, 8, 8, *valid, "--activation", "tanh")

    def test_one_by_one(self):
        self.compare(self.samples(32, 64, 56, 56), 256, 1, 1)
        self.compare(self.samples(7, 37, 45, 51), 130, 1, 1, "--activation", "leaky:0.1")
        self.compare(self.samples(9, 64, 61, 67), 70, 1, 1, "--stride", "2", "--padding", "1", "--activation", "tanh")
        self.compare(self.samples(5, 40, 33, 35), 20, 1, 1, "--activation", "relu")
        scaled = self.samples(30, 24, 64, 60)  # pixels of very different size
        scaled *= numpy.float32(2) ** numpy.random.default_rng(1).integers(-40, 40, (30, 1, 64, 1)).astype(numpy.float32)
        self.compare(scaled, 96, 1, 1)
        samples = self.samples(40, 16, 57, 68)
        samples[3, 1, 20, 30], samples[17, 0, 0, 0], samples[39, 15, 56, 67] = numpy.inf, -numpy.inf, numpy.nan
        self.compare(samples, 128, 1, 1)

    def test_infinite_samples(self):
        samples = self.samples(30, 3, 57, 68)
        samples[3, 1, 20, 30], samples[17, 0, 0, 0], samples[29, 2, 56, 67] = numpy.inf, -numpy.inf, numpy.nan
        self.compare(samples, 128, 8, 8, "--padding", "valid")

    def test_infinite_samples_beside_filler(self):
        """Some taps are filled up with weights of 0, of rows behind the filter, too. An output there alone stays finite."""
        for math in BOUNDS:
            for filters, size in ((64, 3), (16, 7)):
                samples = self.samples(2, 24, 40, 300)
                samples[0, 1, 20, 30], samples[0, 23, 39, 299], samples[1, 13, 5, 200] = numpy.inf, -numpy.inf, numpy.nan
                self.compare(samples, filters, size, size, "--padding", size // 2, math=math, same_infinities=False)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
