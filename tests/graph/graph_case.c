/* SPDX-License-Identifier: MIT */
/*
 * Runs graphs of ONNX models on tensors.
 *
 * graph_case [-d DEVICE] CASE...     each CASE is a folder as those of ONNX's own tests: model.onnx, and
 *                                    test_data_set_N/input_K.pb and output_K.pb. Prints a line for each: "ok", "wrong" or
 *                                    "refused", the folder, the reason.
 * graph_case -r MODEL IN... -o OUT... [-n RUNS] [-t THREADS] [-d DEVICE] [-e]
 *                                    runs the model with tensors of files *.pb, in the order of its inputs, and writes
 *                                    its outputs as raw elements. -m BYTES: in tiles that need no more. -w: tiles, too, of
 *                                    graphs with nodes that see the whole image, measured in passes of their own. -a: the
 *                                    algorithm of convolutions. -M tf32: their math. -n: prints the time of the best of
 * RUNS. -e: explains, and prints the time of each step.
 * graph_case -s                      does what the lines of its input ask for, each with the words after "-r", separated by
 *                                    tabs, on devices that stay open: to open a GPU takes longer than most models. After
 *                                    each, a line with "done" or "failed: " and the reason.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/narrow.h"
#include "graph/solve.h"
#include "graph/tiles.h"

#include <math.h>
#include <string.h>

enum { MOST = 32 };

/* ---- Tensors in files ---- */

static gconv_status read_tensor(const char *path, gconv_tensor *tensor) {
  gconv_source source;
  gconv_onnx_tensor found = {0};
  gconv_status status = gconv_source_open(path, &source);
  gconv_bank_file file = {.path = (char *)path};
  if (status == GCONV_OK) {
    file.source = source;
    const gconv_message_reader all = {&file.source, 0, file.source.size};
    const gconv_field_value field = {.wire = GCONV_WIRE_BYTES, .value = file.source.size, .at = 0};
    status = gconv_onnx_tensor_find(&all, &field, &found);
    GCONV_THEN(status, gconv_tensor_of_onnx(&file, &found, tensor));
    free(found.name);
    gconv_source_close(&file.source);
  }
  return status;
}

/* Whether the file is there. */
static bool exists(const char *path) {
  FILE *file = fopen(path, "r");
  if (file)
    fclose(file);
  return file;
}

/* Reads tensors PATTERN with %d replaced by 0, 1 ... */
static gconv_status read_tensors(const char *folder, const char *what, size_t *count, gconv_tensor *tensors) {
  char path[5000];
  for (*count = 0; *count < MOST; ++*count) {
    snprintf(path, sizeof path, "%.4400s/%.20s_%zu.pb", folder, what, *count);
    if (!exists(path))
      break;
    GCONV_TRY(read_tensor(path, &tensors[*count]));
  }
  return GCONV_OK;
}

/* ---- Running ---- */

static gconv_status open_graph(const char *path, gconv_graph **graph) {
  gconv_bank_file *file = NULL;
  gconv_status status = gconv_bank_file_open_path(path, "onnx", &file);
  GCONV_THEN(status, gconv_graph_read(file, graph));
  gconv_bank_file_close(file);
  return status;
}

static gconv_device *device;
static const char *algorithm; /* of convolutions; NULL: any */
static bool explains;         /* the option -e */
static gconv_math math;

static bool is_cpu(void) {
  return device->type == &gconv_device_type_cpu;
}

/* Whether shapes may depend on the elements of a value: integers, and what kinds of nodes must know. On a GPU, weights of
 * convolutions are constant, too. */
static bool is_known(const gconv_graph *graph, int32_t value) {
  for (size_t n = 0; n < graph->node_count; n++)
    for (int32_t i = 0; i < graph->nodes[n].in_count && i < 32; i++)
      if (graph->nodes[n].in[i] == value &&
          (graph->nodes[n].kind->known >> i & 1 || (i > 0 && gconv_solver_solves(graph->nodes[n].kind) && !is_cpu())))
        return true;
  return !gconv_tensor_type_is_real(graph->values[value].tensor.type);
}

