# SPDX-License-Identifier: MIT
"""gconv compare: its numbers against numpy, scipy and scikit-image, its picture, its exit status, folders and frames."""
import os
import json
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image

try:
    from scipy import ndimage
except ImportError:
    ndimage = None
try:
    from skimage import metrics
except ImportError:
    metrics = None


def white(array):
    return {"uint8": 255, "uint16": 65535}.get(array.dtype.name, 1)


def values(a, b):
    """Both in float64 where 1 is white; beside floats, integers are float32 fractions."""
    if "f" in a.dtype.kind + b.dtype.kind:
        return [x.astype(np.float64) if x.dtype.kind == "f" else (x.astype(np.float32) / np.float32(white(x))).astype(np.float64) for x in (a, b)]
    return [x / white(x) for x in (a, b)]


def numbers(a, b):
    """What is expected of compare, but for SSIM."""
    x, y = values(a, b)
    d = np.abs(x - y)
    rmse = np.sqrt(np.mean(d * d))
    return {"largest": d.max(), "mean": d.mean(), "rmse": rmse, "differing": int((x != y).sum()), "samples": d.size,
            "psnr": -20 * np.log10(rmse) if rmse > 0 else None}


def ssim(a, b):
    """Wang 2004 with windows of 7 x 7 inside the image, by definition."""
    x, y = (v.reshape(v.shape[0], v.shape[1], -1) for v in values(a, b))
    mean = lambda v: np.stack([ndimage.uniform_filter(v[..., c], 7)[3:-3, 3:-3] for c in range(v.shape[2])])
    mx, my, unbiased = mean(x), mean(y), 49 / 48
    vx, vy, cov = (unbiased * (mean(p) - q) for p, q in ((x * x, mx * mx), (y * y, my * my), (x * y, mx * my)))
    return np.mean((2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))


def levels(a, b):
    """The picture of the differences."""
    x, y = values(a, b)
    d = np.abs(x - y)
    d = d.max(-1) if d.ndim == 3 else d
    doublings = np.log2(255 if a.dtype == b.dtype == np.uint8 else 65535)
    with np.errstate(divide="ignore"):
        height = np.clip(0.125 + 0.875 * (1 + np.log2(d) / doublings), 0.125, 1)
    return np.where(d == 0, 0, np.rint(255 * height)).astype(np.uint8)


def takes_marks(folder):
    """Whether files there may have extended attributes, by which gconv knows its results."""
    file = folder / "mark"
    file.write_bytes(b"")
    try:
        os.setxattr(file, "user.gconv.result", b"")
        return True
    except OSError:
        return False
    finally:
        file.unlink()


