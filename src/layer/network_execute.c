/* SPDX-License-Identifier: MIT */
/* Executes plans of networks: whole images, or some rows of the output at a time. */
#include "base/clock.h"
#include "base/memory.h"
#include "image/layout.h"
#include "layer/bleed.h"
#include "layer/network.h"
#include "operation/verify.h"

#include <math.h>
#include <string.h>

/* ---- The stages around the layers ---- */

/* Does gconv_network_see(), and adds its time. */
static gconv_status begin_input(const gconv_network_plan *network, const gconv_image *in, gconv_image *seen,
                                gconv_timings *timings) {
  const double start = gconv_now_ms();
  const gconv_status status = gconv_network_see(network, in, seen);
  timings->prepare_ms += network->grays || network->bleeds ? gconv_now_ms() - start : 0;
  return status;
}

/* Runs the layers alone. `there`: the input is in memory of the device, and has gone through all stages before them. */
static gconv_status run_layers(const gconv_network_plan *network, const gconv_image *in, bool there, int64_t in_row,
                               int64_t first, gconv_image *maps, gconv_timings *timings) {
  gconv_image seen;
  if (there)
    return network->type->execute(network->run, in, true, in_row, first, maps, timings);
  GCONV_TRY(begin_input(network, in, &seen, timings));
  gconv_status status = network->type->execute(network->run, &seen, false, in_row, first, maps, timings);
  gconv_network_unsee(network, &seen);
  return status;
}

static gconv_status make_maps(gconv_network_plan *network) {
  if (network->maps.data)
    return GCONV_OK;
  network->maps = network->out;
  return gconv_image_allocate(&network->maps);
}

/* Makes a grey row from three colours, with the weights of gconv_options.gray. `from`: the row in the first of three planes.
 */
static void make_grey(const gconv_network_plan *network, const float *from, float *to) {
  const size_t plane = network->maps.plane_bytes / sizeof(float);
  const float *middle = from + plane, *last = middle + plane;
  const float *red = network->presenter.reversed ? last : from, *blue = network->presenter.reversed ? from : last;
  for (int32_t x = 0; x < network->maps.width; x++)
    to[x] = 0.299F * red[x] + 0.587F * middle[x] + 0.114F * blue[x];
}

/* Makes a row of network->shown, in all planes. */
static void show_row(void *context, size_t turn, int seat) {
  const gconv_network_plan *network = context;
  const gconv_image *maps = &network->maps, *shown = &network->shown;
  const size_t plane = maps->plane_bytes / sizeof(float), width = (size_t)maps->width, height = (size_t)maps->height;
  const size_t frame = turn / height, y = turn % height, colours = (size_t)maps->channels, images = 1 + network->alphas;
  const float *from = (const float *)maps->data + frame * images * colours * plane + y * width;
  float *to = (float *)shown->data + frame * (size_t)shown->channels * plane + y * width;
  if (network->greys)
    make_grey(network, from, to);
  for (size_t c = 0; c < colours && !network->greys; c++)
    memcpy(to + c * plane, from + c * plane, width * sizeof *to);
  if (network->alphas)
    make_grey(network, from + colours * plane, to + (size_t)(shown->channels - 1) * plane);
}

/* Sets *maps to the maps that become pictures: network->maps, or network->shown, which is made from them. */
static gconv_status find_maps(gconv_network_plan *network, gconv_image *maps) {
  gconv_image *shown = &network->shown;
  *maps = network->maps;
  if (!network->greys && !network->alphas)
    return GCONV_OK;
  if (!shown->data) {
    *shown = gconv_header_of(&network->maps);
    shown->channels = (network->greys ? 1 : shown->channels) + network->alphas;
    shown->frames /= 1 + network->alphas;
    GCONV_TRY(gconv_image_allocate(shown));
  }
  gconv_threads_run(network->base.device->threads, (size_t)shown->frames * (size_t)shown->height, show_row, network);
  *maps = *shown;
  maps->height = network->maps.height;
  return GCONV_OK;
}

/* ---- Whole images ---- */

/* True if the image has the layout of a tensor without gaps, so that layers can write to it. */
static bool is_dense(const gconv_network_plan *network, const gconv_image *out) {
  size_t row = (size_t)network->out.width * sizeof(float);
  return out->height == network->out.height && out->row_bytes == row && out->plane_bytes == row * (size_t)out->height;
}

