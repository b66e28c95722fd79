# SPDX-License-Identifier: MIT
"""Support vector machines on a GPU: models and predictions have the bytes of the CPU's."""
import contextlib
import ctypes
import json
import subprocess
import sys
import unittest

import numpy as np
from test_networks import SKIPPED, has_gpu
from helper import GCONV, CommandTest  # test_networks has told Python where this is


@contextlib.contextmanager
def little_memory(left):
    """Holds the memory of the first GPU, but for so many bytes."""
    driver, context, held = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    for status in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context),
                   driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), driver.cuMemAlloc_v2(ctypes.byref(held), ctypes.c_size_t(free.value - left))):
        assert status == 0, f"the driver fails with {status}"
    try:
        yield
    finally:
        driver.cuMemFree_v2(held)
        driver.cuDevicePrimaryCtxRelease_v2(0)


class Machines(CommandTest):
    def write(self, name, x, targets):
        lines = [f"{t:g} " + " ".join(f"{i + 1}:{v:.9g}" for i, v in enumerate(row) if v != 0) for row, t in zip(x, targets)]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def draw(self, count, columns, classes, seed=1, apart=1.5, scale=1.0, zeros=0.0):
        """Cases of so many classes, or, of one, with numbers as targets; some of them twice."""
        random = np.random.default_rng(seed)
        kinds = np.arange(count) % classes
        x = random.normal(size=(count, columns)) + apart * random.normal(size=(classes, columns))[kinds]
        x = np.round(x * 64) / 64 * scale
        x[random.random(x.shape) < zeros] = 0
        x[5], x[7] = x[3], x[1]
        targets = kinds + 1 if classes > 1 else np.round(x.sum(1) + random.normal(size=count), 3)
        self.write("t.libsvm", x, targets)
        self.write("p.libsvm", x + np.round(random.normal(size=x.shape) * 64) / 128 * scale, targets)

    def run_on(self, device, *words):
        out = self.gconv("svm", "t.libsvm", *words, "-o", f"{device}.model", "-d", device, "--json")
        self.gconv("classify", f"{device}.model", "p.libsvm", "-o", f"{device}.csv", "-d", device, "-q")
        return json.loads(out.stdout), [(self.folder / f"{device}.{kind}").read_bytes() for kind in ("model", "csv")]

    def check(self, *words):
        with self.subTest(words=words):
            (_, cpu), (there, cuda) = (self.run_on(device, *map(str, words)) for device in ("cpu", "cuda"))
            self.assertTrue(there["device"].startswith("cuda"))
            self.assertTrue(cpu[0] == cuda[0], "the models differ")
            self.assertTrue(cpu[1] == cuda[1], "the predictions differ")

    def test_costs(self):
        """C from 1e-3 to 1e5, with a tolerance below the default."""
        for count, columns, scale in ((60, 3, 1), (201, 17, 1), (333, 2, 64), (700, 33, 1), (1500, 5, 1)):
            self.draw(count, columns, 2, seed=count, apart=0.8, scale=scale)
            for cost in (1e-3, 1, 1e3):
                self.check("-c", cost, "-g", 0.3 / scale**2, "-e", "1e-5")
        self.draw(100, 3, 2, apart=1)
        self.check("-c", 1e5, "-g", 0.3, "-e", "1e-4")

    def test_classes(self):
        for classes, count in ((2, 31), (3, 100), (7, 1000), (20, 4001)):
            self.draw(count, 16, classes, seed=classes)
            self.check("-c", 8, "-g", 0.05)
        self.check("-c", 8, "-g", 0.05, "-w", "3:2.5")

    def test_large_machines(self):
        """Working sets, rounds, and cases that settle."""
        for count, columns, classes, zeros in ((2500, 7, 2, 0), (5003, 123, 2, 0.85), (7000, 11, 3, 0)):
            self.draw(count, columns, classes, apart=0.4, zeros=zeros)
            self.check("-c", 1, "-g", 0.1)
            self.check("-c", 10, "-g", 0.5, "-m", 1)
        self.check("-c", 1, "-g", 0.1, "--shrinking", "no")

    def test_many_columns(self):
        """Rows by digits (kernels/cuda/svm/rows_int8.cu), which so many columns have."""
        random, kinds = np.random.default_rng(5), np.arange(2200) % 2
        for scale, gamma in ((1, 2e-5), (255, 2e-9)):
            x = random.normal(size=(2200, 4000)) + 0.1 * random.normal(size=(2, 4000))[kinds]
            np.save(self.folder / "x.npy", (x * scale if scale == 1 else np.round(x * scale)).astype(np.float32))
            (self.folder / "y.txt").write_text("\n".join(map(str, kinds)) + "\n")
            for device in ("cpu", "cuda"):
                self.gconv("svm", "x.npy", "-t", "y.txt", "-g", str(gamma), "-o", f"{device}.model", "-d", device)
            self.assertTrue((self.folder / "cpu.model").read_bytes() == (self.folder / "cuda.model").read_bytes(), "the models differ")

    def test_kernels(self):
        self.draw(900, 9, 3, apart=0.8)
        self.check("-k", "linear", "-c", 0.1)
        self.check("-k", "polynomial", "-g", 0.1, "--coef0", 1, "-c", 0.5)
        self.check("-k", "polynomial", "-g", 0.1, "--degree", 5, "-c", 2)
        self.check("-k", "polynomial", "-g", 0.3, "--degree", 2, "-c", 0.01)
        self.draw(2600, 6, 2, apart=0.5)
        self.check("-k", "linear", "-c", 0.1)
        self.check("-k", "polynomial", "-g", 0.1, "-c", 0.5)

    def test_direct_differences(self):
        """Where |x|^2 + |y|^2 - 2 x y would cancel."""
        self.draw(500, 3, 3, scale=30000)
        self.check("-c", 10, "-g", 100)
        self.check("-c", 10, "-g", "1e-9", "--scale", "unit")

    def test_regression(self):
        for count in (77, 640, 1300):
            self.draw(count, 4, 1, seed=count)
            self.check("--type", "epsilon-svr", "-c", 1, "-g", 0.3)
            self.check("--type", "epsilon-svr", "-c", 5, "-g", 0.1, "-p", 0.5, "-b")

    def test_order(self):
        """Sums go over columns from the first to the last: large products cancel, so that another order shows in 9 digits."""
        random, columns = np.random.default_rng(4), 48
        places = random.permutation(columns).reshape(3, -1)

        def make(count, sign):
            x = np.zeros((count, columns))
            x[:, places[0]] = random.uniform(1, 2, (count, columns // 3))
            x[:, places[1]] = sign * x[:, places[0]]
            x[:, places[2]] = 2.0**-17 * random.uniform(1, 2, (count, columns // 3))
            return x.astype(np.float32)

        vectors = [" ".join(f"{i + 1}:{v:.9g}" for i, v in enumerate(row) if v != 0) for row in make(70, 1)]
        lines = [f"{coefficient:.3f} {vector}" for coefficient, vector in zip(random.normal(size=70), vectors)]
        head = ["svm_type epsilon_svr", "kernel_type linear", "nr_class 2", "total_sv 70", "rho 0", "SV"]
        (self.folder / "m.model").write_text("\n".join(head + lines) + "\n")
        self.write("p.libsvm", make(150, -1), np.zeros(150))
        cpu, cuda = [self.gconv("classify", "m.model", "p.libsvm", "-d", device, "-q").stdout for device in ("cpu", "cuda")]
        self.assertEqual(cpu, cuda)
        self.assertGreater(len(set(cuda.split())), 100)  # they are no zeros

    def test_probabilities(self):
        self.draw(300, 5, 2, apart=0.7)
        self.check("-b", "-g", 0.2)
        self.draw(600, 5, 5, apart=0.9)
        self.check("-b", "-g", 0.2, "--scale", "standard")

    def test_folds(self):
        self.draw(500, 5, 4, apart=0.7)
        found = [json.loads(self.gconv("svm", "t.libsvm", "-v", "5", "-g", "0.1", "-d", device, "--json").stdout)["validation"] for device in ("cpu", "cuda")]
        self.assertEqual(*found)

    def test_tanh_stays(self):
        """The sigmoid kernel is the CPU's, and it is said."""
        self.draw(100, 3, 2)
        out, cuda = self.run_on("cuda", "-k", "sigmoid", "-g", "0.01")
        self.assertEqual(out["device"], "cpu")
        self.assertEqual(cuda, self.run_on("cpu", "-k", "sigmoid", "-g", "0.01")[1])

    def test_little_memory(self):
        """Cases that do not fit the GPU: the CPU trains, and it is said."""
        random = np.random.default_rng(1)
        rows, columns, left = 4000, 60000, 900 << 20  # which CUDA's own memory comes out of, too
        self.assertGreater(4 * rows * columns, left)
        places = np.sort(random.integers(1, columns, (rows, 8)))
        lines = [f"{i % 2 + 1} " + " ".join(f"{p}:{i % 2 + 1}" for p in sorted(set(row))) + f" {columns}:1" for i, row in enumerate(places)]
        (self.folder / "t.libsvm").write_text("\n".join(lines) + "\n")
        words = [GCONV, "svm", "t.libsvm", "-g", "0.1", "-c", "1"]
        with little_memory(left):
            done = subprocess.run([*words, "-d", "cuda", "-o", "cuda.model", "--json"], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the CPU trains instead of the GPU: cuda:0 has no memory for the cases", done.stderr)
        self.assertEqual(json.loads(done.stdout)["device"], "cpu")
        self.assertIn("too little memory", json.loads(done.stdout)["why"])
        self.gconv("svm", "t.libsvm", "-g", "0.1", "-c", "1", "-d", "cpu", "-o", "cpu.model")
        self.assertEqual((self.folder / "cpu.model").read_bytes(), (self.folder / "cuda.model").read_bytes())

    def test_choice(self):
        """auto takes the CPU for little, and tells why."""
        self.draw(100, 3, 2)
        out, _ = self.run_on("auto")
        self.assertEqual(out["device"], "cpu")
        self.assertIn("a GPU would hardly", out["why"])


if __name__ == "__main__":
    if not has_gpu():
        print("no GPU: skipped")
        sys.exit(SKIPPED)
    unittest.main()
