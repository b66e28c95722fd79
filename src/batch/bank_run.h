/* SPDX-License-Identifier: MIT */
/* What the parts of a bank job share: banks.c runs it, bank_batches.c cuts it into batches, bank_load.c decodes them,
 * bank_write.c and bank_tensor.c write what becomes of them, bank_bands.c carries large images by rows, in passes
 * (bank_pass.c), bank_device.c has the device and the network on it, bank_memory.c knows what all that takes, bank_done.c
 * what is done already, and bank_report.c tells of it. */
#ifndef GCONV_BATCH_BANK_RUN_H
#define GCONV_BATCH_BANK_RUN_H

#include "batch/banks.h"

#include <pthread.h>

/* Consecutive entries of run.order: images of one shape, or one array of several frames. */
typedef struct gconv_bank_group {
  size_t first, count;
  int32_t rows;        /* of the maps at a time, of one image that goes by bands; 0: all */
  size_t writers;      /* results that are written at a time then */
  bool whole;          /* its input is read whole nevertheless */
  double bytes;        /* of memory that it takes at work, roughly ... */
  double loading;      /* ... and while it is decoded */
  char *refused;       /* why it takes more memory than it may; owned */
  const char *because; /* what the device said that has no memory for all of it, so that it goes by bands; else NULL */
} gconv_bank_group;

/* A batch in memory. */
typedef struct gconv_bank_loaded {
  const gconv_bank_group *batch;
  gconv_image image;     /* of all that could be read */
  size_t *inputs;        /* [batch->count]: the number of each that could be read ... */
  int32_t *first_frames; /* ... and where it begins; one more ends the last */
  double *decode_ms;
  size_t count;       /* how many could be read */
  gconv_texts errors; /* of those that could not, each with its input in `failed` */
  size_t *failed;
} gconv_bank_loaded;

typedef struct gconv_bank_run {
  const gconv_bank_batch *job;
  gconv_batch_summary *summary;
  double begin_ms;
  int threads;
  gconv_device *planner; /* a CPU, for what can be told before the device is there */
  gconv_device *device;
  gconv_device_opening *opening;
  gconv_device_choice choice;
  gconv_image *headers;    /* [inputs]: without frames where they cannot be read */
  uint64_t memory;         /* what the job may take */
  gconv_finding *findings; /* [outputs]: what the manifest knows of them; NULL without one */
  gconv_print *prints;     /* [inputs]: likewise */
  size_t *order;           /* inputs, those of one shape together */
  size_t order_count;
  gconv_bank_group *batches;
  size_t batch_count;
  gconv_network *network;
  gconv_device *at;         /* the device that the network is on */
  int32_t rows;             /* of the maps, that the network was asked to make at a time; 0: all */
  int32_t asked, part;      /* frames that it was asked to take, and those that it takes at a time */
  char remark[512];         /* why it is not on the device of the run, or does less at a time; "" if neither is so */
  gconv_image maps;         /* what the network yields, or what it yielded for all parts of the batch */
  int32_t frame;            /* the next one of the one tensor */
  bool cold;                /* the network was made for this batch */
  bool explained;           /* the user was told what a network does (--explain) */
  size_t told;              /* results of which reports told so far */
  gconv_row_writer *writer; /* of the one tensor */
  gconv_message why;        /* why the whole run failed */
} gconv_bank_run;

/* ---- bank_batches.c ---- */

/* What one image of a shape takes, told by a network for the CPU. */
typedef struct gconv_bank_cost {
  double tensors;      /* bytes of all that are there at a time */
  double buffers;      /* bytes of workspaces and weights, for any number of images */
  double verification; /* bytes of --verify */
  double reader;       /* bytes that reading its file takes besides the pixels */
  double cpu_ms, gpu_ms;
  int32_t rows;              /* of its maps */
  double maps;               /* how many there are */
  double map_row, layer_row; /* bytes of a row of its maps, of all of them; and of the layer whose row has most */
  double scale, halo;        /* input rows that `n` rows of the maps need: scale * n + halo */
} gconv_bank_cost;

/* Reads all headers; one that cannot be read has no frames, and its failure shows when it is decoded. Standard input is not
 * looked into. */
void gconv_bank_read_headers(gconv_bank_run *r);

/* Whether what goes into one array has one shape. */
gconv_status gconv_bank_check_one_shape(const gconv_bank_run *r, gconv_message *message);

/* Puts inputs of one shape together, in their order, and cuts them into batches; adds up what they take. Those whose results
 * are there already are reported at once. One tensor has all in their order: there, only neighbours are put together. */
gconv_status gconv_bank_make_batches(gconv_bank_run *r, gconv_bank_cost *total, gconv_message *message);

/* ---- bank_report.c ---- */

/* The last error as a message, where there is one. */
gconv_status gconv_bank_keep_text(gconv_message *why, gconv_status status);
/* Adds what failed, with the path that it is about before it. */
void gconv_bank_add_error(gconv_texts *errors, const char *path, gconv_status status, const char *why);

/* The report of an input on which nothing was done yet. */
gconv_report gconv_bank_begin_report(const gconv_bank_run *r, size_t input, const gconv_texts *errors);
/* What the network does with `images` images like `header`, for the report of one. */
void gconv_bank_describe(const gconv_bank_run *r, const gconv_image *header, int32_t images, gconv_plan_info *plan);
/* Counts it, and tells the user of the run. */
void gconv_bank_hand_in(gconv_bank_run *r, gconv_report *report);

/* ---- bank_device.c ---- */

/* Chooses the device, and begins to open it. */
gconv_status gconv_bank_begin_device(gconv_bank_run *r, const gconv_bank_cost *total, gconv_message *message);
/* Until it is open. */
gconv_status gconv_bank_wait_for_device(gconv_bank_run *r);
bool gconv_bank_on_gpu(const gconv_bank_run *r);

