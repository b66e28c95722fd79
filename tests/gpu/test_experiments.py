# SPDX-License-Identifier: MIT
"""Experiments on a GPU: every method's gradient and outputs agree with those of one core, and every step with float64."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Experiments(CommandTest):
    def rows(self, name, *words):
        return json.loads(self.gconv("bench", "-d", "cuda", "--experiment", name, "--runs", "1", "--json", *words).stdout)["rows"]

    def test_backpropagation(self):
        # fewer cases than threads of a block, than partial sums, and no multiple of either
        rows = self.rows("backprop", "--sizes", "1,37,1000")
        for name in ("thread-a-case", "block-a-case", "kernel-a-layer", "cublas-a-case", "trainer"):
            own = [row for row in rows if row["method"] == name]
            self.assertEqual(len(own), 3 * 4, name)
            for row in own:
                if name == "cublas-a-case" and "obstacle" in row:
                    self.assertIn("cublas", row["obstacle"])
                    continue
                self.assertLessEqual(row["error"], 1e-4, row)
                self.assertGreater(row["ms"], 0)
        self.assertTrue(any(row.get("error", 0) > 0 for row in rows))  # they round differently

    def test_steps(self):
        rows = self.rows("steps", "--sizes", "300")
        self.assertEqual([row["algorithm"] for row in rows],
                         ["direct-classic", "tiled-classic", "tiled", "direct", "direct", "fft", "separable-classic", "separable", "direct-classic",
                          "direct", "toeplitz", "integer"])
        for row in rows:
            self.assertLessEqual(row["error"], row["allowed"], row)

    def test_windows(self):
        rows = self.rows("windows", "--sizes", "50,333")
        own = [row for row in rows if row["method"] == "cuda"]
        self.assertEqual([row["net"] for row in own], ["50-50-50-1", "333-333-333-1"])
        for row in own:
            self.assertLessEqual(row["error"], 1e-4)
            self.assertGreater(row["windows_per_s"], 0)


if __name__ == "__main__":
    if not has_gpu():
        sys.exit(SKIPPED)
    unittest.main()
