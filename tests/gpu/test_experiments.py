# SPDX-License-Identifier: MIT
"""Experiments on a GPU: every method's gradient and outputs agree with those of one core, and every step with float64."""
import csv
import ctypes
import json
import pathlib
import re
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

    def test_every_figure(self):
        """All names that there are, at small sizes: no method fails, and each is as near to its reference as it has to be."""
        listed = [line.split()[0] for line in self.gconv("bench", "--experiment", "list").stdout.splitlines()]
        counters = {"figure-5.8", "figure-5.9", "figure-5.10"}
        for name in sorted(set(listed) - counters - {"steps", "transfers", "rbf", "backprop"}):  # these have tests of their own
            small = ("--image", "12x9x2", "--sizes", "3", "--batches", "2")
            if name.startswith("mlp"):
                small = ("--sizes", "9", "--net", "4-3-2")
            elif name.startswith("windows"):
                small = ("--sizes", "50")
            rows = self.rows(name, *small)
            self.assertTrue(any(row.get("method", row.get("algorithm")) not in ("one-core", "all-cores") for row in rows), name)
            for row in rows:
                if "obstacle" in row:  # only algorithms that are not of the theses may refuse such a layer
                    own = "method" in row or row["algorithm"].endswith("-classic")
                    self.assertTrue(not own or row["obstacle"].startswith("no figure"), row)  # too short for the clock
                else:
                    self.assertLessEqual(row.get("error", 0), row.get("allowed", 0), row)

    def test_backpropagation(self):
        # fewer cases than threads of a block, than partial sums, and no multiple of either
        rows = self.rows("backprop", "--sizes", "1,37,1000")
        for name in ("thread-a-case", "thread-counters", "gradient-a-thread", "block-a-case", "one-case-host", "four-cases-host", "four-cases",
                     "derivatives-kept", "kernel-a-layer", "cublas-a-case", "trainer"):
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
        panels = {"busy": "busy: % of the peak", "kinds": "millions of instructions", "stalls": "waiting for", "bytes": "'MB'", "warps": "'warps:",
                  "kernel": "the longest kernel", "joules": "J of an execution"}
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:  # which measures the energy
            del panels["joules"]
        for name, own in (("windows", ("--sizes", "50")), ("mlp-17", ("--sizes", "500")), ("layouts", ("--image", "30x20x8", "--batches", "2"))):
            whole = ("bench", "-d", "cuda", "--experiment", name, "--runs", "1", "--json", *own, "--profile", "--plot", "p.svg")
            done = self.gconv(*whole, env={"PATH": "/nowhere"}, status=1)  # without gnuplot, scripts are left
            rows = [row for row in json.loads(done.stdout)["rows"] if row.get("method") not in ("one-core", "all-cores", "trainer")]
            self.assertGreater(len(rows), 1, name)
            for row in rows:
                with self.subTest(name, row=row):
                    profile, kernel = row["profile"], row["profile"]["kernel"]
                    self.assertGreater(kernel["registers"], 0)
                    self.assertGreaterEqual(kernel["shared"], 0)
                    self.assertTrue(0 < kernel["theoretical"] <= 1)
                    self.assertTrue(0 <= profile["units"] <= 1 and 0 <= profile["memory"] <= 1 and profile["units"] + profile["memory"] > 0)
                    self.assertGreater(profile["kinds"]["multiply-add"] + profile["kinds"]["integer and logic"], 0)
                    self.assertLessEqual(sum(profile["kinds"].values()), 1.5 * profile["instructions"])
                    self.assertEqual(list(profile["bytes"]), ["dram_read", "dram_written", "l2", "l1", "shared"])
                    self.assertGreater(profile["bytes"]["l1"], 0)
                    if "joules" in panels:
                        self.assertGreater(profile["joules"], 0)
            script = (self.folder / "p-profile.svg.gp").read_text()
            for title in panels.values():
                self.assertIn(title, script, name)
        own = {"figure-5.8": ("busy", "kinds", "stalls"), "figure-5.10": ("bytes",), "figure-5.9": ()}
        for name, shown in own.items():  # these draw counters in place of times, and no others
            self.gconv("bench", "-d", "cuda", "--experiment", name, "--image", "40x30x3", "--sizes", "8", "--batches", "2", "--runs", "1", "--plot", "f.svg",
                       env={"PATH": "/nowhere"}, status=1)
            script = (self.folder / "f.svg.gp").read_text()
            self.assertEqual({key for key, title in panels.items() if title in script}, set(shown), name)
            self.assertEqual("by threads of a block" in script, name == "figure-5.9")
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
        for figure, methods in (("windows", {"gconv", "window-a-launch", "block-a-window"}), ("windows-1b", {"block-a-window"}),
                                ("windows-2b", {"block-a-window", "block-no-texture"})):
            rows = [row for row in self.rows(figure, "--sizes", "50,333") if "core" not in row["method"]]
            self.assertEqual({row["method"] for row in rows}, methods)
            for row in rows:
                self.assertLessEqual(row["error"], 1e-4)
                self.assertTrue(row["samples_per_s"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"], row)

    def test_a_method_is_drawn_against_others(self):
        self.gconv("bench", "-d", "cuda", "--experiment", "mlp-16", "--sizes", "100,300", "--net", "5-4-3", "--runs", "1", "--plot", "a.svg",
                   env={"PATH": "/nowhere"}, status=1)
        lines = re.findall(r" title '([a-z -]+)' noenhanced[,\n]", (self.folder / "a.svg.gp").read_text())
        self.assertEqual(lines, ["derivatives-kept against one-core", "derivatives-kept against cublas-a-case"])

    def test_parts_of_epochs(self):
        rows = self.rows("mlp-5.2", "--sizes", "100", "--net", "5-4-3")
        self.assertEqual([row["net"] for row in rows], ["5-4-3 clear", "5-4-3 train", "5-4-3 reduce-0", "5-4-3 reduce-1"])

    def test_rows_of_a_kernel(self):
        rows = self.rows("rbf", "--sizes", "33,700", "--columns", "7")  # neither is a multiple of four or of a warp
        self.assertEqual(len(rows), 2 * 15)
        for row in rows:
            self.assertTrue("obstacle" not in row or (row["method"], row["result"]) == ("gconv", "rows of 33"), row)

    def test_methods_asked_for_have_the_launches_of_their_figure(self):
        for name in ("figure-5.1a", "figure-5.2", "figure-5.4a", "figure-5.5", "figure-5.6", "figure-5.7", "layer-steps"):
            small = ("--image", "12x9x2", "--sizes", "3", "--batches", "3")
            launches = {}
            for row in self.rows(name, *small):
                if "device" not in row:  # the CPU's line
                    launches.setdefault(row["algorithm"], []).append((row["block"], row["grid"]))
            for method, expected in launches.items():
                found = [(row["block"], row["grid"]) for row in self.rows(name, *small, "-a", method) if "device" not in row]
                self.assertEqual(found, expected, (name, method))

    def test_launches_of_layers(self):
        """Any number of blocks and threads gives the same sums."""
        classics = ",".join(f"{name}-classic" for name in ("planes", "batch", "loops", "gemm", "gemm-shared", "split", "split-shared"))
        rows = self.rows("layer-steps", "--image", "17x13x4", "--sizes", "4", "--filters", "5", "--batches", "3", "-a", classics, "--grid", "1,3,40",
                         "--block", "1x1,5x3,32x32")
        self.assertEqual(len(rows), 7 * 9)
        for row in rows:
            self.assertTrue("obstacle" not in row and row["error"] <= row["allowed"], row)
        for sweep in "grid", "block":
            rows = self.rows("layer-steps", "--image", "17x13x4", "--sizes", "4", "--filters", "5", "--batches", "3", "-a", "split-classic", "--sweep", sweep)
            self.assertGreater(len({str(row[sweep]) for row in rows}), 4)
            for row in rows:
                self.assertLessEqual(row["error"], row["allowed"], row)


if __name__ == "__main__":
    if not has_gpu():
        sys.exit(SKIPPED)
    unittest.main()
