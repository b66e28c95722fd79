# SPDX-License-Identifier: MIT
"""gconv train --report and --plot: the page by its text, and, where there is a Chromium, as a browser shows it."""
import base64
import json
import re
import shutil
import subprocess
import unittest
import xml.dom.minidom
from html.parser import HTMLParser

import numpy as np
from helper import CommandTest
from PIL import Image

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CLASSES = ["<b>&amp", "x'y", 'z"']
VOID = ("meta", "img", "br", "rect", "line", "polyline", "circle")

# Appended to a copy of the page, it writes what the browser made of it into the page, which --dump-dom prints.
LOOK = """<script>
addEventListener('load', () => {
  const asked = performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith('data:'));
  const curves = [...document.querySelectorAll('polyline')];
  const seen = {asked, points: curves.map(curve => curve.points.length), lengths: curves.map(curve => curve.getTotalLength()),
    images: [...document.images].map(image => [image.naturalWidth, image.clientWidth]),
    wide: document.documentElement.scrollWidth > innerWidth, text: document.body.innerText};
  const place = document.createElement('pre');
  place.id = 'seen';
  place.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
  document.body.append(place);
});
</script>"""


class Page(HTMLParser):
    """What the page takes from outside, and which elements are not closed."""

    def __init__(self, text):
        super().__init__()
        self.outside, self.open, self.styles = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.outside += [value for name, value in attributes if name in ("src", "href", "xlink:href", "data", "action") and not value.startswith("data:")]
        self.outside += [tag] if tag in ("script", "link", "iframe", "object", "embed", "base") else []
        self.styles += "".join(value for name, value in attributes if name == "style")

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_data(self, data):
        self.styles += data if self.open[-1:] == ["style"] else ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Report(CommandTest):
    def classes(self, epochs=12):
        random = np.random.default_rng(0)
        rows = [(kind, random.normal(kind, 0.7, 3)) for kind in range(3) for _ in range(70)]
        label = {i: '"' + name.replace('"', '""') + '"' for i, name in enumerate(CLASSES)}
        (self.folder / "s.csv").write_text("".join(f"{a:.5f},{b:.5f},{c:.5f},{label[kind]}\n" for kind, (a, b, c) in rows))
        self.gconv("train", "--table", "s.csv", "--net", "dense 9 tanh, dense 3 softmax", "-o", "n.safetensors", "--epochs", epochs, "--validate", "20%",
                   "--report", "r.html", "--plot", "p.svg")

    def pairs(self):
        random = np.random.default_rng(0)
        for folder in "before", "after":
            (self.folder / folder).mkdir()
        for i in range(5):
            clean = np.kron(random.integers(0, 255, (4, 4, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
            Image.fromarray(clean).save(self.folder / f"after/{i}.png")
            Image.fromarray((clean * 0.8 + random.integers(0, 50, clean.shape)).astype(np.uint8)).save(self.folder / f"before/{i}.png")
        self.gconv("train", "-i", "before", "-t", "after", "--patch", "16", "--net", "conv 4 5x5 relu, conv 3 3x3, residual", "-o", "n.safetensors", "--epochs", 6,
                   "--report", "r.html")

    def read(self):
        """The page, which has no outside parts."""
        text = (self.folder / "r.html").read_text()
        page = Page(text)
        self.assertEqual((page.outside, page.open), ([], []))
        self.assertNotRegex(page.styles, r"url\(|@import")
        self.assertNotIn("http", re.sub("base64,[A-Za-z0-9+/=]*", "", text))
        return text

    def look(self):
        """What Chromium makes of the page. It may ask nobody, and has nothing to complain of."""
        page = self.folder / "look.html"
        page.write_text(self.read().replace("</body>", LOOK + "</body>"))
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--enable-logging=stderr",
                 "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1000,1000", f"--user-data-dir={self.folder}/profile", "--dump-dom", f"file://{page}"]
        result = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        self.assertNotIn("CONSOLE", result.stderr)
        found = re.search('<pre id="seen">([^<]*)</pre>', result.stdout)
        self.assertTrue(found, result.stderr)
        seen = json.loads(base64.b64decode(found[1]))
        self.assertEqual(seen["asked"], [])
        self.assertFalse(seen["wide"], "the page is wider than its window")
        for own, shown in seen["images"]:
            self.assertGreater(min(own, shown), 0)
        return seen

    def test_classes(self):
        self.classes()
        text = self.read()
        self.assertEqual(text.count("<polyline"), 4)
        for name in "&lt;b&gt;&amp;amp", "x&#39;y", "z&quot;":
            self.assertIn(f"<th>{name}</th>", text)
        self.assertNotIn("<b>", text)
        self.assertIn("A row for each of 9 outputs, a column for each of 3 inputs", text)
        self.assertIn("<td>cross-entropy by adam, rate 0.001, batches of 32, seed 0; ", text)

    def test_pairs(self):
        self.pairs()
        text = self.read()
        self.assertEqual(text.count("<polyline"), 1)
        self.assertIn("4 filters of 5 x 5, 3 channels", text)
        self.assertEqual([text.count(f"title='{name}'") for name in ("filters", "before", "after", "wanted")], [1, 4, 4, 4])

    def test_plot(self):
        self.classes()
        drawing = xml.dom.minidom.parse(str(self.folder / "p.svg"))
        curves = drawing.getElementsByTagName("polyline")
        self.assertEqual([len(c.getAttribute("points").split()) for c in curves], [12] * 4)
        numbers = [float(v) for c in curves for point in c.getAttribute("points").split() for v in point.split(",")]
        self.assertTrue(np.isfinite(numbers).all() and min(numbers) >= 0 and max(numbers) <= 720)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["n.safetensors", "p.svg", "r.html", "s.csv"])

    def test_one_epoch_is_a_point(self):
        self.classes(1)
        text = self.read()
        self.assertEqual(text.count("<circle"), 4)
        ticks = [float(tick) for tick in re.findall(r"text-anchor='end'>([-0-9.e]+)</text>", text)]
        self.assertGreater(len(ticks), 1)
        self.assertGreaterEqual(min(ticks), 0)  # a loss is not negative

    @unittest.skipUnless(BROWSER, "there is no Chromium")
    def test_in_a_browser(self):
        self.classes()
        seen = self.look()
        self.assertEqual(seen["points"], [12] * 4)
        self.assertGreater(min(seen["lengths"]), 100)
        self.assertEqual(len(seen["images"]), 1)
        for text in "Curves", "Confusion", *CLASSES:
            self.assertIn(text, seen["text"])

    @unittest.skipUnless(BROWSER, "there is no Chromium")
    def test_pairs_in_a_browser(self):
        self.pairs()
        seen = self.look()
        self.assertEqual(seen["points"], [6])
        self.assertEqual(len(seen["images"]), 13)


if __name__ == "__main__":
    unittest.main()
