# SPDX-License-Identifier: MIT
"""Banks on images that go by bands of rows, and the memory that banks take."""
import json
import os
import struct
import unittest
import zlib

import numpy as np
from bank_helper import BankTest, correlate
from PIL import Image


class Bands(BankTest):
    """Images that go by bands of rows: --memory leaves too little for all of their maps."""

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(6)
        small = random.integers(0, 256, (50, 40, 3)).repeat(24, 0).repeat(24, 1)
        self.large = (small + random.integers(-9, 10, small.shape)).clip(0, 255).astype("u1")  # 1200 x 960
        Image.fromarray(self.large).save(self.folder / "large.png")
        self.second = random.normal(size=(4, 5, 5, 5)).astype("f4")
        self.write("second.txt", self.second, np.ones(4), [None] * 4)

    def same(self, name, *words, image="large.png", memory="30M", banks=("-f", "bank.txt"), threads=2):
        """The same files, with and without bands; which --explain tells."""
        for folder in "whole", "bands":
            (self.folder / folder).mkdir(exist_ok=True)
        for folder, extra in ("whole", []), ("bands", ["--memory", memory]):
            done = self.gconv("-i", image, *banks, "-o", f"{folder}/{name}", "-a", "direct", "--explain", "--threads",
                              threads, *words, *extra)
            self.assertEqual("by rows" in done.stderr, folder == "bands", done.stderr)
        files = self.files("whole")
        self.assertEqual(files, self.files("bands"))
        for file in files:
            self.assertEqual((self.folder / "whole" / file).read_bytes(), (self.folder / "bands" / file).read_bytes(), file)

    def test_array(self):
        self.same("{stem}.npy")
        self.assert_close(self.load("bands/large.npy")[0, :, :40, :50],
                          correlate(self.large.transpose(2, 0, 1)[:, :44, :54] / 255, self.w, self.b)[:, :40, :50])

    def test_array_with_the_channels_last(self):
        self.same("{stem}.npy", "--layout", "nhwc")

    def test_pictures(self):
        self.same("{stem}_{filter}.png")

    def test_one_thread(self):
        self.same("{stem}_{filter}.png", threads=1)

    def test_more_pictures_than_are_written_at_a_time(self):
        self.write("many.txt", np.random.default_rng(1).normal(size=(12, 3, 1, 1)), np.zeros(12), [None] * 12)
        self.same("{stem}_{filter}.png", banks=("-f", "many.txt"), memory="26M")

    def test_what_can_be_read_once_only(self):
        """A pipe, or one image of several: pictures take several passes, so the image is kept."""
        frames = self.large, self.large[::-1]
        parts = [b"P6 960 1200 255\n" + np.ascontiguousarray(frame).tobytes() for frame in frames]
        for name, data in (("first.ppm", parts[0]), ("second.ppm", parts[1]), ("two.ppm", b"".join(parts))):
            (self.folder / name).write_bytes(data)
        words = ("-f", "bank.txt", "--memory", "40M", "-q", "--combine", "mosaic", "-o")
        for i, name in enumerate(("first.ppm", "second.ppm")):
            self.gconv("-i", name, *words, f"file{i + 1}.png")
        self.gconv("-i", "-", *words, "pipe.png", stdin=parts[0])
        self.gconv("-i", "two.ppm", *words, "frame{frame}.png")
        for got, want in (("pipe", "file1"), ("frame1", "file1"), ("frame2", "file2")):
            self.assertEqual((self.folder / f"{got}.png").read_bytes(), (self.folder / f"{want}.png").read_bytes(), got)
        refused = self.gconv("-i", "-", "-f", "bank.txt", "--memory", "10M", "-o", "x/{filter}.png", stdin=parts[0], status=1)
        self.assertIn("it is read several times, and this is a pipe", refused.stderr)

    def test_warnings_come_once(self):
        """However often the image is read."""
        data = (self.folder / "large.png").read_bytes()
        gamma = b"gAMA" + struct.pack(">I", 100000)
        (self.folder / "large.png").write_bytes(data[:33] + struct.pack(">I", 4) + gamma + struct.pack(">I", zlib.crc32(gamma)) + data[33:])
        said = self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "x.png", "--combine", "mosaic", "--explain", "--memory", "30M").stderr
        self.assertIn("by rows", said)
        self.assertEqual(said.count("its gamma"), 1, said)

    def test_mosaic(self):
        self.same("{stem}.png", "--combine", "mosaic")

    def test_combined(self):
        for combine in "max", "magnitude":
            self.same(f"{combine}.png", "--combine", combine)
        self.same("plain.png", "--combine", "sum", "--range", "abs", "--depth", "16")
        self.same("minmax.png", "--combine", "sum", "--range", "minmax", "--scale", "-1")

    def test_labels(self):
        self.same("{stem}.png", "--combine", "argmax")

    def test_each_channel_by_itself(self):
        self.same("{stem}_{filter}.png", banks=("-f", "sobel_x", "-f", "prewitt_x", "--batch", "1"))

    def test_chain(self):
        self.same("{stem}.npy", banks=("-f", "bank.txt", "--stride", "2", "--padding", "3", "--activation", "sigmoid", "--then",
                                       "-f", "second.txt", "--dilation", "3", "--padding", "full"), memory="20M")

    def test_turned_photo_and_array_are_read_whole(self):
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(self.large).save(self.folder / "turned.jpg", exif=exif)
        self.same("turned.npy", image="turned.jpg")
        np.save(self.folder / "planes.npy", self.large.transpose(2, 0, 1)[None])
        self.same("planes.npy", image="planes.npy")
        np.save(self.folder / "last.npy", self.large[None])
        self.same("last.npy", "--layout", "nhwc", image="last.npy", memory="40M")

    def test_one_array_of_several(self):
        Image.fromarray(self.large[::-1]).save(self.folder / "other.png")
        for name, extra in ("whole.npy", []), ("bands.npy", ["--memory", "30M"]):
            self.gconv("-i", "large.png", "-i", "other.png", "-f", "bank.txt", "-o", name, *extra)
        np.testing.assert_array_equal(self.load("whole.npy"), self.load("bands.npy"))

    def test_too_little_memory(self):
        error = self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "y.npy", "--memory", "1M", status=1).stderr
        self.assertRegex(error, r"large.png: takes about \d+ MB of memory, and --memory allows 1 MB: raise it")
        error = self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "y.npy", "--memory", "30M", "--verify", status=1).stderr
        self.assertIn("--verify compares whole images", error)
        error = self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "-", "--format", "npy", "--memory", "30M", status=1).stderr
        self.assertIn("standard output", error)
        self.assertEqual([name for name in self.files(".") if name.startswith("y")], [])

    def test_batches_are_of_fewer_images(self):
        for i in range(6):
            self.photo(f"in/{i}.png", 200, 150, seed=i)
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "a/", "--format", "npy", "--batch", "6", "-a", "direct")
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "b/", "--format", "npy", "--batch", "6", "-a", "direct", "--memory", "13M")
        for i in range(6):
            np.testing.assert_array_equal(self.load(f"a/{i}.npy"), self.load(f"b/{i}.npy"))

    def test_truncated_image_leaves_nothing(self):
        data = (self.folder / "large.png").read_bytes()
        (self.folder / "cut.png").write_bytes(data[:len(data) * 2 // 3])
        for words in ["-o", "y.npy"], ["-o", "maps/"], ["-o", "y.png", "--combine", "argmax"]:
            error = self.gconv("-i", "cut.png", "-f", "bank.txt", "--memory", "30M", *words, status=1).stderr
            self.assertIn("cut.png", error)
        self.assertFalse((self.folder / "y.npy").exists() or (self.folder / "y.png").exists())
        self.assertEqual(self.files("maps") if (self.folder / "maps").exists() else [], [])

    def test_one_result_that_cannot_be_written(self):
        (self.folder / "maps").mkdir()
        (self.folder / "maps/large_red.png").mkdir()
        error = self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "maps/", "--memory", "30M", status=2).stderr
        self.assertIn("large_red.png", error)

    def test_results_that_cannot_be_pictures_fail(self):
        np.save(self.folder / "five.npy", np.zeros((1, 5, 1000, 1000), np.float32))
        words = ("-f", "sobel_x", "-f", "sobel_y", "--then", "-f", "sobel_x", "-f", "sobel_y", "--activation", "none")
        result = self.gconv("-i", "five.npy", *words, "-o", "maps/", "--memory", "120M", "--timings=json", status=1)
        summary = json.loads(result.stdout.splitlines()[-1])["summary"]
        self.assertEqual((summary["results_failed"], summary["results_passed_over"]), (2, 0))

    def test_existing_results_are_passed_over(self):
        self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "maps/", "--memory", "30M")
        red = self.folder / "maps/large_red.png"
        red.write_bytes(b"mine")
        (self.folder / "maps/large_2.png").unlink()
        self.gconv("-i", "large.png", "-f", "bank.txt", "-o", "maps/", "--memory", "30M", "--skip-existing")
        self.assertEqual(red.read_bytes(), b"mine")
        self.assertEqual(len(self.files("maps")), 5)


