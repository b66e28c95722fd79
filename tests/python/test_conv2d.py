# SPDX-License-Identifier: MIT
"""gconv.conv2d() against the definition in float64."""
import unittest

from helper import LONG, gconv, np


def expected(x, weight, bias, stride, padding, dilation, groups):
    """N x K x P x Q, by the definition; padding is top, bottom, left, right."""
    top, bottom, left, right = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, channels, height, width = x.shape
    k, group_channels, rows, columns = weight.shape
    p = (height - (rows - 1) * dilation[0] - 1) // stride[0] + 1
    q = (width - (columns - 1) * dilation[1] - 1) // stride[1] + 1
    result = np.zeros((n, k, p, q))
    for filter_ in range(k):
        first = filter_ // (k // groups) * group_channels
        for c in range(group_channels):
            for r in range(rows):
                for s in range(columns):
                    y, z = r * dilation[0], s * dilation[1]
                    result[:, filter_] += float(weight[filter_, c, r, s]) * x[
                        :, first + c, y:y + (p - 1) * stride[0] + 1:stride[0], z:z + (q - 1) * stride[1] + 1:stride[1]]
    return result if bias is None else result + bias.astype(np.float64)[:, None, None]


class Numbers(unittest.TestCase):
    def test_random_layers(self):
        random = np.random.default_rng(1)
        for case in range(500 if LONG else 80):
            groups, per_group, filters = (int(v) for v in random.integers(1, 4, 3))
            rows, columns = random.integers(1, 5, 2)
            stride, dilation = tuple(random.integers(1, 4, 2)), tuple(random.integers(1, 3, 2))
            padding = tuple(int(v) for v in random.integers(0, 3, 4))
            height, width = random.integers(12, 20, 2)
            x = random.normal(size=(random.integers(1, 4), groups * per_group, height, width)).astype(np.float32)
            weight = random.normal(size=(groups * filters, per_group, rows, columns)).astype(np.float32)
            bias = random.normal(size=groups * filters).astype(np.float32) if case % 2 else None
            result = gconv.conv2d(x, weight, bias, stride, padding, dilation, groups)
            wanted = expected(x, weight, bias, stride, padding, dilation, groups)
            self.assertEqual(result.dtype, np.float32)
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=2e-5, err_msg=f"case {case}")

    def test_padding_by_words(self):
        random = np.random.default_rng(2)
        x = random.normal(size=(1, 2, 9, 10)).astype(np.float32)
        for rows, columns in ((3, 3), (2, 4), (1, 5)):
            weight = random.normal(size=(3, 2, rows, columns)).astype(np.float32)
            same = ((rows - 1) // 2, rows // 2, (columns - 1) // 2, columns // 2)  # as PyTorch
            for padding, sides in (("same", same), ("valid", (0, 0, 0, 0)), (1, (1, 1, 1, 1)), ((1, 0), (1, 1, 0, 0))):
                wanted = expected(x, weight, None, (1, 1), sides, (1, 1), 1)
                np.testing.assert_allclose(gconv.conv2d(x, weight, padding=padding), wanted, rtol=1e-5, atol=2e-5)

    def test_borders(self):
        random = np.random.default_rng(5)
        x, weight = random.normal(size=(2, 3, 5, 6)).astype(np.float32), random.normal(size=(4, 3, 3, 5)).astype(np.float32)
        for border, mode in (("constant", {"constant_values": -1.5}), ("replicate", {"mode": "edge"}), ("symmetric", {"mode": "symmetric"}),
                             ("reflect101", {"mode": "reflect"}), ("wrap", {"mode": "wrap"})):
            for top, bottom, left, right in ((1, 1, 2, 2), (0, 3, 1, 0), (11, 12, 13, 14)):
                padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), **mode)
                wanted = expected(padded, weight, None, (2, 1), (0, 0, 0, 0), (1, 1), 1)
                got = gconv.conv2d(x, weight, None, (2, 1), (top, bottom, left, right), border=border, border_value=-1.5 * (border == "constant"))
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-5, err_msg=border)
        with self.assertRaises(ValueError):
            gconv.conv2d(x, weight, border="mirror")

    def test_activations_and_flip(self):
        random = np.random.default_rng(3)
        x, weight = random.normal(size=(2, 3, 8, 8)).astype(np.float32), random.normal(size=(4, 3, 3, 3)).astype(np.float32)
        y = gconv.conv2d(x, weight).astype(np.float64)
        e = np.exp(y)
        for activation, wanted in (("relu", np.maximum(y, 0)), ("sigmoid", 1 / (1 + np.exp(-y))), ("tanh", np.tanh(y)),
                                   ("softmax", e / e.sum(axis=1, keepdims=True))):
            np.testing.assert_allclose(gconv.conv2d(x, weight, activation=activation), wanted, rtol=1e-5, atol=1e-5)
        leaky = gconv.conv2d(x, weight, activation="leaky", slope=0.25)
        np.testing.assert_allclose(leaky, np.where(y < 0, y / 4, y), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gconv.conv2d(x, weight, flip=True), gconv.conv2d(x, weight[..., ::-1, ::-1]), rtol=1e-6,
                                   atol=1e-6)

    def test_types_strides_and_unbatched(self):
        random = np.random.default_rng(4)
        weight = random.normal(size=(1, 3, 3, 3))
        for dtype in (np.float16, np.float64, np.uint8, np.int32, bool):
            x = random.integers(0, 2, (2, 3, 8, 9)).astype(dtype)
            result = gconv.conv2d(x, weight)
            self.assertEqual(result.dtype, dtype if np.dtype(dtype).kind == "f" else np.float32)
            wanted = expected(x, weight.astype(np.float32), None, (1, 1), (0, 0, 0, 0), (1, 1), 1)
            np.testing.assert_allclose(result, wanted, rtol=2e-3, atol=5e-3)
            np.testing.assert_array_equal(gconv.conv2d(x[1], weight), result[1])
        x = random.normal(size=(2, 8, 9, 3)).astype(np.float32)
        planes = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        np.testing.assert_allclose(gconv.conv2d(x.transpose(0, 3, 1, 2), weight), gconv.conv2d(planes, weight), rtol=1e-6)
        np.testing.assert_array_equal(gconv.conv2d(planes[:, :, ::-1], weight), gconv.conv2d(planes[:, :, ::-1].copy(), weight))
        out = np.empty((2, 1, 6, 7), np.float32)
        self.assertIs(gconv.conv2d(planes, weight, out=out), out)
        np.testing.assert_array_equal(out, gconv.conv2d(planes, weight))

    def test_weights_that_change_in_place_are_seen(self):
        x, weight, bias = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 2, 2), np.float32), np.zeros(1, np.float32)
        for k in range(10):
            weight[0, 0, 0, 0], bias[0] = k, -k
            self.assertEqual(gconv.conv2d(x, weight, bias)[0, 0, 0, 0], 3)
            self.assertEqual(gconv.conv2d(x, weight)[0, 0, 0, 0], 3 + k)

    def test_what_is_wrong_is_refused(self):
        x, weight = np.zeros((1, 3, 8, 8), np.float32), np.zeros((4, 3, 3, 3), np.float32)
        for arguments, options in (((x[0, 0], weight), {}), ((x, weight[0]), {}), ((x[:, :2], weight), {}),
                                   ((x, weight, np.zeros(3)), {}), ((x, weight, np.zeros((4, 1))), {}),
                                   ((x, weight), {"groups": 3}), ((x, weight), {"groups": 0}), ((x, weight), {"stride": 0}),
                                   ((x, weight), {"padding": -1}), ((x, weight), {"padding": "full"}),
                                   ((x, weight), {"activation": "gelu"}), ((x[:, :, :2, :2], weight), {}),
                                   ((x, weight * np.inf), {}), ((x.astype(complex), weight), {}), ((None, weight), {}),
                                   ((x, None), {}), ((x, weight.astype(complex)), {}), ((x, "abc"), {}), ((x, weight, "a"), {}),
                                   ((x, weight), {"padding": 1.5}), ((x, weight), {"padding": None}), ((x, weight), {"slope": "a"}),
                                   ((x, weight), {"padding": (1, 1, 1, -1)}), ((x, weight), {"groups": 1.5}),
                                   ((x, weight), {"stride": 2 ** 40}), ((x, weight), {"out": np.zeros((1, 4, 8, 8), np.float32)})):
            with self.assertRaises(ValueError, msg=f"{[getattr(a, 'shape', a) for a in arguments]} {options}"):
                gconv.conv2d(*arguments, **options)


if __name__ == "__main__":
    unittest.main()
