# SPDX-License-Identifier: MIT
"""gconv bank convert NETWORK -o n.onnx: what gconv makes of the model, and ONNX Runtime where it is installed, is what the
network makes, and the model becomes the same network again."""
import json
import unittest

import numpy as np
from network_helper import Layer, NetworkTest, load_tensors
from PIL import Image

try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = None


class Models(NetworkTest):
    def run_onnx(self, name, x):
        """What ONNX Runtime makes of it, or None."""
        if not onnx:
            return None
        onnx.checker.check_model(onnx.load(self.folder / name), full_check=True)
        session = onnxruntime.InferenceSession(self.folder / name)
        given = session.get_inputs()[0]
        return session.run(None, {given.name: x.reshape(len(x), -1) if len(given.shape) == 2 else x})[0]


class Export(Models):
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
        (self.folder / "a.ppm").write_bytes(b"P6 14 19 255\n" + self.random.bytes(14 * 19 * 3))
        said = [self.gconv("classify", model, "-i", "a.ppm").stdout for model in ("n.safetensors", "n.onnx")]
        self.assertEqual(*said)
        self.assertRegex(self.gconv("info", "n.onnx").stdout, r"3 layers.*\n.*\n.*\n +1  conv .*\n +2  mean .*\n +3  dense ")
        self.check([first, Layer(kind="mean")], 3)
        valid = self.conv(8, 3, 3, padding="valid", activation="relu")
        self.check([valid, self.conv(10, 8, 14, 10, padding="valid", activation="sigmoid")], 3, 16, 12)

    def test_tables(self):
        layers = [self.conv(8, 5, 1, activation="tanh"), self.conv(5, 8, 1), Layer(kind="residual")]
        self.check(layers, 5, 1, 1, mean=[1, 2, 3, 4, 5], std=[2, 2, 2, 1, 1], label="kind")
        if onnx:
            shape = [d.dim_value for d in onnx.load(self.folder / "n.onnx").graph.input[0].type.tensor_type.shape.dim]
            self.assertEqual(shape, [0, 5])  # rows of a table

    def test_long_notes(self):
        """What gconv notes in a model is read again, however long it is."""
        columns = {"names": [f"column {i} " + "x" * 80 for i in range(900)], "means": [2.0] * 900}
        self.check([self.conv(3, 900, 1, activation="softmax")], 900, 1, 1, classes=list("abc"), columns=columns)
        (self.folder / "gap.csv").write_text("\n".join(",".join(f"{(row + i) % 7 or ''}" for i in range(900)) for row in range(3)) + "\n")
        said = [self.gconv("classify", model, "-i", "gap.csv", "--missing", "mean").stdout for model in ("n.safetensors", "n.onnx")]
        self.assertEqual(*said)

    def test_dense_layers_of_whole_images(self):
        """Their input is an image, whose rows and columns the model says, not a row of its channels."""
        self.check([self.conv(10, 3, 8, 6, padding="valid", activation="softmax")], 3, 8, 6, mean=[0.1, 0.2, 0.3], std=[0.5])
        self.check([self.conv(5, 3, 8, padding="valid", activation="tanh"), self.conv(2, 5, 1)], 3, 8, 8)

    def test_rows_of_other_kinds(self):
        """Rows of a table go through kinds that run as graphs, and ONNX Runtime takes them as rows."""
        norm = Layer(self.random.uniform(0.1, 1, (5, 3, 1, 1)).astype("f4"), np.float32([1, 2, 3, 4, 5]), kind="batchnorm", activation="tanh")
        slopes, dense, x = Layer(np.float32([0.1, 0.2, 0.3, 0.4, 0.5]).reshape(5, 1, 1, 1), kind="prelu"), self.conv(5, 5, 1), self.random.normal(size=(2, 5)).astype("f4")
        np.save(self.folder / "x.npy", x.reshape(2, 5, 1, 1))
        for layers in ([norm, dense], [dense, norm, slopes, Layer(kind="residual")], [dense, slopes, dense, Layer(kind="add", **{"from": 0})],
                       [dense, slopes, Layer(kind="concat"), self.conv(2, 10, 1)]):
            self.save("n.safetensors", layers, 5, 1, 1, mean=[1, 2, 3, 4, 5], std=[2, 2, 2, 1, 1])
            self.gconv("-i", "x.npy", "-f", "n.safetensors", "-o", "y.npy")
            at = first = (x.astype("f8") - [1, 2, 3, 4, 5]) / [2, 2, 2, 1, 1]
            outputs = []
            for layer in layers:
                kind, weight = layer.keys["kind"], None if layer.weight is None else layer.weight.reshape(len(layer.weight), -1).astype("f8")
                at = (at @ weight.T + layer.bias if kind == "conv" else np.where(at < 0, at * weight[:, 0], at) if kind == "prelu" else
                      np.tanh((at - weight[:, 1]) / np.sqrt(weight[:, 2] + 1e-5) * weight[:, 0] + layer.bias) if kind == "batchnorm" else
                      at + first if kind == "residual" else at + outputs[0] if kind == "add" else np.concatenate([at, first], 1))
                outputs.append(at)
            y = self.load("y.npy").reshape(at.shape)
            np.testing.assert_allclose(y, at, rtol=0, atol=2e-6 * abs(at).max())
            self.gconv("bank", "convert", "n.safetensors", "-o", "n.onnx")
            if onnx:
                self.assertEqual(len(onnxruntime.InferenceSession(self.folder / "n.onnx").get_inputs()[0].shape), 2)
                np.testing.assert_allclose(self.run_onnx("n.onnx", x), at, rtol=0, atol=2e-6 * abs(at).max())

    def test_white_and_order_are_kept_and_told(self):
        Image.fromarray(self.random.integers(0, 256, (9, 7, 3), "u1")).save(self.folder / "x.png")
        for layers in ([self.conv(3, 3, 3)], [self.conv(12, 3, 3), Layer(kind="shuffle", factor=2)]):
            for mean in (0.5, 103):
                self.save("n.safetensors", layers, 3, white=255, order="bgr", mean=[mean])
                self.assertIn("from 0, black, to 255, white, as float32, in the order blue, green, red",
                              self.gconv("bank", "convert", "n.safetensors", "-o", "n.onnx").stderr)
                for model, made in (("n.safetensors", "y.npy"), ("n.onnx", "z.npy")):
                    self.gconv("-i", "x.png", "-f", model, "-o", made)
                self.assertGreater(abs(self.load("y.npy")).max(), 20)
                np.testing.assert_array_equal(self.load("z.npy"), self.load("y.npy"))

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


