# SPDX-License-Identifier: MIT
"""What people type before they read: words of other programs, words without options, lists, names in any case. Where a word
means one thing it is taken; where it means two it is refused, with both."""
import math
import pathlib
import re
import unittest

import numpy
from PIL import Image

from helper import CommandTest

SOURCES = pathlib.Path(__file__).resolve().parents[2]


def words_of(text):
    return text.replace("--", "").replace(",", " ").split()


class GuessTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png")

    def result(self, *words, name="x.npy"):
        self.gconv(*words, "-o", name)
        return numpy.load(self.folder / name)

    def assert_same(self, words, others):
        numpy.testing.assert_array_equal(self.result(*words), self.result(*others), str(words))


class Kernels(GuessTest):
    def test_rows_without_brackets(self):
        for rows in "0 -1 0; -1 5 -1; 0 -1 0", "1,2,3;4,5,6", "1 2; 3 4", "1 2 1;\n2 4 2;\n1 2 1":
            self.assert_same(("-i", "a.png", "-f", rows), ("-i", "a.png", "-f", f"[{rows}]"))
        for several in "1 2 3 4; 5 6 7 8", "1 2 3; 4 5":  # two kernels of ImageMagick, and none
            self.gconv("-i", "a.png", "-f", several, "-o", "y.npy", status=(2,))

    def test_width_at_half_of_the_height(self):
        sigma = 4 / math.sqrt(8 * math.log(2))
        made, wanted = (self.result("-i", "a.png", "-f", f"gaussian:{word}", "--depth", "float") for word in ("fwhm=4", f"sigma={sigma!r}"))
        numpy.testing.assert_allclose(made, wanted, atol=1e-6)


class Sums(GuessTest):
    def test_kernels_that_brighten_are_told_of_and_normalised(self):
        numpy.save(self.folder / "psf.npy", numpy.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], "f4"))
        brighter = "warning: psf: its taps sum to 16, so that the image gets 16 times as bright: --normalize divides by the sum"
        self.assertIn(brighter, self.gconv("-i", "a.png", "-f", "psf.npy", "--depth", "float", "-o", "y.npy").stderr)
        for words in (("psf.npy", "--normalize"), ("binomial",), ("laplacian_4",), ("psf.npy", "--scale", "1/16"), ("[2]",),
                      ("psf.npy", "--range", "minmax")):
            said = self.gconv("-i", "a.png", "-f", *words, "--depth", "float", "-o", "y.npy").stderr
            self.assertNotIn("as bright:", said)
        self.assert_same(("-i", "a.png", "-f", "psf.npy", "--normalise"), ("-i", "a.png", "-f", "binomial"))
        self.assert_same(("-i", "a.png", "-f", "psf.npy", "--then", "-f", "psf.npy", "--normalize"),
                         ("-i", "a.png", "-f", "binomial", "--then", "-f", "binomial"))
        self.gconv("-i", "psf.npy", "-f", "identity", "-o", "star.fits")
        self.assert_same(("-i", "a.png", "-f", "star.fits", "--normalize"), ("-i", "a.png", "-f", "binomial"))
        numpy.save(self.folder / "gap.npy", numpy.array([[1, 1, 1], [1, 1, numpy.nan]], numpy.float32))
        self.gconv("-i", "gap.npy", "-f", "identity", "-o", "gap.fits")
        self.usage_error("gap.fits: is no number in column 2 of row 1", "-i", "a.png", "-f", "gap.fits", "-o", "x.png")
        (self.folder / "cut.fits").write_bytes((self.folder / "star.fits").read_bytes()[:2900])
        self.usage_error("cut.fits: the file ends too early", "-i", "a.png", "-f", "cut.fits", "-o", "x.png")
        for name in "m.npy", "m.fits", "m.tif":
            self.gconv("make", "[1 2 1]/4", "-o", name)
            self.gconv("-i", name, "-f", "identity", "--depth", "float", "-o", "taps.npy", "--border", "replicate")
            numpy.testing.assert_array_equal(numpy.load(self.folder / "taps.npy"), [[0.25, 0.5, 0.25]])
        self.usage_error("m.tif: is a TIFF image, not a filter; -f takes arrays as .npy", "-i", "a.png", "-f", "m.tif", "-o", "x.png")
        for words in ("gaussian", "-o", "m.png"), ("sobel", "-o", "m.npy"), ("identity:size=2", "-o", "m.exe.png"):
            self.usage_error("hold floats", "make", *words)
        self.usage_error("three numbers are for volumes", "-i", "a.png", "-f", "gaussian:sigma=1x2x2", "-o", "x.png")
        self.usage_error("is a PNG image, not a filter", "-i", "a.png", "-f", "a.png", "-o", "x.png")
        self.usage_error("sobel_x: its taps sum to 0", "-i", "a.png", "-f", "sobel_x", "--normalize", "-o", "x.png")
        self.usage_error("--normalize is not for banks", "-i", "a.png", "-f", "psf.npy", "--batch", "2", "--normalize", "-o", "x.png")


