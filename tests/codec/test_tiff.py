#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TIFF against files that Pillow, OpenCV, libvips, libtiff's programs and tifffile wrote, and what these read of ours; what
they do not write is written here."""
import shutil
import struct
import subprocess
import unittest
import zlib

import numpy as np
from PIL import Image, ImageCms

from codec_helper import CONVERT, RANDOM, clean_up, convert, failure, header, noise, path, read, save, skip_without

try:
    import tifffile
except ModuleNotFoundError:
    tifffile = None
try:
    import cv2
except ModuleNotFoundError:
    cv2 = None

NONE, DEFLATE, LZW, ZSTD = "0123"
ASCII, SHORT, LONG = 2, 3, 4


def tearDownModule():
    clean_up()


def make_tiff(data, width, height, bits=8, samples=1, photometric=1, big_endian=False, more=(), strip_rows=None, next_at=0, counts={}):
    """A classic TIFF of stored strips, and tags (number, type, value) besides. counts: of values by tag, if there are more."""
    order = ">" if big_endian else "<"
    tags = {256: (LONG, width), 257: (LONG, height), 258: (SHORT, bits), 259: (SHORT, 1), 262: (SHORT, photometric),
            273: (LONG, 8), 277: (SHORT, samples), 278: (LONG, strip_rows or height), 279: (LONG, len(data))}
    tags.update({number: (kind, value) for number, kind, value in more})
    data += b"\0" * (len(data) % 2)
    out = (b"MM\0*" if big_endian else b"II*\0") + struct.pack(order + "I", 8 + len(data)) + data
    out += struct.pack(order + "H", len(tags))
    for number, (kind, value) in sorted(tags.items()):
        field = struct.pack(order + "HH", value, 0) if kind == SHORT else struct.pack(order + "I", value)
        out += struct.pack(order + "HHI", number, kind, counts.get(number, 2 if kind == ASCII else 1)) + field
    return out + struct.pack(order + "I", next_at)


def pack(values, bits):
    """Rows of samples of that many bits, the highest first."""
    rows = (values.astype(int)[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(rows.reshape(len(values), -1).astype(np.uint8), axis=1).tobytes()


def old_lzw(data):
    """Codes of LZW as libtiff wrote them before TIFF 5.0: the lowest bit first. Of 9 bits all, as the table stays small."""
    codes = [code for at in range(0, len(data), 200) for code in (256, *data[at:at + 200])] + [257]
    bits = np.array([code >> bit & 1 for code in codes for bit in range(9)], "u1")
    return np.packbits(bits, bitorder="little").tobytes()


class Samples(unittest.TestCase):
    def test_few_bits(self):
        for bits in (1, 2, 4, 6, 10, 12, 14):
            values, white = RANDOM.integers(0, 2**bits, (17, 23)), 255 if bits <= 8 else 65535
            for big in (False, True):
                got = read(save("in.tif", make_tiff(pack(values, bits), 23, 17, bits, big_endian=big)))
                np.testing.assert_array_equal(got, np.floor(values * white / (2**bits - 1) + 0.5), f"{bits} bits")
                self.assertEqual(got.dtype, np.uint8 if bits <= 8 else np.uint16)

    def test_white_is_zero(self):
        for dtype, bits in (("<u1", 8), ("<u2", 16)):
            array = noise((7, 9), dtype)
            np.testing.assert_array_equal(read(save("in.tif", make_tiff(array.tobytes(), 9, 7, bits, photometric=0))), ~array)

    def test_white_is_zero_of_numbers(self):
        """They stay as they are, and a line says so."""
        for dtype, kind in (("<f4", 3), ("<i2", 2), ("<u4", 1)):
            array = noise((7, 9), "<u2").astype(dtype)
            more = [(339, SHORT, kind)]
            name = save("in.tif", make_tiff(array.tobytes(), 9, 7, 8 * array.itemsize, photometric=0, more=more))
            self.assertIn("its white is 0", convert(name, path("out.npy")))
            np.testing.assert_array_equal(np.load(path("out.npy")), array)

    def test_lowest_bit_first(self):
        """Compressed bytes are reversed, too: by Deflate, whose checksum is looked at, and by PackBits."""
        array = noise((9, 130), "u1")
        literal = b"".join(b"\x40" + row[:65].tobytes() + b"\x40" + row[65:].tobytes() for row in array)
        for compression, data in ((8, zlib.compress(array.tobytes())), (32946, zlib.compress(array.tobytes())), (32773, literal),
                                  (1, array.tobytes())):
            data = np.packbits(np.unpackbits(np.frombuffer(data, "u1")), bitorder="little").tobytes()
            name = save("in.tif", make_tiff(data, 130, 9, more=[(259, SHORT, compression), (266, SHORT, 2)]))
            self.assertEqual(convert(name, path("out.npy")), "")
            np.testing.assert_array_equal(np.load(path("out.npy")), array)

    def test_a_file_of_one_colour_that_claims_too_much(self):
        """A line of 65,000 white pixels is one bit; so is a sheet of paper of 60 x 80 cm, which is read."""
        for width, height, told in ((65000, 5000, "262144 pixels a byte"), (14000, 19000, "")):
            lines = b"\xff" * (height // 8) + b"\x00\x10\x01"
            name = save("in.tif", make_tiff(lines, width, height, 1, photometric=0, more=[(259, SHORT, 4)]))
            self.assertIn(told, failure(name) if told else convert(name, path("out.tif"), COMPRESSION=DEFLATE))

    def test_numbers_become_float(self):
        for dtype, kind in (("i1", 2), ("i2", 2), ("u4", 1), ("i4", 2), ("u8", 1), ("i8", 2), ("f2", 3), ("f8", 3)):
            for order in "<>":
                array = np.asarray(np.abs(noise((7, 9), "f4")) * 50, dtype) if dtype[0] == "u" else np.asarray(
                    noise((7, 9), "f4") * 50, dtype)
                content = make_tiff(array.astype(order + dtype).tobytes(), 9, 7, 8 * array.itemsize, more=[(339, SHORT, kind)],
                                    big_endian=order == ">")
                got = read(save("in.tif", content))
                np.testing.assert_array_equal(got, array.astype(np.float32), dtype)
                self.assertEqual(got.dtype, np.float32)
        exact, rounded = (make_tiff(struct.pack("<I", value), 1, 1, 32) for value in (1 << 30, (1 << 30) + 1))
        self.assertEqual(convert(save("in.tif", exact), path("out.npy")), "")
        self.assertIn("numbers beyond 2^24 became float32, with rounding", convert(save("in.tif", rounded), path("out.npy")))

    def test_alpha(self):
        array = noise((6, 5, 4), "u1")
        for kind, alpha in ((0, "alpha=0"), (1, "alpha=1"), (2, "alpha=1")):
            name = save("in.tif", make_tiff(array.tobytes(), 5, 6, 8, 4, 2, more=[(338, SHORT, kind)]))
            self.assertIn(alpha, header(name))
            expected = array
            if kind == 1:
                scale = np.where(array[..., 3:] > 0, 255 / np.maximum(array[..., 3:], 1), 0)
                expected = np.dstack([np.floor(np.minimum(array[..., :3] * scale, 255) + 0.5), array[..., 3]])
            np.testing.assert_array_equal(read(name), expected)

    def test_colours_without_alpha_that_are_lost(self):
        for dtype, kind, white in (("f4", 3, 1), ("u1", 1, 255), ("u2", 1, 65535)):
            more = [(338, SHORT, 1), (339, SHORT, kind)]
            pixels = np.array([[[0.5, 0.25, 0, 0.5], [0, 0, 0, 0]], [[0.9, 0, 0, 0], [0, 0, 0, 1]]]) * white
            for array, lost in ((pixels[:1], False), (pixels, True)):
                content = make_tiff(array.astype(dtype).tobytes(), 2, len(array), 8 * np.dtype(dtype).itemsize, 4, 2, more=more)
                said = convert(save("in.tif", content), path("out.npy"))
                self.assertEqual("larger than their alpha are lost" in said, lost, f"{dtype}: {said}")

    def test_refused(self):
        cases = ((dict(bits=8, samples=7), "7 samples a pixel"), (dict(bits=24), "24 bits"), (dict(photometric=32803), "CFA"),
                 (dict(more=[(259, SHORT, 34712)]), "JPEG 2000"), (dict(more=[(339, SHORT, 6)], bits=64), "complex"),
                 (dict(photometric=32845), "LogLuv"), (dict(samples=3, photometric=8, more=[(284, SHORT, 2)]), "planes of their own"))
        for how, text in cases:
            self.assertIn(text, failure(save("in.tif", make_tiff(bytes(4000), 5, 6, **how))))

    def test_samples_of_different_sizes(self):
        """Those of 5, 6 and 5 bits are sound, and not supported."""
        content = make_tiff(bytes(16), 4, 1, samples=3, photometric=2)
        at = content.index(struct.pack("<HHI", 258, SHORT, 1))
        content = content[:at] + struct.pack("<HHII", 258, SHORT, 3, len(content)) + content[at + 12:] + struct.pack("<3H", 5, 6, 5)
        text = failure(save("in.tif", content))
        self.assertIn("a TIFF of samples of different sizes", text)
        self.assertNotIn("damaged", text)

    def test_strips_that_are_left_out(self):
        """As GDAL does with SPARSE_OK: at 0, of 0 bytes. They are no data, or 0; other gaps are damage."""
        gone = [(273, LONG, 0), (279, LONG, 0)]
        for bits, kind, dtype in ((8, 1, "u1"), (16, 1, "u2"), (32, 3, "f4"), (16, 2, "f4")):
            for more, value in (([], 0), ([(42113, ASCII, ord("7"))], 7)):
                got = read(save("in.tif", make_tiff(b"", 9, 7, bits, more=[*gone, (339, SHORT, kind), *more])))
                np.testing.assert_array_equal(got, np.full((7, 9), value, dtype), f"{bits} bits, {value}")
        self.assertIn("too early", failure(save("in.tif", make_tiff(bytes(63), 9, 7, more=gone[:1]))))
        self.assertIn("too early", failure(save("in.tif", make_tiff(b"", 30000, 30000, more=gone))))
        lists = [(273, LONG, 8), (279, LONG, 8)]  # 150 strips, whose places and lengths are the same zeros
        large = make_tiff(bytes(600), 30000, 3000, more=lists, strip_rows=20, counts={273: 150, 279: 150})
        self.assertEqual(read(save("in.tif", large)).shape, (3000, 30000))

    def test_volume_in_one_page(self):
        self.assertIn("ImageDepth", failure(save("in.tif", make_tiff(bytes(126), 9, 7, more=[(32997, LONG, 2)]))))

    def test_old_codes_of_lzw(self):
        """They are sound, so nothing is said."""
        array = noise((9, 130), "u1")
        name = save("in.tif", make_tiff(old_lzw(array.tobytes()), 130, 9, more=[(259, SHORT, 5)]))
        self.assertEqual(convert(name, path("out.npy")), "")
        np.testing.assert_array_equal(np.load(path("out.npy")), array)


class Damaged(unittest.TestCase):
    def test_promises(self):
        """A hundred bytes get no gigabytes."""
        for more in ([], [(259, SHORT, 8)], [(259, SHORT, 5)], [(322, LONG, 1 << 20), (323, LONG, 1 << 20)]):
            content = make_tiff(b"\0\0", 1 << 28, 1 << 28, more=more)
            self.assertRegex(failure(save("in.tif", content), MAX_PIXELS=str(1 << 62)), "too early|damaged|more than a gigabyte")
        self.assertIn("max_pixels", failure(save("in.tif", make_tiff(bytes(100), 10, 10)), MAX_PIXELS="99"))

    def test_cut(self):
        array = noise((40, 50, 3), "u1")
        for options in ({}, {"compression": "tiff_adobe_deflate"}, {"compression": "tiff_lzw"}, {"compression": "jpeg"}):
            Image.fromarray(array).save(path("whole.tif"), **options)
            with open(path("whole.tif"), "rb") as file:
                content = file.read()
            for part in range(1, 16):
                text = failure(save("cut.tif", content[:len(content) * part // 16]))
                self.assertRegex(text, r"cut\.tif: .*(too early|damaged TIFF)", f"{options}, {part}/16")

    def test_loop(self):
        content = make_tiff(bytes(4), 2, 2)
        self.assertRegex(failure(save("in.tif", content[:-4] + content[4:8])), "damaged TIFF")

    def test_checksum_of_deflate(self):
        array = noise((40, 50), "u1")
        Image.fromarray(array).save(path("in.tif"), compression="tiff_adobe_deflate")
        with open(path("in.tif"), "rb") as file:
            content = bytearray(file.read())
        at = content.index(b"\x78", 8) + 1000
        content[at] ^= 0xff
        self.assertIn("damaged TIFF", failure(save("in.tif", content)))

    def test_flipped_bits_of_deflate(self):
        """No flipped bit gives other samples: its checksum is looked at in strips that libtiff decodes, too."""
        for shape, bits in (((9, 13), 8), ((9, 24), 1), ((9, 14), 12)):
            array = RANDOM.integers(0, 2**bits, shape)
            packed = array.astype("u1").tobytes() if bits == 8 else pack(array, bits)
            stream = zlib.compress(packed)
            whole = make_tiff(stream, shape[1], shape[0], bits, more=[(259, SHORT, 8 if bits == 8 else 32946)])
            expected = read(save("in.tif", whole)).reshape(shape)
            for bit in range(16, 8 * len(stream), 13):
                content = bytearray(whole)
                content[8 + bit // 8] ^= 1 << bit % 8
                done = subprocess.run([CONVERT, save("bad.tif", content), path("bad.npy")], capture_output=True, text=True)
                if done.returncode == 0:
                    np.testing.assert_array_equal(np.load(path("bad.npy")), expected, f"bit {bit} of {bits}")

    def test_strips_that_end_early(self):
        """Of any compression: refused, not black."""
        array = noise((60, 70), "u1") // 64
        for compression in ("packbits", "tiff_lzw", "tiff_adobe_deflate", "jpeg", "zstd", "webp"):
            try:
                Image.fromarray(np.dstack([array] * 3)).save(path("in.tif"), compression=compression)
            except (KeyError, OSError, RuntimeError):
                continue  # this Pillow does not write it
            with open(path("in.tif"), "rb") as file:
                content = file.read()
            for short in (1, 9, 50):
                with Image.open(path("in.tif")) as image:
                    count = image.tag_v2[279][0]
                form = "<HHII" if content.find(struct.pack("<HHII", 279, LONG, 1, count)) >= 0 else "<HHIHH"
                kind = LONG if form == "<HHII" else SHORT
                more = [] if kind == LONG else [0]
                cut = content.replace(struct.pack(form, 279, kind, 1, count, *more),
                                      struct.pack(form, 279, kind, 1, count - short, *more))
                done = subprocess.run([CONVERT, save("cut.tif", cut), path("cut.npy")], capture_output=True, text=True)
                if cut != content and done.returncode == 0:
                    same = np.array_equal(np.load(path("cut.npy")), read(path("in.tif")))
                    self.assertTrue(same or "damaged" in done.stderr, f"{compression}, {short} bytes less: {done.stderr}")

    def test_profile_that_is_cut_off(self):
        content = make_tiff(bytes(30), 6, 5, more=[(34675, 7, 0)])
        at = content.index(struct.pack("<HH", 34675, 7))
        content = content[:at + 4] + struct.pack("<II", 5000, 100) + content[at + 12:]
        self.assertRegex(convert(save("in.tif", content), path("out.tif")), "ICC")


class Pages(unittest.TestCase):
    def save_pages(self, arrays, **options):
        first, *others = [Image.fromarray(array) for array in arrays]
        first.save(path("in.tif"), save_all=True, append_images=others, **options)
        return path("in.tif")

    def test_frames(self):
        for shape in ((5, 13, 17), (3, 13, 17, 3)):
            array = noise(shape, "u1")
            name = self.save_pages(array)
            np.testing.assert_array_equal(read(name), array)
            for compression in (NONE, DEFLATE, LZW):
                convert(name, path("out.tif"), COMPRESSION=compression)
                with Image.open(path("out.tif")) as image:
                    self.assertEqual(image.n_frames, shape[0])
                    for i, page in enumerate(array):
                        image.seek(i)
                        np.testing.assert_array_equal(np.asarray(image), page)

    def test_pages_that_differ(self):
        """Where all are wanted as one image; cli/test_tiff.py takes them one by one."""
        text = failure(self.save_pages([noise((5, 6), "u1"), noise((5, 7), "u1")]))
        self.assertRegex(text, r"in\.tif: .*page 1 has 6 x 5 .*page 2 7 x 5 .*FILE:2")
        text = failure(self.save_pages([noise((5, 6), "u1"), noise((5, 6, 3), "u1")]))
        self.assertRegex(text, "1 u8 samples, page 2 6 x 5 pixels of 3 u8")

    def test_reduced_copies(self):
        """Left out, with one warning; a file that has nothing else is refused."""
        array = noise((5, 6), "u1")
        whole = make_tiff(array.tobytes(), 6, 5)
        small = make_tiff(bytes(4), 2, 2, more=[(254, LONG, 1)])
        self.assertIn("reduced copies alone", failure(save("in.tif", small)))
        at, = struct.unpack("<I", small[4:8])
        moved = struct.pack("<I", at + len(whole))
        content = whole[:-4] + moved + small
        said = convert(save("in.tif", content), path("out.npy"))
        self.assertEqual(said.count("1 reduced copy"), 1)
        np.testing.assert_array_equal(np.load(path("out.npy")), array)

    def test_copies_and_masks_below_pages(self):
        """SubIFDs: with the same line."""
        array = noise((5, 6), "u1")
        for kind, text in ((1, "1 reduced copy of the image"), (5, "1 mask"), (4, "1 mask"), (0, r"1 image below a page")):
            below = make_tiff(bytes(4), 2, 2, more=[(254, LONG, kind)])
            whole = make_tiff(array.tobytes(), 6, 5, more=[(330, LONG, 0)])
            at, = struct.unpack("<I", below[4:8])
            whole = whole.replace(struct.pack("<HHII", 330, LONG, 1, 0), struct.pack("<HHII", 330, LONG, 1, at + len(whole)))
            said = convert(save("in.tif", whole + below), path("out.npy"))
            self.assertRegex(said, text + r".* is left out")
            np.testing.assert_array_equal(np.load(path("out.npy")), array)


class Pillow(unittest.TestCase):
    def test_what_it_writes(self):
        photo = noise((60, 70, 3), "u1")
        for compression in ("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate"):
            for array in (photo, photo[..., 0], np.dstack([photo, photo[..., :1]]), photo[..., :2]):
                Image.fromarray(array, "LA" if array.shape[2:] == (2,) else None).save(path("in.tif"), compression=compression)
                np.testing.assert_array_equal(read(path("in.tif")), array, compression)
            Image.fromarray(noise((60, 70), "u2")).save(path("in.tif"), compression=compression)
            np.testing.assert_array_equal(read(path("in.tif")), np.asarray(Image.open(path("in.tif"))))

    def test_bitmaps(self):
        bits = RANDOM.integers(0, 2, (33, 45)).astype(bool)
        for compression in ("raw", "packbits", "group3", "group4", "tiff_ccitt"):
            Image.fromarray(bits).save(path("in.tif"), compression=compression)
            np.testing.assert_array_equal(read(path("in.tif")), bits * np.uint8(255), compression)

    def test_palettes_and_cmyk(self):
        image = Image.fromarray(noise((20, 30, 3), "u1")).quantize(16)
        image.save(path("in.tif"))
        np.testing.assert_array_equal(read(path("in.tif")), np.asarray(image.convert("RGB")))
        for compression in ("raw", "tiff_lzw"):
            image = Image.fromarray(noise((20, 30, 4), "u1"), "CMYK")
            image.save(path("in.tif"), compression=compression)
            np.testing.assert_array_equal(read(path("in.tif")), np.asarray(image.convert("RGB")))

    def test_jpeg_inside(self):
        Image.fromarray(np.kron(noise((6, 8, 3), "u1"), np.ones((9, 9, 1), "u1"))).save(path("in.tif"), compression="jpeg")
        with Image.open(path("in.tif")) as image:
            np.testing.assert_allclose(read(path("in.tif")), np.asarray(image.convert("RGB")), atol=1)

    def test_other_colours(self):
        photo = np.kron(noise((6, 8, 3), "u1"), np.ones((9, 9, 1), "u1"))
        Image.fromarray(photo).convert("YCbCr").save(path("in.tif"))
        np.testing.assert_allclose(read(path("in.tif")), photo, atol=4)

    def test_other_colours_that_are_turned(self):
        """libtiff turns some of these itself, and strip by strip."""
        photo = Image.fromarray(np.kron(noise((6, 8, 3), "u1"), np.ones((9, 9, 1), "u1")))
        for mode in ("YCbCr", "LAB"):
            image = photo.convert("YCbCr") if mode == "YCbCr" else Image.frombytes("LAB", photo.size, photo.tobytes())
            image.save(path("in.tif"))
            right = read(path("in.tif"))
            turned = np.swapaxes(right, 0, 1)
            upright = (right, right[:, ::-1], right[::-1, ::-1], right[::-1], turned, turned[:, ::-1], turned[::-1, ::-1],
                       turned[::-1])
            for orientation, expected in enumerate(upright, 1):
                image.save(path("in.tif"), tiffinfo={274: orientation})
                for threads in ("1", "4"):
                    convert(path("in.tif"), path("out.npy"), GCONV_MOST_THREADS=threads)
                    np.testing.assert_array_equal(np.load(path("out.npy")), expected, f"{mode} {orientation}")

    def test_orientation(self):
        array = noise((13, 17, 3), "u1")
        turned = np.swapaxes(array, 0, 1)
        upright = (array, array[:, ::-1], array[::-1, ::-1], array[::-1], turned, turned[:, ::-1], turned[::-1, ::-1],
                   turned[::-1])
        for orientation, expected in enumerate(upright, 1):
            name = save("in.tif", make_tiff(array.tobytes(), 17, 13, 8, 3, 2, more=[(274, SHORT, orientation)]))
            np.testing.assert_array_equal(read(name), expected, f"orientation {orientation}")

    def test_profile_and_resolution(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        for unit, dots in ((2, 300), (3, 100)):
            Image.fromarray(noise((9, 9, 3), "u1")).save(path("in.tif"), icc_profile=profile, resolution=dots,
                                                         resolution_unit=unit)
            for target in ("out.tif", "out.png"):
                convert(path("in.tif"), path(target))
                with Image.open(path(target)) as image:
                    self.assertEqual(image.info["icc_profile"], profile)
                    expected = dots if unit == 2 else dots * 2.54
                    self.assertAlmostEqual(float(image.info["dpi"][0]), expected, delta=0.02)

    def test_resolution_without_a_unit(self):
        """It is kept from format to format: the ratio is that of pixels that are no squares."""
        array = noise((9, 9, 3), "u1")
        Image.fromarray(array).save(path("in.tif"), x_resolution=4.0, y_resolution=3.0, resolution_unit=1)
        Image.fromarray(array).save(path("plain.tif"), x_resolution=1.0, y_resolution=1.0, resolution_unit=1)
        convert(path("in.tif"), path("out.png"))
        convert(path("out.png"), path("out.jpg"))
        convert(path("out.jpg"), path("out.tif"))
        with Image.open(path("out.png")) as png, Image.open(path("out.jpg")) as jpeg, Image.open(path("out.tif")) as tiff:
            self.assertEqual(png.info["aspect"], (4, 3))
            self.assertEqual((jpeg.info["jfif_unit"], jpeg.info["jfif_density"]), (0, (4, 3)))
            self.assertEqual((tiff.tag_v2[296], tiff.tag_v2[282], tiff.tag_v2[283]), (1, 4, 3))
        convert(path("plain.tif"), path("out.png"))
        with Image.open(path("out.png")) as png:
            self.assertNotIn("aspect", png.info)

    def test_white_as_zero_times_alpha(self):
        more = [(338, SHORT, 1)]
        self.assertIn("white is 0, and that was multiplied", failure(save("in.tif", make_tiff(bytes(60), 5, 6, 8, 2, 0, more=more))))

    def test_what_it_reads(self):
        for dtype, shape in (("u1", (61, 83)), ("u1", (61, 83, 3)), ("u1", (700, 301, 4)), ("u2", (700, 301)), ("f4", (61, 83))):
            array = noise(shape, dtype)
            name = path("in.npy")
            np.save(name, array)
            if shape[2:] == (4,):
                name = path("in.png")  # which has alpha, where .npy has numbers
                Image.fromarray(array).save(name)
            for compression in (NONE, DEFLATE, LZW, ZSTD):
                files = []
                for threads in "13":
                    convert(name, path("out.tif"), COMPRESSION=compression, THREADS=threads)
                    with Image.open(path("out.tif")) as image:
                        np.testing.assert_array_equal(np.asarray(image), array, f"{dtype} {shape} {compression}")
                    np.testing.assert_array_equal(read(path("out.tif")), array)
                    with open(path("out.tif"), "rb") as file:
                        files.append(file.read())
                self.assertEqual(*files)

    def test_pipes(self):
        array = noise((3, 61, 83), "u1")
        first, *others = [Image.fromarray(page) for page in array]
        first.save(path("in.tif"), save_all=True, append_images=others)
        with open(path("in.tif"), "rb") as file, open(path("out.tif"), "wb") as out:
            subprocess.run([CONVERT, "-", "-"], stdin=file, stdout=out, check=True, env={"FORMAT": "tiff"})
        np.testing.assert_array_equal(read(path("out.tif")), array)


@unittest.skipUnless(cv2, "there is no OpenCV")
class OpenCv(unittest.TestCase):
    def test_both_ways(self):
        for dtype in ("u1", "u2", "f4"):
            for channels in (1, 3):
                array = noise((61, 83, channels), dtype)
                plain = array[..., 0] if channels == 1 else array
                for compression in (1, 5, 8):
                    cv2.imwrite(path("in.tif"), array[..., ::-1], [cv2.IMWRITE_TIFF_COMPRESSION, compression])
                    np.testing.assert_array_equal(read(path("in.tif")), plain)
                np.save(path("in.npy"), plain)
                for compression in (NONE, DEFLATE, LZW):
                    convert(path("in.npy"), path("out.tif"), COMPRESSION=compression)
                    got = cv2.imread(path("out.tif"), cv2.IMREAD_UNCHANGED)
                    np.testing.assert_array_equal(got[..., ::-1] if channels == 3 else got, plain)


@unittest.skipUnless(shutil.which("vips"), "there is no vips")
class Vips(unittest.TestCase):
    def test_both_ways(self):
        for dtype in ("u1", "u2"):
            array = noise((300, 290, 3), dtype)
            np.save(path("in.npy"), array)
            convert(path("in.npy"), path("in.tif"))
            for options in ("compression=deflate", "compression=deflate,predictor=horizontal", "compression=lzw,tile",
                            "compression=zstd,tile,tile-width=64,tile-height=32", "bigtiff", "compression=packbits"):
                subprocess.run(["vips", "copy", path("in.tif"), path("out.tif") + f"[{options}]"], check=True)
                np.testing.assert_array_equal(read(path("out.tif")), array, options)
            for compression in (DEFLATE, LZW, ZSTD):
                convert(path("in.npy"), path("in.tif"), COMPRESSION=compression)
                subprocess.run(["vips", "copy", path("in.tif"), path("out.tif")], check=True)
                np.testing.assert_array_equal(read(path("out.tif")), array)

    def test_pyramid(self):
        np.save(path("in.npy"), noise((600, 500, 3), "u1"))
        convert(path("in.npy"), path("in.tif"))
        subprocess.run(["vips", "copy", path("in.tif"), path("out.tif") + "[tile,pyramid]"], check=True)
        self.assertEqual(convert(path("out.tif"), path("back.npy")).count("reduced copies of the image"), 1)
        np.testing.assert_array_equal(np.load(path("back.npy")), np.load(path("in.npy")))


@unittest.skipUnless(tifffile, "there is no tifffile")
class Tifffile(unittest.TestCase):
    def layouts(self):
        for compression in (None, "zlib", "lzw", "packbits", "zstd", "lzma"):
            for predictor in (False, True) if compression not in (None, "packbits") else (False,):
                for more in ({}, {"rowsperstrip": 7}, {"tile": (32, 16)}):
                    for order in "<>":
                        yield {"compression": compression, "predictor": predictor, "byteorder": order, **more}

    def test_layouts(self):
        for dtype in ("u1", "u2", "f4"):
            for channels in (1, 2, 3, 4):
                array = noise((61, 83, channels), dtype)
                for number, layout in enumerate(self.layouts()):
                    if number % 3 != channels % 3:  # a third of all: each layout comes with some type and number of channels
                        continue
                    for planes in ("contig", "separate") if channels > 1 else ("contig",):
                        source = np.moveaxis(array, -1, 0) if planes == "separate" else array
                        tifffile.imwrite(path("in.tif"), source if channels > 1 else array[..., 0], **layout,
                                         photometric="rgb" if channels >= 3 else "minisblack",
                                         extrasamples=["unassalpha"] if channels % 2 == 0 else None,
                                         planarconfig=planes if channels > 1 else None)
                        got = read(path("in.tif"))
                        np.testing.assert_array_equal(got, array if channels > 1 else array[..., 0], f"{layout} {planes}")
                        self.assertEqual(got.dtype, array.dtype)

    def test_one_large_strip(self):
        array = noise((1500, 1001, 3), "u2")
        for compression in ("zlib", "lzw"):
            for planes in ("contig", "separate"):
                source = np.moveaxis(array, -1, 0) if planes == "separate" else array
                tifffile.imwrite(path("in.tif"), source, photometric="rgb", compression=compression, rowsperstrip=1500,
                                 planarconfig=planes)
                np.testing.assert_array_equal(read(path("in.tif")), array)

    def test_what_it_reads(self):
        for dtype in ("u1", "u2", "f4"):
            for channels in (1, 2, 3, 4):
                array = noise((301, 211, channels), dtype)
                np.save(path("in.npy"), array if channels > 1 else array[..., 0])
                for compression in (NONE, DEFLATE, LZW, ZSTD):
                    convert(path("in.npy"), path("out.tif"), COMPRESSION=compression)
                    got = tifffile.imread(path("out.tif"))
                    np.testing.assert_array_equal(got.reshape(array.shape), array)
                    self.assertEqual(got.dtype, array.dtype)


if __name__ == "__main__":
    skip_without("libtiff", make_tiff(b"\0", 1, 1))
    unittest.main()
