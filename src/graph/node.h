/* SPDX-License-Identifier: MIT */
/*
 * Kinds of nodes. A kind is an operator of ONNX in a range of opsets: a row of a table in the file of its family,
 * kind_<family>.c. kinds.def lists the families.
 *
 * A row has every field, or it does not compile (GCONV_NODE_KIND). Inputs, outputs and attributes that a row does not
 * understand are refused by name.
 */
#pragma once

#include "bank/onnx.h"
#include "base/threads.h"
#include "device/device.h"
#include "graph/tensor.h"

GCONV_C_BEGIN

/* How nodes are to be computed. */
typedef struct gconv_graph_options {
  const gconv_device *device;
  const char *algorithm, *without; /* for convolutions: as in gconv_network_options */
  gconv_math math;
  size_t workspace_bytes; /* 0: the default */
  bool any_size;          /* the image may have another height and width than the model says */
  bool in_float64;        /* tensors that are float32 in the model are float64: to verify results */
} gconv_graph_options;

struct gconv_elementwise_settings; /* elementwise.h */
typedef struct gconv_tail gconv_tail;
typedef struct gconv_plane_moments gconv_plane_moments; /* moments.h */

/* Operations that are computed with a node: out = tail(activation(scale[c] * result + shift[c])) for channel c (axis 1). */
typedef struct gconv_node_fused {
  gconv_activation activation;
  float slope;
  float *scale, *shift; /* owned by the plan; NULL: 1 and 0 */
  gconv_tail *tail;     /* owned by the plan (tail.h); NULL: nothing */
} gconv_node_fused;

/* A node at work: settings, inputs and outputs. Tensors of optional inputs that are absent, and of outputs that nothing
 * takes, are NULL. */
typedef struct gconv_node_work {
  const void *settings; /* what parse() made of the attributes */
  int32_t opset;
  int32_t in_count, out_count;
  const gconv_tensor *const *in;
  gconv_tensor *const *out;
  gconv_threads *threads; /* for run() and workspace(); NULL while constants are folded: then compute in this thread */
  void *workspace;        /* memory of workspace() bytes, for run() and cuda() */
  void *stream;           /* cudaStream_t of the GPU, for cuda(); NULL in all other functions */
  const gconv_graph_options *options;
  gconv_node_fused fused;             /* all 0 for kinds that do not fuse */
  void *prepared;                     /* what prepare() made; NULL without one, and while constants are folded */
  const gconv_plane_moments *moments; /* if input 0 is a tile, and window() says GCONV_BY_MOMENTS: the moments of each
                                   channel of the whole image; else NULL */
} gconv_node_work;

/* Whether run() may get an output in the memory of an input of the same shape and type. */
typedef enum gconv_node_memory {
  GCONV_MEMORY_OWN,      /* never */
  GCONV_MEMORY_IN_PLACE, /* output 0 may lie in any of the first least_in inputs */
  GCONV_MEMORY_JOINED,   /* an input may already lie at its place in output 0, and then run() does not copy it */
  GCONV_MEMORY_VIEW /* output 0 has the elements of input 0 in the same order: it is the same memory, and nothing runs */
} gconv_node_memory;

/* Which elements of an input an output sees along axes 2 and 3, height and width. */
typedef enum gconv_node_reach {
  GCONV_REACH_POINT,  /* the element at the same place; inputs of one row or column are repeated */
  GCONV_REACH_WINDOW, /* the elements that window() returns */
  GCONV_REACH_ALL     /* all elements, so an image cannot be cut into tiles */
} gconv_node_reach;

/* Outputs begin .. end - 1 of an axis need inputs floor(begin * scale) - before .. ceil((end - 1) * scale) + after, as far
 * as they exist; scale = numerator / denominator. A denominator of 0 means all inputs, as GCONV_REACH_ALL does. A
 * denominator of GCONV_BY_MOMENTS means the moments of the channel and, if the output has the input's height and width, the
 * input at the same place. */
enum { GCONV_BY_MOMENTS = -1 };
typedef struct gconv_node_window {
  int64_t numerator, denominator, before, after;
} gconv_node_window;