class Synonyms(GuessTest):
    def job(self, *words):
        return ("-i", "a.png", "-f", "average", *words)

    def test_borders(self):
        for word, border in (("edge", "replicate"), ("nearest", "replicate"), ("copy", "replicate"), ("extend", "replicate"),
                             ("tile", "wrap"), ("circular", "wrap"), ("periodic", "wrap"), ("black", "zero"), ("zeros", "zero"),
                             ("white", "constant:1"), ("reflect_101", "reflect101"), ("EDGE", "replicate"), ("Wrap", "wrap")):
            self.assert_same(self.job("--border", word), self.job("--border", border))

    def test_borders_that_mean_two_things(self):
        for word in "mirror", "reflect", "Mirror":
            said = self.usage_error("symmetric    c b a | a b c d | d c b", *self.job("--border", word, "-o", "x.png")).stderr
            self.assertIn("reflect101   d c b | a b c d | c b a", said)
            self.assertEqual(len(said.splitlines()), 3, "the text keeps its lines")
        self.usage_error("replicate repeats the pixel at the edge, wrap the whole image", *self.job("--border", "repeat"))
        self.usage_error("--padding valid", *self.job("--border", "none"))

    def test_every_synonym_of_help_is_taken(self):
        """The rows say what each word stands for: both must give the same result."""
        rows = 0
        for option in ("border", "device", "depth", "combine", "range", "alpha", "activation", "math"):
            for words, value in re.findall(r"(?m)^  (\S.*): taken for (\S+)$", self.gconv("help", option).stdout):
                for word in words_of(words):
                    rows += 1
                    if value == "cuda":
                        said = self.gconv(*self.job(f"--{option}", word, "-o", "x.png"), "--dry-run", "-q").stderr
                        self.assertEqual(said, "")
                    else:
                        self.assert_same(self.job(f"--{option}", word), self.job(f"--{option}", value))
        self.assertGreater(rows, 35)

    def test_devices(self):
        self.gconv(*self.job("-o", "x.png", "--device", "gpu:0", "--dry-run"))
        self.usage_error("the number of a GPU, such as cuda:0", *self.job("-o", "x.png", "--device", "gpu:x"))
        self.gconv(*self.job("-o", "x.png"), env={"GCONV_DEVICE": "host"})
        self.usage_error("auto, cpu, cuda", *self.job("-o", "x.png"), env={"GCONV_DEVICE": "tpu"})

    def test_names_of_options(self):
        for words, others in ((("--grey",), ("--gray",)), (("--grayscale",), ("--gray",)), (("--greyscale",), ("--gray",)),
                              (("--boundary=wrap",), ("--border=wrap",)), (("--convolve",), ("--flip",)),
                              (("--convolution",), ("--flip",)), (("--bits", "16"), ("--depth", "16")),
                              (("--dtype", "float32"), ("--depth", "float")), (("--cores", "1"), ()), (("--cpus=2",), ()),
                              (("--workers", "1"), ()), (("--parallel", "2"), ())):
            self.assert_same(self.job(*words), self.job(*others))
        for word in "image", "images", "source", "src":
            self.assert_same((f"--{word}", "a.png", "--kernel", "average"), self.job())
        for word in "out", "dest", "destination":
            self.gconv(*self.job(f"--{word}", "y.npy"))
            (self.folder / "y.npy").unlink()
        self.assert_same(self.job("--bias", "0.25"), self.job("--offset", "0.25"))
        self.gconv(*self.job("-o", "x.png", "--no-overwrite"))
        self.gconv(*self.job("-o", "x.png", "--keep-existing"), status=1)

    def test_names_of_options_that_may_mean_something_else(self):
        for word, option in (("rotate", "flip"), ("mono", "gray"), ("edge", "border"), ("gamma", "linear"),
                             ("gpu", "device"), ("merge", "combine"), ("level", "png-level")):
            self.usage_error(f"unknown option --{word}: did you mean --{option}?", *self.job(f"--{word}"))

    def test_every_name_of_help_is_taken(self):
        """Synonyms stand in the row of what they mean: help prints that row for each of them."""
        text = (SOURCES / "src/cli/job_options.c").read_text()
        names = [word for words in re.findall(r'\.also = "([^"]*)"', text) for word in words.split()]
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertIn(f"--{name}", self.gconv("help", f"--{name}").stdout)

    def test_filters(self):
        for word, name in (("Sobel_X", "sobel_x"), ("sobel-x", "sobel_x"), ("SobelX", "sobel_x"), ("GAUSSIAN", "gaussian"),
                           ("box", "average"), ("Box:size=5", "average:size=5"), ("mean", "average"), ("uniform", "average"),
                           ("gauss:sigma=2", "gaussian:sigma=2"), ("Sharpen", "sharpen"), ("laplace", "laplacian_4"),
                           ("LoG", "log"), ("DoG", "dog"), ("disc:3", "disk:radius=3"), ("unsharp-mask", "usm"),
                           ("UnsharpMask:radius=1", "usm:sigma=1"), ("sharpen:1", "sharpen"), ("laplacian8", "laplacian_8"), ("relief", "emboss"),
                           ("average:5", "average:size=5"), ("sobel_x:", "sobel_x")):
            self.assert_same(("-i", "a.png", "-f", word), ("-i", "a.png", "-f", name))

    def test_every_other_name_of_a_filter(self):
        count = 0
        for name in re.findall(r"(?m)^  ([a-z_0-9]+)", self.gconv("filters").stdout.split("Files in")[0]):
            also = re.search(r"(?m)^Also called: (.*)$", self.gconv("help", name).stdout)
            for word in also[1].split() if also else ():
                count += 1
                self.assertEqual(self.gconv("make", word).stdout, self.gconv("make", name).stdout)
        self.assertGreater(count, 15)

    def test_results_have_the_names_of_this_program(self):
        self.gconv("-i", "a.png", "-f", "Box:size=5", "sharpen", "-o", "out/")
        self.assertEqual(self.files("out"), ["a_average_size5.png", "a_sharpen.png"])

    def test_lists(self):
        for word in "formats", "--formats", "--list-formats":
            self.assertEqual(self.gconv(word).stdout, self.gconv("help", "formats").stdout)
        for word in "--filters", "--list-filters":
            self.assertEqual(self.gconv(word).stdout, self.gconv("filters").stdout)

    def test_a_file_comes_first(self):
        (self.folder / "box").write_text("2\n")
        self.gconv("-i", "a.png", "-f", "box", "-o", "x.png")
        self.assert_pixels("x.png", numpy.minimum(self.pixels("a.png").astype(int) * 2, 255))

    def test_filters_that_mean_two_things(self):
        for word in "blur", "Blur", "smooth", "lowpass":
            said = self.usage_error("means different things", "-i", "a.png", "-f", word, "-o", "x.png").stderr
            self.assertIn("gaussian:sigma=2", said)
            self.assertIn("average:size=5", said)


