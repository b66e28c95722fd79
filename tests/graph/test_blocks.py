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


if __name__ == "__main__":
    unittest.main()
