/* SPDX-License-Identifier: MIT */
/* The syntaxes of filter files: what is read, what is refused, with which words and where. */
#include "filter_test.h"

#include <float.h>
#include <locale.h>
#include <math.h>

/* ---- Good text ---- */

typedef struct good {
  const char *text, *syntax;
  int32_t rows, columns;
  float taps[9];
  float divisor, offset; /* 0, 0: 1, 0 */
  bool warns;
} good;

static const good goods[] = {
    {"1 2 3\n4 5 6\n", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"1 2 3\r\n4 5 6", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"1 2 3\r4 5 6\r\r", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"\xEF\xBB\xBF"
     "1,2,3\n4;5;6\n",
     NULL,
     2,
     3,
     {1, 2, 3, 4, 5, 6},
     0,
     0,
     false},
    {"# sobel 3x3\n\n% MATLAB\n 1,\t2 , 3 # row: 1\n\t4 5 6%\n\n#end", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"1,2,3,\n4,5,6;\n", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"1/4 -1/8 +3/2\n", NULL, 1, 3, {0.25F, -0.125F, 1.5F}, 0, 0, false},
    {".5 1. -.25e1 1E-2 0x1.8p-1 0X10 0x1p2/0x2", NULL, 1, 7, {0.5F, 1, -2.5F, 0.01F, 0.75F, 16, 2}, 0, 0, false},
    {"1e-300 -1e-60 -0", NULL, 1, 3, {0, 0, 0}, 0, 0, false},
    {"5", NULL, 1, 1, {5}, 0, 0, false},
    {"  2.5000000e-01   5.0000000e-01\n  7.5000000e-01  -1.0000000e+00\n",
     NULL,
     2,
     2,
     {0.25F, 0.5F, 0.75F, -1},
     0,
     0,
     false},
    {"3.0 1.0 4.0\n1.0 2.0 3.0\n", NULL, 2, 3, {3, 1, 4, 1, 2, 3}, 0, 0, false}, /* digits with a point are no sizes */
    {"0.111 0.111 0.111\n0.111 0.111 0.111\n0.111 0.111 0.111",
     NULL,
     3,
     3,
     {0.111F, 0.111F, 0.111F, 0.111F, 0.111F, 0.111F, 0.111F, 0.111F, 0.111F},
     0,
     0,
     true},
    {"0.33333 -0.66667 0.33333\n", NULL, 1, 3, {0.33333F, -0.66667F, 0.33333F}, 0, 0, true},
    {"1/3 1/3 1/3", NULL, 1, 3, {1.F / 3, 1.F / 3, 1.F / 3}, 0, 0, false},
    {"1 2; 3 4", NULL, 1, 4, {1, 2, 3, 4}, 0, 0, true},
    {"0,5 0,25", NULL, 1, 4, {0, 5, 0, 25}, 0, 0, true}, /* two numbers, to those who write decimal commas */
    {"1 2 # a row\n# the next\n3 4\n\n", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, false},
    {"1 2\r\n3 4\r\n", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, false},
    {"1 2 # one\n \n# two\n3 4\n", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, true}, /* the writer meant two filters */
    {"1 2\r\n\r\n3 4\r\n", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, true},
    {"%YAML:1.0\n---\n: 5\ngood: !!opencv-matrix\n   rows: 1\n   cols: 3\n   dt: f\n   data: [ -1., 2.50e-01,\n       3. "
     "]\n",
     NULL,
     1,
     3,
     {-1, 0.25F, 3},
     0,
     0,
     false},
    {"<?xml version=\"1.0\"?>\n<opencv_storage>\n<good type_id=\"opencv-matrix\">\n  <rows>2</rows>\n  <cols>1</cols>\n"
     "  <dt>\"1i\"</dt>\n  <data>\n    7 -8</data></good>\n</opencv_storage>\n",
     "opencv",
     2,
     1,
     {7, -8},
     0,
     0,
     false},
    {"3 2\n1 2 3\n4 5 6\n", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 1, 0, false}, /* vips from here on */
    {"2 2 4\n1 2\n3 4\n", NULL, 2, 2, {1, 2, 3, 4}, 4, 0, false},
    {"# vips\n3 1 0.5 128\r\n\r\n1;2;3", NULL, 1, 3, {1, 2, 3}, 0.5F, 128, false},
    {"2 2\n1 2\n3 4\n", "vips", 2, 2, {1, 2, 3, 4}, 1, 0, false},
    {"2 2\n1 2\n3 4\n", "matrix", 3, 2, {2, 2, 1, 2, 3, 4}, 0, 0, false},
    {"# hand-made\n# syntax: vips\n2 2\n1 2\n3 4\n", NULL, 2, 2, {1, 2, 3, 4}, 1, 0, false},
    {"# syntax: matrix\n2 2\n1 2\n3 4\n", NULL, 3, 2, {2, 2, 1, 2, 3, 4}, 0, 0, false},
    {"2x2: 1,2 3,4", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, false},
    {"# of ImageMagick\n3x1:\n 1 nan\n -\n", NULL, 1, 3, {1, 0, 0}, 0, 0, false},
    {"3: 1 2 3, 4 5 6, 7 8 1/3", NULL, 3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 1.F / 3}, 0, 0, false},
    {"1 2 3 4", "imagemagick", 2, 2, {1, 2, 3, 4}, 0, 0, false},
    {"[[1, 2, 3], [4, 5, 6]]", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false}, /* arrays from here on */
    {"[[1. 2. 3.]\n [4. 5. 6.]]\n", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"array([[1,  2,\n        3],\n       [4,  5,  6]])", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"k: list[list[float]] = [\n  [1, 2], # up\n  [3, 4],\n]\n", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, false},
    {"k = np.array([[2, 4]], dtype=np.float32) / 8", NULL, 1, 2, {0.25F, 0.5F}, 0, 0, false},
    {"[[1, 2], [3, 4]].T", NULL, 2, 2, {1, 3, 2, 4}, 0, 0, false},
    {"1/9*ones(2)", NULL, 2, 2, {1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9}, 0, 0, false},
    {"h = ones(1, 3) / 3;", NULL, 1, 3, {1.F / 3, 1.F / 3, 1.F / 3}, 0, 0, false},
    {"ones([2 1])./2", NULL, 2, 1, {0.5F, 0.5F}, 0, 0, false},
    {"np.ones((2, 2), dtype=np.float32)/4", NULL, 2, 2, {0.25F, 0.25F, 0.25F, 0.25F}, 0, 0, false},
    {"np.ones(2)", NULL, 1, 2, {1, 1}, 0, 0, false},
    {"np.ones(2, dtype=np.float32)", NULL, 1, 2, {1, 1}, 0, 0, false},
    {"[1 2 1]' * [1 0 -1]/8", NULL, 3, 3, {.125F, 0, -.125F, .25F, 0, -.25F, .125F, 0, -.125F}, 0, 0, false},
    {"np.outer([1, 2], [3, 4, 5])", NULL, 2, 3, {3, 4, 5, 6, 8, 10}, 0, 0, false},
    {"np.array([[1, 2]]).T @ np.array([[3, 4]])", NULL, 2, 2, {3, 4, 6, 8}, 0, 0, false},
    {"(np.array([[1], [2],]) * 3) / (4)", NULL, 2, 1, {0.75F, 1.5F}, 0, 0, false},
    {"h = 1/3 * [1 -2; 5 4]; % sharpens", NULL, 2, 2, {1.F / 3, -2.F / 3, 5.F / 3, 4.F / 3}, 0, 0, false},
    {"(1/8).*[1, 2, 1\r\n 2, 4, 2;\r\n\r\n 1 2 1;];",
     NULL,
     3,
     3,
     {.125F, .25F, .125F, .25F, .5F, .25F, .125F, .25F, .125F},
     0,
     0,
     false},
    {"[[1 2]; [3 4]]./2", NULL, 2, 2, {0.5F, 1, 1.5F, 2}, 0, 0, false},
    {"// top first\nstatic const float k[2][2] = {\n  {1, -2.5f}, // a\n  {0x10, 4e-1F},\n};\n",
     NULL,
     2,
     2,
     {1, -2.5F, 16, 0.4F},
     0,
     0,
     false},
    {"float k[6] = {\n 1, 2, 3,\n 4, 5, 6 };", NULL, 2, 3, {1, 2, 3, 4, 5, 6}, 0, 0, false},
    {"[5]", NULL, 1, 1, {5}, 0, 0, false},
    {"1 2 # [0]\n3 4%{}", NULL, 2, 2, {1, 2, 3, 4}, 0, 0, false}, /* a matrix */
};

