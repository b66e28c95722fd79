/* SPDX-License-Identifier: MIT */
/* ONNX models, for banks (onnx.c) and networks (src/graph). onnx_model.c reads the model, onnx_node.c its nodes with
 * their attributes, and onnx_tensor.c the numbers of tensors. Numbers of fields and types are as in onnx.proto. */
#pragma once

#include "bank/protobuf.h"
#include "bank/syntax.h"

/* Newer versions may change what an operator means: models that need them are refused. */
enum { GCONV_ONNX_NEWEST_IR = 14, GCONV_ONNX_NEWEST_OPSET = 28 };
enum { GCONV_ONNX_INTEGERS = 64, GCONV_ONNX_FLOATS = 16 /* how many numbers of an attribute are kept */ };

/* TensorProto.DataType */
enum {
  GCONV_ONNX_FLOAT = 1,
  GCONV_ONNX_UINT8 = 2,
  GCONV_ONNX_INT8 = 3,
  GCONV_ONNX_UINT16 = 4,
  GCONV_ONNX_INT16 = 5,
  GCONV_ONNX_INT32 = 6,
  GCONV_ONNX_INT64 = 7,
  GCONV_ONNX_BOOL = 9,
  GCONV_ONNX_FLOAT16 = 10,
  GCONV_ONNX_DOUBLE = 11,
  GCONV_ONNX_UINT32 = 12,
  GCONV_ONNX_UINT64 = 13,
  GCONV_ONNX_BFLOAT16 = 16
};

/* ---- Tensors ---- */

/* What identifies a file beside the model, to which several names may lead. */
typedef struct gconv_onnx_file {
  uint64_t device, number, bytes; /* all 0: stat() failed */
} gconv_onnx_file;

typedef struct gconv_onnx_tensor {
  char *name; /* owned */
  int64_t type;
  size_t dimensions;
  int64_t shape[GCONV_BANK_DIMENSIONS];
  uint64_t at, end;    /* at and end of its message in the file */
  uint64_t data_bytes; /* bytes in fields of data: at least one for each number */
  bool external;       /* the numbers are in a separate file */
  bool constant;       /* it is of a node Constant; else, an initialiser */
  bool segment;        /* it is a part of a tensor, which is not read */
  bool looked;         /* `file` is set */
  bool keeps_float64;  /* its float64 numbers are read as they are; else, as float32 */
  gconv_onnx_file file;
} gconv_onnx_tensor;

/* The integers of a small tensor, such as axes. */
typedef struct gconv_onnx_integers {
  int64_t numbers[GCONV_ONNX_INTEGERS];
  size_t count; /* number of all integers, also of integers that are not kept */
} gconv_onnx_integers;

/* Returns "float16" and so on; "" for types that gconv does not know. */
const char *gconv_onnx_type_name(int64_t type);

/* Whether numbers of this type are read as weights: FLOAT, DOUBLE, FLOAT16, BFLOAT16. */
bool gconv_onnx_is_floating(int64_t type);

/* Reads everything but the numbers of a tensor. A tensor without a name gets an empty one. Free it even after a failure. */
gconv_status gconv_onnx_tensor_find(const gconv_message_reader *message, const gconv_field_value *field,
                                    gconv_onnx_tensor *tensor);

/* Fails if the tensor, of a type that is read, has too few bytes for `count` numbers. */
gconv_status gconv_onnx_tensor_check(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, uint64_t count);

/* Looks at the file of an external tensor, once: sets tensor->file. It does not fail: reading the numbers reports what is
 * wrong. */
void gconv_onnx_tensor_look(gconv_bank_file *file, gconv_onnx_tensor *tensor);

/* Returns how many bytes must be read to get the numbers: bytes of the message and, after gconv_onnx_tensor_look(), of the
 * file. */
double gconv_onnx_tensor_bytes(const gconv_onnx_tensor *tensor);

/* Returns how many bytes a number has after gconv_onnx_tensor_elements(): 4 for floating-point types, which become float32
 * unless the tensor keeps float64; 1 to 8 for integers and BOOL, which stay as they are. 0: the type is not read. */
size_t gconv_onnx_element_bytes(int64_t type);
/* Reads the `count` numbers of a tensor after gconv_onnx_tensor_check(). Its gconv_onnx_element_bytes() are not 0. */
gconv_status gconv_onnx_tensor_elements(gconv_bank_file *file, const gconv_onnx_tensor *tensor, size_t count,
                                        void *elements);

