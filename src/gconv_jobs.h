/* SPDX-License-Identifier: MIT */
/*
 * Jobs: one operation on many images, from files to files, as the command line does it. A job is a gconv_batch. These are
 * the steps; shards and the manifest are optional:
 *
 *     gconv_inputs_find()    which images
 *     gconv_outputs_name()   the name of every result
 *     gconv_outputs_check()  whether a result would replace an input or another result
 *     gconv_shard_take()     the part of the images that this machine does
 *     gconv_manifest_open()  what an earlier run has already done
 *     gconv_batch_run()      reads, filters and writes; or gconv_batch_explain_first(), which says what it would do
 *
 * The rules of gconv.h hold here, with one difference. A function that can fail takes a gconv_message, and the reason of a
 * failure is there, not in gconv_last_error(): a job works on many threads.
 */
#ifndef GCONV_JOBS_H
#define GCONV_JOBS_H

#include "gconv.h"

GCONV_API_BEGIN

/* ---- Messages and lists of texts ----------------------------------------------------------------------------------- */

/* Why something failed: one or a few sentences without a final newline. Only failures set it. */
typedef struct gconv_message {
  char text[10240]; /* as long as gconv_last_error() may be */
} gconv_message;

/* Sets the text, cut where it is too long, and returns `status`: for a caller's own failures. `format` is as in printf();
 * the arguments may point into the old text. */
gconv_status gconv_complain(gconv_message *message, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);

/* A growing list of strings. Zero-initialise before first use. */
typedef struct gconv_texts {
  char **items; /* owned, as are the strings */
  size_t count;
} gconv_texts;

/* Appends `text`, which comes from malloc(), and owns it from then on, even after a failure. Returns false if there is no
 * memory, or if `text` is NULL: so gconv_texts_add(list, strdup(x)) needs only one check. */
bool gconv_texts_add(gconv_texts *texts, char *text);

/* Frees all and zeroes the list. */
void gconv_texts_free(gconv_texts *texts);

/* ---- Inputs -------------------------------------------------------------------------------------------------------- */

typedef struct gconv_input {
  char *path;     /* what is opened: a file; FILE:MEMBER, one image of a file; or "-", standard input */
  char *file;     /* `path` without :MEMBER */
  char *relative; /* the path below the folder (or the fixed folders of the pattern) in which it was found, for mirroring
                     folders; for a file that was named itself, its file name; for FILE:MEMBER, FILE_MEMBER with the
                     extension of FILE after it; "stdin" for standard input */
  bool found;     /* found in a folder or by a pattern, rather than named itself */
} gconv_input;

/* Files that a search passed over: how many, and the path of the first one (owned; NULL if there is none). */
typedef struct gconv_passed_over {
  size_t count;
  char *first;
} gconv_passed_over;

/* Zero-initialise before first use. */
typedef struct gconv_inputs {
  gconv_input *items; /* owned, with their texts */
  size_t count;
  bool many; /* several, or a folder or a pattern was given: the results belong in a folder, however many there are */
  const gconv_texts *exclude; /* the caller sets it before the search: patterns of names to leave out; NULL: none */
  gconv_passed_over unread; /* what folders have besides readable images, judged by extension: other files, pipes ... ... */
  char
      *unread_kinds; /* their numbers by extension: "2 .txt, 1 .heic, 1 without an extension"; NULL: there are none; owned */
  gconv_texts missed; /* errors of folders and files that could not be looked at, and are left out: the run is incomplete */
  gconv_passed_over repeated; /* further names of files that are already in the list: each file is taken once */
  gconv_passed_over
      linked; /* further names (links) of folders that are searched under another name: each folder is searched once */
  gconv_passed_over dangling; /* links in folders that are named like an image, but point to nothing */
  gconv_texts folders,
      patterns; /* folders that were searched, and patterns that found something: results there would be new inputs */
} gconv_inputs;

