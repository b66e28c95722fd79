# SPDX-License-Identifier: MIT
"""tiled on a GPU: filters whose taps come from memory, and so large ones that the classic's block depends on them, from 32 x 8
threads to 32 x 32, with the bits of the CPU."""
import pathlib
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Tiled(CommandTest):
    def test_blocks(self):
        lot = numpy.random.default_rng(1)
        for size, shape, words in ((128, (190, 333), ()), (128, (190, 333), ("--stride", "2")), (128, (700, 700), ()),
                                   (128, (1500, 1100), ()), (200, (300, 500), ()), (91, (97, 130, 3), ()), (170, (200, 400), ()),
                                   (70, (190, 333), ("--combine", "magnitude"))):
            numpy.save(self.folder / "in.npy", lot.random(shape, dtype=numpy.float32))
            for name in ("one.npy", "other.npy"):
                numpy.save(self.folder / name, lot.random((size, size), dtype=numpy.float32) - numpy.float32(0.5))
            filters = ["-f", "./one.npy"] + (["-f", "./other.npy"] if "--combine" in words else [])
            for device, algorithm in (("cuda", "tiled"), ("cpu", "direct")):
                self.gconv("-i", "in.npy", *filters, "-d", device, "-a", algorithm, "-o", f"{device}.npy", *words)
            made, expected = ((self.folder / f"{device}.npy").read_bytes() for device in ("cuda", "cpu"))
            self.assertEqual(made, expected, f"{size} {shape} {words}")


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