/* Which tensors of a kind, of float32 and 4 axes, may be in blocks of channels. */
typedef enum gconv_node_blocks {
  GCONV_BLOCKS_NEVER,  /* none */
  GCONV_BLOCKS_EITHER, /* input 0 and output 0, one or both: convolutions */
  GCONV_BLOCKS_ALIKE,  /* output 0 and all inputs that have channels, or none of them */
  GCONV_BLOCKS_READ    /* input 0 */
} gconv_node_blocks;

enum { GCONV_LOOP_INPUTS = 3 };

/* Computes `count` neighbouring elements of an output. Neighbours of input i are step[i] elements apart: 1, or 0 if one
 * element serves all. out may be the memory of an input. */
typedef void gconv_element_loop(const void *const in[GCONV_LOOP_INPUTS], const int64_t step[GCONV_LOOP_INPUTS], void *out,
                                int64_t count, const void *settings);

/* Which nodes that follow a kind can compute. */
typedef enum gconv_node_fuses {
  GCONV_FUSES_NOTHING,
  GCONV_FUSES_TAILS_ON_GPU, /* cuda() computes a tail if its first step takes the result only once */
  GCONV_FUSES_ALL
} gconv_node_fuses;

typedef struct gconv_node_kind {
  const char *name;     /* the operator of ONNX */
  int32_t since, until; /* the opsets in which it has this meaning, both included */
  int32_t least_in, most_in, least_out, most_out;
  uint32_t known;  /* a bit for each input whose elements shape() needs: it must be constant */
  uint32_t unread; /* a bit for each input whose elements are never read, such as input 0 of Shape */
  gconv_node_memory memory;
  gconv_node_reach reach;
  const gconv_onnx_rule *rules; /* rules of its attributes */
  int32_t code;                 /* which member of its family it is */
  size_t settings_bytes;        /* bytes that parse() fills; they are 0 before it */
  /* Reads the attributes. NULL if there are none to read. */
  gconv_status (*parse)(const gconv_onnx_node *node, const struct gconv_node_kind *kind, int32_t opset, void *settings);
  /* Sets types and shapes of the outputs from the types and shapes of the inputs. Elements of inputs are NULL if they are
   * not known. The caller has checked the counts, and that inputs in `known` have elements. It checks the shapes of outputs
   * afterwards. Errors end a sentence that begins "node 'conv1' (Conv) ". */
  gconv_status (*shape)(const gconv_node_work *work, const struct gconv_node_kind *kind);
  /* Computes the outputs, in runs and where constants are folded. The bits must not depend on the number of threads. */
  gconv_status (*run)(const gconv_node_work *work, const struct gconv_node_kind *kind);
  /* Puts the computation of the outputs into work->stream: `there` of the tensors are in memory of the GPU. Constants have
   * elements on the host, too. It is recorded once, and replayed for each image, so it must not depend on elements that are
   * not constant. It is also called while planning, with the stream GCONV_GPU_NOWHERE and without memory: then it fails with
   * GCONV_UNSUPPORTED if no GPU can do it. NULL: graphs with such nodes do not run on a GPU. */
  gconv_status (*cuda)(const gconv_node_work *work, const struct gconv_node_kind *kind);
  /* Returns how many bytes of workspace run() needs. NULL: none. */
  size_t (*workspace)(const gconv_node_work *work);
  /* Returns the window of input number `input` along axis 2 or 3. NULL unless reach is GCONV_REACH_WINDOW. */
  gconv_node_window (*window)(const gconv_node_work *work, int32_t input, int32_t axis);
  /* Makes work->prepared from constants and shapes, once a plan; release() frees it and allows NULL. Only constants have
   * elements. NULL: there is nothing to prepare. */
  gconv_status (*prepare)(const gconv_node_work *work, const struct gconv_node_kind *kind, void **prepared);
  void (*release)(void *prepared);
  /* Writes how the node is computed, for people. NULL: there is nothing to say. */
  void (*tell)(const void *prepared, char *text, size_t size);
  /* Returns true, and sets scale[] and shift[], if output 0 is scale[c] * x + shift[c] for channel c of axis 1. x is input
   * number `input`, which has the output's shape. Only constants have elements. NULL: it never is. */
  bool (*affine)(const gconv_node_work *work, const struct gconv_node_kind *kind, int32_t input, float *scale, float *shift);
  /* Returns true if output 0 is this activation of input 0. NULL: it never is. */
  bool (*activation)(const gconv_node_work *work, const struct gconv_node_kind *kind, gconv_activation *activation,
                     float *slope);
  /* Returns true if a loop computes output 0, element by element, from inputs 0 .. *inputs - 1 with these settings. NULL: it
   * never is. */
  bool (*element)(const gconv_node_work *work, const struct gconv_node_kind *kind, gconv_element_loop **loop,
                  struct gconv_elementwise_settings *settings, int32_t *inputs);
  gconv_node_fuses fuses;   /* which parts of work->fused are computed, too */
  gconv_node_blocks blocks; /* which of its tensors run() takes in blocks of channels */
} gconv_node_kind;