/*
 * Finds the images that `specs` mean, in their order. Of these meanings, the first that fits is taken:
 *   - "-", standard input, once;
 *   - an existing folder: its files that have the extension of a readable format, sorted by name; with `recursive` the files
 * of its sub-folders too. Hidden entries are passed over, and so is the folder that `output`, the value of -o, names: else
 *     a second run would take the results of the first for inputs. Links to folders are followed, but each folder is
 *     searched once: by its real name, if that is below the folder that is searched;
 *   - any other existing file;
 *   - FILE:MEMBER, one image of an existing file: gconv_image_read();
 *   - a pattern with * ? or [: the files that match, sorted; folders that match count only with `recursive`. Its part **
 *     stands for any folders, one in the other, or none. Anything but regular files is passed over.
 * A file that several specs find is taken once, under the first name; a link to it is another file. inputs->exclude leaves
 * out what folders and patterns find: a pattern is compared with the names of files and folders, one with a '/' with the
 * relative path, part by part; ** stands for any parts, or none. A folder or file that cannot be looked at is in
 * inputs->missed, and the search goes on.
 * GCONV_BAD_ARGUMENT if a spec finds nothing, and *inputs is empty. No image is opened.
 */
gconv_status gconv_inputs_find(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs,
                               gconv_message *message);

/* Frees all and zeroes the list. */
void gconv_inputs_free(gconv_inputs *inputs);

/* ---- Outputs ------------------------------------------------------------------------------------------------------- */

/* What the names of results are made from. */
typedef struct gconv_naming {
  const char *output;              /* a file, a folder, a template, or "-" for standard output */
  const gconv_format_info *format; /* NULL: by the extension of `output`, else PNG */
  bool same;                       /* each result has the format of its input, PNG if that is not written */
  const char *suffix;              /* put after {stem}: "_blur"; NULL: none */
  const gconv_filters *filters;
  bool each_filter; /* one result per filter; else one result of all filters */
  bool keeps;       /* gconv_batch.existing will keep results that exist, whoever made them */
  int32_t planes;   /* gconv_read_options.planes of the inputs: the channels that a network takes; 0 for any other */
  bool in_place; /* each result replaces its input: `output`, `format` and `suffix` are not set. Inputs can be backed up */
  uint64_t reserved[4];
} gconv_naming;

/* Zero-initialise before first use. */
typedef struct gconv_outputs {
  const gconv_format_info *format; /* format of every result; NULL: they differ */
  bool same;      /* gconv_naming.same; JPEGs then have the quality of their inputs, unless a quality is given */
  char *suffix;   /* files with this suffix are results of earlier runs, not inputs; NULL: none; owned */
  size_t earlier; /* how many inputs gconv_outputs_check() dropped because of the suffix */
  char *pattern;  /* the template of the names, in the syntax of -o; owned */
  char *folder;   /* the folder in which all results lie: "", or with a slash at the end; owned */
  gconv_texts paths;
  const gconv_format_info **formats; /* [paths.count]; owned */
  size_t *first;      /* paths[first[i] .. first[i + 1] - 1] belong to input i: by filter, then by frame; owned */
  bool in_place;      /* as asked for */
  bool make_folders;  /* folders that are missing are made when a result is written */
  char *of_frames;    /* the template for inputs whose frames get a file each; owned, as the labels */
  gconv_texts labels; /* what {filter} stands for, for each result of an input */
  bool mirrors;       /* the folders of an input are put in front of the file name */
  bool keeps;         /* as asked for */
  bool among; /* set by gconv_outputs_check(): results lie in folders where inputs were found. gconv_batch_run() then marks
                 results by an extended attribute, or in .gconv-manifest, so that the next run recognises them */
  bool alike; /* set by gconv_outputs_check(): some names of results differ only by upper and lower case. gconv_batch_run()
                 then checks whether the file system distinguishes them */
  int32_t planes; /* gconv_naming.planes: how inputs are read */
} gconv_outputs;

/*
 * Names every result. naming->output is
 *   - "-": standard output, for one result;
 *   - a template, if it has a "{" that is not doubled: {stem}, {filter}, {index}, {frame} and {ext} are replaced, {output}
 * as {filter}. {stem} is the name of the input without folders and extension, and the suffix; {ext} is the extension of the
 * input, if the result has the same format, else the usual extension of the format; without naming->format, a template with
 * {ext} means naming->same; {index} counts all results from 1, with as many digits as the last one has; {frame} counts the
 * frames of one input in the same way. The folders of an input (gconv_input.relative) are put in front of the file name;
 *   - a folder, if it exists as one, ends in "/", or has no known extension and the inputs are many: results go to
 *     FOLDER/<folders of the input>/{stem}.png, {stem}_{filter}.png if there is one a filter;
 *   - else a file, for one result.
 * In what has a "{", {{ and }} stand for single braces; but a folder that is called just as naming->output is that folder.
 * Filters of one name get their number after it: blur_1, blur_2. A file with the extension of a format with frames
 * (.npy, .ppm) is looked into, and where the format of the results holds only one, each frame has a file: {stem}_{frame}.png
 * in a folder. The images of a pipe are not known beforehand: where several come, the results of each are named in its turn,
 * with six digits for {frame} and {index}.
 * GCONV_BAD_ARGUMENT says what does not fit, and *outputs is empty.
 */
