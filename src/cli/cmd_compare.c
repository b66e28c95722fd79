/* SPDX-License-Identifier: MIT */
/* gconv compare: by how much two images, or the images of two folders, differ. */
#include "base/printable.h"
#include "cli/command.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Two files to compare, and what was found. */
typedef struct pair {
  const char *a, *b;   /* paths; one is NULL: the other folder has no such file */
  const char *name;    /* what it is called in a folder */
  const char *picture; /* to write; NULL: none */
  json_t *frames;      /* owned: with --json, of images of several frames */
  gconv_status status; /* of comparing them */
  gconv_difference found;
} pair;

typedef struct comparison {
  const gconv_settings *settings;
  gconv_device *device;
  FILE *out; /* where the report goes: standard output, unless a picture goes there */
  gconv_inputs sides[2];
  bool folders;
  pair *pairs; /* owned */
  size_t count;
  gconv_outputs pictures;
} comparison;

/* What the program ends with, as cmp and diff do. */
enum { WITHIN = GCONV_EXIT_OK, ABOVE = 1, TROUBLE = GCONV_EXIT_USAGE };

/* ---- Numbers as text ------------------------------------------------------------------------------------------------- */

/* "0.0157 (4 levels of 255)" */
static void print_difference(FILE *out, const gconv_difference *found, double difference) {
  fprintf(out, "%.4g", difference);
  if (found->white > 1 && difference > 0)
    fprintf(out, " (%.4g level%s of %.0f)", difference * found->white, difference * found->white == 1 ? "" : "s",
            found->white);
}

static void print_decibels(FILE *out, double psnr) {
  if (isinf(psnr) && psnr > 0)
    fputs("infinite", out);
  else
    fprintf(out, "%.2f dB", psnr);
}

static void print_ssim(FILE *out, double ssim) {
  if (isnan(ssim))
    fputs("none", out);
  else
    fprintf(out, "%.6f", ssim);
}

/* "0.05%", of which what is not 0 is never printed as 0, nor what is not all as all. */
static void print_share(FILE *out, const gconv_difference *found) {
  double share = 100 * (double)found->differing / (double)found->samples;
  if (share > 0 && share < 0.01)
    fputs("below 0.01%", out);
  else if (share < 100 && share > 99.99)
    fputs("above 99.99%", out);
  else
    fprintf(out, "%.4g%%", share);
}

static void print_place(FILE *out, const gconv_difference *found) {
  if (found->differing == 0)
    return;
  fprintf(out, " at x %d, y %d, channel %d", (int)found->x, (int)found->y, (int)found->channel);
  if (found->a.frames > 1)
    fprintf(out, ", frame %d", (int)found->frame);
}

static void print_shape(FILE *out, const gconv_difference *found) {
  const gconv_image *a = &found->a;
  fprintf(out, "%d x %d, ", (int)a->width, (int)a->height);
  if (a->frames > 1)
    fprintf(out, "%d frames, ", (int)a->frames);
  fprintf(out, "%d channel%s", (int)a->channels, a->channels == 1 ? "" : "s");
  if (a->alpha || found->b.alpha)
    fputs(" (alpha is one)", out);
  fprintf(out, ", %s", gconv_type_name(a->type));
  if (a->type != found->b.type)
    fprintf(out, " against %s, compared in [0, 1] units", gconv_type_name(found->b.type));
}

/* All on a line: of a frame, or of a pair. */
static void print_line(FILE *out, const gconv_difference *found) {
  if (found->differing == 0) {
    fputs("equal\n", out);
    return;
  }
  fputs("largest ", out);
  print_difference(out, found, found->largest);
  print_place(out, found);
  fprintf(out, ", mean %.4g, RMSE %.4g, PSNR ", found->mean, found->rmse);
  print_decibels(out, found->psnr);
  fputs(", SSIM ", out);
  print_ssim(out, found->ssim);
  fputs(", ", out);
  print_share(out, found);
  fputs(" of samples differ\n", out);
}

static void print_all(FILE *out, const pair *p) {
  const gconv_difference *found = &p->found;
  gconv_print(out, "%s and %s: ", p->a, p->b);
  print_shape(out, found);
  fputs("\n  largest difference  ", out);
  print_difference(out, found, found->largest);
  print_place(out, found);
  fputs("\n  mean difference     ", out);
  print_difference(out, found, found->mean);
  fputs("\n  RMSE                ", out);
  print_difference(out, found, found->rmse);
  fputs("\n  PSNR                ", out);
  print_decibels(out, found->psnr);
  fputs("\n  SSIM                ", out);
  print_ssim(out, found->ssim);
  if (found->a.width < 7 || found->a.height < 7)
    fputs(": it needs images of 7 x 7 pixels or more", out);
  fprintf(out, "\n  differing samples   %" PRIu64 " of %" PRIu64 " (", found->differing, found->samples);
  print_share(out, found);
  fputs(")\n", out);
}

