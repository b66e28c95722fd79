# SPDX-License-Identifier: MIT
"""The pictures of docs/gallery.md are what its options make."""
import pathlib
import re
import shlex
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Gallery(CommandTest):
    def test_every_picture(self):
        entries = re.findall(r"\(gallery/(\w+)\.jpg\)<br>`([^`]+)`", (DOCS / "gallery.md").read_text())
        self.assertEqual({name for name, _ in entries} | {"coffee"}, {path.stem for path in (DOCS / "gallery").iterdir()})
        for name, options in entries:
            self.gconv("-i", DOCS / "gallery" / "coffee.jpg", *shlex.split(options), "--jpeg-quality", "80", "-o", "got.jpg")
            got = self.pixels("got.jpg").astype(float)
            with Image.open(DOCS / "gallery" / f"{name}.jpg") as image:
                shown = np.asarray(image).astype(float)
            self.assertEqual(got.shape, shown.shape, name)
            self.assertLess(abs(got - shown).mean(), 0.5, name)  # libraries of JPEG may round otherwise


if __name__ == "__main__":
    unittest.main()