static gconv_status check_whole(const gconv_network_plan *network, const gconv_image *out) {
  if (network->by_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the plan is one by rows: use gconv_plan_execute_rows()");
  if (!gconv_presenter_presents(&network->presenter) && !is_dense(network, out))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the output has gaps between rows");
  return GCONV_OK;
}

/* Copies the first rows of every plane. */
static void copy_rows(const gconv_image *from, gconv_image *to) {
  size_t planes = (size_t)from->frames * (size_t)from->channels, bytes = (size_t)from->width * sizeof(float);
  for (size_t i = 0; i < planes; i++)
    for (size_t y = 0; y < (size_t)to->height; y++)
      memcpy((uint8_t *)to->data + i * to->plane_bytes + y * to->row_bytes,
             (const uint8_t *)from->data + i * from->plane_bytes + y * from->row_bytes, bytes);
}

/* Makes the presenter's outputs from maps: pictures, or arrays. */
static gconv_status put_outputs(const gconv_network_plan *network, const gconv_presenter *presenter, const gconv_image *in,
                                const gconv_image *maps, gconv_image *outputs, gconv_losses *losses) {
  if (!gconv_presenter_presents(presenter)) {
    copy_rows(maps, outputs);
    return GCONV_OK;
  }
  GCONV_TRY(gconv_present(presenter, network->base.device->threads, maps, outputs));
  GCONV_TRY(gconv_network_add_resized(network, presenter, in, 0, 0, maps, outputs));
  if (presenter->kind == GCONV_PRESENT_IMAGE)
    GCONV_TRY(gconv_image_copy_metadata(outputs, in));
  if (losses && !network->base.scope)
    gconv_presenter_watch(presenter, maps, 0, losses);
  return GCONV_OK;
}

/* Makes the further outputs of a graph, which come after the outputs of network->presenter. */
static gconv_status put_further(const gconv_network_plan *network, const gconv_image *in, gconv_image *outputs) {
  gconv_losses *losses = network->base.losses;
  const size_t before = gconv_presenter_outputs(&network->presenter);
  for (size_t i = 0; i < network->steps[0].further_count; i++) {
    const gconv_image maps = gconv_network_further_maps(network, i);
    GCONV_TRY(
        put_outputs(network, &network->further[i], in, &maps, outputs + before + i, losses ? losses + before + i : NULL));
  }
  return GCONV_OK;
}

/* Executes whole images. Layers write to the outputs if possible, else to the maps. */
static gconv_status run_whole(gconv_network_plan *network, const gconv_image *in, gconv_image *outputs,
                              gconv_timings *timings) {
  const bool direct = !gconv_presenter_presents(&network->presenter) && is_dense(network, outputs);
  if (!direct)
    GCONV_TRY(make_maps(network));
  GCONV_TRY(run_layers(network, in, false, 0, 0, direct ? outputs : &network->maps, timings));
  double start = gconv_now_ms();
  if (!direct) {
    gconv_image maps;
    GCONV_TRY(find_maps(network, &maps));
    GCONV_TRY(put_outputs(network, &network->presenter, in, &maps, outputs, network->base.losses));
  }
  GCONV_TRY(put_further(network, in, outputs));
  timings->finish_ms += gconv_now_ms() - start;
  return GCONV_OK;
}

static gconv_status execute(gconv_plan *plan, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  gconv_network_plan *network = (gconv_network_plan *)plan;
  GCONV_TRY(check_whole(network, outputs));
  return run_whole(network, in->image, outputs, timings);
}

/* ---- By rows ---- */

static int32_t row_step(const gconv_plan *plan) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  return network->by_rows ? network->out.height : 0;
}

/* Returns the row of the maps that becomes row `row` of the outputs in the current pass. */
static int32_t map_row_of(const gconv_network_plan *network, int32_t row) {
  return row - network->base.pass.first;
}

/* Finds the input rows that `count` output rows from `first` on need. For the gap below tiles, any row will do. */
static void rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  int64_t height = network->input.height, at, last;
  gconv_network_input_rows(network, map_row_of(network, first), &at, &last);
  at = at < 0 ? 0 : at < height ? at : height - 1; /* one row if only zeros are needed */
  last = last <= at ? at + 1 : last < height ? last : height;
  if (network->rows.first) { /* channels that do not go through the network */
    const int32_t bottom = first + count <= network->presenter.height ? first + count : network->presenter.height;
    const int64_t from = network->rows.first[first], to = network->rows.first[bottom - 1] + network->rows.taps;
    at = at < from ? at : from;
    last = last > to ? last : to;
  }
  if (network->bleeds) {
    at = at > GCONV_BLEED ? at - GCONV_BLEED : 0;
    last = last + GCONV_BLEED < height ? last + GCONV_BLEED : height;
  }
  *begin = (int32_t)at;
  *end = (int32_t)last;
}

