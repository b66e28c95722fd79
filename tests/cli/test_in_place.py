# SPDX-License-Identifier: MIT
"""--in-place: results replace their images, which stay as NAME.orig."""
import os
import signal
import subprocess
import time
import unittest

import numpy
from PIL import Image

import helper


class InPlace(helper.CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "in/sub").mkdir(parents=True)
        random = numpy.random.default_rng(1)
        for name in ("in/a.png", "in/sub/b.jpg"):
            Image.fromarray(random.integers(0, 256, (40, 50, 3), numpy.uint8)).save(self.folder / name)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def test_results_and_backups(self):
        before = {name: self.read(name) for name in ("in/a.png", "in/sub/b.jpg")}
        self.gconv("-i", "in", "-r", "-f", "gaussian:sigma=1", "--border", "replicate", "--format", "same", "-o", "out/")
        words = ("-i", "in", "-r", "-f", "gaussian:sigma=1", "--border", "replicate", "--in-place")
        plan = self.gconv(*words, "--dry-run").stdout
        self.assertIn("in/a.png -> in/a.png (kept as its .orig)", plan)
        self.gconv(*words)
        for name, old in before.items():
            self.assertEqual(self.read(name), self.read(name.replace("in/", "out/", 1)), name)
            self.assertEqual(self.read(name + ".orig"), old, name)
        after = self.snapshot()
        again = self.gconv(*words, status=1)
        self.assertIn("in/a.png: stays as it is, as its backup would replace an older one", again.stderr)
        self.assertEqual(self.snapshot(), after)
        (self.folder / "in/a.png.orig").unlink()
        self.gconv(*words, status=3)
        self.assertEqual(self.read("in/sub/b.jpg.orig"), before["in/sub/b.jpg"])

    def test_a_second_name_is_no_older_backup(self):
        old = self.read("in/a.png")
        os.link(self.folder / "in/a.png", self.folder / "in/a.png.orig")
        self.gconv("sobel", "in/a.png", "--in-place")
        self.assertEqual(self.read("in/a.png.orig"), old)
        self.assertNotEqual(self.read("in/a.png"), old)

    def test_refusals(self):
        words = ("-i", "in/a.png", "-f", "sobel_x", "--in-place")
        for other in (("-o", "x.png"), ("--format", "tiff"), ("--suffix", "_x"), ("--skip-existing",), ("--newer",), ("--resume",)):
            self.usage_error("exclude", *words, *other)
        self.usage_error("2 results cannot replace one file", *words, "-f", "sobel_y")
        self.usage_error("--in-place is for files", "-i", "-", "-f", "sobel", "--in-place", stdin=b"")
        self.usage_error("--depth float: the format png cannot hold that", *words, "--depth", "float")
        subprocess.run(["gzip", "-k", "in/a.png"], cwd=self.folder, check=True)
        self.usage_error("what gzip compressed is read, but not written", "-i", "in/a.png.gz", "-f", "sobel", "--in-place")
        (self.folder / "in/a.png.gz").unlink()
        os.symlink("a.png", self.folder / "in/link.png")
        self.usage_error("are one file", "-i", "in", "-f", "sobel", "--in-place")

    def test_failures_and_signals_leave_the_image(self):
        (self.folder / "cut.png").write_bytes(self.read("in/a.png")[:2000])
        before = self.snapshot()
        self.gconv("sobel", "cut.png", "--in-place", status=1)
        self.assertEqual(self.snapshot(), before)
        Image.fromarray(numpy.zeros((3000, 4000, 3), numpy.uint8)).save(self.folder / "large.png")
        before = self.snapshot()
        for wait in (0.02, 0.1, 0.2):
            process = subprocess.Popen([helper.GCONV, "disk:radius=30", "large.png", "--in-place", "-q"], cwd=self.folder,
                                       env=self.environment())
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            if process.wait() == 0:  # it was too fast
                os.replace(self.folder / "large.png.orig", self.folder / "large.png")
            self.assertEqual(self.snapshot(), before)


if __name__ == "__main__":
    unittest.main()
