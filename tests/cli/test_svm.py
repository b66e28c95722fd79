# SPDX-License-Identifier: MIT
"""gconv svm and gconv classify of its models: the conditions of the optimum in float64, models as LIBSVM's text, and what is refused."""
import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import unittest
from xml.etree import ElementTree

import numpy as np
from helper import GCONV, CommandTest

try:
    from sklearn.svm import SVC
except ImportError:
    SVC = None


class Model:
    """The text of a model, read here."""

    def __init__(self, path):
        text = path.read_text()
        header, rest = re.split("\nSV.*\n", text)
        fields = {line.split()[0]: line.split()[1:] for line in header.splitlines()}
        vectors = [line for line in rest.splitlines() if not line.startswith("#")]
        notes = [line[2:].split() for line in rest.splitlines() if line.startswith("#")]
        self.type, self.kernel = fields["svm_type"][0], fields["kernel_type"][0]
        self.gamma, self.coef0, self.degree = (float(fields.get(name, ["0"])[0]) for name in ("gamma", "coef0", "degree"))
        self.rho = np.array(fields["rho"], float)
        self.prob_a, self.prob_b = (np.array(fields.get(name, []), float) for name in ("probA", "probB"))
        self.label = fields.get("label", [])
        self.counts = [int(n) for n in fields.get("nr_sv", [fields["total_sv"][0]])]
        columns = [int(n[1]) for n in notes if n[0] == "columns"]
        entries = [[word.split(":") for word in line.split() if ":" in word] for line in vectors]
        width = columns[0] if columns else max(int(i) for row in entries for i, _ in row)
        self.vectors = np.zeros((len(vectors), width))
        for row, words in enumerate(entries):
            for index, value in words:
                self.vectors[row, int(index) - 1] = np.float32(value)
        self.coefficients = np.array([[float(w) for w in line.split() if ":" not in w] for line in vectors]).T
        self.names = [n[1] for n in notes if n[0] == "class"] or self.label
        scale = [n for n in notes if n[0] == "scale"]
        self.scale = [float(x) for x in scale[0][1:3]] if scale else None
        self.ranges = np.array([[float(x) for x in n[2:]] for n in notes if n[0] == "range"])
        assert len(vectors) == int(fields["total_sv"][0]) == sum(self.counts)

    def scaled(self, x):
        if not self.scale:
            return x
        low, high = self.ranges.T
        return (self.scale[0] + (self.scale[1] - self.scale[0]) * (x - low) / np.where(high > low, high - low, 1)) * (high > low)

    def kernel_of(self, x, y):
        if self.kernel == "rbf":
            return np.exp(-self.gamma * ((x[:, None] - y[None]) ** 2).sum(2))
        dot = x @ y.T
        return {"linear": lambda: dot, "polynomial": lambda: (self.gamma * dot + self.coef0) ** self.degree,
                "sigmoid": lambda: np.tanh(self.gamma * dot + self.coef0)}[self.kernel]()

    def values(self, x):
        """Of each row the value of each pair of classes, or of the regression."""
        k = self.kernel_of(self.scaled(x), self.vectors)
        if self.type == "epsilon_svr":
            return k @ self.coefficients.T - self.rho
        ends = np.cumsum([0, *self.counts])
        values = []
        for i in range(len(self.counts)):
            for j in range(i + 1, len(self.counts)):
                a, b = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
                values.append(k[:, a] @ self.coefficients[j - 1, a] + k[:, b] @ self.coefficients[i, b] - self.rho[len(values)])
        return np.array(values).T

    def classes(self, x):
        values, count = self.values(x), len(self.counts)
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        votes = np.zeros((len(x), count), int)
        for v, (i, j) in zip(values.T, pairs):
            votes[np.arange(len(x)), np.where(v > 0, i, j)] += 1
        return [self.names[k] for k in votes.argmax(1)]


