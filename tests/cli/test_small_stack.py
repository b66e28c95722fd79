# SPDX-License-Identifier: MIT
"""Small stacks (ulimit -s 64, which threads get, too; musl's have 128 KB): nothing large lies there."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import helper
import numpy
from PIL import Image


@unittest.skipIf(os.environ.get("GCONV_SANITIZED"), "sanitizers make stacks larger")
class SmallStack(helper.CommandTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gconv-")
        self.addCleanup(folder.cleanup)
        script = pathlib.Path(folder.name) / "gconv"
        script.write_text(f'#!/bin/sh\nulimit -s 64\nexec "{helper.GCONV}" "$@"\n')
        script.chmod(0o755)
        program, helper.GCONV = helper.GCONV, str(script)
        self.addCleanup(setattr, helper, "GCONV", program)

    def algorithms(self, part):
        lines = self.gconv("algorithms").stdout.split("\n\nfor banks:\n")[part].splitlines()
        return [line.split()[1] for line in lines if line.split()[:1] == ["cpu"]]

    def test_algorithms(self):
        self.photo("a.png", 150, 100)
        names = self.algorithms(0)
        self.assertIn("fft", names)
        for name in names:
            if name == "integer":
                self.gconv("-i", "a.png", "-f", "binomial:size=5", "-o", "b.png", "-a", name, "--threads", 4)
                continue
            for size in (3, 15, 201):
                if name != "reference" or size < 100:
                    taps = f"box:size={size}" if name == "box" else f"gaussian:size={size},sigma=4"
                    self.gconv("-i", "a.png", "-f", taps, "-o", "b.png", "-a", name, "--threads", 4)

    def test_algorithms_for_banks(self):
        self.photo("a.png", 90, 70)
        names = self.algorithms(1)
        self.assertTrue(names)
        for name in names:
            for size in (3, 7):
                numpy.save(self.folder / "w.npy", numpy.random.default_rng(1).normal(size=(9, 3, size, size)).astype("f4"))
                for output in ("y.npy", "{stem}_{filter}.png"):
                    words = ["-i", "a.png", "-f", "w.npy", "-o", output, "-a", name, "--threads", "4"]
                    result = subprocess.run([helper.GCONV, *words], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL, check=False)
                    self.assertIn(result.returncode, (0, 1), (name, size))  # some do not take every size

    def test_formats(self):
        pixels = self.photo("a.png", 400, 300)
        photo = Image.fromarray(pixels)
        photo.save(self.folder / "a.jpg")
        photo.save(self.folder / "b.jpg", progressive=True)
        photo.convert("CMYK").save(self.folder / "c.jpg")
        photo.convert("P").save(self.folder / "p.png")
        Image.fromarray(pixels[:, :, 0].astype(numpy.uint16) * 257).save(self.folder / "deep.png")
        for name in ("a.ppm", "a.pfm", "a.npy", "a.pam"):
            self.gconv("-i", "a.png", "-f", "identity", "-o", name)
        for name in self.files():
            for output, *more in (("{stem}.png",), ("{stem}.png", "--png-level", "6"), ("{stem}.jpg",), ("{stem}.npy", "--depth", "float"),
                                  ("{stem}.ppm",), ("{stem}.png", "--linear", "--verify")):
                self.gconv("-i", name, "-f", "sobel_x", "-o", f"out/{output}", "--threads", 4, *more)

    def test_other_commands(self):
        self.photo("a.png", 60, 50)
        numpy.save(self.folder / "w.npy", numpy.ones((4, 3, 5, 5), "f4"))
        for words in (("help",), ("filters",), ("filters", "gaussian"), ("info", "a.png"), ("info", "w.npy"), ("bank", "show", "w.npy", "-o", "s.png"),
                      ("devices",), ("-i", "a.png", "-f", "sobel_x", "-o", "b.png", "-a", "all", "--timings", "--explain", "--verify"),
                      ("bench", "-d", "cpu", "--image", "200x100", "--sizes", "3,5", "--runs", "1")):
            self.gconv(*words)


if __name__ == "__main__":
    unittest.main()
