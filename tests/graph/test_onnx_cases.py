# SPDX-License-Identifier: MIT
"""Kinds of nodes against what NumPy computes, and graphs that are refused."""
import math
import unittest

import numpy as np
from graph_helper import TYPES as helper_types
from graph_helper import field, graph, node, run, value

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
    ("Pow", [np.float32([-np.inf, -1, 4]), np.float32(0.5)], {}, lambda x, e: np.float32([np.inf, np.nan, 2])),
    ("Pow", [P, X], {}, np.power),
    ("Add", [X, CHANNEL[:, 0, 0]], {"axis": 1, "broadcast": 1}, lambda a, b: a + CHANNEL, 6),
    ("Mul", [X, ROW], {"broadcast": 1}, np.multiply, 6),
    ("Sub", [X, X[0, 0]], {"broadcast": 1}, np.subtract, 6),
    ("Div", [X, P], {}, np.divide, 6),
    ("PRelu", [X, CHANNEL[:, 0, 0]], {}, lambda x, s: np.where(x < 0, CHANNEL * x, x), 6),
    ("PRelu", [X, ROW[:1]], {}, lambda x, s: np.where(x < 0, s * x, x), 6),
    ("Min", [X, ROW, CHANNEL], {}, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    ("Max", [ROW, X], {}, np.maximum),
    ("Sum", [X, ROW, CHANNEL], {}, lambda a, b, c: a + b + c),
    ("Mean", [X, ROW], {}, lambda a, b: (a + b) / 2),
    ("Less", [X, ROW], {}, np.less),
    ("Equal", [I, J], {}, np.equal),
    ("Where", [X > 0, ROW, X], {}, np.where),
    ("Shrink", [X], {"lambd": 1.5, "bias": 0.25}, lambda x: np.where(x < -1.5, x + 0.25, np.where(x > 1.5, x - 0.25, 0))),
    ("Atan", [X], {}, np.arctan),
    ("Asinh", [X], {}, np.arcsinh),
    ("IsInf", [np.float32([1, np.inf, -np.inf, np.nan])], {"detect_positive": 0}, lambda x: x == -np.inf),
    ("BitShift", [np.uint8([255, 3, 1]), np.uint8([1, 2, 7])], {"direction": "LEFT"}, np.left_shift),
    ("BitShift", [np.int8([-8, -1, 64, 4, -8]), np.int8([1, 9, 1, -1, -1])], {"direction": "RIGHT"}, lambda a, b: np.int8([-4, -1, 32, 0, -1]), 28),
    ("BitShift", [np.int8([-8, 64, 4, 4]), np.int8([1, 1, 8, -1])], {"direction": "LEFT"}, lambda a, b: np.int8([-16, -128, 0, 0]), 28),
    ("BitwiseXor", [I, J], {}, np.bitwise_xor),
    ("BitwiseNot", [I], {}, np.bitwise_not),
    ("Not", [X > 0], {}, np.logical_not),
]


def conv(x, w, b=None, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    """A convolution of images in float64: pads are top, left, bottom, right."""
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    each, (filters, channels, rows, columns) = w.shape[0] // group, w.shape
    high = (x.shape[2] - (rows - 1) * dilations[0] - 1) // strides[0] + 1
    wide = (x.shape[3] - (columns - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], filters, high, wide))
    for k in range(filters):
        first = k // each * channels
        for r in range(rows):
            for s in range(columns):
                part = x[:, first : first + channels, r * dilations[0] :: strides[0], s * dilations[1] :: strides[1]]
                y[:, k] += np.tensordot(part[:, :, :high, :wide], w[k, :, r, s].astype(float), (1, 0))
    return y + (0 if b is None else b.reshape(-1, 1, 1))


def weights(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) / 3


