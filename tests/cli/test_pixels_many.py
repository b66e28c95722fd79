# SPDX-License-Identifier: MIT
"""A folder of many images to maps of classes in one command: memory does not grow with it, and a run that is killed goes on to the same."""
import os
import random
import signal
import subprocess
import time
import unittest

import numpy as np
from helper import GCONV, CommandTest
from PIL import Image
from test_pixels import mask_of, picture, truth

COUNT, SIDE, KILLS = (200, 512, 6) if "GCONV_LONG_TESTS" in os.environ else (36, 192, 3)
KEPT = 20e6  # of what is freed, that the C library keeps


class Many(CommandTest):
    def test_memory_and_kills(self):
        Image.fromarray(picture()).save(self.folder / "i.png")
        Image.fromarray(mask_of(truth()).astype(np.uint8)).save(self.folder / "m.png")
        self.gconv("train", "-i", "i.png", "-t", "m.png", "--features", "default", "--net", "dense 16 relu, dense 3 softmax", "--epochs", 2, "-o",
                   "p.safetensors")
        (self.folder / "few").mkdir()
        (self.folder / "all").mkdir()
        for i in range(COUNT):
            image = Image.fromarray(np.roll(picture(i % 7, SIDE, SIDE), 5 * i, 0))
            image.save(self.folder / f"all/{i}.png", compress_level=1)
            if i < COUNT // 3:
                image.save(self.folder / f"few/{i}.png", compress_level=1)
        few = self.peak_bytes("classify", "-q", "p.safetensors", "-i", "few", "-o", "few_maps/")
        begin = time.monotonic()
        peak = self.peak_bytes("classify", "-q", "p.safetensors", "-i", "all", "-o", "maps/")
        whole = time.monotonic() - begin
        if "GCONV_SANITIZED" not in os.environ:  # sanitizers take memory of their own
            self.assertLess(peak, few + KEPT)
        chance, kills = random.Random(0), 0
        while True:
            process = subprocess.Popen([GCONV, "classify", "p.safetensors", "-i", "all", "-o", "killed/", "--resume"], cwd=self.folder, env=self.environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if kills < KILLS:
                time.sleep(chance.random() * whole / KILLS)
                process.send_signal(chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
            _, errors = process.communicate(timeout=300)
            self.assertIn(process.returncode, (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL), errors)
            kills += process.returncode < 0
            if process.returncode == 0:
                break
        maps, resumed = ({p.name: p.read_bytes() for p in (self.folder / name).iterdir() if p.suffix == ".png"} for name in ("maps", "killed"))
        self.assertEqual((len(maps), maps), (COUNT, resumed))
        self.assertEqual(sorted(p.name for p in (self.folder / "killed").iterdir() if p.suffix != ".png"), [".gconv-manifest"])


if __name__ == "__main__":
    unittest.main()