/* ---- As JSON --------------------------------------------------------------------------------------------------------- */

/* JSON has no infinity, and no NaN. */
static json_t *json_number(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}

static json_t *describe_numbers(const gconv_difference *found) {
  json_t *object = json_object();
  json_object_set_new(object, "largest", json_number(found->largest));
  json_object_set_new(object, "at",
                      found->differing == 0 ? json_null()
                                            : json_pack("{s:i, s:i, s:i, s:i}", "frame", (int)found->frame, "x",
                                                        (int)found->x, "y", (int)found->y, "channel", (int)found->channel));
  json_object_set_new(object, "mean", json_number(found->mean));
  json_object_set_new(object, "rmse", json_number(found->rmse));
  json_object_set_new(object, "psnr", json_number(found->psnr));
  json_object_set_new(object, "ssim", json_number(found->ssim));
  json_object_set_new(object, "differing", json_integer((json_int_t)found->differing));
  json_object_set_new(object, "samples", json_integer((json_int_t)found->samples));
  return object;
}

static bool is_above(const comparison *c, const pair *p) {
  return !p->a || !p->b || p->found.largest > c->settings->tolerance;
}

static json_t *json_path(const char *path) {
  json_t *text = path ? json_string(path) : json_null();
  return text ? text : json_string("(a name that is not UTF-8)");
}

static json_t *describe_pair(const comparison *c, const pair *p) {
  const gconv_image *a = &p->found.a;
  bool compared = p->a && p->b && p->status == GCONV_OK;
  json_t *object = compared ? describe_numbers(&p->found) : json_object();
  json_object_set_new(object, "a", json_path(p->a));
  json_object_set_new(object, "b", json_path(p->b));
  json_object_set_new(object, "above", p->status == GCONV_OK ? json_boolean(is_above(c, p)) : json_null());
  if (!compared)
    return object;
  json_object_set_new(object, "shape",
                      json_pack("[i, i, i, i]", (int)a->frames, (int)a->height, (int)a->width, (int)a->channels));
  json_object_set_new(object, "types", json_pack("[s, s]", gconv_type_name(a->type), gconv_type_name(p->found.b.type)));
  json_object_set_new(object, "white", json_real(p->found.white));
  if (p->frames)
    json_object_set(object, "frames", p->frames);
  return object;
}

static int print_json(const comparison *c, int status) {
  json_t *document = NULL;
  if (c->folders) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
      json_array_append_new(list, describe_pair(c, &c->pairs[i]));
    document = json_pack("{s:o, s:f}", "pairs", list, "tolerance", c->settings->tolerance);
  } else if (c->pairs[0].status == GCONV_OK) {
    document = describe_pair(c, &c->pairs[0]);
    json_object_set_new(document, "tolerance", json_real(c->settings->tolerance));
  }
  char *text = document ? json_dumps(document, JSON_INDENT(1)) : NULL;
  if (text)
    gconv_print_json(c->out, text);
  else if (document)
    gconv_say("compare: no memory to make JSON");
  status = document && !text ? TROUBLE : status;
  json_decref(document);
  free(text);
  return status;
}

/* ---- One pair -------------------------------------------------------------------------------------------------------- */

typedef struct frame_report {
  const comparison *comparison;
  pair *pair;
} frame_report;

static bool speaks(const comparison *c) {
  return !c->settings->quiet && !c->settings->json;
}

static void report_frame(const gconv_difference *found, void *user) {
  const frame_report *report = user;
  if (found->a.frames < 2)
    return;
  if (report->comparison->settings->json) {
    json_t *frames = report->pair->frames ? report->pair->frames : (report->pair->frames = json_array());
    json_array_append_new(frames, describe_numbers(found));
  } else if (!report->comparison->settings->quiet && !report->comparison->folders) {
    fprintf(report->comparison->out, "frame %d: ", (int)found->frame);
    print_line(report->comparison->out, found);
  }
}

