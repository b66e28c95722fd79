/* SPDX-License-Identifier: MIT */
/* ONNX models as banks: the Conv nodes of the graph, with their weights, biases, strides, pads, dilations and groups.
 * Numbers are read only for the chosen node. */
#include "bank/onnx.h"
#include "base/memory.h"
#include "base/printable.h"

#include <string.h>

enum { X, WEIGHTS, BIASES, INPUTS }; /* the inputs of a Conv node, and their number */
enum { MOST_SHARED = 64 }; /* the most bytes of all nodes' tensors, as a multiple of the model and the files beside it */

/* Types of nodes that convolve, and for all but Conv the reason why they are not read. */
typedef struct kind {
  const char *type, *obstacle;
} kind;
static const kind kinds[] = {
    {"Conv", NULL},
    {"ConvTranspose",
     "is a transposed convolution, which makes images larger: that is no bank of filters, and gconv does not do it"},
    {"ConvInteger", "convolves integers: export the model before it is quantised, with weights in floating point"},
    {"QLinearConv", "convolves integers: export the model before it is quantised, with weights in floating point"},
    {"DeformConv", "takes its samples from places that the model computes for each pixel: gconv does not do that"},
    {"FusedConv", "was fused with the node after it: export the model before it is optimised for a runtime"},
    {"NhwcConv", "was made for one runtime: export the model before it is optimised"},
    {"NhwcFusedConv", "was made for one runtime: export the model before it is optimised"},
    {"QLinearConvTranspose", "is a transposed convolution of integers, which gconv does not do"},
    {"CausalConvWithState", "is a convolution with a state, which gconv does not do"},
};

/* ---- The nodes ---- */

typedef struct conv {
  char *name, *output, *input[INPUTS]; /* owned; each may be NULL */
  uint64_t at, end;                    /* at and end of its message in the file */
  const kind *kind;
} conv;

typedef struct state {
  gconv_onnx_model model;
  conv *convs; /* one for each entry of the file */
  size_t conv_count;
  double claimed; /* bytes of the tensors of all Conv nodes; a shared tensor counts once for each node */
} state;

const gconv_onnx_model *gconv_onnx_model_of(const gconv_bank_file *file) {
  return &((const state *)file->state)->model;
}

static gconv_status fail_memory(const gconv_bank_file *file) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a list of its nodes", file->path);
}

static void free_conv(conv *c) {
  free(c->name);
  free(c->output);
  for (int i = 0; i < INPUTS; i++)
    free(c->input[i]);
}

/* Returns the kind of a type of nodes; NULL if it is not in the table. */
static const kind *find_kind(const char *type) {
  for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].type, type) == 0)
      return &kinds[i];
  return NULL;
}

static bool copy_text(const char *from, char **to) {
  *to = from ? strdup(from) : NULL;
  return !from || *to;
}

/* Keeps the nodes that convolve. */
static gconv_status take_node(void *context, const gconv_onnx_node *n) {
  state *s = context;
  const kind *found = find_kind(n->type);
  if (!found || (!found->obstacle && !gconv_onnx_is_standard(n)))
    return GCONV_OK;
  conv *c = gconv_grown(s->convs, s->conv_count, sizeof *c);
  if (!c)
    return fail_memory(n->file);
  s->convs = c;
  c += s->conv_count++;
  *c = (conv){.kind = found, .at = n->at, .end = n->end};
  bool good = copy_text(n->name, &c->name) && copy_text(gconv_onnx_output(n), &c->output);
  for (int i = 0; i < INPUTS && good; i++)
    good = copy_text(i < n->input_count ? n->inputs[i] : NULL, &c->input[i]);
  return good ? GCONV_OK : fail_memory(n->file);
}

/* ---- Entries ---- */

