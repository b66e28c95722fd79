# SPDX-License-Identifier: MIT
"""docs/networks.md: it has the operators of the tables of kinds, and its commands work, with small models of these names."""
import pathlib
import re
import shlex
import unittest

import numpy as np
from graph_helper import graph, node
from helper import CommandTest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = (SOURCE / "docs" / "networks.md").read_text()
RANDOM = np.random.default_rng(11)


def weights(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) / 6


def network(channels, last, constants, size=("n", "c", "h", "w"), outputs=("y",)):
    """Input x, a convolution and PRelu, then the nodes `last`, from p to y."""
    nodes = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]), node("PRelu", ["a", "slope"], "p"), *last]
    constants = {"w": weights(4, channels, 3, 3), "slope": np.float32(0.2), **constants}
    shape = (size[0], channels, *size[2:])
    return graph(nodes, {"x": np.zeros((1, channels, 8, 8), np.float32)}, outputs, constants=constants, opset=17, shapes={"x": shape})


def shuffled(channels):
    """Twice as large, by an interleaved convolution, as ESPCN and Real-ESRGAN."""
    return network(channels, [node("Conv", ["p", "v"], "b"), node("DepthToSpace", ["b"], "y", blocksize=2, mode="CRD")], {"v": weights(4 * channels, 4, 1, 1)})


def transposed():
    return network(1, [node("ConvTranspose", ["p", "v"], "y", strides=[2, 2])], {"v": weights(4, 1, 2, 2)})


def denoiser():
    return network(1, [node("Conv", ["p", "v"], "noise"), node("Sub", ["x", "noise"], "y")], {"v": weights(1, 4, 1, 1)})


def unet(classes):
    """The sides of images must be even."""
    last = [node("MaxPool", ["p"], "m", kernel_shape=[2, 2], strides=[2, 2]), node("ConvTranspose", ["m", "v"], "u", strides=[2, 2]),
            node("Concat", ["u", "p"], "j", axis=1), node("Conv", ["j", "e"], "s"), node("Sigmoid", ["s"], "y")]
    return network(3, last, {"v": weights(4, 4, 2, 2), "e": weights(classes, 8, 1, 1)})


def style():
    last = [node("InstanceNormalization", ["p", "f", "f"], "i"), node("Conv", ["i", "v"], "y")]
    return network(3, last, {"f": np.ones(4, np.float32), "v": weights(3, 4, 1, 1)})


def two():
    """An image and a mask."""
    return network(3, [node("Conv", ["p", "v"], "y"), node("ReduceMean", ["y"], "m", axes=[1]), node("Sigmoid", ["m"], "mask")], {"v": weights(3, 4, 1, 1)}, outputs=("y", "mask"))


def classifier():
    last = [node("GlobalAveragePool", ["p"], "g"), node("Flatten", ["g"], "f"), node("Gemm", ["f", "v"], "y", transB=1)]
    return network(3, last, {"v": weights(1000, 4)}, ("n", "c", 24, 24))


class Page(CommandTest):
    def test_operators(self):
        rows = re.findall(r'^ +[A-Z_]+\("([A-Z]\w+)",', "".join(path.read_text() for path in (SOURCE / "src/graph").glob("kind_*.c")), re.MULTILINE)
        self.assertGreater(len(set(rows)), 90)
        [table] = re.findall(r"^\| family \| operators \|\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
        named = re.findall(r"\b([A-Z]\w+) \d", table)
        self.assertEqual(len(named), len(set(named)))
        self.assertEqual(set(named) - set(rows), {"Constant"})  # which is no kind: onnx.c reads it
        self.assertEqual(set(rows) - set(named), set())

    def test_commands(self):
        models = {"espcn": shuffled(1), "fsrcnn": transposed(), "realesrgan": shuffled(3), "dncnn": denoiser(), "unet": unet(1), "classes": unet(5), "two": two(),
                  "style": style(), "style255": style(), "ch_PP-OCRv3_det_infer": unet(1), "resnet50": classifier(), "mobilenet": classifier()}
        for name, contents in models.items():
            (self.folder / f"{name}.onnx").write_bytes(contents)
        for name in ("photo.jpg", "photos/1.png", "photos/2.png"):
            self.photo(name, 19, 13)
        self.photo("cup.jpg", 24, 24)
        self.photo("page.jpg", 24, 24)
        self.gconv("photo.jpg", "-f", "identity", "-o", "huge.tif")
        np.save(self.folder / "batch.npy", weights(2, 3, 8, 12))
        commands = re.findall(r"^    gconv (.*)$", PAGE.replace("\\\n", " "), re.MULTILINE)
        self.assertGreaterEqual(len(commands), 10)
        for command in commands:
            with self.subTest(command):
                self.gconv(*shlex.split(command, comments=True))
        self.assertEqual(self.pixels("larger.png").shape, (26, 38, 3))
        self.assertEqual(self.pixels("mask.png").shape, (13, 19))
        self.assertEqual(self.pixels("painted.png").shape, (13, 19, 3))
        self.assertEqual(np.load(self.folder / "scores.npy").shape, (1, 1000, 1, 1))
        self.assertEqual(np.load(self.folder / "masks.npy").shape, (2, 1, 8, 12))
        self.assertEqual(self.files("clean"), ["1.png", "2.png"])
        self.assertEqual(self.pixels("photo_mask.png").shape, (13, 19))
        self.assertIn("MaxPool", (self.folder / "unet.svg").read_text())


if __name__ == "__main__":
    unittest.main()