/* GCONV_NODE_KIND_OF() makes a row with all fields, in the order of gconv_node_kind. GCONV_NODE_KIND() leaves out tell(),
 * affine(), activation(), element(), fuses and blocks; GCONV_NODE_KIND_IN() has blocks. */
#define GCONV_NODE_KIND_OF(name, since, until, least_in, most_in, least_out, most_out, known, unread, memory, reach, rules, \
                           code, settings_bytes, parse, shape, run, cuda, workspace, window, prepare, release, tell,        \
                           affine, activation, element, fuses, blocks)                                                      \
  {                                                                                                                         \
    name, since, until, least_in, most_in, least_out, most_out, known, unread, memory, reach, rules, code, settings_bytes,  \
        parse, shape, run, cuda, workspace, window, prepare, release, tell, affine, activation, element, fuses, blocks      \
  }
#define GCONV_NODE_KIND_IN(name, blocks, since, until, least_in, most_in, least_out, most_out, known, unread, memory,       \
                           reach, rules, code, settings_bytes, parse, shape, run, cuda, workspace, window, prepare,         \
                           release)                                                                                         \
  GCONV_NODE_KIND_OF(name, since, until, least_in, most_in, least_out, most_out, known, unread, memory, reach, rules, code, \
                     settings_bytes, parse, shape, run, cuda, workspace, window, prepare, release, NULL, NULL, NULL, NULL,  \
                     GCONV_FUSES_NOTHING, blocks)
#define GCONV_NODE_KIND(name, ...) GCONV_NODE_KIND_IN(name, GCONV_BLOCKS_NEVER, __VA_ARGS__)
/* A value in place of cuda(). */
#define GCONV_NOT_ON_CUDA NULL
/* Ends a family's table. */
#define GCONV_NODE_KIND_END                                                                                                 \
  { 0 }

enum { GCONV_ANY_NUMBER = INT32_MAX, GCONV_NEWEST_OPSET = GCONV_ONNX_NEWEST_OPSET };

#define GCONV_NODE_FAMILY(name) extern const gconv_node_kind gconv_node_kinds_##name[];
#include "graph/kinds.def"
#undef GCONV_NODE_FAMILY

/* Returns the kind of an operator of the standard in an opset; NULL if there is none. */
const gconv_node_kind *gconv_node_kind_find(const char *name, uint64_t opset);
/* Return the kinds one after the other; NULL past the end. */
const gconv_node_kind *gconv_node_kind_at(size_t index);

/* ---- For the families ---- */

/* Returns the elements of a tensor where the node is computed: in the memory of the host or, in cuda(), of the GPU. */
static inline void *gconv_node_data(const gconv_node_work *work, const gconv_tensor *tensor) {
  return work->stream ? tensor->there : tensor->data;
}

/* Returns the type in the plan of tensors that have this type in the model. */
static inline gconv_tensor_type gconv_node_type(const gconv_node_work *work, gconv_tensor_type type) {
  return type == GCONV_TENSOR_F32 && work->options && work->options->in_float64 ? GCONV_TENSOR_F64 : type;
}

/* Returns whether workspace() is called for a run on a GPU. Constants are folded on the CPU, without threads. */
static inline bool gconv_node_is_for_gpu(const gconv_node_work *work) {
  return work->threads && work->options->device->type != &gconv_device_type_cpu;
}

/* window() of kinds that need the moments of each channel of input 0. */
gconv_node_window gconv_node_by_moments(const gconv_node_work *work, int32_t input, int32_t axis);

