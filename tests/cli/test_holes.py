# SPDX-License-Identifier: MIT
"""--nan, --weights, --nodata, --preserve-nan, --border normalize: normalised convolution, against its definition in float64."""
import unittest

import numpy
from scipy import ndimage

import helper

MODES = {"zero": "constant", "constant:2": "constant", "replicate": "nearest", "symmetric": "reflect", "reflect101": "mirror",
         "wrap": "wrap", "normalize": "constant"}
LEAST = 2.0 ** -10


def expected(array, taps, border, nan="keep", weights=None, preserve=False, missing=None):
    """By the definition: sum t * sum(t w x) / sum(t w). `missing`: places that are, besides those that are not finite."""
    missing = (numpy.zeros(array.shape, bool) if missing is None else missing) | (~numpy.isfinite(array) & (nan != "keep"))
    weights = numpy.ones(array.shape) if weights is None else weights / weights.max()
    weights = numpy.where(missing & (nan != "zero"), 0, weights)
    products = numpy.where(missing | (weights == 0), 0, weights * numpy.where(missing, 0, array.astype(float)))
    outside = 2 if border == "constant:2" else 0
    total = ndimage.correlate(products, taps, mode=MODES[border], cval=outside)
    share = ndimage.correlate(weights, taps, mode=MODES[border], cval=0 if border == "normalize" else 1)
    few = numpy.abs(share) < LEAST * numpy.abs(taps).sum()
    result = numpy.where(few, numpy.nan, taps.sum() * total / numpy.where(few, 1, share))
    if preserve or nan == "skip":
        result[missing] = numpy.nan
    return result


