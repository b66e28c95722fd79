# SPDX-License-Identifier: MIT
"""gconv volume: filters of three dimensions, against scipy.ndimage in float64; slabs, strides, types, units, refusals."""
import os
import struct
import unittest

import numpy
from PIL import Image, TiffImagePlugin
from scipy import ndimage

import helper

MODES = {"zero": "constant", "constant:2": "constant", "replicate": "nearest", "symmetric": "reflect", "reflect101": "mirror",
         "wrap": "wrap"}


class Volume(helper.CommandTest):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(3)
        self.array = self.random.normal(0, 1, (13, 17, 23)).astype("f4")
        self.taps = self.random.normal(0, 1, (3, 4, 5)).astype("f4")
        numpy.save(self.folder / "in.npy", self.array)
        numpy.save(self.folder / "taps.npy", self.taps)

    def check(self, wanted, spec, *options, name="in.npy", atol=3e-6):
        self.gconv("volume", name, "-f", spec, "-o", "out.npy", *options)
        result = numpy.load(self.folder / "out.npy")
        numpy.testing.assert_allclose(result, wanted, rtol=0, atol=atol, err_msg=f"{spec} {options}")
        return result

    def test_filters_and_borders(self):
        array = self.array.astype(float)
        for border, mode in MODES.items():
            options, cval = {"mode": mode}, 2 if border == "constant:2" else 0
            cases = {"gaussian:sigma=1x2x1.5,truncate=4": lambda a: ndimage.gaussian_filter(a, (1, 2, 1.5), **options),
                     "box:size=3x5x2": lambda a: ndimage.uniform_filter(a, (3, 5, 2), **options),
                     "laplacian": lambda a: ndimage.laplace(a, **options),
                     "taps.npy": lambda a: ndimage.correlate(a, self.taps.astype(float), **options)}
            if cval == 0:  # scipy takes cval anew for each line of a product
                cases.update({
                    "gaussian:sigma=1.5,order=1x0x2,truncate=4": lambda a: ndimage.gaussian_filter(a, 1.5, order=(1, 0, 2), **options),
                    "sobel_x": lambda a: ndimage.sobel(a, 2, **options), "sobel_z": lambda a: ndimage.sobel(a, 0, **options),
                    "log:sigma=1,truncate=4": lambda a: ndimage.gaussian_laplace(a, 1, **options),
                    "dog:sigma1=1,sigma2=2,truncate=4": lambda a: ndimage.gaussian_filter(a, 1, **options) - ndimage.gaussian_filter(a, 2, **options),
                    "sobel": lambda a: numpy.sqrt(sum(ndimage.sobel(a, i, **options) ** 2 for i in range(3)))})
            for spec, function in cases.items():
                options["cval"] = cval
                self.check(function(array), spec, "--border", border, atol=2e-5 if "sobel" in spec or "taps" in spec else 3e-6)

    def test_strides_and_flip(self):
        wanted = ndimage.convolve(self.array.astype(float), self.taps.astype(float), mode="constant")
        self.check(wanted[::2, ::3], "taps.npy", "--stride", "2x3x1", "--flip", atol=2e-5)
        product = numpy.einsum("i,j,k->ijk", [1.0, 2, -1], [1.0, 1], [3.0, 1, 1, 0.5]).astype("f4")  # one term
        numpy.save(self.folder / "taps.npy", product)
        wanted = ndimage.correlate(self.array.astype(float), product.astype(float), mode="wrap")
        self.check(wanted[::3, ::2, ::2], "taps.npy", "--stride", "3x2x2", "--border", "wrap", atol=2e-5)

    def test_levels_and_ranges(self):
        levels = self.random.integers(0, 256, (9, 20, 30)).astype("u1")
        numpy.save(self.folder / "u.npy", levels)
        smooth = ndimage.gaussian_filter(levels.astype(float), 1, mode="nearest", truncate=4)
        result = self.check(numpy.rint(smooth), "gaussian:sigma=1,truncate=4", "--border", "replicate", name="u.npy", atol=1)
        self.assertEqual(result.dtype, numpy.uint8)
        edges = ndimage.sobel(levels.astype(float), 0, mode="nearest")
        self.check(numpy.clip(numpy.abs(edges), 0, 255), "sobel_z", "--border", "replicate", "--range", "abs", name="u.npy", atol=1)
        self.check(edges / 255 / 2 + .5, "sobel_z", "--border", "replicate", "--range", "signed", "--depth", "float", name="u.npy")

    def test_slabs_change_no_bit(self):
        tall = self.random.normal(0, 1, (300, 128, 128)).astype("f4")
        numpy.save(self.folder / "tall.npy", tall)
        whole = self.check(ndimage.gaussian_filter(tall, (2, 1, 1), mode="reflect", truncate=4), "gaussian:sigma=2x1x1,truncate=4",
                           "--border", "symmetric", name="tall.npy", atol=1e-5)
        peak = self.peak_bytes("volume", "tall.npy", "-f", "gaussian:sigma=2x1x1,truncate=4", "--border", "symmetric", "-o",
                               "small.npy", "--memory", "10M")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "small.npy"), whole)
        if "GCONV_SANITIZED" not in os.environ:  # they take memory of their own
            self.assertLess(peak, 45e6)  # the file has 19.7 MB, and so has the result
        self.assertIn("takes about", self.gconv("volume", "tall.npy", "-f", "gaussian:sigma=2", "-o", "o.npy", "--memory", "1M",
                                                status=1).stderr.replace("take about", "takes about"))

    def test_files_that_are_read_stay(self):
        numpy.save(self.folder / "w.npy", numpy.abs(self.array))
        for output in "in.npy", "taps.npy", "w.npy":
            self.usage_error("choose another name", "volume", "in.npy", "-f", "taps.npy", "--weights", "w.npy", "-o", output)
        self.usage_error("this takes a number of bytes", "volume", "in.npy", "-f", "sobel_x", "-o", "o.npy", "--memory", "much")
        self.usage_error("strides are whole numbers", "volume", "in.npy", "-f", "sobel_x", "-o", "o.npy", "--stride", "1e10")

    def test_the_exact_family_ignores_threads(self):
        for spec in "gaussian:sigma=1.5", "taps.npy":
            self.gconv("volume", "in.npy", "-f", spec, "-o", "a.npy", "--algorithm", "direct", "--threads", "1")
            self.gconv("--volume", "-i", "in.npy", "-f", spec, "-o", "b.npy", "--algorithm", "direct")
            self.assertEqual((self.folder / "a.npy").read_bytes(), (self.folder / "b.npy").read_bytes())

    def test_holes_and_weights(self):
        """Normalised convolution by its definition in float64; strides, slabs and a number for no data change nothing."""
        for number, border in enumerate((*MODES, "normalize")):
            array, nan = self.array.copy(), ("skip", "fill", "zero")[number % 3]
            array[self.random.random(array.shape) < (.02, .3, .6)[number // 3]] = numpy.nan
            array[3, 4, 5] = numpy.inf
            weights = self.random.random(array.shape[number % 2:])
            weights[..., :3] = 0
            numpy.save(self.folder / "w.npy", weights.astype("f4"))
            numpy.save(self.folder / "holes.npy", array)
            taps = numpy.abs(self.taps).astype(float)
            numpy.save(self.folder / "taps.npy", taps.astype("f4"))
            there = numpy.isfinite(array)
            share = numpy.broadcast_to(weights.astype("f4") / weights.astype("f4").max(), array.shape) * (there | (nan == "zero"))
            options = {"mode": MODES.get(border, "constant")}
            total = ndimage.correlate(numpy.where(there, share * numpy.where(there, array, 0), 0), taps, cval=2 * (border == "constant:2"), **options)
            sums = ndimage.correlate(share, taps, cval=float(border != "normalize"), **options)
            wanted = taps.sum() * total / numpy.where(sums < taps.sum() / 1024, numpy.nan, sums)
            if nan == "skip":
                wanted[~there] = numpy.nan
            words = ("taps.npy", "--border", border, "--nan", nan, "--weights", "w.npy")
            self.check(wanted, *words, name="holes.npy", atol=4e-5)
            self.check(wanted[::2, ::3], *words, "--stride", "2x3x1", name="holes.npy", atol=4e-5)
        levels = self.random.integers(1, 200, (40, 64, 64)).astype("u1")
        levels[self.random.random(levels.shape) < .2] = 0
        numpy.save(self.folder / "u.npy", levels)
        there = (levels > 0).astype(float)
        smooth = [ndimage.gaussian_filter(a, 1, mode="constant", truncate=3) for a in (levels.astype(float), there)]
        self.check(numpy.rint(smooth[0] / smooth[1]), "gaussian:sigma=1", "--nodata", "0", "--nan", "fill", name="u.npy", atol=1)
        whole = (self.folder / "out.npy").read_bytes()
        self.gconv("volume", "u.npy", "-f", "gaussian:sigma=1", "--nodata", "0", "--nan", "fill", "-o", "small.npy", "--memory", "12M")
        self.assertEqual((self.folder / "small.npy").read_bytes(), whole)
        alone = self.random.normal(3, 1, (40, 64, 64)).astype("f4")  # slabs without holes, and one with
        alone[3, 30, 30] = numpy.nan
        numpy.save(self.folder / "alone.npy", alone)
        for name, memory in (("whole", ()), ("small", ("--memory", "12M"))):
            self.gconv("volume", "alone.npy", "-f", "gaussian:sigma=1", "--nan", "skip", "--border", "zero", "-o", f"{name}.npy", *memory)
        self.assertEqual((self.folder / "small.npy").read_bytes(), (self.folder / "whole.npy").read_bytes())

    @helper.needs("libtiff")
    def test_voxels_of_imagej(self):
        info = TiffImagePlugin.ImageFileDirectory_v2()
        info[270], info[282], info[283], info[296] = "ImageJ=1.53t\nimages=13\nslices=13\nunit=um\nspacing=0.5\nloop=false\n", 4.0, 4.0, 1
        first, *others = [Image.fromarray(plane) for plane in self.array]
        first.save(self.folder / "in.tif", tiffinfo=info, save_all=True, append_images=others)
        wanted = ndimage.gaussian_filter(self.array.astype(float), (1, 2, 2), mode="constant", truncate=3)
        self.check(wanted, "gaussian:sigma=0.5um,truncate=3", name="in.tif")
        self.check(wanted, "gaussian:fwhm=1.177410022515um,truncate=3", name="in.tif", atol=1e-5)
        sizes = [f"NAXIS{i}  = {n}" for i, n in enumerate(self.array.shape[::-1], 1)]
        cards = ["SIMPLE  = T", "BITPIX  = -32", "NAXIS   = 3", *sizes, *["HISTORY ImageJ=1.53t"] * 29, "END"]
        header = "".join(card.ljust(80) for card in cards).ljust(2880)  # no 0 byte ends it, as one ends ImageJ's text
        (self.folder / "in.fits").write_bytes(header.encode() + self.array.astype(">f4").tobytes().ljust(2880 * 64, b"\0"))
        job = "volume", "in.fits", "-f", "gaussian:sigma=1um", "-o", "out.npy"
        self.assertIn("how far its voxels are apart", self.gconv(*job, status=(1, 2)).stderr)

    def stack(self, planes, which, more):
        """A TIFF of float pages, of which one has further tags."""
        content = struct.pack("<2sHI", b"II", 42, 8)
        for i, plane in enumerate(planes):
            (height, width), data = plane.shape, plane.tobytes()
            tags = {256: (4, width), 257: (4, height), 258: (3, 32), 259: (3, 1), 262: (3, 1), 273: (4, 0), 277: (3, 1), 278: (4, height),
                    279: (4, len(data)), 339: (3, 3), **(more if i == which else {})}
            tags[273] = (4, len(content) + 6 + 12 * len(tags))
            entries = [struct.pack("<HHII", tag, kind, 1 + (kind == 2), value) for tag, (kind, value) in sorted(tags.items())]
            after = tags[273][1] + len(data) if i + 1 < len(planes) else 0
            content += struct.pack("<H", len(tags)) + b"".join(entries) + struct.pack("<I", after) + data
        (self.folder / "p.tif").write_bytes(content)

    def test_planes_that_disagree(self):
        for which in 0, 2:
            for more, word in (({274: (3, 3)}, "upright"), ({42113: (2, ord("7"))}, "no data")):
                self.stack(self.array[:3], which, more)
                self.assertIn(word, self.gconv("volume", "p.tif", "-f", "box:size=3", "-o", "o.npy", status=1).stderr)
                self.assertFalse((self.folder / "o.npy").exists())
        self.stack(self.array[:3], 0, {})
        self.gconv("volume", "p.tif", "-f", "box:size=3", "-o", "o.npy")

    def test_units_and_refusals(self):
        wanted = ndimage.gaussian_filter(self.array.astype(float), (1, 2, 2), mode="constant", truncate=3)
        self.check(wanted, "gaussian:sigma=0.5um,truncate=3", "--spacing", "0.5x0.25x0.25")
        for sigma, spec in ((2, 0, 0), "2x0x0"), ((0, 1, 2), "0x1x2"):
            self.check(ndimage.gaussian_filter(self.array.astype(float), sigma, mode="constant", truncate=3),
                       f"gaussian:sigma={spec}")
        (self.folder / "out.npy").unlink()
        job = "volume", "in.npy", "-o", "out.npy", "-f"
        for text, spec, *options in (("how far its voxels are apart", "gaussian:sigma=1um"), ("say how wide", "gaussian"),
                                     ("one number or three", "gaussian:sigma=1x2"), ("no parameter", "gaussian:size=3"),
                                     ("from 0.001 to", "gaussian:sigma=0"), ("along its axis", "gaussian:sigma=1x0x1,order=0x1x0"), ("of volumes there are", "no_such"), ("median_filter() do it", "median:size=3"),
                                     ("sums to 0", "sobel_x", "--border", "normalize"), ("magnitude", "sobel", "--nan", "fill"),
                                     ("weights are", "box", "--weights", "taps.npy"), ("whole number", "box:size=2.5")):
            self.gconv(*job, spec, *options, status=(1, 2))
            self.assertFalse((self.folder / "out.npy").exists(), spec)
        numpy.save(self.folder / "flat.npy", self.array[0])
        self.assertIn("is no volume", self.gconv("volume", "flat.npy", "-f", "box", "-o", "out.npy", status=(1, 2)).stderr)
        self.usage_error("several planes", "volume", "in.npy", "-f", "box", "-o", "out.jpg")
        (self.folder / "cut.npy").write_bytes((self.folder / "in.npy").read_bytes()[:9000])
        self.gconv("volume", "cut.npy", "-f", "box", "-o", "out.npy", status=(1, 2))
        self.assertFalse((self.folder / "out.npy").exists())


if __name__ == "__main__":
    unittest.main()
