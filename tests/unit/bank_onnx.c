/* SPDX-License-Identifier: MIT */
/* ONNX models, put together by hand here: what is taken of a Conv node, and every way in which a model can lie. */
#include "bank_test.h"

#include <math.h>
#include <sys/stat.h>

/* ---- Making models ---- */

enum { MOST = 4096 };

/* A message that is being written. */
typedef struct message {
  uint8_t bytes[MOST];
  size_t size;
} message;

static void put_varint(message *m, uint64_t value) {
  for (; value > 127; value >>= 7)
    m->bytes[m->size++] = (uint8_t)(value | 128);
  m->bytes[m->size++] = (uint8_t)value;
}

static void put_integer(message *m, unsigned field, int64_t value) {
  put_varint(m, field << 3);
  put_varint(m, (uint64_t)value);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t size) {
  put_varint(m, field << 3 | 2);
  put_varint(m, size);
  assert_true(m->size + size <= MOST);
  memcpy(m->bytes + m->size, bytes, size);
  m->size += size;
}

static void put_text(message *m, unsigned field, const char *text) {
  put_bytes(m, field, text, strlen(text));
}

static void put_message(message *m, unsigned field, const message *inner) {
  put_bytes(m, field, inner->bytes, inner->size);
}

/* A tensor without numbers. */
static message make_tensor(const char *name, int type, size_t dimensions, const int64_t *dims) {
  message m = {.size = 0};
  for (size_t i = 0; i < dimensions; i++)
    put_integer(&m, 1, dims[i]);
  put_integer(&m, 2, type);
  put_text(&m, 8, name);
  return m;
}

static message make_raw(const char *name, int type, size_t dimensions, const int64_t *dims, const void *bytes, size_t size) {
  message m = make_tensor(name, type, dimensions, dims);
  put_bytes(&m, 9, bytes, size);
  return m;
}

static void put_integers(message *node, const char *name, size_t count, const int64_t *values) {
  message m = {.size = 0};
  put_text(&m, 1, name);
  for (size_t i = 0; i < count; i++)
    put_integer(&m, 8, values[i]);
  put_integer(&m, 20, 7);
  put_message(node, 5, &m);
}

static void put_group(message *node, int64_t groups) {
  message m = {.size = 0};
  put_text(&m, 1, "group");
  put_integer(&m, 3, groups);
  put_integer(&m, 20, 2);
  put_message(node, 5, &m);
}

static void put_attribute_text(message *node, const char *name, const char *text) {
  message m = {.size = 0};
  put_text(&m, 1, name);
  put_text(&m, 4, text);
  put_message(node, 5, &m);
}

static message make_node(const char *type, const char *name, const char *weights, const char *biases, const char *output) {
  message m = {.size = 0};
  put_text(&m, 1, "x");
  put_text(&m, 1, weights);
  if (biases)
    put_text(&m, 1, biases);
  put_text(&m, 2, output);
  put_text(&m, 3, name);
  put_text(&m, 4, type);
  return m;
}

/* Writes the model that the graph makes. */
static void write_model(const char *file, const message *graph) {
  message m = {.size = 0};
  put_integer(&m, 1, 8);
  put_text(&m, 2, "by hand");
  put_message(&m, 7, graph);
  write_bytes(file, m.bytes, m.size);
}

/* A model of a Conv node "conv" and its weights "w". */
static void write_simple(const char *file, const message *node, const message *weights) {
  message graph = {.size = 0};
  put_message(&graph, 1, node);
  put_message(&graph, 5, weights);
  write_model(file, &graph);
}

static const int64_t dims_1122[] = {1, 1, 2, 2}, dims_2112[] = {2, 1, 1, 2};
static const float four[] = {1, -2, 0.1F, 0x1p-149F};

/* ---- What is read ---- */

