# SPDX-License-Identifier: MIT
"""--memory holds for the whole process: its peak is at most 15% above, whatever the files are, or the job is refused with a
number that suffices. The kinds in the class Peaks are run with one value each; with several under tests/run --all."""
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy
from PIL import Image, features
from helper import GCONV, CommandTest

SANITIZED = "GCONV_SANITIZED" in os.environ
LONG = "GCONV_LONG_TESTS" in os.environ
SLACK = 1.15
MB = 1e6

# Runs commands, one a line, each a child of its own, whose peak is not mixed with that of others: as what is forked begins
# with the memory of its parent, this is a small process.
RUNNER = """
import json, os, sys
for line in sys.stdin:
    words, stdin, folder = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        os.dup2(os.open("stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.execv(words[0], words)
    _, status, usage = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024]), flush=True)
"""


# ---- Files -------------------------------------------------------------------------------------------------------------


def chunk(kind, content=b"", length=None):
    return struct.pack(">I", len(content) if length is None else length) + kind + content + struct.pack(
        ">I", zlib.crc32(kind + content))


def png(*chunks, width=1, height=1, lines=b"\0\0"):
    """A grey PNG with these chunks before its pixels."""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + b"".join(chunks) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND"))


def promise(kind):
    """A PNG of 45 bytes that promises a chunk of 2 GB."""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + struct.pack(
        ">I", 0x7fffffff) + kind + bytes(4)


def profile(size):
    """A PNG whose ICC profile is inflated to so many bytes."""
    icc = bytearray(size)
    icc[:4] = struct.pack(">I", size)
    icc[8:12] = b"\x02\x10\0\0"
    icc[12:20] = b"mntrGRAY"
    icc[20:24] = b"XYZ "
    icc[36:40] = b"acsp"
    icc[68:80] = bytes.fromhex("0000f6d6000100000000d32d")
    return png(chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(icc), 9)))


def noise(height, width, channels=3, kind="u1"):
    """What is hardest to compress. Floats are 0 to 1."""
    count = height * width * channels * (2 if kind == "u2" else 1)
    numbers = numpy.frombuffer(numpy.random.default_rng(1).bytes(count), "u2" if kind == "u2" else "u1")
    return (numbers.astype("f4") / 255 if kind == "f4" else numbers).reshape(height, width, channels).squeeze()


def ppm(pixels):
    return b"P%d\n%d %d\n%d\n" % (6 if pixels.ndim == 3 else 5, pixels.shape[1], pixels.shape[0],
                                255 if pixels.itemsize == 1 else 65535) + (
                                    pixels if pixels.itemsize == 1 else pixels.astype(">u2")).tobytes()


