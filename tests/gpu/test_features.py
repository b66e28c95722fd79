# SPDX-License-Identifier: MIT
"""Features of pixels, and the classifiers behind them, on a GPU: the bytes of the CPU's."""
import os
import subprocess
import sys
import unittest

import numpy as np
from PIL import Image
from test_networks import SKIPPED, has_gpu
from helper import CommandTest  # test_networks has told Python where this is

FEATURES = os.environ["GCONV_FEATURES"]
ALL = ("gaussian 0.3 1.6 5, log 1 5, gradient 1.6 5, dog 1 5, structure 1 5, hessian 1.6, intensity 0.3 1 5, edges 1 5, texture 1 5, "
       "gaussian 5, structure 1")  # two of them twice


class Features(CommandTest):
    def draw(self, height, width, dtype="u1", channels=1, seed=0):
        random = np.random.default_rng(seed)
        shape = (height, width, channels) if channels > 1 else (height, width)
        return random.random(shape, "f4") if dtype == "f4" else random.integers(0, np.iinfo(dtype).max + 1, shape, dtype)

    def save(self, name, image):
        if image.dtype == np.float32:
            np.save(self.folder / name, image)
        elif image.dtype == np.uint16 and image.ndim == 3:
            head = f"P6\n{image.shape[1]} {image.shape[0]}\n65535\n".encode()
            (self.folder / name).write_bytes(head + image.astype(">u2").tobytes())
        else:
            Image.fromarray(image).save(self.folder / name)

    def features(self, device, name, text, channels, **env):
        out = self.folder / f"{device}.npy"
        out.unlink(missing_ok=True)
        subprocess.run([FEATURES, self.folder / name, text, out, str(channels)], env={**os.environ, "DEVICE": device, **env}, check=True)
        return out.read_bytes()

    def check(self, name, text, channels=0, **env):
        with self.subTest(image=name, features=text, channels=channels, **env):
            cpu = self.features("cpu", name, text, channels)
            self.assertTrue(cpu == self.features("cuda", name, text, channels, **env), "the features differ")
            self.assertGreater(np.load(self.folder / "cpu.npy").std(), 0)

    def test_shapes(self):
        """Tiles end within, halos are larger than images, and rows are of any length."""
        for height, width in ((97, 610), (33, 40), (5, 3), (1, 19), (2, 2), (70, 512), (64, 513), (40, 1030), (3, 700), (200, 5)):
            self.save("i.png", self.draw(height, width))
            self.check("i.png", ALL)

    def test_samples(self):
        for name, dtype, channels in (("i.png", "u1", 3), ("i.png", "u1", 4), ("i.png", "u2", 1), ("i.ppm", "u2", 3), ("i.npy", "f4", 1)):
            self.save(name, self.draw(60, 70, dtype, channels))
            for wanted in (0, 1, 3) if dtype != "f4" else (0,):
                self.check(name, ALL, wanted)

    def test_sets_and_largest_sigmas(self):
        self.save("i.png", self.draw(150, 700))
        for text in ("default", "ilastik", "skimage", "gaussian 64, hessian 64, structure 64, dog 64, texture 64"):
            self.check("i.png", text)

    def test_bands(self):
        """Bands of some rows, and those of a large image; many launches."""
        self.save("i.png", self.draw(150, 530))
        for rows in (32, 64, 96):
            self.check("i.png", ALL, ROWS=str(rows))
        self.save("i.png", self.draw(2500, 3000))
        self.check("i.png", "default, skimage")


class Maps(Features):
    def setUp(self):
        super().setUp()
        (self.folder / "in").mkdir()
        for i, (height, width) in enumerate(((300, 400), (300, 400), (131, 517), (1, 1))):
            self.save(f"in/{i}.png", self.draw(height, width, seed=i))
        mask = np.zeros((300, 400), np.uint8)
        mask[:, ::7], mask[:, ::11] = 1, 2
        mask[::13], mask[::17] = 3, 0
        self.save("mask.png", mask)

    def compare(self, model, *options, ext="png"):
        for device in ("cpu", "cuda"):
            self.gconv("classify", "-q", model, "-i", "in", "-o", f"{device}/{{stem}}.{ext}", "-d", device, *options)
        for i in range(len(list((self.folder / "in").iterdir()))):
            cpu, cuda = ((self.folder / f"{device}/{i}.{ext}").read_bytes() for device in ("cpu", "cuda"))
            self.assertTrue(cpu == cuda, f"the maps of image {i} differ")
        if ext == "png":
            self.assertGreater(len(np.unique(np.asarray(Image.open(self.folder / "cuda/0.png")))), 1)

    def test_networks(self):
        for features, net in (("default", "dense 64 relu, dense 3 softmax"), ("gaussian 1 2, texture 3, structure 1", "dense 9 tanh, dense 8, dense 3 softmax")):
            self.gconv("train", "-q", "-i", "in/0.png", "-t", "mask.png", "--features", features, "--net", net, "--epochs", "1", "-o", "p.safetensors")
            self.compare("p.safetensors")
            self.compare("p.safetensors", "--probabilities", ext="npy")
        self.save("in/4.png", self.draw(1400, 5000))  # two bands of 49 features
        self.gconv("train", "-q", "-i", "in/0.png", "-t", "mask.png", "--features", "ilastik", "--net", "dense 20 relu, dense 3 softmax", "--epochs", "1", "-o",
                   "i.safetensors")
        self.compare("i.safetensors")
        text = self.gconv("classify", "-q", "p.safetensors", "-i", "in/0.png", "-o", "x.png", "-d", "cuda", "--explain").stderr
        self.assertIn("one kernel, pointwise", text)

    def test_networks_that_are_no_one_kernel(self):
        net = "dense 1000 relu, dense 3 softmax"
        self.gconv("train", "-q", "-i", "in/0.png", "-t", "mask.png", "--features", "gaussian 1 2", "--net", net, "--epochs", "1", "-o", "p.safetensors")
        for device in ("cpu", "cuda"):
            self.gconv("classify", "-q", "p.safetensors", "-i", "in", "-o", f"{device}/", "-d", device)
        for i in (0, 2):  # tensor cores round in another way
            cpu, cuda = (np.asarray(Image.open(self.folder / f"{device}/{i}.png")) for device in ("cpu", "cuda"))
            self.assertLess((cpu != cuda).mean(), 1e-4)

    def test_machines(self):
        """Support vector machines over features: votes, and probabilities."""
        for words in ((), ("-b",), ("-k", "linear"), ("-c", "100000")):  # the last two are float64's
            self.gconv("svm", "-q", "in/0.png", "mask.png", "--features", "gaussian 1 3, hessian 2", "--samples", "600", "-o", "p.model", *words)
            self.compare("p.model")
        self.gconv("svm", "-q", "in/0.png", "mask.png", "--features", "gaussian 1 3", "--samples", "300", "-b", "-o", "p.model")
        self.compare("p.model", "--probabilities", ext="npy")


if __name__ == "__main__":
    if not has_gpu():
        print("no GPU: skipped")
        sys.exit(SKIPPED)
    unittest.main()
