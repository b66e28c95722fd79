/* SPDX-License-Identifier: MIT */
/*
 * The figures of a thesis on batched convolution, by their numbers and with its sizes and its kernels
 * (kernels/cuda/classic/layer), and `layer-steps`, which goes on from there to the kernels that auto takes. docs/theses.md
 * says what each figure shows, and what differs.
 *
 * A figure has panels, and a panel has methods: an algorithm, and the blocks and threads that the thesis launched. Along x
 * go launches, batches, or batches and filters together. Without a GPU, the CPU's algorithms are measured in their place.
 */
#include "base/memory.h"
#include "bench/bench.h"

#include <string.h>

enum { MOST_PANELS = 2, MOST_METHODS = 10, MOST_POINTS = 8, MOST_SIZES = 3 };
enum { AN_IMAGE = -1 }; /* blocks of a method: one for each image */

typedef struct method {
  const char *name;
  int32_t threads, blocks; /* 0: the algorithm's own number */
  const char *adds;        /* in layer-steps: what the step is; at most 20 characters */
} method;

typedef enum axis { LAUNCHES, BATCHES, BATCHES_AND_FILTERS, NOTHING } axis;

/* Arrays that are not full end with zeros. */
typedef struct figure {
  const char *name;
  axis axis;
  int32_t side, channels, images;                   /* side: height and width of images */
  int32_t sizes[MOST_SIZES];                        /* of filters ... */
  int32_t filters[MOST_SIZES];                      /* ... and how many there are of each size */
  int32_t batches[MOST_POINTS];                     /* along x, in place of `images` */
  int32_t threads[MOST_POINTS], grids[MOST_POINTS]; /* along x, for LAUNCHES: threads of a block (squares, if `planes`) */
  bool planes;                                      /* a filter for each channel, and outputs of the same size */
  bool cpu;                                         /* the CPU's line is drawn, too */
  int32_t workspace_mib;
  const char *panels[MOST_PANELS];
  method methods[MOST_PANELS][MOST_METHODS];
} figure;

#define OWN(name)                                                                                                           \
  { name, 0, 0, NULL }
#define GEMM(name)                                                                                                          \
  { name, 1024, AN_IMAGE, NULL }
#define SPLIT(name)                                                                                                         \
  { name, 1024, 24, NULL }
#define STEP(name, adds)                                                                                                    \
  { name, 0, 0, adds }
#define GEMM_AND_SPLIT                                                                                                      \
  {                                                                                                                         \
    {GEMM("gemm-classic"), GEMM("gemm-shared-classic"), SPLIT("loops-classic"), GEMM("loops-classic"), OWN("cudnn")}, {     \
      SPLIT("split-classic"), SPLIT("split-shared-classic"), SPLIT("split-cublas-classic"), SPLIT("loops-classic"),         \
          OWN("cudnn")                                                                                                      \
    }                                                                                                                       \
  }
#define TO_TEN                                                                                                              \
  { 1, 2, 4, 6, 8, 10 }
#define SQUARES .threads = {8, 16, 32}, .planes = true, .channels = 3, .images = 1, .filters = {3}
#define BIG_WORKSPACE .workspace_mib = 8192

