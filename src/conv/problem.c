/* SPDX-License-Identifier: MIT */
/* Makes problems and their weights from the options of a user. */
#include "base/arguments.h"
#include "base/memory.h"
#include "conv/plan.h"

/* Limits of sizes along one axis. They keep sums and products of a few sizes within 64 bits. Explicit padding may be at most
 * MOST_PADDING times the span of image and filter, because outputs that only see padding are all equal. */
enum { LARGEST_EXTENT = 1 << 30, MOST_PADDING = 16 };

/* The most threads that a block has on any GPU. */
enum { LARGEST_BLOCK = 1024 };

static const size_t DEFAULT_WORKSPACE = (size_t)256 << 20;

gconv_options gconv_options_default(void) {
  return gconv_options_filled(&(gconv_options){0});
}

gconv_options gconv_options_filled(const gconv_options *options) {
  gconv_options filled = *options;
  int32_t *const ones[] = {&filled.stride_y, &filled.stride_x, &filled.dilation_y, &filled.dilation_x};
  for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
    if (*ones[i] == 0)
      *ones[i] = 1;
  if (filled.scale == 0)
    filled.scale = 1;
  if (!filled.algorithm)
    filled.algorithm = "auto";
  if (filled.least_weight == 0)
    filled.least_weight = 0x1p-10;
  return filled;
}

const char *gconv_border_name(gconv_border border) {
  static const char *const names[] = {"zero", "constant", "replicate", "symmetric", "reflect101", "wrap", "normalize"};
  return (size_t)border < sizeof names / sizeof names[0] ? names[border] : NULL;
}

const char *gconv_combine_name(gconv_combine combine) {
  static const char *const names[] = {"none", "magnitude", "sum", "max", "stack", "argmax"};
  return (size_t)combine < sizeof names / sizeof names[0] ? names[combine] : NULL;
}

static gconv_status check_mixing(const gconv_options *options) {
  if (options->mix == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_check_value("mix", options->mix, 1, 4));
  for (int c = 0; c < 4; c++)
    for (int d = 0; d < 4; d++)
      if (!isfinite(options->mixing[c][d]))
        return gconv_fail(GCONV_BAD_ARGUMENT, "mixing[%d][%d] is no finite number", c, d);
  if (options->gray || options->linear || options->alpha == GCONV_ALPHA_PREMULTIPLY || options->alpha == GCONV_ALPHA_DROP)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "channels are mixed as they are stored: without gray, linear light, and alpha that "
                      "is premultiplied or dropped");
  return GCONV_OK;
}

bool gconv_wants_weights(const gconv_options *options) {
  return options->nan != GCONV_NAN_KEEP || options->weights || options->sets_nodata || options->preserves ||
         options->border == GCONV_BORDER_NORMALIZE;
}

