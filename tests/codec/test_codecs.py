#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The codecs against files that other programs wrote, and other programs' readers.

$GCONV_IMAGE_CONVERT is tests/codec/image_convert.c: it reads a file and writes one through the library alone. What it read
is looked at as .npy, what it wrote is read with Pillow. Random pixels come from a fixed seed.
"""
import io
import os
import shutil
import struct
import subprocess
import unittest
import zlib

import cv2
import numpy as np
import PIL
from PIL import Image, ImageCms, ImageOps, JpegImagePlugin

from codec_helper import CONVERT, RANDOM, clean_up, convert, failure, header, path, read, save

PILLOW = tuple(map(int, PIL.__version__.split(".")[:2]))
NETPBM = unittest.skipUnless(shutil.which("pamtopng") and shutil.which("pnmtoplainpnm"), "no netpbm")
IMAGEMAGICK = unittest.skipUnless(shutil.which("convert"), "no ImageMagick")


def tearDownModule():
    clean_up()


# ---- A PNG writer of every colour type, depth and interlacing ----

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_rows(samples, depth):
    """Rows of H x W x C samples, each after the number of its filter, none."""
    if samples.shape[0] == 0 or samples.shape[1] == 0:
        return b""
    flat = samples.reshape(samples.shape[0], -1)
    if depth == 16:
        rows = flat.astype(">u2").view(np.uint8)
    elif depth == 8:
        rows = flat.astype(np.uint8)
    else:
        bits = (flat[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
        rows = np.packbits(bits.reshape(len(flat), -1).astype(np.uint8), axis=1)
    return b"".join(b"\0" + row.tobytes() for row in rows)


def make_png(samples, colour, depth, interlaced=False, extra=b""):
    height, width, _ = samples.shape
    if interlaced:
        rows = b"".join(png_rows(samples[y::dy, x::dx], depth) for x, y, dx, dy in ADAM7)
    else:
        rows = png_rows(samples, depth)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) +
            extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def random_samples(height, width, colour, depth):
    return RANDOM.integers(0, 2**depth, (height, width, CHANNELS[colour]))


def squeezed(array):
    """Without the axis of a single channel, as .npy has it."""
    return array[:, :, 0] if array.shape[2] == 1 else array


class ReadPng(unittest.TestCase):
    def check(self, samples, colour, depth, extra, expected):
        for interlaced in (False, True):
            name = save("in.png", make_png(samples, colour, depth, interlaced, extra))
            got = read(name)
            self.assertEqual(got.dtype, np.uint16 if depth == 16 else np.uint8)
            np.testing.assert_array_equal(got, squeezed(expected), f"colour {colour}, depth {depth}, {interlaced}")
            if depth <= 8:  # Pillow agrees; it reduces 16 bit colours
                mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[expected.shape[2]]
                with Image.open(name) as image:
                    np.testing.assert_array_equal(got, np.asarray(image.convert(mode)))

    def test_critical_chunk_that_nobody_knows(self):
        samples = random_samples(4, 5, RGB, 8)
        said = failure(save("in.png", make_png(samples, RGB, 8, extra=chunk(b"ABCD", b"x"))))
        self.assertIn("ABCD: unhandled critical chunk", said)
        np.testing.assert_array_equal(read(save("in.png", make_png(samples, RGB, 8, extra=chunk(b"abCD", b"x")))), samples)

    def test_every_colour_type_and_depth(self):
        for colour, depths in DEPTHS.items():
            for depth in depths:
                for height, width in ((1, 1), (2, 3), (13, 17), (8, 64)):
                    samples = random_samples(height, width, colour, depth)
                    if colour == PALETTE:
                        palette = RANDOM.integers(0, 256, (2**depth, 3))
                        extra = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
                        self.check(samples, colour, depth, extra, palette[samples[:, :, 0]])
                    else:
                        self.check(samples, colour, depth, b"", samples * (255 // (2**depth - 1)) if depth < 8 else samples)

    def test_transparent_palette(self):
        palette = RANDOM.integers(0, 256, (16, 4))
        palette[9:, 3] = 255  # tRNS may be shorter than the palette
        samples = random_samples(9, 11, PALETTE, 4)
        extra = (chunk(b"PLTE", palette[:, :3].astype(np.uint8).tobytes()) +
                 chunk(b"tRNS", palette[:9, 3].astype(np.uint8).tobytes()))
        self.check(samples, PALETTE, 4, extra, palette[samples[:, :, 0]])

    def test_transparent_colour(self):
        for colour, depth in ((GREY, 8), (GREY, 16), (RGB, 8), (RGB, 16), (GREY, 2)):
            samples = random_samples(9, 11, colour, depth)
            key = samples[4, 4]
            full = 65535 if depth == 16 else 255
            alpha = np.where((samples == key).all(axis=2), 0, full)[:, :, None]
            scale = full // (2**depth - 1)
            expected = np.concatenate([samples * scale, alpha], axis=2)
            extra = chunk(b"tRNS", b"".join(struct.pack(">H", v) for v in key))
            for interlaced in (False, True):
                got = read(save("in.png", make_png(samples, colour, depth, interlaced, extra)))
                np.testing.assert_array_equal(got, expected)

    @NETPBM
    def test_files_of_netpbm(self):
        photo = RANDOM.integers(0, 256, (20, 30, 3)).astype(np.uint8)
        Image.fromarray(photo).save(path("in.ppm"))
        for options in ([], ["-interlace"], ["-gamma", ".45"], ["-background", "white", "-compression", "9"]):
            with open(path("in.png"), "wb") as file:
                subprocess.run(["pnmtopng", *options, path("in.ppm")], stdout=file, stderr=subprocess.DEVNULL, check=True)
            np.testing.assert_array_equal(read(path("in.png")), photo)

    @IMAGEMAGICK
    def test_files_of_imagemagick(self):
        photo = RANDOM.integers(0, 256, (31, 23, 3)).astype(np.uint8)
        Image.fromarray(photo).save(path("in.ppm"))
        for kind in ("PNG8", "PNG24", "PNG32", "PNG48", "PNG64"):
            subprocess.run(["convert", path("in.ppm"), f"{kind}:{path('in.png')}"], check=True)
            got = read(path("in.png"))
            self.assertEqual(got.dtype, np.uint16 if kind in ("PNG48", "PNG64") else np.uint8)
            if kind != "PNG8":
                np.testing.assert_array_equal(got[:, :, :3], photo.astype(got.dtype) * (257 if got.dtype == np.uint16 else 1))

    def test_orientation(self):
        samples = random_samples(5, 7, RGB, 8)
        exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
        got = read(save("in.png", make_png(samples, RGB, 8, False, chunk(b"eXIf", exif))))
        np.testing.assert_array_equal(got, np.rot90(samples, -1))

    def test_large_text_is_passed_over(self):
        text = chunk(b"zTXt", b"bomb\0\0" + zlib.compress(bytes(50_000_000), 9))
        samples = random_samples(2, 2, GREY, 8)
        np.testing.assert_array_equal(read(save("in.png", make_png(samples, GREY, 8, False, text * 5))), samples[:, :, 0])

    def test_damaged(self):
        samples = random_samples(9, 9, RGB, 8)
        good = make_png(samples, RGB, 8)
        self.assertIn("CRC", failure(save("bad.png", good[:-13] + bytes([good[-13] ^ 1]) + good[-12:])))
        short = good[:33] + chunk(b"IDAT", zlib.compress(png_rows(samples[:5], 8))) + chunk(b"IEND", b"")
        self.assertIn("damaged PNG", failure(save("bad.png", short)))
        self.assertIn("damaged PNG", failure(save("bad.png", make_png(samples[:, :, :1], PALETTE, 8))))  # no PLTE
        zero = good[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 9, 8, 2, 0, 0, 0)) + good[33:]
        self.assertIn("damaged PNG", failure(save("bad.png", zero)))

    def test_bomb(self):
        huge = chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0))
        samples = random_samples(1, 1, RGB, 8)
        bomb = save("bomb.png", make_png(samples, RGB, 8).replace(make_png(samples, RGB, 8)[8:33], huge))
        self.assertIn("is 2147483647 x 2147483647 pixels; the limit is 1073741824: raise it with 'max_pixels'", failure(bomb))


class WritePng(unittest.TestCase):
    def test_every_kind(self):
        for channels in (1, 2, 3, 4):
            for dtype in (np.uint8, np.uint16):
                for level in ("1", "6"):
                    array = RANDOM.integers(0, np.iinfo(dtype).max + 1, (13, 17, channels)).astype(dtype)
                    array[3:9] //= 16  # smooth enough for every filter to be chosen
                    np.save(path("in.npy"), squeezed(array))
                    convert(path("in.npy"), path("out.png"), LEVEL=level)
                    np.testing.assert_array_equal(read(path("out.png")), squeezed(array))
                    if dtype == np.uint8 or channels == 1:
                        with Image.open(path("out.png")) as image:
                            np.testing.assert_array_equal(np.asarray(image).astype(dtype), squeezed(array))

    @unittest.skipUnless(shutil.which("pngcheck"), "no pngcheck")
    def test_pngcheck(self):
        for height, width, channels in ((1, 1, 1), (1, 5000, 3), (5000, 1, 4), (900, 700, 3), (600, 1500, 2)):
            for level in ("1", "-1", "5"):
                for content in ("noise", "constant", "waves"):
                    array = (photo(height, width)[:, :, [0] * channels] if content == "waves" else
                             RANDOM.integers(0, 256 if content == "noise" else 1, (height, width, channels)).astype(np.uint8))
                    np.save(path("in.npy"), squeezed(array))
                    convert(path("in.npy"), path("out.png"), LEVEL=level)
                    done = subprocess.run(["pngcheck", "-q", path("out.png")], capture_output=True, text=True)
                    self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_any_processor_writes_the_same(self):
        for channels in (1, 3, 4):
            noise = RANDOM.integers(0, 32, (700, 900, channels))
            grey = np.repeat(RANDOM.integers(0, 64, (700, 900, 1)), channels, 2)
            smooth = photo(700, 900)[:, :, [0] * channels]
            for array in (noise, grey, smooth // 2 + noise):
                np.save(path("in.npy"), squeezed(array.astype(np.uint8)))
                made = set()
                for limit in ({"GCONV_ISA": "plain"}, {"GCONV_ISA": "avx2"}, {"GCONV_ISA": "avx512"}, {}):
                    convert(path("in.npy"), path("out.png"), LEVEL="1", **limit)
                    with open(path("out.png"), "rb") as file:
                        made.add(file.read())
                self.assertEqual(len(made), 1)

    def test_standard_output(self):
        array = RANDOM.integers(0, 256, (5, 6, 3)).astype(np.uint8)
        np.save(path("in.npy"), array)
        with open(path("in.npy"), "rb") as file:
            done = subprocess.run([CONVERT, "-", "-"], stdin=file, capture_output=True, check=True,
                                  env={**os.environ, "FORMAT": "png"})
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(done.stdout))), array)


def photo(height, width):
    """Smooth waves with some noise: what JPEG is made for."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / a) * np.cos(y / b) for a, b in ((7, 11), (13, 5), (9, 9))]
    noise = RANDOM.normal(0, 4, (height, width, 3))
    return np.clip(128 + 100 * np.stack(waves, axis=2) + noise, 0, 255).astype(np.uint8)