IMAGE = RANDOM.normal(size=(2, 4, 9, 11)).astype(np.float32)
# filters, whether there are biases, attributes of the node, those of conv() if they are others
CONVS = [
    ((5, 4, 3, 3), True, {}, None),
    ((5, 4, 3, 3), False, {"pads": [1, 1, 1, 1]}, None),
    ((6, 4, 3, 2), True, {"pads": [2, 0, 1, 3], "strides": [2, 3]}, None),
    ((4, 4, 3, 3), True, {"pads": [2, 2, 2, 2], "dilations": [2, 2]}, None),
    ((8, 1, 3, 3), True, {"group": 4, "pads": [1, 1, 1, 1]}, None),
    ((6, 2, 1, 1), False, {"group": 2, "kernel_shape": [1, 1]}, {"group": 2}),
    ((3, 4, 3, 3), False, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((3, 4, 2, 4), False, {"auto_pad": "SAME_LOWER"}, {"pads": [1, 2, 0, 1]}),
    ((3, 4, 2, 4), False, {"auto_pad": "SAME_UPPER"}, {"pads": [0, 1, 1, 2]}),
    ((3, 4, 3, 3), False, {"auto_pad": "VALID"}, {}),
]


TYPES = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]


def numbers(kind):
    """Numbers of a type, up to its largest and smallest ones."""
    if kind.kind == "f":
        return RANDOM.normal(size=40).astype(kind)
    return np.concatenate([RANDOM.integers(np.iinfo(kind).min, np.iinfo(kind).max, 30, kind, True), np.array([np.iinfo(kind).min, np.iinfo(kind).max] * 5, kind)])


