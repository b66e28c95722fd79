/* SPDX-License-Identifier: MIT */
/* Networks from texts: what is made of them, and where errors point. */
#include "bank/network_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The layers in short: "conv 16x1x3x3 same s2 relu; mean". */
static void describe(const gconv_network *network, char *text, size_t size) {
  static const char *const activations[] = {"none", "relu", "leaky", "sigmoid", "tanh", "softmax"};
  size_t at = 0;
  for (size_t i = 0; i < network->count; i++) {
    const gconv_layer *l = &network->layers[i];
    at += (size_t)snprintf(text + at, size - at, "%s", i ? "; " : "");
    if (l->kind != GCONV_LAYER_CONV) {
      at += (size_t)snprintf(text + at, size - at, "%s", l->kind == GCONV_LAYER_MEAN ? "mean" : "residual");
      continue;
    }
    at += (size_t)snprintf(text + at, size - at, "%dx%dx%dx%d %s s%d d%d g%d %s=%g", l->bank->filters, l->bank->channels,
                           l->bank->rows, l->bank->columns,
                           l->padding == GCONV_LAYER_VALID  ? "valid"
                           : l->padding == GCONV_LAYER_SAME ? "same"
                                                            : "-",
                           l->stride_y, l->dilation_y, l->groups, activations[l->activation], (double)l->slope);
  }
}

static void texts_make_layers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int32_t channels, height, width;
    const char *layers;
  } cases[] = {
      {"dense 63 tanh, dense 26 softmax", 16, 1, 1, "63x16x1x1 - s0 d0 g0 tanh=0; 26x63x1x1 - s0 d0 g0 softmax=0"},
      {"dense 2", 3, 4, 5, "2x3x4x5 valid s0 d0 g0 none=0"},
      {"dense 2 leaky:0.25, dense 1 tanh", 3, 1, 1, "2x3x1x1 - s0 d0 g0 leaky=0.25; 1x2x1x1 - s0 d0 g0 tanh=0"},
      {" conv 4 5x3/2 relu ,dense 2 sigmoid=0.5", 1, 9, 8,
       "4x1x5x3 same s2 d1 g1 relu=0; 2x4x5x4 valid s0 d0 g0 sigmoid=0.5"},
      {"conv 4 3x3 valid groups:2 dilation 3 leaky, mean, dense 3", 2, 0, 0,
       "4x1x3x3 valid s1 d3 g2 leaky=0.01; mean; 3x4x1x1 - s0 d0 g0 none=0"},
      {"2*(conv 2 3x3 tanh, 2 (conv 1 1x1)), residual", 1, 0, 0,
       "2x1x3x3 same s1 d1 g1 tanh=0; 1x2x1x1 same s1 d1 g1 none=0; 1x1x1x1 same s1 d1 g1 none=0; "
       "2x1x3x3 same s1 d1 g1 tanh=0; 1x2x1x1 same s1 d1 g1 none=0; 1x1x1x1 same s1 d1 g1 none=0; residual"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_network network = {0};
    char layers[1024];
    if (gconv_network_make(cases[i].text, (const int32_t[]){cases[i].channels, cases[i].height, cases[i].width}, 0, 7,
                           &network) != GCONV_OK)
      fail_msg("%s: %s", cases[i].text, gconv_last_error());
    describe(&network, layers, sizeof layers);
    assert_string_equal(layers, cases[i].layers);
    assert_int_equal(gconv_network_check("it", GCONV_BAD_ARGUMENT, &network), GCONV_OK);
    gconv_network_free(&network);
  }
}

