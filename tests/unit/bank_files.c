/* SPDX-License-Identifier: MIT */
/* Files of banks: what is read, what is refused, with which words and where; what is written comes back bit for bit. */
#include "bank_test.h"

#include <math.h>

/* ---- Text ---- */

static const char two_edges[] = "gconv-bank 1                  # '#' comments anywhere\n"
                                "filters 2 channels 3 size 3 2\n"
                                "filter edge bias 0.01         # name and bias optional\n"
                                "  0 -1\n 1 2 # row\n 3 4\n"
                                "\n"
                                "  5 6\n 7 8\n 9 10\n"
                                "  11, 12\n 13; 14\n 15 1/2\n"
                                "filter\n"
                                " 1 1\n 1 1\n 1 1\n 1 1\n 1 1\n 1 1\n 1 1\n 1 1\n 1 0x1p-149\r\n\n# end";

static void reads_text(void **state) {
  (void)state;
  const float expected[] = {0, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0.5F};
  write_string("two.txt", two_edges);
  assert_true(gconv_bank_is_one("two.txt"));
  gconv_bank bank = bank_good("two.txt", NULL);
  assert_shape(&bank, 2, 3, 3, 2);
  assert_floats(bank.weights, expected, 18);
  assert_true(bank.weights[34] == 1 && bank.weights[35] == 0x1p-149F);
  assert_string_equal(bank.names[0], "edge");
  assert_null(bank.names[1]);
  assert_true(bank.biases[0] == 0.01F && bank.biases[1] == 0);
  assert_false(bank.has_geometry);
  assert_string_equal(bank.name, "");
  gconv_bank_free(&bank);
  assert_null(bank.weights);
}

static void reads_names_and_geometry_of_text(void **state) {
  (void)state;
  write_string("g.txt", "\xEF\xBB\xBF# a comment first\r\ngconv-bank 1\r\nsize 1 1 filters 4 channels 1\r\nstride 2 3\r\n"
                        "padding 1 2 3 4 dilation 5 6\r\ngroups 2\r\nfilter bias -2\r\n1\r\nfilter \"bias\" bias 3\r\n2\r\n"
                        "filter \"a \\\"b\\\\ #c\"\r\n3\r\nfilter plain,\r\n4");
  gconv_bank bank = bank_good("g.txt", NULL);
  assert_shape(&bank, 4, 1, 1, 1);
  assert_null(bank.names[0]);
  assert_string_equal(bank.names[1], "bias");
  assert_string_equal(bank.names[2], "a \"b\\ #c");
  assert_string_equal(bank.names[3], "plain");
  assert_floats(bank.biases, (float[]){-2, 3, 0, 0}, 4);
  assert_true(bank.has_geometry && bank.stride_y == 2 && bank.stride_x == 3 && bank.dilation_y == 5 && bank.dilation_x == 6);
  assert_true(bank.pad_top == 1 && bank.pad_left == 2 && bank.pad_bottom == 3 && bank.pad_right == 4 && bank.groups == 2);
  gconv_bank_free(&bank);
  write_string("same.txt", "gconv-bank 1\nfilters 1 channels 1 size 1 1\npadding same_lower\nfilter\n1");
  bank = bank_good("same.txt", NULL);
  assert_true(bank.has_geometry && bank.same_lower && !bank.same_upper && bank.stride_x == 1 && bank.groups == 1);
  gconv_bank_free(&bank);
}

typedef struct bad {
  const char *text;
  gconv_status status;
  const char *fragment;
} bad;

#define HEADER "gconv-bank 1\nfilters 2 channels 1 size 1 2\n"