class Types(unittest.TestCase):
    """Integers of all widths wrap around, and float64 is computed as such."""

    def made(self, op, inputs, opset=21, **attributes):
        names = [f"x{i}" for i in range(len(inputs))]
        made = run(graph([node(op, names, "y", **attributes)], dict(zip(names, inputs)), opset=opset), inputs)
        self.assertIsInstance(made, list, made)
        return made[0]

    def check(self, nodes, inputs, wanted, opset=21):
        """All nodes in one model: node(op, inputs, output); wanted: {output: array}."""
        made = run(graph(nodes, inputs, list(wanted), opset=opset), inputs.values(), len(wanted))
        self.assertIsInstance(made, list, made)
        for name, array in zip(wanted, made):
            with self.subTest(name=name, kind=next(iter(inputs.values())).dtype.name):
                self.assertEqual(array.dtype, wanted[name].dtype)
                tolerance = 20 * np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0
                np.testing.assert_allclose(array, wanted[name], rtol=tolerance, atol=0)

    def test_arithmetic(self):
        for kind in TYPES:
            a, b = numbers(kind), numbers(kind)[::-1].copy()
            divisors = np.where(b == 0, b.dtype.type(3), b)
            with np.errstate(all="ignore"):
                wanted = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Min": np.minimum(a, b), "Max": np.maximum(a, b), "Less": a < b,
                          "Equal": a == b, "GreaterOrEqual": a >= b, "Div": np.trunc(a.astype("f16") / divisors.astype("f16")).astype(kind)}
                if kind.kind == "f":
                    wanted["Div"] = a / divisors
                if kind.kind == "i":  # the smallest divided by -1 wraps around, too
                    wanted["Div"][(a == np.iinfo(kind).min) & (divisors == -1)] = np.iinfo(kind).min
                one = {"Abs": np.abs(a), "Sign": np.sign(a)} | ({} if kind.kind == "u" else {"Neg": -a})
            nodes = [node(op, ["a", "d" if op == "Div" else "b"], op) for op in wanted] + [node(op, ["a"], op) for op in one]
            self.check(nodes, {"a": a, "b": b, "d": divisors}, wanted | one)

    def test_reductions_and_moves(self):
        for kind in TYPES:
            x = numbers(kind).reshape(5, 8)
            nodes = [node("ReduceSum", ["x"], "sum", axes=[1], keepdims=0), node("ReduceMax", ["x"], "largest", axes=[0], keepdims=0),
                     node("ArgMin", ["x"], "place", axis=1, keepdims=0), node("Transpose", ["x"], "turned"), node("Concat", ["x", "x"], "joined", axis=1)]
            wanted = {"sum": x.sum(1, dtype=kind), "largest": x.max(0), "place": x.argmin(1), "turned": x.T, "joined": np.concatenate([x, x], 1)}
            self.check(nodes, {"x": x}, wanted, 11)

    def test_casts(self):
        for kind in TYPES:
            x = numbers(kind) if kind.kind != "f" else (numbers(kind) * 20).astype(kind)
            nodes = [node("Cast", ["p" if kind.kind == "f" and to.kind == "u" else "x"], to.name, to=helper_types[to.name]) for to in TYPES]
            wanted = {to.name: (np.abs(x) if kind.kind == "f" and to.kind == "u" else x).astype(to) for to in TYPES}
            self.check(nodes, {"x": x, "p": np.abs(x)}, wanted)

    def test_lists_of_numbers(self):
        """Files may have numbers as lists of varints and doubles, not as raw bytes."""
        for array, number in ((np.int16([-7, 300]), 5), (np.uint16([65535, 1]), 5), (np.int8([-3, 5]), 5), (np.uint64([2**63 + 5, 1]), 11),
                              (np.uint32([2**32 - 1, 7]), 11), (np.float64([1 / 3, -2e300]), 10)):
            listed = field(1, array.size) + field(2, helper_types[str(array.dtype)]) + field(8, "c")
            listed += field(10, array.tobytes()) if number == 10 else b"".join(field(number, int(n) % 2**64) for n in array)
            with self.subTest(kind=array.dtype.name):
                model = field(1, 8) + field(7, field(1, node("Add", ["x", "c"], "y")) + field(5, listed) + field(11, value("x", array.shape, helper_types[str(array.dtype)]))
                                            + field(12, value("y", None))) + field(8, field(1, "") + field(2, 21))
                made = run(model, [np.zeros_like(array)])
                np.testing.assert_array_equal(made[0], array)

    def test_powers_of_other_types(self):
        for base, exponent in ((np.int32([1, 2, 3]), np.float32([4, 5, 0.5])), (np.float32([1, 2.5, 3]), np.int64([4, 5, 6])), (np.int64([2, -3, 7]), np.int32([9, 3, 2]))):
            made = self.made("Pow", [base, exponent])
            np.testing.assert_allclose(made, np.power(base.astype(float), exponent).astype(base.dtype), rtol=1e-6)


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


    def test_conv(self):
        for shape, biased, attributes, others in CONVS:
            with self.subTest(shape=shape, attributes=attributes):
                inputs = [IMAGE, weights(*shape)] + ([weights(shape[0])] if biased else [])
                known = attributes if others is None else others
                self.check("Conv", inputs, attributes, conv(*inputs, **known))

    def test_conv_of_signals(self):
        w, b = weights(6, 2, 3), weights(6)
        wanted = conv(IMAGE[:, :, :1], w[:, :, None], b, strides=(1, 2), pads=(0, 1, 0, 2), group=2)[:, :, 0]
        self.check("Conv", [IMAGE[:, :, 0], w, b], {"group": 2, "strides": [2], "pads": [1, 2]}, wanted)

    def test_activations_after_conv(self):
        """What follows a convolution is computed with it only if that is the same."""
        w, b = weights(5, 4, 3, 3), weights(5)
        sums = conv(IMAGE, w, b)
        for wanted, last, more in (
            (np.clip(sums, -0.25, 0.25), "Clip", {"low": np.float32(-0.25), "high": np.float32(0.25)}),
            (np.clip(sums, 0, 0.25), "Clip", {"low": np.float32(0), "high": np.float32(0.25)}),
            (np.maximum(sums, -0.25), "Clip", {"low": np.float32(-0.25)}),
            (np.maximum(sums, 0), "Clip", {"low": np.float32(0)}),
            (np.maximum(sums, 0), "Relu", {}),
            (np.where(sums < 0, 0.01 * sums, sums), "LeakyRelu", {}),
            (np.tanh(sums), "Tanh", {}),
        ):
            with self.subTest(last=last, more=more):
                nodes = [node("Conv", ["x", "w", "b"], "a"), node(last, ["a", *more], "y")]
                made = run(graph(nodes, {"x": IMAGE}, constants={"w": w, "b": b} | more), [IMAGE])
                np.testing.assert_allclose(made[0], wanted, rtol=2e-6, atol=2e-6)

    def test_fused(self):
        """A scale, a shift and an activation become a part of the convolution, but not where its result is needed."""
        w, b, scale, shift = weights(5, 4, 3, 3), weights(5), weights(5, 1, 1) + 1, weights(1, 5, 1, 1)
        constants = {"w": w, "b": b, "scale": scale, "shift": shift, "one": np.float32(1)}
        nodes = [node("Conv", ["x", "w", "b"], "a"), node("Mul", ["scale", "a"], "c"), node("Sub", ["shift", "c"], "d"),
                 node("Div", ["d", "scale"], "e"), node("LeakyRelu", ["e"], "y", "last", alpha=0.25), node("Add", ["a", "one"], "z")]
        conv_of = conv(IMAGE, w, b)
        wanted = (shift - scale * conv_of) / scale
        wanted = np.where(wanted < 0, 0.25 * wanted, wanted)
        alone = graph(nodes[:5], {"x": IMAGE}, constants=constants)
        np.testing.assert_allclose(run(alone, [IMAGE])[0], wanted, rtol=2e-5, atol=2e-5)
        self.assertRegex(run(alone, [IMAGE], explain=True), "1 nodes run; .*4 are fused\\n(.*\\n)+.*with Mul.*LeakyRelu 'last'")
        both = graph(nodes, {"x": IMAGE}, ("y", "z"), constants)
        for made, expected in zip(run(both, [IMAGE], 2), (wanted, conv_of + 1)):
            np.testing.assert_allclose(made, expected, rtol=2e-5, atol=2e-5)
        self.assertNotRegex(run(both, [IMAGE], 2, explain=True), "Conv 'a'.* with ")

    def test_batch_norm_is_fused(self):
        w, g, b, m, v = weights(5, 4, 3, 3), weights(5), weights(5), weights(5), np.abs(weights(5)) + np.float32(0.1)
        nodes = [node("Conv", ["x", "w"], "a"), node("BatchNormalization", ["a", "g", "b", "m", "v"], "c", "bn", epsilon=0.01), node("Relu", ["c"], "y")]
        model = graph(nodes, {"x": IMAGE}, constants={"w": w, "g": g, "b": b, "m": m, "v": v})
        g, b, m, v = (numbers.reshape(-1, 1, 1) for numbers in (g, b, m, v))
        wanted = np.maximum((conv(IMAGE, w) - m) / np.sqrt(v + 0.01) * g + b, 0)
        np.testing.assert_allclose(run(model, [IMAGE])[0], wanted, rtol=2e-5, atol=2e-5)
        self.assertRegex(run(model, [IMAGE], explain=True), "1 nodes run; .*2 are fused\\n(.*\\n)+.*with BatchNormalization 'bn', Relu")

    def test_conv_refused(self):
        w = weights(5, 4, 3, 3)
        for word, shape, attributes in (
            ("has filters of 3 channels in 1 groups", (5, 3, 3, 3), {}),
            ("leaves no output", (5, 4, 10, 3), {}),
            ("kernel_shape that is not", w.shape, {"kernel_shape": [3, 2]}),
            ("3 numbers as strides", w.shape, {"strides": [1, 1, 1]}),
            ("has 0 in its attribute 'strides'", w.shape, {"strides": [0, 1]}),
            ("has -1 in its attribute 'pads'", w.shape, {"pads": [-1, 0, 0, 0]}),
            ("auto_pad 'MOST'", w.shape, {"auto_pad": "MOST"}),
            ("0 groups", w.shape, {"group": 0}),
        ):
            told = run(graph([node("Conv", ["x", "w"], "y", "c1", **attributes)], {"x": IMAGE}, constants={"w": weights(*shape)}), [IMAGE])
            self.assertRegex(str(told), "node 'c1' .Conv. .*" + word)


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

    def test_random_graphs(self):
        """Results share memory, as views, in place, and as parts of what Concat joins: never while another is needed."""
        for seed in range(12):
            random = np.random.default_rng(seed)
            values, nodes = {"x": X[:1, :, :2]}, []  # of 1 x C x 2 x 5
            for i in range(30):
                names, name = list(values), f"v{i}"
                a, b = (names[-1 - min(int(random.exponential(4)), len(names) - 1)] for _ in range(2))
                kind = int(random.integers(0, 5))
                if kind == 0:
                    nodes.append(node("Neg", [a], name))
                    values[name] = -values[a]
                elif kind == 1 and values[a].shape == values[b].shape:
                    nodes.append(node("Sub", [a, b], name))
                    values[name] = values[a] - values[b]
                elif kind == 2:
                    nodes += [node("Reshape", [a, "flat"], f"f{i}"), node("Reshape", [f"f{i}", "four"], name)]
                    values[name] = values[a]
                elif values[a].shape[1] + values[b].shape[1] < 60:
                    nodes.append(node("Concat", [a, b] if kind == 3 else [a, b, a], name, axis=1))
                    values[name] = np.concatenate([values[a], values[b]] + ([] if kind == 3 else [values[a]]), 1)
            outputs = [list(values)[-1]] + [name for name in list(values)[1:-1] if random.random() < 0.2]
            shapes = {"flat": np.array([1, -1]), "four": np.array([1, -1, 2, 5])}
            made = run(graph(nodes, {"x": values["x"]}, outputs, shapes), [values["x"]], len(outputs))
            self.assertIsInstance(made, list, made)
            for name, array in zip(outputs, made):
                np.testing.assert_array_equal(array, values[name], f"seed {seed}, {name}")

    def test_parts_of_a_joined_result_are_not_copied(self):
        nodes = [node("Neg", ["x"], "a"), node("Abs", ["x"], "b"), node("Concat", ["a", "b"], "y", axis=1)]
        told = run(graph(nodes, {"x": X[:1]}), [X[:1]], explain=True)
        self.assertIn(f"memory: {3 * 256 / 1e6:.3g} MB", told)  # the input of 240 bytes, and the result, in whole cache lines

    def test_nodes_in_any_order_and_what_nobody_needs(self):
        nodes = [node("Neg", ["a"], "y"), node("Exp", ["a"], "unused"), node("Add", ["x", "c"], "a"), node("Neg", ["k"], "c")]
        model = graph(nodes, {"x": X}, constants={"k": ROW})
        np.testing.assert_array_equal(run(model, [X])[0], -(X - ROW))
        self.assertRegex(run(model, [X], explain=True), "[12] nodes run; 1 follow from constants and shapes, 1 are needed for no")

    def test_sizes_that_the_model_leaves_open(self):
        model = graph([node("Relu", ["x"], "y")], {"x": X}, shapes={"x": ("n", 3, "h", "w")})
        np.testing.assert_array_equal(run(model, [X])[0], np.maximum(X, 0))
        self.assertRegex(run(model, [X[:, :2]]), "takes as its input 'x'")

    def test_refused(self):
        self.refused("2 operators.*Nonsense .node 'n1'.*Madness", [node("Nonsense", ["x"], "a", "n1"), node("Madness", ["a"], "y")])
        self.refused("Neg of opset 5", [node("Neg", ["x"], "y")], opset=5)
        self.refused("com.microsoft.Gelu", [node("Gelu", ["x"], "y", domain="com.microsoft")])
        self.refused("circle", [node("Add", ["x", "b"], "a"), node("Neg", ["a"], "b"), node("Neg", ["a"], "y")])
        self.refused("circle", [node("Add", ["x", "y"], "y")])
        self.refused("takes 'nowhere'", [node("Add", ["x", "nowhere"], "y")])
        self.refused("nothing in the model makes its output", [node("Neg", ["x"], "a")])
        self.refused("makes 'y', which the model has", [node("Neg", ["x"], "y"), node("Abs", ["x"], "y")])
        self.refused("makes 'x', which the model has", [node("Neg", ["x"], "x")], outputs=("x",))
        self.refused("takes input 0 from what depends on the pixels", [node("Neg", ["x"], "a"), node("NonZero", ["a"], "y")])
        self.refused("has 1 inputs", [node("Add", ["x"], "y", "sum")])
        self.refused("'alhpa', which gconv does not know", [node("LeakyRelu", ["x"], "y", alhpa=0.5)])
        self.refused("do not fit together", [node("Add", ["x", "c"], "y", "sum")], constants={"c": ROW[:4]})
        self.refused("takes float32 here as input 1, not int64", [node("Add", ["x", "c"], "y")], constants={"c": I})
        self.refused("a second input that does not fit the axes", [node("Add", ["x", "c"], "y", axis=3, broadcast=1)], constants={"c": X[0, 0]}, opset=6)
        self.refused("does not broadcast", [node("Add", ["x", "c"], "y")], constants={"c": ROW}, opset=6)
        self.refused("divides integers by 0", [node("Div", ["c", "z"], "y")], constants={"c": I, "z": 0 * I})


if __name__ == "__main__":
    unittest.main()
