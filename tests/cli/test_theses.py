# SPDX-License-Identifier: MIT
"""docs/theses.md: each command of a figure or table runs, with small sizes, on the CPU; what needs counters of a GPU says so."""
import json
import os
import pathlib
import re
import unittest

from helper import CommandTest

TEXT = (pathlib.Path(os.path.dirname(__file__)).parent.parent / "docs" / "theses.md").read_text()
COUNTERS = {"figure-5.8", "figure-5.9", "figure-5.10"}


class Theses(CommandTest):
    def test_commands(self):
        named = set(re.findall(r"--experiment ([\w.-]+\w)", TEXT)) - {"list"}
        listed = {line.split()[0] for line in self.gconv("bench", "--experiment", "list").stdout.splitlines()}
        self.assertLessEqual(named, listed)
        figures = {name for name in listed if re.match("figure-|mlp-|windows-|layer-steps|layouts|rbf|transfers|backprop|windows", name)}
        self.assertLessEqual(figures, named)  # none is without its row
        for name in sorted(named - {"backprop", "rbf", "transfers", "windows"}):  # test_bench.py has these
            small = ("--image", "12x9x2", "--sizes", "3", "--batches", "2")
            if re.match("mlp|backprop", name):
                small = ("--sizes", "9", "--net", "4-3-2")
            elif name.startswith("windows"):
                small = ("--sizes", "400")
            with self.subTest(name):
                done = self.gconv("bench", "-d", "cpu", "--experiment", name, *small, "--runs", "1", "--json", status=1 if name in COUNTERS else 0)
                if name in COUNTERS:
                    self.assertIn("only NVIDIA GPUs have counters", done.stderr)
                    continue
                rows = json.loads(done.stdout)["rows"]
                self.assertTrue(rows or re.match("mlp-5.[23]", name), "no row")  # these are of a GPU alone
                self.assertFalse([row for row in rows if "obstacle" in row])

    def test_methods_have_the_launches_of_their_figure(self):
        """Also with -a. Rows tell their launch where there is no GPU, too."""
        if "no CUDA" in self.gconv("--version").stdout:
            self.skipTest("gconv was built without CUDA")
        gemm, split, own = [[1024, 1], 3], [[1024, 1], 24], [[0, 0], 0]  # threads of a block, blocks of the grid: of 3 images
        both = [("gemm-classic", gemm), ("gemm-shared-classic", gemm), ("loops-classic", split), ("loops-classic", gemm), ("cudnn", own),
                ("split-classic", split), ("split-shared-classic", split), ("split-cublas-classic", split), ("loops-classic", split), ("cudnn", own)]
        figures = {"figure-5.5": both, "figure-5.6": both,
                   "figure-5.7": [(name, split) for name in ("split-classic", "split-shared-classic", "loops-classic")]}
        for name, launches in figures.items():
            for method in {method for method, _ in launches}:
                words = ("bench", "-d", "cpu", "--experiment", name, "--image", "12x9x2", "--sizes", "3", "--batches", "3", "--runs", "1", "--json")
                rows = json.loads(self.gconv(*words, "-a", method).stdout)["rows"]
                found = [[row["block"], row["grid"]] for row in rows if row["algorithm"] == method]
                self.assertEqual(found, [launch for other, launch in launches if other == method], (name, method))


if __name__ == "__main__":
    unittest.main()