static const bad bad_texts[] = {
    {"1 2 3\n4 5 6\n", GCONV_BAD_FILE, "bad.txt: is no bank of filters"},
    {"", GCONV_BAD_FILE, "bad.txt: is no bank of filters"},
    {"gconv-bank 2\n", GCONV_BAD_FILE,
     "bad.txt:1:12: expected 1, the version of banks that this gconv reads, but found '2'"},
    {"gconv-bank\n", GCONV_BAD_FILE, "bad.txt:1:11: expected 1, the version"},
    {"gconv-bank 1 x\n", GCONV_BAD_FILE, "bad.txt:1:14: expected the end of the line, but found 'x'"},
    {"gconv-bank 1\n", GCONV_BAD_FILE, "the header does not say 'filters'"},
    {"gconv-bank 1\nfilters 1 channels 1\nfilter\n1\n", GCONV_BAD_FILE, "bad.txt:3: the header does not say 'size'"},
    {"gconv-bank 1\nfilters 1 filters 1\n", GCONV_BAD_FILE, "bad.txt:2:11: 'filters' is there twice"},
    {"gconv-bank 1\nfilters -1", GCONV_BAD_FILE, "bad.txt:2:9: expected a whole number for 'filters', but found '-1'"},
    {"gconv-bank 1\nfilters 1e3", GCONV_BAD_FILE, "expected a whole number for 'filters', but found '1e3'"},
    {"gconv-bank 1\nfilters 99999999999999999999", GCONV_BAD_FILE, "expected a whole number for 'filters'"},
    {"gconv-bank 1\nfilters", GCONV_BAD_FILE,
     "bad.txt:2:8: expected a whole number for 'filters', but found the end of the line"},
    {"gconv-bank 1\nfilters 1 size 3\n", GCONV_BAD_FILE, "bad.txt:2:17: expected a whole number for 'size'"},
    {"gconv-bank 1\nfilters 1 kernels 3\n", GCONV_BAD_FILE, "bad.txt:2:11: expected 'filters', 'channels'"},
    {"gconv-bank 1\nfilters 0 channels 1 size 1 1\n", GCONV_BAD_FILE, "it needs at least 1 of each"},
    {"gconv-bank 1\nfilters 1 channels 1 size 99999 1\n", GCONV_TOO_LARGE, "the limit is 32768 rows and columns"},
    {"gconv-bank 1\nfilters 2147483647 channels 2147483647 size 32768 32768\n", GCONV_TOO_LARGE, "weights"},
    {"gconv-bank 1\nfilters 1000 channels 1000 size 9 9\n", GCONV_BAD_FILE, "promises 81000000 numbers, which its 49 bytes"},
    {"gconv-bank 1\nfilters 1 channels 1 size 1 1 stride 0 1\nfilter\n1", GCONV_BAD_FILE, "strides of 0 and 1"},
    {"gconv-bank 1\nfilters 1 channels 1 size 1 1 groups 2\nfilter\n1", GCONV_BAD_FILE, "1 filters in 2 groups"},
    {"gconv-bank 1\nfilters 1 channels 1 size 1 1 padding 1 1\nfilter\n1", GCONV_BAD_FILE, "whole number for 'padding'"},
    {HEADER "1 2\n3 4\n", GCONV_BAD_FILE, "bad.txt:3:1: expected 'filters'"},
    {HEADER "filter\n1 2\n3 4\n", GCONV_BAD_FILE,
     "bad.txt:5:1: expected a line 'filter [NAME] [bias NUMBER]', but found '3'"},
    {HEADER "filter\n1 2\n", GCONV_BAD_FILE, "bad.txt:5: the text ends after 1 of the 2 filters"},
    {HEADER "filter\nfilter\n1 2\n", GCONV_BAD_FILE, "bad.txt:4:1: filter 0 (from 0) ends here, before row 0 of channel 0"},
    {HEADER "filter\n1 2\nfilter\n", GCONV_BAD_FILE, "bad.txt:6: the text ends before row 0 of channel 0 of filter 1"},
    {HEADER "filter\n1\nfilter\n1 2", GCONV_BAD_FILE, "bad.txt:4:2: this row ends after 1 of the 2 numbers"},
    {HEADER "filter\n1 2 3\nfilter\n1 2", GCONV_BAD_FILE, "bad.txt:4:5: this row has more than the 2 numbers"},
    {HEADER "filter\n1 x\n", GCONV_BAD_FILE, "bad.txt:4:3: 'x' is not a number"},
    {HEADER "filter\n1 nan\n", GCONV_BAD_FILE, "bad.txt:4:3: 'nan' is not finite"},
    {HEADER "filter\n1 1e39\n", GCONV_BAD_FILE, "bad.txt:4:3: '1e39' is too large for float32"},
    {HEADER "filter\n1 2\nfilter\n3 4\nfilter\n", GCONV_BAD_FILE, "bad.txt:7: there is more than the 2 filters"},
    {HEADER "filter a b\n1 2\n", GCONV_BAD_FILE, "bad.txt:3:10: expected 'bias', or the end of the line"},
    {HEADER "filter a bias\n1 2\n", GCONV_BAD_FILE, "bad.txt:3:14: expected the number of the bias"},
    {HEADER "filter a bias inf\n1 2\n", GCONV_BAD_FILE, "bad.txt:3:15: 'inf' is not finite"},
    {HEADER "filter a bias 1 2\n1 2\n", GCONV_BAD_FILE, "bad.txt:3:17: expected the end of the line"},
    {HEADER "filter \"a\n1 2\n", GCONV_BAD_FILE, "bad.txt:3:8: the quote that ends this name is missing"},
    {HEADER "filter\n1 2\x01\n", GCONV_BAD_FILE, "which no text has"},
};

