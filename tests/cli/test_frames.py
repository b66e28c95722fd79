# SPDX-License-Identifier: MIT
"""Several images in one file or pipe, types of arrays, and members of archives: against numpy and Pillow."""
import io
import os
import struct
import subprocess
import unittest
import zipfile
import zlib

import numpy
from PIL import Image, ImageSequence

from helper import GCONV, CommandTest, needs

RANDOM = numpy.random.default_rng(0)


def pnm(pixels, kind=None):
    """The bytes of an image as PNM, or, with the kind "pam", as PAM."""
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    most = 65535 if pixels.dtype.itemsize == 2 else 255
    header = f"P{6 if channels == 3 else 5}\n{width} {height}\n{most}\n"
    if kind == "pam":
        types = {1: "GRAYSCALE", 2: "GRAYSCALE_ALPHA", 3: "RGB", 4: "RGB_ALPHA"}
        header = f"P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {most}\nTUPLTYPE {types[channels]}\nENDHDR\n"
    return header.encode() + pixels.astype(">u2" if most > 255 else "u1").tobytes()


def noise(*shape, kind="u1"):
    return RANDOM.integers(0, 256, shape).astype(kind)


def encode(pixels, kind, **options):
    """The bytes of an image as PNG or JPEG."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def interlaced(pixels):
    """A PNG in seven passes, which Pillow does not write."""
    height, width = pixels.shape[:2]
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y0::dy, x0::dx]
        rows += b"".join(b"\0" + row.tobytes() for row in part) if part.shape[1] else b""
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
                                          for kind, data in chunks)


class OneArray(CommandTest):
    """-o all.npy takes the results of several images."""

    def test_of_narrow_frames(self):
        """N x H x W would be read as H x W x C, if W is at most 4."""
        for width in (1, 3, 4, 5):
            frames = noise(6, 7, width)
            (self.folder / "in.pgm").write_bytes(b"".join(b"P5 %d 7 255\n" % width + frame.tobytes() for frame in frames))
            for source, result in (("in.pgm", "one.npy"), ("one.npy", "two.npy")):
                self.gconv("-i", source, "-f", "average:size=1", "-o", result)
                written = numpy.load(self.folder / result)
                self.assertEqual(written.shape, (6, 7, width) if width > 4 else (6, 1, 7, width))
                numpy.testing.assert_array_equal(written.reshape(frames.shape), frames)
            self.gconv("volume", "one.npy", "-f", "box:size=1", "-o", "volume.npy", "--depth", "8")
            numpy.testing.assert_array_equal(numpy.load(self.folder / "volume.npy"), written)

    def test_of_images_and_stacks(self):
        for name, pixels in (("a", noise(40, 50, 3)), ("b", noise(40, 50, 3)), ("c", noise(30, 50, 3)), ("s", noise(40, 50)),
                             ("t", noise(3, 40, 50)), ("large", noise(2000, 1600, 3)), ("larger", noise(2000, 1600, 3))):
            numpy.save(self.folder / f"{name}.npy" if name in "st" else self.folder / "x.npy", pixels)
            if name not in "st":
                (self.folder / f"{name}.png").write_bytes(encode(pixels, "png"))
        words = ("-f", "average:size=3", "--border", "replicate", "-o")
        for names in (("a.png", "b.png"), ("t.npy", "s.npy", "t.npy:2"), ("large.png", "larger.png")):
            self.gconv("-i", *names, *words, "all.npy")
            alone = []
            for name in names:
                self.gconv("-i", name, *words, "one.npy")
                one = numpy.load(self.folder / "one.npy")
                alone += [*one] if name == "t.npy" else [one.transpose(2, 0, 1) if one.ndim == 3 else one]
            numpy.testing.assert_array_equal(numpy.load(self.folder / "all.npy"), alone)
            (self.folder / "all.npy").unlink()
        refused = self.gconv("-i", "a.png", "c.png", *words, "all.npy", status=2)
        self.assertIn("cannot hold the results of a.png and c.png", refused.stderr)
        self.usage_error("--resume: one array", "-i", "a.png", "b.png", *words, "all.npy", "--resume")
        (self.folder / "cut.png").write_bytes((self.folder / "b.png").read_bytes()[:3000])
        self.gconv("-i", "a.png", "cut.png", *words, "all.npy", status=1)
        self.assertFalse((self.folder / "all.npy").exists())
        pages = [Image.fromarray(noise(height, 50)) for height in (40, 30, 50)]  # as many rows as three of 40
        pages[0].save(self.folder / "pages.tif", save_all=True, append_images=pages[1:])
        for names in (("pages.tif", "s.npy"), ("s.npy", "pages.tif")):
            said = self.gconv("-i", *names, *words, "all.npy", status=1).stderr
            self.assertIn("pages.tif: its images differ in size", said)
            self.assertNotIn("rows are missing", said)
            self.assertFalse((self.folder / "all.npy").exists())
        numpy.save(self.folder / "weights.npy", noise(2, 3, 3, 3).astype("float32"))
        for name, filters in (("plain", "average:size=3"), ("bank", "weights.npy")):
            self.gconv("-i", "a.png", "b.png", "-f", filters, "--border", "replicate", "--format", "npy", "-o", name)  # a folder
            self.assertEqual(sorted(path.name for path in (self.folder / name).iterdir()), ["a.npy", "b.npy"])


class BehindEachOther(CommandTest):
    """PNG and JPEG files one behind the other, as ffmpeg -f image2pipe and cameras write them."""

    def setUp(self):
        super().setUp()
        self.frames = [numpy.kron(noise(5, 4, 3), numpy.ones((4, 4, 1), "u1")) for _ in range(3)]

    def decoded(self, data):
        return numpy.asarray(Image.open(io.BytesIO(data)))

    def check(self, name, parts):
        """All of `parts` are read, from a file and from a pipe, as files and as one array."""
        data, expected = b"".join(parts), [self.decoded(part) for part in parts]
        (self.folder / name).write_bytes(data)
        for source, stem in ((name, name.split(".", maxsplit=1)[0]), ("-", "stdin")):
            said = self.gconv("-i", source, "-f", "identity", "-o", "out/", stdin=data).stderr
            self.assertEqual(said, f"gconv: {len(parts)} written\n")
            self.assertEqual(self.files("out"), [f"{stem}_{i:06}.png" for i in range(1, len(parts) + 1)])
            for i, pixels in enumerate(expected, 1):
                self.assert_pixels(f"out/{stem}_{i:06}.png", pixels)
            for file in (self.folder / "out").iterdir():
                file.unlink()
            self.gconv("-i", source, "-f", "identity", "-o", "all.npy", stdin=data)
            numpy.testing.assert_array_equal(numpy.load(self.folder / "all.npy"), numpy.stack(expected).transpose(0, 3, 1, 2))

    def test_png(self):
        self.check("cat.png", [encode(frame, "png") for frame in self.frames])
        self.check("interlaced.png", [interlaced(frame) for frame in self.frames])
        self.check("levels.png", [encode(frame, "png", compress_level=3 * i) for i, frame in enumerate(self.frames)])

    def test_jpeg(self):
        self.check("cat.jpg", [encode(frame, "jpeg", progressive=i == 1, quality=80 + i) for i, frame in enumerate(self.frames)])
        self.check("padded.jpg", [encode(frame, "jpeg") for frame in self.frames[:2]])

    def test_networks_take_each(self):
        data = b"".join(encode(frame, "png") for frame in self.frames)
        self.gconv("bank", "convert", "average", "-o", "bank.npy")
        self.gconv("-i", "-", "-f", "average", "--batch", "2", "-o", "out/", stdin=data)
        self.assertEqual(len(self.files("out")), 3)

    def test_shapes_that_differ(self):
        for name, second in (("a.png", encode(self.frames[0][:7], "png")), ("a.jpg", encode(self.frames[0][:7], "jpeg")),
                             ("i.png", interlaced(self.frames[0]))):
            first = encode(self.frames[0], "jpeg" if name == "a.jpg" else "png")
            (self.folder / name).write_bytes(first + first + second)
            result = self.gconv("-i", name, "-f", "identity", "-o", "out/", status=3)
            self.assertIn("image 3 of it", result.stderr)

    def test_readers_of_one_image_say_that_more_follow(self):
        (self.folder / "cat.png").write_bytes(b"".join(encode(frame, "png") for frame in self.frames))
        (self.folder / "one.png").write_bytes(encode(self.frames[0], "png"))
        self.assertIn("further images follow", self.gconv("compare", "cat.png", "one.png").stderr)

    def test_what_follows_is_told(self):
        for name in ("a.png", "a.jpg"):
            data = encode(self.frames[0], {"a.png": "png", "a.jpg": "jpeg"}[name])
            for behind, told in ((b"ftypmp42: a video", True), (bytes(99), False), (b"\r\n", False), (data[:2], True)):
                (self.folder / name).write_bytes(data + behind)
                for source, stdin in ((name, None), ("-", data + behind)):
                    result = self.gconv("-i", source, "-f", "identity", "-o", "out.png", stdin=stdin)
                    self.assertEqual("what follows its last image is no image, and is left out" in result.stderr, told)

    def test_pictures_within_pictures(self):
        """APNG, and JPEG of several pictures (MPF)."""
        images = [Image.fromarray(frame) for frame in self.frames]
        images[0].save(self.folder / "anim.png", save_all=True, append_images=images[1:])
        first, others = encode(self.frames[0], "jpeg"), b"".join(encode(frame[:9], "jpeg") for frame in self.frames[1:])
        for order, head in (("<", b"II*\0"), (">", b"MM\0*")):
            index = b"MPF\0" + head + struct.pack(order + "IHHHIII", 8, 1, 0xb001, 4, 1, 3, 0)
            segment = b"\xff\xe2" + struct.pack(">H", len(index) + 2) + index
            (self.folder / f"mpo{ord(order)}.jpg").write_bytes(first[:2] + segment + first[2:] + others)
        for name, word in (("anim.png", "an animation (APNG) of 3 pictures"), ("mpo60.jpg", "of its 3 pictures (MPF"),
                           ("mpo62.jpg", "of its 3 pictures (MPF")):
            for source, stdin in ((name, None), ("-", (self.folder / name).read_bytes())):
                said = self.gconv("-i", source, "-f", "identity", "-o", "out.png", stdin=stdin).stderr
                self.assertEqual(said.count("\n"), 1)
                self.assertIn(word, said)
                self.assert_pixels("out.png", self.frames[0] if name == "anim.png" else self.decoded(first))


class Frames(CommandTest):
    def setUp(self):
        super().setUp()
        self.frames = [noise(9, 7, 3) for _ in range(11)]
        self.data = b"".join(map(pnm, self.frames))
        (self.folder / "movie.ppm").write_bytes(self.data)

    def check(self, names, frames):
        for name, frame in zip(names, frames, strict=True):
            self.assert_pixels(name, frame)

    def test_file_to_files(self):
        self.gconv("-i", "movie.ppm", "-f", "identity", "-o", "out/")
        names = [f"movie_{i:02}.png" for i in range(1, 12)]
        self.assertEqual(self.files("out"), names)
        self.check([f"out/{name}" for name in names], self.frames)

    def test_pipe_to_files(self):
        self.gconv("-i", "-", "-f", "identity", "-o", "out/", stdin=self.data)
        names = [f"stdin_{i:06}.png" for i in range(1, 12)]
        self.assertEqual(self.files("out"), names)
        self.check([f"out/{name}" for name in names], self.frames)
        for template in ("t/{frame}.png", "t/{index}.png"):
            self.gconv("-i", "-", "-f", "identity", "-o", template, stdin=self.data)
            self.assertEqual(self.files("t"), [f"{i:06}.png" for i in range(1, 12)])
        self.gconv("-i", "-", "-f", "identity", "average", "-o", "two/", stdin=self.data)
        self.assertEqual(len(self.files("two")), 22)

    def test_one_image_keeps_its_name(self):
        self.gconv("-i", "-", "-f", "identity", "-o", "out/", stdin=pnm(self.frames[0]))
        self.assertEqual(self.files("out"), ["stdin.png"])

    def test_one_file_of_all(self):
        for source, stdin in (("movie.ppm", None), ("-", self.data)):
            self.gconv("-i", source, "-f", "identity", "-o", "out.ppm", stdin=stdin)
            self.assertEqual((self.folder / "out.ppm").read_bytes(), self.data)
            result = self.gconv("-i", source, "-f", "identity", "-o", "-", "--format", "pnm", stdin=stdin, text=False)
            self.assertEqual(result.stdout, self.data)
        alpha = b"".join(pnm(noise(5, 6, 4), "pam") for _ in range(3))
        result = self.gconv("-i", "-", "-f", "identity", "-o", "-", "--format", "pam", stdin=alpha, text=False)
        self.assertEqual(result.stdout, alpha)
        grey = [noise(6, 8) for _ in range(4)]
        self.gconv("-i", "-", "-f", "identity", "-o", "grey.npy", stdin=b"".join(map(pnm, grey)))
        numpy.testing.assert_array_equal(numpy.load(self.folder / "grey.npy"), numpy.stack(grey))
        self.gconv("-i", "-", "-f", "identity", "-o", "pipe.npy", stdin=self.data)
        self.gconv("-i", "movie.ppm", "-f", "identity", "-o", "out.npy")
        self.assertEqual((self.folder / "pipe.npy").read_bytes(), (self.folder / "out.npy").read_bytes())
        result = self.gconv("-i", "-", "-f", "identity", "-o", "-", "--format", "npy", status=1, stdin=self.data, text=False)
        self.assertIn("gconv: standard output: several images", result.stderr)
        self.assertIn("write it to a file, not to a pipe", result.stderr)
        self.assertEqual((result.stdout, result.stderr.count("several images")), (b"", 1))
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy"), numpy.stack(self.frames).transpose(0, 3, 1, 2))

    @needs("libtiff")
    def test_pages_of_a_pipe(self):
        stack = numpy.stack(self.frames)
        for output in (("-o", "out.tif"), ("-o", "out/", "--format", "tiff"), ("-o", "-", "--format", "tiff")):
            for packing in ("none", "deflate"):
                result = self.gconv("-i", "-", "-f", "identity", *output, "--tiff-compression", packing, stdin=self.data,
                                    text=False)
                name = {"out.tif": "out.tif", "out/": "out/stdin.tif", "-": "sent.tif"}[output[1]]
                if output[1] == "-":
                    (self.folder / name).write_bytes(result.stdout)
                with Image.open(self.folder / name) as image:
                    pages = [numpy.array(page) for page in ImageSequence.Iterator(image)]
                numpy.testing.assert_array_equal(numpy.stack(pages), stack)
        self.gconv("-i", "movie.ppm", "-f", "identity", "-o", "file.tif", "--tiff-compression", "deflate")
        self.assertEqual((self.folder / "out.tif").read_bytes(), (self.folder / "file.tif").read_bytes())

    @needs("libtiff")
    def test_frame_in_the_name_is_a_file_each(self):
        for kind in ("tif", "ppm", "npy"):
            for source, stdin, digits in (("movie.ppm", None, 2), ("-", self.data, 6)):
                folder = f"{kind}{digits}"
                self.gconv("-i", source, "-f", "identity", "-o", folder + "/x_{frame}." + kind, stdin=stdin)
                names = [f"x_{i:0{digits}}.{kind}" for i in range(1, 12)]
                self.assertEqual(self.files(folder), names)
                for name, frame in zip(names, self.frames):
                    path = self.folder / folder / name
                    numpy.testing.assert_array_equal(numpy.load(path) if kind == "npy" else Image.open(path), frame)

    def test_kinds_may_differ(self):
        grey = [noise(4, 10) for _ in range(3)]
        text = "P2\n10 4\n255\n" + "\n".join(" ".join(map(str, row)) for row in grey[1]) + "\n"
        data = pnm(grey[0]) + text.encode() + pnm(grey[2], "pam") + b"\n"
        (self.folder / "mixed.pgm").write_bytes(data)
        for source, stdin in (("mixed.pgm", None), ("-", data)):
            self.gconv("-i", source, "-f", "identity", "-o", "out.pgm", stdin=stdin)
            self.assertEqual((self.folder / "out.pgm").read_bytes(), b"".join(map(pnm, grey)))

    def test_one_of_them(self):
        self.gconv("-i", "movie.ppm:3", "movie.ppm:11", "-f", "identity", "-o", "out/")
        self.check(["out/movie_3.png", "out/movie_11.png"], [self.frames[2], self.frames[10]])
        for number in ("0", "12", "x", ""):
            result = self.gconv("-i", f"movie.ppm:{number}", "-f", "identity", "-o", "bad/", status=1)
            self.assertIn("its images have the numbers 1 to 11", result.stderr)
        self.assertIn("7 x 9", self.gconv("info", "movie.ppm:2").stdout)
        self.photo("photo.png")
        self.assertIn("has one image", self.gconv("-i", "photo.png:1", "-f", "identity", "-o", "bad/", status=1).stderr)
        (self.folder / "movie.ppm:2").write_bytes(pnm(self.frames[7]))  # a whole name comes first
        self.gconv("-i", "movie.ppm:2", "-f", "identity", "-o", "whole.png")
        self.check(["whole.png"], [self.frames[7]])

    def test_shapes_that_differ(self):
        data = self.data + pnm(noise(9, 6, 3))
        (self.folder / "bad.ppm").write_bytes(data)
        result = self.gconv("-i", "bad.ppm", "-f", "identity", "-o", "out/", status=1)
        self.assertIn("image 12 of it has 6 x 9 pixels", result.stderr)
        self.assertFalse((self.folder / "out").exists())
        self.gconv("-i", "bad.ppm:12", "-f", "identity", "-o", "last.png")
        result = self.gconv("-i", "-", "-f", "identity", "-o", "out/", status=3, stdin=data)
        self.assertIn("image 12 of it has 6 x 9 pixels", result.stderr)
        self.gconv("-i", "-", "-f", "identity", "-o", "out.ppm", status=1, stdin=data)
        self.assertFalse((self.folder / "out.ppm").exists())

    def test_rubbish_behind_is_told(self):
        for data in (pnm(self.frames[0]), self.data):
            (self.folder / "bad.ppm").write_bytes(data + b"rubbish")
            for source, stdin in (("bad.ppm", None), ("-", data + b"rubbish")):
                result = self.gconv("-i", source, "-f", "identity", "-o", "out/", stdin=stdin)
                self.assertIn("what follows its last image is no image", result.stderr)

    @needs("libwebp")
    def test_what_lies_behind_one_image(self):
        """np.save() may be called twice for one file."""
        photo = io.BytesIO()
        Image.fromarray(self.frames[0]).save(photo, "webp")
        array = io.BytesIO()
        numpy.save(array, self.frames[0])
        files = {"a.npy": array.getvalue(), "a.pfm": b"Pf\n2 2\n-1.0\n" + bytes(16), "a.webp": photo.getvalue()}
        for name, data in files.items():
            for behind, word in ((b"", ""), (b"\0\n", ""), (b"rubbish", "what follows its last image is no image"),
                                 (data, "further images follow: only the first is read here")):
                (self.folder / name).write_bytes(data + behind)
                for source, stdin in ((name, None), ("-", data + behind)):
                    result = self.gconv("-i", source, "-f", "identity", "-o", "out.png", stdin=stdin)
                    self.assertEqual((word in result.stderr, result.stderr.count("\n")), (True, bool(word)), f"{name}: {result.stderr}")

    def test_cut(self):
        for cut in range(1, 16):
            data = self.data[:len(self.data) * cut // 16]
            (self.folder / "bad.ppm").write_bytes(data)
            self.gconv("-i", "bad.ppm", "-f", "identity", "-o", "bad/", status=1)
            self.gconv("-i", "-", "-f", "identity", "-o", "bad.ppm.ppm", stdin=data, status=1)
        self.assertEqual(self.files(), ["bad.ppm", "movie.ppm"])

    def test_failures_are_told_by_file_and_image_and_counted(self):
        whole = pnm(self.frames[0]) + pnm(self.frames[1])
        (self.folder / "bad.ppm").write_bytes(whole + b"P6 7 x 255\n")
        for source, name, stdin in (("bad.ppm", "bad.ppm", None), ("-", "standard input", whole + b"P6 7 x 255\n")):
            result = self.gconv("-i", source, "-f", "identity", "-o", "out/", stdin=stdin, status=3 if stdin else 1)
            self.assertTrue(result.stderr.startswith(f"gconv: {name}: image 3: its height"), result.stderr)
        self.assertTrue(result.stderr.endswith("\ngconv: 2 of 3 written\n"), result.stderr)
        result = self.gconv("-i", "-", "-f", "identity", "-o", "one.ppm", stdin=whole[:-9], status=1)
        self.assertEqual(result.stderr.count("\n"), 1)  # one file is one result, whatever number of images it would have

    def test_more_than_names(self):
        for output in (("-o", "one.png"), ("-o", "-"), ("-o", "{stem}.png")):
            result = self.gconv("-i", "-", "-f", "identity", *output, status=1, stdin=self.data)
            self.assertIn("several images came", result.stderr)
            self.assertEqual(self.files(), ["movie.ppm"])
        self.usage_error("{frame}", "-i", "movie.ppm", "-f", "identity", "-o", "out/{stem}.png")

    def test_more_pages_than_names(self):
        numpy.save(self.folder / "stack.npy", numpy.stack([frame[..., 0] for frame in self.frames]))
        before = self.files()
        for output in (("-o", "one.png"), ("-o", "-"), ("-o", "{stem}.png")):
            result = self.gconv("-i", "-", "-f", "identity", *output, status=1, text=False,
                                stdin=(self.folder / "stack.npy").read_bytes())
            self.assertIn("several images came", result.stderr)
            self.assertEqual(result.stderr.count("several images came"), 1)
            self.assertEqual((self.files(), result.stdout), (before, b""))

    def test_losses_of_all_are_told_once(self):
        flat, steep = numpy.full((40, 50), 100, "u1"), numpy.zeros((40, 50), "u1")
        steep[:, :25] = 200
        for data in (b"".join(map(pnm, (flat, steep, flat))), b"".join(map(pnm, (steep, steep)))):
            (self.folder / "steps.pgm").write_bytes(data)
            for source, stdin in (("steps.pgm", None), ("-", data)):
                result = self.gconv("-i", source, "movie.ppm", "-f", "sobel_x", "-o", "out/", stdin=stdin)
                self.assertEqual(result.stderr.count("became black"), 1)
                self.assertIn("clamped to black: 2 images", result.stderr + result.stdout)

    def test_large_ones_by_rows(self):
        frames = [noise(1500, 2500, 3) for _ in range(3)]
        data = b"".join(map(pnm, frames))
        self.gconv("-i", "-", "-f", "identity", "-o", "out/", stdin=data)
        self.assertEqual(self.files("out"), [f"stdin_{i:06}.png" for i in (1, 2, 3)])
        self.check([f"out/stdin_{i:06}.png" for i in (1, 2, 3)], frames)
        self.gconv("-i", "-", "-f", "identity", "-o", "out.ppm", stdin=data, status=0)
        self.assertEqual((self.folder / "out.ppm").read_bytes(), data)
        self.gconv("-i", "-", "-f", "identity", "-o", "one/", stdin=pnm(frames[0]))
        self.assertEqual(self.files("one"), ["stdin.png"])

    def test_memory_is_bounded(self):
        frame = noise(500, 700, 3)
        (self.folder / "long.ppm").write_bytes(pnm(frame) * 300)  # 315 MB
        few = self.peak_bytes("-i", "long.ppm:1", "-f", "identity", "-o", "few.ppm")
        many = self.peak_bytes("-i", "long.ppm", "-f", "identity", "-o", "many.ppm", "--memory", "64M")
        self.assertLess(many, few + (32 << 20))
        self.assertEqual((self.folder / "many.ppm").stat().st_size, (self.folder / "long.ppm").stat().st_size)

    def test_resume(self):
        words = ("-i", "movie.ppm", "-f", "identity", "-o", "out/", "--resume")
        self.gconv(*words)
        (self.folder / "out/movie_05.png").unlink()
        before = self.snapshot()
        self.gconv(*words)
        after = self.snapshot()
        changed = {os.path.basename(name) for name in after if before.get(name) != after[name]}
        self.assertEqual(changed - {"out", ".gconv-manifest"}, {"movie_05.png"})
        self.check(["out/movie_05.png"], [self.frames[4]])

    def test_timings_and_verify(self):
        result = self.gconv("-i", "movie.ppm", "-f", "average", "-o", "out.ppm", "--verify", "--timings=json")
        self.assertIn('"written":1', result.stdout.replace(" ", ""))

    def test_a_bank_on_a_pipe(self):
        numpy.save(self.folder / "bank.npy", RANDOM.random((2, 3, 3, 3)).astype("f4"))
        self.gconv("-i", "movie.ppm", "-f", "bank.npy", "-o", "file.npy")
        self.gconv("-i", "-", "-f", "bank.npy", "-o", "out/", stdin=self.data)
        self.assertEqual(len(self.files("out")), 22)
        self.gconv("-i", "-", "-f", "bank.npy", "-o", "pipe.npy", stdin=self.data)
        self.assertEqual((self.folder / "pipe.npy").read_bytes(), (self.folder / "file.npy").read_bytes())
        self.assertEqual(numpy.load(self.folder / "file.npy").shape, (11, 2, 9, 7))


class Arrays(CommandTest):
    def filtered(self, array, *words):
        numpy.save(self.folder / "in.npy", array)
        result = self.gconv("-i", "in.npy", "-f", "[1]", *words, "-o", "out.npy")
        return numpy.load(self.folder / "out.npy"), result.stderr

    def test_types(self):
        kept = {"u1": "u1", "u2": "u2", "b1": "u1"}
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1"):
            for order in "<>":
                for shape in ((9, 6), (9, 7, 3), (5, 9, 7), (2, 3, 4, 5)):
                    low = -100 if kind[0] in "if" else 0
                    array = RANDOM.integers(low, 100, shape).astype(order + kind)
                    expected = array.astype(kept.get(kind, "f4")) * (255 if kind == "b1" else 1)
                    for stored in (array, numpy.asfortranarray(array)):
                        got, errors = self.filtered(stored)
                        self.assertEqual((got.dtype, got.shape, errors), (expected.dtype, shape, ""), (order, kind))
                        numpy.testing.assert_array_equal(got, expected)

    def test_numbers_that_float32_has_not(self):
        for kind in ("i4", "u4", "i8", "u8"):
            for number, told in ((2 ** 24, False), (2 ** 24 + 1, True), (2 ** 30, False)):
                got, errors = self.filtered(numpy.full((4, 5), number, kind))
                self.assertEqual("beyond 2^24" in errors, told)
                self.assertEqual(got[0, 0], numpy.float32(number))
        self.assertIn("beyond 2^24", self.filtered(numpy.full((4, 5), -2 ** 40 - 1, "i8"))[1])

    def test_stack_to_files(self):
        stack = noise(12, 10, 11)
        numpy.save(self.folder / "stack.npy", stack)
        self.gconv("-i", "stack.npy", "-f", "identity", "-o", "out/")
        for i in range(12):
            self.assert_pixels(f"out/stack_{i + 1:02}.png", stack[i])
        self.gconv("-i", "stack.npy:4", "-f", "identity", "-o", "out.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy"), stack[3])

    def test_int16_of_rescaled_samples(self):
        """PNM of maxval 100 has levels up to 255 here, as in every other type."""
        (self.folder / "m.pgm").write_bytes(b"P5 3 1 100\n" + bytes((0, 50, 100)))
        self.gconv("-i", "m.pgm", "-f", "[1]", "--depth", "int16", "-o", "out.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy"), [[0, 128, 255]])

    def test_int16(self):
        pixels = self.photo("photo.png", 60, 50)
        self.gconv("-i", "photo.png", "-f", "sobel_x", "--depth", "int16", "-o", "out.npy")
        got = numpy.load(self.folder / "out.npy")
        wide = numpy.pad(pixels.astype(int), ((1, 1), (1, 1), (0, 0)))
        difference = wide[:, 2:] - wide[:, :-2]
        self.assertEqual(got.dtype, numpy.int16)
        numpy.testing.assert_array_equal(got, difference[:-2] + 2 * difference[1:-1] + difference[2:])
        self.gconv("-i", "photo.png", "-f", "[.5 .5 0]", "--depth", "int16", "-o", "out.npy")
        halves = (wide[1:-1, 1:-1] + wide[1:-1, :-2]) / 2
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out.npy"), numpy.rint(halves))
        numbers = numpy.array([[0.5, 1.5, -2.5, 32767.4, 32767.6, -32768.4, 1e9, -numpy.inf, numpy.nan]], "f4")
        got, errors = self.filtered(numbers, "--depth", "int16")
        numpy.testing.assert_array_equal(got, [[0, 2, -2, 32767, 32767, -32768, 32767, -32768, 0]])
        self.assertIn("3 numbers below -32768 or above 32767", errors)
        self.assertIn("not a number (NaN), and became 0", errors)

    def test_all_too_small(self):
        for depth, number in (("int16", 0.5), ("float16", 1e-9)):
            got, errors = self.filtered(numpy.full((3, 4), number, "f4"), "--depth", depth)
            numpy.testing.assert_array_equal(got, numpy.zeros((3, 4)))
            self.assertIn("became 0: --scale, or --depth float, keeps them", errors)

    def test_float16(self):
        halves = numpy.arange(65536, dtype="u2").view("f2")
        exact = halves[numpy.isfinite(halves)].astype("f4")
        middle = (exact[:-1] + exact[1:]) / 2
        numbers = numpy.concatenate([exact, middle, numpy.nextafter(middle, numpy.float32(0)), [65519.9, 65520, numpy.inf]])
        got, errors = self.filtered(numbers.astype("f4")[None], "--depth", "float16")
        with numpy.errstate(over="ignore"):
            numpy.testing.assert_array_equal(got, numbers.astype("f4").astype("f2")[None])
        self.assertEqual(got.dtype, numpy.float16)
        self.assertIn("1 numbers beyond 65504", errors)

    def test_formats_without_them(self):
        self.photo("photo.png")
        for depth in ("int16", "float16"):
            self.usage_error("--format npy", "-i", "photo.png", "-f", "identity", "--depth", depth, "-o", "out.png")


class Archives(CommandTest):
    def setUp(self):
        super().setUp()
        self.image, self.stack = noise(20, 30, 3), RANDOM.random((4, 12, 13)).astype("f4")
        self.arrays = {"images": self.image, "stack": self.stack, "a.b/c": self.image[..., 0],
                       "kernel": numpy.asfortranarray(RANDOM.random((3, 5))), "bank": RANDOM.random((2, 3, 3, 3))}
        numpy.savez(self.folder / "stored.npz", **self.arrays)
        numpy.savez_compressed(self.folder / "deflated.npz", **self.arrays)
        numpy.savez(self.folder / "one.npz", self.image)

    def load(self, source):
        self.gconv("-i", source, "-f", "identity", "-o", "out.npy")
        return numpy.load(self.folder / "out.npy")

    def test_members(self):
        for archive in ("stored.npz", "deflated.npz"):
            for name in ("images", "images.npy", "stack", "a.b/c"):
                numpy.testing.assert_array_equal(self.load(f"{archive}:{name}"), self.arrays[name.removesuffix(".npy")])
        numpy.testing.assert_array_equal(self.load("one.npz"), self.image)
        self.gconv("-i", "stored.npz:images", "stored.npz:a.b/c", "deflated.npz:stack", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["deflated_stack_1.png", "deflated_stack_2.png", "deflated_stack_3.png",
                                             "deflated_stack_4.png", "stored_a.b_c.png", "stored_images.png"])
        self.assertIn("30 x 20", self.gconv("info", "stored.npz:images").stdout)

    def test_names_that_are_missing(self):
        for source, words in (("stored.npz", "say which, as 'stored.npz:NAME'; there are images, stack, a.b/c, kernel, bank"),
                              ("stored.npz:imags", "did you mean 'images'?"), ("stored.npz:", "no array called ''")):
            result = self.gconv("-i", source, "-f", "identity", "-o", "out/", status=1)
            self.assertIn(words, result.stderr)
        self.usage_error("cannot find this input", "-i", "nosuch.npz:images", "-f", "identity", "-o", "out/")

    def test_filters_and_banks(self):
        self.gconv("-i", "one.npz", "-f", "deflated.npz:kernel", "-o", "{filter}.npy")
        numpy.save(self.folder / "plain.npy", self.arrays["kernel"])
        self.gconv("-i", "one.npz", "-f", "plain.npy", "-o", "expected.npy")
        self.assertEqual((self.folder / "kernel.npy").read_bytes(), (self.folder / "expected.npy").read_bytes())
        numpy.save(self.folder / "plain.npy", self.arrays["bank"])
        self.gconv("-i", "one.npz", "-f", "stored.npz:bank", "-o", "maps.npy")
        self.gconv("-i", "one.npz", "-f", "plain.npy", "-o", "expected.npy")
        self.assertEqual((self.folder / "maps.npy").read_bytes(), (self.folder / "expected.npy").read_bytes())
        self.assertIn("3 x 5", self.gconv("bank", "info", "stored.npz").stdout)

    def test_zip64(self):
        with zipfile.ZipFile(self.folder / "large.npz", "w") as archive:
            with archive.open("images.npy", "w", force_zip64=True) as member:
                numpy.save(member, self.image)
        numpy.testing.assert_array_equal(self.load("large.npz"), self.image)

    def bad(self, data, words, name="bad.npz", member=":images"):
        (self.folder / name).write_bytes(data)
        result = self.gconv("-i", name + member, "-f", "identity", "-o", "bad.npy", status=1)
        self.assertIn(words, result.stderr)
        self.assertFalse((self.folder / "bad.npy").exists())

    def test_damaged(self):
        stored, deflated = ((self.folder / name).read_bytes() for name in ("stored.npz", "deflated.npz"))
        at = stored.index(self.image.tobytes()[:40])
        self.bad(stored[:at + 5] + bytes([stored[at + 5] ^ 1]) + stored[at + 6:], "checksum is wrong")
        for data in (stored, deflated):
            for cut in range(1, 16):
                self.bad(data[:len(data) * cut // 16], "not a whole zip archive")
        for position in range(len(deflated) - 250, len(deflated), 7):  # the directory: nothing may crash
            (self.folder / "bad.npz").write_bytes(deflated[:position] + b"\xff" + deflated[position + 1:])
            done = subprocess.run([GCONV, "-i", "bad.npz:images", "-f", "identity", "-o", "any.npy"], cwd=self.folder,
                                  env=self.environment(), stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertIn(done.returncode, (0, 1))

    def test_bombs_and_strangers(self):
        for method, words in ((zipfile.ZIP_BZIP2, "method 12"), (zipfile.ZIP_LZMA, "method 14")):
            with zipfile.ZipFile(self.folder / "bad.npz", "w", compression=method) as archive:
                archive.write(self.folder / "one.npz", "images.npy")
            self.bad((self.folder / "bad.npz").read_bytes(), words)
        with zipfile.ZipFile(self.folder / "bad.zip", "w") as archive:
            archive.writestr("text.txt", "text")
        self.bad((self.folder / "bad.zip").read_bytes(), "has no arrays", member="")
        header = b"\x93NUMPY\1\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (20000, 20000), }"
        with zipfile.ZipFile(self.folder / "bad.npz", "w", compression=zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("images.npy", header.ljust(127) + b"\n" + bytes(1000))
        self.bad((self.folder / "bad.npz").read_bytes(), "promises 400000000 bytes")

    def test_pipe(self):
        result = self.gconv("-i", "-", "-f", "identity", "-o", "out.npy", status=1,
                            stdin=(self.folder / "one.npz").read_bytes())
        self.assertIn("cannot be read from a pipe", result.stderr)


if __name__ == "__main__":
    unittest.main()
