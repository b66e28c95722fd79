/* SPDX-License-Identifier: MIT */
/* safetensors: good files and every way in which one can lie. */
#include "bank_test.h"

#include <math.h>

/* Writes a file whose prefix says `claimed` (the true size if 0), with this header and data. */
static void write_file(const char *name, uint64_t claimed, const char *header, const void *data, size_t size) {
  uint8_t bytes[8192];
  size_t length = strlen(header);
  uint64_t says = claimed ? claimed : length;
  assert_true(8 + length + size <= sizeof bytes);
  for (int i = 0; i < 8; i++)
    bytes[i] = (uint8_t)(says >> (8 * i));
  memcpy(bytes + 8, header, length);
  memcpy(bytes + 8 + length, data, size);
  write_bytes(name, bytes, 8 + length + size);
}

#define TENSOR(name, type, shape, begin, end)                                                                               \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static const float eight[] = {1, 2, 3, 4, 5, 6, -0.5F, 0x1p-149F};

static void reads_a_layer(void **state) {
  (void)state;
  const char *header = "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("fc.weight", "F32", "1, 2", "0", "8") "," TENSOR(
      "conv1.bias", "F32", "1", "24", "28") "," TENSOR("conv1.weight", "F32", "1, 1, 2, 2", "8",
                                                       "24") "," TENSOR("n", "I64", "", "28", "36") "}    ";
  uint8_t data[36] = {0};
  memcpy(data, eight, 28);
  write_file("layer.safetensors", 0, header, data, sizeof data);
  static const char *const specs[] = {"layer.safetensors", "layer.safetensors:conv1.weight", "layer.safetensors:conv1"};
  for (size_t i = 0; i < COUNT(specs); i++) {
    gconv_bank bank = bank_good(specs[i], NULL);
    assert_shape(&bank, 1, 1, 2, 2);
    assert_floats(bank.weights, (float[]){3, 4, 5, 6}, 4);
    assert_floats(bank.biases, (float[]){-0.5F}, 1);
    assert_string_equal(bank.name, "conv1.weight");
    assert_false(bank.has_geometry);
    gconv_bank_free(&bank);
  }
  assert_true(gconv_bank_is_one("layer.safetensors:conv1"));
  bank_bad("layer.safetensors:conv1.weigth", NULL, GCONV_BAD_ARGUMENT,
           "has nothing called 'conv1.weigth': did you mean 'conv1.weight'? There are conv1.weight (1 x 1 x 2 x 2)");
  bank_bad("layer.safetensors:fc.weight", NULL, GCONV_UNSUPPORTED, "'fc.weight' does not have the 4 dimensions of a bank");
}

static void brings_biases_of_the_name(void **state) {
  (void)state;
  write_file("named", 0,
             "{" TENSOR("weight", "F32", "1,1,1,1", "0", "4") "," TENSOR("bias", "F32", "1", "4", "8") "," TENSOR(
                 "xweight", "F32", "1,1,1,1", "8", "12") "," TENSOR("xbias", "F32", "1", "12", "16") "}",
             eight, 16);
  gconv_bank bank = bank_good("named:weight", NULL);
  assert_floats(bank.biases, (float[]){2}, 1);
  gconv_bank_free(&bank);
  bank = bank_good("named:xweight", NULL); /* no part of this name is "weight" */
  assert_null(bank.biases);
  gconv_bank_free(&bank);
}