static gconv_status check_weights(const gconv_options *options) {
  GCONV_TRY(gconv_check_value("nan", options->nan, GCONV_NAN_KEEP, GCONV_NAN_ZERO));
  if (!(options->least_weight >= 0 && options->least_weight <= 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the least share of weights must be from 0 to 1, and is %g",
                      options->least_weight);
  if (!gconv_wants_weights(options))
    return GCONV_OK;
  const char *what = options->gray                                             ? "grey (--gray)"
                     : options->mix                                            ? "mixed channels"
                     : options->linear                                         ? "linear light (--linear)"
                     : options->alpha == GCONV_ALPHA_PREMULTIPLY               ? "premultiplied alpha (--alpha premultiply)"
                     : options->range == GCONV_RANGE_MINMAX                    ? "the range minmax"
                     : options->range == GCONV_RANGE_WRAP                      ? "the range wrap"
                     : options->sets_type && options->output_type == GCONV_I16 ? "results of i16"
                                                                               : NULL;
  return what ? gconv_fail(
                    GCONV_BAD_ARGUMENT,
                    "missing samples, weights, the border normalize and std, variance, contrast work on samples as they "
                    "are stored, and not with %s: apply that after them, by --then -f identity, or in a run of its own",
                    what)
              : GCONV_OK;
}

gconv_status gconv_options_check(const gconv_options *options) {
  GCONV_NEED_KNOWN(options);
  GCONV_TRY(gconv_check_value("border", options->border, GCONV_BORDER_ZERO, GCONV_BORDER_NORMALIZE));
  GCONV_TRY(check_weights(options));
  GCONV_TRY(gconv_check_value("padding", options->padding, GCONV_PADDING_SAME, GCONV_PADDING_EXPLICIT));
  GCONV_TRY(gconv_check_value("alpha", options->alpha, GCONV_ALPHA_KEEP, GCONV_ALPHA_DROP));
  GCONV_TRY(gconv_check_value("combine", options->combine, GCONV_COMBINE_NONE, GCONV_COMBINE_STACK));
  GCONV_TRY(gconv_check_scaling(options->scale, options->offset, options->range, options->output_type));
  GCONV_TRY(check_mixing(options));
  if (options->range == GCONV_RANGE_WRAP && (options->linear || options->alpha == GCONV_ALPHA_PREMULTIPLY))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the range wrap is for samples as they are stored: it goes with neither linear "
                                          "light nor premultiplied alpha");
  GCONV_TRY(gconv_check_value("stride (vertical)", options->stride_y, 1, LARGEST_EXTENT));
  GCONV_TRY(gconv_check_value("stride (horizontal)", options->stride_x, 1, LARGEST_EXTENT));
  GCONV_TRY(gconv_check_value("dilation (vertical)", options->dilation_y, 1, LARGEST_EXTENT));
  GCONV_TRY(gconv_check_value("dilation (horizontal)", options->dilation_x, 1, LARGEST_EXTENT));
  if (options->padding == GCONV_PADDING_EXPLICIT) {
    GCONV_TRY(gconv_check_value("padding (top)", options->pad_top, 0, LARGEST_EXTENT));
    GCONV_TRY(gconv_check_value("padding (bottom)", options->pad_bottom, 0, LARGEST_EXTENT));
    GCONV_TRY(gconv_check_value("padding (left)", options->pad_left, 0, LARGEST_EXTENT));
    GCONV_TRY(gconv_check_value("padding (right)", options->pad_right, 0, LARGEST_EXTENT));
  }
  GCONV_TRY(gconv_check_value("block width", options->block_width, 0, LARGEST_BLOCK));
  GCONV_TRY(gconv_check_value("block height", options->block_height, 0, LARGEST_BLOCK));
  if (options->block_width * options->block_height > LARGEST_BLOCK ||
      (options->block_width == 0) != (options->block_height == 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "a block of %d x %d threads: the product must be 1 to %d, or both sides 0",
                      options->block_width, options->block_height, LARGEST_BLOCK);
  GCONV_TRY(gconv_check_value("blocks of the grid", options->grid_blocks, 0, INT32_MAX));
  if (!isfinite(options->border_value))
    return gconv_fail(GCONV_BAD_ARGUMENT, "border_value must be a finite number, and is %g", options->border_value);
  return GCONV_OK;
}

/* Resolves one axis: the padding before the first pixel, the dilated anchor, and the number of outputs. */
static gconv_status resolve_axis(const gconv_options *options, const char *axis, int32_t size, int32_t taps, int32_t anchor,
                                 int32_t stride, int32_t dilation, int32_t before, int32_t after, int32_t *pad,
                                 int32_t *dilated_anchor, int32_t *outputs) {
  int64_t extent = (int64_t)(taps - 1) * dilation + 1, count;
  if (extent > LARGEST_EXTENT)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a filter of %s %d with dilation %d spans more than %d pixels", axis, taps,
                      dilation, LARGEST_EXTENT);
  if (options->padding != GCONV_PADDING_EXPLICIT)
    before = after = options->padding == GCONV_PADDING_FULL ? (int32_t)(extent - 1) : 0;
  else if (before > MOST_PADDING * (size + extent) || after > MOST_PADDING * (size + extent))
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "a padding of %d (%s): beyond %lld pixels, the filter sees nothing of the image; more than %lld are refused",
        before > after ? before : after, axis, (long long)extent - 1, (long long)(MOST_PADDING * (size + extent)));
  bool same = options->padding == GCONV_PADDING_SAME;
  int64_t reach = (int64_t)size + before + after - extent; /* pixels from the first place of the filter to the last */
  *dilated_anchor = anchor * dilation;
  *pad = same ? *dilated_anchor : before;
  count = same ? ((int64_t)size - 1) / stride + 1 : reach < 0 ? 0 : reach / stride + 1;
  if (count < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "padding %s leaves no output: the filter spans %lld pixels of %s, the image has %d; pad more, or use "
                      "padding same",
                      options->padding == GCONV_PADDING_VALID ? "valid" : "as given", (long long)extent, axis, size);
  if (count > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "the output would have %s %lld, the largest is %d", axis, (long long)count,
                      INT32_MAX);
  *outputs = (int32_t)count;
  return GCONV_OK;
}

/* ---- Taps that lie outside the image at every output ---- */

/* The taps along one axis that are needed: numbers first .. first + count - 1. */
typedef struct span {
  int32_t first, count;
} span;

