# SPDX-License-Identifier: MIT
"""Networks that are graphs, on a GPU: results of the CPU, for batches, sizes, tiles and padded images."""
import pathlib
import sys
import unittest

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "graph"))
from graph_helper import graph, node  # noqa: E402
from test_devices import SKIPPED, DeviceTest, has_gpu  # noqa: E402
from test_graph_networks import ANY, denoiser, larger, shrinking  # noqa: E402

RANDOM = np.random.default_rng(41)


def weights(*shape):
    return (RANDOM.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def unet():
    """Two levels: pooling, a transposed convolution, joined channels; normalised channels, and slopes of each channel."""
    nodes = [node("Conv", ["x", "w1"], "a", pads=[1, 1, 1, 1]), node("InstanceNormalization", ["a", "scale", "shift"], "b"),
             node("PRelu", ["b", "slope"], "c"), node("MaxPool", ["c"], "d", kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["d", "w2"], "e", pads=[1, 1, 1, 1]), node("Sigmoid", ["e"], "f"), node("Mul", ["e", "f"], "g"),
             node("ConvTranspose", ["g", "w3"], "h", strides=[2, 2]), node("Concat", ["c", "h"], "j", axis=1),
             node("Conv", ["j", "w4"], "y", pads=[1, 1, 1, 1])]
    constants = {"w1": weights(8, 3, 3, 3), "w2": weights(16, 8, 3, 3), "w3": weights(16, 8, 2, 2), "w4": weights(3, 16, 3, 3),
                 "scale": np.linspace(0.5, 2, 8, dtype=np.float32), "shift": np.linspace(-1, 1, 8, dtype=np.float32),
                 "slope": np.linspace(0, 0.5, 8, dtype=np.float32)[:, None, None]}
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants=constants, shapes={"x": ANY})


def classifier():
    nodes = [node("Conv", ["x", "w1"], "a", strides=[2, 2]), node("Relu", ["a"], "b"), node("GlobalAveragePool", ["b"], "c"),
             node("Flatten", ["c"], "d"), node("Gemm", ["d", "w2", "b2"], "e", transB=1), node("Softmax", ["e"], "y")]
    constants = {"w1": weights(32, 3, 3, 3), "w2": weights(10, 32), "b2": weights(10)}
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants=constants, shapes={"x": ANY})


class Graphs(DeviceTest):
    def make(self, model, x, device, *options):
        (self.folder / "m.onnx").write_bytes(model)
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "m.onnx", "-d", device, "-o", f"{device}.npy", *options)
        return np.load(self.folder / f"{device}.npy")

    def compare(self, model, *shape):
        x = RANDOM.normal(size=shape).astype(np.float32)
        wanted = self.make(model, x, "cpu")
        for _ in range(2):
            made = self.make(model, x, "cuda")
            self.assertEqual(made.shape, wanted.shape)
            self.assertLessEqual(np.abs(made - wanted).max(), 1e-5 * np.abs(wanted).max())

    def test_sizes_and_batches(self):
        for name, model in (("denoiser", denoiser()), ("unet", unet()), ("classifier", classifier()), ("larger", larger())):
            for shape in ((1, 3, 16, 16), (3, 3, 34, 52), (1, 3, 130, 258)):
                with self.subTest(model=name, shape=shape):
                    self.compare(model, *shape)

    def test_padded_images(self):
        for joins in (True, False):
            with self.subTest(joins=joins):
                self.compare(shrinking(joins), 2, 3, 18, 21)

    def test_bits(self):
        """Algorithms of the exact family have the bits of the CPU, in bands too."""
        x = RANDOM.normal(size=(1, 3, 61, 70)).astype(np.float32)
        wanted = self.make(denoiser(), x, "cpu", "-a", "direct")
        for algorithm in ("direct", "tiled"):
            np.testing.assert_array_equal(self.make(denoiser(), x, "cuda", "-a", algorithm), wanted)

    def test_bands(self):
        self.photo("p.png", 300, 900)
        (self.folder / "m.onnx").write_bytes(denoiser())
        self.gconv("p.png", "-f", "m.onnx", "-d", "cuda", "-a", "direct", "-o", "whole.png")
        self.gconv("p.png", "-f", "m.onnx", "-d", "cuda", "-a", "direct", "-o", "bands.png", "--memory", "24M")
        np.testing.assert_array_equal(self.pixels("bands.png"), self.pixels("whole.png"))

    def test_kinds_that_no_gpu_computes(self):
        """They are named if a GPU was asked for. If the device is free, a line says why the CPU is taken."""
        nodes = [node("Shape", ["x"], "shape", start=1), node("Mul", ["shape", "many"], "sizes"),
                 node("ConstantOfShape", ["sizes"], "zeros"), node("ReduceSum", ["zeros"], "z", keepdims=0),
                 node("Add", ["x", "z"], "y")]
        model = graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants={"many": np.array([1, 99, 99], np.int64)},
                      shapes={"x": ANY})
        (self.folder / "m.onnx").write_bytes(model)
        np.save(self.folder / "x.npy", np.ones((1, 3, 16, 16), np.float32))
        words = ("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
        self.assertIn("no GPU computes nodes of the kinds ConstantOfShape", self.gconv(*words, "-d", "cuda", status=1).stderr)
        self.assertIn("ConstantOfShape", self.gconv(*words, "-d", "auto", "--verbose").stderr)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