static void reads_a_node(void **state) {
  (void)state;
  message graph = {.size = 0}, node = make_node("Conv", "conv", "w", "b", "y");
  put_integers(&node, "strides", 2, (int64_t[]){2, 3});
  put_integers(&node, "pads", 4, (int64_t[]){1, 2, 3, 4});
  put_integers(&node, "dilations", 2, (int64_t[]){5, 6});
  put_integers(&node, "kernel_shape", 2, (int64_t[]){1, 2});
  put_group(&node, 2);
  message weights = make_raw("w", 1, 4, dims_2112, four, 16), biases = make_raw("b", 1, 1, (int64_t[]){2}, four, 8);
  put_message(&graph, 5, &biases); /* any order */
  put_message(&graph, 1, &node);
  put_message(&graph, 5, &weights);
  write_model("m.onnx", &graph);
  static const char *const specs[] = {"m.onnx", "m.onnx:conv", "m.onnx:y", "m.onnx:w"};
  for (size_t i = 0; i < COUNT(specs); i++) {
    gconv_bank bank = bank_good(specs[i], NULL);
    assert_shape(&bank, 2, 1, 1, 2);
    assert_floats(bank.weights, four, 4);
    assert_floats(bank.biases, four, 2);
    assert_string_equal(bank.name, "conv");
    assert_true(bank.has_geometry && bank.stride_y == 2 && bank.stride_x == 3 && bank.dilation_y == 5 &&
                bank.dilation_x == 6);
    assert_true(bank.pad_top == 1 && bank.pad_left == 2 && bank.pad_bottom == 3 && bank.pad_right == 4 && bank.groups == 2);
    assert_false(bank.same_upper || bank.same_lower);
    gconv_bank_free(&bank);
  }
  assert_true(gconv_bank_is_one("m.onnx"));
  bank_bad("m.onnx:konv", NULL, GCONV_BAD_ARGUMENT, "did you mean 'conv'? There are conv (2 x 1 x 1 x 2)");
}

static void reads_pads_that_auto_pad_leaves(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", NULL, "y"), weights = make_raw("w", 1, 4, dims_1122, four, 16);
  put_attribute_text(&node, "auto_pad", "NOTSET");
  put_integers(&node, "pads", 4, (int64_t[]){1, 0, 0, 0});
  write_simple("m.onnx", &node, &weights);
  gconv_bank bank = bank_good("m.onnx", NULL);
  assert_int_equal(bank.pad_top, 1);
  gconv_bank_free(&bank);
}