/* Slow launches are left out: an execution of the thesis's kernels by few threads takes minutes. */
/* clang-format off */
static const figure figures[] = {
    {.name = "figure-5.1a", .axis = LAUNCHES, .side = 1024, .sizes = {64}, SQUARES, .grids = {16, 64, 256, 1024, 4096},
     .cpu = true, .panels = {""}, .methods = {{OWN("planes-classic")}}},
    {.name = "figure-5.1b", .axis = LAUNCHES, .side = 2048, .sizes = {128}, SQUARES, .grids = {256, 1024, 4096},
     .cpu = true, .panels = {""}, .methods = {{OWN("planes-classic")}}},
    {.name = "figure-5.2", .axis = LAUNCHES, .side = 128, .channels = 3, .images = 256, .sizes = {8}, .filters = {128},
     .threads = {64, 128}, .grids = {64, 128, 256}, .cpu = true, .panels = {""}, .methods = {{OWN("batch-classic")}}},
    {.name = "figure-5.3a", .axis = BATCHES_AND_FILTERS, .side = 256, .channels = 3, .sizes = {8},
     .batches = {1, 2, 4, 8, 16}, .cpu = true, .panels = {""}, .methods = {{OWN("batch-classic")}}},
    {.name = "figure-5.3b", .axis = BATCHES_AND_FILTERS, .side = 512, .channels = 3, .sizes = {16},
     .batches = {1, 2, 4, 8, 16}, .cpu = true, .panels = {""}, .methods = {{OWN("batch-classic")}}},
    {.name = "figure-5.4a", .axis = NOTHING, .side = 128, .channels = 4, .images = 10, .sizes = {16}, .filters = {10},
     .cpu = true, .panels = {""}, .methods = {{OWN("batch-classic"), OWN("loops-classic")}}},
    {.name = "figure-5.4b", .axis = NOTHING, .side = 256, .channels = 4, .images = 10, .sizes = {32}, .filters = {10},
     .cpu = true, .panels = {""}, .methods = {{OWN("batch-classic"), OWN("loops-classic")}}},
    {.name = "figure-5.5", .axis = BATCHES, .side = 128, .channels = 3, .sizes = {16, 32, 64}, .filters = {16, 4, 1},
     .batches = TO_TEN, BIG_WORKSPACE, .panels = {"Gemm", "Split"}, .methods = GEMM_AND_SPLIT},
    {.name = "figure-5.6", .axis = BATCHES, .side = 256, .channels = 3, .sizes = {32, 16}, .filters = {4, 16},
     .batches = TO_TEN, BIG_WORKSPACE, .panels = {"Gemm", "Split"}, .methods = GEMM_AND_SPLIT},
    {.name = "figure-5.7", .axis = BATCHES, .side = 128, .channels = 3, .sizes = {8}, .filters = {128},
     .batches = {1, 4, 16, 64, 256}, BIG_WORKSPACE, .panels = {"Split"},
     .methods = {{SPLIT("split-classic"), SPLIT("split-shared-classic"), SPLIT("loops-classic")}}},
    {.name = "figure-5.8", .axis = NOTHING, .side = 128, .channels = 3, .images = 10, .sizes = {32}, .filters = {4},
     BIG_WORKSPACE, .panels = {""}, .methods = {{SPLIT("loops-classic"), GEMM("gemm-classic"), GEMM("gemm-shared-classic")}}},
    {.name = "figure-5.9", .axis = NOTHING, .side = 128, .channels = 3, .images = 10, .sizes = {32}, .filters = {4},
     BIG_WORKSPACE, .panels = {""},
     .methods = {{SPLIT("loops-classic"), SPLIT("split-classic"), SPLIT("split-shared-classic")}}},
    {.name = "figure-5.10", .axis = NOTHING, .side = 128, .channels = 3, .images = 10, .sizes = {32}, .filters = {4},
     BIG_WORKSPACE, .panels = {""}, .methods = {{SPLIT("split-shared-classic")}}},
    {.name = "layer-steps", .axis = NOTHING, .side = 56, .channels = 64, .images = 32, .sizes = {3}, .filters = {64},
     BIG_WORKSPACE, .panels = {""},
     .methods = {{STEP("batch-classic", "1 a filter a thread"), STEP("loops-classic", "2 all loops divided"),
                  STEP("gemm-classic", "3 patches, a barrier"), STEP("gemm-shared-classic", "4 filters in shared"),
                  STEP("split-classic", "5 two kernels"), STEP("split-shared-classic", "6 a filter in shared"),
                  STEP("split-cublas-classic", "7 cuBLAS an image"), STEP("im2col", "8 tiles, registers"),
                  STEP("gemm", "9 no matrix"), STEP("gemm-3xfp16", "10 tensor cores")}}},
    {.name = "layouts", .axis = NOTHING, .side = 56, .channels = 64, .images = 32, .sizes = {3}, .filters = {64},
     .panels = {""},
     .methods = {{STEP("nchw-classic", "NCHW"), STEP("nc8hw8-classic", "NC/8HW8"), STEP("nhwc-classic", "NHWC")}}},
};
/* clang-format on */