/* Gives output number `out` the type and shape of a tensor. Does nothing if nothing takes the output. */
void gconv_node_set_like(const gconv_node_work *work, int32_t out, const gconv_tensor *like);
void gconv_node_set(const gconv_node_work *work, int32_t out, gconv_tensor_type type, int32_t axes, const int64_t *shape);

/* shape() of kinds whose output 0 is like input 0. */
gconv_status gconv_node_shape_like(const gconv_node_work *work, const gconv_node_kind *kind);

/* Sets *list to the integers of input number `input`. It must be constant, a scalar or a list, of int64 or int32, with at
 * most GCONV_TENSOR_AXES * 2 numbers. Otherwise fails, and names `what`. */
typedef struct gconv_node_integers {
  int64_t number[2 * GCONV_TENSOR_AXES];
  int32_t count;
} gconv_node_integers;
gconv_status gconv_node_read_integers(const gconv_node_work *work, int32_t input, const char *what,
                                      gconv_node_integers *list);

/* Sets axes and shape of *result as NumPy broadcasts all inputs. Fails if they do not fit. */
gconv_status gconv_node_broadcast(const gconv_node_work *work, gconv_tensor *result);
/* Sets step[] to the distance in `in` of neighbours along each axis of `out`; 0 where `in` is repeated. */
void gconv_node_steps(const gconv_tensor *in, const gconv_tensor *out, int64_t step[GCONV_TENSOR_AXES]);

/* Shares 0 .. count - 1 among the threads: calls part(context, begin, end) for pieces. A piece of `grain` is worth a thread.
 * If work->threads is NULL, this thread does all. */
void gconv_node_share(const gconv_node_work *work, int64_t count, int64_t grain,
                      void (*part)(void *context, int64_t begin, int64_t end), void *context);

/* Fails with GCONV_UNSUPPORTED and "takes float32 here, not int64" unless the input has this type. */
gconv_status gconv_node_need_type(const gconv_node_work *work, int32_t input, gconv_tensor_type type);
/* Fails in the same way unless inputs first .. last are all float32 or all float64; absent inputs are skipped. */
gconv_status gconv_node_need_real(const gconv_node_work *work, int32_t first, int32_t last);

/* Reads a list among the attributes: numbers from `least` to `most`; there may be no more than gconv_node_integers holds. If
 * the node has none, list->count becomes 0, and *given false; given may be NULL. */
gconv_status gconv_node_attribute_list(const gconv_onnx_node *node, const char *name, int64_t least, int64_t most,
                                       gconv_node_integers *list, bool *given);
/* Sets *choice to the number of an attribute's text in `texts`, a list that NULL ends. Without the attribute, leaves it. */
gconv_status gconv_node_attribute_choice(const gconv_onnx_node *node, const char *name, const char *const *texts,
                                         int32_t *choice);

/* The attribute auto_pad: how an image is padded for windows. */
typedef enum gconv_auto_pad {
  GCONV_AUTO_PAD_NOTSET,     /* by the numbers of the attribute pads */
  GCONV_AUTO_PAD_SAME_UPPER, /* so that there are ceil(size / stride) outputs; an odd element is added after the image */
  GCONV_AUTO_PAD_SAME_LOWER, /* the same, but an odd element is added before the image */
  GCONV_AUTO_PAD_VALID       /* not at all */
} gconv_auto_pad;
gconv_status gconv_node_attribute_auto_pad(const gconv_onnx_node *node, gconv_auto_pad *padding);

/* Reads the attribute mode of a Pad: constant, reflect, edge or wrap. Without it, the border is constant. */
gconv_status gconv_node_attribute_border(const gconv_onnx_node *node, gconv_border *border);

/* Reads a tensor among the attributes; its data are for gconv_release(). If the node has none, they are NULL. */
gconv_status gconv_node_attribute_tensor(const gconv_onnx_node *node, const char *name, gconv_tensor *tensor);
/* Reads an initialiser or a Constant in the same way. Fails, naming it, if it is larger than its file, or of a type that is
 * not read. */
gconv_status gconv_tensor_of_onnx(gconv_bank_file *file, const gconv_onnx_tensor *from, gconv_tensor *tensor);

GCONV_C_END
