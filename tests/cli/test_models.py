# SPDX-License-Identifier: MIT
"""What models keep of the tables that they were trained on: names of columns, means, what float32 cannot hold; a prediction depends on its own row and the model alone."""
import csv
import io
import re
import unittest

import numpy as np
from helper import CommandTest

rng = np.random.default_rng(37)


class Models(CommandTest):
    TRAINERS = (("svm", "t.csv", "--scale", "standard", "-o", "m"), ("train", "-q", "--table", "t.csv", "--net", "dense 8 tanh, dense 2 softmax", "--rate", "0.05", "--epochs", "60", "-o", "m.safetensors"))

    def write(self, name, rows, header=None):
        lines = ([header] if header else []) + [",".join("" if v is None else v if isinstance(v, str) else repr(v) for v in row) for row in rows]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def predicted(self, model, table, *words, key="class", status=0):
        result = self.gconv("classify", model, "-i", table, *words, status=status)
        return result.stderr if status else [row[key] for row in csv.DictReader(io.StringIO(result.stdout))]

    def each(self):
        for words in self.TRAINERS:
            with self.subTest(words[0]):
                yield words, words[-1]

    def two_columns(self, gaps=0):
        """Class c1 is where a is above 10; b is noise."""
        a, b = 10 + rng.normal(size=120).round(3), rng.normal(size=120).round(3)
        rows = [[float(x), float(y), f"c{int(x > 10)}"] for x, y in zip(a, b)]
        for row in rows[:gaps]:
            row[0] = None
        self.write("t.csv", rows, "a,b,y")
        return rows

    def test_gaps_become_the_means_of_the_training(self):
        self.two_columns(gaps=10)
        self.write("high.csv", [[None, 1.0], [13.0, 0.0], [13.2, 0.1]], "a,b")
        self.write("low.csv", [[None, 1.0], [7.0, 0.0], [7.2, 0.1]], "a,b")
        for words, model in self.each():
            self.gconv(*words, "--missing", "mean")
            high, low = (self.predicted(model, f"{name}.csv", "--missing", "mean") for name in ("high", "low"))
            self.assertEqual(high[0], low[0])
            self.assertEqual((high[1:], low[1:]), (["c1", "c1"], ["c0", "c0"]))
        # The same row among others, and alone: the same bytes.
        self.write("alone.csv", [[None, 1.0]], "a,b")
        self.assertEqual(self.gconv("classify", "m.safetensors", "-i", "alone.csv", "--missing", "mean").stdout.splitlines()[1], self.gconv("classify", "m.safetensors", "-i", "high.csv", "--missing", "mean").stdout.splitlines()[1])
        # A model of an older version knows no means, and says so.
        text = (self.folder / "m").read_text()
        (self.folder / "old").write_text("".join(line + "\n" for line in text.splitlines() if not line.startswith("# column ")))
        result = self.gconv("classify", "old", "-i", "high.csv", "--missing", "mean")
        self.assertIn("keeps no means", result.stderr)

    def test_rows_keep_their_numbers(self):
        self.two_columns()
        rows = [[9.0, 1.0, "c0"], [None, 1.0, "c0"], [12.0, 0.0, "c1"], [8.0, None, "c0"], [13.0, 1.0, "c0"]]
        self.write("d.csv", rows, "a,b,y")
        self.write("bare.csv", [row[:2] for row in rows])  # no header: lines are other numbers
        for words, model in self.each():
            self.gconv(*words)
            for table, lines in (("d.csv", "3, 5"), ("bare.csv", "2, 4")):
                self.assertEqual(self.predicted(model, table, "--missing", "drop", key="case"), ["1", "3", "5"])
                said = self.gconv("classify", model, "-i", table, "--missing", "drop").stderr
                self.assertIn(f"{table}: 2 lines were left out, as numbers or labels are missing: {lines}\n", said)
                self.assertEqual(said.count("were left out"), 1)
            result = self.gconv("classify", model, "-i", "d.csv", "--missing", "drop", "--evaluate", "-o", "p.csv", "--report", "r.html")
            self.assertIn("right: 2 of 3", result.stdout)
            self.assertEqual([line.split(",")[0] for line in (self.folder / "p.csv").read_text().splitlines()], ["case", "1", "3", "5"])
            self.assertRegex((self.folder / "r.html").read_text(), r"<td>5</td><td>c0</td>")

    def test_whole_numbers_of_nearly_as_many_values_as_cases(self):
        a = rng.permutation(80)
        self.write("p.csv", [[float(x), int(3 * x + 1000)] for x in a], "a,price")
        said = self.gconv("svm", "p.csv", "-c", "100", "--scale", "unit", "-o", "m")
        self.assertIn("80 whole numbers, and taken for numbers to be approximated, as by --regression", said.stderr)
        self.assertIn("R2 0.9", self.gconv("classify", "m", "-i", "p.csv", "--evaluate").stdout)
        self.assertIn("80 whole numbers", self.gconv("train", "p.csv", "--net", "dense 8 tanh, dense 1", "--epochs", 3, "-o", "n.safetensors").stderr)
        self.assertIn("80 numbers: root", self.gconv("classify", "n.safetensors", "-i", "p.csv", "--evaluate").stdout)
        # Classes, where they are asked for: by the option, by weights of classes, by softmax.
        for words in (("svm", "p.csv", "--classification", "-o", "c"), ("svm", "p.csv", "--weight", "1000:2", "-o", "c"),
                      ("train", "p.csv", "--net", "dense 80 softmax", "--epochs", 1, "-o", "c.safetensors")):
            self.assertNotIn("approximated", self.gconv(*words).stderr)
            self.assertIn("of 80\n", self.gconv("classify", words[-1], "-i", "p.csv", "--evaluate").stdout)
        for command in (("svm", "p.csv"), ("train", "p.csv", "--net", "dense 1")):
            self.assertIn("--classification and --regression: give one of them", self.gconv(*command, "--regression", "--classification", "-o", "x.safetensors", status=2).stderr)
        # FANN's data with one output of -1 or 1, as classes.
        (self.folder / "xor.data").write_text("4 2 1\n-1 -1\n-1\n-1 1\n1\n1 -1\n1\n1 1\n-1\n")
        self.assertIn("classification takes whole numbers for classes", self.gconv("svm", "xor.data", "-o", "x", status=2).stderr)
        for words in (("svm", "xor.data", "--classification", "-c", 100, "-o", "x"), ("train", "xor.data", "--net", "dense 8 tanh, dense 2 softmax", "--rate", "0.05", "-o", "x.safetensors")):
            self.gconv(*words)
            self.assertIn("100.00% right: 4 of 4", self.gconv("classify", words[-1], "-i", "xor.data", "--evaluate").stdout)

    def test_indices_from_0_are_those_of_the_training(self):
        """A table without the index 0 has the columns of the model, nevertheless."""
        (self.folder / "t.csv").write_text("".join(f"{k % 2} {'0:1 ' if k % 3 else ''}{1 + k % 2}:{1 + k / 100} 3:{k % 5}\n" for k in range(60)))
        (self.folder / "u.libsvm").write_text("0 1:1\n1 2:1\n")  # which 1, 2 would be 0, 1 of, counted from 1 on
        for words, model in self.each():
            self.gconv(*words)
            self.assertEqual(self.predicted(model, "u.libsvm"), ["0", "1"])
            self.assertIn("2 of 2", self.gconv("classify", model, "-i", "u.libsvm", "--evaluate").stdout)

    def test_columns_are_matched_by_name(self):
        self.two_columns()
        self.write("swapped.csv", [[1.0, 9.0], [0.0, 12.0]], "b,a")
        self.write("more.csv", [["x1", 1.0, "c0", 9.0], ["x2", 0.0, "c1", 12.0]], "id,b,y,a")
        self.write("moved.csv", [[1.0, "c0", 9.0], [0.0, "c1", 12.0]], "b,sort,a")
        self.write("other.csv", [[9.0, 1.0], [12.0, 0.0]], "a,c")
        self.write("twice.csv", [[1.0, 1.0, 9.0], [0.0, 0.0, 12.0]], "b,b,a")
        self.write("plain.csv", [[9.0, 1.0], [12.0, 0.0]])
        for words, model in self.each():
            self.gconv(*words)
            for table in ("swapped.csv", "more.csv", "plain.csv"):
                self.assertEqual(self.predicted(model, table), ["c0", "c1"], table)
            self.assertIn("passed over: id", self.gconv("classify", model, "-i", "more.csv").stderr)
            self.assertIn("2 of 2", self.gconv("classify", model, "-i", "more.csv", "--evaluate").stdout)
            self.assertIn("2 of 2", self.gconv("classify", model, "-i", "moved.csv", "--evaluate").stdout)  # the column that is left
            for table, why in (("other.csv", "there is no column b"), ("twice.csv", "several columns are called b")):
                text = self.predicted(model, table, status=1)
                self.assertIn(why, text)
                self.assertRegex(text, r"takes the columns a, b; the table has ")
        self.gconv("train", "-q", "--table", "t.csv", "--net", "dense 2 softmax", "--validate", "moved.csv", "--label", "y", "-o", "v.safetensors", status=2)
        self.gconv("train", "-q", "--table", "t.csv", "--net", "dense 2 softmax", "--validate", "more.csv", "--epochs", "2", "-o", "v.safetensors")

    def test_numbers_that_float32_cannot_tell_apart(self):
        times = 1700000000 + np.arange(1, 41)
        labels = [f"c{k // 10 % 2}" for k in range(40)]
        self.write("t.csv", [[int(t), label] for t, label in zip(times, labels)], "time,y")
        np.save(self.folder / "t.npy", np.column_stack([times.astype(float)]))
        self.write("t.tsv", [[int(t), label] for t, label in zip(times, labels)], "time,y")
        self.write("t.libsvm", [[f"0 1:{t}"] for t in times])
        for words, model in self.each():
            more = ("--scale", "none", "-c", "100") if words[0] == "svm" else ("--epochs", "400", "--batch", "full", "--net", "dense 32 tanh, dense 16 tanh, dense 2 softmax")
            result = self.gconv(*[w for w in words if w != "-q"], *more)
            self.assertIn("column 1 (time): 1700000001 is taken off its numbers", result.stderr)
            found = self.predicted(model, "t.csv")
            self.assertGreater(np.mean([a == b for a, b in zip(found, labels)]), 0.9)
            for table in ("t.npy", "t.libsvm"):
                self.assertEqual(self.predicted(model, table), found, table)
        result = self.gconv("svm", "t.libsvm", "--regression", "-o", "s")
        self.assertIn("float32 cannot tell the numbers of index 1 apart", result.stderr)
        self.write("small.csv", [[1e-50 * k, k % 2] for k in range(8)], "x,y")
        self.assertIn("column 1 (x): float32 cannot tell its numbers apart", self.gconv("svm", "small.csv", "-o", "s").stderr)

    def test_numbers_that_float32_holds_stay_as_they_are(self):
        self.write("t.csv", [[1000.25 + k % 7, 0.1, float(2 ** 24 - k), k % 2] for k in range(40)], "a,b,c,y")
        self.assertEqual(self.gconv("svm", "t.csv", "-o", "m").stderr, "")
        self.assertIn("# column 1 1003.", (self.folder / "m").read_text())

    def test_cross_validation_fills_with_means_of_what_it_learns(self):
        """With as many folds as cases, each is predicted by a model of all others: as by hand."""
        rows = [[None if k == 0 else float(k % 5) + 40 * (k == 3), float(k * k % 7), float(k % 5)] for k in range(8)]
        options = ("--regression", "--missing", "mean", "--scale", "standard", "-c", "10", "-e", "1e-6")
        errors = []
        for k, row in enumerate(rows):
            self.write("rest.csv", rows[:k] + rows[k + 1:])
            self.write("one.csv", [row])
            self.gconv("svm", "rest.csv", *options, "-o", "m")
            errors.append(float(self.predicted("m", "one.csv", "--missing", "mean", key="output1")[0]) - row[2])
        self.write("all.csv", rows)
        text = self.gconv("svm", "all.csv", *options, "-v", "8").stdout
        self.assertAlmostEqual(float(re.search(r"MSE (\S+),", text)[1]), float(np.mean(np.square(errors))), delta=1e-3)


if __name__ == "__main__":
    unittest.main()