/* Makes the folders that the path needs. */
static gconv_status make_folders(const char *path) {
  char *folder = strdup(path);
  gconv_status status = GCONV_OK;
  for (char *slash = folder ? strchr(folder + 1, '/') : NULL; slash && status == GCONV_OK; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
      gconv_say("%s: cannot make this folder: %s", folder, strerror(errno));
      status = GCONV_IO_ERROR;
    }
    *slash = '/';
  }
  free(folder);
  return status;
}

/* A tolerance of 1 lets every integer image pass: levels were meant. */
static gconv_status check_tolerance(const comparison *c, const gconv_difference *found) {
  double tolerance = c->settings->tolerance;
  if (found->white == 1 || tolerance < 1)
    return GCONV_OK;
  gconv_say("--tolerance %g: 1 is white, so that all images would pass; %g level%s of %.0f %s --tolerance %g/%.0f",
            tolerance, tolerance, tolerance == 1 ? "" : "s", found->white, tolerance == 1 ? "is" : "are", tolerance,
            found->white);
  return GCONV_BAD_ARGUMENT;
}

static gconv_status compare_pair(const comparison *c, pair *p) {
  const gconv_compared a = {.path = p->a}, b = {.path = p->b};
  const gconv_write_options write = {.format = c->pictures.format};
  frame_report report = {c, p};
  const gconv_compare_options options = {.max_pixels = c->settings->job.max_pixels,
                                         .threads = gconv_device_threads(c->device),
                                         .picture = p->picture,
                                         .write = &write,
                                         .report = report_frame,
                                         .user = &report};
  if (p->picture && c->pictures.make_folders)
    GCONV_TRY(make_folders(p->picture));
  gconv_status status = gconv_image_compare(&a, &b, &options, &p->found);
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  return status == GCONV_OK ? check_tolerance(c, &p->found) : status;
}

/* ---- Folders --------------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const gconv_input *const *)a)->relative, (*(const gconv_input *const *)b)->relative);
}

static size_t stem_length(const char *name) {
  const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_stem(const gconv_input *a, const gconv_input *b) {
  size_t length = stem_length(a->relative);
  return length == stem_length(b->relative) && strncmp(a->relative, b->relative, length) == 0;
}

/* The inputs, sorted by their relative names; for free(). */
static const gconv_input **sort_inputs(const gconv_inputs *inputs) {
  const gconv_input **sorted = calloc(inputs->count + 1, sizeof *sorted);
  for (size_t i = 0; sorted && i < inputs->count; i++)
    sorted[i] = &inputs->items[i];
  if (sorted)
    qsort(sorted, inputs->count, sizeof *sorted, compare_names);
  return sorted;
}

static void add_pair(comparison *c, const gconv_input *a, const gconv_input *b) {
  c->pairs[c->count++] = (pair){.a = a ? a->path : NULL, .b = b ? b->path : NULL, .name = (a ? a : b)->relative};
}

/* Files of one name in both are a pair; and so are, of what is left, files whose names differ by the extension alone, if
 * each side has only one: gconv writes folders as PNG, whatever they were. Both lists are sorted, and pairs leave them. */
static void pair_off(comparison *c, const gconv_input **a, size_t a_count, const gconv_input **b, size_t b_count) {
  for (size_t i = 0, k = 0; i < a_count && k < b_count;) {
    int order = strcmp(a[i]->relative, b[k]->relative);
    if (order == 0) {
      add_pair(c, a[i], b[k]);
      a[i] = b[k] = NULL;
    }
    i += order <= 0;
    k += order >= 0;
  }
  for (size_t i = 0; i < a_count; i++) {
    size_t found = b_count, many = 0;
    for (size_t k = 0; a[i] && k < b_count; k++)
      if (b[k] && same_stem(a[i], b[k])) {
        found = k;
        many++;
      }
    for (size_t k = 0; many == 1 && k < a_count; k++)
      many += k != i && a[k] && same_stem(a[k], a[i]);
    if (many == 1) {
      add_pair(c, a[i], b[found]);
      a[i] = b[found] = NULL;
    }
  }
  for (size_t i = 0; i < a_count; i++)
    if (a[i])
      add_pair(c, a[i], NULL);
  for (size_t k = 0; k < b_count; k++)
    if (b[k])
      add_pair(c, NULL, b[k]);
}

static int order_pairs(const void *a, const void *b) {
  return strcmp(((const pair *)a)->name, ((const pair *)b)->name);
}

