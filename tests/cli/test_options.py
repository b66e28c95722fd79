# SPDX-License-Identifier: MIT
"""That each option of the convolution and of the formats reaches the pixels: small images, and what numpy makes of them. How
right the arithmetic is, in every case, is the matter of other tests."""
import struct
import unittest
import zlib

import numpy
from PIL import Image, ImageCms

from helper import CommandTest


class Convolution(CommandTest):
    def setUp(self):
        super().setUp()
        self.rng = numpy.random.default_rng(11)
        self.image = self.rng.random((9, 8), dtype=numpy.float32)
        self.taps = numpy.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], numpy.float32)
        numpy.save(self.folder / "a.npy", self.image)
        (self.folder / "k.txt").write_text("1 2 3\n4 5 6\n7 8 10\n")

    def result(self, *options, filters=("k.txt",), source="a.npy"):
        words = [word for name in filters for word in ("-f", name)]
        self.gconv("-i", source, *words, "-o", "x.npy", *options)
        return numpy.load(self.folder / "x.npy")

    def correlate(self, padded, taps=None):
        taps = self.taps if taps is None else taps
        height, width = padded.shape[0] - 2, padded.shape[1] - 2
        return sum(taps[r, s] * padded[r:r + height, s:s + width].astype(float) for r in range(3) for s in range(3))

    def same(self, got, expected):
        numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

    def test_defaults(self):
        self.same(self.result(), self.correlate(numpy.pad(self.image, 1)))

    def test_flip(self):
        self.same(self.result("--flip"), self.correlate(numpy.pad(self.image, 1), self.taps[::-1, ::-1]))

    def test_borders(self):
        for name, mode in (("zero", {}), ("constant:0.75", {"constant_values": 0.75}), ("constant:-2", {"constant_values": -2}),
                           ("replicate", {"mode": "edge"}), ("symmetric", {"mode": "symmetric"}),
                           ("reflect101", {"mode": "reflect"}), ("wrap", {"mode": "wrap"})):
            self.same(self.result("--border", name), self.correlate(numpy.pad(self.image, 1, **mode)))

    def test_explicit_padding(self):
        padded = numpy.pad(self.image, ((0, 3), (2, 1)))
        self.same(self.result("--padding", "0,3,2,1"), self.correlate(padded))
        self.same(self.result("--padding", "3,1"), self.correlate(numpy.pad(self.image, ((3, 3), (1, 1)))))

    def test_stride(self):
        whole = self.correlate(numpy.pad(self.image, 1))
        self.same(self.result("--stride", "2,3"), whole[::2, ::3])

    def test_dilation(self):
        taps = numpy.zeros((3, 5), numpy.float32)
        taps[:, ::2] = self.taps
        padded = numpy.pad(self.image, ((1, 1), (2, 2))).astype(float)
        expected = sum(taps[r, s] * padded[r:r + 9, s:s + 8] for r in range(3) for s in range(5))
        self.same(self.result("--dilation", "1,2"), expected)

    def test_scale_and_offset(self):
        self.same(self.result("--scale", "-0.5", "--offset", "0.25"), self.correlate(numpy.pad(self.image, 1)) * -0.5 + 0.25)
        self.same(self.result("--scale=-1/2", "--offset", "1/4"), self.result("--scale", "-0.5", "--offset", "0.25"))

    def test_offsets_in_levels_are_refused(self):
        photo = self.photo("u.png")
        self.gconv("-i", "u.png", "-f", "identity", "-o", "v.png", "--offset", "-0.5")
        for offset, colour in ("128", "white"), ("1.01", "white"), ("-127", "black"):
            result = self.gconv("-i", "u.png", "-f", "identity", "-o", "w.png", f"--offset={offset}", status=1)
            self.assertIn(f"makes every image {colour} all over: 1 is white, so for level L give L / 255", result.stderr)
        for words in (["-f", "average", "--scale", "4", "--offset=-3.9"], ["-f", "identity", "--offset", "7", "--depth", "float"]):
            self.gconv("-i", "u.png", *words, "-o", "v.npy")
        self.assertGreater(photo.max(), 0)
    def test_combine(self):
        x, y = self.result(filters=("sobel_x",)), self.result(filters=("sobel_y",))
        both = ("sobel_x", "sobel_y")
        self.same(self.result("--combine", "magnitude", filters=both), numpy.hypot(x, y))
        self.same(self.result("--combine", "sum", filters=both), x + y)
        self.same(self.result("--combine", "max", filters=both), numpy.maximum(x, y))
        self.same(self.result("--combine", "stack", filters=both), numpy.stack([x, y], axis=-1))

    def test_range(self):
        levels = self.rng.integers(0, 256, (9, 8), dtype=numpy.uint8)
        numpy.save(self.folder / "u.npy", levels)
        v = self.result("--depth", "float", source="u.npy", filters=("sobel_x",)).astype(float)
        self.assertLess(v.min(), -1)
        for name, expected in (("clamp", v), ("abs", abs(v)), ("signed", v / 2 + 0.5), ("minmax", (v - v.min()) / numpy.ptp(v))):
            got = self.result("--range", name, source="u.npy", filters=("sobel_x",))
            self.assertEqual(got.dtype, numpy.uint8)
            self.assertLessEqual(abs(got - numpy.clip(expected, 0, 1) * 255).max(), 0.501, name)

    def test_gray(self):
        colour = self.rng.random((9, 8, 3), dtype=numpy.float32)
        numpy.save(self.folder / "c.npy", colour)
        got = self.result("--gray", source="c.npy", filters=("identity",))
        self.same(got.reshape(9, 8), colour @ [0.299, 0.587, 0.114])

    def test_linear(self):
        levels = numpy.zeros((4, 4), numpy.uint8)
        levels[:, ::2] = 255
        numpy.save(self.folder / "u.npy", levels)
        (self.folder / "half.txt").write_text("0.5 0.5\n")
        options = {"source": "u.npy", "filters": ("half.txt",)}
        self.assertEqual(self.result("--border", "wrap", **options).tolist(), [[128] * 4] * 4)
        self.assertEqual(self.result("--border", "wrap", "--linear", **options).tolist(), [[188] * 4] * 4)

    def test_gamma_of_png_is_told_of(self):
        """Once for each image that is read, and not of sRGB, nor where there is a profile."""
        self.photo("plain.png", 30, 20)
        data = (self.folder / "plain.png").read_bytes()

        def write(name, gamma, *chunks):
            more = b"".join(struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
                            for kind, content in ((b"gAMA", struct.pack(">I", gamma)), *chunks))
            (self.folder / name).write_bytes(data[:33] + more + data[33:])

        write("linear.png", 100000)
        write("srgb.png", 45455, (b"sRGB", b"\0"))
        for name in ("plain.png", "srgb.png"):
            self.assertEqual(self.gconv("-i", name, "-f", "identity", "-o", "x.png").stderr, "")
        for words in (("-f", "identity", "-o", "x.png"), ("-f", "identity", "-o", "x.npy", "--mean", "0"),
                      ("-f", "identity", "-o", "x.png", "-a", "all")):
            said = self.gconv("-i", "linear.png", *words).stderr
            self.assertRegex(said, r"^gconv: warning: linear.png: its gamma of 1 is neither applied nor kept[^\n]*\n$")
        self.assertEqual(self.gconv("-i", "linear.png", "-f", "identity", "-o", "x.png", "--dry-run").stderr, "")
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        Image.open(self.folder / "linear.png").save(self.folder / "x.png", icc_profile=profile)
        data = (self.folder / "x.png").read_bytes()
        write("profile.png", 100000)
        self.assertEqual(self.gconv("-i", "profile.png", "-f", "identity", "-o", "y.png").stderr, "")

    def test_linear_with_any_instructions(self):
        numpy.save(self.folder / "f.npy", self.rng.normal(size=(30, 67, 3)).astype("f4"))
        results = []
        for isa in ("plain", "avx2", "avx512"):
            self.gconv("-i", "f.npy", "-f", "sharpen", "-o", "x.npy", "--linear", "--scale", "0.9", "--offset", "0.01", "-a", "direct",
                       env={"GCONV_ISA": isa})
            results.append((self.folder / "x.npy").read_bytes())
        self.assertEqual(results, results[:1] * 3)

    def test_alpha(self):
        pixels = self.rng.integers(1, 255, (9, 8, 4), dtype=numpy.uint8)
        Image.fromarray(pixels).save(self.folder / "c.png")
        results = {}
        for mode in ("keep", "filter", "premultiply"):
            self.gconv("-i", "c.png", "-f", "average", "--border", "replicate", "-o", "x.png", "--alpha", mode)
            results[mode] = self.pixels("x.png")
        numpy.testing.assert_array_equal(results["keep"][..., 3], pixels[..., 3])
        self.assertFalse(numpy.array_equal(results["filter"][..., 3], pixels[..., 3]))
        numpy.testing.assert_array_equal(results["filter"][..., :3], results["keep"][..., :3])
        numpy.testing.assert_array_equal(results["premultiply"][..., 3], results["filter"][..., 3])
        self.assertFalse(numpy.array_equal(results["premultiply"][..., :3], results["keep"][..., :3]))
        self.gconv("-i", "c.png", "-f", "average", "--border", "replicate", "-o", "y.png")
        self.assert_pixels("y.png", results["keep"])
        for name, words, levels in (("d.ppm", [], results["keep"][..., :3]), ("d.pgm", ["--gray"], None), ("d.jpg", ["--linear"], None)):
            self.gconv("-i", "c.png", "-f", "average", "--border", "replicate", "-o", name, "--alpha", "drop", "--verify", *words)
            if levels is not None:
                self.assert_pixels(name, levels)
        self.gconv("-i", "c.png", "-f", "average", "--border", "replicate", "--gray", "-o", "grey.png")
        self.assert_pixels("d.pgm", self.pixels("grey.png")[..., 0])
        Image.fromarray(pixels[..., :2]).save(self.folder / "la.png")
        self.gconv("-i", "la.png", "-f", "identity", "-o", "l.pgm", "--alpha", "drop", "--gray")
        self.assert_pixels("l.pgm", pixels[..., 0])

    def test_alpha_is_dropped_by_rows(self):
        pixels = self.rng.integers(0, 255, (1500, 1500, 4), dtype=numpy.uint8)
        Image.fromarray(pixels).save(self.folder / "large.png")
        self.gconv("-i", "large.png", "-f", "identity", "-o", "x.ppm", "--alpha", "drop", "--threads", "3")
        self.assert_pixels("x.ppm", pixels[..., :3])