/* ---- Nodes ---- */

/* AttributeProto.AttributeType: the types that are read here. */
typedef enum gconv_onnx_kind {
  GCONV_ONNX_A_FLOAT = 1,
  GCONV_ONNX_AN_INT = 2,
  GCONV_ONNX_A_STRING = 3,
  GCONV_ONNX_A_TENSOR = 4,
  GCONV_ONNX_A_GRAPH = 5,
  GCONV_ONNX_SOME_FLOATS = 6,
  GCONV_ONNX_INTS = 7
} gconv_onnx_kind;

typedef struct gconv_onnx_attribute {
  char *name, *text; /* owned */
  int64_t type;      /* an AttributeType; 0: the file does not say it */
  uint32_t values;   /* a bit, 1 << AttributeType, for each kind of value that is there */
  float number;
  gconv_onnx_integers integers;
  float floats[GCONV_ONNX_FLOATS];
  size_t float_count;           /* number of all floats, also of floats that are not kept */
  gconv_onnx_tensor tensor;     /* its name is owned; NULL: there is none */
  char *reference;              /* owned: in a function, the name of the call's attribute that has the value; or NULL */
  uint64_t graph_at, graph_end; /* at and end of the message of its graph in the file; both 0: it has none */
} gconv_onnx_attribute;

typedef struct gconv_onnx_node {
  gconv_bank_file *file;
  char *type, *name, *domain, *overload; /* owned; each may be NULL */
  char **inputs, **outputs;              /* owned, with the names: an empty name is an input or output that is left out */
  int input_count, output_count;
  gconv_onnx_attribute *attributes; /* owned */
  size_t attribute_count;
  uint64_t at, end;                       /* at and end of its message in the file */
  const struct gconv_onnx_branch *branch; /* the branch of a node that it is in; NULL: none */
} gconv_onnx_node;

/* The allowed values of an attribute. */
typedef enum gconv_onnx_use {
  GCONV_ONNX_READ,   /* any: it is read, or changes nothing in inference */
  GCONV_ONNX_FIXED,  /* one value; others are refused */
  GCONV_ONNX_NEEDED, /* one value, which must be there, because the operator's default is another */
} gconv_onnx_use;

/* The rule of an operator's attribute. An attribute without a rule is refused. */
typedef struct gconv_onnx_rule {
  const char *name; /* NULL ends a list */
  gconv_onnx_kind kind;
  uint64_t since, until; /* the opsets in which the operator has it, both included */
  gconv_onnx_use use;
  int value; /* value of FLOAT and INT that are fixed or needed */
} gconv_onnx_rule;

/* Reads a node from its message. Only node->file is set before. Free the node even after a failure. */
gconv_status gconv_onnx_node_read(gconv_message_reader message, gconv_onnx_node *node);
void gconv_onnx_node_free(gconv_onnx_node *node);

/* Add a name to a list of inputs or outputs of a node, and an attribute, from a field. */
gconv_status gconv_onnx_node_add_name(const gconv_onnx_node *node, const gconv_message_reader *inside,
                                      const gconv_field_value *part, char ***names, int *count);
gconv_status gconv_onnx_node_add_attribute(gconv_onnx_node *node, const gconv_message_reader *inside,
                                           const gconv_field_value *part);

/* Fails with an error that begins "model.onnx: node 'Pad_3' (Pad) ". */
gconv_status gconv_onnx_fail_node(const gconv_onnx_node *node, gconv_status status, const char *format, ...)
    GCONV_PRINTF(3, 4);

/* True if the domain, or the domain of the node's operator, is the standard's, ai.onnx. `domain` may be NULL. */
bool gconv_onnx_is_standard_domain(const char *domain);
bool gconv_onnx_is_standard(const gconv_onnx_node *node);

/* Fails unless each attribute has a rule, and the node keeps all rules of this opset. */
gconv_status gconv_onnx_check_attributes(const gconv_onnx_node *node, const gconv_onnx_rule *rules, uint64_t opset);

/* Returns the attribute of this name, or NULL. */
const gconv_onnx_attribute *gconv_onnx_find_attribute(const gconv_onnx_node *node, const char *name);
/* Return the integer or the number of an attribute; `otherwise` if the node does not have it. */
int64_t gconv_onnx_integer_of(const gconv_onnx_node *node, const char *name, int64_t otherwise);
float gconv_onnx_number_of(const gconv_onnx_node *node, const char *name, float otherwise);
bool gconv_onnx_has_input(const gconv_onnx_node *node, int input);
/* Returns the name of the first output, or NULL. */
const char *gconv_onnx_output(const gconv_onnx_node *node);

