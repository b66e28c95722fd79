# SPDX-License-Identifier: MIT
"""Experiments on a GPU: every method's gradient and outputs agree with those of one core, and every step with float64."""
import csv
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
                         ["direct-classic", "tiled-classic", "tiled", "direct", "tiled", "fft", "separable-classic", "separable", "direct-classic",
                          "direct", "toeplitz", "integer"])
        for row in rows:
            self.assertLessEqual(row["error"], row["allowed"], row)

    def test_profile(self):
        """Needs CUPTI, and permission to read counters; without them, the message says so."""
        words = ("bench", "-d", "cuda", "--image", "512x384", "--sizes", "7", "-a", "direct,direct-classic", "--runs", "1", "--profile")
        probe = subprocess.run([GCONV, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if probe.returncode != 0:
            self.assertRegex(probe.stderr, "--profile: .*(CUPTI|lets? this user)")
            self.skipTest(probe.stderr)
        self.assertRegex(probe.stdout, r"error +warps +waiting for\n(direct|direct-classic) .* \d+% +[a-z ]+ \d+%, [a-z ]+ \d+%, [a-z ]+ \d+%\n")
        profiles = [row["profile"] for row in json.loads(self.gconv(*words, "--json").stdout)["rows"]]
        profiles += [row["profile"] for row in self.rows("batch", "--batches", "2", "--filters", "8", "--image", "40x30x3", "--sizes", "3", "-a",
                                                         "direct,im2col,gemm", "--profile")]
        self.assertEqual(len(profiles), 5)
        for profile in profiles:
            shares = [stall["share"] for stall in profile["stalls"]]
            self.assertTrue(0 < profile["occupancy"] <= 1, profile)
            self.assertEqual(len({stall["reason"] for stall in profile["stalls"]}), 3, profile)
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertTrue(0 < shares[0] and shares[-1] >= 0 and sum(shares) <= 1.001, profile)  # NaN fails
        rows = list(csv.DictReader(self.gconv(*words, "--csv").stdout.splitlines()))
        self.assertEqual([row["algorithm"] for row in rows], ["direct", "direct-classic"])
        for row in rows:
            self.assertTrue(0 < float(row["occupancy"]) <= 1 and row["reason_1"] and 0 < float(row["share_1"]) <= 1, row)

    def test_transfers(self):
        rows = self.rows("transfers", "--sizes", "1,8")
        ways = {"up": ["pageable", "pinned", "gconv"], "down": ["pageable", "pinned", "gconv"], "whole": ["pageable", "pinned", "pinned-anew", "gconv"]}
        self.assertEqual([(row["part"], row["method"]) for row in rows], 2 * [(part, way) for part in ways for way in ways[part]])
        for row in rows:
            self.assertTrue("obstacle" not in row and row["ms"] > 0, row)
            self.assertAlmostEqual(row["GB_per_s"] * row["ms"], 1e3 * row["GB"], delta=1e-6)
        for batch in rows[:10], rows[10:]:
            ms = {(row["method"], row["part"]): row["ms"] for row in batch}
            for way in ways["up"]:
                self.assertGreater(ms[way, "whole"], ms[way, "up"])

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
