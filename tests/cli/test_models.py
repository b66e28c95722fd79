# SPDX-License-Identifier: MIT
"""What models keep of the tables that they were trained on: names of columns, means, what float32 cannot hold; a prediction depends on its own row and the model alone."""
import csv
import io
import json
import re
import signal
import struct
import subprocess
import time
import unittest

import numpy as np
from helper import GCONV, CommandTest
from PIL import Image
from test_train import read_network

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

    # ---- Targets ----

    def prices(self, offset=106000.0, scale=32000.0, name="t.csv"):
        x = rng.normal(size=(300, 3)).round(4)
        y = offset + scale * (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] / 2)
        self.write(name, [[*map(float, row), float(value)] for row, value in zip(x, y)], "a,b,c,price")
        return x, y

    def r2(self, model, table="t.csv"):
        return float(re.search(r"R2 (\S+)", self.gconv("classify", model, "-i", table, "--evaluate").stdout)[1])

    def test_targets_are_learned_in_a_unit_of_their_own(self):
        net = ("--regression", "--net", "dense 16 tanh, dense 1", "--rate", "0.01", "--epochs", "200")
        for offset, scale in ((106000.0, 32000.0), (0.0, 1e-6), (-5e7, 10.0)):
            _, y = self.prices(offset, scale)
            result = self.gconv("train", "--table", "t.csv", *net, "-o", "n.safetensors")
            self.assertIn("the network yields targets in their own unit", result.stderr)
            self.assertGreater(self.r2("n.safetensors"), 0.85)
            found = [float(v) for v in self.predicted("n.safetensors", "t.csv", key="output1")]
            self.assertLess(np.sqrt(np.mean((found - y) ** 2)), 0.4 * np.std(y))
        # What needs no scale keeps its bytes: the loss is that of the targets as they are.
        _, y = self.prices(0.0, 0.5)
        result = self.gconv("train", "--table", "t.csv", *net, "--json", "-o", "n.safetensors")
        self.assertNotIn("unit of the targets", result.stderr)
        result = self.gconv("train", "--table", "t.csv", "--regression", "--net", "dense 4, dense 1 tanh", "--epochs", "1", "-o", "n.safetensors")
        self.assertIn("goes from", result.stderr)
        self.assertIn("only yields numbers from -1 to 1", result.stderr)

    def test_targets_of_several_units(self):
        x = rng.normal(size=(300, 2))
        self.write("x.csv", [[*map(float, row)] for row in x], "a,b")
        y = np.stack([1e5 + 2e4 * x[:, 0], 0.001 * x[:, 1]], 1)
        self.write("y.csv", [[*map(float, row)] for row in y], "u,v")
        self.gconv("train", "-q", "--table", "x.csv", "-t", "y.csv", "--regression", "--net", "dense 8 tanh, dense 2", "--rate", "0.02", "--validate", "20%", "-o", "n.safetensors")
        found = np.array([[float(row["output1"]), float(row["output2"])] for row in csv.DictReader(io.StringIO(self.gconv("classify", "n.safetensors", "-i", "x.csv").stdout))])
        self.assertLess((np.mean((found - y) ** 2, 0) / np.var(y, 0)).max(), 0.05)

    def test_scaled_targets_go_on_with_the_same_bytes(self):
        self.prices()
        words = ["train", "--table", "t.csv", "--regression", "--net", "dense 16 tanh, dense 1", "--validate", "20%", "--epochs", "1500", "-q"]
        self.gconv(*words, "-o", "whole.safetensors")
        process = subprocess.Popen([GCONV, *words, "--save-every", "0.01", "-o", "n.safetensors"], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL)
        checkpoint = self.folder / "n.safetensors.checkpoint"
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(checkpoint.exists())  # a run that is killed leaves what it wrote in time
        self.gconv(*words, "--resume", "-o", "n.safetensors")
        self.assertEqual((self.folder / "n.safetensors").read_bytes(), (self.folder / "whole.safetensors").read_bytes())

    # ---- Checkpoints ----

    def change(self, path, change):
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        state = json.loads(header["__metadata__"]["gconv-checkpoint"])
        change(state)
        header["__metadata__"]["gconv-checkpoint"] = json.dumps(state)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.with_suffix(".changed").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])

    def test_damaged_checkpoints(self):
        self.two_columns()
        words = ["train", "--table", "t.csv", "--net", "dense 8 tanh, dense 2 softmax", "--batch", "8", "-q", "-o", "n.safetensors"]
        process = subprocess.Popen([GCONV, *words, "--epochs", "10000000", "--save-every", "0.01"], cwd=self.folder, env=self.environment(), stderr=subprocess.DEVNULL)
        checkpoint = self.folder / "n.safetensors.checkpoint"
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        sound = checkpoint.read_bytes()
        changes = {"best_loss": lambda c: c["state"].update(best_loss=0.5), "loss": lambda c: c["state"].pop("loss"), "steps": lambda c: c["state"].update(steps=c["state"]["steps"] + 1), "no sum": lambda c: c.pop("checksum"),
                   "best": lambda c: c["state"].update(best_loss=None)}
        for name, change in changes.items():
            checkpoint.write_bytes(sound)
            self.change(checkpoint, change)
            checkpoint.write_bytes(checkpoint.with_suffix(".changed").read_bytes())
            text = self.gconv(*words, "--epochs", "2", "--resume", status=1).stderr
            self.assertIn("n.safetensors.checkpoint: is damaged", text, name)
        checkpoint.write_bytes(sound[:-40] + bytes([sound[-40] ^ 1]) + sound[-39:])  # a bit of the weights
        self.assertIn("its checksum is wrong", self.gconv(*words, "--epochs", "2", "--resume", status=1).stderr)

    # ---- Weights of classes ----

    def test_weights_of_classes(self):
        """Doubling a class by its weight is doubling its cases, where a step has all of them and losses are sums."""
        x = rng.normal(size=(60, 2)).round(3)
        rows = [[float(a), float(b), "rare" if a + b > 1.2 else "common"] for a, b in x]
        self.write("t.csv", rows, "a,b,y")
        self.write("d.csv", rows + [row for row in rows if row[2] == "rare"], "a,b,y")
        words = ("--net", "dense 4 tanh, dense 2 softmax", "--loss", "sse", "--batch", "full", "--optimizer", "sgd", "--rate", "0.01", "--normalize", "no", "-q")
        self.gconv("train", "--table", "t.csv", "-w", "rare:2", *words, "-o", "w.safetensors")
        self.gconv("train", "--table", "d.csv", *words, "-o", "d.safetensors")
        self.gconv("train", "--table", "t.csv", *words, "-o", "n.safetensors")
        w, d, n = (read_network(self.folder / f"{name}.safetensors")[0]["l1.weight"] for name in "wdn")
        np.testing.assert_allclose(w, d, atol=1e-4)
        self.assertGreater(np.abs(w - n).max(), 1e-2)
        self.gconv("train", "--table", "t.csv", "-w", "rare:1", *words, "-o", "one.safetensors")
        np.testing.assert_array_equal(read_network(self.folder / "one.safetensors")[0]["l1.weight"], n)
        self.gconv("train", "--table", "t.csv", "-w", "rare:20", "--rate", "0.02", "--net", "dense 4 tanh, dense 2 softmax", "-q", "-o", "h.safetensors")
        self.assertLess([c for c, row in zip(self.predicted("h.safetensors", "t.csv"), rows) if row[2] == "rare"].count("common"), 2)
        self.usage_error("there is no class blue to weigh", "train", "--table", "t.csv", "-w", "blue:2", *words, "-o", "w.safetensors")
        self.usage_error("--weight rare: this takes a class", "train", "--table", "t.csv", "-w", "rare", *words, "-o", "w.safetensors")

    # ---- Pictures ----

    def test_pictures_far_from_what_was_learned(self):
        values = rng.integers(0, 4000, (6, 8)).repeat(16, 0).repeat(16, 1) + rng.integers(0, 90, (96, 128))
        for name, picture in {"learned": values * 16, "twelve": values, "mask": np.where(values > 2000, 2, 1)}.items():
            Image.fromarray(picture.astype(np.uint8 if name == "mask" else np.uint16)).save(self.folder / f"{name}.png")
        grey = (values * 16 / 257).astype(np.uint8)
        Image.fromarray(grey).save(self.folder / "bytes.png")
        Image.fromarray(np.stack([grey] * 3, 2)).save(self.folder / "colours.png")
        np.save(self.folder / "floats.npy", (values * 16 / 257).astype(np.float32))
        features = ("--features", "gaussian 1 2, log 1", "-q")
        self.gconv("svm", "learned.png", "mask.png", *features, "-o", "m")
        self.gconv("train", "-i", "learned.png", "-t", "mask.png", *features, "--net", "dense 4 tanh, dense 2 softmax", "-o", "m.safetensors")
        for model in "m", "m.safetensors":
            for name in "learned.png", "bytes.png":
                self.assertEqual(self.gconv("classify", model, "-i", name, "-o", "o.png", "-q").stderr, "")
                self.assertNotIn("warning", self.gconv("classify", model, "-i", name, "-o", "o.png").stderr)
            for name, says in (("twelve.png", r"far from the pictures that the model learned: its features are 0\.0[456]\d* times"), ("floats.npy", r"are [2-9]\d\d times as strong"),
                               ("colours.png", "has colours, and the model learned grey ones")):
                self.assertRegex(self.gconv("classify", model, "-i", name, "-o", "o.png").stderr, says)
            self.assertIn("far from the pictures", self.gconv("classify", model, "twelve.png", "mask.png", "--evaluate").stderr)

    # ---- Machines that do not converge ----

    def test_columns_of_unequal_scale(self):
        a, b = rng.normal(size=40) * 1e4, rng.normal(size=40)
        self.write("t.csv", [[float(x), float(y), int(y + rng.normal() > 0)] for x, y in zip(a, b)], "a,b,y")
        result = self.gconv("svm", "t.csv", "-k", "linear", "-c", "1000", "-o", "m")
        self.assertRegex(result.stderr, r"unequal scale: the standard deviation of column 1 \(a\) is .*column 2 \(b\).*--scale standard")
        self.assertIn("ended before the tolerance was reached", result.stderr)
        self.assertEqual(self.gconv("svm", "t.csv", "-k", "linear", "-c", "1000", "--scale", "standard", "-o", "m").stderr, "")

    def test_targets_of_machines_have_their_unit(self):
        """-c and -p are in the unit of the targets, as LIBSVM has them: a line tells which ones are those of scaled targets."""
        _, y = self.prices(name="t.csv")
        text = self.gconv("svm", "t.csv", "--regression", "-o", "m").stderr
        cost, tube = re.search(r"-c (\S+) -p (\S+) have", text).groups()
        self.assertAlmostEqual(float(cost) / np.std(y), 1, delta=0.01)
        self.assertLess(self.r2("m"), 0.2)
        self.assertEqual(self.gconv("svm", "t.csv", "--regression", "-c", cost, "-p", tube, "-o", "m").stderr, "")
        self.assertGreater(self.r2("m"), 0.8)


if __name__ == "__main__":
    unittest.main()