gconv_status gconv_outputs_name(const gconv_inputs *inputs, const gconv_naming *naming, gconv_outputs *outputs,
                                gconv_message *message);

/* The format of a result at `path`, by its extension. Standard output ("-"), pipes and devices need no extension, and are
 * PNG without one. NULL: the extension is unknown. */
const gconv_format_info *gconv_output_format(const char *path);

/* The format that gconv_outputs_name() gives the results, without regard to naming->same. *one_file says whether
 * naming->output is the name of a file, rather than a folder or a template. `many`: gconv_inputs.many. */
const gconv_format_info *gconv_outputs_format(const gconv_naming *naming, bool many, bool *one_file);

/* Refuses, with GCONV_BAD_ARGUMENT, a result
 *   - outside the folder of naming->output or, of a template, outside the folder before its first field;
 *   - at the place of another result, of an input, or of a folder, even if their paths are written differently;
 *   - that the next run would take for an input, unless it has a suffix;
 *   - that would replace a file in a folder where inputs were found, unless the file is marked as a result, or a manifest
 *     has it;
 *   - whose folder is missing, unless it is to be made, or may not be written.
 * An input whose result would have too long a path is dropped, and put into inputs->missed, if others are left. With a
 * suffix, inputs that are results of other inputs are dropped, with their own results: an earlier run made them. No file is
 * changed. */
gconv_status gconv_outputs_check(gconv_inputs *inputs, gconv_outputs *outputs, gconv_message *message);

/* Refuses, with GCONV_BAD_ARGUMENT, results that would replace a file of filters. `filters`: PATH, a name; with `banks`,
 * PATH:NAME. */
gconv_status gconv_outputs_check_filters(const gconv_texts *filters, bool banks, const gconv_outputs *outputs,
                                         gconv_message *message);

/* Whether there is a regular file at `path`, which a result would replace. Pipes and devices are not replaced. */
bool gconv_output_exists(const char *path);

/* Frees all and zeroes it. */
void gconv_outputs_free(gconv_outputs *outputs);

/* ---- Shards: several machines share one job without talking to each other ------------------------------------------ */

/* Part `number`, from 1, of `count`; count 0: all inputs, undivided. */
typedef struct gconv_shard {
  int number, count;
} gconv_shard;

/*
 * Parses "I/N" (1/4 to 4/4), or
 *   - "auto": in a job array of Slurm, the place of SLURM_ARRAY_TASK_ID in the range from SLURM_ARRAY_TASK_MIN to
 *     SLURM_ARRAY_TASK_MAX, which are SLURM_ARRAY_TASK_COUNT at equal distances;
 *   - "auto/N": the same, which must be N; or in an indexed job of Kubernetes, which tells no pod how many there are,
 *     JOB_COMPLETION_INDEX, from 0, of N.
 * GCONV_BAD_ARGUMENT says what is wrong, or which variables were looked for.
 */
gconv_status gconv_shard_parse(const char *text, gconv_shard *shard, gconv_message *message);

/* Drops the inputs that belong to other shards, and their outputs. The names of outputs are the same as in the undivided
 * job. Possibly no input is left. A hash of an input's relative path (gconv_input) determines its shard, on any machine. */
void gconv_shard_take(const gconv_shard *shard, gconv_inputs *inputs, gconv_outputs *outputs);

/* ---- Resuming a job that was stopped ----------------------------------------------------------------------------- */

/* A manifest is a file beside the results, .gconv-manifest. It has a line for each result that was finished, with checksums
 * of the result and of its input. A result whose checksums match its line is done. Any other result is made again. */
