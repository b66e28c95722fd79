# SPDX-License-Identifier: MIT
"""What the tests of banks share: a bank, a photo, and what a convolution of them is."""
import numpy as np
from helper import CommandTest


def correlate(x, weights, biases, stride=1, pad=None):
    """One image C x H x W through K x C x R x S, in float64, with zeros outside; pad None: same."""
    k, c, r, s = weights.shape
    pad = (r // 2, s // 2) if pad is None else (pad, pad)
    padded = np.pad(x.astype("f8"), ((0, 0), (pad[0], r), (pad[1], s)))
    height = -(-x.shape[1] // stride) if pad == (r // 2, s // 2) else (x.shape[1] + 2 * pad[0] - r) // stride + 1
    width = -(-x.shape[2] // stride) if pad == (r // 2, s // 2) else (x.shape[2] + 2 * pad[1] - s) // stride + 1
    y = np.zeros((k, height, width)) + np.reshape(biases, (k, 1, 1))
    for i in range(r):
        for j in range(s):
            part = padded[:, i:i + (height - 1) * stride + 1:stride, j:j + (width - 1) * stride + 1:stride]
            y += np.einsum("chw,kc->khw", part, weights[:, :, i, j].astype("f8"))
    return y


class BankTest(CommandTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        self.w = random.normal(size=(5, 3, 3, 3)).astype("f4")
        self.b = random.normal(size=5).astype("f4")
        self.write("bank.txt", self.w, self.b, ["edge", "red", None, "a/b", "edge"])
        self.x = self.photo("a.png", 23, 17, seed=1)
        self.planes = self.x.transpose(2, 0, 1) / 255

    def write(self, name, weights, biases, names):
        lines = ["gconv-bank 1", "filters %d channels %d size %d %d" % weights.shape]
        for k, filter_name in enumerate(names):
            lines.append(f"filter {filter_name or ''} bias {biases[k]:.9g}")
            for plane in weights[k]:
                lines += [" ".join(f"{v:.9g}" for v in row) for row in plane] + [""]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def load(self, name):
        return np.load(self.folder / name)

    def assert_close(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)