static gconv_status find_pairs(comparison *c, gconv_message *message) {
  const gconv_inputs *a = &c->sides[0], *b = &c->sides[1];
  c->pairs = calloc(a->count + b->count + 1, sizeof *c->pairs);
  if (!c->pairs)
    return gconv_complain_memory(message);
  if (!c->folders) {
    add_pair(c, &a->items[0], &b->items[0]);
    return GCONV_OK;
  }
  const gconv_input **of_a = sort_inputs(a), **of_b = sort_inputs(b);
  if (of_a && of_b)
    pair_off(c, of_a, a->count, of_b, b->count);
  bool good = of_a && of_b;
  free(of_a);
  free(of_b);
  qsort(c->pairs, c->count, sizeof *c->pairs, order_pairs);
  return good ? GCONV_OK : gconv_complain_memory(message);
}

static void print_pair(const comparison *c, const pair *p) {
  gconv_print(c->out, "%s: ", p->name);
  if (p->a && p->b)
    print_line(c->out, &p->found);
  else
    gconv_print(c->out, "only %s is there\n", p->a ? p->a : p->b);
}

/* The last line. */
static void print_folders(const comparison *c) {
  size_t compared = 0, equal = 0, above = 0, alone = 0, failed = 0;
  const pair *worst = NULL;
  for (size_t i = 0; i < c->count; i++) {
    const pair *p = &c->pairs[i];
    bool there = p->a && p->b && p->status == GCONV_OK;
    compared += there;
    alone += !p->a || !p->b;
    failed += p->status != GCONV_OK;
    equal += there && p->found.differing == 0;
    above += there && is_above(c, p);
    if (there && p->found.differing > 0 && (!worst || p->found.largest > worst->found.largest))
      worst = p;
  }
  fprintf(c->out, "%zu pair%s compared: %zu equal, %zu above the tolerance of %g", compared, compared == 1 ? "" : "s", equal,
          above, c->settings->tolerance);
  if (worst) {
    fputs("; the largest difference is ", c->out);
    print_difference(c->out, &worst->found, worst->found.largest);
    gconv_print(c->out, " in %s", worst->name);
  }
  if (alone > 0)
    fprintf(c->out, "; %zu file%s in one folder only", alone, alone == 1 ? " is" : "s are");
  if (failed > 0)
    fprintf(c->out, "; %zu could not be compared", failed);
  fputs("\n", c->out);
}

/* ---- Pictures -------------------------------------------------------------------------------------------------------- */

/* No picture may replace an image, and none another. */
static gconv_status check_pictures(comparison *c, gconv_inputs *named, gconv_message *message) {
  size_t pictures = c->pictures.paths.count;
  gconv_inputs both = {.items = calloc(2 * named->count, sizeof *both.items), .count = 2 * named->count, .many = true};
  size_t *first = calloc(2 * named->count + 1, sizeof *first);
  gconv_status status = both.items && first ? GCONV_OK : gconv_complain_memory(message);
  for (size_t i = 0; i < 2 * named->count && status == GCONV_OK; i++) {
    const pair *p = &c->pairs[i % named->count];
    const char *path = i < named->count ? p->a : p->b;
    char *there = (char *)(path ? path : p->a ? p->a : p->b);
    both.items[i] = (gconv_input){.path = there, .file = there, .relative = (char *)p->name};
    first[i + 1] = i + 1 < pictures ? i + 1 : pictures;
  }
  if (status == GCONV_OK) {
    size_t *own = c->pictures.first;
    c->pictures.first = first;
    status = gconv_outputs_check(&both, &c->pictures, message);
    c->pictures.first = own;
  }
  free(first);
  free(both.items);
  return status;
}

/* Names a picture for each pair: in a folder, as the images are called. */
static gconv_status name_pictures(comparison *c, gconv_message *message) {
  gconv_filter label = {.name = "difference"};
  const gconv_filters labels = {.items = &label, .count = 1};
  const gconv_naming naming = {.output = c->settings->naming.output, .filters = &labels};
  gconv_inputs named = {.items = calloc(c->count + 1, sizeof *named.items), .count = c->count, .many = c->folders};
  if (!named.items)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < c->count; i++) /* by their names alone: the frames of an image are in one picture */
    named.items[i] = (gconv_input){.path = "-", .file = "-", .relative = (char *)c->pairs[i].name};
  gconv_status status = gconv_outputs_name(&named, &naming, &c->pictures, message);
  if (status == GCONV_OK)
    status = check_pictures(c, &named, message);
  for (size_t i = 0; i < c->count && status == GCONV_OK; i++)
    c->pairs[i].picture = c->pictures.paths.items[i];
  free(named.items);
  return status;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static gconv_status find_side(comparison *c, char *spec, gconv_inputs *side, gconv_message *message) {
  gconv_texts specs = {&spec, 1};
  const char *output = c->settings->naming.output ? c->settings->naming.output : "-";
  GCONV_TRY(gconv_inputs_find(&specs, c->settings->recursive, output, side, message));
  if (!c->folders && side->count != 1)
    return gconv_refuse(message, "%s: is %zu files: name one image, or a folder", spec, side->count);
  return GCONV_OK;
}