static void reads_defaults_and_auto_pad(void **state) {
  (void)state;
  static const char *const pads[] = {NULL, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  message weights = make_raw("w", 1, 4, dims_1122, four, 16);
  for (size_t i = 0; i < COUNT(pads); i++) {
    message node = make_node("Conv", "", "w", "", "y"); /* no name; biases left out */
    if (pads[i])
      put_attribute_text(&node, "auto_pad", pads[i]);
    write_simple("m.onnx", &node, &weights);
    gconv_bank bank = bank_good("m.onnx", NULL);
    assert_true(bank.has_geometry && bank.stride_y == 1 && bank.stride_x == 1 && bank.dilation_y == 1 &&
                bank.dilation_x == 1);
    assert_true(bank.pad_top == 0 && bank.pad_left == 0 && bank.pad_bottom == 0 && bank.pad_right == 0 && bank.groups == 1);
    assert_true(bank.same_upper == (i == 3) && bank.same_lower == (i == 4) && !bank.biases);
    assert_string_equal(bank.name, "y");
    gconv_bank_free(&bank);
  }
}

/* Every way in which numbers are held. */
static void reads_all_holdings(void **state) {
  (void)state;
  const int64_t dims[] = {1, 1, 1, 2};
  message node = make_node("Conv", "c", "w", NULL, "y");
  message forms[10];
  forms[0] = make_raw("w", 10, 4, dims, "\x00\x3C\x00\xC0", 4);
  forms[1] = make_raw("w", 16, 4, dims, "\x80\x3F\x00\xC0", 4);
  forms[2] = make_raw("w", 11, 4, dims, (double[]){1, -2}, 16);
  forms[3] = make_tensor("w", 1, 4, dims);
  put_bytes(&forms[3], 4, four, 8); /* packed */
  forms[4] = make_tensor("w", 1, 4, dims);
  for (int i = 0; i < 2; i++) { /* one by one */
    put_varint(&forms[4], 4 << 3 | 5);
    memcpy(forms[4].bytes + forms[4].size, &four[i], 4);
    forms[4].size += 4;
  }
  forms[5] = make_tensor("w", 11, 4, dims);
  put_bytes(&forms[5], 10, (double[]){1, -2}, 16);
  forms[6] = make_tensor("w", 10, 4, dims);
  put_bytes(&forms[6], 5, "\x80\x78\x80\x80\x03", 5); /* 0x3C00, 0xC000 as varints */
  forms[7] = make_tensor("w", 16, 4, dims);
  put_integer(&forms[7], 5, 0x3F80);
  put_integer(&forms[7], 5, 0xC000);
  forms[8] = (message){.size = 0}; /* dims packed */
  put_bytes(&forms[8], 1, "\1\1\1\2", 4);
  put_integer(&forms[8], 2, 1);
  put_text(&forms[8], 8, "w");
  put_bytes(&forms[8], 9, four, 8);
  forms[9] = make_tensor("w", 11, 4, dims);
  for (int i = 0; i < 2; i++) { /* doubles one by one: 1, -2 */
    put_varint(&forms[9], 10 << 3 | 1);
    memcpy(forms[9].bytes + forms[9].size, i == 0 ? "\0\0\0\0\0\0\xF0\x3F" : "\0\0\0\0\0\0\0\xC0", 8);
    forms[9].size += 8;
  }
  for (size_t i = 0; i < COUNT(forms); i++) {
    write_simple("m.onnx", &node, &forms[i]);
    gconv_bank bank = bank_good("m.onnx", NULL);
    assert_shape(&bank, 1, 1, 1, 2);
    assert_floats(bank.weights, four, 2);
    gconv_bank_free(&bank);
  }
}

static void reads_constants(void **state) {
  (void)state;
  message graph = {.size = 0}, node = make_node("Conv", "c", "k", NULL, "y"), constant = {.size = 0}, value = {.size = 0};
  message tensor = make_raw("", 1, 4, dims_1122, four, 16);
  put_text(&value, 1, "value");
  put_message(&value, 5, &tensor);
  put_message(&constant, 5, &value); /* before its output and type */
  put_text(&constant, 2, "k");
  put_text(&constant, 4, "Constant");
  put_message(&graph, 1, &node);
  put_message(&graph, 1, &constant);
  write_model("m.onnx", &graph);
  gconv_bank bank = bank_good("m.onnx:k", NULL);
  assert_floats(bank.weights, four, 4);
  gconv_bank_free(&bank);
}

static void lists_the_nodes(void **state) {
  (void)state;
  message graph = {.size = 0};
  message a = make_node("Conv", "a", "w", NULL, "ya"), b = make_node("Conv", "b", "w", NULL, "yb"),
          c = make_node("Conv", "c", "computed", NULL, "yc"), d = make_node("Conv", "d", "line", NULL, "yd"),
          e = make_node("Conv", "e", "volume", NULL, "ye"), f = make_node("Conv", "f", "bytes", NULL, "yf"),
          other = make_node("Relu", "r", "w", NULL, "yr"), input = make_node("Conv", "i", "given", NULL, "yi"),
          up = make_node("ConvTranspose", "up", "w", NULL, "yu"),
          deform = make_node("DeformConv", "deform", "w", NULL, "yp"),
          whole = make_node("ConvInteger", "whole", "bytes", NULL, "yw"), value = {0};
  const message *nodes[] = {&a, &b, &c, &d, &e, &f, &other, &input, &up, &deform, &whole};
  for (size_t i = 0; i < COUNT(nodes); i++)
    put_message(&graph, 1, nodes[i]);
  message w = make_raw("w", 1, 4, dims_1122, four, 16), line = make_raw("line", 1, 3, dims_1122, four, 8),
          volume = make_raw("volume", 1, 5, (int64_t[]){1, 1, 1, 2, 2}, four, 16),
          bytes = make_raw("bytes", 3, 4, dims_1122, four, 4);
  const message *tensors[] = {&w, &line, &volume, &bytes};
  for (size_t i = 0; i < COUNT(tensors); i++)
    put_message(&graph, 5, tensors[i]);
  put_text(&value, 1, "given");
  put_message(&graph, 11, &value);
  write_model("m.onnx", &graph);
  bank_bad("m.onnx:i", NULL, GCONV_UNSUPPORTED, "'i' takes its weights from an input of the model");
  bank_bad("m.onnx:up", NULL, GCONV_UNSUPPORTED, "'up' is a transposed convolution");
  bank_bad("m.onnx:deform", NULL, GCONV_UNSUPPORTED, "'deform' takes its samples from places that the model computes");
  bank_bad("m.onnx:whole", NULL, GCONV_UNSUPPORTED, "'whole' convolves integers");
  bank_bad("m.onnx", NULL, GCONV_BAD_ARGUMENT,
           "has 2 banks: say which, as 'm.onnx:NAME'; there are a (1 x 1 x 2 x 2), b (1 x 1 x");
  bank_bad("m.onnx:w", NULL, GCONV_BAD_ARGUMENT, "4 entries are called 'w'");
  bank_bad("m.onnx:r", NULL, GCONV_BAD_ARGUMENT, "has nothing called 'r'");
  bank_bad("m.onnx:c", NULL, GCONV_UNSUPPORTED, "'c' takes its weights from what other nodes compute");
  bank_bad("m.onnx:d", NULL, GCONV_UNSUPPORTED, "'d' has 3 dimensions, as weights of 1-D convolutions");
  bank_bad("m.onnx:e", NULL, GCONV_UNSUPPORTED, "'e' has 5 dimensions, as weights of 3-D convolutions");
  bank_bad("m.onnx:f", NULL, GCONV_UNSUPPORTED, "'f' has weights of a type that is not read");
  gconv_bank bank = bank_good("m.onnx:yb", NULL);
  assert_string_equal(bank.name, "b");
  gconv_bank_free(&bank);
}

/* ---- What is refused ---- */

static void refuses_bad_numbers(void **state) {
  (void)state;
  const float nan_weights[] = {1, 2, 3, NAN};
  message node = make_node("Conv", "c", "w", NULL, "y");
  struct {
    message tensor;
    gconv_status status;
    const char *fragment;
  } cases[] = {
      {make_raw("w", 1, 4, dims_1122, four, 12), GCONV_BAD_FILE,
       "tensor 'w' has fewer than the 4 numbers that its dims promise"},
      {make_raw("w", 1, 4, dims_1122, four, 13), GCONV_BAD_FILE, "more, or parts of more, than the 4 numbers"},
      {make_raw("w", 1, 4, (int64_t[]){1, 1, 1, 1}, four, 8), GCONV_BAD_FILE, "than the 1 numbers"},
      {make_raw("w", 1, 4, (int64_t[]){1000000, 1000000, 1, 1}, four, 16), GCONV_TOO_LARGE, "weights"},
      {make_raw("w", 1, 4, (int64_t[]){100000, 10000, 1, 1}, four, 16), GCONV_BAD_FILE, "fewer than the 1000000000 numbers"},
      {make_raw("w", 1, 4, (int64_t[]){-1, 1, 2, 2}, four, 16), GCONV_UNSUPPORTED, "has no elements"},
      {make_raw("w", 1, 4, dims_1122, nan_weights, 16), GCONV_BAD_FILE,
       "m.onnx: c: the weight of filter 0, channel 0, row 1, column 1"},
      {make_tensor("w", 1, 4, dims_1122), GCONV_BAD_FILE, "fewer than the 4 numbers"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    write_simple("m.onnx", &node, &cases[i].tensor);
    bank_bad("m.onnx", NULL, cases[i].status, cases[i].fragment);
  }
}

/* Numbers that come one by one, one too many. */
static void refuses_too_many_numbers(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", NULL, "y"), weights = make_tensor("w", 10, 4, (int64_t[]){1, 1, 1, 2});
  for (int i = 0; i < 3; i++)
    put_integer(&weights, 5, 0x3C00);
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "tensor 'w' has more than the 2 numbers");
  weights = make_tensor("w", 10, 4, (int64_t[]){1, 1, 1, 2});
  put_bytes(&weights, 5, "\1\2\3", 3);
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "tensor 'w' has more than the 2 numbers");
}