class Gradient(GuessTest):
    def test_magnitude(self):
        for name in "sobel", "prewitt", "scharr", "roberts", "Sobel":
            both = ("-i", "a.png", "-f", name.lower() + "_x", "-f", name.lower() + "_y", "--combine", "magnitude", "--depth", "float")
            self.assert_same(("-i", "a.png", "-f", name, "--depth", "float"), both)

    def test_one_picture(self):
        self.gconv("-i", "a.png", "-f", "sobel", "-o", "out/")
        self.assertEqual(self.files("out"), ["a.png"])

    def test_both_derivatives(self):
        self.gconv("-i", "a.png", "-f", "sobel", "--combine", "none", "-o", "out/")
        self.gconv("-i", "a.png", "-f", "sobel_x,sobel_y", "-o", "list/")
        self.gconv("-i", "a.png", "-f", "sobel", "identity", "-o", "more/")
        self.assertEqual(self.files("out"), ["a_sobel_x.png", "a_sobel_y.png"])
        self.assertEqual(self.files("list"), self.files("out"))
        self.assertEqual(self.files("more"), ["a_identity.png", *self.files("out")])

    def test_in_a_chain(self):
        first = self.result("-i", "a.png", "-f", "sobel", "--depth", "float")
        numpy.save(self.folder / "edges.npy", first)
        self.assert_same(("-i", "a.png", "-f", "sobel", "--then", "-f", "average", "--depth", "float"),
                         ("-i", "edges.npy", "-f", "average", "--depth", "float"))
        self.assert_same(("-i", "a.png", "-f", "average", "--then", "-f", "sobel", "--depth", "float"),
                         ("-i", "a.png", "-f", "average", "--then", "-f", "sobel", "--combine", "magnitude", "--depth", "float"))

    def test_a_chain_is_one_filter_after_the_other(self):
        """Contrast and resolution stay."""
        Image.fromarray(numpy.random.default_rng(2).integers(100, 140, (20, 30, 3), dtype=numpy.uint8)).save(self.folder / "c.png", dpi=(300, 300))
        self.gconv("-i", "c.png", "-f", "average", "--then", "-f", "average", "--border", "edge", "-o", "y.png")
        with Image.open(self.folder / "y.png") as image:
            self.assertAlmostEqual(image.info["dpi"][0], 300, places=1)
            self.assertTrue(100 <= numpy.asarray(image).min() and numpy.asarray(image).max() < 140)

    def test_of_banks_both_are_outputs(self):
        self.assertEqual(self.result("-i", "a.png", "-f", "sobel", "--gray", "--activation", "relu").shape[-3], 2)

    def test_resume_knows_it(self):
        self.gconv("-i", "a.png", "-f", "sobel", "-o", "out/", "--resume")
        said = self.gconv("-i", "a.png", "-f", "sobel", "-o", "out/", "--resume", "--combine", "magnitude", "--dry-run").stdout
        self.assertIn("(done: passed over)", said)


