#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first steps of training against the same in float64: with PyTorch, where it is installed, and with the formulas of backpropagation
in NumPy, written here. The reference must have the same weights, the engine of the CPU the same losses."""
import os
import subprocess
import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

STEPS = os.environ["GCONV_TRAIN_STEPS"]
SSE, MSE, MAE, CROSS_ENTROPY = 1, 2, 3, 4
ADAM, SGD, MOMENTUM, RPROP = range(4)


class Conv:
    """Of K filters over the channels in groups; a dense layer has R = H, S = W and is valid."""

    def __init__(self, filters, rows, columns, activation="none", slope=0.0, stride=1, dilation=1, groups=1, valid=False, dense=False):
        self.filters, self.rows, self.columns, self.activation, self.slope = filters, rows, columns, activation, float(np.float32(slope))
        self.stride, self.dilation, self.groups, self.valid, self.dense = stride, dilation, groups, valid, dense

    def text(self):
        word = self.activation + (f"={self.slope}" if self.slope else "")
        if self.dense:
            return f"dense {self.filters} {word}"
        return (f"conv {self.filters} {self.rows}x{self.columns}/{self.stride} dilation {self.dilation} groups {self.groups} "
                f"{'valid' if self.valid else 'same'} {word}")

    def start(self, shape):
        """The number of weights for inputs of this shape, and the shape of the outputs."""
        c, h, w = shape
        if self.dense:
            self.rows, self.columns, self.valid = h, w, True
        self.before = [0 if self.valid else taps // 2 * self.dilation for taps in (self.rows, self.columns)]
        spans = [(taps - 1) * self.dilation + 1 for taps in (self.rows, self.columns)]
        self.sizes = [((n - (span if self.valid else 1)) // self.stride + 1) for n, span in zip((h, w), spans)]
        self.padded = [(n - 1) * self.stride + span for n, span in zip(self.sizes, spans)]
        self.shape = (self.filters, c // self.groups, self.rows, self.columns)
        return int(np.prod(self.shape)) + self.filters, (self.filters, *self.sizes)

    def pad(self, x):
        high, wide = [max(n, b + s) for n, b, s in zip(self.padded, self.before, x.shape[2:])]
        padded = np.zeros((*x.shape[:2], high, wide))
        padded[:, :, self.before[0]:self.before[0] + x.shape[2], self.before[1]:self.before[1] + x.shape[3]] = x
        return padded

    def under(self, r, s):
        """Where the inputs under tap (r, s) are."""
        return tuple(slice(t * self.dilation, t * self.dilation + (n - 1) * self.stride + 1, self.stride) for t, n in zip((r, s), self.sizes))

    def parts(self):
        """Of each group: its channels and filters."""
        c, k = self.shape[1], self.filters // self.groups
        return [(slice(g * c, g * c + c), slice(g * k, g * k + k)) for g in range(self.groups)]

    def forward(self, x, parameters, _):
        self.x, self.weights = x, parameters[:-self.filters].reshape(self.shape)
        padded = self.pad(x)
        z = np.zeros((len(x), self.filters, *self.sizes)) + parameters[-self.filters:, None, None]
        for channels, filters in self.parts():
            for r in range(self.rows):
                for s in range(self.columns):
                    z[:, filters] += np.einsum("kc,ncpq->nkpq", self.weights[filters, :, r, s], padded[(slice(None), channels, *self.under(r, s))])
        self.y = {"none": lambda: z, "relu": lambda: np.maximum(z, 0), "leaky": lambda: np.where(z < 0, self.slope * z, z),
                  "tanh": lambda: np.tanh(z), "sigmoid": lambda: 1 / (1 + np.exp(-(self.slope or 1) * z)),
                  "softmax": lambda: np.exp(z) / np.exp(z).sum(1, keepdims=True)}[self.activation]()
        return self.y

    def backward(self, dy, gradient):
        y = self.y
        dz = {"none": lambda: dy, "relu": lambda: dy * (y > 0), "leaky": lambda: np.where(y < 0, self.slope * dy, dy),
              "tanh": lambda: dy * (1 - y * y), "sigmoid": lambda: dy * (self.slope or 1) * y * (1 - y),
              "softmax": lambda: y * (dy - (dy * y).sum(1, keepdims=True))}[self.activation]()
        padded = self.pad(self.x)
        dx, dw = np.zeros_like(padded), np.zeros(self.shape)
        for channels, filters in self.parts():
            for r in range(self.rows):
                for s in range(self.columns):
                    place = (slice(None), channels, *self.under(r, s))
                    dw[filters, :, r, s] = np.einsum("nkpq,ncpq->kc", dz[:, filters], padded[place])
                    dx[place] += np.einsum("kc,nkpq->ncpq", self.weights[filters, :, r, s], dz[:, filters])
        gradient[:] = np.concatenate([dw.ravel(), dz.sum((0, 2, 3))])
        return dx[:, :, self.before[0]:self.before[0] + self.x.shape[2], self.before[1]:self.before[1] + self.x.shape[3]]

    def torch(self, x, parameters, _):
        weights = parameters[:-self.filters].reshape(self.shape)
        after = [max(n - b - s, 0) for n, b, s in zip(self.padded, self.before, x.shape[2:])]
        x = torch.nn.functional.pad(x, (self.before[1], after[1], self.before[0], after[0]))
        z = torch.nn.functional.conv2d(x, weights, parameters[-self.filters:], self.stride, 0, self.dilation, self.groups)
        z = z[:, :, :self.sizes[0], :self.sizes[1]]
        return {"none": lambda: z, "relu": lambda: torch.relu(z), "leaky": lambda: torch.nn.functional.leaky_relu(z, self.slope),
                "tanh": lambda: torch.tanh(z), "sigmoid": lambda: torch.sigmoid((self.slope or 1) * z),
                "softmax": lambda: torch.softmax(z, 1)}[self.activation]()


class Mean:
    def text(self):
        return "mean"

    def start(self, shape):
        return 0, (shape[0], 1, 1)

    def forward(self, x, parameters, _):
        self.shape = x.shape
        return x.mean((2, 3), keepdims=True)

    def backward(self, dy, gradient):
        return np.broadcast_to(dy / np.prod(self.shape[2:]), self.shape)

    def torch(self, x, parameters, _):
        return x.mean((2, 3), keepdim=True)


class Residual:
    def text(self):
        return "residual"

    def start(self, shape):
        return 0, shape

    def forward(self, x, parameters, first):
        return x + first

    def backward(self, dy, gradient):
        return dy

    def torch(self, x, parameters, first):
        return x + first


def dense(outputs, activation="none", slope=0.0):
    return Conv(outputs, 0, 0, activation, slope, dense=True)


class Problem:
    def __init__(self, layers, shape, cases, loss, classes=False, seed=0):
        self.layers, self.shape, self.cases, self.loss, self.classes = layers, shape, cases, loss, classes
        random = np.random.default_rng(seed)
        self.counts = []
        for layer in layers:
            count, shape = layer.start(shape)
            self.counts.append(count)
        self.outputs = int(np.prod(shape))
        self.x = random.standard_normal((cases, *self.shape)).astype(np.float32).astype(float)
        if classes:
            self.targets = random.integers(0, self.outputs, cases).astype(float)
            self.wanted = np.eye(self.outputs)[self.targets.astype(int)].reshape(cases, *shape)
        else:
            self.targets = random.standard_normal((cases, *shape)).astype(np.float32).astype(float)
            self.wanted = self.targets

    def run(self, mode, steps, rate, *optimizer):
        """The parameters at first, the losses, the parameters in the end, as gconv has them."""
        text = ", ".join(layer.text() for layer in self.layers)
        words = [mode, text, *self.shape, self.outputs, int(self.classes), self.cases, self.loss, steps, rate, *optimizer]
        data = self.x.tobytes() + self.targets.tobytes()
        done = subprocess.run([STEPS, *map(str, words)], input=data, capture_output=True)
        if done.returncode:
            raise AssertionError(f"{text}: {done.stderr.decode()}")
        numbers = np.frombuffer(done.stdout)
        count = sum(self.counts)
        return numbers[:count].copy(), numbers[count:-count], numbers[-count:]

    def split(self, parameters):
        return np.split(parameters, np.cumsum(self.counts)[:-1])

    def gradient(self, parameters):
        """The loss and its gradient, by the formulas of backpropagation."""
        x = self.x
        for layer, own in zip(self.layers, self.split(parameters)):
            x = layer.forward(x, own, self.x)
        d = x - self.wanted
        loss, dy = {SSE: lambda: (0.5 * (d * d).sum(), d), MSE: lambda: ((d * d).mean(), 2 * d / d.size), MAE: lambda: (abs(d).mean(), np.sign(d) / d.size),
                    CROSS_ENTROPY: lambda: (-(self.wanted * np.log(x)).sum() / self.cases, -self.wanted / x / self.cases)}[self.loss]()
        gradient = np.zeros_like(parameters)
        for layer, own in reversed(list(zip(self.layers, self.split(gradient)))):
            dy = layer.backward(dy, own)
        return loss, gradient

    def gradient_of_torch(self, parameters):
        wide = torch.tensor(parameters, dtype=torch.float64, requires_grad=True)
        first = x = torch.tensor(self.x)
        for layer, own in zip(self.layers, torch.split(wide, self.counts)):
            x = layer.torch(x, own, first)
        d = x - torch.tensor(self.wanted)
        loss = {SSE: lambda: 0.5 * (d * d).sum(), MSE: lambda: (d * d).mean(), MAE: lambda: d.abs().mean(),
                CROSS_ENTROPY: lambda: -(torch.tensor(self.wanted) * torch.log(x)).sum() / self.cases}[self.loss]()
        loss.backward()
        return loss.item(), wide.grad.numpy()

    def weights(self):
        """1 for weights, 0 for biases."""
        mask = np.ones(sum(self.counts))
        for layer, own in zip(self.layers, self.split(mask)):
            if len(own):
                own[-layer.filters:] = 0
        return mask


PROBLEMS = {
    "dense": lambda: Problem([dense(9, "tanh"), dense(5, "softmax")], (7, 1, 1), 12, CROSS_ENTROPY, True),
    "theses": lambda: Problem([dense(9, "sigmoid", 0.5), dense(5, "sigmoid")], (7, 1, 1), 12, SSE, True),
    "photos": lambda: Problem([Conv(4, 3, 3, "leaky", 0.1, stride=2), Conv(6, 2, 3, "tanh", groups=2), Mean(), dense(3, "softmax")], (2, 9, 8), 6,
                              CROSS_ENTROPY, True),
    "denoiser": lambda: Problem([Conv(4, 3, 3, "relu"), Conv(4, 3, 3, "sigmoid", dilation=2), Conv(2, 3, 3), Residual()], (2, 7, 9), 3, MSE),
    "valid": lambda: Problem([Conv(3, 4, 2, "tanh", valid=True), Conv(2, 2, 2, "tanh", stride=3), dense(4)], (1, 11, 10), 5, MAE),
    "softmax inside": lambda: Problem([Conv(5, 2, 2, "softmax"), dense(6, "softmax"), dense(2)], (3, 4, 4), 4, MSE),
}


class Steps(unittest.TestCase):
    def follow(self, problem, gradient, rate, steps=20):
        first, losses, last = problem.run("reference", steps, rate)
        own, parameters = [], first
        for _ in range(steps):
            loss, g = gradient(parameters)
            own.append(loss)
            parameters = parameters - rate * g
        self.assertGreater(np.abs(last - first).max(), 1e-3)
        np.testing.assert_allclose(losses, own, rtol=1e-10)
        np.testing.assert_allclose(last, parameters, rtol=0, atol=1e-10)

    def test_reference_against_numpy(self):
        for name, make in PROBLEMS.items():
            with self.subTest(name):
                problem = make()
                self.follow(problem, problem.gradient, 0.05)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_reference_against_torch(self):
        for name, make in PROBLEMS.items():
            with self.subTest(name):
                problem = make()
                self.follow(problem, problem.gradient_of_torch, 0.05)

    def optimize(self, problem, steps, rate, optimizer, momentum=0.0, decay=0.0, elimination=0.0, scale=1.0):
        """The losses of gconv's trainer and ours."""
        first, losses, last = problem.run("cpu", steps, rate, optimizer, momentum, decay, elimination, scale)
        w, weights, own = first.copy(), problem.weights(), []
        m, v, sizes = np.zeros_like(w), np.zeros_like(w), np.full_like(w, rate)
        for t in range(1, steps + 1):
            loss, g = problem.gradient(w)
            own.append(loss)
            g = g + weights * elimination * 2 * w / scale**2 / (1 + (w / scale)**2)**2
            w = w * (1 - weights * rate * decay)
            if optimizer == ADAM:
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                w = w - rate * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            elif optimizer == MOMENTUM:
                m = momentum * m + g
                w = w - rate * m
            elif optimizer == RPROP:
                turn = np.sign(g * m)
                sizes = np.clip(np.where(turn > 0, sizes * 1.2, np.where(turn < 0, sizes * 0.5, sizes)), 1e-6, 50)
                m = np.where(turn < 0, 0, g)
                w = w - np.sign(m) * sizes
            else:
                w = w - rate * g
        np.testing.assert_allclose(losses, own, rtol=1e-4, atol=1e-6)
        return last, w

    def test_losses_of_100_steps(self):
        for name, make in PROBLEMS.items():
            with self.subTest(name):
                last, own = self.optimize(make(), 100, 0.02, SGD)
                np.testing.assert_allclose(last, own, rtol=0, atol=1e-4)

    def test_optimizers(self):
        for settings in ((0.01, ADAM), (0.01, ADAM, 0, 0.5), (0.02, MOMENTUM, 0.9), (0.1, SGD, 0, 0.1), (0.1, SGD, 0, 0, 0.01, 0.5), (0.01, RPROP),
                         (0.01, RPROP, 0, 0.1, 0.02, 2)):
            with self.subTest(settings):
                steps = 20 if settings[1] == RPROP else 40  # signs of gradients near 0 depend on the last bit
                last, own = self.optimize(PROBLEMS["dense"](), steps, *settings)
                np.testing.assert_allclose(last, own, rtol=0, atol=1e-3)


if __name__ == "__main__":
    unittest.main()
