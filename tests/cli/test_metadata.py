# SPDX-License-Identifier: MIT
"""EXIF, XMP, comments, orientation and resolution, as Pillow writes and reads them; and damaged JPEGs, as djpeg or OpenCV
warn of them. The filter is the identity, so that pixels tell how a picture was turned."""
import io
import re
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

import cv2
import numpy
from PIL import Image, ImageCms, ImageOps

from helper import GCONV, CommandTest, needs

MAKE, ORIENTATION, X_RESOLUTION, Y_RESOLUTION, UNIT, CAMERA, GPS = 0x10F, 0x112, 0x11A, 0x11B, 0x128, 0x8769, 0x8825
WIDTH, HEIGHT, TIME, NOTES = 0xA002, 0xA003, 0x9003, 0x927C
DESCRIPTION, ARTIST, COPYRIGHT, EXPOSURE, INTEROPERABILITY, XMP_TAG = 0x10E, 0x13B, 0x8298, 0x829A, 0xA005, 700
XMP = ('<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
       '<rdf:Description rdf:about="" xmlns:tiff="http://ns.adobe.com/tiff/1.0/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
       'tiff:Orientation="%d" xmp:Rating="4">%s</rdf:Description></rdf:RDF></x:xmpmeta>')
THUMBNAILS = "<xmp:Thumbnails><rdf:Alt>a picture</rdf:Alt></xmp:Thumbnails>"
DJPEG = shutil.which("djpeg")
EXIFTOOL = shutil.which("exiftool")


def make_exif(orientation=6, size=(60, 40)):
    exif = Image.Exif()
    exif[MAKE] = "A camera"
    exif[ORIENTATION] = orientation
    exif[CAMERA] = {TIME: "2020:01:02 03:04:05", NOTES: b"notes of the camera, which are long", WIDTH: size[0],
                    HEIGHT: size[1]}
    exif[GPS] = {1: "N"}
    return exif


def with_thumbnail(block, thumbnail):
    """EXIF with a second directory for a thumbnail; the first must say that there is none, at its end."""
    order = ">" if block[:2] == b"MM" else "<"
    first = struct.unpack(order + "I", block[4:8])[0]
    at = first + 2 + 12 * struct.unpack(order + "H", block[first:first + 2])[0]
    here = len(block)
    entries = struct.pack(order + "H HHII HHII I", 2, 0x201, 4, 1, here + 30, 0x202, 4, 1, len(thumbnail), 0)
    return block[:at] + struct.pack(order + "I", here) + block[at + 4:] + entries + thumbnail


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_profile(name, data):
    digits = data.hex().encode()
    lines = b"\n".join(digits[i:i + 72] for i in range(0, len(digits), 72))
    return b"Raw profile type " + name + b"\0", b"\n" + name + b"\n%8d\n" % len(data) + lines + b"\n"


def make_tiff(picture, tags, order="<", big=False, more=()):
    """A TIFF of RGB, with a page for each of [tags, *more], which are {number: text, bytes, a whole number, fractions [(a, b)], or such a directory}."""
    wide = "Q" if big else "I"
    size = struct.calcsize(wide)
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "HHH" if big else order + "H", *((43, 8, 0) if big else (42,)))
    out = bytearray(head + bytes(size))

    def append(data):
        out.extend(bytes(len(out) % 2))
        out.extend(data)
        return len(out) - len(data)

    def encode(value):
        if isinstance(value, dict):
            kind, letter = (18, "Q") if big else (13, "I")
            return kind, 1, struct.pack(order + letter, directory(value))
        if isinstance(value, int):
            return 4, 1, struct.pack(order + "I", value)
        if isinstance(value, str):
            return 2, len(value.encode()) + 1, value.encode() + b"\0"
        if isinstance(value, bytes):
            return 7, len(value), value
        return 5, len(value), b"".join(struct.pack(order + "II", *fraction) for fraction in value)

    def directory(entries, following=0):
        body = b""
        for tag, value in sorted(entries.items()):
            kind, count, data = encode(value)
            place = data.ljust(size, b"\0") if len(data) <= size else struct.pack(order + wide, append(data))
            body += struct.pack(order + "HH" + wide, tag, kind, count) + place
        return append(struct.pack(order + ("Q" if big else "H"), len(entries)) + body + struct.pack(order + wide, following))

    height, width, channels = picture.shape
    shape = {256: width, 257: height, 258: 8, 259: 1, 262: 2, 273: append(picture.tobytes()), 277: channels, 278: height,
             279: picture.size}
    first = 0
    for entries in reversed([tags, *more]):
        first = directory({**shape, **entries}, first)
    out[len(head):len(head) + size] = struct.pack(order + wide, first)
    return bytes(out)


