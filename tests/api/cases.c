/* SPDX-License-Identifier: MIT */
/* Data sets of cases in memory: they yield the numbers, classes and models of files with the same cases, and what is wrong
 * of them is refused by its name. */
#include "gconv_classify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                    \
  do {                                                                                                                      \
    if (!(condition)) {                                                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, gconv_last_error());                               \
      exit(1);                                                                                                              \
    }                                                                                                                       \
  } while (0)

enum { CASES = 90, COLUMNS = 3, IMAGES = 6, SIDE = 24 };

static float rows[CASES * COLUMNS];
static double wide[CASES * COLUMNS], numbers[CASES];
static const char *labels[CASES];
static const char *const names[COLUMNS] = {"length", "width", "a \"b\""};
static gconv_image images[IMAGES], wanted[IMAGES], masks[IMAGES];

/* ---- What the data sets have ---- */

static gconv_dataset *open_set(const gconv_dataset_options *options) {
  gconv_dataset *data = NULL;
  CHECK(gconv_dataset_open(options, &data) == GCONV_OK);
  return data;
}

/* Both have the same cases, bit by bit, with the same names. Frees both. */
static void check_same(gconv_dataset *a, gconv_dataset *b) {
  const gconv_dataset_info *x = gconv_dataset_get_info(a), *y = gconv_dataset_get_info(b);
  CHECK(x->cases == y->cases && x->cases > 0);
  CHECK(x->channels == y->channels && x->height == y->height && x->width == y->width);
  CHECK(x->outputs == y->outputs && x->class_count == y->class_count && x->labelled == y->labelled);
  for (size_t i = 0; i < x->class_count; i++)
    CHECK(strcmp(x->classes[i], y->classes[i]) == 0);
  CHECK(!x->columns == !y->columns);
  const size_t columns = (size_t)x->channels * (size_t)x->height * (size_t)x->width;
  const size_t outputs = x->class_count > 0 ? 1 : x->outputs;
  for (size_t i = 0; i < columns && x->columns; i++)
    CHECK(strcmp(x->columns[i], y->columns[i]) == 0);
  float *one = malloc((columns + outputs) * sizeof *one), *other = malloc((columns + outputs) * sizeof *other);
  CHECK(one && other);
  for (size_t i = 0; i < x->cases; i++) {
    CHECK(gconv_dataset_read(a, 3, &i, 1, one, outputs > 0 ? one + columns : NULL) == GCONV_OK);
    CHECK(gconv_dataset_read(b, 3, &i, 1, other, outputs > 0 ? other + columns : NULL) == GCONV_OK);
    CHECK(memcmp(one, other, (columns + outputs) * sizeof *one) == 0);
  }
  free(one);
  free(other);
  gconv_dataset_free(a);
  gconv_dataset_free(b);
}

static void check_refused(gconv_dataset_options options, gconv_dataset_cases cases, const char *name) {
  gconv_dataset *data = NULL;
  options.cases = &cases;
  const gconv_status status = gconv_dataset_open(&options, &data);
  if (status == GCONV_OK || data || !strstr(gconv_last_error(), name)) {
    fprintf(stderr, "expected a failure that names %s: %d, %s\n", name, (int)status, gconv_last_error());
    exit(1);
  }
}

/* ---- Tables ---- */

static void write_table(bool header, bool regression) {
  FILE *file = fopen("table.csv", "w");
  CHECK(file);
  if (header)
    fprintf(file, "length,width,\"a \"\"b\"\"\",class\n");
  for (int i = 0; i < CASES; i++) {
    for (int k = 0; k < COLUMNS; k++)
      fprintf(file, "%.9g,", (double)rows[i * COLUMNS + k]);
    if (regression)
      fprintf(file, "%.17g\n", numbers[i]);
    else
      fprintf(file, "%s\n", labels[i]);
  }
  CHECK(fclose(file) == 0);
}