class Words(GuessTest):
    def setUp(self):
        super().setUp()
        self.gconv("-i", "a.png", "-f", "sobel", "-o", "expected.png")
        self.expected = self.pixels("expected.png")

    def test_filter_input_output(self):
        for number, words in enumerate((["sobel", "a.png", "@"], ["filter", "sobel", "a.png", "@"], ["a.png", "@", "-f", "sobel"],
                                        ["a.png", "-f", "sobel", "-o", "@"], ["a.png", "-f", "sobel", "@"], ["sobel", "a.png", "-o", "@"],
                                        ["-f", "sobel", "a.png", "@"], ["sobel", "-i", "a.png", "-o", "@"], ["-i", "a.png", "-f", "sobel", "@"],
                                        ["sobel", "@", "-i", "a.png"], ["-o", "@", "sobel", "a.png"], ["sobel:", "a.png", "@"],
                                        ["SOBEL", "a.png", "@", "--border", "zero"])):
            name = f"{number}.png"
            self.gconv(*(name if word == "@" else word for word in words))
            self.assert_pixels(name, self.expected)

    def test_several_inputs(self):
        self.photo("b.png", seed=3)
        self.gconv("sobel", "a.png", "b.png", "out/")
        self.gconv("a.png", "b.png", "-f", "sobel", "-o", "more/")
        self.assertEqual([self.files("out"), self.files("more")], [["a.png", "b.png"]] * 2)

    def test_a_filter_of_ones_own_and_pipes(self):
        (self.folder / "k.txt").write_text("2\n")
        self.gconv("k.txt", "a.png", "x.png")
        self.gconv("3x3: 0,0,0 0,1,0 0,0,0", "a.png", "y.png")
        self.assert_pixels("y.png", self.pixels("a.png"))
        data = self.gconv("sobel", "-", "-", stdin=(self.folder / "a.png").read_bytes(), text=False).stdout
        (self.folder / "z.png").write_bytes(data)
        self.assert_pixels("z.png", self.expected)

    def test_a_word_that_is_a_file_and_a_filter(self):
        (self.folder / "sobel").write_text("1\n")
        said = self.usage_error("sobel: is a file here, and also the name of a filter", "sobel", "a.png", "x.png").stderr
        self.assertIn("./sobel", said)
        self.gconv("./sobel", "a.png", "same.png")
        self.assert_pixels("same.png", self.pixels("a.png"))
        self.gconv("sobel:", "a.png", "x.png")
        self.assert_pixels("x.png", self.expected)

    def test_nothing_is_replaced_by_a_word(self):
        """The last of *.png may be an input: a result that exists takes -o."""
        self.photo("b.png", seed=3)
        self.usage_error("b.png: exists, and may be meant as an input: name the result with -o", "sobel", "a.png", "b.png")
        self.usage_error("exists", "a.png", "b.png", "-f", "sobel")
        self.photo("full/c.png")
        self.usage_error("full/: exists", "sobel", "a.png", "full/")
        (self.folder / "empty").mkdir()
        self.gconv("sobel", "a.png", "empty/")
        self.gconv("sobel", "a.png", "-o", "b.png")

    def test_what_is_missing(self):
        self.usage_error("no output", "sobel", "a.png")
        self.usage_error("a.png: is an image or a folder, where a filter is expected: gconv FILTER INPUT... OUTPUT", "a.png", "x.png")
        self.usage_error("sobel: is a filter, where a command is expected: gconv sobel INPUT OUTPUT", "sobel")
        self.usage_error("no input", "-f", "sobel", "-o", "x.png")
        self.usage_error("extra.png: unexpected argument", "-i", "a.png", "-o", "x.png", "sobel", "extra.png")

    def test_typing_errors(self):
        for word, command in (("mkae", "make"), ("benhc", "bench"), ("algoritms", "algorithms")):
            self.usage_error(f"{word}: no such command: did you mean {command}?", word, "-a", "direct")
        self.usage_error("did you mean 'sobel'?", "sobbel", "a.png", "x.png")
        self.usage_error("did you mean 'gaussian'?", "gausian:sigma=2", "a.png", "x.png")


