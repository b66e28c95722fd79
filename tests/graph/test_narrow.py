# SPDX-License-Identifier: MIT
"""Numbers of 2, 4 and 8 bits, and floating-point numbers of 16: read as their bits say, and rounded as their types have it."""
import unittest

import numpy as np
from graph_helper import TYPES, field, node, run, value

RANDOM = np.random.default_rng(8)
# number: name, bits of the exponent, of the mantissa, bias, what its special codes are
FLOATS = {17: ("float8e4m3fn", 4, 3, 7, "largest"), 18: ("float8e4m3fnuz", 4, 3, 8, "minus zero"), 19: ("float8e5m2", 5, 2, 15, "ieee"),
          20: ("float8e5m2fnuz", 5, 2, 16, "minus zero"), 23: ("float4e2m1", 2, 1, 1, "none")}
INTEGERS = {21: (4, False), 22: (4, True), 25: (2, False), 26: (2, True)}  # number: bits, signed
X = np.float32([0, -0.0, 1, -1, 0.3, 1.0625, 1.1875, -2.5, 5, 7, 100, 240, 248, 447, 449, 480, 57344, 61000, 70000, -1e9, 1e-3, -1e-3, 3e-8, np.inf, -np.inf, np.nan,
               *(RANDOM.normal(size=60) * 2.0 ** RANDOM.integers(-10, 16, 60))])


def decoded(number):
    """The numbers of all codes without a sign; NaN and infinity where a code is none."""
    _, exponents, mantissas, bias, special = FLOATS[number]
    code = np.arange(1 << (exponents + mantissas))
    exponent, rest = code >> mantissas, code & ((1 << mantissas) - 1)
    numbers = np.where(exponent > 0, (1 + rest / (1 << mantissas)) * 2.0 ** (exponent - bias), rest / (1 << mantissas) * 2.0 ** (1 - bias))
    if special == "largest":
        numbers[-1] = np.nan
    if special == "ieee":
        numbers[exponent == exponent.max()] = np.nan
        numbers[(exponent == exponent.max()) & (rest == 0)] = np.inf
    return numbers


def rounded(x, number, saturates=True):
    """The nearest number of the type; of two, that with an even code."""
    special = FLOATS[number][4]
    table = decoded(number)
    finite = table[np.isfinite(table)]
    step = finite[-1] - finite[-2]
    out = []
    for a in x.astype(float):
        if np.isnan(a):
            out.append(0.0 if special == "none" else np.nan)
            continue
        distance = np.abs(finite - abs(a))
        nearest = np.flatnonzero(distance == distance.min()) if np.isfinite(a) else [len(finite) - 1]
        r = finite[next((c for c in nearest if c % 2 == 0), nearest[0])]
        if abs(a) > finite[-1] + step / 2 or (abs(a) == finite[-1] + step / 2 and len(finite) % 2 == 0):
            r = finite[-1] if saturates or special == "none" else np.inf if special == "ieee" else np.nan
        out.append(0.0 if r == 0 and special == "minus zero" else np.copysign(r, a))
    return np.array(out)


