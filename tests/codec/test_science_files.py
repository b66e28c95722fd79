# SPDX-License-Identifier: MIT
"""FITS, NIfTI, BMP and Radiance: files made here byte by byte, those of Pillow, OpenCV, astropy and nibabel where they are installed,
and damaged ones."""
import gzip
import pathlib
import struct
import sys
import unittest

import numpy as np
from PIL import Image

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import CommandTest  # noqa: E402

try:
    import cv2
except ImportError:
    cv2 = None
try:
    from astropy.io import fits
except ImportError:
    fits = None
try:
    import nibabel
except ImportError:
    nibabel = None

BITS = {"u1": 8, "i2": 16, "i4": 32, "i8": 64, "f4": -32, "f8": -64}
NIFTI = {"u1": 2, "i2": 4, "i4": 8, "f4": 16, "f8": 64, "i1": 256, "u2": 512, "u4": 768, "i8": 1024, "u8": 1280}


def unit(array, extension=None, **cards):
    """A unit of a FITS file; None: a header alone."""
    first = ("XTENSION", f"'{extension:8}'") if extension else ("SIMPLE", "T")
    code = f"{array.dtype.kind}{array.dtype.itemsize}" if array is not None else "u1"
    rows = [first, ("BITPIX", BITS[code]), ("NAXIS", array.ndim if array is not None else 0)]
    if array is not None:
        rows += [(f"NAXIS{i + 1}", size) for i, size in enumerate(reversed(array.shape))]
    rows += [("PCOUNT", 0), ("GCOUNT", 1)] if extension else []
    text = "".join(f"{key:8}= {value!s:>20} / a comment".ljust(80) for key, value in [*rows, *cards.items()]) + "END".ljust(80)
    data = array.astype(array.dtype.newbyteorder(">")).tobytes() if array is not None else b""
    return text.ljust(-(-len(text) // 2880) * 2880).encode() + data + bytes(-len(data) % 2880)


def nifti(array, order="<", slope=0.0, inter=0.0, second=False, code=None):
    shape = array.shape[::-1]
    code = code or NIFTI[f"{array.dtype.kind}{array.dtype.itemsize}"]
    dims = [len(shape), *shape] + [1] * (7 - len(shape))
    if second:
        head = struct.pack(order + "i8s2h8q", 540, b"n+2\0\r\n\x1a\n", code, 8 * array.itemsize, *dims).ljust(168, b"\0")
        head += struct.pack(order + "q2d", 544, slope, inter)
        head = head.ljust(544, b"\0")
    else:
        head = struct.pack(order + "i", 348).ljust(40, b"\0") + struct.pack(order + "8h", *dims)
        head = head.ljust(70, b"\0") + struct.pack(order + "2h", code, 8 * array.itemsize)
        head = head.ljust(108, b"\0") + struct.pack(order + "3f", 352, slope, inter)
        head = head.ljust(344, b"\0") + b"n+1\0" + bytes(4)
    return head + array.astype(array.dtype.newbyteorder(order)).tobytes()


def bmp(width, height, bits, rows, palette=(), masks=None, header=40):
    head = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, 3 if masks else 0, 0, 2835, 2835, len(palette), 0)
    extra = struct.pack("<4I", *masks) if masks and header >= 56 else struct.pack("<3I", *masks[:3]) if masks else b""
    head = (head + extra).ljust(header if header > 40 else len(head + extra), b"\0") + b"".join(bytes(c[::-1]) + b"\0" for c in palette)
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 14 + len(head)) + head + b"".join(row + bytes(-len(row) % 4) for row in rows)


