#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names that hold commands to a terminal: of files, folders, filters, tensors, and in the contents of files.

Every command, and every option that takes a value, gets such names. What it prints must not have a byte that a terminal obeys,
and no line that a name began.
"""
import json
import os
import re
import struct
import unittest
import zlib

import helper
import numpy

# A title of the window, an end of line, a colour by U+009B in UTF-8 and as a byte of its own, a bell, DEL and others.
EVIL = b"a\x1b]0;title\x07\nFORGED\xc2\x9b31m\x9b2J\x7f\x01\r\t\xc2\x85z"


def evil(text):
    """The same in a text: as names of tensors and members of archives can have it."""
    return EVIL.replace(b"\x9b2J", b"").decode() + text


class Names(helper.CommandTest):
    def setUp(self):
        super().setUp()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")
        self.photo("plain.png")
        self.photo("other.png", seed=1)
        with open("plain.png", "rb") as file:
            self.png = file.read()
        with open("other.png", "rb") as file:
            other = file.read()
        self.image = self.write(b".png", self.png)
        self.bad_image = self.write(b"bad.png", self.png[:60] + b"\x1b[2J\x9b" * 9)
        self.filter = self.write(b".txt", b"0 1 0\n1 -4 1\n0 1 0\n")
        self.bad_filter = self.write(b"bad.txt", b"0 1 \x1b]0;x\x07\xc2\x9b1m 0\n1 2\n")
        for folder in (EVIL + b"in", EVIL + b"to"):
            os.mkdir(folder)
            for name, content in ((b"x.png", self.png), (EVIL + b"y.png", self.png), (b"only" + folder[-2:] + b".png", self.png)):
                self.write_file(folder + b"/" + name, content)
        self.write_file(EVIL + b"to/x.png", other)
        os.mkdir(EVIL + b"filters")
        self.write_file(EVIL + b"filters/" + EVIL + b".txt", b"# says \x1b[2J\xc2\x9b\x9b of itself\r\n0 1 0\n1 -4 1\n0 1 0\n")
        self.write_file(EVIL + b"filters/mine.txt", b"# says \x1b[2J\xc2\x9b\x9b of itself\r\n0 1 0\n1 -4 1\n0 1 0\n")

    @staticmethod
    def write_file(path, content):
        with open(path, "wb") as file:
            file.write(content)
        return path

    def write(self, end, content):
        return self.write_file(EVIL + end, content)

    def run_it(self, *words, env=None, stdin=None):
        """Runs gconv, whatever it ends with, and looks at all that it prints."""
        environment = {os.fsencode(name): os.fsencode(value) for name, value in self.environment(env).items()}
        words = [os.fsencode(word) for word in words]
        result = helper.subprocess.run([os.fsencode(helper.GCONV), *words], input=stdin, env=environment, capture_output=True,
                                       timeout=60, check=False)
        self.assertGreaterEqual(result.returncode, 0, words)
        for printed in (result.stdout, result.stderr):
            self.assert_harmless(printed, words)
        return result

    def assert_harmless(self, printed, words):
        for character in printed.decode("utf-8", "surrogateescape"):
            code = ord(character)
            obeyed = (code < 0x20 and character != "\n") or 0x7F <= code <= 0x9F or 0xDC80 <= code <= 0xDC9F
            self.assertFalse(obeyed, f"{words} prints {code:#x} in {printed!r}")
        self.assertNotRegex(printed, rb"(?m)^FORGED", words)

    def test_every_command_has_its_cases(self):
        known = {"filter", "make", "filters", "info", "compare", "stats", "deconvolve", "volume", "fit", "bank", "devices", "algorithms", "bench", "tune", "help", "train", "classify", "svm"}
        commands = re.findall(r"(?m)^  ([a-z]+)  ", self.gconv("help").stdout.split("Commands:")[1])
        self.assertEqual(set(commands), known, "a new command belongs into the tests of this file")

    def test_jobs(self):
        job = ("-i", self.image, "-f", self.filter, "-o", EVIL + b"out/")
        for words in ((), ("--dry-run",), ("--dry-run", "--explain"), ("--explain", "-v"), ("--timings",), ("--timings=json",),
                      ("--verify",), ("--verify", "--timings=json"), ("--resume", "-v"), ("--resume", "--dry-run"), ("--no-clobber",),
                      ("--algorithm", "direct,sparse"), ("--suffix", EVIL), ("--format", "jpg", "-v"), ("--mask", self.image)):
            self.run_it(*job, *words)
        for words in (("-i", EVIL + b"in", "-f", self.filter, "-f", "sobel_x", "-o", EVIL + b"out/", "--timings"),
                      ("-i", EVIL + b"in", self.bad_image, "-f", "sobel", "-o", EVIL + b"out/", "--timings"),
                      ("-i", self.bad_image, "-f", "sobel", "-o", EVIL + b"out.png", "--timings=json"),
                      ("-i", self.image, "-f", self.bad_filter, "-o", "o.png"), ("-i", self.image, "-f", "sobel", "-o", EVIL),
                      ("-i", self.image, "-f", "sobel", "-o", EVIL + b"/x/y.png"), ("-i", EVIL, "-f", "sobel", "-o", "o.png"),
                      ("-i", EVIL + b"*", "-f", "sobel", "-o", "o/"), ("-i", self.image + b":" + EVIL, "-f", "sobel", "-o", "o.png"),
                      ("-i", self.image, "-f", EVIL + b":size=3", "-o", "o.png"), ("-i", self.image, "-f", "gaussian:" + evil(""), "-o", "o.png"),
                      ("-i", self.image, "-f", b"3x3: " + EVIL, "-o", "o.png"), ("-i", self.image, "-f", b"[0 " + EVIL + b"]", "-o", "o.png"),
                      ("-i", self.image, "-i", self.image, "-f", "sobel", "-o", EVIL + b"o/"), (EVIL,), (EVIL, "a", "b"), ("sobel", EVIL, EVIL),
                      ("sobel", self.image, EVIL + b"{stem}{" + EVIL + b"}.png")):
            self.run_it(*words)
        self.run_it("-i", "-", "-f", "sobel", "-o", EVIL + b"out.png", "--timings", "-v", stdin=EVIL * 9)

    def test_training_and_classifying(self):
        label = evil("").replace('"', "").encode()
        rows = b'x,y,"%s"\n' % label + b"".join(b'%d,%d,"%s"\n' % (i % 5, i % 3, label if i % 2 else b"b") for i in range(40))
        self.run_it("train", "--table", self.write(b"latin.csv", rows + b'1,2,"%s"\n' % EVIL), "--net", "dense 2 softmax", "-o", "n.safetensors")
        table, network = self.write(b".csv", rows), EVIL + b".safetensors"
        bad = self.write(b"bad.csv", rows + b'1,2\n')
        net = ("--net", "dense 2 softmax", "--epochs", "2")
        self.assertEqual(self.run_it("train", "--table", table, *net, "-o", network, "--report", EVIL + b".html", "--plot", EVIL + b".svg").returncode, 0)
        self.run_it("train", "--table", table, *net, "-o", network, "--json", "--validate", "20%")
        self.assertEqual(self.run_it("classify", network, "-i", table, "--evaluate").returncode, 0)
        self.run_it("classify", network, "-i", table, "--evaluate", "--json")
        for words in (("--table", bad), ("--table", table, "--label", EVIL), ("--table", EVIL), ("--classes", EVIL + b"in"), ("-i", EVIL + b"in", "-t", EVIL + b"to"),
                      ("--table", table, "--validate", EVIL), ("--signal", table, "--windows", "2"), (EVIL,), ("--table", table, "--net", EVIL)):
            self.run_it("train", *net, "-o", network, *words)
        for words in ((bad, "-i", table), (network, "-i", bad), (network, "-i", EVIL), (EVIL,), (network, "-i", table, "-o", EVIL + b"/x.csv")):
            self.run_it("classify", *words)

    def test_json_keeps_names(self):
        name = evil(".png")
        self.write_file(os.fsencode(name), self.png)
        report = self.run_it("-i", name, "-f", "sobel_x", "-o", evil("out.png"), "--timings=json").stdout
        line = json.loads(report.splitlines()[0])
        self.assertEqual((line["input"], line["outputs"]), (name, [evil("out.png")]))
        found = json.loads(self.run_it("compare", name, "plain.png", "--json").stdout)
        self.assertEqual(found["a"], name)

    def test_values_of_every_option(self):
        for command in ("filter", "make", "info", "compare", "fit", "bank info", "bank show", "bank convert", "bench", "tune"):
            text = self.gconv(*command.split(), "--help").stdout
            options = re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)[ \[]", text)
            self.assertIn("--help", re.findall(r"--[a-z-]+", text))
            measures = ("--runs", "x") if command in ("bench", "tune") else ()  # is refused: nothing is measured
            for option in options:
                self.run_it(*command.split(), option, EVIL, *measures)
            self.run_it(*command.split(), "--json" + evil(""), "1")
        self.run_it("--" + evil(""), "x")
        self.run_it("-" + evil(""), "x")

    def test_other_commands(self):
        for words in (("info", self.image, self.filter, self.bad_image, self.bad_filter, EVIL, EVIL + b"/in"), ("info", self.image + b":9"),
                      ("make", self.filter), ("make", self.bad_filter), ("make", self.filter, self.filter), ("make", self.filter, "-o", EVIL + b".txt"),
                      ("make", EVIL), ("compare", self.image, "other.png"), ("compare", self.image, self.bad_image), ("compare", EVIL, EVIL),
                      ("compare", EVIL + b"in", EVIL + b"to"), ("compare", EVIL + b"in", EVIL + b"to", "--json"),
                      ("compare", EVIL + b"in", EVIL + b"to", "-o", EVIL + b"diff/"), ("compare", EVIL + b"in", self.image),
                      ("compare", self.image, "other.png", "-o", EVIL + b".nothing"), ("fit", "-i", self.image, "-t", EVIL, "-s", "3"),
                      ("fit", "-i", EVIL + b"in", self.image, "-t", EVIL + b"to", "-s", "3"), ("fit", "-i", self.image, "-t", self.bad_image, "-s", "3"),
                      ("fit", "-i", self.image, "-t", self.image, "-s", "1", "-o", EVIL + b"/x"), ("help", EVIL), ("help", "x" + evil("")), ("devices", EVIL),
                      ("algorithms", EVIL), ("bank", EVIL), ("bank", "info", EVIL), ("bank", "show", EVIL), ("complete", "-f", EVIL),
                      ("bench", "-f", self.filter, "--image", "8x8", "--runs", "1", "-a", "direct"),
                      ("bench", "-f", self.filter, "--image", "8x8", "--runs", "1", "-a", "direct", "--csv"),
                      ("bench", "-f", self.filter, "--image", "8x8", "--runs", "1", "-a", "direct", "--json"), ("bench", "-f", EVIL), ("tune", EVIL)):
            self.run_it(*words)

    def test_folder_of_filters(self):
        env = {"GCONV_FILTERS": os.fsdecode(EVIL + b"filters")}
        for words in (("filters",), ("filters", "itself"), ("complete", "-f", ""), ("help", "mine"), ("info", "mine"), ("make", "mine")):
            self.run_it(*words, env=env)
        self.run_it("filters", env={"GCONV_FILTERS": os.fsdecode(EVIL + b"nothing")})
        self.assertIn(b"mine", self.run_it("complete", "filter", "-f", "", env=env).stdout)

    def test_banks(self):
        weights = numpy.zeros((2, 3, 3, 3), "<f4")
        header = {evil("one"): {"dtype": "F32", "shape": [2, 3, 3, 3], "data_offsets": [0, weights.nbytes]},
                  "two": {"dtype": evil("type"), "shape": [1], "data_offsets": [weights.nbytes, weights.nbytes]}}
        for number, text in enumerate((json.dumps({evil("one"): header[evil("one")]}), json.dumps(header), '{"\x1b]0;"' + evil("z"))):
            path = EVIL + str(number).encode() + b".safetensors"
            self.write_file(path, struct.pack("<Q", len(text.encode())) + text.encode() + weights.tobytes())
            for words in (("bank", "info", path), ("bank", "info", path, "--json"), ("bank", "info", path + b":nothing"), ("bank", "convert", path),
                          ("bank", "show", path, "-o", EVIL + b"sheet.png"), ("info", path), ("-i", self.image, "-f", path, "-o", EVIL + b"o/", "--explain"),
                          ("-i", self.image, "-f", path + b":" + EVIL, "-o", "o.npy", "--timings", "--verify")):
                self.run_it(*words)
        numpy.savez(os.fsdecode(EVIL + b".npz"), **{evil("name").replace("/", ""): weights, "b": weights})
        self.run_it("bank", "info", EVIL + b".npz")
        self.run_it("bank", "convert", EVIL + b".npz")
        self.write(b"bank.txt", b"gconv-bank 1\nfilters 1 channels 1 size 1 1\nfilter \"" + EVIL.replace(b"\n", b"") + b"\"\n1\n")
        self.run_it("bank", "info", EVIL + b"bank.txt")
        self.run_it("bank", "convert", EVIL + b"bank.txt")
        self.run_it("-i", self.image, "-f", EVIL + b"bank.txt", "-o", "o/", "--combine", "none", "--dry-run")
        self.write_file(b"c1.txt", b'gconv-bank 1\nfilters 1 channels 1 size 1 1\nfilter "a \xc2\x9b31m"\n1\n')  # ESC is refused, this is not
        self.assertEqual(self.run_it("bank", "convert", "c1.txt").returncode, 0)

    def test_contents_of_files(self):
        """Errors and warnings quote what is in a file, and so do libraries."""
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        text = chunk(b"tEXt", b"Comment\0" + EVIL)
        kind = chunk(b"\x1b]0;", EVIL)
        for end, content in ((b"c.png", self.png[:33] + text + self.png[33:]), (b"d.png", self.png[:33] + kind + self.png[33:]),
                             (b"e.pgm", b"P5 #" + EVIL + b"\n" + EVIL + b" 255\n0"), (b"f.ppm", b"P6\n3 " + EVIL), (b"g.pam", b"P7\nTUPLTYPE " + EVIL),
                             (b"h.npy", b"\x93NUMPY\1\0\x76\0{'descr': '" + EVIL), (b"i.jpg", b"\xff\xd8\xff\xfe\0\x20" + EVIL), (b"j.pfm", b"PF\n" + EVIL),
                             (b"k.tif", b"II*\0" + EVIL), (b"l.webp", b"RIFF\0\0\0\0WEBP" + EVIL)):
            path = self.write(end, content)
            self.run_it("info", path)
            self.run_it("-i", path, "-f", "sobel", "-o", EVIL + b"o.png", "-v")
        yaml = b'%YAML:1.0\n"' + EVIL.replace(b"\n", b"") + b'": !!opencv-matrix\n  rows: 1\n  cols: 1\n  dt: f\n  data: [1]\n'
        for end, content in ((b"m.yml", yaml), (b"n.xml", b"<?xml version=\"1.0\"?><opencv_storage><" + EVIL + b">"), (b"o.txt", b"3x3: " + EVIL),
                             (b"p.txt", b"[[1, " + EVIL + b"]]"), (b"q.txt", b"3 3 " + EVIL), (b"r.onnx", EVIL * 9)):
            path = self.write(end, content)
            self.run_it("info", path)
            self.run_it("make", path)
            self.run_it("-i", self.image, "-f", path, "-o", EVIL + b"o.png", "--explain", "--dry-run")


if __name__ == "__main__":
    unittest.main()
