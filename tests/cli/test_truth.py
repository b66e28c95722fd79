# SPDX-License-Identifier: MIT
"""What was found wrong: results in float are not rounded, ranges are for colours, and advice can be followed."""
import re
import unittest

import numpy
from PIL import Image

from helper import CommandTest


class Float(CommandTest):
    def of(self, name, *words, filters=("identity",)):
        self.gconv("-i", name, "-f", *filters, "--depth", "float", "-o", "out.npy", *words)
        return numpy.load(self.folder / "out.npy")

    def test_samples_of_any_maxval(self):
        """Text and bytes, 8 and 16 bits, PNM and PAM, whole and by rows."""
        rng = numpy.random.default_rng(1)
        for maxval in (2, 7, 100, 254, 300, 1023, 4095, 65534):
            values = rng.integers(0, maxval + 1, (5, 7))
            values[0, :3] = 0, maxval, maxval // 2
            expected = (values / maxval).astype("f4")
            data = values.astype("u1" if maxval < 256 else ">u2").tobytes()
            text = " ".join(map(str, values.ravel())).encode()
            files = {"a.pgm": b"P5 7 5 %d\n" % maxval + data, "b.pgm": b"P2 7 5 %d\n" % maxval + text,
                     "c.pam": b"P7\nWIDTH 7\nHEIGHT 5\nDEPTH 1\nMAXVAL %d\nTUPLTYPE GRAYSCALE\nENDHDR\n" % maxval + data}
            for name, content in files.items():
                (self.folder / name).write_bytes(content)
                numpy.testing.assert_array_equal(self.of(name), expected, f"{name} {maxval}")
        (self.folder / "a.pgm").write_bytes(b"P5 3 1 2\n\0\1\2")
        self.assertEqual(self.of("a.pgm").tolist(), [[0, 0.5, 1]])
        self.gconv("-i", "a.pgm", "-f", "identity", "-o", "out.pfm")
        self.assertEqual(numpy.frombuffer((self.folder / "out.pfm").read_bytes()[-12:], "<f4").tolist(), [0, 0.5, 1])
        self.gconv("-i", "a.pgm", "-f", "identity", "-o", "out.npy")  # integers, as before
        self.assertEqual(numpy.load(self.folder / "out.npy").tolist(), [[0, 128, 255]])
        (self.folder / "large.pgm").write_bytes(b"P5 2000 5000 2\n" + bytes([0, 1, 2, 1]) * 2500000)
        large = self.of("large.pgm")
        self.assertEqual(large[:, :4].tolist(), [[0, 0.5, 1, 0.5]] * 5000)

    def test_samples_over_the_maxval_are_refused(self):
        (self.folder / "a.pgm").write_bytes(b"P5 3 1 2\n\0\3\2")
        result = self.gconv("-i", "a.pgm", "-f", "identity", "--depth", "float", "-o", "out.npy", status=1)
        self.assertIn("a sample is 3, over the maxval of 2", result.stderr)

    def test_arrays_of_banks(self):
        (self.folder / "a.pgm").write_bytes(b"P5 3 1 2\n\0\1\2")
        numpy.save(self.folder / "w.npy", numpy.ones((1, 1, 1, 1), "f4"))
        self.gconv("-i", "a.pgm", "-f", "w.npy", "--mean", "0", "-o", "out.npy")
        self.assertEqual(numpy.load(self.folder / "out.npy").ravel().tolist(), [0, 0.5, 1])

    def test_grey(self):
        for kind, white in (("u1", 255), ("u2", 65535)):
            pixels = numpy.random.default_rng(2).integers(0, white + 1, (6, 5, 3)).astype(kind)
            numpy.save(self.folder / "a.npy", pixels)
            exact = pixels.astype(float) @ [299, 587, 114] / (1000 * white)
            numpy.testing.assert_array_equal(self.of("a.npy", "--gray").reshape(6, 5), exact.astype("f4"))
            blurred = self.of("a.npy", "--gray", "--border", "replicate", filters=("average",)).reshape(6, 5)
            padded = numpy.pad(exact, 1, mode="edge")
            mean = sum(padded[r:r + 6, s:s + 5] for r in range(3) for s in range(3)) / 9
            self.assertLess(abs(blurred - mean).max(), 1e-6)
            numpy.save(self.folder / "w.npy", numpy.ones((1, 1, 1, 1), "f4"))
            self.gconv("-i", "a.npy", "-f", "w.npy", "--mean", "0", "--gray", "-o", "out.npy")
            self.assertLess(abs(numpy.load(self.folder / "out.npy").reshape(6, 5) - exact).max(), 1e-6)
            self.gconv("-i", "a.npy", "-f", "identity", "--gray", "-o", "out.npy")  # integers, as before
            numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy").reshape(6, 5), numpy.rint(exact * white))

    def test_grey_before_a_chain(self):
        """The grey of a chain is rounded if its results are integers, as it always was; in float, it is not."""
        pixels = self.photo("a.png", 9, 8)
        exact = pixels.astype(float) @ [299, 587, 114] / 1000
        chain = ("-i", "a.png", "--gray", "-f", "identity", "--then", "-f", "[2]", "-o", "out.npy")
        self.gconv(*chain, "--depth", "16")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy").reshape(8, 9),
                                         numpy.minimum(numpy.rint(exact) * 2 * 257, 65535))
        self.gconv(*chain, "--depth", "float")
        self.assertLess(abs(numpy.load(self.folder / "out.npy").reshape(8, 9) - exact * 2 / 255).max(), 1e-6)

    def test_range_signed(self):
        pixels = self.photo("a.png", channels=1)
        plain = self.of("a.png", filters=("sobel_x",)).astype(float)
        self.assertLess(plain.min(), -1)
        for words in ([], ["--gray", "--linear"]):
            plain = self.of("a.png", *words, filters=("sobel_x",)).astype(float)
            signed = self.of("a.png", "--range", "signed", *words, filters=("sobel_x",))
            self.assertLess(abs(signed - (plain / 2 + 0.5)).max(), 1e-6)
        self.gconv("-i", "a.png", "-f", "sobel_x", "--range", "signed", "--depth", "float", "-o", "v.npy", "--verify")
        self.assertGreater(pixels.max(), 0)

    def test_range_signed_of_banks(self):
        self.photo("a.png", channels=1)
        numpy.save(self.folder / "w.npy", numpy.array([-1, 0, 1], "f4").reshape(1, 1, 1, 3))
        words = ("-i", "a.png", "-f", "w.npy", "--mean", "0", "--depth", "float", "-o", "out.pfm")
        self.gconv(*words, "--range", "clamp")
        plain = numpy.frombuffer((self.folder / "out.pfm").read_bytes()[-17 * 13 * 4:], "<f4").astype(float)
        self.gconv(*words, "--range", "signed")
        signed = numpy.frombuffer((self.folder / "out.pfm").read_bytes()[-17 * 13 * 4:], "<f4")
        self.assertLess(abs(signed - (plain / 2 + 0.5)).max(), 1e-6)