class Lists(GuessTest):
    def names(self, *words):
        self.gconv("-i", "a.png", *words, "-o", "out/", "--dry-run")
        return re.findall(r"out/a_(\S+)\.png", self.gconv("-i", "a.png", *words, "-o", "out/", "--dry-run").stdout)

    def test_filters(self):
        for words, names in ((["-f", "sobel_x,sobel_y"], ["sobel_x", "sobel_y"]), (["-f", "sobel_x, sobel_y"], ["sobel_x", "sobel_y"]),
                             (["-f", "gaussian:size=9,sigma=2,sobel_x"], ["gaussian_size9_sigma2", "sobel_x"]),
                             (["-f", "sobel_x,gaussian:size=9,sigma=2,box:size=3"], ["sobel_x", "gaussian_size9_sigma2", "average_size3"]),
                             (["-f", "gabor:sigma=2,theta=45,gabor:theta=90"], ["gabor_sigma2_theta45", "gabor_theta90"]),
                             (["-f", "sobel_x,sobel_y", "kirsch_n"], ["sobel_x", "sobel_y", "kirsch_n"])):
            self.assertEqual(self.names(*words), names)

    def test_what_is_no_list(self):
        self.gconv("-i", "a.png", "-f", "gaussian:size=9,sigma=2", "-o", "x.png")
        self.gconv("-i", "a.png", "-f", "3x3: 0,-1,0 -1,5,-1 0,-1,0", "-o", "x.png")
        self.gconv("-i", "a.png", "-f", "[0, -1, 0; -1, 5, -1; 0, -1, 0]", "-o", "x.png")
        (self.folder / "a,b.txt").write_text("1\n")
        self.gconv("-i", "a.png", "-f", "a,b.txt", "-o", "x.png")
        self.assert_pixels("x.png", self.pixels("a.png"))
        self.usage_error("did you mean 'sigma'?", "-i", "a.png", "-f", "gaussian:size=9,sgima=2", "-o", "x.png")
        self.usage_error("'2' is not of the form name=value", "-i", "a.png", "-f", "gaussian:size=9,2", "-o", "x.png")
        self.usage_error("there is no filter 'nosuch'", "-i", "a.png", "-f", "sobel_x,nosuch", "-o", "x.png")

    def test_everywhere(self):
        self.assertEqual(self.gconv("make", "sobel_x,sobel_y").stdout, self.gconv("make", "sobel_x", "sobel_y").stdout)
        self.assertEqual(self.gconv("info", "sobel_x,sobel_y").stdout, self.gconv("info", "sobel_x", "sobel_y").stdout)
        rows = self.gconv("bench", "--image", "32x32", "--runs", "1", "--csv", "-f", "sobel_x,gaussian:size=5,sigma=1", "-a", "direct,im2col").stdout
        self.assertEqual(re.findall(r'^cpu,(\w+),[^"\n]*"([^"]*)"', rows, re.MULTILINE),
                         [(a, f) for f in ("sobel_x", "gaussian:size=5,sigma=1") for a in ("direct", "im2col")])

    def test_races(self):
        told = self.gconv("-i", "a.png", "-f", "sobel_x", "-a", "direct,separable", "-o", "x.png").stdout
        self.assertEqual(re.findall(r"(?m)^(\w+) +fp32", told), ["direct", "separable"])
        self.assertRegex(told, "the fastest is (direct|separable)\n")
        self.usage_error("there is no algorithm 'dirct': did you mean direct?", "-i", "a.png", "-f", "sobel_x", "-a", "dirct,fft", "-o", "y.png")

    def test_bench(self):
        for words in (["-a", "nosuch"], ["-a", "direct", "nosuch"], ["-a", "direct,nosuch"]):
            self.usage_error("there is no algorithm 'nosuch': there are auto", "bench", *words)
        self.usage_error("did you mean direct?", "bench", "-a", "dirct")


