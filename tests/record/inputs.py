# SPDX-License-Identifier: MIT
"""Makes the inputs of the recorded commands: images of all formats, folders, filters, banks and damaged files.

All numbers come from generators with fixed seeds, so that the inputs are the same in every recording."""

import json
import pathlib
import shutil
import struct
import zlib

import numpy as np
from PIL import Image

ONNX = pathlib.Path(__file__).resolve().parents[1] / "peers" / "onnx"
COFFEE = pathlib.Path(__file__).resolve().parents[2] / "images" / "coffee.jpg"

# Adam7: first column, first row, distance of columns, distance of rows of each pass.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def noise(height, width, channels, seed, top=255):
    """Levels from 0 to `top` without any structure."""
    kind = "u1" if top < 256 else "u2"
    return np.random.default_rng(seed).integers(0, top + 1, (height, width, channels)).astype(kind)


def photo(height, width, channels, seed):
    """Levels as photos have them: slopes, flat areas with edges, and a little noise. Integers only."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    planes = []
    for c in range(channels):
        slope = np.abs((3 * x + (2 + c) * y) % 1020 - 510) // 4
        blocks = random.integers(0, 110, (height // 40 + 1, width // 40 + 1)).repeat(40, 0).repeat(40, 1)[:height, :width]
        planes.append(slope + blocks + random.integers(-6, 7, (height, width)))
    return np.stack(planes, 2).clip(0, 255).astype("u1")


# ---- PNG ----


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, depth):
    """The bytes of each row of H x W x C samples."""
    if depth == 16:
        return samples.astype(">u2").reshape(len(samples), -1).view("u1")
    if depth == 8:
        return samples.astype("u1").reshape(len(samples), -1)
    bits = (samples[:, :, 0, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(len(samples), -1).astype("u1"), axis=1)


def filtered_rows(rows, step):
    """The rows as PNG stores them; the five filters take turns."""
    rows = rows.astype("i4")
    out, above = b"", np.zeros(rows.shape[1], "i4")
    for y, row in enumerate(rows):
        left = np.concatenate([np.zeros(step, "i4"), row])[: len(row)]
        corner = np.concatenate([np.zeros(step, "i4"), above])[: len(row)]
        guess = left + above - corner
        near = [np.abs(guess - value) for value in (left, above, corner)]
        paeth = np.where((near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], above, corner))
        predicted = (np.zeros_like(row), left, above, (left + above) // 2, paeth)[y % 5]
        out += bytes([y % 5]) + ((row - predicted) & 255).astype("u1").tobytes()
        above = row
    return out


def png(samples, depth, colour, interlaced=False, chunks=(), cuts=1):
    """A PNG file of H x W x C samples; its data are cut into several IDAT chunks."""
    height, width, channels = samples.shape
    step = max(1, channels * depth // 8)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES] if interlaced else [samples]
    data = zlib.compress(b"".join(filtered_rows(packed_rows(part, depth), step) for part in parts if part.size))
    size = -(-len(data) // cuts)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    body = b"".join(chunk(b"IDAT", data[at : at + size]) for at in range(0, len(data), size))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + body + chunk(b"IEND", b"")


def profile(space):
    """A small ICC profile: a header, and one tag of noise. libpng refuses profiles that deflate to fewer than 90 bytes."""
    tag = b"cprt" + struct.pack(">II", 144, 208) + b"text" + bytes(4) + noise(1, 200, 1, 8).tobytes()
    head = struct.pack(">I4s4s4s4s4s", 352, b"test", b"\2\x10\0\0", b"mntr", space, b"XYZ ") + struct.pack(
        ">6H", 2020, 1, 1, 0, 0, 0
    )
    return head + b"acsp" + bytes(28) + struct.pack(">III", 0xF6D6, 0x10000, 0xD32D) + bytes(48) + struct.pack(">I", 1) + tag


def write_pngs(folder):
    palette = noise(16, 1, 3, 9)
    kinds = {
        "grey": (0, 1, (1, 2, 4, 8, 16)),
        "rgb": (2, 3, (8, 16)),
        "palette": (3, 1, (1, 2, 4, 8)),
        "greyalpha": (4, 2, (8, 16)),
        "rgba": (6, 4, (8, 16)),
    }
    for name, (colour, channels, depths) in kinds.items():
        for depth in depths:
            top = (1 << depth) - 1 if colour != 3 else min(15, (1 << depth) - 1)
            samples = noise(29, 37, channels, depth + 100 * colour, top)
            chunks = [(b"PLTE", palette[: top + 1].tobytes())] if colour == 3 else []
            for interlaced in (False, True):
                path = folder / f"{name}{depth}{'_interlaced' if interlaced else ''}.png"
                path.write_bytes(png(samples, depth, colour, interlaced, chunks, cuts=3))
    samples = noise(29, 37, 1, 1, 15)
    plte = (b"PLTE", palette.tobytes())
    (folder / "palette_alpha.png").write_bytes(png(samples, 8, 3, chunks=[plte, (b"tRNS", bytes(range(0, 160, 16)))]))
    (folder / "grey_key.png").write_bytes(png(samples, 8, 0, chunks=[(b"tRNS", b"\0\7")]))
    (folder / "rgb_key.png").write_bytes(png(noise(29, 37, 3, 2, 1), 8, 2, chunks=[(b"tRNS", b"\0\1\0\0\0\1")]))
    rgb, density = noise(29, 37, 3, 3), (b"pHYs", struct.pack(">IIB", 11811, 5906, 1))
    icc = (b"iCCP", b"a name\0\0" + zlib.compress(profile(b"RGB ")))
    (folder / "meta.png").write_bytes(png(rgb, 8, 2, chunks=[icc, density, (b"tEXt", b"Comment\0of no use")]))
    (folder / "gamma.png").write_bytes(png(rgb, 8, 2, chunks=[(b"gAMA", struct.pack(">I", 100000))]))
    (folder / "srgb.png").write_bytes(png(rgb, 8, 2, chunks=[(b"sRGB", b"\0"), density]))
    icc = (b"iCCP", b"grey\0\0" + zlib.compress(profile(b"GRAY")))
    (folder / "meta_grey.png").write_bytes(png(noise(29, 37, 1, 4), 8, 0, chunks=[icc]))
    for height, width in ((1, 1), (1, 50), (50, 1), (2, 2), (3, 5), (7, 64), (257, 3)):
        (folder / f"size_{width}x{height}.png").write_bytes(png(noise(height, width, 3, height * width), 8, 2))


# ---- JPEG, PNM, arrays ----


def write_jpegs(folder):
    rgb = photo(61, 83, 3, 20)
    picture = Image.fromarray(rgb)
    grey = Image.fromarray(rgb[:, :, 0])
    picture.save(folder / "base.jpg", quality=92, subsampling=0)
    picture.save(folder / "chroma420.jpg", quality=80, subsampling=2)
    picture.save(folder / "chroma422.jpg", quality=80, subsampling=1)
    picture.save(folder / "progressive.jpg", quality=85, progressive=True)
    picture.save(folder / "meta.jpg", dpi=(240, 120), icc_profile=profile(b"RGB "))
    grey.save(folder / "grey.jpg", quality=90)
    grey.save(folder / "grey_progressive.jpg", quality=90, progressive=True)
    picture.convert("CMYK").save(folder / "cmyk.jpg", quality=90)
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        picture.save(folder / f"turned{turn}.jpg", quality=90, exif=exif)


def write_netpbm(folder):
    bits, levels = noise(11, 19, 1, 30, 1)[:, :, 0], noise(11, 19, 3, 31)
    wide = noise(11, 19, 3, 32, 65535)
    text = lambda a: "\n".join(" ".join(map(str, row)) for row in a.reshape(len(a), -1)) + "\n"
    files = {
        "p1.pbm": b"P1\n# bits\n19 11\n" + text(bits).encode(),
        "p2.pgm": b"P2\n19 11\n# a comment\n255\n" + text(levels[:, :, 0]).encode(),
        "p3.ppm": b"P3 19 11 255\n" + text(levels).encode(),
        "p3_1000.ppm": b"P3 19 11 1000\n" + text(wide % 1001).encode(),
        "p4.pbm": b"P4 19 11\n" + np.packbits(bits, axis=1).tobytes(),
        "p5.pgm": b"P5 19 11 255\n" + levels[:, :, 0].tobytes(),
        "p5_15.pgm": b"P5 19 11 15\n" + (levels[:, :, 0] % 16).tobytes(),
        "p5_16.pgm": b"P5 19 11 65535\n" + wide[:, :, 0].astype(">u2").tobytes(),
        "p6.ppm": b"P6 19 11 255\n" + levels.tobytes(),
        "p6_1000.ppm": b"P6 19 11 1000\n" + (wide % 1001).astype(">u2").tobytes(),
        "p6_16.ppm": b"P6 19 11 65535\n" + wide.astype(">u2").tobytes(),
    }
    for kind, channels in (("BLACKANDWHITE", 1), ("GRAYSCALE", 1), ("GRAYSCALE_ALPHA", 2), ("RGB", 3), ("RGB_ALPHA", 4)):
        for top in (1,) if kind == "BLACKANDWHITE" else (255, 65535):
            samples = noise(11, 19, channels, 33 + channels, top)
            head = f"P7\nWIDTH 19\nHEIGHT 11\nDEPTH {channels}\nMAXVAL {top}\nTUPLTYPE {kind}\nENDHDR\n".encode()
            files[f"p7_{kind.lower()}_{top}.pam"] = head + (samples.astype(">u2") if top > 255 else samples).tobytes()
    floats = np.random.default_rng(34).normal(0.5, 0.3, (11, 19, 3))
    files["little.pfm"] = b"PF\n19 11\n-1.0\n" + floats.astype("<f4").tobytes()
    files["big.pfm"] = b"PF\n19 11\n2.0\n" + floats.astype(">f4").tobytes()
    files["grey.pfm"] = b"Pf\n19 11\n-1.0\n" + floats[:, :, 0].astype("<f4").tobytes()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def write_arrays(folder):
    levels = noise(13, 21, 4, 40)
    floats = np.random.default_rng(41).normal(0.5, 0.4, (13, 21, 4))
    arrays = {
        "u8": levels[:, :, 0],
        "u8_3": levels[:, :, :3],
        "u8_4": levels,
        "u8_2": levels[:, :, :2],
        "u16": noise(13, 21, 1, 42, 65535)[:, :, 0],
        "u16_3": noise(13, 21, 3, 43, 65535),
        "bool": levels[:, :, 0] > 127,
        "f16": floats[:, :, 0].astype("f2"),
        "f32": floats[:, :, 0].astype("f4"),
        "f32_3": floats[:, :, :3].astype("f4"),
        "f64": floats[:, :, 0],
        "f32_big": floats[:, :, 0].astype(">f4"),
        "u16_big": noise(13, 21, 1, 44, 65535)[:, :, 0].astype(">u2"),
        "i16": levels[:, :, 0].astype("i2"),
        "fortran": np.asfortranarray(levels[:, :, 0]),
        "fortran_3": np.asfortranarray(floats[:, :, :3].astype("f4")),
        "planes": np.ascontiguousarray(levels[:, :, :3].transpose(2, 0, 1)),
        "nchw": np.random.default_rng(45).normal(0.5, 0.4, (4, 3, 16, 18)).astype("f4"),
        "nchw_u8": noise(4, 3, 16 * 18, 46).reshape(4, 3, 16, 18),
        "nhwc": np.random.default_rng(47).normal(0.5, 0.4, (2, 16, 18, 3)).astype("f4"),
        "maps4": np.random.default_rng(48).normal(size=(2, 4, 12, 14)).astype("f4"),
        "maps32": np.random.default_rng(49).normal(size=(1, 32, 20, 22)).astype("f4"),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    special = floats[:, :, 0].astype("f4")
    special[3, 4], special[7, 8], special[9, 1] = np.nan, np.inf, -np.inf
    np.save(folder / "nan.npy", special)


def write_large(folder):
    """Images that gconv processes by rows."""
    rgb = photo(2000, 3000, 3, 50)
    picture = Image.fromarray(rgb)
    picture.save(folder / "large.png", compress_level=1)
    picture.save(folder / "large.jpg", quality=90)
    (folder / "large.ppm").write_bytes(b"P6 3000 2000 255\n" + rgb.tobytes())
    Image.fromarray(rgb[:1500, :2000, 0]).save(folder / "large_grey.png", compress_level=1)
    wide = rgb[:1200, :1600, 0].astype("u2") * 257
    Image.fromarray(wide).save(folder / "large16.png", compress_level=1)
    np.save(folder / "large_f32.npy", rgb[:1200, :1600, 1].astype("f4") / 255)
    picture.crop((0, 0, 800, 600)).save(folder / "medium.png", compress_level=1)
    part = picture.crop((0, 0, 1600, 1200))
    part.save(folder / "large_progressive.jpg", quality=80, progressive=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    part.save(folder / "large_turned.jpg", quality=80, exif=exif)
    part.save(folder / "large_stored.png", compress_level=0)
    part.convert("L").save(folder / "large_best.png", compress_level=9)
    part.convert("RGBA").save(folder / "large_rgba.png", compress_level=3)
    part.quantize(64, method=Image.Quantize.FASTOCTREE).save(folder / "large_palette.png", compress_level=6)
    shutil.copy(COFFEE, folder / "coffee.jpg")
    data = (folder / "large_best.png").read_bytes()
    (folder / "large_cut.png").write_bytes(data[: len(data) // 2])
    (folder / "large_flipped.png").write_bytes(
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    )
    (folder / "large_cut.jpg").write_bytes((folder / "large.jpg").read_bytes()[:200000])


def write_tree(folder):
    """A folder with folders in it, blanks in names, and files that are no images."""
    for i, name in enumerate(
        ("b.png", "a.jpg", "c d.png", "sub/e.png", "sub/deep er/f.pgm", "sub/deep er/g {x}.png", "other/a.png")
    ):
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(noise(20 + i, 30 - i, 3, 60 + i))
        (picture.convert("L") if path.suffix == ".pgm" else picture).save(path)
    (folder / "tree/notes.txt").write_text("no image\n")
    (folder / "tree/.hidden.png").write_bytes((folder / "tree/b.png").read_bytes())
    for i in range(6):
        path = folder / "many" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(noise(24, 32, 3, 70 + i)).save(path)
    (folder / "empty").mkdir()
    shutil.copytree(folder / "many", folder / "partly")
    (folder / "partly/3.png").write_bytes((folder / "many/3.png").read_bytes()[:200])


# ---- Filters and banks ----


def write_filters(folder):
    random = np.random.default_rng(80)
    k = folder / "k"
    k.mkdir()
    rows = lambda a: "\n".join(" ".join(f"{v:.9g}" for v in row) for row in a) + "\n"
    texts = {
        "mean.txt": "# a mean\n1/9 1/9 1/9\n1/9, 1/9, 1/9\n1/9;1/9;1/9\n",
        "hex.txt": "0x1.8p-1 .5\n-1. 1e-3\n",
        "crlf.txt": "\ufeff1 2 1\r\n2 4 2\r\n1 2 1\r\n",
        "nearly.txt": "0.111 0.111 0.111\n" * 3,
        "one_row.txt": "1 2; 3 4\n",
        "blank_line.txt": "1 2 3\n\n4 5 6\n",
        "scaled.mat": "3 3 16 0\n1 2 1\n2 4 2\n1 2 1\n",
        "offset.mat": "3 3 1 128\n0 1 0\n1 -4 1\n0 1 0\n",
        "either.txt": "3 3 9\n1 1 1\n1 1 1\n1 1 1\n",
        "told.txt": "# syntax: vips\n3 3 9\n1 1 1\n1 1 1\n1 1 1\n",
        "kernels.txt": "3x3: 1,2,1 0,0,0 -1,-2,-1; 3x3: 1,0,-1 2,0,-2 1,0,-1\n",
        "nan.txt": "3x3: nan,1,- 1,2,1 nan,1,nan\n",
        "edge.yml": "%YAML:1.0\n---\nedge: !!opencv-matrix\n   rows: 1\n   cols: 3\n   dt: f\n   data: [ -1., 0., 1. ]\n"
        "other: !!opencv-matrix\n   rows: 2\n   cols: 2\n   dt: d\n   data: [ 1., 2., 3., 4.5 ]\nname: 7\n",
        "edge.xml": '<?xml version="1.0"?>\n<opencv_storage>\n<edge type_id="opencv-matrix">\n  <rows>1</rows>\n  <cols>3</cols>\n'
        "  <dt>f</dt>\n  <data>\n    -1. 0. 1.</data></edge>\n</opencv_storage>\n",
        "python.txt": "k = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], dtype=np.float32)\n",
        "matlab.txt": "1/9 * [1 1 1; 1 1 1; 1 1 1]\n",
        "c.txt": "static const float k[2][3] = {{0, -1.f, 0}, {-1, 5, -1}};\n",
        "ragged.txt": "1 2 3\n4 5\n",
        "word.txt": "1 2\n3 x\n",
        "infinite.txt": "1 inf\n",
        "huge.txt": "1 1e99\n",
        "none.txt": "# nothing\n",
        "no_kernel.txt": "3x3: 1,2,3\n",
        "no_array.txt": "np.array([[1, 2], [3, 4]]).T\n",
        "size.mat": "3 3 1 0\n1 2 3\n4 5 6\n",
        "base64.yml": '%YAML:1.0\n---\na: !!opencv-matrix\n   rows: 1\n   cols: 1\n   dt: "2f"\n   data: [ 1., 2. ]\n',
    }
    for name, text in texts.items():
        (k / name).write_bytes(text.encode())
    (k / "random7.txt").write_text(rows(random.normal(size=(7, 7))))
    (k / "random4x5.txt").write_text(rows(random.integers(-4, 5, (4, 5))))
    (k / "random31.txt").write_text(rows(random.normal(size=(31, 31)) / 100))
    (k / "sparse15.txt").write_text(rows(random.normal(size=(15, 15)) * (random.random((15, 15)) < 0.1)))
    (k / "row41.txt").write_text(rows(random.normal(size=(1, 41)) / 10))
    (k / "column41.txt").write_text(rows(random.normal(size=(41, 1)) / 10))
    for name, array in {
        "one": random.normal(size=(3, 5)),
        "three": random.normal(size=(3, 3, 3)).astype("f4"),
        "small": random.normal(size=(2, 1, 3, 3)).astype("f2"),
        "integers": random.integers(-9, 9, (3, 3)).astype(">i2"),
        "yes": random.random((3, 3)) > 0.5,
        "complex": np.ones((3, 3), "c8"),
        "nan": np.full((3, 3), np.nan),
    }.items():
        np.save(k / f"{name}.npy", np.asfortranarray(array) if name == "one" else array)
    (k / "utf16.txt").write_bytes("1 2 3\n".encode("utf-16"))


def bank_text(weights, biases, head=""):
    lines = ["gconv-bank 1", "filters %d channels %d size %d %d %s" % (*weights.shape, head)]
    names = ["edge", "", '"two words"', "a/b", "edge"]
    for n, (planes, bias) in enumerate(zip(weights, biases)):
        lines.append(f"filter {names[n % 5]} bias {bias:.9g}")
        for plane in planes:
            lines += [" ".join(f"{v:.9g}" for v in row) for row in plane] + [""]
    return "\n".join(lines) + "\n"


def safetensors(tensors):
    names = {"f4": "F32", "f2": "F16", "f8": "F64", "i8": "I64"}
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {
            "dtype": names[array.dtype.str[1:]],
            "shape": array.shape,
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_banks(folder):
    random = np.random.default_rng(90)
    b = folder / "b"
    b.mkdir()
    weights, biases = random.normal(size=(5, 3, 3, 3)), random.normal(size=8)
    files = {
        "rgb.txt": bank_text(weights, biases),
        "given.txt": bank_text(weights, biases, "stride 2 1 padding 1 0 2 1 dilation 1 2 groups 1"),
        "upper.txt": bank_text(random.normal(size=(4, 3, 2, 4)), biases, "padding same_upper"),
        "lower.txt": bank_text(random.normal(size=(4, 3, 2, 4)), biases, "padding same_lower"),
        "second.txt": bank_text(random.normal(size=(4, 5, 3, 3)), biases),
        "wide.txt": bank_text(random.normal(size=(8, 5, 1, 1)), biases),
        "third.txt": bank_text(random.normal(size=(3, 4, 5, 5)), biases),
        "groups.txt": bank_text(random.normal(size=(6, 1, 3, 3)), biases, "groups 3"),
        "seven.txt": bank_text(random.normal(size=(2, 3, 7, 7)), biases),
        "five.txt": bank_text(random.normal(size=(8, 3, 5, 5)), biases),
        "short.txt": "gconv-bank 1\nfilters 2 channels 1 size 1 1\nfilter\n1\n",
        "version.txt": "gconv-bank 9\n",
    }
    for name, text in files.items():
        (b / name).write_text(text)
    np.save(b / "rgb.npy", weights.astype("f4"))
    np.save(b / "half.npy", np.asfortranarray(weights.astype("f2")))
    np.save(b / "many.npy", random.normal(size=(40, 32, 3, 3)).astype("f4"))
    np.save(b / "grouped.npy", random.normal(size=(8, 2, 3, 3)).astype("f4"))
    np.save(b / "deep.npy", np.ones((1, 1, 1, 1, 1), "f4"))
    tensors = {
        "conv1.weight": weights.astype("f4"),
        "conv1.bias": biases[:5].astype("f4"),
        "half.weight": weights.astype("f2"),
        "double.weight": weights,
        "fc.weight": weights[0, 0].astype("f4"),
        "steps": np.zeros((1, 1, 1, 1), "i8"),
    }
    data = safetensors(tensors)
    (b / "w.safetensors").write_bytes(data)
    (b / "only.safetensors").write_bytes(safetensors({"weight": weights.astype("f4")}))
    (b / "cut.safetensors").write_bytes(data[:-1])
    (b / "nan.safetensors").write_bytes(safetensors({"w.weight": np.full((1, 1, 1, 1), np.nan, "f4")}))
    for case in (
        "test_Conv2d",
        "test_Conv2d_depthwise_with_multiplier",
        "test_Conv2d_groups",
        "test_Conv2d_dilated",
        "test_Conv2d_strided",
        "test_Conv2d_no_bias",
        "test_Conv2d_padding",
        "test_conv_with_autopad_same",
    ):
        shutil.copy(ONNX / case / "model.onnx", b / f"{case[5:]}.onnx")


# ---- Damaged files ----


def damaged_pngs():
    """Files whose chunks are whole, but whose content is wrong, or unusual."""
    samples = noise(29, 37, 1, 200)
    rows = filtered_rows(packed_rows(samples, 8), 1)
    data = zlib.compress(rows)
    signature = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 37, 29, 8, 0, 0, 0, 0))
    end = chunk(b"IEND", b"")
    whole = signature + chunk(b"IDAT", data) + end
    indexed = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 37, 29, 8, 3, 0, 0, 0))
    fixed = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_FIXED)
    few = bytes(range(9))
    return {
        "adler.png": signature + chunk(b"IDAT", data[:-1] + bytes([data[-1] ^ 1])) + end,
        "stream_cut.png": signature + chunk(b"IDAT", data[:-40]) + end,
        "stream_long.png": signature + chunk(b"IDAT", data + b"more") + end,
        "rows_more.png": signature + chunk(b"IDAT", zlib.compress(rows + rows[:90])) + end,
        "rows_less.png": signature + chunk(b"IDAT", zlib.compress(rows[:-50])) + end,
        "filter7.png": signature + chunk(b"IDAT", zlib.compress(b"\7" + rows[1:])) + end,
        "empty_idats.png": signature
        + chunk(b"IDAT", b"")
        + chunk(b"IDAT", data[:50])
        + chunk(b"IDAT", b"")
        + chunk(b"IDAT", data[50:])
        + chunk(b"IDAT", b"")
        + end,
        "split_idats.png": signature + chunk(b"IDAT", data[:50]) + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", data[50:]) + end,
        "no_end.png": signature + chunk(b"IDAT", data),
        "trailing.png": whole + b"trailing bytes",
        "unknown.png": signature + chunk(b"ABCD", b"x") + chunk(b"IDAT", data) + end,
        "text_crc.png": signature + chunk(b"tEXt", b"a\0b")[:-1] + b"?" + chunk(b"IDAT", data) + end,
        "no_palette.png": indexed + chunk(b"IDAT", data) + end,
        "beyond_palette.png": indexed + chunk(b"PLTE", few) + chunk(b"IDAT", data) + end,
        "no_data.png": signature + end,
        "window.png": signature + chunk(b"IDAT", b"\x08\x1d" + data[2:]) + end,
        "dictionary.png": signature + chunk(b"IDAT", b"\x78\xbb" + data[2:]) + end,
        "fixed.png": signature + chunk(b"IDAT", fixed.compress(rows) + fixed.flush()) + end,
        "block3.png": signature + chunk(b"IDAT", b"\x78\x01\x07" + data[3:]) + end,
    }


def write_bad(folder):
    bad = folder / "bad"
    bad.mkdir()
    rgb = (folder / "rgb8.png").read_bytes()
    head = (
        lambda *fields: b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", *fields))
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )
    flipped = bytearray(rgb)
    flipped[len(rgb) // 2] ^= 0x55
    files = {
        "empty.png": b"",
        "text.png": b"this is no image\n",
        "flipped.png": bytes(flipped),
        "zero.png": head(0, 5, 8, 2, 0, 0, 0),
        "short.png": head(9, 9, 8, 2, 0, 0, 0),
        "depth.png": head(5, 5, 3, 2, 0, 0, 0),
        "bomb.png": head(60000, 60000, 8, 2, 0, 0, 0),
        "maxval.pgm": b"P5 5 5 0\n",
        "negative.pgm": b"P5 -1 5 255\n",
        "over.pgm": b"P2 2 1 9\n1 10",
        "bits.pbm": b"P1 2 1\n1 2",
        "depth.pam": b"P7\nWIDTH 5\nHEIGHT 5\nDEPTH 0\nMAXVAL 1\nENDHDR\n",
        "scale.pfm": b"PF\n5 5\nnan\n",
        "version.npy": b"\x93NUMPY\x09\0\x10\0short",
    }
    for name in ("rgb8.png", "rgb16_interlaced.png", "base.jpg", "progressive.jpg", "p6.ppm", "little.pfm", "u8_3.npy"):
        data = (folder / name).read_bytes()
        files[f"half_{name}"] = data[: len(data) // 2]
        files[f"tail_{name}"] = data[: len(data) - 9]
    data = bytearray((folder / "base.jpg").read_bytes())
    data[len(data) * 2 // 3] ^= 0xFF
    files["flipped.jpg"] = bytes(data)
    for name, content in (files | damaged_pngs()).items():
        (bad / name).write_bytes(content)
    np.save(bad / "object.npy", np.array([[None]], dtype=object))
    np.save(bad / "complex.npy", np.ones((3, 3), "c8"))
    np.save(bad / "line.npy", np.ones(3, "f4"))
    np.save(bad / "nothing.npy", np.ones((0, 5), "f4"))


def make(folder):
    """Writes all inputs to this folder, which must be empty."""
    for write in (
        write_pngs,
        write_jpegs,
        write_netpbm,
        write_arrays,
        write_large,
        write_tree,
        write_filters,
        write_banks,
        write_bad,
    ):
        write(folder)