class Alpha(CommandTest):
    """--alpha filter: --range is for colours."""

    def setUp(self):
        super().setUp()
        rng = numpy.random.default_rng(3)
        self.rgba = rng.integers(0, 256, (12, 9, 4), dtype=numpy.uint8)
        Image.fromarray(self.rgba).save(self.folder / "rgba.png")
        Image.fromarray(self.rgba[..., :3]).save(self.folder / "rgb.png")
        Image.fromarray(self.rgba[..., 3]).save(self.folder / "a.png")

    def made(self, name, *words, depth="8"):
        out = "out.npy" if depth == "float" else "out.png"
        self.gconv("-i", name, "-f", "sobel_x", "--depth", depth, "-o", out, "--verify", *words)
        return numpy.load(self.folder / out) if depth == "float" else self.pixels(out)

    def test_it_is_left_alone(self):
        for depth in "8", "float":
            for extra in ([], ["--scale", "0.25", "--offset", "1/8"], ["--linear"]):
                alpha = self.made("a.png", *(w for w in extra if w != "--linear"), depth=depth).reshape(12, 9)
                for mode in "signed", "abs", "clamp":
                    colours = self.made("rgb.png", "--range", mode, *extra, depth=depth)
                    got = self.made("rgba.png", "--alpha", "filter", "--range", mode, *extra, depth=depth)
                    numpy.testing.assert_array_equal(got[..., :3], colours, f"{depth} {mode} {extra}")
                    numpy.testing.assert_allclose(got[..., 3], alpha, atol=0 if extra != ["--linear"] else 1e-6)

    def test_taps_that_multiply_it(self):
        """--alpha premultiply with taps that do not sum to 1."""
        for taps, words, sums in (("[1 2 1]", ("--scale", "1/4"), "4"), ("[0 0.25 0]", (), "0.25"), ("[1 2 1]/4", (), ""),
                                  ("sharpen", (), ""), ("[1 2 1]", ("--alpha", "filter"), ""), ("[1 2 1]", ("-q",), "")):
            error = self.gconv("-i", "rgba.png", "-f", taps, "--border", "replicate", "--alpha", "premultiply", *words, "-o", "x.png").stderr
            said = f"its taps sum to {sums}, by which --alpha premultiply multiplies alpha"
            self.assertEqual("by which --alpha" in error, sums != "", error)
            self.assertTrue(not sums or said in error, error)

    def test_minmax_is_of_the_colours(self):
        alpha, colours = self.made("a.png"), self.made("rgb.png", "--range", "minmax")
        got = self.made("rgba.png", "--alpha", "filter", "--range", "minmax")
        numpy.testing.assert_array_equal(got[..., :3], colours)
        self.assertLessEqual(abs(got[..., 3].astype(int) - alpha).max(), 1)


