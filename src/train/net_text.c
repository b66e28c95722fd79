/* SPDX-License-Identifier: MIT */
/* The text of networks, "4*(conv 16 3x3 relu), conv 1 3x3, residual" (docs/learning.md). It is read into a list of specs,
 * one a layer. Once the sizes of inputs are known, the specs become layers with random weights. */
#include "train/net_text.h"
#include "bank/kind.h"
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/lists.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "data/random.h"
#include "filter/number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_NESTED = 16,          /* parentheses within each other */
  MOST_PARAMETERS = 1 << 28, /* weights and biases of a network: 1 GiB */
  LARGEST_EXTENT = 1 << 20   /* the largest span of a filter, and the largest stride */
};

static const char *const option_names[] = {"valid", "same", "dilation", "groups"};
enum { OPTIONS = 4 };

/* The words that begin a layer: "dense" is a convolution of the whole input, and all others are kinds of layers. */
#define ROW(name, value) #name,
static const char *const words[] = {"dense", GCONV_EACH_LAYER_KIND(ROW)};
#undef ROW
enum { WORDS = 1 + GCONV_EACH_LAYER_KIND(GCONV_COUNTED) };

/* A name in the text; of length 0: there is none. */
typedef struct name_of {
  const char *begin;
  size_t length;
} name_of;

/* A layer of the text. */
typedef struct spec {
  gconv_layer_kind kind;
  bool dense;
  const char *begin, *end; /* in the text */
  name_of own, other;      /* what "as" calls its output; the earlier output that it takes */
  int32_t filters, rows, columns, stride, dilation, groups;
  bool valid;
  gconv_activation activation;
  float slope;
} spec;

typedef struct reader {
  const char *text, *at;
  int nested;
  spec *specs; /* owned */
  size_t count;
  size_t most; /* parameters */
} reader;

/* ---- Errors ---- */

/* Fails with a text that quotes begin .. end, and says where in the text it is. */
static gconv_status fail_at(const reader *r, gconv_status status, const char *begin, const char *end, const char *format,
                            ...) GCONV_PRINTF(5, 6);
static gconv_status fail_at(const reader *r, gconv_status status, const char *begin, const char *end, const char *format,
                            ...) {
  enum { SHOWN = 40 };
  char reason[512], quote[SHOWN + 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  size_t length = (size_t)(end - begin), shown = length < SHOWN ? length : SHOWN;
  memcpy(quote, begin, shown);
  quote[shown] = '\0';
  gconv_make_printable(quote);
  gconv_make_printable(reason);
  if (length == 0)
    return gconv_fail(status, "the network's text, at its end: %s", reason);
  return gconv_fail(status, "the network's text, at \"%s\"%s (character %zu): %s", quote, shown < length ? "..." : "",
                    (size_t)(begin - r->text) + 1, reason);
}

/* ---- Words ---- */

static void skip_spaces(reader *r) {
  while (isspace((unsigned char)*r->at))
    r->at++;
}

/* Returns the end of the word at r->at: of letters, digits and signs up to a space, comma, parenthesis or '*'. */
static const char *end_of_word(const reader *r) {
  const char *end = r->at;
  while (*end && !isspace((unsigned char)*end) && !strchr(",()*", *end))
    end++;
  return end;
}

/* Returns the end of what an error quotes: the word, or one character if there is no word. */
static const char *end_of_sign(const reader *r) {
  const char *end = end_of_word(r);
  return end > r->at || !*end ? end : end + 1;
}

static bool is_word(const char *begin, const char *end, const char *word) {
  size_t length = (size_t)(end - begin);
  return strlen(word) == length && strncmp(begin, word, length) == 0;
}

/* Returns the number of the word begin .. end among the names, or -1. */
static int find_word(const char *begin, const char *end, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (is_word(begin, end, names[i]))
      return i;
  return -1;
}

/* Compares the word begin .. end with the names. *best becomes the most similar name. */
static void suggest(const char *begin, const char *end, const char *const *names, int count, gconv_suggestion *best) {
  char word[64];
  size_t length = (size_t)(end - begin);
  if (length >= sizeof word)
    return;
  memcpy(word, begin, length);
  word[length] = '\0';
  for (int i = 0; i < count; i++)
    gconv_suggest(best, word, names[i]);
}

/* Reads the next word, a whole number from 1 on. */
static gconv_status read_count(reader *r, const char *what, int32_t *count) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!gconv_count_read(r->at, end, count) || *count < 1)
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "here is %s, a whole number from 1 on", what);
  r->at = end;
  return GCONV_OK;
}