def npy(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def npy_header(shape):
    """Of an array of float32: 128 bytes."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


def pillow(pixels, format, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format, **options)
    return file.getvalue()


def jpeg_of_comments(count):
    """A JPEG with so many comments of 64 KB."""
    plain = pillow(noise(8, 8), "JPEG")
    return plain[:2] + (b"\xff\xfe" + struct.pack(">H", 65535) + b"x" * 65533) * count + plain[2:]


def jpeg_of_size(side, **options):
    """A JPEG that says it has side x side pixels, and has data for 8 x 8."""
    small = bytearray(pillow(noise(8, 8), "JPEG", **options))
    at = small.index(b"\xff\xc2" if options.get("progressive") else b"\xff\xc0")
    small[at + 5:at + 9] = struct.pack(">HH", side, side)
    return bytes(small)


def tiff_of_size(side, compression, samples=3):
    """A TIFF of one strip that says it has side x side pixels, and has a few bytes."""
    tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, compression), (262, 3, 2), (273, 4, 8), (277, 3, samples),
            (278, 4, side), (279, 4, 64)]
    tags = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 72) + bytes(64) + struct.pack("<H", len(tags) // 12) + tags + bytes(4)


def tiff_by_deflate(pixels, tile=None):
    """A grey TIFF of one strip, or of square tiles."""
    height, width = pixels.shape
    blocks = [pixels] if not tile else [pixels[y:y + tile, x:x + tile] for y in range(0, height, tile) for x in range(0, width, tile)]
    blocks = [zlib.compress(block.tobytes(), 1) for block in blocks]
    places = 8 + numpy.cumsum([0] + [len(block) for block in blocks])
    table, count = int(places[-1]), len(blocks)
    tables = struct.pack(f"<{2 * count}I", *map(int, places[:-1]), *map(len, blocks))
    at, sizes = (table, table + 4 * count) if count > 1 else (8, len(blocks[0]))
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    tags += [(322, 4, 1, tile), (323, 4, 1, tile), (324, 4, count, at), (325, 4, count, sizes)] if tile else [
        (273, 4, 1, at), (278, 4, 1, height), (279, 4, 1, sizes)]
    tags = b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags))
    return (b"II*\0" + struct.pack("<I", table + len(tables)) + b"".join(blocks) + tables +
            struct.pack("<H", len(tags) // 12) + tags + bytes(4))


def webp_with_more(size):
    """A small WebP with a chunk of so many bytes that has no meaning."""
    body = (b"WEBPVP8X" + struct.pack("<I", 10) + bytes([0, 0, 0, 0, 7, 0, 0, 7, 0, 0]) + pillow(noise(8, 8), "WEBP", lossless=True)[12:] +
            b"junk" + struct.pack("<I", size) + bytes(size))
    return b"RIFF" + struct.pack("<I", len(body)) + body


def tiff_of_rows(count):
    """A grey TIFF, one pixel wide, with a strip for each row."""
    tags = [(256, 4, 1, 1), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, count, 8 + count),
            (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, count, 8 + 5 * count)]
    return (b"II*\0" + struct.pack("<I", 8 + 9 * count) + bytes(count) + (8 + numpy.arange(count)).astype("<u4").tobytes() +
            numpy.ones(count, "<u4").tobytes() + struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4))


def tiff_of_strips(count):
    """A TIFF whose table of strips would have so many entries."""
    tags = [(256, 4, 1, 1000), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 5), (262, 3, 1, 1), (273, 4, count, 8), (277, 3, 1, 1),
            (278, 4, 1, 1), (279, 4, count, 8)]
    tags = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags) // 12) + tags + bytes(4)


def webp_of_size(side):
    """An animated WebP whose canvas is large, and whose only frame is small."""
    still = pillow(noise(8, 8), "WEBP", lossless=True)
    frame = bytes(6) + struct.pack("<I", 7)[:3] + struct.pack("<I", 7)[:3] + bytes(3) + b"\0" + still[12:]
    anmf = b"ANMF" + struct.pack("<I", len(frame)) + frame + bytes(len(frame) % 2)
    side = struct.pack("<I", side - 1)[:3]
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + side + side + b"ANIM" + struct.pack("<I", 6) + bytes(6) + anmf
    return b"RIFF" + struct.pack("<I", len(body)) + body


def npz_of_zeros(shape):
    file = io.BytesIO()
    numpy.savez_compressed(file, a=numpy.zeros(shape, "u1"))
    return file.getvalue()


FILES = {
    "photo.ppm": lambda: ppm(noise(3600, 4800)),                        # 52 MB
    "grey.pgm": lambda: ppm(noise(6000, 6000, 1)),                       # 36 MB
    "level.pgm": lambda: ppm(noise(1000, 2000, 1) // 64),                # which zlib can compress
    "half.ppm": lambda: ppm(noise(2000, 3000)),                          # 18 MB
    "deep.ppm": lambda: ppm(noise(2400, 3600, 3, "u2")),                 # 52 MB
    "mask.pgm": lambda: ppm(noise(3600, 4800, 1)),
    "mask.ppm": lambda: ppm(noise(3600, 4800)),
    "wide.ppm": lambda: ppm(noise(8, 2000000)),                          # rows of 6 MB
    "tall.ppm": lambda: ppm(noise(2000000, 8)),
    "stack.pgm": lambda: ppm(noise(1500, 2000)) * 5,                     # images of 9 MB
    "two.ppm": lambda: ppm(noise(3600, 4800)) * 2,
    "third.ppm": lambda: ppm(noise(1500, 2000)),
    "fourth.pgm": lambda: ppm(noise(1500, 2000, 1)),
    "small.ppm": lambda: ppm(noise(900, 1200)),
    "float.npy": lambda: npy(noise(3000, 4000, 1, "f4")),                # 48 MB
    "double.npy": lambda: npy(noise(2000, 3000, 1, "f4").astype("f8")),
    "fortran.npy": lambda: npy(numpy.asfortranarray(noise(2500, 3000))),  # 22 MB
    "frames.npy": lambda: npy(noise(12000, 2000, 1).reshape(12, 1000, 2000)),
    "planes.npy": lambda: npy(numpy.moveaxis(noise(1500, 2000), 2, 0)[None].astype("f4")),  # 36 MB
    "deflated.npz": lambda: npz_of_zeros((6000, 6000)),
    "turned.jpg": lambda: pillow(noise(2400, 3600), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"),
    "photo.jpg": lambda: pillow(noise(3600, 4800), "JPEG", quality=50),
    "progressive.jpg": lambda: pillow(noise(2400, 3600), "JPEG", progressive=True, quality=50),
    "palette.png": lambda: pillow(noise(3000, 4000, 1), "PNG", compress_level=1),
    "lossy.webp": lambda: pillow(noise(2000, 3000), "WEBP", method=0, quality=50),
    "lossless.webp": lambda: pillow(noise(1200, 1600), "WEBP", method=0, lossless=True, quality=0),
    "tiles.tif": lambda: tiff_by_deflate(noise(5632, 6144, 1), 512),
    "strip.tif": lambda: tiff_by_deflate(noise(6000, 6000, 1)),
    "taps.npy": lambda: npy(numpy.ones((1000, 1000), "f4") / 1e6),
    "bank.npy": lambda: npy(numpy.random.default_rng(2).normal(size=(16, 3, 3, 3)).astype("f4")),
    "column.txt": lambda: b"1\n" * 20000,
    "row.txt": lambda: b"1 " * 20000 + b"\n",
    "one.npy": lambda: npy(numpy.ones((4, 1, 3, 3), "f4")),
    "large.npy": lambda: npy(numpy.ones((30, 3, 300, 300), "f4")),       # 32 MB
    "tiny.ppm": lambda: ppm(noise(20, 30)),
    # Hostile ones.
    "ones.txt": lambda: b"ones(8192)",
    "long.txt": lambda: (b"1 " * 8000 + b"\n") * 1000,                   # 16 MB
    "scal.png": lambda: promise(b"sCAL"),
    "pcal.png": lambda: promise(b"pCAL"),
    "text.png": lambda: promise(b"tEXt"),
    "exif.png": lambda: promise(b"eXIf"),
    "iccp.png": lambda: promise(b"iCCP"),
    "unknown.png": lambda: promise(b"abCd"),
    "profile.png": lambda: profile(15 << 20),
    "texts.png": lambda: png(*[chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * (15 << 20), 9))] * 2),
    "xmp.png": lambda: png(*[chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(b"<" * (15 << 20), 9))] * 2),
    "behind.png": lambda: png()[:-12] + chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * (15 << 20), 9)) * 8 + chunk(b"IEND"),
    "comments.jpg": lambda: jpeg_of_comments(300),                       # 20 MB
    "huge.jpg": lambda: jpeg_of_size(32000),
    "progress.jpg": lambda: jpeg_of_size(16000, progressive=True),
    "huge.tif": lambda: tiff_of_size(20000, 1),
    "lzw.tif": lambda: tiff_of_size(20000, 5),
    "strips.tif": lambda: tiff_of_strips(1 << 28),
    "huge.webp": lambda: webp_of_size(8000),
    "huge.pgm": lambda: b"P5\n30000 30000\n255\n" + bytes(1000),
    "huge.npy": lambda: npy(numpy.zeros((8, 8)))[:128].replace(b"(8, 8), }              ", b"(30000, 30000), }      "),
    "huge.pfm": lambda: b"PF\n20000 20000\n-1\n" + bytes(1000),
    "bomb.npz": lambda: npz_of_zeros((20000, 20000)),
}

# Files that are long and have nothing but zeros behind their first bytes: they take no room on a disk. name: those, the size.
SPARSE = {
    "holes.webp": (b"RIFF" + struct.pack("<I", (300 << 20) - 8) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes([0, 0, 0, 0, 1, 0, 0, 1, 0, 0])
                   + b"junk" + struct.pack("<I", (300 << 20) - 38), 300 << 20),
    "holes.npy": (npy_header((25, 3, 1000, 1000)), 128 + 300_000_000),
    "holes.pgm": (b"P5\n20000 15000\n255\n", 19 + 300_000_000),
    ".gconv-manifest": (b"", 400 << 20),
}
MANY = [f"many{i}.png" for i in range(16)]
WAITING = [f"waiting{i}.webp" for i in range(12)]
TABLES = [f"table{i}.tif" for i in range(8)]
FILES.update({name: lambda: webp_with_more(10 << 20) for name in WAITING})
FILES.update({name: lambda: tiff_of_rows(1_000_000) for name in TABLES})
FILES.update({name: lambda: png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(b"<" * (15 << 20), 9))) for name in MANY})

BLUR = ("-f", "gaussian:size=9,sigma=2", "--border", "replicate")
SHARP = ("-f", "laplacian")
WEBP = features.check("webp")

# name: the files that it reads, and its words. Those above --- are quick: at 64 MB, they run in every build.
KINDS = {
    "whole to PFM": (["half.ppm"], ["-i", "half.ppm", *BLUR, "--depth", "float", "-o", "x.pfm"]),
    "frames to npy": (["two.ppm"], ["-i", "two.ppm", *SHARP, "-o", "x.npy"]),
    "a mask in colour": (["photo.ppm", "mask.ppm"], ["-i", "photo.ppm", *BLUR, "--mask", "mask.ppm", "-o", "x.ppm"]),
    "TIFF to a pipe": (["half.ppm"], ["-i", "half.ppm", *SHARP, "-o", "-", "--format", "tiff"]),
    "promise of sCAL": (["scal.png"], ["-i", "scal.png", *SHARP, "-o", "x.png"]),
    "promise of pCAL": (["pcal.png"], ["-i", "pcal.png", *SHARP, "-o", "x.png"]),
    "promises at a time": (["scal.png", "pcal.png", "text.png", "exif.png"],
                           ["-i", "*.png", *SHARP, "-o", "out/", "--jobs", "4"]),
    "a column and a row": (["half.ppm", "column.txt", "row.txt"],
                           ["-i", "half.ppm", "-f", "column.txt", "-f", "row.txt", "--combine", "max", "-o", "x.png"]),
    "texts that are inflated": (["texts.png"], ["-i", "texts.png", *SHARP, "-o", "x.png"]),
    "a profile in many results": (["profile.png"], ["-i", "profile.png", "-f", "identity,box", "-o", "{filter}.png"]),
    "to WebP": (["small.ppm"], ["-i", "small.ppm", *SHARP, "-o", "x.webp"]),
    "an array of a few bytes": (["small.ppm", "ones.txt"], ["-i", "small.ppm", "-f", "ones.txt", "-o", "x.png"]),
    "a filter as a long text": (["small.ppm", "long.txt"], ["-i", "small.ppm", "-f", "long.txt", "-o", "x.png"]),
    "a wide disk": (["small.ppm"], ["-i", "small.ppm", "-f", "disk:radius=4000", "-o", "x.png"]),
    "a bank of zeros": (["small.ppm", "holes.npy"], ["-i", "small.ppm", "-f", "holes.npy", "-o", "x.npy"]),
    "a mask of a pipe": (["small.ppm", "holes.pgm"], ["-i", "small.ppm", *BLUR, "--mask", "-", "-o", "x.png"], "holes.pgm"),
    "a WebP of zeros": (["holes.webp"], ["-i", "holes.webp", *SHARP, "-o", "x.png"]),
    "a WebP of zeros to arrays": (["holes.webp", "bank.npy"], ["-i", "holes.webp", "-f", "bank.npy", "-o", "x.npy"]),
    "a manifest of zeros": (["scal.png", ".gconv-manifest"], ["-i", "scal.png", *SHARP, "-o", "{stem}.ppm", "--resume"]),
    "---": None,
    "rows to PFM": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "--depth", "float", "-o", "x.pfm"]),
    "rows to WebP": (["third.ppm"], ["-i", "third.ppm", *SHARP, "-o", "x.webp"]),
    "WebP of high quality": (["third.ppm"], ["-i", "third.ppm", *SHARP, "-o", "x.webp", "--quality", "100"]),
    "rows to PNG": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "-o", "x.png"]),
    "16 bits": (["deep.ppm"], ["-i", "deep.ppm", *BLUR, "-o", "x.png"]),
    "16 bits to TIFF": (["deep.ppm"], ["-i", "deep.ppm", *BLUR, "-o", "x.tif", "--tiff-compression", "deflate"]),
    "PNG of level 9": (["level.pgm"], ["-i", "level.pgm", *SHARP, "-o", "x.png", "--png-level", "9"]),
    "to JPEG": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "-o", "x.jpg"]),
    "from JPEG": (["photo.jpg"], ["-i", "photo.jpg", *BLUR, "-o", "x.png"]),
    "a turned JPEG": (["turned.jpg"], ["-i", "turned.jpg", *SHARP, "-o", "x.ppm"]),
    "a progressive JPEG": (["progressive.jpg"], ["-i", "progressive.jpg", *SHARP, "-o", "x.ppm"]),
    "PNG": (["palette.png"], ["-i", "palette.png", *SHARP, "-o", "x.png"]),
    "wide rows": (["wide.ppm"], ["-i", "wide.ppm", "-f", "laplacian", "-o", "x.png"]),
    "wide rows to TIFF": (["wide.ppm"], ["-i", "wide.ppm", "-f", "laplacian", "-o", "x.tif", "--tiff-compression", "lzw"]),
    "a tall image": (["tall.ppm"], ["-i", "tall.ppm", *SHARP, "-o", "x.png"]),
    "linear light": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "--linear", "-o", "x.png"]),
    "grey": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "--gray", "-o", "x.png"]),
    "the whole range": (["half.ppm"], ["-i", "half.ppm", *SHARP, "--range", "minmax", "-o", "x.png"]),
    "a wrapped border": (["half.ppm"], ["-i", "half.ppm", *BLUR[:2], "--border", "wrap", "-o", "x.png"]),
    "one after the other": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "--then", *SHARP, "-o", "x.png"]),
    "verified": (["half.ppm"], ["-i", "half.ppm", *SHARP, "--verify", "-o", "x.png"]),
    "combined": (["photo.ppm"], ["-i", "photo.ppm", "-f", "kirsch", "--combine", "max", "-o", "x.png"]),
    "eight results": (["half.ppm"], ["-i", "half.ppm", "-f", "kirsch", "-o", "{filter}.png"]),
    "eight results to PFM": (["grey.pgm"], ["-i", "grey.pgm", "-f", "kirsch", "--depth", "float", "-o", "{filter}.pfm"]),
    "a region": (["photo.ppm"], ["-i", "photo.ppm", *BLUR, "--region", "900x800+70+60", "-o", "x.png"]),
    "a grey mask": (["photo.ppm", "mask.pgm"], ["-i", "photo.ppm", *BLUR, "--mask", "mask.pgm", "-o", "x.png"]),
    "a wide filter": (["grey.pgm"], ["-i", "grey.pgm", "-f", "disk:radius=60", "-o", "x.png"]),
    "a million taps": (["half.ppm", "taps.npy"], ["-i", "half.ppm", "-f", "taps.npy", "-o", "x.png"]),
    "float.npy": (["float.npy"], ["-i", "float.npy", *SHARP, "-o", "x.npy"]),
    "double.npy": (["double.npy"], ["-i", "double.npy", *SHARP, "-o", "x.npy"]),
    "fortran.npy": (["fortran.npy"], ["-i", "fortran.npy", *SHARP, "-o", "x.png"]),
    "frames of .npy": (["frames.npy"], ["-i", "frames.npy", *SHARP, "-o", "x.tif"]),
    "planes": (["planes.npy"], ["-i", "planes.npy", *SHARP, "-o", "x.npy"]),
    "an archive": (["deflated.npz"], ["-i", "deflated.npz", *SHARP, "-o", "x.png"]),
    "images of a pipe to npy": (["stack.pgm"], ["-i", "-", *SHARP, "-o", "x.npy"], "stack.pgm"),
    "images of a pipe to TIFF": (["stack.pgm"], ["-i", "-", *SHARP, "-o", "x.tif"], "stack.pgm"),
    "frames to a pipe": (["stack.pgm"], ["-i", "stack.pgm", *SHARP, "-o", "-", "--format", "tiff"]),
    "lossless WebP": (["third.ppm"], ["-i", "third.ppm", *SHARP, "-o", "x.webp", "--lossless"]),
    "from WebP": (["lossy.webp"], ["-i", "lossy.webp", *SHARP, "-o", "x.png"]),
    "from lossless WebP": (["lossless.webp"], ["-i", "lossless.webp", *SHARP, "-o", "x.png"]),
    "WebP of a pipe": (["lossless.webp"], ["-i", "-", *SHARP, "-o", "x.png"], "lossless.webp"),
    "tiles": (["tiles.tif"], ["-i", "tiles.tif", *BLUR, "-o", "x.tif", "--tiff-compression", "deflate"]),
    "one strip": (["strip.tif"], ["-i", "strip.tif", *BLUR, "-o", "x.tif"]),
    "a bank": (["half.ppm", "bank.npy"], ["-i", "half.ppm", "-f", "bank.npy", "-o", "x.npy"]),
    "a bank, channels last": (["half.ppm", "bank.npy"], ["-i", "half.ppm", "-f", "bank.npy", "--layout", "nhwc", "-o", "x.npy"]),
    "pictures of a bank": (["half.ppm", "bank.npy"], ["-i", "half.ppm", "-f", "bank.npy", "-o", "{filter}.png"]),
    "a mosaic of a bank": (["half.ppm", "bank.npy"], ["-i", "half.ppm", "-f", "bank.npy", "--combine", "mosaic", "-o", "x.png"]),
    "two jobs": (["photo.ppm", "deep.ppm", "half.ppm", "grey.pgm"], ["-i", "*.p?m", *BLUR, "-o", "out/", "--jobs", "4"]),
    "jobs with WebP": (["third.ppm", "fourth.pgm", "small.ppm"], ["-i", "*.p?m", *SHARP, "-o", "out/", "--format", "webp", "--jobs", "4"]),
    "small files at a time": (["scal.png", "profile.png", "texts.png", "xmp.png", "behind.png", "unknown.png", "iccp.png"],
                              ["-i", "*.png", *SHARP, "-o", "out/", "--jobs", "4"]),
    "metadata behind pixels": (["behind.png"], ["-i", "behind.png", *SHARP, "-o", "x.png"]),
    "metadata of a pipe": (["behind.png"], ["-i", "-", *SHARP, "-o", "x.png"], "behind.png"),
    "readers that wait": (MANY, ["-i", "many*.png", *SHARP, "-o", "out/", "--jobs", "8", "--threads", "8"]),
    "groups of readers": ([*MANY, "one.npy"], ["-i", "many*.png", "-f", "one.npy", "-o", "out/", "--format", "npy", "--jobs", "1",
                                               "--threads", "8", "--batch", "8"]),
    "WebP that waits": (WAITING, ["-i", "waiting*.webp", *SHARP, "-o", "out/", "--format", "png", "--jobs", "8", "--threads", "8"]),
    "tables that wait": (TABLES, ["-i", "table*.tif", *SHARP, "-o", "out/", "--format", "png", "--jobs", "8", "--threads", "8"]),
    "a large bank": (["tiny.ppm", "large.npy"], ["-i", "tiny.ppm", "-f", "large.npy", "-o", "x.npy"]),
    "XMP": (["xmp.png"], ["-i", "xmp.png", *SHARP, "-o", "x.png"]),
    "comments of JPEG": (["comments.jpg"], ["-i", "comments.jpg", *SHARP, "-o", "x.png"]),
    "a JPEG that promises": (["huge.jpg"], ["-i", "huge.jpg", *SHARP, "-o", "x.png"]),
    "a progressive JPEG that promises": (["progress.jpg"], ["-i", "progress.jpg", *SHARP, "-o", "x.png"]),
    "a TIFF that promises": (["huge.tif"], ["-i", "huge.tif", *SHARP, "-o", "x.png"]),
    "an LZW TIFF that promises": (["lzw.tif"], ["-i", "lzw.tif", *SHARP, "-o", "x.png"]),
    "a table of strips": (["strips.tif"], ["-i", "strips.tif", *SHARP, "-o", "x.png"]),
    "a WebP that promises": (["huge.webp"], ["-i", "huge.webp", *SHARP, "-o", "x.tif"]),
    "a PGM that promises": (["huge.pgm"], ["-i", "huge.pgm", *SHARP, "-o", "x.png"]),
    "a pipe that promises": (["huge.pgm"], ["-i", "-", *SHARP, "-o", "x.png"], "huge.pgm"),
    "an array that promises": (["huge.npy"], ["-i", "huge.npy", *SHARP, "-o", "x.png"]),
    "a PFM that promises": (["huge.pfm"], ["-i", "huge.pfm", *SHARP, "-o", "x.tif"]),
    "an archive of zeros": (["bomb.npz"], ["-i", "bomb.npz", *SHARP, "-o", "x.png"]),
}
QUICK = list(KINDS)[:list(KINDS).index("---")]
ALL = [name for name in KINDS if name != "---"]


@unittest.skipIf(SANITIZED, "sanitizers take memory of their own")
class Peaks(CommandTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gconv-memory-")
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        environment = {**os.environ, "GCONV_DEVICE": "cpu", "GCONV_CACHE": "", "GCONV_MOST_THREADS": "16"}
        cls.runner = subprocess.Popen([sys.executable, "-S", "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=environment)
        cls.addClassCleanup(cls.stop)

    @classmethod
    def stop(cls):
        cls.runner.stdin.close()
        cls.runner.wait()
        cls.runner.stdout.close()

    def provide(self, name):
        """Links the file into the folder of the test; it is made once."""
        if not (self.made / name).exists():
            head, size = SPARSE[name] if name in SPARSE else (FILES[name](), 0)
            (self.made / name).write_bytes(head)
            os.truncate(self.made / name, max(size, len(head)))
        if not (self.folder / name).exists():
            os.link(self.made / name, self.folder / name)

    def measure(self, words, stdin=None, memory="64M"):
        """The status, what was said, and the peak in MB."""
        line = [[GCONV, *words, "--memory", memory], str(self.folder / stdin) if stdin else "/dev/null", str(self.folder)]
        self.runner.stdin.write(json.dumps(line) + "\n")
        self.runner.stdin.flush()
        status, peak = json.loads(self.runner.stdout.readline())
        return status, (self.folder / "stderr").read_text(), peak / MB

    def hold(self, name, megabytes):
        files, words, *stdin = KINDS[name]
        for file in files:
            self.provide(file)
        memory = megabytes
        for _ in range(3):
            status, said, peak = self.measure(words, *stdin, memory=f"{memory}M")
            self.assertIn(status, (0, 1, 2, 3), said)
            self.assertLessEqual(peak, SLACK * memory, f"{name}, --memory {memory}M: {peak:.1f} MB at most; {said}")
            enough = max((int(number) for number in re.findall(r"raise it to (\d+)M", said)), default=0)
            if not enough:
                break
            self.assertGreater(enough, memory, said)
            memory = enough
            if memory > 1500:  # what takes so much is not tried here
                break
        else:
            self.fail(f"{name}: refused again and again: {said}")

    def all_hold(self, names, megabytes):
        for name in names:
            if "WebP" in name and not WEBP:
                continue
            with self.subTest(name, megabytes=megabytes):
                for path in self.folder.iterdir():
                    if path.is_file():
                        path.unlink()
                self.hold(name, megabytes)

    def test_quick(self):
        self.all_hold(QUICK, 64)

    @unittest.skipUnless(LONG, "takes minutes: tests/run --all")
    def test_all(self):
        for megabytes in (40, 64, 150):
            self.all_hold(ALL, megabytes)

    def test_combined_filters_have_a_limit(self):
        for name in ("half.ppm", "column.txt", "row.txt"):
            self.provide(name)
        status, said, peak = self.measure(["-i", "half.ppm", "-f", "column.txt", "-f", "row.txt", "--combine", "max", "-o", "x.png"])
        self.assertEqual(status, 1, said)
        self.assertIn("combine filters of similar sizes", said)
        self.assertLess(peak, 40)

    def test_metadata_have_a_limit(self):
        """What is left out is said, and what comes first is kept."""
        for name, pattern, kept in (("texts.png", "comments beyond 1 MiB are left out", b""),
                                    ("comments.jpg", "comments beyond 1 MiB are left out; metadata beyond 16 MiB are", b"x" * 100)):
            self.provide(name)
            status, said, _ = self.measure(["-i", name, *SHARP, "-o", "x.png"], memory="200M")
            self.assertEqual(status, 0, said)
            self.assertIn(pattern, said)
            self.assertIn(kept, (self.folder / "x.png").read_bytes())


if __name__ == "__main__":
    unittest.main()
