# SPDX-License-Identifier: MIT
"""Which inputs are found, and what their results are called. Each photo is different noise and the filter is the identity, so
that the pixels tell which input a result is of."""
import os
import shutil
import subprocess
import unittest

import numpy
from PIL import Image

from helper import CommandTest, needs


class Inputs(CommandTest):
    def listed(self, *words):
        """The inputs in the order of --dry-run."""
        result = self.gconv(*words, "-f", "identity", "-o", "out/", "--dry-run")
        return [line.split(" -> ")[0] for line in result.stdout.splitlines()]

    def outputs(self, *words):
        result = self.gconv(*words, "-f", "identity", "-o", "out/", "--dry-run")
        return [line.split(" -> ")[1] for line in result.stdout.splitlines()]

    def setUp(self):
        super().setUp()
        for name in ("p/b.png", "p/a.png", "p/c.jpg", "p/.hidden.png", "p/sub/d.png", "p/sub/deep/e.png", "p/.git/f.png"):
            self.photo(name)
        (self.folder / "p/notes.txt").write_text("not an image\n")

    def test_folder(self):
        for name in ("p", "p/", "./p"):
            prefix = name.rstrip("/")
            self.assertEqual(self.listed("-i", name), [f"{prefix}/{n}" for n in ("a.png", "b.png", "c.jpg")])

    def test_recursive(self):
        self.assertEqual(self.listed("-i", "p", "-r"),
                         ["p/a.png", "p/b.png", "p/c.jpg", "p/sub/d.png", "p/sub/deep/e.png"])

    def test_links_that_lead_back(self):
        os.symlink("..", self.folder / "p/sub/up")
        os.symlink(".", self.folder / "p/self")
        os.symlink("nowhere", self.folder / "p/dangling.png")
        os.symlink("nowhere", self.folder / "p/dangling.txt")
        self.assertEqual(self.listed("-i", "p", "-r"),
                         ["p/a.png", "p/b.png", "p/c.jpg", "p/sub/d.png", "p/sub/deep/e.png"])
        said = self.gconv("-i", "p", "-f", "identity", "-o", "out/", "--dry-run").stderr
        self.assertIn("p/dangling.png: a link that leads nowhere, and passed over\n", said)
        os.symlink("loop.png", self.folder / "p/loop.png")
        said = self.gconv("-i", "p", "-f", "identity", "-o", "out/", "--dry-run").stderr
        self.assertIn("p/dangling.png, and more: a link that leads nowhere, and passed over\n", said)
        self.assertEqual(self.gconv("-i", "p", "-f", "identity", "-o", "out/", "--dry-run", "-q").stderr, "")
        (self.folder / "links").mkdir()
        os.symlink("nowhere", self.folder / "links/a.png")
        self.usage_error("links: no images in this folder, but links that lead nowhere, such as links/a.png",
                         "-i", "links", "-f", "identity", "-o", "out/")

    def test_results_of_an_earlier_run_are_no_inputs(self):
        for source, output in (("p", "p/out"), ("p", "p/out/{stem}_{filter}.png"), ("p", "p/sub/out/"), ("p/[!n]*", "p/out/")):
            words = ("-i", source, "-r", "-f", "identity", "-o", output)
            first = self.gconv(*words, "--dry-run").stdout
            self.gconv(*words)
            self.assertEqual(self.gconv(*words, "--dry-run").stdout.replace(" (exists: replaced)", ""), first)
            shutil.rmtree(self.folder / output.split("{")[0])
        self.gconv("-i", "p", "-r", "-f", "identity", "-o", "p/out/")
        self.assertIn("p/out/a.png", self.listed("-i", "p/out", "-r"))  # a folder that is named is searched

    def test_pipes_in_a_folder(self):
        """Nobody may ever write into them."""
        os.mkfifo(self.folder / "p/pipe.png")
        self.assertEqual(self.listed("-i", "p"), ["p/a.png", "p/b.png", "p/c.jpg"])

    def test_patterns(self):
        self.assertEqual(self.listed("-i", "p/*.png"), ["p/a.png", "p/b.png"])
        self.assertEqual(self.listed("-i", "p/[bc].*"), ["p/b.png", "p/c.jpg"])
        self.assertEqual(self.outputs("-i", "p/*/*.png"), ["out/sub/d.png"])
        self.assertEqual(self.outputs("-i", "p/sub*", "-r"), ["out/sub/d.png", "out/sub/deep/e.png"])
        self.assertEqual(self.outputs("-i", "p/.*", "-r"), ["out/.git/f.png", "out/.hidden.png"])  # not .., nor .

    def test_file_named_like_a_pattern(self):
        self.photo("p/[x].png")
        self.photo("p/x.png")
        self.assertEqual(self.listed("-i", "p/[x].png"), ["p/[x].png"])

    def test_order_and_kinds_mixed(self):
        self.assertEqual(self.listed("-i", "p/sub/d.png", "-i", "p/a*", "-i", "p/c.jpg"), ["p/sub/d.png", "p/a.png", "p/c.jpg"])
        self.assertEqual(self.listed("-i", "-", "-i", "p/a.png"), ["-", "p/a.png"])

    def test_formats_that_are_not_read(self):
        (self.folder / "other").mkdir()
        for name in ("a.PSD", "b.gif", "c.txt"):
            (self.folder / "other" / name).write_text("")
        rest = ("-i", "other", "-f", "identity", "-o", "out/")
        self.usage_error("but 2 of other formats, such as other/a.PSD: convert them first", *rest)
        self.photo("other/d.png")
        result = self.gconv(*rest)
        self.assertEqual(result.stderr, "gconv: passed over: 1 .psd, 1 .gif, 1 .txt; the first is other/a.PSD\n")
        self.assertEqual(self.gconv(*rest, "-q").stderr, "")
        self.assertEqual(self.files("out"), ["d.png"])

    def test_nothing_found(self):
        (self.folder / "empty").mkdir()
        (self.folder / "empty/deep").mkdir()
        rest = ("-f", "identity", "-o", "out/")
        self.usage_error("nope.png: cannot find this input: No such file", "-i", "nope.png", *rest)
        self.usage_error("nope.png: cannot find this input", "-i", "p/a.png", "-i", "nope.png", *rest)
        self.usage_error("p/a.png/x: cannot find this input: Not a directory", "-i", "p/a.png/x", *rest)
        self.usage_error("no images in this folder", "-i", "empty", *rest)
        self.assertIn("--recursive looks into its sub-folders", self.gconv("-i", "empty", *rest, status=2).stderr)
        self.assertNotIn("--recursive looks", self.gconv("-i", "empty", "-r", *rest, status=2).stderr)
        self.usage_error("no file matches this pattern", "-i", "*.tiff", *rest)
        self.usage_error("only folders match", "-i", "em*", *rest)
        self.usage_error("the name of an input is empty", "-i", "", *rest)
        self.usage_error("standard input can be read only once", "-i", "-", "-i", "-", *rest)
        self.usage_error("standard input can be read only once", "-i", "-", "-f", "-", "-o", "out/")
        self.usage_error("standard input can be read only once", "-i", "p/a.png", "-f", "-", "-f", "-", "-o", "out/")
        self.photo("-:a.png")
        self.photo("-:b.png")
        self.gconv("-i", "-:a.png", "-i", "-:b.png", *rest)  # of which neither is


