# SPDX-License-Identifier: MIT
"""The Python package on a GPU: tensors of PyTorch and arrays of CuPy where they are, streams, CUDA graphs."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from helper import SKIPPED, draw_image, gconv, np  # noqa: E402

if not any(device["usable"] and device["name"].startswith("cuda") for device in gconv.devices()):
    print("skipped: there is no GPU, or gconv was built without CUDA")
    raise SystemExit(SKIPPED)

try:
    import torch
except ImportError:
    torch = None
try:
    import cupy
except ImportError:
    cupy = None


class Host(unittest.TestCase):
    def test_arrays_of_the_host_go_to_the_gpu_and_back(self):
        random = np.random.default_rng(1)
        for dtype in (np.uint8, np.uint16, np.float32):
            for shape in ((50, 70), (50, 70, 3), (50, 70, 5)):
                image = draw_image(random, shape, dtype)
                result = gconv.filter(image, "sobel_x", device="cuda", algorithm="direct")
                np.testing.assert_array_equal(result, gconv.filter(image, "sobel_x", algorithm="direct"))
        x, weight = random.random((2, 3, 20, 21)).astype(np.float32), random.normal(size=(4, 3, 3, 3))
        np.testing.assert_allclose(gconv.conv2d(x, weight, device="cuda"), gconv.conv2d(x, weight), rtol=1e-4, atol=1e-4)
        plan = gconv.Plan("gaussian:sigma=2", (50, 70), "uint8", device="cuda")
        self.assertTrue(plan.info["device"].startswith("cuda"))
        gray = gconv.filter(draw_image(random, (50, 70, 3), np.uint8), "gaussian", gray=True, device="cuda")
        self.assertEqual(gray.shape, (50, 70, 1))


@unittest.skipIf(torch is None or not torch.cuda.is_available(), "PyTorch for GPUs is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(2)

    def test_tensors_stay_on_the_gpu(self):
        for dtype in (np.uint8, np.float32):
            for shape, axes in (((50, 70), None), ((3, 50, 70), "CHW"), ((2, 3, 50, 70), None)):
                image = draw_image(self.random, shape, dtype)
                tensor = torch.from_numpy(image).cuda()
                result = gconv.filter(tensor, "sobel_x", axes=axes, algorithm="direct")
                self.assertTrue(result.is_cuda)
                np.testing.assert_array_equal(result.cpu().numpy(), gconv.filter(image, "sobel_x", axes=axes, algorithm="direct"))
                out = torch.empty_like(tensor)
                self.assertIs(gconv.filter(tensor, "sobel_x", axes=axes, out=out, algorithm="direct"), out)
                torch.testing.assert_close(out, result, rtol=0, atol=0)
        last = torch.rand(2, 3, 40, 50, device="cuda").contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(gconv.filter(last, "sharpen"), gconv.filter(last.contiguous(), "sharpen"), rtol=0, atol=1e-5)
        half = torch.rand(40, 50, device="cuda").half()
        self.assertEqual(gconv.filter(half, "sharpen").dtype, torch.float16)

    def test_streams(self):
        image = torch.rand(500, 700, device="cuda")
        wanted = gconv.filter(image, "gaussian:sigma=2")
        torch.cuda.synchronize()
        streams, results = [torch.cuda.Stream() for _ in range(4)], []
        for _ in range(20):
            for stream in streams:
                with torch.cuda.stream(stream):
                    results.append(gconv.filter(image, "gaussian:sigma=2"))
        torch.cuda.synchronize()
        for result in results:
            torch.testing.assert_close(result, wanted, rtol=0, atol=0)

    def test_a_call_waits_for_nothing_and_nobody_waits_for_it(self):
        image = torch.zeros(2000, 2000, device="cuda")
        gconv.filter(image, "identity")
        image.fill_(3)  # behind it in the stream comes the filter, then the change
        result = gconv.filter(image, "identity")
        image.fill_(5)
        self.assertEqual(result.min().item(), 3)

    def test_cuda_graph(self):
        image, out = torch.rand(300, 400, device="cuda"), torch.empty(300, 400, device="cuda")
        plan = gconv.Plan("gaussian:sigma=2", (300, 400), "float32", device="cuda")
        plan(image, out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plan(image, out=out)
        for _ in range(3):
            image.copy_(torch.rand(300, 400))
            graph.replay()
            torch.cuda.synchronize()
            torch.testing.assert_close(out, gconv.filter(image, "gaussian:sigma=2"), rtol=0, atol=0)

    def test_conv2d_with_gradients(self):
        import gconv.torch
        torch.backends.cudnn.allow_tf32 = False
        x = torch.rand(2, 6, 20, 21, device="cuda", requires_grad=True)
        weight, bias = (torch.randn(size, device="cuda", requires_grad=True) for size in ((8, 3, 3, 3), (8,)))
        for options in ((1, 1, 1, 2), (2, 0, 1, 2), (1, "same", 2, 2)):
            both = []
            for function in (torch.nn.functional.conv2d, gconv.torch.conv2d):
                y = function(x, weight, bias, *options)
                both.append((y, *torch.autograd.grad(y.square().sum(), (x, weight, bias))))
            for wanted, result in zip(*both):
                torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-2)

    def test_what_is_wrong(self):
        tensor = torch.rand(40, 50, device="cuda")
        for options in ({"device": "cpu"}, {"out": torch.empty(40, 50)}, {"out": tensor}):
            with self.assertRaises(gconv.Error, msg=str(options)):
                gconv.filter(tensor, "gaussian", **options)
        with self.assertRaises(gconv.Error):  # done on the host
            gconv.filter(torch.rand(40, 50, 3, device="cuda"), "gaussian", gray=True)


COUNT = torch.cuda.device_count() if torch is not None and torch.cuda.is_available() else 0


ON_THE_SECOND = """
import ctypes, tempfile
import numpy as np
import gconv

