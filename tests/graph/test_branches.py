# SPDX-License-Identifier: MIT
"""If: planning takes the branch that the condition chooses, and leaves out the nodes of the other one."""
import unittest

import numpy as np
from graph_helper import field, graph, node, run, tensor, value

X = np.random.default_rng(7).normal(size=(1, 3, 4, 5)).astype(np.float32)


def branch(nodes, outputs, constants=None):
    """The graph of a branch."""
    parts = [field(1, n) for n in nodes] + [field(5, tensor(name, array)) for name, array in (constants or {}).items()]
    return b"".join(parts + [field(12, value(name, None)) for name in outputs])


def choose(condition, yes, no, output="y", further=()):
    return node("If", [condition], output, f"choose {output}", further=further, then_branch=yes, else_branch=no)


class Branches(unittest.TestCase):
    def made(self, nodes, x=X, outputs=("y",), **constants):
        made = run(graph(nodes, {"x": x}, outputs, constants, shapes={"x": ("n", "c", "h", "w")}), [x], len(outputs))
        self.assertIsInstance(made, list, made)
        return made

    def test_by_shape(self):
        """What PyTorch writes for squeeze(1): the branch that is not taken could not be computed. Both give the same name."""
        nodes = [node("Shape", ["x"], "shape"), node("Gather", ["shape", "one"], "count"), node("Equal", ["count", "one"], "c"),
                 choose("c", branch([node("Squeeze", ["x", "one"], "r")], ["r"]), branch([node("Neg", ["x"], "r")], ["r"])), node("Relu", ["y"], "z")]
        np.testing.assert_array_equal(self.made(nodes, X[:, :1], ("z",), one=np.array([1]))[0], np.maximum(X[:, 0], 0))
        np.testing.assert_array_equal(self.made(nodes, X, ("z",), one=np.array([1]))[0], np.maximum(-X, 0))

    def test_within_each_other(self):
        """A branch within a branch takes values of both graphs around it, and its constants are its own."""
        def side(number):
            inner = choose("d", branch([node("Mul", ["a", "q"], "m")], ["m"], {"q": np.float32(number)}), branch([node("Sub", ["a", "x"], "m")], ["m"]), "b")
            return branch([node("Add", ["x", "k"], "a"), inner, node("Abs", ["b"], "r")], ["r", "a"], {"k": np.float32(10 * number)})
        nodes = [node("Not", ["c"], "d"), choose("c", side(1), side(2), "y", ["z"]), node("Add", ["y", "z"], "s")]
        for c, wanted, added in ((True, np.abs((X + 10) - X), X + 10), (False, np.abs((X + 20) * 2), X + 20)):
            made = self.made(nodes, outputs=("y", "z", "s"), c=np.array(c))
            for array, expected in zip(made, (wanted, added, wanted + added)):
                np.testing.assert_allclose(array, expected, rtol=1e-6)

    def test_results_that_no_node_makes(self):
        """A branch may yield its own constant, or a value of the graph around it."""
        k = np.float32([[1, 2]])
        nodes = [choose("c", branch([], ["k"], {"k": k}), branch([], ["x"]))]
        np.testing.assert_array_equal(self.made(nodes, c=np.array(True))[0], k)
        np.testing.assert_array_equal(self.made(nodes, c=np.array(False))[0], X)

    def test_model_without_an_opset(self):
        nodes = [choose("c", branch([], ["k"], {"k": X}), branch([], ["x"]))]
        self.assertIn("If of an opset that the model does not say (node 'choose y')",
                      run(graph(nodes, {"x": X}, ("y",), {"c": np.array(True)}, opset=0), [X]))

    def test_tiles_that_would_take_another_branch(self):
        x = np.random.default_rng(3).normal(size=(1, 3, 92, 148)).astype(np.float32)
        weights = np.ones((8, 3, 3, 3), np.float32)
        nodes = [node("Conv", ["x", "w"], "a"), node("Shape", ["x"], "s", start=2, end=3), node("Greater", ["s", "least"], "c"),
                 choose("c", branch([node("Relu", ["a"], "r")], ["r"]), branch([node("Tanh", ["a"], "r")], ["r"])), node("Conv", ["y", "v"], "z")]
        for least, cut in ((91, False), (9, True)):
            model = graph(nodes, {"x": x}, ("z",), {"w": weights, "v": np.ones((3, 8, 1, 1), np.float32), "least": np.array([least])})
            whole, tiles = (run(model, [x], options=["-a", "direct", *more]) for more in ([], ["-m", "150000"]))
            if cut:
                np.testing.assert_array_equal(tiles[0], whole[0])
            else:
                self.assertRegex(str(tiles), "depends on the size of the image")

    def test_refused(self):
        yes, no = branch([node("Neg", ["x"], "r")], ["r"]), branch([node("Abs", ["x"], "r")], ["r"])
        strange, twice = branch([node("Nonsense", ["x"], "r")], ["r"]), branch([node("Neg", ["x"], "r"), node("Abs", ["x"], "r")], ["r"])
        true = {"c": np.array(True)}
        for word, nodes, constants in (
            ("'choose y' .If. chooses between its branches by what depends on the pixels", [node("ReduceMax", ["x"], "m", keepdims=0), node("Greater", ["m", "h"], "c"), choose("c", yes, no)], {"h": np.float32(0)}),
            ("1 operator.*Nonsense", [choose("c", yes, strange)], true),
            ("makes 'y/then_branch/r', which the model has", [choose("c", twice, no)], true),
            ("2 outputs, and a branch with 1", [choose("c", yes, no, "y", ["z"])], true),
            ("no graph as its attribute 'else_branch'", [node("If", ["c"], "y", then_branch=yes)], true),
            ("a condition that is not one bool", [choose("c", yes, no)], {"c": np.float32(1)}),
            ("takes 'c', which nothing", [choose("c", yes, no)], {}),
            ("circle", [choose("c", yes, no), node("Size", ["y"], "n"), node("Greater", ["n", "zero"], "c")], {"zero": np.int64(0)}),
            ("branches within each other: at most 32", [choose("c", deep(40), no)], true),
        ):
            with self.subTest(word=word):
                self.assertRegex(str(run(graph(nodes, {"x": X}, constants=constants), [X])), word)


def deep(levels):
    """Branches within branches."""
    inner = branch([node("Neg", ["x"], "r")], ["r"])
    for _ in range(levels):
        inner = branch([choose("c", inner, inner if len(inner) < 200 else branch([node("Abs", ["x"], "r")], ["r"]), "r")], ["r"])
    return inner


if __name__ == "__main__":
    unittest.main()