/* Makes rows of the outputs from the maps' rows, which begin at row `first`, or gives these to the survey. */
static gconv_status present_rows(gconv_network_plan *network, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  gconv_presenter *presenter = &network->presenter;
  gconv_threads *threads = network->base.device->threads;
  double start = gconv_now_ms();
  int32_t left = presenter->height - first;
  gconv_image maps;
  GCONV_TRY(find_maps(network, &maps));
  maps.height = /* the wanted rows that are inside */
      left < outputs->height ? left : outputs->height;
  if (network->base.pass.surveys) {
    gconv_presenter_survey(presenter, threads, &maps, first);
    gconv_network_keep_maps(network, first, maps.height);
  } else
    gconv_present_rows(presenter, threads, &maps, network->base.pass.first / (presenter->height + GCONV_MOSAIC_GAP),
                       outputs);
  if (!network->base.pass.surveys && network->presenter.kind == GCONV_PRESENT_IMAGE)
    GCONV_TRY(gconv_network_add_resized(network, &network->presenter, window, window_row, first, &maps, outputs));
  if (network->base.losses && !network->base.scope && network->base.pass.first == 0 && !network->base.pass.surveys)
    gconv_presenter_watch(presenter, &maps, first, network->base.losses);
  timings->finish_ms += gconv_now_ms() - start;
  return GCONV_OK;
}