class Svm(CommandTest):
    def blobs(self, name, count, classes=2, seed=0, columns=3, spread=1.0, unscaled=False):
        rng = np.random.default_rng(seed)
        kinds = np.arange(count) % classes
        centres = rng.normal(0, 1.5, (classes, columns))
        x = (centres[kinds] + rng.normal(0, spread, (count, columns))).astype(np.float32)
        if unscaled:
            x *= np.float32(10.0) ** np.arange(-1, columns - 1, dtype=np.float32)
        self.write(name, x, kinds + 1)
        return x.astype(np.float64), kinds

    def write(self, name, x, y):
        lines = [f"{label:.9g} " + " ".join(f"{i + 1}:{v:.9g}" for i, v in enumerate(row) if v != 0) for row, label in zip(x, y)]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def classified(self, model, table, *words):
        return list(csv.DictReader(io.StringIO(self.gconv("classify", "-q", model, table, *words).stdout)))

    def objective(self, *words):
        return json.loads(self.gconv("svm", "--json", *words).stdout)["model"]["objective"]

    def check_optimum(self, model, x, kinds, costs, tolerance):
        """The Karush-Kuhn-Tucker conditions of each pair, at all cases. Returns the sum of the objectives."""
        ends, total = np.cumsum([0, *model.counts]), 0
        for i in range(len(model.counts)):
            for j in range(i + 1, len(model.counts)):
                members = np.flatnonzero((kinds == i) | (kinds == j))
                y = np.where(kinds[members] == i, 1.0, -1.0)
                b = np.zeros(len(members))
                for sign, c, row, span in ((1, i, j - 1, slice(ends[i], ends[i + 1])), (-1, j, i, slice(ends[j], ends[j + 1]))):
                    coefficients = model.coefficients[row, span]
                    self.assertTrue(((coefficients * sign >= 0) & (coefficients * sign <= costs[c])).all())
                    for vector, value in zip(model.vectors[span], coefficients):
                        same = [k for k in np.flatnonzero((kinds[members] == c) & (b == 0)) if (x[members[k]] == vector).all()]
                        b[same[0]] = value
                cost = np.where(y > 0, costs[i], costs[j])
                gradient = y - model.kernel_of(x[members], x[members]) @ b
                alpha = b * y
                grow, shrink = np.where(y > 0, alpha < cost, alpha > 0), np.where(y > 0, alpha > 0, alpha < cost)
                self.assertLess(gradient[grow].max() - gradient[shrink].min(), tolerance)
                self.assertLess(abs(b.sum()), 1e-9 * (1 + abs(b).sum()))
                total += -(b @ (y + gradient)) / 2
        return total

    def test_optimum(self):
        """C from 1e-3 to 1e5, two classes and more, duplicates, unscaled data: the optimum, and what classify makes of it."""
        for c, g, classes, count, unscaled in ((1e-3, 0.5, 2, 60, False), (1, 0.5, 4, 90, False), (100, 0.02, 3, 75, True),
                                               (1e5, 0.3, 2, 100, False), (10, 2, 2, 1300, False)):
            with self.subTest(c=c, classes=classes, count=count):
                x, kinds = self.blobs("t.libsvm", count, classes, 1, unscaled=unscaled)
                x[5], x[7] = x[5 + classes], x[7 + classes]
                self.write("t.libsvm", x, kinds + 1)
                words = ["t.libsvm", "-c", c, "-g", g, "-e", "1e-4"]
                objective = self.objective(*words, "-o", "m.model")
                model = Model(self.folder / "m.model")
                found = self.check_optimum(model, x, kinds, [c] * classes, 1.3e-4 + c * 1e-6)
                self.assertLess(abs(objective - found), (1e-5 if c < 1e5 else 1e-4) * abs(found))  # kernel values are float32
                test, truth = self.blobs("test.libsvm", 200, classes, 2, unscaled=unscaled)
                rows = self.classified("m.model", "test.libsvm", "--evaluate", "-o", "-")
                self.assertEqual([r["class"] for r in rows], model.classes(test))
                self.assertEqual([r["label"] for r in rows], [str(k + 1) for k in truth])
                self.gconv("svm", "-q", *words, "-m", "0.001", "--threads", "1", "-o", "other.model", env={"GCONV_ISA": "plain" if count < 500 else "avx512"})
                self.assertEqual((self.folder / "m.model").read_bytes(), (self.folder / "other.model").read_bytes())

    def test_kernels_and_weights(self):
        x, kinds = self.blobs("t.libsvm", 90, 3, 3)
        for words in (["-k", "linear"], ["-k", "poly", "-g", "0.3", "--coef0", "1", "--degree", "2"], ["-k", "rbf"],
                      ["-k", "linear", "-w", "2:5", "-w", "3:0.25"], ["--shrinking", "no", "-g", "0.7"]):
            self.gconv("svm", "t.libsvm", "-c", "2", "-e", "1e-4", "-o", "m.model", *words)
            model = Model(self.folder / "m.model")
            costs = [2, 10, 0.5] if "-w" in words else [2, 2, 2]
            self.check_optimum(model, x, kinds, costs, 1.3e-4)
            self.assertEqual([r["class"] for r in self.classified("m.model", "t.libsvm")], model.classes(x))
        self.gconv("svm", "t.libsvm", "-k", "rbf", "-o", "m.model")
        self.assertEqual(Model(self.folder / "m.model").gamma, 1 / 3)

    def test_far_from_zero(self):
        """Where |x|^2 + |y|^2 - 2 x y would cancel even in float64."""
        x, kinds = self.blobs("t.libsvm", 80, 3, 10)
        x = (x + [1e5, -2e5, 3e5]).astype(np.float32).astype(float)
        self.write("t.libsvm", x, kinds + 1)
        self.gconv("svm", "t.libsvm", "-c", "5", "-g", "0.5", "-e", "1e-4", "-o", "m.model")
        model = Model(self.folder / "m.model")
        self.check_optimum(model, x, kinds, [5] * 3, 1.3e-4)
        self.assertEqual([r["class"] for r in self.classified("m.model", "t.libsvm")], model.classes(x))

    def test_a_precomputed_kernel(self):
        """Its model has the values of the kernel that was computed before, for rows of kernel values, also in cross-validation."""
        x, kinds = self.blobs("t.libsvm", 80, 3, 10)
        x = x.astype(float)
        square = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(2))
        np.savetxt(self.folder / "k.csv", np.hstack([square, kinds[:, None] + 1]), delimiter=",", fmt="%.9g")
        np.save(self.folder / "k.npy", square.astype(np.float32))
        self.gconv("svm", "k.csv", "-k", "precomputed", "-c", "5", "-e", "1e-4", "-o", "k.model")
        self.gconv("svm", "t.libsvm", "-c", "5", "-g", "0.5", "-e", "1e-4", "-o", "m.model")
        found, expected = Model(self.folder / "k.model"), Model(self.folder / "m.model")
        self.assertEqual(found.kernel, "linear")
        np.testing.assert_allclose(found.values(square), expected.values(x), atol=2e-3)
        self.assertEqual([r["class"] for r in self.classified("k.model", "k.npy")], expected.classes(x))
        told = [self.gconv("svm", *words, "-c", "5", "-v", "4").stdout for words in (("k.csv", "-k", "4"), ("t.libsvm", "-g", "0.5"))]
        self.assertEqual(*(text.split("right")[0].split()[-2:] for text in told))
        self.usage_error("a column for each case", "svm", "t.libsvm", "-k", "precomputed", "-o", "n.model")
        said = self.gconv("svm", "k.csv", "-k", "precomputed", "-g", "2", "--degree", "2", "-o", "n.model").stderr
        self.assertIn("no effect on this kernel and kind of targets: --gamma --degree", said)
        self.usage_error("no columns to scale", "svm", "k.csv", "-k", "precomputed", "--scale", "unit", "-o", "n.model")
        self.usage_error("no gamma", "svm", "k.csv", "-k", "precomputed", "--grid", "--log2g", "1:2:1")

    def test_sums_of_many_vectors_and_columns(self):
        """Values of models are sums in float64: near those of more digits, whatever the kernel, the sizes and the offset."""
        rng = np.random.default_rng(7)
        for vectors, columns, offset in ((10000, 6, 0), (10000, 6, 1000), (3, 100000, 0), (3, 100000, 30)):
            points = (offset + rng.normal(size=(vectors, columns))).astype(np.float32)
            x = (offset + rng.normal(size=(4, columns))).astype(np.float32)
            weights = rng.uniform(-100, 100, vectors)
            np.save(self.folder / "x.npy", x)
            near, a, b = 1 / columns / (1 + offset**2), points.astype(np.longdouble), x.astype(np.longdouble)
            rows = "".join(f"{w!r} " + " ".join(f"{i + 1}:{v:.9g}" for i, v in enumerate(row)) + "\n" for w, row in zip(weights.tolist(), points.tolist()))
            dots, apart = b @ a.T, np.array([((a - row) ** 2).sum(1) for row in b])
            for kernel, gamma, values in (("linear", 1, dots), ("polynomial", near, (near * dots + 1) ** 3), ("rbf", 1 / columns, np.exp(-apart / columns)),
                                          ("sigmoid", near, np.tanh(near * dots + 1))):
                head = f"svm_type epsilon_svr\nkernel_type {kernel}\ndegree 3\ngamma {gamma!r}\ncoef0 1\nnr_class 2\ntotal_sv {vectors}\nrho 0.5\nSV\n"
                (self.folder / "m.model").write_text(head + rows)
                self.gconv("classify", "-q", "m.model", "x.npy", "-d", "cpu", "-o", "y.csv")
                with self.subTest(kernel, vectors=vectors, columns=columns, offset=offset):
                    found, expected = np.loadtxt(self.folder / "y.csv", delimiter=",", skiprows=1)[:, 1], values @ weights - 0.5
                    allowed = 1e-8 * (abs(values) @ abs(weights) + 0.5) + 1e-8 * abs(expected)  # the second: 9 digits are written
                    self.assertTrue((abs(found - expected) <= allowed).all(), f"{abs(found - expected)} {allowed}")

    def regression(self, count=120):
        rng = np.random.default_rng(4)
        x = rng.uniform(-2, 2, (count, 2)).astype(np.float32)
        y = (np.sin(x[:, 0]) + 0.5 * x[:, 1] + rng.normal(0, 0.1, count)).astype(np.float32)
        self.write("r.libsvm", x, y)
        return x.astype(np.float64), y.astype(np.float64)

    def test_regression(self):
        x, y = self.regression()
        for c, tube in ((1, 0.1), (20, 0), (0.5, 0.3)):
            self.gconv("svm", "r.libsvm", "--regression", "-c", c, "-g", "0.5", "-p", tube, "-e", "1e-4", "-o", "m.model")
            model = Model(self.folder / "m.model")
            b = np.zeros(len(x))
            for vector, value in zip(model.vectors, model.coefficients[0]):
                b[np.flatnonzero((x == vector).all(1))[0]] = value
            error = y - model.kernel_of(x, x) @ b + model.rho[0]
            tolerance = 2e-4
            self.assertLess(abs(b.sum()), 1e-9 * (1 + abs(b).sum()))
            self.assertTrue((abs(b) <= c).all())
            self.assertTrue((error[b < c] <= tube + tolerance).all() and (error[b > -c] >= -tube - tolerance).all())
            self.assertTrue((error[b > 0] >= tube - tolerance).all() and (error[b < 0] <= -tube + tolerance).all())
            rows = self.classified("m.model", "r.libsvm")
            np.testing.assert_allclose([float(r["output1"]) for r in rows], model.values(x)[:, 0], atol=1e-5)
        text = self.gconv("classify", "m.model", "r.libsvm", "--evaluate").stdout
        mse = ((model.values(x)[:, 0] - y) ** 2).mean()
        self.assertAlmostEqual(float(re.search(r"squared error ([\d.]+)", text)[1]), mse ** 0.5, 5)
        found = json.loads(self.gconv("svm", "r.libsvm", "--regression", "-v", "5", "--json").stdout)["validation"]
        self.assertTrue(0.005 < found["mse"] < 0.1 and found["squared_correlation"] > 0.9 and found["accuracy"] is None)

    def test_models_of_libsvm(self):
        """A model as LIBSVM 3.24 wrote it, with columns that no vector has, and of nu-SVR."""
        lines = ["svm_type c_svc", "kernel_type polynomial", "degree 2", "gamma 0.5", "coef0 1", "nr_class 3", "total_sv 4",
                 "rho 0.25 -0.5 0.125", "label 7 -2 3", "nr_sv 1 2 1", "SV", "0.75 0.5 1:1 4:0.5 ", "-0.5 0.25 2:-1 ",
                 "-0.25 1 1:0.5 3:2 ", "-0.5 -1.25 4:3 "]
        (self.folder / "m.model").write_text("\n".join(lines) + "\n")
        x = np.random.default_rng(0).normal(0, 1, (50, 4)).astype(np.float32)
        self.write("t.libsvm", x, [7] * 50)
        model = Model(self.folder / "m.model")
        self.assertEqual([r["class"] for r in self.classified("m.model", "t.libsvm")], model.classes(x.astype(float)))
        svr = lines[0:1] + ["kernel_type rbf", "gamma 0.5", "nr_class 2", "total_sv 1", "rho -2", "SV", "1.5 1:1 2:1"]
        (self.folder / "r.model").write_text("\n".join(svr).replace("c_svc", "nu_svr") + "\n")
        self.write("one.libsvm", [[1.0, 1.0], [1.0, 3.0]], [0, 0])
        self.assertEqual([r["output1"] for r in self.classified("r.model", "one.libsvm")], ["3.5", f"{2 + 1.5 * np.exp(-2):.9g}"])

    def test_names_and_scaling(self):
        rng = np.random.default_rng(5)
        kinds = np.arange(90) % 3
        x = (rng.normal(0, 0.6, (90, 2)) + np.array([[0, 2], [2, -1], [-2, -1]])[kinds]) * [1, 100] + [5, 0]
        x = x.astype(np.float32)
        rows = [f"{a:.9g},{b:.9g},3,{['red', 'green', 'blue'][k]}" for (a, b), k in zip(x, kinds)]
        (self.folder / "t.csv").write_text("a,b,constant,kind\n" + "\n".join(rows) + "\n")
        whole = np.hstack([x, np.full((90, 1), 3)]).astype(float)
        for scale, lower in (("symmetric", -1), ("-1,1", -1), ("unit", 0)):
            self.gconv("svm", "t.csv", "--scale", scale, "-c", "3", "-g", "2", "-o", "m.model")
            model = Model(self.folder / "m.model")
            self.assertEqual((model.names, model.scale, model.label), (["red", "green", "blue"], [lower, 1], ["1", "2", "3"]))
            self.assertTrue(abs(model.vectors[:, 2]).max() == 0 and model.vectors.min() >= lower and model.vectors.max() <= 1)
            self.assertEqual([r["class"] for r in self.classified("m.model", "t.csv")], model.classes(whole))
            self.assertIn("100.00% right", self.gconv("classify", "m.model", "-i", "t.csv", "--evaluate").stdout)
        self.assertIn("right: ", self.gconv("svm", "t.csv", "--scale", "unit", "-v", "10").stdout)
        # The model knows the column of labels by its name, wherever it is.
        lines = (self.folder / "t.csv").read_text().splitlines()
        (self.folder / "first.csv").write_text("".join(",".join(line.split(",")[::-1]) + "\n" for line in lines))
        (self.folder / "other.csv").write_text("".join(",".join(line.split(",")[2::-1] + [line.split(",")[3]]) + "\n" for line in lines))
        self.gconv("svm", "first.csv", "--label", "kind", "--scale", "unit", "-c", "3", "-g", "2", "-o", "m.model")
        self.assertIn("100.00% right", self.gconv("classify", "m.model", "other.csv", "--evaluate").stdout)
        self.assertEqual(self.classified("m.model", "other.csv"), self.classified("m.model", "first.csv"))

    def test_probabilities(self):
        for classes in (2, 3):
            x, kinds = self.blobs("t.libsvm", 120, classes, 6)
            self.gconv("svm", "t.libsvm", "-b", "-g", "0.5", "-o", "m.model")
            model = Model(self.folder / "m.model")
            r = np.zeros((len(x), classes, classes))
            pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
            for v, a, b, (i, j) in zip(model.values(x).T, model.prob_a, model.prob_b, pairs):
                self.assertLess(a, 0)
                r[:, i, j] = np.clip(1 / (1 + np.exp(a * v + b)), 1e-7, 1 - 1e-7)
                r[:, j, i] = 1 - r[:, i, j]
            expected = []
            for one in r:  # the minimum of sum (r_ji p_i - r_ij p_j)^2 where sum p = 1, by Lagrange's equations
                q = np.where(np.eye(classes, dtype=bool), (one ** 2).sum(0), -one * one.T)
                system = np.block([[q, np.ones((classes, 1))], [np.ones((1, classes)), np.zeros((1, 1))]])
                expected.append(np.linalg.solve(system, [0] * classes + [1])[:classes] if classes > 2 else [one[0, 1], one[1, 0]])
            rows = self.classified("m.model", "t.libsvm")
            np.testing.assert_allclose([float(row["probability"]) for row in rows], np.max(expected, 1), atol=0.01)
            agree = np.mean([row["class"] == model.names[k] for row, k in zip(rows, np.argmax(expected, 1))])
            self.assertGreater(agree, 0.98)
            best, right = np.max(expected, 1), np.argmax(expected, 1) == kinds
            self.assertLess(abs(best.mean() - right.mean()), 0.08)  # they tell how often the class is right
        self.regression()
        self.gconv("svm", "r.libsvm", "--regression", "-b", "-o", "m.model")
        self.assertTrue(0.03 < Model(self.folder / "m.model").prob_a[0] < 0.3)

    def test_cross_validation_and_grid(self):
        self.blobs("t.libsvm", 120, 3, 7, spread=0.8)
        words = ["svm", "t.libsvm", "--grid", "--log2c", "-2:4:3", "--log2g", "-1:-9:-4", "-v", "4"]
        text = self.gconv(*words, "-o", "m.model", "--plot", "grid.svg").stdout
        picture = ElementTree.parse(self.folder / "grid.svg").getroot()
        self.assertEqual([len(picture.findall(f"{{*}}{name}")) for name in ("rect", "text")], [1 + 9, 1 + 9 + 3 + 3 + 2])
        rows = [line.split() for line in text.splitlines()[1:5]]
        self.assertEqual((rows[0], [r[0] for r in rows[1:]]), (["-2", "1", "4"], ["-1", "-5", "-9"]))
        best = re.search(r"best: -c (\S+) -g (\S+): (\S+)% right", text)
        scores = [[float(s.rstrip("*")) for s in row[1:]] for row in rows[1:]]
        self.assertEqual(float(best[3]), np.max(scores))
        self.assertEqual(Model(self.folder / "m.model").gamma, float(best[2]))
        single = json.loads(self.gconv("svm", "t.libsvm", "-v", "4", "-c", best[1], "-g", best[2], "--json").stdout)
        self.assertAlmostEqual(100 * single["validation"]["accuracy"], np.max(scores), 2)
        grid = json.loads(self.gconv(*words, "--json").stdout)["grid"]
        np.testing.assert_allclose([100 * cell["accuracy"] for cell in grid], np.ravel(scores), atol=0.006)
        self.assertEqual(grid[1], {"c": 2.0, "gamma": 0.5, "accuracy": grid[1]["accuracy"]})
        seeds = {self.gconv("svm", "t.libsvm", "-v", "4", "--seed", s, "--json").stdout for s in range(5)}
        self.assertGreater(len(seeds), 1)

    def test_info(self):
        (self.folder / "t.csv").write_text("a,b,kind\n" + "".join(f"{i},{i % 7},{'red' if i < 10 else 'blue'}\n" for i in range(20)))
        self.gconv("svm", "t.csv", "--scale", "unit", "-b", "-k", "polynomial", "-o", "m.model")
        shown = self.gconv("info", "m.model").stdout
        for part in ("support vector machine for classes", "of 2 columns", "polynomial, gamma 0.5, coef0 0, degree 3", "each column to 0 .. 1", "2: red, blue",
                     "probabilities"):
            self.assertIn(part, shown)

    def test_what_is_refused(self):
        self.blobs("t.libsvm", 30)
        (self.folder / "one.csv").write_text("1,a\n2,a\n3,a\n")
        (self.folder / "few.csv").write_text("1,a\n2,b\n3,b\n4,b\n")
        (self.folder / "nan.csv").write_text("1,a\nnan,b\n")
        (self.folder / "two.csv").write_text("1,2,a\n2,3,b\n")
        for fragment, *words in (
                ("-c 0: ", "t.libsvm", "-c", "0", "-o", "m.model"),
                ("a number above 0", "t.libsvm", "-g", "0", "-o", "m.model"), ("a number above 0", "t.libsvm", "-g", "-1", "-o", "m.model"),
                ("above 0", "t.libsvm", "-e", "0", "-o", "m.model"), ("name the model with -o", "t.libsvm"), ("name one table", "-o", "m.model"),
                ("no file \"1\"", "t.libsvm", "-b", "1", "-o", "m.model"), ("no file \"n.model\"", "t.libsvm", "n.model"),
                ("the class a has 1 case", "few.csv", "-v", "2"), ("the class a has 1 case", "few.csv", "-b", "-o", "m.model"),
                ("31 folds of 30 cases", "t.libsvm", "-v", "31"), ("no class 9 to weigh", "t.libsvm", "-w", "9:2", "-o", "m.model"),
                ("--weight 1: this takes", "t.libsvm", "-w", "1", "-o", "m.model"), ("--log2c and --log2g are for --grid", "t.libsvm", "--log2c", "1:2:1", "-v", "2"),
                ("exponents of 2", "t.libsvm", "--grid", "--log2c", "1:2:-1"), ("there is no folder", "t.libsvm", "-o", "no/m.model"), ("--plot is the picture", "t.libsvm", "-v", "2", "--plot", "a.svg"),
                ("would replace a file that is read", "t.libsvm", "-o", "t.libsvm"), ("--weight is for classes", "t.libsvm", "--regression", "-w", "1:2", "-v", "2")):
            self.usage_error(fragment, "svm", *words)
        self.assertIn("there must be two classes at least", self.gconv("svm", "one.csv", "-o", "m.model", status=1).stderr)
        self.assertIn("nan.csv:2", self.gconv("svm", "nan.csv", "-o", "m.model", status=1).stderr)
        self.assertFalse((self.folder / "m.model").exists())
        self.gconv("svm", "t.libsvm", "-o", "m.model")
        self.usage_error("has 2 columns, where the model takes 3", "classify", "m.model", "two.csv", "--label", "3")
        self.usage_error("--windows and --raw are for networks", "classify", "m.model", "t.libsvm", "--windows", "5")

    def test_too_large(self):
        """Few entries in many columns are read as they are; what their zeros would take is told at once."""
        (self.folder / "wide.libsvm").write_text("".join(f"{i % 2} {1 + i % 9}:1 {1 << 24}:{i}\n" for i in range(20000)))
        refused = self.gconv("svm", "wide.libsvm", "-d", "cpu", "-o", "m.model", status=1).stderr
        self.assertIn("no memory for 20000 cases of 16777216 numbers: with their zeros, which the CPU stores, they take 2500.0 GiB", refused)
        self.assertIn("train on fewer cases", refused)
        self.assertFalse((self.folder / "m.model").exists())

    def test_progress_and_signals(self):
        """On a terminal, a line tells how far training is; a signal leaves nothing, and says so."""
        x, _ = self.blobs("t.libsvm", 1500, 3, 4, spread=3.0)
        terminal, child = pty.openpty()
        process = subprocess.Popen([GCONV, "svm", "t.libsvm", "-c", "1e9", "-e", "1e-9", "-o", "m.model"], cwd=self.folder, env=self.environment(), stderr=child,
                                   stdout=subprocess.DEVNULL)
        os.close(child)
        said = b""
        while b"machines" not in said:
            said += os.read(terminal, 1000)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        try:
            while more := os.read(terminal, 1000):
                said += more
        except OSError:  # the other side is closed
            pass
        os.close(terminal)
        self.assertRegex(said.decode(), r"\[\.{24}\] 0/3 machines")
        self.assertIn("gconv: interrupted: no model is written", said.decode())
        self.assertEqual([p.name for p in self.folder.iterdir()], ["t.libsvm"])

    def test_wrong_models(self):
        self.blobs("t.libsvm", 30)
        self.gconv("svm", "t.libsvm", "-o", "m.model")
        text = (self.folder / "m.model").read_text()
        total = re.search(r"total_sv (\d+)", text)[1]
        label = re.search("label.*", text)[0]
        wrong = (
            ("there is no line SV", text[:text.index("SV #")]), ("is cut off", "\n".join(text[:text.index("# columns")].splitlines()[:-1])),
            ("add up to", text.replace(f"total_sv {total}", f"total_sv {int(total) + 1}")), ("rho has 2 numbers", re.sub("rho (.*)", r"rho \1 1", text)),
            ("gamma: expected one finite number", re.sub("gamma .*", "gamma nan", text)), ("it must be above 0", re.sub("gamma .*", "gamma -1", text)),
            ("line gamma is missing", re.sub("gamma .*\n", "", text)), ("svm_type two: expected", re.sub("c_svc", "two", text)),
            ("one_class", text.replace("c_svc", "one_class")), ("is precomputed", text.replace("rbf", "precomputed")),
            ("nr_class: expected one whole number, up to 65536", re.sub("nr_class 2", "nr_class 999999999999", text)),
            ("is listed twice", text.replace(label, "label 1 1")), ("indices must ascend", re.sub("2:", "1:", text, count=1) if " 2:" in text else text),
            ("is no keyword", text.replace("gamma", "delta")), ("no finite number of float32", re.sub(r" 1:\S+", " 1:1e99", text, count=1)),
            ("is not INDEX:VALUE", re.sub(" 1:", " 0:", text, count=1)), ("a second line rho", text.replace("label", "rho 1\nlabel")),
            ("no less than the 3", text.replace("# columns 3", "# columns 2")))
        for fragment, content in wrong:
            self.assertNotEqual(content, text, fragment)
            (self.folder / "w.model").write_text(content)
            result = self.gconv("classify", "w.model", "t.libsvm", status=1)
            self.assertIn(fragment, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_models_that_are_cut_off(self):
        """Behind any of its lines, and within the last ones."""
        self.blobs("t.libsvm", 30)
        self.gconv("svm", "t.libsvm", "-o", "m.model", "--scale", "unit")
        text = (self.folder / "m.model").read_text()
        self.gconv("classify", "m.model", "t.libsvm")
        lines = text.splitlines(keepends=True)
        ends = [sum(map(len, lines[:i])) for i in range(len(lines))]
        for end in (*ends, *range(ends[-2], len(text) - 1)):
            (self.folder / "w.model").write_text(text[:end])
            self.assertIn("w.model", self.gconv("classify", "w.model", "t.libsvm", status=1).stderr)
        (self.folder / "w.model").write_text(text + "# class a\n")
        self.assertIn("more after", self.gconv("classify", "w.model", "t.libsvm", status=1).stderr)

    @unittest.skipIf(SVC is None, "no scikit-learn here")
    def test_folds_of_scikit_learn(self):
        """Standardised columns and the defaults: in the same ten folds, as many are right as of scikit-learn's SVC, 94.7, 98.3 and 97.5%."""
        from sklearn import datasets
        from sklearn.model_selection import StratifiedKFold
        from sklearn.preprocessing import StandardScaler
        for name, bar in (("iris", 94.7), ("wine", 98.3), ("breast_cancer", 97.5)):
            x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
            x, right, same = x.astype(np.float32).astype(float), [], 0
            for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(x, y):
                self.write("t.libsvm", x[train], y[train])
                self.write("test.libsvm", x[test], y[test])
                self.gconv("svm", "-q", "t.libsvm", "--scale", "standard", "-o", "m.model")
                ours = np.array([int(row["class"]) for row in self.classified("m.model", "test.libsvm")])
                scaler = StandardScaler().fit(x[train])
                same += (SVC().fit(scaler.transform(x[train]), y[train]).predict(scaler.transform(x[test])) == ours).sum()
                right.append((ours == y[test]).mean())
            self.assertGreaterEqual(same, len(x) - 1)
            self.assertAlmostEqual(100 * np.mean(right), bar, delta=0.5)

    @unittest.skipIf(SVC is None, "no scikit-learn here")
    def test_agrees_with_libsvm(self):
        """scikit-learn's SVC is LIBSVM."""
        for c, g, classes in ((0.001, 1, 3), (10, 0.3, 5), (1e4, 0.1, 2)):
            x, kinds = self.blobs("t.libsvm", 300, classes, 8)
            test, _ = self.blobs("test.libsvm", 1000, classes, 9)
            self.gconv("svm", "t.libsvm", "-c", c, "-g", g, "-e", "1e-5", "-o", "m.model")
            theirs = SVC(C=c, gamma=g, tol=1e-5).fit(x, kinds + 1)
            ours = Model(self.folder / "m.model")
            np.testing.assert_allclose(ours.rho, -theirs.intercept_ * (1 if classes > 2 else -1), atol=1e-3)
            same = np.mean([r["class"] == str(k) for r, k in zip(self.classified("m.model", "test.libsvm"), theirs.predict(test))])
            self.assertGreaterEqual(same, 0.999)


if __name__ == "__main__":
    unittest.main()
