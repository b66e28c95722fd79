# SPDX-License-Identifier: MIT
"""Results in blocks of 16 channels between convolutions: the same bits as without, in the exact family."""
import unittest

import numpy as np
from graph_helper import graph, node, run

LOT = np.random.default_rng(5)


def convolution(name, x, filters, channels, taps, **how):
    """A node, and its constants. Channels of a group: how many the weights have."""
    weights = LOT.standard_normal((filters, channels, taps, taps), np.float32) / (channels * taps * taps) ** 0.5
    constants = {f"w{name}": weights, f"b{name}": LOT.standard_normal(filters, np.float32) / 4}
    pads = [taps // 2 * how.get("dilations", [1])[0]] * 4
    return node("Conv", [x, f"w{name}", f"b{name}"], name, pads=pads, **how), constants


def model(channels, strides, outputs=("y",)):
    """Two branches with all kinds of nodes that take blocks, and some that do not."""
    made = [convolution("a", "x", channels, 3, 3, strides=[strides, strides]),
            convolution("c", "p", channels, 1, 5, group=channels, strides=[strides, strides]),
            convolution("e", "d", channels, channels, 1), convolution("s", "g", channels, channels, 1),
            convolution("f", "m", 32, channels, 3), convolution("h", "r", 32, 16, 3, group=2, dilations=[2, 2]),
            convolution("k", "j", 5, 64, 1)]
    a, c, e, s, f, h, k = (layer for layer, _ in made)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [a, node("MaxPool", ["a"], "p", **window), c, node("PRelu", ["c", "slopes"], "q"), node("AveragePool", ["q"], "d", **window),
             e, node("Add", ["e", "d"], "i"), node("Relu", ["i"], "u"), node("GlobalAveragePool", ["u"], "g"), s,
             node("HardSigmoid", ["s"], "t"), node("Mul", ["u", "t"], "m"), f, node("Sigmoid", ["f"], "z"), node("Mul", ["f", "z"], "r"), h,
             node("Concat", ["h", "r"], "j", axis=1), k, node("Tanh", ["k"], "y")]
    constants = {"slopes": LOT.standard_normal((channels, 1, 1), np.float32)} | {n: v for _, c in made for n, v in c.items()}
    return graph(nodes, {"x": np.zeros((1, 3, 61, 83), np.float32)}, outputs, constants=constants, shapes={"x": (0, 3, 0, 0)})


class Blocks(unittest.TestCase):
    def test_bits(self):
        for channels, strides, images in ((48, 1, 1), (24, 2, 1), (32, 1, 2)):
            x = LOT.standard_normal((images, 3, 61, 83), np.float32)
            network = model(channels, strides)
            expected = run(network, [x], options=("-a", "reference"))
            for algorithm in ("gemm", "auto"):
                with self.subTest(channels=channels, images=images, algorithm=algorithm):
                    options = ("-a", algorithm, "-t", "2")
                    got = run(network, [x], options=options)
                    self.assertIsInstance(got, list, got)
                    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=2e-5 if algorithm == "auto" else 0)
                    told = run(network, [x], explain=True, options=options)
                    most = images == 1 and algorithm == "auto"  # gemm has none for filters of one channel
                    self.assertGreater(told.count("in blocks of channels"), 8 if most else 2, told)
                    self.assertNotIn("5 x 4 x 6 in blocks", told)

    def test_uneven_parts(self):
        """On 7 x 7, two threads divide 160 and 96 filters into five and three vectors each; a residual is added to sums."""
        made = [convolution("a", "x", 96, 3, 3), convolution("b", "a", 160, 96, 1), convolution("c", "b", 96, 160, 1),
                convolution("y", "e", 3, 96, 1)]
        a, b, c, y = (layer for layer, _ in made)
        nodes = [a, b, c, node("Add", ["c", "a"], "d"), node("Clip", ["d", "low", "high"], "e"), y]
        constants = {"low": np.float32(-1), "high": np.float32(2)} | {n: v for _, k in made for n, v in k.items()}
        x = LOT.standard_normal((1, 3, 7, 7), np.float32)
        network = graph(nodes, {"x": x}, ("y",), constants=constants)
        expected = run(network, [x], options=("-a", "reference"))
        for threads in "123":
            got = run(network, [x], options=("-a", "gemm", "-t", threads))
            np.testing.assert_array_equal(got[0], expected[0])

    def test_one_side(self):
        """Padding has no blocks, and no algorithm takes that padded input to an output in blocks, as in ShuffleNetV2."""
        a, first = convolution("a", "x", 48, 3, 3)
        c, middle = convolution("c", "p", 48, 1, 7, group=48, dilations=[3, 3])
        y, last = convolution("y", "c", 48, 48, 1)
        nodes = [a, node("Pad", ["a", "rim"], "p", mode="reflect"), c, y]
        x = LOT.standard_normal((1, 3, 40, 40), np.float32)
        network = graph(nodes, {"x": x}, constants={"rim": np.int64([0, 0, 1, 1] * 2)} | first | middle | last)
        expected, got = run(network, [x], options=("-a", "reference")), run(network, [x])
        self.assertIsInstance(got, list, got)
        np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=2e-5)

    def test_constant_factor(self):
        """Gemm keeps a constant factor in panels, which changes no bit."""
        a, c = LOT.standard_normal((3, 70), np.float32), LOT.standard_normal(70, np.float32)
        for turned in (0, 1):
            b = LOT.standard_normal((70, 70), np.float32)
            nodes = [node("Gemm", ["a", "b", "c"], "y", transB=turned, alpha=0.5)]
            expected = run(graph(nodes, {"a": a, "b": b, "c": c}, ("y",)), [a, b, c])
            got = run(graph(nodes, {"a": a}, ("y",), constants={"b": b, "c": c}), [a])
            np.testing.assert_array_equal(got[0], expected[0])
            np.testing.assert_allclose(got[0], 0.5 * a @ (b.T if turned else b) + c, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
