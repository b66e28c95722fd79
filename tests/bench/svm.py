#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gconv svm against LIBSVM: times, accuracy, objectives and agreement, on one machine and in one run.

usage: svm.py [--gconv PROGRAM] [--libsvm FOLDER] [--data FOLDER] [PART...]

Parts: letter, adult, small (digits, iris, wine, breast cancer of scikit-learn), agree (random problems); all without a name.
--libsvm: where svm-train and svm-predict are (Debian: libsvm-tools); default: on PATH. --data: a folder with letter.csv.gz,
adult_a9a_train.libsvm.gz and adult_a9a_test.libsvm.gz.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import numpy as np


def run(*words, env=None):
    begin = time.perf_counter()
    result = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True, env=env)
    return result.stdout, time.perf_counter() - begin


def write(name, x, labels):
    lines = [f"{label} " + " ".join(f"{i + 1}:{v:.9g}" for i, v in enumerate(row) if v != 0) for row, label in zip(x, labels)]
    pathlib.Path(name).write_text("\n".join(lines) + "\n")


class Bench:
    def __init__(self, options):
        self.gconv, self.data = options.gconv, pathlib.Path(options.data)
        self.libsvm = pathlib.Path(options.libsvm) if options.libsvm else None
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(self.libsvm.parent / "lib")} if self.libsvm else None

    def theirs(self, program, *words):
        return run(self.libsvm / program if self.libsvm else program, *words, env=self.env)

    def accuracy(self, model, test):
        out, seconds = run(self.gconv, "classify", model, test, "--evaluate")
        return float(re.match(r"([\d.]+)% right", out)[1]), seconds

    def compare(self, title, train, test, *words):
        """Trains and tests with both; every time is the least of two runs, whole commands from file to file."""
        ours = min(run(self.gconv, "svm", train, *words, "-o", "ours.model")[1] for _ in range(2))
        out, theirs = self.theirs("svm-train", *words, train, "theirs.model")
        right, predict = self.accuracy("ours.model", test)
        out, their_predict = self.theirs("svm-predict", test, "theirs.model", "o")
        crossed, _ = self.accuracy("theirs.model", test)
        back, _ = self.theirs("svm-predict", test, "ours.model", "o2")
        same = np.mean([a == b for a, b in zip(pathlib.Path("o").read_text().split(), pathlib.Path("o2").read_text().split())])
        print(f"{title}: train {ours:.2f} s, LIBSVM {theirs:.2f} s: {theirs / ours:.1f} x; predict {predict:.2f} s, LIBSVM {their_predict:.2f} s: "
              f"{their_predict / predict:.1f} x")
        print(f"  right: {right:.2f}%, LIBSVM {re.search(r'[0-9.]+(?=%)', out)[0]}%; its model here {crossed:.2f}%, ours there "
              f"{re.search(r'[0-9.]+(?=%)', back)[0]}%; {100 * same:.3f}% of the predictions are the same")

    def letter(self):
        with gzip.open(self.data / "letter.csv.gz", "rt") as file:
            rows = [row for row in csv.reader(file) if len(row) > 1 and row[1].isdigit() and len(row[0]) == 1]
        x, y = np.array([row[1:] for row in rows], float) / 15, [ord(row[0]) - 64 for row in rows]
        write("letter.libsvm", x[:16000], y[:16000])
        write("letter.t.libsvm", x[16000:], y[16000:])
        self.compare("Letter, gamma 16, C 8", "letter.libsvm", "letter.t.libsvm", "-c", 8, "-g", 16)

    def adult(self):
        for part in ("train", "test"):
            pathlib.Path(f"a9a.{part}.libsvm").write_bytes(gzip.decompress((self.data / f"adult_a9a_{part}.libsvm.gz").read_bytes()))
        self.compare("Adult a9a, gamma 0.03, C 10", "a9a.train.libsvm", "a9a.test.libsvm", "-c", 10, "-g", 0.03)

    def small(self):
        from sklearn import datasets
        x, y = datasets.load_digits(return_X_y=True)
        half = len(x) // 2
        write("d.libsvm", x[:half], y[:half])
        write("d.t.libsvm", x[half:], y[half:])
        run(self.gconv, "svm", "d.libsvm", "-g", 0.001, "-o", "d.model")
        vectors = re.search(r"total_sv (\d+)", pathlib.Path("d.model").read_text())[1]
        out, _ = run(self.gconv, "classify", "d.model", "d.t.libsvm", "--evaluate", "--json")
        print(f"digits, halves, gamma 0.001: {100 * json.loads(out)['accuracy']:.3f}% right, {vectors} support vectors")
        for name, words in (("iris", []), ("wine", ["--scale", "symmetric"]), ("breast_cancer", ["--scale", "symmetric"])):
            x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
            write("s.libsvm", x, y)
            found = []
            for seed in range(10):
                out, _ = run(self.gconv, "svm", "s.libsvm", "-v", 10, "--seed", seed, "--json", *words)
                found.append(100 * json.loads(out)["validation"]["accuracy"])
            print(f"{name}, 10 folds, 10 seeds {' '.join(words)}: {np.mean(found):.2f}% right ({min(found):.2f} to {max(found):.2f})")

    def objective(self, path, gamma):
        """Of a model of two classes, in float64."""
        lines = re.split("\nSV.*\n", path.read_text())[1].splitlines()
        lines = [line for line in lines if not line.startswith("#")]
        b = np.array([float(line.split()[0]) for line in lines])
        x = np.zeros((len(lines), 3))
        for row, line in zip(x, lines):
            for word in line.split()[1:]:
                index, value = word.split(":")
                row[int(index) - 1] = float(value)
        kernel = np.exp(-gamma * ((x[:, None] - x[None]) ** 2).sum(2))
        return b @ kernel @ b / 2 - abs(b).sum()

    def agree(self):
        for c, gamma, count, scale in ((1e-3, 0.5, 60, 1), (1, 0.5, 300, 1), (100, 0.02, 200, 64), (1e3, 0.5, 1500, 1), (1e5, 0.3, 100, 1),
                                       (1e5, 0.001, 200, 64), (10, 2, 2500, 1)):
            rng = np.random.default_rng(3)
            kinds = np.arange(count) % 2
            x = (rng.normal(0, 1, (count, 3)) + 1.5 * rng.normal(0, 1, (2, 3))[kinds]).round(2) * [1, scale, scale]
            x = np.round(x * 256) / 256  # which text and float32 have exactly
            x[5], x[7] = x[3], x[1]
            write("p.libsvm", x, kinds + 1)
            write("q.libsvm", x + rng.integers(-80, 80, x.shape) / 256, kinds + 1)
            words = ["-c", c, "-g", gamma, "-e", "1e-5"]
            run(self.gconv, "svm", "p.libsvm", *words, "-o", "ours.model")
            self.theirs("svm-train", *words, "p.libsvm", "theirs.model")
            ours, theirs = (self.objective(pathlib.Path(name), gamma) for name in ("ours.model", "theirs.model"))
            rhos = [abs(float(re.search(r"rho (\S+)", pathlib.Path(name).read_text())[1])) for name in ("ours.model", "theirs.model")]
            for name in ("ours", "theirs"):
                self.theirs("svm-predict", "q.libsvm", f"{name}.model", f"{name}.txt")
            same = np.mean([a == b for a, b in zip(*(pathlib.Path(f"{name}.txt").read_text().split() for name in ("ours", "theirs")))])
            print(f"C {c:g}, gamma {gamma:g}, {count} cases, columns times {scale}: objective {abs(ours - theirs) / abs(theirs):.1e} apart, "
                  f"rho {abs(rhos[0] - rhos[1]):.1e}, {100 * same:.2f}% of the predictions are the same")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gconv", default="gconv")
    parser.add_argument("--libsvm")
    parser.add_argument("--data", default=".")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    options.gconv = str(pathlib.Path(options.gconv).resolve()) if "/" in options.gconv else options.gconv
    options.libsvm = options.libsvm and pathlib.Path(options.libsvm).resolve()
    options.data = pathlib.Path(options.data).resolve()
    bench = Bench(options)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in options.parts or ("letter", "adult", "small", "agree"):
            getattr(bench, part)()
        os.chdir("/")


if __name__ == "__main__":
    main()
