# SPDX-License-Identifier: MIT
"""Networks from the command line: a file of a whole chain of layers as a filter, against numpy in float64."""
import json
import unittest

import numpy as np
from network_helper import Layer, NetworkTest, apply
from PIL import Image

WHITE = {"u1": 255, "u2": 65535, "f4": 1}


class Numbers(NetworkTest):
    """What a network makes of arrays."""

    def check(self, layers, x, mean=None, std=None, *options, height=0, width=0, channels=None, atol=2e-5):
        """x: N x C x H x W as file samples. The same whole, by rows where that can be, and verified."""
        keys = {key: value for key, value in (("mean", mean), ("std", std)) if value is not None}
        self.save("net.safetensors", layers, channels or x.shape[1], height, width, **keys)
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--verify", *options)
        white = WHITE[x.dtype.str[1:]]
        if channels == 1:
            expected = np.stack([np.concatenate([apply(layers, c[None] / white, mean or 0, std or 1) for c in image]) for image in x])
        else:
            expected = np.stack([apply(layers, image / white, mean or 0, std or 1) for image in x])
        got = self.load("y.npy")
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=0, atol=atol)
        self.assertGreater(np.abs(expected).max(), 1e-3)
        return got

    def x(self, *shape, dtype="f4"):
        if dtype == "f4":
            return self.random.normal(size=shape).astype("f4")
        return self.random.integers(0, WHITE[dtype] + 1, shape).astype(dtype)

    def test_activations(self):
        for name, slope in (("none", 0), ("relu", 0), ("leaky", 0.2), ("sigmoid", 0), ("sigmoid", 2.5), ("tanh", 0), ("softmax", 0)):
            with self.subTest(name, slope=slope):
                keys = {"activation": name, **({"slope": slope} if slope else {})}
                self.check([self.conv(5, 3, 3, scale=1, **keys), self.conv(2, 5, 1, **keys)], self.x(2, 3, 7, 9))

    def test_softmax_of_large_values_does_not_overflow(self):
        layers = [Layer(np.array([300, -300, 299, 0], "f4").reshape(4, 1, 1, 1), activation="softmax")]
        got = self.check(layers, self.x(1, 1, 4, 5))
        np.testing.assert_allclose(got.sum(axis=1), 1, rtol=0, atol=1e-6)

    def test_softmax_of_one_output_is_1(self):
        self.check([self.conv(1, 2, 3, activation="softmax")], self.x(1, 2, 3, 3))

    def test_mean_of_any_size(self):
        for height, width in ((1, 1), (1, 5), (16, 16), (3, 85), (16, 17), (67, 61)):
            with self.subTest(f"{height} x {width}"):
                self.check([self.conv(4, 3, 3, activation="relu"), Layer(kind="mean"), self.conv(3, 4, 1, activation="softmax")], self.x(2, 3, height, width))

    def test_mean_first(self):
        self.check([Layer(kind="mean")], self.x(2, 3, 5, 4))

    def test_mean_of_large_numbers_is_not_lost(self):
        x = (self.x(1, 2, 300, 301) + 1000).astype("f4")
        self.save("net.safetensors", [Layer(kind="mean")], 2)
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--verify")
        np.testing.assert_allclose(self.load("y.npy")[..., 0, 0], x.astype("f8").mean(axis=(2, 3)), rtol=1e-7)

    def test_residual(self):
        layers = [self.conv(6, 3, 3, activation="relu"), self.conv(3, 6, 3), Layer(kind="residual")]
        for height, width in ((1, 1), (1, 9), (12, 7)):
            with self.subTest(f"{height} x {width}"):
                self.check(layers, self.x(2, 3, height, width))

    def test_residual_adds_the_normalised_input(self):
        layers = [self.conv(3, 3, 3), Layer(kind="residual")]
        self.check(layers, self.x(1, 3, 6, 5, dtype="u1"), [0.1, 0.2, 0.3], [0.5, 0.25, 2])

    def test_residual_in_the_middle_and_twice(self):
        self.check([self.conv(2, 2, 3), Layer(kind="residual"), self.conv(2, 2, 2, activation="tanh"), Layer(kind="residual"), self.conv(1, 2, 1)], self.x(1, 2, 8, 9))

    def test_residual_first_doubles(self):
        self.check([Layer(kind="residual"), self.conv(2, 2, 1)], self.x(1, 2, 3, 4))

    def test_geometry(self):
        geometries = [dict(stride=2), dict(stride=[1, 3], dilation=2), dict(padding="valid"), dict(padding="full"), dict(padding="same_upper", stride=2),
                      dict(padding="same_lower", stride=[2, 1]), dict(padding=[2, 0, 1, 3]), dict(groups=2), dict(groups=4, stride=2), dict(flip=True)]
        for keys in geometries:
            for taps in ((3, 3), (2, 5)):
                with self.subTest(**keys, taps=taps):
                    c = 4 // keys.get("groups", 1)
                    self.check([self.conv(4, c, *taps, activation="relu", **keys), self.conv(3, 4, 2, 2)], self.x(2, 4, 11, 10))

    def test_types(self):
        layers = [self.conv(4, 2, 3, activation="tanh"), self.conv(2, 4, 3), Layer(kind="residual")]
        for dtype in WHITE:
            with self.subTest(dtype):
                self.check(layers, self.x(2, 2, 9, 8, dtype=dtype))

    def test_mean_and_std_of_the_file_unless_given(self):
        layers = self.save("net.safetensors", [self.conv(2, 3, 3)], 3, mean=[0.5], std=[0.1, 0.2, 0.3])
        x = self.x(1, 3, 5, 6, dtype="u1")
        np.save(self.folder / "x.npy", x)
        for options, mean, std in (((), 0.5, [0.1, 0.2, 0.3]), (("--mean", "0.25"), 0.25, [0.1, 0.2, 0.3]), (("--std", "2"), 0.5, 2)):
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", *options)
            np.testing.assert_allclose(self.load("y.npy")[0], apply(layers, x[0] / 255, mean, std), rtol=0, atol=2e-5)

    def test_a_dense_layer_is_as_large_as_the_image(self):
        layers = [self.conv(4, 2, 3, activation="relu"), self.conv(7, 4, 6, 5, padding="valid", activation="tanh"), self.conv(3, 7, 1, activation="softmax")]
        self.check(layers, self.x(3, 2, 6, 5), height=6, width=5)

    def test_one_channel_takes_each_channel_by_itself(self):
        layers = [self.conv(6, 1, 3, activation="relu"), self.conv(4, 6, 3, activation="softmax"), self.conv(1, 4, 3), Layer(kind="residual")]
        self.check(layers, self.x(2, 3, 7, 5), [0.2], [0.5], channels=1)

    def test_one_channel_to_several_outputs_and_a_mean(self):
        self.check([self.conv(6, 1, 3, activation="relu"), self.conv(2, 6, 1)], self.x(2, 3, 7, 5), channels=1)
        self.check([self.conv(6, 1, 3, activation="relu"), Layer(kind="mean"), self.conv(2, 6, 1)], self.x(2, 5, 7, 5), channels=1)

    def test_combinations(self):
        layers = self.save("net.safetensors", [self.conv(4, 3, 3, activation="relu"), self.conv(5, 4, 3)], 3)
        x = self.x(1, 3, 8, 9)
        np.save(self.folder / "x.npy", x)
        y = apply(layers, x[0])
        for how, expected in (("sum", y.sum(0)), ("max", y.max(0)), ("argmax", y.argmax(0))):
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--combine", how, "--verify")
            np.testing.assert_allclose(self.load("y.npy")[0, 0], expected, rtol=0, atol=3e-5)

    def test_threads_and_batches_change_nothing(self):
        self.save("net.safetensors", [self.conv(8, 2, 3, activation="sigmoid", slope=0.5), Layer(kind="mean"), self.conv(3, 8, 1, activation="softmax")], 2)
        np.save(self.folder / "x.npy", self.x(5, 2, 40, 33))
        results = []
        for threads, workspace in ((1, "256M"), (4, "256M"), (3, "300k")):
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "y.npy", "--threads", threads, "--workspace", workspace, "-a", "direct")
            results.append((self.folder / "y.npy").read_bytes())
        self.assertEqual(len(set(results)), 1)