static void lists_what_there_is(void **state) {
  (void)state;
  write_file("list.safetensors", 0,
             "{" TENSOR("a", "F16", "2,1,1,1", "0", "4") "," TENSOR("b\\u001b[1m", "BF16", "2,1,1,1", "4", "8") "," TENSOR(
                 "c", "F64", "1,1,1", "8", "16") "," TENSOR("d", "I8", "1,1,2,2,1", "16",
                                                            "20") "," TENSOR("e", "Q3", "1,1,1,8", "20", "23") "}",
             "\x00\x3C\x01\x80\x80\x3F\x00\xC0\0\0\0\0\0\0\xF0\x3F\1\2\3\4qqq", 23);
  gconv_bank_file *file = NULL;
  assert_int_equal(gconv_bank_file_open("list.safetensors", NULL, &file, NULL), GCONV_OK);
  assert_string_equal(gconv_bank_file_syntax(file), "safetensors");
  static const char *const expected[][2] = {
      {"a", "float16"}, {"b?[1m", "bfloat16"}, {"c", "float64"}, {"d", "int8"}, {"e", "Q3"}};
  static const char *const obstacles[] = {NULL, NULL, "has 3 dimensions", "has 5 dimensions", "floating-point"};
  for (size_t i = 0; i < 5; i++) {
    const gconv_bank_entry *entry = gconv_bank_file_at(file, i);
    assert_string_equal(entry->name, expected[i][0]);
    assert_string_equal(entry->type, expected[i][1]);
    assert_true(obstacles[i] ? entry->obstacle && strstr(entry->obstacle, obstacles[i]) : !entry->obstacle);
  }
  assert_null(gconv_bank_file_at(file, 5));
  gconv_bank bank = {0};
  assert_int_equal(gconv_bank_file_read(file, 1, &bank), GCONV_OK); /* in any order */
  assert_floats(bank.weights, (float[]){1, -2}, 2);
  gconv_bank_free(&bank);
  assert_int_equal(gconv_bank_file_read(file, 0, &bank), GCONV_OK);
  assert_floats(bank.weights, (float[]){1, -0x1p-24F}, 2);
  gconv_bank_free(&bank);
  assert_int_equal(gconv_bank_file_read(file, 3, &bank), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_bank_file_read(file, 5, &bank), GCONV_BAD_ARGUMENT);
  gconv_bank_file_close(file);
  bank_bad("list.safetensors", NULL, GCONV_BAD_ARGUMENT,
           "has 2 banks: say which, as 'list.safetensors:NAME'; there are a (2 x 1 x 1 x 1), b?[1m (2 x 1 x 1 x 1)");
}

typedef struct bad {
  uint64_t claimed;
  const char *header;
  size_t size; /* of the data */
  gconv_status status;
  const char *fragment;
} bad;

#define W(begin, end) TENSOR("w", "F32", "1,1,1,2", begin, end)

