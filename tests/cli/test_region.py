# SPDX-License-Identifier: MIT
"""--region and --mask: filters in a part of the image, blended with the input."""
import re
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image

try:
    from scipy import ndimage
except ImportError:
    ndimage = None

BLUR = "gaussian:size=7,sigma=2"


def white(array):
    return {"uint8": 255, "uint16": 65535, "float32": 1}[array.dtype.name]


def blend(image, filtered, weights):
    """weights * filtered + (1 - weights) * image, by integers where all are. `filtered` was rounded, and the sum is, too."""
    top = white(weights)
    weights = weights.reshape(weights.shape + (1,) * (image.ndim - weights.ndim))
    if image.dtype.kind == "u" and weights.dtype.kind == "u":
        weights = weights.astype(np.int64)
        sums = weights * filtered.astype(np.int64) + (top - weights) * image.astype(np.int64)
        return ((2 * sums + top) // (2 * top)).astype(image.dtype)  # no ties: top is odd
    weights = weights.astype(np.float64) / top
    mixed = weights * filtered.astype(np.float64) + (1 - weights) * image.astype(np.float64)
    return np.rint(mixed).astype(image.dtype) if image.dtype.kind == "u" else mixed.astype(image.dtype)


def rectangle(shape, width, height, x, y):
    weights = np.zeros(shape[:2], np.uint8)
    weights[max(y, 0):max(y + height, 0), max(x, 0):max(x + width, 0)] = 255
    return weights


class Part(CommandTest):
    def read(self, name):
        array = np.load(self.folder / name) if name.endswith(".npy") else self.pixels(name)
        return array.astype(np.uint16) if array.dtype == np.int32 else array  # as some versions of Pillow have 16 bits

    def filtered(self, *words, to="whole.png", of="a.png"):
        self.gconv("-i", of, *words, "-o", to)
        return self.read(to)

    def save(self, name, array):
        if name.endswith(".npy"):
            np.save(self.folder / name, array)
        else:
            Image.fromarray(array).save(self.folder / name)
        return array


class Region(Part):
    def setUp(self):
        super().setUp()
        self.image = self.photo("a.png", 60, 45)

    def check(self, region, box, *words, of="a.png", to="got.png", image=None, status=0):
        image = self.image if image is None else image
        whole = self.filtered(*words, of=of, to="whole" + to[3:])
        result = self.gconv("-i", of, *words, "--region", region, "-o", to, status=status)
        inside = rectangle(image.shape, *box).astype(bool)
        expected = np.where(inside.reshape(inside.shape + (1,) * (image.ndim - 2)), whole, image)
        got = self.read(to)
        self.assertEqual(got.dtype, image.dtype)
        np.testing.assert_array_equal(got, expected)
        if not box[0] * box[1] == image.shape[0] * image.shape[1]:
            self.assertTrue((got != whole).any())
        self.assertTrue((got != image).any())
        return result

    def test_bits_inside_are_those_of_the_whole_image(self):
        for region, box in {"20x10+5+7": (20, 10, 5, 7), "1x1+59+44": (1, 1, 59, 44), "60x1+0+20": (60, 1, 0, 20),
                            "60x45+0+0": (60, 45, 0, 0), "1x45+30+0": (1, 45, 30, 0)}.items():
            for border in "zero", "replicate", "wrap":
                self.assertEqual(self.check(region, box, "-f", BLUR, "--border", border).stderr, "")

    @unittest.skipUnless(ndimage, "no scipy")
    def test_scipy_agrees_that_neighbours_are_the_image(self):
        image = self.save("f.npy", np.random.default_rng(1).random((40, 50), np.float32))
        self.gconv("-i", "f.npy", "-f", "average:size=5", "--border", "replicate", "--region", "12x9+30+4", "-o", "g.npy")
        expected = image.astype(np.float64)
        expected[4:13, 30:42] = ndimage.uniform_filter(expected, 5, mode="nearest")[4:13, 30:42]
        np.testing.assert_allclose(self.read("g.npy"), expected, atol=1e-6)
        outside = np.ones((40, 50), bool)
        outside[4:13, 30:42] = False
        np.testing.assert_array_equal(self.read("g.npy")[outside], image[outside])

    def test_what_reaches_beyond_is_left_out_and_said(self):
        for region, box, said in (("30x20-10-5", (30, 20, -10, -5), "20 x 15 of it"), ("30x20+50+40", (30, 20, 50, 40), "10 x 5 of it"),
                                  ("100x10-20+3", (100, 10, -20, 3), "60 x 10 of it")):
            result = self.check(region, box, "-f", BLUR)
            self.assertIn(f"warning: the region {region} reaches beyond an image of 60 x 45 pixels: {said}", result.stderr)
            self.assertEqual(result.stderr.count("reaches"), 1)
        self.assertEqual(self.gconv("-q", "-i", "a.png", "-f", BLUR, "--region", "30x20-10-5", "-o", "b.png").stderr, "")

    def test_wholly_outside(self):
        for region in "10x10+60+0", "10x10+0+45", "10x10-10+0", "5x5+1000000+1000000":
            result = self.gconv("-i", "a.png", "-f", BLUR, "--region", region, "-o", "got.png", status=1)
            self.assertIn(f"the region {region} lies outside the image, which has 60 x 45 pixels", result.stderr)
            self.assertFalse((self.folder / "got.png").exists())

    def test_mistakes(self):
        for region in ("10x10", "10x10+1", "10+1+1", "0x5+0+0", "-1x5+0+0", "10x10+1+1+1", "axb+c+d", "", "10x10++1+1", "10x10+1+1x",
                       "10.5x10+1+1", "10x10+ 1+1", "99999999999x1+0+0"):
            self.usage_error("this takes WIDTHxHEIGHT+X+Y", "-i", "a.png", "-f", BLUR, f"--region={region}", "-o", "b.png")
        self.usage_error("--region 2x2+1+1: given twice: it is one rectangle; for several, give", "-i", "a.png", "-f", BLUR,
                         "--region", "5x5+0+0", "--region", "2x2+1+1", "-o", "b.png")

    def test_what_changes_the_shape_is_refused(self):
        for words in (("--stride", "2"), ("--padding", "valid"), ("--padding", "full"), ("--gray",), ("--depth", "16")):
            result = self.gconv("-i", "a.png", "-f", BLUR, *words, "--region", "5x5+0+0", "-o", "b.png", status=1)
            self.assertIn("the result must have its size, channels and type (60 x 45, 3 channels, u8)", result.stderr)
            self.assertEqual(self.files(), ["a.png"])
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "sobel_y", "--region", "5x5+0+0", "-o", "out/", status=2)
        self.assertIn("here it becomes 2: name one filter, or combine them", result.stderr)
        self.usage_error("--region is not for banks", "-i", "a.png", "-f", BLUR, "--activation", "relu", "--region", "5x5+0+0", "-o", "b.png")

    def test_stages_and_chains(self):
        for words in (("-f", BLUR, "--then", "-f", "usm:sigma=2"), ("-f", "sobel_x", "sobel_y", "--combine", "magnitude"),
                      ("-f", BLUR, "--linear"), ("-f", "sobel_x", "--range", "minmax"), ("-f", "log:size=9,sigma=1.4", "--range", "signed"),
                      ("-f", BLUR, "-a", "fft"), ("-f", BLUR, "--verify", "--explain")):
            self.check("33x21+11+9", (33, 21, 11, 9), *words)

    def test_alpha(self):
        image = np.random.default_rng(3).integers(0, 256, (45, 60, 4), dtype=np.uint8)
        self.save("rgba.png", image)
        for alpha in "keep", "filter", "premultiply":
            self.check("33x21+11+9", (33, 21, 11, 9), "-f", BLUR, "--alpha", alpha, of="rgba.png", image=image)

    def test_types(self):
        generator = np.random.default_rng(4)
        for name, image in (("s.png", generator.integers(0, 65536, (45, 60)).astype(np.uint16)),
                            ("f.npy", (generator.standard_normal((45, 60, 3)) * 3).astype(np.float32))):
            self.save(name, image)
            self.check("33x21+11+9", (33, 21, 11, 9), "-f", BLUR, of=name, to="got" + name[-4:], image=image)

    def test_numbers_that_are_no_finite_stay_outside(self):
        image = np.ones((20, 30), np.float32)
        image[2, 3], image[4, 25] = np.nan, np.inf
        self.save("n.npy", image)
        self.gconv("-i", "n.npy", "-f", "average", "--border", "replicate", "--region", "5x5+12+12", "-o", "m.npy")
        np.testing.assert_array_equal(self.read("m.npy"), image)

    def test_resolution_stays(self):
        Image.fromarray(self.image).save(self.folder / "a.png", dpi=(300, 300))
        self.gconv("-i", "a.png", "-f", BLUR, "--region", "10x10+5+5", "-o", "b.png")
        with Image.open(self.folder / "b.png") as result:
            self.assertAlmostEqual(result.info["dpi"][0], 300, delta=0.1)

    def test_photos_are_turned_first(self):
        turned = Image.Exif()
        turned[0x0112] = 6  # shown turned by 90 degrees
        Image.fromarray(np.rot90(self.image).copy()).save(self.folder / "turned.png", exif=turned)
        self.check("20x10+35+7", (20, 10, 35, 7), "-f", BLUR, of="turned.png")

    def test_frames(self):
        stack = np.random.default_rng(5).random((3, 1, 20, 30), np.float32)
        np.save(self.folder / "stack.npy", stack)
        self.gconv("-i", "stack.npy", "-f", "average", "-o", "whole.npy")
        self.gconv("-i", "stack.npy", "-f", "average", "--region", "7x6+5+4", "-o", "got.npy")
        expected = stack.copy()
        expected[..., 4:10, 5:12] = self.read("whole.npy")[..., 4:10, 5:12]
        np.testing.assert_array_equal(self.read("got.npy"), expected)

    def test_rows_and_threads_change_nothing(self):
        image = self.photo("tall.png", 900, 3200)
        for words in (("-f", BLUR), ("-f", "gaussian:size=41,sigma=9"), ("-f", BLUR, "--then", "-f", "average:size=9")):
            whole = self.filtered(*words, of="tall.png")
            expected = image.copy()
            expected[1234:1900, 100:711] = whole[1234:1900, 100:711]
            for limits in (("--threads", "1"), ("--memory", "50M"), ()):
                result = self.gconv("-i", "tall.png", *words, "--region", "611x666+100+1234", "-o", "got.png", *limits)
                self.assertEqual(result.stderr, "")
                self.assert_pixels("got.png", expected)

    def test_a_folder_of_several_sizes(self):
        images = {"in/a.png": self.photo("in/a.png", 60, 45), "in/b.png": self.photo("in/b.png", 20, 30, 1), "in/c.png": self.photo("in/c.png", 9, 9, 2)}
        result = self.gconv("-i", "in", "-f", BLUR, "--region", "25x10+12+2", "-o", "out/", status=3)
        self.assertIn("in/c.png: the region 25x10+12+2 lies outside the image, which has 9 x 9 pixels", result.stderr)
        self.assertIn("reaches beyond an image of 20 x 30", result.stderr)
        self.assertEqual(self.files("out"), ["a.png", "b.png"])
        for name in "a", "b":
            whole = self.filtered("-f", BLUR, of=f"in/{name}.png")
            inside = rectangle(whole.shape, 25, 10, 12, 2).astype(bool)[..., None]
            self.assert_pixels(f"out/{name}.png", np.where(inside, whole, images[f"in/{name}.png"]))

    def test_another_region_is_another_job(self):
        words = ("-i", "a.png", "-f", BLUR, "-o", "out/", "--resume", "-v", "--region")
        self.gconv(*words, "10x10+5+5")
        self.assertNotIn("another version", self.gconv(*words, "10x10+5+5").stderr)
        self.assertIn("of other filters, options or another version", self.gconv(*words, "10x10+5+6").stderr)

    def test_explained(self):
        text = self.gconv("-i", "a.png", "-f", BLUR, "--region", "10x8+55+5", "-o", "b.png", "--dry-run", "--explain").stderr
        self.assertIn("only within 5 x 8 pixels from column 55, row 5 on: all others are the input's", text)
        self.assertIn("gaussian", text)

    def test_a_race_is_run_by_the_filters(self):
        self.check("20x10+5+7", (20, 10, 5, 7), "-f", BLUR)
        got = self.pixels("got.png")
        self.gconv("-i", "a.png", "-f", BLUR, "--region", "20x10+5+7", "-a", "all", "--without", "fft", "-o", "raced.png")
        self.assert_pixels("raced.png", got)


