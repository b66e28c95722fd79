# SPDX-License-Identifier: MIT
"""The command line on a machine with a GPU: which device is taken, why, and that it makes no difference to the results."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import numpy
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class DeviceTest(CommandTest):
    """With a cache of its own, and no device in the environment."""
    def environment(self, extra=None):
        environment = super().environment({"GCONV_CACHE": str(self.folder / "cache"), **(extra or {})})
        if "GCONV_DEVICE" not in (extra or {}):
            del environment["GCONV_DEVICE"]
        return environment

    def summary(self, *words, **options):
        text = self.gconv("-i", "in", "-o", "out/", "--timings=json", *words, **options).stdout
        return json.loads(text.splitlines()[-1])["summary"]


class Png(DeviceTest):
    """A GPU makes of its results the files that the CPU makes, some strips of which it leaves to that."""
    def setUp(self):
        super().setUp()
        (self.folder / "in").mkdir()
        random = numpy.random.default_rng(3)
        for i, (height, width, channels) in enumerate(((1000, 1501, 3), (900, 1200, 4), (1100, 1400, 1), (37, 53, 3), (3, 60000, 3))):
            y, x = numpy.mgrid[0:height, 0:width]
            image = 128 + 60 * numpy.sin(x / 37) + 40 * numpy.cos(y / 23) + random.normal(0, 5, (height, width))
            image[height // 3:height // 2] = 77  # has matches, as drawings do
            image = numpy.clip(image[..., None] * numpy.linspace(0.6, 1, channels), 0, 255).astype(numpy.uint8)
            Image.fromarray(image.squeeze()).save(self.folder / f"in/{i}.png")
        Image.fromarray((numpy.clip(y * 500 + x, 0, 65535)).astype(numpy.uint16)).save(self.folder / "in/deep.png")

    def test_the_same_files(self):
        for words in (("-f", "gaussian_5"), ("-f", "identity", "-f", "sobel_y"), ("-f", "sobel_x", "--gray"), ("-f", "sobel_x", "--range", "minmax")):
            for device in ("cpu", "cuda"):
                self.gconv("-i", "in", *words, "-a", "direct", "-o", f"{device}/", "-d", device)
            self.assertEqual(self.files("cpu"), self.files("cuda"))
            for name in self.files("cpu"):
                self.assertTrue((self.folder / "cpu" / name).read_bytes() == (self.folder / "cuda" / name).read_bytes(), (name, words))


    def test_explain(self):
        words = ("-i", "in", "-f", "sobel_x", "-o", "out/", "-d", "cuda", "--explain")
        for more in ((), ("--dry-run",)):
            said = self.gconv(*words, *more).stderr
            self.assertRegex(said, r"device cuda:0 \((.|\n)*\nmemory on the device [\d.]+ MB\n(.|\n)*PNG made by cuda:0, which takes [\d.]+ MB more there")
            self.assertNotIn("JPEG", said)
        self.assertIn("PNG made by the CPU\n", self.gconv(*words, "--range", "minmax").stderr)


class Ends(DeviceTest):
    """A process may end while one of its threads starts CUDA, whose driver must not be taken down under it."""
    ROUNDS = 200

    def many(self, command, status, said):
        """Runs the command over and over, some at a time."""
        running = []
        for i in range(self.ROUNDS):
            running.append(subprocess.Popen(command, cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, text=True))
            for process in running if i + 1 == self.ROUNDS else running[:1] if len(running) == 12 else ():
                errors = process.communicate(timeout=120)[1]
                self.assertEqual(process.returncode, status, (command, errors))
                self.assertIn(said, errors)
            running = running[1:] if len(running) == 12 else running

    def test_early_errors(self):
        numpy.save(self.folder / "a.npy", numpy.zeros((40, 50, 3), numpy.float32))
        (self.folder / "k.txt").write_text("0 1 0\n1 -4 1\n0 1 0\n")
        (self.folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
        job = [GCONV, "-f", "k.txt", "-d", "cuda"]
        self.many([*job, "-i", "a.npy", "-a", "im2col-cublas", "-o", "o.npy"], 2, "there is none of this name for plain filters")
        self.many([*job, "-i", "bad.png", "-o", "o.png"], 1, "bad.png: ")

    def test_small_jobs_that_the_cpu_ends_first(self):
        numpy.save(self.folder / "a.npy", numpy.zeros((40, 50, 3), numpy.float32))
        self.many([GCONV, "-f", "sobel_x", "-i", "a.npy", "-d", "auto", "--decode", "gpu", "-o", "o.npy"], 0, "")

    def test_early_errors_of_the_library(self):
        """It waits for the thread, as its caller may end by exit()."""
        package = pathlib.Path(GCONV).parent / "python"
        if not (package / "gconv").is_dir():
            self.skipTest("needs the Python package of the build")
        numpy.save(self.folder / "a.npy", numpy.zeros((40, 50, 3), numpy.float32))
        script = (f"import sys; sys.path.insert(0, {str(package)!r})\nimport gconv\n"
                  "try:\n  gconv.run('a.npy', 'sobel_x', 'o.npy', device='cuda', algorithm='im2col-cublas')\n"
                  "except Exception as error:\n  print(error, file=sys.stderr)")
        self.ROUNDS = 40
        self.many([sys.executable, "-c", script], 0, "im2col-cublas")


class Choice(DeviceTest):
    def setUp(self):
        super().setUp()
        self.photo("in/a.png", 320, 200)

    def test_a_small_job_is_not_worth_the_start(self):
        result = self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-v")
        reason = r"a GPU would take about \d+ ms of one thread's work off the CPU, and is started from 3 s on"
        self.assertRegex(result.stderr, "device cpu: " + reason)
        summary = self.summary("-f", "sobel_x")
        self.assertEqual(summary["device"], "cpu")
        self.assertRegex(summary["device_reason"], f"^{reason}$")
        for words in (("--explain",), ("--explain", "--dry-run")):
            self.assertRegex(self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", *words).stderr, "this device, because " + reason)
        self.assertRegex(self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--timings").stdout, "because " + reason)

    def test_what_is_asked_for_is_taken(self):
        for words, env in ((["-d", "cuda"], {}), (["-d", "cuda:0"], {}), ([], {"GCONV_DEVICE": "cuda"})):
            summary = self.summary("-f", "sobel_x", *words, env=env)
            self.assertEqual(summary["device"], "cuda:0")
            self.assertIsNone(summary["device_reason"])
            self.assertGreater(summary["device_start_ms"], 1)
            self.assertLessEqual(summary["device_wait_ms"], summary["device_start_ms"] + 5)

    def test_a_start_is_told(self):
        result = self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-d", "cuda", "-v")
        self.assertRegex(result.stderr, r"cuda:0: CUDA started in \d+ ms, of which \d+ ms were hidden behind reading and decoding")

    def test_a_large_job_is_worth_it(self):
        """The filter is not of the exact family, so that all images wait for the GPU."""
        self.photo("in/a.png", 4000, 3000)
        for i in range(60):
            os.link(self.folder / "in/a.png", self.folder / f"in/{i}.png")
        summary = self.summary("-f", "sobel_x", "--stride", "8")
        self.assertEqual(summary["device"], "cpu")
        summary = self.summary("-f", "gaussian:size=63,sigma=10")
        self.assertEqual(summary["device"], "cuda:0")

    def test_an_algorithm_that_only_a_gpu_has_chooses_it(self):
        listed = self.gconv("algorithms").stdout.split("\n\nfor banks:\n")[0]
        rows = [line.split()[:2] for line in listed.splitlines()]
        only = {name for device, name in rows if device == "cuda"} - {name for device, name in rows if device == "cpu"}
        for name in only & {"tiled", "gemm", "toeplitz"}:
            self.assertEqual(self.summary("-f", "sobel_x", "-a", name)["device"], "cuda:0", name)


class Results(DeviceTest):
    def test_both_devices_give_the_same_files(self):
        for i, (width, height, channels) in enumerate(((1, 1, 3), (31, 2, 1), (641, 480, 3), (640, 481, 4), (3000, 2000, 3))):
            self.photo(f"in/{i}.png", width, height, seed=i, channels=channels)
        for words in (("-f", "sobel_x"), ("-f", "gaussian_5", "--depth", "16"), ("-f", "log_5", "--depth", "float", "--format", "npy"),
                      ("-f", "sobel_x", "-f", "sobel_y", "--combine", "magnitude"), ("-f", "sharpen", "--gray", "--stride", "2")):
            for device in ("cpu", "cuda"):
                self.gconv("-i", "in", *words, "-a", "direct", "-d", device, "-o", f"{device}/")
            names = self.files("cpu")
            self.assertEqual(names, self.files("cuda"))
            for name in names:
                self.assertEqual((self.folder / "cpu" / name).read_bytes(), (self.folder / "cuda" / name).read_bytes(), name)

    def test_any_number_of_jobs_gives_the_same_files(self):
        for i in range(12):
            self.photo(f"in/{i}.png", 400 + i % 3, 300, seed=i)
        for jobs in (1, 5, 12):
            self.gconv("-i", "in", "-f", "unsharp_5", "-d", "cuda", "-o", f"{jobs}/", "--jobs", jobs)
            for name in self.files("1"):
                self.assertEqual((self.folder / "1" / name).read_bytes(), (self.folder / str(jobs) / name).read_bytes(), name)


class Decoder(DeviceTest):
    """--decode gpu: the pixels are those of the CPU's decoder, whoever decodes, and so is what is said of broken files."""
    def setUp(self):
        super().setUp()
        pixels = numpy.random.default_rng(1).integers(0, 256, (400, 600, 3), dtype=numpy.uint8)
        photo = Image.fromarray(pixels).resize((2400, 1600), Image.BICUBIC)
        (self.folder / "in").mkdir()
        for sampling in (0, 1, 2):
            photo.save(self.folder / f"in/a{sampling}.jpg", quality=97, subsampling=sampling)
        small = photo.crop((100, 100, 801, 651))
        small.save(self.folder / "in/progressive.jpg", quality=90, progressive=True)
        small.save(self.folder / "in/turned.jpg", quality=90,
                   exif=bytes.fromhex("457869660000" "49492a0008000000" "0100" "120103000100000006000000" "00000000"))
        small.convert("L").save(self.folder / "in/grey.jpg", quality=90)
        small.convert("CMYK").save(self.folder / "in/cmyk.jpg", quality=90)
        small.save(self.folder / "in/small.jpg", quality=75)
        small.save(self.folder / "in/photo.png")
        probe = subprocess.run([GCONV, "-i", "in/small.jpg", "-f", "identity", "-o", "probe.png", "--decode", "gpu"], cwd=self.folder,
                               env=self.environment(), stderr=subprocess.PIPE, check=False, text=True)
        if "libnvjpeg" in probe.stderr:
            self.skipTest(probe.stderr)

    def wait_for_decoder(self, photos=75):
        """It starts while the first images, which are the large ones, are decoded by the CPU."""
        for i in range(photos):
            if not (self.folder / f"in/b{i:04}.jpg").exists():
                os.link(self.folder / f"in/a{i % 3}.jpg", self.folder / f"in/b{i:04}.jpg")

    def run_both(self, *words, status=0):
        """The lines of timings of --decode gpu, whose results are those of --decode cpu, and what else it says."""
        lines = {}
        for decoder in ("cpu", "gpu"):
            result = self.gconv("-i", "in", "-f", "sobel_x", "-d", "cuda", "--decode", decoder, "-o", f"{decoder}/", "--timings=json",
                                "--jobs", 3, "-v", *words, status=status)
            lines[decoder] = [json.loads(line) for line in result.stdout.splitlines()][:-1]
        self.assertEqual([line["error"] for line in lines["cpu"]], [line["error"] for line in lines["gpu"]])
        names = self.files("cpu")
        self.assertEqual(names, self.files("gpu"))
        for name in names:
            self.assertEqual((self.folder / "cpu" / name).read_bytes(), (self.folder / "gpu" / name).read_bytes(), name)
        return [line for line in lines["gpu"] if "upload_ms" in line], result.stderr

    def test_all_kinds(self):
        decoded = []
        for photos in (75, 300, 1200):  # where the machine is busy, it may start too late for the first 75
            if len(decoded) <= 5:
                self.wait_for_decoder(photos)
                lines, said = self.run_both("--stride", "3")
                decoded = [line for line in lines if line["upload_ms"] == 0]
        self.assertGreater(len(decoded), 5)
        self.assertFalse({pathlib.Path(line["input"]).stem for line in decoded} & {"progressive", "turned", "grey", "cmyk", "photo"})
        self.assertIn("progressive.jpg: not decoded by a GPU: it is progressive", said)
        self.assertIn("turned.jpg: not decoded by a GPU: EXIF turns it", said)

    def test_broken_files(self):
        self.wait_for_decoder()
        whole = (self.folder / "in/a2.jpg").read_bytes()
        for name, data in (("cut", whole[:len(whole) // 2]), ("no-end", whole[:-2]), ("empty", b""), ("head", whole[:300]),
                           ("early-end", whole[:len(whole) // 2] + b"\xff\xd9" + whole[len(whole) // 2:])):
            (self.folder / f"in/c-{name}.jpg").write_bytes(data)
        self.run_both("--stride", "4", status=3)

    def test_explain(self):
        words = ("-i", "in", "-f", "sobel_x", "-o", "out/", "--decode", "gpu", "--explain", "--dry-run")
        self.assertIn("JPEG decoded by cuda:0, if it is baseline", self.gconv(*words, "-d", "cuda").stderr)
        self.assertRegex(self.gconv(*words).stderr, r"JPEG decoded by cuda:0, if it is baseline, once .*; until then the CPU decodes, and")

    def test_stages_on_the_host(self):
        for words in (("--gray",), ("--linear", "--range", "minmax")):
            self.run_both("--stride", "5", *words)


class SeveralGpus(DeviceTest):
    def test_all_give_the_same_files(self):
        for i in range(12):
            self.photo(f"in/{i}.png", 400 + i % 3, 300, seed=i)
        count = sum(line.startswith("cuda:") for line in self.gconv("devices").stdout.splitlines())
        devices = ["cuda", "cuda:all", "cuda:" + ",".join(map(str, reversed(range(count))))]
        for number, device in enumerate(devices):
            self.gconv("-i", "in", "-f", "unsharp_5", "-d", device, "-o", f"{number}/", "--jobs", "5")
            for name in self.files("0"):
                self.assertEqual((self.folder / "0" / name).read_bytes(), (self.folder / str(number) / name).read_bytes(), name)
            for jobs in ((), ("--jobs", "3")):  # a bank: a plan keeps a GPU busy
                self.gconv("-i", "in", "-f", "kirsch", "--combine", "argmax", "--gray", "-d", device, "-o", f"bank{number}/", *jobs)
                for name in self.files("bank0"):
                    self.assertEqual((self.folder / "bank0" / name).read_bytes(), (self.folder / f"bank{number}" / name).read_bytes(), name)
        result = self.gconv("-i", "in", "-f", "sobel_x", "-o", "none/", "-d", f"cuda:0,{count}", "--jobs", "5", status=1)
        self.assertIn(f"device cuda:{count}: this machine has no device of this number", result.stderr)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