static void check_tables(void) {
  const gconv_dataset_cases by_name = {.count = CASES, .rows = rows, .columns = COLUMNS, .names = names, .labels = labels};
  gconv_dataset_cases plain = {.count = CASES, .rows = rows, .columns = COLUMNS, .labels = labels};
  const gconv_dataset_cases few = {.count = CASES, .rows = rows, .columns = COLUMNS, .targets = numbers, .outputs = 1};
  write_table(true, false);
  check_same(open_set(&(gconv_dataset_options){.inputs = "table.csv"}),
             open_set(&(gconv_dataset_options){.cases = &by_name}));
  write_table(false, false);
  check_same(open_set(&(gconv_dataset_options){.inputs = "table.csv"}), open_set(&(gconv_dataset_options){.cases = &plain}));
  write_table(false, true);
  const gconv_dataset_options of_file = {.inputs = "table.csv", .regression = true};
  check_same(open_set(&of_file), open_set(&(gconv_dataset_options){.cases = &few, .regression = true}));
  const gconv_dataset_cases two = {
      .count = CASES / 2, .rows = rows, .columns = 2 * COLUMNS, .targets = numbers, .outputs = 2};
  gconv_dataset *several = open_set(&(gconv_dataset_options){.cases = &two});
  CHECK(gconv_dataset_get_info(several)->outputs == 2 && gconv_dataset_get_info(several)->class_count == 0);
  gconv_dataset_free(several);
  const gconv_dataset_cases alone = {.count = CASES, .wide_rows = wide, .columns = COLUMNS};
  gconv_dataset *unlabelled = open_set(&(gconv_dataset_options){.cases = &alone, .unlabelled = true});
  CHECK(gconv_dataset_get_info(unlabelled)->outputs == 0);
  gconv_dataset_free(unlabelled);
  unlink("table.csv");
  /* Columns that are called otherwise are refused, and those in another order are found. */
  gconv_dataset *data = open_set(&(gconv_dataset_options){.cases = &by_name});
  const gconv_column_notes *notes = &gconv_dataset_get_info(data)->notes;
  const char *const turned[COLUMNS] = {"a \"b\"", "length", "width"}, *const other[COLUMNS] = {"length", "width", "c"};
  gconv_dataset_cases again = by_name;
  again.names = turned;
  gconv_dataset *found = open_set(&(gconv_dataset_options){.cases = &again, .like = notes});
  float row[COLUMNS], label;
  CHECK(gconv_dataset_read(found, 0, &(size_t){5}, 1, row, &label) == GCONV_OK);
  CHECK(row[0] == rows[16] && row[1] == rows[17] && row[2] == rows[15]);
  gconv_dataset_free(found);
  again.names = other;
  check_refused((gconv_dataset_options){.like = notes}, again, "there is no column a \"b\"");
  gconv_dataset_free(data);
}

/* The same bytes of a network and of a machine as of a file. */
static char *content_of(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  struct stat status;
  CHECK(file && fstat(fileno(file), &status) == 0);
  char *bytes = malloc((size_t)status.st_size + 1);
  CHECK(bytes && fread(bytes, 1, (size_t)status.st_size, file) == (size_t)status.st_size);
  fclose(file);
  *size = (size_t)status.st_size;
  return bytes;
}

static void train_both(gconv_device *device, gconv_dataset *data, const char *net, const char *machine) {
  gconv_network start = {0}, made = {0};
  gconv_trainer *trainer = NULL;
  gconv_svm *svm = NULL;
  gconv_epoch epoch = {0};
  CHECK(gconv_network_make("dense 5 tanh, dense 3 softmax", (const int32_t[]){COLUMNS, 1, 1}, 3, 1, &start) == GCONV_OK);
  CHECK(gconv_trainer_create(device, &start, &(gconv_training_options){.epochs = 3}, data, NULL, &trainer) == GCONV_OK);
  while (!epoch.ended)
    CHECK(gconv_trainer_epoch(trainer, &epoch) == GCONV_OK);
  CHECK(gconv_trainer_network(trainer, true, &made) == GCONV_OK && gconv_network_write(net, &made) == GCONV_OK);
  CHECK(gconv_svm_train(NULL, data, device, &svm) == GCONV_OK && gconv_svm_write(machine, svm) == GCONV_OK);
  gconv_svm_free(svm);
  gconv_trainer_free(trainer);
  gconv_network_free(&start);
  gconv_network_free(&made);
  gconv_dataset_free(data);
}

