# SPDX-License-Identifier: MIT
"""The widgets for napari, on a display of Xvfb. $GCONV_PICTURE: a file that gets the picture of docs/python.md."""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from helper import SKIPPED, gconv, np

try:
    import napari
except ImportError:
    print("skipped: napari is not installed")
    raise SystemExit(SKIPPED)
if not os.environ.get("DISPLAY"):
    if not shutil.which("xvfb-run"):
        print("skipped: there is no display, and no xvfb-run")
        raise SystemExit(SKIPPED)
    os.execvp("xvfb-run", ["xvfb-run", "-a", "-s", "-screen 0 1280x800x24", sys.executable, *sys.argv])
import gconv.napari  # noqa: E402

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "images"
PICTURE = os.environ.get("GCONV_PICTURE")


class Widgets(unittest.TestCase):
    def setUp(self):
        self.viewer = napari.Viewer(show=bool(PICTURE))
        self.addCleanup(self.viewer.close)
        self.photo = gconv.read(IMAGES / "coffee.jpg")

    def dock(self, factory):
        widget = factory()
        self.viewer.window.add_dock_widget(widget, name=factory.__name__ if hasattr(factory, "__name__") else "gconv")
        widget.reset_choices()
        return widget

    def test_preview(self):
        layer = self.viewer.add_image(self.photo, name="coffee", rgb=True)
        widget = self.dock(gconv.napari.preview)
        widget.image.value = layer
        widget.kernel.value = "sobel"
        found = self.viewer.layers["filter of coffee"]
        np.testing.assert_array_equal(found.data, gconv.filter(self.photo, "sobel", border="replicate"))
        widget.kernel.value = "gaussian"
        widget.parameters.value = "size=9,sigma=2"
        np.testing.assert_array_equal(found.data, gconv.filter(self.photo, "gaussian:size=9,sigma=2", border="replicate"))
        widget.parameters.value = "size=9,sig"  # is being typed
        self.assertIn("sig", self.viewer.status)
        self.assertEqual(len(self.viewer.layers), 2)

    def test_stack(self):
        stack = np.random.default_rng(1).random((4, 20, 30))
        widget = self.dock(gconv.napari.preview)
        widget.image.value = self.viewer.add_image(stack, name="stack", scale=(3, 1, 1))
        widget.kernel.value = "sobel_x"
        found = self.viewer.layers["filter of stack"]
        np.testing.assert_allclose(found.data[2], gconv.filter(stack[2], "sobel_x", border="replicate"), atol=1e-6)
        np.testing.assert_array_equal(found.scale, (3, 1, 1))

    def test_classes(self):
        grey = self.photo[::2, ::2].copy()
        layer = self.viewer.add_image(grey, name="coffee", rgb=True)
        painted = self.viewer.add_labels(np.zeros(grey.shape[:2], np.int32), name="painted")
        widget = self.dock(gconv.napari.classes)
        widget.image.value, widget.painted.value, widget.features.value = layer, painted, "gaussian 1 2"
        widget()
        self.assertIn("two classes", self.viewer.status)
        painted.data[:20, :60] = 1
        painted.data[-20:, -60:] = 2
        painted.refresh()
        widget()
        found = self.viewer.layers["classes of coffee"]
        self.assertEqual(set(np.unique(found.data)), {1, 2})
        self.assertGreater((found.data[:20, :60] == 1).mean(), 0.9)
        if PICTURE:
            found.opacity = 0.4
            self.viewer.window.resize(1100, 700)
            napari.utils.notifications.notification_manager.records.clear()
            for _ in range(20):
                napari.qt.get_qapp().processEvents()
            self.viewer.screenshot(PICTURE, canvas_only=False, flash=False)

    def test_network(self):
        net = gconv.Network("conv 8 3x3 relu, conv 3 3x3, residual", channels=3)
        with tempfile.TemporaryDirectory() as folder:
            net.save(f"{folder}/net.safetensors")
            widget = self.dock(gconv.napari.network)
            widget.image.value = self.viewer.add_image(self.photo, name="coffee", rgb=True)
            widget.file.value = f"{folder}/net.safetensors"
            widget()
        wanted = np.clip(net(np.moveaxis(self.photo, -1, 0)[None])[0], 0, 1)
        np.testing.assert_allclose(np.moveaxis(self.viewer.layers["network of coffee"].data[0], -1, 0), wanted, atol=1e-6)

    def test_network_on_a_stack_of_one_frame(self):
        """The result has an axis less than the stack."""
        net, stack = gconv.Network("conv 1 3x3", channels=1), np.random.default_rng(1).random((1, 20, 30), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            net.save(f"{folder}/net.safetensors")
            widget = self.dock(gconv.napari.network)
            widget.image.value = self.viewer.add_image(stack, name="stack", scale=(3, 1, 2))
            widget.file.value = f"{folder}/net.safetensors"
            widget()
        found = self.viewer.layers["network of stack"]
        np.testing.assert_allclose(found.data, net(stack[:, None])[0, 0], atol=1e-6)
        np.testing.assert_array_equal(found.scale, (1, 2))

    def test_classes_of_whole_images(self):
        """A class of a whole image is no picture: the status line tells it."""
        net, stack = gconv.Network("conv 3 3x3, mean", channels=1), np.random.default_rng(1).random((4, 20, 30), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            net.save(f"{folder}/net.safetensors")
            widget = self.dock(gconv.napari.network)
            widget.image.value = self.viewer.add_image(stack, name="stack")
            widget.file.value = f"{folder}/net.safetensors"
            widget()
        wanted = [str(number + 1) for number in net(stack[:, None]).reshape(4, 3).argmax(axis=1)]
        self.assertEqual(self.viewer.status, "classes of the images: " + ", ".join(wanted))
        self.assertEqual([layer.name for layer in self.viewer.layers], ["stack"])

    def test_manifest(self):
        """npe2 finds each widget that the manifest names."""
        from npe2 import PluginManifest
        manifest = PluginManifest.from_file(pathlib.Path(gconv.__file__).parent / "napari.yaml")
        for command in manifest.contributions.commands:
            self.assertTrue(callable(getattr(gconv.napari, command.python_name.split(":")[1])))


if __name__ == "__main__":
    unittest.main()