static const char *find_obstacle(const gconv_onnx_model *m, const conv *c, const gconv_onnx_tensor *weights) {
  uint64_t shape[GCONV_BANK_DIMENSIONS];
  const char *name = c->input[WEIGHTS];
  if (c->kind->obstacle)
    return c->kind->obstacle;
  if (!weights && gconv_onnx_is_input(m, name))
    return "takes its weights from an input of the model, so that the file does not have them: export the model with its "
           "parameters inside, or give the weights as .npy or safetensors";
  if (!weights)
    return "takes its weights from what other nodes compute: export the model with its constants folded; only initialisers "
           "and Constants are read";
  for (int i = 0; i < GCONV_BANK_DIMENSIONS; i++)
    shape[i] = weights->shape[i] > 0 ? (uint64_t)weights->shape[i] : 0;
  const char *obstacle = gconv_bank_shape_obstacle((int32_t)weights->dimensions, shape);
  return obstacle ? obstacle
         : gconv_onnx_is_floating(weights->type)
             ? NULL
             : "has weights of a type that is not read: they must be float, double, float16 or "
               "bfloat16";
}

/* Names an entry: a node has its own name, and the names of its output and its weights. */
static bool name_entry(const conv *c, gconv_bank_entry *entry) {
  const char *names[3] = {c->name, c->output, c->input[WEIGHTS]};
  char *copies[3] = {NULL, NULL, NULL};
  int count = 0;
  for (int i = 0; i < 3; i++)
    if (names[i] && *names[i] && !(copies[count++] = gconv_printable_copy(names[i], strlen(names[i]))))
      break;
  entry->name = count > 0 ? copies[0] : strdup("");
  entry->other[0] = copies[1];
  entry->other[1] = copies[2];
  return entry->name && (count < 2 || copies[count - 1]);
}

/* Adds the bytes of a node's tensor to `claimed`. NULL is allowed. */
static void claim(gconv_bank_file *file, gconv_onnx_tensor *tensor) {
  if (!tensor)
    return;
  gconv_onnx_tensor_look(file, tensor);
  ((state *)file->state)->claimed += gconv_onnx_tensor_bytes(tensor);
}

