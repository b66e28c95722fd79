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

    def check_kept(self, layers, x, *options, kept=None, channels=None):
        """Tensors between layers are float16 or bfloat16, and results are within what these round."""
        self.save("net.safetensors", layers, channels or x.shape[1])
        np.save(self.folder / "x.npy", x)
        words = ("-i", "x.npy", "-f", "net.safetensors", "-d", "cuda", *options)
        expected = np.stack([apply(layers, image) for image in x])
        for math, name, tolerance in (("fp16", "float16", 2e-3), ("bf16", "bfloat16", 1.6e-2)):
            said = self.gconv(*words, "-o", "gpu.npy", "--math", math, "--explain")
            said = said.stdout + said.stderr
            self.assertEqual(said.count(f"{name} between layers"), len(layers) if kept is None else kept, said)
            self.gconv(*words, "-o", "gpu.npy", "--math", math, "--verify")
            np.testing.assert_allclose(self.load("gpu.npy"), expected, rtol=0, atol=tolerance * np.abs(expected).max())

    def test_kept_tensors(self):
        if not self.keeps():
            self.skipTest("this GPU is no Hopper")
        conv = lambda *words, **keys: self.conv(*words, scale=0.7 / np.sqrt(words[1] * words[2] ** 2), **keys)  # noqa: E731
        for shape in ((1, 1, 37, 45), (2, 3, 64, 61), (3, 5, 16, 16)):
            c = shape[1]
            self.check_kept([conv(64, c, 3, activation="relu"), conv(64, 64, 3, activation="relu"), conv(1, 64, 3)], self.x(*shape))
            self.check_kept([conv(56, c, 5, activation="leaky", slope=0.2), conv(12, 56, 1, activation="relu"),
                             conv(20, 12, 3, activation="leaky", slope=-0.5), conv(70, 20, 1)], self.x(*shape))
        self.check_kept([conv(24, 3, 3, activation="relu"), conv(3, 24, 3), Layer(kind="residual")], self.x(1, 3, 40, 33), kept=2)
        self.check_kept([conv(24, 3, 3, activation="tanh"), conv(16, 24, 3), conv(5, 16, 3, stride=2)], self.x(2, 3, 40, 33), kept=2)
        self.check_kept([conv(3, 3, 7), Layer(kind="residual"), conv(4, 3, 3)], self.x(1, 3, 20, 20), kept=0)
        # Weights that pass through shared memory, channels in chunks, and tiles of several images.
        self.check_kept([conv(150, 72, 3, activation="relu"), conv(520, 150, 3, stride=2), conv(40, 520, 3, activation="leaky", slope=0.3), conv(2, 40, 1)],
                        self.x(5, 72, 13, 11))
        self.check_kept([conv(10, 4, 31), conv(70, 10, 15, activation="relu"), conv(3, 70, 5, stride=3)], self.x(3, 4, 70, 45))

    def test_sums_are_whole(self):
        """Tensor cores cut sums off towards 0: without a remedy, an H200 made such sums 3.9e-7 too small by gemm-3xfp16."""
        x, layer = np.maximum(self.x(1, 256, 24, 26), 0), self.conv(64, 256, 3)
        layer.bias = np.zeros_like(layer.bias)
        self.save("net.safetensors", [layer], 256)
        np.save(self.folder / "x.npy", x)
        expected = apply([layer], x[0])[None]
        for algorithm, most in (("gemm-3xfp16", 1.5e-7), ("gemm-split", 5e-7)) if self.keeps() else ():
            self.gconv("-i", "x.npy", "-f", "net.safetensors", "-d", "cuda", "-a", algorithm, "-o", "y.npy")
            self.assertLess(np.abs(((self.load("y.npy") - expected) * expected).sum() / (expected ** 2).sum()), most, algorithm)

    def test_numbers_beyond_float16(self):
        """They become infinite, which is told; bfloat16 has room for them."""
        if not self.keeps():
            self.skipTest("this GPU is no Hopper")
        x = np.abs(self.x(1, 16, 20, 40))
        self.save("net.safetensors", [self.conv(16, 16, 3, scale=1e4), self.conv(3, 16, 3)], 16)
        for math, scale, told in (("fp16", 1, True), ("fp16", 1e-4, False), ("bf16", 1, False)):
            np.save(self.folder / "x.npy", (x * scale).astype("f4"))
            made = self.gconv("-i", "x.npy", "-f", "net.safetensors", "-d", "cuda", "--math", math, "-o", "y.npy")
            self.assertEqual("beyond 65504" in made.stderr, told, (math, scale, made.stderr))
            self.assertEqual(not np.isfinite(self.load("y.npy")).all(), told)

    def keeps(self):
        np.save(self.folder / "one.npy", np.ones((1, 1, 1, 1), "f4"))
        words = ["-i", "one.npy", "-f", "./one.npy", "-d", "cuda", "-a", "gemm-half", "--math", "fp16", "-o", "out.npy"]
        result = subprocess.run([GCONV, *words], cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, text=True, check=False)
        return "compute capability 9.0" not in result.stderr

    def test_far_taps(self):
        """A tap 30,000 rows of 2^17 samples away: gemm-split counts such places in 32 bits, and leaves the layer to others."""
        x, layer = self.x(1, 1, 2, 1 << 17), self.conv(1, 1, 2, 1, dilation=30000, padding=[30000, 0, 0, 0])
        self.save("net.safetensors", [layer], 1)
        np.save(self.folder / "x.npy", x)
        self.gconv("-i", "x.npy", "-f", "net.safetensors", "-d", "cuda", "-o", "y.npy")
        np.testing.assert_allclose(self.load("y.npy"), layer.weight[0, 0, 1, 0] * x + layer.bias[0], rtol=0, atol=1e-5)
        if self.keeps():
            made = self.gconv("-i", "x.npy", "-f", "net.safetensors", "-d", "cuda", "-a", "gemm-split", "-o", "y.npy", status=1)
            self.assertIn("filters or images too large", made.stderr)

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
