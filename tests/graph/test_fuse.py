# SPDX-License-Identifier: MIT
"""Nodes that are computed with the convolution before them: the same bits as where each is computed by itself."""
import unittest

import numpy as np
from graph_helper import DEVICE, graph, node, run

C = 17  # channels, which do not fill vectors
NUMBERS = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6),
           "slopes": np.linspace(-0.5, 0.5, C, dtype=np.float32).reshape(C, 1, 1),
           "row": np.linspace(1, 2, 7, dtype=np.float32)}
# What follows a convolution whose result is v, beside another whose result is u; whether all of it is fused.
CHAINS = {
    "clip": ([("Clip", "v zero six")], True),
    "hard swish": ([("HardSwish", "v")], True),
    "hard swish by steps": ([("Add", "v three"), ("Clip", "0 zero six"), ("Mul", "v 1"), ("Div", "2 six")], True),
    "no hard swish": ([("Add", "v three"), ("Clip", "0 zero six"), ("Mul", "1 six"), ("Div", "2 six"), ("Add", "3 v")], True),
    "swish": ([("Sigmoid", "v"), ("Mul", "v 0"), ("Relu", "1")], True),
    "residual": ([("Add", "v u"), ("Relu", "0")], True),
    "residual before": ([("Sub", "u v"), ("Clip", "0 zero six")], True),
    "slopes": ([("PRelu", "v slopes"), ("Mul", "0 six"), ("Sub", "three 1")], True),
    "scales of another": ([("GlobalAveragePool", "u"), ("Relu", "v"), ("Mul", "1 0")], False),
    "two ways": ([("Sigmoid", "v"), ("Tanh", "v"), ("Add", "0 1")], False),
    "thrice": ([("Abs", "v"), ("Neg", "v"), ("Mul", "v 0"), ("Add", "1 2")], False),
    "a row": ([("Mul", "v row")], False),
}


def model(chain, taps, groups, outputs):
    """Convolutions u and v of x, then the chain, whose last result is y."""
    lot = np.random.default_rng(taps)
    weights = lot.standard_normal((2, C, C // groups, taps, taps), np.float32) / taps
    pads = [taps // 2] * 4
    nodes = [node("Conv", ["x", f"w{name}", "b"], name, pads=pads, group=groups) for name in "uv"]
    for number, (op, names) in enumerate(chain):
        result = "y" if number == len(chain) - 1 else f"t{number}"
        nodes.append(node(op, [f"t{name}" if name.isdigit() else name for name in names.split()], result))
    constants = NUMBERS | {"wu": weights[0], "wv": weights[1], "b": lot.standard_normal(C, np.float32)}
    return graph(nodes, {"x": np.zeros((2, C, 9, 7), np.float32)}, outputs, constants=constants, shapes={"x": (0, C, 0, 0)})


class Fuse(unittest.TestCase):
    def test_bits(self):
        x = np.random.default_rng(1).standard_normal((2, C, 9, 7), np.float32)
        kinds = ((1, 1, "pointwise"), (1, 1, "gemm"), (3, 1, "direct"), (3, C, "depthwise"), (3, 1, "winograd4"),
                 (3, 1, "reference"))
        if DEVICE != "cpu":
            kinds = ((1, 1, "gemm-split"), (1, 1, "gemm"), (3, 1, "gemm-split"), (3, C, "depthwise"), (3, 1, "direct"), (3, 1, "tiled"))
        for number, (name, (chain, fused)) in enumerate(CHAINS.items()):
            for taps, groups, algorithm in kinds if name == "residual" else kinds[number % len(kinds):][:1]:
                with self.subTest(name=name, algorithm=algorithm):
                    options = ("-a", algorithm, "-t", "2")
                    between = [f"t{i}" for i in range(len(chain) - 1)]
                    together = model(chain, taps, groups, ["y"])
                    apart = run(model(chain, taps, groups, ["y", "u", "v", *between]), [x], 3 + len(between), options=options)
                    if "compute capability 9.0" in str(apart):
                        self.skipTest("this GPU is no Hopper")
                    made = run(together, [x], options=options)
                    self.assertIsInstance(made, list, made)
                    self.assertEqual(made[0].tobytes(), apart[0].tobytes())
                    self.assertGreater(np.abs(made[0]).max(), 0.1)
                    told = run(together, [x], explain=True, options=options)
                    names = ", ".join(f"{op} '{'y' if i == len(chain) - 1 else f't{i}'}'" for i, (op, _) in enumerate(chain))
                    self.assertEqual(f"with {names}" in told, fused, told)

    def test_groups_without_reshaping(self):
        """InstanceNormalization of groups of channels, between two nodes that reshape."""
        x = np.random.default_rng(2).standard_normal((2, 6, 9, 7), np.float32)
        nodes = [node("Reshape", ["x", "three"], "g"), node("InstanceNormalization", ["g", "f", "b"], "h"), node("Shape", ["x"], "s"), node("Reshape", ["h", "s"], "y")]
        constants = {"three": np.array([0, 3, -1]), "f": np.float32([1, 2, 0.5]), "b": np.float32([0, 1, -1])}
        grouped = x.reshape(2, 3, -1).astype("f8")
        normal = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
        wanted = (normal * constants["f"][:, None] + constants["b"][:, None]).reshape(x.shape)
        together, apart = (graph(nodes, {"x": x}, outputs, constants=constants, shapes={"x": ("n", 6, "h", "w")}) for outputs in (["y"], ["y", "g", "h"]))
        made, parts = run(together, [x])[0], run(apart, [x], 3)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-6)
        self.assertEqual(made.tobytes(), parts[0].tobytes())
        told = run(together, [x], explain=True)
        self.assertNotIn("Reshape 'g'", told)

    def test_divisors_of_0(self):
        """A divisor whose reciprocal is infinite is no scale of weights, which would make NaN of samples that are 0."""
        x, weights = np.float32([1, -2, 0]).reshape(1, 3, 1, 1), np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
        for divisor in np.float32([0, -0.0, 1e-39]):
            nodes = [node("Conv", ["x", "w"], "v"), node("Div", ["v", "d"], "y")]
            made = run(graph(nodes, {"x": x}, constants={"w": weights, "d": divisor}), [x])
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(made[0], x / divisor)

    def test_tiles(self):
        """What is added sees more of the image than the convolution does: tiles have the halo of both."""
        lot = np.random.default_rng(2)
        x = lot.standard_normal((1, 8, 150, 170), np.float32)
        constants = {"wide": lot.standard_normal((8, 8, 5, 5), np.float32),
                     "narrow": lot.standard_normal((8, 8, 1, 1), np.float32)}
        nodes = [node("Conv", ["x", "wide"], "u", pads=[2] * 4), node("Conv", ["x", "narrow"], "v"),
                 node("Add", ["v", "u"], "t"), node("Relu", ["t"], "y")]
        sums = graph(nodes, {"x": x}, ["y"], constants=constants, shapes={"x": (1, 8, 0, 0)})
        made = [run(sums, [x], options=("-a", "direct", *more))[0] for more in ((), ("-m", "600000", "-n", "1"))]
        self.assertEqual(made[0].tobytes(), made[1].tobytes())


if __name__ == "__main__":
    unittest.main()