static void reads_good_text(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(goods); i++) {
    const good *g = &goods[i];
    write_string("good.txt", g->text);
    gconv_filters list = read_good("good.txt", g->syntax);
    if (list.count != 1 || (*logged != '\0') != g->warns)
      fail_msg("%s: %zu filters, logged \"%s\"", g->text, list.count, logged);
    assert_string_equal(list.items[0].name, "good");
    assert_taps(&list.items[0], g->rows, g->columns, g->taps);
    assert_true(list.items[0].divisor == (g->divisor == 0 ? 1 : g->divisor));
    assert_true(list.items[0].offset == g->offset);
    gconv_filters_free(&list);
  }
}

static void rounds_to_the_nearest_float(void **state) {
  (void)state;
  write_string("numbers.txt", "0.1 16777217 3.4028235e38 1.17549435e-38 1.4e-45 3.40282356e38 1/3");
  const float expected[] = {0.1F, 16777216, FLT_MAX, FLT_MIN, 0x1p-149F, FLT_MAX, (float)(1.0 / 3)};
  gconv_filters list = read_good("numbers.txt", NULL);
  assert_taps(&list.items[0], 1, 7, expected);
  gconv_filters_free(&list);
}

/* A locale with a decimal comma: an installed one, or one made in this folder where its source is installed. */
static bool set_comma_locale(void) {
  if (setlocale(LC_ALL, "de_DE.UTF-8"))
    return true;
  return system("localedef -i de_DE -f UTF-8 --no-archive ./de_DE.UTF-8 2>/dev/null") == 0 &&
         setenv("LOCPATH", ".", 1) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
}

