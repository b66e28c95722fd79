# SPDX-License-Identifier: MIT
"""Arithmetic between --thens, and --luma of plain filters: against numpy; by rows, whole, with alpha; what is refused."""
import unittest

import numpy as np
from helper import CommandTest, needs
from PIL import Image, TiffImagePlugin


class Arithmetic(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(2)
        self.image = self.random.random((37, 53, 3), np.float32)
        self.other = self.random.random((37, 53, 3), np.float32) + np.float32(0.5)
        np.save(self.folder / "a.npy", self.image)
        np.save(self.folder / "b.npy", self.other)
        np.save(self.folder / "g.npy", self.other[..., 0])

    def apply(self, name, *words):
        self.gconv("-i", name, *words, "-o", "o.npy", "--depth", "float")
        return np.load(self.folder / "o.npy")

    @needs("libtiff")
    def test_no_data_of_the_second_image(self):
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags.tagtype[42113], tags[42113] = 2, "-9999"
        for name, place in (("x.tif", (3, 4)), ("y.tif", (7, 8))):
            array = self.other[..., 0].copy()
            array[place] = -9999
            Image.fromarray(array).save(self.folder / name, tiffinfo=tags)
        for name in "subtract", "max", "flat":
            made = self.gconv("-i", "x.tif", "-f", f"{name}:y.tif", "-o", "o.tif")
            self.assertIn("where the second image has no data, results have none", made.stderr)
            with Image.open(self.folder / "o.tif") as image:
                result = np.asarray(image)
            self.assertEqual([tuple(place) for place in np.argwhere(result == -9999)], [(3, 4), (7, 8)], name)
        self.assertTrue(np.isnan(self.apply("g.npy", "-f", "subtract:y.tif")[7, 8]))
        self.usage_error("--luma --alpha filter", "-i", "a.npy", "-f", "box", "--luma", "--alpha", "filter", "-o", "o.npy")

    def test_each_is_that_of_numpy(self):
        blur = self.apply("a.npy", "-f", "box:size=5")
        x, y = blur.astype(np.float64), self.other.astype(np.float64)
        expected = {"add": x + y, "subtract": x - y, "subtract_from": y - x, "multiply": x * y, "divide": x / y, "divide_into": y / x,
                    "flat": x / (y / y.mean((0, 1))), "max": np.maximum(x, y), "min": np.minimum(x, y), "hypot": np.hypot(x, y)}
        for name, want in expected.items():
            made = self.apply("a.npy", "-f", "box:size=5", "--then", "-f", f"{name}:b.npy")
            np.testing.assert_allclose(made, want, rtol=3e-7, atol=1e-7, err_msg=name)
        made = self.apply("a.npy", "-f", "box:size=5", "--then", "-f", "mix:b.npy,0.3")
        np.testing.assert_allclose(made, 0.3 * x + 0.7 * y, rtol=3e-7, atol=1e-7)
        made = self.apply("a.npy", "-f", "box:size=5", "--then", "-f", "subtract_from:input")
        np.testing.assert_array_equal(made, self.image - blur)
        made = self.apply("a.npy", "-f", "subtract:g.npy")
        np.testing.assert_array_equal(made, self.image - self.other[..., :1])
        made = self.apply("a.npy", "-f", "box:size=5", "--then", "-f", "subtract:input", "--then", "-f", "box:size=3")
        np.save(self.folder / "d.npy", blur - self.image)
        np.testing.assert_array_equal(made, self.apply("d.npy", "-f", "box:size=3"))

    def test_pictures_by_rows_and_whole_are_equal(self):
        tall = self.random.integers(0, 256, (3000, 40, 4)).astype(np.uint8)
        Image.fromarray(tall).save(self.folder / "t.png")
        words = ("-f", "box:size=9", "--border", "replicate", "--then", "-f", "subtract_from:input", "--offset", "0.5")
        for memory in ((), ("--memory", "32M"), ("--verify",)):
            self.gconv("-i", "t.png", *words, *memory, "-o", "o.png")
            made = self.pixels("o.png")
            blur = self.apply("t.png", "-f", "box:size=9", "--border", "replicate")[..., :3]
            want = np.rint(np.clip((tall[..., :3] / np.float32(255) - blur) + 0.5, 0, 1) * 255)
            self.assertLessEqual(np.abs(made[..., :3] - want).max(), 1)
            np.testing.assert_array_equal(made[..., 3], tall[..., 3])

    def test_brightness(self):
        photo = self.photo("p.png", 60, 40)
        self.gconv("-i", "p.png", "-f", "box:size=3", "--border", "replicate", "--luma", "-o", "o.png")
        grey = photo @ np.array([0.299, 0.587, 0.114])
        wide = np.pad(grey, 1, mode="edge")
        blur = sum(wide[r:r + 40, s:s + 60] for r in range(3) for s in range(3)) / 9
        want = np.clip(photo + (blur - grey)[..., None], 0, 255)
        self.assertLessEqual(np.abs(self.pixels("o.png") - want).max(), 0.501)
        self.photo("q.png", 60, 40, channels=4)
        for words in (("-f", "box:size=3", "--luma"), ("-f", "box:size=3", "--then", "-f", "box:size=5", "--luma")):
            self.gconv("-i", "q.png", *words, "-o", "o.png")
            kept = self.pixels("o.png")
            self.gconv("-i", "q.png", *words, "--alpha", "drop", "-o", "o.png")
            np.testing.assert_array_equal(self.pixels("o.png"), kept[..., :3])
        for words in (("--gray",), ("--linear",)):
            self.usage_error("--luma", "-i", "p.png", "-f", "box:size=3", "--luma", *words, "-o", "o.png")

    def test_what_is_refused(self):
        self.photo("p.png")
        for fragment, *words in (("of its own", "-f", "box", "-f", "subtract:b.npy"), ("its weight", "-f", "mix:b.npy"),
                                 ("name a file", "-f", "add:"), ("flat:FILE", "-f", "flat:input"), ("cannot", "-f", "add:nothing.png")):
            result = self.gconv("-i", "p.png", *words, "-o", "o.png", status=(1, 2))
            self.assertIn(fragment, result.stderr)
        self.assertIn("must have one size", self.gconv("-i", "p.png", "-f", "add:b.npy", "-o", "o.png", status=(1, 2)).stderr)
        self.gconv("-i", "p.png", "-f", "add:p.png", "-o", "p.png", status=2)
        self.gconv("-i", "a.npy", "-f", "add:b.npy", "-o", "b.npy", status=2)

    def test_resume_knows_the_second_image(self):
        (self.folder / "in").mkdir()
        self.photo("in/p.png", 20, 10)
        words = ("-i", "in", "-f", "add:dark.png", "-o", "out/", "--resume")
        made = []
        for seed in 1, 2:
            self.photo("dark.png", 20, 10, seed=seed)
            self.gconv(*words)
            made.append(self.pixels("out/p.png"))
        self.assertTrue((made[0] != made[1]).any())


if __name__ == "__main__":
    unittest.main()
