# SPDX-License-Identifier: MIT
"""gemm-3xfp16 for layers of few taps and many filters, of so many tiles that blocks store whole lines, against direct on a GPU.

The same for gemm-tensor, within what tf32 rounds.
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
TF32_BOUND = 1.1e-3  # of gemm-tensor


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

    def compare(self, samples, filters, rows, columns, *words):
        weights = numpy.random.default_rng(filters).standard_normal((filters, samples.shape[1], rows, columns), dtype=numpy.float32)
        numpy.save(self.folder / "in.npy", samples)
        numpy.save(self.folder / "bank.npy", weights)
        bounds = {"direct": 0, "gemm-3xfp16": BOUND, "gemm-tensor": TF32_BOUND}
        for algorithm in bounds:
            math = ("--math", "tf32") if algorithm == "gemm-tensor" else ()
            self.gconv("-i", "in.npy", "--layout", "nchw", "-f", "./bank.npy", "-d", "cuda", "-a", algorithm, *math, "-o",
                       f"{algorithm}.npy", *words)
        expected = numpy.load(self.folder / "direct.npy")
        finite = numpy.isfinite(expected)
        largest = numpy.abs(samples[numpy.isfinite(samples)]).max() * numpy.abs(weights).sum((1, 2, 3)).max()
        for algorithm, bound in bounds.items():
            made, what = numpy.load(self.folder / f"{algorithm}.npy"), f"{algorithm}, {samples.shape}, {weights.shape}, {words}"
            numpy.testing.assert_array_equal(made[~finite], expected[~finite], what)
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

    def test_infinite_samples(self):
        samples = self.samples(30, 3, 57, 68)
        samples[3, 1, 20, 30], samples[17, 0, 0, 0], samples[29, 2, 56, 67] = numpy.inf, -numpy.inf, numpy.nan
        self.compare(samples, 128, 8, 8, "--padding", "valid")


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
