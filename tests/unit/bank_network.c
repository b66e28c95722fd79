/* SPDX-License-Identifier: MIT */
/* Networks as files: what is written comes back, and every way in which a file can lie. */
#include "bank/network_file.h"
#include "bank_test.h"

#include <math.h>

static float weights[] = {1, 2, 3, 4, 5, 6, -0.5F, 0x1p-149F}, biases[] = {0.25F, -1e-3F};
static gconv_bank banks[3] = {
    {.name = (char *)"a", .filters = 2, .channels = 1, .rows = 2, .columns = 2, .weights = weights, .biases = biases},
    {0},
    {.name = (char *)"b", .filters = 2, .channels = 2, .rows = 1, .columns = 1, .weights = weights},
};
static gconv_layer layers[3] = {
    {.bank = &banks[0],
     .padding = GCONV_LAYER_EXPLICIT,
     .pad_top = 1,
     .pad_right = 2,
     .stride_y = 2,
     .activation = GCONV_ACTIVATION_LEAKY,
     .slope = 0.1F,
     .flip = true},
    {.kind = GCONV_LAYER_MEAN},
    {.bank = &banks[2], .activation = GCONV_ACTIVATION_SOFTMAX},
};
static float mean[] = {0.1F}, deviation[] = {0.3F};
static char *classes[] = {(char *)"cat", (char *)"d\xC3\xB6g"};
static const gconv_network whole = {.layers = layers,
                                    .banks = banks,
                                    .count = 3,
                                    .channels = 1,
                                    .mean = mean,
                                    .std = deviation,
                                    .mean_count = 1,
                                    .std_count = 1,
                                    .classes = classes,
                                    .class_count = 2,
                                    .loss = GCONV_LOSS_CROSS_ENTROPY,
                                    .seed = UINT64_MAX - 1,
                                    .trained = (char *)"{\"epochs\":3}",
                                    .others = (char *)"{\"future\":[\"x\"],\"layers\":[{\"note\":1},{},{}]}"};

static gconv_network good(const char *path) {
  gconv_network network = {0};
  if (gconv_network_read(path, &network) != GCONV_OK)
    fail_msg("%s: %s", path, gconv_last_error());
  return network;
}

static void comes_back(void **state) {
  (void)state;
  assert_int_equal(gconv_network_write("net.safetensors", &whole), GCONV_OK);
  assert_true(gconv_network_is_one("net.safetensors"));
  gconv_network n = good("net.safetensors");
  assert_int_equal(n.count, 3);
  assert_floats(n.banks[0].weights, weights, 8);
  assert_floats(n.banks[0].biases, biases, 2);
  assert_string_equal(n.banks[0].name, "l0");
  assert_floats(n.banks[2].weights, weights, 4);
  assert_null(n.banks[2].biases);
  assert_null(n.banks[1].weights);
  const gconv_layer *first = &n.layers[0];
  assert_ptr_equal(first->bank, &n.banks[0]);
  assert_int_equal(first->padding, GCONV_LAYER_EXPLICIT);
  assert_int_equal(first->pad_top * 1000 + first->pad_left * 100 + first->pad_bottom * 10 + first->pad_right, 1002);
  assert_int_equal(first->stride_y * 10 + first->stride_x, 21);
  assert_int_equal(first->groups, 0);
  assert_int_equal(first->activation, GCONV_ACTIVATION_LEAKY);
  assert_true(first->slope == 0.1F && first->flip);
  assert_int_equal(n.layers[1].kind, GCONV_LAYER_MEAN);
  assert_null(n.layers[1].bank);
  assert_int_equal(n.layers[2].activation, GCONV_ACTIVATION_SOFTMAX);
  assert_int_equal(n.layers[2].padding, GCONV_LAYER_SAME);
  assert_int_equal(n.channels, 1);
  assert_floats(n.mean, mean, 1);
  assert_floats(n.std, deviation, 1);
  assert_int_equal(n.class_count, 2);
  assert_string_equal(n.classes[1], classes[1]);
  assert_int_equal(n.loss, GCONV_LOSS_CROSS_ENTROPY);
  assert_true(n.seed == UINT64_MAX - 1);
  assert_string_equal(n.trained, whole.trained);
  assert_non_null(strstr(n.others, "\"future\":[\"x\"]"));
  assert_non_null(strstr(n.others, "\"note\":1"));
  assert_int_equal(gconv_network_write("again.safetensors", &n), GCONV_OK);
  gconv_network again = good("again.safetensors");
  assert_string_equal(again.others, n.others);
  gconv_network_free(&again);
  gconv_network_free(&n);
  gconv_bank bank = bank_good("net.safetensors:l0", NULL); /* a layer is a bank, too */
  assert_shape(&bank, 2, 1, 2, 2);
  gconv_bank_free(&bank);
}

