# SPDX-License-Identifier: MIT
"""What the tests of networks share: writing their files, and what they make of an image, in float64."""
import json
import struct

import numpy as np
from helper import CommandTest


def save_tensors(path, tensors, **metadata):
    """A safetensors file; the texts of `metadata` are entries of __metadata__."""
    head, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor, "<f4")
        head[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load_tensors(path):
    """({name: array}, metadata) of a safetensors file of float32."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    head, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    metadata = head.pop("__metadata__", {})
    tensors = {}
    for name, about in head.items():
        begin, end = about["data_offsets"]
        assert about["dtype"] == "F32"
        tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(about["shape"])
    return tensors, metadata


class Layer:
    """A layer of a test: what stands in the file, and its weights."""

    def __init__(self, weight=None, bias=None, kind="conv", **keys):
        self.weight, self.bias = weight, bias
        self.keys = dict(kind=kind, **keys)


def save_network(path, layers, channels, height=0, width=0, **keys):
    tensors = {}
    for i, layer in enumerate(layers):
        if layer.weight is not None:
            tensors[f"l{i}.weight"] = layer.weight
        if layer.bias is not None:
            tensors[f"l{i}.bias"] = layer.bias
    about = {"version": 1, "input": {"channels": channels, "height": height, "width": width}, "layers": [layer.keys for layer in layers], **keys}
    save_tensors(path, tensors, gconv=json.dumps(about))


# Borders of layers, as numpy.pad() has them.
BORDERS = {"zero": {}, "constant": {}, "replicate": {"mode": "edge"}, "symmetric": {"mode": "symmetric"},
           "reflect101": {"mode": "reflect"}, "wrap": {"mode": "wrap"}}


def pads_of(padding, size, taps, stride, dilation, first, flip):
    """Zeros before and behind along an axis, by the rules of docs/filter-formats.md."""
    extent = (taps - 1) * dilation + 1
    outputs = -(-size // stride)
    missing = max((outputs - 1) * stride + extent - size, 0)
    if padding == "same":
        before = (taps - 1 - taps // 2 if flip else taps // 2) * dilation
        return before, max((outputs - 1) * stride + extent - size - before, 0)
    if padding == "same_upper":
        return missing // 2, missing - missing // 2
    if padding == "same_lower":
        return missing - missing // 2, missing // 2
    if padding == "full":
        return extent - 1, extent - 1
    return (0, 0) if padding == "valid" else (padding[first], padding[first + 2])


def activate(y, name, slope):
    if name == "relu":
        return np.maximum(y, 0)
    if name == "leaky":
        return np.where(y < 0, slope * y, y)
    if name == "sigmoid":
        return 1 / (1 + np.exp(-(slope or 1) * y))
    if name == "tanh":
        return np.tanh(y)
    if name == "softmax":
        e = np.exp(y - y.max(axis=0))
        return e / e.sum(axis=0)
    return y


def convolve(x, layer):
    weight = np.asarray(layer.weight, "f8")
    keys, groups = layer.keys, layer.keys.get("groups", 1)
    strides, dilations = np.broadcast_to(keys.get("stride", 1), 2), np.broadcast_to(keys.get("dilation", 1), 2)
    if keys.get("flip"):
        weight = weight[:, :, ::-1, ::-1]
    k, c, r, s = weight.shape
    assert c * groups == len(x)
    pads = [pads_of(keys.get("padding", "same"), x.shape[1 + i], (r, s)[i], strides[i], dilations[i], i, keys.get("flip"))
            for i in range(2)]
    border = keys.get("border", "zero")
    x = np.pad(x, [(0, 0), *pads], **(BORDERS[border] or {"constant_values": keys.get("border_value", 0)}))
    extents = [((r, s)[i] - 1) * dilations[i] + 1 for i in range(2)]
    p, q = [(x.shape[1 + i] - extents[i]) // strides[i] + 1 for i in range(2)]
    y = np.zeros((k, p, q)) + (0 if layer.bias is None else np.reshape(np.asarray(layer.bias, "f8"), (k, 1, 1)))
    for n in range(k):
        group = x[n // (k // groups) * c:][:c]
        for i in range(r):
            for j in range(s):
                part = group[:, i * dilations[0]:, j * dilations[1]:][:, ::strides[0], ::strides[1]][:, :p, :q]
                y[n] += np.tensordot(weight[n, :, i, j], part, 1)
    return activate(y, keys.get("activation", "none"), keys.get("slope", 0))


def apply(layers, x, mean=0, std=1):
    """A network on x, C x H x W in [0, 1], in float64."""
    x = (np.asarray(x, "f8") - np.reshape(mean, (-1, 1, 1))) / np.reshape(std, (-1, 1, 1))
    y = x
    for layer in layers:
        kind = layer.keys["kind"]
        y = y.mean(axis=(1, 2), keepdims=True) if kind == "mean" else y + x if kind == "residual" else convolve(y, layer)
    return y


class NetworkTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(11)

    def bank(self, k, c, r, s=None, scale=0.3):
        s = r if s is None else s
        return (self.random.normal(size=(k, c, r, s)) * scale).astype("f4"), (self.random.normal(size=k) * 0.1).astype("f4")

    def conv(self, k, c, r, s=None, scale=0.3, **keys):
        return Layer(*self.bank(k, c, r, s, scale), **keys)

    def save(self, name, layers, channels, height=0, width=0, **keys):
        save_network(self.folder / name, layers, channels, height, width, **keys)
        return layers

    def load(self, name):
        return np.load(self.folder / name)