static const figure *find_figure(const char *name) {
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (strcmp(figures[i].name, name) == 0)
      return &figures[i];
  return NULL;
}

static bool on_gpu(const gconv_bench *bench) {
  return strcmp(bench->type_name, "cuda") == 0;
}

/* ---- Rows ---- */

/* What the rows of a point share. */
typedef struct point {
  gconv_bench *bench;
  const figure *figure;
  const gconv_bench_layer *data;
  gconv_bench_row shape;
} point;

static gconv_layer_padding padding_of(const figure *f) {
  return f->planes ? GCONV_LAYER_SAME : GCONV_LAYER_VALID;
}

static void measure_row(const point *p, const char *algorithm, gconv_bench_block block, int32_t grid, const char *label) {
  gconv_bench_row row = p->shape;
  row.algorithm = algorithm;
  row.block = block;
  row.grid = grid;
  if (label)
    snprintf(row.filter, sizeof row.filter, "%s", label);
  gconv_bench_measure_layer(p->bench, p->data, padding_of(p->figure), &row);
  gconv_bench_keep(p->bench, &row);
  gconv_bench_print_row(p->bench);
}

/* Measures a method with the launch that the user asked for, else with the thesis's. */
static void measure_method(point *p, const method *m) {
  const gconv_bench *bench = p->bench;
  for (int i = 0; i < bench->block_count; i++)
    for (int g = 0; g < bench->grids->count; g++) {
      gconv_bench_block block = bench->blocks[i];
      int32_t grid = bench->grids->items[g];
      if (block.width == 0 && m->threads > 0)
        block = (gconv_bench_block){m->threads, 1};
      if (grid == 0 && m->blocks != 0) {
        grid = m->blocks == AN_IMAGE ? p->shape.images : m->blocks;
        if (m->blocks == AN_IMAGE)
          snprintf(p->shape.line, sizeof p->shape.line, "%s, a block an image", m->name);
        else
          snprintf(p->shape.line, sizeof p->shape.line, "%s, %d blocks", m->name, (int)grid);
      }
      measure_row(p, m->name, block, grid, m->adds);
      p->shape.line[0] = '\0';
    }
}

/* Measures the launches of a figure. The number of blocks goes along x. */
static void measure_launches(point *p, const char *algorithm) {
  const gconv_bench *bench = p->bench;
  const figure *f = p->figure;
  const bool own_blocks = bench->blocks[0].width == 0, own_grids = bench->grids->items[0] == 0;
  int32_t blocks = bench->block_count, grids;
  const int32_t *grid_items = gconv_bench_numbers(own_grids ? NULL : bench->grids, f->grids, MOST_POINTS, &grids);
  if (own_blocks)
    gconv_bench_numbers(NULL, f->threads, MOST_POINTS, &blocks);
  for (int32_t i = 0; i < blocks; i++)
    for (int32_t g = 0; g < grids; g++) {
      const int32_t grid = grid_items[g], side = own_blocks ? f->threads[i] : 0;
      const gconv_bench_block block = own_blocks ? (gconv_bench_block){side, f->planes ? side : 1} : bench->blocks[i];
      char label[48];
      snprintf(label, sizeof label, "blocks %d", (int)grid);
      p->shape.place = grid;
      snprintf(p->shape.line, sizeof p->shape.line, "%s %dx%d", algorithm, (int)block.width, (int)block.height);
      measure_row(p, algorithm, block, grid, label);
    }
}