/* A host program may have such a locale. */
static void does_not_depend_on_the_locale(void **state) {
  (void)state;
  if (!set_comma_locale())
    skip();
  assert_int_equal(*localeconv()->decimal_point, ',');
  write_string("locale.txt", "0.5 1.25\n");
  gconv_filters list = read_good("locale.txt", NULL);
  assert_taps(&list.items[0], 1, 2, (float[]){0.5F, 1.25F});
  char *text = NULL;
  assert_int_equal(gconv_filter_to_text(&list.items[0], &text), GCONV_OK);
  assert_non_null(strstr(text, "0.5 1.25"));
  free(text);
  gconv_filters_free(&list);
  setlocale(LC_ALL, "C");
}

/* ---- Bad text ---- */

typedef struct bad {
  const char *text, *syntax;
  gconv_status status;
  const char *fragment;
} bad;

static const bad bads[] = {
    {"", NULL, GCONV_BAD_FILE, "bad.txt: has no numbers"},
    {"# nothing\n\n%\n", NULL, GCONV_BAD_FILE, "bad.txt: has no numbers"},
    {"1 2 3\n4 5\n", NULL, GCONV_BAD_FILE, "bad.txt:2:4: this row ends after 2 of the 3 numbers expected"},
    {"1 2\n\n3 4 5\n", NULL, GCONV_BAD_FILE, "bad.txt:3:5: this row has more than the 2 numbers expected"},
    {"1 2\r3 x\r", NULL, GCONV_BAD_FILE, "bad.txt:2:3: 'x' is not a number"},
    {"1 2\r\n3 1..2\r\n", NULL, GCONV_BAD_FILE, "bad.txt:2:3: '1..2' is not a number"},
    {"hello world\n", NULL, GCONV_BAD_FILE, "bad.txt:1:1: 'hello' is not a number"},
    {"1 nan\n", NULL, GCONV_BAD_FILE, "bad.txt:1:3: 'nan' is not finite"},
    {"1 -Inf\n", NULL, GCONV_BAD_FILE, "bad.txt:1:3: '-Inf' is not finite"},
    {"infinity", NULL, GCONV_BAD_FILE, "'infinity' is not finite"},
    {"1 1e39\n", NULL, GCONV_BAD_FILE, "bad.txt:1:3: '1e39' is too large for float32"},
    {"-1e999\n", NULL, GCONV_BAD_FILE, "'-1e999' is too large for float32"},
    {"340282356779733661637539395458142568448", NULL, GCONV_BAD_FILE, "too large for float32"},
    {"1/0\n", NULL, GCONV_BAD_FILE, "bad.txt:1:1: '1/0' divides by 0"},
    {"1/2/3\n", NULL, GCONV_BAD_FILE, "nor a fraction"},
    {"1/\n", NULL, GCONV_BAD_FILE, "nor a fraction"},
    {"1 / 9", NULL, GCONV_BAD_FILE, "bad.txt:1:3: '/' is not a number, nor a fraction"},
    {"1,,2\n", NULL, GCONV_BAD_FILE, "bad.txt:1:3: a number is missing before the ','"},
    {"1 2\n,3\n", NULL, GCONV_BAD_FILE, "bad.txt:2:1: a number is missing before the ','"},
    {"1e 2", NULL, GCONV_BAD_FILE, "'1e' is not a number"},
    {"0x 2", NULL, GCONV_BAD_FILE, "'0x' is not a number"},
    {"\xEF\xBB\xBF"
     "a 2",
     NULL, GCONV_BAD_FILE, "bad.txt:1:1: 'a' is not a number"},
    {"1 2 \xE2\x88\x92"
     "3",
     NULL, GCONV_BAD_FILE, "bad.txt:1:5:"},
    {"[[1, 2], [3]]", NULL, GCONV_BAD_FILE, "bad.txt:1: row 2 has 1 number, and the first has 2"},
    {"[1 2\n3]", NULL, GCONV_BAD_FILE, "bad.txt:2: row 2 has 1 number,"},
    {"[[1, 2],\n [3, x]]", NULL, GCONV_BAD_FILE, "bad.txt:2:6: 'x' is not a number"},
    {"[[1, 2], [3, 4]", NULL, GCONV_BAD_FILE, "the text ends before the brackets of the array are closed"},
    {"[[1, 2", NULL, GCONV_BAD_FILE, "before the bracket of this row is closed"},
    {"{{1, 2], [3, 4]}", NULL, GCONV_BAD_FILE, "bad.txt:1:7: a number is missing before the ']'"},
    {"[1 2; 3 4}", NULL, GCONV_BAD_FILE, "bad.txt:1:10: a number is missing before the '}'"},
    {"[[1,,2]]", NULL, GCONV_BAD_FILE, "bad.txt:1:5: a number is missing before the ','"},
    {"[,1]", NULL, GCONV_BAD_FILE, "bad.txt:1:2: a number is missing before the ','"},
    {"[[1], , [2]]", NULL, GCONV_BAD_FILE, "a number is missing before the ','"},
    {"[1 - 2]", NULL, GCONV_BAD_FILE, "bad.txt:1:4: '-' is not a number"},
    {"[1 2;; 3 4]", NULL, GCONV_BAD_FILE, "a row without numbers ends here"},
    {"[]", NULL, GCONV_BAD_FILE, "a row without numbers ends here"},
    {"[[]]", NULL, GCONV_BAD_FILE, "a row without numbers ends here"},
    {"[[1, 2], 3]", NULL, GCONV_BAD_FILE, "bad.txt:1:10: at '3]': a number stands beside rows in brackets"},
    {"[1, [2]]", NULL, GCONV_BAD_FILE, "numbers in brackets stand beside numbers without"},
    {"[[[1]]]", NULL, GCONV_BAD_FILE, "a filter has two levels of brackets"},
    {"[[1, nan]]", NULL, GCONV_BAD_FILE, "'nan' is not finite"},
    {"[[1, 1e38]] * 10", NULL, GCONV_BAD_FILE, "too large for float32"},
    {"[[1]] / 0", NULL, GCONV_BAD_FILE, "the array is divided by 0"},
    {"[[1]] / (2", NULL, GCONV_BAD_FILE, "a ')' is missing at the end"},
    {"[[1]] / (2 3)", NULL, GCONV_BAD_FILE, "expected a ')'"},
    {"[[1]] + 1", NULL, GCONV_BAD_FILE, "bad.txt:1:7: at '+ 1': after an array there may be"},
    {"[1 2] * [3 4]", NULL, GCONV_BAD_FILE, "two arrays are multiplied"},
    {"[1 2] * [3 4]'", NULL, GCONV_BAD_FILE, "a row times a column is one number in MATLAB"},
    {"[1 2] / [3 4]", NULL, GCONV_BAD_FILE, "an array is divided by a number"},
    {"ones(0)", NULL, GCONV_BAD_FILE, "bad.txt:1:6: at '0)': expected a size"},
    {"ones(40000)", NULL, GCONV_TOO_LARGE, "32768"},
    {"ones(3", NULL, GCONV_BAD_FILE, "a ')' is missing at the end"},
    {"np.ones((3, 3) / 9", NULL, GCONV_BAD_FILE, "expected a ')'"},
    {"[1 2].T[0]", NULL, GCONV_BAD_FILE, "at '[0]': after an array"},
    {"fspecial('gaussian', [3 5], 1)", NULL, GCONV_BAD_FILE, "here this filter is gaussian:size=3x5,sigma=1"},
    {"2 * fspecial('sobel')", NULL, GCONV_BAD_FILE, "is the negative of sobel_y here"},
    {"fspecial('moon')", NULL, GCONV_BAD_FILE, "its filters are built in"},
    {"a = [1 2]\nb = [3 4]", NULL, GCONV_BAD_FILE, "bad.txt:2:1: at 'b = [3 4]': after an array"},
    {"np.array([[1]]", NULL, GCONV_BAD_FILE, "a ')' is missing at the end"},
    {"np.rot90([[1, 2]])", NULL, GCONV_BAD_FILE, "bad.txt:1:1: at 'np.rot90([[1, 2]])': expected an array in brackets"},
    {"-[1 2]", NULL, GCONV_BAD_FILE, "expected an array in brackets"},
    {"3x3: [1]", NULL, GCONV_BAD_FILE, "expected an array in brackets"},
    {"\xFF\xFE"
     "1",
     NULL, GCONV_BAD_FILE, "is UTF-16 text; save it as UTF-8"},
    {"\xFE\xFF", NULL, GCONV_BAD_FILE, "is UTF-16 text; save it as UTF-8"},
    {"1 2\x01", NULL, GCONV_BAD_FILE, "bad.txt: is not a filter: byte 4 is 0x01"},
    {"1 2\x01", "matrix", GCONV_BAD_FILE, "byte 4 is 0x01"},
    {"2 2\n1 2\n3 4\n", NULL, GCONV_BAD_FILE, "'syntax' matrix or 'syntax' vips"},
    {"3 3 9\n1 1 1\n1 1 1\n1 1 1\n", NULL, GCONV_BAD_FILE, "can be read in two ways"},
    {"3 3\n1 2 3\n4 5 6\n", NULL, GCONV_BAD_FILE, "its first line promises 3 rows of 3 numbers"},
    {"3 3\n1 2 3\n4 5 6\n", "vips", GCONV_BAD_FILE, "bad.txt:4: the text ends after 2 of the 3 rows"},
    {"3 1\n1 2 3\n4 5 6\n", "vips", GCONV_BAD_FILE, "bad.txt:3: more than the 1 rows"},
    {"3 1\n1 2\n", "vips", GCONV_BAD_FILE, "bad.txt:2:4: this row ends after 2 of the 3"},
    {"3\n1 2 3", "vips", GCONV_BAD_FILE, "bad.txt:1:1: the first line of a vips matrix has 2 to 4 numbers"},
    {"", "vips", GCONV_BAD_FILE, "the first line of a vips matrix has 2 to 4 numbers"},
    {"1 1 1 0 0\n1", "vips", GCONV_BAD_FILE, "the first line of a vips matrix has 2 to 4 numbers"},
    {"1 0\n", "vips", GCONV_BAD_FILE, "two positive integers"},
    {"1.5 1\n2", "vips", GCONV_BAD_FILE, "two positive integers"},
    {"1 1 0\n2", "vips", GCONV_BAD_FILE, "bad.txt:1:5: the scale of a vips matrix divides"},
    {"1 1 x\n2", "vips", GCONV_BAD_FILE, "bad.txt:1:5: 'x' is not a number"},
    {"99999 1\n2", "vips", GCONV_TOO_LARGE, "the limit is 32768"},
    {"32768 32768\n2", "vips", GCONV_TOO_LARGE, "the limit is 67108864 taps"},
    {"# syntax: matlab\n1 2\n", NULL, GCONV_BAD_FILE, "bad.txt:1: the comment '# syntax: matlab' names no known syntax"},
    {"1 2\n", "excel", GCONV_BAD_ARGUMENT, "known are matrix, vips, imagemagick, opencv, array, npy"},
    {"1 2\n", "npy", GCONV_BAD_FILE, "bad.txt"},
    {"3x3: 1 2 3\n4 5 6\n", NULL, GCONV_BAD_FILE, "needs 9 values, but has 6"},
    {"3x1: 1 2 3\n4", NULL, GCONV_BAD_FILE, "bad.txt:2: the kernel of 3 x 1 needs 3 values, but has 4"},
    {"3x1:\n1 two 3", NULL, GCONV_BAD_FILE, "bad.txt:2:3: 'two' is not a number"},
    {"3x1: 1,,3", NULL, GCONV_BAD_FILE, "bad.txt:1:8: a number is missing"},
    {"3x0: 1", NULL, GCONV_BAD_FILE, "positive numbers"},
    {"3x: 1", NULL, GCONV_BAD_FILE, "positive numbers"},
    {"3x1+3+0: 1 2 3", NULL, GCONV_BAD_FILE, "the origin +3+0 lies outside of the 3 x 1 kernel"},
    {"3x1+0+1: 1 2 3", NULL, GCONV_BAD_FILE, "the origin +0+1 lies outside"},
    {"3x1-1+0: 1 2 3", NULL, GCONV_BAD_FILE, "bad.txt:1:4: before the ':' stands the size"},
    {"3x3@<: 1 2 3 4 5 6 7 8 9", NULL, GCONV_BAD_FILE, "bad.txt:1:5: before the ':'"},
    {"5x5@: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", NULL, GCONV_BAD_FILE, "only 3 x 3 kernels"},
    {"3x2>: 1 2 3 4 5 6", NULL, GCONV_BAD_FILE, "only square kernels, single rows and single columns"},
    {"3x2<: 1 2 3 4 5 6", NULL, GCONV_BAD_FILE, "only square kernels, single rows and single columns"},
    {"3x1: 1 2 3;;1: 1", NULL, GCONV_BAD_FILE, "bad.txt:1:12: a kernel is missing before the ';'"},
    {"99999x1: 1", NULL, GCONV_TOO_LARGE, "the limit is 32768"},
    {"99999999999x1: 1", NULL, GCONV_TOO_LARGE, "the limit is 32768"},
    {"1 2 3", "imagemagick", GCONV_BAD_FILE, "3 values without a size are no square"},
    {"", "imagemagick", GCONV_BAD_FILE, "has no kernel"},
    {"Gaussian:0x1", NULL, GCONV_UNSUPPORTED, "named kernels are not read"},
    {"3x1: 1 2 3; Sobel", NULL, GCONV_UNSUPPORTED, "bad.txt:1:13: 'Sobel': ImageMagick's named kernels are not read"},
    {"MATLAB 5.0 MAT-file, Platform: GLNXA64", NULL, GCONV_UNSUPPORTED,
     "binary .mat file of MATLAB; save the matrix as text"},
    {"%YAML:1.0\n---\n", NULL, GCONV_BAD_FILE, "has no opencv-matrix"},
    {"<?xml version=\"1.0\"?>\n<opencv_storage>", NULL, GCONV_BAD_FILE, "has no opencv-matrix"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 2\n  dt: f\n  data: [ 1., x ]", NULL, GCONV_BAD_FILE,
     "bad.txt:6:15: 'x' is not a number"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 2\n  dt: f\n  data: [ 1., .Nan ]", NULL, GCONV_BAD_FILE,
     "bad.txt:6:15: '.Nan' is not"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 2\n  dt: f\n  data: [ 1. ]", NULL, GCONV_BAD_FILE,
     "bad.txt:6:14: there are fewer numbers"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 2\n  dt: f\n  data: [ 1., 2., 3. ]", NULL, GCONV_BAD_FILE,
     "bad.txt:6:19: there are more numbers"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 2\n  dt: f\n  data: [ 1., 2.", NULL, GCONV_BAD_FILE, "have no end"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 0\n  cols: 2\n  dt: f\n  data: [ 1.]", NULL, GCONV_BAD_FILE,
     "bad.txt:3:9: rows and cols are integers from 1"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 1\n  dt: \"2f\"\n  data: [ 1., 1.]", NULL, GCONV_BAD_FILE,
     "bad.txt:5:8: a filter is a matrix of one channel"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 1\n  data: [ 1.]", NULL, GCONV_BAD_FILE, "one of them is missing"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 1\n  dt: f\n", NULL, GCONV_BAD_FILE, "has data, which are missing"},
    {"%YAML:1.0\nk: !!opencv-matrix\n  rows: 1\n  cols: 1\n  dt: f\n  data: !!binary |\n  AAAA", NULL, GCONV_BAD_FILE,
     "base64 are not read"},
    {"gconv-bank 1\n", NULL, GCONV_UNSUPPORTED, "is a bank of filters"},
    {"# of Gabor filters\n\n gconv-bank 1\n", NULL, GCONV_UNSUPPORTED, "is a bank of filters"},
    {"\x89PNG\r\n\x1A\n", NULL, GCONV_UNSUPPORTED, "is a PNG image"},
    {"PK\x03\x04", NULL, GCONV_BAD_FILE, "not a whole zip archive"},
    {"\x08\x07\x12\x07pytorch", NULL, GCONV_UNSUPPORTED, "an ONNX model"},
};

static void refuses_bad_text(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(bads); i++) {
    write_string("bad.txt", bads[i].text);
    read_bad("bad.txt", bads[i].syntax, bads[i].status, bads[i].fragment);
  }
}

