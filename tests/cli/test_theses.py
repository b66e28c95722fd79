# SPDX-License-Identifier: MIT
"""docs/theses.md: each command of a figure or table runs, with small sizes, on the CPU; what needs counters of a GPU says so."""
import json
import os
import pathlib
import re
import shlex
import unittest

import numpy
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

    def commands(self, start):
        """The commands of the text that begin so, as words, without where their output goes."""
        whole = re.findall(r"\n    (gconv (?:.*\\\n)*.*)", TEXT) + re.findall(r"`(gconv [^`]*)`", TEXT)
        return [shlex.split(re.sub(r"\\\n|> *\S+$", "", command))[1:] for command in whole if command.startswith(start)]

    def test_learning(self):
        """The letters by all at once, by one at a time and with penalties; the adult data; a stream."""
        bits = range(64)
        for name in "train", "test":
            rows = [",".join([*(str((i * (k + 3)) >> 3 & 1) for k in bits), chr(65 + i % 26)]) for i in range(52)]
            (self.folder / f"{name}.csv").write_text("\n".join([",".join([*(f"b{k}" for k in bits), "L"]), *rows]) + "\n")
        words = ["Private", "?", "State-gov"]
        (self.folder / "adult.data").write_text("".join(f"{20 + i % 9}, {words[i % 3]}, {i % 5}, {'>50K' if i % 4 else '<=50K'}\n" for i in range(40)) + "\n")
        letters, adult = ([*words[:words.index("--epochs") + 1], "2", *words[words.index("--epochs") + 2:]] for words in self.commands("gconv train"))
        options = [option.split() for option in re.findall(r"(?m)^\|.*`(--(?:elimination|weight-decay|batch 1)[^`]*)`", TEXT)]
        self.assertEqual(len(options), 4)  # of the table of accuracies; the last two are further ones of single cases
        for more in ([], *options[:2], *([*options[1], *further] for further in options[2:])):
            done = self.gconv(*letters, *more)
            self.assertEqual(len([line for line in done.stdout.splitlines() if '"epoch"' in line and '"validation' in line]), 2, done.stdout)
        self.assertRegex(self.gconv(*adult).stdout, "% right")
        random = numpy.random.default_rng(1)
        numpy.save(self.folder / "signal.npy", random.random(1000, dtype="f4"))
        numpy.save(self.folder / "targets.npy", random.random((10, 100), dtype="f4"))
        self.gconv("train", "--signal", "signal.npy", "--windows", "100", "-t", "targets.npy", "--regression", "--loss", "sse", "--net",
                   ", ".join(3 * ["dense 100 sigmoid"]), "--epochs", "1", "-o", "net.safetensors")
        stream, = self.commands("gconv -i")
        self.assertRegex(self.gconv(*stream).stdout, r"10 windows in .* samples/s; .* \(median\), .* \(99%\)")
        self.assertEqual(numpy.load(self.folder / "out.npy").size, 1000)

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