/* ---- Layers ---- */

/* Reads "5x5" or "5x5/2". */
static gconv_status read_size(reader *r, spec *s) {
  skip_spaces(r);
  const char *end = end_of_word(r), *x = memchr(r->at, 'x', (size_t)(end - r->at));
  const char *slash = memchr(r->at, '/', (size_t)(end - r->at)), *end_columns = slash ? slash : end;
  bool good = x && x < end_columns && gconv_count_read(r->at, x, &s->rows) &&
              gconv_count_read(x + 1, end_columns, &s->columns) && s->rows > 0 && s->columns > 0;
  if (good && slash)
    good = gconv_count_read(slash + 1, end, &s->stride) && s->stride > 0;
  if (!good)
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
                   "here is the size of the filters, rows x columns, with /stride after it if that is not 1: 3x3 or 5x5/2");
  if (s->stride > LARGEST_EXTENT)
    return fail_at(r, GCONV_TOO_LARGE, r->at, end, "a stride is at most %d", LARGEST_EXTENT);
  GCONV_TRY(gconv_filter_check_size("the network's text", s->rows, s->columns));
  r->at = end;
  return GCONV_OK;
}

/* Reads the word begin .. end if it is an activation, such as "leaky=0.1". */
static gconv_status read_activation(const reader *r, const char *begin, const char *end, spec *s, bool *is_one) {
  const char *equals = NULL;
  *is_one = gconv_activation_find(begin, end, &s->activation, &equals);
  if (!*is_one)
    return GCONV_OK;
  double slope = s->activation == GCONV_ACTIVATION_LEAKY ? 0.01 : s->activation == GCONV_ACTIVATION_SIGMOID ? 1 : 0;
  if (equals && !gconv_activation_has_slope(s->activation))
    return fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "only leaky and sigmoid have a slope");
  if (equals && (gconv_number_read(equals + 1, end, &slope) || !((float)slope > 0)))
    return fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "the slope is a number above 0, as in leaky=0.1");
  s->slope = (float)slope;
  return GCONV_OK;
}

static gconv_status read_option(reader *r, int option, spec *s) {
  switch (option) {
  case 0:
  case 1:
    s->valid = option == 0;
    return GCONV_OK;
  case 2:
    return read_count(r, "the dilation", &s->dilation);
  default:
    return read_count(r, "the number of groups", &s->groups);
  }
}

static bool is_name(const char *begin, const char *end) {
  bool good = begin < end && (isalpha((unsigned char)*begin) || *begin == '_');
  for (const char *c = begin; c < end; c++)
    good = good && (isalnum((unsigned char)*c) || *c == '_');
  return good;
}

/* Reads the name of an output. */
static gconv_status read_name(reader *r, name_of *name) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!is_name(r->at, end))
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
                   "here is a name for the output of a layer, of letters, digits and _, such as: conv 16 3x3 relu as a");
  *name = (name_of){r->at, (size_t)(end - r->at)};
  r->at = end;
  return GCONV_OK;
}

/* Reads "as NAME" at the end of a layer, if it is there. */
static gconv_status read_as(reader *r, spec *s) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!is_word(r->at, end, "as"))
    return GCONV_OK;
  r->at = end;
  return read_name(r, &s->own);
}

