# SPDX-License-Identifier: MIT
"""gconv classify: predictions of tables, signals and images against numpy, the comparison with labels, and what is refused."""
import csv
import io
import json
import os
import pty
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest
from network_helper import Layer, save_network
from PIL import Image
from test_train import read_network


class Classify(CommandTest):
    def train(self, *words, net):
        self.gconv("train", "-q", "--net", net, "-o", "n.safetensors", *words)
        return read_network(self.folder / "n.safetensors")

    def blobs(self, name="t.csv", count=90, seed=0, label=True):
        rng = np.random.default_rng(seed)
        kinds = np.arange(count) % 3
        points = (rng.normal(0, 0.6, (count, 2)) + np.array([[0, 2], [2, -1], [-2, -1]])[kinds]).round(4)
        names = ["red, dark", "blue", "green"]
        rows = [f"{x},{y}" + (f',"{names[k]}"' if label else "") for (x, y), k in zip(points, kinds)]
        (self.folder / name).write_text("\n".join(["x,y" + (",kind" if label else ""), *rows]) + "\n")
        return points.astype(np.float32), kinds

    def outputs(self, points, net):
        tensors, about = net
        x = (points - np.float32(about["mean"])) / np.float32(about["std"])
        x = np.tanh(x @ tensors["l0.weight"][:, :, 0, 0].T + tensors["l0.bias"])
        x = x @ tensors["l1.weight"][:, :, 0, 0].T + tensors["l1.bias"]
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def check(self, text, points, net, label=None):
        rows = list(csv.DictReader(io.StringIO(text)))
        expected = self.outputs(points, net)
        self.assertEqual([int(r["case"]) for r in rows], list(range(1, len(points) + 1)))
        self.assertEqual([r["class"] for r in rows], [net[1]["classes"][k] for k in expected.argmax(1)])
        np.testing.assert_allclose([float(r["probability"]) for r in rows], expected.max(1), atol=2e-5)

    def test_tables(self):
        points, kinds = self.blobs()
        net = self.train("--table", "t.csv", "--rate", "0.02", net="dense 8 tanh, dense 3 softmax")
        test, truth = self.blobs("test.csv", 300, 1)
        self.blobs("plain.csv", 300, 1, label=False)
        right = np.mean(self.outputs(test, net).argmax(1) == truth)
        self.assertGreater(right, 0.9)
        self.check(self.gconv("classify", "n.safetensors", "-i", "plain.csv").stdout, test, net)
        text = (self.folder / "test.csv").read_text()
        (self.folder / "renamed.csv").write_text(text.replace("kind", "sort", 1))
        result = self.gconv("classify", "n.safetensors", "-i", "renamed.csv", "-o", "p.csv")
        self.assertIn("1 column that the model does not know is passed over: sort", result.stderr)
        self.check((self.folder / "p.csv").read_text(), test, net)
        # By the name that the network keeps, the labels are found in any column.
        lines = text.splitlines()
        first = [[line.split(",", 2)[2], *line.split(",", 2)[:2]] for line in lines]
        (self.folder / "first.csv").write_text("\n".join(map(",".join, first)) + "\n")
        for name in ("test.csv", "first.csv"):
            result = self.gconv("classify", "n.safetensors", "-i", name, "-o", "p.csv")
            self.assertEqual(result.stderr, "")
            self.check((self.folder / "p.csv").read_text(), test, net)
            self.assertIn(f"{round(300 * right)} of 300", self.gconv("classify", "n.safetensors", "-i", name, "--evaluate").stdout)
        result = self.gconv("classify", "n.safetensors", "-i", "test.csv", "--evaluate")
        self.assertEqual(result.stdout.splitlines()[0], f"{100 * right:.2f}% right: {round(300 * right)} of 300")
        self.assertRegex(result.stdout, r"\n +red, dark +\d+ +\d+ +\d+\n")
        result = self.gconv("classify", "n.safetensors", "-i", "test.csv", "--evaluate", "--json", "-o", "p.csv")
        found = json.loads(result.stdout)
        table = np.zeros((3, 3), int)
        np.add.at(table, (truth, self.outputs(test, net).argmax(1)), 1)
        self.assertEqual((found["confusion"], found["classes"], found["cases"]), (table.tolist(), ["red, dark", "blue", "green"], 300))
        self.assertAlmostEqual(found["accuracy"], right)
        labels = [row["label"] for row in csv.DictReader((self.folder / "p.csv").open())]
        self.assertEqual(labels, [net[1]["classes"][k] for k in truth])

    def test_regression(self):
        rng = np.random.default_rng(1)
        table = rng.uniform(-1, 1, (200, 3))
        table[:, 2] = 2 * table[:, 0] - table[:, 1] + 1
        np.savetxt(self.folder / "r.csv", table, delimiter=",", fmt="%.5f")
        self.train("--table", "r.csv", "--regression", "--rate", "0.05", net="dense 1")
        result = self.gconv("classify", "n.safetensors", "-i", "r.csv", "--evaluate", "-o", "p.csv")
        self.assertRegex(result.stdout, r"200 numbers: root of the mean squared error [\d.e-]+, R2 (0\.9999|1)")
        rows = np.genfromtxt(self.folder / "p.csv", delimiter=",", names=True)
        np.testing.assert_allclose(rows["output1"], table[:, 2], atol=0.02)
        np.savetxt(self.folder / "x.csv", table[:, :2], delimiter=",")
        np.savetxt(self.folder / "y.csv", table[:, :2], delimiter=",")
        words = ("classify", "n.safetensors", "-i", "x.csv", "-t", "y.csv", "--evaluate")
        self.usage_error("the network has 1 outputs, and the data 2 targets", *words)
        self.usage_error("would replace a file that is read", *words, "-o", "y.csv")

    def test_libsvm_with_fewer_columns(self):
        (self.folder / "a.libsvm").write_text("1 1:1 3:1\n2 2:1\n" * 20)
        (self.folder / "b.libsvm").write_text("1 1:1\n2 2:1\n")
        self.train("--table", "a.libsvm", "--rate", "0.05", net="dense 2 softmax")
        self.assertIn("100.00% right: 2 of 2", self.gconv("classify", "n.safetensors", "-i", "b.libsvm", "--evaluate").stdout)

    def test_signals(self):
        labels = np.arange(60) % 2
        np.save(self.folder / "s.npy", np.concatenate([np.sin(np.arange(20) * (0.3 if k else 1.2)) for k in labels]).astype("f4"))
        np.save(self.folder / "t.npy", labels)
        self.train("--signal", "s.npy", "--windows", "20", "-t", "t.npy", "--rate", "0.02", net="dense 2 softmax")
        rows = list(csv.DictReader(io.StringIO(self.gconv("classify", "n.safetensors", "-i", "s.npy").stdout)))
        self.assertEqual([r["sample"] for r in rows], [str(20 * i) for i in range(60)])
        self.assertEqual([int(r["class"]) for r in rows], labels.tolist())
        rows = self.gconv("classify", "n.safetensors", "-i", "s.npy", "--windows", "20:5").stdout.splitlines()
        self.assertEqual(len(rows), 1 + (1200 - 20) // 5 + 1)
        self.assertIn("100.00% right", self.gconv("classify", "n.safetensors", "-i", "s.npy", "-t", "t.npy", "--evaluate").stdout)

    def test_pictures_in_an_array(self):
        rng = np.random.default_rng(3)
        labels = (np.arange(40) % 2).astype("u1")
        pictures = (rng.integers(0, 100, (40, 4, 5)) + 150 * labels[:, None, None]).astype("u1")
        for name, array in ("x", pictures), ("y", labels):
            np.save(self.folder / f"{name}.npy", array)
            head = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
            (self.folder / f"{name}.idx").write_bytes(head + array.tobytes())
        np.save(self.folder / "flat.npy", pictures.reshape(40, 20))
        for ending in "idx", "npy":
            x, y = f"x.{ending}", f"y.{ending}"
            self.train("--table", x, "-t", y, "--epochs", "60", "--rate", "0.05", net="dense 2 softmax")
            self.gconv("svm", x, "-t", y, "-o", "m.svm")
            for model in "n.safetensors", "m.svm":
                self.assertIn("100.00% right: 40 of 40", self.gconv("classify", model, "-i", x, "-t", y, "--evaluate").stdout)
                rows = csv.DictReader(io.StringIO(self.gconv("classify", model, "-i", x, "--table-format", ending).stdout))
                self.assertEqual([int(row["class"]) for row in rows], labels.tolist())
        self.usage_error("has cases of 20 x 1 x 1 numbers, channels x height x width, where the network takes 1 x 4 x 5",
                         "classify", "n.safetensors", "-i", "flat.npy", "-t", "y.npy", "--evaluate")

    def test_images_of_any_size(self):
        rng = np.random.default_rng(2)
        for kind, low in ("dark", 0), ("light", 128):
            for i in range(6):
                path = self.folder / "photos" / kind / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray((low + rng.integers(0, 120, (16 + i, 20, 3))).astype(np.uint8)).save(path)
        self.train("--classes", "photos", "--patch", "8", "--rate", "0.05", "--gray", net="conv 2 3x3 relu, mean, dense 2 softmax")
        self.assertIn("100.00% right: 12 of 12", self.gconv("classify", "n.safetensors", "-i", "photos", "--evaluate").stdout)
        rows = list(csv.DictReader(io.StringIO(self.gconv("classify", "n.safetensors", "-i", "photos/light").stdout)))
        self.assertEqual([(r["path"], r["class"]) for r in rows], [(f"photos/light/{i}.png", "light") for i in range(6)])
        rows = self.gconv("classify", "n.safetensors", "-i", "photos/dark/0.png").stdout.splitlines()
        self.assertRegex(rows[1], r"^photos/dark/0.png,dark,0\.\d+$|,1$")
        self.usage_error("this image is in none", "classify", "n.safetensors", "-i", "photos/dark", "--evaluate")
        (self.folder / "photos/dark").rename(self.folder / "photos/black")
        result = self.gconv("classify", "n.safetensors", "-i", "photos", "--evaluate")  # a class that it does not know
        self.assertIn("50.00% right: 6 of 12", result.stdout)
        self.assertIn("photos: 6 of 12 images are of classes that the model does not know, and count as wrong: black", result.stderr)

    def test_grey_images_beside_rgb(self):
        rng = np.random.default_rng(4)
        for kind, low in ("dark", 0), ("light", 128):
            for i in range(4):
                path = self.folder / "photos" / kind / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray((low + rng.integers(0, 120, (9, 11) if i % 2 else (9, 11, 3))).astype(np.uint8)).save(path)
        net = self.train("--classes", "photos", "--rate", "0.05", "--validate", "photos", "--json", net="conv 2 3x3 relu, dense 2 softmax")
        self.assertEqual(net[1]["input"], {"channels": 3, "height": 9, "width": 11})
        self.assertIn("of 8\n", self.gconv("classify", "n.safetensors", "-i", "photos", "--evaluate").stdout)
        grey = Image.open(self.folder / "photos/dark/1.png")
        grey.convert("RGB").save(self.folder / "rgb.png")
        grey.convert("LA").save(self.folder / "alpha.png")
        rows = [self.gconv("classify", "n.safetensors", "-i", name).stdout.split(",", 1)[1].split(",", 1)[1] for name in ("photos/dark/1.png", "rgb.png", "alpha.png")]
        self.assertEqual(rows[0].split(",")[-2:], rows[1].split(",")[-2:])
        self.assertEqual(rows[0].split(",")[-2:], rows[2].split(",")[-2:])
        grey.resize((12, 9)).save(self.folder / "large.png")
        self.usage_error("large.png: has 12 x 9 pixels, where the network takes 11 x 9", "classify", "n.safetensors", "-i", "large.png")

    def test_refusals(self):
        self.blobs()
        self.train("--table", "t.csv", "--epochs", "1", net="dense 3 softmax")
        (self.folder / "wide.csv").write_text("9,2,3,4,red\n")
        for words, message in [([], "name one network"), (["n.safetensors"], "with -i"), (["n.safetensors", "-i", "t.csv", "--json"], "--json prints what --evaluate finds"),
                               (["n.safetensors", "-i", "t.csv", "-o", "t.csv"], "would replace a file that is read"), (["n.safetensors", "-i", "t.csv", "-o", "n.safetensors"], "would replace"),
                               (["n.safetensors", "-i", "t.csv", "-o", "none/p.csv"], "there is no folder none")]:
            self.usage_error(message, "classify", *words)
        self.assertIn("wide.csv:1: column 5 is \"red\"", self.gconv("classify", "n.safetensors", "-i", "wide.csv", status=1).stderr)
        (self.folder / "wide.csv").write_text("1,2,3,4,red, dark\n")
        self.usage_error("t.csv: is a text, and neither a network nor a model", "classify", "t.csv", "-i", "t.csv")
        (self.folder / "m.onnx").write_bytes(b"\x08\x07\x12\x04test")
        self.usage_error("m.onnx: is an ONNX model", "classify", "m.onnx", "-i", "t.csv")
        (self.folder / "bad.csv").write_text("1,2,blue\n3,4,pink\n")

    def test_classes_that_the_model_does_not_know_are_wrong(self):
        self.blobs()
        self.gconv("svm", "t.csv", "-o", "m.model")
        self.train("--table", "t.csv", "--rate", "0.05", net="dense 3 softmax")
        (self.folder / "new.csv").write_text("x,y,kind\n0,2,\"red, dark\"\n2,-1,blue\n2,-1,pink\n3,4,violet\n0,3,pink\n")
        for model in "m.model", "n.safetensors":
            result = self.gconv("classify", model, "-i", "new.csv", "--evaluate", "-o", "p.csv", "--report", "r.html")
            self.assertIn("40.00% right: 2 of 5", result.stdout)
            self.assertIn("new.csv: 3 of 5 cases are of classes that the model does not know, and count as wrong: pink, violet", result.stderr)
            labels = [row["label"] for row in csv.DictReader((self.folder / "p.csv").open())]
            self.assertEqual(labels, ["red, dark", "blue", "pink", "violet", "pink"])
            self.assertIn("<td>violet</td>", (self.folder / "r.html").read_text())
            found = json.loads(self.gconv("classify", model, "-i", "new.csv", "--evaluate", "--json").stdout)
            self.assertEqual((found["accuracy"], found["unknown"], found["cases"], found["left_out"]), (0.4, 3, 5, []))
            (self.folder / "gaps.csv").write_text("x,y,kind\n,2,blue\n2,-1,blue\n2,-1,\n2,-1,pink\n2,,blue\n")
            found = json.loads(self.gconv("classify", model, "-i", "gaps.csv", "--evaluate", "--json", "--missing", "drop").stdout)
            self.assertEqual((found["cases"], found["left_out"]), (2, [1, 3, 5]))

    def test_errors_of_large_targets(self):
        """R2 of targets that are far from 0 in their spread, as text and as JSON."""
        targets = 1.7e9 + np.arange(40) * 64
        (self.folder / "t.csv").write_text("x,t\n" + "".join(f"{k},{t:.0f}\n" for k, t in enumerate(targets)))
        save_network(self.folder / "n.safetensors", [Layer(np.array([96], "f4").reshape(1, 1, 1, 1), np.array([1.7e9], "f4"))], 1, 1, 1)
        outputs = (1.7e9 + np.float32(96) * np.arange(40)).astype("f4").astype(float)
        rmse, r2 = np.sqrt(((outputs - targets.astype("f4")) ** 2).mean()), 1 - ((outputs - targets.astype("f4")) ** 2).mean() / targets.astype("f4").astype(float).var()
        words = ("classify", "n.safetensors", "-i", "t.csv", "--evaluate")
        found = json.loads(self.gconv(*words, "--json").stdout)
        self.assertEqual(found["numbers"], 40)
        self.assertAlmostEqual(found["rmse"] / rmse, 1, 6)
        self.assertAlmostEqual(found["r2"], r2, 6)
        self.assertEqual(self.gconv(*words).stdout, f"40 numbers: root of the mean squared error {rmse:.6g}, R2 {r2:.6g}\n")

    def test_more_outputs_than_classes(self):
        """A network over windows that yields a number for each sample: its largest output is no number of a class."""
        save_network(self.folder / "n.safetensors", [Layer(np.array([1, 2], "f4").reshape(2, 1, 1, 1))], 1, 1, 4, classes=["a", "b"])
        np.save(self.folder / "s.npy", np.array([-1, -2, -3, 9, 0, 0, 0, 7], "f4"))
        self.usage_error("yields 8 numbers for a case, where it has 2 classes", "classify", "n.safetensors", "-i", "s.npy")

    def test_no_table_of_thousands_of_classes(self):
        names = [f"c{i}" for i in range(4097)]
        save_network(self.folder / "n.safetensors", [Layer(np.arange(4097, dtype="f4").reshape(-1, 1, 1, 1))], 1, 1, 1, classes=names)
        (self.folder / "t.csv").write_text("1,c4096\n2,c7\n")
        result = self.gconv("classify", "n.safetensors", "-i", "t.csv", "--evaluate")
        self.assertEqual(result.stdout, "50.00% right: 1 of 2\n  (no table of 4097 classes: it would be too large)\n")
        found = json.loads(self.gconv("classify", "n.safetensors", "-i", "t.csv", "--evaluate", "--json").stdout)
        self.assertEqual((found["accuracy"], found["confusion"], found["classes"]), (0.5, [], names))

    def test_a_column_for_each_output(self):
        save_network(self.folder / "n.safetensors", [Layer(np.array([1, 2], "f4").reshape(2, 1, 1, 1))], 1, 1, 4)
        np.save(self.folder / "s.npy", np.arange(8, dtype="f4"))
        rows = list(csv.reader(io.StringIO(self.gconv("classify", "n.safetensors", "-i", "s.npy").stdout)))
        self.assertEqual(rows, [["sample", *[f"output{i}" for i in range(1, 9)]], ["0", *"01230246"], ["4", *"4567", "8", "10", "12", "14"]])

    def test_names_of_classes_are_no_commands_to_a_terminal(self):
        save_network(self.folder / "n.safetensors", [Layer(np.array([1, 2], "f4").reshape(2, 1, 1, 1))], 1, 1, 1, classes=["a", "\x1b]0;x\x07"])
        (self.folder / "t.csv").write_text("1\n2\n")
        self.assertIn("\x1b]0;x\x07", self.gconv("classify", "n.safetensors", "-i", "t.csv").stdout)
        master, slave = pty.openpty()
        subprocess.run([GCONV, "classify", "n.safetensors", "-i", "t.csv"], cwd=self.folder, env=self.environment(), stdout=slave, check=True)
        os.close(slave)
        text = os.read(master, 1000)
        os.close(master)
        self.assertIn(b"1,?]0;x?,2", text)
        self.assertNotIn(b"\x1b", text)


if __name__ == "__main__":
    unittest.main()