typedef struct gconv_manifest gconv_manifest;

/* What is known of a result. */
typedef enum gconv_finding {
  GCONV_FOUND_DONE,
  GCONV_FOUND_NEW,          /* the manifest has no such result */
  GCONV_FOUND_OTHER_JOB,    /* it was made with other filters, options or another version */
  GCONV_FOUND_OTHER_INPUT,  /* it was made from another input, or the input's content has changed */
  GCONV_FOUND_OTHER_RESULT, /* it is missing, or has another content now */
  GCONV_FINDINGS
} gconv_finding;

/*
 * Reads the manifests beside `outputs`. If `removed` is not NULL, the job is going to be run: the folder is made if it is
 * missing, the run's own manifest is locked and appended to, and unfinished outputs of runs that have ended are removed;
 * *removed counts them. If it is NULL, nothing is changed. `job` is a digest of what makes the results: filters, options.
 * The shard is used only here. GCONV_EXISTS: another process is at work with the same manifest; GCONV_IO_ERROR;
 * GCONV_NO_MEMORY.
 */
gconv_status gconv_manifest_open(const gconv_outputs *outputs, const gconv_shard *shard, uint64_t job, size_t *removed,
                                 gconv_manifest **manifest, gconv_message *message);

/* What is known of the result `path` of `input`. Reads both files. Thread-safe. */
gconv_finding gconv_manifest_find(const gconv_manifest *manifest, const char *path, const gconv_input *input);

/* After the run. NULL is allowed. */
void gconv_manifest_close(gconv_manifest *manifest);

/* ---- Jobs ---------------------------------------------------------------------------------------------------------- */

/* What happens if the file of a result already exists. */
typedef enum gconv_existing {
  GCONV_EXISTING_REPLACE,
  GCONV_EXISTING_KEEP,   /* it is kept, and counts as failed */
  GCONV_EXISTING_SKIP,   /* it is kept, and counts as done */
  GCONV_EXISTING_NEWER,  /* it is kept, and counts as done, unless the input was changed after it: then it is replaced */
  GCONV_EXISTING_BACK_UP /* the old file is renamed to PATH.orig; if that exists, the result counts as failed */
} gconv_existing;

/* How one input went. Times are in milliseconds. All that is pointed to is valid during the call of the report function
 * only. */
typedef struct gconv_report {
  const gconv_input *input;
  char *const *outputs; /* the paths of its results */
  size_t output_count;
  size_t written, passed, failed; /* numbers of results that were written; that were passed over, because they exist or the
                                     manifest lists them as done; that failed */
  size_t found[GCONV_FINDINGS];   /* numbers of results by what the manifest knew; all 0 without a manifest */
  const gconv_texts *errors;      /* each begins with the path it is about */
  const char *explanation;        /* what a new plan does and why; NULL unless wanted */
  const char *device_reason;      /* with an explanation: why "auto" chose this device; "" without a choice */
  const char *remark;             /* why a new plan is not on the device of the run; NULL if it is */
  bool executed;                  /* everything below is set */
  bool cold;                      /* the first execution of this plan */
  uint64_t pixels;                /* pixels of the input: N * H * W */
  gconv_plan_info plan;           /* for this input alone */
  gconv_timings timings; /* if several inputs are executed together, its share; the same holds for all times below */
  double decode_ms, plan_ms, encode_ms;
  double wait_ms;  /* waiting for the device before planning; 0 once it is open */
  double total_ms; /* all of this input, without its verification */
  bool verified;
  gconv_verification verification;
  double elapsed_ms; /* since the run began */
} gconv_report;

/* Where JPEG files are decoded that a GPU could decode. The pixels are the same, but only the CPU reports damaged files. */
typedef enum gconv_decoder {
  GCONV_DECODER_CPU,
  GCONV_DECODER_GPU, /* not with the device "cpu" */
  GCONV_DECODER_AUTO /* the GPU if the device is "auto" and that is faster; else the CPU */
} gconv_decoder;

/* A job. All that is pointed to is the caller's, and must outlive the run. Inputs, outputs, operation, device and report are
 * needed; everything else may be 0. */
