# SPDX-License-Identifier: MIT
"""make, filters, info, devices, algorithms."""
import json
import shutil
import struct
import subprocess
import unittest

import numpy
from PIL import Image, TiffImagePlugin

from helper import CommandTest, needs


class Make(CommandTest):
    def test_text_that_can_be_read_again(self):
        source = self.photo("a.png")
        text = self.gconv("make", "gaussian:size=5,sigma=1.5").stdout
        rows = [[float(word) for word in line.split()] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(numpy.shape(rows), (5, 5))
        self.assertAlmostEqual(numpy.sum(rows), 1, places=6)
        (self.folder / "k.txt").write_text(text)
        self.gconv("-i", "a.png", "-f", "k.txt", "-o", "x.png")
        self.gconv("-i", "a.png", "-f", "gaussian:size=5,sigma=1.5", "-o", "y.png")
        self.assert_pixels("x.png", self.pixels("y.png"))
        self.assertFalse(numpy.array_equal(self.pixels("x.png"), source))

    def test_several_and_a_file(self):
        names = ("sobel_x", "gaussian:size=5x4,sigma=1.3", "roberts_x")
        all_text = self.gconv("make", *names).stdout
        result = self.gconv("make", names[0], "-o", "k.txt", *names[1:])
        self.assertEqual(result.stdout, "")
        self.assertEqual((self.folder / "k.txt").read_text(), all_text)
        self.photo("a.png")
        self.gconv("-i", "a.png", "-f", "k.txt", "-o", "read/")
        for number, name in enumerate(names, 1):
            self.gconv("-i", "a.png", "-f", name, "-o", "own.png")
            self.assert_pixels(f"read/a_k_{number}.png", self.pixels("own.png"))
        (self.folder / "scaled.mat").write_text("1 1 2 0\n1\n")
        self.assertIn("scaled: a text of several filters holds no divisor or offset",
                      self.gconv("make", "sobel_x", "scaled.mat", "-o", "never.txt", status=1).stderr)
        self.assertFalse((self.folder / "never.txt").exists())

    def test_nothing_is_written_over_what_is_read(self):
        (self.folder / "k.txt").write_text("# my notes\n1 2\n3 4\n")
        for words in (("k.txt", "-o", "k.txt"), ("sobel_x", "k.txt", "-o", "./k.txt")):
            self.usage_error("this output is one of the files of filters", "make", *words)
        for _ in range(2):
            self.gconv("make", "gaussian:size=3", "-o", "gaussian")  # of which the second word names no file

    def test_mistakes(self):
        self.usage_error("soble", "make", "sobel_x", "soble")
        self.usage_error("soble", "make", "soble", "-o", "k.txt")
        result = self.gconv("make", "sobel_x", "-o", "nowhere/k.txt", status=1)
        self.assertIn("nowhere/k.txt: the folder to write it in does not exist", result.stderr)
        self.usage_error("gabor_bank is a bank of filters: gconv bank convert prints it", "make", "gabor_bank")
        self.assertEqual(self.files(), [])

    def test_filter_format(self):
        (self.folder / "k").write_text("1 2\n3 4\n")
        self.assertIn("1 2\n3 4\n", self.gconv("make", "k", "--filter-format", "matrix").stdout)
        self.usage_error("k", "make", "k", "--filter-format", "npy")


class Filters(CommandTest):
    def test_builtins_and_files(self):
        text = self.gconv("filters").stdout
        for name in ("gaussian:size=3,sigma=0.5", "sobel_x", "identity", "motion:", "unsharp"):
            self.assertRegex(text, rf"(?m)^  {name}")
        builtins, files = text.split("\nFiles in ")
        self.assertGreater(len(builtins.splitlines()), 20)
        self.assertIn("sobel_x", files)

    def test_shipped_filters_lie_beside_the_program(self):
        self.assertIn("\n  gaussian_5 ", self.gconv("filters", env={"GCONV_FILTERS": ""}).stdout)

    def test_words(self):
        text = self.gconv("filters", "EDGES", "kirsch").stdout
        self.assertEqual([line.split()[0] for line in text.splitlines()], ["Built", "kirsch:direction=all"])
        self.assertIn("gaussian:size=3", self.gconv("filters", "blur").stdout)
        text = self.gconv("filters", "orientation").stdout
        self.assertRegex(text, r"^\nFiles in .*:\n  gabor_bank .*\n$")
        result = self.gconv("filters", "blur", "zzz", status=1)
        self.assertEqual(result.stdout, "")
        self.assertIn("gconv filters lists all", result.stderr)

    def test_help_of_a_filter(self):
        self.assertIn("-f gaussian:size=3,sigma=0.5 ", self.gconv("help", "gaussian").stdout)
        self.assertIn("-f sobel -o", self.gconv("help", "sobel").stdout)

    def test_help_of_an_option(self):
        text = self.gconv("help", "border").stdout
        self.assertRegex(text, r"^      --border MODE  .*(?s:.*)reflect101, wrap, or normalize.*(?s:.*)\n\nAlso called --boundary.\n")
        self.assertEqual(text, self.gconv("help", "--border").stdout)
        self.assertRegex(self.gconv("help", "-f", "--range").stdout, r"^  -f, --filter FILTER.*(?s:.*)\n      --range MODE")
        self.assertIn("Usage: gconv help", self.gconv("help", "-h").stdout)
        self.usage_error("--bordr: there is no help on this: did you mean border?", "help", "--bordr")

    def test_help_of_a_word_that_describes_filters(self):
        blurs = self.gconv("help", "blur").stdout
        self.assertRegex(blurs, r"(?m)^  gaussian:.*Gaussian blur")
        self.assertNotIn("sobel", blurs)
        self.assertIn("  sobel ", self.gconv("help", "edges").stdout)
        self.usage_error("a: there is no help on this", "help", "a")

    def test_folder_of_ones_own(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/edge.txt").write_text("# finds edges\n-1 0 1\n")
        (self.folder / "mine/plain.txt").write_text("1\n")
        (self.folder / "mine/.hidden.txt").write_text("1\n")
        (self.folder / "mine/readme.md").write_text("no filter\n")
        own = {"GCONV_FILTERS": str(self.folder / "mine")}
        files = self.gconv("filters", env=own).stdout.split("\nFiles in ")[1].splitlines()
        self.assertEqual([line.split() for line in files[1:]], [["edge", "finds", "edges"], ["plain"]])
        self.photo("a.png")
        self.gconv("-i", "a.png", "-f", "plain", "-o", "x.png", env=own)
        self.assert_pixels("x.png", self.pixels("a.png"))
        text = self.gconv("filters", env={"GCONV_FILTERS": "/nowhere"}).stdout
        self.assertIn("there is no such folder", text)


class ShippedFilters(CommandTest):
    def test_found_without_installation(self):
        """The folder of the checkout that the program was built in, or of the place it is installed in."""
        listed = self.gconv("filters", env={"GCONV_FILTERS": ""}).stdout
        self.assertRegex(listed, r"(?m)^  sharpen_8 ")
        self.assertIn("-4", self.gconv("make", "laplacian_4.txt", env={"GCONV_FILTERS": ""}).stdout)

    def test_folder_of_the_environment(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "odd_one.txt").write_text("# no built-in: a test\n1 2 3\n")
        self.assertIn("1 2 3", self.gconv("make", "odd_one", env={"GCONV_FILTERS": "mine"}).stdout)
        self.usage_error("sharpen_8", "make", "sharpen_8", env={"GCONV_FILTERS": "mine"})


class Info(CommandTest):
    def test_images(self):
        self.photo("a.png", 17, 13)
        text = self.gconv("info", "a.png").stdout
        for fragment in ("a.png: image, png\n", "17 x 13 (width x height)", "channels    3\n", "u8"):
            self.assertIn(fragment, text)
        self.assertNotIn("resolution", text)
        profile = b"p" * 200
        pixels = numpy.zeros((4, 5, 4), numpy.uint8)
        Image.fromarray(pixels).save(self.folder / "b.png", dpi=(300, 300))
        text = self.gconv("info", "b.png").stdout
        self.assertIn("channels    4, the last is alpha", text)
        self.assertIn("resolution  300 x 300 pixels an inch", text)
        Image.fromarray(pixels[..., :3]).save(self.folder / "c.jpg", icc_profile=profile)
        self.assertIn("ICC profile 200 bytes", self.gconv("info", "c.jpg").stdout)
        numpy.save(self.folder / "d.npy", numpy.zeros((2, 3, 4, 5), numpy.float32))
        text = self.gconv("info", "d.npy").stdout
        for fragment in ("d.npy: image, npy", "5 x 4 (width x height), 2 frames", "f32"):
            self.assertIn(fragment, text)

    def test_filters(self):
        text = self.gconv("info", "sobel_x").stdout
        for fragment in ("sobel_x: filter", "3 x 3 (rows x columns), anchor at row 1, column 1",
                         "sum         0 (positive taps 4, negative taps -4)", "upside down symmetric", "mirrored    antisymmetric",
                         "rank        1 (separable)", "zero taps   3 of 9"):
            self.assertIn(fragment, text)
        self.assertRegex(text, r"(?m)^ +-2 +0 +2$")
        (self.folder / "k.txt").write_text("2 1 3\n1 2\n")
        text = self.gconv("info", "k.txt").stdout
        self.assertIn("divisor     3, offset 0", text)
        self.assertIn("neither symmetric nor antisymmetric", text)
        self.assertIn("rank        not computed", self.gconv("info", "average:size=601").stdout)
        (self.folder / "commas.csv").write_text("0,1;0,2;0,1\n0,2;0,4;0,2\n")
        for command in "info", "make":  # what -f warns of, who looks into a file wants to know first
            self.assertIn("warning: commas.csv:1: ';' and other separators are mixed", self.gconv(command, "commas.csv").stderr)
            self.assertEqual(self.gconv(command, "sobel_x").stderr, "")
        self.assertEqual(self.gconv("info", "average:size=31").stdout.count("\n"), 7)

    def test_several_and_mistakes(self):
        self.photo("a.png")
        text = self.gconv("info", "a.png", "sobel_x").stdout
        self.assertLess(text.index("a.png: image"), text.index("sobel_x: filter"))
        self.assertIn("nonsense", self.gconv("info", "a.png", "nonsense", status=3).stderr)
        self.assertIn("nonsense", self.gconv("info", "nonsense", status=2).stderr)
        (self.folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nxx")
        self.assertIn("bad.png: ", self.gconv("info", "bad.png", status=1).stderr)
        self.assertIn("a.png", self.gconv("info", "a.png", "--filter-format", "matrix", status=1).stderr)

    def test_info_of_banks_and_foreign_images(self):
        text = self.gconv("info", "gabor_bank").stdout
        self.assertEqual(text, self.gconv("bank", "info", "gabor_bank").stdout)
        self.assertIn("8 x 1 x 15 x 15", text)
        (self.folder / "x.gif").write_bytes(b"GIF89a" + bytes(30))
        self.assertIn("x.gif: a GIF file, which is not read here", self.gconv("info", "x.gif", status=1).stderr)

    def test_advice_for_foreign_files(self):
        """Each kind is named, with a command that keeps what it has; that of HDR is tried where vips is installed."""
        pixel = b"".join(struct.pack("4B", 128, 64, 32, 131) for _ in range(8 * 9))  # 4, 2 and 1 times as bright as white
        heads = {"a.gif": (b"GIF89a", "-coalesce"), "a.jp2": (b"\0\0\0\x0cjP  ", "opj_decompress"), "a.pdf": (b"%PDF-1.4", "pdftoppm"),
                 "a.svg": (b"<svg>", "rsvg-convert"), "a.psd": (b"8BPS", "OUT.tif"),
                 "a.mp4": (b"\0\0\0\x18ftypisom", "ffmpeg"), "a.raf": (b"FUJIFILMCCD-RAW", "dcraw"), "a.mat": (b"MATLAB 7.3 MAT", "h5py"),
                 "a.nii": (bytes(344) + b"ni1\0", "nibabel"), "a.dcm": (bytes(128) + b"DICM", "pydicom")}
        (self.folder / "a.hdr").write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 8 +X 9\n" + pixel)
        for name, (head, advice) in heads.items():
            (self.folder / name).write_bytes(head + bytes(40))
            said = self.gconv("-i", name, "-f", "identity", "-o", "x.png", status=(1, 2)).stderr
            self.assertIn("which is not read here", said)
            self.assertIn(advice, said)
        if shutil.which("vips"):
            subprocess.run(["vips", "copy", "a.hdr", "a.tif"], cwd=self.folder, check=True)
            self.gconv("-i", "a.tif", "-f", "identity", "-o", "x.npy")
            self.assertGreater(numpy.load(self.folder / "x.npy").max(), 3.9)

    def test_names_decide_the_format(self):
        """A name that promises another format than the writer has is refused before the work, with those that it has."""
        self.photo("a.png")
        (self.folder / "t.csv").write_text("a,b,class\n" + "".join(f"{i},{i % 3},{'xy'[i % 2]}\n" for i in range(20)))
        self.gconv("svm", "t.csv", "-o", "m.model")
        for words, name, right in ((("make", "sobel"), "k.npy", ".txt"), (("make", "box"), "k.png", ".txt"),
                                   (("make", "box"), "k.JSON", ".txt"),
                                   (("fit", "-i", "a.png", "-t", "a.png", "--size", "3"), "k.npy", ".txt"),
                                   (("bank", "convert", "box"), "k.onnx", "safetensors"), (("svm", "t.csv"), "m.npy", ".model"),
                                   (("svm", "t.csv"), "m.json", ".model"), (("classify", "m.model", "-i", "t.csv"), "p.npy", ".csv"),
                                   (("classify", "m.model", "-i", "t.csv"), "p.json", ".csv"),
                                   (("train", "t.csv", "--net", "dense 2 softmax"), "n.onnx", "safetensors"),
                                   (("bank", "show", "box"), "k.csv", "png"), (("compare", "a.png", "a.png"), "d.csv", "png"),
                                   (("-i", "a.png", "-f", "box"), "o.bmp", "png")):
            before = self.snapshot()
            result = self.gconv(*words, "-o", name, status=(1, 2))
            self.assertIn(name, result.stderr)
            self.assertIn(right, result.stderr)
            self.assertEqual(self.snapshot(), before, words)
        for name in ("k.txt", "k.v1", "k"):
            self.gconv("make", "box", "-o", name)
            self.assertTrue((self.folder / name).exists())

    def test_reports_of_bench_in_files(self):
        words = ("bench", "--sizes", "3", "--image", "32x32", "--runs", "1", "-a", "direct")
        for option, name in (("--csv", "r.csv"), ("--json", "r.json")):
            self.assertEqual(self.gconv(*words, option, name).stdout, "")
            self.assertIn("direct", (self.folder / name).read_text())
            self.assertIn("direct", self.gconv(*words, option).stdout)
            self.assertIn("direct", self.gconv(*words, option, "-").stdout)
            self.assertIn("this name promises .png", self.gconv(*words, option, "r.png", status=2).stderr)
        self.assertFalse((self.folder / "r.png").exists())

    def test_info_of_folders_and_as_json(self):
        for name in ("in/a.png", "in/more/b.png"):
            self.photo(name, 17, 13)
        Image.new("CMYK", (9, 8)).save(self.folder / "in/c.jpg")
        text = self.gconv("info", "in").stdout
        self.assertEqual([line for line in text.splitlines() if "image, " in line], ["in/a.png: image, png", "in/c.jpg: image, jpeg"])
        self.assertIn("of CMYK in the file, which becomes RGB", text)
        self.assertIn("in/more/b.png: image, png", self.gconv("info", "-r", "in").stdout)
        (self.folder / "in/bad.png").write_bytes(b"no image")
        self.assertIn("in/bad.png: ", self.gconv("info", "in", status=3).stderr)
        found = json.loads(self.gconv("info", "in", "sobel_x", "nosuch.png", "--json", status=3).stdout)
        self.assertEqual([entry["kind"] for entry in found], ["image", "error", "image", "filter", "error"])
        self.assertEqual([found[0][key] for key in ("path", "format", "width", "height", "frames", "channels", "depth")],
                         ["in/a.png", "png", 17, 13, 1, 3, "u8"])
        self.assertIn("not an image of a known format", found[1]["error"])
        self.assertEqual((found[2]["cmyk"], found[0]["cmyk"]), (True, False))
        self.assertEqual(found[3]["taps"], [-1, 0, 1, -2, 0, 2, -1, 0, 1])
        self.assertIn("no such file", found[4]["error"])

    @needs("libtiff")
    def test_info_of_what_is_not_read(self):
        first, other = numpy.zeros((20, 30), "u1"), numpy.zeros((5, 9), "u1")
        Image.fromarray(first).save(self.folder / "differ.tif", save_all=True, append_images=[Image.fromarray(other)])
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[282], tags[283], tags[296], tags[42113] = 3.0, 4.0, 1, "nan"
        tags.tagtype[42113] = 2
        Image.fromarray(first).save(self.folder / "plain.tif", tiffinfo=tags)
        self.assertIn("not read    its pages differ: page 1 has 30 x 20", self.gconv("info", "differ.tif").stdout)
        differ, plain = json.loads(self.gconv("info", "--json", "differ.tif", "plain.tif").stdout)
        self.assertIn("page 2 9 x 5", differ["not_read"])
        self.assertEqual((differ["nodata"], plain["nodata"], plain["not_read"]), (None, "nan", None))
        self.assertEqual((differ["resolution_without_unit"], plain["resolution_without_unit"]), (None, [3, 4]))
        self.assertGreater(plain["tiff_tags_bytes"], 0)

    def test_info_of_standard_input(self):
        self.photo("a.png")
        self.assertIn("-: image, png", self.gconv("info", "-", stdin=(self.folder / "a.png").read_bytes()).stdout)
        text = b"1 2 1\n2 4 2\n1 2 1\n"
        self.assertEqual(self.gconv("info", "-", stdin=text, status=1).stderr.count("for a filter, give its --filter-format"), 1)
        self.assertIn("sum         16", self.gconv("info", "-", "--filter-format", "matrix", stdin=text).stdout)

    def test_info_of_files_that_are_not_there(self):
        for name in ("nosuch.jpg", "nosuch.npy", "no/such", "./such.txt"):
            self.assertEqual(self.gconv("info", name, status=2).stderr, f"gconv: {name}: no such file\n")
        for name in ("soble", "such.txt", "3x3: 1/0,2"):
            self.assertNotIn("no such file", self.gconv("info", name, status=2).stderr)


class Lists(CommandTest):
    def test_devices(self):
        lines = self.gconv("devices").stdout.splitlines()
        self.assertRegex(lines[0], r"^cpu +\S.*thread")
        self.assertRegex(lines[1], r"^cuda(:0 +\S| +cannot be used: \S)")

    def test_algorithms(self):
        lines = self.gconv("algorithms").stdout.splitlines()
        for name in ("direct", "reference", "im2col"):
            self.assertTrue(any(line.split()[:3] == ["cpu", name, "exact"] for line in lines), name)
        for line in lines:
            if line and line != "for banks:":
                self.assertRegex(line, r"^(cpu |cuda)  [\w-]+ +(exact  |bounded)  \S")


if __name__ == "__main__":
    unittest.main()
