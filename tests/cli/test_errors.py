# SPDX-License-Identifier: MIT
"""Bad images, bad filters, bad places to write: each with its exit status and a message that says what and where. Nothing is
left behind: neither a result nor a temporary file."""
import os
import pty
import resource
import signal
import struct
import subprocess
import tempfile
import unittest
import zlib

import numpy

from helper import GCONV, CommandTest


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class BadImages(CommandTest):
    def fails(self, name, fragment, data=None, *options):
        """The image is refused with exit status 1, its name and the fragment are in the message, and nothing is written."""
        if data is not None:
            (self.folder / name).write_bytes(data)
        before = self.snapshot()
        result = self.gconv("-i", name, "-f", "identity", "-o", "x.png", *options, status=1)
        self.assertTrue(result.stderr.startswith(f"gconv: {name}: "), result.stderr)
        self.assertIn(fragment, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(self.snapshot(), before)
        return result.stderr

    def test_empty(self):
        for name in ("a.png", "a.jpg", "a.npy", "a"):
            self.fails(name, "the file is empty", b"")

    def test_not_an_image(self):
        self.fails("a.png", "not an image of a known format", b"this is a text, whatever its name says\n")
        self.fails("a.jpg", "not an image of a known format", bytes(range(256)))
        self.fails("a.txt", "not an image of a known format", b"1 2 3\n4 5 6\n")

    def truncations(self, name):
        data = (self.folder / name).read_bytes()
        for sixteenth in range(1, 16):
            self.fails(f"cut-{sixteenth}-{name}", "the file ends too early", data[:len(data) * sixteenth // 16])

    def test_truncated_png(self):
        self.photo("a.png", 64, 64)
        self.truncations("a.png")

    def test_truncated_jpeg(self):
        self.photo("a.jpg", 64, 64)
        self.truncations("a.jpg")

    def test_truncated_pnm_and_npy(self):
        pixels = self.photo("a.ppm", 64, 64)
        numpy.save(self.folder / "a.npy", pixels)
        self.truncations("a.ppm")
        self.truncations("a.npy")

    def test_damaged_png(self):
        self.photo("a.png", 64, 64)
        data = bytearray((self.folder / "a.png").read_bytes())
        data[len(data) // 2] ^= 0x55
        self.fails("damaged.png", "damaged PNG", bytes(data))

    def test_zero_size(self):
        header = struct.pack(">IIBBBBB", 0, 5, 8, 2, 0, 0, 0)
        self.fails("zero.png", "damaged PNG", b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IEND", b""))
        self.fails("zero.pgm", "0 x 0 pixels", b"P5\n0 0\n255\n")
        numpy.save(self.folder / "zero.npy", numpy.zeros((0, 5), numpy.uint8))
        self.fails("zero.npy", "dimension 1 of the array is 0")

    def test_bomb(self):
        header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
        bomb = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + \
            png_chunk(b"IEND", b"")
        self.fails("bomb.png", "max-pixels", bomb)
        bomb = b"P5\n2000000000 2000000000\n255\n"
        self.fails("bomb.pgm", "the file ends too early", bomb)
        result = self.gconv("-i", "-", "-f", "identity", "-o", "x.png", stdin=bomb, status=1)
        self.assertIn("max-pixels", result.stderr)

    def test_max_pixels(self):
        self.photo("a.png", 20, 10)
        self.fails("a.png", "max-pixels", None, "--max-pixels", "199")
        self.gconv("-i", "a.png", "-f", "identity", "-o", "x.png", "--max-pixels", "200")

    def test_empty_standard_input(self):
        result = self.gconv("-i", "-", "-f", "identity", "-o", "x.png", stdin=b"", status=1)
        self.assertIn("standard input: ", result.stderr)
        self.assertEqual(self.files(), [])

    def test_unreadable(self):
        self.photo("a.png")
        (self.folder / "a.png").chmod(0)
        self.folder.chmod(0o777)
        result = self.gconv("-i", "a.png", "-f", "identity", "-o", "x.png", status=1, unprivileged=True)
        self.assertIn("a.png: cannot open: Permission denied", result.stderr)
        self.assertEqual(self.files(), ["a.png"])

    def test_write_protected_results_stay(self):
        self.photo("a.png")
        self.folder.chmod(0o777)
        for name, words in (("x.png", ("-i", "a.png", "-f", "identity", "-o", "x.png")), ("x.txt", ("make", "sobel_x", "-o", "x.txt"))):
            path = self.folder / name
            path.write_bytes(b"mine")
            path.chmod(0o444)
            result = self.gconv(*words, status=1, unprivileged=True)
            self.assertIn(f"{name}: cannot be replaced: Permission denied", result.stderr)
            self.assertEqual(path.read_bytes(), b"mine")
        self.gconv("-i", "a.png", "-f", "identity", "-o", "x.png", "--skip-existing", unprivileged=True)

    def test_smaller_than_the_filter_with_valid_padding(self):
        self.photo("a.png", 4, 4)
        result = self.gconv("-i", "a.png", "-f", "average:size=7", "-o", "x.png", "--padding", "valid", status=1)
        self.assertTrue(result.stderr.startswith("gconv: a.png: "), result.stderr)
        self.assertEqual(self.files(), ["a.png"])

    def test_padding_beyond_reason(self):
        self.photo("a.png")
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "--padding", "1000000", status=1)
        self.assertIn("a.png: a padding of 1000000 (height): beyond 2 pixels, the filter sees nothing of the image", result.stderr)
        self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "--padding", "200")

    def test_no_memory(self):
        """Larger than any address space: the allocation fails on every machine, and the text says for what and how much."""
        self.photo("a.png")
        sanitizers = {"ASAN_OPTIONS": "allocator_may_return_null=1", "TSAN_OPTIONS": "allocator_may_return_null=1"}
        words = ("-f", "average:size=3", "--dilation", "100000000", "--padding", "full", "-q")
        result = self.gconv("-i", "a.png", *words, "-o", "x.png", status=1, env=sanitizers)
        errors = [line for line in result.stderr.splitlines() if line.startswith("gconv: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertRegex(errors[0], r"^gconv: a\.png: no memory for .* \([\d.]+ MiB\): fewer --threads or --jobs, or a smaller --padding, need less$")
        self.assertEqual(self.files(), ["a.png"])

    def test_a_stack_that_png_cannot_hold(self):
        self.photo("a.png")
        stack = ("-i", "a.png", "-f", "identity", "-f", "sobel_x", "--combine", "stack")
        for output in ("x.png", "made/"):
            result = self.gconv(*stack, "-o", output, "--timings=json", status=1)
            self.assertIn("gconv: a.png: in the stack, there are 6 channels, png holds 4: write .npy, or use --gray\n", result.stderr)
            self.assertNotIn("kernel_ms", result.stdout)  # it was not filtered
            self.assertEqual(os.listdir(self.folder), ["a.png"])
        self.gconv(*stack, "-o", "x.npy")
        self.assertEqual(numpy.load(self.folder / "x.npy").shape, (1, 6, 13, 17))
        self.gconv(*stack, "-o", "x.png", "--gray")

    def test_gray_is_advised_only_where_it_helps(self):
        self.photo("a.png")
        for words in (["-o", "x.jpg"], ["-o", "x.png", "-f", "sobel_y", "-f", "laplacian", "-f", "average"],
                      ["-o", "x.png", "--gray", "-f", "sobel_y", "-f", "laplacian", "-f", "average"]):
            result = self.gconv("-i", "a.png", "-f", "identity", "-f", "sobel_x", "--combine", "stack", "-q", *words, status=1)
            self.assertRegex(result.stderr, r"^gconv: a\.png: in the stack, there are \d+ channels, .* holds \d: write \.npy\n$")

    def test_alpha_that_jpeg_cannot_hold(self):
        self.photo("a.png", channels=4)
        result = self.gconv("-i", "a.png", "-f", "identity", "-o", "made/x.{stem}.jpg", "--timings=json", status=1)
        self.assertEqual(result.stderr, "gconv: a.png: jpeg has no alpha: write .png instead, or leave it out (--alpha drop)\n")
        self.assertNotIn("kernel_ms", result.stdout)
        self.assertEqual(os.listdir(self.folder), ["a.png"])
        result = self.gconv("-i", "a.png", "-f", "identity", "-o", "x.pfm", status=1)
        self.assertEqual(result.stderr, "gconv: a.png: pfm has no alpha: write .npy instead, or leave it out (--alpha drop)\n")


class BadFilters(CommandTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png")

    def refused(self, fragment, text, name="k.txt", *options):
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.usage_error(fragment, "-i", "a.png", "-f", name, "-o", "x.png", *options).stderr

    def test_ragged(self):
        self.assertIn("k.txt:2:4: ", self.refused("ends after 2 of the 3 numbers expected", "1 2 3\n4 5\n6 7 8\n"))

    def test_words(self):
        self.assertIn("k.txt:2:3: ", self.refused("'x' is not a number", "1 2 3\n4 x 5\n6 7 8\n"))

    def test_not_finite(self):
        for word in ("nan", "inf", "-inf"):
            self.assertIn("k.txt:1:3: ", self.refused("is not finite", f"1 {word} 3\n"))
        self.assertIn("k.txt:1:3: ", self.refused("is too large for float32", "1 1e99 3\n"))

    def test_no_numbers(self):
        for text in ("", "\n\n", "# only a comment\n"):
            self.refused("k.txt: has no numbers", text)

    def test_too_wide(self):
        self.assertIn("wide.txt:1", self.refused("limit", "1 " * 100000 + "\n", "wide.txt"))

    def test_wide(self):
        """Wider than the image by far, but within the limit: a filter like any other."""
        (self.folder / "wide.txt").write_text("0 " * 10000 + "1" + " 0" * 9999 + "\n")
        self.gconv("-i", "a.png", "-f", "wide.txt", "-o", "x.png")
        self.assert_pixels("x.png", self.pixels("a.png"))

    def test_unknown_name(self):
        said = self.usage_error("there is no filter 'soble_x'", "-i", "a.png", "-f", "soble_x", "-o", "x.png").stderr
        self.assertIn("did you mean 'sobel_x'?", said)
        self.usage_error("there is no filter 'no-such-file.txt'", "-i", "a.png", "-f", "no-such-file.txt", "-o", "x.png")

    def test_bad_parameters(self):
        for spec, fragment in (("gaussian:sigma=0", "sigma goes from"), ("gaussian:size=x", "a size is a number"),
                               ("gaussian:nonsense=1", "has no parameter 'nonsense'"),
                               ("gaussian:size=-3", "a size is a number")):
            self.usage_error(fragment, "-i", "a.png", "-f", spec, "-o", "x.png")

    def test_unknown_syntax(self):
        self.refused("no syntax of filters called 'nonsense'", "1 2 3\n", "k.txt", "--filter-format", "nonsense")

    def test_folder_and_unreadable(self):
        (self.folder / "d").mkdir()
        self.usage_error("d: is a folder", "-i", "a.png", "-f", "d", "-o", "x.png")
        (self.folder / "k.txt").write_text("1\n")
        (self.folder / "k.txt").chmod(0)
        self.usage_error("k.txt: cannot open: Permission denied", "-i", "a.png", "-f", "k.txt", "-o", "x.png", unprivileged=True)

    def test_the_filter_is_looked_at_before_the_images(self):
        (self.folder / "bad.png").write_bytes(b"")
        self.usage_error("there is no filter 'nonsense'", "-i", "bad.png", "-f", "nonsense", "-o", "x.png")


class BadOutputs(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = self.photo("a.png", 96, 96)

    def job(self, output, *options):
        return ("-i", "a.png", "-f", "identity", "-o", output, *options)

    def test_missing_folder(self):
        self.usage_error("there is no folder nowhere: make it first", *self.job("nowhere/x.png"))

    def test_file_in_place_of_a_folder(self):
        (self.folder / "file").write_text("")
        self.usage_error("file is not a folder", *self.job("file/x.png"))
        self.usage_error("file is not a folder", *self.job("file/"))
        self.usage_error("file is not a folder", *self.job("file/{stem}.png"))

    def test_folder_in_place_of_a_file(self):
        (self.folder / "out/a.png").mkdir(parents=True)
        self.usage_error("there is a folder of that name", *self.job("out/"))

    def test_read_only_folder(self):
        (self.folder / "locked").mkdir()
        (self.folder / "locked").chmod(0o555)
        for output in ("locked/x.png", "locked/", "locked/new/deeper/", "locked/{stem}.png"):
            self.usage_error("the folder locked: Permission denied", *self.job(output), unprivileged=True)

    def test_full_disk(self):
        place = tempfile.mkdtemp(prefix="gconv-full-")
        self.addCleanup(os.rmdir, place)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=False, capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a small file system here: " + mounted.stderr.decode())
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        self.photo("big.png", 300, 300)
        self.photo("small.png", 20, 20)
        result = self.gconv("-i", "big.png", "-i", "small.png", "-f", "identity", "-o", f"{place}/", "--jobs", "1", status=3)
        self.assertIn("No space left on device", result.stderr)
        self.assertEqual(os.listdir(place), ["small.png"])
        result = self.gconv("-i", "big.png", "-f", "identity", "-o", f"{place}/small.png", status=1)
        self.assertIn("No space left on device", result.stderr)
        self.assertEqual(os.listdir(place), ["small.png"])
        self.assert_pixels(f"{place}/small.png", self.pixels("small.png"))  # the old result is as it was

    def test_long_names_leave_room_for_the_reason(self):
        deep = "/".join(["d" * 250] * 15) + "/x.png"
        self.usage_error(f"{deep}: cannot be written: there is no folder {deep[:-6]}: make it first", *self.job(deep))
        self.usage_error(f"{deep}: cannot find this input: No such file or directory", "-i", deep, "-f", "identity", "-o", "x.png")

    def test_limit_of_file_size(self):
        """As `ulimit -f` sets it: the signal that comes with it would end the program, and leave half a file."""
        self.photo("big.png", 300, 300)
        result = subprocess.run([GCONV, "-i", "big.png", "-i", "a.png", "-f", "identity", "-o", "out/"], cwd=self.folder,
                                env=self.environment(), stderr=subprocess.PIPE, check=False,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(b"big.png: cannot write: File too large", result.stderr)
        self.assertEqual(self.files("out"), ["a.png"])

    def test_names_cannot_command_a_terminal(self):
        (self.folder / "\x1b[2J\x7f.png").write_bytes(b"")
        result = self.gconv("-i", ".", "-f", "identity", "-o", "out/", status=3)
        self.assertIn("gconv: ./?[2J?.png: the file is empty", result.stderr)
        self.assertNotIn("\x1b", result.stderr)

    def test_full_device(self):
        self.assertTrue(os.path.exists("/dev/full"))
        result = self.gconv(*self.job("/dev/full", "--format", "png"), status=1)
        self.assertIn("No space left on device", result.stderr)
        with open("/dev/full", "wb") as full:
            for words in (self.job("-"), ("make", "sobel_x"), ("filters",), ("help",)):
                result = subprocess.run([GCONV, *words], cwd=self.folder, env=self.environment(), stdout=full,
                                        stderr=subprocess.PIPE, check=False)
                self.assertEqual(result.returncode, 1, words)
                self.assertIn(b"No space left on device", result.stderr)
        result = self.gconv("make", "sobel_x", "-o", "/dev/full", status=1)
        self.assertIn("/dev/full: cannot write: No space left on device", result.stderr)

    def test_null_device_takes_all(self):
        self.gconv(*self.job("/dev/null", "--format", "png"))
        self.gconv(*self.job("/dev/null", "--format", "png", "--no-clobber"))
        self.assertEqual(self.files(), ["a.png"])

    def test_standard_output(self):
        data = self.gconv(*self.job("-"), text=False).stdout
        self.assertEqual(data[1:4], b"PNG")
        (self.folder / "x.png").write_bytes(data)
        self.assert_pixels("x.png", self.source)
        self.assertEqual(self.gconv(*self.job("-", "--format", "ppm"), text=False).stdout[:2], b"P6")
        self.usage_error("-: is one file, but there are 2 results", *self.job("-", "-f", "sobel_x"))

    def test_standard_input(self):
        data = (self.folder / "a.png").read_bytes()
        self.gconv("-i", "-", "-f", "identity", "-o", "out/", stdin=data)
        self.assert_pixels("out/stdin.png", self.source)

    def test_closed_pipe(self):
        read, write = os.pipe()
        os.close(read)
        result = subprocess.run([GCONV, *self.job("-")], cwd=self.folder, env=self.environment(), stdout=write,
                                stderr=subprocess.PIPE, check=False)
        os.close(write)
        self.assertEqual((result.returncode, result.stderr), (-signal.SIGPIPE, b""))

    def test_no_image_to_a_terminal(self):
        master, slave = pty.openpty()
        result = subprocess.run([GCONV, *self.job("-")], cwd=self.folder, env=self.environment(), stdout=slave,
                                stderr=subprocess.PIPE, check=False)
        os.close(slave)
        os.close(master)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"an image is not written to a terminal", result.stderr)


class BadDevices(CommandTest):
    def test_device_that_cannot_be_used(self):
        self.photo("a.png")
        result = self.gconv("-i", "a.png", "-f", "identity", "-o", "x.png", "-d", "cuda:9999", status=1)
        self.assertGreater(len(result.stderr), len("gconv: "))
        self.assertEqual(self.files(), ["a.png"])

    def test_algorithm_switched_off_that_does_not_exist(self):
        self.photo("a.png")
        self.usage_error("--without direct,dirct: there is no algorithm 'dirct'", "-i", "a.png", "-f", "identity", "-o", "x.png",
                         "--without", "direct,dirct")

    def test_decoders_and_several_gpus(self):
        self.photo("in.png")
        words = ("-i", "in.png", "-f", "sobel_x", "-o", "out.png")
        self.usage_error("--decode gpu: the device is the CPU: use -d cuda", *words, "--decode", "gpu", "-d", "cpu")
        self.usage_error("--decode", *words, "--decode", "tpu")
        for device in ("cuda:", "cuda:0,", "cuda:,1", "cuda:0,0", "cuda:0,1,0", "cuda:al", "cuda:alls", "cuda:-1", "cuda:0:1", "cuda:99999999999"):
            self.usage_error("cuda takes the number of a GPU", *words, "-d", device)
        bank = ("-i", "in.png", "-f", "sobel_x", "-o", "out/", "--mean", "0.5")
        self.usage_error("banks are applied to what the CPU decodes", *bank, "--decode", "gpu", "-d", "cuda")
        if not any(line.startswith("cuda:0") for line in self.gconv("devices").stdout.splitlines()):
            for more in (("--decode", "gpu"), ("-d", "cuda:all"), ("-d", "cuda:0,1")):
                self.gconv(*words, *more, status=1, env={"GCONV_DEVICE": "auto"})
                self.assertEqual(self.files(), ["in.png"])

    def test_algorithm_of_another_device(self):
        self.photo("a.png")
        names = [line.split()[:2] for line in self.gconv("algorithms").stdout.split("\n\n")[0].splitlines()]
        self.assertIn(["cpu", "reference"], names)
        for name in {name for device, name in names if device == "cuda"} - {name for device, name in names if device == "cpu"}:
            self.usage_error("the device cpu: see gconv algorithms", "-i", "a.png", "-f", "identity", "-o", "x.png", "-d", "cpu", "-a", name)
        for name in sorted(name for device, name in names if device == "cpu" and name != "box"):
            self.gconv("-i", "a.png", "-f", "identity", "-o", f"{name}.png", "-a", name)
            self.assert_pixels(f"{name}.png", self.pixels("a.png"))


if __name__ == "__main__":
    unittest.main()
