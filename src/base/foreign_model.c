/* SPDX-License-Identifier: MIT */
#include "base/foreign_model.h"
#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <strings.h>

#define OF_TRAINING "export it to ONNX from the program that trained it"

/* `remedy`: a sentence, in which each % stands for the name of the model. */
static const struct {
  const char *endings; /* of names, with spaces around each */
  const char *is, *remedy;
} kinds[] = {
    {" .pt2 ", "a program of torch.export, which only PyTorch reads",
     "python3 -c \"import torch; torch.onnx.export(torch.export.load('%'), f='model.onnx', dynamo=True)\" exports it to "
     "ONNX"},
    {" .tflite .lite ", "a model of TensorFlow Lite",
     "python3 -m tf2onnx.convert --tflite % --output model.onnx converts it, after pip install tf2onnx"},
    {" .keras ", "a model of Keras",
     "python3 -c \"import keras; keras.models.load_model('%').export('model.onnx', format='onnx')\" exports it to ONNX"},
    {" .h5 .hdf5 ", "an HDF5 file, as Keras and MATLAB write",
     "for a model of Keras, python3 -c \"import keras; keras.models.load_model('%').export('model.onnx', format='onnx')\" "
     "makes "
     "ONNX; a matrix of MATLAB is saved as text by dlmwrite('filter.txt', h, 'precision', 9)"},
    {" .pb ", "a graph of TensorFlow, or a part of a saved model",
     "python3 -m tf2onnx.convert --saved-model FOLDER --output model.onnx converts the folder of a saved model"},
    {" .mlmodel .mlpackage .mlmodelc ", "a model of Core ML, which only its own tools can read", OF_TRAINING},
    {" .engine .trt .plan ", "a model that TensorRT has compiled for one GPU", "take the ONNX model that it was made of"},
    {" .ort ", "a model that ONNX Runtime has optimised for itself", "take the .onnx file that it was made of"},
    {" .pdmodel .pdiparams ", "a model of Paddle",
     "paddle2onnx --model_dir FOLDER --model_filename % --save_file model.onnx converts it"},
    {" .mnn .caffemodel .ptl ", "a model of another program", OF_TRAINING},
};

static bool has_ending(const char *endings, const char *ending, size_t length) {
  for (const char *at = endings; (at = strchr(at, '.')); at++)
    if (strncasecmp(at, ending, length) == 0 && at[length] == ' ')
      return true;
  return false;
}

/* Fails with "PATH: is ...: remedy". */
static gconv_status refuse(const char *spec, size_t length, const char *is, const char *remedy) {
  const char *slash = memrchr(spec, '/', length), *name = slash ? slash + 1 : spec;
  const int shown = (int)(spec + length - name);
  GCONV_FREED char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  GCONV_NEED_MEMORY(out, "no memory for an error");
  for (const char *at = remedy; *at; at++)
    if (*at == '%')
      fprintf(out, "%.*s", shown, name);
    else
      fputc(*at, out);
  fclose(out);
  gconv_fail(GCONV_UNSUPPORTED, "%.*s: is %s: %s", (int)length, spec, is, text ? text : "");
  return GCONV_UNSUPPORTED;
}

gconv_status gconv_refuse_foreign_model(const char *spec) {
  size_t length = gconv_member_split(spec);
  while (length > 1 && spec[length - 1] == '/')
    length--;
  const char *slash = memrchr(spec, '/', length), *name = slash ? slash + 1 : spec;
  const char *dot = memrchr(name, '.', (size_t)(spec + length - name));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && dot; i++)
    if (has_ending(kinds[i].endings, dot, (size_t)(spec + length - dot)))
      return refuse(spec, length, kinds[i].is, kinds[i].remedy);
  return GCONV_OK;
}

gconv_status gconv_refuse_torchscript(const char *spec) {
  return refuse(spec, gconv_member_split(spec), "a model of TorchScript, which only PyTorch runs",
                "python3 -c \"import torch; torch.onnx.export(torch.jit.load('%').eval(), (torch.zeros(1, 3, 256, 256),), "
                "'model.onnx', dynamo=False)\" exports it to ONNX, with an input of the size that it takes");
}
