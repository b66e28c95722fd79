# SPDX-License-Identifier: MIT
"""Banks on a GPU that has too little memory for a batch, for an image, or for anything (small_gpu.c): the same results."""
import os
import pathlib
import subprocess
import sys
import unittest

import numpy
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import helper


class SmallGpu(helper.CommandTest):
    WIDTH, HEIGHT, FILTERS = 60, 400, 3

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(4)
        (self.folder / "in").mkdir()
        for i in range(4):
            pixels = random.integers(0, 256, (self.HEIGHT, self.WIDTH, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(self.folder / f"in/{i}.png")
        numpy.save(self.folder / "w.npy", random.normal(size=(self.FILTERS, 3, 5, 5)).astype("f4"))
        self.image = 4 * self.WIDTH * self.HEIGHT * (3 + self.FILTERS)  # bytes of the tensors of one

    def run_small(self, most, *words, status=0, device="auto", sent=b""):
        """With a GPU of that many bytes: what -v and --explain tell of it."""
        environment = self.environment({"SMALL_GPU": str(most), "GCONV_DEVICE": device})
        result = subprocess.run([os.environ["GCONV_SMALL_GPU"], *words, "-a", "direct", "-v"], cwd=self.folder, env=environment,
                                input=sent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual(result.returncode, status, result.stderr.decode())
        return result.stderr.decode()

    def same(self, most, *output, images="in", device="auto"):
        words = ("-i", images, "-f", "w.npy", "--batch", "4")
        first, *more = output
        for folder in "whole", "small":
            (self.folder / folder).mkdir(exist_ok=True)
        self.gconv(*words, "-o", f"whole/{first}", *more, "-a", "direct")
        told = self.run_small(most, *words, "-o", f"small/{first}", *more, device=device)
        self.assertEqual(self.files("whole"), self.files("small"))
        for name in self.files("whole"):
            self.assertEqual((self.folder / "whole" / name).read_bytes(), (self.folder / "small" / name).read_bytes(), name)
        return told

    def test_enough(self):
        told = self.same(4 * self.image, "{stem}.npy")
        self.assertNotIn("no memory", told)
        self.assertEqual(told.count("cuda:0, direct"), 4)

    def test_fewer_images_at_a_time(self):
        self.assertIn("no memory on the small device, so it takes 2 images at a time", self.same(3 * self.image, "{stem}.npy"))
        self.assertIn("so it takes 1 image at a time", self.same(self.image, "{stem}.png", "--combine", "mosaic"))

    def test_bands_of_one(self):
        for output in (["{stem}.npy"], ["{stem}_{filter}.png"], ["{stem}.png", "--combine", "argmax"]):
            told = self.same(self.image / 8, *output)
            self.assertRegex(told, r"so it takes \d+ rows at a time")
            self.assertEqual(told.count("cuda:0, direct"), 4)

    def test_bands_of_standard_input(self):
        """It cannot be read again, and need not be. Another PNG could follow in the pipe; an array is alone."""
        with Image.open(self.folder / "in/0.png") as image:
            numpy.save(self.folder / "0.npy", numpy.asarray(image))
        for name in "in/0.png", "0.npy":
            for output, files in ([".npy"], 1), (["_{filter}.png"], self.FILTERS), ([".png", "--combine", "argmax"], 1):
                self.gconv("-i", name, "-f", "w.npy", "-o", "whole" + output[0], *output[1:], "-a", "direct")
                told = self.run_small(self.image / 8, "-i", "-", "-f", "w.npy", "-o", "small" + output[0], *output[1:],
                                      sent=(self.folder / name).read_bytes())
                self.assertRegex(told, r"so it takes \d+ rows at a time", (name, output))
                self.assertNotIn("so the CPU takes it", told)
                made = list(self.folder.glob("small*"))
                self.assertEqual(len(made), files)
                for path in made:
                    whole = path.with_name(path.name.replace("small", "whole"))
                    self.assertEqual(path.read_bytes(), whole.read_bytes(), path.name)
                    path.unlink()

    def test_bands_that_it_has_memory_for(self):
        """A large image, all of which takes 72 MB; -v tells why it goes by bands."""
        Image.fromarray(numpy.zeros((1500, 2000, 3), numpy.uint8)).save(self.folder / "large.png")
        told = self.same(60e6, "{stem}.npy", images="large.png")
        self.assertRegex(told, r"large.png: no memory on the small device, so it goes by bands of \d+ rows\n")
        self.assertIn("cuda:0, direct", told)

    def test_the_cpu_where_it_has_none_for_few_rows(self):
        told = self.same(1000, "{stem}.npy")
        self.assertIn("no memory on the small device, so the CPU takes it", told)
        self.assertEqual(told.count("cpu, direct"), 4)

    def test_the_cpu_takes_what_cannot_go_by_bands(self):
        stack = numpy.random.default_rng(1).random((2, 3, self.HEIGHT, self.WIDTH)).astype("f4")
        numpy.save(self.folder / "x.npy", stack)
        self.assertIn("so the CPU takes it", self.same(self.image / 2, "y.npy", images="x.npy"))
        self.assertIn("1 image at a time", self.same(self.image, "z.npy", images="x.npy"))

    def test_a_device_that_was_asked_for(self):
        error = self.run_small(1000, "-i", "in/0.png", "-f", "w.npy", "-o", "y.npy", status=1, device="cuda:0")
        self.assertIn("in/0.png: no memory on the small device", error)
        self.assertFalse((self.folder / "y.npy").exists())
        self.same(self.image / 8, "{stem}.npy", device="cuda:0")


if __name__ == "__main__":
    unittest.main()
