#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a C program that calls every public function with every wrong argument.

usage: arguments.py OUTPUT.c        reads the public headers, src/gconv*.h

Of each function, each parameter becomes wrong in turn, by the rules of its type below, and all others are right. A pointer
that is required must be refused, with GCONV_BAD_ARGUMENT and a text that names it; so must be what REFUSED lists. Whatever
else is wrong may be refused or not: the program must not crash, and no sanitizer may complain. A function, parameter or field
of a struct that no rule knows is an error here: who adds one to a header says what is right and what is wrong of it.
"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = "".join(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
               for header in sorted((SOURCE / "src").glob("gconv*.h")))

# ---- What the headers declare ----

FUNCTIONS = [(name, " ".join(result.split()), [" ".join(one.split()) for one in arguments.split(",")])
             for result, name, arguments in re.findall(
                 r"^(?!typedef\b)(\w[\w *]*?)\b(gconv_\w+)\(([^()]*)\)(?: GCONV_PRINTF\([^)]*\))?;", TEXT, re.MULTILINE)]
ENUMS = set(re.findall(r"typedef enum \w+ \{[^}]*\} (\w+);", TEXT))


def fields_of(body):
    """[(type, name, [size] of an array or None)] of a struct; int32_t a, b; is two."""
    found = []
    for line in body.split(";"):
        line = " ".join(line.split())
        if not line or "(" in line:  # a function pointer has rules of its own
            continue
        kind, names = re.match(r"((?:const |volatile |struct )*\w+) ?(.*)", line).groups()
        for name in names.split(","):
            stars, word, array = re.match(r"\s*((?:\*| ?const )*)(\w+)(\[.*\])?", name).groups()
            found.append((kind + (" " + stars.strip() if stars else ""), word, array))
    return found