class Formats(CommandTest):
    def test_depth(self):
        self.photo("a.png", 6, 5, channels=1)
        levels = self.pixels("a.png")
        words = ("-i", "a.png", "-f", "identity", "-o")
        self.gconv(*words, "b.png", "--depth", "16")
        numpy.testing.assert_array_equal(self.pixels("b.png"), levels.astype(int) * 257)
        self.gconv(*words, "b.npy", "--depth", "float")
        numpy.testing.assert_allclose(numpy.load(self.folder / "b.npy"), levels / 255, rtol=1e-6)
        self.gconv("-i", "b.png", "-f", "identity", "-o", "c.png")
        numpy.testing.assert_array_equal(self.pixels("c.png"), levels.astype(int) * 257)  # as the input
        self.gconv("-i", "b.png", "-f", "identity", "-o", "c.png", "--depth", "8")
        self.assert_pixels("c.png", levels)
        self.gconv("-i", "b.npy", "-f", "identity", "-o", "d.png")  # the best that the format has
        numpy.testing.assert_array_equal(self.pixels("d.png"), levels.astype(int) * 257)
        self.gconv("-i", "b.png", "-f", "identity", "-o", "e.jpg")
        with Image.open(self.folder / "e.jpg") as image:
            self.assertEqual(image.mode, "L")

    def test_levels_and_qualities(self):
        smooth = numpy.add.outer(numpy.arange(200), numpy.arange(300)).astype(numpy.uint8)
        Image.fromarray(smooth).save(self.folder / "a.png")
        sizes = {}
        for option, values, name in (("--png-level", (0, 1, 9), "x.png"), ("--jpeg-quality", (10, 95), "x.jpg")):
            for value in values:
                self.gconv("-i", "a.png", "-f", "identity", "-o", name, option, value)
                sizes[value] = (self.folder / name).stat().st_size
        self.assertLess(sizes[9], sizes[1])
        self.assertLess(sizes[1], sizes[0])
        self.assertLess(sizes[10], sizes[95])


if __name__ == "__main__":
    unittest.main()
