# SPDX-License-Identifier: MIT
"""The oracle held against scipy and numpy, so that what judges the product is itself judged.

It is loaded as a shared library from $GCONV_ORACLE.
"""
import ctypes as c
import os
import unittest

import numpy as np
from scipy import ndimage, signal

TYPES = {np.dtype("u1"): 0, np.dtype("u2"): 1, np.dtype("f4"): 2}
BORDERS = {"zero": 0, "constant": 1, "replicate": 2, "symmetric": 3, "reflect101": 4, "wrap": 5}
SCIPY_MODES = {"zero": "constant", "constant": "constant", "replicate": "nearest", "symmetric": "reflect",
               "reflect101": "mirror", "wrap": "wrap"}
PADDINGS = {"same": 0, "valid": 1, "full": 2, "explicit": 3}
NUMPY_PADS = {"replicate": "edge", "symmetric": "symmetric", "reflect101": "reflect", "wrap": "wrap"}


class Image(c.Structure):
    _fields_ = [("type", c.c_int), ("frames", c.c_int32), ("height", c.c_int32), ("width", c.c_int32),
                ("channels", c.c_int32), ("planar", c.c_bool), ("alpha", c.c_bool), ("row_bytes", c.c_size_t),
                ("plane_bytes", c.c_size_t), ("data", c.c_void_p), ("icc", c.c_void_p), ("icc_bytes", c.c_size_t),
                ("pixels_per_metre_x", c.c_double), ("pixels_per_metre_y", c.c_double)]


class Filter(c.Structure):
    _fields_ = [("name", c.c_char_p), ("rows", c.c_int32), ("columns", c.c_int32), ("anchor_row", c.c_int32),
                ("anchor_column", c.c_int32), ("divisor", c.c_float), ("offset", c.c_float), ("taps", c.c_void_p),
                ("marked", c.c_bool)]


class Filters(c.Structure):
    _fields_ = [("items", c.POINTER(Filter)), ("count", c.c_size_t)]


class Options(c.Structure):
    _fields_ = [("flip", c.c_bool), ("border", c.c_int), ("border_value", c.c_double), ("padding", c.c_int),
                ("pad_top", c.c_int32), ("pad_bottom", c.c_int32), ("pad_left", c.c_int32), ("pad_right", c.c_int32),
                ("stride_y", c.c_int32), ("stride_x", c.c_int32), ("dilation_y", c.c_int32), ("dilation_x", c.c_int32),
                ("gray", c.c_bool), ("round_gray", c.c_bool), ("mix", c.c_int32), ("mixing", c.c_float * 16), ("linear", c.c_bool),
                ("alpha", c.c_int), ("combine", c.c_int),
                ("scale", c.c_double), ("offset", c.c_double), ("range", c.c_int), ("sets_type", c.c_bool),
                ("output_type", c.c_int), ("algorithm", c.c_char_p)]


class Sample(c.Structure):
    _fields_ = [("value", c.c_double), ("error", c.c_double)]


class Shape(c.Structure):
    _fields_ = [("outputs", c.c_size_t), ("type", c.c_int), ("frames", c.c_int32), ("height", c.c_int32),
                ("width", c.c_int32), ("channels", c.c_int32), ("alpha", c.c_bool)]


ORACLE = c.CDLL(os.environ["GCONV_ORACLE"])
ORACLE.gconv_oracle_get_shape.restype = Shape
ORACLE.gconv_oracle_create.restype = c.c_void_p
ORACLE.gconv_oracle_expect.restype = c.c_bool