/* Makes the network one for images like `like`: on a GPU without memory for so many, for half as many at a time, and so on;
 * where it has none for one, it is one for the CPU, or with `bands_may` GCONV_NO_MEMORY. */
gconv_status gconv_bank_whole_network(gconv_bank_run *r, const gconv_image *like, bool bands_may);
/* Makes it one of up to `rows` rows of the maps at a time: fewer, where the device has no memory for them, and on the CPU,
 * where it has none for few. */
gconv_status gconv_bank_rows_network(gconv_bank_run *r, const gconv_image *like, int32_t rows);
void gconv_bank_drop_network(gconv_bank_run *r);

/* ---- bank_memory.c ---- */

enum { GCONV_BANK_LEAST_ROWS = 16 }; /* of the maps in a band, however little memory there is */

/* What the job takes for images like `header`. cost->reader is that of files which are read by rows. */
gconv_status gconv_bank_find_cost(const gconv_bank_run *r, const gconv_image *header, gconv_bank_cost *cost);
/* Makes cost->reader that of the file which takes most, of some inputs. */
void gconv_bank_find_reader(const gconv_bank_run *r, const size_t *inputs, size_t count, gconv_bank_cost *cost);

/* Decides how input `input`, one of `alike` images of a shape, is done: all of *group but where it begins. GCONV_TOO_LARGE
 * if the memory does not suffice. */
gconv_status gconv_bank_choose_cut(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost,
                                   size_t input, size_t alike, gconv_bank_group *group, gconv_message *why);

/* Whether an image can go by bands of rows. */
bool gconv_bank_may_go_by_bands(const gconv_bank_run *r, size_t input, const gconv_image *header);

/* The same as gconv_bank_choose_cut() for one in memory whose device has no room for all of it: by bands, as it may. */
gconv_status gconv_bank_cut_for_device(const gconv_bank_run *r, size_t input, const gconv_image *header,
                                       gconv_bank_group *group, gconv_message *why);

/* ---- bank_done.c ---- */

/* Finds out what is done, by the manifest. */
gconv_status gconv_bank_look_up(gconv_bank_run *r, gconv_message *message);
/* Whether result number `n` of an input is done, or there and kept (--skip-existing). */
bool gconv_bank_is_done(const gconv_bank_run *r, size_t input, size_t n);
/* Counts all results of an input as failed, but those that are done as passed over: nothing became of it. */
void gconv_bank_fail_all(const gconv_bank_run *r, size_t input, gconv_report *report);
/* Whether nothing is to be made of an input: then it is reported. */
bool gconv_bank_pass_over(gconv_bank_run *r, size_t input);
/* Notes that a result is written, and reads all of it for that. Thread-safe. One that cannot be noted is one all the same:
 * it would be made again. */
gconv_status gconv_bank_note(const gconv_bank_run *r, size_t input, const char *path, gconv_message *why);

/* ---- bank_load.c ---- */

/* The batch after the one at work, decoded in a thread of its own. */
typedef struct gconv_bank_loader {
  const gconv_bank_run *r;
  const gconv_bank_group *batch;
  gconv_bank_loaded result;
  gconv_status status;
  gconv_message why;
  pthread_t thread;
  bool started;
} gconv_bank_loader;

/* Copies an image's planes behind each other. */
void gconv_bank_copy_frame(const gconv_image *from, gconv_image *to, int32_t frame);

/* Begins to decode batch number `batch`, if there is memory for it beside the one before, which is at work; past the end,
 * nothing. *loader stays where it is until the end. */
void gconv_bank_begin_loading(const gconv_bank_run *r, size_t batch, gconv_bank_loader *loader);
/* Waits for it, or decodes it now. *result is to be unloaded in any case. */
gconv_status gconv_bank_end_loading(gconv_bank_loader *loader, gconv_bank_loaded *result, gconv_message *why);
void gconv_bank_unload(gconv_bank_loaded *loaded);

/* ---- bank_write.c, bank_tensor.c ---- */

/* Presents and writes all results of a batch, whose maps are there. What fails is in the reports and errors, [l->count]. */
gconv_status gconv_bank_write_batch(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_report *reports,
                                    gconv_texts *errors);

/* Opens an array for `frames` images with maps of this shape. */
gconv_status gconv_bank_array_open(const gconv_bank_run *r, const char *path, const gconv_image *maps, int32_t frames,
                                   gconv_row_writer **writer);
/* Adds rows of the maps of a frame, the first of which is row `first`; all rows, where the array is sent to a pipe. */
gconv_status gconv_bank_array_add(const gconv_bank_run *r, gconv_row_writer *writer, int32_t frame, const gconv_image *rows,
                                  int32_t first);
/* Adds `count` frames of the maps from `first` on, which become those from `to` on. */
gconv_status gconv_bank_array_add_frames(const gconv_bank_run *r, gconv_row_writer *writer, int32_t to,
                                         const gconv_image *maps, int32_t first, int32_t count);

/* Opens the one tensor, if that was not done: its frames are those of all inputs. */
gconv_status gconv_bank_tensor_open(gconv_bank_run *r, const gconv_image *maps);
/* The one tensor appears if nothing failed. */
gconv_status gconv_bank_tensor_finish(gconv_bank_run *r, gconv_message *message);

/* ---- bank_bands.c ---- */

/* Carries an image from file to file by bands, and reports it. `whole`: it is in memory; else NULL. */
void gconv_bank_process_bands(gconv_bank_run *r, const gconv_bank_group *group, size_t input, const gconv_image *whole);

#endif