ARRAYS = {
    "1/9*ones(3)": numpy.ones((3, 3)) * (1 / 9), "ones(3)/9": numpy.ones((3, 3)) / 9, "np.ones((3,3))/9": numpy.ones((3, 3)) / 9,
    "ones(2,3)": numpy.ones((2, 3)), "[1 2 1]'*[1 0 -1]": numpy.outer([1, 2, 1], [1, 0, -1]),
    "0.1 * [1 2 1]' * [1 2 1] / 3": 0.1 * numpy.outer([1, 2, 1], [1, 2, 1]) / 3,
    "[[1,2],[3,4]]/16": numpy.array([[1, 2], [3, 4]]) / 16, "np.array([[1, 2], [3, 4]]).T / 7": numpy.array([[1, 3], [2, 4]]) / 7,
    "np.outer([1,2,1],[1,0,-1])/8": numpy.outer([1, 2, 1], [1, 0, -1]) / 8,
}


class Arrays(CommandTest):
    def test_of_matlab_and_numpy(self):
        """Computed in float64 from left to right, and rounded to float32 once."""
        for text, expected in ARRAYS.items():
            got = numpy.array([row.split() for row in self.gconv("make", text).stdout.splitlines()[1:]], "f4")
            numpy.testing.assert_array_equal(got, expected.astype("f4"), text)
            self.photo("a.png")
            self.gconv("-i", "a.png", "-f", text, "-o", "out.png", "--border", "replicate", "--scale", "0.1")

    def test_of_a_file(self):
        (self.folder / "box.m").write_text("h = ones(3)/9;\n")
        self.assertIn("0.111111112 0.111111112 0.111111112", self.gconv("make", "box.m").stdout)

    def test_what_is_built_in(self):
        for text, name in (("fspecial('gaussian',5,1)", "filter is gaussian:size=5,sigma=1"),
                           ("fspecial('gaussian',[3 5],1)", "filter is gaussian:size=3x5,sigma=1"),
                           ("fspecial('motion', 9, 45)", "filter is motion:len=9,theta=45"), ("fspecial('disk')", "filter is disk"),
                           ("fspecial('sobel')", "is the negative of sobel_y")):
            said = self.gconv("make", text, status=2).stderr
            self.assertIn(name, said)
            spec = name.split()[-1]
            self.gconv("make", spec)