/* Finds the taps that lie on the image at some output. Taps between them and the anchor are kept, too. */
static span find_span(int32_t size, int32_t outputs, int32_t stride, int32_t dilation, int32_t pad, int32_t dilated_anchor,
                      int32_t taps) {
  int64_t anchor = dilated_anchor / dilation, least = pad - (int64_t)(outputs - 1) * stride; /* bounds of tap * dilation */
  int64_t first = least <= 0 ? 0 : (least + dilation - 1) / dilation, last = ((int64_t)size - 1 + pad) / dilation;
  first = first < pad / dilation ? first : pad / dilation; /* so that the padding does not become negative */
  first = first < anchor ? first : anchor;
  last = last > anchor ? last : anchor;
  last = last < taps - 1 ? last : taps - 1;
  return (span){(int32_t)first, (int32_t)(last - first + 1)};
}

/* Leaves out the taps that lie on zeros only, for a filter far larger than the image. Each product left out is +0 or -0,
 * because taps are finite. Such products only change the sign of a sum of 0, and the epilogue does not show that sign
 * (pixel.h): its offset is never -0. */
static void crop(gconv_problem *problem, span *down, span *across) {
  *down = (span){0, problem->rows};
  *across = (span){0, problem->columns};
  bool zero =
      problem->border == GCONV_BORDER_ZERO || (problem->border == GCONV_BORDER_CONSTANT && problem->border_level == 0.0f);
  if (!zero)
    return;
  *down = find_span(problem->height, problem->out_height, problem->stride_y, problem->dilation_y, problem->pad_top,
                    problem->anchor_y, problem->rows);
  *across = find_span(problem->width, problem->out_width, problem->stride_x, problem->dilation_x, problem->pad_left,
                      problem->anchor_x, problem->columns);
  problem->rows = down->count;
  problem->columns = across->count;
  problem->pad_top -= down->first * problem->dilation_y;
  problem->anchor_y -= down->first * problem->dilation_y;
  problem->pad_left -= across->first * problem->dilation_x;
  problem->anchor_x -= across->first * problem->dilation_x;
}

/* ---- Rims that are no taps ---- */

static bool is_line_of_marks(const float *tap, int64_t count, int64_t step) {
  while (count > 0 && gconv_is_mark(*tap)) {
    count--;
    tap += step;
  }
  return count == 0;
}

/* Returns whether a row or column at the rim of the needed taps has only marks, in all filters. `side` is 0 for the first
 * row, 1 for the last row, 2 for the first column, 3 for the last column. */
static bool is_rim(const gconv_filter *filters, size_t count, bool flip, const span *down, const span *across, int side) {
  for (size_t k = 0; k < count; k++) {
    const gconv_filter *f = &filters[k];
    const int64_t last = (int64_t)f->rows * f->columns - 1;
    int64_t row = side == 1 ? down->first + down->count - 1 : down->first;
    int64_t column = side == 3 ? across->first + across->count - 1 : across->first;
    int64_t tap = row * f->columns + column, step = side < 2 ? 1 : f->columns;
    if (!is_line_of_marks(f->taps + (flip ? last - tap : tap), side < 2 ? across->count : down->count, flip ? -step : step))
      return false;
  }
  return true;
}

/* Leaves out rows and columns at the rim that have no taps in any of the filters. The anchor's row and column stay. So the
 * identity, whatever its size, is one tap, and no NaN beside it spoils its result. No padding becomes negative. */
static void trim(const gconv_filter *filters, size_t count, bool flip, gconv_problem *problem, span *down, span *across) {
  const span all_down = *down, all_across = *across;
  int32_t anchor_row = problem->anchor_y / problem->dilation_y, anchor_column = problem->anchor_x / problem->dilation_x;
  const int32_t most_down = problem->pad_top / problem->dilation_y, most_across = problem->pad_left / problem->dilation_x;
  for (; anchor_row > 0 && down->first - all_down.first < most_down && is_rim(filters, count, flip, down, across, 0);
       anchor_row--)
    *down = (span){down->first + 1, down->count - 1};
  for (; anchor_row < down->count - 1 && is_rim(filters, count, flip, down, across, 1);)
    down->count--;
  for (;
       anchor_column > 0 && across->first - all_across.first < most_across && is_rim(filters, count, flip, down, across, 2);
       anchor_column--)
    *across = (span){across->first + 1, across->count - 1};
  for (; anchor_column < across->count - 1 && is_rim(filters, count, flip, down, across, 3);)
    across->count--;
  problem->rows = down->count;
  problem->columns = across->count;
  problem->pad_top -= (down->first - all_down.first) * problem->dilation_y;
  problem->anchor_y -= (down->first - all_down.first) * problem->dilation_y;
  problem->pad_left -= (across->first - all_across.first) * problem->dilation_x;
  problem->anchor_x -= (across->first - all_across.first) * problem->dilation_x;
}

