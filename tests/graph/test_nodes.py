# SPDX-License-Identifier: MIT
"""Nodes that reshape, rearrange, pool, reduce, pad, normalise and resize, against what NumPy computes."""
import unittest

import numpy as np
from graph_helper import attribute, field, graph, node, run
from scipy.ndimage import map_coordinates

RANDOM = np.random.default_rng(43)
X = RANDOM.normal(size=(2, 4, 5, 7)).astype(np.float32)
I64 = lambda *numbers: np.array(numbers, np.int64)  # noqa: E731
C = RANDOM.normal(size=4).astype(np.float32)


def windows(x, kernel, strides, pads, outside, f, dilations=(1, 1)):
    """f of the windows of each plane; pads are top, left, bottom, right."""
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=outside)
    high = (x.shape[2] - (kernel[0] - 1) * dilations[0] - 1) // strides[0] + 1
    wide = (x.shape[3] - (kernel[1] - 1) * dilations[1] - 1) // strides[1] + 1
    parts = [x[:, :, r * dilations[0] :: strides[0], s * dilations[1] :: strides[1]][:, :, :high, :wide]
             for r in range(kernel[0]) for s in range(kernel[1])]
    return f(np.array(parts), axis=0)


def normalized(x, axes):
    x = x.astype(float)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def resized(x, axis, places, weights):
    """The sums of taps: places and weights of each output."""
    size = x.shape[axis]
    parts = [sum(np.take(x.astype(float), np.clip(p, 0, size - 1), axis) * w for p, w in zip(ps, ws)) for ps, ws in zip(places, weights)]
    return np.stack(parts, axis)


def linear(x, axis, count, coordinate):
    at = [coordinate(o) for o in range(count)]
    low = [int(np.floor(a)) for a in at]
    return resized(x, axis, [(b, b + 1) for b in low], [(1 - (a - b), a - b) for a, b in zip(at, low)])


PLACES = RANDOM.uniform(-1.7, 1.7, (2, 3, 4, 2)).astype(np.float32)  # for the image X: x, y


def sampled(x, places, corners, **how):
    """Samples of each channel at places of -1 .. 1, as SciPy interpolates."""
    sizes = np.array(x.shape[2:])
    at = (places.astype(float)[..., ::-1] + 1) / 2 * (sizes - corners) - (0 if corners else 0.5)
    return np.array([[map_coordinates(plane.astype(float), np.moveaxis(p, -1, 0), **how) for plane in image] for image, p in zip(x, at)])


def cubic_sampled(x, places):
    """The same by cubic convolution with a = -0.75, where the outermost elements are repeated."""
    at = (places.astype(float)[..., ::-1] + 1) / 2 * np.array(x.shape[2:]) - 0.5
    weight = lambda d: np.where(d <= 1, (1.25 * d - 2.25) * d * d + 1, np.where(d < 2, ((-0.75 * d + 3.75) * d - 6) * d + 3, 0))  # noqa: E731
    base, sums = np.floor(at).astype(int), np.zeros((x.shape[0], x.shape[1], *places.shape[1:-1]))
    for dy, dx in np.ndindex(4, 4):
        taps = base + np.array([dy, dx]) - 1
        w = weight(np.abs(at - taps)).prod(-1)
        for n in range(x.shape[0]):
            sums[n] += w[n] * x[n][:, np.clip(taps[n, ..., 0], 0, x.shape[2] - 1), np.clip(taps[n, ..., 1], 0, x.shape[3] - 1)]
    return sums