static bool is_asked_for(const gconv_bench *bench) {
  return bench->grid->algorithms.count > 0;
}

/* Measures an algorithm that the user asked for: with the launches of the panel, or with its own if no panel has it. */
static void measure_asked(point *p, const method *methods, const char *name) {
  bool found = false;
  for (int32_t panel = 0; panel < MOST_PANELS; panel++)
    for (const method *m = p->figure->methods[panel]; m < p->figure->methods[panel] + MOST_METHODS && m->name; m++)
      if (strcmp(m->name, name) == 0) {
        found = true;
        if (p->figure->methods[panel] == methods)
          measure_method(p, m);
      }
  if (!found)
    measure_method(p, &(method){name, 0, 0, NULL});
}

/* Measures the methods of a panel, or the algorithms that the user asked for. Without a GPU, takes algorithms of the CPU. */
static void measure_panel(point *p, const method *methods) {
  static const char *const of_cpu[] = {"direct", "gemm", "auto"};
  const gconv_bench *bench = p->bench;
  const bool launches = p->figure->axis == LAUNCHES && on_gpu(bench);
  if (is_asked_for(bench)) {
    for (size_t i = 0; i < bench->grid->algorithms.count; i++)
      if (launches)
        measure_launches(p, bench->grid->algorithms.items[i]);
      else
        measure_asked(p, methods, bench->grid->algorithms.items[i]);
    return;
  }
  for (size_t i = 0; !on_gpu(bench) && i < sizeof of_cpu / sizeof *of_cpu; i++)
    measure_row(p, of_cpu[i], (gconv_bench_block){0, 0}, 0, NULL);
  for (int32_t i = 0; on_gpu(bench) && i < MOST_METHODS && methods[i].name; i++)
    if (launches)
      measure_launches(p, methods[i].name);
    else
      measure_method(p, &methods[i]);
}

/* ---- Points ---- */

static void name_point(point *p, const char *panel) {
  gconv_bench_row *shape = &p->shape;
  const gconv_bench_image *image = &shape->image;
  const axis along = p->figure->axis;
  size_t used = 0, size = sizeof shape->group;
  shape->place = along == NOTHING ? 1 : shape->images;
  snprintf(shape->filter, sizeof shape->filter, along == LAUNCHES ? "any launch" : "batch %d", (int)shape->images);
  if (panel[0])
    used += (size_t)snprintf(shape->group, size, "%s: ", panel);
  if (along == LAUNCHES || along == NOTHING)
    used += (size_t)snprintf(shape->group + used, size - used, "%d x ", (int)shape->images);
  used += (size_t)snprintf(shape->group + used, size - used, "%dx%dx%d, ", (int)image->channels, (int)image->height,
                           (int)image->width);
  if (along == BATCHES_AND_FILTERS)
    used += (size_t)snprintf(shape->group + used, size - used, "as many filters as images,");
  else
    used += (size_t)snprintf(shape->group + used, size - used, "%d filters", (int)shape->filters);
  snprintf(shape->group + used, size - used, " %dx%d%s", (int)shape->rows, (int)shape->columns,
           p->figure->planes ? ", one a channel" : "");
}

static gconv_status measure_point(gconv_bench *bench, const figure *f, gconv_bench_row *shape, int32_t panel) {
  GCONV_ENDED_BY(gconv_bench_free_layer) gconv_bench_layer data = {0};
  const gconv_bench_image bank = {shape->image.width, shape->image.height, f->planes ? 1 : shape->image.channels, true};
  point p = {bench, f, &data, *shape};
  gconv_status status = gconv_bench_make_layer(&shape->image, shape->images, shape->filters, shape->rows, &data);
  if (f->planes)
    data.bank.channels = bank.channels;
  name_point(&p, f->panels[panel]);
  if (status == GCONV_OK) {
    const gconv_bench_row own = p.shape;
    measure_panel(&p, f->methods[panel]);
    p.shape = own;
    p.shape.everywhere = f->axis == LAUNCHES; /* the CPU has no blocks */
    if (gconv_bench_measure_other(bench, &data, padding_of(f), &p.shape))
      gconv_bench_print_row(bench);
  }
  return status;
}

