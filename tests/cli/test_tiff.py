# SPDX-License-Identifier: MIT
"""TIFF and WebP from file to file: pages, compression, damaged files, and images larger than the memory."""
import io
import os
import struct
import unittest

import numpy
from PIL import Image

import helper


def noise(shape, dtype="u1"):
    return numpy.random.default_rng(5).integers(0, numpy.iinfo(dtype).max, shape).astype(dtype)


def write_sparse(path, width, height, samples=1, mark=None):
    """A BigTIFF of zeros, in planes if it has several samples, that takes no room on the disk; one sample is 255."""
    rows = max(1, (1 << 20) // width)
    counts = [min(rows, height - y) * width for y in range(0, height, rows)] * samples
    offsets = numpy.cumsum([16, *counts])
    lists = int(offsets[-1])
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, samples, None), (259, 3, 1, 1), (262, 3, 1, 2 if samples > 1 else 1),
            (273, 16, len(counts), lists), (277, 3, 1, samples), (278, 4, 1, rows), (279, 16, len(counts), lists + 8 * len(counts)),
            (284, 3, 1, 2 if samples > 1 else 1)]
    with open(path, "wb") as file:
        file.write(b"II+\0" + struct.pack("<HHQ", 8, 0, lists + 16 * len(counts)))
        file.truncate(lists)
        file.seek(lists)
        file.write(numpy.array([*offsets[:-1], *counts], "<u8").tobytes() + struct.pack("<Q", len(tags)))
        for number, kind, count, value in tags:
            bits = struct.pack("<4H", *([8] * samples + [0] * (4 - samples)))
            file.write(struct.pack("<HHQ", number, kind, count) + (bits if value is None else struct.pack("<Q", value)))
        file.write(bytes(8))
        if mark is not None:
            file.seek(16 + mark)
            file.write(b"\xff")