random = np.random.default_rng(7)
image = random.random((60, 70, 3)).astype(np.float32)
weight = random.normal(size=(4, 3, 3, 3)).astype(np.float32)
rows = random.normal(size=(600, 5)).astype(np.float32)
classes = (rows[:, 0] * rows[:, 1] > 0).astype(np.int32)


def work(device):
    made = [gconv.filter(image, "sobel_x", device=device), gconv.filter(image, "gaussian:sigma=3", device=device),
            gconv.conv2d(image.transpose(2, 0, 1)[None], weight, device=device)]
    net = gconv.train("dense 9 tanh, dense 2 softmax", rows, classes, epochs=3, seed=1, device=device)
    made.append(net.weights(0)[0])
    made.append(gconv.SVM.train(rows, classes, device=device).predict(rows, device=device))
    with tempfile.TemporaryDirectory() as folder:
        gconv.write(folder + "/a.png", (image * 255).astype(np.uint8))
        gconv.write(folder + "/a.jpg", (image * 255).astype(np.uint8))
        gconv.run(folder + "/a.png", "sharpen", folder + "/b.png", device=device)
        gconv.run(folder + "/a.jpg", "sharpen", folder + "/c.png", device=device)
        made += [gconv.read(folder + "/b.png"), gconv.read(folder + "/c.png")]
    return made


there = work("cuda:1")
flags, active = ctypes.c_uint(), ctypes.c_int()
assert ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
print("GPU 0 is", "in use" if active.value else "idle")
for a, b in zip(there, work("cuda:0")):
    np.testing.assert_array_equal(a, b)