class Metadata(CommandTest):
    def setUp(self):
        super().setUp()
        self.picture = numpy.random.default_rng(3).integers(0, 256, (40, 60, 3), dtype=numpy.uint8)

    def save(self, name, xmp=None, comment=None, **options):
        """Pillow writes XMP and comments in its newer versions only."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(self.picture).save(path, **options)
        if comment:
            self.add_segment(name, comment.encode(), 0xfe)
        if xmp:
            self.add_segment(name, b"http://ns.adobe.com/xap/1.0/\0" + xmp)

    def add_segment(self, name, data, marker=0xe1):
        path = self.folder / name
        jpeg = path.read_bytes()
        path.write_bytes(jpeg[:2] + bytes([0xff, marker]) + struct.pack(">H", len(data) + 2) + data + jpeg[2:])

    def convert(self, source, target, *words, warning=""):
        """Runs the identity, and returns the result, open; `warning` is all that is said."""
        said = self.gconv("-i", source, "-f", "identity", "-o", target, *words).stderr
        if warning:
            self.assertIn(warning, said)
        else:
            self.assertEqual(said, "")
        return self.open(target)

    def open(self, name):
        return Image.open(io.BytesIO((self.folder / name).read_bytes()))

    def check_exif(self, image, size):
        exif = image.getexif()
        self.assertEqual(exif.get(MAKE), "A camera")
        self.assertIn(exif.get(ORIENTATION), (1, None))
        camera = exif.get_ifd(CAMERA)
        self.assertEqual((camera[WIDTH], camera[HEIGHT]), size)
        self.assertEqual(camera[TIME], "2020:01:02 03:04:05")
        self.assertEqual(camera[NOTES], b"notes of the camera, which are long")
        self.assertEqual(exif.get_ifd(GPS)[1], "N")

    def xmp_of(self, name):
        data = (self.folder / name).read_bytes()
        return data[data.index(b"<x:xmpmeta"):data.index(b"</x:xmpmeta>") + 12].decode()

    def comment_of(self, image):
        text = {**image.info, **getattr(image, "text", {})}
        if image.format == "TIFF":
            return image.tag_v2[DESCRIPTION].encode("latin-1").decode()
        comment = text.get("comment", text.get("Comment"))
        return comment.decode() if isinstance(comment, bytes) else str(comment)

    # ---- What is kept ----

    def test_all_is_kept_from_jpeg_and_png(self):
        for order in "<>":
            exif = make_exif()
            exif.endian = order
            self.save("in.jpg", exif=exif, xmp=(XMP % (6, THUMBNAILS)).encode(), comment="wörds", quality=95)
            for first in ("first.jpg", "first.png"):
                for second in ("second.png", "second.jpg"):
                    self.check_exif(self.convert("in.jpg", first), (40, 60))
                    image = self.convert(first, second)
                    self.assertEqual(image.size, (40, 60))
                    self.check_exif(image, (40, 60))
                    self.assertEqual(self.xmp_of(second), XMP % (1, ""))
                    self.assertEqual(self.comment_of(image), "wörds")
        upright = numpy.asarray(ImageOps.exif_transpose(Image.open(self.folder / "in.jpg")))
        numpy.testing.assert_array_equal(numpy.asarray(self.convert("in.jpg", "out.png")), upright)

    @needs("libtiff", "libwebp")
    def test_tiff_and_webp(self):
        """From each format to each other; WebP has no place for comments."""
        for order in "<>":
            exif = make_exif()
            exif.endian = order
            exif[ARTIST], exif[COPYRIGHT] = "An artist", "© 2020"
            self.save("in.jpg", exif=exif, xmp=(XMP % (6, THUMBNAILS)).encode(), comment="wörds", quality=95)
            upright = numpy.asarray(ImageOps.exif_transpose(Image.open(self.folder / "in.jpg")))
            for first in ("first.tif", "first.webp", "first.png"):
                for second in ("second.tif", "second.webp", "second.jpg"):
                    lost = "comments are left out: webp cannot hold them"
                    self.check_exif(self.convert("in.jpg", first, *(["--lossless"] if first == "first.webp" else []),
                                                 warning=lost if first == "first.webp" else ""), (40, 60))
                    with self.subTest(first=first, second=second, order=order):
                        image = self.convert(first, second,
                                             warning=lost if second == "second.webp" and first != "first.webp" else "")
                        self.assertEqual(image.size, (40, 60))
                        self.check_exif(image, (40, 60))
                        self.assertEqual(image.getexif()[ARTIST], "An artist")
                        self.assertEqual(self.xmp_of(second), XMP % (1, ""))
                        if first != "first.webp" and second != "second.webp":
                            self.assertEqual(self.comment_of(image), "wörds")
                    numpy.testing.assert_array_equal(numpy.asarray(self.open(first)), upright)

    @needs("libtiff")
    def test_fractions_and_gps_in_tiff(self):
        """Values are copied, not computed: from TIFF and BigTIFF of both byte orders, and through TIFF."""
        degrees = [(52, 1), (31, 1), (1234, 77)]
        camera = {TIME: "2020:01:02 03:04:05", NOTES: b"notes of the camera, which are long", WIDTH: 60, HEIGHT: 40,
                  EXPOSURE: [(1, 8000)], INTEROPERABILITY: {1: "R98"}}
        tags = {MAKE: "A camera", DESCRIPTION: "wörds", XMP_TAG: (XMP % (6, "")).encode(), ORIENTATION: 6, CAMERA: camera,
                GPS: {1: "N", 2: degrees}}
        for order in "<>":
            for big in (False, True):
                (self.folder / "in.tif").write_bytes(make_tiff(self.picture, tags, order, big))
                for source, target in (("in.tif", "a.tif"), ("a.tif", "b.jpg"), ("b.jpg", "c.tif"), ("in.tif", "d.png")):
                    image = self.convert(source, target)
                    self.check_exif(image, (40, 60))
                    got = image.getexif()
                    self.assertEqual(str(got.get_ifd(CAMERA)[EXPOSURE].limit_rational(9999)), "(1, 8000)")
                    self.assertEqual([value.limit_rational(9999) for value in got.get_ifd(GPS)[2]], degrees)
                    self.assertEqual(got.get_ifd(INTEROPERABILITY)[1], "R98")
                    self.assertEqual(self.xmp_of(target), XMP % (1, ""))
                    self.assertEqual(self.comment_of(image), "wörds")

    @unittest.skipUnless(EXIFTOOL, "needs exiftool")
    @needs("libtiff", "libwebp")
    def test_exiftool_finds_the_same(self):
        self.save("in.jpg", exif=make_exif(), xmp=(XMP % (6, "")).encode())
        for name in ("out.jpg", "out.tif", "out.webp"):
            self.convert("in.jpg", name)
        texts = [subprocess.run([EXIFTOOL, "-s", "-G1", "-Make", "-ExifIFD:all", "-GPS:all", "-XMP:all", "-Warning", "-Error",
                                 name], cwd=self.folder, stdout=subprocess.PIPE, check=True).stdout
                 for name in ("out.jpg", "out.tif", "out.webp")]
        self.assertIn(b"A camera", texts[0])
        self.assertIn(b"GPSLatitudeRef", texts[0])
        self.assertEqual(texts[1], texts[0])
        self.assertEqual(texts[2], texts[0])

    @needs("libtiff")
    def test_description_of_exif(self):
        """EXIF's ImageDescription is the tag that comments have in TIFF."""
        exif = Image.Exif()
        exif[DESCRIPTION] = "a description"
        for comment, expected in (({}, "a description"), ({"comment": "words"}, "a description\nwords"),
                                  ({"comment": "a description"}, "a description")):
            self.save("in.jpg", exif=exif, **comment)
            self.assertEqual(self.convert("in.jpg", "out.tif").tag_v2[DESCRIPTION], expected)

    @needs("libtiff")
    def test_what_tiff_has_no_place_for(self):
        exif = make_exif(1)
        exif[0x9C9B] = "Title".encode("utf-16le")
        self.save("in.jpg", exif=exif, dpi=(300, 300))
        self.convert("in.jpg", "out.tif", warning="1 entry of its EXIF is left out: TIFF has no place for it")

    @needs("libtiff")
    def test_descriptions_of_layouts(self):
        """Those for ImageJ and OME say how many images follow, and where: they are kept where that stays true."""
        for text, kept in (("ImageJ=1.54f\nimages=5\n", False), ('<?xml version="1.0"?><OME xmlns="x"/>', True),
                           ('{"shape": [5, 40, 60, 3]}', False)):
            self.save("in.tif", description=text)
            image = self.convert("in.tif", "out.tif", warning="" if kept else "its description promises 5 images")
            self.assertEqual(image.tag_v2.get(DESCRIPTION), text if kept else None)

    @needs("libtiff")
    def test_each_text_by_itself(self):
        for tag, text in ((305, "A program"), (306, "2020:01:02 03:04:05"), (315, "An artist"), (316, "A computer"), (33432, "A right")):
            (self.folder / "in.tif").write_bytes(make_tiff(self.picture, {tag: text}))
            self.assertEqual(self.convert("in.tif", "out.tif").tag_v2[tag], text)
            self.assertIn("EXIF is left out", self.gconv("-i", "in.tif", "-f", "identity", "-o", "out.npy").stderr)

    @needs("libtiff")
    def test_first_page(self):
        pages = [{DESCRIPTION: f"page {i}", MAKE: f"Camera {i}"} for i in (1, 2, 3)]
        (self.folder / "in.tif").write_bytes(make_tiff(self.picture, pages[0], more=pages[1:]))
        image = self.convert("in.tif", "out.tif")
        self.assertEqual((image.n_frames, image.tag_v2[DESCRIPTION], image.tag_v2[MAKE]), (3, "page 1", "Camera 1"))
        for i in (1, 2):
            image.seek(i)
            self.assertNotIn(DESCRIPTION, image.tag_v2)
        image = self.convert("in.tif:2", "out.tif")
        self.assertEqual((image.n_frames, image.tag_v2[DESCRIPTION], image.tag_v2[MAKE]), (1, "page 2", "Camera 2"))

    @needs("libtiff", "libwebp")
    def test_pipes_of_tiff_and_webp(self):
        self.save("in.jpg", exif=make_exif())
        for name in ("a.tif", "a.webp"):
            self.convert("in.jpg", name)
            form = name[2:].replace("tif", "tiff").replace("tifff", "tiff")
            result = self.gconv("-i", "-", "-f", "identity", "-o", "-", "--format", form,
                                stdin=(self.folder / name).read_bytes(), text=False)
            self.check_exif(Image.open(io.BytesIO(result.stdout)), (40, 60))

    def test_sizes_are_those_of_the_result(self):
        self.save("in.jpg", exif=make_exif(orientation=1))
        self.gconv("-i", "in.jpg", "-f", "gaussian_5", "--stride", "2", "-o", "out.png")
        self.check_exif(self.open("out.png"), (30, 20))

    @needs("libtiff")
    def test_every_way_through_the_program(self):
        """Large images go by rows, several filters have several results, one filter may follow another."""
        self.picture = numpy.random.default_rng(4).integers(0, 256, (1900, 1600, 3), dtype=numpy.uint8)
        self.save("large.jpg", exif=make_exif(1, (1600, 1900)), xmp=(XMP % (1, "")).encode(), comment="words")
        self.gconv("-i", "large.jpg", "-f", "gaussian_3", "-f", "sobel_x", "-o", "out/")
        self.gconv("-i", "large.jpg", "-f", "gaussian_3", "--verify", "-o", "out/whole.png")
        self.gconv("-i", "large.jpg", "-f", "identity", "-o", "large.tif")
        self.gconv("-i", "large.tif", "-f", "gaussian_3", "-o", "out/large.tif", "--tiff-compression", "deflate")
        for name in ("out/large_gaussian_3.png", "out/large_sobel_x.png", "out/whole.png", "out/large.tif"):
            image = self.open(name)
            self.check_exif(image, (1600, 1900))
            self.assertEqual(self.comment_of(image), "words")
            self.assertEqual(self.xmp_of(name), XMP % (1, ""))

    def test_no_thumbnail(self):
        for order in "<>":
            exif = make_exif()
            exif.endian = order
            thumbnail = b"\xff\xd8 the picture as it was \xff\xd9"
            self.save("in.jpg", exif=b"Exif\0\0" + with_thumbnail(exif.tobytes()[6:], thumbnail))
            self.assertIn(thumbnail, (self.folder / "in.jpg").read_bytes())
            for name in ("out.jpg", "out.png"):
                self.check_exif(self.convert("in.jpg", name), (40, 60))
                self.assertNotIn(b"as it was", (self.folder / name).read_bytes())

    @needs("libtiff", "libwebp")
    def test_strip(self):
        self.save("in.jpg", exif=make_exif(), xmp=(XMP % (6, "")).encode(), comment="words", dpi=(300, 300))
        for name in ("out.jpg", "out.png", "out.ppm", "out.tif", "out.webp"):
            image = self.convert("in.jpg", name, "--strip")
            self.assertEqual(image.size, (40, 60))
            if name != "out.tif":
                self.assertEqual(len(image.getexif()), 0)
            for word in (b"xmpmeta", b"words", b"camera", b"Exif", b"eXIf"):
                self.assertNotIn(word, (self.folder / name).read_bytes())
        self.assertAlmostEqual(self.convert("in.jpg", "out.png", "--strip").info["dpi"][0], 300, places=1)

    def test_what_a_format_cannot_hold_is_said_once(self):
        for name in "abc":
            self.save(f"in/{name}.jpg", exif=make_exif(), xmp=(XMP % (6, "")).encode())
        said = self.gconv("-i", "in", "-f", "identity", "-o", "out/", "--format", "pnm").stderr
        self.assertEqual(said, "gconv: warning: EXIF and XMP are left out: pnm cannot hold them\n"
                         "gconv: 3 written; metadata left out: 3 images\n")
        self.assertEqual(self.gconv("-i", "in", "-f", "identity", "-o", "out/", "--format", "pnm", "-q").stderr, "")
        self.save("one.jpg", comment="words")
        said = self.gconv("-i", "one.jpg", "-f", "identity", "-o", "out.npy").stderr
        self.assertEqual(said, "gconv: warning: comments are left out: npy cannot hold them\n")

    def test_what_each_format_holds(self):
        """All kinds of metadata into all formats: a line names what the result has not. With --strip, it names the profile alone."""
        from PIL import ImageCms  # pylint: disable=import-outside-toplevel
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        exif = make_exif(1)
        self.save("in.png", xmp=None, icc_profile=profile, dpi=(300, 300), exif=exif)
        png = (self.folder / "in.png").read_bytes()
        end = png.index(b"IDAT") - 4
        texts = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + (XMP % (1, "")).encode()) + chunk(b"tEXt", b"Comment\0words")
        (self.folder / "in.png").write_bytes(png[:end] + texts + png[end:])
        kinds = ["EXIF", "XMP", "comments", "the resolution", "the ICC profile"]
        lost = {"png": [], "jpg": [], "tif": [], "webp": ["comments", "the resolution"], "ppm": kinds, "pam": kinds,
                "pfm": kinds, "npy": kinds}
        for extension, names in lost.items():
            words = ("-i", "in.png", "-f", "identity", "-o", f"out.{extension}", *(("--depth", "float") if extension == "pfm" else ()))
            said = self.gconv(*words).stderr
            if names:
                self.assertIn(f"{', '.join(names[:-1])} and {names[-1]} are left out: ", said)
            self.assertEqual(said.count("\n"), 1 if names else 0, said)
            said = self.gconv(*words, "--strip").stderr
            self.assertRegex(said, "^gconv: warning: the ICC profile is left out: [a-z]+ cannot hold it\n$" if kinds[-1] in names else "^$")
            if extension in ("png", "jpg", "webp", "tif"):
                image = Image.open(self.folder / f"out.{extension}")
                self.assertEqual(image.info.get("icc_profile"), profile)
            if extension != "pfm":
                said = self.gconv(*words, "--gray").stderr
                self.assertIn("ICC profile", said)

    def test_resolution_of_exif_stays_in_webp(self):
        exif = make_exif(1)
        exif[X_RESOLUTION], exif[Y_RESOLUTION], exif[UNIT] = 300.0, 300.0, 2
        self.save("in.jpg", exif=exif, dpi=(300, 300))
        self.assertEqual(self.gconv("-i", "in.jpg", "-f", "identity", "-o", "out.webp").stderr, "")

    def test_metadata_that_are_not_read_are_named(self):
        self.save("in.png")
        png = (self.folder / "in.png").read_bytes()
        end = png.index(b"IDAT") - 4
        extra = (chunk(b"tEXt", b"Title\0a title") + chunk(b"zTXt", b"Author\0\0" + zlib.compress(b"me")) +
                 chunk(b"tEXt", b"Title\0another") + chunk(b"tEXt", b"".join(raw_profile(b"iptc", b"some bytes"))))
        (self.folder / "text.png").write_bytes(png[:end] + extra + png[end:])
        said = self.gconv("-i", "text.png", "-f", "identity", "-o", "out.png").stderr
        self.assertEqual(said, "gconv: warning: text.png: of its metadata, these are not read, and left out: text 'Title', "
                               "text 'Author', profile 'iptc'\n")
        self.save("iptc.jpg")
        self.add_segment("iptc.jpg", b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0a\x1c\x02\x05\0\5title", 0xed)
        self.assertIn("left out: IPTC", self.gconv("-i", "iptc.jpg", "-f", "identity", "-o", "out.png").stderr)
        tail = png.index(b"IEND") - 4
        for kind, word in ((b"bKGD", "the background"), (b"sBIT", "how many bits count"), (b"oFFs", "the place"), (b"prVt", "chunk prVt"),
                           (b"caBX", "C2PA"), (b"tIME", "")):
            more = chunk(kind, {b"bKGD": bytes(6), b"sBIT": b"\5\6\5", b"oFFs": bytes(9), b"tIME": b"\7\xe4\1\1\1\1\1"}.get(kind, b"data"))
            for at in (end, tail):
                (self.folder / "chunk.png").write_bytes(png[:at] + more + png[at:])
                said = self.gconv("-i", "chunk.png", "-f", "identity", "-o", "out.png").stderr
                self.assertEqual((word in said, said.count("\n")), (True, bool(word)), f"{kind} at {at}: {said}")
        for marker, data, word in ((0xeb, b"JP\0\1box", "segment APP11 (JP)"), (0xe2, b"FPXR\0", "segment APP2 (FPXR)"), (0xec, b"Ducky\0", "")):
            self.save("segment.jpg")
            self.add_segment("segment.jpg", data, marker)
            said = self.gconv("-i", "segment.jpg", "-f", "identity", "-o", "out.png").stderr
            self.assertEqual((word in said, said.count("\n")), (True, bool(word)), said)
        for name in ("text.png", "iptc.jpg"):
            self.assertEqual(self.gconv("-i", name, "-f", "identity", "-o", "out.png", "--strip").stderr, "")

    def test_colours_that_are_not_those_of_srgb(self):
        self.save("in.png")
        png = (self.folder / "in.png").read_bytes()
        end = png.index(b"IDAT") - 4
        gamma, primaries = chunk(b"gAMA", struct.pack(">I", 45455)), (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
        wide = struct.pack(">8I", 31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000)
        for extra, word in ((chunk(b"cICP", bytes([9, 16, 0, 1])), "of cICP 9/16/0"), (chunk(b"cICP", bytes([1, 13, 0, 1])), ""),
                            (gamma + chunk(b"cHRM", wide), "primaries (cHRM)"), (gamma + chunk(b"cHRM", struct.pack(">8I", *primaries)), ""),
                            (gamma + chunk(b"cHRM", wide) + chunk(b"sRGB", b"\0"), ""),
                            (chunk(b"gAMA", struct.pack(">I", 100000)), "its gamma of 1 ")):
            (self.folder / "colours.png").write_bytes(png[:end] + extra + png[end:])
            said = self.gconv("-i", "colours.png", "-f", "identity", "-o", "out.png").stderr
            self.assertEqual(said.count("\n"), 1 if word else 0, said)
            self.assertIn(word, said)

    def test_profiles_and_transparency_that_libpng_leaves_out(self):
        Image.fromarray(self.picture).save(self.folder / "rgb.png", icc_profile=b"x" * 20)
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        Image.fromarray(self.picture[..., 0]).save(self.folder / "grey.png", icc_profile=profile)
        self.save("in.png")
        png = (self.folder / "in.png").read_bytes()
        end = png.index(b"IDAT") - 4
        (self.folder / "key.png").write_bytes(png[:end] + chunk(b"tRNS", b"abc") + png[end:])
        for name, word in (("rgb.png", "its ICC profile is left out: too short"), ("grey.png", "its ICC profile is left out"),
                           ("key.png", "its transparency (tRNS) is damaged")):
            said = self.gconv("-i", name, "-f", "identity", "-o", "out.png").stderr
            self.assertEqual((said.count(word), said.count("\n")), (1, 1), said)
            with open(self.folder / name, "rb") as file:
                said = self.gconv("-i", "-", "-f", "identity", "-o", "-", "--format", "png", stdin=file.read(), text=False).stderr
            self.assertIn(word, said)

    def test_cmyk_is_told(self):
        Image.fromarray(self.picture).convert("CMYK").save(self.folder / "cmyk.jpg")
        self.convert("cmyk.jpg", "out.png", warning="its colours are CMYK")

    def test_more_than_a_segment_holds(self):
        self.save("in.png")
        png = (self.folder / "in.png").read_bytes()
        end = png.index(b"IEND") - 4
        large = (XMP % (1, "x" * 70000)).encode()
        (self.folder / "large.png").write_bytes(png[:end] + chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + large) + png[end:])
        self.convert("large.png", "out.jpg", warning="XMP is left out: it has 70")
        self.convert("large.png", "out.png")
        self.assertEqual(self.xmp_of("out.png"), large.decode())

    def test_extended_xmp(self):
        self.save("in.jpg", xmp=(XMP % (1, "")).encode())
        self.add_segment("in.jpg", b"http://ns.adobe.com/xmp/extension/\0" + b"0" * 32 + struct.pack(">II", 4, 0) + b"more")
        self.convert("in.jpg", "out.jpg", warning="1 further segment of its EXIF or XMP is left out")
        self.assertEqual(self.xmp_of("out.jpg"), XMP % (1, ""))

    # ---- Damaged EXIF ----

    def test_broken_blocks_are_dropped_and_said(self):
        for block in (b"", b"II*\0", b"garbage" * 9, b"MM\0*\xff\xff\xff\xff" + bytes(40), b"II*\0\x08\0\0\0"):
            self.save("in.jpg", exif=b"Exif\0\0" + block)
            image = self.convert("in.jpg", "out.jpg", warning="in.jpg: its EXIF is damaged and left out")
            self.assertNotIn("exif", image.info)
        self.save("in.jpg", xmp=b"\0\1\2")
        self.convert("in.jpg", "out.jpg", warning="in.jpg: its XMP is damaged and left out")

    def test_flipped_bytes(self):
        """No damage harms, what is written can be read, and at most the thumbnail's bytes vanish."""
        block = with_thumbnail(make_exif().tobytes()[6:], b"\xff\xd8" + bytes(30))
        random = numpy.random.default_rng(5)
        folder = self.folder / "in"
        folder.mkdir()
        for i in range(120):
            damaged = bytearray(block)
            for _ in range(random.integers(1, 5)):
                damaged[random.integers(0, len(block))] = random.integers(0, 256)
            self.save(f"in/{i}.jpg", exif=b"Exif\0\0" + bytes(damaged))
        self.gconv("-i", "in", "-f", "identity", "-o", "out/", "--format", "same", "-q")
        said = self.gconv("-i", "out", "-f", "identity", "-o", "again/", "--format", "same").stderr
        self.assertNotIn("EXIF", said)

    @needs("libtiff", "libwebp")
    def test_flipped_bytes_of_tiff_and_webp(self):
        exif = make_exif(6)
        random = numpy.random.default_rng(6)
        (self.folder / "in").mkdir()
        small = self.picture[:4, :6]
        tags = {MAKE: "A camera", CAMERA: {TIME: "2020:01:02 03:04:05", NOTES: b"x" * 30, INTEROPERABILITY: {1: "R98"}},
                GPS: {1: "N", 2: [(1, 2)] * 3}, XMP_TAG: (XMP % (6, "")).encode(), DESCRIPTION: "words"}
        webp = io.BytesIO()
        Image.fromarray(small).save(webp, "webp", exif=exif, lossless=True)
        for kind, end, data in (("a", "tif", make_tiff(small, tags)), ("b", "tif", make_tiff(small, tags, ">", True)),
                                ("c", "webp", webp.getvalue())):
            for i in range(60):
                damaged = bytearray(data)
                begin = damaged.index(b"EXIF") + 8 if end == "webp" else 8
                for _ in range(random.integers(1, 5)):
                    damaged[random.integers(begin, len(damaged))] = random.integers(0, 256)
                (self.folder / f"in/{i}{kind}.{end}").write_bytes(damaged)
        done = subprocess.run([GCONV, "-i", "in", "-f", "identity", "-o", "out/", "--format", "same", "-q"], cwd=self.folder,
                              env=self.environment(), stderr=subprocess.PIPE, check=False)
        self.assertGreaterEqual(done.returncode, 0, done.stderr.decode())
        self.assertGreater(len(self.files("out")), 90)
        self.assertNotIn("damaged", self.gconv("-i", "out", "-f", "identity", "-o", "again/", "--format", "same").stderr)

    # ---- Orientation ----

    def check_png(self, name, chunks, orientation, make=None):
        """Chunks before the pixels and behind them; from a pipe, those behind come too late."""
        self.save("plain.png")
        png = (self.folder / "plain.png").read_bytes()
        image = Image.fromarray(self.picture)
        image.getexif()[ORIENTATION] = orientation
        upright = numpy.asarray(ImageOps.exif_transpose(image))
        for where in (b"IDAT", b"IEND"):
            at = png.index(where) - 4
            data = png[:at] + chunks + png[at:]
            (self.folder / "in.png").write_bytes(data)
            with self.subTest(name, where=where):
                result = self.convert("in.png", "out.png")
                numpy.testing.assert_array_equal(numpy.asarray(result), upright)
                self.assertEqual(result.getexif().get(MAKE), make)
                self.assertIn(result.getexif().get(ORIENTATION), (1, None))
                piped = self.gconv("-i", "-", "-f", "identity", "-o", "out.png", stdin=data)
                if where == b"IDAT":
                    self.assert_pixels("out.png", upright)
                    self.assertEqual(piped.stderr, "")
                else:
                    self.assertIn("from a pipe they come too late", piped.stderr)

    def test_orientation_wherever_it_is(self):
        for orientation in range(2, 9):
            exif = Image.Exif()
            exif[ORIENTATION] = orientation
            exif[MAKE] = "A camera"
            block = exif.tobytes()[6:]
            self.check_png("eXIf", chunk(b"eXIf", block), orientation, "A camera")
        for name in (b"exif", b"APP1"):
            keyword, text = raw_profile(name, b"Exif\0\0" + block)
            self.check_png(name, chunk(b"zTXt", keyword + b"\0" + zlib.compress(text)), 8, "A camera")
            self.check_png(name, chunk(b"tEXt", keyword + text), 8, "A camera")
        xmp = (XMP % (6, "")).encode()
        element = b"<rdf:RDF><tiff:Orientation> 6</tiff:Orientation></rdf:RDF>"
        for text in (xmp, element, xmp.replace(b'"6"', b"'6'")):
            self.check_png("XMP", chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + text), 6)
            self.check_png("XMP", chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(text)), 6)
        keyword, text = raw_profile(b"xmp", xmp)
        self.check_png("raw XMP", chunk(b"zTXt", keyword + b"\0" + zlib.compress(text)), 6)
        both = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp) + chunk(b"eXIf", block)
        self.check_png("EXIF before XMP", both, 8, "A camera")

    def test_orientation_in_xmp_of_jpeg(self):
        self.save("in.jpg", xmp=(XMP % (3, "")).encode())
        stored = self.pixels("in.jpg")
        numpy.testing.assert_array_equal(numpy.asarray(self.convert("in.jpg", "out.png")), stored[::-1, ::-1])
        self.save("in.jpg", xmp=(XMP % (3, "")).encode(), exif=make_exif(1))
        numpy.testing.assert_array_equal(numpy.asarray(self.convert("in.jpg", "out.png")), stored)

    @needs("libtiff")
    def test_orientation_of_tiff(self):
        """Once, whoever says it; the tag of TIFF comes before XMP, even where it says "upright"."""
        for tag, xmp in ((6, 6), (8, None), (None, 6), (1, 6), (3, 8), (None, None)):
            tags = {ORIENTATION: tag} if tag else {}
            tags.update({XMP_TAG: (XMP % (xmp, "")).encode()} if xmp else {})
            (self.folder / "in.tif").write_bytes(make_tiff(self.picture, {MAKE: "A camera", CAMERA: {TIME: "2020"}, **tags}))
            image = Image.fromarray(self.picture)
            image.getexif()[ORIENTATION] = tag or xmp or 1
            upright = numpy.asarray(ImageOps.exif_transpose(image))
            for target in ("out.png", "out.tif"):
                result = self.convert("in.tif", target)
                numpy.testing.assert_array_equal(numpy.asarray(ImageOps.exif_transpose(result)), upright, f"{tag} {xmp}")
                numpy.testing.assert_array_equal(numpy.asarray(result), upright, f"{tag} {xmp}")

    @needs("libwebp")
    def test_orientation_of_webp(self):
        for exif, xmp, orientation in ((6, None, 6), (None, 8, 8), (3, 6, 3), (1, 6, 1)):
            options = {"exif": make_exif(exif)} if exif else {}
            options.update({"xmp": (XMP % (xmp, "")).encode()} if xmp else {})
            Image.fromarray(self.picture).save(self.folder / "in.webp", lossless=True, **options)
            image = Image.fromarray(self.picture)
            image.getexif()[ORIENTATION] = orientation
            result = self.convert("in.webp", "out.webp", "--lossless")
            numpy.testing.assert_array_equal(numpy.asarray(result), numpy.asarray(ImageOps.exif_transpose(image)))

    def test_damaged_texts_of_png(self):
        self.save("plain.png")
        png = (self.folder / "plain.png").read_bytes()
        at = png.index(b"IDAT") - 4
        keyword, text = raw_profile(b"exif", b"Exif\0\0" + make_exif().tobytes())
        for bad, warning in ((chunk(b"zTXt", b"Comment\0\0" + b"no stream"), "a damaged text is left out"),
                             (chunk(b"tEXt", keyword + text[:60]), 'profile "exif" is damaged'),
                             (chunk(b"iTXt", b"XML:com.adobe.xmp\0\0"), "a damaged text is left out"),
                             (chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 25))), "a damaged text is left out")):
            (self.folder / "in.png").write_bytes(png[:at] + bad + png[at:])
            numpy.testing.assert_array_equal(numpy.asarray(self.convert("in.png", "out.png", warning=warning)), self.picture)

    # ---- Resolution ----

    def test_resolution_of_exif_alone(self):
        for unit, number, dpi in ((2, 300, 300), (3, 100, 254)):
            exif = Image.Exif()
            exif[X_RESOLUTION], exif[Y_RESOLUTION], exif[UNIT] = float(number), float(number / 2), unit
            self.save("in.jpg", exif=exif)
            got = self.convert("in.jpg", "out.png").info["dpi"]
            self.assertAlmostEqual(got[0], dpi, places=1)
            self.assertAlmostEqual(got[1], dpi / 2, places=1)
            exif[ORIENTATION] = 6
            self.save("in.jpg", exif=exif)
            turned = self.convert("in.jpg", "out.jpg")
            self.assertEqual(turned.getexif()[X_RESOLUTION], number / 2)
            self.assertAlmostEqual(turned.info["dpi"][1], dpi, places=0)
        self.save("in.jpg", exif=exif, dpi=(72, 72))
        self.assertAlmostEqual(self.convert("in.jpg", "out.png").info["dpi"][0], 72, places=1)