class Pictures(NetworkTest):
    """What a network makes of photos."""

    def denoiser(self, name="net.safetensors", channels=3, **keys):
        layers = [self.conv(4, channels, 3, scale=0.2, activation="relu"), self.conv(channels, 4, 3, scale=0.1), Layer(kind="residual")]
        return self.save(name, layers, channels, **keys)

    def expected(self, layers, pixels, white=255):
        planes = np.moveaxis(np.atleast_3d(pixels), -1, 0) / white
        one = layers[0].weight is not None and layers[0].weight.shape[1] == 1
        y = np.concatenate([apply(layers, plane[None]) for plane in planes]) if one else apply(layers, planes)
        return np.squeeze(np.moveaxis(np.clip(y, 0, 1) * white, 0, -1))

    def assert_rounded(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        self.assertLessEqual(np.abs(got - expected).max(), 0.51)
        self.assertGreater(got.std(), 1)

    def test_an_image_becomes_one_like_it(self):
        layers, pixels = self.denoiser(), self.photo("in/a.png", 23, 17)
        self.gconv("-i", "in/", "-f", "net.safetensors", "-o", "out/", "--verify")
        self.assertEqual(self.files("out"), ["a.png"])
        self.assert_rounded(self.pixels("out/a.png"), self.expected(layers, pixels))

    def test_a_network_of_one_channel(self):
        layers = self.denoiser(channels=1)
        for channels in (1, 3):
            pixels = self.photo("a.png", 19, 11, channels=channels)
            self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png", "--verify")
            self.assert_rounded(self.pixels("b.png"), self.expected(layers, pixels))

    def test_alpha_is_kept(self):
        for channels in (1, 3):
            layers, pixels = self.denoiser(channels=channels), np.maximum(self.photo("a.png", 9, 12, channels=4), 1)
            Image.fromarray(pixels).save(self.folder / "a.png")  # no pixel is transparent: those would get colours of others
            self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png", "--verify")
            got = self.pixels("b.png")
            self.assert_rounded(got[..., :3], self.expected(layers, pixels[..., :3]))
            np.testing.assert_array_equal(got[..., 3], pixels[..., 3])

    def test_alpha_of_a_network_of_four_channels_is_a_channel(self):
        layers, pixels = self.denoiser(channels=4), self.photo("a.png", 9, 12, channels=4)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png")
        self.assert_rounded(self.pixels("b.png"), self.expected(layers, pixels))

    def test_depths(self):
        layers = self.denoiser(channels=1)
        deep = self.random.integers(0, 65536, (14, 10)).astype("u2")
        Image.fromarray(deep).save(self.folder / "a.png")
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png")
        got = self.pixels("b.png")
        self.assertLessEqual(np.abs(got - self.expected(layers, deep, 65535)).max(), 1)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png", "--depth", "8")
        self.assertLessEqual(np.abs(self.pixels("b.png") - self.expected(layers, deep, 65535) / 257).max(), 0.51)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.pfm", "--depth", "float")
        raw = np.frombuffer((self.folder / "b.pfm").read_bytes()[-4 * deep.size:], "<f4").reshape(deep.shape)[::-1]
        np.testing.assert_allclose(raw, apply(layers, deep[None] / 65535)[0], rtol=0, atol=2e-6)

    def test_by_rows(self):
        layers = [self.conv(8, 1, 3, scale=0.2, activation="sigmoid", slope=2), self.conv(8, 8, 3, activation="softmax"), self.conv(1, 8, 2, 5, scale=0.2), Layer(kind="residual")]
        self.save("net.safetensors", layers, 1)
        pixels = np.maximum(self.photo("a.png", 400, 900, channels=4), 1)
        Image.fromarray(pixels).save(self.folder / "a.png")
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png", "-a", "direct")
        result = self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "c.png", "-a", "direct", "--memory", "26M", "--verbose", "--explain")
        self.assertIn("by rows:", result.stdout + result.stderr)
        np.testing.assert_array_equal(self.pixels("b.png"), self.pixels("c.png"))
        self.assert_rounded(self.pixels("b.png")[..., :3], self.expected(layers, pixels[..., :3]))

    def test_a_mean_cannot_go_by_rows(self):
        self.save("net.safetensors", [self.conv(8, 3, 3), Layer(kind="mean")], 3)
        self.photo("a.png", 700, 900)
        result = self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.npy", "--memory", "24M", status=1)
        self.assertIn("--memory allows", result.stderr)
        self.assertEqual(self.files(), ["a.png", "net.safetensors"])

    def test_several_images_keep_their_metadata(self):
        self.denoiser()
        for i in range(3):
            pixels = self.photo("plain.png", 12, 9, seed=i)
            exif = Image.Exif()
            exif[0x010E] = f"number {i}"
            Image.fromarray(pixels).save(self.folder / f"{i}.png", exif=exif)
        self.gconv("-i", "0.png", "-i", "1.png", "-i", "2.png", "-f", "net.safetensors", "-o", "out/")
        for i in range(3):
            with Image.open(self.folder / f"out/{i}.png") as image:
                self.assertEqual(image.getexif().get(0x010E), f"number {i}")

    def test_chains(self):
        layers, pixels = self.denoiser(), self.photo("a.png", 21, 15)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "--then", "-f", "identity", "-o", "b.png", "--verify")
        self.assert_rounded(self.pixels("b.png"), self.expected(layers, pixels))
        self.gconv("-i", "a.png", "-f", "identity", "--then", "-f", "net.safetensors", "-o", "b.png", "--verify")
        self.assert_rounded(self.pixels("b.png"), self.expected(layers, pixels))
        self.gconv("-i", "a.png", "-f", "net.safetensors", "--then", "-f", "net.safetensors", "-o", "b.png", "--verify")
        once = np.moveaxis(apply(layers, np.moveaxis(pixels, -1, 0) / 255), 0, -1)
        self.assert_rounded(self.pixels("b.png"), self.expected(layers, once, 1) * 255)

    def test_region(self):
        layers, pixels = self.denoiser(), self.photo("a.png", 21, 15)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "--region", "8x7+5+4", "-o", "b.png", "--verify")
        got, inside = self.pixels("b.png"), np.s_[4:11, 5:13]
        self.assert_rounded(got[inside], self.expected(layers, pixels)[inside])
        got[inside] = pixels[inside]
        np.testing.assert_array_equal(got, pixels)

    def test_same_format(self):
        self.denoiser()
        Image.fromarray(self.photo("a.png", 16, 16)).save(self.folder / "a.jpg", quality=95)
        self.gconv("-i", "a.jpg", "-f", "net.safetensors", "-o", "out/", "--format", "same")
        self.assertEqual(self.files("out"), ["a.jpg"])

    def test_classes_of_pixels_become_colours(self):
        layers = self.save("net.safetensors", [self.conv(4, 3, 3, scale=1)], 3, classes=["sky", "sea", "sand", "sun"])
        pixels = self.photo("a.png", 14, 9)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.png")
        labels, colours = apply(layers, np.moveaxis(pixels, -1, 0) / 255).argmax(0), self.pixels("b.png")
        self.assertEqual(len(np.unique(colours.reshape(-1, 3), axis=0)), len(np.unique(labels)))
        for label in np.unique(labels):
            self.assertEqual(len(np.unique(colours[labels == label], axis=0)), 1)

    def test_maps_have_the_names_of_classes_or_numbers(self):
        self.save("net.safetensors", [self.conv(2, 3, 3)], 3, classes=["sky", "sea"])
        self.photo("a.png")
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "out/", "--combine", "none")
        self.assertEqual(self.files("out"), ["a_sea.png", "a_sky.png"])

    def test_numbers_are_no_pictures(self):
        self.save("net.safetensors", [self.conv(2, 3, 3), Layer(kind="mean")], 3, classes=["cat", "dog"])
        self.photo("a.png")
        self.usage_error("gconv classify", "-i", "a.png", "-f", "net.safetensors", "-o", "b.png")
        self.save("net.safetensors", [self.conv(2, 3, 3), Layer(kind="mean")], 3)
        self.usage_error("makes numbers of an image, and no picture", "-i", "a.png", "-f", "net.safetensors", "-o", "b.png")

    def test_resume_knows_the_network(self):
        self.denoiser()
        self.photo("in/a.png")
        words = ("-i", "in/", "-f", "net.safetensors", "-o", "out/", "--resume")
        self.gconv(*words)
        self.assertIn("1 result was done", self.gconv(*words).stderr)
        self.denoiser()  # other weights
        self.assertIn("1 of other filters", self.gconv(*words).stderr)