class Outputs(CommandTest):
    def setUp(self):
        super().setUp()
        self.a = self.photo("p/a.png", seed=1)
        self.b = self.photo("p/b.png", seed=2)
        self.c = self.photo("p/sub/c.png", seed=3)

    def test_one_file(self):
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "x.png")
        self.assertEqual(self.files(), ["p/a.png", "p/b.png", "p/sub/c.png", "x.png"])
        self.assert_pixels("x.png", self.a)

    def test_format_by_name_and_by_option(self):
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "x.ppm")
        self.assertEqual((self.folder / "x.ppm").read_bytes()[:2], b"P6")
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "plain", "--format", "png")
        self.assert_pixels("plain", self.a)
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "x.jpg", "--format", "png")
        self.assertEqual((self.folder / "x.jpg").read_bytes()[1:4], b"PNG")

    def test_unknown_extension(self):
        for name in ("x", "x.xyz", "x.txt"):
            result = self.usage_error("has no known extension", "-i", "p/a.png", "-f", "identity", "-o", name)
            for extension in ("png", "jpg", "npy"):
                self.assertIn(extension, result.stderr)
        self.usage_error("output is empty", "-i", "p/a.png", "-f", "identity", "-o", "")

    def test_a_device_or_a_pipe_takes_png(self):
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "/dev/null")
        os.mkfifo(self.folder / "pipe")
        reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE)
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "pipe")
        self.assertEqual(reader.communicate(timeout=60)[0][1:4], b"PNG")

    def test_folders(self):
        (self.folder / "there").mkdir()
        for output in ("there", "there/", "made/", "made/deeper/"):
            self.gconv("-i", "p/a.png", "-f", "identity", "-o", output)
            self.assert_pixels(f"{output}/a.png", self.a)

    def test_several_inputs_make_a_folder(self):
        self.gconv("-i", "p/a.png", "-i", "p/sub/c.png", "-f", "identity", "-o", "new")
        self.assertEqual(self.files("new"), ["a.png", "c.png"])
        self.gconv("-i", "p", "-f", "identity", "-o", "new2", "--format", "jpg")
        self.assertEqual(self.files("new2"), ["a.jpg", "b.jpg"])

    def test_mirror(self):
        self.gconv("-i", "p", "-r", "-f", "identity", "-o", "out")
        self.assertEqual(self.files("out"), ["a.png", "b.png", "sub/c.png"])
        for name, pixels in (("a.png", self.a), ("b.png", self.b), ("sub/c.png", self.c)):
            self.assert_pixels(f"out/{name}", pixels)

    def test_mirror_of_a_pattern_from_its_first_wildcard(self):
        self.gconv("-i", f"{self.folder}/p/*/*.png", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["sub/c.png"])

    def test_several_filters(self):
        self.gconv("-i", "p/a.png", "-f", "identity", "-f", "sobel_x", "-o", "out/")
        self.assertEqual(self.files("out"), ["a_identity.png", "a_sobel_x.png"])
        self.assert_pixels("out/a_identity.png", self.a)

    def test_combined_filters_make_one(self):
        self.gconv("-i", "p/a.png", "-f", "sobel_x", "-f", "sobel_y", "--combine", "magnitude", "-o", "x.png")
        self.gconv("-i", "p/a.png", "-f", "sobel_x", "-f", "sobel_y", "--combine", "sum", "-o", "out/")
        self.assertEqual(self.files("out"), ["a.png"])
        self.gconv("-i", "p/a.png", "-f", "sobel_x", "-f", "sobel_y", "--combine", "max", "-o", "{stem}-{filter}.png")
        self.assertIn("a-sobel_x+sobel_y.png", self.files())

    def test_filters_of_one_name(self):
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
            (self.folder / folder / "k.txt").write_text("0 0 0\n0 1 0\n0 0 0\n")
        self.gconv("-i", "p/a.png", "-f", "one/k.txt", "-f", "two/k.txt", "-o", "out/")
        self.assertEqual(self.files("out"), ["a_k_1.png", "a_k_2.png"])

    def test_one_file_for_several_results(self):
        rest = ("-o", "x.png")
        for words in (["-i", "p/a.png", "-f", "identity", "-f", "sobel_x"], ["-i", "p/a.png", "-i", "p/b.png", "-f", "identity"],
                      ["-i", "p", "-f", "identity"]):
            result = self.usage_error("x.png: is one file, but there are 2 results", *words, *rest)
            self.assertEqual("--combine magnitude" in result.stderr, words.count("-f") > 1)
            self.assertIn("{stem}_{filter}.png", result.stderr)
        self.gconv("-i", "p/sub", "-f", "identity", *rest)  # a folder with one image is one result
        self.assert_pixels("x.png", self.c)

    def test_templates(self):
        self.gconv("-i", "p", "-r", "-f", "identity", "-f", "sobel_x", "-o", "out/{filter}/{stem}-{index}.png")
        self.assertEqual(self.files("out"), ["identity/a-1.png", "identity/b-3.png", "identity/sub/c-5.png",
                                             "sobel_x/a-2.png", "sobel_x/b-4.png", "sobel_x/sub/c-6.png"])
        self.assert_pixels("out/identity/sub/c-5.png", self.c)

    def test_index_has_the_width_of_the_last(self):
        for i in range(10):
            self.photo(f"q/{i}.png")
        self.gconv("-i", "q", "-f", "identity", "-o", "out/{index}.png")
        self.assertEqual(self.files("out"), [f"{i:02}.png" for i in range(1, 11)])

    def test_stems(self):
        for name in ("q/x.y.png", "q/plain"):
            self.photo(f"{name}.png")
        os.rename(self.folder / "q/plain.png", self.folder / "q/plain")
        self.gconv("-i", "q/x.y.png.png", "-i", "q/plain", "-f", "identity", "-o", "out/<{stem}>.png")
        self.assertEqual(self.files("out"), ["<plain>.png", "<x.y.png>.png"])

    def test_braces_of_names_are_doubled(self):
        for output, made in (("x{{1}}/", "x{1}/a.png"), ("x{{1}}.png", "x{1}.png"), ("{{{stem}}}.png", "{a}.png"),
                             ("{{stem}}/{stem}.png", "{stem}/a.png"), ("{{{{/{stem}}.png", "{{/a}.png"),
                             ("{{/{{/{stem}}}}}_{index}.png", "{/{/a}}_1.png"), ("}}.png", "}}.png"), ("x}.png", "x}.png")):
            folder = made.rpartition("/")[0]
            if folder and not output.endswith("/"):
                (self.folder / folder).mkdir(parents=True, exist_ok=True)
            self.gconv("-i", "p/a.png", "-f", "identity", "-o", output)
            self.assert_pixels(made, self.a)
            (self.folder / made).unlink()
        self.gconv("-i", "p", "-f", "identity", "-f", "sobel_x", "-o", "new{{x}}", "--format", "jpg")
        self.assertEqual(self.files("new{x}"), ["a_identity.jpg", "a_sobel_x.jpg", "b_identity.jpg", "b_sobel_x.jpg"])
        said = self.usage_error("is one file, but there are 2 results", "-i", "p", "-f", "identity", "-o", "x{{1}}.png").stderr
        self.assertIn("x{{1}}.png", said)

    def test_a_folder_with_braces_that_is_there(self):
        for name in ("photos {2024}", "{stem}", "{", "a{b}}c"):
            (self.folder / name).mkdir()
            for output in (name, name + "/"):
                self.gconv("-i", "p", "-r", "-f", "identity", "-o", output)
                self.assertEqual(self.files(name), ["a.png", "b.png", "sub/c.png"])
                self.assert_pixels(f"{name}/sub/c.png", self.c)
        self.usage_error("this output is one of the inputs", "-i", "{stem}", "-f", "identity", "-o", "{stem}")
        self.photo("q/a.png")
        said = self.usage_error("land on this file", "-i", "p/a.png", "-i", "q/a.png", "-f", "identity", "-o", "photos {2024}").stderr
        self.assertIn("'photos {{2024}}/{stem}_{index}.png'", said)  # which does what it says

    def test_results_in_folders_with_braces_are_no_inputs(self):
        for output in ("p/{{out}}/", "p/{{out}}/{stem}.png", "p/{out}"):
            words = ("-i", "p", "-r", "-f", "identity", "-o", output)
            for _ in range(3):
                self.gconv(*words)
                self.assertEqual(self.files("p/{out}"), ["a.png", "b.png", "sub/c.png"])

    def test_wrong_templates(self):
        for template, fragment in (("{nonsense}.png", '"{nonsense}" is not a field'), ("{stem.png", '"{stem.png" is not a field'),
                                   ("{}.png", '"{}" is not a field'), ("{stem}.xyz", "has no known extension"),
                                   ("{stem}/", "ends in the name of a file"), ("{stem/}.png", "is not a field"), ("q/{foo}.png", 'q/{foo}.png: "{foo}" is not a field'),
                                   ("{foo}/{stem}.png", '{foo}/{stem}.png: "{foo}" is not a field'),
                                   ("{{{foo}}}.png", '"{foo}" is not a field'), ("x{1}/", "{{ and }}"),
                                   ("x{1}/a.png", "a brace that belongs to a name is written twice: {{ and }}")):
            self.usage_error(fragment, "-i", "p/a.png", "-f", "identity", "-o", template)

    def test_collisions(self):
        self.photo("q/a.png")
        self.photo("p/a.jpg")
        both = ("-f", "identity", "-o", "out/")
        result = self.usage_error("out/a.png", "-i", "p/a.png", "-i", "q/a.png", *both)
        for name in ("p/a.png", "q/a.png", "{index}"):
            self.assertIn(name, result.stderr)
        self.usage_error("would both land on this file", "-i", "p", *both)
        self.usage_error("several results of p/a.png", "-i", "p/a.png", "-f", "identity", "-f", "sobel_x", "-o", "{stem}.png")

    def test_advice_names_only_what_the_template_lacks(self):
        self.photo("q/a.png")
        self.photo("p/a.jpg")
        self.photo("p/a.b.png")
        different, similar = ("-i", "p/a.png", "-i", "q/a.png"), ("-i", "p/a.png", "-i", "p/a.jpg")
        only = ", which differ by their extension only,"
        for words, output, remark, advice in (
                (different, "{filter}.png", "", "{stem} or {index}, such as '{filter}_{index}.png'"),
                (different, "{stem}.png", "", "{index}, such as '{stem}_{index}.png'"),
                (different, "d.d/", "", "{index}, such as 'd.d/{stem}_{index}.png'"),
                (similar, "{filter}.png", only, "{index}, such as '{filter}_{index}.png'"),
                (("-i", "p/a.png", "-i", "p/a.b.png"), "{filter}.png", "", "{stem} or {index}, such as '{filter}_{index}.png'"),
                (similar, "out/", only, "{index}, such as 'out/{stem}_{index}.png'"),
                (("-i", "p/a.png", "-f", "sobel_x"), "{stem}.png", None,
                 "{filter}, {frame} or {index}, such as '{stem}_{index}.png'"),
                (("-i", "p/a.png", "-f", "sobel_x"), "{stem}{frame}.png", None,
                 "{filter} or {index}, such as '{stem}{frame}_{index}.png'")):
            result = self.usage_error("land on this file", *words, "-f", "identity", "-o", output)
            self.assertTrue(result.stderr.endswith(f": tell them apart with {advice}\n"), result.stderr)
            if remark is not None:
                self.assertIn(f"{words[1]} and of {words[3]}{remark} would both land", result.stderr)

    def test_collisions_through_links_and_dots(self):
        self.photo("q/sub/a.png")
        self.photo("q/a.png")
        (self.folder / "out").mkdir()
        os.symlink(".", self.folder / "out/sub")
        self.usage_error("would both land", "-i", "q", "-r", "-f", "identity", "-o", "out/")
        self.usage_error("would both land", "-i", "q/a.png", "-i", "p/b.png", "-f", "identity", "-o", "new/../{filter}.png")

    def test_an_output_that_is_an_input(self):
        rest = ("-f", "identity")
        os.symlink("a.png", self.folder / "p/link.png")
        os.link(self.folder / "p/b.png", self.folder / "hard.png")
        for output in ("p/a.png", "./p/../p/a.png", "p/link.png"):
            self.usage_error("this output is one of the inputs", "-i", "p/a.png", *rest, "-o", output)
        self.usage_error("this output is one of the inputs", "-i", "p/b.png", *rest, "-o", "hard.png")
        self.usage_error("this output is one of the inputs", "-i", "p", *rest, "-o", "p")


