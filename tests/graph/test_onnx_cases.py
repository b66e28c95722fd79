# SPDX-License-Identifier: MIT
"""Kinds of nodes against what NumPy computes, and graphs that are refused."""
import math
import unittest

import numpy as np
from graph_helper import graph, node, run

RANDOM = np.random.default_rng(41)
X = RANDOM.normal(size=(2, 3, 4, 5)).astype(np.float32) * 3
P = np.abs(X) + np.float32(0.1)
ROW = RANDOM.normal(size=5).astype(np.float32)
CHANNEL = RANDOM.normal(size=(3, 1, 1)).astype(np.float32)
I = RANDOM.integers(-9, 10, (3, 4)).astype(np.int64)
J = np.where(I == 0, 3, I[::-1])
sigmoid = lambda x: 1 / (1 + np.exp(-x.astype(float)))
erf = np.vectorize(math.erf)

# operator, inputs, attributes, what it makes of the inputs, opset
ELEMENTWISE = [
    ("Relu", [X], {}, lambda x: np.maximum(x, 0)),
    ("LeakyRelu", [X], {}, lambda x: np.where(x < 0, 0.01 * x, x)),
    ("LeakyRelu", [X], {"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
    ("PRelu", [X, CHANNEL], {}, lambda x, s: np.where(x < 0, s * x, x)),
    ("Sigmoid", [X * 9], {}, sigmoid),
    ("Tanh", [X], {}, np.tanh),
    ("Clip", [X], {"min": -1.0, "max": 2.0}, lambda x: np.clip(x, -1, 2), 10),
    ("Clip", [X, np.float32(-1)], {}, lambda x, low: np.maximum(x, -1)),
    ("Clip", [X, np.float32(0), np.float32(6)], {}, lambda x, low, high: np.clip(x, 0, 6)),
    ("Clip", [I, np.int64(-2), np.int64(3)], {}, lambda x, low, high: np.clip(x, -2, 3)),
    ("HardSigmoid", [X], {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("HardSigmoid", [X], {"alpha": 0.5, "beta": 0.25}, lambda x: np.clip(0.5 * x + 0.25, 0, 1)),
    ("HardSwish", [X], {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Elu", [X], {"alpha": 2.0}, lambda x: np.where(x < 0, 2 * np.expm1(x), x)),
    ("Softplus", [X * 9], {}, lambda x: np.logaddexp(0, x.astype(float))),
    ("Gelu", [X], {}, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    ("Erf", [X], {}, erf),
    ("Sqrt", [P], {}, np.sqrt),
    ("Exp", [X], {}, np.exp),
    ("Log", [P], {}, np.log),
    ("Abs", [X], {}, np.abs),
    ("Neg", [I], {}, np.negative),
    ("Reciprocal", [P], {}, lambda x: 1 / x),
    ("Round", [X], {}, np.rint),
    ("Add", [X, ROW], {}, np.add),
    ("Add", [CHANNEL, X], {}, np.add),
    ("Add", [X[:, :1], X[:1, :, :1]], {}, np.add),
    ("Sub", [X, np.float32(0.5)], {}, np.subtract),
    ("Sub", [np.float32(0.5), X], {}, np.subtract),
    ("Mul", [X, X[:, :, :1, :1]], {}, np.multiply),
    ("Div", [X, P[:, :, ::-1]], {}, np.divide),
    ("Div", [I, J], {}, lambda a, b: np.trunc(a / b)),
    ("Mod", [I, J], {}, np.mod),
    ("Mod", [X, P], {"fmod": 1}, np.fmod),
    ("Pow", [P, np.float32(2)], {}, np.power),
    ("Pow", [P, np.float32(0.5)], {}, np.power),
    ("Pow", [P, X], {}, np.power),
    ("Min", [X, ROW, CHANNEL], {}, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    ("Max", [ROW, X], {}, np.maximum),
    ("Sum", [X, ROW, CHANNEL], {}, lambda a, b, c: a + b + c),
    ("Mean", [X, ROW], {}, lambda a, b: (a + b) / 2),
    ("Less", [X, ROW], {}, np.less),
    ("Equal", [I, J], {}, np.equal),
    ("Where", [X > 0, ROW, X], {}, np.where),
    ("Not", [X > 0], {}, np.logical_not),
]


class Kinds(unittest.TestCase):
    def check(self, op, inputs, attributes, wanted, opset=21):
        names = [f"x{i}" for i in range(len(inputs))]
        given = dict(zip(names, inputs))
        for folded in (False, True):  # the same numbers, where inputs are constants
            kept = {} if folded else given
            model = graph([node(op, names, "y", **attributes)], kept, constants=given if folded else None, opset=opset)
            made = run(model, kept.values())
            self.assertIsInstance(made, list, made)
            self.assertEqual(made[0].shape, np.shape(wanted))
            np.testing.assert_allclose(made[0].astype(float), wanted, rtol=2e-6, atol=2e-6)

    def test_elementwise(self):
        for op, inputs, attributes, expected, *opset in ELEMENTWISE:
            with self.subTest(op=op, attributes=attributes, shapes=[np.shape(i) for i in inputs]):
                self.check(op, inputs, attributes, expected(*inputs), *opset)


class Graphs(unittest.TestCase):
    def refused(self, word, nodes, inputs=None, **more):
        inputs = {"x": X} if inputs is None else inputs
        told = run(graph(nodes, inputs, **more), inputs.values())
        self.assertIsInstance(told, str)
        self.assertRegex(told, word)

    def test_results_stay_as_long_as_they_are_needed(self):
        """A result may lie where an earlier one lay, but not while that is needed."""
        nodes = [node("Relu", ["x"], "a"), node("Neg", ["a"], "b"), node("Neg", ["b"], "c"), node("Exp", ["b"], "d"),
                 node("Add", ["c", "d"], "e"), node("Mul", ["e", "a"], "f"), node("Sub", ["f", "x"], "y"), node("Abs", ["b"], "z")]
        a = np.maximum(X, 0)
        made = run(graph(nodes, {"x": X}, ("y", "z", "a")), [X], 3)
        np.testing.assert_allclose(made[0], (a + np.exp(-a)) * a - X, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(made[1], a)
        np.testing.assert_array_equal(made[2], a)

    def test_nodes_in_any_order_and_what_nobody_needs(self):
        nodes = [node("Neg", ["a"], "y"), node("Exp", ["a"], "unused"), node("Add", ["x", "c"], "a"), node("Neg", ["k"], "c")]
        model = graph(nodes, {"x": X}, constants={"k": ROW})
        np.testing.assert_array_equal(run(model, [X])[0], -(X - ROW))
        self.assertRegex(run(model, [X], explain=True), "2 nodes run; 1 follow from constants and shapes, 1 are needed for no")

    def test_sizes_that_the_model_leaves_open(self):
        model = graph([node("Relu", ["x"], "y")], {"x": X}, shapes={"x": ("n", 3, "h", "w")})
        np.testing.assert_array_equal(run(model, [X])[0], np.maximum(X, 0))
        self.assertRegex(run(model, [X[:, :2]]), "takes as its input 'x'")

    def test_refused(self):
        self.refused("2 operators.*Nonsense .node 'n1'.*Madness", [node("Nonsense", ["x"], "a", "n1"), node("Madness", ["a"], "y")])
        self.refused("Relu of opset 5", [node("Relu", ["x"], "y")], opset=5)
        self.refused("com.microsoft.Gelu", [node("Gelu", ["x"], "y", domain="com.microsoft")])
        self.refused("circle", [node("Add", ["x", "b"], "a"), node("Neg", ["a"], "b"), node("Neg", ["a"], "y")])
        self.refused("circle", [node("Add", ["x", "y"], "y")])
        self.refused("takes 'nowhere'", [node("Add", ["x", "nowhere"], "y")])
        self.refused("nothing in the model makes its output", [node("Neg", ["x"], "a")])
        self.refused("makes 'y', which the model has", [node("Neg", ["x"], "y"), node("Abs", ["x"], "y")])
        self.refused("makes 'x', which the model has", [node("Neg", ["x"], "x")], outputs=("x",))
        self.refused("has 1 inputs", [node("Add", ["x"], "y", "sum")])
        self.refused("'alhpa', which is not known", [node("LeakyRelu", ["x"], "y", alhpa=0.5)])
        self.refused("do not fit together", [node("Add", ["x", "c"], "y", "sum")], constants={"c": ROW[:4]})
        self.refused("takes float32 here as input 1, not int64", [node("Add", ["x", "c"], "y")], constants={"c": I})
        self.refused("divides integers by 0", [node("Div", ["c", "z"], "y")], constants={"c": I, "z": 0 * I})


if __name__ == "__main__":
    unittest.main()