class Files(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(4)

    def read(self, name, content=None, *words):
        if content is not None:
            (self.folder / name).write_bytes(content)
        done = self.gconv("-i", name, "-f", "identity", *words, "-o", "out.npy")
        return np.load(self.folder / "out.npy"), done.stderr

    def numbers(self, code, shape):
        if code[0] == "f":
            return self.random.normal(0, 1e3, shape).astype(code)
        info = np.iinfo(code)
        return self.random.integers(max(info.min, -2 ** 40), min(info.max, 2 ** 40), shape).astype(code)

    def test_fits(self):
        for code in BITS:
            for shape in ((9, 13), (3, 9, 13), (2, 1, 4, 5), (7,)):
                array = self.numbers(code, shape)
                made, _ = self.read("a.fits", unit(array))
                want = array if code == "u1" else array.astype(np.float32)
                np.testing.assert_array_equal(made.ravel(), want.ravel(), err_msg=f"{code} {shape}")
        cube = np.arange(2 * 1200 * 2000, dtype=np.int32).reshape(2, 1200, 2000)
        np.testing.assert_array_equal(self.read("c.fits", unit(cube))[0], cube.astype(np.float32))
        levels = self.random.integers(0, 65536, (6, 8)).astype(np.uint16)
        shifted = (levels.astype(np.int32) - 32768).astype(np.int16)
        made, _ = self.read("a.fits", unit(shifted, BZERO="32768", BSCALE="1.0"))
        self.assertEqual(made.dtype, np.uint16)
        np.testing.assert_array_equal(made, levels)
        large = self.random.integers(0, 2 ** 64, (6, 8), dtype=np.uint64)
        large[0, :4] = 0, 5, 1000, 2 ** 64 - 1
        made, _ = self.read("a.fits", unit((large ^ np.uint64(2 ** 63)).view(np.int64), BZERO="9223372036854775808", BSCALE="1"))
        np.testing.assert_array_equal(made, large.astype(np.float32))
        array = self.numbers("i2", (6, 8))
        array[2, 3] = -999
        made, _ = self.read("a.fits", unit(array, BSCALE="2.5D-1", BZERO="10", BLANK="-999"))
        want = (array * 0.25 + 10).astype(np.float32)
        want[2, 3] = np.nan
        np.testing.assert_array_equal(made, want)

    def test_units_of_fits(self):
        first, second = (self.numbers("f4", (5, 6)) for _ in range(2))
        file = unit(None, EXTEND="T") + unit(first, "IMAGE", CTYPE1="'RA---TAN'") + unit(second, "IMAGE", EXTNAME="'ERR   '")
        made, said = self.read("a.fits", file)
        np.testing.assert_array_equal(made, first)
        self.assertIn("only its first image is read", said)
        self.assertIn("the header of FITS (places in the sky, unit, exposure) is left out: npy", said)
        for name in "2", "ERR", "err":
            np.testing.assert_array_equal(self.read(f"a.fits:{name}")[0], second)
        self.assertIn("EXTNAME SCI", self.gconv("info", "a.fits:SCI", status=2).stderr)
        chips = [unit(plane, "IMAGE", EXTNAME="'SCI     '", EXTVER=str(1 + i)) for i, plane in enumerate((first, second))]
        self.file("hst.fits", unit(None, EXTEND="T") + b"".join(chips))
        made, said = self.read("hst.fits:SCI")
        np.testing.assert_array_equal(made, first)
        self.assertIn("is EXTVER 1: FILE:SCI,2", said)
        made, said = self.read("hst.fits:sci,2")
        np.testing.assert_array_equal(made, second)
        self.assertNotIn("EXTVER", said)
        self.assertIn("EXTNAME SCI,3", self.gconv("info", "hst.fits:SCI,3", status=2).stderr)
        self.assertIn("the header of FITS", self.read("u.fits", unit(first, BUNIT="'Jy'"))[1])
        self.assertEqual(self.read("v.fits", unit(first, BSCALE="2", EXTEND="T"))[1], "")
        table = unit(self.numbers("u1", (5, 6)), "BINTABLE", ZIMAGE="T")
        self.assertIn("funpack", self.gconv("info", self.file("z.fits", unit(None) + table), status=1).stderr)
        self.assertIn("only tables", self.gconv("info", self.file("e.fits", unit(None)), status=1).stderr)
        self.gconv("-i", "a.fits:3", "-f", "identity", "-o", "o.npy", status=(1, 2))

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return name

    def test_fits_is_written(self):
        for dtype in (np.uint8, np.uint16, np.float32):
            for shape in ((5, 7), (4, 5, 7), (5, 7, 3)):
                array = self.random.integers(0, 256, shape).astype(dtype) * (257 if dtype == np.uint16 else 1)
                array = array.astype(dtype)
                np.save(self.folder / "a.npy", array)
                self.gconv("-i", "a.npy", "-f", "identity", "-o", "b.fits")
                want = array.transpose(2, 0, 1) if shape[-1] == 3 else array
                made, _ = self.read("b.fits")
                np.testing.assert_array_equal(made, want, err_msg=f"{dtype} {shape}")
                self.assertEqual((self.folder / "b.fits").stat().st_size % 2880, 0)
                if fits:
                    np.testing.assert_array_equal(fits.getdata(self.folder / "b.fits"), want)

    def cards(self, name):
        text = (self.folder / name).read_bytes()[:28800].decode("latin1")
        cards = [text[at:at + 80] for at in range(0, len(text), 80)]
        return [card.split("/")[0].rstrip() for card in cards[:cards.index("END".ljust(80))]]

    def test_the_header_of_fits_is_kept(self):
        first = unit(None, EXTEND="T", TELESCOP="'HST'", OBJECT="'M31'")
        first = first.replace(b"END".ljust(80) + b" " * 80, b"x" * 80 + b"END".ljust(80))  # a card without an end of its key
        image = unit(self.numbers("f4", (6, 8)), "IMAGE", OBJECT="'M32'", CTYPE1="'RA---TAN'", CRPIX1="4", DATAMAX="7",
                     CHECKSUM="'x'", BUNIT="'adu'")
        (self.folder / "a.fits").write_bytes(first + image)
        said = self.gconv("-i", "a.fits", "-f", "identity", "-o", "b.fits").stderr
        self.assertIn("DATAMIN and DATAMAX are left out", said)
        kept = [card[:8].rstrip() for card in self.cards("b.fits")]
        self.assertEqual(kept, ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "TELESCOP", "xxxxxxxx", "OBJECT", "CTYPE1", "CRPIX1", "BUNIT"])
        self.assertIn("M32", "".join(self.cards("b.fits")))
        said = self.gconv("-i", "a.fits", "-f", "identity", "--stride", "2", "-o", "c.fits").stderr
        self.assertIn("places in the sky (WCS) are left out", said)
        self.assertFalse([card for card in self.cards("c.fits") if card.startswith(("CTYPE", "CRPIX"))])
        (self.folder / "cube.fits").write_bytes(unit(self.numbers("f4", (3, 6, 8)), OBJECT="'M33'", CTYPE3="'FREQ'"))
        self.gconv("volume", "cube.fits", "-f", "gaussian:sigma=1", "-o", "d.fits")
        self.assertIn("CTYPE3", "".join(self.cards("d.fits")))
        if fits:
            fits.open(self.folder / "b.fits").verify("exception")

    def test_numbers_that_float32_does_not_tell_apart(self):
        close, far = 1e6 + self.random.random((4, 5)), 1e6 * self.random.random((4, 5))
        huge, tiny = np.array([[1e300, 1]]), np.array([[1e-50, 9e-50]])
        wide, whole = np.array([[2 ** 24 + 1, 3]], "i4"), np.array([[2 ** 25 + 4, 3]], "i4")
        for numbers, told in (close, "has only about 1"), (far, ""), (wide, "beyond 2^24"), (whole, ""), (huge, "too large"), (tiny, "too small"):
            np.save(self.folder / "a.npy", numbers)
            np.savez(self.folder / "a.npz", a=numbers)
            for name, content in ("a.npy", None), ("a.npz", None), ("a.fits", unit(numbers)), ("a.nii", nifti(numbers)):
                said = self.read(name, content)[1]
                self.assertEqual("to which they were rounded" in said or "with rounding" in said, told != "", (name, said))
                self.assertIn(told, said)

    def test_nifti(self):
        for code in NIFTI:
            array = self.numbers(code, (3, 5, 6))
            for order in "<>":
                for second in (False, True):
                    made, said = self.read("a.nii", nifti(array, order, second=second))
                    want = array if code in ("u1", "u2") else array.astype(np.float32)
                    np.testing.assert_array_equal(made, want, err_msg=f"{code} {order} {second}")
        self.assertIn("spacing", said)
        made, _ = self.read("a.nii", nifti(array, slope=0.5, inter=-3.0))
        np.testing.assert_array_equal(made, (array.astype(np.float64) * 0.5 - 3).astype(np.float32))
        colours = self.random.integers(0, 256, (5, 12)).astype(np.uint8)
        head = bytearray(nifti(colours, code=128))
        struct.pack_into("<3h", head, 40, 2, 4, 5)
        np.testing.assert_array_equal(self.read("c.nii", bytes(head))[0], colours.reshape(5, 4, 3))
        if nibabel:
            nibabel.Nifti1Image(array.T.astype(np.float32), np.eye(4)).to_filename(self.folder / "n.nii")
            np.testing.assert_array_equal(self.read("n.nii")[0], array.astype(np.float32))

    def test_compressed_by_gzip(self):
        array = self.numbers("f4", (3, 5, 6))
        packed = gzip.compress(nifti(array))
        np.testing.assert_array_equal(self.read("a.nii.gz", packed)[0], array)
        units = unit(None) + unit(array[0], "IMAGE") + unit(array[1], "IMAGE")
        np.testing.assert_array_equal(self.read(self.file("b.fits.gz", gzip.compress(units)) + ":2")[0], array[1])
        self.gconv("-i", ".", "-f", "identity", "-o", "out/")
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["a_000001.png", "a_000002.png", "a_000003.png", "b.png", "out.png"])
        for keep in (4, 30, len(packed) - 9):
            self.gconv("-i", self.file("c.nii.gz", packed[:keep]), "-f", "identity", "-o", "o.npy", status=1)
        self.assertFalse((self.folder / "o.npy").exists())

    def test_raw(self):
        levels = self.random.integers(0, 65536, (3, 20, 30)).astype("<u2")
        content = levels.tobytes()
        np.testing.assert_array_equal(self.read(self.file("a.raw", content) + ":30x20:u16le")[0], levels)
        np.testing.assert_array_equal(self.read("a.raw", None, "--raw", "30x20:u16le")[0], levels)
        np.testing.assert_array_equal(self.read("a.raw:30x20x3:u16be")[0], levels.byteswap().reshape(20, 30, 3))
        np.testing.assert_array_equal(self.read("b.raw", b"x" * 99 + content, "--raw", "30x20:u16le+99")[0], levels)
        for code in ("i1", "<i2", ">u4", "<i4", "<f2", ">f4", "<f8"):
            array = self.numbers(code[-2:], (20, 30)).astype(code)
            name = {"i1": "i8"}.get(code, f"{code[1]}{8 * int(code[2:] or 1)}{'le' if code[0] == '<' else 'be'}")
            made, _ = self.read("c.raw", array.tobytes(), "--raw", f"30x20:{name}")
            np.testing.assert_array_equal(made, array.astype(np.float32), err_msg=code)
        self.gconv("-i", "-", "--raw", "30x20:u16le", "-f", "identity", "-o", "p.npy", stdin=content)
        np.testing.assert_array_equal(np.load(self.folder / "p.npy"), levels)
        self.gconv("a.raw", "--raw", "30x20:u16le+1200", "-f", "identity", "-o", "out/")
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["a_000001.png", "a_000002.png"])
        for spec, text in (("31x20:u16le", "whole frames"), ("30x20:u17", "types are u8"), ("99999x99999x4:f64le", "whole frames"), ("0x20:u8", "types are u8"), ("30x20:u8+x", "types are u8")):
            self.assertIn(text, self.gconv("-i", "a.raw", "--raw", spec, "-f", "identity", "-o", "o.npy", status=(1, 2)).stderr)
        (self.folder / "raws").mkdir()
        for name in ("raws", "*.raw"):
            self.usage_error("name files", "-i", name, "--raw", "30x20:u16le", "-f", "identity", "-o", "out/")
        self.assertIn("is for signals", self.gconv("-i", "a.raw", "--raw", "f32le", "-f", "identity", "-o", "o.npy", status=2).stderr)

    def test_bmp(self):
        photo = self.random.integers(0, 256, (7, 9, 3)).astype(np.uint8)
        for mode, array in (("RGB", photo), ("L", photo[..., 0]), ("P", photo), ("1", photo[..., 0] > 99)):
            picture = Image.fromarray(array).convert("P") if mode == "P" else Image.fromarray(array)
            picture.save(self.folder / "p.bmp")
            made, _ = self.read("p.bmp")
            want = np.asarray(picture.convert("RGB" if mode == "P" else "L" if mode == "1" else mode))
            np.testing.assert_array_equal(made, want, err_msg=mode)
        rows = [bytes(row[:, ::-1].tobytes()) for row in photo]
        np.testing.assert_array_equal(self.read("t.bmp", bmp(9, -7, 24, rows))[0], photo)
        file = bytearray(bmp(9, -7, 24, rows, header=124))
        self.assertNotIn("profile", self.read("c.bmp", bytes(file))[1])
        file[14 + 56:14 + 60] = b"DEBM"  # an embedded profile
        self.assertIn("colour profile", self.read("c.bmp", bytes(file))[1])
        alpha = self.random.integers(0, 256, (7, 9, 4)).astype(np.uint8)
        rows = [row[:, [2, 1, 0, 3]].tobytes() for row in alpha]
        made, _ = self.read("a.bmp", bmp(9, -7, 32, rows, masks=(0xff0000, 0xff00, 0xff, 0xff000000), header=108), "--alpha", "keep")
        np.testing.assert_array_equal(made, alpha)
        np.testing.assert_array_equal(self.read("x.bmp", bmp(9, -7, 32, rows))[0], alpha[..., :3])
        words = self.random.integers(0, 65536, (7, 9)).astype("<u2")
        made, _ = self.read("w.bmp", bmp(9, -7, 16, [row.tobytes() for row in words], masks=(0xf800, 0x7e0, 0x1f, 0)))
        want = np.stack([np.rint(((words >> shift) & (2 ** bits - 1)) * 255.0 / (2 ** bits - 1)) for shift, bits in ((11, 5), (5, 6), (0, 5))], -1)
        np.testing.assert_array_equal(made, want)
        self.assertIn("run lengths", self.gconv("info", self.file("r.bmp", bmp(9, 7, 8, [])[:30] + b"\1" + bmp(9, 7, 8, [])[31:] + bytes(2000)), status=1).stderr)

    @unittest.skipIf(cv2 is None, "OpenCV is not installed")
    def test_radiance_against_opencv(self):
        for width in (5, 40, 300):
            image = (self.random.random((11, width, 3)) ** 4 * 50).astype(np.float32)
            image[2:5] = image[2, 0]
            cv2.imwrite(str(self.folder / "a.hdr"), image)
            made, _ = self.read("a.hdr")
            np.testing.assert_allclose(made[..., ::-1], cv2.imread(str(self.folder / "a.hdr"), cv2.IMREAD_UNCHANGED), rtol=1e-6)
        flat = self.random.integers(1, 140, (4, 6, 4)).astype(np.uint8)
        text = b"#?RADIANCE\nEXPOSURE=2\nFORMAT=32-bit_rle_rgbe\n\n"
        made, said = self.read("f.hdr", text + b"+Y 4 -X 6\n" + flat.tobytes())
        want = flat[..., :3] * np.exp2(flat[..., 3:].astype(np.float64) - 136)
        np.testing.assert_array_equal(made, want[::-1, ::-1].astype(np.float32))
        self.assertIn("EXPOSURE=2 is not applied", said)
        self.gconv("info", self.file("x.hdr", text.replace(b"rgbe", b"xyze") + b"-Y 4 +X 6\n" + bytes(96)), status=1)

    def test_damaged_files_are_refused(self):
        """Each is cut at several places, and asks for more than it has: an error, quickly, and no result."""
        whole = {"a.fits": unit(self.numbers("i2", (40, 50))), "a.nii": nifti(self.numbers("i2", (4, 20, 30))),
                 "a.bmp": bmp(20, 10, 24, [bytes(60)] * 10), "a.hdr": b"#?RGBE\n\n-Y 10 +X 20\n" + b"\2\2\0\x14" + bytes(100)}
        huge = {"h.fits": unit(self.numbers("i2", (40, 50))).replace(b"                  40 /", b"          2000000000 /"),
                "h.nii": nifti(self.numbers("i2", (4, 20, 30)))[:42] + struct.pack("<3h", 32000, 32000, 32000) + bytes(900),
                "h.bmp": bmp(1000000, 1000000, 24, []), "h.hdr": b"#?RGBE\n\n-Y 999999999 +X 999999999\n" + bytes(100)}
        for name, content in whole.items():
            for keep in (5, 20, 60, len(content) // 3, len(content) - 2000 if name == "a.fits" else len(content) - 1):
                self.gconv("-i", self.file(name, content[:keep]), "-f", "identity", "-o", "o.npy", status=1)
        for name, content in huge.items():
            self.gconv("-i", self.file(name, content), "-f", "identity", "-o", "o.npy", status=1)
        self.assertFalse((self.folder / "o.npy").exists())


if __name__ == "__main__":
    unittest.main()