class Frames(CommandTest):
    def setUp(self):
        super().setUp()
        generator = numpy.random.default_rng(5)
        self.frames = generator.integers(0, 256, (3, 2, 6, 7), dtype=numpy.uint8)  # N x C x H x W: grey and alpha
        self.colour = generator.integers(0, 256, (1, 3, 6, 7), dtype=numpy.uint8)
        numpy.save(self.folder / "many.npy", self.frames)
        numpy.save(self.folder / "colour.npy", self.colour)

    def test_each_frame_a_file(self):
        self.gconv("-i", "many.npy", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["many_1.png", "many_2.png", "many_3.png"])
        for n in range(3):
            self.assert_pixels(f"out/many_{n + 1}.png", self.frames[n].transpose(1, 2, 0))

    def test_by_template(self):
        self.gconv("-i", "many.npy", "-i", "colour.npy", "-f", "identity", "-o", "out/{index}-{stem}{frame}.png")
        self.assertEqual(self.files("out"), ["1-many1.png", "2-many2.png", "3-many3.png", "4-colour1.png"])
        self.usage_error("several results of many.npy", "-i", "many.npy", "-f", "identity", "-o", "{stem}.png")
        self.usage_error("is one file, but there are 3 results", "-i", "many.npy", "-f", "identity", "-o", "x.png")

    def test_planar_colour_becomes_interleaved(self):
        self.gconv("-i", "colour.npy", "-f", "identity", "-o", "x.png")
        self.assert_pixels("x.png", self.colour[0].transpose(1, 2, 0))

    def test_planar_grey(self):
        grey = numpy.random.default_rng(8).integers(0, 256, (2, 1, 5, 4), dtype=numpy.uint8)
        numpy.save(self.folder / "grey.npy", grey)
        self.gconv("-i", "grey.npy", "-f", "identity", "-o", "out/")
        for n in range(2):
            self.assert_pixels(f"out/grey_{n + 1}.png", grey[n, 0])

    def test_planar_depths(self):
        for dtype, high in ((numpy.uint16, 65535), (numpy.uint8, 255)):
            values = numpy.random.default_rng(6).integers(0, high, (1, 3, 5, 4)).astype(dtype)
            numpy.save(self.folder / "v.npy", values)
            self.gconv("-i", "v.npy", "-f", "identity", "-o", "v.ppm")
            data = (self.folder / "v.ppm").read_bytes()[-values.nbytes:]
            got = numpy.frombuffer(data, numpy.dtype(dtype).newbyteorder(">")).reshape(5, 4, 3)
            numpy.testing.assert_array_equal(got, values[0].transpose(1, 2, 0))
        values = numpy.random.default_rng(7).random((1, 3, 5, 4), dtype=numpy.float32)
        numpy.save(self.folder / "v.npy", values)
        self.gconv("-i", "v.npy", "-f", "identity", "-o", "v.pfm")
        got = numpy.frombuffer((self.folder / "v.pfm").read_bytes()[-values.nbytes:], "<f4").reshape(5, 4, 3)[::-1]
        numpy.testing.assert_array_equal(got, values[0].transpose(1, 2, 0))

    def test_npy_stays_one_file(self):
        self.gconv("-i", "many.npy", "-f", "identity", "-o", "same.npy")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "same.npy"), self.frames)

    def test_frames_from_standard_input_cannot_be_foretold(self):
        data = (self.folder / "many.npy").read_bytes()
        result = self.gconv("-i", "-", "-f", "identity", "-o", "x.png", stdin=data, status=1)
        self.assertIn("3 frames, where 1 could be told beforehand", result.stderr)
        self.gconv("-i", "-", "-f", "identity", "-o", "x.npy", stdin=data)
        numpy.testing.assert_array_equal(numpy.load(self.folder / "x.npy"), self.frames)