static gconv_status execute_with(gconv_network_plan *network, bool there, const gconv_image *window, int32_t window_row,
                                 int32_t first, gconv_image *outputs, gconv_timings *timings) {
  int32_t begin, end, map_row = map_row_of(network, first);
  if (outputs->height > network->out.height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d rows at a time, but the plan is for %d", outputs->height, network->out.height);
  rows_needed(&network->base, first, outputs->height, &begin, &end);
  gconv_image rows = *window; /* only the needed rows */
  rows.data = (uint8_t *)window->data + (size_t)(begin - window_row) * window->row_bytes;
  rows.height = end - begin;
  if (network->measures)
    return run_layers(network, &rows, there, begin, map_row, &(gconv_image){0}, timings);
  if (!gconv_presenter_presents(&network->presenter) && is_dense(network, outputs))
    return run_layers(network, &rows, there, begin, map_row, outputs, timings);
  GCONV_TRY(make_maps(network));
  if (map_row < network->presenter.height && /* else a gap between tiles */
      !gconv_network_take_maps(network, map_row, outputs->height))
    GCONV_TRY(run_layers(network, &rows, there, begin, map_row, &network->maps, timings));
  if (gconv_presenter_presents(&network->presenter))
    return present_rows(network, window, window_row, map_row, outputs, timings);
  copy_rows(&network->maps, outputs);
  return GCONV_OK;
}

static gconv_status execute_rows(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  return execute_with((gconv_network_plan *)plan, false, window, window_row, first, outputs, timings);
}

/* The window is the result of another stage. It has no alpha, which results would keep. */
static gconv_status execute_rows_there(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                       gconv_image *outputs, gconv_timings *timings) {
  return execute_with((gconv_network_plan *)plan, true, window, window_row, first, outputs, timings);
}

/* ---- Memory of the device ---- */

static gconv_status execute_device(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, void *stream) {
  gconv_network_plan *network = (gconv_network_plan *)plan;
  if (network->by_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the plan is one by rows: make one for whole images");
  if (!network->type->execute_device) /* a CPU's memory is the host's */
    return run_whole(network, in, outputs, &(gconv_timings){0});
  if (network->steps[0].further_count > 0)
    return gconv_fail(GCONV_UNSUPPORTED, "several outputs of a network are made in memory of the host: choose one");
  if (network->grays || gconv_presenter_presents(&network->presenter))
    return gconv_fail(GCONV_UNSUPPORTED, "grey and pictures are made on the host: execute from memory of the host");
  return network->type->execute_device(network->run, in, outputs, stream);
}

/* ---- Measuring ---- */

static gconv_status measure(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  return gconv_network_measure_at(plan, in, outputs, false, runs, milliseconds);
}

gconv_status gconv_network_measure_at(gconv_plan *plan, const gconv_image *in, gconv_image *out, bool warm, int runs,
                                      double *milliseconds) {
  gconv_network_plan *network = (gconv_network_plan *)plan;
  gconv_timings timings = {0};
  gconv_image seen, maps;
  GCONV_TRY(gconv_plan_fit_image(&plan->outputs[0], "the output", out));
  GCONV_TRY(check_whole(network, out));
  bool makes_maps = gconv_presenter_presents(&network->presenter);
  if (makes_maps)
    GCONV_TRY(make_maps(network));
  GCONV_TRY(begin_input(network, in, &seen, &timings));
  gconv_status status =
      network->type->measure(network->run, &seen, makes_maps ? &network->maps : out, warm, runs, milliseconds);
  gconv_network_unsee(network, &seen);
  if (status == GCONV_OK && makes_maps)
    status = find_maps(network, &maps);
  if (status == GCONV_OK && makes_maps)
    status = gconv_present(&network->presenter, plan->device->threads, &maps, out);
  if (status == GCONV_OK && makes_maps)
    status = gconv_network_add_resized(network, &network->presenter, in, 0, 0, &maps, out);
  return status;
}

/* ---- The table ---- */

static void free_network(gconv_plan *plan) {
  gconv_network_plan *network = (gconv_network_plan *)plan;
  if (network->type)
    network->type->release(network->run);
  for (size_t i = 0; i < network->count; i++) {
    gconv_solver_free(network->steps[i].solver);
    gconv_rolling_free(network->steps[i].rolling);
    gconv_graph_tiles_free(network->steps[i].tiles);
    free(network->steps[i].uncut);
    gconv_graph_plan_free(network->steps[i].graph);
    for (size_t k = 0; k < network->steps[i].further_count; k++)
      gconv_image_free(&network->steps[i].further[k]);
    free(network->steps[i].further);
  }
  for (size_t k = 0; network->further && k < network->steps[0].further_count; k++)
    gconv_presenter_free(&network->further[k]);
  free(network->further);
  gconv_network_forget_maps(network);
  gconv_image_free(&network->maps);
  gconv_image_free(&network->shown);
  gconv_resizing_free(&network->rows);
  gconv_resizing_free(&network->columns);
  gconv_presenter_free(&network->presenter);
  free(network->steps);
  free(network->input.mean);
  free(network->input.std);
  free(network->reasons);
  free(network);
}

static const gconv_layer_info *layer_info(const gconv_plan *plan, size_t layer) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  for (size_t i = 0; i < network->count; i++)
    if (network->steps[i].layer == layer && !network->steps[i].pads)
      return &network->steps[i].info;
  return NULL;
}

/* Counts the memory of maps even before the first execution, which allocates it. */
static size_t held_bytes(const gconv_plan *plan) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  if (!network->run || !network->type->held_bytes)
    return 0;
  size_t bytes = network->type->held_bytes(network->run);
  for (size_t i = 0; i < network->count; i++) {
    const gconv_step *step = &network->steps[i];
    const gconv_graph_plan *graph = step->tiles ? gconv_graph_tiles_plan(step->tiles) : step->graph;
    bytes += (step->solver ? step->solver->weight_count * sizeof(float) : 0) +
             (graph ? graph->arena_bytes + graph->folded_bytes : 0);
  }
  return bytes + (gconv_presenter_presents(&network->presenter) ? (size_t)gconv_pixel_bytes(&network->out) : 0);
}

/* Memory as float32: the input, two alternating buffers between layers, and the maps if they are not the output. With
 * verification, two doubles for each value of the input and of a layer's input and output. By rows, only the current rows of
 * each, with the widest layer in place of all layers. */
