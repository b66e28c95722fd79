# SPDX-License-Identifier: MIT
"""Borders of layers: what lies outside the input of each layer, as padding_mode of PyTorch says it, against numpy.pad() in
float64."""
import json
import unittest

import numpy as np
from bank_helper import BankTest, correlate
from network_helper import BORDERS, Layer, NetworkTest, apply, load_tensors, save_tensors
from onnx_helper import model, node
from PIL import Image


class BorderTest(NetworkTest):
    def check(self, layers, x, *options):
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--verify", *options)
        got, expected = self.load("y.npy"), np.stack([apply(layers, one) for one in x])
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=0, atol=3e-5)

    def x(self, *shape):
        return self.random.normal(size=shape).astype("f4")


class Files(BorderTest):
    """Files of networks say the border of each layer."""

    def test_each_border_in_a_chain(self):
        for border in BORDERS:
            for shape in (3, 11, 9), (3, 2, 1):  # the second is smaller than what is padded
                for size in 3, 4:
                    with self.subTest(border, shape=shape, size=size):
                        keys = {"border": border, **({"border_value": 0.75} if border == "constant" else {})}
                        layers = self.save("net.safetensors", [
                            self.conv(4, 3, size, activation="relu", **keys), self.conv(6, 2, 3, groups=2, dilation=[2, 3], **keys),
                            self.conv(5, 6, 5, 2, stride=[2, 1], padding=[4, 1, 0, 3], **keys), self.conv(2, 5, 3)], 3)
                        for algorithm in "auto", "direct", "gemm", "reference":
                            self.check(layers, self.x(2, *shape), "-a", algorithm)

    def test_every_padding(self):
        for padding in "same", "valid", "full", "same_upper", "same_lower", [0, 2, 5, 1]:
            with self.subTest(padding):
                layers = self.save("net.safetensors", [self.conv(3, 2, 3, 5, padding=padding, stride=2, border="reflect101")], 2)
                self.check(layers, self.x(1, 2, 10, 13))

    def test_a_residual_adds_the_input_and_not_what_is_padded(self):
        layers = self.save("net.safetensors", [self.conv(3, 2, 3, border="wrap"), self.conv(2, 3, 3, border="replicate"), Layer(kind="residual")], 2)
        self.check(layers, self.x(2, 2, 9, 7))

    def test_a_file_is_written_as_it_was_read(self):
        self.save("net.safetensors", [self.conv(2, 2, 3, border="constant", border_value=-0.5), self.conv(2, 2, 3, border="wrap"), self.conv(2, 2, 3)], 2)
        self.gconv("bank", "convert", "net.safetensors", "-o", "again.safetensors")
        layers = json.loads(load_tensors(self.folder / "again.safetensors")[1]["gconv"])["layers"]
        self.assertEqual([(layer.get("border"), layer.get("border_value")) for layer in layers], [("constant", -0.5), ("wrap", None), (None, None)])
        text = self.gconv("info", "net.safetensors").stdout
        self.assertRegex(text, r"constant:-0\.5\n.* wrap\n")

    def test_explain_names_the_border(self):
        self.save("net.safetensors", [self.conv(2, 2, 5, border="constant", border_value=-0.5)], 2)
        np.save(self.folder / "x.npy", self.x(1, 2, 8, 8))
        said = self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--explain").stderr
        self.assertIn("layer 1: 1 x 2 x 8 x 8 -> 1 x 2 x 8 x 8", said)
        self.assertIn("border constant:-0.5: the input is padded by 2 above, 2 below, 2 before and 2 behind", said)

    def test_files_that_lie(self):
        for keys, fragment in (({"border": "mirror"}, "its border is 'mirror', which this gconv"), ({"border": 3}, "layer 1: its 'border'"),
                               ({"border": "constant", "border_value": "x"}, "its 'border_value' is no finite number")):
            self.save("net.safetensors", [self.conv(2, 2, 3, **keys)], 2)
            self.assertIn(fragment, self.gconv("info", "net.safetensors", status=1).stderr)

    def test_border_of_the_command_line_is_refused(self):
        self.save("net.safetensors", [self.conv(3, 3, 3)], 3)
        self.photo("a.png", 8, 8)
        self.usage_error("--border: net.safetensors says for each layer what lies outside", "-i", "a.png", "-f", "net.safetensors", "--border",
                         "wrap", "-o", "y.png")
        self.gconv("-i", "a.png", "-f", "average", "--border", "wrap", "--then", "-f", "net.safetensors", "-o", "y.png")


