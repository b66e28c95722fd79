# SPDX-License-Identifier: MIT
"""ONNX models that are no chain of layers, as gconv -f applies them to pictures and arrays."""
import json
import re
import unittest
from xml.etree import ElementTree

import numpy as np
from graph_helper import attribute, field, graph, node
from helper import CommandTest
from PIL import Image
from test_branches import branch
from test_onnx_cases import conv

RANDOM = np.random.default_rng(7)
W = RANDOM.normal(size=(3, 3, 3, 3)).astype(np.float32) / 6
B = np.array([0.1, 0, -0.1], np.float32)
ANY = ("n", 3, "h", "w")


def denoiser(shape=ANY):
    """The input minus what a convolution makes of it, as DnCNN does."""
    nodes = [node("Conv", ["x", "w", "b"], "noise", "c1", pads=[1, 1, 1, 1]), node("Sub", ["x", "noise"], "y", "d")]
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants={"w": W, "b": B}, shapes={"x": shape})


def larger():
    """Some pixels of 0 around each channel, then 1 - x: the output has 6 rows and columns more than the input."""
    one = np.eye(3, dtype=np.float32)[:, :, None, None]
    nodes = [node("Conv", ["x", "w"], "a", pads=[3, 3, 3, 3]), node("Sub", ["one", "a"], "b"), node("Sub", ["one", "b"], "y")]
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants={"w": one, "one": np.float32(1)}, shapes={"x": ANY})


def shrinking(joins):
    """Shrinks an image to a quarter and enlarges it again: to other sizes than it had, unless they are multiples of 4. If it
    joins the result with the image, only such sizes work."""
    down, up = RANDOM.normal(size=(3, 3, 3, 3)).astype(np.float32) / 6, np.array([1, 1, 4, 4], np.float32)
    nodes = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["a"], "b"),
             node("Conv", ["b", "w"], "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("Resize", ["c", "", "up"], "d", mode="nearest")]
    nodes.append(node("Add", ["x", "d"], "y") if joins else node("Neg", ["d"], "y"))
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants={"w": down, "up": up}, shapes={"x": ANY})


def two_outputs():
    """What a convolution leaves of the image, and the mean of what it takes off, as a mask."""
    nodes = [node("Conv", ["x", "w", "b"], "noise", "c1", pads=[1, 1, 1, 1]), node("Sub", ["x", "noise"], "clean", "d"),
             node("ReduceMean", ["noise"], "mean", "m", axes=[1]), node("Sigmoid", ["mean"], "mask", "s")]
    return graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.float32)}, ("clean", "mask"), {"w": W, "b": B}, opset=17, shapes={"x": ANY})


def channels_last(kind, *before):
    """A convolution of images with channels last. before: nodes from x to a, before the channels are moved."""
    nodes = [*before, node("Transpose", ["a" if before else "x"], "t", perm=[0, 3, 1, 2]), node("Conv", ["t", "w", "b"], "c", pads=[1, 1, 1, 1]),
             node("Transpose", ["c"], "u", perm=[0, 2, 3, 1]), node("Neg", ["u"], "y")]
    return graph(nodes, {"x": np.zeros((1, 4, 4, 3), kind)}, constants={"w": W, "b": B, "white": np.float32(255)}, shapes={"x": ("n", "h", "w", 3)})