static const bad bads[] = {
    {UINT64_C(4294967296), "{}", 0, GCONV_BAD_FILE, "claim a header of 4294967296 bytes; safetensors allow 100000000"},
    {UINT64_MAX, "{}", 0, GCONV_BAD_FILE, "claim a header of 18446744073709551615 bytes"},
    {100000001, "{}", 0, GCONV_BAD_FILE, "claim a header of 100000001 bytes"},
    {100, "{}", 0, GCONV_BAD_FILE, "its header claims 100 bytes, but the file ends after 2"},
    {0, "{", 0, GCONV_BAD_FILE, "is not valid JSON"},
    {0, "[]", 0, GCONV_BAD_FILE, "does not begin with '{'"},
    {0, "{}x", 0, GCONV_BAD_FILE, "is not valid JSON"},
    {0, "{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 8, GCONV_BAD_FILE, "duplicate object key"},
    {0, "{" W("0", "8") "," W("0", "8") "}", 8, GCONV_BAD_FILE, "duplicate object key"},
    {0, "{\"__metadata__\":1}", 0, GCONV_BAD_FILE, "__metadata__"},
    {0, "{\"w\":1}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'dtype'"},
    {0, "{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'shape'"},
    {0, "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2]}}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'data_offsets'"},
    {0, "{" TENSOR("w", "F32", "1,1,1,-2", "0", "8") "}", 8, GCONV_BAD_FILE, "number 4 is no whole number from 0 on"},
    {0, "{" TENSOR("w", "F32", "1,1,1,2.0", "0", "8") "}", 8, GCONV_BAD_FILE, "number 4 is no whole number"},
    {0, "{" TENSOR("w", "F32", "4294967296,4294967296,3,3", "0", "8") "}", 8, GCONV_BAD_FILE, "larger than any memory"},
    {0, "{" TENSOR("w", "F32", "1000000,1000000,3,3", "0", "8") "}", 8, GCONV_BAD_FILE,
     "has 8 bytes, but 9000000000000 elements of F32 need 36000000000000"},
    {0, "{" W("8", "0") "}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'data_offsets'"},
    {0, "{" W("-8", "0") "}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'data_offsets'"},
    {0, "{" W("0,4", "8") "}", 8, GCONV_BAD_FILE, "tensor 'w' has no 'data_offsets'"},
    {0, "{" W("0", "7") "}", 8, GCONV_BAD_FILE, "tensor 'w' has 7 bytes, but 2 elements of F32 need 8"},
    {0, "{" W("4", "12") "}", 12, GCONV_BAD_FILE,
     "begins at byte 4 of the data, but the one before ends at 0: there must be no holes"},
    {0, "{" W("0", "8") "," TENSOR("v", "F32", "1", "12", "16") "}", 16, GCONV_BAD_FILE, "tensor 'v' begins at byte 12"},
    {0, "{" W("0", "8") "," TENSOR("v", "F32", "2", "4", "12") "}", 12, GCONV_BAD_FILE, "tensor 'v' overlaps another"},
    {0, "{" W("0", "8") "," TENSOR("v", "F32", "2", "0", "8") "}", 8, GCONV_BAD_FILE, "overlaps another"},
    {0, "{" W("0", "8") "}", 7, GCONV_BAD_FILE, "ends at byte 8 of the data, of which the file has 7"},
    {0, "{" W("0", "8") "}", 9, GCONV_BAD_FILE, "its tensors end at byte 8 of the data, but the file has 9"},
    {0, "{}", 0, GCONV_BAD_ARGUMENT, "has nothing in it that could be a bank"},
    {0, "{" TENSOR("w", "F32", "1,1,1,1,2", "0", "8") "}", 8, GCONV_UNSUPPORTED, "'w' has 5 dimensions, as weights of 3-D"},
    {0, "{" TENSOR("w", "F32", "1,1,2", "0", "8") "}", 8, GCONV_UNSUPPORTED, "'w' has 3 dimensions, as weights of 1-D"},
    {0, "{" TENSOR("w", "I64", "1,1,1,1", "0", "8") "}", 8, GCONV_UNSUPPORTED, "'w' is not of a floating-point type"},
    {0, "{" TENSOR("w", "F32", "1,0,3,3", "0", "0") "}", 0, GCONV_UNSUPPORTED, "'w' has no elements"},
    {0, "{" TENSOR("a", "F32", "2", "0", "8") "," TENSOR("b", "F32", "1", "8", "12") "}", 12, GCONV_BAD_ARGUMENT,
     "nothing in it is a bank of filters"},
    {0, "{" TENSOR("w.weight", "F32", "1,1,1,1", "0", "4") "," TENSOR("w.bias", "F32", "2", "4", "12") "}", 12,
     GCONV_BAD_FILE, "tensor 'w.bias' is not 1 floating-point numbers, one a filter of 'w.weight'"},
};

static void refuses_bad_files(void **state) {
  (void)state;
  const char zeros[64] = {0};
  for (size_t i = 0; i < COUNT(bads); i++) {
    write_file("bad.safetensors", bads[i].claimed, bads[i].header, zeros, bads[i].size);
    bank_bad("bad.safetensors", NULL, bads[i].status, bads[i].fragment);
  }
  write_bytes("bad.safetensors", "\1\0\0", 3);
  bank_bad("bad.safetensors", NULL, GCONV_BAD_FILE, "ends too early, in the size of its header");
  /* known by its content, without the extension */
  write_file("bad", UINT64_C(4294967296), "{}", zeros, 0);
  assert_true(gconv_bank_is_one("bad"));
  bank_bad("bad", NULL, GCONV_BAD_FILE, "claim a header of 4294967296 bytes");
}

static void refuses_what_is_not_finite(void **state) {
  (void)state;
  float weights[] = {1, 2, 3, NAN};
  write_file("nan.safetensors", 0, "{" TENSOR("w", "F32", "2,1,1,2", "0", "16") "}", weights, 16);
  bank_bad("nan.safetensors", NULL, GCONV_BAD_FILE,
           "nan.safetensors: w: the weight of filter 1, channel 0, row 0, column 1 (from 0) is nan");
  const double large[] = {1, -1e39};
  write_file("inf.safetensors", 0,
             "{" TENSOR("x.weight", "F64", "1,1,1,1", "0", "8") "," TENSOR("x.bias", "F64", "1", "8", "16") "}", large, 16);
  bank_bad("inf.safetensors", NULL, GCONV_BAD_FILE, "the bias of filter 0 (from 0) is infinite in float32");
}

static void check_round_trip(const char *name, const char *weight, float *biases) {
  float weights[6];
  memcpy(weights, eight + 2, sizeof weights);
  gconv_bank bank = {
      .name = (char *)name, .filters = 2, .channels = 3, .rows = 1, .columns = 1, .weights = weights, .biases = biases};
  assert_int_equal(gconv_bank_write("out.safetensors", NULL, &bank), GCONV_OK);
  gconv_bank back = bank_good("out.safetensors", NULL);
  assert_shape(&back, 2, 3, 1, 1);
  assert_string_equal(back.name, weight);
  assert_floats(back.weights, weights, 6);
  assert_true((back.biases != NULL) == (biases != NULL));
  if (biases)
    assert_floats(back.biases, biases, 2);
  gconv_bank_free(&back);
}

static void writes_what_comes_back(void **state) {
  (void)state;
  float biases[] = {-0.0F, 1.0F / 3};
  check_round_trip("conv1.weight", "conv1.weight", biases);
  check_round_trip("Conv_0", "Conv_0.weight", biases);
  check_round_trip("a \"b\"\\", "a \"b\"\\.weight", NULL);
  check_round_trip("", "weight", biases);
  check_round_trip(NULL, "weight", NULL);
  gconv_bank bank = {.name = (char *)"\xFF", .filters = 1, .channels = 1, .rows = 1, .columns = 1, .weights = biases};
  assert_int_equal(gconv_bank_write("latin.safetensors", NULL, &bank), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "is the name of the bank UTF-8?"));
  assert_int_not_equal(access("latin.safetensors", F_OK), 0);
  /* the data begin at a multiple of 8 */
  uint8_t prefix[8];
  FILE *stream = fopen("out.safetensors", "rb");
  assert_int_equal(fread(prefix, 1, 8, stream), 8);
  fclose(stream);
  assert_int_equal(prefix[0] % 8, 0);
}

