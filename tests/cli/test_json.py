# SPDX-License-Identifier: MIT
"""JSON is valid and complete whatever the names are: bytes that are no UTF-8 are escaped as Python's backslashreplace does."""
import io
import json
import os
import unittest
import zipfile

import numpy
import scale_files

from helper import CommandTest

# In the order of their bytes: whole characters and parts of such, longer forms, surrogates, what is above U+10FFFF, control
# characters that terminals obey.
NAMES = [b"plain", b"a\"b", b"back\\slash", b"\xc3\xa4.png", b"caf\xe9", b"\xe2\x82", b"\xe2\x28\xa1", b"\xc0\x80", b"\xc1\xbf", b"\xed\xa0\x80",
         b"\xed\x9f\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80",
         b"\xf5\x80\x80\x80", b"\xff\xfe", b"\x80", b"x\xc2\x9b31m", b"\x7f", b"\xf0\x9f\x99", b"\xf0\x9f\x99\x82"]


def shown(name):
    return name.decode("utf-8", "backslashreplace")


def kept(name):
    """A name in a bank as it is kept: '?' stands for what a terminal may take for a command."""
    text = name.decode("utf-8", "surrogateescape")
    text = "".join("??" if "\x80" <= c <= "\x9f" else "?" if c == "\x7f" or "\udc80" <= c <= "\udc9f" else c for c in text)
    return shown(text.encode("utf-8", "surrogateescape"))


class Names(CommandTest):
    def json(self, *words, status=0):
        out = self.gconv(*words, status=status, text=False).stdout
        for control in (b"\x1b", b"\x7f", b"\xc2\x9b"):
            self.assertNotIn(control, out)
        return json.loads(out.decode("utf-8"))  # which refuses what is no UTF-8

    def test_npz(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for i, name in enumerate(NAMES):
                archive.writestr("%06d" % i + "." * len(name) + ".npy", scale_files.npy(numpy.full((1, 2, 1, 1), i / 2, "f4")))
        data = file.getvalue()
        for i, name in enumerate(NAMES):
            data = data.replace(b"%06d" % i + b"." * len(name), b"%06d" % i + name)
        (self.folder / "b.npz").write_bytes(data)
        (entries,) = [one["entries"] for one in self.json("bank", "info", "b.npz", "--json")]
        self.assertEqual([entry["name"] for entry in entries],
                         [shown(b"%06d" % i + name.replace(b"\x7f", b"?")) for i, name in enumerate(NAMES)])
        self.assertEqual([entry["weights"]["sum"] for entry in entries], list(range(len(NAMES))))

    def test_onnx(self):
        nodes = b"".join(scale_files.field(1, scale_files.CONV + scale_files.field(1, b"x") + scale_files.field(1, b"w") +
                                           scale_files.field(3, b"%d " % i + name)) for i, name in enumerate(NAMES))
        weights = scale_files.field(5, scale_files.WEIGHTS + scale_files.field(8, b"w"))
        (self.folder / "b.onnx").write_bytes(scale_files.onnx(nodes + weights))
        (entries,) = [one["entries"] for one in self.json("bank", "info", "b.onnx", "--json")]
        self.assertEqual([entry["name"] for entry in entries],
                         [kept(b"%d " % i + name) for i, name in enumerate(NAMES)])

    def test_files(self):
        folder = os.fsencode(self.folder)
        for side in (b"a", b"b"):
            os.mkdir(folder + b"/" + side)
            for i, name in enumerate(NAMES):
                with open(folder + b"/" + side + b"/%02d" % i + name + b".pgm", "wb") as file:
                    file.write(b"P5 1 1 255\n" + bytes([i]))
        names = [shown(b"%02d" % i + name + b".pgm") for i, name in enumerate(NAMES)]
        found = self.json("compare", "a", "b", "--json")
        self.assertEqual([pair["a"] for pair in found["pairs"]], [f"a/{name}" for name in names])
        lines = self.gconv("-i", "a", "-f", "identity", "-o", "out/", "--timings=json", text=False).stdout
        self.assertNotIn(b"\xc2\x9b", lines)
        inputs = [json.loads(line)["input"] for line in lines.decode("utf-8").splitlines()[:-1]]
        self.assertEqual(sorted(inputs), sorted(f"a/{name}" for name in names))
        (self.folder / "f.txt").write_text("1 2\n3 4\n")
        os.rename(folder + b"/f.txt", folder + b"/caf\xe9.txt")
        (found,) = self.json("bank", "info", os.fsdecode(b"caf\xe9.txt"), "--json")
        self.assertEqual(found["spec"], "caf\\xe9.txt")

    def test_a_file_that_cannot_be_read_is_told_among_the_others(self):
        for side in "ab":
            (self.folder / side).mkdir()
            (self.folder / side / "1.pgm").write_bytes(b"P5 1 1 255\n\0")
            (self.folder / side / "2.pgm").write_bytes(b"P5 1 1 255\n\0" if side == "a" else b"no image")
        found = self.json("compare", "a", "b", "--json", status=2)
        self.assertEqual([pair["above"] for pair in found["pairs"]], [False, None])


class Bools(CommandTest):
    def test_any_byte_but_0_is_true(self):
        """As NumPy itself reads them."""
        values = numpy.array([0, 1, 2, 128, 255, 0, 7, 1], numpy.uint8)
        expected = (values.view(bool) != 0).astype("f4")  # numpy tests each byte against 0
        data = scale_files.npy(values.reshape(2, 1, 2, 2)).replace(b"|u1", b"|b1")
        (self.folder / "b.npy").write_bytes(data)
        self.gconv("bank", "convert", "b.npy", "-o", "f.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "f.npy").ravel(), expected)
        (self.folder / "f.npy").write_bytes(scale_files.npy(values.reshape(2, 4)).replace(b"|u1", b"|b1"))
        self.gconv("make", "f.npy", "-o", "plain.txt")
        numpy.testing.assert_array_equal(numpy.loadtxt(self.folder / "plain.txt").ravel(), expected)
        self.gconv("-i", "f.npy", "-f", "identity", "-o", "image.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "image.npy").ravel(), 255 * expected)
        with zipfile.ZipFile(self.folder / "b.npz", "w") as archive:
            archive.writestr("w.npy", data)
        self.gconv("bank", "convert", "b.npz", "-o", "z.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "z.npy").ravel(), expected)


if __name__ == "__main__":
    unittest.main()
