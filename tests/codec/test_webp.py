#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""WebP against Pillow: files that it wrote, and what it reads of ours."""
import io
import os
import unittest

import numpy as np
from PIL import Image, ImageCms

from codec_helper import clean_up, convert, failure, header, noise, path, read, save, skip_without

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def tearDownModule():
    clean_up()


def smooth(channels):
    ramp = np.add.outer(np.arange(90), np.arange(110))
    return np.stack([(ramp * (c + 1)) % 200 for c in range(channels)], axis=-1).astype(np.uint8)


def pixels(name):
    with Image.open(name) as image:
        return np.asarray(image)


class Reading(unittest.TestCase):
    def test_every_kind(self):
        for channels in (3, 4):
            image = Image.fromarray(smooth(channels))
            for options in ({}, {"lossless": True}, {"lossless": True, "exact": True}, {"quality": 20}):
                image.save(path("in.webp"), **options)
                np.testing.assert_array_equal(read(path("in.webp")), pixels(path("in.webp")))
                self.assertIn(f"alpha={int(channels == 4)}", header(path("in.webp")))

    def test_an_animation_that_claims_too_much(self):
        """The canvas stands in the header, and no picture fills it."""
        first, other = [Image.fromarray(np.roll(smooth(3), 9 * i, 0)) for i in range(2)]
        first.save(path("in.webp"), save_all=True, append_images=[other], lossless=True)
        with open(path("in.webp"), "rb") as file:
            data = bytearray(file.read())
        for width, height, told in ((8_000_000, 230, "16383 on a side"), (16383, 16383, "262144 pixels a byte")):
            data[24:30] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
            self.assertIn(told, failure(save("claims.webp", bytes(data))))

    def test_animation(self):
        first, *others = frames = [Image.fromarray(np.roll(smooth(3), 9 * i, 0)) for i in range(4)]
        first.save(path("in.webp"), save_all=True, append_images=others, duration=50, lossless=True)
        said = convert(path("in.webp"), path("out.npy"))
        self.assertEqual(said.count("4 frames are read"), 1)
        got = read(path("in.webp"))
        np.testing.assert_array_equal(got[..., :3], [np.asarray(frame) for frame in frames])
        for number, frame in enumerate(frames, 1):
            np.testing.assert_array_equal(read(path("in.webp") + f":{number}")[..., :3], np.asarray(frame))
        for number in ("0", "5", "x"):
            self.assertIn("numbers 1 to 4", failure(path("in.webp") + ":" + number))

    def test_cut(self):
        for options in ({}, {"lossless": True}):
            Image.fromarray(noise((40, 50, 3), "u1")).save(path("in.webp"), icc_profile=PROFILE, **options)
            with open(path("in.webp"), "rb") as file:
                content = file.read()
            for part in range(1, 16):
                self.assertIn("damaged WebP", failure(save("cut.webp", content[:len(content) * part // 16])))

    def test_limit(self):
        Image.fromarray(smooth(3)).save(path("in.webp"))
        self.assertIn("max_pixels", failure(path("in.webp"), MAX_PIXELS="9899"))


class Writing(unittest.TestCase):
    def test_without_loss(self):
        for channels in (1, 2, 3, 4):
            array = noise((31, 47, channels), "u1")
            np.save(path("in.npy"), array if channels > 1 else array[..., 0])
            convert(path("in.npy"), path("out.webp"), LOSSLESS="1")
            expected = array if channels >= 3 else array[..., [0, 0, 0] + [1] * (channels == 2)]
            np.testing.assert_array_equal(pixels(path("out.webp")), expected)
            np.testing.assert_array_equal(read(path("out.webp")), expected)

    def test_quality(self):
        """By default 90, and as libwebp makes it for Pillow."""
        array = smooth(3)
        np.save(path("in.npy"), array)
        sizes = []
        for quality in ("20", "90", ""):
            convert(path("in.npy"), path("out.webp"), QUALITY=quality)
            sizes.append(os.path.getsize(path("out.webp")))
            self.assertLess(np.abs(pixels(path("out.webp")).astype(int) - array).mean(), 25)
        self.assertLess(sizes[0], sizes[1])
        self.assertEqual(sizes[1], sizes[2])
        ours = io.BytesIO()
        Image.fromarray(array).save(ours, "webp", quality=90, method=4)
        self.assertAlmostEqual(sizes[1], len(ours.getvalue()), delta=200)

    def test_profile(self):
        Image.fromarray(smooth(3)).save(path("in.png"), icc_profile=PROFILE)
        for lossless in ({}, {"LOSSLESS": "1"}):
            for target in ("out.webp", "back.tif"):
                convert(path("in.png") if target == "out.webp" else path("out.webp"), path(target), **lossless)
                with Image.open(path(target)) as image:
                    self.assertEqual(image.info["icc_profile"], PROFILE)

    def test_too_large(self):
        np.save(path("in.npy"), np.zeros((1, 16384), np.uint8))
        with self.assertRaisesRegex(AssertionError, "at most 16383 x 16383"):
            convert(path("in.npy"), path("out.webp"))


if __name__ == "__main__":
    probe = io.BytesIO()
    Image.fromarray(smooth(3)).save(probe, "webp")
    skip_without("libwebp", probe.getvalue())
    unittest.main()
