# SPDX-License-Identifier: MIT
"""Convolutions that go through an image by bands of rows on the CPU, as chains of layers and as graphs: against numpy."""
import unittest

import numpy as np
from graph_helper import graph, node
from helper import CommandTest
from test_onnx_cases import conv

LOT = np.random.default_rng(8)
HEIGHT, WIDTH = 420, 211  # bands must end with the image where a tensor is added


def weights(filters, channels, taps):
    return (LOT.normal(size=(filters, channels, taps, taps)) / (channels * taps * taps) ** 0.5).astype(np.float32)


W = {"a": weights(24, 3, 3), "b": weights(24, 1, 5), "c": weights(3, 24, 1), "p": LOT.normal(size=(24, 1, 1)).astype(np.float32)}
ANY = ("n", 3, "h", "w")


def model(stride, adds):
    """A convolution with slopes, one of each channel, and one of 1 x 1, to which the image may be added."""
    nodes = [node("Conv", ["x", "a"], "1", pads=[1] * 4), node("PRelu", ["1", "p"], "2"),
             node("Conv", ["2", "b"], "3", pads=[2] * 4, group=24, strides=[stride] * 2), node("Relu", ["3"], "4"), node("Conv", ["4", "c"], "5"),
             node("Add", ["5", "x"], "y") if adds else node("Abs", ["5"], "y")]
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants=W, shapes={"x": ANY})


def expected(x, stride, adds):
    y = conv(x, W["a"], pads=(1,) * 4)
    y = np.maximum(conv(np.where(y < 0, y * W["p"][None], y), W["b"], pads=(2,) * 4, strides=(stride,) * 2, group=24), 0)
    y = conv(y, W["c"])
    return y + x if adds else np.abs(y)


class Bands(CommandTest):
    def check(self, name, x, wanted, *words):
        np.save(self.folder / "x.npy", x)
        told = self.gconv("x.npy", "-f", name, *words, "-o", "y.npy", "--explain", "--threads", 2)
        self.assertRegex(told.stdout + told.stderr, "bands of rows")
        np.testing.assert_allclose(np.load(self.folder / "y.npy"), wanted, atol=2e-5)
        self.gconv("x.npy", "-f", name, *words, "-o", "z.npy", "--threads", 3)
        np.testing.assert_array_equal(np.load(self.folder / "y.npy"), np.load(self.folder / "z.npy"))

    def test_graphs(self):
        x = LOT.normal(size=(2, 3, HEIGHT, WIDTH)).astype(np.float32)
        for stride, adds in (1, False), (1, True), (2, False):
            (self.folder / "m.onnx").write_bytes(model(stride, adds))
            for words in (), ("-a", "direct"):
                with self.subTest(stride=stride, adds=adds, words=words):
                    self.check("m.onnx", x, expected(x.astype(float), stride, adds), *words)

    def test_layers(self):
        """A chain of layers, whose last one has softmax, and three images at a time."""
        x = LOT.normal(size=(3, 3, HEIGHT, WIDTH)).astype(np.float32)
        nodes = [node("Conv", ["x", "a"], "1", pads=[1] * 4), node("Relu", ["1"], "2"), node("Conv", ["2", "c"], "3"), node("Softmax", ["3"], "y", axis=1)]
        (self.folder / "l.onnx").write_bytes(graph(nodes, {"x": x}, constants={name: W[name] for name in "ac"}, shapes={"x": ANY}, opset=13))
        y = np.exp(conv(np.maximum(conv(x.astype(float), W["a"], pads=(1,) * 4), 0), W["c"]))
        self.check("l.onnx", x, y / y.sum(1, keepdims=True))

    def test_strides(self):
        """Strides whose product is 0 in 64 bits: gconv divided by it."""
        x = LOT.normal(size=(1, 1, 64, 64)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        for stride, count in (2, 62), (1024, 8):
            nodes = [node("Conv", [f"v{i}" if i else "x", "w"], f"v{i + 1}" if i + 1 < count else "y", strides=[stride, 1]) for i in range(count)]
            (self.folder / "s.onnx").write_bytes(graph(nodes, {"x": x}, constants={"w": np.ones((1, 1, 1, 1), np.float32)}, shapes={"x": ("n", 1, "h", "w")}))
            self.gconv("x.npy", "-f", "s.onnx", "-o", "y.npy")
            np.testing.assert_array_equal(np.load(self.folder / "y.npy").ravel(), x[0, 0, 0])


if __name__ == "__main__":
    unittest.main()
