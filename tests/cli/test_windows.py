# SPDX-License-Identifier: MIT
"""--windows: networks over signals, against numpy in float64; files and pipes, any chunks, hops, channels and types; what is refused."""
import io
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np
from helper import GCONV, CommandTest
from network_helper import Layer, activate, save_network

LONG = "GCONV_LONG_TESTS" in os.environ


class Windows(CommandTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)

    def network(self, name="n.safetensors", window=20, channels=1, outputs=(7, 3), activation="sigmoid", **keys):
        """Dense layers; keeps them for expected()."""
        shape, self.layers = (channels, 1, window), []
        for k in outputs:
            weight = self.rng.normal(0, 0.3, (k, *shape)).astype("f4")
            self.layers.append(Layer(weight, self.rng.normal(0, 0.3, k).astype("f4"), padding="valid", activation=activation))
            shape = (k, 1, 1)
        save_network(self.folder / name, self.layers, channels, 1, window, **keys)
        self.mean = np.array(keys.get("mean", [0.0])).reshape(-1, 1)
        self.std = np.array(keys.get("std", [1.0])).reshape(-1, 1)

    def expected(self, samples, window, hop):
        """The rows for samples x channels, in float64."""
        samples = np.asarray(samples, float).reshape(len(samples), -1)
        rows = []
        for first in range(0, len(samples) - window + 1, hop):
            x = ((samples[first:first + window].T - self.mean) / self.std).ravel()
            for layer in self.layers:
                x = activate(layer.weight.reshape(len(layer.weight), -1).astype(float) @ x + layer.bias, layer.keys["activation"], 0)
            rows.append(x)
        return np.array(rows)

    def csv(self, text):
        return np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2, dtype="f4")

    def check(self, rows, samples, window, hop):
        np.testing.assert_allclose(rows, self.expected(samples, window, hop), atol=3e-6)

    def save(self, samples, name="s.npy"):
        np.save(self.folder / name, samples)
        return samples

    def start(self, *words, **options):
        process = subprocess.Popen([GCONV, *map(str, words)], cwd=self.folder, env=self.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_hops(self):
        self.network()
        samples = self.save(self.rng.normal(size=501).astype("f4"))
        for hop in (1, 7, 20, 33, 500):
            with self.subTest(hop=hop):
                result = self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", f"20:{hop}", "-o", "o.npy")
                rows = np.load(self.folder / "o.npy")
                self.assertEqual((rows.dtype, rows.shape[1]), (np.float32, 3))
                self.check(rows, samples, 20, hop)
                left = 501 - ((len(rows) - 1) * hop + max(hop, 20))
                self.assertEqual(result.stderr, "" if left <= 0 else "gconv: s.npy: the last "
                                 f"{left} sample{'s are' if left > 1 else ' is'} left out: too few for a window of 20\n")
                quiet = self.gconv("-q", "-i", "s.npy", "-f", "n.safetensors", "--windows", f"20:{hop}", "-o", "o.csv")
                self.assertEqual(quiet.stderr, "")
                np.testing.assert_array_equal(self.csv((self.folder / "o.csv").read_text()), rows)

    def test_channels_are_normalised_one_by_one(self):
        self.network(channels=3, mean=[0.5, -1.0, 2.0], std=[2.0, 0.5, 3.0])
        samples = self.save(self.rng.normal(size=(213, 3)))
        self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", "20:9", "-o", "o.npy")
        self.check(np.load(self.folder / "o.npy"), samples.astype("f4"), 20, 9)

    def test_types(self):
        self.network(channels=2, activation="tanh")
        for name, dtype, unit in (("f32le", "<f4", 1), ("s16le", "<i2", 32768), ("u8", "u1", 255)):
            with self.subTest(type=name):
                info = np.iinfo(dtype) if unit > 1 else None
                samples = self.rng.integers(info.min, info.max + 1, (300, 2)) if info else self.rng.normal(size=(300, 2))
                samples = samples.astype(dtype)
                (self.folder / f"s.{name}").write_bytes(samples.tobytes())
                words = ["-f", "n.safetensors", "--windows", "20:11", "-q"]
                self.gconv("-i", f"s.{name}", "--raw", f"{name}:2", *words, "-o", "o.csv")
                rows = self.csv((self.folder / "o.csv").read_text())
                self.check(rows, samples.astype(float) / unit, 20, 11)
                result = self.gconv("-i", "-", "--raw", f"{name}:2", *words, "-o", "-", stdin=samples.tobytes())
                np.testing.assert_array_equal(self.csv(result.stdout), rows)

    def test_elements_of_npy(self):
        self.network()
        for dtype in ("<f8", ">f4", "<f2", "i2", "u1", "?"):
            samples = self.save((self.rng.normal(size=130) * 3).astype(dtype))
            self.gconv("-q", "-i", "s.npy", "-f", "n.safetensors", "--windows", "20", "-o", "o.npy")
            self.check(np.load(self.folder / "o.npy"), samples.astype("f4"), 20, 20)

    def test_pipe_in_odd_chunks(self):
        self.network(channels=2)
        samples = self.rng.normal(size=(4001, 2)).astype("<f4")
        data = samples.tobytes()
        process = self.start("-i", "-", "--raw", "f32le:2", "-f", "n.safetensors", "--windows", "20:6", "-o", "o.npy")
        at = 0
        while at < len(data):
            size = int(self.rng.integers(1, 700))
            process.stdin.write(data[at:at + size])
            process.stdin.flush()
            at += size
        errors = process.communicate()[1].decode()
        self.assertEqual((process.returncode, errors), (0, "gconv: standard input: the last 3 samples are left out: too few for a window of 20\n"))
        piped = np.load(self.folder / "o.npy")
        self.save(samples)
        self.gconv("-q", "-i", "s.npy", "-f", "n.safetensors", "--windows", "20:6", "-o", "f.npy")
        np.testing.assert_array_equal(piped, np.load(self.folder / "f.npy"))
        self.check(piped, samples, 20, 6)

    def test_rows_come_as_windows_are_complete(self):
        self.network()
        samples = self.rng.normal(size=100).astype("<f4")
        process = self.start("-i", "-", "--raw", "f32le", "-f", "n.safetensors", "--windows", "20", "-o", "-")
        rows = []
        for first in range(0, 100, 20):
            process.stdin.write(samples[first:first + 20].tobytes())
            process.stdin.flush()
            if first == 0:
                self.assertEqual(process.stdout.readline(), b"output1,output2,output3\n")
            rows.append(process.stdout.readline().decode()) # waits for ever if rows are kept back
        self.check(np.loadtxt(rows, delimiter=","), samples, 20, 20)

    def test_raw_rows_and_npy_for_pipes(self):
        self.network()
        samples = self.save(self.rng.normal(size=1000).astype("f4"))
        words = ["-f", "n.safetensors", "--windows", "20"]
        raw = self.gconv("-i", "s.npy", *words, "-o", "-", "--format", "f32le", text=False).stdout
        self.check(np.frombuffer(raw, "<f4").reshape(-1, 3), samples, 20, 20)
        self.gconv("-i", "s.npy", *words, "-o", "o.f32le")
        self.assertEqual((self.folder / "o.f32le").read_bytes(), raw)
        npy = self.gconv("-i", "s.npy", *words, "-o", "-", "--format", "npy", text=False).stdout
        self.assertEqual(np.load(io.BytesIO(npy)).tobytes(), raw)
        result = self.gconv("-i", "-", "--raw", "f32le", *words, "-o", "-", "--format", "npy", status=2, stdin=samples.tobytes())
        self.assertIn("which is not known before the signal ends", result.stderr)
        self.gconv("-i", "-", "--raw", "f32le", *words, "-o", "x", "--format", "npy", stdin=samples.tobytes())
        self.assertEqual(np.load(self.folder / "x").tobytes(), raw)

    def test_numbers_of_csv(self):
        """As "%.9g": all kinds of numbers, through a network that copies."""
        save_network(self.folder / "n.safetensors", [Layer(np.ones((1, 1, 1, 1)), padding="valid", activation="none")], 1, 1, 1)
        x = np.concatenate([self.rng.normal(size=20000) * 10.0 ** self.rng.integers(-9, 12, 20000), self.rng.integers(-99999, 99999, 500) / 8,
                            10.0 ** np.arange(-12, 13), np.nextafter(10.0 ** np.arange(-12, 13), 0, dtype="f4"), [0, 0.5, 99999999.5, 1e-4, 1e30]])
        x = self.save(x.astype("f4"))
        lines = self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", "1", "-o", "-").stdout.splitlines()
        self.assertEqual(lines[1:], [f"{float(v):.9g}" for v in x])

    def test_names_of_classes(self):
        self.network(classes=["red, dark", 'a "b"', "c"])
        self.save(self.rng.normal(size=60).astype("f4"))
        text = self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", "20", "-o", "-").stdout
        self.assertEqual(text.splitlines()[0], '"red, dark","a ""b""",c')

    def test_network_of_columns(self):
        """As one that was learned from a table, or made of PyTorch's linear layers."""
        weight = self.rng.normal(0, 0.3, (4, 40, 1, 1)).astype("f4")
        self.layers, self.mean, self.std = [Layer(weight, np.zeros(4, "f4"), padding="valid", activation="relu")], np.zeros((1, 1)), np.ones((1, 1))
        save_network(self.folder / "n.safetensors", self.layers, 40, 1, 1)
        for channels in (1, 2):
            samples = self.save(self.rng.normal(size=(200, channels)).astype("f4"))
            self.gconv("-q", "-i", "s.npy", "-f", "n.safetensors", "--windows", f"{40 // channels}:7", "-o", "o.npy")
            self.check(np.load(self.folder / "o.npy"), samples, 40 // channels, 7)
        self.usage_error("--windows 30: n.safetensors takes 40 numbers, and a window of s.npy with its 2 channels has 60",
                         "-i", "s.npy", "-f", "n.safetensors", "--windows", "30", "-o", "x.npy")

    def test_convolutions_of_any_width(self):
        weight = self.rng.normal(size=(2, 1, 1, 5)).astype("f4")
        save_network(self.folder / "n.safetensors", [Layer(weight, padding="valid", activation="none")], 1, 0, 0)
        samples = self.save(self.rng.normal(size=100).astype("f4"))
        self.gconv("-q", "-i", "s.npy", "-f", "n.safetensors", "--windows", "12:8", "-o", "o.npy")
        rows = np.load(self.folder / "o.npy")
        expected = [[np.correlate(samples[i:i + 12].astype(float), weight[k, 0, 0].astype(float), "valid") for k in range(2)] for i in range(0, 89, 8)]
        np.testing.assert_allclose(rows, np.reshape(expected, (len(rows), 16)), atol=1e-5)

    def test_agrees_with_classify(self):
        self.network()
        self.save(self.rng.normal(size=2000).astype("f4"))
        text = self.gconv("classify", "n.safetensors", "-i", "s.npy", "--windows", "20:3").stdout
        rows = self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", "20:3", "-o", "-", "-q").stdout
        self.assertEqual([line.split(",", 1)[1] for line in text.splitlines()[1:]], rows.splitlines()[1:])

    def test_same_bytes_for_any_threads(self):
        self.network(outputs=(40, 33))
        samples = self.save(self.rng.normal(size=60000).astype("f4"))
        results = set()
        for threads in (1, 2, 7):
            self.gconv("-i", "s.npy", "-f", "n.safetensors", "--windows", "20:3", "-q", "-o", "o.npy", "--threads", threads)
            results.add((self.folder / "o.npy").read_bytes())
        self.assertEqual(len(results), 1)
        self.check(np.load(self.folder / "o.npy")[::97], samples, 20, 3 * 97)

    def test_words_and_gzip(self):
        self.network()
        samples = self.save(self.rng.normal(size=100).astype("f4"))
        self.gconv("n.safetensors", "s.npy", "o.csv", "--windows", "20")
        self.check(self.csv((self.folder / "o.csv").read_text()), samples, 20, 20)
        subprocess.run(["gzip", "s.npy"], cwd=self.folder, check=True)
        self.gconv("-i", "s.npy.gz", "-f", "n.safetensors", "--windows", "20", "-o", "z.csv")
        self.assertEqual((self.folder / "o.csv").read_bytes(), (self.folder / "z.csv").read_bytes())

    def test_timings(self):
        """The speed of the stream, and how long windows take; not among rows that go to standard output."""
        self.network()
        np.save(self.folder / "s.npy", self.rng.normal(0, 1, 20 * 5000 + 3).astype("f4"))
        words = ("-i", "s.npy", "-f", "n.safetensors", "--windows", "20")
        told = json.loads(self.gconv(*words, "-o", "o.npy", "--timings=json").stdout)
        self.assertEqual((told["signal"], told["windows"]), ("s.npy", 5000))
        self.assertAlmostEqual(told["samples_per_s"] * told["ms"], 1e3 * (20 * 5000 + 3), delta=1)
        self.assertTrue(0 < told["p50_ms"] <= told["p99_ms"] < told["ms"] * 1.05, told)
        self.assertRegex(self.gconv(*words, "-o", "o.npy", "--timings").stdout,
                         r"^s\.npy: 5000 windows in \S+ ms, \S+ samples/s; from .* \S+ ms \(median\), \S+ ms \(99%\)\n$")
        done = self.gconv(*words, "-o", "-", "--timings")
        self.assertEqual(len(done.stdout.splitlines()), 5001)
        self.assertIn("5000 windows in ", done.stderr)

    def test_refused(self):
        self.network()
        self.save(self.rng.normal(size=100).astype("f4"))
        self.save(self.rng.normal(size=(100, 2)).astype("f4"), "two.npy")
        self.photo("p.png")
        words = ["-i", "s.npy", "-f", "n.safetensors", "-o", "x.csv"]
        for fragment, *more in (("--windows 19: n.safetensors takes windows of 20 samples: --windows 20", "--windows", "19:5"),
                                ("this takes S or S:HOP", "--windows", "0"), ("this takes S or S:HOP", "--windows", "20:0"),
                                ("--windows and --depth exclude each other", "--windows", "20", "--depth", "8"),
                                ("--windows and --then exclude", "--windows", "20", "--then", "-f", "sobel"),
                                ("--raw is for signals", "--raw", "f32le"), ("--format csv is for signals", "--format", "csv"),
                                ("--format png is for images", "--windows", "20", "--format", "png"),
                                ("takes one signal", "--windows", "20", "-i", "two.npy"),
                                ("samples cannot be read as 'f64le'", "--windows", "20", "--raw", "f64le"),
                                ("--algorithm all is a race", "--windows", "20", "-a", "all"),
                                ("--device cuda:all", "--windows", "20", "-d", "cuda:all")):
            with self.subTest(more=more):
                self.usage_error(fragment, *words, *more)
        self.usage_error("two.npy: has 2 channels, and n.safetensors takes 1", "-i", "two.npy", "-f", "n.safetensors", "--windows", "20", "-o", "x.csv")
        self.usage_error("-f sobel: is no file of a network", "-i", "s.npy", "-f", "sobel", "--windows", "20", "-o", "x.csv")
        self.usage_error("name a file that ends in .csv, .npy or .f32le", "-i", "s.npy", "-f", "n.safetensors", "--windows", "20", "-o", "x.png")
        self.usage_error("p.png: is no .npy: say with --raw", "-i", "p.png", "-f", "n.safetensors", "--windows", "20", "-o", "x.csv")
        self.usage_error("would replace a file that is read", "-i", "s.npy", "-f", "n.safetensors", "--windows", "20", "-o", "s.npy")
        save_network(self.folder / "image.safetensors", [Layer(np.ones((1, 1, 3, 3)), padding="valid")], 1, 8, 9)
        self.usage_error("takes images of 9 x 8 pixels", "-i", "s.npy", "-f", "image.safetensors", "--windows", "20", "-o", "x.csv")

    def fails(self, fragment, *words, status=1, **options):
        before = self.snapshot()
        result = self.gconv(*words, status=status, **options)
        self.assertIn(fragment, result.stderr)
        self.assertEqual(self.snapshot(), before)
        return result

    def test_bad_signals(self):
        self.network()
        words = ["-f", "n.safetensors", "--windows", "20", "-o", "x.npy"]
        raw = ["-i", "-", "--raw", "f32le", *words]
        self.fails("standard input: has no samples", *raw, stdin=b"")
        self.fails("standard input: has 19 samples, and a window has 20", *raw, stdin=bytes(76))
        self.fails("its bytes are no whole number of samples f32le of 1 channel", *raw, stdin=bytes(403))
        self.network("two.safetensors", channels=2)
        self.fails("no whole number of samples f32le of 2 channels", "-i", "-", "--raw", "f32le:2", "-f", "two.safetensors", *words[2:], stdin=bytes(404))
        self.network()
        (self.folder / "cut.f32le").write_bytes(bytes(403))
        self.fails("cut.f32le: its bytes are no whole number", "-i", "cut.f32le", *words, status=2)
        self.fails("nosuch.npy: cannot open", "-i", "nosuch.npy", *words, status=2)
        for bad, said in ((np.nan, "NaN"), (np.inf, "infinite")):
            samples = self.rng.normal(size=90000).astype("f4")
            samples[70001] = bad
            self.save(samples)
            self.fails(f"s.npy: sample 70002 is {said}: samples must be finite", "-i", "s.npy", *words)
            result = self.gconv(*raw[:-1], "-", status=1, stdin=samples.tobytes())
            self.assertIn(f"standard input: sample 70002 is {said}", result.stderr)
            self.check(self.csv(result.stdout), samples[:70001], 20, 20)
        (self.folder / "short.npy").write_bytes((self.folder / "s.npy").read_bytes()[:-4000])
        self.fails("short.npy", "-i", "short.npy", *words)
        self.save(np.zeros((4, 5, 6)), "three.npy")
        self.fails("a signal has one dimension, samples, or two", "-i", "three.npy", *words, status=2)

    def test_rows_before_a_failure_come(self):
        self.network()
        samples = self.rng.normal(size=101).astype("f4")
        samples[100] = np.nan
        process = self.start("-i", "-", "--raw", "f32le", "-f", "n.safetensors", "--windows", "20", "-o", "-")
        process.stdin.write(samples[:100].tobytes())
        process.stdin.flush()
        time.sleep(0.2)
        text, errors = process.communicate(samples[100:].tobytes())
        self.assertEqual(process.returncode, 1)
        self.assertIn("sample 101 is NaN", errors.decode())
        self.check(self.csv(text.decode()), samples[:100], 20, 20)

    def test_outputs_that_fail(self):
        self.network()
        words = ["-i", "-", "--raw", "f32le", "-f", "n.safetensors", "--windows", "20"]
        process = self.start(*words, "-o", "-")
        process.stdout.close()
        process.stdin.write(bytes(800))
        process.stdin.flush() # and stays open: the program does not wait for more
        self.assertEqual(process.wait(20), -signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), b"")
        process.stdin.close()
        process.stdout = None
        process.stdin = None
        result = self.gconv(*words, "-o", "/dev/full", status=1, stdin=bytes(800))
        self.assertIn("No space left", result.stderr)
        (self.folder / "old.csv").write_text("old")
        self.fails("old.csv: exists, and --no-clobber keeps it", *words, "-o", "old.csv", "--no-clobber", stdin=bytes(800))

    def test_signals_leave_nothing(self):
        self.network()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("-i", "-", "--raw", "f32le", "-f", "n.safetensors", "--windows", "20", "-o", "o.csv")
            process.stdin.write(bytes(8000))
            process.stdin.flush()
            for _ in range(200):
                if len(self.files()) > 1:
                    break
                time.sleep(0.02)
            self.assertEqual(len(self.files()), 2, "no temporary file")
            process.send_signal(number)
            process.wait(20)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(self.files(), ["n.safetensors"])

    def test_memory(self):
        """50 MB, whatever comes through a pipe."""
        self.network(window=200, outputs=(8,))
        megabytes = 400 if LONG else 80
        script = (f"import sys\nfor _ in range({megabytes}): sys.stdout.buffer.write(b'\\0\\0\\x80?' * 250000)\n")
        measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
        source = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        words = ["-i", "-", "--raw", "f32le", "-f", "n.safetensors", "--windows", "200:150", "-o", "o.npy", "-q"]
        result = subprocess.run([sys.executable, "-c", measure, GCONV, *words], cwd=self.folder, env=self.environment(),
                                stdin=source.stdout, stdout=subprocess.PIPE, check=True)
        source.stdout.close()
        self.assertEqual(source.wait(), 0)
        self.assertLess(int(result.stdout), 50e6)
        rows = np.load(self.folder / "o.npy", mmap_mode="r")
        self.assertEqual(rows.shape, ((megabytes * 250000 - 200) // 150 + 1, 8))
        self.assertEqual(len(np.unique(rows[:, 0])), 1)
        self.check(rows[-1:], np.ones(200), 200, 200)


if __name__ == "__main__":
    unittest.main()