static void refuses_bad_text(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(bad_texts); i++) {
    write_string("bad.txt", bad_texts[i].text);
    bank_bad("bad.txt", NULL, bad_texts[i].status, bad_texts[i].fragment);
  }
  write_string("bad.txt", "1 2 3\n");
  bank_bad("bad.txt", "bank", GCONV_BAD_FILE, "bad.txt:1: is no gconv bank: its first line is 'gconv-bank 1'");
  bank_bad("bad.txt", "excel", GCONV_BAD_ARGUMENT, "known are bank, npy, npz, safetensors and onnx");
}

/* ---- NumPy ---- */

/* Writes a .npy of version 1. */
static void write_npy(const char *name, const char *dict, const void *elements, size_t size) {
  char bytes[4096] = "\x93NUMPY\x01";
  size_t length = strlen(dict);
  assert_true(10 + length + size <= sizeof bytes);
  bytes[8] = (char)length;
  memcpy(bytes + 10, dict, length);
  memcpy(bytes + 10 + length, elements, size);
  write_bytes(name, bytes, 10 + length + size);
}

#define DICT(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': (" shape "), }\n"

typedef struct typed {
  const char *dict;
  const char bytes[17];
  float expected[2];
} typed;

static const typed types[] = {
    {DICT("<f2", "False", "2, 1, 1, 1"), "\x00\x3C\x01\x80", {1, -0x1p-24F}},
    {DICT(">f2", "False", "2, 1, 1, 1"), "\x3C\x00\xFB\xFF", {1, -65504}},
    {DICT("<f4", "False", "2, 1, 1, 1"), "\x00\x00\x80\x3F\x01\x00\x00\x00", {1, 0x1p-149F}},
    {DICT(">f4", "False", "2, 1, 1, 1"), "\x3F\x80\x00\x00\x80\x00\x00\x00", {1, -0.0F}},
    {DICT("<f8", "False", "2, 1, 1, 1"), "\0\0\0\0\0\0\xF0\x3F\0\0\0\0\0\0\0\xC0", {1, -2}},
    {DICT(">f8", "False", "2, 1, 1, 1"), "\x3F\xF0\0\0\0\0\0\0\xC0\0\0\0\0\0\0\0", {1, -2}},
    {DICT("|u1", "False", "2, 1, 1, 1"), "\x01\xFF", {1, 255}},
    {DICT("|i1", "False", "2, 1, 1, 1"), "\x01\xFF", {1, -1}},
    {DICT("<u2", "False", "2, 1, 1, 1"), "\x01\x00\xFF\xFF", {1, 65535}},
    {DICT(">i2", "False", "2, 1, 1, 1"), "\x00\x01\x80\x00", {1, -32768}},
    {DICT("<i4", "False", "2, 1, 1, 1"), "\x01\x00\x00\x00\xFE\xFF\xFF\xFF", {1, -2}},
    {DICT(">i8", "False", "2, 1, 1, 1"), "\0\0\0\0\0\0\0\x01\x80\0\0\0\0\0\0\0", {1, -0x1p63F}},
};