static void errors_point_at_the_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *error;
    int32_t size; /* height and width of 3 channels */
    size_t outputs;
  } cases[] = {
      {"", "empty", 4, 0},
      {"dense", "at its end: the number of outputs", 4, 0},
      {"dense 0", "at \"0\" (character 7)", 4, 0},
      {"dense 3 tanh, cnov 3 3x3", "at \"cnov\" (character 15)", 4, 0},
      {"dens 3", "did you mean dense?", 4, 0},
      {"dense 3 tnah", "did you mean tanh?", 4, 0},
      {"dense 3 valid", "at \"valid\" (character 9)", 4, 0},
      {"dense 3 tanh relu", "at \"relu\" (character 14): this layer already has", 4, 0},
      {"dense 3 tanh=2", "only leaky and sigmoid", 4, 0},
      {"dense 3 tanh, dense 1 softmax", "at \"dense 1 softmax\" (character 15): softmax of one output is 1", 4, 0},
      {"dense 3 leaky=-1", "above 0", 4, 0},
      {"dense 3 leaky=nan", "above 0", 4, 0},
      {"conv 3", "at its end: the size", 4, 0},
      {"conv 3 3", "at \"3\" (character 8)", 4, 0},
      {"conv 3 3x3/0", "at \"3x3/0\"", 4, 0},
      {"conv 3 0x3", "at \"0x3\"", 4, 0},
      {"conv 3 99999x99999", "32768", 4, 0},
      {"conv 3 3x3/9999999", "a stride is at most", 4, 0},
      {"conv 3 3x3 dilation 9999999", "spans at most", 4, 0},
      {"conv 4 3x3 valid:2", "after the sizes of conv", 12, 0},
      {"conv 4 3x3 groups:2", "2 groups do not divide 3 channels and 4 filters", 4, 0},
      {"conv 4 5x5 valid", "does not lie inside an input of 4", 4, 0},
      {"conv 4 3x3, dense 2", "at \"dense 2\" (character 13): a dense layer sees the whole input", 0, 0},
      {"dense 2 softmax", "the size of the input is not known", 0, 0},
      {"conv 4 3x3/2, conv 3 1x1, residual", "shapes must be equal", 0, 0},
      {"conv 4 3x3, residual", "adds the input of 3 x 4 x 4 (channels, height, width) to 4 x 4 x 4", 4, 0},
      {"dense 3 softmax", "the last layer has 3 outputs, but the data ask for 5", 4, 5},
      {"conv 3 3x3", "has 3 x 4 x 4 = 48 outputs, but the data ask for 5", 4, 5},
      {"mean", "no layer with weights", 4, 0},
      {"dense 3 dense 4", "at \"dense\" (character 9)", 4, 0},
      {"dense 3,", "at its end: a layer is", 4, 0},
      {"4*(dense 3", "at \"(\" (character 3): this parenthesis is not closed", 4, 0},
      {"4*dense 3", "at \"dense\" (character 3): after a number", 4, 0},
      {"dense 3)", "at \")\" (character 8)", 4, 0},
      {"9999*(dense 3)", "at most 4096 layers", 4, 0},
      {"((((((((((((((((((dense 3))))))))))))))))))", "more than 16 parentheses", 4, 0},
      {"2147483647*(2147483647*(dense 1))", "at most 4096 layers", 4, 0},
      {"dense 2000000000, dense 2000000000", "more than 268435456 weights", 4, 0},
      {"conv 4 3x3 as 1", "at \"1\" (character 15): a name", 4, 0},
      {"conv 4 3x3 as a, concat b", "at \"b\" (character 25): no layer before this one", 4, 0},
      {"conv 4 3x3 as a, maxpool 2x2, concat a", "concat puts an output of 4 x 4 (height, width) to one of 2 x 2", 4, 0},
      {"conv 4 3x3 as a, conv 3 1x1, add a", "add adds 4 channels to 3", 4, 0},
      {"conv 4 3x3, maxpool 5x5", "windows of 5 x 5 (rows, columns) do not lie inside", 4, 0},
      {"conv 6 3x3, shuffle 2", "shuffle 2 makes one channel of 4, and gets 6", 4, 0},
      {"conv 4 3x3, shuffle 4000000000", "the factor by which shuffle enlarges", 4, 0},
      {"conv 4 3x3, maxpool", "at its end: the size", 4, 0},
      {"upconv 4 2x2/2 valid", "after the sizes of upconv comes an activation", 4, 0},
      {"conv 4 3x3, prleu", "did you mean prelu?", 4, 0},
      {"dense \033]2;hello\007", "at \"?]2;hello?\"", 4, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_network network = {0};
    gconv_status status =
        gconv_network_make(cases[i].text, (const int32_t[]){3, cases[i].size, cases[i].size}, cases[i].outputs, 1, &network);
    if (status == GCONV_OK || !strstr(gconv_last_error(), cases[i].error))
      fail_msg("%s: %s, not: %s", cases[i].text, status == GCONV_OK ? "is taken" : gconv_last_error(), cases[i].error);
    assert_null(network.layers);
  }
}

static void weights_are_random_within_bounds(void **state) {
  (void)state;
  gconv_network network = {0}, other = {0};
  assert_int_equal(gconv_network_make("dense 50 tanh, conv 40 1x1 leaky=0.5, dense 30 relu", (const int32_t[]){20, 1, 1}, 30,
                                      3, &network),
                   0);
  const double bounds[] = {sqrt(6. / (20 + 50)), sqrt(6 / (50 * 1.25)), sqrt(6. / 40)};
  for (size_t i = 0; i < 3; i++) {
    const gconv_bank *bank = &network.banks[i];
    size_t count = (size_t)bank->filters * (size_t)bank->channels;
    double largest = 0, sum = 0, squares = 0;
    for (size_t j = 0; j < count; j++) {
      double w = (double)bank->weights[j];
      largest = fmax(largest, fabs(w));
      sum += w;
      squares += w * w;
    }
    assert_true(largest <= bounds[i] && largest > 0.98 * bounds[i]);
    assert_true(fabs(sum / (double)count) < 0.1 * bounds[i]);
    assert_true(fabs(squares / (double)count - bounds[i] * bounds[i] / 3) < 0.03 * bounds[i] * bounds[i]);
    for (int32_t k = 0; k < bank->filters; k++)
      assert_true(bank->biases[k] == 0);
  }
  assert_int_equal(gconv_network_make("dense 50 tanh", (const int32_t[]){20, 1, 1}, 0, 3, &other), 0);
  assert_memory_equal(network.banks[0].weights, other.banks[0].weights, 1000 * sizeof(float));
  gconv_network_free(&other);
  assert_int_equal(gconv_network_make("dense 50 tanh", (const int32_t[]){20, 1, 1}, 0, 4, &other), 0);
  assert_memory_not_equal(network.banks[0].weights, other.banks[0].weights, 1000 * sizeof(float));
  gconv_network_free(&other);
  gconv_network_free(&network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_make_layers),
      cmocka_unit_test(errors_point_at_the_text),
      cmocka_unit_test(weights_are_random_within_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