typedef struct gconv_batch {
  const gconv_inputs *inputs;
  const gconv_outputs *outputs;     /* checked */
  const gconv_operation *operation; /* the types of its results must be types that the format of the outputs holds */
  bool one_array;                   /* all inputs go into the one array at outputs->paths[0], in their order */
  bool nhwc;                        /* arrays of four dimensions are N x H x W x C, read and written */
  int group;                        /* images that are executed together, where the operation does that; 0: by memory */
  const char *device;               /* as gconv_device_open() takes it */
  gconv_decoder decoder;
  bool cpu_may_begin; /* while a GPU starts, the CPU begins, if the results are the same bits; as with the device "auto" */
  int threads;        /* threads of all jobs together; 0: one a processor */
  int jobs;           /* groups at a time; 0: one per thread, or 1.5 per thread if a GPU decodes */
  uint64_t memory; /* bytes that all jobs may take together; a single image may take more. 0: half of the machine's memory */
  uint64_t max_pixels; /* gconv_read_options, as the next: results are f32, and no filter has an offset in levels */
  bool unrounded;
  int quality, png_level; /* gconv_write_options, as the next four */
  bool lossless, strip;
  bool preserve_times; /* results have the times of their inputs, where these are files */
  gconv_tiff_compression tiff_compression;
  gconv_stored_type store; /* with GCONV_STORE_I16, results of integer inputs are stored in levels of 0 .. 255 or 0 .. 65535;
                              results of other inputs as their numbers */
  const gconv_palette *palette; /* gconv_write_options; NULL: none */
  gconv_existing existing;
  gconv_manifest *manifest; /* results that it lists as done are passed over, others replace existing files; NULL: none */
  bool fail_fast;           /* begin no further group after a failure */
  const volatile int
      *stop;  /* NULL, or: once it is not 0, no further group is begun; groups that were not begun count as failed */
  bool watch; /* warn (gconv_set_log()) of samples that are clamped or NaN, of results of one single colour, and of colours
                 of transparent pixels that spread to others ... */
  bool alpha_meant; /* ... but not of the last of these, as the caller chose how alpha is treated */
  size_t *written;  /* NULL, or gets the number of results that are finished, written atomically: for a signal handler */
  bool verify, explain;
  bool leaves_threads; /* threads that are still starting a GPU may outlive the run: the caller will end the process by
                          _exit(), as exit() would crash then. If false, the run waits for them */
  bool only_explained; /* nothing is executed, and nothing is prepared that only executions need */
  double tolerance;    /* gconv_plan_verify() */
  /* Called once for each input that was begun, in the order of the begins, from any thread, one call at a time. */
  void (*report)(const gconv_report *report, void *user);
  /* NULL, or: called now and then, from a thread of the run, while a single input is processed by rows. `done`, from 0 to 1,
   * is the part that was done in elapsed_ms. */
  void (*advance)(double done, double elapsed_ms, void *user);
  void *user;
  uint64_t reserved[4];
} gconv_batch;

/* How a run went. */
typedef struct gconv_batch_summary {
  size_t begun;                   /* inputs */
  size_t written, passed, failed; /* results; if an input was not begun, its results count as failed */
  size_t found[GCONV_FINDINGS];   /* what the manifest knew of the results of inputs that were begun */
  gconv_device_info device;
  char device_reason[192]; /* why "auto" chose this device; "" if there was no choice */
  size_t leftovers;        /* how many unfinished files of these outputs were removed; runs that were killed had left them */
  char warned[256];        /* warnings that concern more than one image, with their number: "clamped: 12 images"; or "" */
  double device_wait_ms;   /* the part of device.start_ms in which the run could do nothing but wait */
  double wall_ms;
  uint64_t reserved[4];
} gconv_batch_summary;

/* Runs all inputs. Failures of single images are reported and counted, not returned. A failure is returned only if it stops
 * the whole run: GCONV_BAD_ARGUMENT for an unknown device or algorithm, else the status of opening the device. */
gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message);

/* Explains what the run would do with its first input, of which it reads only the header. The caller frees *text by free().
 * `reason` becomes the reason why "auto" chose its device, or "". */
gconv_status gconv_batch_explain_first(const gconv_batch *batch, char **text, char reason[192], gconv_message *message);

/* Whether the name means several GPUs: "cuda:all", "cuda:0,2". gconv_batch_run() distributes images over them. */
bool gconv_devices_are_several(const char *name);

GCONV_API_END
#endif