static void reads_all_types_of_npy(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(types); i++) {
    size_t item = (size_t)(strchr(types[i].dict, ',')[-2] - '0');
    write_npy("t.npy", types[i].dict, types[i].bytes, 2 * item);
    gconv_bank bank = bank_good("t.npy", NULL);
    assert_shape(&bank, 2, 1, 1, 1);
    assert_floats(bank.weights, types[i].expected, 2);
    gconv_bank_free(&bank);
  }
}

static void reads_both_orders_of_npy(void **state) {
  (void)state;
  uint8_t numbers[24];
  for (uint8_t i = 0; i < 24; i++)
    numbers[i] = i;
  write_npy("c.npy", DICT("|u1", "False", "2, 3, 2, 2"), numbers, 24);
  write_npy("f.npy", DICT("|u1", "True", "2, 3, 2, 2"), numbers, 24);
  write_npy("flat.npy", DICT("|u1", "True", "4, 3, 2"), numbers, 24);
  write_npy("plain.npy", DICT("|u1", "False", "4, 6"), numbers, 24);
  write_npy("one.npy", DICT("|u1", "False", "4, 1, 3, 2"), numbers, 24);
  gconv_bank c = bank_good("c.npy", NULL), f = bank_good("f.npy", NULL), flat = bank_good("flat.npy", "npy");
  assert_shape(&c, 2, 3, 2, 2);
  assert_shape(&f, 2, 3, 2, 2);
  assert_shape(&flat, 4, 1, 3, 2);
  for (int i = 0; i < 24; i++) {
    int s = i % 2, r = i / 2 % 2, channel = i / 4 % 3, k = i / 12;
    assert_true(c.weights[i] == (float)i);
    assert_true(f.weights[i] == (float)(k + 2 * (channel + 3 * (r + 2 * s))));
    assert_true(flat.weights[i] == (float)(i / 6 + 4 * (i / 2 % 3 + 3 * s)));
  }
  gconv_bank_free(&c);
  gconv_bank_free(&f);
  gconv_bank_free(&flat);
  assert_true(gconv_bank_is_one("c.npy") && gconv_bank_is_one("f.npy"));
  assert_false(gconv_bank_is_one("flat.npy") || gconv_bank_is_one("plain.npy") || gconv_bank_is_one("one.npy"));
}

static void refuses_bad_npy(void **state) {
  (void)state;
  const char zeros[64] = {0};
  write_npy("plain.npy", DICT("<f4", "False", "2, 3"), zeros, 24);
  bank_bad("plain.npy", NULL, GCONV_UNSUPPORTED, "has 2 dimensions, as a single plain filter");
  write_npy("five.npy", DICT("<f4", "False", "1, 1, 1, 2, 3"), zeros, 24);
  bank_bad("five.npy", NULL, GCONV_UNSUPPORTED, "has 5 dimensions, as weights of 3-D convolutions");
  assert_true(gconv_bank_is_one("five.npy")); /* so that this is what is said of it */
  write_npy("short.npy", DICT("<f4", "False", "1, 1, 2, 3"), zeros, 23);
  bank_bad("short.npy", NULL, GCONV_BAD_FILE, "promises 6 elements of 4 bytes, but 23 bytes follow");
  write_npy("long.npy", DICT("<f4", "False", "1, 1, 2, 3"), zeros, 25);
  bank_bad("long.npy", NULL, GCONV_BAD_FILE, "promises 6 elements of 4 bytes, but 25 bytes follow");
  write_npy("lie.npy", DICT("<f4", "False", "1000000000, 1, 3, 3"), zeros, 24);
  bank_bad("lie.npy", NULL, GCONV_BAD_FILE, "but 24 bytes follow");
  write_npy("over.npy", DICT("<f4", "False", "4294967296, 4294967296, 3, 3"), zeros, 24);
  bank_bad("over.npy", NULL, GCONV_TOO_LARGE, "larger than any memory");
  write_npy("empty.npy", DICT("<f4", "False", "2, 0, 3, 3"), zeros, 0);
  bank_bad("empty.npy", NULL, GCONV_UNSUPPORTED, "has no elements");
  write_npy("object.npy", DICT("|O", "False", "1, 1, 2, 3"), zeros, 24);
  bank_bad("object.npy", NULL, GCONV_UNSUPPORTED, "'|O'");
  write_npy("nan.npy", DICT("<f4", "False", "2, 1, 1, 1"), "\0\0\0\0\0\0\xC0\x7F", 8);
  bank_bad("nan.npy", NULL, GCONV_BAD_FILE, "nan.npy: the weight of filter 1, channel 0, row 0, column 0 (from 0) is nan");
  write_npy("inf.npy", DICT("<f8", "False", "1, 1, 1, 1"), "\0\0\0\0\0\0\xF0\x47", 8); /* 2^128 */
  bank_bad("inf.npy", NULL, GCONV_BAD_FILE, "is infinite in float32");
  bank_bad("inf.npy:conv1", NULL, GCONV_BAD_ARGUMENT, "has nothing called 'conv1'");
  bank_bad("nothing.npy", NULL, GCONV_IO_ERROR, "nothing.npy: cannot open");
}

