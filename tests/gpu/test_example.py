# SPDX-License-Identifier: MIT
"""docs/example_cuda.cu, which filters in the memory of a GPU, yields what gconv does."""
import os
import pathlib
import subprocess
import sys
import unittest

import numpy
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import CommandTest
from test_devices import SKIPPED, has_gpu

SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])


class Example(CommandTest):
    def test_device_memory(self):
        photo, sobel = SOURCE / "images/coffee.jpg", SOURCE / "filters/sobel_x.txt"
        self.gconv("-i", str(photo), "-f", str(sobel), "-o", "expected.png", "--device", "cpu")
        subprocess.run([os.environ["GCONV_EXAMPLE_CUDA"], str(sobel), str(photo), str(self.folder / "out.png")], check=True)
        expected, out = (numpy.asarray(Image.open(self.folder / name)) for name in ("expected.png", "out.png"))
        self.assertGreater(expected.std(), 1)
        numpy.testing.assert_array_equal(expected, out)


if __name__ == "__main__":
    if "GCONV_EXAMPLE_CUDA" not in os.environ or not has_gpu():
        sys.exit(SKIPPED)
    unittest.main()