/* Geometry that is the bank's becomes the layer's. */
static void takes_the_geometry_of_a_bank(void **state) {
  (void)state;
  gconv_bank bank = banks[2];
  bank.has_geometry = true;
  bank.stride_y = 3, bank.stride_x = 2, bank.dilation_y = 2, bank.dilation_x = 1, bank.groups = 1;
  bank.same_lower = true;
  gconv_layer layer = {.bank = &bank, .stride_x = 1};
  gconv_network one = {.layers = &layer, .banks = &bank, .count = 1, .channels = 2, .height = 5, .width = 7};
  assert_int_equal(gconv_network_write("one.safetensors", &one), GCONV_OK);
  gconv_network n = good("one.safetensors");
  assert_int_equal(n.layers[0].padding, GCONV_LAYER_SAME_LOWER);
  assert_int_equal(n.layers[0].stride_y * 10 + n.layers[0].stride_x, 31);
  assert_int_equal(n.layers[0].dilation_y, 2);
  assert_int_equal(n.height * 10 + n.width, 57);
  gconv_network_free(&n);
}

static void keeps_extras(void **state) {
  (void)state;
  double moments[] = {1, 1.0 / 3, -0.0};
  uint64_t step = UINT64_MAX;
  float small[] = {0.1F};
  gconv_named_array tensors[] = {
      {(char *)"optimizer.small", GCONV_NAMED_F32, 1, {1}, small},
      {(char *)"optimizer.moments", GCONV_NAMED_F64, 2, {3, 1}, moments},
      {(char *)"optimizer.step", GCONV_NAMED_U64, 0, {0}, &step},
      {(char *)"optimizer.none", GCONV_NAMED_F64, 2, {0, 4}, moments},
  };
  gconv_network_extras extras = {tensors, 4, (char *)"{\"epoch\": 7}"}, back = {0};
  gconv_network n = {0};
  assert_int_equal(gconv_network_file_write("check.safetensors", &whole, &extras), GCONV_OK);
  assert_int_equal(gconv_network_file_read("check.safetensors", &n, &back), GCONV_OK);
  assert_int_equal(back.count, 4);
  assert_string_equal(back.json, extras.json);
  const gconv_named_array *found = gconv_network_extras_find(&back, "optimizer.moments");
  assert_memory_equal(found->data, moments, sizeof moments);
  assert_int_equal(found->shape[0], 3);
  assert_memory_equal(gconv_network_extras_find(&back, "optimizer.step")->data, &step, sizeof step);
  assert_memory_equal(gconv_network_extras_find(&back, "optimizer.small")->data, small, sizeof small);
  assert_int_equal(gconv_named_array_items(gconv_network_extras_find(&back, "optimizer.none")), 0);
  assert_null(gconv_network_extras_find(&back, "optimizer.other"));
  gconv_network_extras_free(&back);
  gconv_network_free(&n);
  n = good("check.safetensors"); /* a checkpoint is a network */
  assert_int_equal(gconv_network_file_write("plain.safetensors", &n, NULL), GCONV_OK);
  gconv_network_free(&n);
  assert_int_equal(gconv_network_file_read("plain.safetensors", &n, &back), GCONV_OK);
  assert_true(back.count == 0 && !back.json);
  gconv_network_free(&n);
  tensors[1].name = (char *)"moments";
  assert_int_equal(gconv_network_file_write("bad.safetensors", &whole, &extras), GCONV_BAD_ARGUMENT);
  assert_int_not_equal(access("bad.safetensors", F_OK), 0);
}

/* ---- Files that lie ---- */

/* Writes a file with the JSON of a network, in which '\'' stands for '"', and these tensors, of zeros. */
static void write_network(const char *path, const char *json, const char *tensors, size_t size) {
  char header[4096], text[2048];
  uint8_t bytes[8192] = {0};
  size_t used = 0;
  for (const char *at = json; *at; at++) {
    if (*at == '\'')
      text[used++] = '\\';
    text[used++] = *at == '\'' ? '"' : *at;
  }
  text[used] = '\0';
  int length = snprintf(header, sizeof header, "{\"__metadata__\":{\"gconv\":\"%s\"}%s}", text, tensors);
  for (int i = 0; i < 8; i++)
    bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
  memcpy(bytes + 8, header, (size_t)length);
  write_bytes(path, bytes, 8 + (size_t)length + size);
}

