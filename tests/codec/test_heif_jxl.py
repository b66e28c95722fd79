# SPDX-License-Identifier: MIT
"""HEIC, AVIF and JPEG XL: files of imagecodecs, pillow-heif and pillow-jxl-plugin in tests/fuzz/corpus, whose pixels follow from
formulas, and damaged files."""
import gzip
import pathlib
import struct
import subprocess
import sys
import unittest

import numpy as np
from PIL import Image, ImageCms

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import CommandTest, needs  # noqa: E402

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus"
HEIF_ERRORS = "its decoders may be packages of their own"


def pattern(channels, white):
    y, x, k = np.mgrid[0:13, 0:17, 0:channels]
    levels = (x * 700 + y * 130 + k * 31 + x * y * 11) % (white + 1)
    return levels[..., 0] if channels == 1 else levels


def as_16_bits(levels, white):
    return ((levels * 65535 * 2 + white) // (2 * white)).astype(np.uint16)


class Samples(CommandTest):
    def sample(self, name):
        (self.folder / "a").write_bytes((CORPUS / name).read_bytes())
        return "a"

    def read(self, name, *words):
        done = self.gconv("-i", name, "-f", "identity", "--alpha", "keep", *words, "-o", "out.npy")
        return np.load(self.folder / "out.npy"), done.stderr

    def refuse_damaged(self, kind):
        """Files that are cut, or have other bytes here and there: an error, or pixels, and no crash."""
        for path in sorted((CORPUS / kind).iterdir()):
            good = path.read_bytes()
            for keep in (12, 40, len(good) // 2, len(good) - 3):
                (self.folder / "c").write_bytes(good[:keep])
                self.gconv("-i", "c", "-f", "identity", "-o", "o.npy", status=1)
            for seed in range(8):
                random, bad = np.random.default_rng(seed), bytearray(good)
                for at in random.integers(12, len(good), 4):
                    bad[at] = random.integers(0, 256)
                (self.folder / "c").write_bytes(bad)
                self.gconv("-i", "c", "-f", "identity", "-o", "r.npy", status=(0, 1))
        self.assertFalse((self.folder / "o.npy").exists())


@needs("libheif")
class Heif(Samples):
    def read(self, name, *words):
        done = self.gconv("-i", name, "-f", "identity", "--alpha", "keep", *words, "-o", "out.npy", status=(0, 1))
        if HEIF_ERRORS in done.stderr:
            self.skipTest("libheif has no decoder for this file")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.folder / "out.npy"), done.stderr

    def test_depths(self):
        for name, channels, white in (("rgb8", 3, 255), ("rgba8", 4, 255), ("rgb10", 3, 1023), ("rgba10", 4, 1023), ("rgb12", 3, 4095)):
            levels = pattern(channels, white)
            made, said = self.read(self.sample(f"heif/{name}"))
            np.testing.assert_array_equal(made, levels.astype(np.uint8) if white == 255 else as_16_bits(levels, white), err_msg=name)
            self.assertEqual(said, "")
            made, _ = self.read("a", "--depth", "float")
            np.testing.assert_allclose(made, (levels / white).astype(np.float32), rtol=1e-7, err_msg=name)

    def test_photos(self):
        made, said = self.read(self.sample("heif/two"))
        self.assertIn("of its 2 pictures, the main one is read", said)
        self.assertEqual(made.shape, (32, 24, 3))  # turned, as the file says
        y, x = np.mgrid[0:24, 0:32]
        want = np.rot90(np.stack([x * 8, y * 10, (x + y) * 4], -1).astype(np.uint8), -1)
        self.assertLess(np.abs(made.astype(int) - want).max(), 12)
        self.assertIn("EXIF", self.gconv("info", "a").stdout)
        self.gconv("-i", "a", "-f", "identity", "-o", "b.jpg")
        self.assertIn("EXIF", self.gconv("info", "b.jpg").stdout)
        self.assertEqual(self.read("a:2")[0].shape, (32, 24, 3))
        self.gconv("info", "a:3", status=(1, 2))

    def test_damaged(self):
        self.read(self.sample("heif/rgb8"))
        self.refuse_damaged("heif")


@needs("libjxl")
class JpegXl(Samples):
    def test_depths(self):
        for name, channels, white in (("rgb8", 3, 255), ("ga8", 2, 255), ("rgba10", 4, 1023), ("grey16", 1, 65535), ("rgb32", 3, 65535)):
            levels = pattern(channels, white)
            made, _ = self.read(self.sample(f"jxl/{name}"))
            want = levels.astype(np.float32) / 30000 if name == "rgb32" else levels.astype(np.uint8) if white == 255 else as_16_bits(levels, white)
            np.testing.assert_array_equal(made, want.astype(np.float32) if name == "rgb32" else want, err_msg=name)

    def test_frames(self):
        frames = np.stack([(pattern(3, 255) + i) % 256 for i in range(3)]).astype(np.uint8)
        made, said = self.read(self.sample("jxl/frames"))
        np.testing.assert_array_equal(made, frames.transpose(0, 3, 1, 2))
        self.assertIn("its 3 frames are read", said)
        np.testing.assert_array_equal(self.read("a:2")[0], frames[1])
        self.gconv("-i", "a", "-f", "identity", "-o", "{frame}.png")

    def test_metadata(self):
        sample = (CORPUS / "jxl/rgb8").read_bytes()
        boxes = [(b"JXL ", b"\r\n\x87\n"), (b"ftyp", b"jxl \0\0\0\0jxl "), (b"xml ", b"<x:xmpmeta xmlns:x='adobe:ns:meta/'>" + b" " * 200000 + b"</x:xmpmeta>"),
                 (b"jxlc", sample), (b"Exif", bytes(4) + b"II*\0\x08\0\0\0\x01\0\x0e\x01\x02\0\x04\0\0\0abc\0\0\0\0\0")]
        (self.folder / "b").write_bytes(b"".join(struct.pack(">I4s", 8 + len(data), kind) + data for kind, data in boxes))
        said = self.gconv("info", "b").stdout
        self.assertRegex(said, "EXIF +26 bytes")
        self.assertRegex(said, "XMP +2000")
        np.testing.assert_array_equal(self.read("b")[0], pattern(3, 255).astype(np.uint8))
        whole = b"".join(struct.pack(">I4s", 8 + len(data), kind) + data for kind, data in (*boxes[:2], *boxes[3:], boxes[2]))
        for cut, said in ((0, "XMP +2000"), (20, "the file ends within them"), (200000, "the file ends within them")):
            (self.folder / "c").write_bytes(whole[:len(whole) - cut])
            told = self.gconv("info", "c").stdout
            self.assertRegex(told, said)
            self.assertEqual("XMP" in told, cut == 0)

    def test_written_without_loss(self):
        random = np.random.default_rng(3)
        for dtype in np.uint8, np.uint16, np.float32:
            for channels in 1, 2, 3, 4:
                array = random.integers(0, 256, (33, 47, channels)).astype(dtype) if dtype != np.float32 else random.normal(0, 2, (33, 47, channels)).astype(dtype)
                array = array[..., 0] if channels == 1 else array
                np.save(self.folder / "a.npy", array)
                self.gconv("-i", "a.npy", "-f", "identity", "--alpha", "keep", "-o", "a.jxl")
                made = self.read("a.jxl")[0]
                self.assertEqual(made.dtype, dtype)
                np.testing.assert_array_equal(made, array)
        exif = Image.Exif()
        exif[271] = "Maker"
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes().replace(b"XYZ XYZ ", b"RGB XYZ ", 1)
        Image.fromarray(pattern(3, 255).astype(np.uint8)).save(self.folder / "p.png", exif=exif, icc_profile=profile)
        self.gconv("-i", "p.png", "-f", "identity", "-o", "p.jxl")
        said = self.gconv("info", "p.jxl").stdout
        self.assertIn("EXIF", said)
        np.testing.assert_array_equal(self.read("p.jxl")[0], pattern(3, 255).astype(np.uint8))
        self.assertIn("raise it to", self.gconv("-i", "p.png", "-f", "identity", "-o", "q.jxl", "--memory", "8M", status=(1, 2)).stderr)

    def test_a_bomb_of_gzip(self):
        sample = (CORPUS / "jxl/rgb8").read_bytes()
        (self.folder / "a.jxl.gz").write_bytes(gzip.compress(sample))
        np.testing.assert_array_equal(self.read("a.jxl.gz")[0], pattern(3, 255).astype(np.uint8))
        (self.folder / "b.jxl.gz").write_bytes(gzip.compress(sample + bytes(130_000_000), 6))
        self.assertIn("far more than its bytes promise", self.gconv("-i", "b.jxl.gz", "-f", "box", "-o", "o.npy", status=1).stderr)

    def test_lossy_as_djxl(self):
        made, _ = self.read(self.sample("jxl/lossy"))
        try:
            subprocess.run(["djxl", "a", "d.ppm"], cwd=self.folder, check=True, capture_output=True)
        except FileNotFoundError:
            self.skipTest("djxl is not installed")
        np.testing.assert_array_equal(made, self.read("d.ppm")[0])

    def test_damaged(self):
        self.refuse_damaged("jxl")


if __name__ == "__main__":
    unittest.main()