class Compare(CommandTest):
    def setUp(self):
        super().setUp()
        self.generator = np.random.default_rng(7)

    def save(self, name, array):
        (self.folder / name).parent.mkdir(exist_ok=True)
        if name.endswith(".npy"):
            np.save(self.folder / name, array)
        else:
            Image.fromarray(array).save(self.folder / name)
        return array

    def near(self, image, spread=9):
        """The same with noise."""
        noise = self.generator.integers(-spread, spread + 1, image.shape)
        if image.dtype.kind == "f":
            return (image + noise * np.float32(0.004)).astype(image.dtype)
        return np.clip(image.astype(int) + noise, 0, white(image)).astype(image.dtype)

    def noise(self, *shape, dtype=np.uint8):
        if dtype == np.float32:
            return self.generator.random(shape, np.float32)
        return self.generator.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)

    def smooth(self, *shape):
        y, x = np.mgrid[:shape[0], :shape[1]]
        waves = 127 + 60 * np.sin(x / 9) + 60 * np.cos(y / 7)
        return np.stack([waves] * shape[2], -1).astype(np.uint8) if len(shape) > 2 else waves.astype(np.uint8)

    def json(self, *words, status=1):
        return json.loads(self.gconv("compare", *words, "--json", status=status).stdout)

    def test_floats_far_from_zero(self):
        """SSIM of floats that are large beside their differences, by differences from the means of windows."""
        for offset in 1e3, 1e7, 1e9:
            a = (self.generator.normal(0, offset / 1e7, (30, 300)) + offset).astype("f4")
            b = (a + self.generator.normal(0, offset / 1e7, a.shape)).astype("f4")
            self.save("a.npy", a)
            self.save("b.npy", b)
            x, y = (np.lib.stride_tricks.sliding_window_view(v.astype(np.longdouble), (7, 7)).reshape(-1, 49) for v in (a, b))
            mx, my = x.mean(1), y.mean(1)
            dx, dy = x - mx[:, None], y - my[:, None]
            spread, common = ((dx * dx).sum(1) + (dy * dy).sum(1)) / 48, (dx * dy).sum(1) / 48
            expected = np.mean((2 * mx * my + 1e-4) * (2 * common + 9e-4) / ((mx * mx + my * my + 1e-4) * (spread + 9e-4)))
            self.assertAlmostEqual(self.json("a.npy", "b.npy")["ssim"], float(expected), delta=1e-9)

    def check(self, a, b, names=("a.png", "b.png")):
        self.save(names[0], a)
        self.save(names[1], b)
        expected = numbers(a, b)
        got = self.json(*names, status=int(expected["largest"] > 0))
        for key, number in expected.items():
            if isinstance(number, float):
                self.assertAlmostEqual(got[key], number, delta=1e-9 * max(1, abs(number)), msg=key)
            else:
                self.assertEqual(got[key], number, key)
        if min(a.shape[:2]) < 7:
            self.assertIsNone(got["ssim"])
        elif ndimage:
            self.assertAlmostEqual(got["ssim"], ssim(a, b), delta=1e-9)
        x, y = values(a, b)
        if expected["differing"]:
            at, d = got["at"], np.abs(x - y).reshape(*a.shape[:2], -1)
            self.assertEqual((at["y"], at["x"], at["channel"]), np.unravel_index(np.argmax(d >= d.max() * (1 - 1e-9)), d.shape))
        else:
            self.assertIsNone(got["at"])
        return got

    def test_json_names_what_could_not_be_read(self):
        Image.new("L", (9, 8)).save(self.folder / "good.png")
        (self.folder / "bad.png").write_bytes(b"no image")
        found = json.loads(self.gconv("compare", "--json", "bad.png", "good.png", status=2).stdout)
        self.assertIn("bad.png: not an image", found["error"])
        for folder in "ab":
            (self.folder / folder).mkdir()
            (self.folder / folder / "x.png").write_bytes((self.folder / "good.png").read_bytes())
        (self.folder / "b/y.png").write_bytes(b"no image")
        (self.folder / "a/y.png").write_bytes((self.folder / "good.png").read_bytes())
        pairs = json.loads(self.gconv("compare", "--json", "a", "b", status=2).stdout)["pairs"]
        self.assertEqual(["error" in pair for pair in pairs], [False, True])
        self.assertIn("b/y.png: not an image", pairs[1]["error"])

    def test_numbers_of_every_type(self):
        floats = self.noise(40, 53, 3, dtype=np.float32)
        self.check(floats, self.near(floats), ("a.npy", "b.npy"))
        for shape in ((33, 47), (33, 47, 3), (20, 31, 4), (33, 47, 2), (7, 7), (6, 40), (40, 6, 3), (1, 1), (100, 8)):
            image = self.noise(*shape)
            self.check(image, self.near(image))
        wide = self.noise(33, 47, dtype=np.uint16)
        self.check(wide, self.near(wide, 3))
        self.check(self.noise(33, 47, 3), self.noise(33, 47, 3))
        self.check(self.smooth(60, 3000, 3), self.near(self.smooth(60, 3000, 3), 1))

    def test_equal(self):
        image = self.smooth(30, 40, 3)
        got = self.check(image, image)
        self.assertEqual((got["largest"], got["psnr"], got["above"]), (0, None, False))
        self.assertAlmostEqual(got["ssim"], 1, delta=1e-12)
        text = self.gconv("compare", "a.png", "b.png").stdout
        self.assertIn("PSNR                infinite", text)
        self.assertIn("differing samples   0 of 3600 (0%)", text)

    def test_types_that_differ(self):
        image = self.noise(30, 40)
        wide = image.astype(np.uint16) * 257
        self.check(image, wide)
        self.assertEqual(self.json("a.png", "b.png", status=0)["types"], ["u8", "u16"])
        self.assertIn("u8 against u16, compared in [0, 1] units", self.gconv("compare", "a.png", "b.png").stdout)
        wide[3, 4] += 1
        self.assertAlmostEqual(self.check(image, wide)["largest"], 1 / 65535, delta=1e-12)
        fractions = image.astype(np.float32) / np.float32(255)
        self.assertEqual(self.check(image, fractions, ("a.png", "b.npy"))["differing"], 0)
        self.check(wide, self.near(fractions), ("a.png", "b.npy"))

    @unittest.skipUnless(metrics, "no scikit-image")
    def test_scikit_image_agrees(self):
        for a, options in ((self.smooth(120, 160, 3), {"channel_axis": -1}), (self.noise(50, 60), {}), (self.noise(50, 60, 4), {"channel_axis": -1}),
                           (self.noise(50, 60, dtype=np.uint16), {})):
            b = self.near(a, 20 if a.dtype == np.uint8 else 3000)
            got = self.check(a, b)
            self.assertAlmostEqual(got["ssim"], metrics.structural_similarity(a, b, **options), delta=1e-9)
            self.assertAlmostEqual(got["psnr"], metrics.peak_signal_noise_ratio(a, b), delta=1e-9)
        a = self.noise(50, 60, 3, dtype=np.float32)
        b = self.near(a)
        got = self.check(a, b, ("a.npy", "b.npy"))
        a, b = a.astype(np.float64), b.astype(np.float64)
        self.assertAlmostEqual(got["ssim"], metrics.structural_similarity(a, b, data_range=1, channel_axis=-1), delta=1e-9)
        self.assertAlmostEqual(got["psnr"], metrics.peak_signal_noise_ratio(a, b, data_range=1), delta=1e-9)

    def test_every_vector_gives_the_same_bits(self):
        image = self.noise(80, 1301, 3)
        self.save("a.png", image)
        self.save("b.png", self.near(image))
        first = self.gconv("compare", "a.png", "b.png", "--json", "--threads", "1", status=1).stdout
        for isa in "plain", "avx2":
            for threads in "1", "3":
                again = self.gconv("compare", "a.png", "b.png", "--json", "--threads", threads, status=1, env={"GCONV_ISA": isa}).stdout
                self.assertEqual(again, first)

    def test_large_images_go_by_rows(self):
        for shape in ((5000, 900, 3), (9000, 100)):
            image = self.noise(*shape)
            self.check(image, self.near(image), ("a.ppm" if len(shape) > 2 else "a.pgm", "b.png"))
        tall = self.noise(24000, 1000)
        self.save("a.pgm", tall)
        tall[23999, 999] ^= 1
        self.save("b.pgm", tall)
        script_words = ("compare", "a.pgm", "b.pgm", "--threads", "2", "--tolerance", "1/255")
        self.assertLess(self.peak_bytes(*script_words), 40e6)
        got = self.json("a.pgm", "b.pgm")
        self.assertEqual((got["at"]["y"], got["at"]["x"], got["differing"]), (23999, 999, 1))

    def test_files_whose_rows_are_out_of_order(self):
        image = self.noise(40, 30, 3)
        other = self.save("b.png", self.near(image))
        turned = Image.Exif()
        turned[0x0112] = 6  # shown turned by 90 degrees
        Image.fromarray(np.rot90(image).copy()).save(self.folder / "a.png", exif=turned)
        self.assertAlmostEqual(self.json("a.png", "b.png")["mean"], numbers(image, other)["mean"], delta=1e-12)
        self.gconv("-i", "b.png", "-f", "identity", "-o", "b.pfm", "--depth", "float")
        self.assertEqual(self.json("b.pfm", "b.png", status=0)["differing"], 0)

    def test_numbers_that_are_not_finite(self):
        a = self.noise(20, 30, dtype=np.float32)
        a[3, 4], a[5, 6] = np.nan, np.inf
        self.save("a.npy", a)
        self.save("b.npy", a)
        got = self.json("a.npy", "b.npy", status=0)
        self.assertEqual((got["largest"], got["differing"], got["ssim"]), (0, 0, None))
        a[7, 8] = np.nan
        self.save("b.npy", a)
        got = self.json("a.npy", "b.npy", "--tolerance", "1000")
        self.assertEqual((got["largest"], got["differing"], got["at"]["y"], got["at"]["x"]), (None, 1, 7, 8))
        self.assertIn("largest difference  inf", self.gconv("compare", "a.npy", "b.npy", status=1).stdout)

    def test_text(self):
        image = self.smooth(30, 40, 3)
        other = image.copy()
        other[20, 11, 2] += 4
        self.save("a.png", image)
        self.save("b.png", other)
        self.assertRegex(self.gconv("compare", "a.png", "b.png", status=1).stdout,
                         r"\Aa.png and b.png: 40 x 30, 3 channels, u8\n"
                         r"  largest difference  0.01569 \(4 levels of 255\) at x 11, y 20, channel 2\n"
                         r"  mean difference     4.357e-06 \(0.001111 levels of 255\)\n"
                         r"  RMSE                0.0002614 \(0.06667 levels of 255\)\n"
                         r"  PSNR                71.65 dB\n"
                         r"  SSIM                0.99\d{4}\n"
                         r"  differing samples   1 of 3600 \(0.02778%\)\n\Z")
        self.assertEqual(self.gconv("compare", "a.png", "b.png", "-q", status=1).stdout, "")

    def test_alpha_is_a_channel(self):
        image = self.noise(20, 30, 4)
        other = image.copy()
        other[4, 5, 3] ^= 128
        got = self.check(image, other)
        self.assertEqual(got["at"], {"frame": 1, "x": 5, "y": 4, "channel": 3})
        self.assertIn("4 channels (alpha is one)", self.gconv("compare", "a.png", "b.png", status=1).stdout)

    def test_tolerance(self):
        image = self.smooth(30, 40)
        self.save("a.png", image)
        self.save("b.png", image + np.uint8(2))
        for tolerance, status in (("0", 1), ("1/255", 1), ("2/255", 0), ("0.0078", 1), ("0.0079", 0), ("0.5", 0)):
            self.gconv("compare", "a.png", "b.png", "--tolerance", tolerance, status=status)
        for wrong in "-1", "x", "nan", "":
            self.usage_error("a number from 0 on, where 1 is white", "compare", "a.png", "b.png", f"--tolerance={wrong}")
        said = self.gconv("compare", "a.png", "b.png", "--tolerance", "2", status=2).stderr
        self.assertIn("1 is white, so that all images would pass; 2 levels of 255 are --tolerance 2/255", said)
        self.save("a.npy", np.float32([[1, 5]]))
        self.save("b.npy", np.float32([[1, 8]]))
        self.gconv("compare", "a.npy", "b.npy", "--tolerance", "3")
        self.gconv("compare", "a.npy", "b.npy", "--tolerance", "2.9", status=1)

    def test_what_cannot_be_compared(self):
        self.save("a.png", self.noise(30, 40, 3))
        for name, shape, text in (("b.png", (30, 41, 3), "41 x 30, 3 channels (RGB)"), ("c.png", (31, 40, 3), "40 x 31, 3 channels (RGB)"),
                                  ("d.png", (30, 40), "40 x 30, 1 channel (grey)"), ("e.png", (30, 40, 4), "40 x 30, 4 channels (RGB and alpha)")):
            self.save(name, self.noise(*shape))
            self.usage_error(f"a.png is 40 x 30, 3 channels (RGB), and {name} is {text}: only images of one shape", "compare", "a.png", name)
        np.save(self.folder / "planes.npy", self.noise(1, 3, 30, 40))
        self.usage_error("one has its channels as planes", "compare", "a.png", "planes.npy")
        (self.folder / "bad.png").write_bytes((self.folder / "a.png").read_bytes()[:900])
        self.usage_error("bad.png", "compare", "a.png", "bad.png", "-o", "d.png")
        self.usage_error("bad.png", "compare", "bad.png", "a.png", "-o", "d.png")
        self.usage_error("nosuch.png", "compare", "a.png", "nosuch.png")
        self.usage_error("name two images, or two folders", "compare", "a.png")
        self.usage_error("name two images, or two folders", "compare", "a.png", "a.png", "a.png")
        self.usage_error("read only once", "compare", "-", "-")
        (self.folder / "in").mkdir()
        self.usage_error("in is a folder, and a.png is not", "compare", "a.png", "in")
        self.gconv("compare", "a.png", "a.png", "--max-pixels", "100", status=2)

    def test_standard_input(self):
        image = self.noise(30, 40, 3)
        self.save("a.png", image)
        self.save("b.png", self.near(image))
        self.gconv("compare", "-", "a.png", stdin=(self.folder / "a.png").read_bytes())
        self.gconv("compare", "a.png", "-", stdin=(self.folder / "b.png").read_bytes(), status=1)

    def test_the_picture(self):
        for a, b, names in ((self.smooth(40, 50, 3), None, ("a.png", "b.png")), (self.noise(40, 50, dtype=np.uint16), None, ("a.png", "b.png")),
                            (self.noise(40, 50, 3, dtype=np.float32), None, ("a.npy", "b.npy")), (self.noise(40, 50), self.noise(40, 50), ("a.png", "b.png"))):
            b = self.near(a, 1) if b is None else b
            a[3, 4], b[3, 4], a[5, 6] = white(a), 0, b[5, 6]
            self.save(names[0], a)
            self.save(names[1], b)
            expected = levels(a, b)
            self.assertEqual((expected[3, 4], expected[5, 6]), (255, 0))
            self.gconv("compare", *names, "-o", "d.png", status=1)
            self.assert_pixels("d.png", expected)
        self.gconv("compare", "a.png", "b.png", "-o", "d.npy", status=1)
        np.testing.assert_array_equal(np.load(self.folder / "d.npy"), expected)
        self.gconv("compare", "a.png", "b.png", "-o", "d.pfm", status=1)
        self.gconv("-i", "d.pfm", "-f", "identity", "--depth", "8", "-o", "e.png")
        self.assert_pixels("e.png", expected)
        self.gconv("compare", "a.png", "b.png", "-o", "d.jpg", status=1)
        result = self.gconv("compare", "a.png", "b.png", "-o", "-", status=1, text=False)
        (self.folder / "piped.png").write_bytes(result.stdout)
        self.assert_pixels("piped.png", expected)
        self.assertIn("PSNR", result.stderr)

    def test_one_level_is_seen(self):
        image = self.smooth(30, 40, 3)
        other = image.copy()
        other[10, 10, 1] += 1
        self.save("a.png", image)
        self.save("b.png", other)
        self.gconv("compare", "a.png", "b.png", "-o", "d.png", status=1)
        picture = self.pixels("d.png")
        self.assertEqual((picture[10, 10], np.count_nonzero(picture)), (32, 1))

    def test_pictures_replace_no_image(self):
        self.save("a.png", self.noise(30, 40))
        self.save("b.png", self.noise(30, 40))
        for name in "a.png", "b.png", "./b.png":
            self.usage_error("choose another name", "compare", "a.png", "b.png", "-o", name)
        self.usage_error("no known extension", "compare", "a.png", "b.png", "-o", "d.xyz")
        self.usage_error("there is no folder", "compare", "a.png", "b.png", "-o", "no/d.png")

    def folders(self):
        for i in range(4):
            image = self.noise(20, 30, 3)
            self.save(f"before/{i}.png", image)
            self.save(f"after/{i}.png", self.near(image, i) if i else image)

    def test_folders(self):
        self.folders()
        lines = self.gconv("compare", "before", "after/", "--tolerance", "2/255", status=1).stdout.splitlines()
        self.assertEqual(lines[0], "0.png: equal")
        self.assertRegex(lines[3], r"^3.png: largest 0.01176 \(3 levels of 255\) at x \d+, y \d+, channel \d, mean .*, RMSE .*, PSNR .* dB, SSIM .*%")
        self.assertRegex(lines[4], r"^4 pairs compared: 1 equal, 1 above the tolerance of 0.007843\d*; the largest difference is "
                                   r"0.01176 \(3 levels of 255\) in 3.png$")
        self.assertEqual(len(lines), 5)
        self.gconv("compare", "before", "after", "--tolerance", "3/255")
        found = self.json("before", "after", "--tolerance", "2/255")
        self.assertEqual([pair["above"] for pair in found["pairs"]], [False, False, False, True])
        self.assertEqual(found["pairs"][2]["b"], "after/2.png")

    def test_pictures_among_the_images(self):
        self.folders()
        self.usage_error("--suffix _NAME", "compare", "before", "after", "-o", "before/")
        for _ in range(2):  # the second run finds pictures of the first
            self.gconv("compare", "before", "after", "-o", "before/", "--suffix", "_diff", "-q", status=1)
            self.assertEqual(self.files("before"), [f"{i}{end}.png" for i in range(4) for end in ("", "_diff")])
            self.assert_pixels("before/2_diff.png", levels(self.pixels("before/2.png"), self.pixels("after/2.png")))
            if not takes_marks(self.folder):
                break
        own = (self.folder / "before/1.png").read_bytes()  # a file of the user's, which gconv never made
        (self.folder / "before/2_diff.png").write_bytes(own)
        self.usage_error("before/2_diff.png: a result would replace this file among the inputs", "compare", "before", "after", "-o", "before/", "--suffix", "_diff")
        self.assertEqual((self.folder / "before/2_diff.png").read_bytes(), own)

    def test_folders_with_folders(self):
        self.folders()
        for side in "before", "after":
            (self.folder / side / "deep").mkdir()
            self.photo(f"{side}/deep/1.png", 20, 20, seed=len(side))
        self.assertNotIn("deep", self.gconv("compare", "before", "after", status=1).stdout)
        self.assertIn("deep/1.png: largest", self.gconv("compare", "before", "after", "-r", status=1).stdout)
        self.gconv("compare", "before", "after", "-r", "-o", "diff/", "-q", status=1)
        self.assertEqual(self.files("diff"), ["0.png", "1.png", "2.png", "3.png", "deep/1.png"])
        self.assert_pixels("diff/2.png", levels(self.pixels("before/2.png"), self.pixels("after/2.png")))

    def test_folders_that_lack_files(self):
        self.folders()
        (self.folder / "after/2.png").unlink()
        self.save("after/9.png", self.noise(3, 3))
        text = self.gconv("compare", "before", "after", "--tolerance", "0.5", status=1).stdout
        self.assertIn("2.png: only before/2.png is there\n", text)
        self.assertIn("9.png: only after/9.png is there\n", text)
        self.assertIn("2 files are in one folder only", text)

    def test_folders_with_files_that_cannot_be_compared(self):
        self.folders()
        self.save("after/2.png", self.noise(3, 3))
        result = self.gconv("compare", "before", "after", "--tolerance", "0.5", status=2)
        self.assertIn("before/2.png is 30 x 20", result.stderr)
        self.assertIn("3 pairs compared: 1 equal, 0 above", result.stdout)
        self.assertIn("1 could not be compared", result.stdout)

    def test_folders_whose_formats_differ(self):
        """gconv writes a folder of JPEGs as PNG."""
        self.folders()
        self.gconv("-i", "before", "-f", "identity", "-o", "out/", "--format", "pnm")
        self.assertIn("4 pairs compared: 4 equal", self.gconv("compare", "before", "out").stdout)
        self.save("out/1.ppm", self.noise(20, 30, 3))  # now two of before's names may be meant
        self.gconv("-i", "before/1.png", "-f", "identity", "-o", "out/1.png")
        text = self.gconv("compare", "before", "out", status=1).stdout
        self.assertIn("1.png: equal", text)
        self.assertIn("only out/1.ppm is there", text)

    def test_frames(self):
        stack = self.noise(3, 1, 20, 30)
        other = stack.copy()
        other[1], other[2, 0, 4, 5] = self.near(stack[1], 3), stack[2, 0, 4, 5] ^ 64
        np.save(self.folder / "a.npy", stack)
        np.save(self.folder / "b.npy", other)
        got = self.json("a.npy", "b.npy")
        self.assertEqual(got["at"], {"frame": 3, "x": 5, "y": 4, "channel": 0})
        each = [numbers(stack[n, 0], other[n, 0]) for n in range(3)]
        for n, found in enumerate(got["frames"]):
            self.assertAlmostEqual(found["mean"], each[n]["mean"], delta=1e-12)
            self.assertEqual(found["differing"], each[n]["differing"])
            if ndimage:
                self.assertAlmostEqual(found["ssim"], ssim(stack[n, 0], other[n, 0]), delta=1e-9)
        self.assertAlmostEqual(got["ssim"], np.mean([found["ssim"] for found in got["frames"]]), delta=1e-12)
        self.assertAlmostEqual(got["mean"], np.mean([found["mean"] for found in each]), delta=1e-12)
        text = self.gconv("compare", "a.npy", "b.npy", "-o", "d.png", status=1).stdout
        self.assertRegex(text, r"(?s)\Aframe 1: equal\nframe 2: largest.*\nframe 3: largest .*, frame 3, .*a.npy and b.npy: 30 x 20, 3 frames, 1 channel, u8")
        self.assert_pixels("d.png", np.concatenate([levels(stack[n, 0], other[n, 0]) for n in range(3)]))

    def test_planes(self):
        planes = self.noise(2, 5, 20, 30)
        other = planes.copy()
        other[1, 3, 9, 8] ^= 255
        np.save(self.folder / "a.npy", planes)
        np.save(self.folder / "b.npy", other)
        got = self.json("a.npy", "b.npy")
        self.assertEqual(got["at"], {"frame": 2, "x": 8, "y": 9, "channel": 3})
        self.assertEqual([found["differing"] for found in got["frames"]], [0, 1])


if __name__ == "__main__":
    unittest.main()