class Mask(Part):
    def setUp(self):
        super().setUp()
        self.generator = np.random.default_rng(9)
        self.image = self.photo("a.png", 60, 45)
        self.ramp = np.tile(np.linspace(0, 255, 60).astype(np.uint8), (45, 1))

    def check(self, mask, weights, *words, of="a.png", image=None, options=()):
        image = self.image if image is None else image
        end = of[of.rindex("."):]
        whole = self.filtered(*words, of=of, to="whole" + end)
        self.gconv("-i", of, *words, "--mask", mask, *options, "-o", "got" + end)
        got = self.read("got" + end)
        np.testing.assert_array_equal(got, blend(image, whole, weights))
        self.assertTrue((got != whole).any() and (got != image).any())
        return got

    def test_weights_of_every_type(self):
        noise = self.generator.integers(0, 65536, (45, 60))
        noise[:5], noise[5:10] = 0, 65535
        masks = {"m8.png": (noise >> 8).astype(np.uint8), "m16.png": noise.astype(np.uint16), "mf.npy": (noise / 65535).astype(np.float32)}
        images = {"a.png": self.image, "g.png": self.image[..., 0].copy(), "s.png": self.generator.integers(0, 65536, (45, 60)).astype(np.uint16),
                  "f.npy": self.generator.random((45, 60, 3), np.float32)}
        for name, image in images.items():
            self.save(name, image)
            for mask, weights in masks.items():
                self.save(mask, weights)
                got = self.check(mask, weights, "-f", BLUR, of=name, image=image)
                np.testing.assert_array_equal(got[:5], image[:5])
                np.testing.assert_array_equal(got[5:10], self.read("whole" + name[-4:])[5:10])

    def test_colours_become_grey_and_alpha_counts(self):
        colour = self.generator.integers(0, 256, (45, 60, 3), dtype=np.uint8)
        self.save("colour.png", colour)
        # The exact sum, rounded to nearest even.
        thousandths = (colour.astype(np.int64) * (299, 587, 114)).sum(-1)
        grey = np.rint(thousandths / 1000).astype(np.uint8)
        self.check("colour.png", grey, "-f", BLUR)
        alpha = self.generator.integers(0, 256, (45, 60), dtype=np.uint8)
        self.save("la.png", np.dstack([self.ramp, alpha]))
        product = ((2 * self.ramp.astype(int) * alpha + 255) // 510).astype(np.uint8)
        self.check("la.png", product, "-f", BLUR)
        self.save("rgba.png", np.dstack([self.ramp] * 3 + [np.full_like(self.ramp, 255)]))
        self.check("rgba.png", self.ramp, "-f", BLUR)

    def test_with_a_region_it_is_the_product(self):
        self.save("m.png", self.ramp)
        weights = np.where(rectangle(self.image.shape, 30, 20, 20, 10) > 0, self.ramp, 0).astype(np.uint8)
        self.check("m.png", weights, "-f", BLUR, options=("--region", "30x20+20+10"))

    def test_one_for_each_image(self):
        (self.folder / "masks").mkdir()
        for name, mask in (("a", self.ramp), ("b", 255 - self.ramp)):
            self.photo(f"in/{name}.png", 60, 45)
            self.save(f"masks/{name}.png", mask)
        for option in "--mask", "--weights":
            words = ("-f", BLUR, "--border", "replicate", option)
            self.gconv("-i", "in", *words, "masks/{stem}.png", "-o", "out/")
            for name in "ab":
                self.gconv("-i", f"in/{name}.png", *words, f"masks/{name}.png", "-o", "one.png")
                self.assert_pixels("one.png", self.pixels(f"out/{name}.png"))
        words = ("-i", "in", "-f", BLUR, "--mask", "masks/{stem}.png")
        self.usage_error("takes one --mask", *words, "-o", "all.npy")
        for field in "{frame}", "{filter}", "{output}", "{ext}":  # the mask of the first frame was taken for all
            self.usage_error(f"and no {field}", "-i", "in", "-f", BLUR, "--mask", f"masks/{field}.png", "-o", "out/")
        self.usage_error("choose another name", *words, "-o", "masks/")
        self.usage_error("choose another name", "-i", "in/a.png", "-f", BLUR, "--weights", "masks/a.png", "-o", "masks/a.png")
        self.usage_error("can be read only once", "-i", "-", "-f", BLUR, "--weights", "-", "-o", "o.png")
        self.save("masks/b.png", self.ramp[:44])
        failed = self.gconv(*words, "-o", "new/", status=3)
        self.assertIn("in/b.png: the mask has 60 x 44 pixels", failed.stderr)
        self.assertEqual(self.files("new"), ["a.png"])
        (self.folder / "masks/a.png").unlink()
        self.usage_error("masks/a.png: cannot find", *words, "-o", "new/")

    def test_sizes(self):
        self.save("m.png", self.ramp[:44])
        result = self.gconv("-i", "a.png", "-f", BLUR, "--mask", "m.png", "-o", "b.png", status=1)
        self.assertIn("a.png: the mask has 60 x 44 pixels, and the image 60 x 45", result.stderr)
        self.assertEqual(self.files(), ["a.png", "m.png"])

    def test_a_folder_of_several_sizes(self):
        self.photo("in/a.png", 60, 45)
        self.photo("in/b.png", 20, 30)
        self.save("m.png", self.ramp)
        result = self.gconv("-i", "in", "-f", BLUR, "--mask", "m.png", "-o", "out/", status=3)
        self.assertIn("in/b.png: the mask has 60 x 45 pixels, and the image 20 x 30", result.stderr)
        self.assertEqual(self.files("out"), ["a.png"])

    def test_mistakes(self):
        self.usage_error("nosuch.png", "-i", "a.png", "-f", BLUR, "--mask", "nosuch.png", "-o", "b.png")
        (self.folder / "text.png").write_text("no picture\n")
        self.usage_error("--mask text.png", "-i", "a.png", "-f", BLUR, "--mask", "text.png", "-o", "b.png")
        self.save("m.png", self.ramp)
        self.usage_error("choose another name", "-i", "a.png", "-f", BLUR, "--mask", "m.png", "-o", "m.png")
        self.usage_error("--mask a.png: given twice, before with m.png", "-i", "a.png", "-f", BLUR, "--mask", "m.png", "--mask", "a.png",
                         "-o", "b.png")
        self.usage_error("standard input can be read only once", "-i", "-", "-f", BLUR, "--mask", "-", "-o", "b.png")
        self.usage_error("--mask is not for banks", "-i", "a.png", "-f", BLUR, "--activation", "relu", "--mask", "m.png", "-o", "b.png")
        for bad in 1.5, -0.1, np.nan:
            weights = np.zeros((45, 60), np.float32)
            weights[7, 8] = bad
            self.save("bad.npy", weights)
            result = self.gconv("-i", "a.png", "-f", BLUR, "--mask", "bad.npy", "-o", "b.png", status=2)
            self.assertIn("row 7 of the mask has a sample that is not from 0 to 1", result.stderr)

    def test_the_mask_may_come_from_a_pipe(self):
        self.save("m.png", self.ramp)
        self.gconv("-i", "a.png", "-f", BLUR, "--mask", "m.png", "-o", "b.png")
        self.gconv("-i", "a.png", "-f", BLUR, "--mask", "-", "-o", "c.png", stdin=(self.folder / "m.png").read_bytes())
        self.assert_pixels("c.png", self.pixels("b.png"))

    def test_rows_and_threads_change_nothing(self):
        image = self.photo("tall.png", 900, 3200)
        weights = self.save("m.png", self.generator.integers(0, 256, (3200, 900), dtype=np.uint8))
        whole = self.filtered("-f", BLUR, of="tall.png")
        for limits in (("--threads", "1"), ("--memory", "50M"), ()):
            self.gconv("-i", "tall.png", "-f", BLUR, "--mask", "m.png", "-o", "got.png", *limits)
            self.assert_pixels("got.png", blend(image, whole, weights))

    def test_another_content_is_another_job(self):
        self.save("m.png", self.ramp)
        words = ("-i", "a.png", "-f", BLUR, "-o", "out/", "--resume", "-v", "--mask")
        self.gconv(*words, "m.png")
        self.save("same.png", self.ramp)
        self.assertNotIn("another version", self.gconv(*words, "same.png").stderr)
        self.save("m.png", self.ramp[:, ::-1].copy())
        self.assertIn("of other filters, options or another version", self.gconv(*words, "m.png").stderr)
        for flipped in False, True:  # planes count as rows do
            np.save(self.folder / "m.npy", (self.ramp[:, ::-1] if flipped else self.ramp)[None, None] / np.float32(255))
            self.assertIn("of other filters, options or another version", self.gconv(*words, "m.npy").stderr)

    def test_verified(self):
        self.save("m.png", self.ramp)
        self.check("m.png", self.ramp, "-f", BLUR, "--verify")


class Warned(Part):
    """What is said of a part is true of the part."""

    def setUp(self):
        super().setUp()
        self.image = self.photo("a.png", 60, 45)

    def warnings(self, *words, of="a.png"):
        return self.gconv("-i", of, *words, "-o", "got.png").stderr

    def mask(self, *box):
        self.save("m.png", rectangle((45, 60), *box))
        return "--mask", "m.png"

    def test_samples_that_were_clamped(self):
        for part in ("--region", "40x30+5+5"), self.mask(40, 30, 5, 5), ("--region", "40x3+5+40"):
            said = self.warnings("-f", "sobel_x", "--border", "zero", *part)
            self.assertRegex(said, r"about \d+% of the responses are below 0 and became black")
            said = self.warnings("-f", "[1000]", *part)
            self.assertIn("about 100% of the responses are above white", said)
            said = self.warnings("-f", "[-1000]", *part)
            self.assertIn("about 100% of the responses are below 0", said)
            self.assertNotIn("all over", said)
        said = self.warnings("-f", BLUR, "--border", "replicate", "--then", "-f", "[1000]", "--region", "40x30+5+5")
        self.assertIn("about 100% of the responses are above white", said)

    def test_what_is_clamped_elsewhere_is_not_counted(self):
        image = np.full((45, 60), 50, np.uint8)
        image[:, 30:] = 200
        self.save("half.png", image)
        words = ("-f", "[2]", "--border", "zero")
        self.assertRegex(self.warnings(*words, of="half.png"), "about (4|5).% of the responses are above white")
        for part in ("--region", "30x45+0+0"), self.mask(30, 45, 0, 0):
            self.assertEqual(self.warnings(*words, *part, of="half.png"), "")
        for part in ("--region", "30x45+30+0"), self.mask(30, 45, 30, 0):
            self.assertIn("about 100% of the responses are above white", self.warnings(*words, *part, of="half.png"))

    def test_rims(self):
        both = ("-f", "[1 1 1]/3", "--then", "-f", BLUR)
        for filters, region, darkens in ((BLUR, "20x20+2+10", True), (BLUR, "20x20+10+2", True), (BLUR, "20x20+3+3", False),
                                         (BLUR, "20x20-5+10", True), ("sharpen", "20x20+0+0", False), (both, "20x20+3+3", True),
                                         (both, "20x20+4+4", False)):
            words = filters if filters is both else ("-f", filters)
            self.assertEqual("the rim darkens" in self.warnings(*words, "--region", region), darkens, (words, region))
        words = ("-f", BLUR, "--dilation", "2")
        self.assertIn("the rim darkens", self.warnings(*words, "--region", "20x20+5+10"))
        self.assertNotIn("the rim darkens", self.warnings(*words, "--region", "20x20+6+6"))

    def test_rims_by_a_mask(self):
        for box, darkens in (((20, 20, 10, 10), False), ((54, 39, 3, 3), False), ((20, 20, 2, 10), True), ((20, 20, 10, 2), True),
                             ((48, 20, 10, 10), True), ((20, 33, 10, 10), True), ((60, 45, 0, 0), True)):
            self.assertEqual("the rim darkens" in self.warnings("-f", BLUR, *self.mask(*box)), darkens, box)
        everywhere = self.mask(60, 45, 0, 0)
        self.assertIn("the rim darkens", self.warnings("-f", BLUR, *everywhere, "--region", "40x20+18+10"))
        self.assertNotIn("the rim darkens", self.warnings("-f", BLUR, *everywhere, "--region", "40x20+10+10"))
        self.save("m.png", np.dstack([np.full((45, 60), 255, np.uint8), rectangle((45, 60), 20, 20, 10, 10)]))
        self.assertNotIn("the rim darkens", self.warnings("-f", BLUR, "--mask", "m.png"))


class Verified(Part):
    """--verify compares what the file has, in float64."""

    def place(self, *words, of="g.png", to="got.png"):
        lines = self.gconv("-i", of, *words, "--border", "edge", "--verify", "-o", to).stdout
        found = re.search(r"row (\d+), column (\d+), channel 0 is (\d+)", lines)
        self.assertTrue(found, lines)
        return [int(number) for number in found.groups()]

    def setUp(self):
        super().setUp()
        self.image = self.save("g.png", np.random.default_rng(5).integers(0, 65536, (45, 60)).astype(np.uint16))

    def test_the_place_lies_in_the_part(self):
        self.save("m.png", np.tile(np.linspace(0, 255, 60).astype(np.uint8), (45, 1)))
        for part in ("--region", "20x20+5+5"), ("--mask", "m.png"), ("--mask", "m.png", "--region", "20x20+5+5"):
            row, column, told = self.place("-f", "gaussian:sigma=2", *part)
            self.assertEqual(told, self.read("got.png")[row, column])
            if "--region" in part:
                self.assertTrue(5 <= row < 25 and 5 <= column < 25, (row, column))

    def test_floats_and_numbers_that_are_not_finite(self):
        image = np.random.default_rng(6).standard_normal((45, 60)).astype(np.float32)
        image[3, 4], image[30, 40] = np.inf, np.nan
        self.save("f.npy", image)
        self.save("m.npy", np.tile(np.linspace(0, 1, 60, dtype=np.float32), (45, 1)))
        for part in ("--region", "20x20+5+5"), ("--mask", "m.npy"):
            said = self.gconv("-i", "f.npy", "-f", "gaussian:sigma=2", "--border", "edge", *part, "--verify", "-o", "got.npy").stdout
            self.assertIn("2700 samples compared", said)


if __name__ == "__main__":
    unittest.main()
