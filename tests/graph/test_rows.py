# SPDX-License-Identifier: MIT
"""Photos that do not fit into memory go through graphs by rows, from file to file: as if they were whole, bit for bit."""
import os
import re
import tempfile
import unittest

import numpy as np
from graph_helper import graph, node
from helper import CommandTest, needs
from PIL import Image
from test_graph_networks import ANY, denoiser, shrinking

RANDOM = np.random.default_rng(12)
HEIGHT, WIDTH = 605, 810  # not multiples of 4


def photo():
    """Waves and noise."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    waves = [np.sin(x / a) * np.cos(y / b) for a, b in ((9, 31), (40, 12), (23, 17))]
    return np.stack(waves, 2) * 0.4 + 0.5 + RANDOM.normal(size=(HEIGHT, WIDTH, 3)) * 0.05


def enlarging(channels=3):
    """Twice as large: convolutions, and the image enlarged by its own pixels, as compact Real-ESRGAN does."""
    shapes = {"a": (8, channels, 3, 3), "b": (8, 8, 3, 3), "c": (4 * channels, 8, 3, 3)}
    constants = {name: (RANDOM.normal(size=shape) / 20).astype(np.float32) for name, shape in shapes.items()}
    nodes = [node("Conv", ["x", "a"], "1", pads=[1] * 4), node("Conv", ["1", "b"], "2", pads=[1] * 4), node("Conv", ["2", "c"], "3", pads=[1] * 4),
             node("DepthToSpace", ["3"], "4", blocksize=2, mode="CRD"),
             node("Resize", ["x", "", "two"], "5", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
             node("Add", ["4", "5"], "y")]
    return graph(nodes, {"x": np.zeros((1, channels, 4, 4), np.float32)}, constants=constants | {"two": np.array([1, 1, 2, 2], np.float32)},
                 shapes={"x": ("n", channels, "h", "w")})


def measured(channels=3):
    """Needs moments of the whole image twice."""
    constants = {"w": (RANDOM.normal(size=(4, channels, 3, 3)) / 5).astype(np.float32), "l": (RANDOM.normal(size=(channels, 4, 3, 3)) / 9).astype(np.float32),
                 "s": np.ones(4, np.float32), "b": np.full(4, 0.5, np.float32)}
    nodes = [node("Conv", ["x", "w"], "1", pads=[1] * 4), node("InstanceNormalization", ["1", "s", "b"], "2"), node("GlobalAveragePool", ["2"], "3"),
             node("Mul", ["2", "3"], "4"), node("Conv", ["4", "l"], "y", pads=[1] * 4)]
    return graph(nodes, {"x": np.zeros((1, channels, 4, 4), np.float32)}, constants=constants, shapes={"x": ("n", channels, "h", "w")})


def wide():
    """Few pixels and many weights."""
    shapes = {"a": (384, 3, 1, 1), "b": (384, 384, 3, 3), "c": (3, 384, 1, 1)}
    constants = {name: (RANDOM.normal(size=shape) / 30).astype(np.float32) for name, shape in shapes.items()}
    nodes = [node("AveragePool", ["x"], "1", kernel_shape=[8, 8], strides=[8, 8]), node("Conv", ["1", "a"], "2"), node("Conv", ["2", "b"], "3", pads=[1] * 4),
             node("Conv", ["3", "c"], "y")]
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants=constants, shapes={"x": ANY})


def pooling():
    """A pixel for each 4 x 4."""
    return graph([node("AveragePool", ["x"], "y", kernel_shape=[4, 4], strides=[4, 4])], {"x": np.zeros((1, 3, 4, 4), np.float32)}, shapes={"x": ANY})


class Rows(CommandTest):
    def setUp(self):
        super().setUp()
        self.photo = photo()
        Image.fromarray((self.photo.clip(0, 1) * 255).astype(np.uint8)).save(self.folder / "p.png")
        for name, model in (("denoise", denoiser()), ("shrink", shrinking(True)), ("enlarge", enlarging()), ("grey", enlarging(1)), ("pool", pooling())):
            (self.folder / f"{name}.onnx").write_bytes(model)

    def by_rows(self, *words):
        """Runs gconv with as little memory as it says it needs, which it keeps to, and returns this number of MB."""
        said = self.gconv(*words, "--memory", "5M", "--threads", 1, status=1).stderr
        needed = int(re.search("raise it to ([0-9]+)M", said)[1])
        told = self.gconv(*words, "--memory", f"{needed}M", "--threads", 1, "--explain")
        self.assertRegex(told.stdout + told.stderr, "by rows: [0-9]+ of the output at a time")
        return needed

    def test_models(self):
        for words in ("denoise", "shrink", "enlarge", "grey", "pool", ("denoise", "--combine", "argmax"), ("enlarge", "--range", "minmax"), ("grey", "--luma"),
                      ("enlarge", "--combine", "none")):
            name, *more = (words,) if isinstance(words, str) else words
            with self.subTest(words=words):
                common = ["p.png", "-f", f"{name}.onnx", *more, "-a", "direct", "--quiet", "-o"]
                many = "none" in more
                self.gconv(*common, "w_{index}_{filter}.png" if many else "w.png")
                self.by_rows(*common, "r_{index}_{filter}.png" if many else "r.png")
                made = [name for name in self.files() if name.startswith("r") and name.endswith(".png")]
                self.assertEqual(len(made), 3 if many else 1)
                for one in made:
                    np.testing.assert_array_equal(self.pixels(one), self.pixels("w" + one[1:]), str(words))
                    (self.folder / one).unlink()

    def test_alpha(self):
        """Alpha and colours beside the network, and grey photos, come from the same rows of the image."""
        grey = np.asarray(Image.open(self.folder / "p.png").convert("L"))
        alpha = np.where(grey > 128, 255, np.where(grey > 110, grey, 0)).astype(np.uint8)
        Image.fromarray(np.dstack([np.asarray(Image.open(self.folder / "p.png")), alpha])).save(self.folder / "a.png")
        Image.fromarray(np.dstack([grey, alpha]), "LA").save(self.folder / "ga.png")
        for name, *words in (("a.png", "enlarge"), ("a.png", "grey", "--luma"), ("a.png", "pool"), ("a.png", "enlarge", "--alpha", "filter"),
                             ("ga.png", "enlarge")):
            with self.subTest(name=name, words=words):
                common = [name, "-f", words[0] + ".onnx", *words[1:], "-a", "direct", "--quiet", "-o"]
                self.gconv(*common, "w.png")
                self.by_rows(*common, "r.png")
                np.testing.assert_array_equal(self.pixels("r.png"), self.pixels("w.png"))

    def test_files(self):
        """Samples of 8 and 16 bits, in formats that come by rows and one that does not."""
        wide = (self.photo.clip(0, 1) * 65535).astype(np.uint16)
        np.save(self.folder / "p.npy", wide)
        self.gconv("p.npy", "-f", "identity", "-o", "p16.png", "--quiet")
        Image.open(self.folder / "p.png").save(self.folder / "p.jpg", quality=95)
        Image.open(self.folder / "p.png").save(self.folder / "turned.jpg", quality=95, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
        for name in ("p16.png", "p.jpg", "turned.jpg"):
            with self.subTest(name=name):
                common = [name, "-f", "shrink.onnx", "-a", "direct", "--quiet", "-o"]
                self.gconv(*common, "w.png")
                self.by_rows(*common, "r.png")
                np.testing.assert_array_equal(self.pixels("r.png"), self.pixels("w.png"))
                self.assertEqual((self.folder / "r.png").read_bytes()[24], 16 if name == "p16.png" else 8)

    @needs("libtiff")
    def test_tiff(self):
        for depth in (8, 16):
            self.gconv("p.png", "-f", "identity", "--depth", depth, "-o", "p.tif", "--quiet")
            common = ["p.tif", "-f", "enlarge.onnx", "-a", "direct", "--quiet", "-o"]
            self.gconv(*common, "w.tif")
            self.by_rows(*common, "r.tif")
            self.assertEqual((self.folder / "w.tif").read_bytes(), (self.folder / "r.tif").read_bytes())

    def test_measured(self):
        """What needs to know all of an image measures it first: of each image, in each pass, from each kind of file."""
        Image.open(self.folder / "p.png").save(self.folder / "turned.jpg", quality=95, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
        Image.fromarray(np.dstack([np.asarray(Image.open(self.folder / "p.png")), np.full((HEIGHT, WIDTH), 200, np.uint8)])).save(self.folder / "a.png")
        for channels in (1, 3):
            (self.folder / f"m{channels}.onnx").write_bytes(measured(channels))
        for name, *words in (("p.png", "m3"), ("p.png", "m1"), ("p.png", "m3", "--range", "minmax"), ("p.png", "m3", "--combine", "argmax"), ("turned.jpg", "m3"),
                             ("a.png", "m3", "--alpha", "filter")):
            with self.subTest(name=name, words=words):
                common = [name, "-f", words[0] + ".onnx", *words[1:], "-a", "direct", "--quiet", "-o"]
                self.gconv(*common, "w.png")
                self.by_rows(*common, "r.png")
                np.testing.assert_allclose(self.pixels("r.png").astype(int), self.pixels("w.png"), rtol=0, atol=1)
        common = ["p.png", "-f", "m3.onnx", "-a", "direct", "--quiet", "-o"]
        self.gconv(*common, "w.npy")
        self.by_rows(*common, "r.npy")
        whole = np.load(self.folder / "w.npy")
        np.testing.assert_allclose(np.load(self.folder / "r.npy"), whole, rtol=0, atol=1e-6 * np.abs(whole).max())
        said = self.gconv(*common, "r.npy", "--memory", "25M", "--threads", 1, "--explain")
        self.assertIn("2 passes measure the whole image", said.stdout + said.stderr)
        chain = ["p.png", "-f", "m3.onnx", "--then", "-f", "gaussian:sigma=1", "-o", "c.png"]
        self.assertIn("a stage of the chain needs the whole image, as border wrap and some networks do", self.gconv(*chain, "--memory", "18M", status=1).stderr)

    def test_memory_of_weights(self):
        """Weights as algorithms take them are several times as large as those of the model."""
        (self.folder / "wide.onnx").write_bytes(wide())
        words = ["-f", "wide.onnx", "-o", "y.png", "--quiet"]
        needed = self.by_rows("p.png", *words)
        self.assertLess(self.peak_bytes("p.png", *words, "--memory", f"{needed}M", "--threads", "1"), needed * 1e6)

    def test_memory(self):
        """The memory that is asked for is kept, and does not grow with the height."""
        tall = np.tile((self.photo.clip(0, 1) * 255).astype(np.uint8), (9, 1, 1))
        Image.fromarray(tall).save(self.folder / "tall.png", compress_level=1)
        words = ["-f", "enlarge.onnx", "-o", "y.png", "--quiet"]
        needed = self.by_rows("p.png", *words)
        most = self.peak_bytes("tall.png", *words, "--memory", f"{needed}M", "--threads", "1")
        self.assertLess(most, needed * 1e6)

    def test_maps_are_kept(self):
        """The range of a picture is known once all of its maps are made. They are kept in a file; without a place for one, they are made twice."""
        shapes = {"a": (64, 3, 3, 3), "b": (64, 64, 5, 5), "c": (2, 64, 1, 1)}
        constants = {name: (RANDOM.normal(size=shape) / 20).astype(np.float32) for name, shape in shapes.items()}
        nodes = [node("Conv", ["x", "a"], "1", pads=[1] * 4), node("Conv", ["1", "b"], "2", pads=[2] * 4), node("Conv", ["2", "c"], "y")]
        (self.folder / "maps.onnx").write_bytes(graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants=constants, shapes={"x": ANY}))
        common = ["p.png", "-f", "maps.onnx", "-a", "direct", "--quiet", "-o"]
        needed, seconds = self.by_rows(*common, "k_{filter}.png"), []
        others = tempfile.TemporaryDirectory()  # results do not go there: only the maps let the sandbox allow it
        self.addCleanup(others.cleanup)
        for name, folder in (("kept", others.name), ("again", self.folder / "missing")):
            before = os.times().children_user
            self.gconv(*common, name + "_{filter}.png", "--memory", f"{needed}M", "--threads", 1, env={"TMPDIR": str(folder)})
            seconds.append(os.times().children_user - before)
        self.gconv(*common, "w_{filter}.png")
        for filter in range(2):
            whole = self.pixels(f"w_{filter}.png")
            self.assertGreater(whole.std(), 1)
            for name in ("kept", "again"):
                np.testing.assert_array_equal(self.pixels(f"{name}_{filter}.png"), whole)
        self.assertGreater(seconds[1], 1.4 * seconds[0], seconds)

    def test_refused(self):
        """What sees the whole image is not cut: the error says how much memory it needs, and why."""
        nodes = [node("Transpose", ["x"], "a", "turn", perm=[0, 1, 3, 2]), node("Relu", ["a"], "y")]
        (self.folder / "turn.onnx").write_bytes(graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, shapes={"x": ANY}))
        said = self.gconv("p.png", "-f", "turn.onnx", "-o", "y.png", "--memory", "20M", status=1).stderr
        self.assertRegex(said, r"takes about [0-9]+ MB of memory, and --memory allows 20 MB: raise it to [0-9]+M, or .*: now it cannot, as")
        self.assertIn("node 'turn' (Transpose) sees the whole image", said)
        self.assertNotIn("y.png", self.files())


if __name__ == "__main__":
    unittest.main()