#define TENSOR(name, type, shape, begin, end)                                                                               \
  ",\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"
#define W0 TENSOR("l0.weight", "F32", "2,1,1,1", "0", "8")
#define HEAD "{'version':1,'input':{'channels':1},'layers':"
#define CONV "[{'kind':'conv'}]"

static const struct {
  const char *json, *tensors;
  size_t size;
  gconv_status status;
  const char *fragment;
} bads[] = {
    {"", W0, 8, GCONV_BAD_FILE, "is not valid JSON"},
    {"[1]", W0, 8, GCONV_BAD_FILE, "is no JSON object"},
    {"{'version':2}", W0, 8, GCONV_UNSUPPORTED, "a network of version 2, and this gconv"},
    {"{'version':0}", W0, 8, GCONV_BAD_FILE, "has no 'version'"},
    {"{'version':1,'layers':" CONV "}", W0, 8, GCONV_BAD_FILE, "has no 'input'"},
    {"{'version':1,'input':{'channels':0},'layers':" CONV "}", W0, 8, GCONV_BAD_FILE, "'channels' is neither"},
    {"{'version':1,'input':{'channels':1,'height':-3},'layers':" CONV "}", W0, 8, GCONV_BAD_FILE, "'height' is neither"},
    {"{'version':1,'input':{'channels':1,'height':3},'layers':" CONV "}", W0, 8, GCONV_BAD_FILE, "both are 0"},
    {HEAD "[]}", "", 0, GCONV_BAD_FILE, "no list of 'layers'"},
    {HEAD "[1]}", "", 0, GCONV_BAD_FILE, "layer 1: it is no object with a 'kind'"},
    {HEAD "[{'kind':'lstm'}]}", "", 0, GCONV_UNSUPPORTED, "layer 1: its kind is 'lstm', which this gconv"},
    {HEAD "[{'kind':'ls\\\\u001btm'}]}", "", 0, GCONV_UNSUPPORTED, "its kind is 'ls?tm'"},
    {HEAD "[{'kind':'conv','activation':'gelu'}]}", W0, 8, GCONV_UNSUPPORTED, "its activation is 'gelu'"},
    {HEAD "[{'kind':'conv','padding':'reflect'}]}", W0, 8, GCONV_UNSUPPORTED, "its padding is 'reflect'"},
    {HEAD "[{'kind':'conv','padding':[1,2]}]}", W0, 8, GCONV_BAD_FILE, "'padding' is neither"},
    {HEAD "[{'kind':'conv','stride':[1,0]}]}", W0, 8, GCONV_BAD_FILE, "'stride' is neither a whole number from 1 on"},
    {HEAD "[{'kind':'conv','stride':4294967297}]}", W0, 8, GCONV_BAD_FILE, "'stride' is neither"},
    {HEAD "[{'kind':'conv','slope':'x'}]}", W0, 8, GCONV_BAD_FILE, "'slope' is no finite"},
    {HEAD "[{'kind':'conv','slope':1e99}]}", W0, 8, GCONV_BAD_FILE, "'slope' is no finite"},
    {HEAD "[{'kind':'conv','groups':2},{'kind':'mean'}]}", W0, 8, GCONV_BAD_FILE,
     "layer 1: it gets 1 channels, but its 2 filters, in 2 groups, take 1 channels a group"},
    {HEAD "[{'kind':'conv'},{'kind':'residual'}]}", W0, 8, GCONV_BAD_FILE, "adds the 1 channels of the input to 2"},
    {HEAD CONV "}", "", 0, GCONV_BAD_FILE, "there is no tensor 'l0.weight'"},
    {HEAD CONV "}", TENSOR("l0.weight", "F32", "2,1,1", "0", "8"), 8, GCONV_BAD_FILE, "'l0.weight' has 3 dimensions"},
    {HEAD CONV "}", TENSOR("l0.weight", "I32", "2,1,1,1", "0", "8"), 8, GCONV_BAD_FILE, "is not of a floating-point type"},
    {HEAD CONV "}", W0 TENSOR("l0.bias", "F32", "1", "8", "12"), 12, GCONV_BAD_FILE,
     "'l0.bias' is not 2 floating-point numbers"},
    {HEAD CONV "}", W0 TENSOR("l1.weight", "F32", "1,2,1,1", "8", "16"), 16, GCONV_BAD_FILE,
     "tensor 'l1.weight' belongs to none of the network's 1 layers"},
    {HEAD CONV "}", W0 TENSOR("l18446744073709551616.bias", "F32", "1", "8", "12"), 12, GCONV_BAD_FILE, "belongs to none"},
    {HEAD CONV "}", W0 TENSOR("l0.scale", "F32", "2", "8", "16"), 16, GCONV_BAD_FILE, "belongs to none"},
    {HEAD CONV "}", W0 TENSOR("l00.bias", "F32", "2", "8", "16"), 16, GCONV_BAD_FILE, "belongs to none"},
    {HEAD CONV "}", W0, 7, GCONV_BAD_FILE, "was it downloaded completely?"},
    {HEAD CONV ",'mean':[0,0,0]}", W0, 8, GCONV_BAD_FILE, "3 numbers of 'mean' for 1 channels"},
    {HEAD CONV ",'std':[0]}", W0, 8, GCONV_BAD_FILE, "number 1 of 'std' is not finite and above 0"},
    {HEAD CONV ",'mean':['a']}", W0, 8, GCONV_BAD_FILE, "number 1 of its 'mean'"},
    {HEAD CONV ",'classes':['a','b','c']}", W0, 8, GCONV_BAD_FILE, "3 classes, but the last layer has 2 outputs"},
    {HEAD CONV ",'classes':[1,2]}", W0, 8, GCONV_BAD_FILE, "number 1 of its 'classes' is no text"},
    {HEAD CONV ",'loss':'huber'}", W0, 8, GCONV_UNSUPPORTED, "its loss is 'huber'"},
    {HEAD CONV ",'seed':-1}", W0, 8, GCONV_BAD_FILE, "'seed' is no whole number"},
    {HEAD CONV ",'trained':3}", W0, 8, GCONV_BAD_FILE, "'trained' is no object"},
    {HEAD CONV ",'seed':1,'seed':2}", W0, 8, GCONV_BAD_FILE, "duplicate object key"},
};

