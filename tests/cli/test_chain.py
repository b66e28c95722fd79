# SPDX-License-Identifier: MIT
"""--then between plain filters: one filter after the other, with float32 between."""
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image

BLUR, EDGE = "gaussian:size=5,sigma=1", "sobel_x"


class Chain(CommandTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png", 60, 45)

    def pixels(self, name):
        return np.asarray(Image.open(self.folder / name))

    def in_two_runs(self, *between, last=()):
        self.gconv("-i", "a.png", "-f", BLUR, *between, "-o", "middle.npy", "--depth", "float")
        self.gconv("-i", "middle.npy", "-f", EDGE, *last, "-o", "expected.npy", "--depth", "float")
        return np.load(self.folder / "expected.npy")

    def chain(self, *between, last=(), output="got.npy"):
        depth = ("--depth", "float") if output.endswith(".npy") else ()
        self.gconv("-i", "a.png", "-f", BLUR, *between, "--then", "-f", EDGE, *last, "-o", output, *depth, "--verify")
        return np.load(self.folder / output) if depth else self.pixels(output)

    def test_the_same_as_one_run_after_the_other(self):
        np.testing.assert_array_equal(self.chain(), self.in_two_runs())

    def test_each_filter_has_a_stride_and_padding_of_its_own(self):
        between, last = ("--stride", "2", "--padding", "valid"), ("--flip", "--padding", "full")
        np.testing.assert_array_equal(self.chain(*between, last=last), self.in_two_runs(*between, last=last))

    def test_a_picture_has_the_type_of_the_first(self):
        expected = np.clip(np.rint(self.in_two_runs() * 255), 0, 255)
        got = self.chain(output="got.png")
        self.assertEqual(got.dtype, np.uint8)
        self.assertEqual(np.abs(got - expected).max(), 0)

    def test_scale_and_range_are_for_the_last_result(self):
        expected = np.clip(np.rint((self.in_two_runs() * 0.25 + 0.5) * 255), 0, 255)
        got = self.chain(last=("--scale", "0.25", "--offset", "0.5"), output="got.png")
        self.assertEqual(np.abs(got - expected).max(), 0)

    def test_several_filters_at_the_end(self):
        self.gconv("-i", "a.png", "-f", BLUR, "--then", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/")
        self.assertEqual(self.files("out"), ["a_sobel_x.png", "a_sobel_y.png"])

    def test_three_stages(self):
        self.gconv("-i", "a.png", "-f", BLUR, "--then", "-f", EDGE, "--then", "-f", "laplacian_4", "-o", "got.npy", "--depth", "float")
        self.in_two_runs()
        self.gconv("-i", "expected.npy", "-f", "laplacian_4", "-o", "third.npy", "--depth", "float")
        np.testing.assert_array_equal(np.load(self.folder / "got.npy"), np.load(self.folder / "third.npy"))

    def test_rows_and_threads_change_nothing(self):
        self.photo("tall.png", 900, 3200)
        words = ("-i", "tall.png", "-f", BLUR, "--then", "-f", EDGE, "--stride", "2", "--border", "symmetric")
        self.gconv(*words, "-o", "whole.png", "--threads", "1")
        result = self.gconv(*words, "-o", "rows.png", "--memory", "60M", "-q")
        self.assertEqual(result.stderr, "")
        np.testing.assert_array_equal(self.pixels("whole.png"), self.pixels("rows.png"))

    def test_resolution_and_alpha_stay(self):
        image = np.random.default_rng(3).integers(0, 256, (45, 60, 4), dtype=np.uint8)
        Image.fromarray(image).save(self.folder / "a.png", dpi=(300, 300))
        got = self.chain(output="got.png")
        np.testing.assert_array_equal(got[..., 3], image[..., 3])
        with Image.open(self.folder / "got.png") as result:
            self.assertAlmostEqual(result.info["dpi"][0], 300, delta=0.1)

    def test_what_is_refused(self):
        self.usage_error("2 filters stand before it", "-i", "a.png", "-f", "sobel_x", "-f", "sobel_y", "--then", "-f", BLUR, "-o", "y/")
        self.usage_error("leave out --then", "-i", "a.png", "-f", BLUR, "--then", "-f", EDGE, "-a", "all", "-o", "y.png")
        self.usage_error("no filter follows it", "-i", "a.png", "-f", BLUR, "--then", "-o", "y.png")

    def test_another_first_filter_is_another_job(self):
        words = ("-i", "a.png", "--then", "-f", EDGE, "-o", "out/", "--resume", "-v")
        self.gconv(words[0], words[1], "-f", BLUR, *words[2:])
        again = self.gconv(words[0], words[1], "-f", "average", *words[2:]).stderr
        self.assertIn("of other filters, options or another version", again)

    def test_explain_tells_of_each(self):
        text = self.gconv("-i", "a.png", "-f", BLUR, "--then", "-f", EDGE, "-o", "y.png", "--dry-run", "--explain").stderr
        self.assertRegex(text, r"(?s)stage 1 of 2\nfilter gaussian.*stage 2 of 2\nfilter sobel_x")


if __name__ == "__main__":
    unittest.main()