def ask(image, *filters, has_alpha=False, anchors=None, divisor=1, level=0, **wanted):
    """The outputs of the oracle for an H x W x C array, each an array P x Q x C."""
    image = np.ascontiguousarray(np.atleast_3d(image))
    height, width, channels = image.shape
    row = image.itemsize * width * channels
    header = Image(type=TYPES[image.dtype], frames=1, height=height, width=width, channels=channels, alpha=has_alpha,
                   row_bytes=row, plane_bytes=row * height, data=image.ctypes.data)
    taps = [np.ascontiguousarray(np.atleast_2d(f), np.float32) for f in filters]
    items = (Filter * len(taps))()
    for item, plane in zip(items, taps):
        anchor = anchors or (plane.shape[0] // 2, plane.shape[1] // 2)
        item.rows, item.columns = plane.shape
        item.anchor_row, item.anchor_column = anchor
        item.divisor, item.offset, item.taps = divisor, level, plane.ctypes.data
    bank = Filters(items, len(taps))
    options = Options(stride_y=1, stride_x=1, dilation_y=1, dilation_x=1, scale=1, sets_type=True, output_type=2)
    for name, value in wanted.items():
        setattr(options, name, value)
    arguments = c.byref(header), c.byref(bank), c.byref(options)
    shape = ORACLE.gconv_oracle_get_shape(*arguments)
    oracle = c.c_void_p(ORACLE.gconv_oracle_create(*arguments))
    assert oracle, "the filter finds no place"
    outputs = []
    for number in range(shape.outputs):
        samples = (Sample * (shape.height * shape.width * shape.channels))()
        assert ORACLE.gconv_oracle_expect(oracle, c.c_size_t(number), c.c_double(0), samples)
        values = np.frombuffer(samples, np.float64).reshape(shape.height, shape.width, shape.channels, 2)
        outputs.append(values[..., 0].copy())
    ORACLE.gconv_oracle_free(oracle)
    return outputs


class OracleTest(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(7)

    def image(self, height, width, channels=1):
        return self.random.random((height, width, channels), np.float32)

    def taps(self, rows, columns):
        return self.random.standard_normal((rows, columns)).astype(np.float32)

    def same(self, got, expected):
        self.assertEqual(got.shape[:2], expected.shape[:2])
        np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)

    def test_borders_sizes_and_flip_are_those_of_scipy(self):
        for size in [(1, 1), (1, 5), (2, 2), (3, 3), (4, 4), (2, 5), (9, 1), (13, 12)]:
            image, taps = self.image(7, 6), self.taps(*size)
            for border, mode in SCIPY_MODES.items():
                value = 0.3 if border == "constant" else 0
                for flip, function in [(False, ndimage.correlate), (True, ndimage.convolve)]:
                    with self.subTest(size=size, border=border, flip=flip):
                        got = ask(image, taps, border=BORDERS[border], border_value=value, flip=flip)[0]
                        expected = function(image[..., 0].astype(float), taps.astype(float), mode=mode, cval=value)
                        self.same(got, expected)

    def test_anchors_are_origins(self):
        image, taps = self.image(9, 8), self.taps(4, 5)
        for anchor in [(0, 0), (3, 4), (1, 3)]:
            origin = (anchor[0] - 2, anchor[1] - 2)
            expected = ndimage.correlate(image[..., 0].astype(float), taps.astype(float), mode="nearest", origin=origin)
            self.same(ask(image, taps, anchors=anchor, border=BORDERS["replicate"])[0], expected)

    def test_periodic_extensions_reach_any_distance(self):
        for height, width in [(1, 1), (1, 2), (2, 3)]:
            image, taps = self.image(height, width), self.taps(15, 15)
            for border, pad in NUMPY_PADS.items():
                with self.subTest(height=height, width=width, border=border):
                    padded = np.pad(image[..., 0].astype(float), 7, mode=pad)
                    expected = signal.correlate2d(padded, taps.astype(float), mode="valid")
                    self.same(ask(image, taps, border=BORDERS[border])[0], expected)

    def test_paddings(self):
        image, taps = self.image(6, 9), self.taps(4, 3)
        plain, kernel = image[..., 0].astype(float), taps.astype(float)
        for mode in ["valid", "full"]:
            self.same(ask(image, taps, padding=PADDINGS[mode])[0], signal.correlate2d(plain, kernel, mode=mode))
            self.same(ask(image, taps, padding=PADDINGS[mode], flip=True)[0], signal.convolve2d(plain, kernel, mode=mode))
        padded = np.pad(plain, ((2, 5), (0, 7)))
        got = ask(image, taps, padding=PADDINGS["explicit"], pad_top=2, pad_bottom=5, pad_right=7)[0]
        self.same(got, signal.correlate2d(padded, kernel, mode="valid"))

    def test_strides_and_dilations(self):
        image, taps = self.image(10, 11), self.taps(3, 2)
        wide = np.zeros((5, 4), np.float32)
        wide[::2, ::3] = taps
        for name, padding in PADDINGS.items():
            dense = ask(image, wide, padding=padding, anchors=(2, 3))[0]
            got = ask(image, taps, padding=padding, dilation_y=2, dilation_x=3, stride_y=3, stride_x=2, anchors=(1, 1))[0]
            with self.subTest(padding=name):
                self.same(got, dense[::3, ::2])

    def test_integers_are_fractions_of_white(self):
        image = self.random.integers(0, 256, (5, 4, 1)).astype(np.uint8)
        taps = self.taps(3, 3)
        response = ndimage.correlate(image[..., 0].astype(float), taps.astype(float), mode="constant")
        got = ask(image, taps, divisor=2, level=10, scale=3, offset=0.25)[0]
        self.same(got, (response / 2 + 10) / 255 * 3 + 0.25)
        got = ask(image, taps, output_type=1)[0]
        self.same(got, np.clip(response / 255, 0, 1) * 65535)
        got = ask(image, taps, output_type=0, range=2)[0]
        self.same(got, np.clip(response / 255 / 2 + 0.5, 0, 1) * 255)

    def test_combinations(self):
        image, bank = self.image(5, 6, 2), [self.taps(3, 3) for _ in range(3)]
        single = np.stack(ask(image, *bank))
        self.same(ask(image, *bank, combine=1)[0], np.sqrt((single**2).sum(0)))
        self.same(ask(image, *bank, combine=2)[0], single.sum(0))
        self.same(ask(image, *bank, combine=3)[0], single.max(0))
        self.same(ask(image, *bank, combine=4)[0], np.concatenate(list(single), axis=2))

    def test_ranges(self):
        image, taps = self.image(5, 6, 4), self.taps(3, 3)
        plain = ask(image, taps, has_alpha=True)[0]
        self.same(plain[..., 3], image[..., 3])
        self.same(ask(image, taps, has_alpha=True, range=1)[0][..., :3], np.abs(plain[..., :3]))
        low, high = plain[..., :3].min(), plain[..., :3].max()
        got = ask(image, taps, has_alpha=True, range=3)[0]
        self.same(got[..., :3], (plain[..., :3] - low) / (high - low))
        self.same(got[..., 3], image[..., 3])

    def test_alpha_is_kept_filtered_or_multiplied(self):
        image, blur = self.image(5, 6, 4), np.full((2, 2), 0.25, np.float32)
        image[1:4, 1:5, 3] = 0
        plain = image.astype(float)
        kept = ask(image, blur, has_alpha=True, stride_x=2, alpha=0)[0]
        self.same(kept[..., 3], plain[:, ::2, 3])
        self.same(ask(image, blur, has_alpha=True, alpha=1)[0], ask(image, blur)[0])
        mean = lambda plane: ndimage.uniform_filter(plane, 2, mode="nearest")
        alpha = mean(plain[..., 3])
        with np.errstate(divide="ignore", invalid="ignore"):
            colours = [np.where(alpha > 0, mean(plain[..., c] * plain[..., 3]) / alpha, 0) for c in range(3)]
        self.assertEqual((alpha == 0).sum(), 6)
        got = ask(image, blur, has_alpha=True, alpha=2, border=BORDERS["replicate"])[0]
        self.same(got, np.dstack(colours + [alpha]))

    def test_grey(self):
        image, one = self.image(3, 4, 3), np.ones((1, 1))
        self.same(ask(image, one, gray=True)[0], image.astype(float) @ [0.299, 0.587, 0.114])
        levels = (image * 255).astype(np.uint8)
        self.same(ask(levels, one, gray=True)[0], levels.astype(float) @ [0.299, 0.587, 0.114] / 255)
        self.same(ask(levels, one, gray=True, round_gray=True)[0], np.rint(levels.astype(float) @ [0.299, 0.587, 0.114]) / 255)

    def test_linear_light(self):
        image, one = self.image(3, 4, 3), np.ones((1, 1))
        image[0, 0] = 0.01  # in the straight part of the curve
        self.same(ask(image, one, linear=True)[0], image)
        self.same(ask(-image, one, linear=True)[0], -image)
        plain = image.astype(float)
        light = np.where(plain <= 0.04045, plain / 12.92, ((plain + 0.055) / 1.055) ** 2.4)
        encode = lambda v: np.where(v <= 0.0031308, v * 12.92, 1.055 * v ** (1 / 2.4) - 0.055)
        got = ask(image, np.ones((3, 4)), divisor=12, padding=PADDINGS["valid"], linear=True)[0]
        self.same(got, encode(light.mean((0, 1), keepdims=True)))
        self.same(ask(image, one, linear=True, gray=True)[0], encode(light @ [0.2126, 0.7152, 0.0722]))


if __name__ == "__main__":
    unittest.main()