/* Reads what stands behind the name of a layer, but words. */
static gconv_status read_arguments(reader *r, spec *s, unsigned text) {
  if (text & GCONV_TEXT_FILTERS)
    GCONV_TRY(read_count(r, s->dense ? "the number of outputs of a dense layer" : "the number of filters of a convolution",
                         &s->filters));
  if ((text & GCONV_TEXT_SIZE) && !s->dense)
    GCONV_TRY(read_size(r, s));
  if (text & GCONV_TEXT_WINDOW) {
    s->stride = 0;
    GCONV_TRY(read_size(r, s));
  }
  if (text & GCONV_TEXT_FACTOR) {
    GCONV_TRY(read_count(r, "by how much shuffle enlarges", &s->rows));
    s->columns = s->rows;
  }
  if (text & GCONV_TEXT_NAME) {
    skip_spaces(r);
    if (*r->at && *r->at != ',' && *r->at != ')' && !is_word(r->at, end_of_word(r), "as"))
      GCONV_TRY(read_name(r, &s->other));
  }
  return GCONV_OK;
}

/* Reads the words after the sizes, in any order, each once, up to "as". */
static gconv_status read_words(reader *r, spec *s, unsigned text) {
  const bool geometry = (text & GCONV_TEXT_GEOMETRY) && !s->dense;
  bool seen[2 + OPTIONS] = {false}; /* the activation, the padding, dilation, groups */
  for (skip_spaces(r); *r->at && *r->at != ',' && *r->at != ')'; skip_spaces(r)) {
    const char *begin = r->at, *end = end_of_word(r);
    bool activation = false;
    if (is_word(begin, end, "as"))
      return GCONV_OK;
    GCONV_TRY(read_activation(r, begin, end, s, &activation));
    const char *sign = begin + strcspn(begin, ":="), *end_name = sign < end ? sign : end;
    int option = !geometry ? -1 : find_word(begin, end_name, option_names, OPTIONS);
    if (option >= 0 && end_name < end && option < 2) /* same and valid take no number */
      option = -1;
    if (!activation && option < 0) {
      gconv_suggestion best = {0};
      suggest(begin, end, gconv_activation_words, GCONV_ACTIVATIONS, &best);
      if (geometry)
        suggest(begin, end, option_names, OPTIONS, &best);
      return fail_at(r, GCONV_BAD_ARGUMENT, begin, end_of_sign(r),
                     "after the sizes of %s comes an activation (none, relu, leaky=SLOPE, sigmoid=SLOPE, tanh, softmax)%s, "
                     "or a comma%s%s%s",
                     s->dense ? "dense" : gconv_layer_kind_name(s->kind),
                     geometry ? ", valid, same, dilation:D, groups:G" : "", best.name[0] ? ": did you mean " : "", best.name,
                     best.name[0] ? "?" : "");
    }
    int number = activation ? 0 : option < 2 ? 1 : option;
    if (seen[number])
      return fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "this layer has had such a word already");
    seen[number] = true;
    r->at = option >= 0 && end_name < end ? end_name + 1 : end;
    if (option >= 0)
      GCONV_TRY(read_option(r, option, s));
  }
  return GCONV_OK;
}

static gconv_status add_spec(reader *r, const spec *s) {
  if (r->count == GCONV_NETWORK_MAX_LAYERS)
    return fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "a network has at most %d layers", GCONV_NETWORK_MAX_LAYERS);
  spec *specs = gconv_grown(r->specs, r->count, sizeof *specs);
  GCONV_NEED_MEMORY(specs, "no memory for a network");
  r->specs = specs;
  r->specs[r->count++] = *s;
  return GCONV_OK;
}

/* Writes what layers there are: "dense K, conv K RxS, mean, ... or prelu". */
static const char *list_layers(char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "dense K");
  for (int i = 0; i + 1 < WORDS && used < size; i++) {
    const unsigned takes = gconv_layer_form_of((gconv_layer_kind)i)->text;
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s%s%s%s%s", i + 2 < WORDS ? ", " : " or ", words[i + 1],
                         takes & GCONV_TEXT_FILTERS ? " K" : "", takes & (GCONV_TEXT_SIZE | GCONV_TEXT_WINDOW) ? " RxS" : "",
                         takes & GCONV_TEXT_FACTOR ? " N" : "", takes & GCONV_TEXT_NAME ? " NAME" : "");
  }
  return text;
}