class Trained(Models):
    """Kinds that run as graphs: the trainer, `gconv -f`, the ONNX model in gconv and in ONNX Runtime agree."""

    def learn(self, net, side=24, scale=1, channels=1, *words):
        mode = {1: "L", 3: "RGB"}[channels]
        for name in ("in", "out"):
            (self.folder / name).mkdir(exist_ok=True)
        for i in range(3):
            large = self.random.integers(0, 256, (side * scale // 4, side * scale // 4, channels), "u1").repeat(4, 0).repeat(4, 1)
            small = large[::scale, ::scale]
            for name, pixels in (("in", small), ("out", large)):
                Image.fromarray(pixels.squeeze() if channels == 1 else pixels, mode).save(self.folder / name / f"{i}.png")
        result = self.gconv("train", "-i", "in", "-t", "out", "--validate", "in:out", "--net", net, "-o", "n.safetensors", "--epochs", "2", "--batch", "2",
                            "--json", *words)
        return min(line["validation_loss"] for line in map(json.loads, result.stdout.splitlines()) if "validation_loss" in line)

    def agree(self, net, side=24, scale=1, channels=1):
        told = self.learn(net, side, scale, channels)
        loss, self.random = 0, np.random.default_rng(5)
        self.gconv("bank", "convert", "n.safetensors", "-o", "n.onnx")
        for i in range(3):
            for source, made in (("n.safetensors", "y.npy"), ("n.onnx", "z.npy")):
                self.gconv("-i", f"in/{i}.png", "-f", source, "-o", made)
            x = np.asarray(Image.open(self.folder / f"in/{i}.png"), "f4").reshape(side, side, channels).transpose(2, 0, 1)[None] / np.float32(255)
            wanted = np.asarray(Image.open(self.folder / f"out/{i}.png"), "f8").reshape(side * scale, side * scale, channels).transpose(2, 0, 1) / 255
            y, z, runtime = self.load("y.npy"), self.load("z.npy"), self.run_onnx("n.onnx", x)
            self.assertEqual(y.reshape(-1).shape, wanted.reshape(-1).shape)
            loss += ((y.reshape(wanted.shape) - wanted) ** 2).mean() / 3
            np.testing.assert_array_equal(y, z)
            if runtime is not None:
                np.testing.assert_allclose(y.reshape(runtime.shape), runtime, rtol=0, atol=1e-6 * max(1, abs(runtime).max()))
        self.assertAlmostEqual(told / loss, 1, delta=1e-4)

    def test_super_resolution(self):
        self.agree("conv 8 5x5 tanh, conv 4 3x3, shuffle 2", scale=2)
        self.agree("conv 6 3x3, prelu, conv 27 3x3, shuffle 3", side=12, scale=3, channels=3)
        self.agree("conv 6 3x3, prelu, upconv 1 9x9/4", side=12, scale=4)
        self.agree("conv 6 3x3 relu, upconv 3 1x2/2 tanh", side=12, scale=2, channels=3)

    def test_skips(self):
        self.agree("conv 6 3x3 relu as a, maxpool 2x2, conv 8 3x3 relu as b, avgpool 2x2, conv 8 3x3, prelu, upconv 8 2x2/2 relu, concat b, "
                   "conv 8 3x3 relu, upconv 6 4x4/2, concat a, conv 1 3x3")
        self.agree("2*(conv 3 3x3 as a, conv 3 3x3 relu, add a), add, concat, conv 3 1x1", channels=3)
        self.agree("conv 4 3x3 as a, maxpool 3x3/1, upconv 4 3x3, conv 4 2x2 valid, conv 36 1x1, shuffle 3, avgpool 3x3/3, conv 1 1x1, upconv 1 24x24/24, "
                   "maxpool 21x21/21, conv 1 3x3", side=24)

    def test_batch_normalisation(self):
        self.agree("conv 6 3x3, batchnorm relu as a, maxpool 2x2, conv 8 3x3, batchnorm leaky=0.2, upconv 6 2x2/2, batchnorm tanh, add a, conv 1 3x3")
        self.agree("batchnorm, conv 8 3x3, batchnorm, prelu, conv 12 3x3, shuffle 2", scale=2, channels=3)

    def test_one_channel_takes_colours(self):
        self.learn("conv 8 5x5 tanh, conv 4 3x3, shuffle 2", 24, 2)
        pixels = self.random.integers(0, 256, (10, 14, 3), "u1")
        Image.fromarray(pixels, "RGB").save(self.folder / "rgb.png")
        self.gconv("-i", "rgb.png", "-f", "n.safetensors", "-o", "big.png")
        made = np.asarray(Image.open(self.folder / "big.png"))
        self.assertEqual(made.shape, (20, 28, 3))
        for c in range(3):
            Image.fromarray(pixels[:, :, c], "L").save(self.folder / "grey.png")
            self.gconv("-i", "grey.png", "-f", "n.safetensors", "-o", "one.png")
            np.testing.assert_array_equal(made[:, :, c], np.asarray(Image.open(self.folder / "one.png")))

    def test_files_that_are_wrong(self):
        def refuse(text, layers, channels=2):
            self.save("bad.safetensors", layers, channels)
            np.save(self.folder / "x.npy", np.zeros((1, channels, 8, 8), "f4"))
            self.assertIn(text, self.gconv("-i", "x.npy", "-f", "bad.safetensors", "-o", "y.npy", status=(1, 2)).stderr)

        conv, ones = self.conv(2, 2, 3), np.ones((2, 1, 1, 1), "f4")
        refuse("takes the output of layer 2, which does not stand before it", [conv, Layer(kind="concat", **{"from": 1})])
        refuse("shuffle 65536 makes one channel of 4294967296", [conv, Layer(kind="shuffle", factor=65536)])
        refuse("shuffle 2 makes one channel of 4, and gets 2", [conv, Layer(kind="shuffle", factor=2)])
        refuse("it has no 'window'", [conv, Layer(kind="maxpool")])
        refuse("add adds 2 channels to 4", [conv, self.conv(4, 2, 1), Layer(kind="add", **{"from": 0})])
        refuse("prelu has 2 slopes for 4 channels", [self.conv(4, 2, 1), Layer(ones, kind="prelu")])
        refuse("C x 1 x 1 x 1 weights without biases", [conv, Layer(np.ones((2, 3, 1, 1), "f4"), kind="prelu")])
        refuse("C x 1 x 1 x 1 weights without biases", [conv, Layer(ones, np.ones(2, "f4"), kind="prelu")])
        refuse("the weights of batchnorm are C x 3 x 1 x 1", [conv, Layer(ones, kind="batchnorm")])
        refuse("the variance of channel 1 of batchnorm is -1", [conv, Layer(np.float32([[1, 0, 1], [1, 0, -1]]).reshape(2, 3, 1, 1), kind="batchnorm")])
        refuse("upconv takes 3 channels, and gets 2", [conv, Layer(np.ones((2, 3, 2, 2), "f4"), kind="upconv", stride=[2, 2])])
        refuse("layer 2 has weights, but there is no tensor", [conv, Layer(kind="upconv")])

    def test_pairs_that_do_not_fit(self):
        self.learn("conv 4 3x3, shuffle 2", 24, 2)
        Image.fromarray(np.zeros((70, 72), "u1")).save(self.folder / "out/1.png")
        words = ("train", "-i", "in", "-t", "out", "--net", "conv 4 3x3, shuffle 2", "-o", "m.safetensors")
        self.assertIn("N times as many rows and columns, here 2 times as many", self.gconv(*words, status=1).stderr)
        Image.fromarray(np.zeros((48, 48), "u1")).save(self.folder / "out/1.png")
        error = self.gconv("train", "-i", "in", "-t", "out", "--net", "conv 1 3x3", "-o", "m.safetensors", status=2).stderr
        self.assertIn("the network's outputs are 1 x 24 x 24 (channels, height, width), but the targets 1 x 48 x 48", error)

    def test_a_gpu_is_refused_by_name(self):
        self.learn("conv 4 3x3, shuffle 2", 24, 2)
        error = self.gconv("train", "-i", "in", "-t", "out", "--net", "conv 4 3x3, shuffle 2", "-o", "m.safetensors", "-d", "cuda", status=(2, 3)).stderr
        self.assertRegex(error, "shuffle, is trained on the CPU alone|no CUDA|CUDA")


if __name__ == "__main__":
    unittest.main()