@unittest.skipIf("GCONV_SANITIZED" in os.environ, "sanitizers take memory of their own")
class Memory(BankTest):
    """What the whole process takes stays below --memory and 15% more: 9 MB of it are for the program itself."""

    def check(self, megabytes, *words):
        megabytes += 9
        peak = self.peak_bytes(*words, "--memory", f"{megabytes}M", "-d", "cpu", "--threads", "2")
        self.assertLess(peak, 1.15 * megabytes * 1e6, words)

    def test_the_next_batch_waits_where_there_is_no_room(self):
        """70 MB of pixels, which would be read while the first image takes 138 of 150."""
        self.write("seven.txt", np.random.default_rng(1).normal(size=(5, 3, 7, 7)), np.zeros(5), [None] * 5)
        self.photo("in/1.ppm", 3000, 2750)
        np.save(self.folder / "in/2.npy", np.zeros((1, 3, 3000, 1950), "f4"))
        self.check(150, "-i", "in", "-f", "seven.txt", "--stride", "8", "-o", "out/", "--format", "npy", "-a", "reference")
        self.assertEqual(self.files("out"), ["1.npy", "2.npy"])

    def test_verification(self):
        for i in range(4):
            self.photo(f"in/{i}.ppm", 600, 500, seed=i)
        self.check(100, "-i", "in", "-f", "bank.txt", "--batch", "4", "-o", "out/", "--combine", "max", "--verify")
        self.assertEqual(len(self.files("out")), 4)

    def test_progressive_photos(self):
        for i in range(4):
            Image.fromarray(np.zeros((1500, 2000, 3), "u1") + 9 * i).save(self.folder / f"{i}.jpg", progressive=True, subsampling=0)
        self.check(118, "-i", "*.jpg", "-f", "bank.txt", "--stride", "4", "-o", "out/", "--format", "npy", "--batch", "4")

    def test_surveys_of_many_pictures(self):
        self.write("many.txt", np.random.default_rng(1).normal(size=(400, 3, 1, 1)), np.zeros(400), [None] * 400)
        self.photo("b.png", 240, 200)
        words = ("-i", "b.png", "-f", "many.txt", "-o", "m.png", "--combine", "mosaic")
        self.assertRegex(self.gconv(*words, "--memory", "60M", status=1).stderr, r"b.png: takes about \d+ MB of memory")
        self.check(85, *words)


if __name__ == "__main__":
    unittest.main()
