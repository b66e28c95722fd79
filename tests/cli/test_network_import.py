# SPDX-License-Identifier: MIT
"""gconv bank convert: ONNX models and PyTorch's weights as networks, against numpy in float64."""
import unittest
import zipfile

import numpy as np
from network_helper import Layer, NetworkTest, apply, load_tensors, save_tensors
from onnx_helper import field, model, node


class Onnx(NetworkTest):
    def convert(self, raw, **options):
        (self.folder / "model.onnx").write_bytes(raw)
        return self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", **options)

    def check(self, layers, x):
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--verify")
        got, expected = self.load("y.npy"), np.stack([apply(layers, one) for one in x])
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=0, atol=3e-5)

    def x(self, *shape):
        return self.random.normal(size=shape).astype("f4")

    def test_a_classifier(self):
        conv = self.conv(8, 3, 3, stride=2, padding=[1, 1, 1, 1])
        scale, offset, mean = (self.random.normal(size=8).astype("f4") for _ in range(3))
        variance = self.random.uniform(0.5, 2, size=8).astype("f4")
        second = self.conv(6, 4, 3, 2, groups=2, padding=[1, 0, 2, 1], dilation=[2, 1], activation="leaky", slope=0.125)
        dense, last = self.bank(10, 6 * 6 * 5, 1), self.bank(4, 10, 1)
        nodes = [
            node("Conv", ["x", "w0", "b0"], "a", strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
            node("BatchNormalization", ["a", "s", "o", "m", "v"], "b", epsilon=0.001),
            node("Relu", ["b"], "c"),
            node("Dropout", ["c"], "d"),
            node("Conv", ["d", "w1", "b1"], "e", group=2, pads=[1, 0, 2, 1], dilations=[2, 1]),
            node("LeakyRelu", ["e"], "f", alpha=0.125),
            node("Flatten", ["f"], "g"),
            node("Gemm", ["g", "w2", "b2"], "h", transB=1),
            node("Tanh", ["h"], "i"),
            node("MatMul", ["i", "w3"], "j"),
            node("Add", ["j", "b3"], "k"),
            node("Softmax", ["k"], "y", axis=1),
        ]
        (w2, b2), (w3, b3) = dense, last
        tensors = {"w0": conv.weight, "b0": conv.bias, "s": scale, "o": offset, "m": mean, "v": variance, "w1": second.weight, "b1": second.bias,
                   "w2": w2[:, :, 0, 0], "b2": b2, "w3": w3[:, :, 0, 0].T.copy(), "b3": b3}
        self.convert(model(nodes, tensors, ("n", 3, 14, 10)))
        factor = scale / np.sqrt(variance.astype("f8") + 0.001)
        folded = Layer(conv.weight * factor.reshape(-1, 1, 1, 1), (conv.bias - mean) * factor + offset, **{**conv.keys, "activation": "relu"})
        layers = [folded, second, Layer(w2.reshape(10, 6, 6, 5), b2, kind="conv", padding="valid", activation="tanh"),
                  Layer(w3, b3, kind="conv", padding="valid", activation="softmax")]
        self.check(layers, self.x(3, 3, 14, 10))

    def test_means(self):
        conv, dense = self.conv(5, 2, 3, padding="same_upper"), self.bank(3, 5, 1)
        tails = {
            "pool": [node("GlobalAveragePool", ["b"], "c"), node("Flatten", ["c"], "d")],
            "reduce": [node("ReduceMean", ["b"], "d", axes=[2, 3], keepdims=0)],
            "reduce by an input": [node("ReduceMean", ["b", "axes"], "c", keepdims=1), node("Reshape", ["c", "shape"], "d")],
            "negative axes": [node("ReduceMean", ["b"], "c", axes=[-1, -2]), node("Squeeze", ["c"], "d")],
        }
        layers = [Layer(conv.weight, conv.bias, **{**conv.keys, "activation": "sigmoid"}), Layer(kind="mean"), Layer(dense[0], dense[1], padding="valid")]
        for name, tail in tails.items():
            with self.subTest(name):
                nodes = [node("Conv", ["x", "w", "b0"], "a", auto_pad="SAME_UPPER"), node("Sigmoid", ["a"], "b"), *tail, node("Gemm", ["d", "v", "b1"], "y", transB=1)]
                tensors = {"w": conv.weight, "b0": conv.bias, "v": dense[0][:, :, 0, 0], "b1": dense[1], "axes": np.array([2, 3]), "shape": np.array([0, -1])}
                self.convert(model(nodes, tensors, ("n", 2, "h", "w"), opset=18 if "input" in name else 12))
                self.check(layers, self.x(2, 2, 7, 6))

    def test_a_residual_and_a_constant(self):
        first, second = self.conv(4, 2, 3, padding="same"), self.conv(2, 4, 3, padding="same")
        for swapped in (False, True):
            nodes = [node("Constant", [], "w0", value=first.weight), node("Conv", ["x", "w0"], "a", pads=[1, 1, 1, 1]),
                     node("Add", ["b0", "a"], "b"), node("Relu", ["b"], "c"), node("Conv", ["c", "w1", "b1"], "d", pads=[1, 1, 1, 1]),
                     node("Add", ["x", "d"] if swapped else ["d", "x"], "e"), node("Identity", ["e"], "y")]
            tensors = {"b0": first.bias.reshape(1, 4, 1, 1), "w1": second.weight, "b1": second.bias}
            self.convert(model(nodes, tensors, ("n", 2, "h", "w")))
            self.check([Layer(first.weight, first.bias, padding="same", activation="relu"), second, Layer(kind="residual")], self.x(1, 2, 8, 7))

    def test_a_table(self):
        (w0, b0), (w1, b1) = self.bank(6, 9, 1), self.bank(3, 6, 1)
        nodes = [node("MatMul", ["x", "w0"], "a"), node("Add", ["a", "b0"], "b"), node("Tanh", ["b"], "c"), node("Gemm", ["c", "w1", "b1"], "y")]
        self.convert(model(nodes, {"w0": w0[:, :, 0, 0].T.copy(), "b0": b0, "w1": w1[:, :, 0, 0].T.copy(), "b1": b1}, ("n", 9)))
        self.check([Layer(w0, b0, activation="tanh"), Layer(w1, b1)], self.x(4, 9, 1, 1))
        self.assertIn("9 channels, 1 x 1", self.gconv("info", "net.safetensors").stdout)

    def refuse(self, fragment, nodes, tensors=None, shape=("n", 2, "h", "w"), **more):
        w = {"w": self.bank(2, 2, 3)[0], **(tensors or {})}
        (self.folder / "model.onnx").write_bytes(model(nodes, w, shape, **more))
        self.assertIn(fragment, self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", status=(1, 2)).stderr)

    def test_what_is_no_chain(self):
        conv = node("Conv", ["x", "w"], "a", "first")
        self.refuse("node 'b' (Conv) does not take what the node before it makes", [conv, node("Conv", ["x", "w"], "b")], output="b")
        self.refuse("adds what neither is constant nor the input", [conv, node("Relu", ["a"], "b"), node("Add", ["b", "a"], "y")])
        self.refuse("2 inputs and 1 output, so it is no chain", [conv], inputs=[("z", ("n", 2))], output="a")
        self.refuse("nothing in the model makes its output 'z'", [conv], output="z")
        self.refuse("is an activation that does not follow", [node("Relu", ["x"], "y")])
        self.refuse("follows no Conv or Gemm", [node("BatchNormalization", ["x", "w", "w", "w", "w"], "y")])
        self.refuse("takes its weights from what other nodes compute", [node("Identity", ["x"], "z"), node("Conv", ["z", "z"], "y")])
        self.refuse("stands before nodes whose results it takes, or has branches", [node("Relu", ["a"], "y"), conv])
        self.refuse("is no mean over height and width", [conv, node("ReduceMean", ["a"], "y", axes=[1])])
        self.refuse("takes 7 numbers, and gets 2 channels", [node("Flatten", ["x"], "a"), node("MatMul", ["a", "v"], "y")], {"v": np.zeros((7, 2), "f4")})
        self.refuse("3 dimensions", [conv], shape=("n", 2, 5), output="a")
        np.save(self.folder / "x.npy", self.x(2, 5, 5))
        for name in "graph.onnx", "graph":  # known by its content
            (self.folder / name).write_bytes(model([conv, node("Relu", ["a"], "b"), node("Add", ["b", "a"], "y")], {"w": self.bank(2, 2, 3)[0]}, ("n", 2, 5, 5)))
            self.usage_error("whose layers are no chain", "classify", name, "-i", "x.npy")

    def test_all_unknown_operators_are_named_at_once(self):
        conv = node("Conv", ["x", "w"], "a", "first")
        nodes = [conv, node("MaxPool", ["a"], "b", "pool"), node("MaxPool", ["b"], "c", "again"), node("Conv", ["c", "w"], "d", "theirs", "com.mine"),
                 node("Add", ["d", "w"], "e", "old"), node("Nonsense", ["e"], "y", "both")]
        self.refuse("the model has 2 operators that no kind of nodes does: com.mine.Conv (node 'theirs'), Nonsense (node 'both')",
                    nodes, opset=6)
        self.refuse("node 'old' (Add) is an operator of opset 6 that no layer of a chain does", [conv, node("Add", ["a", "w"], "y", "old")], opset=6)

    def test_meanings_that_no_layer_has(self):
        """Each could be taken for what a layer does, and would be wrong."""
        conv, flat = node("Conv", ["x", "w"], "a"), node("Flatten", ["a"], "f")
        norm = ["a", "s", "s", "s", "s"]
        vectors = {"s": np.ones(2, "f4"), "m": np.ones((2, 2), "f4"), "w4": np.arange(4, dtype="f4"), "column": np.ones((2, 1), "f4"),
                   "true": np.array(True), "shape": np.array([0, 2, 2, -1]), "rows": np.array([-1, 2]), "one": np.array([1, -1]),
                   "v": self.bank(2, 2, 1)[0], "k": np.ones((1, 4, 1, 1, 1), "f4")}
        cases = [  # (what is said, nodes, what the model says else)
            ("normalises along axis -1", [conv, node("Softmax", ["a"], "y")], {}),
            ("normalises along axis 2", [conv, node("Softmax", ["a"], "y", axis=2)], {}),
            ("all axes from 1 on", [conv, node("Softmax", ["a"], "y")], {"opset": 12}),
            ("all axes from 1 on", [conv, node("Softmax", ["a"], "y", axis=1)], {"opset": 12}),
            ("normalises along axis 0", [conv, flat, node("Softmax", ["f"], "y", axis=0)], {}),
            ("adds 4 numbers of 1-dim", [conv, node("Add", ["a", "w4"], "y")], {}),
            ("adds 2 numbers of 1-dim", [conv, node("Add", ["a", "s"], "y")], {}),
            ("adds 2 numbers of 2-dim", [conv, node("Add", ["a", "column"], "y")], {}),
            ("adds 4 numbers of 5-dim", [conv, node("Add", ["a", "k"], "y")], {}),
            ("to what is not the sum", [conv, flat, node("Add", ["f", "s"], "y")], {}),
            ("is in training mode, in which it normalises", [conv, node("BatchNormalization", norm, "y", training_mode=1)], {}),
            ("a second output, 'mean'", [conv, node("BatchNormalization", norm, "y", further=["mean"])], {}),
            ("'spatial' = 0", [conv, node("BatchNormalization", norm, "y", spatial=0)], {"opset": 8}),
            ("no attribute 'is_test' = 1", [conv, node("BatchNormalization", norm, "y")], {"opset": 6}),
            ("'spatial', which gconv does not know", [conv, node("BatchNormalization", norm, "y", spatial=1)], {}),
            ("is in training mode", [conv, node("Dropout", ["a", "", "true"], "y")], {}),
            ("flattens from another axis", [conv, node("Flatten", ["a"], "y", axis=2)], {}),
            ("flattens from another axis", [conv, node("Flatten", ["a"], "y", axis=0)], {}),
            ("makes no list of features", [conv, node("Reshape", ["a", "shape"], "y")], {}),
            ("makes no list of features", [conv, node("Reshape", ["a", "rows"], "y")], {}),
            ("makes no list of features", [conv, node("Reshape", ["a", "one"], "y")], {}),
            ("is no short list of int64", [conv, node("Reshape", ["a", "s"], "y")], {}),
            ("does not drop height and width", [conv, node("Squeeze", ["a"], "y")], {}),
            ("gets images", [conv, node("MatMul", ["a", "m"], "y")], {}),
            ("gets images", [conv, node("Gemm", ["a", "m"], "y")], {}),
            ("whose shape the model does not say", [node("MatMul", ["x", "m"], "y")], {"shape": None}),
            ("scales the product (alpha)", [conv, flat, node("Gemm", ["f", "m"], "y", alpha=0.5)], {}),
            ("transposes its input (transA)", [conv, flat, node("Gemm", ["f", "m"], "y", transA=1)], {}),
            ("scales what it adds", [conv, flat, node("Gemm", ["f", "m", "s"], "y", beta=2.0)], {"shape": (1, 2, 3, 3)}),
            ("adds 2 numbers of 2-dim", [conv, flat, node("Gemm", ["f", "m", "column"], "y")], {"shape": (2, 2, 3, 3)}),
            ("no attribute 'broadcast' = 1", [conv, flat, node("Gemm", ["f", "m", "s"], "y")], {"opset": 6}),
            ("auto_pad 'SAME', which is not computed", [node("Conv", ["x", "w"], "y", auto_pad="SAME")], {}),
            ("contradicts its 'auto_pad'", [node("Conv", ["x", "w"], "y", auto_pad="SAME_UPPER", pads=[1, 1, 1, 1])], {}),
            ("is not the size of its weights", [node("Conv", ["x", "w"], "y", kernel_shape=[5, 5])], {}),
            ("'alpha', which gconv does not know", [node("Conv", ["x", "w"], "y", alpha=2.0)], {}),
            ("of another type", [node("Conv", ["x", "w"], "y", group=1.0)], {}),
            ("of another type", [conv, node("LeakyRelu", ["a"], "y", alpha=1)], {}),
            ("has 4 inputs", [node("Conv", ["x", "w", "", "s"], "y")], {}),
            ("adds the input of the model to what has another shape", [conv, node("Add", ["a", "x"], "y")], {"shape": ("n", 2, 5, 5)}),
            ("an attribute 'sparse_value'", [node("Constant", [], "c", sparse_value=1), node("Conv", ["x", "w"], "y")], {}),
            ("makes 'w', which the model has already", [node("Conv", ["x", "w"], "w")], {}),
            ("int64 numbers", [conv], {"kind": 7, "output": "a"}),
            ("opset that the model does not say", [conv, node("Relu", ["a"], "y")], {"opset": 0}),
            ("IR version 8 and opset 99", [conv], {"opset": 99}),
            ("IR version 99", [conv], {"ir": 99}),
            ("sparse tensors", [conv], {"more": field(15, b"")}),
        ]
        for fragment, nodes, options in cases:
            with self.subTest(fragment):
                self.refuse(fragment, nodes, vectors, **options)

    def test_meanings_that_a_layer_has(self):
        """Unusual ways to say what a layer does."""
        first = self.conv(4, 2, 3)
        dense = self.bank(3, 4, 1)
        conv = node("Conv", ["x", "w"], "a")
        tensors = {"w": first.weight, "s": np.float32(0.5), "c": first.bias.reshape(4, 1, 1), "one": np.full((1, 1, 1, 1), 0.5, "f4"), "v": dense[0][:, :, 0, 0],
                   "half": np.full(1, 0.5, "f4"), "false": np.array(False), "axes": np.array([-1, 2]), "batch": np.array([2, -1]), "all": np.array([0, -1])}
        same = Layer(first.weight, np.full(4, 0.5, "f4"), padding="valid")
        means = [Layer(first.weight, None, padding="valid"), Layer(kind="mean")]
        head = [conv, node("GlobalAveragePool", ["a"], "b")]
        softmax = [*means, Layer(dense[0], None, activation="softmax")]
        cases = [
            ([conv, node("Add", ["s", "a"], "y")], [same], {}),
            ([conv, node("Relu", ["a"], "y", consumed_inputs=[0])], [Layer(first.weight, None, padding="valid", activation="relu")], {"opset": 5}),
            ([conv, node("Add", ["a", "one"], "y")], [same], {}),
            ([conv, node("Add", ["a", "c"], "y")], [Layer(first.weight, first.bias, padding="valid")], {"opset": 7}),
            ([conv, node("Softmax", ["a"], "y", axis=1)], [Layer(first.weight, None, padding="valid", activation="softmax")], {}),
            ([conv, node("Softmax", ["a"], "y", axis=-3)], [Layer(first.weight, None, padding="valid", activation="softmax")], {}),
            ([conv, node("Dropout", ["a", "s", "false"], "y", further=["mask"])], means[:1], {}),
            ([conv, node("LeakyRelu", ["a"], "y", alpha=0.0)], [Layer(first.weight, None, padding="valid", activation="relu")], {}),
            ([*head, node("Squeeze", ["b", "axes"], "d"), node("Gemm", ["d", "v"], "e", transB=1), node("Softmax", ["e"], "y")], softmax, {}),
            ([*head, node("Squeeze", ["b"], "d"), node("Gemm", ["d", "v"], "e", transB=1), node("Softmax", ["e"], "y")], softmax, {"opset": 12}),
            ([*head, node("Reshape", ["b", "batch"], "d"), node("Gemm", ["d", "v", "half"], "y", transB=1, alpha=1.0)],
             [*means, Layer(dense[0], np.full(3, 0.5, "f4"))], {"shape": (2, 2, 9, 8)}),
            ([conv, node("ReduceMean", ["a", "axes"], "b", keepdims=0), node("Gemm", ["b", "v"], "y", transB=1)], [*means, Layer(dense[0], None)], {"opset": 18}),
        ]
        for nodes, layers, options in cases:
            with self.subTest(nodes=len(nodes), **options):
                self.convert(model(nodes, tensors, **{"shape": ("n", 2, "h", "w"), **options}))
                self.check(layers, self.x(2, 2, 9, 8))

    def test_an_attribute_that_is_0_and_not_in_the_file(self):
        """Writers of protocol buffers leave 0 out."""
        conv, dense = self.conv(4, 2, 3), self.bank(3, 4, 1)
        zero = lambda name, kind: field(5, field(1, name) + field(20, kind))
        nodes = [node("Conv", ["x", "w"], "a"), node("ReduceMean", ["a"], "b", axes=[2, 3]) + zero("keepdims", 2), node("Gemm", ["b", "v"], "y", transB=1)]
        self.convert(model(nodes, {"w": conv.weight, "v": dense[0][:, :, 0, 0]}, ("n", 2, "h", "w"), opset=13))
        self.check([Layer(conv.weight, None, padding="valid"), Layer(kind="mean"), Layer(dense[0], None)], self.x(2, 2, 9, 8))
        self.refuse("normalises along axis 0", [node("Conv", ["x", "w"], "a"), node("Softmax", ["a"], "y") + zero("axis", 2)])

    def test_a_model_in_half_precision_is_computed_in_float32_with_a_word(self):
        conv = self.conv(3, 2, 3)
        weight = conv.weight.astype("f2")
        said = self.convert(model([node("Conv", ["x", "w"], "y")], {"w": weight}, ("n", 2, "h", "w"), kind=10)).stderr
        self.assertIn("the model computes in float16; gconv does in float32", said)
        self.check([Layer(weight.astype("f4"), None, padding="valid")], self.x(1, 2, 6, 6))

    def test_weights_that_are_not_finite(self):
        (self.folder / "model.onnx").write_bytes(model([node("Conv", ["x", "w"], "y")], {"w": np.full((1, 1, 1, 1), np.nan, "f4")}, ("n", 1, "h", "w")))
        self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", status=1)
        self.assertEqual(self.files(), ["model.onnx"])

    def test_channels_that_do_not_fit(self):
        (self.folder / "model.onnx").write_bytes(model([node("Conv", ["x", "w"], "y")], {"w": self.bank(2, 3, 3)[0]}, ("n", 2, "h", "w")))
        result = self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", status=1)
        self.assertIn("takes 3 channels, and gets 2", result.stderr)

    def test_cut_models_are_refused(self):
        raw = model([node("Conv", ["x", "w"], "a"), node("Relu", ["a"], "y")], {"w": self.bank(2, 2, 3)[0]}, ("n", 2, "h", "w"))
        self.convert(raw)
        (self.folder / "net.safetensors").unlink()
        for end in range(4, len(raw) - 6, 13):
            (self.folder / "model.onnx").write_bytes(raw[:end])
            self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", status=(1, 2))

    def test_one_node_is_a_bank(self):
        self.convert(model([node("Conv", ["x", "w"], "a", "first"), node("MaxPool", ["a"], "y")], {"w": self.bank(2, 2, 3)[0]}, ("n", 2, "h", "w")), status=2)
        self.gconv("bank", "convert", "model.onnx:first", "-o", "bank.safetensors")
        self.assertEqual(sorted(load_tensors(self.folder / "bank.safetensors")[0]), ["first.weight"])


class Applied(NetworkTest):
    """-f model.onnx is the whole model; -f model.onnx:NAME is the bank of a Conv."""

    def setUp(self):
        super().setUp()
        self.first, self.second = self.conv(4, 3, 3, padding=[1, 1, 1, 1], activation="relu"), self.conv(3, 4, 3, padding=[1, 1, 1, 1])
        self.nodes = [node("Conv", ["x", "w", "b"], "a", "first", pads=[1, 1, 1, 1]), node("Relu", ["a"], "r"), node("Conv", ["r", "v", "u"], "y", "second", pads=[1, 1, 1, 1])]
        self.tensors = {"w": self.first.weight, "b": self.first.bias, "v": self.second.weight, "u": self.second.bias}
        (self.folder / "m.onnx").write_bytes(model(self.nodes, self.tensors, ("n", 3, "h", "w")))

    def same(self, y, x):
        np.testing.assert_allclose(self.load(y)[0], apply([self.first, self.second], x), rtol=0, atol=3e-5)

    def test_a_photo(self):
        self.photo("photo.png")
        self.gconv("bank", "convert", "m.onnx", "-o", "net.safetensors")
        for name in "m.onnx", "net.safetensors":
            self.gconv("-i", "photo.png", "-f", name, "-o", f"{name}.png", "--verify")
        self.assertEqual((self.folder / "m.onnx.png").read_bytes(), (self.folder / "net.safetensors.png").read_bytes())

    def test_what_is_no_network(self):
        (self.folder / "p.onnx").write_bytes(model([self.nodes[0], node("MaxPool", ["a"], "y", "pool")], self.tensors, ("n", 3, "h", "w")))
        np.save(self.folder / "x.npy", self.random.random((1, 3, 8, 9)).astype("f4"))
        self.usage_error("node 'pool' (MaxPool) pools windows of 0 dimensions: 1 to 3 are computed here; its Conv nodes are banks", "-i", "x.npy", "-f", "p.onnx", "-o", "y.npy")
        self.gconv("-i", "x.npy", "-f", "p.onnx:first", "-o", "y.npy")
        np.testing.assert_allclose(self.load("y.npy")[0], apply([Layer(self.first.weight, self.first.bias, padding=[1, 1, 1, 1])], self.load("x.npy")[0]), rtol=0, atol=3e-5)
        (self.folder / "p.onnx").write_bytes(model([self.nodes[0], node("Softmax", ["a"], "y", "last")], self.tensors, ("n", 3, "h", "w")))
        self.usage_error("node 'last' (Softmax) normalises along axis -1: here that is the channels, axis 1; so it is a graph", "bank", "convert", "p.onnx", "-o", "net.safetensors")
        (self.folder / "p.onnx").write_bytes(model([self.nodes[0], node("Nonsense", ["a"], "y", "last")], self.tensors, ("n", 3, "h", "w")))
        self.usage_error("Nonsense (node 'last'); its Conv nodes are banks", "-i", "x.npy", "-f", "p.onnx", "-o", "z.npy")
        self.usage_error("--stride: m.onnx is a network, whose file says how each layer is applied: leave it out, or name a layer, as m.onnx:NAME", "-i", "x.npy", "-f", "m.onnx",
                         "--stride", "2", "-o", "z.npy")

    def test_channels_before_rows(self):
        """An array C x H x W, of the channels that the network takes, is one image; H x W x C is one as before."""
        x = self.random.random((3, 8, 9)).astype("f4")
        np.save(self.folder / "chw.npy", x)
        np.save(self.folder / "fortran.npy", np.asfortranarray(x))
        np.save(self.folder / "hwc.npy", np.ascontiguousarray(x.transpose(1, 2, 0)))
        np.savez(self.folder / "x.npz", chw=x)
        for name in "chw.npy", "fortran.npy", "hwc.npy", "x.npz":
            for spec in ("m.onnx",), ("m.onnx:first", "--activation", "relu", "--then", "-f", "m.onnx:second"):
                with self.subTest(name, spec=spec[0]):
                    said = self.gconv("-i", name, "-f", *spec, "-o", "y.npy", "--verify").stderr
                    self.assertNotIn("taken as", said)
                    self.same("y.npy", x)
        self.gconv("-i", "chw.npy", "-f", "m.onnx", "-o", "y.png")
        narrow = self.random.random((3, 8, 4)).astype("f4")
        np.save(self.folder / "narrow.npy", narrow)
        self.gconv("-i", "narrow.npy", "-f", "m.onnx", "-o", "y.npy")
        self.same("y.npy", narrow)
        clear = self.random.random((3, 8, 3)).astype("f4")
        np.save(self.folder / "either.npy", clear)
        said = self.gconv("-i", "either.npy", "-f", "m.onnx", "-o", "y.npy").stderr
        self.assertEqual(said.count("an array of 3 x 8 x 3 is taken as H x W x C; one of C x H x W is clear with a fourth axis"), 1, said)
        self.same("y.npy", clear.transpose(2, 0, 1))
        np.save(self.folder / "five.npy", self.random.random((1, 5, 8, 9)).astype("f4"))
        self.assertIn("takes 3 channels, and gets 5", self.gconv("-i", "five.npy", "-f", "m.onnx", "-o", "y.npy", status=1).stderr)

    def test_another_size_than_the_model_says(self):
        (self.folder / "m.onnx").write_bytes(model(self.nodes, self.tensors, (1, 3, 8, 9)))
        for shape, count in ((8, 9), 0), ((9, 9), 1):
            x = self.random.random((1, 3, *shape)).astype("f4")
            np.save(self.folder / "x.npy", x)
            said = self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy").stderr
            self.assertEqual(said.count("the network was made for 8 x 9 pixels (height, width), and gets 9 x 9"), count, said)
            self.same("y.npy", x[0])

    def test_files_that_are_missing(self):
        self.photo("photo.png")
        (self.folder / "old.pth").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
        (self.folder / "plain.txt").write_text("1 2 1\n")
        for spec, fragment in (("net.pt:conv1", "there is no filter 'net.pt:conv1': there is no file 'net.pt'"), ("far/net.pt:conv1", "far/net.pt: there is no such file"),
                               ("old.pth:conv1", "old.pth: is a file of torch.save(), which has to be run to be read"), ("old.pth", "torch.load('old.pth', weights_only=True), 'old.safetensors')"),
                               ("plain.txt:conv1", "plain.txt: holds filters without names: leave out ':conv1'")):
            self.usage_error(fragment, "-i", "photo.png", "-f", spec, "-o", "y.png")


class State(NetworkTest):
    def convert(self, net, tensors, **options):
        save_tensors(self.folder / "state.safetensors", tensors)
        return self.gconv("bank", "convert", "state.safetensors", "--net", net, "-o", "net.safetensors", **options)

    def check(self, layers, x):
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--verify")
        np.testing.assert_allclose(self.load("y.npy"), np.stack([apply(layers, one) for one in x]), rtol=0, atol=3e-5)

    def test_a_sequential(self):
        first, second = self.conv(12, 3, 3, stride=2, padding=[1, 1, 1, 1], activation="relu"), self.conv(4, 6, 3, groups=2, padding="valid", activation="leaky", slope=0.25)
        dense, last = self.bank(5, 4 * 2 * 3, 1), self.bank(2, 5, 1)
        norm = {"weight": self.random.normal(size=12), "bias": self.random.normal(size=12), "running_mean": self.random.normal(size=12), "running_var": self.random.uniform(0.5, 2, 12)}
        tensors = {"10.weight": last[0][:, :, 0, 0], "10.bias": last[1], "0.weight": first.weight, "0.bias": first.bias, **{f"1.{key}": v.astype("f4") for key, v in norm.items()},
                   "3.weight": second.weight, "3.bias": second.bias, "6.weight": dense[0][:, :, 0, 0], "6.bias": dense[1]}
        self.convert("relu /2 padding:1, leaky:0.25 groups:2 valid, 2x3 tanh dropout identity, softmax", tensors)
        factor = norm["weight"] / np.sqrt(norm["running_var"] + 1e-5)
        folded = Layer(first.weight * factor.reshape(-1, 1, 1, 1), (first.bias - norm["running_mean"]) * factor + norm["bias"], **first.keys)
        layers = [folded, second, Layer(dense[0].reshape(5, 4, 2, 3), dense[1], padding="valid", activation="tanh"), Layer(last[0], last[1], activation="softmax")]
        self.check(layers, self.random.normal(size=(2, 3, 8, 10)).astype("f4"))

    def test_names_with_a_prefix_and_layers_without_weights(self):
        first, second = self.conv(3, 1, 3, activation="relu"), self.conv(1, 3, 3)
        self.convert("relu, none, residual", {"l0.weight": first.weight, "l0.bias": first.bias, "l2.weight": second.weight, "l2.bias": second.bias})
        self.check([first, second, Layer(kind="residual")], self.random.normal(size=(1, 1, 6, 7)).astype("f4"))
        dense = self.bank(2, 3, 1)
        self.convert("relu, mean, softmax", {"net.0.weight": first.weight, "net.0.bias": first.bias, "net.4.weight": dense[0][:, :, 0, 0], "net.4.bias": dense[1]})
        self.check([first, Layer(kind="mean"), Layer(*dense, activation="softmax")], self.random.normal(size=(1, 1, 6, 7)).astype("f4"))

    def test_a_square_is_assumed_and_told(self):
        first, dense = self.conv(2, 1, 3), self.bank(3, 2 * 16, 1)
        result = self.convert("relu, none", {"0.weight": first.weight, "3.weight": dense[0][:, :, 0, 0]})
        self.assertIn("is taken to see 4 x 4 pixels of 2 channels", result.stderr)

    def test_dense_layers_over_an_image(self):
        (w0, b0), (w1, b1) = self.bank(6, 20, 1), self.bank(3, 6, 1)
        self.convert("4x5 sigmoid:2, none", {"0.weight": w0[:, :, 0, 0], "0.bias": b0, "2.weight": w1[:, :, 0, 0], "2.bias": b1})
        self.check([Layer(w0.reshape(6, 1, 4, 5), b0, padding="valid", activation="sigmoid", slope=2), Layer(w1, b1)], self.random.normal(size=(2, 1, 4, 5)).astype("f4"))

    def test_refusals(self):
        w = {"0.weight": self.bank(2, 1, 3)[0], "1.weight": self.bank(3, 2, 1)[0]}
        save_tensors(self.folder / "state.safetensors", w)
        for net, fragment in (("relu", "in --net for the weights '1.weight'"), ("relu, relu, relu", "item 3 of --net: the file has weights for no more layers"),
                              ("relu, gelu", "item 2 of --net: 'gelu' is not one of"), ("relu /0, none", "'/0' is not one of"), ("relu, 3x3", "is no dense layer"),
                              ("leaky:x, none", "'leaky:x' is not one of"), ("", "in --net for the weights '1.weight'"), ("relu, mean, none, residual", "adds the 1 channels of the input to 3")):
            self.gconv_refuses(fragment, net)
        save_tensors(self.folder / "state.safetensors", {"a.0.weight": w["0.weight"], "b.0.weight": w["1.weight"]})
        self.gconv_refuses("tell no order of layers", "relu, relu")
        save_tensors(self.folder / "state.safetensors", {"0.weight": w["0.weight"], "1.weight": np.zeros((3, 7), "f4")})
        self.gconv_refuses("is a dense layer of 7 inputs behind 2 channels", "relu, relu")
        save_tensors(self.folder / "state.safetensors", {"0.weight": w["0.weight"], "1.weight": np.zeros(2, "f4")})
        self.gconv_refuses("no 'running_mean' of a BatchNorm2d beside it", "relu, relu")

    def norm(self, channels, affine=True):
        parts = {"running_mean": self.random.normal(size=channels), "running_var": self.random.uniform(0.5, 2, channels)}
        if affine:
            parts.update(weight=self.random.normal(size=channels), bias=self.random.normal(size=channels))
        return {key: value.astype("f4") for key, value in parts.items()}

    @staticmethod
    def normaliser(norm, eps=1e-5):
        """A BatchNorm2d as a layer of its own."""
        factor = norm.get("weight", 1) / np.sqrt(norm["running_var"].astype("f8") + eps)
        return Layer(factor.reshape(-1, 1, 1, 1), norm.get("bias", 0) - norm["running_mean"] * factor, groups=factor.size, padding="valid")

    @staticmethod
    def module(number, parts):
        return {f"{number}.{key}": value for key, value in parts.items()}

    def test_normalisation_where_it_stands(self):
        """Before or behind the activation, before the first layer, behind a mean, without weight and bias."""
        first, second = self.conv(6, 2, 3), self.conv(2, 6, 3)
        norm, plain, early = self.norm(6), self.norm(6, affine=False), self.norm(2)
        tensors = lambda a, b: {**self.module(a, {"weight": first.weight, "bias": first.bias}), **self.module(b, {"weight": second.weight, "bias": second.bias})}
        active = Layer(first.weight, first.bias, activation="relu")
        relu = lambda n: Layer(n.weight, n.bias, **{**n.keys, "activation": "relu"})
        cases = [("relu, none", {**tensors(0, 3), **self.module(1, norm)}, [first, relu(self.normaliser(norm)), second]),
                 ("relu, none", {**tensors(0, 3), **self.module(2, norm)}, [active, self.normaliser(norm), second]),
                 ("relu, none", {**tensors(0, 3), **self.module(1, plain), "1.num_batches_tracked": np.zeros(())}, [first, relu(self.normaliser(plain)), second]),
                 ("relu dropout, none", {**tensors(0, 4), **self.module(2, norm)}, [active, self.normaliser(norm), second]),
                 ("dropout relu, none", {**tensors(0, 4), **self.module(2, norm)}, [first, relu(self.normaliser(norm)), second]),
                 ("relu, none", {**tensors(1, 3), **self.module(0, early)}, [self.normaliser(early), active, second]),
                 ("relu, none", {**tensors(0, 2), **self.module(3, early)}, [active, second, self.normaliser(early)]),
                 ("relu, mean, none", {**tensors(0, 4), **self.module(3, norm)}, [active, Layer(kind="mean"), self.normaliser(norm), second]),
                 ("relu, none", {**tensors(0, 4), **self.module(2, norm), **self.module(3, plain)}, [active, self.normaliser(norm), self.normaliser(plain), second]),
                 ("relu eps:0.5, none", {**tensors(0, 3), **self.module(1, norm)}, [first, relu(self.normaliser(norm, 0.5)), second])]
        for net, given, layers in cases:
            with self.subTest(net, tensors=sorted(given)):
                said = self.convert(net, given).stderr
                self.assertEqual("eps=1e-05" in said, "eps" not in net)
                self.check(layers, self.random.normal(size=(2, 2, 7, 8)).astype("f4"))

    def test_weight_normalisation(self):
        """weight = g * v / |v|, by both names that PyTorch has for g and v, of Conv2d and of Linear."""
        v, u = self.bank(6, 1, 3)[0], self.bank(4, 6, 1)[0][:, :, 0, 0]
        g, h = self.random.uniform(0.5, 2, (6, 1, 1, 1)).astype("f4"), self.random.uniform(0.5, 2, (4, 1)).astype("f4")
        layers = [Layer(v * g / np.sqrt((v.astype("f8") ** 2).sum((1, 2, 3), keepdims=True)), None, activation="relu"), Layer(kind="mean"),
                  Layer((u * h / np.sqrt((u.astype("f8") ** 2).sum(1, keepdims=True)))[:, :, None, None], None, padding="valid")]
        for first, second in (("weight_g", "weight_v"), ("parametrizations.weight.original0", "parametrizations.weight.original1")):
            self.convert("relu, mean, none", {f"0.{first}": g, f"0.{second}": v, f"4.{first}": h, f"4.{second}": u})
            self.check(layers, self.random.normal(size=(1, 1, 6, 7)).astype("f4"))

    def test_weight_normalisation_that_is_refused(self):
        v, g = self.bank(6, 1, 3)[0], np.ones((6, 1, 1, 1), "f4")
        self.gconv_refuses_tensors("is not 6 floating-point numbers", "none", {"0.weight_g": np.ones((1, 1, 3, 3), "f4"), "0.weight_v": v})
        self.gconv_refuses_tensors("stands without 'weight'", "none", {"0.weight_v": v})
        self.gconv_refuses_tensors("stands without 'weight'", "none", {"0.weight_v": v, "0.weight_g": g, "0.weight": v})

    def test_all_tensors_that_are_not_understood_are_named(self):
        weight = {"0.weight": self.bank(2, 1, 3)[0]}
        for others, fragment in (({"0.weight_orig": weight["0.weight"], "0.weight_u": np.ones(2)}, "has tensors that no layer here has: '0.weight_orig', '0.weight_u'; "),
                                 ({"scale": np.ones(1), "0.alpha": np.ones(1)}, "'scale', '0.alpha'"), ({"3.bias": np.ones(2)}, "'3.bias' stands without 'weight'"),
                                 ({"0.num_batches_tracked": np.ones(())}, "stands without 'weight', or beside tensors"), ({"2.running_mean": np.ones(2)}, "is not of a BatchNorm2d"),
                                 ({"00.weight": weight["0.weight"]}, "are the same part of one module"), ({"0.in_proj_weight": np.ones((6, 2))}, "'0.in_proj_weight'")):
            with self.subTest(fragment):
                self.gconv_refuses_tensors(fragment, "none", {**weight, **others})

    def test_modules_that_the_text_does_not_name(self):
        """The numbers of an nn.Sequential tell how many modules without tensors there are."""
        a, b, dense = self.bank(2, 1, 3)[0], self.bank(2, 2, 3)[0], self.bank(3, 2, 1)[0][:, :, 0, 0]
        cases = [("relu, none", {"0.weight": a, "3.weight": b}, "room for 2 modules without tensors before it, and --net names 1"),
                 ("relu, none", {"1.weight": a, "3.weight": b}, "room for 1 module without tensors before it, and --net names 0"),
                 ("none, none", {"0.weight": a, "2.weight": b}, "room for 1 module without tensors before it, and --net names 0"),
                 ("relu dropout, none", {"0.weight": a, "2.weight": b}, "room for 1 module without tensors before it, and --net names 2"),
                 ("relu, mean, none", {"0.weight": a, "5.weight": dense}, "room for 4 modules without tensors before it, and --net names 2"),
                 ("relu, mean, none", {"0.weight": a, "3.weight": dense}, "no room for a Flatten between"),
                 ("relu, none", {"0.weight": a, "4.weight": b, **self.module(3, self.norm(2))}, "room for 2 modules without tensors before it, and --net names 1"),
                 ("mean relu, none", {"0.weight": a, "1.weight": b}, "item 1 of --net: mean or residual has no weights"),
                 ("relu tanh, none", {"0.weight": a, "1.weight": b}, "'tanh' is not one of"), ("relu pad, none", {"0.weight": a, "1.weight": b}, "say how much by padding:N"),
                 ("relu, none /2", {"0.weight": a, "3.weight": dense}, "is a dense layer, Linear, which has no stride"),
                 ("relu, none", {"0.weight": self.bank(4, 1, 3)[0], "2.weight": self.bank(4, 2, 3)[0]}, "the shape of a ConvTranspose2d"),
                 ("none", {"0.weight": self.bank(4, 2, 3)[0], "0.bias": np.ones(2)}, "the shape of a ConvTranspose2d"),
                 ("none /2", {"0.weight": self.bank(4, 2, 2)[0]}, "say padding:N or valid")]
        for net, tensors, fragment in cases:
            with self.subTest(net, tensors=sorted(tensors)):
                self.gconv_refuses_tensors(fragment, net, tensors)

    def test_modules_that_the_text_names(self):
        a, b = self.conv(2, 1, 3, padding=[2, 1, 2, 1], border="reflect101", activation="relu"), self.conv(2, 2, 2, padding="same_upper")
        self.convert("padding:2x1 reflect pad relu dropout identity, none", {"1.weight": a.weight, "1.bias": a.bias, "5.weight": b.weight, "5.bias": b.bias})
        self.check([a, b], self.random.normal(size=(1, 1, 7, 8)).astype("f4"))
        said = self.convert("padding:2x1 reflect relu, none", {"module.0.weight": a.weight, "module.0.bias": a.bias, "module.1.weight": b.weight, "module.1.bias": b.bias}).stderr
        self.assertIn("they are taken for the order of layers alone", said)
        self.check([a, b], self.random.normal(size=(1, 1, 7, 8)).astype("f4"))

    def test_a_file_of_torch_save(self):
        with zipfile.ZipFile(self.folder / "m.pt", "w") as archive:
            archive.writestr("m/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("m/data/0", bytes(40))
        for words, status in ((("bank", "convert", "m.pt", "--net", "relu", "-o", "n.safetensors"), 2), (("info", "m.pt"), 1),
                              (("-i", "m.pt", "-f", "m.pt", "-o", "n.png"), 2)):
            self.assertIn("m.pt: is a file of torch.save(), which has to be run to be read: write the weights with safetensors, python3 -c", self.gconv(*words, status=status).stderr)

    def test_models_of_others(self):
        """The message says what a file is, and has the command that makes ONNX of it."""
        self.photo("p.png")
        members = {"script.pt": ("m/data.pkl", "m/code/__torch__.py"), "m.pt2": ("archive_format", "models/model.json"), "m.keras": ("config.json", "model.weights.h5")}
        for name, parts in members.items():
            with zipfile.ZipFile(self.folder / name, "w") as archive:
                for part in parts:
                    archive.writestr(part, b"x")
        for name, contents in {"m.tflite": b"\x1c\0\0\0TFL3" + bytes(50), "m.h5": b"\x89HDF\r\n\x1a\n" + bytes(50), "m.mlmodel": b"\x08\x04\x12\x40abc" + bytes(20), "m.engine": b"ftrt" + bytes(30)}.items():
            (self.folder / name).write_bytes(contents)
        (self.folder / "m.mlpackage").mkdir()
        for name, words in (("script.pt", "torch.onnx.export(torch.jit.load('script.pt').eval()"), ("m.pt2", "torch.onnx.export(torch.export.load('m.pt2'), f='model.onnx', dynamo=True)"),
                            ("m.keras", "keras.models.load_model('m.keras').export('model.onnx', format='onnx')"), ("m.h5", "keras.models.load_model('m.h5')"),
                            ("m.tflite", "python3 -m tf2onnx.convert --tflite m.tflite --output model.onnx"), ("m.mlmodel", "Core ML"), ("m.mlpackage", "Core ML"), ("m.engine", "TensorRT")):
            with self.subTest(name):
                self.assertIn(words, self.gconv("p.png", "-f", name, "-o", "y.png", status=(1, 2)).stderr)
        (self.folder / "k.engine").write_text("1 2 1\n2 4 2\n1 2 1\n")  # a filter is one, whatever it is called
        self.gconv("p.png", "-f", "k.engine", "-o", "y.png")

    def gconv_refuses_tensors(self, fragment, net, tensors):
        save_tensors(self.folder / "state.safetensors", tensors)
        self.gconv_refuses(fragment, net)

    def gconv_refuses(self, fragment, net):
        result = self.gconv("bank", "convert", "state.safetensors", "--net", net, "-o", "net.safetensors", status=(1, 2))
        self.assertIn(fragment, result.stderr)
        self.assertEqual(self.files(), ["state.safetensors"])

    def test_a_network_is_written_again_without_what_is_of_a_checkpoint(self):
        self.save("a.safetensors", [self.conv(2, 1, 3, strides=2, slope=0.5)], 1, future=["kept"])
        said = self.gconv("bank", "convert", "a.safetensors", "-o", "b.safetensors").stderr
        for fragment in ("layer 1: 1 key is unknown and changes nothing: 'strides'", "layer 1: its 'slope' changes nothing", "1 key is unknown and changes nothing: 'future'"):
            self.assertIn(fragment, said)
        tensors, metadata = load_tensors(self.folder / "b.safetensors")
        self.assertEqual(sorted(tensors), ["l0.bias", "l0.weight"])
        self.assertIn("kept", metadata["gconv"])


if __name__ == "__main__":
    unittest.main()