class Sizes(GuessTest):
    @staticmethod
    def gaussian(sigma, radius=None):
        radius = math.ceil(3 * sigma) if radius is None else radius
        taps = numpy.exp(-numpy.arange(-radius, radius + 1.0) ** 2 / (2 * sigma * sigma))
        return taps / taps.sum()

    def taps(self, spec):
        text = self.gconv("make", spec).stdout
        return numpy.array([line.split() for line in text.splitlines() if line[0] != "#"], float)

    def test_sigma_of_each_axis(self):
        for spec, down, across in (("gaussian:sigma=3x1", 3, 1), ("gaussian:sigma=0.5x2", 0.5, 2), ("gauss:sigma=2", 2, 2)):
            numpy.testing.assert_allclose(self.taps(spec), numpy.outer(self.gaussian(down), self.gaussian(across)), rtol=1e-6, atol=1e-9)
        numpy.testing.assert_allclose(self.taps("gaussian:size=5x3,sigma=3x1"),
                                      numpy.outer(self.gaussian(3, 2), self.gaussian(1, 1)), rtol=1e-6)
        blurred = numpy.outer(self.gaussian(2), self.gaussian(1))
        expected = -0.5 * blurred
        expected[6, 3] += 1.5
        numpy.testing.assert_allclose(self.taps("usm:sigma=2x1,amount=0.5"), expected, rtol=1e-6, atol=1e-9)

    def test_sides(self):
        self.assertEqual(self.taps("box:size=5x3").shape, (5, 3))
        self.assertEqual(self.taps("gaussian:sigma=2").shape, (13, 13))
        numpy.testing.assert_allclose(self.taps("gaussian:size=9"), numpy.outer(self.gaussian(0.5, 4), self.gaussian(0.5, 4)), atol=1e-7)

    def test_it_is_said(self):
        for place in (self.gconv("--help").stdout + self.gconv("help", "filter").stdout, (SOURCES / "docs/filter-formats.md").read_text()):
            self.assertIn("2 * ceil(3 * sigma) + 1", " ".join(place.split()))
        self.assertIn("size alone: sigma = 0.5", self.gconv("help", "gaussian").stdout)

    def test_mistakes(self):
        for spec in "gaussian:sigma=3x", "gaussian:sigma=x1", "gaussian:sigma=1x2x3", "gaussian:sigma=1x0":
            self.gconv("make", spec, status=2)
        self.assertEqual(self.taps("gaussian:sigma=0x1p1").shape, (13, 13))  # a hexadecimal number