class Formats(CommandTest):
    """--format same, {ext}, --suffix, and results among their inputs."""

    def setUp(self):
        super().setUp()
        for i, name in enumerate(("a.jpg", "b.JPEG", "c.png", "sub/d.ppm")):
            self.photo(f"in/{name}", seed=i)
        Image.fromarray(self.pixels("in/c.png")).save(self.folder / "in/a.jpg", quality=63)
        numpy.save(self.folder / "in/e.npy", numpy.ones((5, 6), "f4"))

    def test_same(self):
        result = self.gconv("-i", "in", "-r", "-f", "identity", "-o", "out/", "--format", "same")
        self.assertEqual(result.stderr, "gconv: 5 written\n")
        self.assertEqual(self.files("out"), ["a.jpg", "b.JPEG", "c.png", "e.npy", "sub/d.ppm"])
        self.assertEqual(numpy.load(self.folder / "out/e.npy").dtype, numpy.float32)
        with Image.open(self.folder / "out/a.jpg") as mine, Image.open(self.folder / "in/a.jpg") as given:
            self.assertEqual(mine.quantization, given.quantization)
        self.gconv("-i", "in", "-r", "-f", "identity", "-o", "better/", "--format", "same", "--jpeg-quality", "95")
        with Image.open(self.folder / "better/a.jpg") as mine, Image.open(self.folder / "in/a.jpg") as given:
            self.assertLess(sum(mine.quantization[0]), sum(given.quantization[0]))
        with Image.open(self.folder / "out/b.JPEG") as image:
            self.assertEqual(image.format, "JPEG")

    def test_every_quality(self):
        (self.folder / "q").mkdir()
        for quality in range(1, 101, 3):
            Image.fromarray(self.pixels("in/c.png")).save(self.folder / f"q/{quality}.jpg", quality=quality)
        self.gconv("-i", "q", "-f", "identity", "-o", "out/", "--format", "same")
        for quality in range(1, 101, 3):
            with Image.open(self.folder / f"q/{quality}.jpg") as given, Image.open(self.folder / f"out/{quality}.jpg") as mine:
                self.assertEqual(mine.quantization[0], given.quantization[0], quality)

    def test_the_content_counts(self):
        shutil.copy(self.folder / "in/a.jpg", self.folder / "in/lies.png")
        self.gconv("-i", "in/lies.png", "-f", "identity", "-o", "out/", "--format", "same")
        self.assertEqual(self.files("out"), ["lies.jpg"])

    def test_ext(self):
        self.gconv("-i", "in", "-r", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/{stem}_{filter}.{ext}")
        self.assertIn("a_sobel_x.jpg", self.files("out"))
        self.assertIn("sub/d_sobel_y.ppm", self.files("out"))
        self.gconv("-i", "in/a.jpg", "-f", "sobel_x", "-o", "other/{stem}.{ext}", "--format", "pgm")
        self.assertEqual(self.files("other"), ["a.pnm"])

    @needs("libwebp")
    def test_same_keeps_webp_without_loss(self):
        (self.folder / "w").mkdir()
        for name, options in (("a", {"lossless": True}), ("b", {"quality": 80})):
            with Image.open(self.folder / "in" / "b.JPEG") as image:
                image.save(self.folder / "w" / f"{name}.webp", **options)
        self.gconv("-i", "w", "-f", "identity", "-o", "out/", "--format", "same")
        self.assertIn(b"VP8L", (self.folder / "out/a.webp").read_bytes()[:40])
        self.assertNotIn(b"VP8L", (self.folder / "out/b.webp").read_bytes()[:40])
        self.assert_pixels("out/a.webp", self.pixels("w/a.webp"))
        self.gconv("-i", "w", "-f", "identity", "-o", "lossy/", "--format", "same", "--quality", "80")
        self.assertNotIn(b"VP8L", (self.folder / "lossy/a.webp").read_bytes()[:40])

    def test_same_is_refused(self):
        words = ("-f", "identity", "--format", "same", "-o")
        self.usage_error("x.png: --format same writes jpeg here, as in/a.jpg is one", "-i", "in/a.jpg", *words, "x.png")
        self.usage_error("out/b.png: --format same writes jpeg here", "-i", "in/b.JPEG", *words, "out/{stem}.png")
        self.usage_error("standard input has no format before it is read", "-i", "-", *words, "-", stdin=b"")
        self.usage_error("--depth 16: the format jpeg cannot hold that", "-i", "in", *words, "out/", "--depth", "16")
        self.usage_error("results of banks are not like their inputs", "-i", "in", *words, "out/", "--activation", "relu")

    def test_same_resumes(self):
        words = ("-i", "in", "-r", "-f", "gaussian_3", "-o", "out/", "--resume")
        self.gconv(*words, "--format", "same")
        self.assertIn("5 results were done, which is all", self.gconv(*words, "--format", "same").stderr)
        self.assertIn("4 new, 1 of other filters, options", self.gconv(*words, "--format", "png").stderr)
        plan = self.gconv("-i", "in", "-r", "-f", "gaussian_3", "-o", "out/", "--format", "same", "--dry-run").stdout
        for name in ("a.jpg", "b.JPEG", "c.png", "e.npy", "sub/d.ppm"):
            self.assertIn(f"out/{name}", plan)

    def test_results_among_inputs(self):
        self.usage_error("a_x.png: this result would lie among the inputs, and the next run would filter it again", "-i", "in",
                         "-f", "identity", "-o", "in/{stem}_x.png")
        (self.folder / "in/c.png").unlink()
        for given in ("in", "./in/", "in/../in", self.folder / "in"):
            self.usage_error("this result would lie among the inputs", "-i", given, "-f", "identity", "-o", "in")
            self.usage_error("this result would lie among the inputs", "-i", "in", "-f", "identity", "-o", f"{given}/{{stem}}.png")
        self.usage_error("this result would lie among the inputs", "-i", "in/*.jp*g", "-f", "identity", "-o", "in/{stem}_x.jpg")
        self.gconv("-i", "in/*.jpg", "-f", "identity", "-o", "in/")  # no result is matched by the pattern
        self.gconv("-i", "in/a.jpg", "-f", "identity", "-o", "in/")  # nor is one named
        (self.folder / "in/a.png").unlink()
        self.gconv("-i", "in", "-f", "identity", "-o", "in/results/")

    def test_same_of_archives(self):
        array = numpy.linspace(-3, 3, 30, dtype="f4").reshape(5, 6)
        numpy.savez(self.folder / "k.npz", array)
        self.gconv("-i", "k.npz", "-f", "identity", "-o", "out/", "--format", "same")
        numpy.testing.assert_array_equal(numpy.load(self.folder / "out/k.npy"), array)

    def test_suffix(self):
        words = ("-i", "in", "-r", "-f", "identity", "-o", "in", "--suffix", "_blur", "--format", "same")
        self.assertEqual(self.gconv(*words).stderr, "gconv: 5 written\n")
        files = self.files("in")
        self.assertEqual([name for name in files if "_blur" in name],
                         ["a_blur.jpg", "b_blur.JPEG", "c_blur.png", "e_blur.npy", "sub/d_blur.ppm"])
        self.assertIn("5 results of an earlier run are among the inputs, and passed over", self.gconv(*words).stderr)
        self.assertEqual(self.files("in"), files)
        self.gconv("-i", "in/a.jpg", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/", "--suffix=-edges")
        self.assertEqual(self.files("out"), ["a-edges_sobel_x.png", "a-edges_sobel_y.png"])
        self.usage_error("x.png has no {stem}", "-i", "in/a.jpg", "-f", "identity", "-o", "x.png", "--suffix", "_b")
        self.usage_error("it is a part of a name", "-i", "in", "-f", "identity", "-o", "out/", "--suffix", "/b")


if __name__ == "__main__":
    unittest.main()