/* ---- Round trips ---- */

static const float awkward[] = {1.0F / 3, 16777216, 3.4028234e38F, 1.17549435e-38F, 0x1p-149F, -0.0F,
                                -1e-10F,  0.1F,     123456.789F,   -2.5F,           1e20F,     7};

/* 2 x 2 x 1 x 3 with all that a text can hold. */
static gconv_bank make_awkward(float *biases, char **names) {
  return (gconv_bank){.name = (char *)"conv1.weight",
                      .filters = 2,
                      .channels = 2,
                      .rows = 1,
                      .columns = 3,
                      .weights = (float *)awkward,
                      .biases = biases,
                      .names = names,
                      .has_geometry = true,
                      .stride_y = 2,
                      .stride_x = 1,
                      .dilation_y = 1,
                      .dilation_x = 3,
                      .groups = 2,
                      .pad_left = 4};
}

static void writes_text_that_comes_back(void **state) {
  (void)state;
  float biases[] = {0, -1.0F / 7};
  char *names[] = {(char *)"with \"quotes\", \\ and # of it", NULL};
  gconv_bank bank = make_awkward(biases, names);
  assert_int_equal(gconv_bank_write("out.txt", NULL, &bank), GCONV_OK);
  gconv_bank back = bank_good("out.txt", NULL);
  assert_shape(&back, 2, 2, 1, 3);
  assert_floats(back.weights, awkward, 12);
  assert_floats(back.biases, biases, 2);
  assert_string_equal(back.names[0], names[0]);
  assert_null(back.names[1]);
  assert_true(back.has_geometry && back.stride_y == 2 && back.stride_x == 1 && back.dilation_y == 1 && back.dilation_x == 3);
  assert_true(back.groups == 2 && back.pad_left == 4 && back.pad_top == 0 && !back.same_upper);
  gconv_bank_free(&back);
  bank.biases = NULL;
  names[1] = (char *)"plain_2.5";
  bank.same_lower = true;
  bank.pad_left = 0;
  assert_int_equal(gconv_bank_write("out.txt", NULL, &bank), GCONV_OK);
  back = bank_good("out.txt", NULL);
  assert_string_equal(back.names[1], names[1]);
  assert_true(back.same_lower && !back.same_upper && !back.biases);
  gconv_bank_free(&back);
  bank.names = NULL;
  bank.has_geometry = false;
  assert_int_equal(gconv_bank_write("out2.dat", "bank", &bank), GCONV_OK);
  back = bank_good("out2.dat", NULL);
  assert_true(!back.biases && !back.names && !back.has_geometry);
  gconv_bank_free(&back);
}