static void find_need(const gconv_plan *plan, gconv_need *need) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  const gconv_input *input = &network->input;
  const gconv_layer_info *last = &network->steps[network->count - 1].info;
  double in_row = 4.0 * input->images * input->channels * input->width, before = in_row * input->height;
  double between[2] = {0, 0}, widest = 0, workspace = 0, input_bytes = before;
  const double bled = network->bleeds ? gconv_pixel_bytes(&network->base.like) * (1 + 1.0 / network->base.like.channels) : 0;
  need->image = before + bled + (network->grays ? gconv_pixel_bytes(&network->seen) : 0);
  for (size_t i = 0, turn = 0; i < network->count; i++) {
    const gconv_layer_info *info = &network->steps[i].info;
    bool is_maps = network->combine == GCONV_COMBINE_NONE && i + 1 == network->count;
    double bytes = 4.0 * info->images * info->filters * info->out_width * info->out_height;
    between[turn] = fmax(between[turn], is_maps || network->steps[i].inner ? 0 : bytes);
    turn = network->steps[i].inner ? turn : 1 - turn; /* as in network_cpu.c: inner steps write neither of the two */
    need->fixed += network->steps[i].rolling ? (double)gconv_rolling_bytes(network->steps[i].rolling) : 0;
    widest = fmax(widest, is_maps && network->steps[i].graph ? 0 : bytes); /* a graph has its results in its own memory */
    need->verify = fmax(need->verify, 4 * (before + bytes) + 4 * input_bytes);
    before = bytes;
    workspace = fmax(workspace, (double)info->workspace_bytes);
    if (network->steps[i].graph) {
      const gconv_step *step = &network->steps[i];
      const gconv_graph_plan *made = step->tiles ? gconv_graph_tiles_plan(step->tiles) : step->graph;
      need->fixed += (double)made->arena_bytes + (double)made->weight_bytes + (double)made->constant_bytes;
      need->verify += 2 * (double)step->graph->arena_bytes + 2 * (double)made->constant_bytes;
      need->tiles = step->cut.rows > 0;
      need->repeats = gconv_network_measurings(network) > 0; /* if so, an image cannot go whole in tiles */
      const double most = need->repeats ? INFINITY : (double)step->cut.most;
      need->image += need->tiles ? fmin((double)step->graph->arena_bytes, most) : 0;
      for (size_t k = 0; k < step->further_count; k++)
        need->image += gconv_pixel_bytes(&step->further[k]);
      continue;
    }
    need->fixed += 2 * 4.0 * info->filters * info->channels / info->groups * info->rows * info->columns;
  }
  double map_row =
      4.0 * network->out.frames * (network->out.channels + (network->alphas ? 2 : network->greys)) * network->out.width;
  need->fixed += workspace * gconv_threads_count(network->base.device->threads);
  need->image += between[0] + between[1] + (gconv_presenter_presents(&network->presenter) ? map_row * last->out_height : 0);
  double scale = (double)input->height / last->out_height, layer_row = widest / last->out_height;
  double survey = gconv_presenter_surveys(&network->presenter) ? GCONV_SURVEY_BYTES : 0;
  need->row = scale * (in_row + bled / input->height) + 2 * layer_row + map_row;
  need->rows = survey * network->presenter.tiles;
  if (network->by_rows) {
    double halo = fmax(0, input->rows - scale * network->out.height);
    need->rows += halo * (in_row + layer_row);
  }
}

static const char *rows_obstacle(const gconv_plan *plan) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  return network->by_rows          ? NULL
         : network->steps[0].graph ? network->steps[0].uncut
                                   : "a layer of the network needs all rows of its input";
}

static void find_gpu_obstacle(const gconv_plan *plan, char *text, size_t size) {
  const gconv_step *step = &((const gconv_network_plan *)plan)->steps[0];
  *text = '\0';
  if (step->graph)
    gconv_graph_gpu_obstacle(step->graph, text, size);
}

const gconv_plan_type gconv_network_plan_type = {.find_gpu_obstacle = find_gpu_obstacle,
                                                 .bytes = sizeof(gconv_network_plan),
                                                 .free = free_network,
                                                 .execute = execute,
                                                 .row_step = row_step,
                                                 .rows_needed = rows_needed,
                                                 .execute_rows = execute_rows,
                                                 .execute_rows_there = execute_rows_there,
                                                 .leaves_out = true,
                                                 .passes = gconv_network_passes,
                                                 .begin_pass = gconv_network_begin_pass,
                                                 .execute_device = execute_device,
                                                 .held_bytes = held_bytes,
                                                 .measure = measure,
                                                 .explain = gconv_network_explain,
                                                 .verify = gconv_network_verify,
                                                 .layer_info = layer_info,
                                                 .find_need = find_need,
                                                 .rows_obstacle = rows_obstacle};
