# SPDX-License-Identifier: MIT
"""Files of random kinds, held to the pixels that they were made of, or to Pillow's: the same pixels, or refused by name.
1,000 of them with GCONV_LONG_TESTS, else a few. A file that differs is kept, and named."""
import io
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps, features

from codec_helper import CONVERT, clean_up, path, save

COUNT = 1000 if "GCONV_LONG_TESTS" in os.environ else 100
REFUSED = None  # in place of pixels
MODES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # colour types of PNG: samples of a pixel


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack(rows, depth):
    """Rows of samples as PNG has them, each behind a filter byte of a random kind that changes nothing: None."""
    out = b""
    for row in rows.reshape(rows.shape[0], -1):
        if depth == 16:
            out += b"\0" + row.astype(">u2").tobytes()
        elif depth == 8:
            out += b"\0" + row.astype("u1").tobytes()
        else:
            bits = np.unpackbits(row.astype("u1")[:, None], axis=1)[:, 8 - depth:]
            out += b"\0" + np.packbits(bits.ravel()).tobytes()
    return out


def make_png(r):
    """Every colour type and depth, tRNS, passes; the pixels follow from the samples."""
    colour = r.choice(list(MODES))
    depth = r.choice({0: (1, 2, 4, 8, 16), 3: (1, 2, 4, 8)}.get(colour, (8, 16)))
    height, width, channels = r.randint(1, 20), r.randint(1, 20), MODES[colour]
    rng = np.random.default_rng(r.getrandbits(32))
    most = (1 << depth) - 1
    colours = r.randint(1, most + 1) if colour == 3 else 0
    samples = rng.integers(0, colours or most + 1, (height, width, channels)).astype("u2")
    extra, transparent, interlace = b"", r.random() < 0.5, r.random() < 0.4
    white = 65535 if depth == 16 else 255
    out = samples.astype("u4") * (white // most)
    if colour == 3:
        palette = rng.integers(0, 256, (colours, 3)).astype("u1")
        extra = chunk(b"PLTE", palette.tobytes())
        out = palette[samples[..., 0]].astype("u4")
        if transparent:
            alphas = rng.integers(0, 256, r.randint(1, colours)).astype("u1")
            extra += chunk(b"tRNS", alphas.tobytes())
            out = np.dstack([out, np.concatenate([alphas, np.full(256, 255)])[samples[..., 0]]])
    elif transparent and colour in (0, 2):
        key = samples[r.randrange(height), r.randrange(width)]
        extra = chunk(b"tRNS", key.astype(">u2").tobytes())
        out = np.dstack([out, np.where((samples == key).all(axis=2), 0, white)])
    if r.random() < 0.3:
        extra = chunk(b"gAMA", struct.pack(">I", r.choice((45455, 100000)))) + extra
    if interlace:
        passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
        parts = [samples[y::dy, x::dx] for x, y, dx, dy in passes]
        data = b"".join(pack(part, depth) for part in parts if part.size)
    else:
        data = pack(samples, depth)
    data = zlib.compress(data, r.choice((0, 1, 6, 9)))
    cut = r.randrange(len(data) + 1)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data[:cut]) + chunk(b"IDAT", data[cut:])
    return "png", file + chunk(b"IEND", b""), out.astype("u2" if depth == 16 else "u1")