/* Names of any length and with any bytes become names that can be read. */
static void writes_awkward_names(void **state) {
  (void)state;
  char lengthy[600];
  char *names[] = {(char *)"bias", (char *)"", (char *)"two\nlines", lengthy};
  memset(lengthy, '"', sizeof lengthy - 1);
  lengthy[sizeof lengthy - 1] = '\0';
  gconv_bank bank = {.filters = 4, .channels = 1, .rows = 1, .columns = 3, .weights = (float *)awkward, .names = names};
  assert_int_equal(gconv_bank_write("names.txt", NULL, &bank), GCONV_OK);
  gconv_bank back = bank_good("names.txt", NULL);
  assert_string_equal(back.names[0], "bias");
  assert_string_equal(back.names[1], "");
  assert_string_equal(back.names[2], "two?lines");
  assert_true(strlen(back.names[3]) == 255 && strspn(back.names[3], "\"") == 255);
  gconv_bank_free(&back);
  char text[1024];
  snprintf(text, sizeof text, HEADER "filter %0300d\n", 0);
  write_string("bad.txt", text);
  bank_bad("bad.txt", NULL, GCONV_TOO_LARGE, "bad.txt:3:8: a name of more than 255 bytes");
  snprintf(text, sizeof text, HEADER "filter \"%0300d\"\n", 0);
  write_string("bad.txt", text);
  bank_bad("bad.txt", NULL, GCONV_TOO_LARGE, "bad.txt:3:8: a name of more than 255 bytes");
}

static void writes_npy_that_comes_back(void **state) {
  (void)state;
  float biases[] = {0, -0.0F};
  gconv_bank bank = make_awkward(biases, NULL);
  logged[0] = '\0';
  assert_int_equal(gconv_bank_write("out.npy", NULL, &bank), GCONV_OK);
  assert_non_null(strstr(logged, "stride, padding, dilation and groups are left out"));
  gconv_bank back = bank_good("out.npy", NULL);
  assert_shape(&back, 2, 2, 1, 3);
  assert_floats(back.weights, awkward, 12);
  gconv_bank_free(&back);
  biases[1] = 1;
  assert_int_equal(gconv_bank_write("biased.npy", NULL, &bank), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "write .safetensors or text"));
  assert_int_not_equal(access("biased.npy", F_OK), 0);
}

static void refuses_to_write(void **state) {
  (void)state;
  float nan_weight[] = {NAN};
  gconv_bank bank = {.filters = 1, .channels = 1, .rows = 1, .columns = 1, .weights = nan_weight};
  assert_int_equal(gconv_bank_write("x.txt", NULL, &bank), GCONV_BAD_ARGUMENT);
  nan_weight[0] = 1;
  assert_int_equal(gconv_bank_write("x.png", NULL, &bank), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_bank_write("x.onnx", NULL, &bank), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_bank_write("x.txt", "onnx", &bank), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_bank_write("no/such/x.txt", NULL, &bank), GCONV_IO_ERROR);
  bank.rows = 0;
  assert_int_equal(gconv_bank_write("x.txt", NULL, &bank), GCONV_BAD_ARGUMENT);
  assert_int_not_equal(access("x.txt", F_OK), 0);
}

/* ---- Stacks ---- */

static void stacks_filters(void **state) {
  (void)state;
  write_string("a.txt", "2 1 2 51\n1 2\n"); /* vips: 1 x 2, scale 2, offset 51 */
  gconv_filters filters = read_good("a.txt", NULL);
  assert_int_equal(gconv_filters_read("sobel_x", NULL, &filters), GCONV_OK);
  assert_int_equal(gconv_filters_read("4x1+0+0: 1 2 3 4", NULL, &filters), GCONV_OK); /* reaches 3 to the right */
  gconv_bank bank = {0};
  assert_int_equal(gconv_bank_stack(&filters, &bank), GCONV_OK);
  assert_shape(&bank, 3, 1, 3, 7);
  const float expected[3][21] = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5F, 1},
                                 {0, 0, -1, 0, 1, 0, 0, 0, 0, -2, 0, 2, 0, 0, 0, 0, -1, 0, 1},
                                 {[10] = 1, 2, 3, 4}};
  assert_floats(bank.weights, expected[0], 63);
  assert_floats(bank.biases, (float[]){0.2F, 0, 0}, 3);
  assert_string_equal(bank.names[1], "sobel_x");
  gconv_bank_free(&bank);
  gconv_filters_free(&filters);
  assert_int_equal(gconv_bank_stack(&filters, &bank), GCONV_BAD_ARGUMENT);
}

