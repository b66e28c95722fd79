# SPDX-License-Identifier: MIT
"""What goes wrong around the files: absurd headers, loops of links, results that would replace a filter, things that vanish
while gconv runs, several runs in one folder. Each ends in one clear message, and nothing is lost or half written."""
import os
import resource
import shutil
import socket
import struct
import subprocess
import unittest
import zlib

import numpy
from PIL import Image

from helper import GCONV, CommandTest


def png_header(width, height, depth=8, colour=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b""))


def npy_header(kind, shape):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


class Headers(CommandTest):
    def refused(self, name, data, fragment, *words):
        (self.folder / name).write_bytes(data)
        before = self.snapshot()
        said = self.gconv("-i", name, "-f", "identity", "-o", "x.png", *words, status=1).stderr
        self.assertRegex(said, rf"^gconv: {name}: [^\n]*\n$")
        self.assertIn(fragment, said)
        self.assertEqual(self.snapshot(), before)

    def test_png(self):
        largest = 2**31 - 1
        for width, height in ((largest, largest), (largest, 1), (1, largest)):
            self.refused("a.png", png_header(width, height), f"{width} x {height} pixels; the limit is 1073741824: raise it with")
        self.refused("a.png", png_header(1, largest), "the limit is 262144 pixels a byte", "--max-pixels", "3G")
        self.refused("a.png", png_header(1, 2**20), "Not enough image data")
        (self.folder / "all.png").write_bytes(png_header(largest, largest))
        said = self.gconv("-i", "all.png", "-f", "identity", "-o", "x.png", "--max-pixels", "9999999999G", status=1).stderr
        self.assertIn("in 66 bytes, which is no picture: the limit is 262144 pixels a byte\n", said)
        self.assertEqual(self.files(), ["a.png", "all.png"])
        self.refused("a.png", png_header(2**32 - 1, 5), "damaged PNG")
        self.refused("a.png", png_header(5, 5, 3), "damaged PNG")
        self.refused("a.png", png_header(5, 5, 8, 7), "damaged PNG")

    def test_netpbm(self):
        for data, fragment in ((b"P5 99999999999999999999 1 255\n", "its width is over"), (b"P5 -1 5 255\n", "not a whole number"),
                               (b"P5 5 5 0\n", "maxval of 0"), (b"P5 5 5 65536\n", "its maxval is over 65535"),
                               (b"P5 5", "the file ends too early"), (b"P2 2 1 9\n1 10", "its sample is over 9"),
                               (b"P2 2 1 9\n1", "the file ends too early"), (b"P1 2 1\n1 2", "a bit is not 0 or 1"),
                               (b"P7\nWIDTH 5\nHEIGHT 5\nDEPTH 0\nMAXVAL 1\nENDHDR\n", "no valid DEPTH"),
                               (b"P7\nWIDTH 5\n", "the file ends too early"), (b"PF\n5 5\nnan\n", "its scale nan"),
                               (b"PF\n5 5\n-1.0\n" + b"x" * 299, "the file ends too early")):
            self.refused("a.pnm", data, fragment)

    def test_npy(self):
        for header, fragment in ((npy_header("|u1", "(1099511627776, 5)"), "it must be 1 to 2^31 - 1"),
                                 (npy_header("|u1", "(18446744073709551615, 5)"), "larger than any memory"),
                                 (npy_header("|u1", "(-3, 5)"), "expected a whole number"),
                                 (npy_header("|u1", "(2147483647, 2147483647)"), "the file ends too early"),
                                 (npy_header("|O", "(3, 5)"), "'|O'"), (npy_header("<c8", "(3, 5)"), "'<c8'"),
                                 (npy_header("|u1", "(3,)"), "1 dimension;"), (b"\x93NUMPY\1\0\xff\xffshort", "ends too early"),
                                 (b"\x93NUMPY\x09\0\x10\0short", "version 9")):
            self.refused("a.npy", header, fragment)

    def test_cut_files_of_other_kinds(self):
        """Progressive and interlaced ones, 16 bits, floats; test_errors.py has the usual."""
        photo = numpy.random.default_rng(0).integers(0, 256, (90, 70, 3), dtype=numpy.uint8)
        Image.fromarray(photo).save(self.folder / "p.jpg", progressive=True)
        Image.fromarray(photo[..., 0].astype("u2") * 255).save(self.folder / "g.png")
        self.gconv("-i", "p.jpg", "-f", "identity", "-o", "f.pfm", "--depth", "float")
        self.gconv("-i", "p.jpg", "-f", "identity", "-o", "a.pam")
        for name in ("p.jpg", "g.png", "f.pfm", "a.pam"):
            data = (self.folder / name).read_bytes()
            for eighth in range(1, 8):
                self.refused(f"cut.{name}", data[:len(data) * eighth // 8], "the file ends too early")

    def test_filters_that_are_no_arrays_of_numbers(self):
        self.photo("a.png")
        for array, fragment in ((numpy.full((3, 3), numpy.nan), "is not finite"), (numpy.full((3, 3), 1e300), "is not finite"),
                                (numpy.ones((0, 3, 3)), "without elements"), (numpy.ones((3, 3), "c8"), "'<c8'"),
                                (numpy.array([["a"]]), "'<U1'"), (numpy.array([[{}]]), "'|O'")):
            numpy.save(self.folder / "k.npy", array)
            self.usage_error(fragment, "-i", "a.png", "-f", "k.npy", "-o", "x.png")
        self.usage_error("a.png: is a PNG image, not a filter", "-i", "a.png", "-f", "a.png", "-o", "x.png")


class Sizes(CommandTest):
    def test_files_that_claim_to_be_empty(self):
        """Those of /proc have content, of which their size says nothing. None of them is an image, a filter or a bank."""
        for words in (("info", "/proc/version"), ("make", "/proc/version", "-o", "x.npy"), ("bank", "info", "/proc/version"),
                      ("-i", "a.pgm", "-f", "/proc/version", "-o", "o.pgm"), ("-i", "/proc/version", "-f", "identity", "-o", "o.pgm")):
            (self.folder / "a.pgm").write_bytes(b"P5 1 1 255\n\0")
            with self.subTest(words):
                result = subprocess.run([GCONV, *words], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, timeout=10,
                                        check=False)
                self.assertIn(result.returncode, (1, 2))
                self.assertRegex(result.stderr.decode(), r"^gconv: /proc/version[:0-9]*: ")
        self.assertEqual(self.files(), ["a.pgm"])


class Places(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = self.photo("a.png")

    def job(self, output, *words):
        return ("-i", "a.png", "-f", "identity", "-o", output, *words)

    def test_a_result_does_not_replace_a_filter(self):
        numpy.save(self.folder / "k.npy", numpy.ones((3, 3), "f4"))
        numpy.save(self.folder / "bank.npy", numpy.ones((2, 3, 3, 3), "f4"))
        numpy.save(self.folder / "second.npy", numpy.ones((2, 2, 3, 3), "f4"))
        os.symlink("k.npy", self.folder / "link.npy")
        os.link(self.folder / "k.npy", self.folder / "hard.npy")
        for output in ("k.npy", "link.npy", "hard.npy", "./{filter}.npy"):
            self.usage_error("this output is one of the files of filters: choose another name", "-i", "a.png", "-f", "k.npy", "-o", output)
        self.usage_error("bank.npy: this output is one of the files", "-i", "a.png", "-f", "bank.npy", "-o", "bank.npy")
        chain = ("-i", "a.png", "-f", "bank.npy", "--then", "-f", "second.npy", "-o")
        for output in ("bank.npy", "second.npy"):
            self.usage_error(f"{output}: this output is one of the files of filters", *chain, output)
        self.gconv(*chain, "new.npy")
        self.gconv("-i", "a.png", "-f", "k.npy", "-o", "K.npy")

    def test_loops_of_links(self):
        os.symlink("there", self.folder / "here.png")
        os.symlink("here.png", self.folder / "there")
        os.symlink("nowhere.png", self.folder / "dangling.png")
        self.usage_error("here.png: cannot find this input: Too many levels", "-i", "here.png", "-f", "identity", "-o", "x.png")
        for output in ("there/x.png", "there/"):
            self.usage_error("there: Too many levels", *self.job(output))
        self.assertIn("Too many levels", self.gconv(*self.job("here.png"), status=1).stderr)
        self.assertIn("link to a file that does not exist", self.gconv(*self.job("dangling.png"), status=1).stderr)
        self.assertEqual(self.files(), ["a.png", "dangling.png", "here.png", "there"])

    def test_standard_output_by_its_name(self):
        """A link to a pipe, which has no name that it could be resolved to."""
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            data = self.gconv(*self.job(name, "--format", "png"), text=False).stdout
            self.assertEqual(data, self.gconv(*self.job("-"), text=False).stdout)

    def test_a_name_of_two_lines_is_told_in_one(self):
        (self.folder / "two\nlines.png").write_bytes(b"")
        said = self.gconv("-i", "two\nlines.png", "-f", "identity", "-o", "x.png", status=1).stderr
        self.assertEqual(said, "gconv: two?lines.png: the file is empty\n")

    def test_a_pattern_tells_of_folders_it_cannot_look_into(self):
        self.photo("p/open/a.png")
        self.photo("p/closed/b.png")
        self.folder.chmod(0o777)
        (self.folder / "p/closed").chmod(0)
        self.addCleanup((self.folder / "p/closed").chmod, 0o755)
        for words in (("-i", "p/*/*.png"), ("-i", "p", "-r")):
            result = self.gconv(*words, "-f", "identity", "-o", "out/", status=3, unprivileged=True)
            self.assertRegex(result.stderr, r"^gconv: p/.*: cannot look into .*: Permission denied\n$")
            self.assertEqual(len(self.files("out")), 1)

    def test_names_that_are_too_long(self):
        said = self.gconv(*self.job("n" * 300 + ".png"), status=1).stderr
        self.assertTrue(said.endswith("File name too long\n"), said)
        self.assertEqual(self.files(), ["a.png"])

    def test_sockets(self):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(self.folder / "s"))
        for words in (("-i", "s", "-f", "identity", "-o", "x.png"), self.job("s", "--format", "png")):
            self.assertIn("s: cannot open", self.gconv(*words, status=1).stderr)
        self.assertFalse((self.folder / "x.png").exists())

    def test_manifests_of_no_use(self):
        words = self.job("out/", "--resume")
        (self.folder / "out/.gconv-manifest").mkdir(parents=True)
        said = self.gconv(*words, status=1).stderr
        self.assertIn("out/.gconv-manifest: cannot open: Is a directory: make it a file that can be written, or remove it", said)
        self.assertEqual(self.files("out"), [])
        (self.folder / "out/.gconv-manifest").rmdir()
        for content in (os.urandom(100000), b"\0" * 100000, b"x" * 1000000, b"\n" * 1000, b"\t\t\t\t\t\t\t\n"):
            (self.folder / "out/.gconv-manifest").write_bytes(content)
            self.gconv(*words)
            self.assert_pixels("out/a.png", self.source)
            self.assertIn("1 result was done", self.gconv(*words).stderr)


class Meanwhile(CommandTest):
    """gconv waits for a pipe, its first input, while something happens to the rest."""

    def setUp(self):
        super().setUp()
        self.source = self.photo("pipe.pgm", channels=1)
        self.data = (self.folder / "pipe.pgm").read_bytes()
        (self.folder / "pipe.pgm").unlink()
        os.mkfifo(self.folder / "pipe.pgm")

    def run_while(self, happens, *words):
        with subprocess.Popen([GCONV, "-i", "pipe.pgm", *words, "--jobs", "1"], cwd=self.folder, env=self.environment(),
                              stderr=subprocess.PIPE) as process:
            with open(self.folder / "pipe.pgm", "wb") as pipe:  # gconv is at the pipe now
                happens()
                pipe.write(self.data)
            said = process.communicate(timeout=60)[1].decode()
        return process.returncode, said

    def test_inputs_vanish_and_are_cut(self):
        for i in range(3):
            self.photo(f"{i}.png", seed=i)

        def happens():
            (self.folder / "0.png").unlink()
            os.truncate(self.folder / "1.png", 100)

        status, said = self.run_while(happens, *(w for i in range(3) for w in ("-i", f"{i}.png")), "-f", "identity", "-o", "out/")
        self.assertEqual(status, 3)
        self.assertEqual(said, "gconv: 0.png: cannot open: No such file or directory\n"
                               "gconv: 1.png: the file ends too early, in its PNG data\ngconv: 2 of 4 written\n")
        self.assertEqual(self.files("out"), ["2.png", "pipe.png"])
        self.assert_pixels("out/pipe.png", self.source)

    def test_the_folder_of_results_vanishes(self):
        (self.folder / "out").mkdir()
        status, said = self.run_while((self.folder / "out").rmdir, "-f", "identity", "-o", "out/x.png")
        self.assertEqual((status, said), (1, "gconv: out/x.png: the folder to write it in does not exist\n"))
        status, said = self.run_while(lambda: None, "-f", "identity", "-o", "new/")  # one that gconv makes
        self.assertEqual((status, said), (0, ""))

    def test_a_folder_comes_where_the_result_goes(self):
        status, said = self.run_while((self.folder / "x.png").mkdir, "-f", "identity", "-o", "x.png")
        self.assertEqual((status, said), (1, "gconv: x.png: is a folder: name the file to write\n"))
        self.assertEqual(self.files(), ["pipe.pgm"])


class Process(CommandTest):
    def setUp(self):
        super().setUp()
        self.sources = {f"{i}.png": self.photo(f"in/{i}.png", seed=i) for i in range(6)}
        self.words = ("-i", "in", "-f", "identity", "-o", "out/")

    def start(self, *words, **options):
        return subprocess.Popen([GCONV, *self.words, *words], cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, **options)

    def test_several_runs_in_one_folder(self):
        for words in ((), ("--no-clobber",), ("--skip-existing",), ("--resume",)):
            runs = [self.start(*words, "-q") for _ in range(4)]
            said = [run.communicate(timeout=60)[1].decode() for run in runs]
            for run, text in zip(runs, said):
                self.assertEqual(run.returncode == 0, text == "", (words, text))
                for line in text.splitlines():
                    self.assertRegex(line, "exists and is kept|another gconv is at work on these results")
            self.assertEqual([name for name in self.files("out") if name != ".gconv-manifest"], sorted(self.sources))
            for name, pixels in self.sources.items():
                self.assert_pixels(f"out/{name}", pixels)
            shutil.rmtree(self.folder / "out")

    def test_closed_descriptors(self):
        """A file that is opened in the place of standard error must not get the messages."""
        (self.folder / "in/bad.png").write_bytes(b"")
        for closed in (0,), (1,), (2,), (1, 2), (0, 1, 2):
            with self.start("--timings", preexec_fn=lambda closed=closed: [os.close(fd) for fd in closed]) as run:
                run.communicate(timeout=60)
            self.assertEqual(run.returncode, 3)
            for name, pixels in self.sources.items():
                self.assert_pixels(f"out/{name}", pixels)
            shutil.rmtree(self.folder / "out")

    def test_few_descriptors(self):
        words = ["-q"] + [w for name in ("sobel_x", "sobel_y", "laplacian", "emboss", "sharpen") for w in ("-f", name)]
        self.photo("in/large.png", 2000, 2000)
        with self.start(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))) as run:
            said = run.communicate(timeout=60)[1].decode()
        self.assertIn(run.returncode, (0, 3))
        for line in said.splitlines():
            self.assertRegex(line, "^gconv: (in|out)/.*: Too many open files")
        for name in self.files("out"):
            self.assertNotIn("gconv-", name)
            self.pixels(f"out/{name}")

    def test_a_folder_that_is_gone_while_one_is_in_it(self):
        gone = self.folder / "gone"
        gone.mkdir()
        words = [GCONV, "-i", self.folder / "in/0.png", "-f", "identity", "-o"]
        for output, status in (("x.png", 1), (self.folder / "x.png", 0)):
            run = subprocess.run(["sh", "-c", 'cd gone && mkdir -p ../gone && rmdir ../gone && "$@"', "sh", *words, output],
                                 cwd=self.folder, env=self.environment(), capture_output=True, check=False)
            self.assertEqual(run.returncode, status, run.stderr)
            gone.mkdir(exist_ok=True)
        self.assert_pixels("x.png", self.sources["0.png"])


if __name__ == "__main__":
    unittest.main()
