# SPDX-License-Identifier: MIT
"""Sums of any number of taps: a weighted mean of equal numbers is that number, and other sums are near those of float64."""
import re
import unittest

import numpy
from helper import CommandTest
from network_helper import Layer, save_network

WHITE = {"u1": 255, "u2": 65535, "f4": 1}
# Filters that span thousands of pixels, and some whose sums float32 would not hold for 16 bits. They meet a small image.
MEANS = ["gaussian:sigma=350x60", "gaussian:size=4001x9,sigma=900x2", "average:size=1501", "average:size=3x9001", "usm:sigma=150",
         "gaussian:sigma=40", "average:size=101", "disk:radius=60"]
OTHERS = ["motion:len=2100,theta=3"]  # not separable: fft in parts


class Means(CommandTest):
    def result(self, *words, **options):
        self.gconv("-i", "in.npy", "-o", "out.npy", "--border", "replicate", *words, **options)
        return numpy.load(self.folder / "out.npy").astype(float)

    def test_of_white(self):
        """The result of auto, in the type of the input and as float."""
        for kind, white in WHITE.items():
            numpy.save(self.folder / "in.npy", numpy.full((5, 7), white, kind))
            for name in MEANS + (OTHERS if kind == "u2" else []):
                with self.subTest(name, kind=kind):
                    self.assertLessEqual(abs(self.result("-f", name) - white).max(), 3e-6 if kind == "f4" else 0)
                    if name not in OTHERS:
                        self.assertLessEqual(abs(self.result("-f", name, "--depth", "float") - 1).max(), 3e-6)

    def test_of_each_algorithm(self):
        """Of those that auto may take, as they are asked for."""
        numpy.save(self.folder / "in.npy", numpy.full((4, 6), 65535, "u2"))
        for algorithm, name in [("direct64", "average:size=601"), ("fft", "average:size=601"), ("fft", "average:size=5x4099"),
                                ("fft", "average:size=2100x3"), ("separable", "average:size=801")]:
            with self.subTest(algorithm, name=name):
                self.assertEqual(numpy.unique(self.result("-f", name, "-a", algorithm)).tolist(), [65535])

    def test_strides_and_combinations(self):
        numpy.save(self.folder / "in.npy", numpy.full((5, 7), 255, "u1"))
        for words in [("-f", "average:size=1001", "--stride", "2"), ("-f", "disk:radius=250", "--stride", "2"),
                      ("-f", "disk:radius=150", "average:size=301", "--combine", "max"),
                      ("-f", "average:size=1001", "--dilation", "3")]:
            with self.subTest(words=words):
                self.assertEqual(numpy.unique(self.result(*words)).tolist(), [255])

    def test_against_float64(self):
        """Filters in parts, long chains, and sums in float64, with all borders."""
        random = numpy.random.default_rng(1)
        image = random.normal(size=(6, 9)).astype("f4")
        numpy.save(self.folder / "in.npy", image)
        taps = {"tall": (2100, 3), "wide": (2, 2500), "product": (601, 5)}
        for name, (rows, columns) in taps.items():
            k = random.normal(size=(rows, columns))
            if name == "product":
                k = numpy.outer(k[:, 0], k[0])
            k = k.astype("f4")
            numpy.save(self.folder / "k.npy", k)
            for border, mode in ("replicate", "edge"), ("wrap", "wrap"), ("zero", "constant"), ("symmetric", "symmetric"):
                padded = numpy.pad(image.astype(float), [(rows // 2,) * 2, (columns // 2,) * 2], mode=mode)
                exact = numpy.array([[(k * padded[y:y + rows, x:x + columns]).sum() for x in range(9)] for y in range(6)])
                for algorithm in ("separable", "direct64") if name == "product" else ("fft", "direct64"):
                    with self.subTest(name, border=border, algorithm=algorithm):
                        found = self.result("-f", "k.npy", "--border", border, "-a", algorithm)
                        self.assertLess(abs(found - exact).max(), 1e-5 * abs(k).sum() * abs(image).max() / 4)


def box_sums(image, rows, columns, border):
    """The sums under boxes of rows x columns, each made anew."""
    mode = {"replicate": "edge", "zero": "constant", "wrap": "wrap", "symmetric": "symmetric", "reflect101": "reflect"}[border]
    sums = image.astype(float)
    for axis, size in enumerate((rows, columns)):
        widths = [(size // 2, size - 1 - size // 2) if axis == i else (0, 0) for i in range(sums.ndim)]
        sums = numpy.lib.stride_tricks.sliding_window_view(numpy.pad(sums, widths, mode=mode), size, axis).sum(-1)
    return sums


class Boxes(CommandTest):
    """Boxes of floats, and of integers whose sums have more than 32 bits."""

    def result(self, image, rows, columns, *words):
        numpy.save(self.folder / "in.npy", image[..., 0] if image.shape[2] == 1 else image)
        numpy.save(self.folder / "k.npy", numpy.full((rows, columns), 1 / (rows * columns), "f4"))
        self.gconv("-i", "in.npy", "-f", "k.npy", "-o", "out.npy", "-a", "box", *words)
        return numpy.load(self.folder / "out.npy").reshape(image.shape)

    def test_against_float64(self):
        """Sizes of all kinds of blocks, larger and smaller than the image; widths that end within a vector; all borders."""
        random = numpy.random.default_rng(9)
        sizes = [1, 2, 3, 5, 7, 8, 9, 13, 16, 25, 31, 64, 101, 150]
        shapes = [(1, 150), (150, 1), (1, 1), (5, 3), (40, 64), (33, 65), (70, 131)]
        for number in range(36):
            image = random.normal(1, 1, shapes[number % 7] + (number % 4 + 1,)).astype("f4")
            rows, columns, border = sizes[number % 14], sizes[number * 5 % 14], ["replicate", "zero", "wrap", "symmetric", "reflect101"][number % 5]
            if number % 6 == 5:
                image = random.integers(0, 65536, image.shape).astype("u2")
                rows, columns = rows + 256, columns + 256
            with self.subTest(shape=image.shape, rows=rows, columns=columns, border=border):
                found = self.result(image, rows, columns, "--border", border, "--depth", "float", "--threads", str(number % 2 + 1))
                expected = box_sums(image / (65535.0 if image.dtype == "u2" else 1.0), rows, columns, border) * numpy.float32(1 / (rows * columns))
                self.assertLess(abs(found - expected).max(), 5e-7 * max(1, abs(expected).max()))

    def test_sums_are_of_samples_under_the_box(self):
        """NaN, infinities and large numbers show in no other sum; equal numbers have their mean, however large they are."""
        random = numpy.random.default_rng(3)
        image = random.random((90, 140, 1)).astype("f4")
        image[40, 50], image[10, 100], image[70, 20] = numpy.nan, numpy.inf, 1e30
        clean = numpy.where(abs(image) < 2, image, 0)
        for rows, columns in (3, 5), (21, 9), (33, 31):
            reached = box_sums((image != clean).astype(float), rows, columns, "zero") > 0
            found = self.result(image, rows, columns, "--border", "zero").astype(float)
            exact = box_sums(clean, rows, columns, "zero") / (rows * columns)
            self.assertLess(abs(found - exact)[~reached].max(), 1e-6)
            self.assertTrue((~(abs(found[reached]) < 1e20)).all())
        for value in 0.7, 65535, -3.4028235e38, 1e-30:
            flat = numpy.full((50, 90, 2), value, "f4")
            self.assertLess(abs(self.result(flat, 31, 77, "--border", "replicate") / flat.astype(float) - 1).max(), 1e-6)

    def test_bits_do_not_depend_on_threads(self):
        image = numpy.random.default_rng(4).normal(size=(700, 300, 3)).astype("f4")
        for size in (9, 31, 101):
            first = self.result(image, size, size, "--threads", "1")
            for threads in "2", "7":
                numpy.testing.assert_array_equal(self.result(image, size, size, "--threads", threads), first)


class Bounds(CommandTest):
    def setUp(self):
        super().setUp()
        numpy.save(self.folder / "in.npy", numpy.full((4, 4), 255, "u1"))

    def run_it(self, *words, status=0):
        return self.gconv("-i", "in.npy", "-o", "out.npy", "--border", "replicate", *words, status=status)

    def test_warning_where_the_algorithm_is_named(self):
        warned = self.run_it("-f", "average:size=1001", "-a", "direct").stderr
        self.assertRegex(warned, "algorithm direct may make results of a filter of 1001 x 1001 taps wrong by up to [0-9.]+ levels of u8")
        for words in [("-f", "average:size=1001"), ("-f", "average:size=9", "-a", "direct")]:
            self.assertEqual(self.run_it(*words).stderr, "")

    def test_error_where_it_is_not(self):
        without = "box,separable,fft,direct64"
        result = self.run_it("-f", "average:size=1001", "--without", without, status=1)
        self.assertRegex(result.stderr, r"wrong by up to [0-9.]+ levels of u8: no algorithm that may be taken does better")

    def test_verify_allows_no_more_than_half_a_level(self):
        found = self.run_it("-f", "gaussian:sigma=150", "--verify").stdout
        allowed = float(re.search(r"of the ([0-9.]+) allowed", found)[1])
        self.assertLessEqual(allowed, 1)  # half a level, and half of one for rounding

    def test_explain_says_what_was_computed(self):
        said = self.run_it("-f", "average:size=2101", "--explain").stderr
        self.assertRegex(said, "algorithm (box|separable)")
        self.assertRegex(said, r"direct  .*its rounding may reach [0-9.]+, and half a level is 0.00196")
        said = self.run_it("-f", "disk:radius=700", "--explain").stderr
        self.assertRegex(said, "separable .*no sum of few columns times rows; so large a filter is not searched for more")


class Layers(CommandTest):
    def test_bounds_of_layers(self):
        """A layer that sees a large picture is added in float64; other algorithms warn, or are an error unless named."""
        numpy.save(self.folder / "in.npy", numpy.ones((600, 600), "f4"))
        save_network(self.folder / "n.safetensors", [Layer(numpy.full((1, 1, 600, 600), 1 / 360000, "f4"), padding="valid")], 1, 600, 600)
        words = ("-i", "in.npy", "-f", "n.safetensors", "-o", "out.npy")
        self.assertEqual(self.gconv(*words).stderr, "")
        self.assertLess(abs(numpy.load(self.folder / "out.npy").astype(float) - 1).max(), 1e-6)
        said = self.gconv(*words, "--without", "direct64,fft", status=1).stderr
        self.assertRegex(said, "rounding may make sums of 360000 products wrong by up to [0-9.]+ of their size, and no algorithm of cpu")
        self.assertRegex(self.gconv(*words, "-a", "direct").stderr, "warning: rounding of the algorithm direct may make sums of 360000 products wrong")


    def test_softmax_of_many_outputs(self):
        """The powers of 100,000 outputs are not added one behind the other in float32: results add up to 1."""
        for outputs, rows in (255, 1), (256, 3), (257, 1), (1000, 300), (100000, 1):
            bias = numpy.append(numpy.full(outputs - 1, -1.3), 0).astype("f4")
            numpy.save(self.folder / "in.npy", numpy.ones((rows, 1), "f4"))
            save_network(self.folder / "n.safetensors",
                         [Layer(numpy.zeros((outputs, 1, 1, 1), "f4"), bias, padding="valid", activation="softmax")], 1)
            self.gconv("-i", "in.npy", "-f", "n.safetensors", "-o", "out.npy", "--verify")
            found, powers = numpy.load(self.folder / "out.npy").astype(float).reshape(outputs, -1), numpy.exp(bias.astype(float))
            expected = (powers / powers.sum())[:, None]
            self.assertLess(abs(found / expected - 1).max(), 3e-6, outputs)


class Finite(CommandTest):
    def test_minmax_is_of_finite_numbers(self):
        image = numpy.random.default_rng(2).random((9, 11)).astype("f4")
        image[2, 3], image[5, 5], image[7, 7] = numpy.inf, -numpy.inf, numpy.nan
        numpy.save(self.folder / "in.npy", image)
        said = self.gconv("-i", "in.npy", "-f", "identity:size=1", "--range", "minmax", "--depth", "8", "-o", "out.npy").stderr
        self.assertIn("3 samples of the result are NaN or infinite: the range minmax follows from the other samples", said)
        finite = numpy.isfinite(image)
        low, high = image[finite].min(), image[finite].max()
        found = numpy.load(self.folder / "out.npy")
        self.assertLessEqual(abs(found[finite] - (image[finite] - low) / (high - low) * 255.0).max(), 0.51)
        self.assertEqual(found[~finite].tolist(), [255, 0, 0])
        self.gconv("-i", "in.npy", "-f", "identity:size=1", "--range", "minmax", "--depth", "8", "-o", "v.npy", "--verify")

    def test_places_that_are_no_taps(self):
        """identity, of any size and padding, and marks of ImageMagick let no NaN through; a tap of 0 does."""
        image = numpy.random.default_rng(4).random((9, 11)).astype("f4")
        image[4, 5], image[1, 1] = numpy.nan, numpy.inf
        numpy.save(self.folder / "in.npy", image)
        for words, count in [(("identity",), 2), (("identity:size=7x3", "--border", "replicate"), 2), (("[0 0 0; 0 1 0; 0 0 0]",), 18),
                             (("identity", "--padding", "valid"), 2), (("identity", "--flip", "--dilation", "2"), 2),
                             (("3x3: nan,1,nan 1,1,1 -,1,-",), 10), (("3x3: nan,1,0 1,1,1 -,1,-",), 12)]:
            for algorithm in "auto", "direct", "sparse", "fft", "direct64", "reference":
                with self.subTest(words, algorithm=algorithm):
                    done = self.gconv("-i", "in.npy", "-f", *words, "-a", algorithm, "-o", "out.npy", "--verify")
                    self.assertNotIn("places", done.stderr)
                    found = numpy.load(self.folder / "out.npy")
                    self.assertEqual((~numpy.isfinite(found)).sum(), count)
                    if words[0].startswith("identity") and found.shape == image.shape and algorithm != "fft":
                        numpy.testing.assert_array_equal(found, image)

    def test_frames_of_combined_filters(self):
        """Around a filter that is combined with a larger one are no taps. A tap of 0 is one, and so is a tap of -0 of a caller."""
        image = numpy.random.default_rng(4).random((40, 50)).astype("f4")
        image[20, 25] = numpy.nan
        numpy.save(self.folder / "in.npy", image)
        line = numpy.full((3, 3), -0.0, "f4")
        line[1, 1] = 1
        numpy.save(self.folder / "minus.npy", line)
        for algorithm in "auto", "direct", "sparse", "direct64", "reference", "separable":
            with self.subTest(algorithm=algorithm):
                rest = ("-i", "in.npy", "-o", "out.npy", "-a", algorithm)
                self.gconv("-f", "identity", "gaussian:sigma=3", "3x1: 1,2,1", "--combine", "stack", *rest, "--verify")
                found = numpy.isfinite(numpy.load(self.folder / "out.npy"))
                self.assertEqual([(~found[..., c]).sum() for c in range(3)], [1, 19 * 19, 3])
                self.gconv("-f", "1x9: 1,1,1,1,1,1,1,1,1", "9x1: 1,1,1,1,1,1,1,1,1", "--combine", "magnitude", *rest)
                self.assertEqual((~numpy.isfinite(numpy.load(self.folder / "out.npy"))).sum(), 17)
                if algorithm != "separable":  # it may leave out taps of 0
                    self.gconv("-f", "minus.npy", *rest)
                    self.assertEqual((~numpy.isfinite(numpy.load(self.folder / "out.npy"))).sum(), 9)


if __name__ == "__main__":
    unittest.main()