static gconv_status read_layer(reader *r) {
  spec s = {.begin = r->at, .rows = 1, .columns = 1, .stride = 1, .dilation = 1, .groups = 1};
  const char *end = end_of_word(r);
  int word = find_word(r->at, end, words, WORDS);
  if (word < 0) {
    char names[300];
    gconv_suggestion best = {0};
    suggest(r->at, end, words, WORDS, &best);
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "a layer is %s%s%s%s", list_layers(names, sizeof names),
                   best.name[0] ? ": did you mean " : "", best.name, best.name[0] ? "?" : "");
  }
  s.dense = word == 0;
  s.kind = s.dense ? GCONV_LAYER_CONV : (gconv_layer_kind)(word - 1);
  r->at = end;
  const unsigned text = gconv_layer_form_of(s.kind)->text;
  GCONV_TRY(read_arguments(r, &s, text));
  if (text & GCONV_TEXT_ACTIVATION)
    GCONV_TRY(read_words(r, &s, text));
  GCONV_TRY(read_as(r, &s));
  s.end = r->at;
  while (s.end > s.begin && isspace((unsigned char)s.end[-1]))
    s.end--;
  if (s.activation == GCONV_ACTIVATION_SOFTMAX && s.filters == 1)
    return fail_at(r, GCONV_BAD_ARGUMENT, s.begin, s.end,
                   "softmax of one output is 1, whatever the input: for one output take sigmoid, for two classes 2 softmax");
  return add_spec(r, &s);
}

static gconv_status read_list(reader *r);

/* Reads "4*( ... )", or "( ... )", and repeats the specs in the parentheses. */
static gconv_status read_repeat(reader *r, int32_t times) {
  const char *open = r->at++;
  if (++r->nested > MOST_NESTED)
    return fail_at(r, GCONV_TOO_LARGE, open, open + 1, "more than %d parentheses within each other", MOST_NESTED);
  size_t first = r->count;
  GCONV_TRY(read_list(r));
  if (*r->at != ')')
    return fail_at(r, GCONV_BAD_ARGUMENT, open, open + 1, "this parenthesis is not closed");
  r->at++;
  r->nested--;
  size_t count = r->count - first;
  for (int32_t i = 1; i < times; i++)
    for (size_t j = 0; j < count; j++) {
      spec copy = r->specs[first + j];
      GCONV_TRY(add_spec(r, &copy));
    }
  return GCONV_OK;
}

static gconv_status read_item(reader *r) {
  skip_spaces(r);
  if (*r->at == '(')
    return read_repeat(r, 1);
  if (!isdigit((unsigned char)*r->at))
    return read_layer(r);
  int32_t times = 1;
  GCONV_TRY(read_count(r, "how often layers are repeated", &times));
  skip_spaces(r);
  if (*r->at == '*')
    r->at++;
  skip_spaces(r);
  if (*r->at != '(')
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
                   "after a number come the layers that are repeated, in parentheses: 4*(conv 16 3x3 relu)");
  return read_repeat(r, times);
}

/* Reads items up to the end of the text, or a ')'. */
static gconv_status read_list(reader *r) {
  for (;;) {
    GCONV_TRY(read_item(r));
    skip_spaces(r);
    if (*r->at != ',')
      return GCONV_OK;
    r->at++;
  }
}

static gconv_status read_text(reader *r) {
  skip_spaces(r);
  if (!*r->at)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network's text is empty: write layers with commas between them, such as "
                                          "\"dense 63 tanh, dense 26 softmax\"");
  GCONV_TRY(read_list(r));
  if (*r->at)
    return fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "layers stand with commas between them");
  return GCONV_OK;
}

/* ---- From specs to layers ---- */

static const char BY_SIZE[] = "the size of the input is not known: put \"mean\" before it, or give images of one size "
                              "(--patch)";

