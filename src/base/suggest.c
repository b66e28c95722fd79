/* SPDX-License-Identifier: MIT */
#include "base/suggest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Lengths in letters. A word with fewer letters than SHORT may have one mistake, a longer word two. With more mistakes, it
 * is another word. */
enum { LONGEST = 63, SHORTEST_BEGINNING = 3, VERY_SHORT = 6, SHORT = 8 };

/* ---- Lists of words ---- */

const char *gconv_find_word(const char *list, char between, const char *word, size_t length) {
  const char separators[] = {between, ' ', '\0'};
  for (const char *at = list; at && *at; at += strspn(at, separators)) {
    size_t next = strcspn(at, (const char[]){between, '\0'});
    if (next == length && strncasecmp(at, word, length) == 0)
      return at;
    at += next;
  }
  return NULL;
}

/* ---- Work for other programs ---- */

#define IS_NOT_HERE " is not here: gconv convolves images with filters"

/* Words that users try, with blanks around each, and a text that says which programs do this work. */
static const struct {
  const char *words, *text;
} others[] = {
    {" median medianfilter medianblur despeckle ",
     "a median" IS_NOT_HERE
     ", and a median is no convolution. `vips median IN OUT 5`, ImageMagick's `-statistic Median 5x5`, OpenCV's "
     "medianBlur() and scipy.ndimage.median_filter() do it; gaussian:sigma=1 is near for fine noise"},
    {" min max minimum maximum rank percentile range rollingball erode erosion dilate dilation morphology open opening "
     "close "
     "closing tophat blackhat ",
     "this is a filter by rank or morphology, which" IS_NOT_HERE ". `vips rank` and `vips morph`, ImageMagick's "
     "`-morphology`, OpenCV's erode() and dilate() and scipy.ndimage's minimum_filter() do it"},
    {" bilateral nlm nlmeans nonlocalmeans denoise guided guidedfilter kuwahara anisotropic tv ",
     "a filter that follows the edges of the image" IS_NOT_HERE ", the same at every pixel. OpenCV's bilateralFilter() and "
     "fastNlMeansDenoising() and skimage.restoration do it"},
    {" canny hough corner corners harris ",
     "this detector" IS_NOT_HERE
     ". `vips canny IN OUT`, ImageMagick's `-canny` and OpenCV's Canny() do it; the filter sobel gives the "
     "strength of edges that it begins with"},
    {" resize scale pixelate mosaic shrink enlarge thumbnail downsample upsample zoom ",
     "another size" IS_NOT_HERE ". `vips resize`, `vipsthumbnail`, ImageMagick's `-resize` and OpenCV's resize() do it; "
     "--stride 2 keeps every second pixel of a result"},
    {" rotate rotation flop mirror transpose crop cut pad extent affine warp perspective deskew trim ",
     "moving pixels to other places" IS_NOT_HERE
     ". `vips rot`, `vips crop`, ImageMagick's `-rotate`, `-flop` and `-crop`, and "
     "jpegtran without loss do it"},
    {" threshold binarize binarise otsu adaptive adaptivethreshold equalize equalise histogram clahe levels brightness "
     "contrast saturation "
     "colorize whitebalance invert negate ",
     "a change of tones alone" IS_NOT_HERE
     ". ImageMagick's `-threshold`, `-equalize` and `-levels`, `vips relational_const` "
     "and OpenCV's threshold() do it; --scale and --offset multiply and add: --scale -1 --offset 1 inverts"},
    {" convert compose composite watermark annotate draw text montage ",
     "converting and composing" IS_NOT_HERE
     ". ImageMagick and vips do it; the filter identity writes an image in another format"},
    {" deblur unblur deconvolve deconvolution richardson richardsonlucy lucy wiener ",
     "a blur is undone by a command of its own: gconv deconvolve IMAGE --psf gaussian:sigma=2 -o OUT (gconv deconvolve "
     "--help)"},
    {" slope aspect hillshade curvature roughness tpi tri ",
     "this measure of terrain" IS_NOT_HERE
     ". gdaldem does it; sobel_x and sobel_y with --scale 1/(8 cell) are the derivatives of which it makes angles "
     "(docs/surveying.md)"},
    {" sigmaclip sigmaclipping cosmic cosmics cosmicray cosmicrays lacosmic despike outlier outliers ",
     "finding outliers" IS_NOT_HERE
     ". astroscrappy and astropy.stats.sigma_clip() do it; with their mask as --weights, --nan fill mends the places"},
    {" label labels connectedcomponents components watershed distance distancetransform skeleton skeletonize entropy blob "
     "blobs ",
     "this measure of shapes or regions" IS_NOT_HERE
     ". scipy.ndimage's label(), skimage's measure, segmentation and filters.rank do it; the filter "
     "log:sigma=3 answers to blobs, and std:size=7 to texture"},
    {" kmeans cluster clusters clustering pca unsupervised ",
     "learning without examples" IS_NOT_HERE
     ". scikit-learn's KMeans and PCA do it; gconv svm and gconv train learn from examples: gconv help svm"},
    {" match matchtemplate template templatematching ncc crosscorrelate crosscorrelation findpeak ",
     "finding a template" IS_NOT_HERE
     ". OpenCV's matchTemplate() and skimage.feature.match_template() do it; `gconv stats IMAGE -f template.npy --where` "
     "correlates with it as it is, and tells where the largest sample lies"},
    {" axis axes spectral spectrally ",
     "gconv volume CUBE -f gaussian:sigma=2x0x0 -o OUT smooths a cube along its frames alone, 0x2x2 each of its planes"},
    {" sinc voigt lorentz lorentzian ",
     "this shape is not built in: -f and --psf take its numbers, as text or a .npy array; moffat:beta=1 is a Lorentzian in "
     "two dimensions"},
    {" serve server httpd daemon listen ",
     "gconv is no server, but fits into one: docs/server.cpp filters pictures that come through sockets, by the library, "
     "and gconv.decode(), filter() and encode() do it in Python (docs/embedding.md)"},
    {" segment segmentation detect classify upscale superresolution inpaint ",
     "this" IS_NOT_HERE ". OpenCV, scikit-image and networks do it; gconv runs networks: gconv -i IMAGE -f model.onnx -o "
     "OUT (docs/networks.md)"},
};