STRUCTS = {name: fields_of(body) for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", TEXT, re.DOTALL)}

# ---- What is right ----

# Arguments by function and name, by name and type, or by type: an expression of C, of what the program below has.
RIGHT = {
    "gconv_image_write.path": '"out.png"', "gconv_filters_write.path": '"out.txt"', "gconv_bank_write.path": '"out.txt"',
    "gconv_format_by_name.name": '"png"', "gconv_format_by_path.path": '"a.png"', "gconv_device_open.name": '"cpu"',
    "gconv_filters_read.spec": '"sobel_x"', "gconv_bank_read.spec": '"bank.txt"', "gconv_bank_is_one.spec": '"bank.txt"',
    "gconv_bank_file_open.spec": '"bank.txt"', "gconv_bank_file_find.name": "NULL", "gconv_bank_write.format": "NULL",
    "gconv_image_read.path": '"in.png"', "gconv_image_read_header.path": '"in.png"', "gconv_mask_read.path": '"in.png"',
    "gconv_complain.format": '"x"',
    "gconv_inputs_find.output": '"-"', "gconv_output_format.path": '"a.png"', "gconv_output_exists.path": '"a.png"',
    "gconv_shard_parse.text": '"1/2"', "gconv_manifest_find.path": '"out.png"', "gconv_devices_are_several.name": '"cpu"',
    "gconv_texts_add.text": 'strdup("x")', "gconv_operation_network.count": "1", "gconv_operation_chain.count": "1",
    "gconv_plan_execute_device.output_count": "1", "gconv_plan_rows_needed.count": "2",
    "gconv_plan_execute_rows.first": "0", "gconv_plan_create.rows": "0",
    "const gconv_input_rows *": "&input_rows", "const gconv_svm_results *": "&svm_results", "gconv_network_make.input": "input_of_net", "gconv_complain.status": "GCONV_IO_ERROR", "gconv_set_log.function": "NULL",
    "gconv_outputs_check_filters.filters": "&specs", "gconv_image_copy_metadata.to": "&spare",
    "gconv_image_same_shape.a": "&picture", "gconv_image_same_shape.b": "&picture", "gconv_outputs_check.outputs": "&outputs",
    "gconv_outputs_check.inputs": "&inputs", "gconv_shard_take.inputs": "&inputs", "gconv_shard_take.outputs": "&outputs", "gconv_shard_take.shard": "&undivided",
    "gconv_plan_verify.images": "&result", "gconv_plan_verify.outputs": "&result", "gconv_plan_verify.tolerance": "-1",
    "gconv_plan_execute_device.outputs": "&array_out", "gconv_plan_execute_strided.outputs": "&strided_out", "gconv_plan_execute_strided.output_count": "1", "gconv_plan_execute_strided_device.outputs": "&strided_out", "gconv_plan_execute_strided_device.output_count": "1", "gconv_plan_execute.outputs": "&result",
    "gconv_plan_execute_rows.outputs": "&result", "gconv_threads_allowed.wanted": "1", "gconv_device_open.threads": "1",
    "gconv_bank_file_read.index": "0",
    "gconv_image_allocate.image": "&unallocated",
    "gconv_network_is_one.path": '"net.safetensors"', "gconv_network_read.path": '"net.safetensors"', "gconv_network_import.path": '"net.safetensors"',
    "gconv_network_import.net": '"softmax"', "gconv_network_write.path": '"out.safetensors"', "gconv_network_make.text": '"dense 3 softmax"',
    "gconv_network_make.outputs": "3", "gconv_trainer_save.path": '"out.checkpoint"',
    "gconv_dataset_read.count": "1", "gconv_dataset_split.fraction": "0.5", "gconv_trainer_create.validation": "dataset",
    "gconv_fit_add.before": "&noise", "gconv_fit_add.after": "&noise", "const size_t *": "&case_number", "float *": "floats",
    "gconv_features_expect.operation": "features_operation", "const gconv_column_notes *": "&net.notes",
    "const gconv_network *": "&net", "const gconv_network_tensor *": "&numbers", "const gconv_dataset *": "dataset", "const gconv_dataset_options *": "&dataset_options",
    "const gconv_training_options *": "&training_options", "gconv_trainer *": "trainer", "const gconv_trainer *": "trainer",
    "gconv_features_resolve.text": '"gaussian 1"', "gconv_operation_features.features": '"gaussian 1"', "gconv_operation_features.channels": "0",
    "gconv_fit *": "&fit", "const gconv_fit *": "&fit", "const gconv_svm_options *": "&svm_options", "gconv_svm *": "svm", "const gconv_svm *": "svm",
    "gconv_svm_is_one.path": '"svm.model"', "gconv_svm_read.path": '"svm.model"', "gconv_svm_write.path": '"out.model"',
    "gconv_svm_validate.folds": "2", "const char * const *": "class_names", "gconv_class_values.count": "1", "gconv_svm_predict.count": "1", "const float *": "floats", "int32_t *": "classes", "double *": "doubles", "uint16_t *": "class_numbers",
    "const gconv_image *": "&picture", "const gconv_filter *": "&filters.items[0]", "const gconv_filters *": "&filters",
    "const gconv_options *": "&options", "const gconv_operation *": "operation", "gconv_operation *": "operation",
    "gconv_operation * const *": "&operation", "gconv_device *": "device", "const gconv_device *": "device",
    "gconv_plan *": "plan", "const gconv_plan *": "plan", "const gconv_bank *": "&bank", "const gconv_layer *": "&layer",
    "const gconv_network_options *": "&network", "const gconv_area *": "&area", "const gconv_array *": "&array_in", "const gconv_strided *": "&strided_in",
    "const gconv_format_info *": "png", "const gconv_read_options *": "NULL", "const gconv_write_options *": "NULL",
    "const gconv_bytes_in *": "&bytes_in", "gconv_bytes_out *": "&bytes_out", "gconv_image_encode.options": "&write_options", "const gconv_compared *": "&compared", "const gconv_compare_options *": "NULL", "const gconv_bank_sheet *": "NULL",
    "gconv_bank_file *": "file", "const gconv_bank_file *": "file", "const gconv_texts *": "&specs",
    "const gconv_inputs *": "&inputs", "const gconv_naming *": "&naming", "const gconv_outputs *": "&outputs",
    "const gconv_shard *": "&shard", "const gconv_manifest *": "manifest", "const gconv_input *": "&inputs.items[0]",
    "const gconv_batch *": "&batch", "gconv_message *": "&message", "gconv_log_function *": "NULL", "const gconv_control *": "NULL", "const gconv_allocator *": "NULL", "void *": "NULL",
    "const char *": "NULL", "gconv_type": "GCONV_U8", "bool": "false", "size_t": "0", "int": "1", "int32_t": "1", "uint64_t": "0",
    "double": "0", "gconv_border": "0", "gconv_combine": "0", "gconv_math": "0", "gconv_activation": "0", "gconv_layer_kind": "0", "gconv_status": "0",
    "const gconv_volume_options *": "&volume_options", "gconv_volume_filter.image": "&picture", "gconv_volume_filter.spec": '"box"',
    "gconv_volume_filter_file.input": '"stack.npy"', "gconv_volume_filter_file.output": '"out.npy"', "gconv_volume_filter_file.spec": '"box"',
    "const gconv_deconvolve_options *": "&deconvolve_options", "gconv_deconvolve.image": "&picture",
    "gconv_operation_arithmetic.other": "NULL", "gconv_arithmetic": "GCONV_ADD", "gconv_statistic": "GCONV_STD", "gconv_operation_local.rows": "3", "gconv_operation_local.columns": "3", "const gconv_stats_options *": "NULL", "gconv_stats_report *": "report_stats", "gconv_images_stats.count": "1",
    "...": None,
}
# Pointers that a caller may leave out: "may be NULL", and those of functions that allow it.
OPTIONAL = {"gconv_control_use.control", "gconv_set_allocator.allocator", "gconv_image_read.options", "gconv_image_decode.options", "gconv_image_decode_header.format", "gconv_mask_read.options", "gconv_image_read_header.format", "gconv_image_write.options", "gconv_image_compare.options", "gconv_image_stats.options", "gconv_operation_arithmetic.other", "gconv_deconvolve.told", "gconv_images_stats.options",
            "gconv_filters_read.syntax", "gconv_bank_read.syntax", "gconv_bank_file_open.syntax", "gconv_bank_file_open.name",
            "gconv_bank_file_find.name", "gconv_bank_write.format", "gconv_bank_draw.sheet", "gconv_operation_network.options",
            "gconv_plan_execute.timings", "gconv_plan_execute_rows.timings", "gconv_plan_execute_device.stream", "gconv_plan_execute_strided_device.stream",
            "gconv_manifest_open.removed", "gconv_complain.message", "gconv_complain.format", "gconv_network_is_one.path",
            "gconv_network_import.net", "gconv_operation_of_network.options", "gconv_dataset_read.targets", "gconv_trainer_create.options",
            "gconv_features_resolve.list", "gconv_features_resolve.count", "gconv_operation_pixels.options",
            "gconv_trainer_create.validation", "gconv_svm_train.options", "gconv_svm_validate.options",
            "gconv_svm_is_one.path", "gconv_operation_svm.options"}
# Counts that say how many things an array has: what is more than there is cannot be told from what is right.
CLAIMS = {"gconv_operation_network.count", "gconv_operation_chain.count", "gconv_dataset_read.count", "gconv_svm_predict.count", "gconv_class_values.count", "gconv_images_stats.count"}
NONE_IS_RIGHT = {"gconv_dataset_read.count", "gconv_svm_predict.count", "gconv_class_values.count", "gconv_images_stats.count"}  # of them, those that may be 0
# Only NULL is given to what ends a thing, and only what is made fresh for it else.
ENDS = re.compile(r"gconv_\w+_(free|close)$")

# ---- What is wrong ----

NUMBERS = {"int": ["INT_MIN", "-1", "0", "INT_MAX"], "int32_t": ["INT32_MIN", "-1", "0", "INT32_MAX"],
           "int64_t": ["INT64_MIN", "-1", "INT64_MAX"], "size_t": ["0", "SIZE_MAX"], "uint64_t": ["0", "UINT64_MAX"],
           "double": ["NAN", "INFINITY", "-INFINITY", "1e308", "-1e308"], "float": ["NAN", "INFINITY", "-INFINITY", "1e38F"],
           "bool": ["true", "false"]}
TEXTS = ['""', r'"\xff\xfe\x9b[2J"', "long_text", '"/"', '"nothing/there"']

# Fields of structs that are given to functions. A list: the wrong values; a string: why none is given. "!" before a value: it
# must be refused.
ANY = "any value is right"
UNKNOWN = "what does not belong to the other fields cannot be told from what does"
TOLD = "a function tells it"
FIELDS = {
    "gconv_image": {
        "type": ["!99", "!-1"], "frames": ["!0", "!-1", "!INT32_MIN"], "height": ["!0", "!-1", "!INT32_MIN"],
        "width": ["!0", "!-1", "!INT32_MIN"], "channels": ["!0", "!-1", "!5", "!INT32_MAX", "!INT32_MIN"], "planar": UNKNOWN, "alpha": UNKNOWN,
        "row_bytes": [".0", ".1", ".SIZE_MAX", ".SIZE_MAX / 2"], "plane_bytes": ["0", "SIZE_MAX"], "data": [".NULL"], "icc": ["NULL"],
        "icc_bytes": UNKNOWN, "pixels_per_metre_x": None, "pixels_per_metre_y": None, "exif": ["NULL"], "exif_bytes": UNKNOWN,
        "xmp": ["NULL"], "xmp_bytes": UNKNOWN, "comment": ["NULL"], "jpeg_quality": None, "lossless": ANY, "cmyk": ANY,

        "unitless_x": None, "unitless_y": None, "has_nodata": ANY, "nodata": None, "tags": ["NULL"], "tags_bytes": UNKNOWN, "left_out": ["NULL"]},
    "gconv_filter": {"name": ["NULL"], "rows": ["!0", "!-1", "!INT32_MIN", "!INT32_MAX", "!32769"],
                     "columns": ["!0", "!-1", "!INT32_MIN", "!INT32_MAX", "!32769"], "anchor_row": ["!-1", "!3", "!INT32_MAX", "!INT32_MIN"],
                     "anchor_column": ["!-1", "!3", "!INT32_MAX", "!INT32_MIN"], "divisor": ["!0", "!NAN", "!INFINITY"],
                     "offset": ["!NAN", "!-INFINITY"], "taps": ["!NULL"], "marked": ANY},
    "gconv_filters": {"items": ["!NULL"], "count": ["!0"], "gradient": ANY},
    "gconv_options": {
        "flip": ANY, "border": ["!99", "!-1"], "border_value": ["!NAN", "!INFINITY"], "padding": ["!99", "!-1"], "pad_top": None,
        "pad_bottom": None, "pad_left": None, "pad_right": None, "stride_y": ["0", "!-1", "!INT32_MAX"],
        "stride_x": ["0", "!-1", "!INT32_MAX"], "dilation_y": ["0", "!-1", "!INT32_MAX"], "dilation_x": ["0", "!-1", "!INT32_MAX"],
        "gray": ANY, "round_gray": ANY, "mix": ["!-1", "!5", "!INT32_MAX"], "mixing": ANY, "linear": ANY, "alpha": ["!99", "!-1"], "combine": ["!99", "!-1"], "scale": ["!NAN", "!INFINITY"],
        "offset": ["!NAN", "!INFINITY"], "range": ["!99", "!-1"], "sets_type": ANY, "output_type": ["!99", "!-1"], "format": ["NULL"],
        "algorithm": ["NULL", '"nothing"'], "without": ["NULL", '"nothing"'], "workspace_bytes": None, "block_width": ["!-1", "!INT32_MAX"],
        "block_height": ["!-1", "!INT32_MAX"], "grid_blocks": ["!-1", "!INT32_MIN"], "nan": ["!99", "!-1"], "preserves": ANY,
        "sets_nodata": ANY, "nodata": None, "weights": ["NULL"], "least_weight": ["!NAN", "!-1", "!2"]},
    "gconv_layer": {
        "kind": ["!99", "!-1", "!GCONV_LAYER_MEAN", "!GCONV_LAYER_RESIDUAL", "!GCONV_LAYER_SHUFFLE"], "bank": ["!NULL", "!&no_bank", "!&huge_bank"], "padding": ["!99", "!-1"],
        "pad_top": None, "pad_left": None, "pad_bottom": None, "pad_right": None, "stride_y": ["!-1", "!INT32_MIN"], "stride_x": ["!-1", "!INT32_MIN"],
        "dilation_y": ["!-1", "!INT32_MIN"], "dilation_x": ["!-1", "!INT32_MIN"], "groups": ["!-1", "!INT32_MIN"], "flip": ANY,
        "activation": ["!99", "!-1"], "slope": ["!NAN", "!INFINITY"], "algorithm": ['"nothing"', '""'], "border": ["!99", "!-1"], "border_value": ["!NAN", "!INFINITY"],
        "window_y": ["!1", "!-1"], "window_x": ["!1", "!-1"], "from": ["!1", "!-1"]},
    "gconv_network_options": {
        "gray": ANY, "order": ["!99", "!-1"], "alpha": ["!99", "!-1", "!GCONV_ALPHA_PREMULTIPLY"], "luma": ANY, "white": ["!NAN", "!INFINITY", "!-1"],
        "mean": UNKNOWN, "std": UNKNOWN, "mean_count": ["!-1", "!INT32_MIN"], "std_count": ["!-1", "!INT32_MIN"],
        "math": ["!99", "!-1"], "algorithm": ['"nothing"'], "without": ['"nothing"'], "workspace_bytes": None, "any_batch": ANY,
        "combine": ["!99", "!-1", "!GCONV_COMBINE_STACK"], "presentation": ["!99", "!-1", "!GCONV_PRESENT_LABELS", "!GCONV_PRESENT_CLASSES"],
        "tone": ["!{.scale = NAN}", "!{.offset = INFINITY}", "!{.range = (gconv_range)99}", "!{.range = (gconv_range)-1}", "!{.type = (gconv_type)99}", "!{.type = (gconv_type)-1}"],
        "class_values": UNKNOWN, "class_value_count": ["!1", "!SIZE_MAX"]},
    "gconv_area": {"x": None, "y": None, "width": ["!-1", "!INT32_MIN", "!0", "INT32_MAX"], "height": ["!-1", "!INT32_MIN", "!0", "INT32_MAX"],
                   "mask": ["!&no_picture"]},
    "gconv_array": {"data": ["!NULL"], "type": ["!99", "!-1"], "shape": ["!{0, 0, 0, 0}", "!{-1, 3, 6, 8}", "!{1, 3, INT64_MAX, INT64_MAX}"],
                    "stride": ["!{-1, -1, -1, -1}", "!{INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}", "!{0, 0, 0, 0}"]},
    "gconv_strided": {"data": ["!NULL"], "type": ["!99", "!-1", "!GCONV_ELEMENT_F32"], "shape": ["!{0, 0, 0, 0}", "!{-1, 3, 6, 8}", "!{1, 3, INT64_MAX, INT64_MAX}"],
                      "stride": ["!{1, 1, INT64_MAX, 1}", "!{INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}"]},
    "gconv_bank": {
        "name": ["NULL"], "filters": ["!0", "!-1", "!INT32_MAX"], "channels": ["!0", "!-1", "!INT32_MAX"],
        "rows": ["!0", "!-1", "!INT32_MAX"], "columns": ["!0", "!-1", "!INT32_MAX"], "weights": ["!NULL"], "biases": ["NULL"],
        "names": ["NULL"], "has_geometry": ["!true"], "stride_y": ["-1"], "stride_x": ["-1"], "dilation_y": ["-1"], "dilation_x": ["-1"],
        "groups": ["0"], "pad_top": ["-1"], "pad_left": ["-1"], "pad_bottom": ["-1"], "pad_right": ["-1"], "same_upper": ANY, "same_lower": ANY},
    "gconv_bank_sheet": {"zoom": ["!-1", "!INT32_MAX", "!INT32_MIN"], "columns": ["!-1", "!INT32_MIN", "INT32_MAX"], "one_scale": ANY},
    "gconv_read_options": {"max_pixels": ["1", "UINT64_MAX"], "again": ANY, "strip": ANY, "unrounded": ANY, "max_bytes": ["1", "UINT64_MAX"],
                           "palette": ["NULL"], "planes": ["-1", "3", "INT32_MAX"]},
    "gconv_write_options": {
        "format": ["!&no_format"], "keep_existing": ANY, "quality": ["!-1", "!101", "!INT_MAX", "!INT_MIN"], "lossless": ANY,
        "png_level": ["!-2", "!10", "!INT_MAX", "!INT_MIN"], "threads": None, "shared": UNKNOWN, "tiff_compression": ["!99", "!-1"],
        "store": ["!99", "!-1"], "unit": ["!NAN", "!INFINITY", "!-1"], "strip": ANY,
        "palette": ["NULL", "!(const gconv_palette[]){{.count = -1}}", "!(const gconv_palette[]){{.count = 257}}"]},
    "gconv_control": {"stop": ["NULL"], "deadline": None, "user": ANY, "outer": ["NULL"]},
    "gconv_bytes_in": {"name": ["NULL", "long_text"], "member": ['!""', '!"1"', "!long_text"], "data": ["!NULL"], "size": ["!0", "!1", "!40"], "user": ANY},
    "gconv_bytes_out": {"name": ["NULL", "long_text"], "data": ["!NULL", "!picture.data"], "size": ["SIZE_MAX"], "room": UNKNOWN, "user": ANY},
    "gconv_compared": {"path": ["!NULL", '""', "long_text"], "image": ["!&no_picture"]},
    "gconv_compare_options": {"max_pixels": ["1", "UINT64_MAX"], "threads": UNKNOWN, "picture": ['""', "long_text"], "write": ["NULL"], "user": ANY},
    "gconv_volume_options": {"plain": UNKNOWN, "stride_z": ["!-1", "!INT32_MIN"], "spacing": ANY, "slab_bytes": ["SIZE_MAX", "1"],
                             "taps": UNKNOWN, "tap_planes": UNKNOWN, "there": ANY},
    "gconv_deconvolve_options": {
        "psf_planes": ["!-1", "!INT32_MIN"], "method": ["!99", "!-1"], "iterations": ["!-1", "!INT32_MIN"], "accelerated": ANY, "total_variation": ["!NAN", "!-1", "!INFINITY"],
        "change": ["!NAN", "!-1", "!INFINITY"], "noise": ["!NAN", "!-1", "!INFINITY"], "deviance": ANY, "user": ANY},
    "gconv_stats_options": {"max_pixels": ["1", "UINT64_MAX"], "threads": UNKNOWN, "percentiles": ["!NULL"],
                            "percentile_count": ["!-1", "!17", "!INT_MAX", "!INT_MIN"], "unit": ["!NAN", "!-1", "!INFINITY"]},
    "gconv_format_info": dict.fromkeys("name extensions help reads writes holds multiframe several tensors level quality lossless "
                                       "compression stores".split(), TOLD),
    "gconv_texts": {"items": ["!NULL"], "count": ["0"]},
    "gconv_inputs": {"items": ["!NULL"], "count": ["0"], "many": ANY, "unread": ["{SIZE_MAX, NULL}"],
                     "exclude": ["NULL"], "unread_kinds": ["NULL"], "missed": ["!{NULL, 1}"], "repeated": ["{SIZE_MAX, NULL}"],
                     "linked": ["{SIZE_MAX, NULL}"], "dangling": ["{SIZE_MAX, NULL}"],
                     "folders": ["!{NULL, 1}"], "patterns": ["!{NULL, 1}"]},
    "gconv_passed_over": {"count": ["SIZE_MAX"], "first": ["NULL"]},
    "gconv_input": {"path": ["NULL"], "file": ["NULL"], "relative": ["NULL"], "found": ANY},
    "gconv_naming": {"output": ["!NULL", '""', "long_text", '"{nothing}"', '"{"', '"}"', '"out/"'], "format": ["NULL"], "same": ANY,
                     "suffix": ["long_text", '"/"', '""'], "filters": ["!NULL", "!&no_filters"], "each_filter": ANY, "keeps": ANY, "in_place": ANY,
                     "planes": ["-1", "3", "INT32_MAX"]},
    "gconv_outputs": {
        "format": ["NULL"], "same": ANY, "suffix": ["NULL"], "earlier": ["SIZE_MAX"], "pattern": ["NULL"], "folder": ["NULL"], "paths": ["!{NULL, 1}", "{NULL, 0}"],
        "formats": UNKNOWN, "first": [".NULL"], "in_place": ANY, "make_folders": ANY, "of_frames": ["NULL"], "labels": ["{NULL, 0}"], "mirrors": ANY, "keeps": ANY, "among": ANY, "alike": ANY,
        "planes": ["-1", "3", "INT32_MAX"]},
    "gconv_shard": {"number": None, "count": ["!-1", "!INT_MIN"]},
    "gconv_batch": {
        "inputs": ["!NULL", "!&no_inputs"], "outputs": ["!NULL", "!&no_outputs"], "operation": ["!NULL"], "one_array": UNKNOWN, "nhwc": ANY,
        "group": ["!-1", "!INT_MIN", "INT_MAX"], "device": ["!NULL", '!""', '!"nothing"'], "decoder": ["!99", "!-1"], "cpu_may_begin": ANY,
        "threads": ["!-1", "!INT_MIN"], "jobs": ["!-1", "!INT_MIN"], "memory": ["1", "UINT64_MAX"],
        "max_pixels": ["1", "UINT64_MAX"], "unrounded": ANY, "quality": ["!-1", "!101", "!INT_MIN"], "png_level": ["!-2", "!10", "!INT_MIN"],
        "lossless": ANY, "strip": ANY, "preserve_times": ANY, "tiff_compression": ["!99", "!-1"], "store": ["!99", "!-1"], "palette": ["NULL", "!(const gconv_palette[]){{.count = -1}}", "!(const gconv_palette[]){{.count = 257}}"], "existing": ["!99", "!-1"],
        "manifest": ["NULL"], "advance": UNKNOWN,
        "fail_fast": ANY, "stop": ["NULL"], "watch": ANY, "alpha_meant": ANY, "written": ["NULL"], "verify": ANY, "explain": ANY, "leaves_threads": ANY, "only_explained": ANY, "tolerance": ["!NAN"],
        "user": ANY},
    "gconv_network": {
        "layers": ["!NULL", *[f".&bad_layers[{i}]" for i in range(10)]], "banks": ["NULL"], "count": ["!0"], "channels": ["!0", "!-1", "!INT32_MIN", ".INT32_MAX"],
        "height": [".-1", ".INT32_MIN", ".0"], "width": [".-1", ".INT32_MIN", ".0"], "mean": [".NULL"], "std": ["NULL"], "mean_count": [".-1", ".INT32_MIN"],
        "std_count": [".-1", ".1"], "white": ["!NAN", "!-1"], "order": ["!99", "!-1"], "classes": [".NULL"], "class_count": ["0", ".1", ".2"], "loss": [".99", ".-1"], "seed": ANY,
        "label": ['(char *)"\\xff"'], "features": ['(char *)"\\xff"'], "palette": UNKNOWN, "graph": UNKNOWN, "graph_digest": ANY, "inputs": UNKNOWN, "outputs": UNKNOWN, "input_count": ANY, "output_count": ANY, "output": ['"nothing"'], "notes": [".{1, NULL, NULL, NULL, NULL}"], "trained": ['(char *)"x"', '(char *)"\\xff"'], "others": ['(char *)"x"', '(char *)"[]"']},
    "gconv_network_tensor": {"name": ["NULL", '(char *)""'], "type": ["NULL", '"nothing"'], "axes": None, "shape": UNKNOWN, "data": ["NULL"], "channels_last": ANY},
    "gconv_column_notes": {"count": ["1", "SIZE_MAX"], "names": ["NULL"], "means": ["NULL"], "deviations": ["NULL"], "origins": ["NULL"]},
    "gconv_dataset_options": {
        "kind": ["!99", "!-1"], "cases": ["!&(gconv_dataset_cases){0}", "!&(gconv_dataset_cases){.count = 1, .rows = floats}"], "inputs": ["!NULL", '!""', "!long_text"], "targets": ['!""', '!"nothing"'], "syntax": ['!"nothing"'], "label": ['!"nothing"', '!""'], "usual_label": ANY,
        "regression": ANY, "classification": ANY, "unlabelled": ANY, "separator": ["'a'", "'\\n'", "'\"'"], "columns": ["!SIZE_MAX"], "one_hot": ANY, "missing": ['!"nothing"'], "classes": ["NULL"],
        "class_count": ["!1", "!SIZE_MAX"], "others": ANY, "like": ["NULL"], "window": ["!-1", "!INT32_MIN", "!INT32_MAX"], "hop": ["!-1", "!INT32_MIN", "!INT32_MAX"],
        "patch": ["!-1", "!INT32_MIN", "!INT32_MAX"], "augment": ANY, "gray": ANY, "seed": ANY, "features": ANY,
        "most_cases": ["1"], "memory": ["1", "UINT64_MAX"]},
    "gconv_training_options": {
        "loss": ["!99", "!-1"], "optimizer": ["!99", "!-1"], "schedule": ["!99", "!-1"], "rate": ["!NAN", "!-1", "!INFINITY"], "momentum": ["!NAN", "!-1", "!2"],
        "weight_decay": ["!NAN", "!-1", "!INFINITY"], "elimination": ["!NAN", "!-1", "!INFINITY"], "elimination_scale": ["!NAN", "!-1", "!INFINITY"],
        "batch": ["1", "SIZE_MAX"], "epochs": ["SIZE_MAX"], "patience": ["SIZE_MAX"], "stop_error": ["!NAN", "!-1", "!INFINITY"], "seed": ANY,
        "memory": ["1", "UINT64_MAX"], "normalize": ANY, "algorithm": ['!"nothing"', '!""'], "math": ["!99", "!-1"], "stop": ["NULL"],
        "weights": ["NULL", "!&no_weight"], "weight_count": ["0"], "save_to": ["NULL"], "save_seconds": ["!NAN", "!-1"], "resume_from": ['!"nothing/there"', '!""']},
    "gconv_input_rows": {"image": ["!NULL"], "first": ["!-1", "!1", "!INT32_MAX", "!INT32_MIN"]},
    "gconv_svm_results": {"classes": ["NULL"], "values": ["NULL"], "probabilities": ["NULL"]},
    "gconv_svm_options": {
        "type": ["!99", "!-1"], "kernel": ["!99", "!-1"], "scaling": ["!99", "!-1"], "degree": ["!-1", "!INT32_MIN", "!INT32_MAX"],
        "gamma": ["!NAN", "!-1", "!INFINITY"], "coef0": ["!NAN", "!INFINITY"], "cost": ["!NAN", "!-1", "!INFINITY"], "tube": ["!NAN", "!INFINITY"],
        "tolerance": ["!NAN", "!-1", "!INFINITY"], "cache_bytes": ["1", "UINT64_MAX"], "no_shrinking": ANY, "probabilities": ANY, "seed": ANY,
        "weights": ["NULL", "!&no_weight"], "weight_count": ["0"], "user": ANY,
        "case_weights": ["NULL"], "case_weight_count": ["0", "!1", "!SIZE_MAX"], "most_steps": ["0", "1", "UINT64_MAX"]},
    "gconv_fit": {
        "rows": ["!0", "!-1", "!INT32_MIN", "!INT32_MAX", "!2", "!4"], "columns": ["!0", "!-1", "!INT32_MIN", "!INT32_MAX", "!2", "!4"], "bias": ANY,
        "ridge": ["!NAN", "!-1", "!INFINITY"], "whole": ANY, "border": ["!99", "!-1"], "border_value": ["!NAN", "!INFINITY"], "max_pixels": ["1"], "sums": TOLD},
}
# Where a "!" does not hold: functions that look at less. Where a "." field is looked at by functions that look at pixels.
LOOKS = {"gconv_image": {"header": {"gconv_image_allocate", "gconv_plan_create"},
                         "pixels": {"gconv_image_write", "gconv_image_encode", "gconv_plan_execute", "gconv_plan_execute_rows", "gconv_plan_verify"},
                         "empty": {"gconv_plan_execute.outputs"}},  # an output without pixels gets some,
         "gconv_network": {"header": {"gconv_network_write", "gconv_trainer_create", "gconv_operation_of_network"},
                           "pixels": {"gconv_network_write", "gconv_trainer_create"}},
         "gconv_outputs": {"header": {"gconv_outputs_check", "gconv_outputs_check_filters", "gconv_manifest_open"}, "pixels": {"gconv_outputs_check"}},
         "gconv_inputs": {"header": {"gconv_outputs_name", "gconv_outputs_check"}, "pixels": set()}}
# Structs that optional pointers point to: right ones, to make wrong ones of.
OPTIONS = {"const gconv_read_options *": "read_options", "const gconv_write_options *": "write_options",
           "const gconv_compare_options *": "compare_options", "const gconv_stats_options *": "stats_options", "const gconv_bank_sheet *": "sheet", "const gconv_network_options *": "network",
           "const gconv_training_options *": "training_options", "const gconv_svm_options *": "svm_options"}


def split(argument):
    """("const gconv_image *", "image") of a parameter; ("...", "...") of what follows."""
    if argument in ("void", "..."):
        return argument, argument
    kind, name = re.match(r"(.*?)(\w+)(?:\[\d+\])?$", argument).groups()
    kind = kind.replace("*const *", "* const *").strip()
    return (kind + " *" if argument.endswith("]") else kind), name


def is_pointer(kind):
    return kind.endswith("*")


def right(function, kind, name):
    for key in (f"{function}.{name}", kind):
        if key in RIGHT:
            return RIGHT[key]
    if kind.endswith("**") or (is_pointer(kind) and not kind.startswith("const")):  # what a function fills
        return None
    sys.exit(f"arguments.py: no right value is known of {kind} {name} of {function}(): add one to RIGHT")


def made_wrong(function, kind, name, good):
    """[(declarations, expression, whether it must be refused, what it is)] of a struct, one field after the other."""
    struct = re.sub(r"^const |[ *]", "", kind)
    struct = struct if struct in STRUCTS and kind in (f"const {struct} *", f"{struct} *") else None
    if not struct or struct == "gconv_format_info" or ENDS.match(function) or struct == "gconv_message":
        return
    if struct not in FIELDS:
        sys.exit(f"arguments.py: {struct} is given to {function}(), and no wrong values of it are known: add them to FIELDS")
    looks = LOOKS.get(struct)
    good = OPTIONS.get(kind) and "&" + OPTIONS[kind] or good
    for field_kind, field, array in STRUCTS[struct]:
        if field == "reserved":
            FIELDS[struct][field] = ["!{" + "0, " * (int(array[1:-1]) - 1) + "1}"]
        if field not in FIELDS[struct]:
            sys.exit(f"arguments.py: no wrong values are known of {struct}.{field}: add them to FIELDS")
        values = FIELDS[struct][field]
        values = NUMBERS[field_kind] if values is None else [] if isinstance(values, str) else values
        for value in values:
            of_pixels, must = value[0] == ".", value[0] in "!."
            value = value.lstrip("!.")
            if looks:
                must = must and not (field == "data" and f"{function}.{name}" in looks.get("empty", ()))
                must = must and (function in looks["pixels"] or (not of_pixels and function in looks["header"]))
            if array:
                assign = f"int64_t values[] = {value}; memcpy(wrong.{field}, values, sizeof values);"
            elif value.startswith("{"):
                assign = f"wrong.{field} = (__typeof__(wrong.{field})){value};"
            else:
                assign = f"wrong.{field} = ({field_kind}){value};" if field_kind in ENUMS else f"wrong.{field} = {value};"
            yield f"{struct} wrong = *({good}); {assign}", "&wrong", must, f"{name}->{field} = {value}"


def wrong_values(function, kind, name, good):
    path = f"{function}.{name}"
    if kind in ("...", "bool") or path in CLAIMS:
        if path in CLAIMS:
            yield "", "0", path not in NONE_IS_RIGHT, f"{name} = 0"
        return
    if is_pointer(kind):
        must = path not in OPTIONAL and kind not in ("void *", "gconv_log_function *")
        yield "", "NULL", must, f"{name} = NULL"
        if kind == "const char *":
            for text in TEXTS:
                yield "", text, False, f"{name} = {text}"
        elif good and good != "NULL" or kind in OPTIONS:
            yield from made_wrong(function, kind, name, good)
        return
    values = ["99", "-1", "INT_MAX", "INT_MIN"] if kind in ENUMS else NUMBERS[kind]
    for value in values:
        yield "", f"({kind}){value}", False, f"{name} = {value}"


def write_call(out, function, result, parameters, index, wrong):
    declarations, expression, must, what = wrong
    arguments, after, filled = [], [], []
    for i, (kind, name) in enumerate(parameters):
        good = right(function, kind, name)
        if kind == "...":
            continue
        if good is None and i != index:
            inner = kind[:-1].strip()
            filled.append(f"{inner} out{i} = {{0}};" if inner != "char" else f"char out{i}[192];")
            good = f"out{i}" if inner == "char" else f"&out{i}"
            after.append(RELEASE.get(inner, "(void)out{0};").format(i))
        arguments.append(expression if i == index else good)
    if function == "gconv_image_allocate" and expression == "&wrong":
        after.append("gconv_image_free(&wrong);")
    if function == "gconv_control_use":  # the control must not outlive the block
        after.append("gconv_control_use(NULL);")
    call = f"{function}({', '.join(arguments)})"
    check = f'refused("{parameters[index][1] if index >= 0 else ""}", {call}, {str(must).lower()}, {str(expression == "NULL").lower()});'
    if result.strip() != "gconv_status":
        check = f"{call};" if result.strip() in ("void",) else f"(void){call};"
    out.append(f'  {{ {declarations} {" ".join(filled)}\n    begin("{function}: {what_text(what)}");\n    {check}\n    {" ".join(after)} }}')


def what_text(what):
    return what.replace("\\", "\\\\").replace('"', "'")


RELEASE = {"gconv_image": "gconv_image_free(&out{0});", "gconv_filters": "gconv_filters_free(&out{0});", "char *": "free(out{0});",
           "gconv_bank": "gconv_bank_free(&out{0});", "gconv_operation *": "gconv_operation_free(out{0});",
           "gconv_plan *": "gconv_plan_free(out{0});", "gconv_device *": "gconv_device_close(out{0});",
           "gconv_bank_file *": "gconv_bank_file_close(out{0});", "gconv_inputs": "gconv_inputs_free(&out{0});",
           "gconv_outputs": "gconv_outputs_free(&out{0});", "gconv_texts": "gconv_texts_free(&out{0});",
           "gconv_manifest *": "gconv_manifest_close(out{0});", "gconv_network": "gconv_network_free(&out{0});",
           "gconv_dataset *": "gconv_dataset_free(out{0});", "gconv_trainer *": "gconv_trainer_free(out{0});",
           "gconv_svm *": "gconv_svm_free(out{0});", "gconv_fit_result": "free(out{0}.taps); gconv_filters_free(&out{0}.filters);"}


def main():
    out, calls = [], 0
    for function, result, arguments in FUNCTIONS:
        parameters = [split(one) for one in arguments if one != "void"]
        out.append(f"static void give_{function}(void) {{")
        before = calls
        for index, (kind, name) in enumerate(parameters):
            for wrong in wrong_values(function, kind, name, right(function, kind, name)):
                write_call(out, function, result, parameters, index, wrong)
                calls += 1
        if calls == before and parameters:
            sys.exit(f"arguments.py: no wrong argument is known of {function}()")
        out.append("}\n")
    program = (pathlib.Path(__file__).parent / "arguments.c").read_text()
    table = "".join(f"  give_{function}();\n" for function, _, _ in FUNCTIONS)
    pathlib.Path(sys.argv[1]).write_text(program + "\n" + "\n".join(out) + "\nstatic void give_all(void) {\n" + table + "}\n"
                                         f"enum {{ FUNCTIONS = {len(FUNCTIONS)}, CALLS = {calls} }};\n" + MAIN)


MAIN = """
int main(void) {
  set_up();
  give_all();
  give_more();
  tear_down();
  printf("%d functions, %d calls with a wrong argument, %d mistakes\\n", FUNCTIONS, CALLS, mistakes);
  return mistakes > 0;
}
"""

if __name__ == "__main__":
    main()
