# SPDX-License-Identifier: MIT
"""gconv train ends with the same bytes, however often it was stopped or killed on its way, and whatever threads it had."""
import os
import random
import signal
import subprocess
import time
import unittest

import numpy as np
from helper import GCONV, CommandTest

NETS = {"table": "dense 40 tanh, dense 4 softmax", "images": "conv 6 3x3 relu, conv 6 3x3/2 tanh, mean, dense 4 softmax"}


class Killed(CommandTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 4, 600)
        points = rng.normal(labels[:, None], 1, (600, 6))
        (self.folder / "table.csv").write_text("".join(",".join(f"{v:.4f}" for v in row) + f",{label}\n" for row, label in zip(points, labels)))
        np.save(self.folder / "images.npy", rng.normal(labels[:, None, None], 1, (600, 12, 12)).astype(np.float32))
        (self.folder / "labels.csv").write_text("".join(f"{label}\n" for label in labels))

    def words(self, kind, output, epochs, threads=2):
        data = ["--table", "table.csv"] if kind == "table" else ["--table", "images.npy", "-t", "labels.csv"]
        return ["train", *data, "--net", NETS[kind], "-o", f"{output}.safetensors", "--epochs", str(epochs), "--validate", "20%", "--json", "--threads", str(threads)]

    def digest(self, output):
        return (self.folder / f"{output}.safetensors").read_bytes()

    def test_threads(self):
        for kind in NETS:
            results = []
            for threads in 1, 2, 5:
                self.gconv(*self.words(kind, f"t{threads}", 3, threads))
                results.append(self.digest(f"t{threads}"))
            self.assertEqual([results[0]] * 3, results, kind)

    def killed(self, kind, times, epochs):
        begin = time.monotonic()
        self.gconv(*self.words(kind, "whole", epochs))
        whole, chance, stops, resumed = time.monotonic() - begin, random.Random(0), 0, 0
        checkpoint = self.folder / "n.safetensors.checkpoint"
        while not (self.folder / "n.safetensors").exists():
            resume = ["--resume"] if checkpoint.exists() else []
            process = subprocess.Popen([GCONV, *self.words(kind, "n", epochs, chance.choice([1, 2])), *resume], cwd=self.folder, env=self.environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if stops < times:
                time.sleep(chance.random() * whole / times)  # half of what would do: the first run may have been a slow one
                # Only a run that is told to stop leaves a checkpoint: one in four is killed, and what it did is lost.
                process.send_signal(chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
            _, errors = process.communicate(timeout=300)
            stops += process.returncode < 0
            resumed += len(resume)
            self.assertIn(process.returncode, (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL), errors)
        self.assertGreater(stops, times // 2)
        self.assertGreater(resumed, times // 4)
        self.assertEqual(self.digest("n"), self.digest("whole"))
        self.assertFalse(checkpoint.exists())

    def test_a_table(self):
        self.killed("table", 20, 6000)

    @unittest.skipUnless(os.environ.get("GCONV_LONG_TESTS"), "a long test")
    def test_images(self):
        self.killed("images", 20, 400)


if __name__ == "__main__":
    unittest.main()