gconv_epilogue gconv_make_epilogue(const gconv_options *options, gconv_type in, gconv_type out) {
  double white_in = gconv_white(in), white_out = gconv_white_of_result(in, out),
         scale = options->scale * white_out / white_in;
  gconv_epilogue epilogue = {
      .combine = options->combine, .scale = (float)scale, .offset = (float)(options->offset * white_out) + 0.0f};
  epilogue.alpha_scale = (float)(white_out / white_in);
  if (in != GCONV_F32) {
    epilogue.scale_low = (float)(scale - (double)epilogue.scale);
    epilogue.alpha_scale_low = (float)(white_out / white_in - (double)epilogue.alpha_scale);
  }
  epilogue.absolute = options->range == GCONV_RANGE_ABS;
  epilogue.center = options->range == GCONV_RANGE_SIGNED;
  epilogue.middle = (float)(white_out / 2);
  epilogue.wrap = options->range == GCONV_RANGE_WRAP;
  return epilogue;
}

static void copy_taps(const gconv_filter *filter, bool flip, span down, span across, float *to) {
  size_t columns = (size_t)filter->columns, last = (size_t)filter->rows * columns - 1;
  for (int32_t r = 0; r < down.count; r++)
    for (int32_t s = 0; s < across.count; s++) {
      size_t tap = (size_t)(down.first + r) * columns + (size_t)(across.first + s);
      *to++ = filter->taps[flip ? last - tap : tap];
    }
}

/* Writes taps (rotated by 180 degrees if asked for, then cropped), divisors and biases of all filters, as in problem.h. */
static gconv_status make_weights(const gconv_filter *filters, const gconv_problem *problem, bool flip, span down,
                                 span across, float **result) {
  size_t plane = (size_t)problem->rows * (size_t)problem->columns, count = (size_t)problem->filters;
  size_t bytes = gconv_checked_product(3, (size_t[]){plane + 2, count, sizeof(float)});
  void *memory = NULL;
  if (bytes < SIZE_MAX - 64)
    bytes = (size_t)gconv_weight_floats(problem) * sizeof(float);
  GCONV_TRY(gconv_allocate(bytes, "the weights", &memory));
  float *weights = memory, *divisors = weights + plane * count, *biases = divisors + count;
  for (size_t k = 0; k < count; k++) {
    copy_taps(&filters[k], flip, down, across, weights + k * plane);
    divisors[k] = filters[k].divisor;
    biases[k] = filters[k].offset;
  }
  *result = weights;
  return GCONV_OK;
}

gconv_status gconv_problem_create(const gconv_image *like, const gconv_filter *filters, size_t count,
                                  const gconv_options *options, gconv_problem *result, float **weights) {
  const gconv_filter *filter = &filters[0];
  gconv_problem problem = {
      .in_type = like->type,
      .out_type = options->sets_type ? options->output_type : like->type,
      .images = like->frames,
      .planes = like->planar ? like->channels : 1,
      .channels = like->planar ? 1 : like->channels,
      .keep_alpha = like->alpha && !like->planar && options->alpha == GCONV_ALPHA_KEEP,
      .height = like->height,
      .width = like->width,
      .filters = (int32_t)count,
      .rows = filter->rows,
      .columns = filter->columns,
      .stride_y = options->stride_y,
      .stride_x = options->stride_x,
      .dilation_y = options->dilation_y,
      .dilation_x = options->dilation_x,
      .border = options->border,
      .block_width = options->block_width,
      .block_height = options->block_height,
      .grid_blocks = options->grid_blocks,
  };
  problem.workspace_limit = options->workspace_bytes ? options->workspace_bytes : DEFAULT_WORKSPACE;
  if (options->border == GCONV_BORDER_CONSTANT)
    problem.border_level = (float)(options->border_value * (double)gconv_white(like->type));
  int32_t anchor_row = options->flip ? filter->rows - 1 - filter->anchor_row : filter->anchor_row;
  int32_t anchor_column = options->flip ? filter->columns - 1 - filter->anchor_column : filter->anchor_column;
  GCONV_TRY(resolve_axis(options, "height", like->height, filter->rows, anchor_row, options->stride_y, options->dilation_y,
                         options->pad_top, options->pad_bottom, &problem.pad_top, &problem.anchor_y, &problem.out_height));
  GCONV_TRY(resolve_axis(options, "width", like->width, filter->columns, anchor_column, options->stride_x,
                         options->dilation_x, options->pad_left, options->pad_right, &problem.pad_left, &problem.anchor_x,
                         &problem.out_width));
  problem.epilogue = gconv_make_epilogue(options, problem.in_type, problem.out_type);
  if (!isfinite(problem.epilogue.scale) || !isfinite(problem.epilogue.offset) || !isfinite(problem.border_level))
    return gconv_fail(GCONV_BAD_ARGUMENT, "scale, offset or border value is too large for float32");
  span down, across;
  crop(&problem, &down, &across);
  if (like->type == GCONV_F32) /* integers are finite */
    trim(filters, count, options->flip, &problem, &down, &across);
  GCONV_TRY(make_weights(filters, &problem, options->flip, down, across, weights));
  *result = problem;
  return GCONV_OK;
}