static void refuses_safetensors(void **state) {
  (void)state;
  write_bytes("weights.safetensors", "\x02\0\0\0\0\0\0\0{}", 10);
  read_bad("weights.safetensors", NULL, GCONV_UNSUPPORTED, "a safetensors file");
}

/* Rows and columns at the limit, and one more. */
static void holds_the_limits(void **state) {
  (void)state;
  enum { LIMIT = 32768 };
  char *text = malloc(2 * LIMIT + 8);
  assert_non_null(text);
  for (int columns = 0; columns < 2; columns++)
    for (size_t more = 0; more < 2; more++) {
      for (size_t i = 0; i < LIMIT + more; i++)
        memcpy(text + 2 * i, columns ? "1 " : "1\n", 2);
      write_bytes("limit.txt", text, 2 * (LIMIT + more));
      if (more) {
        read_bad("limit.txt", NULL, GCONV_TOO_LARGE,
                 columns ? "limit.txt:1:65537: a row of more than 32768 numbers" : "limit.txt:32769: more than 32768 rows");
      } else {
        gconv_filters list = read_good("limit.txt", NULL);
        assert_int_equal(columns ? list.items[0].columns : list.items[0].rows, LIMIT);
        gconv_filters_free(&list);
      }
    }
  free(text);
}

