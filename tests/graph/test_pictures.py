# SPDX-License-Identifier: MIT
"""Pictures of all kinds in and out of networks: grey and colours, their order and range, alpha, what is enlarged beside the network."""
import io
import json
import struct
import unittest

import numpy as np
from graph_helper import graph, node
from helper import CommandTest
from PIL import Image, ImageCms
from test_graph_networks import ANY

RANDOM = np.random.default_rng(3)
GAINS = np.array([1, 0.5, 0.25], np.float32)
GREY = np.array([0.299, 0.587, 0.114])


def gains():
    """Each channel times a number of its own: so the order of the channels shows."""
    return graph([node("Mul", ["x", "g"], "y")], {"x": np.zeros((1, 3, 4, 4), np.float32)}, constants={"g": GAINS.reshape(1, 3, 1, 1)}, shapes={"x": ANY})


def enlarging(channels, mode, scale=2):
    """Enlarged by nearest pixels or by cubic interpolation; or, with a scale below 1, made smaller."""
    options = {"mode": mode} | ({"cubic_coeff_a": -0.5} if mode == "cubic" else {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"})
    scales = np.array([1, 1, scale, scale], np.float32)
    return graph([node("Resize", ["x", "", "s"], "y", **options)], {"x": np.zeros((1, channels, 4, 4), np.float32)}, constants={"s": scales},
                 shapes={"x": ("n", channels, "h", "w")})


class Pictures(CommandTest):
    def setUp(self):
        super().setUp()
        self.colours = RANDOM.integers(0, 256, (24, 30, 3)).astype(np.uint8)
        self.save("c.png", self.colours)
        for name, model in (("gains", gains()), ("near", enlarging(3, "nearest")), ("cubic1", enlarging(1, "cubic")), ("half", enlarging(3, "nearest", 0.5))):
            (self.folder / f"{name}.onnx").write_bytes(model)

    def save(self, name, pixels, **words):
        Image.fromarray(pixels).save(self.folder / name, **words)

    def apply(self, *words):
        self.gconv(*words, "-o", "y.png", "--quiet")
        return self.pixels("y.png").astype(int)

    def test_order(self):
        for words, wanted in (((), GAINS), (("--order", "rgb"), GAINS), (("--order", "bgr"), GAINS[::-1])):
            self.assertLessEqual(np.abs(self.apply("c.png", "-f", "gains.onnx", *words) - self.colours * wanted).max(), 0.5)
        (self.folder / "four.onnx").write_bytes(enlarging(4, "nearest"))
        self.save("a.png", np.dstack([self.colours, self.colours[..., 0]]))
        self.assertIn("gets 4 channels", self.gconv("a.png", "-f", "four.onnx", "--order", "bgr", "-o", "z.png", status=1).stderr)
        self.gconv("c.png", "-f", "gains.onnx", "--order", "bgr", "-o", "y.npy")
        made = np.load(self.folder / "y.npy")  # arrays have the order of the network
        np.testing.assert_allclose(made[0], (self.colours[..., ::-1] * GAINS).transpose(2, 0, 1) / 255, atol=1e-6)

    def test_white(self):
        """A network that was trained with levels, in and out, with the means that its page tells."""
        self.assertLessEqual(np.abs(self.apply("c.png", "-f", "gains.onnx", "--white", 255) - self.colours * GAINS).max(), 0.5)
        means, deviations = (10, 20, 30), (2, 4, 8)
        self.gconv("c.png", "-f", "gains.onnx", "--white", 255, "--order", "bgr", "--mean", "10,20,30", "--std", "2,4,8", "-o", "y.npy")
        wanted = (self.colours[..., ::-1] - np.array(means)) / np.array(deviations) * GAINS
        np.testing.assert_array_equal(np.load(self.folder / "y.npy")[0], wanted.transpose(2, 0, 1).astype(np.float32))
        wide = RANDOM.integers(0, 65536, (5, 6)).astype(np.uint16)
        self.save("wide.png", wide)
        self.gconv("wide.png", "-f", "cubic1.onnx", "--white", 65535, "-o", "w.npy")
        self.assertGreater(np.load(self.folder / "w.npy").max(), 30000)
        self.usage_error("the number that is white for a network, above 0", "c.png", "-f", "gains.onnx", "--white", 0, "-o", "y.png")
        self.assertIn("or --white 255", self.gconv("c.png", "-f", "gains.onnx", "--mean", 120, "-o", "y.png", status=1).stderr)

    def test_grey(self):
        """A grey picture goes three times through a network of colours, and comes back as grey."""
        grey = self.colours[..., 0]
        self.save("g.png", grey)
        self.save("ga.png", np.dstack([grey, self.colours[..., 1] | 1]))
        for words, gains_of in (((), GAINS), (("--order", "bgr"), GAINS[::-1])):
            made = self.apply("g.png", "-f", "gains.onnx", *words)
            self.assertEqual(made.shape, grey.shape)
            self.assertLessEqual(np.abs(made - grey * (GREY * gains_of).sum()).max(), 0.51)
        made = self.apply("ga.png", "-f", "gains.onnx")
        self.assertLessEqual(np.abs(made[..., 0] - grey * (GREY * GAINS).sum()).max(), 0.51)
        np.testing.assert_array_equal(made[..., 1], self.colours[..., 1] | 1)
        Image.fromarray(grey).save(self.folder / "g16.png")
        self.assertEqual(self.apply("g.png", "-f", "near.onnx").shape, (48, 60))

    def test_palette_and_bits(self):
        Image.fromarray(self.colours).quantize(16).save(self.folder / "p.png")
        made = self.apply("p.png", "-f", "near.onnx")
        np.testing.assert_array_equal(made[::2, ::2], np.asarray(Image.open(self.folder / "p.png").convert("RGB")))
        wide = RANDOM.integers(0, 65536, (9, 7)).astype(np.uint16)
        self.save("wide.png", wide)  # 16 bits come out as they went in
        self.gconv("wide.png", "-f", "near.onnx", "-o", "y.png", "--quiet")
        np.testing.assert_array_equal(np.asarray(Image.open(self.folder / "y.png"))[::2, 1::2], wide)

    def test_smaller(self):
        np.testing.assert_array_equal(self.apply("c.png", "-f", "half.onnx"), self.colours[::2, ::2])

    def test_rim(self):
        """An opaque disc on black that is transparent: its colour reaches its rim, and alpha is smooth."""
        y, x = np.mgrid[:40, :48]
        distance = np.hypot(y - 19.5, x - 23.5)
        pixels = np.zeros((40, 48, 4), np.uint8)
        pixels[..., 3] = (np.clip(12 - distance, 0, 1) * 255).astype(np.uint8)
        pixels[pixels[..., 3] > 0, :3] = (250, 200, 30)
        self.save("disc.png", pixels)
        for words in ((), ("--threads", 1)):
            made = self.apply("disc.png", "-f", "near.onnx", *words)
            self.assertEqual(made.shape, (80, 96, 4))
            seen = made[..., 3] > 0
            self.assertLessEqual(np.abs(made[seen][:, :3] - (250, 200, 30)).max(), 1)
            alpha = np.asarray(Image.fromarray(pixels[..., 3].astype(np.float32)).resize((96, 80), Image.BICUBIC)).clip(0, 255)
            self.assertLessEqual(np.abs(made[..., 3] - alpha).max(), 0.51)
        # by the network, as grey
        made = self.apply("disc.png", "-f", "near.onnx", "--alpha", "filter")
        np.testing.assert_array_equal(made[::2, 1::2, 3], pixels[..., 3])
        for network in ("near", "cubic1"):
            plain, blue_first = (self.apply("disc.png", "-f", f"{network}.onnx", "--alpha", "filter", "--order", order) for order in ("rgb", "bgr"))
            np.testing.assert_array_equal(plain, blue_first)
        made = self.apply("disc.png", "-f", "near.onnx", "--alpha", "drop")
        np.testing.assert_array_equal(made[::2, 1::2], pixels[..., :3])
        made = self.apply("disc.png", "-f", "cubic1.onnx", "--alpha", "filter")  # each channel by itself
        self.assertLessEqual(np.abs(made[..., 3] - alpha).max(), 0.51)
        made = self.apply("disc.png", "-f", "cubic1.onnx", "--luma")  # its colours, too, are not those of what is transparent
        self.assertLessEqual(np.abs(made[made[..., 3] > 0][:, :3] - (250, 200, 30)).max(), 1)
        self.assertEqual(self.apply("disc.png", "-f", "cubic1.onnx", "--luma", "--alpha", "drop").shape, (80, 96, 3))
        self.assertIn("premultiply is for filters", self.gconv("disc.png", "-f", "near.onnx", "--alpha", "premultiply", "-o", "z.png", status=(1, 2)).stderr)

    def test_same_size(self):
        """Alpha of a result of the same size is copied; opaque pixels do not see a difference."""
        alpha = RANDOM.integers(0, 2, (24, 30)).astype(np.uint8) * 255
        self.save("a.png", np.dstack([self.colours, alpha]))
        made = self.apply("a.png", "-f", "gains.onnx")
        np.testing.assert_array_equal(made[..., 3], alpha)
        opaque = alpha > 0
        self.assertLessEqual(np.abs(made[opaque][:, :3] - self.colours[opaque] * GAINS).max(), 0.5)

    def test_luma(self):
        """Brightness by the network, colours by cubic interpolation: with a network that is cubic, too, all is cubic."""
        smooth = np.asarray(Image.fromarray(self.colours[:6, :8]).resize((30, 24), Image.BICUBIC)) // 2 + 64
        self.save("s.png", smooth)
        each, luma = (self.apply("s.png", "-f", "cubic1.onnx", *words) for words in ((), ("--luma",)))
        self.assertEqual(luma.shape, (48, 60, 3))
        self.assertLessEqual(np.abs(each - luma)[4:-4, 4:-4].max(), 2)  # at the border, ONNX repeats pixels
        self.save("sa.png", np.dstack([smooth, np.full((24, 30), 255, np.uint8)]))
        with_alpha = self.apply("sa.png", "-f", "cubic1.onnx", "--luma")
        np.testing.assert_array_equal(with_alpha[..., :3], luma)
        self.assertTrue((with_alpha[..., 3] == 255).all())
        np.save(self.folder / "first.npy", smooth.transpose(2, 0, 1)[None])
        for image, network, words, said in (("c.png", "gains", (), "leave out --luma"), ("sa.png", "cubic1", ("--alpha", "filter"), "left out by --alpha drop"),
                                            ("c.png", "cubic1", ("--gray",), "choose one"), ("first.npy", "cubic1", (), "channels come first")):
            self.assertIn(said, self.gconv(image, "-f", f"{network}.onnx", "--luma", *words, "-o", "z.png", status=1).stderr)

    def test_made_anew(self):
        """--resume makes results anew if an option of networks changed."""
        two = [node("Mul", ["x", "g"], "a"), node("Add", ["x", "g"], "b")]
        (self.folder / "two.onnx").write_bytes(graph(two, {"x": np.zeros((1, 3, 4, 4), np.float32)}, outputs=["a", "b"],
                                                     constants={"g": np.array([0.5], np.float32)}, shapes={"x": ANY}))
        for network, option in (("gains", ("--white", 255)), ("gains", ("--order", "bgr")), ("cubic1", ("--luma",)), ("two", ("--output-name", "b"))):
            words = ("-i", "c.png", "-f", f"{network}.onnx", "--mean", 0.1, "-o", "out/{stem}.png", "--resume")
            said = [self.gconv(*words, *more).stderr for more in ((), (), option, option)]
            before = (self.folder / "out/c.png").read_bytes()
            self.assertIn("1 result was done, which is all", said[1])
            self.assertIn("taken up: 1 of other filters, options or another version", said[2], option)
            self.assertIn("1 result was done, which is all", said[3])
            self.gconv(*words)
            self.assertNotEqual((self.folder / "out/c.png").read_bytes(), before, option)

    def test_profile_and_resolution(self):
        """The profile of the colours, pixels per inch and other notes are kept; orientation is applied."""
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        exif = Image.Exif()
        exif[0x0112], exif[0x010E] = 6, "a label"
        with io.BytesIO() as jpeg:
            Image.fromarray(self.colours).save(jpeg, "JPEG", quality=95, exif=exif, dpi=(300, 300), icc_profile=profile)
            (self.folder / "p.jpg").write_bytes(jpeg.getvalue())
        for out in ("y.png", "y.jpg"):
            self.gconv("p.jpg", "-f", "near.onnx", "-o", out, "--quiet")
            with Image.open(self.folder / out) as image:
                self.assertEqual(image.size, (48, 60))
                self.assertEqual(image.info["icc_profile"], profile)
                self.assertAlmostEqual(image.info["dpi"][0], 300, delta=1)
                self.assertIn(image.getexif().get(0x0112, 1), (None, 1))
                self.assertEqual(image.getexif()[0x010E], "a label")

    def test_kept_in_a_file(self):
        """A network of gconv keeps white and the order of the colours."""
        convert = graph([node("Conv", ["x", "w"], "y")], {"x": np.zeros((1, 3, 4, 4), np.float32)},
                        constants={"w": np.diag(GAINS).reshape(3, 3, 1, 1).astype(np.float32)}, shapes={"x": ANY})
        (self.folder / "chain.onnx").write_bytes(convert)
        self.gconv("bank", "convert", "chain.onnx", "-o", "n.safetensors")
        data = (self.folder / "n.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        told = json.loads(header["__metadata__"]["gconv"]) | {"white": 255, "order": "bgr"}
        header["__metadata__"]["gconv"] = json.dumps(told)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (self.folder / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])
        self.assertLessEqual(np.abs(self.apply("c.png", "-f", "n.safetensors") - self.colours * GAINS).max(), 0.5)  # says nothing
        self.assertLessEqual(np.abs(self.apply("c.png", "-f", "m.safetensors") - self.colours * GAINS[::-1]).max(), 0.5)
        self.assertLessEqual(np.abs(self.apply("c.png", "-f", "m.safetensors", "--order", "rgb") - self.colours * GAINS).max(), 0.5)
        self.assertRegex(self.gconv("info", "m.safetensors").stdout, "(?s)white +255.*order +bgr")


if __name__ == "__main__":
    unittest.main()