static void refuses_bad_attributes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t count;
    int64_t values[4];
    const char *fragment;
  } cases[] = {
      {"strides", 1, {1}, "attribute 'strides' does not have the numbers for two dimensions"},
      {"strides", 2, {0, 1}, "strides of 0 and 1"},
      {"dilations", 2, {1, -1}, "attribute 'dilations' is negative"},
      {"dilations", 3, {1, 1, 1}, "attribute 'dilations' does not have the numbers"},
      {"pads", 2, {1, 1}, "attribute 'pads' does not have the numbers"},
      {"pads", 4, {1, -1, 1, 1}, "attribute 'pads' is negative"},
      {"pads", 4, {1, INT64_C(1) << 40, 1, 1}, "or too large"},
      {"kernel_shape", 2, {3, 3}, "attribute 'kernel_shape' is not the size of its weights"},
      {"group", 1, {3}, "1 filters in 3 groups"},
      {"group", 1, {0}, "1 filters in 0 groups"},
  };
  message weights = make_raw("w", 1, 4, dims_1122, four, 16);
  for (size_t i = 0; i < COUNT(cases); i++) {
    message node = make_node("Conv", "c", "w", NULL, "y");
    if (strcmp(cases[i].name, "group") == 0)
      put_group(&node, cases[i].values[0]);
    else
      put_integers(&node, cases[i].name, cases[i].count, cases[i].values);
    write_simple("m.onnx", &node, &weights);
    bank_bad("m.onnx", NULL, GCONV_BAD_FILE, cases[i].fragment);
  }
  message node = make_node("Conv", "c", "w", NULL, "y");
  put_attribute_text(&node, "auto_pad", "SAME");
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "is not NOTSET");
  node = make_node("Conv", "c", "w", NULL, "y");
  put_attribute_text(&node, "auto_pad", "SAME_UPPER");
  put_integers(&node, "pads", 4, (int64_t[]){1, 1, 1, 1});
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "'pads' contradicts its 'auto_pad'");
  node = make_node("Conv", "c", "w", NULL, "y");
  put_integers(&node, "group", 1, (int64_t[]){1}); /* a list, where ONNX has a number */
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "an attribute 'group' whose value is of another type");
  node = make_node("Conv", "c", "w", NULL, "y");
  put_integers(&node, "strides", 2, (int64_t[]){1, 1});
  put_integers(&node, "strides", 2, (int64_t[]){2, 2});
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "two attributes 'strides'");
  node = make_node("Conv", "c", "w", NULL, "y");
  put_integers(&node, "rotation", 1, (int64_t[]){90});
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_UNSUPPORTED, "an attribute 'rotation', which gconv does not know");
}