class Holes(helper.CommandTest):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(45)
        self.array = self.random.normal(3, 1, (37, 53)).astype("f4")
        self.array[self.random.random(self.array.shape) < 0.1] = numpy.nan
        self.array[12:25, 20:41] = numpy.nan
        self.array[3, 50] = numpy.inf
        numpy.save(self.folder / "in.npy", self.array)
        self.weights = self.random.integers(0, 256, self.array.shape).astype("u1")
        self.weights[30:, :9] = 0
        self.save("w.pgm", self.weights)

    def save(self, name, levels):
        text = "P%d %d %d 255\n" % (5 if levels.ndim == 2 else 6, levels.shape[1], levels.shape[0])
        (self.folder / name).write_bytes(text.encode() + levels.tobytes())

    def taps(self, name):
        text = self.gconv("make", name).stdout
        return numpy.array([[float(word) for word in line.split()] for line in text.splitlines() if line and line[0] != "#"])

    def check(self, wanted, *options, name="in.npy", atol=4e-6):
        self.gconv("-i", name, "-o", "out.npy", "--depth", "float", *options, *([] if "--memory" in options else ["--verify"]))
        result = numpy.load(self.folder / "out.npy")
        numpy.testing.assert_array_equal(numpy.isnan(result), numpy.isnan(wanted), str(options))
        numpy.testing.assert_allclose(result, wanted, rtol=0, atol=atol, err_msg=str(options))

    def test_modes_and_borders(self):
        names = ("gaussian:sigma=1.5", "box:size=5", "disk:radius=3", "gaussian:size=25,sigma=6", "[1 2 0 7]", "sharpen")
        ways = ("auto", "direct", "auto", "fft", "reference", "auto")
        for number, border in enumerate(MODES):
            for nan in "skip", "fill", "zero":
                which = (number + len(nan)) % len(names)
                wanted = expected(self.array, self.taps(names[which]), border, nan)
                self.check(wanted, "-f", names[which], "--nan", nan, "--border", border, "-a", ways[which])

    def test_weights(self):
        taps = self.taps("gaussian:sigma=2")
        wanted = expected(self.array, taps, "normalize", "fill", self.weights.astype(float))
        self.check(wanted, "-f", "gaussian:sigma=2", "--nan", "fill", "--weights", "w.pgm")
        variance = numpy.where(self.random.random(self.array.shape) < .1, numpy.nan, 1e6 * self.random.random(self.array.shape))
        numpy.save(self.folder / "w.npy", variance.astype("f4"))
        wanted = expected(self.array, taps, "zero", "skip", numpy.nan_to_num(variance))
        self.check(wanted, "-f", "gaussian:sigma=2", "--nan", "skip", "--weights", "w.npy", "--border", "zero")
        whole = numpy.nan_to_num(self.array, posinf=5, neginf=0)
        numpy.save(self.folder / "whole.npy", whole)
        for border, nan in ("replicate", "keep"), ("zero", "keep"), ("reflect101", "zero"):
            self.check(expected(whole, taps, border, nan, self.weights.astype(float)), "-f", "gaussian:sigma=2", "--weights",
                       "w.pgm", "--border", border, "--nan", nan, name="whole.npy")

    def test_the_outside_is_missing_by_default(self):
        numpy.save(self.folder / "flat.npy", numpy.full((9, 11), 5, "f4"))
        for options in (["--nan", "fill"], ["--border", "normalize"], ["--weights", "w9.pgm"], ["--nodata", "7"]):
            self.save("w9.pgm", numpy.full((9, 11), 90, "u1"))
            self.check(numpy.full((9, 11), 5.0), "-f", "box:size=3", *options, name="flat.npy")

    def test_strides_padding_and_dilation(self):
        taps = self.taps("box:size=3")
        wanted = expected(self.array, taps, "normalize", "fill")
        self.check(wanted[1:-1:2, 1:-1:3], "-f", "box:size=3", "--nan", "fill", "--padding", "valid", "--stride", "2,3")
        spread = numpy.zeros((5, 5))
        spread[::2, ::2] = taps
        self.check(expected(self.array, spread, "wrap", "skip"), "-f", "box:size=3", "--nan", "skip", "--border", "wrap",
                   "--dilation", "2")

    def test_several_filters_and_epilogues(self):
        a, b = (expected(self.array, self.taps(name), "normalize", "skip") for name in ("box:size=3", "gaussian:sigma=2"))
        self.check(numpy.maximum(a, b), "-f", "box:size=3", "-f", "gaussian:sigma=2", "--combine", "max", "--nan", "skip")
        self.check(numpy.abs(a * -2 + 1), "-f", "box:size=3", "--nan", "skip", "--scale=-2", "--offset", "1", "--range", "abs")

    def test_levels(self):
        levels = self.random.integers(1, 256, (40, 31, 3)).astype("u1")
        levels[10:17, 5:15] = 0
        self.save("in.ppm", levels)
        taps = self.taps("box:size=5")
        for options, nan in ((["--nodata", "0"], "keep"), (["--nodata", "0", "--nan", "fill"], "fill")):
            job = "-i", "in.ppm", "-f", "box:size=5", "-o", "out.ppm", "--verify", "--explain"
            then = "put back" if nan == "keep" else "filled"
            self.assertIn(f"missing samples are left out, and {then}; ", self.gconv(*job, *options).stderr)
            for c in range(3):
                gone = levels[..., c] == 0
                wanted = expected(levels[..., c], taps, "normalize", nan, missing=gone)
                wanted[gone & (nan == "keep")] = 0
                wanted = numpy.nan_to_num(numpy.rint(wanted))
                self.assertLessEqual(numpy.abs(self.pixels("out.ppm")[..., c] - wanted).max(), 1, options)
        self.save("w.pgm", numpy.where(levels[..., 0] > 128, 255, 0).astype("u1"))
        self.gconv("-i", "in.ppm", "-f", "box:size=9", "-o", "out.ppm", "--verify", "--weights", "w.pgm")

    def test_bands_and_chains(self):
        tall = self.random.normal(3, 1, (9000, 250)).astype("f4")
        tall[self.random.random(tall.shape) < 0.3] = numpy.nan
        numpy.save(self.folder / "tall.npy", tall)
        self.check(expected(tall, self.taps("gaussian:sigma=3"), "normalize", "fill"), "-f", "gaussian:sigma=3", "--nan",
                   "fill", "--memory", "48M", name="tall.npy")
        filled = expected(self.array, self.taps("gaussian:sigma=6"), "normalize", "fill")
        self.check(ndimage.correlate(filled, self.taps("sobel_x"), mode="constant"), "-f", "gaussian:sigma=6", "--nan", "fill",
                   "--then", "-f", "sobel_x", atol=4e-5)

    def test_what_is_told_and_refused(self):
        job = "-i", "in.npy", "-o", "out.npy"
        self.usage_error("sobel_x sums to 0", *job, "-f", "sobel_x", "--nan", "fill")
        self.usage_error("takes a number, or nan", *job, "-f", "box", "--nodata", "none")
        self.usage_error("from 0 to 1", *job, "-f", "box", "--nan", "fill", "--least-weight", "2")
        self.gconv(*job, "-f", "identity", "--nan", "zero", "--weights", "w.npy", status=2)
        self.assertIn("stay missing", self.gconv(*job, "-f", "box", "--nan", "fill").stderr)
        numpy.save(self.folder / "w.npy", numpy.ones((3, 3), "f4"))
        self.assertIn("each pixel has a weight", self.gconv(*job, "-f", "box", "--weights", "w.npy", status=1).stderr)
        numpy.save(self.folder / "w.npy", -numpy.ones(self.array.shape, "f4"))
        self.assertIn("below 0", self.gconv(*job, "-f", "box", "--weights", "w.npy", status=2).stderr)
        self.assertIn("linear light", self.gconv(*job, "-f", "box", "--nan", "fill", "--linear", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
