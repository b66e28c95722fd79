# SPDX-License-Identifier: MIT
"""The example of the documentation, compiled as C11 and as C++, does what it says; the public headers need nothing besides
themselves, and are installed where the example finds them."""
import os
import subprocess
import tempfile
import unittest

GCONV = os.environ["GCONV"]
SOURCE = os.environ["GCONV_SOURCE_FOLDER"]


class Example(unittest.TestCase):
    def check(self, program):
        photo = os.path.join(SOURCE, "images", "coffee.jpg")
        sobel = os.path.join(SOURCE, "filters", "sobel_x.txt")
        with tempfile.TemporaryDirectory() as folder:
            expected = os.path.join(folder, "expected.png")
            subprocess.run([GCONV, "-i", photo, "-f", sobel, "-o", expected], check=True)
            once, twice = (os.path.join(folder, name) for name in ("once.png", "twice.png"))
            subprocess.run([program, sobel, photo, once, photo, twice], check=True)
            content = [open(path, "rb").read() for path in (expected, once, twice)]
            self.assertGreater(len(content[0]), 1000)
            self.assertEqual(content[0], content[1])
            self.assertEqual(content[0], content[2])
            wrong = subprocess.run([program, sobel, "missing.png", once, photo, twice], capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("missing.png", wrong.stderr)

    def test_c11(self):
        self.check(os.environ["GCONV_EXAMPLE_C"])

    def test_cxx(self):
        if "GCONV_EXAMPLE_CXX" not in os.environ:
            self.skipTest("no C++ compiler")
        self.check(os.environ["GCONV_EXAMPLE_CXX"])

    def test_installed_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ["CMAKE"], "--install", os.environ["GCONV_BUILD"], "--prefix", folder], check=True,
                           stdout=subprocess.DEVNULL)
            include = os.path.join(folder, "include")
            self.assertEqual(os.listdir(include), ["gconv"])  # a gconv.h here would replace that of the C library in /usr
            subprocess.run([os.environ["CC"], "-fsyntax-only", "-Werror", "-I" + include, "-include", "gconv/gconv_jobs.h",
                            os.path.join(SOURCE, "docs", "example.c")], check=True)
            for name in ("bin/gconv", "share/gconv/filters/sobel_x.txt", "share/man/man1/gconv.1"):
                self.assertTrue(os.path.exists(os.path.join(folder, name)), name)


if __name__ == "__main__":
    unittest.main()