/* ---- ImageMagick's kernels ---- */

typedef struct kernel {
  int32_t rows, columns, anchor_row, anchor_column;
  float taps[9];
} kernel;

static void check_kernels(const char *text, size_t count, const kernel *kernels) {
  gconv_filters list = read_good(text, NULL);
  assert_int_equal(list.count, count);
  for (size_t i = 0; i < count; i++) {
    assert_taps(&list.items[i], kernels[i].rows, kernels[i].columns, kernels[i].taps);
    assert_int_equal(list.items[i].anchor_row, kernels[i].anchor_row);
    assert_int_equal(list.items[i].anchor_column, kernels[i].anchor_column);
  }
  gconv_filters_free(&list);
}

/* As `convert xc: -define morphology:showkernel=1 -morphology Convolve:0 TEXT null:` of ImageMagick 6.9.11 prints them. */
static void expands_kernels_as_imagemagick(void **state) {
  (void)state;
  const kernel eighths[] = {{3, 3, 0, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {3, 3, 0, 1, {4, 1, 2, 7, 5, 3, 8, 9, 6}},
                            {3, 3, 0, 2, {7, 4, 1, 8, 5, 2, 9, 6, 3}}, {3, 3, 1, 2, {8, 7, 4, 9, 5, 1, 6, 3, 2}},
                            {3, 3, 2, 2, {9, 8, 7, 6, 5, 4, 3, 2, 1}}, {3, 3, 2, 1, {6, 9, 8, 3, 5, 7, 2, 1, 4}},
                            {3, 3, 2, 0, {3, 6, 9, 2, 5, 8, 1, 4, 7}}, {3, 3, 1, 0, {2, 3, 6, 1, 5, 9, 4, 7, 8}}};
  check_kernels("3x3+0+0@: 1,2,3,4,5,6,7,8,9", 8, eighths);
  const kernel quarters[] = {
      {1, 4, 0, 1, {1, 2, 3, 4}}, {4, 1, 1, 0, {1, 2, 3, 4}}, {1, 4, 0, 2, {4, 3, 2, 1}}, {4, 1, 2, 0, {4, 3, 2, 1}}};
  check_kernels("4x1>: 1 2 3 4", 4, quarters);
  const kernel column[] = {
      {3, 1, 0, 0, {1, 2, 3}}, {1, 3, 0, 2, {3, 2, 1}}, {3, 1, 2, 0, {3, 2, 1}}, {1, 3, 0, 0, {1, 2, 3}}};
  check_kernels("1x3+0+0>: 1,2,3", 4, column);
  const kernel mirrored[] = {
      {2, 2, 0, 0, {1, 2, 3, 4}}, {2, 2, 1, 1, {4, 3, 2, 1}}, {2, 2, 1, 0, {2, 4, 1, 3}}, {2, 2, 0, 1, {3, 1, 4, 2}}};
  check_kernels("2x2<: 1,2,3,4", 4, mirrored);
  const kernel cross[] = {{3, 3, 1, 1, {0, 1, 0, 1, 1, 1, 0, 1, 0}}, {3, 3, 1, 1, {1, 0, 1, 0, 1, 0, 1, 0, 1}}};
  check_kernels("3x3@: 0,1,0,1,1,1,0,1,0", 2, cross);
  const kernel half[] = {{3, 3, 1, 1, {1, 2, 3, 4, 5, 4, 3, 2, 1}}, {3, 3, 1, 1, {3, 4, 1, 2, 5, 2, 1, 4, 3}}};
  check_kernels("3x3>: 1,2,3,4,5,4,3,2,1", 2, half);
  check_kernels("3x3>: 1,1,1,1,1,1,1,1,1", 1, (kernel[]){{3, 3, 1, 1, {1, 1, 1, 1, 1, 1, 1, 1, 1}}});
  check_kernels("3x1+2: 1,2,3", 1, (kernel[]){{1, 3, 0, 2, {1, 2, 3}}});
  check_kernels("3x1: 1 2,\n3;\n1x2: 4 5;", 2, (kernel[]){{1, 3, 0, 1, {1, 2, 3}}, {2, 1, 0, 0, {4, 5}}});
  check_kernels("1,2,3,4", 1, (kernel[]){{2, 2, 0, 0, {1, 2, 3, 4}}});
  /* nan is not 0 when turns are compared, as there; afterwards it is. */
  check_kernels(
      "3x1>: 0 1 -", 4,
      (kernel[]){{1, 3, 0, 1, {0, 1, 0}}, {3, 1, 1, 0, {0, 1, 0}}, {1, 3, 0, 1, {0, 1, 0}}, {3, 1, 1, 0, {0, 1, 0}}});
}

static void names_filters_by_their_file(void **state) {
  (void)state;
  write_string("two.txt", "2x1: 1 2; # and\n1x2: 3 4 # end; of it\n");
  gconv_filters list = read_good("two.txt", NULL);
  assert_int_equal(list.count, 2);
  assert_string_equal(list.items[0].name, "two_1");
  assert_string_equal(list.items[1].name, "two_2");
  gconv_filters_free(&list);
}

/* ---- .npy ---- */

static size_t make_npy(uint8_t *to, const char *descr, const char *order, const char *shape, const void *data,
                       size_t bytes) {
  char dict[192];
  int length = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape);
  memcpy(to, "\x93NUMPY\x01\x00", 8);
  to[8] = (uint8_t)length;
  to[9] = 0;
  memcpy(to + 10, dict, (size_t)length);
  memcpy(to + 10 + length, data, bytes);
  return 10 + (size_t)length + bytes;
}