static gconv_status prepare(comparison *c, const gconv_texts *words, gconv_message *message) {
  if (words->count != 2)
    return gconv_refuse(message, "compare: name two images, or two folders: gconv compare A B");
  char *a = words->items[0], *b = words->items[1];
  c->folders = is_folder(a);
  if (is_folder(a) != is_folder(b))
    return gconv_refuse(message, "%s is a folder, and %s is not: compare two images, or two folders", c->folders ? a : b,
                        c->folders ? b : a);
  if (strcmp(a, "-") == 0 && strcmp(b, "-") == 0)
    return gconv_refuse(message, "-: standard input can be read only once");
  GCONV_TRY(find_side(c, a, &c->sides[0], message));
  GCONV_TRY(find_side(c, b, &c->sides[1], message));
  GCONV_TRY(find_pairs(c, message));
  if (c->settings->naming.output)
    GCONV_TRY(name_pictures(c, message));
  gconv_sandbox_outputs(c->settings, &c->pictures);
  if (gconv_device_open("cpu", gconv_settle_threads(c->settings->job.threads, c->settings->quiet), &c->device) != GCONV_OK)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s", gconv_last_error());
  return GCONV_OK;
}

/* Compares all pairs, and tells of each at once. */
static int compare_all(comparison *c) {
  int worst = WITHIN;
  for (size_t i = 0; i < c->count; i++) {
    pair *p = &c->pairs[i];
    if (p->a && p->b)
      p->status = compare_pair(c, p);
    int status = p->status != GCONV_OK ? TROUBLE : is_above(c, p) ? ABOVE : WITHIN;
    worst = status > worst ? status : worst;
    if (!speaks(c) || p->status != GCONV_OK)
      continue;
    if (c->folders)
      print_pair(c, p);
    else
      print_all(c->out, p);
  }
  if (speaks(c) && c->folders)
    print_folders(c);
  return c->settings->json && !c->settings->quiet ? print_json(c, worst) : worst;
}

static int run(gconv_settings *settings, const gconv_texts *words) {
  comparison c = {.settings = settings};
  gconv_message message;
  int status = TROUBLE;
  gconv_set_log(settings->quiet ? NULL : gconv_say_warning, NULL);
  c.out = settings->naming.output && strcmp(settings->naming.output, "-") == 0 ? stderr : stdout;
  if (prepare(&c, words, &message) == GCONV_OK)
    status = compare_all(&c);
  else
    gconv_say("%s", message.text);
  gconv_sandbox_tidy();
  for (size_t i = 0; i < c.count; i++)
    json_decref(c.pairs[i].frames);
  free(c.pairs);
  gconv_outputs_free(&c.pictures);
  gconv_inputs_free(&c.sides[0]);
  gconv_inputs_free(&c.sides[1]);
  gconv_device_close(c.device);
  return status;
}

const gconv_command gconv_command_compare = {
    .name = "compare",
    .synopsis = "compare A B [OPTION...]",
    .help = "by how much two images, or two folders of them, differ: largest and mean difference, PSNR, SSIM",
    .details = "Differences are |a - b|, where 1 is white. Images of different types are compared in these units; they\n"
               "must have the same size and channels, of which alpha is one. PSNR and SSIM (Wang 2004) are those of\n"
               "scikit-image. Files of two folders are compared by their names, with a line for each and one for all.\n\n"
               "The picture of -o shows the largest difference of any channel: equal is black; one level of 255 (of\n"
               "65535, if samples are finer) is the grey level 32; each doubling adds the same, up to white.\n\n"
               "Exit status: 0 if no sample differs by more than the tolerance, 1 if one does or a folder lacks a file,\n"
               "2 if the request was wrong or images could not be compared.\n",
    .of = GCONV_OF_COMPARE,
    .words = GCONV_WORDS_ANY,
    .run = run,
};
