#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX's own cases for Conv, and 200 random layers against PyTorch in float64 (or, where it is not there, NumPy).

$GCONV_TEST_DEVICE is the device, cpu by default. Every algorithm must be inside the bound that it states.
"""
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

GCONV = os.environ["GCONV"]
DEVICE = os.environ.get("GCONV_TEST_DEVICE", "cpu")
SERVER = os.environ.get("GCONV_LAYER_SERVER", str(pathlib.Path(GCONV).parent / "tests" / "layer_server"))
CASES = pathlib.Path(__file__).parent / "onnx"
PROBLEMS = int(os.environ.get("GCONV_TEST_PROBLEMS", "200"))


# ---- Protocol buffers, as far as these files go ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return (value - (1 << 64) if value >> 63 else value), at


def fields(data):
    """Yields (number, value) for each field of a message: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def packed(values):
    """Repeated integers: one by one, or packed."""
    out = []
    for value in values:
        at = 0
        while not isinstance(value, int) and at < len(value):
            number, at = varint(value, at)
            out.append(number)
        if isinstance(value, int):
            out.append(value)
    return out


def tensor(data):
    parts = list(fields(data))
    shape = packed([value for number, value in parts if number == 1])
    raw = [value for number, value in parts if number == 9]
    floats = b"".join(value for number, value in parts if number == 4)
    return np.frombuffer(raw[0] if raw else floats, "<f4").reshape(shape)


def conv_node(model):
    """The attributes of the only Conv of a model: name -> list of integers, or bytes."""
    graph = dict(fields(model))[7]
    nodes = [dict(fields(value)) for number, value in fields(graph) if number == 1]
    raw = [value for number, value in fields(graph) if number == 1]
    conv = next(i for i, node in enumerate(nodes) if node[4] == b"Conv")
    attributes = {}
    for number, value in fields(raw[conv]):
        if number == 5:
            parts = list(fields(value))
            name = dict(parts)[1].decode()
            attributes[name] = packed([v for n, v in parts if n in (3, 8)]) or dict(parts).get(4)
    return attributes


# ---- ONNX's cases ----