static void refuses_bad_biases(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", "b", "y"), weights = make_raw("w", 1, 4, dims_2112, four, 16);
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_UNSUPPORTED, "its biases 'b' are not an initialiser or Constant of 2");
  message graph = {.size = 0}, biases = make_raw("b", 1, 1, (int64_t[]){3}, four, 12);
  put_message(&graph, 1, &node);
  put_message(&graph, 5, &weights);
  put_message(&graph, 5, &biases);
  write_model("m.onnx", &graph);
  bank_bad("m.onnx", NULL, GCONV_UNSUPPORTED, "its biases 'b' are not");
  put_message(&graph, 5, &weights);
  write_model("m.onnx", &graph);
  bank_bad("m.onnx", NULL, GCONV_BAD_FILE, "two tensors are called 'w'");
}

static void refuses_bad_encodings(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
    const char *fragment;
  } cases[] = {
      {"\x08\x07\x3A\x7F", 4, "a field reaches beyond the end of its message at byte 4"},
      {"\x08\x07\x3A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 13, "reaches beyond"},
      {"\x08\x07\x3A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 13, "a number of more than 64 bits"},
      {"\x08\x07\x3A\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 14, "a number of more than 64 bits"},
      {"\x08\x07\x3A\x02\x0A\x80", 6, "a message ends within a number"},
      {"\x08\x07\x3A\x02\x0B\x00", 6, "a field of unknown kind"},
      {"\x08\x07\x3A\x02\x02\x00", 6, "a field with an invalid number"},
      {"\x08\x07\x3A\x03\x0D\x01\x01", 7, "a message ends within a number"},
      {"\x08\x07\x3A\x04\x0A\x02\x20\x01", 8, "a number for a name"},
      {"\x08\x07\x42\x00\x10\x01", 6, "it has no graph"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    write_bytes("m.onnx", cases[i].bytes, cases[i].size);
    bank_bad("m.onnx", NULL, GCONV_BAD_FILE, cases[i].fragment);
  }
  write_bytes("m.onnx", "\x08\x07\x3A\x00", 4);
  bank_bad("m.onnx", "onnx", GCONV_UNSUPPORTED, "the model has no Conv node");
  message node = make_node("QLinearConv", "c", "w", NULL, "y"), weights = make_raw("w", 3, 4, dims_1122, four, 4);
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_UNSUPPORTED, "'c' convolves integers: export the model before it is quantised");
  node = make_node("Conv", "c", "w", NULL, "y"); /* of somebody else's operators */
  put_text(&node, 7, "com.example");
  write_simple("m.onnx", &node, &weights);
  bank_bad("m.onnx", NULL, GCONV_UNSUPPORTED, "the model has no Conv node");
}

/* A good model, cut at every byte: an error each time, and no more. */
static void refuses_every_cut(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", NULL, "y"), weights = make_raw("w", 1, 4, dims_1122, four, 16);
  uint8_t bytes[MOST];
  write_simple("m.onnx", &node, &weights);
  FILE *stream = fopen("m.onnx", "rb");
  size_t size = fread(bytes, 1, sizeof bytes, stream);
  fclose(stream);
  for (size_t cut = 0; cut < size; cut++) {
    gconv_bank bank = {0};
    write_bytes("cut.onnx", bytes, cut);
    assert_int_not_equal(gconv_bank_read("cut.onnx", NULL, &bank), GCONV_OK);
  }
}

/* ---- External data ---- */

static message make_external(const char *location, const char *offset, const char *length) {
  const char *const pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
  message m = make_tensor("w", 1, 4, dims_1122);
  for (size_t i = 0; i < COUNT(pairs); i++) {
    message entry = {.size = 0};
    if (!pairs[i][1])
      continue;
    put_text(&entry, 1, pairs[i][0]);
    put_text(&entry, 2, pairs[i][1]);
    put_message(&m, 13, &entry);
  }
  put_integer(&m, 14, 1);
  return m;
}

static void reads_external_data(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", NULL, "y");
  mkdir("model", 0755);
  mkdir("model/parts", 0755);
  write_bytes("model/weights.bin", "12345678", 8);
  write_bytes("model/parts/w.bin", four, 16);
  FILE *stream = fopen("model/weights.bin", "ab");
  fwrite(four, 1, 16, stream);
  fclose(stream);
  assert_int_equal(symlink("weights.bin", "model/link.bin"), 0); /* within the folder */
  message forms[] = {make_external("weights.bin", "8", "16"), make_external("weights.bin", "8", NULL),
                     make_external("parts/w.bin", NULL, NULL), make_external("./parts/../parts/w.bin", "0", "16"),
                     make_external("link.bin", "8", "16")};
  for (size_t i = 0; i < COUNT(forms); i++) {
    write_simple("model/m.onnx", &node, &forms[i]);
    if (i == 3) { /* even though it comes back */
      bank_bad("model/m.onnx", NULL, GCONV_BAD_FILE, "is not below the folder of the model");
      continue;
    }
    gconv_bank bank = bank_good("model/m.onnx", NULL);
    assert_floats(bank.weights, four, 4);
    gconv_bank_free(&bank);
  }
}

static void refuses_bad_external_data(void **state) {
  (void)state;
  message node = make_node("Conv", "c", "w", NULL, "y");
  mkdir("far", 0755);
  write_bytes("secret.bin", four, 16);
  write_bytes("far/w.bin", four, 16);
  assert_int_equal(symlink("../secret.bin", "far/link.bin"), 0);
  assert_int_equal(symlink("..", "far/up"), 0);
  mkdir("farther", 0755); /* begins as the folder does, and is another */
  write_bytes("farther/w.bin", four, 16);
  assert_int_equal(symlink("../farther/w.bin", "far/near.bin"), 0);
  assert_int_equal(mkfifo("far/pipe", 0644), 0);
  char absolute[4096];
  assert_non_null(realpath("far/w.bin", absolute));
  const struct {
    const char *location, *offset, *length;
    gconv_status status;
    const char *fragment;
  } cases[] = {
      {absolute, NULL, NULL, GCONV_BAD_FILE, "is not below the folder of the model"},
      {"../secret.bin", NULL, NULL, GCONV_BAD_FILE, "is not below the folder of the model"},
      {"..", NULL, NULL, GCONV_BAD_FILE, "is not below"},
      {"x/../../secret.bin", NULL, NULL, GCONV_BAD_FILE, "is not below"},
      {"", NULL, NULL, GCONV_BAD_FILE, "is not below"},
      {NULL, NULL, NULL, GCONV_BAD_FILE, "is not below"},
      {"link.bin", NULL, NULL, GCONV_BAD_FILE, "a link out of the folder of the model"},
      {"up/secret.bin", NULL, NULL, GCONV_BAD_FILE, "a link out of the folder of the model"},
      {"near.bin", NULL, NULL, GCONV_BAD_FILE, "a link out of the folder of the model"},
      {"missing.bin", NULL, NULL, GCONV_IO_ERROR, "which is missing beside it"},
      {"w.bin", "1", NULL, GCONV_BAD_FILE, "have 15 bytes, but 4 elements of float32 need 16"},
      {"w.bin", "1", "16", GCONV_BAD_FILE, "are 16 bytes from byte 1 of 'w.bin', which has 16"},
      {"w.bin", "18446744073709551615", "16", GCONV_BAD_FILE, "from byte 18446744073709551615"},
      {"w.bin", "18446744073709551616", "16", GCONV_BAD_FILE, "not a number of bytes"},
      {"w.bin", "-1", "16", GCONV_BAD_FILE, "the offset of external data is '-1'"},
      {"w.bin", "", "16", GCONV_BAD_FILE, "not a number of bytes"},
      {"w.bin", "0", "12", GCONV_BAD_FILE, "have 12 bytes, but 4 elements"},
      {"pipe", NULL, NULL, GCONV_BAD_FILE, "no regular file"},
      {".", NULL, NULL, GCONV_BAD_FILE, "no regular file"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    message weights = make_external(cases[i].location, cases[i].offset, cases[i].length);
    write_simple("far/m.onnx", &node, &weights);
    bank_bad("far/m.onnx", NULL, cases[i].status, cases[i].fragment);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_node),
      cmocka_unit_test(reads_defaults_and_auto_pad),
      cmocka_unit_test(reads_pads_that_auto_pad_leaves),
      cmocka_unit_test(reads_all_holdings),
      cmocka_unit_test(reads_constants),
      cmocka_unit_test(lists_the_nodes),
      cmocka_unit_test(refuses_bad_numbers),
      cmocka_unit_test(refuses_too_many_numbers),
      cmocka_unit_test(refuses_bad_attributes),
      cmocka_unit_test(refuses_bad_biases),
      cmocka_unit_test(refuses_bad_encodings),
      cmocka_unit_test(refuses_every_cut),
      cmocka_unit_test(reads_external_data),
      cmocka_unit_test(refuses_bad_external_data),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
