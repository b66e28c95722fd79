# SPDX-License-Identifier: MIT
"""Samples of no data, as GeoTIFF names them: they are left out of sums, and come out as they were; and the tags around them."""
import unittest

import numpy
from PIL import Image, TiffImagePlugin
from scipy import ndimage

import helper

MODES = {"constant": "constant", "zero": "constant", "replicate": "nearest", "symmetric": "reflect", "reflect101": "mirror",
         "wrap": "wrap"}
PLACE = {33550: (12, (10.0, 10.0, 0.0)), 33922: (12, (0.0, 0.0, 0.0, 500000.0, 4600000.0, 0.0)),
         34735: (3, (1, 1, 0, 1, 1024, 0, 1, 1)), 34736: (12, (6378137.0,)), 34737: (2, "WGS 84|"), 42112: (2, "<GDALMetadata/>")}


@helper.needs("libtiff")
class NoData(helper.CommandTest):
    def save(self, name, array, tags, **options):
        info = TiffImagePlugin.ImageFileDirectory_v2()
        for number, (kind, value) in tags.items():
            info.tagtype[number] = kind
            info[number] = value
        pages = array if isinstance(array, list) else [array]
        first, *others = [Image.fromarray(page) for page in pages]
        first.save(self.folder / name, tiffinfo=info, save_all=True, append_images=others, **options)

    def tags(self, name, page=0):
        with Image.open(self.folder / name) as image:
            image.seek(page)
            return {number: image.tag_v2[number] for number in [*PLACE, 42113, 270, 50838, 50839] if number in image.tag_v2}

    def taps(self, name):
        text = self.gconv("make", name).stdout
        return numpy.array([[float(word) for word in line.split()] for line in text.splitlines() if line and line[0] != "#"])

    def expected(self, array, hole, name, border):
        """By the definition, in float64."""
        taps, data = self.taps(name), (~hole).astype(float)
        mode, filled = MODES[border], numpy.where(hole, 0, array).astype(float)
        total = ndimage.correlate(filled, taps, mode=mode, cval=0)
        there = ndimage.correlate(data, taps, mode=mode, cval=1)
        below = ndimage.correlate(hole.astype(float), (taps != 0).astype(float), mode=mode, cval=0) > 0.5
        one_sign = (taps >= 0).all() or (taps <= 0).all()
        none = hole | (below & (not one_sign or there == 0))
        weight = numpy.where(there == 0, 1, there) if one_sign else taps.sum()
        return numpy.where(below, total * taps.sum() / weight if one_sign else 0, total), none

    def test_sums_without_them(self):
        random = numpy.random.default_rng(1)
        names = ("gaussian:sigma=1", "box:size=5", "sobel_x", "sharpen", "gaussian:size=9,sigma=3", "laplacian", "disk:radius=2")
        for number, border in enumerate([*MODES] * 2):
            name, nodata = names[number % len(names)], (-9999, 0.1, -3.4028234663852886e+38, float("nan"))[number % 4]
            array = random.normal(100, 50, (37, 41)).astype("f4")
            hole = random.random(array.shape) < 0.1
            hole[5:16, 7:20] = True
            array[hole] = nodata
            self.save("in.tif", array, {42113: (2, repr(nodata))})
            word = "constant:0" if border == "constant" else border
            self.gconv("-i", "in.tif", "-f", name, "--border", word, "-o", "out.tif", "--verify")
            want, none = self.expected(array, hole, name, border)
            got = self.pixels("out.tif")
            as_number = numpy.isnan(got) if nodata != nodata else got == numpy.float32(nodata)
            numpy.testing.assert_array_equal(as_number, none, f"{name} {border} {nodata}")
            numpy.testing.assert_allclose(got[~none], want[~none], rtol=1e-5, atol=1e-3, err_msg=f"{name} {border} {nodata}")
            self.assertEqual(float(self.tags("out.tif")[42113]) == nodata, nodata == nodata)

    def test_levels(self):
        """Of integers, rounded; results without holes below them have the bits that they have without the tag."""
        random = numpy.random.default_rng(2)
        for dtype, nodata in (("u1", 255), ("u2", 65535)):
            array = random.integers(1, 200, (50, 60)).astype(dtype)
            hole = random.random(array.shape) < 0.02
            array[hole] = nodata
            self.save("in.tif", array, {42113: (2, str(nodata))})
            self.save("plain.tif", array, {})
            for name in ("gaussian:sigma=1", "box"):
                words = "-f", name, "--border", "replicate"
                self.gconv("-i", "in.tif", *words, "-o", "out.tif", "--verify")
                self.gconv("-i", "plain.tif", *words, "-o", "plain_out.tif")
                want, none = self.expected(array, hole, name, "replicate")
                got, plain = self.pixels("out.tif"), self.pixels("plain_out.tif")
                numpy.testing.assert_array_equal(got == nodata, none)
                self.assertLessEqual(abs(got[~none] - want[~none]).max(), 0.5001)
                far = ~ndimage.binary_dilation(hole, numpy.ones(self.taps(name).shape))
                numpy.testing.assert_array_equal(got[far], plain[far])

    def test_all_ways_agree(self):
        """--verify makes each result by the definition."""
        random = numpy.random.default_rng(3)
        colour = random.integers(0, 255, (40, 45, 3)).astype("u1")
        colour[random.random(colour.shape) < 0.03] = 7
        alpha = numpy.dstack([colour, random.integers(0, 255, (40, 45)).astype("u1")])
        self.save("rgb.tif", colour, {42113: (2, "7")})
        self.save("rgba.tif", alpha, {42113: (2, "7")})
        self.save("pages.tif", [colour[..., 0], colour[..., 1]], {42113: (2, "7")})
        Image.fromarray(random.integers(0, 255, (40, 45)).astype("u1")).save(self.folder / "mask.png")
        for name, *words in (("rgb",), ("rgb", "--gray"), ("rgb", "--linear"), ("rgb", "--stride", "2"), ("rgb", "--padding", "full"),
                             ("rgb", "--padding", "valid", "--depth", "16"), ("rgb", "--range", "minmax"), ("rgb", "--depth", "float"),
                             ("rgb", "--dilation", "2"), ("rgba",), ("rgba", "--alpha", "premultiply"), ("rgba", "--alpha", "filter"),
                             ("rgba", "--alpha", "drop"), ("pages",), ("rgb", "--region", "20x20+3+4"), ("rgb", "--mask", "mask.png"),
                             ("rgb", "-f", "sobel_y", "--combine", "magnitude"), ("rgb", "--gray", "-f", "box", "--combine", "stack"),
                             ("rgba", "--range", "signed", "--alpha", "filter")):
            for filter_name in ("gaussian:sigma=1", "sobel_x"):
                if filter_name == "sobel_x" and "premultiply" in words:
                    continue
                for threads in ("1", "3"):
                    self.gconv("-i", f"{name}.tif", "-f", filter_name, *words, "--border", "reflect101", "-o", f"out_{threads}.tif",
                               "--verify", "--threads", threads)
                self.assertEqual(*[(self.folder / f"out_{threads}.tif").read_bytes() for threads in "13"])

    def test_large_images_by_rows(self):
        random = numpy.random.default_rng(4)
        array = random.normal(0, 1, (1500, 1600)).astype("f4")
        array[random.random(array.shape) < 1e-3] = -1e30
        self.save("in.tif", array, {42113: (2, "-1e30")})
        results = []
        want, none = self.expected(array, array == numpy.float32(-1e30), "gaussian:sigma=2", "symmetric")
        for words in ([], ["--memory", "64M"], ["-a", "fft"]):
            self.gconv("-i", "in.tif", "-f", "gaussian:sigma=2", "--border", "symmetric", "-o", "out.tif", *words)
            results.append(self.pixels("out.tif"))
            numpy.testing.assert_array_equal(results[-1] == numpy.float32(-1e30), none)
            numpy.testing.assert_allclose(results[-1][~none], want[~none], rtol=1e-4, atol=1e-4)
        numpy.testing.assert_array_equal(results[0], results[1])

    def test_chain_and_networks(self):
        array = numpy.full((20, 20), 5, "f4")
        array[8:12, 8:12] = -9999
        self.save("in.tif", array, {42113: (2, "-9999")})
        self.gconv("-i", "in.tif", "-f", "gaussian:sigma=1", "--border", "replicate", "--then", "-f", "box:size=5",
                   "--border", "replicate", "-o", "out.tif")
        numpy.testing.assert_allclose(self.pixels("out.tif"), array, rtol=1e-6)

    def test_what_is_said(self):
        array = numpy.full((20, 20), 0.5, "f4")
        array[3, 3] = -9999
        self.save("in.tif", array, {42113: (2, "-9999"), **PLACE})
        words = "-f", "box", "--border", "replicate"
        self.assertEqual(self.gconv("-i", "in.tif", *words, "-o", "out.tif").stderr, "")
        said = self.gconv("-i", "in.tif", *words, "-o", "out8.tif", "--depth", "8").stderr
        self.assertIn("no data, -9999 in the input, become 0 in u8 results", said)
        said = self.gconv("-i", "in.tif", "-f", "std:size=3", "-o", "std8.tif", "--depth", "8").stderr
        self.assertIn("no data, -9999 in the input, become 0 in u8 results", said)
        level = numpy.full((20, 20), 9, "u1")
        level[3, 3] = 0
        self.save("level.tif", level, {42113: (2, "0")})
        self.assertIn("results have the value 0, which stands for no data",
                      self.gconv("-i", "level.tif", "-f", "sobel_x", "--border", "replicate", "-o", "out0.tif").stderr)

    def test_places_are_kept(self):
        array = numpy.random.default_rng(5).normal(0, 1, (20, 30)).astype("f4")
        for options in ({}, {"big_tiff": True}):
            self.save("in.tif", array, {42113: (2, "-9999"), **PLACE})
            self.gconv("-i", "in.tif", "-f", "box", "--border", "replicate", "-o", "out.tif")
            self.assertEqual(self.tags("out.tif"), self.tags("in.tif"))
        self.assertEqual(len(self.tags("out.tif")), len(PLACE) + 1)
        for words in (["--stride", "2"], ["--padding", "valid"], ["--padding", "full"]):
            said = self.gconv("-i", "in.tif", "-f", "box:size=5", "--border", "replicate", "-o", "out.tif", *words).stderr
            self.assertIn("the place on Earth (GeoTIFF) is left out", said)
            self.assertEqual([*self.tags("out.tif")], [42113])
        self.save("rgb.tif", numpy.random.default_rng(5).integers(0, 255, (20, 30, 3)).astype("u1"), PLACE)
        self.gconv("-i", "rgb.tif", "-f", "box", "--border", "replicate", "--gray", "-o", "out.tif")
        self.assertEqual(self.tags("out.tif"), self.tags("rgb.tif"))

    def test_pages(self):
        """All pages keep no data, and the place that they share."""
        array = numpy.random.default_rng(5).normal(0, 1, (20, 30)).astype("f4")
        self.save("in.tif", [array, array + 1, array + 2], {42113: (2, "-9999"), **PLACE})
        self.gconv("-i", "in.tif", "-f", "box", "--border", "replicate", "-o", "out.tif")
        for page in range(3):
            self.assertEqual(self.tags("out.tif", page), self.tags("in.tif", page))

    def test_pages_that_differ(self):
        """Each page has its own no data, and its own kind of pixels."""
        level, wide, colour = (numpy.full(shape, 50, "u1") for shape in ((20, 30), (20, 40), (9, 8, 4)))
        level[4, 5] = wide[4, 5] = 200
        pages = (level, "50"), (wide, None), (wide, "50"), (wide, "200"), (colour, None), (colour[..., :3], None)
        with TiffImagePlugin.AppendingTiffWriter(str(self.folder / "in.tif"), True) as file:
            for array, nodata in pages:
                info = TiffImagePlugin.ImageFileDirectory_v2()
                if nodata:
                    info[42113] = nodata
                Image.fromarray(numpy.ascontiguousarray(array)).save(file, "TIFF", tiffinfo=info)
                file.newFrame()
        self.gconv("-i", "in.tif", "-f", "box", "--border", "replicate", "--alpha", "keep", "-o", "out.tif")
        self.assertEqual([self.tags("out.tif", page).get(42113) for page in range(6)], [nodata for _, nodata in pages])
        with Image.open(self.folder / "out.tif") as image:
            for page, value in (0, 200), (1, 67), (2, 200), (3, 200):
                image.seek(page)
                self.assertEqual(image.getpixel((5, 4)), value)
            for page, mode in (4, "RGBA"), (5, "RGB"):
                image.seek(page)
                self.assertEqual(image.mode, mode)

    def test_places_of_turned_images(self):
        """They are of the image as it is stored, and results are upright."""
        array = numpy.random.default_rng(5).normal(0, 1, (20, 20)).astype("f4")
        for more, word in ((PLACE, "ModelPixelScale"), ({270: (2, "ImageJ=1.54f\nunit=micron\n")}, "the description of axes")):
            self.save("in.tif", array, {42113: (2, "-9999"), 274: (3, 3), **more})
            said = self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif").stderr
            self.assertRegex(said, f"are not read, and left out: {word}")
            self.assertEqual([*self.tags("out.tif")], [42113])

    def test_other_formats(self):
        array = numpy.full((20, 30), 9, "u1")
        array[4, 5] = 200
        self.save("in.tif", array, {42113: (2, "200"), **PLACE})
        for name in ("out.png", "out.npy"):
            said = self.gconv("-i", "in.tif", "-f", "box", "--border", "replicate", "-o", name).stderr
            self.assertRegex(said, "tags of TIFF .* are left out")
            self.assertIn("the number 200 stands for no data in the results", said)
        self.assert_pixels("out.png", array)

    def test_descriptions_of_axes(self):
        array = numpy.random.default_rng(5).integers(0, 255, (20, 30)).astype("u1")
        imagej = "ImageJ=1.54f\nunit=micron\nspacing=0.5\nmin=0.0\nmax=255.0\n"
        ome = ('<?xml version="1.0"?><OME UUID="urn:1"><Image><Pixels SizeX="30" SizeY="20" Type="uint8" PhysicalSizeX="0.5">'
               '<TiffData><UUID FileName="in.tif">urn:1</UUID></TiffData></Pixels></Image></OME>')
        other = '{"shape": [20, 30], "axes": "YX", "unit": "um"}'
        words = "-f", "box", "--border", "replicate"
        for text in (imagej, ome, other):
            self.save("in.tif", array, {270: (2, text), 50838: (4, (12, 4)), 50839: (1, b"IJIJinfo\0\0\0\1" + b"abcd")})
            self.assertEqual(self.gconv("-i", "in.tif", *words, "-o", "out.tif").stderr, "")
            self.assertEqual(self.tags("out.tif"), self.tags("in.tif"))
            self.gconv("-i", "in.tif", *words, "-o", "out.tif", "--depth", "float")
            kept = self.tags("out.tif")[270]
            self.assertEqual(kept, text.replace("min=0.0\nmax=255.0\n", "").replace('Type="uint8"', 'Type="float"'))
            said = self.gconv("-i", "in.tif", *words, "--stride", "2", "-o", "out.tif").stderr
            self.assertIn("the description of spacing and axes (ImageJ, OME) is left out", said)
            self.assertEqual(self.tags("out.tif"), {})
        self.save("in.tif", array, {270: (2, ome.replace(">urn:1<", ">urn:2<"))})
        self.assertIn("of a set of files", self.gconv("-i", "in.tif", *words, "-o", "out.tif").stderr)
        self.save("in.tif", array, {270: (2, imagej + "images=7\n")})
        self.assertIn("promises 7 images", self.gconv("-i", "in.tif", *words, "-o", "out.tif").stderr)

    def test_descriptions_of_all_pages(self):
        """They are not true of one page."""
        array = numpy.zeros((20, 30), "u1")
        text = "ImageJ=1.54f\nimages=2\nslices=2\n"
        self.save("in.tif", [array, array], {270: (2, text)})
        self.assertEqual(self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif").stderr, "")
        self.assertEqual(self.tags("out.tif"), {270: text})
        said = self.gconv("-i", "in.tif:1", "-f", "identity", "-o", "out.tif").stderr
        self.assertIn("left out: the description of axes, which is of all pages", said)
        self.assertEqual(self.tags("out.tif"), {})

    def test_tags_that_are_left_out(self):
        array = numpy.zeros((20, 30), "u1")
        self.save("in.tif", array, {33723: (7, b"iptc"), 65000: (3, 7), 269: (2, "a name")})
        said = self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif").stderr
        self.assertRegex(said, "IPTC.*tag 65000")
        with Image.open(self.folder / "out.tif") as image:
            self.assertEqual(image.tag_v2[269], "a name")


if __name__ == "__main__":
    unittest.main()
