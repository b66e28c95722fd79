# SPDX-License-Identifier: MIT
"""gconv bank convert: ONNX models and PyTorch's weights as networks, against numpy in float64."""
import unittest
import zipfile

import numpy as np
from network_helper import Layer, NetworkTest, apply, load_tensors, save_tensors
from onnx_helper import model, node


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
                self.convert(model(nodes, tensors, ("n", 2, "h", "w")))
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
        self.usage_error(fragment, "bank", "convert", "model.onnx", "-o", "net.safetensors")

    def test_what_is_no_chain(self):
        conv = node("Conv", ["x", "w"], "a", "first")
        self.refuse("node 'pool' (MaxPool) is none of what a network here has", [conv, node("MaxPool", ["a"], "y", "pool")])
        self.refuse("node 'first' (Conv) is none of", [node("Conv", ["x", "w"], "y", "first", "com.mine")])
        self.refuse("node 'b' (Conv) does not take what the node before it makes", [conv, node("Conv", ["x", "w"], "b")])
        self.refuse("adds what neither is constant nor the input", [conv, node("Relu", ["a"], "b"), node("Add", ["b", "a"], "y")])
        self.refuse("several inputs", [conv], inputs=[("z", ("n", 2))])
        self.refuse("do not lead from its input to its output", [conv], output="z")
        self.refuse("is an activation that does not follow", [node("Relu", ["x"], "y")])
        self.refuse("follows no Conv or Gemm", [node("BatchNormalization", ["x", "w", "w", "w", "w"], "y")])
        self.refuse("takes its weights from what other nodes compute", [node("Conv", ["x", "z"], "y")])
        self.refuse("is no mean over height and width", [conv, node("ReduceMean", ["a"], "y", axes=[1])])
        self.refuse("makes no list of features", [conv, node("Reshape", ["a", "s"], "y")], {"s": np.array([0, 2, 2, -1])})
        self.refuse("takes 7 numbers, and gets 2 channels", [node("Flatten", ["x"], "a"), node("MatMul", ["a", "v"], "y")], {"v": np.zeros((7, 2), "f4")})
        self.refuse("normalises along axis 2", [conv, node("Softmax", ["a"], "y", axis=2)])
        self.refuse("3 dimensions", [conv], shape=("n", 2, 5))
        self.refuse("turns its input or scales", [node("Flatten", ["x"], "a"), node("Gemm", ["a", "v"], "y", alpha=0.5)], {"v": np.zeros((2, 2), "f4")})

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
            self.assertIn(self.gconv_any("bank", "convert", "model.onnx", "-o", "net.safetensors"), (1, 2), end)

    def gconv_any(self, *words):
        for status in (1, 2):
            try:
                self.gconv(*words, status=status)
                return status
            except AssertionError:
                continue
        return 0

    def test_one_node_is_a_bank(self):
        self.convert(model([node("Conv", ["x", "w"], "a", "first"), node("MaxPool", ["a"], "y")], {"w": self.bank(2, 2, 3)[0]}, ("n", 2, "h", "w")), status=2)
        self.gconv("bank", "convert", "model.onnx:first", "-o", "bank.safetensors")
        self.assertEqual(sorted(load_tensors(self.folder / "bank.safetensors")[0]), ["first.weight"])


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
        self.convert("relu /2 padding:1, leaky:0.25 groups:2 valid, 2x3 tanh, softmax", tensors)
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
        result = self.convert("relu, none", {"0.weight": first.weight, "2.weight": dense[0][:, :, 0, 0]})
        self.assertIn("is taken to see 4 x 4 pixels of 2 channels", result.stderr)

    def test_dense_layers_over_an_image(self):
        (w0, b0), (w1, b1) = self.bank(6, 20, 1), self.bank(3, 6, 1)
        self.convert("4x5 sigmoid:2, none", {"0.weight": w0[:, :, 0, 0], "0.bias": b0, "2.weight": w1[:, :, 0, 0], "2.bias": b1})
        self.check([Layer(w0.reshape(6, 1, 4, 5), b0, padding="valid", activation="sigmoid", slope=2), Layer(w1, b1)], self.random.normal(size=(2, 1, 4, 5)).astype("f4"))

    def test_refusals(self):
        w = {"0.weight": self.bank(2, 1, 3)[0], "1.weight": self.bank(3, 2, 1)[0]}
        save_tensors(self.folder / "state.safetensors", w)
        for net, fragment in (("relu", "the next weights are '1.weight'"), ("relu, relu, relu", "item 3: the file has weights for no more layers"),
                              ("relu, gelu", "item 2: 'gelu' is none of"), ("relu /0, none", "'/0' is none of"), ("relu, 3x3", "is no dense layer"),
                              ("leaky:x, none", "'leaky:x' is none of"), ("", "the next weights are '1.weight'"), ("relu, mean, none, residual", "adds the 1 channels of the input to 3")):
            self.gconv_refuses(fragment, net)
        save_tensors(self.folder / "state.safetensors", {"a.0.weight": w["0.weight"], "b.0.weight": w["1.weight"]})
        self.gconv_refuses("tell no order of layers", "relu, relu")
        save_tensors(self.folder / "state.safetensors", {"0.weight": w["0.weight"], "1.weight": np.zeros((3, 7), "f4")})
        self.gconv_refuses("is a dense layer of 7 inputs behind 2 channels", "relu, relu")
        save_tensors(self.folder / "state.safetensors", {"0.weight": w["0.weight"], "1.weight": np.zeros(2, "f4")})
        self.gconv_refuses("no 'bias' beside it as a BatchNorm2d has", "relu")

    def test_a_file_of_torch_save(self):
        with zipfile.ZipFile(self.folder / "m.pt", "w") as archive:
            archive.writestr("m/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("m/data/0", bytes(40))
        for words, status in ((("bank", "convert", "m.pt", "--net", "relu", "-o", "n.safetensors"), 2), (("info", "m.pt"), 1),
                              (("-i", "m.pt", "-f", "m.pt", "-o", "n.png"), 2)):
            self.assertIn("m.pt: is a file of torch.save(), which has to be run to be read: write the weights with safetensors", self.gconv(*words, status=status).stderr)

    def gconv_refuses(self, fragment, net):
        words = ("bank", "convert", "state.safetensors", "--net", net, "-o", "net.safetensors")
        try:
            result = self.gconv(*words, status=2)
        except AssertionError:
            result = self.gconv(*words, status=1)
        self.assertIn(fragment, result.stderr)
        self.assertEqual(self.files(), ["state.safetensors"])

    def test_a_network_is_written_again_without_what_is_of_a_checkpoint(self):
        self.save("a.safetensors", [self.conv(2, 1, 3)], 1, future=["kept"])
        self.gconv("bank", "convert", "a.safetensors", "-o", "b.safetensors")
        tensors, metadata = load_tensors(self.folder / "b.safetensors")
        self.assertEqual(sorted(tensors), ["l0.bias", "l0.weight"])
        self.assertIn("kept", metadata["gconv"])


if __name__ == "__main__":
    unittest.main()