def picture(r, channels):
    rng = np.random.default_rng(r.getrandbits(32))
    height, width = r.randint(1, 60), r.randint(1, 60)
    small = rng.integers(0, 256, ((height + 3) // 4, (width + 3) // 4, channels)).astype("u1")
    array = np.kron(small, np.ones((4, 4, 1), "u1"))[:height, :width]
    return array[..., 0] if channels == 1 else array


def make_jpeg(r):
    """Grey, colour and CMYK; subsampled, progressive, turned, of other transforms of Adobe; cut, or of kinds that are refused."""
    mode = r.choice(("L", "RGB", "RGB", "CMYK"))
    out, options = io.BytesIO(), {"quality": r.choice((30, 75, 95, 100)), "progressive": r.random() < 0.4, "optimize": r.random() < 0.3}
    if mode == "RGB":
        options["subsampling"] = r.choice((0, 1, 2))
    if r.random() < 0.4:
        exif = Image.Exif()
        exif[0x112] = r.randint(1, 8)
        options["exif"] = exif.tobytes()
    Image.fromarray(picture(r, len(mode)), mode).save(out, "jpeg", **options)
    file = out.getvalue()
    way, start = r.random(), file.index(b"\xff\xc2" if options["progressive"] else b"\xff\xc0")
    if way < 0.1:
        return "jpg", file[:r.randrange(3, len(file) - 2)], REFUSED
    if way < 0.2:
        return "jpg", file[:start + 4] + b"\x0c" + file[start + 5:], REFUSED  # 12 bits a sample
    if way < 0.25:
        return "jpg", file[:start + 1] + b"\xc3" + file[start + 2:], REFUSED  # without loss
    if way < 0.4 and mode == "RGB":  # whether the colours are YCbCr
        transform = r.choice((0, 1))
        segment = b"Adobe\0d\0\0\0\0" + bytes([transform])
        jfif = file.index(b"\xff\xe0")
        end = jfif + 2 + struct.unpack(">H", file[jfif + 2:jfif + 4])[0]
        file = file[:jfif] + b"\xff\xee" + struct.pack(">H", len(segment) + 2) + segment + file[end:]
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    return "jpg", file, np.asarray(image.convert("RGB") if mode == "CMYK" else image)


def make_webp(r):
    channels, out = r.choice((3, 4)), io.BytesIO()
    lossless = r.random() < 0.5
    options = {"lossless": True, "exact": True} if lossless else {"quality": r.choice((20, 80, 100))}
    Image.fromarray(picture(r, channels)).save(out, "webp", **options)
    return "webp", out.getvalue(), np.asarray(Image.open(io.BytesIO(out.getvalue())))


def make_pnm(r):
    """Text and bytes, comments, any maxval, and the tuple types of PAM."""
    kind = r.choice("1234567")
    rng = np.random.default_rng(r.getrandbits(32))
    height, width = r.randint(1, 20), r.randint(1, 20)
    types = {"BLACKANDWHITE": 1, "GRAYSCALE": 1, "RGB": 3, "BLACKANDWHITE_ALPHA": 2, "GRAYSCALE_ALPHA": 2, "RGB_ALPHA": 4}
    tuple_type = r.choice(list(types)) if kind == "7" else ""
    channels = types[tuple_type] if kind == "7" else 3 if kind in "36" else 1
    most = 1 if kind in "14" or tuple_type.startswith("BLACK") else r.choice((1, 2, 15, 100, 255, 256, 1000, 4095, 65535))
    samples = rng.integers(0, most + 1, (height, width, channels)).astype("u4")
    full = 65535 if most > 255 else 255
    out = np.rint(samples.astype("f8") * full / most) if most != full else samples
    comment = r.choice(("", "# a comment\n", "#\n"))
    head = f"P{kind}\n{comment}{width} {height}\n" + ("" if kind in "14" else f"{comment}{most}\n")
    if kind == "7":
        head = f"P7\n{comment}WIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {most}\nTUPLTYPE {tuple_type}\nENDHDR\n"
    if kind in "14":
        out = 255 * (1 - samples)
    if kind == "1":
        body = r.choice(("", " ", "\n")).join(map(str, samples.ravel())).encode()
    elif kind in "23":
        body = r.choice((" ", "\n", "\t ")).join(map(str, samples.ravel())).encode() + b"\n"
    elif kind == "4":
        body = b"".join(np.packbits(row).tobytes() for row in samples[..., 0].astype("u1"))
    else:
        body = samples.astype(">u2" if most > 255 else "u1").tobytes()
    return "pnm", head.encode() + body, out.astype("u2" if full > 255 else "u1")


def make_pfm(r):
    rng = np.random.default_rng(r.getrandbits(32))
    order, channels = r.choice("<>"), r.choice((1, 3))
    samples = (rng.standard_normal((r.randint(1, 20), r.randint(1, 20), channels)) * 10).astype("f4")
    scale = r.choice(("1.0", "1", "2.5", "0.00392157"))
    head = f"P{'F' if channels == 3 else 'f'}\n{r.choice(('', '# libvips' + chr(10)))}{samples.shape[1]} {samples.shape[0]}\n{'-' if order == '<' else ''}{scale}\n"
    return "pfm", head.encode() + samples[::-1].astype(order + "f4").tobytes(), samples


def make_npy(r):
    """All types of numbers, both orders of bytes and of axes, the versions of the header; shapes that are no image."""
    rng = np.random.default_rng(r.getrandbits(32))
    kind = r.choice(("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "S3"))
    shape = r.choice(((), (7,), (6, 9), (6, 9, 1), (6, 9, 3), (6, 9, 4), (3, 6, 9), (2, 3, 6, 9), (2, 1, 6, 9), (0, 5), (1, 2, 3, 4, 5)))
    numbers = rng.integers(0, 100, shape) if kind[0] in "u?" else rng.integers(-100, 100, shape)
    array = np.asarray(numbers % 2 == 0 if kind == "?" else numbers).astype(kind if kind == "?" else r.choice("<>") + kind)
    if array.ndim and r.random() < 0.4:
        array = np.asfortranarray(array)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=r.choice(((1, 0), (2, 0), (3, 0))))
    if kind in ("c8", "S3") or array.ndim not in (2, 3, 4) or array.size == 0:
        return "npy", out.getvalue(), REFUSED
    wanted = "u1" if kind in ("?", "u1") else "u2" if kind == "u2" else "f4"
    pixels = 255 * array.astype("u1") if kind == "?" else array.astype(wanted)
    return "npy", out.getvalue(), np.moveaxis(pixels, 1, -1) if pixels.ndim == 4 else pixels


def as_stored(array):
    """As .npy has an image: without an axis of one channel."""
    return array[..., 0] if array.ndim > 2 and array.shape[-1] == 1 else array


def check(number):
    """Returns what is wrong with file `number`; None: nothing."""
    r = random.Random(number)
    makers = [make_png, make_png, make_png, make_jpeg, make_jpeg, make_pnm, make_pfm, make_npy, make_npy]
    makers += [make_webp] if features.check("webp") and WEBP else []
    extension, file, expected = r.choice(makers)(r)
    source = save(f"random-{number}.{extension}", file)
    done = subprocess.run([CONVERT, source, path("out.npy")], capture_output=True, text=True, check=False)
    if expected is REFUSED:
        return None if done.returncode == 1 and done.stderr.strip() else f"{source}: taken, though it is to be refused: {done}"
    if done.returncode != 0:
        return f"{source}: {done}"
    found = np.load(path("out.npy"))
    found = as_stored(np.moveaxis(found, 1, -1) if found.ndim == 4 else found)
    expected = as_stored(expected)
    if found.dtype.kind != expected.dtype.kind or found.shape != expected.shape or not np.array_equal(found, expected):
        return f"{source}: {found.dtype} {found.shape} for {expected.dtype} {expected.shape}, other pixels"
    os.remove(source)
    return None


def has_webp():
    Image.new("RGB", (2, 2)).save(path("small.webp"))
    return subprocess.run([CONVERT, path("small.webp"), path("out.npy")], capture_output=True, check=False).returncode == 0


WEBP = features.check("webp") and has_webp()

if __name__ == "__main__":
    wrong = [text for text in map(check, range(COUNT)) if text]
    print("\n".join(wrong) if wrong else f"{COUNT} files: the same pixels, or refused")
    if not wrong:
        clean_up()
    sys.exit(bool(wrong))
