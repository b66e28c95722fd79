# SPDX-License-Identifier: MIT
"""--algorithm all: every algorithm on one image, which agree; the fastest writes the result."""
import unittest

import numpy

from helper import CommandTest


class Race(CommandTest):
    def race(self, *words, **options):
        return self.gconv("-i", "a.png", "-o", "b.png", "-a", "all", *words, **options)

    def test_all_run_and_agree(self):
        self.photo("a.png", 64, 48)
        self.gconv("-i", "a.png", "-f", "gaussian:size=5,sigma=1", "-o", "c.png", "-a", "direct")
        text = self.race("-f", "gaussian:size=5,sigma=1").stdout
        rows = {line.split()[0]: line for line in text.splitlines()[2:-1]}
        self.assertLessEqual({"direct", "separable", "sparse", "fft", "im2col", "reference"}, set(rows))
        for name in ("sparse", "im2col", "reference"):
            self.assertTrue(rows[name].endswith("equal"), rows[name])
        self.assertRegex(text.splitlines()[-1], "^the fastest is [a-z0-9-]+$")
        difference = abs(self.pixels("b.png").astype(int) - self.pixels("c.png"))
        self.assertLessEqual(difference.max(), 1)

    def test_what_cannot_says_why(self):
        self.photo("a.png")
        text = self.race("-f", "sobel_x", "-f", "sobel_y", "--combine", "magnitude", "--verify").stdout
        self.assertRegex(text, r"fft +it takes one filter at a time")
        self.assertIn("samples compared", text)
        text = self.gconv("-i", "a.png", "-f", "sharpen", "-a", "direct,winograd", "-o", "w.png").stdout
        self.assertRegex(text, "winograd +none of this name for plain filters")

    def test_several_results(self):
        self.photo("a.png")
        words = ("-i", "a.png", "-f", "sharpen", "-f", "average:size=5")
        text = self.gconv(*words, "-o", "out/", "-a", "all").stdout
        self.assertRegex(text, "(?m)^reference .* equal$")
        self.gconv(*words, "-o", "direct/", "-a", "direct")
        self.assertEqual(len(self.files("out")), 2)
        self.assertEqual(self.files("out"), self.files("direct"))
        for name in self.files("out"):
            difference = abs(self.pixels(f"out/{name}").astype(int) - self.pixels(f"direct/{name}"))
            self.assertLessEqual(difference.max(), 1, name)

    def test_stages_on_the_host(self):
        self.photo("a.png", channels=4)
        self.race("-f", "gaussian", "--linear", "--alpha", "premultiply")
        self.race("-f", "sobel_x", "--range", "minmax", "--depth", "16")

    def test_what_is_not_finite_does_not_part_them(self):
        image = numpy.ones((60, 70), numpy.float32)
        image[20, 30] = numpy.nan
        numpy.save(self.folder / "a.npy", image)
        told = self.gconv("-i", "a.npy", "-f", "gaussian:size=31,sigma=5", "-o", "x.npy", "-d", "cpu", "-a", "all").stdout
        self.assertIn("fft", told)
        self.assertNotIn("WRONG", told)

    def test_without(self):
        self.photo("a.png")
        told = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "-d", "cpu", "-a", "all", "--without", "fft,direct").stdout
        self.assertNotRegex(told, r"(?m)^(fft|direct) ")
        self.assertRegex(told, r"(?m)^separable ")

    def test_what_none_can_do_is_said_once(self):
        self.photo("a.png")
        refused = self.race("-f", "sobel_x", "--border", "zero", "--padding", "100000", status=1)
        self.assertEqual(refused.stdout, "")
        self.assertRegex(refused.stderr, r"^gconv: a\.png: a padding of 100000[^\n]*\n$")

    def test_nothing_is_run_for_a_result_that_is_kept(self):
        self.photo("a.png")
        (self.folder / "b.png").write_bytes(b"old")
        kept = self.race("-f", "sharpen", "--border", "zero", "--no-clobber", status=1)
        self.assertEqual((kept.stdout, kept.stderr), ("", "gconv: b.png: exists and is kept (--no-clobber)\n"))
        passed = self.race("-f", "sharpen", "--border", "zero", "--skip-existing")
        self.assertEqual((passed.stdout, passed.stderr), ("", ""))
        self.assertEqual((self.folder / "b.png").read_bytes(), b"old")

    def test_only_one_image(self):
        self.photo("a.png")
        self.photo("c/1.png")
        self.photo("c/2.png")
        self.usage_error("a race on one image", "-i", "c", "-f", "sharpen", "-o", "out/", "-a", "all")
        self.usage_error("a race on one image", "-i", "-", "-f", "sharpen", "-o", "b.png", "-a", "all")

    def test_nothing_is_run_dry(self):
        self.photo("a.png")
        self.assertEqual(self.race("-f", "sharpen", "--dry-run").stdout, "a.png -> b.png\n")
        self.assertEqual(self.files(), ["a.png"])

    def test_an_image_that_cannot_be_read(self):
        (self.folder / "a.png").write_bytes(b"no image")
        self.assertIn("a.png", self.race("-f", "sharpen", status=1).stderr)
        self.assertEqual(self.files(), ["a.png"])


if __name__ == "__main__":
    unittest.main()
