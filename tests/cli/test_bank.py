# SPDX-License-Identifier: MIT
"""gconv bank: info, show, convert. numpy is the oracle."""
import json
import os
import pty
import struct
import subprocess
import unittest

import numpy
from PIL import Image

from helper import GCONV, CommandTest

CONTENT = numpy.random.default_rng(5).normal(size=(6, 3, 5, 4)).astype("f4")
BIASES = numpy.random.default_rng(6).normal(size=6).astype("f4")


def safetensors(tensors):
    """The bytes of a file of these arrays."""
    names = {numpy.dtype("f4"): "F32", numpy.dtype("f2"): "F16", numpy.dtype("f8"): "F64", numpy.dtype("i8"): "I64"}
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(content):
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    return {name: numpy.frombuffer(content[8 + size:][slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
            for name, t in header.items()}


class Bank(CommandTest):
    def setUp(self):
        super().setUp()
        tensors = {"conv1.weight": CONTENT, "conv1.bias": BIASES, "half.weight": CONTENT.astype("f2"),
                   "fc.weight": CONTENT[0, 0], "steps": numpy.zeros((1, 1, 1, 1), "i8")}
        (self.folder / "w.safetensors").write_bytes(safetensors(tensors))
        numpy.save(self.folder / "b.npy", CONTENT)

    def path(self, name):
        return self.folder / name

    def test_every_way_round(self):
        self.gconv("bank", "convert", "w.safetensors:conv1", "-o", "a.txt")
        self.gconv("bank", "convert", "a.txt", "-o", "a.safetensors")
        self.gconv("bank", "convert", "b.npy", "-o", "c.txt")
        self.gconv("bank", "convert", "c.txt", "-o", "d.npy")
        self.gconv("bank", "convert", "d.npy", "-o", "e", "--format", "safetensors")
        back = read_safetensors(self.path("a.safetensors").read_bytes())
        self.assertEqual(set(back), {"weight", "bias"})
        numpy.testing.assert_array_equal(back["weight"], CONTENT)
        numpy.testing.assert_array_equal(back["bias"], BIASES)
        numpy.testing.assert_array_equal(numpy.load(self.path("d.npy")), CONTENT)
        numpy.testing.assert_array_equal(read_safetensors(self.path("e").read_bytes())["weight"], CONTENT)

    def test_types_and_orders_of_npy(self):
        for kind in ("f2", "f4", "f8", "u1", "u2", "i1", "i2", "i4", "i8"):
            for order in "<>":
                numbers = numpy.random.default_rng(1).integers(0, 100, (2, 3, 2, 4)).astype(order + kind)
                for shape in ((2, 3, 2, 4), (6, 2, 4)):
                    for layout in "CF":
                        numpy.save(self.path("x.npy"), numpy.array(numbers.reshape(shape), order=layout))
                        self.gconv("bank", "convert", "x.npy", "-o", "y.npy")
                        expected = numbers.reshape(shape if len(shape) == 4 else (6, 1, 2, 4))
                        numpy.testing.assert_array_equal(numpy.load(self.path("y.npy")), expected)

    def test_plain_filters_are_stacked(self):
        self.gconv("bank", "convert", "sobel_x", "3x1: 1 2 3", "-o", "s.npy")
        sobel = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]
        numpy.testing.assert_array_equal(numpy.load(self.path("s.npy")), [[sobel], [[[0, 0, 0], [1, 2, 3], [0, 0, 0]]]])
        self.assertIn("filter sobel_x\n", self.gconv("bank", "convert", "sobel_x").stdout)

    def test_standard_streams(self):
        text = self.gconv("bank", "convert", "b.npy", "-o", "-").stdout
        back = self.gconv("bank", "convert", "-", "--format", "npy", stdin=text.encode(), text=False).stdout
        self.assertEqual(back[128:], CONTENT.tobytes())
        self.assertIn("bank, 1 bank", self.gconv("bank", "info", "-", stdin=text.encode()).stdout)
        picture = self.gconv("bank", "show", "-", "-o", "-", stdin=text.encode(), text=False).stdout
        self.assertTrue(picture.startswith(b"\x89PNG"))

    def test_info(self):
        text = self.gconv("bank", "info", "w.safetensors").stdout
        self.assertIn("w.safetensors: safetensors, 5 tensors\n", text)
        for fragment in ("6 x 3 x 5 x 4", "float16", "int64", "fc.weight", f"min {CONTENT.min():.6g}, max {CONTENT.max():.6g}"):
            self.assertIn(fragment, text)
        self.assertNotRegex(text, r"(?m) $")
        self.assertNotIn("fc.weight", self.gconv("bank", "info", "w.safetensors:conv1.weight").stdout)
        self.assertIn("plain filters", self.gconv("bank", "info", "sobel_x").stdout)
        self.path("g.txt").write_text("gconv-bank 1\nfilters 1 channels 1 size 1 1 stride 2 1 padding same_upper\nfilter\n1\n")
        self.assertIn("stride 2 1, padding same (an odd pixel below and right), dilation 1 1, groups 1",
                      self.gconv("bank", "info", "g.txt").stdout)

    def test_info_as_json(self):
        found = json.loads(self.gconv("bank", "info", "--json", "w.safetensors", "sobel_x").stdout)
        self.assertEqual([f["syntax"] for f in found], ["safetensors", "filters"])
        entries = {e["name"]: e for e in found[0]["entries"]}
        self.assertEqual(list(entries), ["conv1.weight", "conv1.bias", "half.weight", "fc.weight", "steps"])
        self.assertEqual(entries["conv1.weight"]["shape"], [6, 3, 5, 4])
        self.assertAlmostEqual(entries["conv1.weight"]["weights"]["sum"], float(CONTENT.sum(dtype="f8")), places=6)
        self.assertAlmostEqual(entries["conv1.weight"]["biases"]["max"], float(BIASES.max()), places=6)
        self.assertIsNone(entries["half.weight"]["biases"])
        self.assertIn("4 dimensions", entries["fc.weight"]["obstacle"])
        self.assertIn("floating-point", entries["steps"]["obstacle"])

    def test_info_goes_on_after_a_failure(self):
        result = self.gconv("bank", "info", "nothing.safetensors", "b.npy", status=3)
        self.assertIn("nothing.safetensors: cannot open", result.stderr)
        self.assertIn("6 x 3 x 5 x 4", result.stdout)
        self.assertIn("has nothing called", self.gconv("bank", "info", "w.safetensors:x", status=2).stderr)

    def test_show_in_colour(self):
        self.gconv("bank", "show", "b.npy", "-o", "s.png", "--zoom", "3", "--columns", "4")
        sheet = self.pixels("s.png")
        self.assertEqual(sheet.shape[2], 3)
        for k in range(6):
            gap = (sheet.shape[1] - 4 * 12) // 5
            y, x = gap + k // 4 * (15 + gap), gap + k % 4 * (12 + gap)
            scaled = CONTENT[k] / numpy.abs(CONTENT[k]).max()
            expected = numpy.rint(128 + 127 * scaled.astype("f8")).astype("u1").transpose(1, 2, 0)
            numpy.testing.assert_array_equal(sheet[y:y + 15, x:x + 12], expected.repeat(3, 0).repeat(3, 1))

    def test_show_in_grey(self):
        numpy.save(self.path("grey.npy"), CONTENT[:, :2])
        self.gconv("bank", "show", "grey.npy", "-o", "s.png", "--zoom", "1", "--columns", "1", "--scale", "all")
        with Image.open(self.path("s.png")) as image:
            self.assertEqual(image.mode, "L")
        sheet = self.pixels("s.png")
        expected = numpy.rint(128 + 127 * (CONTENT[:, :2].astype("f8") / numpy.abs(CONTENT[:, :2]).max()))
        numpy.testing.assert_array_equal(sheet[2:7, 2:6], expected[0, 0])
        numpy.testing.assert_array_equal(sheet[2:7, 7:11], expected[0, 1])
        numpy.testing.assert_array_equal(sheet[9:14, 2:6], expected[1, 0])

    def test_show_has_good_shapes(self):
        """Whatever is drawn is neither a thread nor a huge sheet."""
        for shape in ((1, 1, 1, 1), (64, 3, 7, 7), (96, 1, 11, 11), (512, 4, 3, 3), (2, 256, 3, 3), (17, 3, 1, 9), (1, 64, 1, 1)):
            numpy.save(self.path("x.npy"), numpy.ones(shape, "f4"))
            self.gconv("bank", "show", "x.npy", "-o", "x.png")
            with Image.open(self.path("x.png")) as image:
                width, height = image.size
            self.assertLess(max(width / height, height / width), 4.5, shape)
            self.assertLessEqual(max(width, height), 1600, shape)

    def test_usage(self):
        self.usage_error("info, show or convert is expected", "bank")
        self.usage_error("frob: info, show or convert is expected", "bank", "frob")
        for part in ("show", "convert"):
            self.usage_error("name a bank", "bank", part, "-o", "x.png")
        self.usage_error("name a file of banks", "bank", "info")
        self.usage_error("say with -o which picture", "bank", "show", "b.npy")
        self.usage_error("--zoom", "bank", "show", "b.npy", "-o", "x.png", "--zoom", "0")
        self.usage_error("name one bank, or several plain filters", "bank", "convert", "b.npy", "sobel_x", "-o", "x.txt")
        self.usage_error("banks are written as text", "bank", "convert", "b.npy", "-o", "x.png")
        self.usage_error("there is no syntax of banks called 'onx'", "bank", "convert", "b.npy", "--format", "onx")
        self.usage_error("for which .npy has no place", "bank", "convert", "w.safetensors:conv1", "-o", "x.npy")
        self.usage_error("has 2 banks: say which", "bank", "convert", "w.safetensors", "-o", "x.txt")
        self.usage_error("there is no filter 'nothing'", "bank", "show", "nothing", "-o", "x.png")

    def test_nothing_is_written_over_what_is_read(self):
        os.link(self.path("b.npy"), self.path("hard.npy"))
        for words in (("show", "b.npy", "-o", "b.npy"), ("show", "b.npy", "-o", "hard.npy"), ("convert", "b.npy", "-o", "./b.npy"),
                      ("convert", "w.safetensors:half.weight", "-o", "w.safetensors")):
            self.usage_error("this output is one of the files of filters: choose another name", "bank", *words)

    def test_places_for_the_picture(self):
        """A device has no extension; a name that has none tells no format, and a terminal shows no picture."""
        self.assertIn("/dev/full: cannot write: No space", self.gconv("bank", "show", "b.npy", "-o", "/dev/full", status=1).stderr)
        self.gconv("bank", "show", "b.npy", "-o", "/dev/null")
        self.assertEqual(self.gconv("bank", "show", "b.npy", "-o", "-", text=False).stdout[1:4], b"PNG")
        with open(self.path("x"), "wb") as file:
            subprocess.run([GCONV, "bank", "show", "b.npy", "-o", "/dev/stdout"], cwd=self.folder, env=self.environment(), stdout=file,
                           check=True)
        self.assertEqual(self.path("x").read_bytes()[1:4], b"PNG")
        said = self.usage_error("x.psd: its name does not tell the format", "bank", "show", "b.npy", "-o", "x.psd").stderr
        self.assertNotIn("--format", said)  # which it does not have
        master, slave = pty.openpty()
        result = subprocess.run([GCONV, "bank", "show", "b.npy", "-o", "-"], cwd=self.folder, env=self.environment(), stdout=slave,
                                stderr=subprocess.PIPE, check=False)
        os.close(slave)
        os.close(master)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"an image is not written to a terminal", result.stderr)

    def test_hostile_files_leave_nothing(self):
        content = self.path("w.safetensors").read_bytes()
        cases = {"cut": (content[:-1], "was it downloaded completely?"),
                 "header of 4 GB": (struct.pack("<Q", 1 << 32) + content[8:], "claim a header of 4294967296 bytes"),
                 "nan": (safetensors({"w.weight": numpy.full((1, 1, 1, 1), numpy.nan, "f4")}), "is nan in float32"),
                 "5-D": (safetensors({"w.weight": numpy.ones((1, 1, 1, 1, 1), "f4")}), "has 5 dimensions")}
        for content, fragment in cases.values():
            self.path("bad.safetensors").write_bytes(content)
            self.usage_error(fragment, "bank", "convert", "bad.safetensors", "-o", "x.txt")
        numpy.save(self.path("object.npy"), numpy.array([[[[None]]]], dtype=object))
        self.usage_error("'|O'", "bank", "convert", "object.npy", "-o", "x.txt", "--filter-format", "npy")


if __name__ == "__main__":
    unittest.main()
