# SPDX-License-Identifier: MIT
"""Ctrl-C in long calls of every kind: each stops within moments, and what it used works afterwards; gconv.progress watches
them. Calls are interrupted at times that differ: three of each kind, eight in the long tests."""
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import warnings

from helper import LONG, draw_image, gconv, np

SECONDS = 2.0  # a call ends so soon after a signal; within 0.2 s on a machine that does nothing else


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        random = np.random.default_rng(1)
        cls.folder = tempfile.TemporaryDirectory(prefix="gconv-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have let it be ignored
        cls.addClassCleanup(signal.signal, signal.SIGINT, before)
        cls.image = draw_image(random, (3000, 3000), np.float32)
        cls.kernel = random.normal(size=(101, 101)).astype(np.float32)
        cls.small = draw_image(random, (40, 50), np.float32)
        cls.rows, cls.labels = random.normal(size=(6000, 20)), random.integers(0, 3, 6000)
        cls.network = gconv.Network("conv 48 5x5 relu, conv 48 5x5 relu, conv 1 5x5", channels=1)
        cls.network.save(cls.path / "net.onnx")
        cls.graph = gconv.Network(cls.path / "net.onnx")
        cls.machine = gconv.SVM.train(cls.rows[:3000], cls.labels[:3000], gamma=1.0)
        mask = np.zeros((600, 600), np.uint8)
        mask[:8], mask[-8:] = 1, 2
        cls.photo = draw_image(random, (600, 600, 3), np.uint8)
        gconv.write(cls.path / "mask.png", mask)
        gconv.write(cls.path / "photo.png", cls.photo)
        cls.pixels = gconv.SVM.train(cls.path / "photo.png", cls.path / "mask.png", features="default", gamma=1.0, most_cases=6000)
        (cls.path / "many").mkdir()
        for number in range(40):
            gconv.write(cls.path / "many" / f"{number}.png", cls.photo)
        plan = gconv.Plan(cls.kernel, cls.image.shape, "float32", algorithm="direct")
        weight, x = np.zeros((64, 64, 5, 5), np.float32), np.zeros((1, 64, 600, 600), np.float32)
        big = cls.image[None, None, :800, :800]
        cls.calls = {
            "filter": lambda: gconv.filter(cls.image, cls.kernel, algorithm="direct"),
            "plan": lambda: plan(cls.image),
            "conv2d": lambda: [gconv.conv2d(x, weight) for _ in range(100)],
            "network": lambda: [cls.network(big) for _ in range(100)],
            "graph": lambda: [cls.graph(big) for _ in range(100)],
            "fit": lambda: gconv.fit(cls.image, cls.image, 35),
            "train": lambda: gconv.train("dense 64 tanh, dense 3 softmax", cls.rows, cls.labels, epochs=10000),
            "SVM": lambda: gconv.SVM.train(cls.rows, cls.labels, cost=100, gamma=0.01, tolerance=1e-6),
            "validate": lambda: gconv.SVM.validate(cls.rows, cls.labels, cost=100, gamma=0.01, tolerance=1e-6),
            "predict": lambda: [cls.machine.predict(cls.rows) for _ in range(100)],
            "classify": lambda: [gconv.classify(cls.pixels, cls.photo) for _ in range(100)],
            "run": lambda: gconv.run(cls.path / "many", cls.kernel, cls.path / "out/", algorithm="direct"),
            "read": lambda: [gconv.read(cls.path / "photo.png") for _ in range(10000)],
        }

    def interrupt(self, call, after):
        """Seconds from the signal to the exception."""
        sent = []

        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(after, send)
        try:
            with self.assertRaises(KeyboardInterrupt), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                timer.start()
                call()
            return time.monotonic() - sent[0]
        finally:
            timer.cancel()
            timer.join()

    def test_calls_stop(self):
        late = {}
        for number in range(104 if LONG else 39):
            name = list(self.calls)[number % len(self.calls)]
            late.setdefault(name, []).append(self.interrupt(self.calls[name], 0.005 + 0.06 * (number * 0.618 % 1)))
        print({name: f"{max(times):.3f}" for name, times in late.items()})
        for name, times in late.items():
            self.assertLess(sorted(times)[len(times) // 2], SECONDS, f"{name}: {times}")
        np.testing.assert_array_equal(gconv.filter(self.small, "gaussian"), gconv.Plan("gaussian", self.small.shape, "float32")(self.small))
        self.assertEqual(self.network(self.small[None, None]).shape, (1, 1, 40, 50))
        self.assertEqual(len(self.machine.predict(self.rows[:5])), 5)
        leftovers = [path.name for path in (self.path / "out").glob("*") if path.suffix != ".png"]
        self.assertEqual(leftovers, [])
        for path in (self.path / "out").glob("*.png"):
            self.assertEqual(gconv.read(path).shape, self.photo.shape)

    def test_stops_are_obeyed(self):
        """A call that is stopped at its first look ends long before one that is not: it does not only tell so at its end."""
        volume = self.image[:400].reshape(24, 250, 200)
        point = np.ones((5, 5, 5), np.float32) / 125
        calls = {
            "volume": lambda: gconv.deconvolve(volume, point, iterations=20),
            "wiener": lambda: gconv.deconvolve(self.image, point[0], method="wiener"),
            "stats": lambda: gconv.stats(np.tile(self.image, (2, 1))),
        }
        for name, call in calls.items():
            with self.subTest(name):
                start = time.monotonic()
                call()
                whole, stopped = time.monotonic() - start, []
                for _ in range(3):
                    start = time.monotonic()
                    with self.assertRaises(gconv.StoppedError), gconv.progress(lambda what, done: False):
                        call()
                    stopped.append(time.monotonic() - start)
                print(f"{name}: {whole:.3f} s, stopped {min(stopped):.3f}")
                self.assertLess(min(stopped), 0.6 * whole)

    @unittest.skipUnless(LONG, "in the long tests")
    def test_looks_come_often(self):
        """Between two looks at signals lies no long work; 1 to 12 s where a loop does not look."""
        random = np.random.default_rng(2)
        wide, few = random.normal(size=(600, 4000)), random.integers(0, 3, 600)
        huge = random.normal(size=(1501, 1501)).astype(np.float32)
        calls = {
            "fit": lambda: gconv.fit(self.photo[..., 0], self.photo[..., 0], 61),
            "filter": lambda: gconv.filter(np.zeros((6000, 6000), np.float32), huge),
            "train": lambda: gconv.train("dense 4000 relu, dense 4000 relu, dense 3 softmax", wide, few, epochs=1),
        }
        for name, call in calls.items():
            with self.subTest(name):
                times = [time.monotonic()]
                with gconv.progress(lambda what, done, times=times: times.append(time.monotonic())):
                    call()
                self.assertLess(max(np.diff([*times, time.monotonic()])), 1.0)

    def test_bars_of_tqdm(self):
        """A bar for each kind of work, which ends at 100%; here of a module that stands for tqdm."""
        bars = []

        class Bar:
            def __init__(self, total, desc, bar_format):
                self.desc, self.n, self.closed = desc, 0, False
                bars.append(self)

            def update(self, more):
                self.n += more

            def close(self):
                self.closed = True

        modules = {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": types.ModuleType("tqdm.auto")}
        modules["tqdm.auto"].tqdm = Bar
        with unittest.mock.patch.dict(sys.modules, modules), gconv.progress("tqdm"):
            gconv.filter(self.image, self.kernel, algorithm="direct")  # long enough to be told of on the fastest machine
            gconv.train("dense 3 softmax", self.rows[:300], self.labels[:300], epochs=2)
        self.assertEqual((bars[0].desc, bars[-1].desc), ("filtering", "training"))
        self.assertTrue(all(bar.closed and bar.n == 100 for bar in bars), [bar.n for bar in bars])
        with unittest.mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}), self.assertRaisesRegex(gconv.ArgumentError, "no package"):
            gconv.progress("tqdm").__enter__()

    def test_progress(self):
        for name in ("filter", "network", "fit", "train", "SVM", "validate", "classify", "run"):
            with self.subTest(name):
                told = []

                def watch(what, done):
                    told.append((what, done))
                    return len(told) < 4

                with self.assertRaises(gconv.StoppedError), gconv.progress(watch), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.calls[name]()
                self.assertTrue(all(isinstance(what, str) and 0 <= done <= 1 for what, done in told), told)
        with gconv.progress(lambda what, done: 1 / 0), self.assertRaises(ZeroDivisionError):
            self.calls["filter"]()
        with gconv.progress(), self.assertRaises(gconv.ArgumentError):
            gconv.progress("bar")


if __name__ == "__main__":
    unittest.main()