/* Filters of one size keep it, even sizes too. */
static void stacks_keep_sizes(void **state) {
  (void)state;
  for (int32_t size = 1; size < 6; size++) {
    char spec[64];
    gconv_filters filters = {0};
    gconv_bank bank = {0};
    snprintf(spec, sizeof spec, "average:size=%dx3", size);
    assert_int_equal(gconv_filters_read(spec, NULL, &filters), GCONV_OK);
    assert_int_equal(gconv_filters_read(spec, NULL, &filters), GCONV_OK);
    assert_int_equal(gconv_bank_stack(&filters, &bank), GCONV_OK);
    assert_shape(&bank, 2, 1, size, 3);
    assert_null(bank.biases);
    assert_floats(bank.weights, filters.items[0].taps, weights_of(&bank) / 2);
    gconv_bank_free(&bank);
    gconv_filters_free(&filters);
  }
}

/* ---- Specs ---- */

static void finds_the_file_of_a_spec(void **state) {
  (void)state;
  write_string("a:b.txt", "gconv-bank 1\nfilters 1 channels 1 size 1 1\nfilter\n1");
  gconv_bank bank = bank_good("a:b.txt", NULL);
  gconv_bank_free(&bank);
  assert_true(gconv_bank_is_one("a:b.txt") && gconv_bank_is_one("a:b.txt:name"));
  bank_bad("a:b.txt:name", NULL, GCONV_BAD_ARGUMENT, "a:b.txt: has nothing called 'name'");
  assert_true(gconv_bank_is_one("missing.safetensors:conv1") && gconv_bank_is_one("missing.onnx"));
  bank_bad("missing.safetensors:conv1", NULL, GCONV_IO_ERROR, "missing.safetensors: cannot open");
  assert_false(gconv_bank_is_one("sobel_x") || gconv_bank_is_one("gaussian:size=9") || gconv_bank_is_one("3x3: 0,1") ||
               gconv_bank_is_one("-") || gconv_bank_is_one("") || gconv_bank_is_one("."));
  for (size_t i = 0; i < 5; i++)
    assert_non_null(gconv_bank_syntax_at(i));
  assert_null(gconv_bank_syntax_at(5));
}

/* The bank that ships with gconv is found by its name. Its filters sum to 0; the last four are the first four, rotated. */
static void finds_the_shipped_bank(void **state) {
  (void)state;
  setenv("GCONV_FILTERS", GCONV_SOURCE_FOLDER "/filters", 1);
  assert_true(gconv_bank_is_one("gabor_bank") && gconv_bank_is_one("gabor_bank.txt") && !gconv_bank_is_one("sobel_8"));
  gconv_bank bank = bank_good("gabor_bank.txt", NULL);
  assert_shape(&bank, 8, 1, 15, 15);
  assert_string_equal(bank.names[5], "gabor_112.5");
  for (int32_t k = 0; k < 8; k++) {
    const float *filter = bank.weights + k * 225, *turned = bank.weights + (k + 4) % 8 * 225;
    double sum = 0;
    for (int32_t i = 0; i < 225; i++) {
      sum += (double)filter[i];
      assert_true(filter[i] == turned[(14 - i % 15) * 15 + i / 15]); /* by a right angle */
    }
    assert_true(fabs(sum) < 1e-6);
  }
  gconv_bank_free(&bank);
  unsetenv("GCONV_FILTERS");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_text),
      cmocka_unit_test(reads_names_and_geometry_of_text),
      cmocka_unit_test(refuses_bad_text),
      cmocka_unit_test(reads_all_types_of_npy),
      cmocka_unit_test(reads_both_orders_of_npy),
      cmocka_unit_test(refuses_bad_npy),
      cmocka_unit_test(writes_text_that_comes_back),
      cmocka_unit_test(writes_awkward_names),
      cmocka_unit_test(writes_npy_that_comes_back),
      cmocka_unit_test(refuses_to_write),
      cmocka_unit_test(stacks_filters),
      cmocka_unit_test(stacks_keep_sizes),
      cmocka_unit_test(finds_the_file_of_a_spec),
      cmocka_unit_test(finds_the_shipped_bank),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