class Info(NetworkTest):
    def test_layers_are_listed(self):
        self.save("net.safetensors", [self.conv(8, 3, 5, stride=2, activation="leaky", slope=0.1), self.conv(4, 8, 3, padding="valid", activation="relu"),
                                      Layer(kind="mean"), self.conv(2, 4, 1, activation="softmax")], 3, mean=[0.5],
                  classes=["cat", "d\x1bog"], loss="cross-entropy", trained={"epochs": 3, "by": "so\x1bme"})
        for command in (("info",), ("bank", "info")):
            text = self.gconv(*command, "net.safetensors").stdout
            for line in ("net.safetensors: network, 4 layers, 910 parameters", "any size; shapes here are for 256 x 256", "8 x 3 x 5 x 5", "3 x 256 x 256 -> 8 x 128 x 128",
                         "leaky 0.1", "stride 2,2", "8 x 128 x 128 -> 4 x 126 x 126", "4 x 126 x 126 -> 4 x 1 x 1", "classes     2: cat, d?og", "loss        cross-entropy",
                         'trained     weights of epoch 3; by "so\\u001Bme"\n'):
                self.assertIn(line, text)
        files = json.loads(self.gconv("bank", "info", "net.safetensors", "--json").stdout)
        network = files[0]["network"]
        self.assertEqual(network["parameters"], 910)
        self.assertEqual([layer["kind"] for layer in network["layers"]], ["conv", "conv", "mean", "dense"])
        self.assertEqual(network["layers"][1]["output"], [4, 126, 126])
        self.assertEqual((network["classes"][0], network["loss"], network["trained"]), ("cat", "cross-entropy", {"epochs": 3, "by": "so\x1bme"}))
        self.assertEqual(len(files[0]["entries"]), 6)

    def test_a_size_that_fits_no_image_is_no_error(self):
        self.save("net.safetensors", [self.conv(1, 1, 3), self.conv(1, 1, 300, padding="valid")], 1)
        self.assertIn("? -> ?", self.gconv("info", "net.safetensors").stdout)