def opened(x, block, columns_first):
    n, c, h, w = x.shape
    shape = (n, c // block**2, block, block, h, w) if columns_first else (n, block, block, c // block**2, h, w)
    order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
    return x.reshape(shape).transpose(order).reshape(n, c // block**2, h * block, w * block)


def scattered(x, w, strides, pads, size, bias=0, dilations=(1, 1), groups=1):
    """A transposed convolution: each input adds its filter to an output of `size`; pads are top, left."""
    each, channels = w.shape[1], x.shape[1] // groups
    y = np.zeros((x.shape[0], each * groups, 64, 64))
    for c in range(x.shape[1]):
        part = slice(c // channels * each, (c // channels + 1) * each)
        for r in range(w.shape[2]):
            for s in range(w.shape[3]):
                top, left = 16 + r * dilations[0] - pads[0], 16 + s * dilations[1] - pads[1]
                rows = slice(top, top + strides[0] * x.shape[2], strides[0])
                columns = slice(left, left + strides[1] * x.shape[3], strides[1])
                y[:, part, rows, columns] += x[:, c, None].astype(float) * w[c, :, r, s][:, None, None]
    return y[:, :, 16 : 16 + size[0], 16 : 16 + size[1]] + np.reshape(bias, (-1, 1, 1))


TEN = np.arange(10, dtype=np.float32)[None]
QX, QW = RANDOM.integers(0, 256, X.shape, np.uint8), RANDOM.integers(-128, 128, (3, 4, 3, 3), np.int8)


def quantized(scale, x, w, x_zero, w_zero, bias=0):
    """A convolution of integers, padded by 1 on all sides; scaled."""
    x = np.pad(x.astype(int) - x_zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    w = w.astype(int) - w_zero
    return (sum(np.tensordot(x[:, :, r : r + 5, s : s + 7], w[:, :, r, s], (1, 1)) for r in range(3) for s in range(3)).transpose(0, 3, 1, 2) + bias) * scale


W = RANDOM.normal(size=(4, 3, 3, 5)).astype(np.float32)
A, B = RANDOM.normal(size=(3, 1, 5, 6)).astype(np.float32), RANDOM.normal(size=(2, 6, 9)).astype(np.float32)
e = np.exp(X.astype(float) - X.max(1, keepdims=True))
counts = windows(np.ones_like(X), (3, 3), (2, 2), (1, 1, 1, 1), 0, np.sum)
half = lambda scale: lambda o: (o + 0.5) / scale - 0.5  # noqa: E731
CASES = [  # operator, inputs, attributes, what it makes, opset
    ("Reshape", [X, I64(0, -1, 5)], {}, X.reshape(2, 28, 5)),
    ("Flatten", [X], {"axis": 2}, X.reshape(8, 35)),
    ("Unsqueeze", [X, I64(-1, 0)], {}, X[None, ..., None]),
    ("Squeeze", [X[:1, :, :1], I64(2)], {}, X[:1, :, 0]),
    ("Squeeze", [X[:1]], {"axes": [0]}, X[0], 11),
    ("Transpose", [X], {"perm": [0, 2, 3, 1]}, X.transpose(0, 2, 3, 1)),
    ("Transpose", [X], {}, X.T),
    ("Concat", [X, X[:, :1], X[:, 1:3]], {"axis": 1}, np.concatenate([X, X[:, :1], X[:, 1:3]], 1)),
    ("Concat", [X, X[..., :2]], {"axis": -1}, np.concatenate([X, X[..., :2]], -1)),
    ("Slice", [X, I64(3, 6), I64(0, -100), I64(1, 3), I64(-1, -2)], {}, X[:, 3:0:-1, :, 6::-2]),
    ("Slice", [X, I64(-100), I64(-100), I64(3), I64(-1)], {}, X[..., :1]),  # a start before the first element is the first
    ("Slice", [X, I64(2), I64(-(2**63)), I64(3), I64(-2)], {}, X[..., 2::-2]),
    ("Slice", [X], {"starts": [1, -3], "ends": [100, -1], "axes": [2, 3]}, X[:, :, 1:, -3:-1], 9),
    ("Gather", [X, I64(2, -1, 2)], {"axis": 3}, X[..., [2, -1, 2]]),
    ("Expand", [X[:, :1], I64(3, 1, 4, 1, 1)], {}, np.broadcast_to(X[:, :1], (3, 2, 4, 5, 7))),
    ("Tile", [X, I64(1, 2, 1, 3)], {}, np.tile(X, (1, 2, 1, 3))),
    ("DepthToSpace", [X], {"blocksize": 2}, opened(X, 2, False)),
    ("DepthToSpace", [X], {"blocksize": 2, "mode": "CRD"}, opened(X, 2, True)),
    ("SpaceToDepth", [opened(X, 2, False)], {"blocksize": 2}, X),
    ("Shape", [X], {"start": 1, "end": -1}, I64(4, 5)),
    ("ConstantOfShape", [I64(2, 3)], {}, np.zeros((2, 3))),
    ("Range", [np.int64(7), np.int64(-2), np.int64(-3)], {}, I64(7, 4, 1)),
    ("Cast", [X * 9], {"to": 7}, (X * 9).astype(np.int64)),
    ("Cast", [X], {"to": 10}, X.astype(np.float16).astype(np.float32)),
    ("MaxPool", [X], {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 0]},
     windows(X, (2, 3), (2, 1), (0, 1, 1, 0), -np.inf, np.max)),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "dilations": [3, 2]}, windows(X, (2, 2), (1, 1), (0,) * 4, 0, np.max, (3, 2))),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
     windows(X, (2, 2), (2, 2), (0, 0, 1, 1), -np.inf, np.max)),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
     windows(X, (3, 3), (2, 2), (1,) * 4, 0, np.sum) / counts),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1},
     windows(X, (3, 3), (2, 2), (1,) * 4, 0, np.mean)),
    ("MaxPool", [(X * 20).astype(np.int8)], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]},
     windows((X * 20).astype(np.int8), (2, 3), (1, 1), (1, 1, 0, 1), -np.inf, np.max)),
    ("MaxPool", [X.astype(float) / 3], {"kernel_shape": [2, 2]}, windows(X.astype(float) / 3, (2, 2), (1, 1), (0,) * 4, 0, np.max)),
    ("LpPool", [X], {"kernel_shape": [2, 3], "p": 3}, windows(np.abs(X.astype(float)) ** 3, (2, 3), (1, 1), (0,) * 4, 0, np.sum) ** (1 / 3)),
    ("LpPool", [X], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4}, np.sqrt(windows(X.astype(float) ** 2, (2, 2), (2, 2), (1,) * 4, 0, np.sum))),
    ("GlobalLpPool", [X], {}, np.sqrt((X.astype(float) ** 2).sum((2, 3), keepdims=True))),
    ("MaxUnpool", [X[:1, :1, :2, :2], I64(5, 7, 13, 15).reshape(1, 1, 2, 2), I64(1, 1, 5, 5)], {"kernel_shape": [2, 2], "strides": [2, 2]},
     np.pad(np.kron(X[:1, :1, :2, :2], [[0, 0], [0, 1]]), ((0, 0), (0, 0), (0, 1), (0, 1)))),
    ("NonZero", [np.where(X[0] > 0, X[0], 0)], {}, np.array(np.nonzero(X[0] > 0))),
    ("NonZero", [np.ones(5, bool)], {}, [np.arange(5)], 10),
    ("GridSample", [X, PLACES], {}, sampled(X, PLACES, 0, order=1, mode="grid-constant")),
    ("GridSample", [X, PLACES], {"mode": "bilinear", "padding_mode": "border", "align_corners": 1}, sampled(X, PLACES, 1, order=1, mode="nearest"), 16),
    ("GridSample", [X, PLACES], {"padding_mode": "reflection", "align_corners": 1}, sampled(X, PLACES, 1, order=1, mode="mirror")),
    ("GridSample", [X, PLACES], {"padding_mode": "reflection"}, sampled(X, PLACES, 0, order=1, mode="reflect")),
    ("GridSample", [X, PLACES], {"mode": "nearest", "padding_mode": "border"}, sampled(X, PLACES, 0, order=0, mode="nearest")),
    ("GridSample", [X, PLACES], {"mode": "cubic", "padding_mode": "border"}, cubic_sampled(X, PLACES)),
    ("Einsum", [A[0], B], {"equation": "xij, yjk -> yik"}, np.einsum("xij,yjk->yik", A[0], B)),
    ("Einsum", [X, C], {"equation": "nchw,c"}, np.einsum("nchw,c", X, C)),
    ("Einsum", [X[:, :, :, :5]], {"equation": "...ii->i..."}, np.einsum("...ii->i...", X[:, :, :, :5])),
    ("Einsum", [B, B[0], B[0, :, :1]], {"equation": "bij,ij,ik->kb"}, np.einsum("bij,ij,ik->kb", B.astype(float), B[0], B[0, :, :1])),
    ("GatherElements", [X, np.argsort(X, 2)[:, :, :3]], {"axis": 2}, np.sort(X, 2)[:, :, :3]),
    ("GatherND", [X, I64(1, 0, 0, -1).reshape(2, 2)], {}, X[[1, 0], [0, -1]]),
    ("ScatterND", [X, I64(1, 0, 1, 0).reshape(2, 2), X[0, :2]], {"reduction": "add"},
     np.where(np.arange(2)[:, None, None, None] == 1, X + np.where(np.arange(4)[:, None, None] == 0, X[0, :1] + X[0, 1:2], 0), X)),
    ("ScatterElements", [X[0, 0], I64(2, 0).reshape(1, 2), np.float32([[7, 8]])], {"axis": 0},
     np.concatenate([[[X[0, 0, 0, 0], 8], [*X[0, 0, 1, :2]], [7, X[0, 0, 2, 1]], *X[0, 0, 3:, :2]], X[0, 0, :, 2:]], 1)),
    ("CumSum", [X, np.int64(2)], {}, X.astype(float).cumsum(2)),
    ("CumSum", [X, np.int64(1)], {"exclusive": 1, "reverse": 1}, X[:, ::-1].astype(float).cumsum(1)[:, ::-1] - X),
    ("TopK", [X, I64(3)], {"axis": 2}, np.sort(X, 2)[:, :, :-4:-1]),
    ("Trilu", [X, np.int64(-1)], {"upper": 0}, np.tril(X, -1)),
    ("Trilu", [X, np.int64(2)], {}, np.triu(X, 2)),
    ("EyeLike", [X[0, 0]], {"k": 1}, np.eye(5, 7, 1)),
    ("OneHot", [I64(1, -1, 7), np.int64(4), np.float32([2, 5])], {"axis": 0}, np.where([[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]], 5, 2)),
    ("ThresholdedRelu", [np.float32([-np.inf, np.nan, -1, 1.5, 1.6, np.inf])], {"alpha": 1.5}, [0, np.nan, 0, 0, 1.6, np.inf]),
    ("QuantizeLinear", [X * 9, np.float32(0.5), np.int8(3)], {}, np.clip(np.rint(X * 9 / np.float32(0.5)) + 3, -128, 127)),
    ("QuantizeLinear", [X, np.float32([0.01, 0.02, 0.03, 0.5]), np.uint8([0, 128, 255, 3])], {"axis": 1},
     np.clip(np.rint(X / np.float32([0.01, 0.02, 0.03, 0.5]).reshape(4, 1, 1)) + np.array([0, 128, 255, 3]).reshape(4, 1, 1), 0, 255)),
    ("DequantizeLinear", [QX, np.float32([[[[0.5]]] * 4, [[[0.25]]] * 4]).repeat(5, 2).repeat(3, 3), (QX[:, :, :, ::3]).copy()],
     {"axis": 3, "block_size": 3}, (QX - QX[:, :, :, ::3].repeat(3, 3)[..., :7].astype(float)) * np.array([0.5, 0.25]).reshape(2, 1, 1, 1)),
    ("DequantizeLinear", [QX, np.full((2, 4, 5, 1), 0.5, np.float32)], {"axis": 3, "block_size": 2**63 - 1}, QX * 0.5),
    ("DynamicQuantizeLinear", [np.float32([1e-45, 0])], {}, [255, 0]),
    ("ConvInteger", [QX, QW, np.uint8(120)], {"pads": [1] * 4}, quantized(1, QX, QW, 120, 0)),
    ("QLinearConv", [QX, np.float32(0.02), np.uint8(120), QW, np.float32([0.01, 0.03, 0.001]), np.int8([2, 0, -9]), np.float32(0.7), np.uint8(90),
                     np.int32([9, -8, 700])], {"pads": [1] * 4},
     np.clip(np.rint(quantized(np.float32([0.02 * 0.01, 0.02 * 0.03, 0.02 * 0.001]).reshape(3, 1, 1) / np.float32(0.7), QX, QW, 120, np.array([2, 0, -9]).reshape(3, 1, 1, 1),
                               np.array([9, -8, 700]).reshape(3, 1, 1))) + 90, 0, 255)),
    ("MatMulInteger", [QX[0, 0], QW[0, 0, :, :1].repeat(7, 0)[:7], np.uint8(7)], {}, (QX[0, 0].astype(int) - 7) @ QW[0, 0, :, :1].repeat(7, 0)[:7].astype(int)),
    ("QLinearAdd", [QX, np.float32(0.5), np.uint8(100), QX[:1], np.float32(0.25), np.uint8(3), np.float32(2), np.uint8(90)], {"domain": "com.microsoft"},
     np.clip(np.rint(((QX - 100.0) * 0.5 + (QX[:1] - 3.0) * 0.25) / 2) + 90, 0, 255)),
    ("QLinearLeakyRelu", [QX, np.float32(0.5), np.uint8(100), np.float32(0.25), np.uint8(90)], {"domain": "com.microsoft", "alpha": 0.25},
     np.clip(np.rint(np.where(QX < 100, 0.25, 1) * (QX - 100.0) * 0.5 / 0.25) + 90, 0, 255)),
    ("GlobalAveragePool", [X], {}, X.mean((2, 3), keepdims=True, dtype=float)),
    ("GlobalMaxPool", [X], {}, X.max((2, 3), keepdims=True)),
    ("ReduceMean", [X, I64(1, -1)], {}, X.mean((1, 3), keepdims=True, dtype=float), 18),
    ("ReduceMax", [X], {"axes": [1], "keepdims": 0}, X.max(1), 11),
    ("ReduceL2", [X], {}, np.sqrt((X.astype(float) ** 2).sum(keepdims=True)), 18),
    ("ArgMax", [X], {"axis": 1, "keepdims": 0}, X.argmax(1)),
    ("Pad", [X, I64(0, 0, 2, 1, 0, 0, 1, 3)], {"mode": "reflect"}, np.pad(X, ((0, 0), (0, 0), (2, 1), (1, 3)), "reflect")),
    ("Pad", [X, I64(0, 0, -1, 2, 0, 0, 1, -2), np.float32(3)], {}, np.pad(X[:, :, 1:, :-2], ((0, 0), (0, 0), (0, 1), (2, 0)), constant_values=3)),
    ("Pad", [X.astype(float)], {"pads": [0, 0, 1, 0, 0, 0, 0, 2], "value": 1.5}, np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=1.5), 9),
    ("Pad", [X], {"mode": "edge", "pads": [0, 0, 1, 0, 0, 0, 0, 2]}, np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)), "edge"), 10),
    ("BatchNormalization", [X, C, C + 1, C / 3, C**2], {}, (X - (C / 3)[:, None, None]) / np.sqrt((C**2)[:, None, None] + 1e-5)
     * C[:, None, None] + (C + 1)[:, None, None]),
    ("InstanceNormalization", [X, C, C + 1], {}, normalized(X, (2, 3)) * C[:, None, None] + (C + 1)[:, None, None]),
    ("InstanceNormalization", [0 * X + 1000.1, C, C + 1], {}, (0 * X.astype(float) + (C + 1)[:, None, None])),  # a plane of one value has no deviation
    ("GroupNormalization", [X, C, C + 1], {"num_groups": 2},
     normalized(X.reshape(2, 2, 70), 2).reshape(X.shape) * C[:, None, None] + (C + 1)[:, None, None]),
    ("LayerNormalization", [X, X[0, 0], X[1, 1]], {"axis": 2}, normalized(X, (2, 3)) * X[0, 0] + X[1, 1]),
    ("ConvTranspose", [X, W, C[:3]], {}, scattered(X, W, (1, 1), (0, 0), (7, 11), C[:3])),
    ("ConvTranspose", [X, W], {"strides": [2, 3], "pads": [1, 2, 0, 1]}, scattered(X, W, (2, 3), (1, 2), (10, 20))),
    ("ConvTranspose", [X, W, C[:3]], {"strides": [3, 2], "output_padding": [2, 1]}, scattered(X, W, (3, 2), (0, 0), (17, 18), C[:3])),
    ("ConvTranspose", [X, W], {"strides": [2, 2], "dilations": [2, 1], "group": 2}, scattered(X, W, (2, 2), (0, 0), (13, 17), 0, (2, 1), 2)),
    ("ConvTranspose", [X, W], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, scattered(X, W, (2, 2), (0, 1), (10, 14))),
    ("ConvTranspose", [X, W], {"strides": [5, 7]}, scattered(X, W, (5, 7), (0, 0), (23, 47))),
    ("MatMul", [np.int32([[2**31 - 1, 3]]), np.int32([[2], [5]])], {}, np.int32([[13]])),
    ("MatMul", [A.astype(float), B.astype(float)], {}, np.matmul(A.astype(float), B)),
    ("Gemm", [A[0, 0], B[0], B[1, 0]], {"broadcast": 1}, A[0, 0].astype(float) @ B[0] + B[1, 0], 6),
    ("MatMul", [A, B], {}, np.matmul(A.astype(float), B)),
    ("MatMul", [B[0, 0], B[0].T], {}, B[0, 0].astype(float) @ B[0].T),
    ("Gemm", [A[0, 0], B[0], B[1, :1]], {"alpha": 0.5, "beta": 2.0}, 0.5 * (A[0, 0].astype(float) @ B[0]) + 2 * B[1, :1]),
    ("Gemm", [B[0], A[0, 0]], {"transA": 1, "transB": 1}, B[0].T.astype(float) @ A[0, 0].T),
    ("Softmax", [X], {"axis": 1}, e / e.sum(1, keepdims=True)),
    ("LogSoftmax", [X], {"axis": 1}, np.log(e / e.sum(1, keepdims=True))),
    ("Resize", [X[:1, :1], "", np.float32([1, 1, 1, 1.4])], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     X[:1, :1, :, [o * 5 // 7 for o in range(9)]]),
    ("Resize", [TEN, "", np.float32([1, 1.2])], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, TEN[:, [o * 5 // 6 for o in range(12)]]),
    ("Resize", [TEN, "", np.float32([1, 1.3])], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, TEN[:, [o * 10 // 13 for o in range(13)]]),
    ("Resize", [TEN[:, :4], np.float32([1, 0.6])], {"mode": "nearest"}, TEN[:, [0, 2]], 10),  # up to opset 10, an axis that shrinks takes the next input
    ("Resize", [TEN[:, :4], np.float32([1, 1.5])], {}, TEN[:, [0, 0, 1, 2, 2, 3]], 10),
    ("Resize", [TEN, "", np.float32([1, 0.7])], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, np.linspace(0, 9, 7)[None]),
    ("TopK", [np.float32([[1, np.nan, 3, np.nan, 2]]), I64(3)], {}, np.float32([[np.nan, np.nan, 3]])),
    ("Slice", [X[:0], I64(-3), I64(-(2**31)), I64(0), I64(-100)], {}, X[:0]),
    ("Resize", [X, "", np.array([1, 1, 2, 3], np.float32)], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     X.repeat(2, 2).repeat(3, 3)),
    ("Resize", [X, "", "", I64(2, 4, 8, 7)], {"mode": "linear"}, linear(X, 2, 8, half(8 / 5))),
    ("Resize", [X, "", "", I64(2, 4, 5, 3)], {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
     linear(X, 3, 3, lambda o: o * 6 / 2)),
    ("Resize", [X, np.float32([]), np.float32([]), I64(2, 4, 5, 14)], {"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
     linear(X, 3, 14, lambda o: (o + 0.5) / 2), 11),  # images of a batch are not mixed
    ("Resize", [X, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, linear(linear(X, 2, 10, lambda o: o / 2), 3, 14, lambda o: o / 2), 10),
    ("Upsample", [X, np.array([1, 1, 1, 2], np.float32)], {"mode": "nearest"}, X.repeat(2, 3), 9),
]
REFUSED = [  # operator, inputs, attributes, what the program says
    ("Reshape", [X, I64(2, 3, -1)], {}, "whole number"),
    ("Concat", [X, X[:, :, :3]], {"axis": 1}, "do not fit together"),
    ("DepthToSpace", [X], {"blocksize": 3}, "no whole number of blocks"),
    ("Gather", [X, I64(7)], {"axis": 3}, "element 7 of an axis that has 7"),
    ("Slice", [X, I64(0), I64(1), I64(1), I64(0)], {}, "a step of 0"),
    ("Pad", [X, I64(0, 0, 5, 0, 0, 0, 0, 0)], {"mode": "reflect"}, "smaller than the input"),
    ("GridSample", [X, PLACES[:1]], {}, "places of 4 axes, which do not fit"),
    ("Einsum", [X, C], {"equation": "nchw,h"}, "not valid for its inputs"),
    ("Einsum", [X], {"equation": "nchw->nn"}, "not valid for its inputs"),
    ("Einsum", [X[:, :, :1, :3]], {"equation": "ncii->nci"}, "not valid for its inputs"),
    ("Einsum", [X], {"equation": "...w->w"}, "not valid for its inputs"),
    ("MaxPool", [X], {"kernel_shape": [6, 1]}, "larger than its input"),
    ("BatchNormalization", [X, C[:3], C, C, C], {}, "a list of 4 numbers"),
    ("ConvTranspose", [X, W[:3]], {}, "filters for 3 channels"),
    ("ConvTranspose", [X, W], {"kernel_shape": [3, 3]}, "not the size of its weights"),
    ("ConvTranspose", [X, W], {"auto_pad": "SAME"}, "the auto_pad 'SAME'"),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [0, 1]}, "0 in its attribute 'strides'"),
    ("Pad", [X, I64(0, 0, 1, 0, 0, 0, 0, 0), np.int64(1)], {}, "takes float32 here as input 2"),
    ("Pad", [X, I64(0, 0, 1, 0, 0, 0, 0, 0)], {"mode": "mirror"}, "the mode 'mirror'"),
    ("Pad", [X, I64(0, 0, 1, 0, 0, 0, -1, 0)], {"mode": "wrap"}, "whether the elements that are cut off come back"),
    ("ConvTranspose", [X, W], {"pads": [9, 9, 9, 9]}, "leaves no output"),
    ("MatMul", [A, B[:, :5]], {}, "do not fit together"),
    ("Resize", [X, "", np.array([1, 1, 2], np.float32)], {}, "one for each axis"),
    ("Resize", [X, "", np.array([1, 1, 0, 2], np.float32)], {}, "a scale of 0"),
    ("Resize", [X, np.float32([0, 0, 0, 0, 1, 1, 1e38, 1]), np.float32([1, 1, 1e-38, 1])],
     {"mode": "linear", "antialias": 1, "coordinate_transformation_mode": "tf_crop_and_resize"}, "a scale of 1e-38"),
    ("Einsum", [np.ones((1,) * 5, np.float32)] * 2, {"equation": "abcde,fghij"}, "more than 8 axes"),
    ("DequantizeLinear", [QX, np.float32(0.5)], {"output_dtype": 11}, "the output_dtype float64: it must be the type of its inputs, float32", 23),
    ("QuantizeLinear", [X, np.float32(0.5)], {"precision": 11}, "the precision float64", 23),
    ("QuantizeLinear", [X, np.float32(0.5), np.uint8(3)], {"output_dtype": 3}, "the output_dtype int8"),
]


class Nodes(unittest.TestCase):
    def made(self, op, inputs, attributes, opset=21, folded=False):
        """What a node makes of input 0, or of constants alone; its other inputs are constants."""
        names = ["" if isinstance(array, str) else f"x{i}" for i, array in enumerate(inputs)]
        first = {} if folded else {names[0]: inputs[0]}
        constants = {name: array for name, array in zip(names, inputs) if name and name not in first}
        return run(graph([node(op, names, "y", **attributes)], first, constants=constants, opset=opset), first.values())

    def test_values(self):
        for op, inputs, attributes, wanted, *opset in CASES:
            for folded in (False, True):
                if op in ("ConstantOfShape", "Range", "NonZero") and not folded:
                    continue
                with self.subTest(op=op, attributes=attributes, folded=folded):
                    made = self.made(op, inputs, attributes, *opset, folded=folded)
                    self.assertIsInstance(made, list, made)
                    self.assertEqual(made[0].shape, np.shape(wanted))
                    np.testing.assert_allclose(made[0].astype(float), wanted, rtol=3e-6, atol=3e-6)

    def test_places_of_largest(self):
        """The second output of MaxPool counts elements of the whole input."""
        for by_columns in (0, 1):
            made = run(graph([node("MaxPool", ["x"], "y", further=["i"], kernel_shape=[2, 3], pads=[1, 0, 0, 1], storage_order=by_columns)], {"x": X}, ("y", "i")), [X], 2)
            values = X if by_columns == 0 else X.transpose(0, 1, 3, 2)
            np.testing.assert_array_equal(values.ravel()[made[1]], made[0])
            np.testing.assert_allclose(made[0], windows(X, (2, 3), (1, 1), (1, 0, 0, 1), -np.inf, np.max))

    def test_joined_quantized_numbers(self):
        constants = {"s": np.float32(0.5), "z": np.uint8(9), "t": np.float32(2), "u": np.int8(-7), "q": QW[:2, :, :, :1].repeat(2, 2)[:, :, :5]}
        model = graph([node("QLinearConcat", ["s", "z", "x", "s", "z", "q", "t", "u"], "y", domain="com.microsoft", axis=3)], {"x": QX}, constants=constants)
        wanted = np.concatenate([QX, np.clip((constants["q"].astype(int) + 7) * 4 + 9, 0, 255)], 3)
        np.testing.assert_array_equal(run(model, [QX])[0], wanted)

    def test_bounds_are_not_overwritten(self):
        """Clip takes its upper bound after it has written its result; all are scalars, and x is needed again."""
        nodes = [node("Abs", ["x"], "v"), node("Abs", ["high"], "h"), node("Clip", ["v", "low", "h"], "y")]
        inputs = {"x": np.float64(30), "high": np.float64(8)}
        made = run(graph(nodes, inputs, ("y", "v"), constants={"low": np.float64(5)}), inputs.values(), outputs=2)
        self.assertEqual([float(number) for number in made], [8, 30])

    def test_split(self):
        model = graph([node("Split", ["x", "s"], "a", further=["b"], axis=2)], {"x": X}, ("a", "b"), constants={"s": I64(2, 3)})
        first, second = run(model, [X], outputs=2)
        np.testing.assert_array_equal(first, X[:, :, :2])
        np.testing.assert_array_equal(second, X[:, :, 2:])

    def test_parts_left_out(self):
        for first in ("a", ""):
            model = graph([node("Split", ["x"], first, further=["b", "", ""], axis=1)], {"x": X}, ("b",), opset=13)
            np.testing.assert_array_equal(run(model, [X])[0], X[:, 1:2])

    def test_refused(self):
        for op, inputs, attributes, words, *opset in REFUSED:
            with self.subTest(op=op, words=words):
                said = self.made(op, inputs, attributes, *opset)
                self.assertIsInstance(said, str)
                self.assertIn(words, said)
                self.assertIn("node 'y'", said)

    def test_told_why_no_gpu(self):
        """What no GPU can do is known while planning."""
        places = node("Cast", ["x"], "i", to=7)
        for words, nodes, outputs, constants in (
                ("all nodes", [node("MaxPool", ["x"], "y", kernel_shape=[2, 2])], ("y",), {}),
                ("node 'y' (MaxPool) has the places", [node("MaxPool", ["x"], "y", further=["p"], kernel_shape=[2, 2])], ("y", "p"), {}),
                ("node 'y' (Gather) has indices that depend", [places, node("Gather", ["t", "i"], "y")], ("y",), {"t": C}),
                ("node 'y' (Div) divides integers", [places, node("Div", ["k", "i"], "y")], ("y",), {"k": I64(8)}),
                ("node 'y' (ReduceMax) reduces numbers of uint8", [node("Cast", ["x"], "b", to=2), node("ReduceMax", ["b"], "y")], ("y",), {}),
                ("the kinds Tan", [node("Tan", ["x"], "y")], ("y",), {})):
            with self.subTest(words=words):
                told = run(graph(nodes, {"x": np.abs(X) + 1}, outputs, constants), [np.abs(X) + 1], len(outputs), explain=True)
                self.assertIn(words, next(line for line in told.splitlines() if line.startswith("GPUs: ")))


def function(name, inputs, outputs, nodes, opset=21, defaults=b""):
    """A function of the domain "own" in a model."""
    parts = [field(1, name)] + [field(4, i) for i in inputs] + [field(5, o) for o in outputs] + [field(7, n) for n in nodes]
    return field(25, b"".join(parts) + field(9, field(1, "") + field(2, opset)) + field(10, "own") + defaults)


def node_with_reference(op, inputs, output, name, reference, kind):
    """A node of a function whose attribute is that of the call."""
    return node(op, inputs, output) + field(5, field(1, name) + field(20, kind) + field(21, reference))


class Functions(unittest.TestCase):
    """Operators that the model itself defines."""
    SLOPE = node_with_reference("LeakyRelu", ["a"], "b", "alpha", "slope", 1)
    TIMES = [node_with_reference("Constant", [], "c", "value_float", "factor", 1), node("Mul", ["a", "c"], "b")]

    def made(self, functions, op, inputs=("x",), more=(), **attributes):
        model = graph([node(op, inputs, "y", domain="own", further=more, **attributes)], {"x": X}, constants={"k": np.float32(2)})
        return run(model + b"".join(functions), [X])

    def test_attributes(self):
        """A reference has the value of the call, else the function's default, else the operator's."""
        plain = function("Slope", ["a"], ["b"], [self.SLOPE])
        default = function("Slope", ["a"], ["b"], [self.SLOPE], defaults=field(11, attribute("slope", 0.5)))
        for functions, attributes, slope in (([plain], {"slope": 0.25}, 0.25), ([plain], {}, 0.01), ([default], {}, 0.5),
                                             ([default], {"slope": 0.25}, 0.25)):
            np.testing.assert_array_equal(self.made(functions, "Slope", **attributes)[0], np.where(X < 0, np.float32(slope) * X, X))

    def test_names(self):
        """Names within a function do not meet those of the model or of another call."""
        inner = function("Less", ["x", "y"], ["z"], [node("Sub", ["x", "y"], "t"), node("Mul", ["t", "x"], "z")])
        outer = function("Twice", ["y"], ["x"], [node("Less", ["y", "k"], "t", domain="own"), node("Less", ["t", "y"], "x", domain="own"),
                                                 node("Constant", [], "k", value=np.array(3, np.float32))])
        once = (X - 3) * X
        np.testing.assert_array_equal(self.made([inner, outer], "Twice")[0], (once - X) * once)

    def test_refused(self):
        slope, times = function("Slope", ["a"], ["b"], [self.SLOPE]), function("Times", ["a"], ["b"], self.TIMES)
        np.testing.assert_array_equal(self.made([times], "Times", factor=3.0)[0], 3 * X)
        for words, functions, op, others in (
                ("'value_float' whose value is of another type", [times], "Times", {"factor": 3}),
                ("has no tensor, number or short list", [times], "Times", {}),
                ("has 2 inputs and 1 outputs, and its function 1 and 1", [slope], "Slope", {"inputs": ["x", "k"]}),
                ("has 1 inputs and 2 outputs, and its function 1 and 1", [slope], "Slope", {"more": ["w"]}),
                ("two functions are called 'Slope'", [slope, slope], "Slope", {}),
                ("a function of opset 13 in a model of opset 21", [function("Old", ["a"], ["b"], [node("Relu", ["a"], "b")], 13)], "Old", {})):
            with self.subTest(words=words):
                said = self.made(functions, op, **others)
                self.assertIsInstance(said, str)
                self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