/* The rules of the attributes of a Conv. */
extern const gconv_onnx_rule gconv_onnx_conv_rules[];
/* Checks strides, pads, dilations and groups of a Conv node, and reads them into a bank that has its shape. */
gconv_status gconv_onnx_read_geometry(const gconv_onnx_node *node, gconv_bank *bank);

/* ---- Models ---- */

/* An input or output of the graph. Sizes that are not known are 0. */
typedef struct gconv_onnx_value {
  char *name;   /* owned */
  int64_t type; /* type of its elements; 0: not known, -1: it is no tensor */
  bool has_shape;
  size_t dimensions;
  int64_t sizes[GCONV_BANK_DIMENSIONS];
  size_t number; /* its place in the file: inputs are sorted by name */
} gconv_onnx_value;

/* An operator that the model itself defines (onnx_function.h). */
typedef struct gconv_onnx_function {
  char *name, *domain, *overload; /* owned; each may be NULL */
  uint64_t at, end;               /* place of its message in the file */
  uint64_t opset;                 /* of the standard, for its nodes; 0: it has none */
} gconv_onnx_function;

typedef struct gconv_onnx_model {
  gconv_bank_file *file;
  gconv_onnx_tensor *tensors; /* initialisers and Constants that have a name, sorted by it */
  size_t tensor_count;
  gconv_onnx_value *inputs, *outputs; /* inputs are sorted by name; initialisers may be among them */
  size_t input_count, output_count;
  gconv_onnx_function *functions;
  size_t function_count;
  uint64_t ir, opset; /* 0: the file does not say it */
  bool graph;
  const char *obstacle; /* what it has that cannot be read, as the end of a sentence; or NULL */
  char *notes;          /* owned: the entry "gconv" of its metadata, which gconv wrote (onnx_write.h); or NULL */
} gconv_onnx_model;

/* Takes a node, which is valid during the call. */
typedef gconv_status gconv_onnx_taker(void *context, const gconv_onnx_node *node);

/* Reads the model. Set model->file before. Gives each node to take(), before tensors are sorted. */
gconv_status gconv_onnx_model_read(gconv_onnx_model *model, gconv_onnx_taker *take, void *context);
/* Gives each node to take() again, in the order of the file. */
gconv_status gconv_onnx_model_follow(const gconv_onnx_model *model, gconv_onnx_taker *take, void *context);
/* Gives take() a node of a branch or, if the node calls a function, the nodes of the function. *called counts the nodes of
 * functions. */
gconv_status gconv_onnx_model_give(const gconv_onnx_model *model, const gconv_onnx_node *node, gconv_onnx_taker *take,
                                   void *context, size_t *called);
/* Frees all but the file. */
void gconv_onnx_model_free(gconv_onnx_model *model);

/* Takes the contents of a branch's graph. tensor() and output() may be NULL. */
typedef struct gconv_onnx_branch_taker {
  gconv_onnx_taker *node;
  gconv_status (*tensor)(void *context, const gconv_onnx_tensor *tensor); /* an initialiser */
  gconv_status (*output)(void *context, const char *name);                /* the results, in order */
  void *context;
} gconv_onnx_branch_taker;

/* Reads the graph that is an attribute of a node, such as the branches of If. It may use values of the graph around it. The
 * names of its own values get a prefix: the name of the node's first output, and the name of the attribute. *called is as in
 * gconv_onnx_model_give(). Does nothing if the node has no output. */
gconv_status gconv_onnx_branch_follow(const gconv_onnx_model *model, const gconv_onnx_node *node, const char *attribute,
                                      const gconv_onnx_branch_taker *take, size_t *called);

/* Fails if the model is newer than this code knows, or has parts that are not read. */
gconv_status gconv_onnx_model_check(const gconv_onnx_model *model);

/* Returns the initialiser or Constant of this name, or NULL. */
gconv_onnx_tensor *gconv_onnx_find_tensor(const gconv_onnx_model *model, const char *name);

/* True if an input of the model has this name. */
bool gconv_onnx_is_input(const gconv_onnx_model *model, const char *name);

/* Returns the model of an open file whose syntax is ONNX. */
const gconv_onnx_model *gconv_onnx_model_of(const gconv_bank_file *file);
