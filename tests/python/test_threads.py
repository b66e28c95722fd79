# SPDX-License-Identifier: MIT
"""Calls from many threads, from a child of a fork, and 100,000 of them, which leave no memory behind."""
import concurrent.futures
import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
import unittest

from helper import LONG, draw_image, gconv, np


def in_a_child(image):
    return gconv.filter(image, "gaussian:sigma=2")


class Threads(unittest.TestCase):
    def test_sixteen_threads_share_plans(self):
        random = np.random.default_rng(1)
        images = [draw_image(random, (30 + k % 3, 40, 3), np.uint8) for k in range(32)]
        wanted = [gconv.filter(image, "gaussian:sigma=2") for image in images]
        plan = gconv.Plan("gaussian:sigma=2", (30, 40, 3))
        weight = random.normal(size=(4, 3, 3, 3)).astype(np.float32)
        gconv.clear_cache()

        def work(number):
            for _ in range(20):
                np.testing.assert_array_equal(gconv.filter(images[number], "gaussian:sigma=2"), wanted[number])
                if images[number].shape[0] == 30:
                    np.testing.assert_array_equal(plan(images[number]), wanted[number])
                gconv.conv2d(images[number].transpose(2, 0, 1), weight)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(32)))

    def test_other_threads_run_meanwhile(self):
        image = np.zeros((2000, 2000), np.float32)
        kernel = np.random.default_rng(2).normal(size=(45, 45)).astype(np.float32)
        gconv.set_threads(1)
        self.addCleanup(gconv.set_threads, 0)
        ticks, done = [0], threading.Event()

        def count():
            while not done.is_set():
                ticks[0] += 1
                done.wait(0.001)

        counter = threading.Thread(target=count)
        counter.start()
        before = ticks[0]
        gconv.filter(image, kernel, algorithm="direct")
        during = ticks[0] - before
        done.set()
        counter.join()
        self.assertGreater(during, 5)

    def test_an_interrupt_stops_a_call(self):
        image = np.zeros((6000, 6000), np.float32)
        image[::7] = 0.5
        kernel = np.random.default_rng(2).normal(size=(151, 151)).astype(np.float32)
        weight, x = np.zeros((32, 32, 3, 3), np.float32), np.zeros((1, 32, 1200, 1200), np.float32)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have let it be ignored
        self.addCleanup(signal.signal, signal.SIGINT, before)
        gconv.set_threads(1)
        self.addCleanup(gconv.set_threads, 0)
        small = gconv.filter(image[:50, :500], kernel, algorithm="direct")
        for call in (lambda: gconv.filter(image, kernel, algorithm="direct"),  # 8 seconds at the very least
                     lambda: [gconv.conv2d(x, weight) for _ in range(100)]):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            begin = time.monotonic()
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                call()
            timer.join()
            self.assertLess(time.monotonic() - begin, 5)
            again = gconv.filter(image[:50, :500], kernel, algorithm="direct")
            np.testing.assert_array_equal(again, small)  # plans are usable

    def test_child_of_a_fork(self):
        image = draw_image(np.random.default_rng(3), (200, 300), np.uint8)
        wanted = in_a_child(image)  # the threads of the parent are there
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for result in pool.map_async(in_a_child, [image] * 4).get(timeout=60):
                np.testing.assert_array_equal(result, wanted)


class Memory(unittest.TestCase):
    @unittest.skipIf("GCONV_SANITIZED" in os.environ, "sanitizers take memory of their own")
    def test_no_call_leaves_memory_behind(self):
        random = np.random.default_rng(4)
        image, kernel = draw_image(random, (8, 8), np.uint8), random.normal(size=(3, 3)).astype(np.float32)
        strided, out = image[:, ::-1], np.empty_like(image)
        x, weight = draw_image(random, (1, 3, 8, 8), np.float32), random.normal(size=(2, 3, 3, 3)).astype(np.float32)

        def calls(count):
            for k in range(count):
                gconv.filter(image, kernel)
                gconv.filter(image, kernel, out=out)
                gconv.filter(strided, kernel)
                gconv.conv2d(x, weight)
                kernel[0, 0] = k % 1000  # another operation
                try:
                    gconv.filter(image[:0], kernel)
                except gconv.ArgumentError:
                    pass
            gc.collect()

        count = 20000 if LONG else 1500
        calls(count)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        calls(count)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 3000)  # KB


if __name__ == "__main__":
    unittest.main()
