# SPDX-License-Identifier: MIT
"""NaN and infinities in float images stay where the filter reaches, in every algorithm of a device, as they do in the
definition: $GCONV_TEST_DEVICE, or the CPU. A tap of 0 times NaN is NaN, but separable may leave such a tap out."""
import os
import pathlib
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest

DEVICE = os.environ.get("GCONV_TEST_DEVICE", "cpu")
UNBOUND = {"cuda": {"cudnn", "im2col-cublas", "gemm-tensor"}}.get(DEVICE, set())  # libraries do as they please
INF, NAN = np.float32(np.inf), np.float32(np.nan)


def algorithms():
    """(for images, for banks): the names that `gconv algorithms` lists for the device."""
    lines = subprocess.run([GCONV, "algorithms"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    cut = lines.index("for banks:")
    return [[line.split()[1] for line in part if line.startswith(DEVICE + " ")] for part in (lines[:cut], lines[cut:])]


def places(height, width):
    """Pixels at corners, at edges, and inside."""
    return [(0, 0), (height - 1, width - 1), (0, width // 2), (height // 2, 0), (height // 2, width // 3), (height - 2, width - 3)]


class NotFinite(CommandTest):
    def environment(self, extra=None):
        return {**super().environment(extra), "GCONV_DEVICE": DEVICE}

    def draw(self, channels, height, width, values):
        """An image of noise with these values in it, far from each other."""
        x = np.random.default_rng(3).normal(size=(1, height, width, channels)).astype("f4")
        for (row, column), value in zip(places(height, width), values):
            x[0, row, column, row % channels] = value
        np.save(self.folder / "x.npy", x)
        return x

    def result(self, algorithm, *words):
        """What an algorithm makes of x.npy; None where it does not take the problem."""
        done = subprocess.run([GCONV, "-i", "x.npy", *map(str, words), "-a", algorithm, "-o", "y.npy", "-q"], cwd=self.folder,
                              env=self.environment(), stderr=subprocess.PIPE, check=False, text=True, timeout=120)
        if done.returncode != 0:
            self.assertRegex(done.stderr, "cannot|does not|not here|does less|know|only|is for|needs|above")
            return None
        return np.load(self.folder / "y.npy").copy()

    def compare(self, names, *words):
        """All algorithms with the definition. Returns the names of those that took the problem."""
        wanted, took = self.result("reference", *words), []
        self.assertTrue(np.isfinite(wanted).any() and not np.isfinite(wanted).all(), words)
        for name in sorted(set(names) - UNBOUND) + ["auto"]:
            got = self.result(name, *words)
            if got is None:
                continue
            took.append(name)
            with self.subTest(name, words=words):
                finite = np.isfinite(wanted)
                if name != "separable" or "[0 0 1; 0 0 0; -1 0 0]" not in words:
                    np.testing.assert_array_equal(np.isfinite(got), finite)
                np.testing.assert_allclose(got[finite], wanted[finite], rtol=0, atol=2e-3 * np.abs(wanted[finite]).max())
        return took

    def test_images(self):
        names, took = algorithms()[0], set()
        filters = {"whole": "[1 2 1; 2 4 2; 1 2 1]", "zeros": "[0 0 1; 0 0 0; -1 0 0]", "rank 2": "[1 2 3; 0 1 0; 3 1 7]"}
        random = np.random.default_rng(4)
        for size in (7, 7), (13, 12), (21, 33):
            np.savetxt(self.folder / f"{size[0]}.txt", random.normal(size=size), fmt="%.6f")
            filters[str(size)] = f"{size[0]}.txt"
        filters["blur"] = "gaussian:size=17,sigma=4"
        for channels in 1, 3:
            for values in ([NAN, INF, NAN, -INF, NAN, INF], [INF] * 6, [NAN]):
                self.draw(channels, 150, 170, values)
                for name in filters:
                    border = "zero" if channels == 1 else "reflect101"
                    took |= set(self.compare(names, "-f", filters[name], "--border", border, "--depth", "float"))
        self.assertLessEqual(set(names) - UNBOUND - {"integer", "toeplitz", "box"}, took)

    def test_filters_that_are_combined_and_strides(self):
        self.draw(1, 90, 131, [NAN, INF, -INF])
        for k in range(2):
            np.savetxt(self.folder / f"{k}.txt", np.random.default_rng(k).normal(size=(9, 11)), fmt="%.6f")
        for words in (("--combine", "magnitude"), ("--combine", "max", "--stride", "2"), ("--combine", "sum", "--dilation", "2")):
            self.compare(algorithms()[0], "-f", "0.txt", "-f", "1.txt", "--depth", "float", *words)

    def test_integers(self):
        """NaN becomes level 0, and infinities the ends of the range, where they reach; no algorithm shows them elsewhere."""
        x = self.draw(1, 150, 170, [NAN, INF, -INF, INF])
        self.assertFalse(np.isfinite(x).all())
        for name in algorithms()[0]:
            results = [self.result(a, "-f", "gaussian:size=17,sigma=4", "--depth", "8") for a in ("reference", name)]
            if results[1] is not None and name not in UNBOUND:
                np.testing.assert_allclose(results[1].astype("i4"), results[0].astype("i4"), rtol=0, atol=1, err_msg=name)

    def test_tiny(self):
        """Floats below 2^-126 have fewer bits: no algorithm is wrong for that."""
        np.save(self.folder / "x.npy", np.random.default_rng(7).random((40, 50), dtype="f4") * np.float32(1e-42))
        for name in set(algorithms()[0]) & {"direct", "separable", "fft", "tiled", "gemm"}:
            self.gconv("-i", "x.npy", "-f", "gaussian:size=15,sigma=2", "--border", "replicate", "-a", name, "--verify", "-o", "y.npy")

    def test_banks(self):
        names, took = algorithms()[1], set()
        random = np.random.default_rng(5)
        for c, k, size, words in ((1, 5, 3, ("--groups", "1")), (3, 70, 3, ()), (8, 64, 3, ("--padding", "1")), (3, 9, 7, ("--stride", "2")), (40, 33, 1, ()),
                                  (200, 70, 1, ()), (130, 40, 1, ()),
                                  (4, 20, 5, ("--dilation", "2")), (6, 8, 3, ("--border", "replicate"))):
            np.save(self.folder / "w.npy", random.normal(size=(k, c, size, size)).astype("f4"))
            for values in ([NAN] * 6, [INF, -INF, INF, NAN]):
                x = self.draw(c, 39, 46, values)
                np.save(self.folder / "x.npy", np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
                took |= set(self.compare(names, "-f", "w.npy", *words))
        amx = "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
        self.assertLessEqual(set(names) - UNBOUND - {"pointwise"} - (set() if amx else {"gemm-6xbf16"}), took)

    def test_relu(self):
        """max(v, 0): of -infinity 0; of infinity itself; of NaN NaN."""
        np.save(self.folder / "w.npy", np.array([1, -1], "f4").reshape(2, 1, 1, 1))
        for value in -INF, INF, NAN, np.float32(-3), np.float32(3):
            np.save(self.folder / "x.npy", np.full((1, 1, 9, 11), value, "f4"))
            for name in algorithms()[1]:
                for words, slope in (("--activation", "relu"), 0), (("--activation", "leaky:0.25"), 0.25):
                    got = self.result(name, "-f", "w.npy", *words)
                    if got is None or name in UNBOUND:
                        continue
                    for k, v in enumerate((value, -value)):
                        wanted = v if np.isnan(v) or v > 0 else slope * v if slope else 0
                        np.testing.assert_allclose(got[0, k], np.full((9, 11), wanted, "f4"), 1e-6 * (name == "fft"), 0, err_msg=f"{name} {value} {words}")


if __name__ == "__main__":
    unittest.main()