static gconv_status shape_dense(const reader *r, const spec *s, const gconv_layer_shape *in, gconv_layer *layer,
                                gconv_bank *bank, gconv_layer_shape *out) {
  if (in->height == 0)
    return fail_at(r, GCONV_BAD_ARGUMENT, s->begin, s->end, "a dense layer sees the whole input, but %s", BY_SIZE);
  GCONV_TRY(gconv_filter_check_size("a dense layer after an image", in->height, in->width));
  *bank = (gconv_bank){.filters = s->filters, .channels = in->channels, .rows = in->height, .columns = in->width};
  if (in->height > 1 || in->width > 1)
    layer->padding = GCONV_LAYER_VALID;
  *out = (gconv_layer_shape){s->filters, 1, 1, false};
  return GCONV_OK;
}

/* Finds the number of outputs along an axis of `size`; 0 if the size is not known. */
static gconv_status shape_axis(const reader *r, const spec *s, int32_t size, int32_t taps, int32_t *outputs) {
  int64_t extent = (int64_t)(taps - 1) * s->dilation + 1;
  if (extent > LARGEST_EXTENT)
    return fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "a filter spans at most %d pixels", LARGEST_EXTENT);
  *outputs = 0;
  if (size == 0)
    return GCONV_OK;
  if (s->valid && extent > size)
    return fail_at(r, GCONV_BAD_ARGUMENT, s->begin, s->end,
                   "a filter that spans %lld does not lie inside an input of %d: take \"same\" for \"valid\", or fewer such "
                   "layers",
                   (long long)extent, size);
  *outputs = (int32_t)((size - (s->valid ? extent : 1)) / s->stride + 1);
  return GCONV_OK;
}

static gconv_status shape_conv(const reader *r, const spec *s, const gconv_layer_shape *in, gconv_layer *layer,
                               gconv_bank *bank, gconv_layer_shape *out) {
  if (in->channels % s->groups != 0 || s->filters % s->groups != 0)
    return fail_at(r, GCONV_BAD_ARGUMENT, s->begin, s->end, "%d groups do not divide %d channels and %d filters", s->groups,
                   in->channels, s->filters);
  *bank = (gconv_bank){.filters = s->filters, .channels = in->channels / s->groups, .rows = s->rows, .columns = s->columns};
  layer->padding = s->valid ? GCONV_LAYER_VALID : GCONV_LAYER_SAME;
  layer->stride_y = layer->stride_x = s->stride;
  layer->dilation_y = layer->dilation_x = s->dilation;
  layer->groups = s->groups;
  *out = (gconv_layer_shape){.channels = s->filters};
  GCONV_TRY(shape_axis(r, s, in->height, s->rows, &out->height));
  GCONV_TRY(shape_axis(r, s, in->width, s->columns, &out->width));
  out->moved = in->height == 0 && (in->moved || s->stride > 1 || (s->valid && (s->rows > 1 || s->columns > 1)));
  return GCONV_OK;
}

/* Returns the bound of random weights: He's before relu and leaky, else Glorot's. */
static double bound_of(const spec *s, const gconv_bank *bank) {
  double plane = s->dense ? 1 : (double)bank->rows * bank->columns;
  double in = (double)bank->channels * bank->rows * bank->columns, out = (double)bank->filters / s->groups * plane;
  if (s->kind == GCONV_LAYER_UPCONV) /* an output gets only every N-th row and column of taps */
    in /= (double)s->stride * s->stride;
  if (s->activation == GCONV_ACTIVATION_RELU || s->activation == GCONV_ACTIVATION_LEAKY)
    return sqrt(6 / in / (1 + (double)s->slope * (double)s->slope));
  return sqrt(6 / (in + out));
}