static void refuses_files_that_lie(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(bads); i++) {
    gconv_network network = {0};
    write_network("bad.safetensors", bads[i].json, bads[i].tensors, bads[i].size);
    gconv_status status = gconv_network_read("bad.safetensors", &network);
    if (status != bads[i].status || !strstr(gconv_last_error(), bads[i].fragment))
      fail_msg("%s: status %d, \"%s\"; expected \"%s\"", bads[i].json, status, status ? gconv_last_error() : "",
               bads[i].fragment);
    assert_null(network.layers);
  }
  write_network("good.safetensors", HEAD CONV "}", W0 TENSOR("momentum", "I8", "3", "8", "11"), 11);
  gconv_network network = good("good.safetensors"); /* other tensors are passed over */
  gconv_network_free(&network);
  write_network("many.safetensors", HEAD "[]}", "", 0);
  assert_false(gconv_network_is_one("nothing.safetensors"));
  assert_false(gconv_network_is_one("."));
  assert_false(gconv_network_is_one(NULL));
  write_bytes("text.txt", "1 2 3\n", 6);
  assert_false(gconv_network_is_one("text.txt"));
}

static void refuses_what_cannot_be_written(void **state) {
  (void)state;
  gconv_network n = whole;
  n.trained = (char *)"3";
  assert_int_equal(gconv_network_write("no.safetensors", &n), GCONV_BAD_ARGUMENT);
  n = whole, n.count = 0;
  assert_int_equal(gconv_network_write("no.safetensors", &n), GCONV_BAD_ARGUMENT);
  n = whole, n.channels = 2;
  assert_int_equal(gconv_network_write("no.safetensors", &n), GCONV_BAD_ARGUMENT);
  n = whole, n.class_count = 1;
  assert_int_equal(gconv_network_write("no.safetensors", &n), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_network_write(NULL, &whole), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_network_read("net.safetensors", NULL), GCONV_BAD_ARGUMENT);
  float bad[] = {NAN, 1, 1, 1};
  gconv_bank bank = banks[2];
  bank.weights = bad;
  gconv_layer layer = {.bank = &bank};
  n = (gconv_network){.layers = &layer, .banks = &bank, .count = 1, .channels = 2};
  assert_int_equal(gconv_network_write("no.safetensors", &n), GCONV_BAD_ARGUMENT);
  assert_int_not_equal(access("no.safetensors", F_OK), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comes_back),
      cmocka_unit_test(takes_the_geometry_of_a_bank),
      cmocka_unit_test(keeps_extras),
      cmocka_unit_test(refuses_files_that_lie),
      cmocka_unit_test(refuses_what_cannot_be_written),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
