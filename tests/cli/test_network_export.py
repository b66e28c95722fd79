# SPDX-License-Identifier: MIT
"""gconv bank convert NETWORK -o n.onnx: what gconv makes of the model, and ONNX Runtime where it is installed, is what the
network makes, and the model becomes the same network again."""
import json
import unittest

import numpy as np
from network_helper import Layer, NetworkTest, load_tensors

try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = None


class Export(NetworkTest):
    def run_onnx(self, name, x):
        """What ONNX Runtime makes of it, or None."""
        if not onnx:
            return None
        onnx.checker.check_model(onnx.load(self.folder / name), full_check=True)
        session = onnxruntime.InferenceSession(self.folder / name)
        given = session.get_inputs()[0]
        return session.run(None, {given.name: x.reshape(len(x), -1) if len(given.shape) == 2 else x})[0]

    def check(self, layers, channels, height=0, width=0, same=True, **keys):
        """`same`: the model is read as the same layers again."""
        self.save("n.safetensors", layers, channels, height, width, **keys)
        self.gconv("bank", "convert", "n.safetensors", "-o", "n.onnx")
        x = self.random.uniform(size=(2, channels, height or 19, width or 14)).astype("f4")
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "n.safetensors", "-o", "y.npy", "-a", "direct")
        self.gconv("-i", "x.npy", "-f", "n.onnx", "-o", "z.npy", "-a", "direct")
        expected, got, runtime = self.load("y.npy"), self.load("z.npy"), self.run_onnx("n.onnx", x)
        self.assertGreater(abs(expected).max(), 0.01)
        for result in [got] if runtime is None else [got, runtime]:
            np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=0, atol=1e-6 * abs(expected).max())
        if same:
            np.testing.assert_array_equal(got, expected)
            self.gconv("bank", "convert", "n.onnx", "-o", "m.safetensors")
            (tensors, about), (again, noted) = load_tensors(self.folder / "n.safetensors"), load_tensors(self.folder / "m.safetensors")
            for name, tensor in tensors.items():
                np.testing.assert_array_equal(again[name], tensor)
            about, noted = json.loads(about["gconv"]), json.loads(noted["gconv"])
            for key in ("classes", "mean", "std", "label"):
                np.testing.assert_array_equal(noted.get(key), about.get(key) if key in ("classes", "label") or key not in about
                                              else np.broadcast_to(np.float32(about[key]), channels))
            self.assertEqual([layer["kind"] for layer in noted["layers"]], [layer["kind"] for layer in about["layers"]])

    def test_images(self):
        relu = self.conv(8, 3, 5, activation="relu")
        self.check([relu, self.conv(3, 8, 3)], 3)
        self.check([self.conv(6, 3, 3, activation="tanh"), self.conv(3, 6, 3), Layer(kind="residual")], 3, mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7])
        self.check([relu, self.conv(3, 8, 1), Layer(kind="residual")], 3, mean=[0.25], std=[0.5])

    def test_classes(self):
        first = self.conv(8, 3, 5, activation="leaky", slope=0.125, stride=[2, 2])
        self.check([first, Layer(kind="mean"), self.conv(4, 8, 1, activation="softmax")], 3, classes=list("abcd"))
        self.check([first, Layer(kind="mean")], 3)
        valid = self.conv(8, 3, 3, padding="valid", activation="relu")
        self.check([valid, self.conv(10, 8, 14, 10, padding="valid", activation="sigmoid")], 3, 16, 12)

    def test_tables(self):
        layers = [self.conv(8, 5, 1, activation="tanh"), self.conv(5, 8, 1), Layer(kind="residual")]
        self.check(layers, 5, 1, 1, mean=[1, 2, 3, 4, 5], std=[2, 2, 2, 1, 1], label="kind")
        if onnx:
            shape = [d.dim_value for d in onnx.load(self.folder / "n.onnx").graph.input[0].type.tensor_type.shape.dim]
            self.assertEqual(shape, [0, 5])  # rows of a table

    def test_padding(self):
        for padding in ("same", "valid", "full", "same_upper", "same_lower", [1, 2, 3, 0]):
            for flip in (False, True):
                self.check([self.conv(4, 3, 4, 3, padding=padding, flip=flip)], 3, same=False)
        for padding in ("same", "full", [1, 2, 3, 0]):
            self.check([self.conv(6, 3, 4, 2, padding=padding, stride=[2, 3], dilation=[2, 1]), self.conv(4, 3, 3, groups=2)], 3, same=False)
        self.check([self.conv(4, 3, 4, 3, padding="same_upper", stride=[2, 3])], 3, same=False)
        for padding in ("same_upper", "same_lower"):
            self.check([self.conv(4, 3, 4, 3, padding=padding, stride=[2, 3], dilation=[2, 2])], 3, 17, 12, same=False)

    def test_borders(self):
        for border, value in (("constant", 0.5), ("replicate", 0), ("reflect101", 0), ("wrap", 0)):
            keys = {"border": border, **({"border_value": value} if value else {})}
            self.check([self.conv(4, 3, 4, 3, stride=[2, 1], **keys), self.conv(2, 4, 3)], 3, same=False)

    def test_each_channel_and_slopes(self):
        self.check([self.conv(2, 1, 4, 3, flip=True, activation="tanh")], 3, same=False)
        self.check([self.conv(2, 3, 3, activation="sigmoid", slope=0.5)], 3, same=False)

    def test_refused(self):
        def refuse(text, layers, *words, **keys):
            self.save("n.safetensors", layers, 3, **keys)
            error = self.gconv("bank", "convert", "n.safetensors", "-o", "r.onnx", *words, status=2).stderr
            self.assertIn(text, error)
            self.assertFalse((self.folder / "r.onnx").exists())

        refuse("layer 1: ONNX has no node that pads by the border symmetric", [self.conv(3, 3, 3, border="symmetric")])
        refuse("dilated filters", [self.conv(3, 3, 3, padding="same_lower", stride=[2, 2], dilation=[2, 2])])
        refuse("--format safetensors", [self.conv(3, 3, 3)], "--format", "safetensors")
        self.gconv("bank", "convert", "sobel_x", "-o", "r.onnx", status=2)

    def test_means_of_levels_stay_a_graph(self):
        """A model that subtracts 123.68 takes samples up to 255: it is no chain with a mean."""
        self.save("n.safetensors", [self.conv(3, 3, 3)], 3, mean=[100])
        self.gconv("bank", "convert", "n.safetensors", "-o", "n.onnx")
        self.assertIn("a graph of nodes", self.gconv("info", "n.onnx").stdout)


if __name__ == "__main__":
    unittest.main()