static gconv_status fill_bank(const spec *s, uint64_t seed, size_t number, gconv_bank *bank) {
  size_t factors[] = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns};
  size_t count = gconv_checked_product(4, factors);
  bank->name = gconv_format_text("l%zu.weight", number);
  bank->weights = malloc(count * sizeof *bank->weights);
  const bool has_biases = gconv_layer_form_of(s->kind)->has_biases;
  if (has_biases)
    bank->biases = calloc((size_t)bank->filters, sizeof *bank->biases);
  GCONV_NEED_MEMORY(bank->name && bank->weights && (bank->biases || !has_biases),
                    "no memory for the %zu weights of layer %zu", count, number + 1);
  double bound = bound_of(s, bank);
  for (size_t i = 0; i < count; i++)
    bank->weights[i] = s->kind == GCONV_LAYER_PRELU ? 0.25F /* as He et al. 2015 begin */
                       : s->kind == GCONV_LAYER_BATCHNORM
                           ? (float)(i % 3 != 1) /* scale 1, mean 0, variance 1 */
                           : (float)((2 * gconv_random_uniform(seed, GCONV_RANDOM_WEIGHTS, number, i) - 1) * bound);
  return GCONV_OK;
}

/* Sets the fields of a layer that is no convolution, and its bank, if it has one. */
static gconv_status fill_layer(const reader *r, size_t number, const gconv_layer_shape *in, gconv_layer *layer,
                               gconv_bank *bank) {
  const spec *s = &r->specs[number];
  const unsigned text = gconv_layer_form_of(s->kind)->text;
  if (text & (GCONV_TEXT_WINDOW | GCONV_TEXT_FACTOR))
    layer->window_y = s->rows, layer->window_x = s->columns;
  if (text & GCONV_TEXT_WINDOW) { /* windows beside each other, if no stride is said */
    layer->stride_y = s->stride > 0 ? s->stride : s->rows;
    layer->stride_x = s->stride > 0 ? s->stride : s->columns;
  }
  if (text & GCONV_TEXT_SIZE)
    layer->stride_y = layer->stride_x = s->stride;
  if (gconv_layer_form_of(s->kind)->has_bank) {
    const bool filters = text & GCONV_TEXT_FILTERS;
    *bank = (gconv_bank){.filters = filters ? s->filters : in->channels,
                         .channels = filters                            ? in->channels
                                     : s->kind == GCONV_LAYER_BATCHNORM ? 3
                                                                        : 1,
                         .rows = s->rows,
                         .columns = s->columns};
    layer->bank = bank;
  }
  for (size_t i = number; s->other.length > 0 && layer->from == 0; i--) {
    if (i == 0)
      return fail_at(r, GCONV_BAD_ARGUMENT, s->other.begin, s->other.begin + s->other.length,
                     "no layer before this one has an output of this name: behind it stands \"as\" and the name");
    const name_of *own = &r->specs[i - 1].own;
    if (own->length == s->other.length && strncmp(own->begin, s->other.begin, own->length) == 0)
      layer->from = (int32_t)i;
  }
  return GCONV_OK;
}

/* Adds the layer's parameters to *parameters, and fails if they are too many. */
static gconv_status count_parameters(const reader *r, const spec *s, const gconv_bank *bank, size_t *parameters) {
  size_t factors[] = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns};
  size_t count = gconv_checked_product(4, factors),
         biases = gconv_layer_form_of(s->kind)->has_biases ? (size_t)bank->filters : 0;
  if (count > r->most || biases > r->most - count || count + biases > r->most - *parameters)
    return fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "with this layer the network has more than %zu weights", r->most);
  *parameters += count + biases;
  return GCONV_OK;
}

/* shapes: of the input of the network, and of the outputs of the layers before. */
static gconv_status make_layer(const reader *r, size_t number, gconv_network *network, gconv_layer_shape *shapes,
                               size_t *parameters) {
  const spec *s = &r->specs[number];
  gconv_layer *layer = &network->layers[number];
  gconv_bank *bank = &network->banks[number];
  gconv_layer_shape *at = &shapes[number + 1];
  layer->kind = s->kind;
  layer->activation = s->activation;
  layer->slope = s->slope;
  if (s->kind != GCONV_LAYER_CONV) {
    *at = shapes[number];
    GCONV_TRY(fill_layer(r, number, at, layer, bank));
    const gconv_status status = gconv_layer_form_of(s->kind)->follow(layer, gconv_layer_other(layer, shapes), at);
    if (status != GCONV_OK)
      return fail_at(r, status, s->begin, s->end, "%s", gconv_last_error());
    return layer->bank ? count_parameters(r, s, bank, parameters) : GCONV_OK;
  }
  GCONV_TRY((s->dense ? shape_dense : shape_conv)(r, s, &shapes[number], layer, bank, at));
  layer->bank = bank;
  return count_parameters(r, s, bank, parameters);
}