/* The header of a file of gigabytes is read, and one tensor; the file is sparse. */
static void reads_a_part_of_a_large_file(void **state) {
  (void)state;
  const char *header = "{" TENSOR("big", "U8", "6000000000", "0", "6000000000") "," TENSOR("w", "F32", "1,1,1,2",
                                                                                           "6000000000", "6000000008") "}";
  write_file("big.safetensors", 0, header, "", 0);
  off_t data = (off_t)(8 + strlen(header));
  FILE *stream = fopen("big.safetensors", "rb+");
  if (ftruncate(fileno(stream), data + 6000000008) != 0) { /* a file system without sparse files */
    fclose(stream);
    skip();
  }
  fseeko(stream, data + 6000000000, SEEK_SET);
  fwrite(eight, 1, 8, stream);
  fclose(stream);
  gconv_bank bank = bank_good("big.safetensors", NULL);
  assert_floats(bank.weights, eight, 2);
  gconv_bank_free(&bank);
  remove("big.safetensors");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_layer),
      cmocka_unit_test(lists_what_there_is),
      cmocka_unit_test(brings_biases_of_the_name),
      cmocka_unit_test(refuses_bad_files),
      cmocka_unit_test(refuses_what_is_not_finite),
      cmocka_unit_test(writes_what_comes_back),
      cmocka_unit_test(reads_a_part_of_a_large_file),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