def packed(number, shape, codes):
    """A tensor of codes, the first in the lowest bits of a byte."""
    bits = 8 if number in (17, 18, 19, 20, 24) else INTEGERS[number][0] if number in INTEGERS else 4
    codes = np.append(codes, np.zeros(-len(codes) % (8 // bits), int)).reshape(-1, 8 // bits)
    stored = (codes << (np.arange(8 // bits) * bits)).sum(1).astype(np.uint8)
    return b"".join(field(1, d) for d in shape) + field(2, number) + field(8, "c") + field(9, stored.tobytes())


def model(nodes, constants=(), kind=1, shape=None, opset=25):
    graph = b"".join([*(field(1, n) for n in nodes), *(field(5, c) for c in constants), field(11, value("x", shape, kind)), field(12, value("y", None))])
    return field(1, 13) + field(7, graph) + field(8, field(1, "") + field(2, opset))


class Narrow(unittest.TestCase):
    def made(self, bytes_, x):
        made = run(bytes_, [x])
        self.assertIsInstance(made, list, made)
        return made[0]

    def test_all_codes(self):
        for number, (name, exponents, mantissas, _, special) in FLOATS.items():
            with self.subTest(type=name):
                half = decoded(number)
                wanted = np.concatenate([half, -half])
                if special == "minus zero":
                    wanted[len(half)] = np.nan
                made = self.made(model([node("Cast", ["c"], "f", to=1), node("Mul", ["f", "x"], "y")], [packed(number, [len(wanted)], np.arange(len(wanted)))]), np.float32([1]))
                np.testing.assert_array_equal(made, wanted.astype(np.float32))
        powers = self.made(model([node("Cast", ["c"], "f", to=1), node("Mul", ["f", "x"], "y")], [packed(24, [4], np.array([0, 127, 254, 255]))]), np.float32([1]))
        np.testing.assert_array_equal(powers, np.float32([2.0**-127, 1, 2.0**127, np.nan]))
        for number, (bits, signed) in INTEGERS.items():
            with self.subTest(bits=bits, signed=signed):
                codes = np.arange(1 << bits)
                wanted = np.where(signed & (codes >= 1 << (bits - 1)), codes - (1 << bits), codes)
                made = self.made(model([node("Cast", ["c"], "f", to=1), node("Add", ["f", "x"], "y")], [packed(number, [len(codes) - 1], codes[:-1])]), np.float32([0]))
                np.testing.assert_array_equal(made, wanted[:-1])

    def test_casts(self):
        for number, (name, *_) in FLOATS.items():
            for saturates in (1, 0) if number != 23 else (1,):
                with self.subTest(type=name, saturates=saturates):
                    made = self.made(model([node("Cast", ["x"], "y", to=number, **({} if saturates else {"saturate": 0}))]), X)
                    np.testing.assert_array_equal(made, rounded(X, number, saturates))
        for number, (bits, signed) in INTEGERS.items():
            x = np.arange(-20, 21).astype(np.float32)
            low = x.astype(int) & ((1 << bits) - 1)
            wanted = np.where(signed & (low >= 1 << (bits - 1)), low - (1 << bits), low)
            np.testing.assert_array_equal(self.made(model([node("Cast", ["x"], "y", to=number)]), x), wanted)
        x = np.float32([1, 1.4, 1.5, 2.9, 0, 3e38, np.inf, -1])
        for mode, wanted in (("up", [1, 2, 2, 4, 2.0**-127, 2.0**127, 2.0**127, np.nan]), ("down", [1, 1, 1, 2, 2.0**-127, 2.0**127, 2.0**127, np.nan]),
                             ("nearest", [1, 1, 2, 2, 2.0**-127, 2.0**127, 2.0**127, np.nan])):
            np.testing.assert_array_equal(self.made(model([node("Cast", ["x"], "y", to=24, round_mode=mode)]), x), wanted)

    def test_like(self):
        """The result is rounded to the type of the other input, which may come through other nodes."""
        x = np.float32([1.00390625, 3.14159, -0.1])
        half = x.astype(np.float16).astype(np.float32)
        brain = (x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1) & 0xFFFF0000).view(np.float32)
        like = field(1, 1) + field(2, 16) + field(8, "c") + field(9, b"\0\0")
        np.testing.assert_array_equal(self.made(model([node("CastLike", ["x", "c"], "y")], [like]), x), brain)
        nodes = [node("Cast", ["x"], "h", to=10), node("Transpose", ["h"], "t"), node("CastLike", ["x", "t"], "y")]
        np.testing.assert_array_equal(self.made(model(nodes), x), half)

    def test_quantized(self):
        x = np.float32([0, 2.5, 4.8, 8.6, -30, -20, 6, 9, 40])
        scale = field(2, TYPES["float32"]) + field(8, "s") + field(9, np.float32(2).tobytes())
        for number, (bits, signed) in INTEGERS.items():
            least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
            zero = packed(number, [], np.array([1]))
            wanted = np.clip(np.rint(x / 2) + 1, least, most)
            made = self.made(model([node("QuantizeLinear", ["x", "s", "c"], "y")], [scale, zero]), x)
            np.testing.assert_array_equal(made, wanted)
            back = self.made(model([node("QuantizeLinear", ["x", "s", "c"], "q"), node("DequantizeLinear", ["q", "s", "c"], "y")], [scale, zero]), x)
            np.testing.assert_array_equal(back, (wanted - 1) * 2)
            made = self.made(model([node("QuantizeLinear", ["x", "s"], "y", output_dtype=number)], [scale]), x)
            np.testing.assert_array_equal(made, np.clip(np.rint(x / 2), least, most))
        for number in (17, 19, 23):
            made = self.made(model([node("QuantizeLinear", ["x", "s"], "q", output_dtype=number), node("DequantizeLinear", ["q", "s"], "y")], [scale]), x)
            np.testing.assert_array_equal(made, rounded(x / 2, number) * 2)
        told = run(model([node("QuantizeLinear", ["x", "s", "c"], "q"), node("DequantizeLinear", ["q", "s", "d"], "y")],
                         [scale, packed(22, [], np.array([1])), field(2, TYPES["int8"]) + field(8, "d") + field(9, b"\1")]), [x])
        self.assertRegex(str(told), "takes int4 here as input 2, not int8")

    def test_too_few_bytes(self):
        told = run(model([node("Cast", ["c"], "f", to=1), node("Add", ["f", "x"], "y")], [field(1, 9) + field(2, 22) + field(8, "c") + field(9, b"abcd")]), np.float32([[0]]))
        self.assertRegex(str(told), "fewer than the 5 numbers")


if __name__ == "__main__":
    unittest.main()