/* Returns whether `word` is in the list. Case does not matter, nor '_' and '-'. */
static bool is_listed(const char *words, const char *word) {
  char key[LONGEST + 3] = " ";
  size_t used = 1;
  for (; *word && used < LONGEST; word++)
    if (*word != '_' && *word != '-')
      key[used++] = *word;
  key[used] = ' ';
  key[used + 1] = '\0';
  return used > 1 && strcasestr(words, key);
}

const char *gconv_elsewhere(const char *word) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (is_listed(others[i].words, word))
      return others[i].text;
  return NULL;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

static bool same(char a, char b) {
  return strncasecmp(&a, &b, 1) == 0;
}

/* Returns Levenshtein's distance, where two swapped neighbours are one mistake (optimal string alignment). Both words have
 * at most LONGEST letters. */
static size_t distance(const char *a, const char *b) {
  uint8_t rows[LONGEST + 1][LONGEST + 1]; /* small, because it is on the stack */
  size_t length_a = strlen(a), length_b = strlen(b);
  for (size_t i = 0; i <= length_a; i++)
    rows[i][0] = (uint8_t)i;
  for (size_t j = 0; j <= length_b; j++)
    rows[0][j] = (uint8_t)j;
  for (size_t i = 1; i <= length_a; i++)
    for (size_t j = 1; j <= length_b; j++) {
      size_t best = rows[i - 1][j - 1] + !same(a[i - 1], b[j - 1]);
      best = least(best, least(rows[i - 1][j], rows[i][j - 1]) + 1);
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        best = least(best, rows[i - 2][j - 2] + 1);
      rows[i][j] = (uint8_t)best;
    }
  return rows[length_a][length_b];
}

/* Returns whether a word that is near to a name is probably another word of the language, not this name with a mistake. */
static bool is_another_word(const char *word, const char *name) {
  enum { LONGEST_ENDING = 3 }; /* "training" for "train" */
  size_t length = strlen(word), changed = 0;
  bool swapped = length > 1 && same(word[0], name[1]) && same(word[1], name[0]);
  if ((!same(word[0], name[0]) && !swapped) || length > strlen(name) + LONGEST_ENDING)
    return true;
  for (size_t i = 0; i < length && length == strlen(name); i++)
    changed += !same(word[i], name[i]);
  return length < VERY_SHORT && changed == 1;
}

void gconv_suggest(gconv_suggestion *best, const char *word, const char *name) {
  size_t length = strlen(word), common = least(length, strlen(name));
  if (length == 0 || length > LONGEST || strlen(name) > LONGEST)
    return;
  size_t found = distance(word, name), near = length < SHORT ? 1 : 2;
  if (best->any && is_another_word(word, name))
    return;
  if (common >= SHORTEST_BEGINNING && strncasecmp(word, name, common) == 0) /* "mag" for "magnitude" */
    found = least(found, 1);
  bool first = best->name[0] == '\0', longer = strlen(name) > strlen(best->name); /* "laplacian_4" for "laplacian4" */
  if (found > near || (!first && (found > best->distance || (found == best->distance && !longer))))
    return;
  snprintf(best->name, sizeof best->name, "%s", name);
  best->distance = found;
}