static void check_models(gconv_device *device) {
  const gconv_dataset_cases cases = {.count = CASES, .rows = rows, .columns = COLUMNS, .labels = labels};
  static const char *const made[] = {"a.safetensors", "b.safetensors", "a.model", "b.model"};
  write_table(false, false);
  train_both(device, open_set(&(gconv_dataset_options){.inputs = "table.csv"}), made[0], made[2]);
  train_both(device, open_set(&(gconv_dataset_options){.cases = &cases}), made[1], made[3]);
  for (int i = 0; i < 4; i += 2) {
    size_t sizes[2];
    char *a = content_of(made[i], &sizes[0]), *b = content_of(made[i + 1], &sizes[1]);
    CHECK(sizes[0] == sizes[1] && memcmp(a, b, sizes[0]) == 0);
    free(a);
    free(b);
    unlink(made[i]);
    unlink(made[i + 1]);
  }
  unlink("table.csv");
}

/* ---- Images ---- */

static gconv_image picture(gconv_type type, int32_t side, int32_t channels, unsigned seed, unsigned most) {
  gconv_image image = {.type = type, .frames = 1, .height = side, .width = side, .channels = channels};
  CHECK(gconv_image_allocate(&image) == GCONV_OK);
  for (size_t i = 0; i < (size_t)side * (size_t)side * (size_t)channels; i++)
    ((uint8_t *)image.data)[i] = (uint8_t)((i * 2654435761U + seed * 40503U) >> 9) % most;
  return image;
}

static void write_images(const char *folder, const gconv_image *all) {
  char path[64];
  CHECK(mkdir(folder, 0700) == 0);
  for (int i = 0; i < IMAGES; i++) {
    snprintf(path, sizeof path, "%s/%d.png", folder, i);
    CHECK(gconv_image_write(path, NULL, &all[i]) == GCONV_OK);
  }
}

static void remove_images(const char *folder) {
  char path[64];
  for (int i = 0; i < IMAGES; i++) {
    snprintf(path, sizeof path, "%s/%d.png", folder, i);
    unlink(path);
  }
  rmdir(folder);
}

static void check_images(void) {
  static const char *const two[IMAGES] = {"cat", "cat", "cat", "dog", "dog", "dog"};
  char path[64], to[64];
  const gconv_dataset_cases pairs = {.count = IMAGES, .images = images, .wanted = wanted};
  const gconv_dataset_cases pixels = {.count = IMAGES, .images = images, .wanted = masks};
  const gconv_dataset_cases classes = {.count = IMAGES, .images = images, .labels = two};
  write_images("in", images);
  write_images("wanted", wanted);
  write_images("masks", masks);
  gconv_dataset_options options = {.kind = GCONV_DATASET_PAIRS, .patch = 8, .augment = true, .seed = 5};
  gconv_dataset_options of_files = options;
  options.cases = &pairs;
  of_files.inputs = "in", of_files.targets = "wanted";
  check_same(open_set(&of_files), open_set(&options));
  options = (gconv_dataset_options){.kind = GCONV_DATASET_PIXELS, .features = "gaussian 1 2", .most_cases = 200, .seed = 7};
  of_files = options;
  options.cases = &pixels;
  of_files.inputs = "in", of_files.targets = "masks";
  check_same(open_set(&of_files), open_set(&options));
  for (int i = 0; i < IMAGES; i++) { /* in/ becomes a folder of folders */
    snprintf(to, sizeof to, "in/%s", two[i]);
    mkdir(to, 0700);
    snprintf(path, sizeof path, "in/%d.png", i);
    snprintf(to, sizeof to, "in/%s/%d.png", two[i], i);
    CHECK(rename(path, to) == 0);
  }
  options = (gconv_dataset_options){.kind = GCONV_DATASET_CLASSES, .cases = &classes};
  of_files = (gconv_dataset_options){.kind = GCONV_DATASET_CLASSES, .inputs = "in"};
  check_same(open_set(&of_files), open_set(&options));
  for (int i = 0; i < IMAGES; i++) {
    snprintf(path, sizeof path, "in/%s/%d.png", two[i], i);
    unlink(path);
  }
  rmdir("in/cat");
  rmdir("in/dog");
  remove_images("in");
  remove_images("wanted");
  remove_images("masks");
}