"""


@unittest.skipIf(COUNT < 2, "there are no two GPUs, or PyTorch for GPUs is not installed")
class OtherGpus(unittest.TestCase):
    """Tensors on a GPU that is not PyTorch's current one."""

    def test_tensors_stay_where_they_are(self):
        random = np.random.default_rng(5)
        image = draw_image(random, (3, 50, 70), np.float32)
        wanted = gconv.filter(image, "sobel_x", axes="CHW", algorithm="direct")
        weight = random.normal(size=(4, 3, 3, 3)).astype(np.float32)
        for index in range(1, COUNT):
            place = torch.device("cuda", index)
            tensor = torch.from_numpy(image).to(place)
            result = gconv.filter(tensor, "sobel_x", axes="CHW", algorithm="direct")
            self.assertEqual(result.device, place)
            torch.cuda.synchronize(place)
            np.testing.assert_array_equal(result.cpu().numpy(), wanted)
            out = torch.empty_like(tensor)
            self.assertIs(gconv.filter(tensor, "sobel_x", axes="CHW", algorithm="direct", out=out), out)
            torch.testing.assert_close(out, result, rtol=0, atol=0)
            x, w = tensor[None], torch.from_numpy(weight).to(place)
            y = gconv.conv2d(x, w, padding=1)
            self.assertEqual(y.device, place)
            torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w, padding=1), rtol=1e-2, atol=1e-2)
            with self.assertRaisesRegex(gconv.ArgumentError, "detach"):
                gconv.filter(tensor.clone().requires_grad_(), "sobel_x", axes="CHW")
            np.testing.assert_array_equal(gconv.filter(image, "sobel_x", axes="CHW", algorithm="direct", device=f"cuda:{index}"),
                                          wanted)

    def test_current_gpu_stays(self):
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda:0")
        gconv.filter(np.zeros((50, 70), np.float32), "sobel_x", algorithm="direct", device="cuda:1")
        self.assertEqual(torch.cuda.current_device(), 0)

    def test_nothing_runs_on_a_gpu_that_was_not_asked_for(self):
        """A process of its own, in which nobody has used GPU 0."""
        done = subprocess.run([sys.executable, "-c", ON_THE_SECOND], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual((done.returncode, done.stdout), (0, "GPU 0 is idle\n"), done.stderr)

    @unittest.skipIf(cupy is None, "CuPy is not installed")
    def test_cupy(self):
        image = draw_image(np.random.default_rng(6), (50, 70), np.uint8)
        for index in range(1, COUNT):
            with cupy.cuda.Device(index):
                array = cupy.asarray(image)
            result = gconv.filter(array, "sobel_x", algorithm="direct")
            self.assertEqual(result.device.id, index)
            with cupy.cuda.Device(index):
                np.testing.assert_array_equal(result.get(), gconv.filter(image, "sobel_x", algorithm="direct"))


@unittest.skipIf(cupy is None, "CuPy is not installed")
class Cupy(unittest.TestCase):
    def test_arrays_stay_on_the_gpu(self):
        image = draw_image(np.random.default_rng(3), (50, 70, 3), np.float32)
        array = cupy.asarray(image)
        result = gconv.filter(array, "sobel_x", algorithm="direct")
        self.assertIsInstance(result, cupy.ndarray)
        np.testing.assert_array_equal(result.get(), gconv.filter(image, "sobel_x", algorithm="direct"))
        with cupy.cuda.Stream(non_blocking=True) as stream:
            again = gconv.filter(array[:, ::-1], "sobel_x", algorithm="direct")
            stream.synchronize()
        np.testing.assert_array_equal(again.get(), gconv.filter(image[:, ::-1], "sobel_x", algorithm="direct"))

        class Other:
            __cuda_array_interface__ = array.__cuda_array_interface__

        np.testing.assert_array_equal(gconv.filter(Other(), "sobel_x", algorithm="direct").get(), result.get())

    def test_a_call_goes_into_the_stream_of_the_caller(self):
        """Behind what is in the stream, and before what comes after, though nobody waits."""
        for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(), cupy.cuda.Stream.null):
            with stream:
                array = cupy.zeros((2000, 2000), cupy.float32)
                gconv.filter(array, "identity")
                stream.synchronize()
                for _ in range(20):
                    array += 1
                result = gconv.filter(array, "identity")
                array.fill(0)
                self.assertEqual((float(result.min()), float(result.max())), (20, 20))


class Sessions(unittest.TestCase):
    """Plans and buffers stay in memory of the GPU: after the first calls, no call takes more of it."""

    def check(self, make, free, synchronize):
        image = make(np.random.default_rng(4).random((700, 900), dtype=np.float32))
        x, weight = (make(np.random.default_rng(5).random(shape, dtype=np.float32)) for shape in ((2, 8, 60, 70), (8, 8, 3, 3)))
        plan = gconv.Plan("gaussian:sigma=3", (700, 900), "float32", device="cuda")
        out = make(np.zeros((700, 900), np.float32))

        def work():
            self.assertIs(plan(image, out=out), out)
            gconv.filter(image, "sobel_x", out=out)
            gconv.filter(image, np.ones((31, 31), np.float32), algorithm="fft", out=out)
            return gconv.conv2d(x, weight, padding=1)

        for _ in range(3):
            wanted = work()
        synchronize()
        before = free()
        for _ in range(100):
            result = work()
        synchronize()
        self.assertGreaterEqual(free(), before - (1 << 20))
        self.assertTrue(bool((result == wanted).all()))

    @unittest.skipIf(torch is None or not torch.cuda.is_available(), "PyTorch for GPUs is not installed")
    def test_torch(self):
        self.check(lambda array: torch.from_numpy(array).cuda(), lambda: torch.cuda.mem_get_info()[0], torch.cuda.synchronize)
        with torch.cuda.stream(torch.cuda.Stream()):
            self.check(lambda array: torch.from_numpy(array).cuda(), lambda: torch.cuda.mem_get_info()[0], torch.cuda.synchronize)

    @unittest.skipIf(cupy is None, "CuPy is not installed")
    def test_cupy(self):
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            with stream:
                self.check(cupy.asarray, lambda: cupy.cuda.runtime.memGetInfo()[0], cupy.cuda.runtime.deviceSynchronize)


if __name__ == "__main__":
    unittest.main()