/* Measures all points of a panel for a size of filters. */
static gconv_status measure_size(gconv_bench *bench, const figure *f, const gconv_bench_image *image, int32_t index,
                                 int32_t panel) {
  const gconv_bench_grid *grid = bench->grid;
  int32_t size_count, batch_count, filter_count;
  const int32_t *sizes = gconv_bench_numbers(&grid->sizes, f->sizes, MOST_SIZES, &size_count);
  const int32_t *batches = gconv_bench_numbers(&grid->batches, f->batches[0] > 0 ? f->batches : &f->images,
                                               f->batches[0] > 0 ? MOST_POINTS : 1, &batch_count);
  const int32_t *filters =
      gconv_bench_numbers(&grid->layer_filters, &f->filters[grid->sizes.count > 0 ? 0 : index], 1, &filter_count);
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; status == GCONV_OK && i < batch_count * (filter_count > 0 ? filter_count : 1); i++) {
    gconv_bench_row shape = {.layer = true,
                             .image = {image->width, image->height, image->channels, true},
                             .type = GCONV_F32,
                             .images = batches[i % batch_count],
                             .filters = filter_count > 0 ? filters[i / batch_count] : batches[i % batch_count],
                             .rows = sizes[index],
                             .columns = sizes[index]};
    if (f->planes)
      shape.filters = image->channels;
    status = measure_point(bench, f, &shape, panel);
  }
  return status;
}

gconv_status gconv_bench_convolution(gconv_bench *bench) {
  const figure *f = find_figure(bench->experiment);
  const gconv_bench_grid *grid = bench->grid;
  int32_t size_count;
  gconv_bench_numbers(&grid->sizes, f->sizes, MOST_SIZES, &size_count);
  GCONV_TRY(gconv_bench_open_other(bench));
  if (f->cpu && !bench->other && on_gpu(bench))
    GCONV_TRY(gconv_device_open("cpu", bench->threads, &bench->other));
  bench->workspace_mib = f->workspace_mib;
  const gconv_bench_image own = {f->side, f->side, f->channels, true};
  gconv_status status = GCONV_OK;
  for (int i = 0; i < (grid->image_count > 0 ? grid->image_count : 1); i++)
    for (int32_t panel = 0; panel < MOST_PANELS && f->panels[panel]; panel++)
      for (int32_t k = 0; status == GCONV_OK && k < size_count; k++)
        status = measure_size(bench, f, grid->image_count > 0 ? &grid->images[i] : &own, k, panel);
  bench->workspace_mib = 0;
  if (status == GCONV_OK)
    gconv_bench_report_overtaking(bench);
  return status;
}

const char *gconv_bench_convolution_axes(const char *name) {
#define COMMON "set autoscale xfix\nset ylabel 'ms'\nset format y '%g'\nset logscale y\n"
  static const char *const axes[] = {
      [LAUNCHES] = COMMON "set xlabel 'blocks of the grid'\nset logscale x 2\n",
      [BATCHES] = COMMON "set xlabel 'images in the batch'\n",
      [BATCHES_AND_FILTERS] = COMMON "set xlabel 'images in the batch, and filters'\nset logscale x 2\n",
      [NOTHING] = COMMON "unset xtics\nset xrange [0:2]\nset xlabel ''\n",
  };
  const figure *f = find_figure(name);
  return f->axis == BATCHES && f->batches[0] == 1 && f->batches[3] == 64 ? COMMON "set xlabel 'images in the batch'\n"
                                                                                  "set logscale x 2\n"
                                                                         : axes[f->axis];
#undef COMMON
}