class Advice(CommandTest):
    def test_groups(self):
        """The hint of --groups names as many as the input has channels, and the command with it works."""
        weights = numpy.random.default_rng(4).random((6, 1, 3, 3), "f4")
        numpy.save(self.folder / "w.npy", weights)
        for channels, groups in ((1, 1), (3, 3), (6, 6)):
            numpy.save(self.folder / "in.npy", numpy.ones((1, channels, 9, 8), "f4"))
            job = ("-i", "in.npy", "-f", "w.npy", "-o", "out.npy")
            self.assertIn(f"depthwise layer, say --groups {groups}\n", self.usage_error("depthwise", *job).stderr)
            self.gconv(*job, "--groups", groups)
            self.assertEqual(numpy.load(self.folder / "out.npy").shape, (1, 6, 9, 8))
        numpy.save(self.folder / "in.npy", numpy.ones((1, 4, 9, 8), "f4"))  # no number of groups fits
        self.assertNotIn("--groups", self.usage_error("", *job).stderr)
        self.photo("photo.png", channels=1)
        self.assertNotIn("--groups", self.usage_error("", "-i", "photo.png", "-f", "w.npy", "-o", "out.png").stderr)

    def test_constant_borders(self):
        pixels = self.photo("a.png", 6, 5, channels=1)
        numpy.save(self.folder / "f.npy", pixels / numpy.float32(255))
        for name in "a.png", "f.npy":
            for value in (-0.1, 1.5):
                self.gconv("-i", name, "-f", "average", "--depth", "float", "-o", "out.npy", "--border", f"constant:{value}")
                padded = numpy.pad(pixels / 255, 1, constant_values=value)
                expected = sum(padded[r:r + 5, s:s + 6] for r in range(3) for s in range(3)) / 9
                self.assertLess(abs(numpy.load(self.folder / "out.npy") - expected).max(), 1e-6)
        result = self.gconv("-i", "a.png", "-f", "average", "-o", "out.png", "--border", "constant:-0.1", status=1)
        self.assertIn("the constant of the border is -0.1, but image and results are integers (u8), where 0 is black, 1 is white, "
                      "and nothing lies beyond: for level L give L / 255; float results take any number", result.stderr)

    def test_constant_borders_and_alpha(self):
        """One constant is for colours and alpha: what that makes of colours that alpha divides, or of alpha under a curve, is refused."""
        Image.fromarray(numpy.full((5, 6, 4), 200, numpy.uint8)).save(self.folder / "flat.png")
        job = ("-i", "flat.png", "-f", "average", "-o", "out.png", "--padding", "full")
        for words, fragment in ((("--alpha", "premultiply"), "alpha premultiply divides by it"),
                                (("--alpha", "premultiply", "--linear"), "alpha premultiply divides by it"),
                                (("--alpha", "filter", "--linear"), "has no sRGB curve"), (("--linear",), "has no sRGB curve")):
            result = self.gconv(*job, *words, "--border", "constant:0.5", status=1)
            self.assertIn("flat.png: the constant of the border, 0.5, counts for alpha, too", result.stderr)
            self.assertIn(fragment, result.stderr)
            self.assertFalse((self.folder / "out.png").exists())
            for value in "0", "1":
                self.gconv(*job, *words, "--border", f"constant:{value}")
                (self.folder / "out.png").unlink()
        same = ("-i", "flat.png", "-f", "average", "-o", "out.png", "--border", "constant:0.5")
        for words in ((*job, "--border", "constant:0.5"), (*job, "--border", "constant:0.5", "--alpha", "filter"), (*same, "--linear"),
                      (*job, "--border", "constant:0.5", "--linear", "--alpha", "drop")):
            self.gconv(*words)  # the same for both, nothing of alpha from outside, and no alpha

    def raised(self, pattern, option, first, *words):
        """Runs with too little, then with exactly what the text says, which must suffice."""
        error = self.gconv(*words, option, first, status=1).stderr
        enough = re.search(pattern, error)
        self.assertTrue(enough, error)
        self.gconv(*words, option, enough[1])

    def test_memory(self):
        self.photo("a.png", 500, 400)
        self.photo("tall.png", 500, 1500)
        numpy.save(self.folder / "w.npy", numpy.ones((9, 3, 3, 3), "f4"))
        numpy.save(self.folder / "planes.npy", numpy.ones((1, 3, 300, 200), "f4"))
        blur = ("-f", "gaussian:size=9,sigma=2", "--border", "replicate")
        jobs = [("-i", "a.png", "-o", "x.png", *blur), ("-i", "a.png", "-o", "x.png", *blur[:2], "--border", "wrap"),
                ("-i", "a.png", "-o", "x.png", *blur, "--range", "minmax"), ("-i", "a.png", "-o", "x.png", *blur, "--verify"),
                ("-i", "tall.png", "-o", "x.png", "-f", "kirsch", "--combine", "max"),
                ("-i", "tall.png", "-o", "k{filter}.png", "-f", "kirsch", "--range", "abs"),
                ("-i", "tall.png", "-o", "x.png", *blur, "--then", "-f", "sobel_x", "--range", "abs"),
                ("-i", "tall.png", "-o", "y.npy", "-f", "w.npy"), ("-i", "tall.png", "-o", "m{filter}.png", "-f", "w.npy"),
                ("-i", "tall.png", "-o", "m.png", "-f", "w.npy", "--combine", "mosaic"),
                ("-i", "planes.npy", "-o", "y.npy", "-f", "w.npy")]
        for words in jobs:
            for first in ("1k", "600k"):
                self.raised(r"raise it to (\d+[Mk]?)", "--memory", first, *words, "-q")

    def test_max_pixels(self):
        self.photo("a.png", 160, 150)
        numpy.save(self.folder / "planes.npy", numpy.ones((2, 9, 30, 20), "f4"))
        numpy.save(self.folder / "w.npy", numpy.ones((1, 9, 1, 1), "f4"))
        self.raised(r"raise it with --max-pixels (\d+)", "--max-pixels", "100", "-i", "a.png", "-o", "x.png", "-f", "identity")
        self.raised(r"raise it with --max-pixels (\d+)", "--max-pixels", "100", "-i", "planes.npy", "-o", "x.npy", "-f", "w.npy")

    def test_help(self):
        text = " ".join(self.gconv("help", "filter").stdout.split())
        self.assertIn("with --linear 0.2126 R + 0.7152 G + 0.0722 B of the light (BT.709)", text)
        self.assertIn("signed (v / 2 + 1/2: 0 is mid-grey) or minmax (from 0 to 1); all but clamp hold for --depth float, too", text)


