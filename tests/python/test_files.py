# SPDX-License-Identifier: MIT
"""Files: read(), write(), run(), networks."""
import copy
import io
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

from helper import draw_image, gconv, np

PHOTO = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"]) / "images" / "coffee.jpg"


class Folder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.random = np.random.default_rng(1)


class Numbers(Folder):
    def test_stats_are_those_of_numpy(self):
        image = draw_image(self.random, (40, 50, 3), np.uint8)
        gconv.write(self.folder / "a.png", image)
        for given in (image, self.folder / "a.png", np.asfortranarray(image)):
            found = gconv.stats(given, percentiles=(5, 50))
            self.assertEqual(list(found), ["red", "green", "blue", "all", "white_level", "histogram_range"])
            for c, name in enumerate(("red", "green", "blue")):
                self.assertAlmostEqual(found[name]["std"], image[..., c].std(), places=9)
                np.testing.assert_allclose(found[name]["percentiles"], np.percentile(image[..., c], (5, 50)))
                np.testing.assert_array_equal(found[name]["histogram"], np.bincount(image[..., c].ravel(), minlength=256))
        for wrong in ({"percentiles": (101,)}, {"percentiles": (1,) * 17}, {"max_pixels": -1}):
            with self.assertRaises(gconv.ArgumentError):
                gconv.stats(image, **wrong)
        with self.assertRaises(gconv.FileError):
            gconv.stats(self.folder / "nothing.png")


class Restored(Folder):
    def test_deconvolve(self):
        image = draw_image(self.random, (40, 50, 3), np.uint8)
        made, told = gconv.deconvolve(image, "gaussian:sigma=1", iterations=3, info=True)
        self.assertEqual((made.shape, made.dtype, told["iterations"]), ((40, 50, 3), np.float32, 3))
        self.assertAlmostEqual(made.sum() / (image / 255).sum(), 1, delta=0.02)
        one = gconv.deconvolve(image[..., 1], np.ones((3, 3)), iterations=3)
        np.testing.assert_allclose(gconv.deconvolve(image, np.ones((3, 3)), iterations=3)[..., 1], one, atol=1e-5)
        self.assertEqual(gconv.deconvolve(image, "box", method="wiener", noise=0.1).shape, image.shape)
        for wrong in ({"method": "x"}, {"iterations": -1}, {"tv": float("nan")}):
            with self.assertRaises(gconv.ArgumentError):
                gconv.deconvolve(image, "box", **wrong)