static void write_npy(const char *descr, const char *order, const char *shape, const void *data, size_t bytes) {
  uint8_t file[512];
  write_bytes("array.npy", file, make_npy(file, descr, order, shape, data, bytes));
}

static void check_npy(const char *descr, const void *data, size_t bytes, float first, float second) {
  write_npy(descr, "False", "(1, 2)", data, bytes);
  gconv_filters list = read_good("array.npy", NULL);
  assert_taps(&list.items[0], 1, 2, (float[]){first, second});
  gconv_filters_free(&list);
}

static void reads_npy_types(void **state) {
  (void)state;
  check_npy("|u1", "\x01\xFF", 2, 1, 255);
  check_npy("|i1", "\x01\xFF", 2, 1, -1);
  check_npy("<u2", "\x01\x02\xFF\xFF", 4, 513, 65535);
  check_npy(">u2", "\x01\x02\xFF\xFF", 4, 258, 65535);
  check_npy("<i2", "\x01\x02\xFE\xFF", 4, 513, -2);
  check_npy(">i4", "\x00\x00\x01\x00\x80\x00\x00\x00", 8, 256, -2147483648.F);
  check_npy("<i8", "\x07\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16, 7, -1);
  check_npy("<f2", "\x00\x3C\x01\x80", 4, 1, -0x1p-24F);
  check_npy(">f2", "\xC2\x00\x7B\xFF", 4, -3, 65504);
  check_npy("<f4", "\x00\x00\x80\x3F\x01\x00\x00\x00", 8, 1, 0x1p-149F);
  check_npy(">f4", "\x3F\x80\x00\x00\xC0\x00\x00\x00", 8, 1, -2);
  check_npy("<f8", "\0\0\0\0\0\0\xF0\x3F\0\0\0\0\0\0\xD0\xBF", 16, 1, -0.25F);
  check_npy(">f8", "\x3F\xF0\0\0\0\0\0\0\xBF\xD0\0\0\0\0\0\0", 16, 1, -0.25F);
}

static void reads_npy_shapes(void **state) {
  (void)state;
  const uint8_t data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const float second[] = {6, 7, 8, 9, 10, 11}, second_fortran[] = {1, 5, 9, 3, 7, 11};
  const char *const shapes[] = {"(2, 2, 3)", "(2, 1, 2, 3)"};
  for (int i = 0; i < 4; i++) {
    write_npy("|u1", i % 2 ? "True" : "False", shapes[i / 2], data, sizeof data);
    gconv_filters list = read_good("array.npy", NULL);
    assert_int_equal(list.count, 2);
    assert_taps(&list.items[1], 2, 3, i % 2 ? second_fortran : second);
    assert_string_equal(list.items[1].name, "array_2");
    gconv_filters_free(&list);
  }
  write_npy("|u1", "True", "(3, 4)", data, sizeof data);
  gconv_filters list = read_good("array.npy", NULL);
  assert_taps(&list.items[0], 3, 4, (float[]){0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  gconv_filters_free(&list);
}

static void refuses_npy(void **state) {
  (void)state;
  const uint8_t data[16] = {0, 0, 0xC0, 0x7F}; /* nan, little-endian */
  write_npy("|u1", "False", "(3,)", data, 3);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "an array of 1 dimension;");
  write_npy("|u1", "False", "(1, 3, 2, 2)", data, 12);
  read_bad("array.npy", NULL, GCONV_UNSUPPORTED, "is a bank of filters over 3 channels");
  write_npy("|u1", "False", "(2, 2)", data, 3);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "promises 4 elements of 1 byte, but 3 bytes follow");
  write_npy("|u1", "False", "(2, 2)", data, 5);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "promises 4 elements of 1 byte, but 5 bytes follow");
  write_npy("|u1", "False", "(0, 2)", data, 0);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "without elements");
  write_npy("|u1", "False", "(99999, 2)", data, 4);
  read_bad("array.npy", NULL, GCONV_TOO_LARGE, "the limit is 32768");
  write_npy("|u1", "False", "(99999, 1, 2)", data, 4);
  read_bad("array.npy", NULL, GCONV_TOO_LARGE, "99999 filters");
  write_npy("<f4", "False", "(1, 1)", data, 4);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "filter 0, row 0, column 0 (from 0) is not finite");
  write_npy("<f8", "False", "(1, 1)", "\0\0\0\0\0\0\xF0\x7E", 8);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "not finite in float32");
  write_npy("|O", "False", "(1, 1)", data, 8);
  read_bad("array.npy", NULL, GCONV_UNSUPPORTED, "array.npy");
  write_bytes("array.npy", "\x93NUMPY\x01\x00\x76", 9);
  read_bad("array.npy", NULL, GCONV_BAD_FILE, "ends too early");
}