class Help(GuessTest):
    def answers(self, *words):
        return self.gconv("help", *words).stdout

    def test_every_name_has_an_answer(self):
        lists = [self.gconv("filters").stdout, self.gconv("algorithms").stdout, self.gconv("help", "filter").stdout]
        names = re.findall(r"(?m)^  ([a-z]\w+)", lists[0]) + re.findall(r"(?m)^cpu +([\w-]+)", lists[1])
        names += [name for command in ("filter", "bench", "tune", "make", "info") for name in
                  re.findall(r"(?m)^ +(?:-\w, )?(--[a-z-]+)", self.gconv("help", command).stdout) if name != "--help"]
        names += re.findall(r"(?m)^  ([a-z]+) +\w", lists[2].split("Formats,")[1])
        table = (SOURCES / "docs/architecture.md").read_text().split("## Words")[1].split("## Rules")[0]
        names += [word for words in re.findall(r"(?m)^\| ([^|]+) \| [^|]+ \|$", table)[1:] for word in words.split(", ") if word != "---"]
        self.assertGreater(len(set(names)), 150)
        for name in sorted(set(names)):
            self.assertGreater(len(self.answers(name)), 15, name)

    def test_drawing_of_the_borders(self):
        for word in "border", "--border":
            self.assertIn("replicate    a a a | a b c d | d d d", self.answers(word))
        self.assertIn("replicate    a a a | a b c d | d d d", self.answers("filter"))

    def test_words_of_several_kinds(self):
        self.assertIn("the tap that lies on the pixel", self.answers("anchor"))
        self.assertIn("the same bits on every device", self.answers("exact", "family"))
        self.assertIn("Usage: gconv bank info", self.answers("bank", "info"))
        self.assertIn("mirror is a value of", self.answers("mirror"))
        self.assertIn("depths: 8 16\n", self.answers("png"))
        self.assertRegex(self.answers("direct"), r"cpu +direct +exact")
        self.assertIn("gaussian:size=3,sigma=0.5", self.answers("sigma"))
        self.assertIn("medianBlur()", self.answers("median"))
        self.assertIn("Option of gconv bench:", self.answers("sizes"))
        self.assertIn("-f average:size=3", self.answers("box"))

    def test_mistakes(self):
        self.usage_error("gausian: there is no help on this: did you mean gaussian?", "help", "gausian")
        self.usage_error("qqqqqqqq: there is no help on this", "help", "qqqqqqqq")
        self.usage_error("a.png: is a file: gconv info describes it", "help", "a.png")


class Elsewhere(GuessTest):
    def test_who_does_it(self):
        for word, program in (("median", "vips median"), ("bilateral", "bilateralFilter()"), ("canny", "Canny()"), ("resize", "vipsthumbnail"),
                              ("rotate", "jpegtran"), ("crop", "vips crop"), ("threshold", "threshold()"), ("dilate", "dilate()"),
                              ("erode", "erode()"), ("Median-Filter", "vips median"), ("clahe", "-equalize"), ("invert", "--scale -1"),
                              ("hillshade", "gdaldem"), ("sigma-clip", "sigma_clip()"), ("watershed", "skimage"), ("kmeans", "KMeans"),
                              ("match_template", "matchTemplate()")):
            self.usage_error(program, "-i", "a.png", "-f", word, "-o", "x.png")
            for words in ((word,), (word, "a.png", "x.png"), (word, "--width", "100")):
                said = self.usage_error(program, *words).stderr
                self.assertIn(f"{word}: ", said)
                self.assertIn("is not here", said)
            if word != "rotate":  # which --flip may be meant by
                self.usage_error(program, "-i", "a.png", "-f", "average", "-o", "x.png", f"--{word}")

    def test_options_of_other_commands(self):
        for command, option in (("stats", "range"), ("make", "range"), ("train", "scale")):
            self.usage_error(f"unknown option --{option}: ", command, "a.png", f"--{option}", "3")

    def test_files_of_docs_that_it_names_are_there(self):
        for name in re.findall(r"docs/\w+\.\w+", (SOURCES / "src/base/suggest.c").read_text()):
            self.assertTrue((SOURCES / name).is_file(), name)

    def test_a_filter_of_this_name_comes_first(self):
        (self.folder / "median").write_text("1\n")
        self.gconv("-i", "a.png", "-f", "median", "-o", "x.png")
        self.assert_pixels("x.png", self.pixels("a.png"))


class Messages(GuessTest):
    def test_control_characters_of_names(self):
        name = "a\x1b[31m\nb\x7f\u2028c.png"
        said = self.gconv("-i", name, "-f", "average", "-o", "x.png", status=2).stderr
        self.assertTrue(said.startswith("gconv: a?[31m?b?"), repr(said))
        self.assertNotRegex(said, r"[\x00-\x09\x0b-\x1f\x7f]")
        for line in said.splitlines()[1:]:
            self.assertTrue(line.startswith("  "), "no name can begin a message")


if __name__ == "__main__":
    unittest.main()