class Damaged(CommandTest):
    def warnings(self, names):
        """What other programs say of each JPEG, "" if nothing: djpeg, or OpenCV, which prints the same."""
        if DJPEG:
            return [subprocess.run([DJPEG, name], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   check=False).stderr.decode() for name in names]
        code = ("import cv2, os, sys\nfor name in sys.argv[1:]:\n  os.write(2, b'\\0')\n"
                "  cv2.imread(name, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)")
        done = subprocess.run([sys.executable, "-c", code, *names], cwd=self.folder, stderr=subprocess.PIPE, check=False)
        return ["".join(re.findall(r".*JPEG.*", said)) for said in done.stderr.decode().split("\0")[1:]]

    def damage(self, count, seed):
        """Writes JPEGs of several kinds with flipped bytes in their coded data."""
        random = numpy.random.default_rng(seed)
        (self.folder / "in").mkdir()
        smooth = cv2.GaussianBlur(random.integers(0, 256, (90, 120, 3), dtype=numpy.uint8), (9, 9), 3)
        kinds = ({"quality": 85}, {"quality": 60, "progressive": True}, {"quality": 90, "subsampling": 0},
                 {"quality": 75, "restart_marker_rows": 1})
        for i in range(count):
            data = io.BytesIO()
            Image.fromarray(smooth).save(data, "jpeg", **kinds[i % len(kinds)])
            jpeg = bytearray(data.getvalue())
            begin = jpeg.index(b"\xff\xda") + 14
            for _ in range(1 + i % 3):
                jpeg[random.integers(begin, len(jpeg) - 2)] = random.integers(0, 256)
            (self.folder / f"in/{i:03}.jpg").write_bytes(jpeg)

    def test_what_others_warn_of_is_warned_of(self):
        count = 200
        self.damage(count, 7)
        names = [f"in/{i:03}.jpg" for i in range(count)]
        done = subprocess.run([GCONV, "-i", "in", "-f", "identity", "-o", "out/"], cwd=self.folder, check=False,
                              env=self.environment(), stderr=subprocess.PIPE)
        said = done.stderr.decode()
        warned = 0
        for name, theirs in zip(names, self.warnings(names)):
            mine = [line for line in said.splitlines() if f"{name}: " in line]
            warned += theirs != ""
            if theirs:
                self.assertTrue(mine, f"{name}: {theirs}")
            self.assertLessEqual(len([line for line in mine if "warning" in line]), 1, mine)
        self.assertGreater(warned, count // 4)

    def test_extraneous_bytes(self):
        self.photo("good.png")
        image = io.BytesIO()
        Image.fromarray(self.pixels("good.png")).save(image, "jpeg")
        jpeg = image.getvalue()
        (self.folder / "in.jpg").write_bytes(jpeg[:-2] + bytes(range(1, 23)) + jpeg[-2:])
        warning = ("gconv: warning: in.jpg: damaged JPEG, parts of the picture may be wrong: Corrupt JPEG data: [0-9]+ "
                   "extraneous bytes before marker 0xd9\n")
        for words in (("-o", "out.png"), ("-o", "out.jpg", "--verify")):
            self.assertRegex(self.gconv("-i", "in.jpg", "-f", "identity", *words).stderr, f"^{warning}$")
        self.assertEqual(self.gconv("-i", "in.jpg", "-f", "identity", "-o", "out.png", "-q").stderr, "")
        self.assertEqual(self.gconv("info", "in.jpg").stderr, "")


if __name__ == "__main__":
    unittest.main()