/* ---- Any bytes ---- */

/* Bytes changed, cut and repeated at random: whatever the outcome, it is orderly. Every outcome must occur. */
static void survives_mutations(void **state) {
  (void)state;
  uint8_t npy[256], file[1024];
  size_t npy_size = make_npy(npy, "<f4", "False", "(2, 2)", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
  size_t read = 0, refused = 0;
  srand(1);
  for (int turn = 0; turn < 3000; turn++) {
    const char *text = goods[(size_t)rand() % COUNT(goods)].text;
    bool binary = turn % 4 == 0;
    size_t size = binary ? npy_size : strlen(text);
    memcpy(file, binary ? npy : (const uint8_t *)text, size);
    for (int changes = rand() % 4; changes > 0 && size > 0; changes--)
      file[(size_t)rand() % size] = rand() % 2 ? (uint8_t)rand() : (uint8_t) "0123456789.,;:x+-@<>#% \n\re/"[rand() % 28];
    if (rand() % 4 == 0)
      size = (size_t)rand() % (size + 1);
    write_bytes("mutant", file, size);
    gconv_filters list = {0};
    gconv_status status =
        gconv_filters_read("mutant", turn % 3 ? NULL : gconv_filter_syntax_at((size_t)turn / 3 % 4), &list);
    assert_true((status == GCONV_OK) == (list.count > 0));
    for (size_t i = 0; i < list.count; i++)
      for (int32_t t = 0; t < list.items[i].rows * list.items[i].columns; t++)
        assert_true(isfinite(list.items[i].taps[t]));
    *(status == GCONV_OK ? &read : &refused) += 1;
    gconv_filters_free(&list);
  }
  assert_true(read > 100 && refused > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_good_text),
      cmocka_unit_test(rounds_to_the_nearest_float),
      cmocka_unit_test(does_not_depend_on_the_locale),
      cmocka_unit_test(refuses_bad_text),
      cmocka_unit_test(refuses_safetensors),
      cmocka_unit_test(holds_the_limits),
      cmocka_unit_test(expands_kernels_as_imagemagick),
      cmocka_unit_test(names_filters_by_their_file),
      cmocka_unit_test(reads_npy_types),
      cmocka_unit_test(reads_npy_shapes),
      cmocka_unit_test(refuses_npy),
      cmocka_unit_test(survives_mutations),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