static gconv_status check_outputs(const reader *r, const gconv_layer_shape *at, size_t outputs) {
  const spec *last = &r->specs[r->count - 1];
  size_t count = (size_t)at->channels * (size_t)at->height * (size_t)at->width;
  if (outputs == 0)
    return GCONV_OK;
  if (at->height == 0 && outputs % (size_t)at->channels == 0)
    return GCONV_OK;
  if (at->height != 0 && count == outputs)
    return GCONV_OK;
  if (at->height > 1 || at->width > 1)
    return fail_at(r, GCONV_BAD_ARGUMENT, last->begin, last->end,
                   "the last layer has %d x %d x %d = %zu outputs, but the data ask for %zu", at->channels, at->height,
                   at->width, count, outputs);
  return fail_at(r, GCONV_BAD_ARGUMENT, last->begin, last->end, "the last layer has %d output%s, but the data ask for %zu",
                 at->channels, at->channels == 1 ? "" : "s", outputs);
}

/* Makes the layers. If none is refused, makes their weights. */
static gconv_status make_layers(const reader *r, size_t outputs, gconv_network *network) {
  network->layers = calloc(r->count, sizeof *network->layers);
  network->banks = calloc(r->count, sizeof *network->banks);
  GCONV_NEED_MEMORY(network->layers && network->banks, "no memory for a network");
  network->count = r->count;
  GCONV_FREED gconv_layer_shape *shapes = calloc(r->count + 1, sizeof *shapes);
  GCONV_NEED_MEMORY(shapes, "no memory for a network");
  shapes[0] = (gconv_layer_shape){network->channels, network->height, network->width, false};
  size_t parameters = 0;
  for (size_t i = 0; i < r->count; i++)
    GCONV_TRY(make_layer(r, i, network, shapes, &parameters));
  GCONV_TRY(check_outputs(r, &shapes[r->count], outputs));
  if (parameters == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network's text has no layer with weights: write at least one dense or conv");
  for (size_t i = 0; i < r->count; i++)
    if (network->layers[i].bank)
      GCONV_TRY(fill_bank(&r->specs[i], network->seed, i, &network->banks[i]));
  return GCONV_OK;
}

gconv_status gconv_network_make_within(const char *text, int32_t channels, int32_t height, int32_t width, size_t outputs,
                                       uint64_t seed, size_t most, gconv_network *network) {
  reader r = {.text = text, .at = text, .most = most};
  gconv_network made = {.channels = channels, .height = height, .width = width, .seed = seed};
  gconv_status status = read_text(&r);
  GCONV_THEN(status, make_layers(&r, outputs, &made));
  free(r.specs);
  if (status == GCONV_OK)
    *network = made;
  else
    gconv_network_free(&made);
  return status;
}

gconv_status gconv_network_make(const char *text, int32_t channels, int32_t height, int32_t width, size_t outputs,
                                uint64_t seed, gconv_network *network) {
  GCONV_NEED(text);
  GCONV_NEED(network);
  GCONV_TRY(gconv_check_value("the number of channels", channels, 1, INT32_MAX));
  GCONV_TRY(gconv_check_value("the height", height, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("the width", width, 0, INT32_MAX));
  if ((height == 0) != (width == 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "an input of height %d and width %d: both are 0, for any size, or none", height,
                      width);
  GCONV_TRY(gconv_network_check_empty("gconv_network_make", network));
  return gconv_network_make_within(text, channels, height, width, outputs, seed, MOST_PARAMETERS, network);
}
