# SPDX-License-Identifier: MIT
"""Layers of all kinds on a GPU: means, residuals, softmax and sigmoids with a slope; held to float64, and to the CPU's bits."""
import pathlib
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV
from network_helper import Layer, NetworkTest, apply

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class Networks(NetworkTest):
    def check(self, layers, x, *options, channels=None):
        self.save("net.safetensors", layers, channels or x.shape[1])
        np.save(self.folder / "x.npy", x)
        for algorithm in ("auto", "direct"):
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "gpu.npy", "-d", "cuda", "-a", algorithm, "--verify", *options)
            if channels == 1:
                expected = np.stack([np.concatenate([apply(layers, c[None]) for c in image]) for image in x])
            else:
                expected = np.stack([apply(layers, image) for image in x])
            np.testing.assert_allclose(self.load("gpu.npy"), expected, rtol=0, atol=1e-4)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-o", "cpu.npy", "-d", "cpu", "-a", "direct", *options)
        self.assertEqual((self.folder / "gpu.npy").read_bytes(), (self.folder / "cpu.npy").read_bytes())

    def x(self, *shape):
        return self.random.normal(size=shape).astype("f4")

    def test_means(self):
        for height, width in ((1, 1), (16, 16), (3, 85), (16, 17), (211, 190)):
            self.check([self.conv(5, 3, 3, activation="relu"), Layer(kind="mean"), self.conv(4, 5, 1, activation="softmax")], self.x(3, 3, height, width))
        self.check([Layer(kind="mean")], self.x(2, 3, 40, 41))

    def test_residuals(self):
        self.check([self.conv(16, 3, 3, activation="relu"), self.conv(16, 16, 3, activation="relu"), self.conv(3, 16, 3), Layer(kind="residual")], self.x(2, 3, 33, 47))
        self.check([self.conv(2, 2, 3), Layer(kind="residual"), self.conv(2, 2, 2, activation="tanh"), Layer(kind="residual"), self.conv(1, 2, 1)], self.x(1, 2, 8, 9))
        self.check([Layer(kind="residual"), self.conv(2, 2, 1)], self.x(1, 2, 3, 4))

    def test_softmax_and_sigmoid(self):
        for keys in ({"activation": "softmax"}, {"activation": "sigmoid", "slope": 2.5}, {"activation": "sigmoid"}):
            for filters, channels, taps in ((5, 3, 3), (64, 32, 3), (33, 16, 1)):
                self.check([self.conv(filters, channels, taps, **keys), self.conv(7, filters, 1, **keys)], self.x(2, channels, 31, 37))

    def test_one_channel(self):
        layers = [self.conv(16, 1, 3, activation="relu"), self.conv(1, 16, 3), Layer(kind="residual")]
        self.check(layers, self.x(3, 3, 17, 29), channels=1)

    def test_pictures_by_rows(self):
        self.save("net.safetensors", [self.conv(8, 1, 3, scale=0.2, activation="sigmoid", slope=2), self.conv(8, 8, 3, activation="softmax"),
                                      self.conv(1, 8, 2, 5, scale=0.2), Layer(kind="residual")], 1)
        self.photo("a.png", 400, 900, channels=4)
        self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "cpu.png", "-a", "direct", "-d", "cpu")
        for memory in ((), ("--memory", "26M")):
            self.gconv("-i", "a.png", "-f", "net.safetensors", "-o", "gpu.png", "-a", "direct", "-d", "cuda", *memory)
            np.testing.assert_array_equal(self.pixels("gpu.png"), self.pixels("cpu.png"))

    def test_windows(self):
        self.save("net.safetensors", [self.conv(20, 1, 1, 50, activation="sigmoid"), self.conv(3, 20, 1, activation="tanh")], 1)
        np.save(self.folder / "x.npy", self.x(10007))
        results = []
        for device in ("cpu", "cuda"):
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "--windows", "50:10", "-o", f"{device}.npy", "-a", "direct", "-d", device)
            results.append((self.folder / f"{device}.npy").read_bytes())
        self.assertEqual(*results)


if __name__ == "__main__":
    if not has_gpu():
        sys.exit(SKIPPED)
    unittest.main()