class Networks(CommandTest):
    def model(self, contents, name="m.onnx"):
        (self.folder / name).write_bytes(contents)

    def test_arrays(self):
        x = RANDOM.normal(size=(2, 3, 9, 13)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        self.model(denoiser())
        self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
        wanted = x - conv(x, W, B, pads=(1, 1, 1, 1))
        np.testing.assert_allclose(np.load(self.folder / "y.npy"), wanted, atol=1e-5)
        for threads in 1, 3:  # the same bits for any number of threads
            self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", f"y{threads}.npy", "--threads", threads)
            np.testing.assert_array_equal(np.load(self.folder / f"y{threads}.npy"), np.load(self.folder / "y.npy"))

    def test_branches_are_no_chain(self):
        """An If behind a Conv chooses: it is no Identity of one branch, and it may have no outputs at all."""
        x = RANDOM.normal(size=(1, 3, 5, 6)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        convolved = conv(x, W, B, pads=(1, 1, 1, 1))
        for word, made, yes, no, wanted in (("y", "a", ["x"], ["a"], x), ("", "y", [], [], convolved)):
            choice = node("If", ["c"], word, then_branch=branch([], yes), else_branch=branch([], no))
            if not word:
                choice = field(1, "c") + field(4, "If") + field(5, attribute("then_branch", branch([], []))) + field(5, attribute("else_branch", branch([], [])))
            nodes = [node("Conv", ["x", "w", "b"], made, pads=[1, 1, 1, 1]), choice]
            self.model(graph(nodes, {"x": x}, constants={"w": W, "b": B, "c": np.array(True)}, shapes={"x": ANY}))
            self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
            np.testing.assert_allclose(np.load(self.folder / "y.npy"), wanted, atol=1e-5)

    def test_pictures(self):
        """Pixels are 0 .. 1, or what mean and std make of them; an image like the input is a picture."""
        self.photo("p.png")
        self.model(denoiser())
        self.gconv("p.png", "-f", "m.onnx", "-o", "y.png", "--quiet")
        x = self.pixels("p.png").astype(float).transpose(2, 0, 1)[None] / 255
        self.assert_like("y.png", x - conv(x, W, B, pads=(1, 1, 1, 1)))
        self.gconv("p.png", "-f", "m.onnx", "-o", "z.npy", "--mean", "0.5", "--std", "0.25")
        x = (x - 0.5) / 0.25
        np.testing.assert_allclose(np.load(self.folder / "z.npy"), x - conv(x, W, B, pads=(1, 1, 1, 1)), atol=1e-5)

    def assert_like(self, name, wanted):
        wanted = np.clip(wanted[0].transpose(1, 2, 0) * 255, 0, 255)
        self.assertLessEqual(np.abs(self.pixels(name)[..., :3] - wanted).max(), 0.501)

    def test_sides_that_must_be_multiples(self):
        """Images are padded by reflection, and their results are cut."""
        x = RANDOM.normal(size=(1, 3, 18, 21)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "padded.npy", np.pad(x, ((0, 0), (0, 0), (0, 2), (0, 3)), "reflect"))
        for joins in (True, False):
            with self.subTest(joins=joins):
                self.model(shrinking(joins))
                self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
                self.gconv("-i", "padded.npy", "-f", "m.onnx", "-o", "whole.npy")
                np.testing.assert_array_equal(np.load(self.folder / "y.npy"), np.load(self.folder / "whole.npy")[..., :18, :21])

    def test_blocks(self):
        """Blocks that are no powers of 2 take sides that are multiples of them."""
        x = RANDOM.normal(size=(1, 3, 20, 23)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        for block in (3, 7, 12):
            nodes = [node("SpaceToDepth", ["x"], "a", blocksize=block), node("Neg", ["a"], "b"), node("DepthToSpace", ["b"], "y", blocksize=block)]
            self.model(graph(nodes, {"x": x}, shapes={"x": ANY}))
            self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
            np.testing.assert_array_equal(np.load(self.folder / "y.npy"), -x)

    def test_tables_are_not_cut(self):
        """Numbers for places of an image, 1 x 2394 x 2, are no picture: none are left out. Where sides do not fit, the error says which do."""
        x = RANDOM.normal(size=(1, 3, 53, 70)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        w = RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32)
        table = lambda a, b: [node("Transpose", [a], f"t{b}", perm=[0, 2, 3, 1]), node("Reshape", [f"t{b}", "list"], b)]  # noqa: E731
        nodes = [node("Conv", ["x", "w"], "a", pads=[1] * 4, strides=[2, 2]), node("Conv", ["x", "w"], "b", pads=[1] * 4, strides=[4, 4]),
                 *table("a", "c"), *table("b", "d"), node("Concat", ["c", "d"], "y", axis=1)]
        self.model(graph(nodes, {"x": x}, constants={"w": w, "list": np.array([1, -1, 2])}, shapes={"x": ANY}))
        self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
        parts = [conv(x, w, strides=(s, s), pads=(1, 1, 1, 1)).transpose(0, 2, 3, 1).reshape(-1, 2) for s in (2, 4)]
        np.testing.assert_allclose(np.load(self.folder / "y.npy").reshape(-1, 2), np.concatenate(parts), rtol=1e-4, atol=1e-4)
        self.model(graph([node("SpaceToDepth", ["x"], "a", blocksize=12), node("Reshape", ["a", "list"], "y")], {"x": x}, constants={"list": np.array([1, -1, 2])}, shapes={"x": ANY}))
        self.assertIn("sides that are multiples of 12 fit", self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy", status=(1, 2)).stderr)

    def test_rims_that_are_cut_off(self):
        """The result of a network that cuts off rims is cut by what it gains with the image, as that of waifu2x is."""
        x = RANDOM.normal(size=(1, 3, 19, 24)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "padded.npy", np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0)), "reflect"))
        down = RANDOM.normal(size=(3, 3, 2, 2)).astype(np.float32) / 3
        nodes = [node("Pad", ["x", "pads"], "p", mode="reflect"), node("Conv", ["p", "down"], "a", strides=[2, 2]), node("Conv", ["a", "w"], "b"), node("ConvTranspose", ["b", "down"], "c", strides=[2, 2]),
                 node("Slice", ["p", "two", "end", "axes"], "d"), node("Add", ["c", "d"], "y")]
        constants = {"pads": np.array([0, 0, 6, 6, 0, 0, 6, 6]), "down": down, "w": W, "two": np.array([2, 2]), "end": np.array([-2, -2]), "axes": np.array([2, 3])}
        self.model(graph(nodes, {"x": x}, constants=constants, shapes={"x": ANY}))
        self.gconv("-i", "x.npy", "-f", "m.onnx", "-o", "y.npy")
        self.gconv("-i", "padded.npy", "-f", "m.onnx", "-o", "whole.npy")
        made = np.load(self.folder / "y.npy")
        self.assertEqual(made.shape, (1, 3, 19 + 8, 24 + 8))
        np.testing.assert_array_equal(made, np.load(self.folder / "whole.npy")[:, :, :27])

    def test_pictures_of_another_size(self):
        pixels = RANDOM.integers(0, 256, (8, 10, 4)).astype(np.uint8)
        pixels[..., 3] = np.linspace(5, 255, 10).astype(np.uint8)
        Image.fromarray(pixels).save(self.folder / "p.png", dpi=(300, 300))
        self.model(larger())
        self.gconv("p.png", "-f", "m.onnx", "-o", "y.png")
        made = self.pixels("y.png")
        np.testing.assert_array_equal(made[..., :3], np.pad(pixels[..., :3], ((3, 3), (3, 3), (0, 0))))
        self.assertTrue((np.diff(made[0, :, 3].astype(int)) >= 0).all() and made[0, 0, 3] < 12 and made[0, -1, 3] > 250)
        self.assertTrue((made[..., 3] == made[:1, :, 3]).all())
        with Image.open(self.folder / "y.png") as image:
            self.assertAlmostEqual(image.info["dpi"][0], 300, delta=1)

    def test_a_picture_for_each_channel(self):
        self.photo("p.png")
        self.model(denoiser())
        self.gconv("p.png", "-f", "m.onnx", "-o", "{stem}_{index}_{filter}.png", "--combine", "none", "--quiet")
        self.assertEqual(len([name for name in self.files() if name.endswith(".png")]), 4)

    def test_several_outputs(self):
        """Each is a result, named by the model; into one file goes the first."""
        self.photo("p.png")
        x = self.pixels("p.png").astype(float).transpose(2, 0, 1)[None] / 255
        noise = conv(x, W, B, pads=(1, 1, 1, 1))
        mask = 1 / (1 + np.exp(-noise.mean(1, keepdims=True)))
        self.model(two_outputs())
        self.gconv("p.png", "-f", "m.onnx", "-o", "out/", "--quiet")
        self.assertEqual(self.files("out"), ["p_clean.png", "p_mask.png"])
        self.assert_like("out/p_clean.png", x - noise)
        np.testing.assert_allclose(self.pixels("out/p_mask.png"), mask[0, 0] * 255, atol=0.501)
        self.gconv("p.png", "-f", "m.onnx", "-o", "{output}.npy")
        np.testing.assert_allclose(np.load(self.folder / "clean.npy"), x - noise, atol=1e-5)
        np.testing.assert_allclose(np.load(self.folder / "mask.npy"), mask, atol=1e-5)
        told = self.gconv("p.png", "-f", "m.onnx", "-o", "one.npy").stderr
        self.assertIn("has 2 outputs, clean, mask: the first is the result", told)
        np.testing.assert_array_equal(np.load(self.folder / "one.npy"), np.load(self.folder / "clean.npy"))
        self.gconv("p.png", "-f", "m.onnx", "-o", "two.npy", "--output-name", "mask")
        np.testing.assert_array_equal(np.load(self.folder / "two.npy"), np.load(self.folder / "mask.npy"))
        for words, option in (("has no output 'q', but 'clean', 'mask'", ["--output-name", "q"]), ("choose one with --output-name", ["--combine", "argmax"])):
            self.assertIn(words, self.gconv("p.png", "-f", "m.onnx", "-o", "bad/", *option, status=(1, 2)).stderr)

    def test_several_outputs_of_padded_images(self):
        """Sides that must be multiples: each output is cut. One is the input itself."""
        x = RANDOM.normal(size=(2, 3, 10, 9)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "padded.npy", np.pad(x, ((0, 0), (0, 0), (0, 2), (0, 3)), "reflect"))
        up = np.array([1, 1, 4, 4], np.float32)
        nodes = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1], strides=[2, 2]), node("Conv", ["a", "w"], "c", pads=[1, 1, 1, 1], strides=[2, 2]),
                 node("Resize", ["c", "", "up"], "d", mode="nearest"), node("Add", ["x", "d"], "y"), node("ReduceMean", ["x"], "z", axes=[2, 3])]
        self.model(graph(nodes, {"x": x}, ("y", "d", "z", "x"), {"w": W, "up": up}, opset=17, shapes={"x": ANY}))
        for name in ("x", "padded"):
            self.gconv("-i", f"{name}.npy", "-f", "m.onnx", "-o", f"{name}_{{output}}.npy")
        np.testing.assert_array_equal(np.load(self.folder / "padded_x.npy"), np.load(self.folder / "padded.npy"))
        for output in ("y", "d", "x"):
            made, whole = np.load(self.folder / f"x_{output}.npy"), np.load(self.folder / f"padded_{output}.npy")
            np.testing.assert_array_equal(made, whole[..., :10, :9])
        np.testing.assert_allclose(np.load(self.folder / "x_z.npy"), np.load(self.folder / "padded_z.npy"))

    def test_levels_and_channels_last(self):
        self.photo("p.png")
        pixels = self.pixels("p.png")
        wanted = -conv(pixels.astype(float).transpose(2, 0, 1)[None] / 255, W, B, pads=(1, 1, 1, 1))
        levels = [node("Cast", ["x"], "f", to=1), node("Div", ["f", "white"], "a")]
        for name, contents in (("bytes", channels_last(np.uint8, *levels)), ("direct", channels_last(np.float32)),
                               ("scaled", channels_last(np.float32, node("Mul", ["x", "white"], "f"), node("Div", ["f", "white"], "a")))):
            with self.subTest(name):
                self.model(contents, f"{name}.onnx")
                self.gconv("p.png", "-f", f"{name}.onnx", "-o", f"{name}.npy")
                np.testing.assert_allclose(np.load(self.folder / f"{name}.npy"), wanted, atol=1e-5)

    def test_levels_out(self):
        """Colours that a model makes as integers are levels, as those that it takes: --white 255 says no more."""
        nodes = [node("Cast", ["x"], "a", to=1), node("Mul", ["a", "half"], "b"), node("Floor", ["b"], "c"), node("Cast", ["c"], "y", to=2)]
        self.model(graph(nodes, {"x": np.zeros((1, 3, 4, 4), np.uint8)}, constants={"half": np.float32([0.5, 1, 0.25]).reshape(3, 1, 1)}, shapes={"x": ANY}))
        pixels = self.photo("p.png")
        for words in ((), ("--white", "255")):
            with self.subTest(words=words):
                self.gconv("p.png", "-f", "m.onnx", "-o", "y.png", *words)
                np.testing.assert_array_equal(self.pixels("y.png"), np.floor(pixels * [0.5, 1, 0.25]))
        self.usage_error("integers, of which 255 is white, not 100", "p.png", "-f", "m.onnx", "-o", "y.png", "--white", "100")

    def test_told(self):
        self.photo("p.png")
        self.model(denoiser())
        explained = self.gconv("p.png", "-f", "m.onnx", "-o", "y.png", "--explain")
        told = explained.stdout + explained.stderr
        self.assertRegex(told, r"graph: 1 nodes run(.*\n)+memory: .* MB(.*\n)+ *Conv 'c1': 1 x 3 x 13 x 17, .* algorithm .*, with Sub 'd'")
        self.assertRegex(self.gconv("info", "m.onnx").stdout, r"(?s)a graph of nodes; for an image of 256 x 256.*o Conv 'c1' \+ Sub 'd' .*1 x 3 x 256 x 256")

    def test_drawn(self):
        """As text and as SVG: a rail goes past the nodes between, and what is fused stands with its node."""
        nodes = [node("Conv", ["x", "w"], "a", "first"), node("Relu", ["a"], "b", "positive"), node("Conv", ["b", "w"], "c", "second"),
                 node("Concat", ["c", "x"], "y", "joined", axis=1)]
        self.model(graph(nodes, {"x": W}, constants={"w": W[:, :, 1:2, 1:2]}, shapes={"x": (1, 3, 8, "w")}))
        told = self.gconv("info", "m.onnx").stdout
        for line in ("1  o   input 'x' +1 x 3 x 8 x 256", r"2  \+-o Conv 'first' \+ Relu 'positive' .* 9\n", r"3  \| o Conv 'second'", r"4  o-\+ Concat 'joined' +1 x 6 x 8 x 256 +output 'y'"):
            self.assertRegex(told, line)
        self.gconv("info", "m.onnx", "-o", "g.svg")
        drawn = (self.folder / "g.svg").read_text()
        self.assertEqual(json.loads(self.gconv("info", "m.onnx", "--json", "-o", "j.svg").stdout), [{"path": "m.onnx", "kind": "bank"}])
        self.assertEqual((self.folder / "j.svg").read_text(), drawn)
        for part in ("Conv &#39;first&#39; + Relu &#39;positive&#39;", "1 x 6 x 8 x 256", "output &#39;y&#39;"):
            self.assertIn(part, drawn)
        rails = re.findall(r"<path d='M(\d+) (\d+) V(\d+)'", drawn)
        self.assertEqual([int(end) - int(begin) for _, begin, end in rails], [90, 30, 30])  # to the fourth row, to the next ones
        self.assertEqual(len({x for x, _, _ in rails}), 2)
        for words, *given in (("is drawn as SVG: -o g.png.svg", "m.onnx", "-o", "g.png"), ("name one", "sobel_x", "-o", "g.svg")):
            self.assertIn(words, self.gconv("info", *given, status=(1, 2)).stderr)

    def test_drawn_names(self):
        """Names are cut between characters: text is UTF-8, and a drawing XML."""
        for length in range(74, 82):
            nodes = [node("Conv", ["x", "w"], "a", "n" * (length % 2) + "\u00e9" * length), node("Relu", ["x"], "b", "n" * length + "\U0001f642"), node("Concat", ["a", "b"], "y", axis=1)]
            self.model(graph(nodes, {"x": W}, constants={"w": W[:, :, 1:2, 1:2]}, shapes={"x": (1, 3, 8, "w")}))
            self.assertIn("Conv 'n" if length % 2 else "Conv '\u00e9", self.gconv("info", "m.onnx").stdout)
            self.gconv("info", "m.onnx", "-o", "g.svg")
            self.assertEqual(ElementTree.parse(self.folder / "g.svg").getroot().tag.split("}")[-1], "svg")

    def test_verify(self):
        """All kinds of float32 are computed in float64, too: convolutions, their activations, pooling, Resize, products."""
        self.photo("p.png")
        nodes = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]), node("LeakyRelu", ["a"], "b"), node("MaxPool", ["b"], "c", kernel_shape=[3, 3], pads=[1] * 4),
                 node("ConvTranspose", ["c", "v"], "d", strides=[2, 2]), node("InstanceNormalization", ["d", "f", "f"], "e"),
                 node("Resize", ["e", "", "scales"], "g", mode="linear"), node("Softmax", ["g"], "y", axis=1)]
        constants = {"w": W, "v": W[:, :, :2, :2].copy(), "f": np.ones(3, np.float32), "scales": np.float32([1, 1, 0.5, 0.5])}
        self.model(graph(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, constants=constants, shapes={"x": (1, 3, "h", "w")}))
        said = self.gconv("p.png", "-f", "m.onnx", "-o", "y.npy", "--verify").stdout
        self.assertRegex(said, "largest error [0-9.]+e-0[6-9] of the [0-9.]+ allowed")
        self.assertIn("is over the 0 allowed", self.gconv("p.png", "-f", "m.onnx", "-o", "z.npy", "--verify=0", status=1).stderr)

    def test_refused(self):
        self.photo("p.png")
        self.model(denoiser())
        self.model(denoiser((1, 3, 20, 20)), "fixed.onnx")
        for word, image, *words in (
            ("images of 20 x 20 pixels (height, width; 0: any) alone, and this one has 13 x 17", "p.png", "fixed.onnx"),
        ):
            self.assertIn(word, self.gconv(image, "-o", "y.png", "-f", *words, status=(1, 2)).stderr)
            self.assertNotIn("y.png", self.files())
        self.usage_error("so it is a graph of nodes, which is neither trained nor written", "bank", "convert", "m.onnx", "-o", "m.safetensors")
        two = graph([node("Add", ["x", "z"], "y")], {"x": W, "z": W})
        self.model(two, "two.onnx")
        self.usage_error("the model has 2 inputs", "p.png", "-f", "two.onnx", "-o", "y.png")

    def test_resume_sees_another_model(self):
        self.photo("p.png")
        self.model(denoiser())
        words = ("p.png", "-f", "m.onnx", "-o", "out/{stem}.png", "--resume", "--quiet")
        self.gconv(*words)
        before = (self.folder / "out/p.png").read_bytes()
        self.model(larger())
        self.gconv(*words, status=(0, 1, 2))
        self.gconv("p.png", "-f", "m.onnx", "-o", "fresh.png", "--quiet")
        self.assertNotEqual((self.folder / "fresh.png").read_bytes(), before)
        self.assertIn((self.folder / "out/p.png").read_bytes(), ((self.folder / "fresh.png").read_bytes(),))


if __name__ == "__main__":
    unittest.main()
