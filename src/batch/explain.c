/* SPDX-License-Identifier: MIT */
/* The text of --explain: the plan, and which processor decodes JPEG and makes PNG. */
#include "base/memory.h"
#include "batch/execute.h"
#include "batch/worth.h"

#include <string.h>

static void explain_png(const gconv_batch *batch, const gconv_plan *plan, FILE *text) {
  const gconv_outputs *outputs = batch->outputs;
  const gconv_format_info *format = outputs->formats[outputs->first[0]];
  char *const *first = outputs->paths.items + outputs->first[0]; /* the results of the first input */
  bool may =
      gconv_gpu_makes_png(batch, format) && gconv_gpu_may_send_parts(batch, first, outputs->first[1] - outputs->first[0]);
  size_t bytes = may ? gconv_plan_png_bytes(plan) : 0;
  if (bytes > 0)
    fprintf(text, "PNG made by %s, which takes %.3g MB more there; the CPU makes strips that repeat themselves\n",
            gconv_plan_get_info(plan)->device, (double)bytes * 1e-6);
  else if (strcmp(format->name, "png") == 0)
    fprintf(text, "PNG made by the CPU\n");
}

static void explain_jpeg(const gconv_batch *batch, const gconv_plan *plan, FILE *text) {
  if (batch->decoder != GCONV_DECODER_GPU)
    return;
  if (!gconv_gpu_may_decode(batch)) {
    fprintf(text, "JPEG decoded by the CPU, as pixels are wanted there\n");
    return;
  }
  fprintf(text, "JPEG decoded by %s, if it is baseline, once that has started its decoder; until then %s\n",
          gconv_plan_get_info(plan)->device,
          batch->cpu_may_begin ? "the CPU decodes, and, where it makes the same bits, takes whole images"
                               : "the CPU decodes");
}

gconv_status gconv_batch_explain(const gconv_batch *batch, const gconv_plan *plan, char **result) {
  GCONV_FREED char *explanation = NULL;
  size_t size = 0;
  GCONV_TRY(gconv_plan_explain(plan, &explanation));
  *result = NULL;
  FILE *out = open_memstream(result, &size);
  GCONV_NEED_MEMORY(out, "no memory for an explanation");
  fputs(explanation, out);
  if (strcmp(gconv_plan_get_info(plan)->device, "cpu") != 0) {
    explain_jpeg(batch, plan, out);
    explain_png(batch, plan, out);
  }
  GCONV_NEED_MEMORY(gconv_close_text(out, result), "no memory for an explanation");
  return GCONV_OK;
}