static void check_refusals(void) {
  const gconv_dataset_cases good = {.count = CASES, .rows = rows, .columns = COLUMNS, .labels = labels};
  const gconv_dataset_options table = {0}, pixels = {.kind = GCONV_DATASET_PIXELS};
  gconv_dataset_cases wrong = good;
  wrong.count = 0;
  check_refused(table, wrong, "options->cases->count");
  wrong = good, wrong.columns = 0;
  check_refused(table, wrong, "options->cases->columns");
  wrong = good, wrong.rows = NULL;
  check_refused(table, wrong, "rows");
  wrong = good, wrong.labels = NULL;
  check_refused(table, wrong, "labels");
  wrong = good, wrong.targets = numbers;
  check_refused(table, wrong, "targets");
  wrong.labels = NULL;
  check_refused(table, wrong, "options->cases->outputs");
  check_refused((gconv_dataset_options){.inputs = "x"}, good, "options->inputs");
  check_refused((gconv_dataset_options){.kind = GCONV_DATASET_WINDOWS, .window = 3}, good, "signals");
  check_refused(pixels, good, "options->cases->images");
  check_refused(pixels, (gconv_dataset_cases){.count = IMAGES, .images = images}, "options->cases->wanted");
  check_refused((gconv_dataset_options){.kind = GCONV_DATASET_CLASSES}, (gconv_dataset_cases){.count = 2, .images = images},
                "options->cases->labels");
  gconv_image broken[IMAGES];
  memcpy(broken, images, sizeof broken);
  broken[2].row_bytes = 1;
  check_refused(pixels, (gconv_dataset_cases){.count = IMAGES, .images = broken, .wanted = masks}, "image 2");
  memcpy(broken, masks, sizeof broken);
  broken[4].data = NULL;
  check_refused(pixels, (gconv_dataset_cases){.count = IMAGES, .images = images, .wanted = broken}, "mask 4");
  check_refused(pixels, (gconv_dataset_cases){.count = IMAGES, .images = images, .wanted = images}, "mask 0");
  float gap[CASES * COLUMNS];
  memcpy(gap, rows, sizeof gap);
  gap[7] = NAN;
  wrong = good, wrong.rows = gap;
  check_refused(table, wrong, "the rows: row 3, column 2 is missing");
  gconv_dataset *data = open_set(&(gconv_dataset_options){.cases = &wrong, .missing = "drop"});
  CHECK(gconv_dataset_get_info(data)->cases == CASES - 1);
  gconv_dataset_free(data);
  const char *gaps[CASES];
  memcpy(gaps, labels, sizeof gaps);
  gaps[4] = NULL;
  wrong = good, wrong.labels = gaps;
  check_refused(table, wrong, "the labels: row 5");
}

int main(void) {
  static const char *const kinds[] = {"red", "green", "blue"};
  char folder[] = "/tmp/gconv-cases-XXXXXX";
  gconv_device *device = NULL;
  if (!mkdtemp(folder) || chdir(folder) != 0)
    return 1;
  for (int i = 0; i < CASES * COLUMNS; i++)
    wide[i] = (double)(rows[i] = (float)sin(1.7 * i));
  for (int i = 0; i < CASES; i++) {
    labels[i] = kinds[(i * 7 + (rows[3 * i] > 0)) % 3];
    numbers[i] = cos(2.3 * i);
  }
  for (unsigned i = 0; i < IMAGES; i++) {
    images[i] = picture(GCONV_U8, SIDE, 3, i, 256);
    wanted[i] = picture(GCONV_U8, 2 * SIDE, 3, i + 50, 256);
    masks[i] = picture(GCONV_U8, SIDE, 1, i + 90, 3);
  }
  check_tables();
  CHECK(gconv_device_open("cpu", 1, &device) == GCONV_OK);
  check_models(device);
  gconv_device_close(device);
  check_images();
  check_refusals();
  for (int i = 0; i < IMAGES; i++) {
    gconv_image_free(&images[i]);
    gconv_image_free(&wanted[i]);
    gconv_image_free(&masks[i]);
  }
  return chdir("/") != 0 || rmdir(folder) != 0;
}
