# SPDX-License-Identifier: MIT
"""Files of a given size that ask for as much work and memory as their bytes can: one function each, from a size in bytes to the
bytes of a file. Each is the worst structure that is known of its format."""
import io
import json
import pathlib
import struct
import zipfile
import zlib

import numpy
from PIL import Image

# ---- Filters ----


def many_kernels(size):
    return b"1x1:1;" * (size // 6 - 1) + b"1x1:1"


def transpositions(size):
    return b"[1 2 3; 4 5 6]" + b"'" * (size // 2) + b" " * (size // 2)


def long_array_of_transpositions(size):
    return b"[" + b"1 " * (size // 4) + b"]" + b"'" * (size // 2)


def products(size):
    return b"[" + b"1 " * (size // 4) + b"]" + b"*1" * (size // 4)


def parentheses(size):
    return b"(" * size


def spaces(size):
    return b" " * (size // 2) + b"#" + b"x" * (size // 2) + b"\n1"


def one_row(size):
    return b"1 " * min(size // 2, 32768)


def long_number(size):
    return b"1" * size


def opencv_matrices(size):
    one = b"a: !!opencv-matrix\n rows: 1\n cols: 1\n dt: f\n data: [ 1. ]\n"
    return b"%YAML:1.0\n---\n" + one * (size // len(one))


def opencv_promise(size):
    return b"%YAML:1.0\n---\na: !!opencv-matrix\n rows: 8192\n cols: 8192\n dt: f\n data: [ " + b"1 " * (size // 2) + b"]\n"


def vips_promise(size):
    return b"# syntax: vips\n8192 8192\n" + b"1 1\n" * (size // 4)


def integer_matrix(size):
    """Most of the rows are 6, but for a 35 at the end of each row and column that shows only there that no cross divides. The
    others have one number each: a pair of integers is found there, after all before have been looked at in vain."""
    side = int((size / 2.1)**0.5)
    bad = 3 * side // 4
    rows = numpy.zeros((side, side), int)
    rows[:bad, :bad] = 6
    rows[:bad, bad - 1] = 35
    rows[bad - 1, :bad] = [35 if i % 2 else 55 for i in range(bad)]
    rows[bad - 1, bad - 1] = 77
    rows[range(bad, side), range(bad, side)] = 2
    return "\n".join(" ".join(map(str, row)) for row in rows).encode()


def npy(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def npy_filters(size):
    return npy(numpy.ones((min(size, 65536), 1, 1), numpy.uint8))


# ---- Banks ----


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, content):
    """A field of protobuf: bytes, or a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx(graph):
    return field(1, 8) + field(2, b"test") + field(7, graph)


CONV = field(4, b"Conv")
WEIGHTS = field(1, 1) * 4 + field(2, 1) + field(9, b"\0\0\0\0")


def onnx_long_name(size):
    """A Constant with a name of 60 KB and many tensors."""
    name = b"n" * min(60000, size // 2)
    tensors = field(5, field(1, b"value") + field(5, b"") * ((size - len(name)) // 2))
    return onnx(field(1, field(4, b"Constant") + field(2, name) + tensors) + field(1, CONV + field(1, b"x") + field(1, b"w")))


def onnx_constants(size):
    node = b"".join(field(1, field(4, b"Constant") + field(2, b"%x" % i) + field(5, field(5, b""))) for i in range(size // 30))
    return onnx(node + field(1, CONV + field(1, b"x") + field(1, b"w")))


def onnx_nodes_and_inputs(size):
    """Nodes whose weights are none of many inputs."""
    nodes = b"".join(field(1, CONV + field(1, b"x") + field(1, b"w%x" % i)) for i in range(size // 40))
    return onnx(nodes + b"".join(field(11, field(1, b"i%x" % i)) for i in range(size // 20)))


def onnx_nameless(size):
    return onnx(field(5, b"") * (size // 2) + field(1, CONV + field(1, b"x") + field(1, b"w")))


def onnx_shared(size):
    """All nodes share one tensor, half of the file."""
    count = size // 8
    weights = field(8, b"w") + field(1, count) + field(1, 1) * 3 + field(2, 1) + field(9, b"\0" * 4 * count)
    return onnx(field(1, CONV + field(1, b"x") + field(1, b"w")) * (size // 2 // 16) + field(5, weights))


def onnx_external(nodes, numbers, entries=1):
    """All nodes share one tensor, of so many numbers in a file w.bin, of which the model tells several times."""
    def entry(key, value):
        return field(13, field(1, key) + field(2, value))
    weights = field(8, b"w") + field(1, numbers) + field(1, 1) * 3 + field(2, 1) + entry(b"location", b"w.bin") * entries + field(14, 1)
    return onnx(b"".join(field(1, CONV + field(1, b"x") + field(1, b"w") + field(3, b"n%d" % i)) for i in range(nodes)) + field(5, weights))


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_tensors(size):
    count = size // 140
    header = {}
    for i in range(count):
        header[f"t{i}.weight"] = {"dtype": "F32", "shape": [1, 1, 1, 1], "data_offsets": [8 * i, 8 * i + 4]}
        header[f"t{i}.bias"] = {"dtype": "F32", "shape": [1], "data_offsets": [8 * i + 4, 8 * i + 8]}
    return safetensors(header, b"\0" * 8 * count)


def safetensors_depth(size):
    return safetensors(b'{"a":' + b"[" * size)


def safetensors_lists(size):
    return safetensors(b'{"a":{"dtype":"F32","shape":[' + b"[]," * (size // 3) + b'[]],"data_offsets":[0,0]}}')


def npz_members(size):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        one = npy(numpy.ones((1, 2, 1, 1), numpy.uint8))
        for i in range(size // 250):
            archive.writestr(f"{i}.npy", one)
    return file.getvalue()


def npz_overlap(size):
    """All members of the directory are the one that the archive has, half of the file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("0.npy", npy(numpy.ones((1, 2, 1, size // 4), numpy.uint8)))
    whole = file.getvalue()
    end = whole.rindex(b"PK\5\6")
    begin = whole.index(b"PK\1\2")
    count = min(size // 2 // (end - begin), 65535)
    directory = whole[begin:end] * count
    return whole[:begin] + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), begin, 0)


def text_bank(size):
    count = size // 9
    return b"gconv-bank 1\nfilters %d channels 1 size 1 1\n" % count + b"filter\n1\n" * count


# ---- Images ----


def jpeg(size=(8, 8)):
    file = io.BytesIO()
    Image.new("RGB", size).save(file, "JPEG")
    return file.getvalue()


def jpeg_comments(size):
    plain = jpeg()
    return plain[:2] + b"\xff\xfe\0\3c" * (size // 5) + plain[2:]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(chunks):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunks +
            chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b""))


def png_comments(size):
    return png(chunk(b"tEXt", b"Comment\0c") * (size // 21))


def png_late_comments(size):
    plain = png(b"")
    return plain[:-12] + chunk(b"tEXt", b"Comment\0c") * (size // 21) + plain[-12:]


def png_inflated_comments(size):
    text = zlib.compress(b"c" * (15 << 20), 9)
    one = chunk(b"zTXt", b"Comment\0\0" + text)
    return png(one * (size // len(one) + 1))


def png_xmp(size):
    xmp = b"<x>" + b'xmpNote:HasExtendedXMP=""' * (16 * size // 25) + b"</x>"
    return png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp[:15 << 20], 9)))


def exif(entries):
    count = min(len(entries) // 12, 65535)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", count) + entries[:12 * count] + b"\0\0\0\0"


def png_exif_overlap(size):
    entries = struct.pack("<HHII", 0x8298, 2, size * 9 // 10, 8) * (size // 12)
    return png(chunk(b"eXIf", exif(entries)))


def png_exif_resolution(size):
    turned = struct.pack("<HHIHH", 0x112, 3, 1, 6, 0)
    return png(chunk(b"eXIf", exif(turned + struct.pack("<HHII", 0x11a, 5, 1, 8) * (size // 12))))


def pnm_images(size):
    return b"P5 1 1 3\n\1" * (size // 10)


def pnm_maxvals(size):
    return b"P5 1 1 65533\n\0\1P5 1 1 65534\n\0\1" * (size // 30)


def pnm_comments(size):
    return b"P5 " + b"#\n" * (size // 2) + b"1 1 255\n\0"


def pfm_spaces(size):
    return b"Pf\n" + b" " * size + b"1 1\n-1\n" + bytes(4)


def fits_cards(size):
    """A FITS file with a long header, below the limit."""
    cards = ["SIMPLE  = T", "BITPIX  = 8", "NAXIS   = 1", "NAXIS1  = 1", *["NAXIS999= 7 "] * min(size // 80, 4000 * 36), "END"]
    return "".join(card.ljust(80) for card in cards).encode().ljust(-(-len(cards) * 80 // 2880) * 2880) + bytes(2880)


def exr_header(more, channels=b"Y\0" + struct.pack("<iiii", 2, 0, 1, 1)):
    """An OpenEXR file of one pixel."""
    parts = [("channels", "chlist", channels + b"\0"), ("compression", "compression", b"\0"), ("dataWindow", "box2i", bytes(16)),
             ("displayWindow", "box2i", bytes(16)), ("lineOrder", "lineOrder", b"\0"), ("pixelAspectRatio", "float", struct.pack("<f", 1)),
             ("screenWindowCenter", "v2f", bytes(8)), ("screenWindowWidth", "float", struct.pack("<f", 1)), *more]
    head = struct.pack("<II", 20000630, 2) + b"".join(b"%s\0%s\0%s%s" % (name.encode(), kind.encode(), struct.pack("<i", len(value)), value) for name, kind, value in parts) + b"\0"
    pixels = 4 * (len(channels) // 18 if len(channels) > 18 else 1)
    return head + struct.pack("<Qii", len(head) + 8, 0, pixels) + bytes(pixels)


def exr_attributes(size):
    """An OpenEXR file of many attributes."""
    return exr_header([(f"a{i}", "string", b"text") for i in range(size // 24)])


def exr_comments(size):
    return exr_header([("comments", "string", b"x" * size)])


def exr_channels(size):
    """An OpenEXR file of many channels."""
    names = sorted(f"c{i}.R" for i in range(size // 26))
    return exr_header([], b"".join(name.encode() + b"\0" + struct.pack("<iiii", 2, 0, 1, 1) for name in names))


def padded(kind, name, box, size):
    """A sample of a format of boxes, with many small boxes before its picture (as JPEG XL), or one large box behind."""
    sample = (pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus" / kind / name).read_bytes()
    boxes = struct.pack(">I4s", 8 + box, b"free") + bytes(box)
    if kind == "heif":
        return sample + boxes * (size // len(boxes))
    head = struct.pack(">I4s4s", 12, b"JXL ", b"\r\n\x87\n") + struct.pack(">I4s4sI4s", 20, b"ftyp", b"jxl ", 0, b"jxl ")
    return head + boxes * (size // len(boxes)) + struct.pack(">I4s", 8 + len(sample), b"jxlc") + sample


def radiance_lines(size):
    """A Radiance HDR file with long lines."""
    return b"#?RADIANCE\n" + (b"#" * (size // 900) + b"\n") * 900 + b"\n-Y 1 +X 1\n" + bytes(4)


def nifti_gap(size):
    """A NIfTI file (.nii) whose numbers begin late."""
    head = struct.pack("<i", 348).ljust(40, b"\0") + struct.pack("<8h", 2, 1, 1, 1, 1, 1, 1, 1)
    head = head.ljust(70, b"\0") + struct.pack("<2h", 2, 8)
    return head.ljust(108, b"\0") + struct.pack("<f", 352 + size).ljust(236, b"\0") + b"n+1\0" + bytes(size + 300)


def bmp_gap(size):
    """A BMP file whose pixels begin late."""
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + size) + struct.pack("<IiiHHIIiiII", 40, 1, 1, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(size + 4)


def pnm_spaces(size):
    return b"P5 1 1 255\n\0" + b"\n" * size


def pam_lines(size):
    return b"P7\n" + b"#\n" * (size // 2) + b"WIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\n\0"


def tiff(directories, behind=b"", loop=False):
    """A TIFF of these directories, each a list of entries; `behind` is at byte 8."""
    at, out = 8 + len(behind), [b"II*\0" + struct.pack("<I", 8 + len(behind)), behind]
    for i, entries in enumerate(directories):
        at += 2 + 12 * len(entries) + 4
        last = i + 1 == len(directories)
        out += [struct.pack("<H", len(entries)), *entries, struct.pack("<I", 8 + len(behind) if last and loop else 0 if last else at)]
    return b"".join(out)


def entry(tag, kind, count, value):
    return struct.pack("<HHII", tag, kind, count, value)


def tiff_page(*more):
    plain = {0x100: (4, 1), 0x101: (4, 1), 0x102: (3, 8), 0x106: (3, 1), 0x111: (4, 4), 0x116: (4, 1), 0x117: (4, 1)}
    entries = {tag: entry(tag, kind, 1, value) for tag, (kind, value) in plain.items()}
    entries.update({struct.unpack("<H", one[:2])[0]: one for one in more})
    return [entries[tag] for tag in sorted(entries)]


def tiff_pages(size):
    return tiff([tiff_page()] * (size // 90))


def tiff_unknown_tags(size, a_page=250):
    tags = [1000 + i % 31000 for i in range(size // 12)]
    pages = [tags[i:i + a_page] for i in range(0, len(tags), a_page)]
    return tiff([tiff_page() + [entry(tag, 3, 1, 0) for tag in sorted(page)] for page in pages])


def tiff_loop(size):
    return tiff([tiff_page()] * (size // 90), loop=True)


def tiff_shared_text(size):
    """Each page has the same description, half of the file."""
    return tiff([tiff_page(entry(0x10e, 2, size // 2, 8))] * (size // 2 // 102), b"d" * (size // 2 - 1) + b"\0")


def tiff_shared_lists(size):
    """Each page has the same list of strips, half of the file."""
    count = size // 8
    page = tiff_page(entry(0x101, 4, 1, count), entry(0x111, 4, count, 8), entry(0x117, 4, count, 8))
    return tiff([page] * (size // 2 // 90), struct.pack("<I", 8) * count)


def tiff_many_strips(size):
    """Each page promises a million strips, of which none is listed."""
    return tiff([tiff_page(entry(0x101, 4, 1, 1000000))] * (size // 90))


def tiff_shared_bytes(size):
    """Each tile is the whole file."""
    tiles = size // 8
    side = 16 * int(tiles**0.5)
    tiles = (side // 16)**2
    lists = struct.pack("<I", 8) * tiles + struct.pack("<I", size) * tiles
    page = [entry(0x100, 4, 1, side), entry(0x101, 4, 1, side), entry(0x102, 3, 1, 8), entry(0x103, 3, 1, 8),
            entry(0x106, 3, 1, 1), entry(0x115, 3, 1, 1), entry(0x142, 4, 1, 16), entry(0x143, 4, 1, 16),
            entry(0x144, 4, tiles, 8), entry(0x145, 4, tiles, 8 + 4 * tiles)]
    return tiff([page], lists)


def webp_frames(size):
    still = io.BytesIO()
    Image.new("RGB", (1, 1)).save(still, "WEBP", lossless=True)
    image = still.getvalue()[12:]  # the chunk of the picture
    frame = struct.pack("<6I", 0, 0, 0, 0, 0, 0)[:16] + image

    def riff(kind, data):
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    body = riff(b"VP8X", b"\2\0\0\0" + b"\0" * 6) + riff(b"ANIM", b"\0" * 6) + riff(b"ANMF", frame) * (size // (len(frame) + 8))
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def npy_header(size):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)," + b" " * (size - 100) + b"}\n"
    return b"\x93NUMPY\2\0" + struct.pack("<I", len(text)) + text + b"\0\0\0\0"


def manifest(size):
    line = b"1\t00000001\t1\t00000001\t0000000000000001\t0.1\ta.pgm\ta.pgm\n"
    return line * (size // len(line))
