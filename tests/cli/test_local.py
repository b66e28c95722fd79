# SPDX-License-Identifier: MIT
"""-f std:size=5, variance, contrast: local statistics against two passes in float64, where sums of squares lose all digits."""
import unittest
import warnings

import numpy as np
from helper import CommandTest
from numpy.lib.stride_tricks import sliding_window_view

PADS = {"zero": "constant", "replicate": "edge", "symmetric": "symmetric", "reflect101": "reflect", "wrap": "wrap"}


def expected(kind, array, rows, columns, border):
    array = array.astype(float)
    around = [(rows // 2, rows - 1 - rows // 2), (columns // 2, columns - 1 - columns // 2)]
    padded = np.pad(array, around, constant_values=np.nan) if border == "normalize" else np.pad(array, around, PADS[border])
    windows = sliding_window_view(padded, (rows, columns)).reshape(*array.shape, -1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        mean = np.nanmean(windows, -1)
        variance = np.nanmean((windows - mean[..., None]) ** 2, -1)
        std = np.sqrt(variance)
        return {"variance": variance, "std": std, "contrast": np.where(std == 0, 0, (array - mean) / std)}[kind]


class Local(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(5)

    def run_one(self, array, *words):
        np.save(self.folder / "in.npy", array)
        self.gconv("-i", "in.npy", "-o", "out.npy", *words)
        return np.load(self.folder / "out.npy")

    def test_floats(self):
        for number, border in enumerate((*PADS, "normalize", "normalize", "normalize")):
            kind = ("variance", "std", "contrast")[number % 3]
            array = (self.random.normal(0, 1, (37, 150)) + (0, 1e3, 1e6)[number % 3]).astype("f4")
            array[20, 70] = 1e7  # a star, which must leave nothing behind
            array[:, 110:] = array[0, 0]
            if number > 5:
                array[self.random.random(array.shape) < .2] = np.nan
            rows, columns = ((5, 5), (1, 7), (4, 3), (9, 81))[number % 4]
            wanted = expected(kind, array, rows, columns, border)
            holes = ("--nan", "fill") if number > 5 else ()
            made = self.run_one(array, "-f", f"{kind}:size={rows}x{columns}", "--border", border, "--verify", *holes)
            wanted[np.isnan(array) & (kind == "contrast")] = np.nan
            np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=1e-7 * np.nanmax(wanted), err_msg=(kind, border))
            self.assertTrue((made[9:-9, 125:-9] == 0).all() or number > 5 or columns > 30)
            strided = self.run_one(array, "-f", f"{kind}:size={rows}x{columns}", "--border", border, "--stride", "3,2", *holes)
            np.testing.assert_allclose(strided, made[::3, ::2], rtol=1e-6, atol=1e-7 * np.nanmax(wanted))

    def test_levels_stages_and_memory(self):
        photo = self.photo("a.png", 60, 50, channels=4)
        self.gconv("-i", "a.png", "-f", "std:size=5", "-o", "s.png", "--verify")
        made = self.pixels("s.png")
        np.testing.assert_array_equal(made[..., 3], photo[..., 3])
        self.gconv("-i", "a.png", "-f", "std:size=5", "--alpha", "drop", "-o", "d.png", "--verify")
        np.testing.assert_array_equal(self.pixels("d.png"), made[..., :3])
        for c in range(3):
            np.testing.assert_allclose(made[..., c], np.rint(expected("std", photo[..., c], 5, 5, "normalize")), atol=0)
        self.gconv("-i", "a.png", "-f", "variance:size=3", "-o", "v.npy", "--depth", "float", "--alpha", "drop")
        np.testing.assert_allclose(np.load(self.folder / "v.npy")[..., 0], expected("variance", photo[..., 0] / 255, 3, 3, "normalize"), rtol=1e-5, atol=1e-9)
        self.gconv("-i", "a.png", "-f", "gaussian", "--then", "-f", "contrast:size=15", "--then", "-f", "mix:input,0.5", "-o", "c.png")

    def test_what_is_refused(self):
        self.photo("a.png", 9, 9)
        for word in ("std:size=0", "std:sigma=2", "variance:size=5,3"):
            self.usage_error("size of its window", "-i", "a.png", "-f", word, "-o", "o.png")
        self.usage_error("stage of its own", "-i", "a.png", "-f", "std", "-f", "box", "-o", "o.png")
        self.gconv("-i", "a.png", "-f", "std", "--dilation", "2", "-o", "o.png", status=(1, 2, 3))
        self.usage_error("std has one algorithm", "-i", "a.png", "-f", "std:size=3", "-a", "all", "-o", "o.png")
        for words, fragment in ((("-a", "fft"), "algorithm direct alone, and not fft"), (("--combine", "sum"), "leave out --combine"),
                                (("--least-weight", ".9"), "leave out --least-weight")):
            done = self.gconv("-i", "a.png", "-f", "std:size=3", *words, "-o", "o.png", status=(1, 2, 3))
            self.assertIn(fragment, done.stderr)
            self.assertFalse((self.folder / "o.png").exists())
        self.gconv("-i", "a.png", "-f", "std:size=3", "-a", "direct", "--combine", "none", "-o", "o.png")
        # What is given once is for the filters beside a statistic
        self.gconv("-i", "a.png", "-f", "std:size=3", "--then", "-f", "gaussian", "-a", "fft", "-o", "o.png")
        self.gconv("-i", "a.png", "-f", "box", "--nan", "skip", "--least-weight", ".9", "--then", "-f", "std:size=3", "-o", "o.npy")

    def test_wide_strides(self):
        array = self.random.normal(0, 1, (40, 90)).astype("f4")
        made = self.run_one(array, "-f", "std:size=3", "--stride", "1000000000", "--verify")
        np.testing.assert_allclose(made, expected("std", array, 3, 3, "normalize")[:1, :1], rtol=1e-6)

    def test_alpha(self):
        """Alpha is that of the pixel, also if it has the number for no data; --verify looks at it."""
        photo = self.photo("a.png", 20, 30, channels=4)
        for words, step in ((), 1), (("--nodata", photo[3, 4, 3]), 1), (("--stride", "3"), 3):
            self.gconv("-i", "a.png", "-f", "std:size=5", *words, "-o", "s.png", "--verify")
            np.testing.assert_array_equal(self.pixels("s.png")[..., 3], photo[::step, ::step, 3])


if __name__ == "__main__":
    unittest.main()
