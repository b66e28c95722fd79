# SPDX-License-Identifier: MIT
"""Time and memory are at most linear in the bytes of an input, or the input is refused: each of the worst files of scale_files.py
is read in one size and in four times that, and the second takes no more than some times what the first takes, and no more than a
stated time and memory a byte.

tests/run --all tries larger files, too."""
import functools
import os
import resource
import subprocess
import unittest

import scale_files
from helper import GCONV, CommandTest, needs

LONG = "GCONV_LONG_TESTS" in os.environ
SIZE = 1 << 20 if LONG else 1 << 16  # bytes of the smaller file

# What a file of four times the size may take: RATIO times as long, and SLACK seconds for what varies between runs. Of any file:
# so many seconds, and so many more a byte; so much memory, and so many bytes a byte.
RATIO, SLACK = 6, 0.3
SECONDS, SECONDS_A_BYTE = 0.5, 3e-6
BYTES, BYTES_A_BYTE = 300 << 20, 2600  # of the shortest filters, 6 bytes each, direct holds 12 KB of sums each


class Scale(CommandTest):
    def cost(self, *words):
        """Exit status, seconds of processors, and bytes at most, those of this process included. It is stopped after 20 seconds."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        process = subprocess.Popen([GCONV, *words], cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=limit)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024

    def check(self, make, name, *words, size=SIZE, good=None):
        """Runs gconv on files of both sizes. good: whether it must succeed; None: either way."""
        with self.subTest(str(make)):
            costs = []
            for times in (1, 4):
                data = make(times * size)
                (self.folder / name).write_bytes(data)
                costs.append((*self.cost(*words), len(data)))
            (_, first, _, _), (status, seconds, memory, length) = costs
            told = f"{words}: {first:.2f} s, then {seconds:.2f} s and {memory >> 20} MiB for {length} bytes"
            if os.environ.get("GCONV_TELL"):
                print(make, told)
            if good is not None:
                self.assertEqual(status == 0, good, told)
            self.assertIn(status, (0, 1, 2), told)
            self.assertLessEqual(seconds, RATIO * first + SLACK, told)
            self.assertLessEqual(seconds, SECONDS + SECONDS_A_BYTE * length, told)
            self.assertLessEqual(memory, BYTES + BYTES_A_BYTE * length, told)

    def test_texts_of_filters(self):
        for make, good in ((scale_files.transpositions, True), (scale_files.long_array_of_transpositions, None),
                           (scale_files.products, False), (scale_files.parentheses, False), (scale_files.spaces, True),
                           (scale_files.one_row, True), (scale_files.long_number, False), (scale_files.opencv_promise, False),
                           (scale_files.vips_promise, False)):
            self.check(make, "f.txt", "info", "f.txt", good=good)
        self.check(scale_files.many_kernels, "f.txt", "make", "f.txt", "-o", "g.txt", good=True)
        self.check(scale_files.opencv_matrices, "f.txt", "make", "f.txt", "-o", "g.txt", good=True)

    def test_many_filters(self):
        (self.folder / "a.pgm").write_bytes(b"P5 1 1 255\n\0")
        self.check(scale_files.many_kernels, "f.txt", "-i", "a.pgm", "-f", "f.txt", "-o", "out/", "--dry-run", size=SIZE // 8)
        self.check(scale_files.many_kernels, "f.txt", "-i", "a.pgm", "-f", "f.txt", "-o", "o.pgm", "--combine", "sum", "--threads", "1",
                   size=SIZE // 8)
        self.check(scale_files.npy_filters, "f.npy", "make", "f.npy", "-o", "g.txt", size=16384, good=True)

    def test_rank(self):
        for times in (1, 4):
            side = scale_files.integer_matrix(times * SIZE).count(b"\n") + 1
            (self.folder / f"{times}.pgm").write_bytes(b"P5 %d %d 255\n" % (side, side) + b"\1" * side * side)
        costs = []
        for times in (1, 4):
            (self.folder / "f.txt").write_bytes(scale_files.integer_matrix(times * SIZE))
            costs.append(self.cost("-i", f"{times}.pgm", "-f", "f.txt", "-o", "o.pgm", "--padding", "valid"))
        self.assertEqual([status for status, _, _ in costs], [0, 0])
        self.assertLessEqual(costs[1][1], SECONDS + SECONDS_A_BYTE * 4 * SIZE, costs)

    def test_banks(self):
        for make, name, good in ((scale_files.onnx_long_name, "b.onnx", False), (scale_files.onnx_constants, "b.onnx", True),
                                 (scale_files.onnx_nodes_and_inputs, "b.onnx", True), (scale_files.onnx_nameless, "b.onnx", True),
                                 (scale_files.onnx_shared, "b.onnx", None),
                                 (scale_files.safetensors_tensors, "b.safetensors", True),
                                 (scale_files.safetensors_depth, "b.safetensors", False),
                                 (scale_files.safetensors_lists, "b.safetensors", False),
                                 (scale_files.npz_members, "b.npz", True), (scale_files.npz_overlap, "b.npz", False),
                                 (scale_files.text_bank, "b.txt", True)):
            self.check(make, name, "bank", "info", name, "--json", good=good)
        self.check(scale_files.npy_header, "b.npy", "bank", "info", "b.npy")

    def test_files_beside_a_model(self):
        """They count by their size, each once."""
        for bytes_, nodes, entries, good in ((4 << 20, 60, 1, True), (64 << 20, 200, 1, False), (4, 3000, 5000, False)):
            with open(self.folder / "w.bin", "wb") as file:
                file.truncate(bytes_)
            (self.folder / "m.onnx").write_bytes(scale_files.onnx_external(nodes, bytes_ // 4, entries))
            status, seconds, _ = self.cost("bank", "info", "m.onnx", "--json")
            self.assertEqual((status == 0, status), (good, 0 if good else 1))
            self.assertLess(seconds, 2)

    def test_images(self):
        for make, name, good in ((scale_files.jpeg_comments, "a.jpg", True), (scale_files.png_comments, "a.png", True),
                                 (scale_files.png_late_comments, "a.png", True), (scale_files.png_xmp, "a.png", True),
                                 (scale_files.png_exif_overlap, "a.png", True), (scale_files.png_exif_resolution, "a.png", True),
                                 (scale_files.pnm_images, "a.pgm", True), (scale_files.pnm_maxvals, "a.pgm", None),
                                 (scale_files.pnm_comments, "a.pgm", True), (scale_files.pnm_spaces, "a.pgm", True),
                                 (scale_files.pam_lines, "a.pam", False), (scale_files.pfm_spaces, "a.pfm", True),
                                 (scale_files.fits_cards, "a.fits", True), (scale_files.radiance_lines, "a.hdr", True),
                                 (scale_files.nifti_gap, "a.nii", True), (scale_files.bmp_gap, "a.bmp", True)):
            self.check(make, name, "-i", name, "-f", "identity", "-o", "o.npy", good=good)
        self.check(scale_files.png_inflated_comments, "a.png", "-i", "a.png", "-f", "identity", "-o", "o.png", size=SIZE // 16)

    @needs("OpenEXR")
    def test_exr(self):
        for make, good in ((scale_files.exr_attributes, True), (scale_files.exr_comments, True), (scale_files.exr_channels, False)):
            self.check(make, "a.exr", "-i", "a.exr", "-f", "identity", "-o", "o.npy", good=good)

    @needs("libheif", "libjxl")
    def test_boxes(self):
        for kind, name in (("heif", "rgb8"), ("jxl", "rgb8")):
            for box in (0, 4000):
                self.check(functools.partial(scale_files.padded, kind, name, box), f"a.{kind}", "-i", f"a.{kind}", "-f", "identity", "-o", "o.npy", good=True)

    @needs("libtiff")
    def test_tiff(self):
        for make, good in ((scale_files.tiff_pages, True), (scale_files.tiff_loop, False), (scale_files.tiff_shared_text, None),
                           (scale_files.tiff_shared_lists, None), (scale_files.tiff_many_strips, False),
                           (scale_files.tiff_shared_bytes, None), (scale_files.tiff_unknown_tags, None)):
            self.check(make, "a.tif", "-i", "a.tif", "-f", "identity", "-o", "o.npy", good=good)

    @needs("libwebp")
    def test_files_of_scanners(self):
        """Many pages with private tags, and many images of different maxvals, are no attack."""
        private = scale_files.entry(51123, 2, 4, int.from_bytes(b"abc\0", "little"))
        (self.folder / "a.tif").write_bytes(scale_files.tiff([scale_files.tiff_page(private)] * 5000))
        self.assertIn("5000 frames", self.gconv("info", "a.tif").stdout)
        images = [b"P5 64 64 %d\n" % (1000 + i) + bytes(2 * 64 * 64) for i in range(70)]
        (self.folder / "a.pgm").write_bytes(b"".join(images))
        self.assertIn("70 frames", self.gconv("info", "a.pgm").stdout)

    def test_animations(self):
        self.check(scale_files.webp_frames, "a.webp", "-i", "a.webp", "-f", "identity", "-o", "o.npy")

    @needs("libtiff", "libwebp")
    def test_limits_have_names(self):
        """What is refused is told with its limit."""
        size = 1 << 16
        (self.folder / "row.txt").write_text("1 " * 20000)
        (self.folder / "column.txt").write_text("1\n" * 20000)
        self.usage_error("more than 64 times as many taps as the filters have now, which is the limit", "bank", "convert", "row.txt", "column.txt", "-o", "b.npy")
        for make, name, fragment, words in (
                (lambda size: b"ones(8192)" + b"/1" * 60, "f.txt", "compute more than 268435456 numbers, which is the limit", ("info",)),
                (scale_files.products, "f.txt", "there are more parentheses, functions and operations than any array needs: the limit is 64", ("info",)),
                (scale_files.onnx_shared, "b.onnx", "the weights of all nodes are more than 64 times as large as the model and the files beside it: that is the limit", ("bank", "info")),
                (scale_files.onnx_long_name, "b.onnx", "has two tensors", ("bank", "info")),
                (scale_files.npz_overlap, "b.npz", "its members are larger together than the archive", ("bank", "info")),
                (scale_files.tiff_shared_bytes, "a.tif", "more than 64 times as large as the file: that is the limit", ("info",)),
                (lambda size: scale_files.tiff_unknown_tags(size, 257), "a.tif", "more than 256 tags that are not known", ("info",)),
                (scale_files.tiff_many_strips, "a.tif", "its header promises 1000000 ", ("info",)),
                (scale_files.pnm_maxvals, "a.pgm", "the maxval changes more than 64 times from one small image to the next", ("info",)),
                (lambda size: scale_files.webp_frames(32 * size), "a.webp", "frames; the limit is 32768: cut it into parts", ("info",)),
                (lambda size: scale_files.tiff_shared_text(4 * size), "a.tif", "its directories share their values so often", ("info",))):
            with self.subTest(fragment):
                (self.folder / name).write_bytes(make(size))
                self.assertIn(fragment, self.gconv(*words, name, status=1).stderr)
        (self.folder / "a.png").write_bytes(scale_files.png_exif_overlap(size))
        said = self.gconv("-i", "a.png", "-f", "identity", "-o", "b.png").stderr
        self.assertIn("its EXIF is damaged and left out: its entries share their bytes over and over", said)
        (self.folder / "a.png").write_bytes(scale_files.png_inflated_comments(size))
        said = self.gconv("-i", "a.png", "-f", "identity", "-o", "b.png").stderr
        self.assertEqual(said.count("comments beyond 1 MiB are left out"), 1)

    def test_folders_that_are_compared(self):
        """Files without a partner of the same name look for one of the same stem."""
        seconds = []
        for count in 1000, 4000:
            for side, end in ("before", "x"), ("after", "y"):
                (self.folder / side).mkdir(exist_ok=True)
                for i in range(count):
                    (self.folder / side / f"{i}{end}.png").touch()
            status, taken, _ = self.cost("compare", "before", "after")
            self.assertEqual(status, 1)
            seconds.append(taken)
        self.assertLessEqual(seconds[1], RATIO * seconds[0] + SLACK)

    @unittest.skipUnless(LONG, "takes seconds: tests/run --all")
    def test_images_of_as_many_shapes(self):
        """Networks take images of one shape together."""
        seconds = []
        for count in 5000, 20000:
            (self.folder / "in").mkdir(exist_ok=True)
            for i in range(count):
                (self.folder / f"in/{i}.pgm").write_bytes(b"P5 %d %d 255\n" % (i % 200 + 1, i // 200 + 1) + bytes((i % 200 + 1) * (i // 200 + 1)))
            self.gconv("bank", "convert", "identity", "-o", "b.npy")
            status, taken, _ = self.cost("-i", "in/*.pgm", "-f", "b.npy", "--threads", "1", "-o", "out/{stem}.npy", "--skip-existing")
            self.assertEqual(status, 0)
            seconds.append(taken)
        self.assertLessEqual(seconds[1], RATIO * seconds[0] + SLACK, seconds)

    def test_manifests(self):
        (self.folder / "a.pgm").write_bytes(b"P5 1 1 255\n\0")
        (self.folder / "out").mkdir()
        self.check(scale_files.manifest, "out/.gconv-manifest", "-i", "a.pgm", "-f", "identity", "-o", "out/", "--resume", good=True)


if __name__ == "__main__":
    if os.environ.get("GCONV_SANITIZED"):
        raise SystemExit(77)
    unittest.main()
