/* SPDX-License-Identifier: MIT */
#include "batch/explain.h"
#include "batch/devices.h"
#include "batch/layout.h"
#include "operation/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void explain_png(const gconv_batch *batch, const gconv_plan *plan, FILE *text) {
  const gconv_outputs *outputs = batch->outputs;
  char *const *first = outputs->paths.items + outputs->first[0]; /* the results of the first input */
  bool may = gconv_gpu_makes_png(batch) && gconv_gpu_may_send_parts(batch, first, outputs->first[1] - outputs->first[0]);
  size_t bytes = may ? gconv_plan_png_bytes(plan) : 0;
  if (bytes > 0)
    fprintf(text, "PNG made by %s, which takes %.3g MB more there; strips that repeat themselves by the CPU\n",
            gconv_plan_get_info(plan)->device, (double)bytes * 1e-6);
  else if (strcmp(outputs->format->name, "png") == 0)
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
  char *explanation = NULL;
  size_t size = 0;
  GCONV_TRY(gconv_plan_explain(plan, &explanation));
  if (strcmp(gconv_plan_get_info(plan)->device, "cpu") == 0) {
    *result = explanation;
    return GCONV_OK;
  }
  *result = NULL;
  FILE *text = open_memstream(result, &size);
  if (text) {
    fputs(explanation, text);
    explain_jpeg(batch, plan, text);
    explain_png(batch, plan, text);
  }
  free(explanation);
  if (text && fclose(text) == 0)
    return GCONV_OK;
  free(*result);
  *result = NULL;
  return gconv_set_error(GCONV_NO_MEMORY, "no memory for an explanation");
}

/* ---- Without a run ---------------------------------------------------------------------------------------------------- */

/* Whether the first image is kept to the exact family, so that either device may take it. */
static bool is_either(gconv_devices *devices, const gconv_operation *operation, const gconv_image *header) {
  gconv_device *cpu = NULL;
  gconv_plan *plan = NULL;
  bool either = gconv_devices_are_open(devices) && operation->type->keep_exact &&
                gconv_devices_cpu(devices, 0, &cpu) == GCONV_OK &&
                gconv_plan_outline(cpu, header, operation, 0, &plan) == GCONV_OK && gconv_plan_get_info(plan)->exact;
  gconv_plan_free(plan);
  return either;
}

static gconv_status explain_plan(const gconv_batch *batch, gconv_devices *devices, gconv_device *device,
                                 const gconv_image *header, char **text) {
  gconv_operation *exact = NULL;
  gconv_plan *plan = NULL;
  gconv_status status = GCONV_OK;
  if (is_either(devices, batch->operation, header))
    status = batch->operation->type->keep_exact(batch->operation, &exact);
  if (status == GCONV_OK)
    status = gconv_plan_create(device, header, exact ? exact : batch->operation, 0, &plan);
  if (status == GCONV_OK)
    status = gconv_batch_explain(batch, plan, text);
  gconv_plan_free(plan);
  gconv_operation_free(exact);
  return status;
}

/* On the device that the run would have. */
static gconv_status explain_header(const gconv_batch *run, const gconv_image *header, char **text, char reason[192],
                                   gconv_message *message) {
  gconv_batch batch = *run;
  gconv_devices *devices = NULL;
  gconv_device *device = NULL;
  batch.only_explained = true;
  GCONV_TRY(gconv_devices_begin(&batch, gconv_threads_allowed(batch.threads), 1, &devices, message));
  gconv_status status = gconv_devices_wait(devices, 0, &device, message);
  if (status == GCONV_OK) {
    status = explain_plan(&batch, devices, device, header, text);
    snprintf(reason, 192, "%s", gconv_devices_reason(devices));
    if (status != GCONV_OK)
      gconv_complain(message, status, "%s", gconv_last_error());
  }
  gconv_devices_close(devices);
  return status;
}

gconv_status gconv_batch_explain_first(const gconv_batch *batch, char **text, char reason[192], gconv_message *message) {
  gconv_image header = {0};
  gconv_status status = gconv_image_read_header(batch->inputs->items[0].path, &header, NULL);
  if (status != GCONV_OK)
    return gconv_complain(message, status, "%s", gconv_last_error());
  if (batch->nhwc)
    gconv_header_to_nchw(&header);
  status = explain_header(batch, &header, text, reason, message);
  gconv_image_free(&header);
  return status;
}