class Losses(CommandTest):
    """What is lost is said in one line, once a run, and the shares are right to a few percent."""

    def setUp(self):
        super().setUp()
        self.photo("a.png", 400, 300)

    def warnings(self, *words, **options):
        return [line[16:] for line in self.gconv(*words, **options).stderr.splitlines() if line.startswith("gconv: warning: ")]

    def share(self, lines, fragment):
        found = [re.search(r"about (\d+)% of the responses are " + fragment, line) for line in lines]
        return [int(match[1]) for match in found if match]

    def test_shares(self):
        """Against the responses themselves, of several filters, whole and by rows."""
        self.photo("large.png", 1400, 2100)
        for name in "a.png", "large.png":
            for words in (("-f", "sobel_x"), ("-f", "average:size=9", "--border", "zero", "--scale", "1.1"), ("-f", "sharpen"),
                          ("-f", "identity", "--scale", "3", "--offset=-1"), ("-f", "sobel_x", "--range", "signed", "--scale", "3"),
                          ("-f", "sobel", "--combine", "magnitude", "--gray"), ("-f", "identity", "--scale", "1.5", "--linear"),
                          ("-f", "gaussian:sigma=1", "--then", "-f", "laplacian_8", "--border", "replicate")):
                self.gconv("-i", name, *words, "-o", "v.npy", "--depth", "float")
                v = numpy.load(self.folder / "v.npy")
                lines = self.warnings("-i", name, *words, "-o", "x.png")
                for share, fragment in (((v < -0.5 / 255).mean(), "below 0 and became black"),
                                        ((v > 1 + 0.5 / 255).mean(), "above white")):
                    said = self.share(lines, fragment)
                    self.assertLessEqual(len(said), 1)
                    if share > 0.02:
                        self.assertEqual(len(said), 1, (name, words, share, lines))
                    if share < 0.004:
                        self.assertEqual(said, [], (name, words, share))
                    if said:
                        self.assertLess(abs(said[0] / 100 - share), 0.05, (name, words))

    def test_it_depends_on_nothing(self):
        self.photo("large.png", 1400, 2100)
        self.photo("small.png", 140, 210)
        for name, ways in (("large.png", ((), ("--threads", "1"), ("--threads", "7"), ("--memory", "60M"), ("-a", "direct", "--verify"))),
                           ("small.png", ((), ("-a", "reference"), ("-a", "direct")))):
            words = ("-i", name, "-f", "log:size=9,sigma=1.4", "--scale", "9", "-o", "x.png")
            said = {tuple(self.warnings(*words, *more)) for more in ways}
            self.assertEqual(len(said), 1, said)
            self.assertGreaterEqual(len(next(iter(said))), 1)

    def test_what_is_not_lost(self):
        Image.new("L", (90, 70), 255).save(self.folder / "white.png")
        Image.new("L", (90, 70), 0).save(self.folder / "black.png")
        for name in "white.png", "black.png":
            for words in (("-f", "average", "--border", "replicate"), ("-f", "sobel_x", "--border", "replicate"), ("-f", "identity")):
                self.assertEqual(self.warnings("-i", name, *words, "-o", "x.png"), [])
        for words in (("-f", "sobel_x", "--range", "signed", "--scale", "0.2"), ("-f", "sobel_x", "--range", "minmax"),
                      ("-f", "sobel_x", "--depth", "float", "-o", "y.npy")):
            self.assertEqual(self.warnings("-i", "a.png", "--border", "zero", *words, *(() if "-o" in words else ("-o", "x.png"))), [])
        self.assertEqual(self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "-q").stderr, "")

    def test_one_colour(self):
        rng = numpy.random.default_rng(1)
        for low, high, colour in ((5, 4096, "white"), (-900, -2, "black"), (1e-9, 1e-7, "black")):
            numpy.save(self.folder / "f.npy", rng.uniform(low, high, (60, 50)).astype("f4"))
            lines = self.warnings("-i", "f.npy", "-f", "identity", "-o", "x.png")
            self.assertEqual(len(set(self.pixels("x.png").ravel())), 1)
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(f"f.npy: the result is {colour} all over", lines[0])
            self.assertIn("--range minmax shows them", lines[0])
            self.gconv("-i", "f.npy", "-f", "identity", "-o", "x.png", "--range", "minmax")
            self.assertGreater(len(set(self.pixels("x.png").ravel())), 1000)

    def test_pictures_of_banks(self):
        bank = ("-f", "sobel_x", "--mean", "0")
        numbers = self.warnings("-i", "a.png", "-f", "identity", "--mean", "0", "--scale", "2", "-o", "x.png")
        self.assertTrue(self.share(numbers, "above white")[0] in range(42, 58), numbers)
        black = self.warnings("-i", "a.png", *bank, "--range", "clamp", "-o", "x.png")
        self.assertTrue(self.share(black, "below 0")[0] in range(42, 58), black)
        stretched = self.warnings("-i", "a.png", *bank, "-o", "x.png")
        self.assertFalse(any("became" in line for line in stretched), stretched)

    def test_how_bright(self):
        """1.04, 2.9 or 154 times: neither "1 times" nor "1.5e+02 times"."""
        for scale, pattern in ("1.05", r"1\.0\d"), ("3", r"[23]\.\d"), ("150", r"1[0-9][0-9]"):
            line, = self.warnings("-i", "a.png", "-f", "identity", "--scale", scale, "-o", "x.png")
            self.assertRegex(line, f"up to about {pattern} times as bright")

    def test_once_a_run_and_counted(self):
        for i in range(5):
            self.photo(f"in/{i}.png", 60, 50, seed=i)
        Image.new("RGB", (60, 50)).save(self.folder / "in/black.png")
        result = self.gconv("-i", "in", "-f", "sobel_x", "--border", "zero", "-o", "out/")
        lines = result.stderr.splitlines()
        self.assertEqual(sum("became black" in line for line in lines), 1)
        self.assertIn("in/0.png: ", lines[0])
        self.assertEqual(lines[-1], "gconv: 6 written; clamped to black: 5 images, clamped to white: 5 images")

    def test_rims(self):
        """What black outside does to the rim of each kind of filter, and what is said of it. The advice helps."""
        blur = ("-i", "a.png", "-o", "x.png", "-f", "gaussian:sigma=2")
        dark, edges, other = "the rim darkens", "a frame of false edges", "brighter or darker than it should"
        for words, said in ((blur, dark), ((*blur, "--border", "zero"), ""), ((*blur, "--border", "replicate"), ""),
                            ((*blur, "--padding", "valid"), ""), ((*blur, "--then", "-f", "identity"), dark),
                            ((*blur[:4], "-f", "identity", "--then", "-f", "sobel"), edges)):
            rims = [line for line in self.warnings(*words) if "--border replicate avoids it" in line]
            self.assertEqual(len(rims), said != "", (words, rims))
            self.assertIn(said, "".join(rims))
        Image.new("L", (40, 30), 120).save(self.folder / "even.png")
        for spec, said in (("identity", ""), ("[0 0.5 0]", ""), ("[1 2 1]/4", dark), ("[0 0 1]", dark), ("3x3: 1,1,1 1,1,1 1,1,1", dark),
                           ("sharpen", other), ("usm", other), ("emboss", other), ("sobel", edges), ("prewitt", edges), ("laplacian", edges),
                           ("scharr_x", edges), ("log", edges), ("kirsch_n", edges), ("roberts", edges)):
            words = ("-i", "even.png", "-f", spec, "--depth", "float", "-o", "x.npy")
            rims = [line for line in self.warnings(*words) if "--border replicate avoids it" in line]
            self.assertEqual(len(rims), said != "", (spec, rims))
            self.assertIn(said, "".join(rims))
            flat = numpy.ptp(numpy.load(self.folder / "x.npy")) < 1e-6
            self.assertEqual(flat, said == "", spec)
            self.gconv(*words, "--border", "replicate")
            self.assertLess(numpy.ptp(numpy.load(self.folder / "x.npy")), 1e-6, spec)
        self.assertIn("takes most of the range", "".join(self.warnings("-i", "even.png", "-f", "sobel", "--range", "minmax", "-o", "x.png")))

    def test_advice_fits_the_filter(self):
        """What is clamped of edges wants another zero; of pictures that stay pictures, that would spoil them."""
        checks = (("laplacian", "below 0", "--range signed or --range abs"), ("sobel_x", "below 0", "--range signed or --range abs"),
                  ("sharpen", "below 0", "--range minmax"), ("emboss", "below 0", "--range minmax"), ("usm:amount=9,sigma=2", "below 0", "--range minmax"),
                  ("sharpen", "above white", "--range minmax"), ("sobel_x", "above white", "a smaller --scale"),
                  ("3x1: 1,1,1", "above white", "even areas become 3 times as bright, which --scale 0.3333 undoes"))
        for spec, lost, advice in checks:
            lines = [line for line in self.warnings("-i", "a.png", "-f", spec, "--border", "replicate", "-o", "x.png") if lost in line]
            self.assertEqual(len(lines), 1, (spec, lines))
            self.assertIn(advice, lines[0])
            if "signed" not in advice:
                self.assertNotIn("signed", lines[0])
        lines = self.warnings("-i", "a.png", "-f", checks[-1][0], "--border", "replicate", "--scale", "0.5", "-o", "x.png")
        self.assertIn("1.5 times as bright, which --scale 0.3333 undoes", "".join(lines))
        self.gconv("-i", "a.png", "-f", checks[-1][0], "--border", "replicate", "--scale", "0.3333", "-o", "x.png")
        self.assertAlmostEqual(self.pixels("x.png").mean(), self.pixels("a.png").mean(), delta=1)

    def test_numbers_that_integers_cannot_hold(self):
        """NaN and infinities that become levels are counted: whole, by rows, in chains, of banks; and once a run."""
        samples = numpy.random.default_rng(2).random((60, 50)).astype("f4")
        samples[:30:2, :10], samples[7, 9], samples[59, 49] = numpy.nan, numpy.inf, -numpy.inf
        numpy.save(self.folder / "n.npy", samples)
        said = "n.npy: of 3000 samples, 150 are not a number (NaN), and 2 infinite"
        plain = ("-i", "n.npy", "-f", "average", "--border", "replicate")
        for words in ((), ("--depth", "16"), ("--range", "minmax"), ("--then", "-f", "sobel", "--border", "zero"), ("--batch", "2"), ("--threads", "1")):
            lines = [line for line in self.warnings(*plain, *words, "-o", "x.png") if "not a number" in line]
            self.assertEqual(len(lines), 1, words)
            self.assertIn(said, lines[0])
            self.assertIn("--depth float, into .npy, .pfm or .tif, keeps them", lines[0])
        for words in (("-o", "x.npy"), ("-o", "x.pfm"), ("-q", "-o", "x.png")):
            self.assertEqual(self.warnings(*plain, *words), [])
        lines = self.warnings(*plain, "--depth", "int16", "-o", "x.npy")
        self.assertIn("are not a number (NaN), and became 0", "".join(lines))
        large = numpy.zeros((1500, 2000), "f4")
        large[::7, ::11] = numpy.nan
        numpy.save(self.folder / "large.npy", large)
        lines = self.warnings("-i", "large.npy", "-f", "average", "--border", "replicate", "--threads", "2", "-o", "x.png")
        self.assertIn(f"{numpy.isnan(large).sum()} of 3000000 samples are not a number", "".join(lines))
        for i in range(3):
            numpy.save(self.folder / f"n{i}.npy", samples)
        result = self.gconv("-i", "n0.npy", "n1.npy", "n2.npy", "-f", "identity", "-o", "out/", "--format", "png")
        self.assertEqual(result.stderr.count("not a number"), 1)
        self.assertIn("no numbers: 3 images", result.stderr)

    def test_channels_that_become_alpha(self):
        """Formats that have no other fourth or second channel than alpha."""
        for channels in (2, 3, 4):
            numpy.save(self.folder / "in.npy", numpy.full((5, 6, channels), 9, "u1"))
            for name, told in (("out.png", channels != 3), ("out.pam", channels != 3), ("out.npy", False)):
                said = self.gconv("-i", "in.npy", "-f", "identity", "-o", name).stderr
                self.assertEqual((said.count(f"the last of {channels} channels"), said.count("\n")), (told, told), said)
        self.photo("rgba.png", 6, 5, channels=4)
        self.assertEqual(self.gconv("-i", "rgba.png", "-f", "identity", "-o", "out.png").stderr, "")

    def test_colours_of_transparent_pixels(self):
        """Told where an invisible colour goes into visible ones, and nowhere else."""
        picture = numpy.full((40, 30, 4), 255, "u1")
        picture[10:20, 10:20] = (255, 0, 0, 0)
        Image.fromarray(picture).save(self.folder / "hole.png")
        opaque, same = picture.copy(), picture.copy()
        opaque[..., 3] = 255
        same[..., :3] = 77
        Image.fromarray(opaque).save(self.folder / "opaque.png")
        Image.fromarray(same).save(self.folder / "same.png")
        Image.fromarray(picture[..., [0, 3]]).save(self.folder / "grey.png")
        picture[10:20, 10:20, :3] = 0
        Image.fromarray(picture).save(self.folder / "black.png")
        large = numpy.full((1500, 1500, 4), 200, "u1")
        large[1400:, :, :] = (9, 9, 9, 0)
        Image.fromarray(large).save(self.folder / "large.png")
        blur = ("-f", "average", "--border", "replicate", "-o", "x.png")
        for name, words, told in (("hole.png", blur, True), ("black.png", blur, True), ("large.png", blur, True), ("opaque.png", blur, False),
                                  ("same.png", blur, False), ("grey.png", blur, False), ("hole.png", (*blur, "--alpha", "keep"), False),
                                  ("hole.png", (*blur, "--alpha", "premultiply"), False), ("hole.png", (*blur, "--alpha", "drop"), False),
                                  ("hole.png", ("-f", "identity", *blur[2:]), False), ("hole.png", ("-f", "sobel", *blur[2:]), False),
                                  ("hole.png", ("-f", "identity", "--then", *blur), True), ("hole.png", (*blur, "-q"), False)):
            lines = [line for line in self.warnings("-i", name, *words) if "--alpha premultiply keeps them out" in line]
            self.assertEqual(len(lines), told, (name, words, lines))
        self.gconv("-i", "hole.png", *blur, "--alpha", "premultiply")
        self.assertEqual(self.pixels("x.png")[9, 9].tolist()[:3], [255, 255, 255])

    def test_derivatives_beside_other_filters(self):
        for filters, others, told in ((("sobel,average",), (), "sobel"), (("average", "Prewitt"), (), "Prewitt"), (("sobel",), (), ""),
                                      (("sobel_x,sobel_y",), (), ""), (("sobel,average",), ("--combine", "none"), ""),
                                      (("sobel,prewitt",), ("--combine", "max"), ""), (("sobel,average",), ("-q",), "")):
            lines = self.warnings("-i", "a.png", "-f", *filters, *others, "-o", "x.png" if "max" in others or filters == ("sobel",) else "y/")
            said = [line for line in lines if "gives its two derivatives" in line]
            self.assertEqual(len(said), told != "", (filters, others, lines))
            self.assertTrue(all(line.startswith(f"{told}: beside other filters") for line in said))

    def test_filters_that_become_a_bank(self):
        photo = ("-i", "a.png", "-o", "x.png", "-f", "average")
        bank = self.folder / "bank.txt"
        bank.write_text(self.gconv("bank", "convert", "average").stdout)
        for words, option in (((*photo, "--batch", "4"), "--batch"), ((*photo, "--padding", "same-upper"), "--padding"),
                              ((*photo, "--math", "fp16", "--combine", "sum"), "--math"), (photo, ""),
                              ((*photo, "--batch", "4", "--range", "clamp"), ""), ((*photo, "--batch", "4", "--scale", "2"), ""),
                              (("-i", "a.png", "-o", "x.npy", "-f", "average", "--batch", "4"), ""),
                              (("-i", "a.png", "-o", "x.png", "-f", "bank.txt", "--batch", "4"), ""),
                              ((*photo, "--batch", "4", "--combine", "mosaic"), "")):
            said = [line for line in self.warnings(*words) if "stretched to full contrast" in line]
            self.assertEqual(len(said), option != "", (words, said))
            self.assertTrue(all(line.startswith(f"{option} makes a bank of") for line in said), said)
        self.assertEqual(self.warnings(*photo, "--batch", "4", "-q"), [])
        self.gconv(*photo, "--border", "zero")
        plain = self.pixels("x.png")
        self.gconv(*photo, "--batch", "4", "--range", "clamp")
        self.assert_pixels("x.png", plain)

    def test_sigma(self):
        for filter_, said in (("gaussian:size=9", "gaussian: sigma is 0.5, the default"), ("log:size=15", "log: sigma is 0.5"),
                              ("gaussian:size=9,sigma=0.5", ""), ("gaussian", ""), ("gaussian:sigma=3", ""), ("gaussian:size=3", "")):
            lines = [line for line in self.warnings("-i", "a.png", "-f", filter_, "-o", "x.png", "--border", "zero") if "sigma" in line]
            self.assertEqual(len(lines), bool(said), lines)
            self.assertIn(said, "".join(lines))

    def test_count(self):
        for i in range(4):
            self.photo(f"in/{i}.png", seed=i)
        (self.folder / "in/2.png").write_bytes(b"")
        job = ("-i", "in", "-f", "identity", "-o", "out/")
        self.assertTrue(self.gconv(*job, status=3).stderr.endswith("gconv: 3 of 4 written\n"))
        self.assertTrue(self.gconv(*job, "--resume", status=3).stderr.endswith("gconv: 3 of 4 written; --resume continues\n"))
        self.photo("in/2.png")
        self.gconv(*job, "--resume")
        self.assertEqual(len(self.files("out")), 5)
        self.assertEqual(self.gconv("-i", "in/0.png", "-f", "identity", "-o", "x.png").stderr, "")


if __name__ == "__main__":
    unittest.main()