class Images(Folder):
    def test_written_images_are_read_again(self):
        for shape in ((5, 7), (5, 7, 3), (5, 7, 4), (5, 7, 2)):
            for dtype, names in ((np.uint8, ("a.png", "a.tif", "a.npy")), (np.uint16, ("a.png", "a.tif", "a.npy")),
                                 (np.float32, ("a.tif", "a.npy"))):
                image = draw_image(self.random, shape, dtype)
                for name in names:
                    gconv.write(self.folder / name, image)
                    result = gconv.read(self.folder / name)
                    self.assertEqual(result.dtype, dtype)
                    np.testing.assert_array_equal(result, image, f"{name} {shape}")
        planes = draw_image(self.random, (6, 5, 7), np.float32)
        gconv.write(self.folder / "planes.npy", planes, axes="CHW")
        array, info = gconv.read(self.folder / "planes.npy", info=True)
        self.assertEqual(info["axes"], "CHW")
        np.testing.assert_array_equal(array, planes)
        gconv.write(self.folder / "turned.png", planes[0].astype(np.uint8)[::-1].T)
        np.testing.assert_array_equal(gconv.read(self.folder / "turned.png"), planes[0].astype(np.uint8)[::-1].T)

    def test_what_a_file_says(self):
        header = gconv.header(PHOTO)
        self.assertEqual((header["format"], header["channels"], header["dtype"]), ("jpeg", 3, "uint8"))
        image = gconv.read(PHOTO)
        self.assertEqual(image.shape, (header["height"], header["width"], 3))
        gconv.write(self.folder / "a.png", image, pixels_per_metre=(1000, 2000))
        self.assertEqual(gconv.header(self.folder / "a.png")["pixels_per_metre"], (1000, 2000))
        self.assertIn("png", [entry["name"] for entry in gconv.formats()])

    def test_failures(self):
        with self.assertRaises(OSError):
            gconv.read(self.folder / "missing.png")
        (self.folder / "wrong.png").write_bytes(b"\x89PNG\r\n\x1a\nand more")
        with self.assertRaises(gconv.FormatError):
            gconv.read(self.folder / "wrong.png")
        with self.assertRaises(gconv.LimitError):
            gconv.read(PHOTO, max_pixels=10)
        image = np.zeros((5, 7), np.uint8)
        gconv.write(self.folder / "a.png", image)
        with self.assertRaises(FileExistsError):
            gconv.write(self.folder / "a.png", image, keep_existing=True)
        for options in ({"path": self.folder / "a.what"}, {"format": "what"}, {"image": image.astype(float)},
                        {"image": image[0]}, {"compression": "zip"}, {"quality": 101}, {"quality": "a"}, {"png_level": 2.5}, {"axes": "HWC"},
                        {"pixels_per_metre": (1, 2, 3)}, {"image": None}):
            with self.assertRaises(gconv.ArgumentError, msg=str(options)):
                gconv.write(**{"path": self.folder / "b.png", "image": image, **options})
        with self.assertRaises(gconv.UnsupportedError):
            gconv.write(self.folder / "b.jpg", image.astype(np.float32))
        self.assertFalse((self.folder / "b.png").exists() or (self.folder / "b.jpg").exists())

    def test_bytes_in_memory_are_those_of_files(self):
        image = draw_image(self.random, (9, 7, 3), np.uint8)
        for dtype, formats in ((np.uint8, ("png", "jpeg", "tiff", "webp", "pnm", "npy")), (np.uint16, ("png", "tiff", "pnm", "npy")),
                               (np.float32, ("tiff", "pfm", "npy"))):
            image = draw_image(self.random, (9, 7, 3), dtype)
            for name in formats:
                path = self.folder / f"a.{name}"
                gconv.write(path, image, format=name, pixels_per_metre=(1000, 2000))
                made = gconv.encode(image, name, pixels_per_metre=(1000, 2000))
                self.assertEqual((type(made), made), (bytes, path.read_bytes()), name)
                expected, said = gconv.read(path, info=True)
                with open(path, "rb") as file:
                    for data in (made, bytearray(made), memoryview(made), np.frombuffer(made, np.uint8), io.BytesIO(made),
                                 memoryview(bytes(b for one in made for b in (one, 0)))[::2], file):
                        array, info = gconv.decode(data, info=True)
                        np.testing.assert_array_equal(array, expected, name)
                        self.assertEqual((array.dtype, info), (expected.dtype, said))
                self.assertEqual(gconv.header(io.BytesIO(made)), gconv.header(path))
                stream = io.BytesIO(b"before")
                stream.seek(0, io.SEEK_END)
                gconv.write(stream, image, format=name, pixels_per_metre=(1000, 2000))
                self.assertEqual(stream.getvalue(), b"before" + made)
                stream.seek(6)
                np.testing.assert_array_equal(gconv.read(stream), expected)

    def test_metadata_go_through_memory(self):
        exif = b"II*\0\x08\0\0\0\1\0\x0f\1\2\0\3\0\0\0gc\0\0\0\0\0\0"
        photo = gconv.read(PHOTO)
        first = gconv.encode(photo, "png", pixels_per_metre=500, metadata={
            "exif": exif, "comment": b"drawn", "xmp": b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>", "icc": None})
        array, info = gconv.decode(first, info=True)
        self.assertEqual((info["comment"], info["exif"][:4], info["pixels_per_metre"]), (b"drawn", b"II*\0", (500, 500)))
        again = gconv.encode(array, "png", metadata=info)
        self.assertEqual(again, first)
        gconv.write(self.folder / "a.png", array, metadata=info)
        self.assertEqual((self.folder / "a.png").read_bytes(), first)
        self.assertEqual(gconv.decode(gconv.encode(array, "jpeg", metadata=info), info=True)[1]["comment"], b"drawn")
        with self.assertRaisesRegex(gconv.ArgumentError, "a byte of 0"):
            gconv.encode(array, "png", metadata={"comment": b"a\0b"})

    def test_streams_that_take_a_part_of_the_bytes(self):
        class Socket(io.RawIOBase):
            def __init__(self, most):
                self.most, self.taken = most, b""

            def writable(self):
                return True

            def write(self, data):
                if not self.most:
                    return None
                self.taken += bytes(data[:self.most])
                return min(self.most, len(data))

        image = draw_image(self.random, (5, 7), np.uint8)
        stream = Socket(10)
        gconv.write(stream, image, format="png")
        self.assertEqual(stream.taken, gconv.encode(image, "png"))
        with self.assertRaises(BlockingIOError):
            gconv.write(Socket(0), image, format="png")

    def test_members_and_failures_of_bytes(self):
        stack = draw_image(self.random, (3, 5, 7), np.uint8)
        made = gconv.encode(stack, "tiff", axes="NHW")
        np.testing.assert_array_equal(gconv.decode(made), stack)
        np.testing.assert_array_equal(gconv.decode(made, member=2), stack[1])
        archive = io.BytesIO()
        np.savez(archive, first=stack[0], second=stack[1].astype(np.float32))
        np.testing.assert_array_equal(gconv.decode(archive.getvalue(), member="second"), stack[1])
        for data, member, error in ((made, 4, gconv.ArgumentError), (made, "", gconv.ArgumentError), (made[:-30], None, gconv.FormatError),
                                    (b"", None, gconv.FormatError), ("text", None, gconv.ArgumentError), (io.StringIO("a"), None, gconv.ArgumentError),
                                    (None, None, TypeError), (PHOTO, None, TypeError), (7, None, TypeError)):
            with self.assertRaises(error, msg=str((data, member))[:60]):
                gconv.decode(data, member=member)
        with self.assertRaises(gconv.LimitError):
            gconv.decode(made, max_pixels=10)
        for options in ({"format": "what"}, {"format": ""}, {"format": None}, {"image": stack[0].astype(float)}, {"quality": 101},
                        {"metadata": {"exif": "text"}}):
            with self.assertRaises(gconv.ArgumentError, msg=str(options)):
                gconv.encode(**{"image": stack[0], "format": "png", **options})
        with self.assertRaises(gconv.ArgumentError):
            gconv.write(io.BytesIO(), stack[0])
        with self.assertRaises(gconv.UnsupportedError):
            gconv.encode(stack[0].astype(np.float32), "jpeg")

    def test_names_of_any_bytes(self):
        folder = os.fsencode(self.folder)
        image = draw_image(self.random, (5, 7, 3), np.uint8)
        for name in (folder + b"/caf\xe9.png", folder + "/caf\u00e9.png".encode()):  # Latin-1, which is no UTF-8; UTF-8
            for path in (name, os.fsdecode(name), pathlib.Path(os.fsdecode(name))):
                gconv.write(path, image)
                self.assertTrue(os.path.exists(name))
                np.testing.assert_array_equal(gconv.read(path), image)
                self.assertEqual(gconv.header(path)["height"], 5)
                told = []
                summary = gconv.run(path, "identity", folder + b"/\xff/", progress=told.append)
                self.assertEqual((summary.written, os.fsencode(told[0].input)), (1, name))
                np.testing.assert_array_equal(gconv.read(folder + b"/\xff/" + os.path.basename(name)), image)
        for name in (os.fsdecode(folder + b"/\xe9"), folder + b"/\xe9"):
            gconv.write_filters(name, [[1, 2]])
            self.assertEqual(gconv.read_filters(name)[0].taps.tolist(), [[1, 2]])
            net = gconv.Network("conv 2 3x3", 3)
            net.save(name)
            np.testing.assert_array_equal(gconv.Network.load(name).weights(0)[0], net.weights(0)[0])

    def test_a_byte_0_ends_no_name(self):
        gconv.write(self.folder / "a.png", np.zeros((2, 2), np.uint8))
        for call in (gconv.read, gconv.header, gconv.Network.load, gconv.SVM.load, gconv.read_filters,
                     lambda path: gconv.write(path, np.zeros((2, 2), np.uint8)), lambda path: gconv.run(path, "identity", "b.png")):
            for path in (f"{self.folder}/a.png\0.png", b"a\0b", "\ud800.png"):
                with self.assertRaises(ValueError):
                    call(path)
        for path in (None, 3, ["a.png"]):
            with self.assertRaises(TypeError):
                gconv.read(path)

    def test_filters_as_files(self):
        both = gconv.read_filters("sobel")
        self.assertTrue(both.gradient)
        self.assertEqual([one.name for one in both], ["sobel_x", "sobel_y"])
        gconv.write_filters(self.folder / "mine.txt", [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(gconv.read_filters(self.folder / "mine.txt")[0].taps.tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(gconv.read_filters("[1 2; 3 4]")[0].analyze()["sum"], 10)


class Jobs(Folder):
    def setUp(self):
        super().setUp()
        kept = warnings.catch_warnings()
        kept.__enter__()
        self.addCleanup(kept.__exit__, None, None, None)
        warnings.simplefilter("ignore", gconv.Warning)  # of noise that is clamped
        self.images = {f"photo_{k:02}.png": draw_image(self.random, (20 + k, 30, 3), np.uint8) for k in range(12)}
        (self.folder / "in").mkdir()
        for name, image in self.images.items():
            gconv.write(self.folder / "in" / name, image)

    def test_a_folder(self):
        reports = []
        summary = gconv.run(self.folder / "in", "gaussian:sigma=1", self.folder / "out", border="replicate",
                            progress=reports.append, device="cpu")
        self.assertEqual((summary.written, summary.failed), (12, 0))
        self.assertEqual([pathlib.Path(report.input).name for report in reports], sorted(self.images))
        self.assertEqual(reports[0].details["pixels"], 600)
        for name, image in self.images.items():
            np.testing.assert_array_equal(gconv.read(self.folder / "out" / name),
                                          gconv.filter(image, "gaussian:sigma=1", border="replicate"))

    def test_the_same_bytes_as_the_program(self):
        gconv.run(str(self.folder / "in"), ["sobel_x", [[0, 1], [-1, 0]]], str(self.folder / "a") + "/", range="abs")
        (self.folder / "k.txt").write_text("0 1\n-1 0\n")
        subprocess.run([os.environ["GCONV"], "-i", self.folder / "in", "-f", "sobel_x", "-f", self.folder / "k.txt", "-o",
                        str(self.folder / "b") + "/", "--range", "abs", "-q"], check=True)
        first = sorted(path.read_bytes() for path in (self.folder / "a").iterdir())
        self.assertEqual(len(first), 24)
        self.assertEqual(first, sorted(path.read_bytes() for path in (self.folder / "b").iterdir()))

    def test_exclude_times_and_compression(self):
        names = sorted(self.images)
        os.utime(self.folder / "in" / names[1], (10 ** 9, 10 ** 9))
        summary = gconv.run(self.folder / "in", "sharpen", self.folder / "o", format="tiff", exclude=[names[0]], preserve_times=True,
                            compression="deflate", device="cpu")
        self.assertEqual(summary.written, 11)
        made = sorted((self.folder / "o").iterdir())
        self.assertEqual(len(made), 11)
        self.assertEqual(made[0].stat().st_mtime, 10 ** 9)
        plain = gconv.run(self.folder / "in", "sharpen", self.folder / "p", format="tiff", exclude=pathlib.Path(names[0]), device="cpu")
        self.assertEqual(plain.written, 11)
        self.assertNotEqual(made[0].read_bytes(), (self.folder / "p" / made[0].name).read_bytes())
        np.testing.assert_array_equal(gconv.read(made[0]), gconv.read(self.folder / "p" / made[0].name))
        self.assertRaises(gconv.ArgumentError, gconv.run, self.folder / "in", "sharpen", self.folder / "q", exclude="*")
        self.assertRaises(gconv.ArgumentError, gconv.run, self.folder / "in", "sharpen", self.folder / "q", compression="zip")

    def test_resume_shards_and_what_exists(self):
        folder = self.folder / "out"
        for part in ("1/2", "2/2"):
            gconv.run(self.folder / "in", "sharpen", folder, shard=part, resume=True)
        again = gconv.run(self.folder / "in", "sharpen", folder, resume=True)
        self.assertEqual((again.written, again.passed), (0, 12))
        weights = np.ones((2, 64, 64), np.float32)
        weights[1, 32, 32] = 0
        self.assertEqual(len({gconv._jobs._digest((), None, {"weights": one}, {}) for one in weights}), 2)
        other = gconv.run(self.folder / "in", "sharpen", folder, resume=True, border="wrap")
        self.assertEqual(other.written, 12)
        self.assertEqual(gconv.run(self.folder / "in", "sharpen", folder, existing="skip").passed, 12)
        with self.assertRaises(gconv.JobError) as raised:
            gconv.run(self.folder / "in", "sharpen", folder, existing="keep")
        self.assertEqual(raised.exception.summary.failed, 12)

    def test_warnings_of_the_program_are_warnings(self):
        with self.assertWarnsRegex(gconv.Warning, "became black"):
            gconv.run(self.folder / "in" / "photo_00.png", "sobel_x", self.folder / "a.png")

    def test_one_bad_file_is_told(self):
        (self.folder / "in" / "bad.png").write_bytes(b"no image")
        with self.assertRaisesRegex(gconv.JobError, "bad.png"):
            gconv.run(self.folder / "in", "sharpen", self.folder / "out")
        summary = gconv.run(self.folder / "in", "sharpen", self.folder / "out", errors="report")
        self.assertEqual((summary.written, summary.failed, len(summary.errors)), (12, 1, 1))

    def test_a_progress_that_raises_stops_the_run(self):
        def stop(report):
            raise KeyError(report.input)

        with self.assertRaises(KeyError):
            gconv.run(self.folder / "in", "sharpen", self.folder / "out", progress=stop, jobs=1, threads=1)
        self.assertLess(len(list((self.folder / "out").iterdir())), 12)

    def test_an_interrupt_stops_the_run(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which programs in the background ignore
        self.addCleanup(signal.signal, signal.SIGINT, before)
        for k in range(200):
            gconv.write(self.folder / "in" / f"more_{k}.png", self.images["photo_00.png"])
        told = []

        def progress(report):
            if not told:
                os.kill(os.getpid(), signal.SIGINT)
            told.append(report)
            time.sleep(0.01)

        with self.assertRaises(KeyboardInterrupt):
            gconv.run(self.folder / "in", "sharpen", self.folder / "out", jobs=1, threads=1, progress=progress)
        self.assertLess(len(told), 150)
        summary = gconv.run(self.folder / "in" / "photo_00.png", "sharpen", self.folder / "after.png")
        self.assertEqual(summary.written, 1)

    def test_options_that_are_none(self):
        with self.assertRaisesRegex(TypeError, "no option 'bordr'"):
            gconv.run(self.folder / "in", "sharpen", self.folder / "x", bordr="wrap")
        for options in ({"jobs": -1}, {"threads": 1.5}, {"memory": "1G"}, {"quality": 2 ** 40}, {"device": "\udce9"}):
            with self.assertRaises(gconv.ArgumentError, msg=str(options)):
                gconv.run(self.folder / "in", "sharpen", self.folder / "x", **options)

    def test_what_is_wrong(self):
        for options in ({"inputs": self.folder / "none"}, {"filters": "no_such"}, {"border": "what"}, {"existing": "what"},
                        {"errors": "what"}, {"shard": "3/2"}, {"device": "gpu"}, {"format": "what"},
                        {"output": self.folder / "in"}):
            with self.assertRaises(gconv.Error, msg=str(options)):
                gconv.run(**{"inputs": self.folder / "in", "filters": "sharpen", "output": self.folder / "x", **options})


class Networks(Folder):
    def test_made_saved_and_loaded(self):
        net = gconv.Network("conv 4 3x3 relu, conv 2 3x3", 3, seed=5)
        x = draw_image(self.random, (2, 3, 9, 10), np.float32)
        y = net(x)
        first = gconv.conv2d(x, *net.weights(0), padding=1, activation="relu")
        np.testing.assert_allclose(y, gconv.conv2d(first, *net.weights(1), padding=1), rtol=1e-5, atol=1e-6)
        net.save(self.folder / "net.safetensors")
        same = gconv.Network.load(self.folder / "net.safetensors")
        np.testing.assert_array_equal(same(x), y)
        np.testing.assert_array_equal(same(x[0]), y[0])
        np.testing.assert_array_equal(same(x.transpose(0, 2, 3, 1), axes="NHWC"), y.transpose(0, 2, 3, 1))
        levels = draw_image(self.random, (1, 3, 9, 10), np.uint8)
        np.testing.assert_allclose(net(levels), net((levels / 255).astype(np.float32)), atol=1e-6)
        self.assertEqual((net.channels, net.layers[0]["shape"], net.layers[0]["activation"]), (3, (4, 3, 3, 3), "relu"))
        out = np.empty_like(y)
        self.assertIs(net(x, out=out), out)

    def test_channels_where_they_are_not_wanted(self):
        net, one = gconv.Network("conv 4 3x3", 3), gconv.Network("conv 4 3x3", 1)
        for network, shape, fragment in ((net, (8, 9, 3), 'axes="HWC"'), (net, (2, 8, 9, 3), 'axes="NHWC"'), (one, (8, 9, 3), 'axes="HWC"')):
            with self.assertRaisesRegex(gconv.ArgumentError, f"is read as .*C x H x W.*{fragment}"):
                network(np.zeros(shape, np.float32))
        x = draw_image(self.random, (3, 3, 3), np.float32)
        np.testing.assert_array_equal(net(x), net(x[None])[0])
        np.save(self.folder / "in.npy", x[:, :, :2])
        gconv.run(self.folder / "in.npy", net, self.folder / "out.npy")
        np.testing.assert_allclose(np.load(self.folder / "out.npy")[0], net(x[:, :, :2]), rtol=1e-6)

    def test_copies(self):
        net = gconv.Network("conv 4 3x3 relu, conv 2 3x3", 3, seed=5)
        x = draw_image(self.random, (2, 3, 9, 10), np.float32)
        for found in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
            np.testing.assert_array_equal(found(x), net(x))

    def test_a_network_on_files(self):
        net = gconv.Network("conv 3 3x3", 3, seed=5)
        image = draw_image(self.random, (9, 10, 3), np.uint8)
        gconv.write(self.folder / "a.png", image)
        gconv.run(self.folder / "a.png", net, self.folder / "a.npy")
        result = gconv.read(self.folder / "a.npy", info=True)
        wanted = net(image, axes="HWC")
        self.assertEqual(result[0].size, wanted.size)

    def test_failures(self):
        for wrong in ("conv 4", "what 3x3", ""):
            with self.assertRaises(gconv.ArgumentError):
                gconv.Network(wrong, 3)
        with self.assertRaises(OSError):
            gconv.Network.load(self.folder / "missing.safetensors")
        net = gconv.Network("conv 4 3x3", 3)
        for x in (np.zeros((1, 2, 5, 5), np.float32), np.zeros((1, 3, 0, 5), np.float32), None):
            with self.assertRaises(gconv.Error):
                net(x)
        with self.assertRaises(gconv.ArgumentError):
            net.classify(np.zeros((1, 3, 5, 5), np.float32))
        with self.assertRaises(gconv.ArgumentError):
            net.weights(7)


class Program(unittest.TestCase):
    def test_python_m_gconv(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-m", "gconv", "--version"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(gconv.version(), done.stdout)


if __name__ == "__main__":
    unittest.main()
