#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TIFF of random kinds: the same pixels as those that were written, or a refusal that says what it is; nothing else.

A few files by Pillow and by hand. With tifffile and imagecodecs, of tifffile too; 1,000 with GCONV_LONG_TESTS; GCONV_MANY_FILES is another number."""
import os
import subprocess
import unittest

import numpy as np
from PIL import Image

from codec_helper import CONVERT, clean_up, path, save, skip_without
from test_tiff import make_tiff, pack

try:
    import imagecodecs
    import tifffile
except ModuleNotFoundError:
    imagecodecs = tifffile = None

FILES = int(os.environ.get("GCONV_MANY_FILES", "1000" if "GCONV_LONG_TESTS" in os.environ else "40"))
RANDOM = np.random.default_rng(int(os.environ.get("GCONV_SEED", "1")))
SHORT = 3


def tearDownModule():
    clean_up()


def pick(*values):
    return values[RANDOM.integers(len(values))]


def scaled(values, bits):
    """Levels of few bits as those of 8 or 16."""
    white = 255 if bits <= 8 else 65535
    return np.floor(values * (white / (2.0**bits - 1)) + 0.5).astype("u1" if bits <= 8 else "u2")


def upright(array, orientation):
    turned = np.swapaxes(array, 0, 1)
    return (array, array[:, ::-1], array[::-1, ::-1], array[::-1], turned, turned[:, ::-1], turned[::-1, ::-1],
            turned[::-1])[orientation - 1]


def undo_alpha(array):
    """Colours that were multiplied by alpha, as they were."""
    colours, alpha = array[..., :-1].astype("f8"), array[..., -1:].astype("f8")
    if array.dtype.kind == "f":
        return np.concatenate([np.where(alpha != 0, colours / np.where(alpha != 0, alpha, 1), 0), alpha], -1).astype("f4")
    white = np.iinfo(array.dtype).max
    made = np.where(alpha > 0, np.floor((colours * white + alpha // 2) / np.maximum(alpha, 1)), 0)
    return np.concatenate([np.minimum(made, white), alpha], -1).astype(array.dtype)


def rgb_of_cmyk(array):
    white = int(np.iinfo(array.dtype).max)
    inks = array.astype("u8")
    left = white - inks[..., 3:]
    return (left - (inks[..., :3] * left + white // 2) // white).astype(array.dtype)


# ---- Writers: each returns what it wrote, and the pixels that are right ------------------------------------------------


def by_hand():
    bits, samples = int(pick(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)), int(pick(1, 1, 3))
    height, width, orientation = int(RANDOM.integers(1, 40)), int(RANDOM.integers(1, 40)), int(RANDOM.integers(1, 9))
    inverted, big, order = samples == 1 and pick(True, False), pick(True, False), int(pick(1, 1, 2))
    values = RANDOM.integers(0, 2**bits, (height, width * samples))
    packed = pack(values, bits)
    if bits == 16:
        packed = values.astype(">u2" if big else "<u2").tobytes()
    if order == 2:
        packed = np.packbits(np.unpackbits(np.frombuffer(packed, "u1")), bitorder="little").tobytes()
    more = [(274, SHORT, orientation), (266, SHORT, order)]
    content = make_tiff(packed, width, height, bits, samples, 2 if samples == 3 else 0 if inverted else 1, big, more)
    right = scaled(2**bits - 1 - values if inverted else values, bits).reshape(height, width, samples)
    return content, upright(right, orientation), f"hand: {bits} bits, {samples}, {more}, big {big}, inverted {inverted}"


def by_pillow():
    mode = pick("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F")
    shape = int(RANDOM.integers(1, 60)), int(RANDOM.integers(1, 60))
    compression = pick("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "group4" if mode == "1" else "raw")
    if mode == "1":
        right = RANDOM.integers(0, 2, shape).astype(bool)
        image, right = Image.fromarray(right), right * np.uint8(255)
    elif mode == "P":
        image = Image.fromarray(RANDOM.integers(0, 256, (*shape, 3)).astype("u1")).quantize(int(pick(2, 16, 200)))
        right = np.asarray(image.convert("RGB"))
    elif mode == "I;16":
        right = RANDOM.integers(0, 65536, shape).astype("u2")
        image = Image.fromarray(right)
    elif mode in ("I", "F"):
        right = RANDOM.integers(-2**20, 2**20, shape).astype("i4" if mode == "I" else "f4")
        image = Image.fromarray(right)
    else:
        right = RANDOM.integers(0, 256, (*shape, len(mode)) if mode != "L" else shape).astype("u1")
        image = Image.fromarray(right, mode)
    image.save(path("many.tif"), compression=compression)
    with open(path("many.tif"), "rb") as file:
        content = file.read()
    return content, rgb_of_cmyk(right) if mode == "CMYK" else right, f"pillow: {mode} {compression}"


def by_tifffile():
    dtype = pick("u1", "u1", "u1", "u2", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "?")
    kind = pick("minisblack", "minisblack", "rgb", "rgb", "miniswhite", "palette", "separated")
    pages, height, width = int(pick(1, 1, 1, 3)), int(RANDOM.integers(2, 70)), int(RANDOM.integers(2, 70))
    extra = pick((), (), ("unassalpha",), ("assocalpha",), ("unspecified",))
    if kind == "palette":
        dtype, extra = "u1", ()
    if kind == "separated":
        dtype, extra = pick("u1", "u2"), ()
    if dtype in ("?", "c8"):
        kind, extra = "minisblack", ()
    samples = {"rgb": 3, "separated": 4}.get(kind, 1) + len(extra)
    planes = samples > 1 and pick(True, False)
    compression = pick(None, None, "zlib", "lzw", "packbits", "zstd", "lzma", "deflate", "lerc", "webp", "png", "jpeg2000", "jpegxl")
    predictor = compression in ("zlib", "lzw", "deflate", "zstd", "lzma") and dtype not in ("c8", "?") and pick(True, False)
    array = (RANDOM.normal(0, 9, (pages, height, width, samples)) if dtype[0] in "fc" else
             RANDOM.integers(0, 2, (pages, height, width, samples)) if dtype == "?" else
             RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (pages, height, width, samples), dtype, True)).astype(dtype)
    if dtype[0] in "iuf" and np.dtype(dtype).itemsize > 3 and dtype[0] != "f":
        array = (array // 2**(8 * np.dtype(dtype).itemsize - 24)).astype(dtype)
    options = {"photometric": kind, "compression": compression, "byteorder": pick("<", ">"), "bigtiff": pick(False, True),
               "metadata": None, "predictor": predictor or None}
    if extra:
        options["extrasamples"] = extra
    if samples > 1:
        options["planarconfig"] = "separate" if planes else "contig"
    if pick(True, False):
        options["tile"] = (int(pick(16, 32, 48)), int(pick(16, 32, 64)))
    else:
        options["rowsperstrip"] = int(RANDOM.integers(1, height + 1))
    colours = RANDOM.integers(0, 65536, (3, 256)).astype("u2")
    if kind == "palette":
        options["colormap"] = colours
    given = np.moveaxis(array, -1, 1) if planes else array
    if samples == 1:
        given = given[..., 0]
    tifffile.imwrite(path("many.tif"), given if pages > 1 else given[0], **options)
    with open(path("many.tif"), "rb") as file:
        content = file.read()
    return content, right_of(array, kind, extra, colours), f"tifffile: {dtype} {array.shape} {options if kind != 'palette' else kind}"


def right_of(array, kind, extra, colours):
    """The pixels of what tifffile wrote."""
    if array.dtype.kind == "b":
        right = array * np.uint8(255)
    elif array.dtype in ("u1", "u2"):
        right = array.copy()
        if kind == "miniswhite":
            right[..., 0] = np.iinfo(array.dtype).max - right[..., 0]
    else:
        right = array.astype("f4") if array.dtype.kind != "c" else array.real
    if kind == "palette":
        right = (colours.T >> 8).astype("u1")[array[..., 0]]
    if kind == "separated":
        right = rgb_of_cmyk(array)
    if extra == ("assocalpha",):
        right = undo_alpha(right)
    return right if len(right) > 1 else right[0]


class Many(unittest.TestCase):
    def check(self, content, right, what, refused):
        done = subprocess.run([CONVERT, save("in.tif", content), path("out.npy")], capture_output=True, text=True)
        if done.returncode != 0:
            self.assertRegex(done.stderr, "not read here|does not read|samples a pixel; 1 to 4", what)
            reason = done.stderr.split(": ", 1)[1].split(", which")[0].split(";")[0][:70]
            refused[reason] = refused.get(reason, 0) + 1
            return
        got = np.load(path("out.npy"))
        got = np.moveaxis(got, 1, -1) if got.ndim == 4 else got
        right = right.reshape(got.shape) if right.size == got.size else right
        self.assertEqual((got.shape, got.dtype), (right.shape, right.dtype if right.dtype != "i4" else np.float32), what)
        np.testing.assert_array_equal(got, right.astype(got.dtype), what)

    def test_pixels(self):
        refused, kinds = {}, [by_hand, by_pillow] + ([by_tifffile] * 4 if tifffile else [])
        for _ in range(FILES):
            try:
                content, right, what = pick(*kinds)()
            except (ValueError, TypeError, NotImplementedError, RuntimeError, KeyError, OSError):
                refused["not written"] = refused.get("not written", 0) + 1  # a combination that the writer does not have
                continue
            with self.subTest(what):
                self.check(content, right, what, refused)
        if FILES > 100:
            print(refused)


if __name__ == "__main__":
    skip_without("libtiff", make_tiff(bytes(4), 2, 2))
    unittest.main()