class Imports(BorderTest):
    """padding_mode of PyTorch's Conv2d, which its ONNX models write as a Pad."""

    def test_pads_of_a_model(self):
        first, second = self.conv(4, 2, 3), self.conv(3, 4, 3, 5)
        for mode, border in ("reflect", "reflect101"), ("edge", "replicate"), ("wrap", "wrap"), ("constant", "constant"):
            for inputs in {"p"}, {"p", "v"}, set():
                value = 0.5 if "v" in inputs and mode == "constant" else 0
                if mode == "wrap" and not inputs:
                    continue
                with self.subTest(mode, inputs=inputs):
                    given = {"pads": [0, 0, 1, 2, 0, 0, 1, 2], **({"value": 0.25} if mode == "constant" else {})} if not inputs else {}
                    value = 0.25 if not inputs else value
                    nodes = [node("Pad", ["x", *sorted(inputs)], "a", mode=mode, **given), node("Conv", ["a", "w0", "b0"], "b"), node("Relu", ["b"], "c"),
                             node("Conv", ["c", "w1", "b1"], "y", pads=[1, 1, 1, 1])]
                    tensors = {"w0": first.weight, "b0": first.bias, "w1": second.weight, "b1": second.bias,
                               "p": np.array([0, 0, 1, 2, 0, 0, 1, 2]), "v": np.array([0.5], "f4")}
                    (self.folder / "model.onnx").write_bytes(model(nodes, tensors, ("n", 2, "h", "w"), opset=19 if mode == "wrap" else 17 if inputs else 10))
                    self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors")
                    first.keys = {"kind": "conv", "padding": [1, 2, 1, 2], "border": border, "border_value": value, "activation": "relu"}
                    second.keys = {"kind": "conv", "padding": [1, 1, 1, 1]}
                    self.check([first, second], self.x(2, 2, 8, 9))

    def test_pads_that_are_refused(self):
        w = {"w": self.bank(2, 2, 3)[0], "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "c": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "n": np.array([0, 0, -1, 0, 0, 0, 0, 0])}
        conv = node("Conv", ["a", "w"], "y")
        for nodes, fragment in (([node("Pad", ["x", "p"], "a", mode="mirror"), conv], "has the mode 'mirror', which is not computed here"),
                                ([node("Pad", ["x", "p"], "a", mode="wrap"), conv], "wraps, which this operator does from opset 19 on"),
                                ([node("Pad", ["x", "c"], "a"), conv], "does not pad height and width"),
                                ([node("Pad", ["x", "n"], "a"), conv], "does not pad height and width"),
                                ([node("Pad", ["x", "p"], "a", pads=[0, 0, 1, 0, 0, 0, 0, 0]), conv], "an attribute 'pads', which gconv does not know"),
                                ([node("Pad", ["x", "p"], "a"), node("Conv", ["a", "w"], "y", pads=[1, 1, 1, 1])], "has pads, and so has the Pad before it"),
                                ([node("Pad", ["x", "p"], "a"), node("Pad", ["a", "p"], "b"), conv], "only a Conv can follow a Pad"),
                                ([node("Pad", ["x", "p"], "a"), node("Relu", ["a"], "y")], "only a Conv can follow a Pad"),
                                ([node("Conv", ["x", "w"], "a"), node("Pad", ["a", "p"], "y")], "do not lead from its input to its output")):
            (self.folder / "model.onnx").write_bytes(model(nodes, w, ("n", 2, "h", "w")))
            self.assertIn(fragment, self.gconv("bank", "convert", "model.onnx", "-o", "net.safetensors", status=(1, 2)).stderr)

    def test_weights_with_a_text(self):
        layers = [self.conv(4, 2, 3, border="reflect101"), self.conv(4, 4, 5, border="wrap"), self.conv(2, 4, 3, border="replicate")]
        save_tensors(self.folder / "state.safetensors", {f"{i}.{part}": getattr(layer, part) for i, layer in enumerate(layers) for part in ("weight", "bias")})
        self.gconv("bank", "convert", "state.safetensors", "--net", "reflect, circular, replicate", "-o", "net.safetensors")
        self.check(layers, self.x(2, 2, 8, 9))


class Banks(BankTest):
    def test_border_option(self):
        second = np.random.default_rng(6).normal(size=(4, 5, 4, 4)).astype("f4")
        self.write("second.txt", second, np.ones(4), [None] * 4)
        for border, mode in (("replicate", {"mode": "edge"}), ("symmetric", {"mode": "symmetric"}), ("reflect101", {"mode": "reflect"}),
                             ("wrap", {"mode": "wrap"}), ("constant:0.25", {"constant_values": 0.25})):
            with self.subTest(border):
                self.gconv("-i", "a.png", "-f", "bank.txt", "--padding", "1", "--then", "-f", "second.txt", "--padding", "2", "--border",
                           border, "-o", "y.npy", "--verify")
                padded = np.pad(self.planes, ((0, 0), (1, 1), (1, 1)), **mode)
                padded = correlate(padded, self.w, self.b, 1, 0)
                padded = np.pad(padded, ((0, 0), (2, 2), (2, 2)), **mode)
                np.testing.assert_allclose(self.load("y.npy")[0], correlate(padded, second, np.ones(4), 1, 0), rtol=0, atol=1e-4)

    def test_bands(self):
        """The same bits by bands, where they can be; a wrapped border needs the whole image."""
        random = np.random.default_rng(6)
        Image.fromarray(random.integers(0, 256, (1200, 960, 3)).astype("u1")).save(self.folder / "large.png")
        self.write("second.txt", random.normal(size=(4, 5, 5, 5)).astype("f4"), np.ones(4), [None] * 4)
        for border in "replicate", "symmetric", "reflect101", "constant:0.5":
            for name, extra in ("whole.npy", []), ("bands.npy", ["--memory", "32M"]):
                said = self.gconv("-i", "large.png", "-f", "bank.txt", "--then", "-f", "second.txt", "--stride", "2", "--border", border, "-a",
                                  "direct", "-o", name, "--explain", *extra).stderr
                self.assertEqual("by rows" in said, name == "bands.npy", said)
            self.assertEqual((self.folder / "whole.npy").read_bytes(), (self.folder / "bands.npy").read_bytes(), border)
        refused = self.gconv("-i", "large.png", "-f", "bank.txt", "--border", "wrap", "-o", "y.npy", "--memory", "32M", status=1).stderr
        self.assertRegex(refused, r"large.png: takes about \d+ MB of memory, and --memory allows 32 MB: raise it")


if __name__ == "__main__":
    unittest.main()