class Onnx(unittest.TestCase):
    def options(self, attributes):
        """What the node says, as options; ONNX orders pads top, left, bottom, right."""
        words = []
        top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
        auto = attributes.get("auto_pad", b"NOTSET").decode()
        padding = {"SAME_UPPER": "same-upper", "SAME_LOWER": "same-lower", "VALID": "valid"}.get(auto)
        words += ["--padding", padding or f"{top},{bottom},{left},{right}"]
        words += ["--stride", ",".join(map(str, attributes.get("strides", [1, 1])))]
        words += ["--dilation", ",".join(map(str, attributes.get("dilations", [1, 1])))]
        return words + ["--groups", str(attributes.get("group", [1])[0])]

    def run_gconv(self, folder, bank, x, *words):
        source, target = folder / "in.npy", folder / "out.npy"
        np.save(source, x)
        command = [GCONV, "-i", source, "-f", bank, "-o", target, "-d", DEVICE, "--verify", *words]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        return np.load(target)

    def check(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

    def test_node_cases(self):
        """Weights are an input of the graph: they go into a .npy file, and the node into options."""
        cases = sorted(CASES.glob("test_*conv_*"))
        self.assertEqual(len(cases), 6)
        for case in cases:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                x, weights = (tensor((case / f"input_{i}.pb").read_bytes()) for i in range(2))
                np.save(folder / "weights.npy", weights)
                words = self.options(conv_node((case / "model.onnx").read_bytes()))
                got = self.run_gconv(folder, folder / "weights.npy", x, *words)
                self.check(got, tensor((case / "output_0.pb").read_bytes()))

    def test_models(self):
        """Weights and geometry come from the model."""
        cases = sorted(CASES.glob("test_Conv2d*"))
        self.assertGreater(len(cases), 8)
        for case in cases:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as name:
                x, y = (tensor((case / f"{part}_0.pb").read_bytes()) for part in ("input", "output"))
                self.check(self.run_gconv(pathlib.Path(name), case / "model.onnx", x), y)

    def test_layout(self):
        """N x H x W x C in and out is the same with its axes exchanged."""
        random = np.random.default_rng(3)
        x, w = random.normal(size=(2, 5, 9, 7)).astype("f4"), random.normal(size=(6, 5, 3, 3)).astype("f4")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            np.save(folder / "w.npy", w)
            plain = self.run_gconv(folder, folder / "w.npy", x)
            turned = self.run_gconv(folder, folder / "w.npy", np.ascontiguousarray(x.transpose(0, 2, 3, 1)), "--layout", "nhwc")
        np.testing.assert_array_equal(turned.transpose(0, 3, 1, 2), plain)


# ---- Random layers ----

def draw(random):
    """A layer: sizes, then x, w, b."""
    pick = lambda *values: int(random.choice(values))
    groups = pick(1, 1, 1, 2, 3)
    s = {"n": pick(1, 2, 3), "groups": groups, "c": groups * pick(1, 2, 3, 8, 17), "k": groups * pick(1, 2, 5, 16, 33)}
    if random.random() < 0.15:
        s["groups"] = s["c"]
        s["k"] = s["c"] * pick(1, 2)
    s["h"], s["w"] = (int(random.integers(1, 30)) for _ in range(2))
    s["r"] = pick(1, 2, 3, 3, 3, 5, 7)
    s["s"] = s["r"] if random.random() < 0.7 else pick(1, 2, 3, 5)
    s["sy"], s["sx"] = pick(1, 1, 2, 3), pick(1, 1, 2, 3)
    s["dy"], s["dx"] = pick(1, 1, 2), pick(1, 1, 2)
    s["py"], s["px"] = (int(random.integers(0, 4)) for _ in range(2))
    if random.random() < 0.1:  # the first layers that gemm-3xfp16 has a kernel for
        s.update(groups=1, c=3, r=3, s=3, dy=1, dx=1)
    s["bias"] = bool(random.random() < 0.7)
    if s["h"] + 2 * s["py"] <= (s["r"] - 1) * s["dy"] or s["w"] + 2 * s["px"] <= (s["s"] - 1) * s["dx"]:
        return draw(random)
    x = random.normal(size=(s["n"], s["c"], s["h"], s["w"])).astype("f4")
    w = random.normal(size=(s["k"], s["c"] // s["groups"], s["r"], s["s"])).astype("f4")
    b = random.normal(size=s["k"]).astype("f4") if s["bias"] else np.zeros(s["k"], "f4")
    return s, x, w, b


def conv(s, x, w, b):
    """The layer in float64."""
    x, w, b = (a.astype("f8") for a in (x, w, b))
    if torch:
        y = torch.nn.functional.conv2d(*(torch.from_numpy(a) for a in (x, w, b)), stride=(s["sy"], s["sx"]),
                                       padding=(s["py"], s["px"]), dilation=(s["dy"], s["dx"]), groups=s["groups"])
        return y.numpy()
    x = np.pad(x, ((0, 0), (0, 0), (s["py"],) * 2, (s["px"],) * 2))
    p = (x.shape[2] - (s["r"] - 1) * s["dy"] - 1) // s["sy"] + 1
    q = (x.shape[3] - (s["s"] - 1) * s["dx"] - 1) // s["sx"] + 1
    y = np.zeros((s["n"], s["k"], p, q)) + b[None, :, None, None]
    of = s["k"] // s["groups"]
    for g in range(s["groups"]):
        part, c = x[:, g * w.shape[1]:(g + 1) * w.shape[1]], slice(g * of, (g + 1) * of)
        for i in range(s["r"]):
            for j in range(s["s"]):
                top, left = i * s["dy"], j * s["dx"]
                window = part[:, :, top:top + (p - 1) * s["sy"] + 1:s["sy"], left:left + (q - 1) * s["sx"] + 1:s["sx"]]
                y[:, c] += np.einsum("nchw,kc->nkhw", window, w[c, :, i, j])
    return y


class Server:
    """Asks tests/peers/layer_server.c."""

    def __enter__(self):
        self.process = subprocess.Popen([SERVER, DEVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, s, x, w, b):
        keys = ["n", "c", "h", "w", "k", "r", "s", "groups", "sy", "sx", "dy", "dx", "py", "px", "py", "px", "bias"]
        sent = struct.pack("17i", *(int(s[key]) for key in keys)) + x.tobytes() + w.tobytes() + (b.tobytes() if s["bias"] else b"")
        self.process.stdin.write(sent)
        self.process.stdin.flush()

    def answers(self, shape):
        while True:
            head = self.process.stdout.read(56)
            if len(head) < 56:
                raise AssertionError(f"the layer server ended with {self.process.wait()}")
            name, math, exact, largest, bound = struct.unpack("32s8siid", head)
            name, math = (text.split(b"\0")[0].decode() for text in (name, math))
            if not name:
                return
            y = np.frombuffer(self.process.stdout.read(4 * int(np.prod(shape))), "f4").reshape(shape)
            yield name, math, exact, largest, bound, y


class Random(unittest.TestCase):
    def test_all_algorithms(self):
        random, worst = np.random.default_rng(1), {}
        with Server() as server:
            for number in range(PROBLEMS):
                s, x, w, b = draw(random)
                server.ask(s, x, w, b)
                expected, size = conv(s, x, w, b), conv(s, abs(x), abs(w), abs(b))
                first = None
                for name, math, exact, largest, bound, y in server.answers(expected.shape):
                    allowed = bound * size
                    if largest:
                        allowed = bound * (abs(w).astype("f8").sum((1, 2, 3)) * abs(x).max() + abs(b))[None, :, None, None]
                    error = np.max(abs(y - expected) / (allowed + 1e-300))
                    worst[name, math] = max(worst.get((name, math), 0), error)
                    with self.subTest(number=number, algorithm=name, math=math, layer=s):
                        self.assertLessEqual(error, 1)
                        if exact:
                            first = y if first is None else first
                            self.assertEqual(y.tobytes(), first.tobytes())
        against = "PyTorch" if torch else "NumPy"
        print(f"{PROBLEMS} layers on {DEVICE} against {against}; largest errors, relative to the bounds:",
              ", ".join(f"{name} {math} {error:.3f}" for (name, math), error in worst.items()))
        self.assertTrue(worst)

    def test_not_finite(self):
        """What an infinite sample or NaN does not reach is as always, and what it reaches is as in float32."""
        random = np.random.default_rng(2)
        with Server() as server:
            for number in range(PROBLEMS // 5):
                s, x, w, b = draw(random)
                strange = [np.inf, -np.inf, np.nan][: 1 + number % 3]
                x.reshape(-1)[random.integers(0, x.size, len(strange))] = strange
                server.ask(s, x, w, b)
                with np.errstate(invalid="ignore"):
                    expected, size = conv(s, x, w, b), conv(s, abs(x), abs(w), abs(b))
                most = abs(x[np.isfinite(x)]).max(initial=0)
                for name, math, exact, largest, bound, y in server.answers(expected.shape):
                    if not (exact or name.startswith("gemm-3x")):
                        continue
                    allowed = bound * size
                    if largest:
                        allowed[:] = bound * (abs(w).astype("f8").sum((1, 2, 3)) * most + abs(b))[None, :, None, None]
                    fine = np.isfinite(expected)
                    with self.subTest(number=number, algorithm=name, math=math, layer=s):
                        np.testing.assert_array_equal(y[~fine], expected[~fine].astype("f4"))
                        self.assertTrue(np.all(abs(y[fine] - expected[fine]) <= allowed[fine]))


if __name__ == "__main__":
    unittest.main()
