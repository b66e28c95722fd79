/* SPDX-License-Identifier: MIT */
/* gconv bank: what its three parts share, bank_info.c and bank_show.c. */
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/terminal.h"

#include <string.h>
#include <sys/stat.h>

/* True if gconv_bank_read() takes this syntax; false for NULL. */
static bool is_syntax(const char *syntax) {
  for (size_t i = 0; syntax && gconv_bank_syntax_at(i); i++)
    if (strcmp(syntax, gconv_bank_syntax_at(i)) == 0)
      return true;
  return false;
}

bool gconv_bank_is_own_syntax(const char *syntax) {
  return is_syntax(syntax) && strcmp(syntax, "npy") != 0;
}

bool gconv_model_is_one(const char *path) {
  gconv_bank_file *file = NULL;
  const char *name = NULL;
  struct stat status;
  bool is = stat(path, &status) == 0 && S_ISREG(status.st_mode) && gconv_bank_is_one(path) &&
            gconv_bank_file_open(path, NULL, &file, &name) == GCONV_OK && !name &&
            strcmp(gconv_bank_file_syntax(file), "onnx") == 0;
  gconv_bank_file_close(file);
  return is;
}

gconv_status gconv_network_load(const char *path, gconv_network *network) {
  if (!gconv_model_is_one(path))
    return gconv_network_read(path, network);
  gconv_status status = gconv_network_import(path, NULL, network);
  if (status == GCONV_OK)
    return status;
  return gconv_fail(status, "%s; its Conv nodes are banks, as -f FILE:NAME, and `gconv bank info` lists them",
                    gconv_last_error());
}

bool gconv_bank_is_meant(const char *spec, const char *syntax) {
  if (syntax)
    return is_syntax(syntax);
  /* standard input cannot be looked into before it is read */
  return strcmp(spec, "-") == 0 || strncmp(spec, "-:", 2) == 0 || gconv_bank_is_one(spec);
}

gconv_status gconv_bank_stack_specs(const gconv_texts *specs, const char *syntax, gconv_bank *bank) {
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters filters = {0};
  for (size_t i = 0; i < specs->count; i++)
    GCONV_TRY(gconv_filters_read(specs->items[i], syntax, &filters));
  return gconv_bank_stack(&filters, bank);
}

gconv_status gconv_bank_load(const gconv_texts *specs, const char *syntax, gconv_bank *bank) {
  size_t banks = 0;
  if (specs->count == 0)
    return gconv_refuse("name a bank, such as weights.safetensors:conv1.weight, or plain filters");
  for (size_t i = 0; i < specs->count; i++)
    banks += gconv_bank_is_meant(specs->items[i], syntax);
  if (banks > 0 && specs->count > 1)
    return gconv_refuse("name one bank, or several plain filters, which are stacked");
  return banks > 0 ? gconv_bank_read(specs->items[0], syntax, bank) : gconv_bank_stack_specs(specs, syntax, bank);
}

/* Runs `gconv bank` without the name of a part: each part is a command of its own. */
static int run(void *settings, const gconv_texts *words) {
  gconv_say("bank: %s%sinfo, show or convert is expected; gconv bank --help tells more",
            words->count > 0 ? words->items[0] : "", words->count > 0 ? ": " : "");
  return GCONV_EXIT_USAGE;
}

const gconv_command gconv_command_bank = {
    .name = "bank",
    .synopsis = "bank info|show|convert SPEC... [OPTION...]",
    .help = "banks of filters, the weights of layers: list, draw and convert them",
    .details =
        "  gconv bank info SPEC... [--json]\n"
        "      what files of banks hold: tensors or nodes, shapes, types, sums, biases, stride and padding\n"
        "  gconv bank show SPEC... -o FILE [--zoom N] [--columns N] [--scale each|all]\n"
        "      draw the filters as a contact sheet\n"
        "  gconv bank convert SPEC... [-o FILE] [--format bank|npy|safetensors] [--net LAYERS]\n"
        "      write a bank, or plain filters stacked into one, as text, .npy or safetensors; or a model as a network\n"
        "\n"
        "A SPEC is a gconv-bank text, .npy, safetensors or ONNX file, with :NAME for one of its tensors or Conv\n"
        "nodes, or plain filters as -f takes them, which are stacked. All take --filter-format SYNTAX and\n"
        "--no-sandbox.\n"
        "\n"
        "  gconv bank info weights.safetensors\n"
        "  gconv bank show weights.safetensors:conv1.weight -o filters.png\n"
        "  gconv bank convert model.onnx:Conv_0 -o bank.txt\n"
        "  gconv bank convert sobel_x sobel_y -o edges.npy\n",
    .words = GCONV_WORDS_ANY,
    .run = run,
};
