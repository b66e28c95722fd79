#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernel strings against ImageMagick, which prints with showkernel what it read and expanded."""
import os
import random
import re
import shutil
import subprocess
import unittest

GCONV = os.environ.get("GCONV", "gconv")
CONVERT = shutil.which("convert", path="/usr/bin") or shutil.which("convert")


def imagemagick(kernel):
    """[(anchor column, anchor row, taps by rows)]"""
    text = subprocess.run([CONVERT, "xc:", "-precision", "9", "-define", "morphology:showkernel=1", "-morphology",
                           "Convolve:0", kernel, "null:"], capture_output=True, text=True, check=True)
    kernels = []
    for line in (text.stdout + text.stderr).splitlines():
        size = re.search(r"of size \d+x\d+\+(\d+)\+(\d+)", line)
        row = re.match(r" *\d+:(.*)", line)
        if size:
            kernels.append((int(size[1]), int(size[2]), []))
        elif row:
            kernels[-1][2].append([0.0 if tap == "nan" else float(tap) for tap in row[1].split()])
    return kernels


def gconv(kernel):
    text = subprocess.run([GCONV, "make", kernel], capture_output=True, text=True, check=True).stdout
    kernels = []
    for line in text.splitlines():
        header = re.match(r"\d+x\d+\+(\d+)\+(\d+):$", line)
        if line.startswith("# syntax") or line in ("", ";"):
            continue
        if line.startswith("#"):
            kernels.append((None, None, []))
        elif header:
            kernels[-1] = (int(header[1]), int(header[2]), [])
        else:
            kernels[-1][2].append([float(tap) for tap in line.split()])
    return [(len(rows[0]) // 2, len(rows) // 2, rows) if x is None else (x, y, rows) for x, y, rows in kernels]


@unittest.skipUnless(CONVERT, "ImageMagick's convert is not installed")
class Kernels(unittest.TestCase):
    def check(self, kernel):
        expected = imagemagick(kernel)
        self.assertTrue(expected and all(rows for _, _, rows in expected), kernel)
        self.assertEqual(gconv(kernel), expected, kernel)

    def test_expansions(self):
        random.seed(5)
        for _ in range(60):
            sign = random.choice(["", "@", ">", "<"])
            width, height = random.choice([(3, 3)] if sign == "@" else [(3, 3), (1, 4), (5, 1), (2, 2), (4, 4)])
            origin = random.choice(["", f"+{random.randrange(width)}+{random.randrange(height)}"])
            taps = [random.choice(["0", "1", "-1.5", "nan", "-", "2.25"]) for _ in range(width * height)]
            if set(taps) <= {"0", "nan", "-"}:
                taps[0] = "1"
            self.check(f"{width}x{height}{origin}{sign}: " + random.choice([",", " ", ", "]).join(taps))

    def test_forms(self):
        for kernel in ("3: 1 2 3 4 5 6 7 8 9", "1,2,3,4,5,6,7,8,9", "3x1: 1 2 3; 1x3: 4 5 6", "3x1: 1 2 3;", "3x1+2: 1,2,3",
                       "3x1 : 1 2 3", "3x3 @: 1,2,3,4,5,6,7,8,9", "3>: 1,2,3,4,5,6,7,8,9", "1,2,3,4"):
            self.check(kernel)


if __name__ == "__main__":
    unittest.main()
