# SPDX-License-Identifier: MIT
"""Tensors of PyTorch in memory of the host, and gconv.torch.conv2d with its gradients. tests/gpu/test_python.py has GPUs."""
import unittest
import warnings

from helper import LONG, SKIPPED, draw_image, gconv, np

try:
    import torch
    import torch.nn.functional as functional
except ImportError:
    print("skipped: PyTorch is not installed")
    raise SystemExit(SKIPPED)
import gconv.torch


class Tensors(unittest.TestCase):
    def test_results_are_tensors(self):
        random = np.random.default_rng(1)
        for dtype in (np.uint8, np.float32):
            image = draw_image(random, (3, 20, 30), dtype)
            tensor = torch.from_numpy(image)
            wanted = gconv.filter(image, "sobel_x", axes="CHW")
            result = gconv.filter(tensor, "sobel_x", axes="CHW")
            self.assertIsInstance(result, torch.Tensor)
            self.assertEqual(result.dtype, tensor.dtype)
            np.testing.assert_array_equal(result.numpy(), wanted)
            last = gconv.filter(tensor.permute(1, 2, 0), "sobel_x")
            np.testing.assert_array_equal(last.numpy(), wanted.transpose(1, 2, 0))
            turned = gconv.filter(tensor.permute(0, 2, 1), "sobel_y", axes="CHW")
            np.testing.assert_allclose(turned.numpy(), wanted.transpose(0, 2, 1), atol=1e-6)
            out = torch.empty_like(tensor)
            self.assertIs(gconv.filter(tensor, "sobel_x", axes="CHW", out=out), out)
            np.testing.assert_array_equal(out.numpy(), wanted)
            plan = gconv.Plan("sobel_x", (3, 20, 30), tensor.dtype, axes="CHW")
            np.testing.assert_array_equal(plan(tensor).numpy(), wanted)
        channels_last = torch.rand(2, 3, 8, 9).contiguous(memory_format=torch.channels_last)
        np.testing.assert_array_equal(gconv.filter(channels_last, "sharpen").numpy(),
                                      gconv.filter(channels_last.contiguous().numpy(), "sharpen"))

    def test_other_types(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int16, torch.int32, torch.int64, torch.int8):
            tensor = (torch.rand(9, 12) * 100).to(dtype)
            result = gconv.filter(tensor, "gaussian")
            self.assertEqual(result.dtype, dtype)
            wanted = gconv.filter(tensor.float().numpy(), "gaussian")
            np.testing.assert_allclose(result.double().numpy(), wanted, atol=0.51, rtol=0.01)
        self.assertEqual(gconv.filter(torch.ones(5, 5, dtype=torch.bool), "gaussian").dtype, torch.float32)

    def test_what_is_wrong(self):
        for tensor in (torch.zeros(5, 0), torch.zeros(1, 1, 1, 5, 5), torch.zeros(5, 5, dtype=torch.complex64), torch.zeros(5)):
            with self.assertRaises(ValueError):
                gconv.filter(tensor, "gaussian")
        with self.assertRaisesRegex(gconv.ArgumentError, "detach"):
            gconv.filter(torch.zeros(5, 5, requires_grad=True), "gaussian")
        tensor = torch.zeros(5, 5)
        with self.assertRaisesRegex(gconv.ArgumentError, "overlap"):
            gconv.filter(tensor, "gaussian", out=tensor)
        with self.assertRaises(gconv.ArgumentError):
            gconv.filter(tensor, "gaussian", out=torch.zeros(5, 5, dtype=torch.uint8))


class Conv2d(unittest.TestCase):
    def test_random_calls_with_gradients(self):
        random = np.random.default_rng(2)
        for case in range(300 if LONG else 60):
            groups, per_group, filters = (int(v) for v in random.integers(1, 4, 3))
            rows, columns = (int(v) for v in random.integers(1, 5, 2))
            stride = tuple(int(v) for v in random.integers(1, 3, 2))
            dilation = tuple(int(v) for v in random.integers(1, 3, 2))
            padding = ("same" if stride == (1, 1) else 1, "valid", 0, (2, 1))[random.integers(4)]
            x = torch.rand(int(random.integers(1, 3)), groups * per_group, 12, 14, requires_grad=True)
            weight = torch.randn(groups * filters, per_group, rows, columns, requires_grad=True)
            bias = torch.randn(groups * filters, requires_grad=True) if case % 2 else None
            tensors = [tensor for tensor in (x, weight, bias) if tensor is not None]
            both = []
            for function in (functional.conv2d, gconv.torch.conv2d):
                y = function(x, weight, bias, stride, padding, dilation, groups)
                scale = torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape) / y.numel()
                both.append((y, *torch.autograd.grad((y * scale).sum(), tensors)))
            for wanted, result in zip(*both):
                torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)

    def test_a_step_of_training_is_seen(self):
        x, weight = torch.rand(1, 3, 8, 8), torch.randn(4, 3, 3, 3, requires_grad=True)
        for _ in range(3):
            y = gconv.torch.conv2d(x, weight)
            torch.testing.assert_close(y, functional.conv2d(x, weight), rtol=1e-5, atol=1e-5)
            y.square().sum().backward()
            with torch.no_grad():
                weight -= 0.01 * weight.grad
        torch.testing.assert_close(gconv.torch.conv2d(x[0], weight), functional.conv2d(x[0], weight), rtol=1e-5, atol=1e-5)

    def test_operator(self):
        """PyTorch's own checks of operators: schema, shapes without numbers, gradients, shapes that vary."""
        for bias, stride, padding, dilation, groups in ((None, [1, 1], [0, 0], [1, 1], 1), (torch.rand(4, requires_grad=True), [2, 1], [1, 2], [1, 2], 2)):
            x, weight = torch.rand(2, 4, 9, 8, requires_grad=True), torch.randn(4, 4 // groups, 3, 2, requires_grad=True)
            torch.library.opcheck(torch.ops.gconv.conv2d.default, (x, weight, bias, stride, padding, dilation, groups))

    def test_compiled(self):
        """A network is one graph, forward and backward, for sizes that vary."""
        def network(x, first, second):
            return gconv.torch.conv2d(torch.relu(gconv.torch.conv2d(x, first, padding="same")), second, stride=2).square().mean()

        weights = torch.randn(6, 3, 3, 3, requires_grad=True), torch.randn(2, 6, 3, 3, requires_grad=True)
        for backend in ("aot_eager", "inductor") if LONG else ("aot_eager",):
            compiled = torch.compile(network, fullgraph=True, backend=backend)
            for size in (16, 21, 30):
                x = torch.rand(1, 3, size, size)
                wanted, result = network(x, *weights), compiled(x, *weights)
                torch.testing.assert_close(result, wanted)
                for one, other in zip(torch.autograd.grad(wanted, weights), torch.autograd.grad(result, weights)):
                    torch.testing.assert_close(other, one)

    def test_other_types_go_to_pytorch(self):
        x, weight = torch.rand(1, 3, 8, 8).double(), torch.rand(4, 3, 3, 3).double()
        with self.assertWarnsRegex(gconv.Warning, "float64"):
            torch.testing.assert_close(gconv.torch.conv2d(x, weight), functional.conv2d(x, weight))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gconv.torch.conv2d(x, weight)
        with self.assertRaises((RuntimeError, ValueError)):
            gconv.torch.conv2d(x.float()[:, :2], weight.float())


if __name__ == "__main__":
    unittest.main()
