# SPDX-License-Identifier: MIT
"""Files that other programs write with options drawn at random, held to the pixels that Pillow, OpenCV or tiff2rgba reads: the
same, or refused with a reason. A few, and 1,000 of each format with GCONV_LONG_TESTS. A file that differs is kept, and named."""
import io
import os
import random
import shutil
import subprocess
import sys

import cv2
import numpy as np
from PIL import Image, ImageOps, features

from codec_helper import CONVERT, clean_up, path

COUNT = 1000 if "GCONV_LONG_TESTS" in os.environ else 6
IN, OUT = path("in.png"), path("out.npy")


def tool(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def draw(r, *options):
    """Some of the options, each [name, value, value ...]: one value of it, or none."""
    return [str(word) for name, *values in options if r.random() < 0.5 for word in ([name, r.choice(values)] if values else [name])]


def save_source(r, channels=(1, 3, 4)):
    rng = np.random.default_rng(r.getrandbits(32))
    height, width, count = r.randint(1, 60), r.randint(1, 60), r.choice(channels)
    array = rng.integers(0, 256, ((height + 3) // 4, (width + 3) // 4, count)).astype("u1")
    array = np.kron(array, np.ones((4, 4, 1), "u1"))[:height, :width]
    Image.fromarray(array[..., 0] if count == 1 else array).save(IN)


def png(r):
    save_source(r)
    tool("convert", IN, *draw(r, ["-depth", 1, 2, 4, 8, 16], ["-define", *(f"png:color-type={i}" for i in (0, 2, 3, 4, 6))], ["-interlace", "PNG"],
                              ["-colors", 2, 5, 17, 200], ["-transparent", "black"], ["-colorspace", "Gray"], ["-type", "Bilevel"]),
         r.choice(("", "PNG8:", "PNG24:", "PNG48:", "PNG64:")) + path("a.png"))


def jpg(r):
    save_source(r, (1, 3))
    if shutil.which("cjpeg") and r.random() < 0.5:
        Image.open(IN).save(path("in.ppm"))
        return tool("cjpeg", *draw(r, ["-progressive"], ["-restart", 1, "2B"], ["-arithmetic"], ["-quality", 10, 60, 100], ["-optimize"],
                                   ["-sample", "1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "2x2,1x2,1x1", "1x1,2x2,1x1", "2x1,2x1,2x1"]),
                    "-outfile", path("a.jpg"), path("in.ppm"))
    return tool("convert", IN, *draw(r, ["-quality", 20, 80, 100], ["-interlace", "JPEG"], ["-sampling-factor", "1x1", "2x1", "4x1", "1x2"],
                                     ["-colorspace", "CMYK", "Gray", "RGB"]), path("a.jpg"))


def webp(r):
    save_source(r)
    tool("vips", "webpsave", IN, path("a.webp"), *draw(r, ["--Q", 10, 70, 100], ["--lossless"], ["--near-lossless"], ["--alpha-q", 10, 90]))


def pnm(r):
    save_source(r, (1, 3))
    kind = r.choice(("pbm", "pgm", "ppm"))
    tool("convert", IN, "-depth", r.choice((8, 16)), *draw(r, ["-compress", "none"]), f"{kind}:{path('a.pnm')}")


def tif(r):
    save_source(r)
    if r.random() < 0.5:
        return tool("vips", "tiffsave", IN, path("a.tif"), *draw(
            r, ["--compression", "jpeg", "deflate", "packbits", "lzw", "zstd"], ["--predictor", "none", "horizontal"], ["--tile"],
            ["--tile-width", 16, 32], ["--bigtiff"], ["--Q", 40, 90], ["--miniswhite"]))
    return tool("convert", IN, *draw(
        r, ["-depth", 1, 2, 4, 8], ["-compress", "None", "LZW", "Zip", "RLE", "JPEG", "Group4", "Fax"], ["-colorspace", "CMYK", "Gray", "Lab"],
        ["-type", "Palette", "Bilevel", "Grayscale", "TrueColorAlpha"], ["-endian", "MSB", "LSB"], ["-define", "tiff:fill-order=lsb"],
        ["-define", "quantum:polarity=min-is-white"], ["-define", "tiff:rows-per-strip=7"]), r.choice(("", "TIFF64:")) + path("a.tif"))


def of_pillow(name):
    with Image.open(name) as image:
        see_through = "transparency" in image.info
        mode = {"P": "RGBA" if see_through else "RGB", "1": "L", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "PA": "RGBA",
                "RGBX": "RGB"}.get(image.mode, image.mode)
        mode += "A" if see_through and mode in ("L", "RGB") else ""
        return np.asarray(ImageOps.exif_transpose(image.convert("RGBA").convert(mode) if mode == "LA" else image.convert(mode)))


def of_opencv(name):
    array = cv2.imread(name, cv2.IMREAD_UNCHANGED)
    return array if array.ndim == 2 else array[..., [2, 1, 0, 3][:array.shape[2]]]


def of_libtiff(name):
    tool("tiff2rgba", "-n", name, path("rgba.tif"))
    return of_pillow(path("rgba.tif"))[..., :3]


def is_cmyk(name):
    """libtiff cuts off where CMYK becomes RGB, by up to a level."""
    return b"separated" in subprocess.run(["tiffinfo", name], capture_output=True, check=False).stdout


def differs(got, name):
    """Whether readers find pixels of as many samples, and none of them the same."""
    found = False
    for read in (of_pillow, of_libtiff if name.endswith(".tif") else of_opencv):
        try:
            right = read(name)
        except (OSError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError, subprocess.CalledProcessError, cv2.error):
            continue
        if got.size == right.size and np.abs(got.reshape(right.shape).astype(int) - right).max() <= (read is of_libtiff and is_cmyk(name)):
            return False
        found = found or got.size == right.size
    return found


def check(write, number):
    """Returns what is wrong with a file; "" if nothing, or if the program cannot write it."""
    name = path("a." + write.__name__)
    for old in (name, OUT):
        if os.path.exists(old):
            os.remove(old)
    try:
        write(random.Random(number))
    except subprocess.CalledProcessError:
        return ""
    done = subprocess.run([CONVERT, name, OUT], capture_output=True, text=True, check=False)
    if done.returncode == 1 and ("not read here" in done.stderr or "does not read" in done.stderr):
        return ""
    if done.returncode == 0 and not differs(np.load(OUT), name):
        return ""
    shutil.copy(name, path(f"{number}.{write.__name__}"))
    return f"{path(f'{number}.{write.__name__}')}: {done.stderr.strip() or 'other pixels'}"


def reads(write):
    save_source(random.Random(1), (3,))
    buffer = io.BytesIO()
    Image.open(IN).save(buffer, {"jpg": "jpeg", "pnm": "ppm", "tif": "tiff"}.get(write.__name__, write.__name__))
    with open(path("a"), "wb") as file:
        file.write(buffer.getvalue())
    return subprocess.run([CONVERT, path("a"), OUT], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    if not CONVERT:
        raise SystemExit("set GCONV_IMAGE_CONVERT to the program of tests/codec/image_convert.c")
    if not (shutil.which("convert") and shutil.which("vips") and features.check("webp")):
        print("skipped: ImageMagick, vips, or Pillow with WebP is missing")
        sys.exit(77)
    wrong = [text for write in (png, jpg, webp, pnm, tif) if reads(write) for text in map(lambda number, w=write: check(w, number), range(COUNT)) if text]
    print("\n".join(wrong) if wrong else f"{COUNT} files of each format: the same pixels, or refused")
    if not wrong:
        clean_up()
    sys.exit(bool(wrong))