static int compare_files(const void *a, const void *b) {
  const gconv_onnx_file *x = a, *y = b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Adds up the sizes of all files of external tensors in *bytes; each file counts once. */
static gconv_status sum_files(const gconv_bank_file *file, double *bytes) {
  const gconv_onnx_model *m = gconv_onnx_model_of(file);
  size_t count = 0;
  GCONV_FREED gconv_onnx_file *files = calloc(m->tensor_count + 1, sizeof *files);
  if (!files)
    return fail_memory(file);
  for (size_t i = 0; i < m->tensor_count; i++)
    if (m->tensors[i].looked)
      files[count++] = m->tensors[i].file;
  qsort(files, count, sizeof *files, compare_files);
  *bytes = 0;
  for (size_t i = 0; i < count; i++)
    *bytes += i == 0 || compare_files(&files[i - 1], &files[i]) != 0 ? (double)files[i].bytes : 0;
  return GCONV_OK;
}

/* Nodes may share tensors. There is a limit on how often, so that the work stays linear in the size of the files. */
static gconv_status check_claimed(const gconv_bank_file *file) {
  const state *s = file->state;
  double beside = 0;
  GCONV_TRY(sum_files(file, &beside));
  if (s->claimed <= MOST_SHARED * ((double)file->source.size + beside) + (1 << 24))
    return GCONV_OK;
  return gconv_fail(GCONV_TOO_LARGE,
                    "%s: its Conv nodes share weights so often that the weights of all nodes are more than %d times as "
                    "large as the model and the files beside it: that is the limit",
                    file->path, MOST_SHARED);
}

static gconv_status add_entry(gconv_bank_file *file, const conv *c) {
  const gconv_onnx_model *m = gconv_onnx_model_of(file);
  gconv_onnx_tensor *weights = gconv_onnx_find_tensor(m, c->input[WEIGHTS]);
  gconv_bank_entry *entry;
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  GCONV_NEED_MEMORY(name_entry(c, entry), "%s: no memory for its names", file->path);
  entry->kind = c->kind->type;
  entry->obstacle = find_obstacle(m, c, weights);
  if (!weights)
    return GCONV_OK;
  snprintf(entry->type, sizeof entry->type, "%s", gconv_onnx_type_name(weights->type));
  entry->dimensions = weights->dimensions < INT32_MAX ? (int32_t)weights->dimensions : INT32_MAX;
  for (size_t i = 0; i < weights->dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    entry->shape[i] = weights->shape[i] > 0 ? (uint64_t)weights->shape[i] : 0;
  if (!entry->obstacle) {
    claim(file, weights);
    claim(file, gconv_onnx_find_tensor(m, c->input[BIASES]));
  }
  return GCONV_OK;
}

static gconv_status open_onnx(gconv_bank_file *file) {
  state *s = calloc(1, sizeof *s);
  file->state = s;
  GCONV_NEED_MEMORY(s, "%s: no memory for a model", file->path);
  s->model.file = file;
  GCONV_TRY(gconv_onnx_model_read(&s->model, take_node, s));
  for (size_t i = 0; i < s->conv_count; i++)
    GCONV_TRY(add_entry(file, &s->convs[i]));
  return check_claimed(file); /* a model without Conv nodes may be a network */
}

static void close_onnx(gconv_bank_file *file) {
  state *s = file->state;
  if (!s)
    return;
  gconv_onnx_model_free(&s->model);
  for (size_t i = 0; i < s->conv_count; i++)
    free_conv(&s->convs[i]);
  free(s->convs);
  free(s);
}

/* ---- Reading ---- */

/* Reads strides, pads, dilations and groups. */
static gconv_status read_geometry(gconv_bank_file *file, const conv *c, gconv_bank *bank) {
  GCONV_ENDED_BY(gconv_onnx_node_free) gconv_onnx_node n = {.file = file};
  GCONV_TRY(gconv_onnx_node_read((gconv_message_reader){&file->source, c->at, c->end}, &n));
  if (n.input_count > INPUTS)
    return gconv_onnx_fail_node(&n, GCONV_UNSUPPORTED, "has %d inputs, and a Conv has %d", n.input_count, INPUTS);
  GCONV_TRY(gconv_onnx_check_attributes(&n, gconv_onnx_conv_rules, gconv_onnx_model_of(file)->opset));
  return gconv_onnx_read_geometry(&n, bank);
}

static gconv_status read_biases(gconv_bank_file *file, const conv *c, gconv_bank *bank) {
  const gconv_onnx_tensor *biases = gconv_onnx_find_tensor(gconv_onnx_model_of(file), c->input[BIASES]);
  if (!c->input[BIASES] || !*c->input[BIASES]) /* no biases: the input is absent or has an empty name */
    return GCONV_OK;
  if (!biases || !gconv_onnx_is_floating(biases->type) || biases->dimensions != 1 || biases->shape[0] != bank->filters)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: '%s': its biases '%.80s' are not an initialiser or Constant of %d floating-point numbers, one a filter",
        file->path, bank->name, c->input[BIASES], bank->filters);
  GCONV_TRY(gconv_onnx_tensor_check(file, biases, (uint64_t)bank->filters));
  GCONV_TRY(gconv_bank_add_biases(bank));
  return gconv_onnx_tensor_elements(file, biases, (size_t)bank->filters, bank->biases);
}

static gconv_status read_onnx(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const gconv_onnx_model *m = gconv_onnx_model_of(file);
  const conv *c = &((const state *)file->state)->convs[index];
  const gconv_bank_entry *entry = &file->entries[index];
  const gconv_onnx_tensor *weights = gconv_onnx_find_tensor(m, c->input[WEIGHTS]);
  gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  GCONV_TRY(gconv_onnx_model_check(m));
  GCONV_TRY(gconv_bank_check_shape(file->path, shape));
  GCONV_TRY(gconv_onnx_tensor_check(file, weights, gconv_bank_shape_weights(shape)));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_bank_rename(bank, entry->name));
  GCONV_TRY(read_geometry(file, c, bank));
  GCONV_TRY(gconv_onnx_tensor_elements(file, weights, gconv_bank_weights(bank), bank->weights));
  return read_biases(file, c, bank);
}

/* True if the file begins with ir_version, a small number, then a text, a number, or the graph. */
static bool recognise(const uint8_t *bytes, size_t size) {
  return size > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 &&
         memchr("\x12\x1A\x22\x28\x32\x3A\x42", bytes[2], 7);
}

const gconv_bank_syntax gconv_bank_syntax_onnx = {
    .name = "onnx",
    .help = "a model: its Conv nodes",
    .extension = ".onnx",
    .recognise = recognise,
    .open = open_onnx,
    .read = read_onnx,
    .close = close_onnx,
};