@helper.needs("libtiff")
class Tiff(helper.CommandTest):
    def save_pages(self, name, pages, **options):
        first, *others = [Image.fromarray(page) for page in pages]
        first.save(self.folder / name, save_all=True, append_images=others, **options)

    def pages(self, name):
        found = []
        with Image.open(self.folder / name) as image:
            for i in range(image.n_frames):
                image.seek(i)
                found.append(numpy.asarray(image).copy())
        return found

    def test_pages_are_filtered_each(self):
        array = noise((4, 13, 17, 3))
        self.save_pages("in.tif", array)
        words = "-f", "gaussian:sigma=1", "--border", "replicate"
        self.gconv("-i", "in.tif", *words, "-o", "out.tif")
        self.gconv("-i", "in.tif", *words, "-o", "pages/")
        self.assertEqual(self.files("pages"), [f"in_{i}.png" for i in range(1, 5)])
        for i, page in enumerate(self.pages("out.tif")):
            Image.fromarray(array[i]).save(self.folder / "one.png")
            self.gconv("-i", "one.png", *words, "-o", "want.png")
            numpy.testing.assert_array_equal(page, self.pixels("want.png"))
            self.assert_pixels(f"pages/in_{i + 1}.png", page)
        self.usage_error("is one file, but there are 4 results", "-i", "in.tif", *words, "-o", "x.png")

    def test_arrays_and_pages(self):
        array = noise((5, 1, 13, 17), "u2")
        numpy.save(self.folder / "in.npy", array)
        self.gconv("-i", "in.npy", "-f", "identity", "-o", "out.tif")
        numpy.testing.assert_array_equal(self.pages("out.tif"), array[:, 0])
        self.gconv("-i", "out.tif", "-f", "identity", "-o", "back.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "back.npy"), array[:, 0])

    def test_thousand_pages_and_files(self):
        array = noise((1000, 9, 11))
        self.save_pages("in.tif", array)
        self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif", "--tiff-compression", "deflate")
        numpy.testing.assert_array_equal(self.pages("out.tif"), array)
        (self.folder / "many").mkdir()
        for i, page in enumerate(array):
            Image.fromarray(page).save(self.folder / f"many/{i:04}.tif")
        self.gconv("-i", "many", "-f", "identity", "-o", "results/", "--format", "tiff")
        self.assertEqual(len(self.files("results")), 1000)
        self.assert_pixels("results/0123.tif", array[123])

    def test_pages_that_differ(self):
        """They are taken one by one: the results are those of the pages, in a file each, or in a TIFF with all of them."""
        pages = [noise((50, 60)), noise((20, 60)), noise((50, 60, 3)), noise((700, 900)), noise((7, 9))]
        self.save_pages("in.tif", pages)
        words = "-f", "gaussian:sigma=1", "--border", "replicate"
        self.gconv("-i", "in.tif", *words, "-o", "pages/")
        self.assertEqual(self.files("pages"), [f"in_{i}.png" for i in range(1, 6)])
        for i in range(5):
            self.gconv("-i", f"in.tif:{i + 1}", *words, "-o", "want.png")
            numpy.testing.assert_array_equal(self.pixels(f"pages/in_{i + 1}.png"), self.pixels("want.png"))
        for compression in ("none", "deflate", "lzw"):
            self.gconv("-i", "in.tif", *words, "-o", "out.tif", "--tiff-compression", compression)
            for i, page in enumerate(self.pages("out.tif")):
                self.assert_pixels(f"pages/in_{i + 1}.png", page)
        (self.folder / "out.tif").unlink()
        said = self.gconv("-i", "in.tif", *words, "-o", "out.npy", status=1).stderr
        self.assertIn("the images differ in size or kind", said)
        said = self.gconv("compare", "in.tif", "in.tif", status=2).stderr
        self.assertIn("its pages differ", said)
        self.assertNotIn("out.npy", self.files())

    def test_compression(self):
        smooth = numpy.add.outer(numpy.arange(300), numpy.arange(400)).astype(numpy.uint16) * 50
        Image.fromarray(smooth).save(self.folder / "in.tif")
        sizes = []
        for name in ("none", "lzw", "deflate"):
            self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif", "--tiff-compression", name)
            self.assert_pixels("out.tif", smooth)
            sizes.append((self.folder / "out.tif").stat().st_size)
        self.assertGreater(sizes[0], 240000)
        self.assertLess(max(sizes[1:]), 60000)
        self.usage_error("--tiff-compression: the results are png", "-i", "in.tif", "-f", "identity", "-o", "x.png",
                         "--tiff-compression", "lzw")

    def test_cut_files(self):
        """Each gives its message, exit status 1, and no result, whether it goes whole or by rows."""
        for shape in ((30, 40, 3), (1200, 2500, 3)):
            for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate"):
                whole = io.BytesIO()
                Image.fromarray(noise(shape)).save(whole, "tiff", compression=compression)
                content = whole.getvalue()
                for part in range(0, 16, 1 if shape[0] < 100 else 5):
                    (self.folder / "cut.tif").write_bytes(content[:len(content) * part // 16])
                    said = self.gconv("-i", "cut.tif", "-f", "identity", "-o", "out.tif", status=1).stderr
                    self.assertRegex(said, r"cut\.tif: .*(empty|too early|damaged TIFF)")
                    self.assertEqual(self.files(), ["cut.tif"])

    def test_by_rows_and_whole(self):
        """Planes, tiles or strips: results do not depend on how rows come."""
        array = noise((1500, 2100, 3))
        Image.fromarray(array).save(self.folder / "in.tif", compression="tiff_adobe_deflate")
        Image.fromarray(array).save(self.folder / "in.png")
        words = "-f", "gaussian:sigma=2", "--border", "replicate"
        self.gconv("-i", "in.png", *words, "-o", "want.png")
        for threads in (1, 4):
            for compression in ("none", "deflate", "lzw"):
                self.gconv("-i", "in.tif", *words, "-o", "out.tif", "--threads", threads, "--tiff-compression", compression)
                self.assert_pixels("out.tif", self.pixels("want.png"))

    def test_larger_than_memory(self):
        write_sparse(self.folder / "in.tif", 12000, 9000, 3, mark=12000 * 9000 + 12000 * 4000 + 777)
        peak = self.peak_bytes("-i", "in.tif", "-f", "identity", "-o", "out.tif", "--memory", "100M", "--tiff-compression", "deflate")
        if "GCONV_SANITIZED" not in os.environ:
            self.assertLess(peak, 120e6)
        Image.MAX_IMAGE_PIXELS = None
        pixels = self.pixels("out.tif")
        self.assertEqual(list(pixels[4000, 777]), [0, 255, 0])
        self.assertEqual(numpy.count_nonzero(pixels), 1)

    @unittest.skipUnless("GCONV_LONG_TESTS" in os.environ, "takes minutes: tests/run --all")
    def test_two_gigapixels(self):
        write_sparse(self.folder / "in.tif", 50000, 42000, mark=50000 * 41999 + 49998)
        self.assertIn("--max-pixels", self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.tif", status=1).stderr)
        options = "-f", "average:size=3", "--border", "replicate", "--max-pixels", "3G", "--memory", "200M"
        self.assertLess(self.peak_bytes("-i", "in.tif", *options, "-o", "out.tif"), 220e6)
        with open(self.folder / "out.tif", "rb") as file:
            self.assertEqual(file.read(4), b"II*\0")
            file.seek(0, 2)
            self.assertGreater(file.tell(), 50000 * 42000)
        write_sparse(self.folder / "in.tif", 50000, 30000, 3)
        self.peak_bytes("-i", "in.tif", *options, "-o", "out.tif")  # 4.5 GB
        with open(self.folder / "out.tif", "rb") as file:
            self.assertEqual(file.read(4), b"II+\0")


@helper.needs("libwebp")
class WebP(helper.CommandTest):
    def test_quality_and_lossless(self):
        array = self.photo("in.png", 60, 50)
        sizes = []
        for words in (("--quality", "10"), (), ("--lossless",)):
            self.gconv("-i", "in.png", "-f", "identity", "-o", "out.webp", *words)
            sizes.append((self.folder / "out.webp").stat().st_size)
        self.assert_pixels("out.webp", array)
        self.assertEqual(sizes, sorted(sizes))
        self.usage_error("--lossless: the results are png", "-i", "in.png", "-f", "identity", "-o", "x.png", "--lossless")
        self.usage_error("exclude each other", "-i", "in.png", "-f", "identity", "-o", "x.webp", "--lossless", "--quality", "3")

    def test_animation_becomes_files(self):
        frames = [Image.fromarray(page) for page in noise((3, 20, 30, 3))]
        frames[0].save(self.folder / "in.webp", save_all=True, append_images=frames[1:], lossless=True, duration=100)
        self.gconv("-i", "in.webp", "-f", "identity", "-o", "out/", "--alpha", "drop")
        self.assertEqual(self.files("out"), ["in_1.png", "in_2.png", "in_3.png"])
        for i, frame in enumerate(frames, 1):
            self.assert_pixels(f"out/in_{i}.png", numpy.asarray(frame))
            self.assertEqual(self.gconv("-i", f"in.webp:{i}", "-f", "identity", "-o", "one.png", "--alpha", "drop").stderr, "")
            self.assert_pixels("one.png", numpy.asarray(frame))
        for number in ("0", "4", "x"):
            error = self.gconv("-i", f"in.webp:{number}", "-f", "identity", "-o", "never.png", status=1).stderr
            self.assertIn("its images have the numbers 1 to 3", error)


if __name__ == "__main__":
    unittest.main()