static gconv_status plan_graph(const gconv_graph *graph, const gconv_tensor *inputs, size_t count, gconv_graph_plan **plan) {
  gconv_tensor shapes[MOST];
  const gconv_graph_options options = {.device = device, .algorithm = algorithm, .math = math};
  if (count != graph->input_count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the model has %zu inputs, and there are %zu", graph->input_count, count);
  for (size_t i = 0; i < count; i++) {
    shapes[i] = inputs[i];
    if (!is_known(graph, graph->inputs[i]))
      shapes[i].data = NULL;
  }
  GCONV_TRY(gconv_graph_plan_create(graph, shapes, &options, plan));
  if (explains) {
    char obstacle[500];
    gconv_graph_gpu_obstacle(*plan, obstacle, sizeof obstacle);
    printf("GPUs: %s\n", *obstacle ? obstacle : "all nodes");
  }
  GCONV_TRY(gconv_graph_plan_allocate(*plan));
  if ((*plan)->arena)
    memset((*plan)->arena, 0xA5, (*plan)->arena_bytes);
  return GCONV_OK;
}

/* Copies all elements of an input from the host to where a run finds them. */
static gconv_status write_input(gconv_graph_plan *plan, size_t number, const void *elements) {
  const gconv_tensor *input = gconv_graph_plan_input(plan, number);
  if (plan->gpu)
    return gconv_graph_gpu_write(plan, input, elements);
  memcpy(input->data, elements, gconv_tensor_bytes(input));
  return GCONV_OK;
}

static gconv_status run_plan(gconv_graph_plan *plan, const gconv_tensor *inputs) {
  for (size_t i = 0; i < plan->graph->input_count; i++)
    GCONV_TRY(write_input(plan, i, inputs[i].data));
  return gconv_graph_plan_run(plan);
}

/* Returns an output with elements in memory of the host, for gconv_release(). */
static gconv_status read_output(const gconv_graph_plan *plan, size_t number, gconv_tensor *output) {
  *output = *gconv_graph_plan_output(plan, number);
  GCONV_TRY(gconv_allocate(gconv_tensor_bytes(output) + 1, "an output", &output->data));
  if (plan->gpu)
    return gconv_graph_gpu_read(plan, gconv_graph_plan_output(plan, number), output->data);
  memcpy(output->data, gconv_graph_plan_output(plan, number)->data, gconv_tensor_bytes(output));
  return GCONV_OK;
}

/* ---- Comparing ---- */

static gconv_status compare(size_t output, const gconv_tensor *made, const gconv_tensor *wanted) {
  char have[200], want[200];
  gconv_tensor_shape_text(made, have, sizeof have);
  gconv_tensor_shape_text(wanted, want, sizeof want);
  if (made->type != wanted->type || strcmp(have, want) != 0)
    return gconv_fail(GCONV_MISMATCH, "output %zu is %s of %s, not %s of %s", output, gconv_tensor_type_name(made->type),
                      have, gconv_tensor_type_name(wanted->type), want);
  for (int64_t i = 0; i < gconv_tensor_elements(made); i++) {
    const double exact = gconv_tensor_number(made, i), b = gconv_tensor_number(wanted, i);
    const double a = gconv_narrow_round(exact, wanted->narrow, true, GCONV_NARROW_UP); /* as the file has it */
    const bool same = a == b || (a != a && b != b);
    if (!same && !(fabs(a - b) <= 1e-7 + 1e-3 * fabs(b)))
      return gconv_fail(GCONV_MISMATCH, "element %lld of output %zu is %.9g, not %.9g", (long long)i, output, a, b);
  }
  return GCONV_OK;
}

static gconv_status run_set(const gconv_graph *graph, const char *folder) {
  gconv_tensor inputs[MOST] = {{0}}, outputs[MOST] = {{0}};
  size_t input_count = 0, output_count = 0;
  gconv_graph_plan *plan = NULL;
  gconv_status status = read_tensors(folder, "input", &input_count, inputs);
  GCONV_THEN(status, read_tensors(folder, "output", &output_count, outputs));
  GCONV_THEN(status, plan_graph(graph, inputs, input_count, &plan));
  GCONV_THEN(status, run_plan(plan, inputs));
  for (size_t i = 0; status == GCONV_OK && i < output_count && i < graph->output_count; i++) {
    gconv_tensor made = {.data = NULL};
    status = read_output(plan, i, &made);
    GCONV_THEN(status, compare(i, &made, &outputs[i]));
    gconv_release(made.data);
  }
  gconv_graph_plan_free(plan);
  for (size_t i = 0; i < MOST; i++) {
    gconv_release(inputs[i].data);
    gconv_release(outputs[i].data);
  }
  return status;
}

static void run_case(const char *folder) {
  char path[4200], output[4400];
  gconv_graph *graph = NULL;
  snprintf(path, sizeof path, "%.4000s/model.onnx", folder);
  gconv_status status = open_graph(path, &graph);
  for (int set = 0; status == GCONV_OK; set++) {
    snprintf(path, sizeof path, "%.4000s/test_data_set_%d", folder, set);
    snprintf(output, sizeof output, "%s/output_0.pb", path);
    if (!exists(output))
      break;
    status = run_set(graph, path);
  }
  gconv_graph_free(graph);
  printf("%s %s%s%s\n",
         status == GCONV_OK         ? "ok"
         : status == GCONV_MISMATCH ? "wrong"
                                    : "refused",
         folder, status == GCONV_OK ? "" : ": ", status == GCONV_OK ? "" : gconv_last_error());
  fflush(stdout);
}

/* ---- One model ---- */

/* Prints how long each step takes that is not free. Steps that go through the image by bands run with the first of them. */
static gconv_status time_steps(gconv_graph_plan *plan, const gconv_tensor *inputs, int runs) {
  GCONV_FREED double *best = calloc(plan->step_count + 1, sizeof *best);
  gconv_status status = best ? GCONV_OK : GCONV_NO_MEMORY;
  gconv_threads_stay_awake(device->threads, true);
  for (int run = 0; run < runs && status == GCONV_OK; run++) {
    for (size_t k = 0; k < plan->graph->input_count && status == GCONV_OK; k++) /* results may have overwritten them */
      status = write_input(plan, k, inputs[k].data);
    for (size_t i = 0; i < plan->step_count && status == GCONV_OK; i++) {
      const double begin = gconv_now_ms();
      status = gconv_graph_plan_run_step(plan, i);
      const double took = gconv_now_ms() - begin;
      best[i] = run == 0 || took < best[i] ? took : best[i];
    }
  }
  gconv_threads_stay_awake(device->threads, false);
  for (size_t i = 0; i < plan->step_count && status == GCONV_OK; i++)
    if (!plan->steps[i].view && (size_t)plan->steps[i].first == i)
      printf("%8.3f ms %s '%s'\n", best[i], plan->steps[i].node->kind->name, plan->steps[i].node->name);
  return status;
}

typedef struct order {
  const char *model, *inputs[MOST], *outputs[MOST];
  size_t input_count, output_count;
  int runs, threads;
  const char *device;
  size_t most;
  int rows, measures;
} order;

static gconv_status write_output(const gconv_graph_plan *plan, size_t number, const char *path) {
  gconv_tensor output = {.data = NULL}, *t = &output;
  GCONV_TRY(read_output(plan, number, &output));
  FILE *file = fopen(path, "wb");
  const size_t count = (size_t)gconv_tensor_elements(t), each = gconv_tensor_type_bytes(t->type);
  const bool good = file && fwrite(t->data, each, count, file) == count;
  char shape[200];
  gconv_tensor_shape_text(t, shape, sizeof shape);
  printf("%s: %s of %s\n", path, gconv_tensor_type_name(t->type), shape);
  gconv_release(output.data);
  if (file && fclose(file) == 0 && good)
    return GCONV_OK;
  return gconv_fail(GCONV_IO_ERROR, "%s cannot be written", path);
}

/* Runs the model in tiles, or band after band, and stores what they make in the first output of the plan. */
static gconv_status run_tiles(const order *o, const gconv_graph_plan *plan, const gconv_tensor *input) {
  const gconv_tensor *output = gconv_graph_plan_output(plan, 0);
  const gconv_graph_cut cut = {
      {input->shape[2], input->shape[3]}, {output->shape[2], output->shape[3]}, o->most, o->rows, o->measures};
  const gconv_graph_rows in = {input->data, 0, cut.in[0], 0}, out = {output->data, 0, cut.out[0], 0};
  gconv_graph_tiles *tiles = NULL;
  char text[120];
  gconv_status status = gconv_graph_tiles_create(plan, &cut, &tiles);
  GCONV_THEN(status, gconv_graph_tiles_allocate(tiles));
  for (size_t pass = 0; status == GCONV_OK && pass <= gconv_graph_tiles_measurings(tiles); pass++) {
    gconv_graph_tiles_begin(tiles, pass);
    status = gconv_graph_tiles_run(tiles, &in, &out, NULL);
  }
  if (status == GCONV_OK) {
    gconv_graph_tiles_tell(tiles, text, sizeof text);
    printf("%s\n", text);
  }
  gconv_graph_tiles_free(tiles);
  return status;
}

static gconv_status run_model(const order *o) {
  gconv_graph *graph = NULL;
  gconv_graph_plan *plan = NULL;
  gconv_tensor inputs[MOST] = {{0}};
  double best = INFINITY;
  gconv_status status = open_graph(o->model, &graph);
  for (size_t i = 0; i < o->input_count; i++)
    GCONV_THEN(status, read_tensor(o->inputs[i], &inputs[i]));
  GCONV_THEN(status, plan_graph(graph, inputs, o->input_count, &plan));
  if (status == GCONV_OK && explains)
    gconv_graph_plan_explain(plan, stdout);
  for (int i = 0; status == GCONV_OK && i < o->runs; i++) {
    for (size_t k = 0; k < o->input_count && o->most == 0; k++)
      GCONV_THEN(status, write_input(plan, k, inputs[k].data));
    const double begin = gconv_now_ms();
    GCONV_THEN(status, o->most > 0 ? run_tiles(o, plan, &inputs[0]) : gconv_graph_plan_run(plan));
    best = fmin(best, gconv_now_ms() - begin);
  }
  if (status == GCONV_OK && o->runs > 1 && explains && !plan->gpu)
    status = time_steps(plan, inputs, o->runs);
  if (status == GCONV_OK && o->runs > 1)
    printf("%.3f ms\n", best);
  for (size_t i = 0; status == GCONV_OK && i < o->output_count && i < graph->output_count; i++)
    status = write_output(plan, i, o->outputs[i]);
  gconv_graph_plan_free(plan);
  gconv_graph_free(graph);
  for (size_t i = 0; i < MOST; i++)
    gconv_release(inputs[i].data);
  return status;
}

static order parse(int count, char **words) {
  order o = {.model = words[0], .runs = 1, .threads = 2, .device = "cpu"};
  bool out = false;
  for (int i = 1; i < count; i++) {
    if (strcmp(words[i], "-e") == 0)
      explains = true;
    else if (strcmp(words[i], "-w") == 0)
      o.measures = 1;
    else if (strcmp(words[i], "-o") == 0)
      out = true;
    else if (strcmp(words[i], "-n") == 0 && i + 1 < count)
      o.runs = atoi(words[++i]);
    else if (strcmp(words[i], "-a") == 0 && i + 1 < count)
      algorithm = words[++i];
    else if (strcmp(words[i], "-d") == 0 && i + 1 < count)
      o.device = words[++i];
    else if (strcmp(words[i], "-M") == 0 && i + 1 < count)
      math = strcmp(words[++i], "tf32") == 0 ? GCONV_MATH_TF32 : GCONV_MATH_FP32;
    else if (strcmp(words[i], "-m") == 0 && i + 1 < count)
      o.most = (size_t)atoll(words[++i]);
    else if (strcmp(words[i], "-b") == 0 && i + 1 < count)
      o.rows = atoi(words[++i]);
    else if (strcmp(words[i], "-t") == 0 && i + 1 < count)
      o.threads = atoi(words[++i]);
    else if (out && o.output_count < MOST)
      o.outputs[o.output_count++] = words[i];
    else if (!out && o.input_count < MOST)
      o.inputs[o.input_count++] = words[i];
  }
  return o;
}

/* Opens the device of the order, or keeps it if it is open. */
static gconv_status open_device(const order *o) {
  static char name[100];
  static int threads;
  if (device && threads == o->threads && strcmp(name, o->device) == 0)
    return GCONV_OK;
  gconv_device_close(device);
  device = NULL;
  snprintf(name, sizeof name, "%s", o->device);
  threads = o->threads;
  return gconv_device_open(o->device, o->threads, &device);
}

static void serve(void) {
  static char line[100000];
  while (fgets(line, sizeof line, stdin)) {
    char *words[2 * MOST + 20], *rest = line;
    int count = 0;
    for (char *word; count < 2 * MOST + 20 && (word = strsep(&rest, "\t\n"));)
      if (*word)
        words[count++] = word;
    explains = false;
    algorithm = NULL;
    math = GCONV_MATH_FP32;
    const order o = parse(count, words);
    gconv_status status = open_device(&o);
    GCONV_THEN(status, run_model(&o));
    printf("%s%s\n", status == GCONV_OK ? "done" : "failed: ", status == GCONV_OK ? "" : gconv_last_error());
    fflush(stdout);
  }
  gconv_device_close(device);
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "-s") == 0) {
    serve();
    return 0;
  }
  const bool one = count > 2 && strcmp(words[1], "-r") == 0;
  const int first = count > 3 && strcmp(words[1], "-d") == 0 ? 3 : 1;
  const order o = one ? parse(count - 2, words + 2) : (order){.threads = 2, .device = first == 3 ? words[2] : "cpu"};
  gconv_status status = gconv_device_open(o.device, o.threads, &device);
  if (status == GCONV_OK && one)
    status = run_model(&o);
  for (int i = first; status == GCONV_OK && !one && i < count; i++)
    run_case(words[i]);
  gconv_device_close(device);
  if (status != GCONV_OK)
    fprintf(stderr, "%s\n", gconv_last_error());
  return status != GCONV_OK;
}
