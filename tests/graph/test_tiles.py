# SPDX-License-Identifier: MIT
"""Images in tiles have the bits of the whole image; what sees the whole image is refused, or measured first."""
import unittest

import numpy as np
from graph_helper import graph, node, run

RANDOM = np.random.default_rng(44)
EXACT = ["-a", "direct"]


def weights(*shape):
    return (RANDOM.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def unet():
    """Two levels, joined, and a result of twice the size."""
    constants = {"a": weights(6, 3, 3, 3), "b": weights(8, 6, 5, 3), "c": weights(8, 6, 2, 2), "d": weights(12, 12, 3, 3),
                 "p": weights(6, 1, 1), "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1]), "scales": np.array([1, 1, 2, 2], np.float32),
                 "s": weights(3, 3, 4, 4)}
    return [
        node("Conv", ["x", "a"], "1", pads=[1, 1, 1, 1]),
        node("PRelu", ["1", "p"], "2"),
        node("MaxPool", ["2"], "3", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["3", "b"], "4", pads=[2, 1, 2, 1], strides=[2, 2]),
        node("Sigmoid", ["4"], "5"),
        node("Mul", ["4", "5"], "6"),
        node("ConvTranspose", ["6", "c"], "7", strides=[2, 2]),
        node("Resize", ["7", "", "scales"], "8", mode="linear"),
        node("Concat", ["8", "2"], "9", axis=1),
        node("Pad", ["9", "pads"], "10", mode="reflect"),
        node("Conv", ["10", "d"], "11"),
        node("DepthToSpace", ["11"], "12", blocksize=2),
        node("AveragePool", ["12"], "13", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("ConvTranspose", ["13", "s"], "y", pads=[1, 2, 1, 0]),
    ], constants


class Tiles(unittest.TestCase):
    def test_bits(self):
        nodes, constants = unet()
        for height, width, most in ((92, 148, 1 << 20), (148, 92, 1 << 20), (60, 404, 3 << 19), (404, 44, 3 << 19)):
            with self.subTest(height=height, width=width):
                x = RANDOM.normal(size=(1, 3, height, width)).astype(np.float32)
                model = graph(nodes, {"x": x}, constants=constants)
                (whole,) = run(model, [x], options=EXACT)
                said = run(model, [x], explain=True, options=[*EXACT, "-m", most])
                self.assertRegex(said, "(?m)^([2-9]|[1-9][0-9]+) tiles of")
                (tiles,) = run(model, [x], options=[*EXACT, "-m", most])
                self.assertEqual(whole.shape, (1, 3, 2 * height + 3, 2 * width + 3))
                np.testing.assert_array_equal(tiles, whole)
                for rows in (7, 64, 1000):  # of the result, in bands
                    (bands,) = run(model, [x], options=[*EXACT, "-m", 10 * most, "-b", rows])
                    np.testing.assert_array_equal(bands, whole)

    def test_resize(self):
        """Whatever the mode, a tile has all pixels from which others are enlarged or shrunk."""
        x = RANDOM.normal(size=(1, 2, 96, 60)).astype(np.float32)
        places = [{}, {"coordinate_transformation_mode": "asymmetric"}, {"coordinate_transformation_mode": "half_pixel_symmetric"},
                  {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}]
        roundings = [{"nearest_mode": name} for name in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
        modes = [{"mode": "linear"}, {"mode": "cubic"}, *({"mode": "nearest"} | rounding for rounding in roundings)]
        for scale in (2, 3, 0.5):
            for attributes in [place | mode for place in places for mode in modes]:
                nodes = [node("Conv", ["x", "w"], "a", pads=[1] * 4), node("Resize", ["a", "", "s"], "b", **attributes), node("Relu", ["b"], "y")]
                model = graph(nodes, {"x": x}, constants={"w": weights(2, 2, 3, 3), "s": np.array([1, 1, scale, scale], np.float32)})
                (whole,) = run(model, [x], options=EXACT)
                bands = run(model, [x], options=[*EXACT, "-m", 1 << 20, "-b", 5])
                self.assertNotIsInstance(bands, str, f"{scale} {attributes}")
                np.testing.assert_array_equal(bands[0], whole, f"{scale} {attributes}")

    def test_valid(self):
        """Convolutions without padding make less than their input."""
        x = RANDOM.normal(size=(1, 1, 130, 170)).astype(np.float32)
        nodes = [node("Conv", ["x", "w"], "a", dilations=[3, 2]), node("Conv", ["a", "v"], "y", strides=[3, 1])]
        model = graph(nodes, {"x": x}, constants={"w": weights(4, 1, 5, 5), "v": weights(2, 4, 3, 3)})
        (whole,) = run(model, [x], options=EXACT)
        (tiles,) = run(model, [x], options=[*EXACT, "-m", 120000])
        np.testing.assert_array_equal(tiles, whole)
        (bands,) = run(model, [x], options=[*EXACT, "-m", 1 << 20, "-b", 10])
        np.testing.assert_array_equal(bands, whole)

    def test_whole(self):
        x = RANDOM.normal(size=(1, 3, 96, 96)).astype(np.float32)
        w = {"w": weights(3, 3, 3, 3), "one": np.ones(3, np.float32)}
        first = node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1])
        for name, last in (
            ("norm", [node("InstanceNormalization", ["a", "one", "one"], "y", "norm")]),
            ("pool", [node("GlobalAveragePool", ["a"], "b", "pool"), node("Mul", ["a", "b"], "y")]),
            ("grid", [node("Add", ["a", "grid"], "y", "grid")]),
            ("turn", [node("Transpose", ["a"], "y", "turn", perm=[0, 1, 3, 2])]),
            ("size", [node("Resize", ["a", "", "", "to"], "y", "size", mode="linear", coordinate_transformation_mode="align_corners")]),
        ):
            with self.subTest(name=name):
                model = graph([first, *last], {"x": x}, constants=w | {"to": np.array([1, 3, 192, 192]), "grid": np.ones((96, 96), np.float32)})
                said = run(model, [x], options=["-m", 100000])
                self.assertIsInstance(said, str)
                self.assertIn("sees the whole image", said)
                self.assertIn(f"node '{name}'", said)

    def test_measured(self):
        """Nodes that need moments of the whole image get them in passes of their own, each after those that it depends on."""
        constants = {"w": weights(8, 3, 3, 3), "v": weights(8, 8, 3, 3), "u": weights(8, 8, 1, 1), "l": weights(3, 8, 3, 3), "b": weights(8),
                     "s": np.abs(weights(8)) + 1, "axes": np.array([2, 3]), "two": np.array([0, 2, -1]), "t": np.float32([0.5, 2])}
        gate = [node("GlobalAveragePool", ["c"], "g"), node("Conv", ["g", "u"], "h"), node("Sigmoid", ["h"], "i"), node("Mul", ["c", "i"], "d")]
        scale = [node("ReduceMax", ["c", "axes"], "g", keepdims=1), node("ReduceMean", ["c", "axes"], "h", keepdims=0), node("Unsqueeze", ["h", "axes"], "j"),
                 node("GlobalMaxPool", ["c"], "k"), node("Sub", ["c", "j"], "m"), node("Div", ["m", "g"], "n"), node("Add", ["n", "k"], "d")]
        groups = [node("Reshape", ["c", "two"], "g"), node("InstanceNormalization", ["g", "t", "t"], "h", "old"), node("Shape", ["c"], "i"),
                  node("Reshape", ["h", "i"], "d")]  # as before opset 18
        first = [node("Conv", ["x", "w"], "a", pads=[1] * 4), node("InstanceNormalization", ["a", "s", "b"], "r"), node("Relu", ["r"], "q"),
                 node("Conv", ["q", "v"], "c", pads=[1] * 4, strides=[2, 2])]
        last = [node("GroupNormalization", ["d", "s", "b"], "e", num_groups=2), node("Conv", ["e", "l"], "y", pads=[1] * 4)]
        x = (RANDOM.normal(size=(1, 3, 97, 132)) + 2).astype(np.float32)
        for middle, passes in ((gate, 3), (scale, 3), (groups, 3)):
            model = graph([*first, *middle, *last], {"x": x}, constants=constants)
            (whole,) = run(model, [x], options=EXACT)
            for cut in (["-m", 100000], ["-m", 1 << 20, "-b", 7], ["-m", 1 << 20, "-b", 20]):
                words = [*EXACT, "-w", *cut]
                with self.subTest(passes=passes, cut=cut):
                    self.assertRegex(run(model, [x], explain=True, options=words), f"(?m)^([2-9]|[1-9][0-9]+) tiles of.*, {passes} passes measure the whole")
                    (tiles,) = run(model, [x], options=words)
                    np.testing.assert_allclose(tiles, whole, rtol=0, atol=1e-6 * np.abs(whole).max())

    def test_sizes(self):
        """Sizes that are constant, and constants of the image's size, are other in a tile."""
        x = RANDOM.normal(size=(1, 3, 96, 96)).astype(np.float32)
        first = node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1])
        sized = [node("Resize", ["a", "", "", "to"], "y", "size", mode="nearest")]
        shaped = [node("Shape", ["x"], "s"), node("Gather", ["s", "three"], "n"), node("Cast", ["n"], "f", to=1), node("Div", ["a", "f"], "y", "ratio")]
        for name, last, most in (("size", sized, 300000), ("ratio", shaped, 100000)):
            with self.subTest(name=name):
                constants = {"w": weights(3, 3, 3, 3), "to": np.array([1, 3, 192, 192]), "three": np.array(3)}
                said = run(graph([first, *last], {"x": x}, constants=constants), [x], options=["-m", most])
                self.assertIsInstance(said, str)
                self.assertIn("depends on the size of the image", said)

    def test_too_small(self):
        x = RANDOM.normal(size=(1, 1, 200, 200)).astype(np.float32)
        model = graph([node("Conv", ["x", "w"], "y", dilations=[40, 40])], {"x": x}, constants={"w": weights(1, 1, 3, 3)})
        self.assertIn("so much of the image", run(model, [x], options=["-m", 30000]))


if __name__ == "__main__":
    unittest.main()
