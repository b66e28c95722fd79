# SPDX-License-Identifier: MIT
"""OpenEXR: files made here byte by byte, those of OpenCV, what gconv writes, and damaged files."""
import os
import pathlib
import struct
import sys
import unittest
import zlib

os.environ["OPENCV_IO_ENABLE_OPENEXR"] = "1"
import numpy as np  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import CommandTest, needs  # noqa: E402

try:
    import cv2
except ImportError:
    cv2 = None

CODES = {"u4": 0, "f2": 1, "f4": 2}


def attribute(name, kind, value):
    return name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value


def part(channels, corner=(0, 0), shown=None, tile=None, name=None, kind=None, sampling=None, more=b""):
    """The header of a part, and its chunks: (head, data) of each, uncompressed."""
    height, width = next(iter(channels.values())).shape
    x, y = corner
    text = "".encode()
    for key in sorted(channels):
        steps = (sampling or {}).get(key, 1)
        text += key.encode() + b"\0" + struct.pack("<iB3xii", CODES[channels[key].dtype.str[1:]], 0, steps, steps)
    window = struct.pack("<4i", x, y, x + width - 1, y + height - 1)
    header = attribute("channels", "chlist", text + b"\0") + attribute("compression", "compression", b"\0")
    header += attribute("dataWindow", "box2i", window) + attribute("displayWindow", "box2i", struct.pack("<4i", *shown) if shown else window)
    header += attribute("lineOrder", "lineOrder", b"\0") + attribute("pixelAspectRatio", "float", struct.pack("<f", 1))
    header += attribute("screenWindowCenter", "v2f", bytes(8)) + attribute("screenWindowWidth", "float", struct.pack("<f", 1)) + more
    if tile:
        header += attribute("tiles", "tiledesc", struct.pack("<IIB", *tile, 0))
    places = [(i, j) for j in range(-(-height // tile[1])) for i in range(-(-width // tile[0]))] if tile else [(0, j) for j in range(height)]
    chunks = []
    for i, j in places:
        across, down = tile or (width, 1)
        rows = [channels[key][r, i * across:(i + 1) * across].tobytes() for r in range(j * down, min(height, (j + 1) * down)) for key in sorted(channels)]
        data = b"".join(rows)
        chunks.append((struct.pack("<4i", i, j, 0, 0) if tile else struct.pack("<i", y + j)) + struct.pack("<i", len(data)) + data)
    if name or kind:
        kind = kind or ("tiledimage" if tile else "scanlineimage")
        header += attribute("type", "string", kind.encode()) + attribute("chunkCount", "int", struct.pack("<i", len(chunks)))
        header += attribute("name", "string", (name or "it").encode())
    return header + b"\0", chunks, bool(tile)


def exr(*parts):
    several = len(parts) > 1
    version = 2 | (0x1000 if several else 0x200 if parts[0][2] else 0)
    head = struct.pack("<II", 20000630, version) + b"".join(header for header, _, _ in parts) + (b"\0" if several else b"")
    at = len(head) + 8 * sum(len(chunks) for _, chunks, _ in parts)
    table, body = b"", b""
    for number, (_, chunks, _) in enumerate(parts):
        for chunk in chunks:
            table += struct.pack("<Q", at + len(body))
            body += (struct.pack("<i", number) if several else b"") + chunk
    return head + table + body


def written(path):
    """The channels and attributes of a file of ZIP's chunks, read here."""
    data = path.read_bytes()
    at, found = 8, {}
    while data[at]:
        name, kind, rest = data[at:].split(b"\0", 2)
        at += len(name) + len(kind) + 2
        size, = struct.unpack_from("<i", data, at)
        found[name.decode()] = data[at + 4:at + 4 + size]
        at += 4 + size
    _, _, right, low = struct.unpack("<4i", found["dataWindow"])
    width, height, channels, text = right + 1, low + 1, {}, found["channels"]
    while text[0]:
        name, text = text.split(b"\0", 1)
        channels[name.decode()] = np.zeros((height, width), "f2" if text[0] == 1 else "f4")
        text = text[16:]
    for offset in struct.unpack_from(f"<{-(-height // 16)}Q", data, at + 1):
        y, size = struct.unpack_from("<ii", data, offset)
        raw = data[offset + 8:offset + 8 + size]
        rows = min(16, height - y)
        whole = rows * width * sum(array.itemsize for array in channels.values())
        if size < whole:
            steps = np.frombuffer(zlib.decompress(raw), np.uint8).astype(np.int64)
            steps[1:] -= 128
            half = np.cumsum(steps).astype(np.uint8)
            raw = np.stack([np.pad(half[:(whole + 1) // 2], (0, 0)), np.pad(half[(whole + 1) // 2:], (0, whole % 2))], -1).tobytes()[:whole]
        for row in range(y, y + rows):
            for array in channels.values():
                array[row] = np.frombuffer(raw[:width * array.itemsize], array.dtype)
                raw = raw[width * array.itemsize:]
    return channels, found


@needs("OpenEXR")
class Exr(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(5)

    def plane(self, height, width, code="f4"):
        if code == "u4":
            return self.random.integers(0, 2 ** 32, (height, width)).astype("u4")
        return self.random.normal(0, 2, (height, width)).astype(code)

    def read(self, name, content=None, *words):
        if content is not None:
            (self.folder / name).write_bytes(content)
        done = self.gconv("-i", name, "-f", "identity", *words, "-o", "out.npy")
        return np.load(self.folder / "out.npy"), done.stderr

    def test_samples(self):
        for size in ((1, 1), (37, 53), (130, 40)):
            for code in CODES:
                for tile in (None, (16, 32)):
                    a, b, c, z = (self.plane(*size, code) for _ in range(4))
                    made, said = self.read("a.exr", exr(part({"R": a, "G": b, "B": c}, corner=(-7, 90), tile=tile)))
                    np.testing.assert_array_equal(made, np.stack([a, b, c], -1).astype("f4"))
                    self.assertEqual("whole numbers" in said, code == "u4")
                    np.testing.assert_array_equal(self.read("a.exr", exr(part({"Z": z}, tile=tile)))[0], z.astype("f4"))
        alpha = self.random.random((37, 53)).astype("f2")
        a, b, c = (self.plane(37, 53, "f2") for _ in range(3))
        alpha[3:9] = 0
        made, said = self.read("a.exr", exr(part({"R": a, "G": b, "B": c, "A": alpha})), "--alpha", "keep")
        with np.errstate(all="ignore"):
            want = np.stack([np.where(alpha > 0, plane.astype("f4") / alpha.astype("f4"), 0) for plane in (a, b, c)] + [alpha], -1).astype("f4")
        np.testing.assert_array_equal(made, want)
        self.assertIn("which glow, are left out", said)

    def test_layers_parts_and_attributes(self):
        planes = {key: self.plane(20, 30) for key in ("R", "G", "B", "Z", "d.R", "d.G", "d.B")}
        colours, layer = (np.stack([planes[prefix + key] for key in "RGB"], -1) for prefix in ("", "d."))
        more = attribute("comments", "string", b"hallo") + attribute("owner", "string", b"me") + attribute("xDensity", "float", struct.pack("<f", 254))
        made, said = self.read("l.exr", exr(part(planes, more=more, shown=(0, 0, 9, 9))))
        np.testing.assert_array_equal(made, colours)
        for text in ("4 further channels are left out: Z, d.B, d.G, d.R", "left out: owner", "it is to be shown from (0, 0) to (9, 9)"):
            self.assertIn(text, said)
        np.testing.assert_array_equal(self.read("l.exr:d")[0], layer)
        np.testing.assert_array_equal(self.read("l.exr:Z")[0], planes["Z"])
        self.assertIn("its only part are B, G, R, Z", self.gconv("info", "l.exr:nix", status=(1, 2)).stderr)
        self.gconv("-i", "l.exr", "-f", "identity", "-o", "m.exr")
        found = written(self.folder / "m.exr")[1]
        self.assertEqual((found["comments"], found["xDensity"]), (b"hallo", struct.pack("<f", 254)))
        np.testing.assert_array_equal(self.read("o.exr", exr(part({key: planes[key] for key in planes if key[:2] == "d."})))[0], layer)
        two = {**{"e" + key[1:]: planes[key] for key in planes if key[:2] == "d."}, **{key: planes[key] for key in planes if key[:2] == "d."}}
        (self.folder / "w.exr").write_bytes(exr(part(two)))
        self.assertIn("name a channel, or a layer, of d.B", self.gconv("info", "w.exr", status=1).stderr)
        parts = [part({key: planes[prefix + key] for key in "RGB"}, name=name) for prefix, name in (("", "left"), ("d.", "right"))]
        made, said = self.read("p.exr", exr(*parts))
        self.assertIn("the first of its 2 parts", said)
        np.testing.assert_array_equal(made, colours)
        for member in ("2", "right"):
            np.testing.assert_array_equal(self.read(f"p.exr:{member}")[0], layer)

    def test_refused(self):
        a = self.plane(8, 8)
        for content, text in ((exr(part({"Y": a, "RY": a, "BY": a})), "of Y without RY and BY"),
                              (exr(part({"R": a, "G": a, "B": a}, sampling={"G": 2})), "fewer samples"),
                              (exr(part({"R": a, "G": a, "B": a}, name="l"), part({"R": a, "G": a}, name="r")), "")):
            (self.folder / "a.exr").write_bytes(content)
            name = "a.exr" if text else "a.exr:r"
            self.assertIn(text or "name a channel", self.gconv("-i", name, "-f", "identity", "-o", "o.npy", status=1).stderr)
        known = attribute("compression", "compression", b"\0")
        (self.folder / "b.exr").write_bytes(exr(part({"Y": a})).replace(known, known[:-1] + b"\x63"))
        self.assertIn("(number 99)", self.gconv("info", "b.exr", status=1).stderr)

    def test_written(self):
        for height, width in ((1, 1), (37, 53), (130, 40)):
            for channels, names in ((1, "Y"), (3, "RGB"), (4, "RGBA"), (2, "YA")):
                array = np.cumsum(self.random.normal(0, 1, (height, width, channels)), 0).astype("f4")
                array[-1, -1, 0] = 1e5
                array[..., -1] = self.random.random((height, width)) if channels % 2 == 0 else array[..., -1]
                np.save(self.folder / "a.npy", array[..., 0] if channels == 1 else array)
                source = "a.npy"
                if channels % 2 == 0:
                    array[..., -1] = np.round(array[..., -1] * 7) / 7
                    stored = {key: array[..., c] * (array[..., -1] if key != "A" else 1) for c, key in enumerate(names)}
                    (self.folder / "s.exr").write_bytes(exr(part({key: plane.astype("f4") for key, plane in stored.items()})))
                    source = "s.exr"
                for depth in ("float", "float16"):
                    words = ["-i", source, "-f", "identity", "--depth", depth, "--alpha", "keep"]
                    said = self.gconv(*words, "-o", "b.exr").stderr
                    piped = self.gconv(*words, "-o", "-", "--format", "exr", text=False).stdout
                    self.assertEqual((self.folder / "b.exr").read_bytes(), piped)
                    self.assertEqual("beyond 65504" in said, depth == "float16" and (channels % 2 == 1 or array[-1, -1, -1] > 0.66))
                    made, _ = written(self.folder / "b.exr")
                    self.assertEqual(sorted(made), sorted(names))
                    for c, key in enumerate(names):
                        want = array[..., c] * (array[..., -1] if channels % 2 == 0 and key != "A" else 1)
                        with np.errstate(over="ignore"):
                            np.testing.assert_allclose(made[key].astype("f8"), want.astype(made[key].dtype).astype("f8"), rtol=2e-3 if depth == "float16" else 3e-7)
        self.assertIn("int16", self.gconv("-i", "a.npy", "-f", "identity", "--depth", "int16", "-o", "c.exr", status=(1, 2)).stderr)
        self.assertFalse((self.folder / "c.exr").exists())

    @unittest.skipIf(cv2 is None or "OpenEXR:                     NO" in cv2.getBuildInformation(), "OpenCV without OpenEXR")
    def test_opencv(self):
        photo = self.random.normal(0, 1, (70, 50, 3)).astype("f4")
        for kind in (cv2.IMWRITE_EXR_TYPE_HALF, cv2.IMWRITE_EXR_TYPE_FLOAT):
            if not cv2.imwrite(str(self.folder / "c.exr"), photo, [cv2.IMWRITE_EXR_TYPE, kind]):
                self.skipTest("OpenCV writes no OpenEXR")
            np.testing.assert_array_equal(self.read("c.exr")[0][..., ::-1], cv2.imread(str(self.folder / "c.exr"), cv2.IMREAD_UNCHANGED))
        np.save(self.folder / "p.npy", photo)
        self.gconv("-i", "p.npy", "-f", "identity", "-o", "d.exr")
        np.testing.assert_array_equal(cv2.imread(str(self.folder / "d.exr"), cv2.IMREAD_UNCHANGED)[..., ::-1], photo)

    def test_damaged(self):
        """Files that are cut, or ask for more than they have: an error, quickly, and no result."""
        good = exr(part({key: self.plane(40, 30) for key in "RGB"}))
        at = good.index(b"dataWindow") + 21
        for corners in ((0, 0, 2 ** 31 - 1, 2 ** 31 - 1), (-2 ** 31, 0, 2 ** 31 - 1, 5), (0, 0, 99999, 99999), (0, 0, 29, 10 ** 8), (9, 9, 0, 0)):
            (self.folder / "h.exr").write_bytes(good[:at] + struct.pack("<4i", *corners) + good[at + 16:])
            self.gconv("-i", "h.exr", "-f", "identity", "-o", "o.npy", status=1)
        for keep in (5, 8, 20, 100, 300, 400, len(good) // 3, len(good) - 1):
            (self.folder / "c.exr").write_bytes(good[:keep])
            self.gconv("-i", "c.exr", "-f", "identity", "-o", "o.npy", status=1)
        header, chunks, tiled = part({key: self.plane(40, 30) for key in "RGB"})  # a chunk with fewer bytes than its rows have
        chunks[3] = chunks[3][:4] + struct.pack("<i", 20) + chunks[3][8:28]
        (self.folder / "s.exr").write_bytes(exr((header, chunks, tiled)))
        self.gconv("-i", "s.exr", "-f", "identity", "-o", "o.npy", status=1)
        for seed in range(30):
            bad = bytearray(good)
            for _ in range(6):
                bad[np.random.default_rng(seed).integers(8, 700)] = self.random.integers(0, 256)
            (self.folder / "r.exr").write_bytes(bad)
            self.gconv("-i", "r.exr", "-f", "identity", "-o", "r.npy", status=(0, 1))
        self.assertFalse((self.folder / "o.npy").exists())


if __name__ == "__main__":
    unittest.main()