class ReadJpeg(unittest.TestCase):
    def check(self, name, mode="RGB"):
        with Image.open(name) as image:
            expected = np.asarray(ImageOps.exif_transpose(image).convert(mode))
        got = read(name)
        np.testing.assert_array_equal(got, expected)
        return got

    def test_baseline_and_progressive(self):
        for height, width in ((1, 1), (16, 16), (37, 53)):
            for progressive in (False, True):
                for subsampling in (0, 1, 2):
                    Image.fromarray(photo(height, width)).save(path("in.jpg"), quality=85, progressive=progressive,
                                                               subsampling=subsampling)
                    self.check(path("in.jpg"))
                Image.fromarray(photo(height, width)[:, :, 0]).save(path("in.jpg"), progressive=progressive)
                self.check(path("in.jpg"), "L")

    @IMAGEMAGICK
    def test_colour_spaces_and_sampling(self):
        Image.fromarray(photo(30, 40)).save(path("in.png"))
        for options in (["-colorspace", "RGB"], ["-sampling-factor", "4x1"], ["-sampling-factor", "1x2"], ["-interlace", "line"],
                        ["-define", "jpeg:optimize-coding=false"]):
            subprocess.run(["convert", path("in.png"), *options, path("in.jpg")], check=True)
            self.check(path("in.jpg"))

    @IMAGEMAGICK
    def test_cmyk(self):
        ink = RANDOM.integers(0, 256, (24, 32, 4)).astype(np.uint8)
        Image.fromarray(ink, "CMYK").save(path("in.jpg"), quality=95)
        self.check(path("in.jpg"))
        Image.fromarray(photo(24, 32)).save(path("in.png"))
        subprocess.run(["convert", path("in.png"), "-colorspace", "CMYK", path("in.jpg")], check=True)
        self.check(path("in.jpg"))

    def test_ycck(self):
        """A CMYK file in which the Adobe marker says that the first three are YCbCr."""
        Image.fromarray(RANDOM.integers(0, 256, (16, 16, 4)).astype(np.uint8), "CMYK").save(path("in.jpg"), quality=95)
        with open(path("in.jpg"), "rb") as file:
            content = bytearray(file.read())
        marker = content.index(b"Adobe")
        self.assertEqual(content[marker + 11], 0)
        content[marker + 11] = 2
        self.check(save("in.jpg", bytes(content)))

    def test_orientations(self):
        for orientation in range(1, 9):
            for order in ("<", ">"):
                exif = Image.Exif()
                exif.endian = order
                exif[0x0112] = orientation
                Image.fromarray(photo(20, 33)).save(path("in.jpg"), exif=exif, dpi=(300, 150))
                got = self.check(path("in.jpg"))
                self.assertEqual(got.shape[:2], (33, 20) if orientation > 4 else (20, 33))
                words = header(path("in.jpg"))
                self.assertEqual(words[4:6], ["33", "20"] if orientation > 4 else ["20", "33"])
                wide, narrow = "11811.0236", "5905.5118"
                self.assertEqual(words[9:], [narrow, wide] if orientation > 4 else [wide, narrow])

    def test_cut_is_refused(self):
        for progressive in (False, True):
            Image.fromarray(photo(60, 80)).save(path("in.jpg"), progressive=progressive)
            with open(path("in.jpg"), "rb") as file:
                content = file.read()
            for cut in [len(content) * i // 16 for i in range(16)] + [len(content) - 2, len(content) - 1]:
                failure(save("cut.jpg", content[:cut]))
            # cut, but with an end mark: the data end inside a block
            self.assertIn("damaged JPEG", failure(save("cut.jpg", content[:len(content) * 9 // 10] + b"\xff\xd9")))

    def test_scan_bomb(self):
        Image.fromarray(photo(16, 16)[:, :, 0]).save(path("in.jpg"), progressive=True)
        with open(path("in.jpg"), "rb") as file:
            content = file.read()
        first = content.index(b"\xff\xda")
        second = min(i for i in (content.find(b"\xff\xda", first + 2), content.find(b"\xff\xc4", first + 2)) if i > 0)
        bomb = content[:second] + content[first:second] * 200 + content[second:]
        self.assertIn("scans", failure(save("bomb.jpg", bomb)))

    def test_unsupported(self):
        Image.fromarray(photo(16, 16)).save(path("in.jpg"))
        with open(path("in.jpg"), "rb") as file:
            content = bytearray(file.read())
        frame = content.index(b"\xff\xc0")
        content[frame + 4] = 12
        self.assertIn("12", failure(save("deep.jpg", bytes(content))))
        content[frame + 4] = 8
        content[frame + 1] = 0xC3
        self.assertIn("kind of JPEG", failure(save("lossless.jpg", bytes(content))))


class WriteJpeg(unittest.TestCase):
    def test_quality_and_sampling(self):
        array = photo(40, 56)
        np.save(path("in.npy"), array)
        sizes = []
        for quality, sampling in (("50", 2), ("89", 2), ("90", 0), ("100", 0)):
            convert(path("in.npy"), path("out.jpg"), QUALITY=quality)
            with Image.open(path("out.jpg")) as image:
                self.assertEqual(JpegImagePlugin.get_sampling(image), sampling)
                error = np.abs(np.asarray(image).astype(int) - array).mean()
            self.assertLess(error, 12)
            sizes.append(os.path.getsize(path("out.jpg")))
        self.assertEqual(sizes, sorted(sizes))

    def test_as_pillow_writes(self):
        """The same library with the same tables gives the same pixels."""
        array = photo(40, 56)
        np.save(path("in.npy"), array)
        convert(path("in.npy"), path("out.jpg"), QUALITY="90")
        Image.fromarray(array).save(path("pillow.jpg"), quality=90, subsampling=0)
        np.testing.assert_array_equal(np.asarray(Image.open(path("out.jpg"))), np.asarray(Image.open(path("pillow.jpg"))))


class Metadata(unittest.TestCase):
    def test_profile_and_resolution_pass_through(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        for source in ("png", "jpg"):
            for target in ("png", "jpg"):
                Image.fromarray(photo(9, 9)).save(path("in." + source), icc_profile=profile, dpi=(300, 150))
                convert(path("in." + source), path("out." + target))
                with Image.open(path("out." + target)) as image:
                    self.assertEqual(image.info["icc_profile"], profile)
                    # PNG has whole dots a metre
                    self.assertAlmostEqual(image.info["dpi"][0], 300, delta=0.02)
                    self.assertAlmostEqual(image.info["dpi"][1], 150, delta=0.02)

    def test_profile_of_cmyk_is_dropped(self):
        Image.fromarray(np.zeros((9, 9, 4), np.uint8), "CMYK").save(path("in.jpg"), icc_profile=b"x" * 200)
        self.assertIn("icc=0", header(path("in.jpg")))


class Netpbm(unittest.TestCase):
    def test_against_pillow(self):
        for maxval in (1, 3, 10, 100, 254, 255):
            for plain in (False, True):
                array = RANDOM.integers(0, maxval + 1, (7, 9, 3))
                text = " ".join(map(str, array.ravel())).encode() if plain else array.astype(np.uint8).tobytes()
                name = save("in.ppm", b"P%d\n9 7\n%d\n" % (3 if plain else 6, maxval) + text)
                if PILLOW >= (9, 2) or (maxval == 255 and not plain):  # before, it knew no other
                    np.testing.assert_array_equal(read(name), np.asarray(Image.open(name)), f"maxval {maxval}, {plain}")

    def test_sixteen_bits(self):
        for maxval in (256, 1023, 4095, 65534, 65535):
            array = RANDOM.integers(0, maxval + 1, (7, 9))
            name = save("in.pgm", b"P5\n9 7\n%d\n" % maxval + array.astype(">u2").tobytes())
            np.testing.assert_array_equal(read(name), np.rint(array * 65535 / maxval).astype(np.uint16))

    @NETPBM
    def test_bitmaps(self):
        bits = RANDOM.integers(0, 2, (5, 19)).astype(bool)
        Image.fromarray(bits).save(path("in.pbm"))
        np.testing.assert_array_equal(read(path("in.pbm")), bits * np.uint8(255))
        with open(path("plain.pbm"), "wb") as file:
            subprocess.run(["pnmtoplainpnm", path("in.pbm")], stdout=file, check=True)
        np.testing.assert_array_equal(read(path("plain.pbm")), bits * np.uint8(255))

    @NETPBM
    def test_netpbm_reads_what_is_written(self):
        for channels, target in ((1, "x.pgm"), (3, "x.ppm"), (4, "x.pam"), (2, "x.pam")):
            for dtype in (np.uint8, np.uint16):
                array = RANDOM.integers(0, np.iinfo(dtype).max + 1, (6, 5, channels)).astype(dtype)
                np.save(path("in.npy"), squeezed(array))
                convert(path("in.npy"), path(target))
                png = subprocess.run(["pamtopng", path(target)], check=True, capture_output=True).stdout
                np.testing.assert_array_equal(read(save("back.png", png)), squeezed(array))


class Floats(unittest.TestCase):
    def test_pfm_against_opencv(self):
        for shape in ((6, 5), (6, 5, 3)):
            array = RANDOM.normal(0, 1, shape).astype(np.float32)
            np.save(path("in.npy"), array)
            convert(path("in.npy"), path("out.pfm"))
            got = cv2.imread(path("out.pfm"), cv2.IMREAD_UNCHANGED)
            np.testing.assert_array_equal(got[:, :, ::-1] if len(shape) == 3 else got, array)
            cv2.imwrite(path("in.pfm"), array[:, :, ::-1] if len(shape) == 3 else array)
            np.testing.assert_array_equal(read(path("in.pfm")), array)

    def test_npy_of_numpy(self):
        for shape in ((4, 5), (4, 5, 1), (4, 5, 3), (2, 3, 4, 5), (1, 7, 4, 5)):
            for dtype in ("u1", "<u2", ">u2", "<f4", ">f4", "<f8", ">f8"):
                for order in "CF":
                    array = np.asarray(RANDOM.integers(0, 200, shape).astype(dtype), order=order)
                    np.save(path("in.npy"), array)
                    convert(path("in.npy"), path("out.npy"))
                    got = np.load(path("out.npy"))
                    expected = array.astype(array.dtype.newbyteorder("=")).reshape(shape[:2] if shape[2:] == (1,) else shape)
                    np.testing.assert_array_equal(got, expected)
                    self.assertEqual(got.dtype, np.float32 if dtype[-1] == "8" else expected.dtype)
                    self.assertTrue(got.flags.c_contiguous)

    def test_npz_of_numpy(self):
        """Stored and deflated; the one array of an archive needs no name."""
        a, b = RANDOM.integers(0, 60000, (4, 5, 3)).astype("u2"), RANDOM.normal(0, 1, (6, 7)).astype("f4")
        for write in np.savez, np.savez_compressed:
            write(path("in.npz"), a=a, b=b)
            np.testing.assert_array_equal(read(path("in.npz") + ":a"), a)
            np.testing.assert_array_equal(read(path("in.npz") + ":b"), b)
            self.assertIn("a, b", failure(path("in.npz")))
            with open(path("in.npz"), "rb") as file:
                archive = file.read()
            at = archive.rindex(b"PK\1\2") + 16  # the checksum of the last member
            changed = archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1:]
            self.assertIn("checksum is wrong", failure(save("bad.npz", changed) + ":b"))
            if write is np.savez_compressed:
                claims = archive[:at + 8] + (2000 * len(archive)).to_bytes(4, "little") + archive[at + 12:]
                self.assertIn("the archive promises", failure(save("bad.npz", claims) + ":b"))
            write(path("in.npz"), b)
            np.testing.assert_array_equal(read(path("in.npz")), b)


if __name__ == "__main__":
    if not CONVERT:
        raise SystemExit("set GCONV_IMAGE_CONVERT to the program of tests/codec/image_convert.c")
    unittest.main()