class Refusals(NetworkTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png")
        self.save("net.safetensors", [self.conv(3, 3, 3)], 3)

    def refuse(self, fragment, *words):
        self.usage_error(fragment, "-i", "a.png", "-o", "b.png", *words)

    def test_options_of_layers(self):
        for option, value in (("--stride", "2"), ("--padding", "valid"), ("--activation", "relu"), ("--groups", "3"), ("--dilation", "2")):
            self.refuse(f"{option}: net.safetensors is a network", "-f", "net.safetensors", option, value)

    def test_a_layer_by_its_name_is_a_bank(self):
        self.gconv("-i", "a.png", "-f", "net.safetensors:l0", "-o", "b.npy", "--stride", "2")
        self.assertEqual(self.load("b.npy").shape, (1, 3, 7, 9))

    def test_a_bank_beside_a_network(self):
        self.refuse("a bank beside a network", "-f", "net.safetensors", "--then", "-f", "gabor_bank")

    def test_channels_that_do_not_fit(self):
        np.save(self.folder / "two.npy", np.ones((1, 2, 9, 8), "f4"))
        result = self.gconv("-i", "two.npy", "-f", "net.safetensors", "-o", "b.npy", status=1)
        self.assertIn("takes 3 channels, and gets 2", result.stderr)

    def test_a_residual_of_another_size(self):
        self.save("net.safetensors", [self.conv(3, 3, 3, padding="valid"), Layer(kind="residual")], 3)
        result = self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "b.npy", status=1)
        self.assertIn("layer 2: residual adds the input of 3 x 13 x 17", result.stderr)

    def test_files_that_lie(self):
        whole = (self.folder / "net.safetensors").read_bytes()
        for name, raw, fragment in (("cut", whole[:-5], "was it downloaded completely?"), ("kind", whole.replace(b'\\"conv\\"', b'\\"lstm\\"'), "kind is 'lstm'"),
                                    ("version", whole.replace(b'\\"version\\": 1', b'\\"version\\": 7'), "a network of version 7")):
            with self.subTest(name):
                (self.folder / "bad.safetensors").write_bytes(raw)
                self.refuse(fragment, "-f", "bad.safetensors")

    def test_info_of_geometry_with_as_many_digits_as_can_be(self):
        most = 2 ** 31 - 1
        self.save("n.safetensors", [Layer(np.zeros((65536, 1, 1, 1)), stride=most, dilation=most, groups=65536, padding="same_upper")], 65536)
        self.assertIn(f" stride {most},{most} dilation {most},{most} groups 65536 same_upper\n", self.gconv("info", "n.safetensors").stdout)

    def test_info_lists_some_of_many_means(self):
        self.save("n.safetensors", [self.conv(2, 40, 1)], 40, mean=[0.5] * 40, std=[2] * 40)
        self.assertRegex(self.gconv("info", "n.safetensors").stdout, r"\n  mean       ( 0\.5){16} \.\.\.\n  std        ( 2){16} \.\.\.\n")


if __name__ == "__main__":
    unittest.main()
