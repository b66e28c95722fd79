/* SPDX-License-Identifier: MIT */
/* Jobs: one operation on many files. A job runs in a thread of its own, so that the calling thread can react to Ctrl-C. */
#include "learning.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>

namespace gconv_python {

/* Everything that a run needs; the destructor frees it in the right order. */
struct Job {
  gconv_texts specs = {}, exclude = {};
  gconv_inputs inputs = {};
  gconv_outputs outputs = {};
  FilterList filters;
  gconv_operation *operation = nullptr;
  gconv_manifest *manifest = nullptr;
  gconv_batch batch = {};
  gconv_batch_summary summary = {};
  gconv_message message;
  std::string device, suffix, output;
  nb::object progress;
  PyObject *raised = nullptr; /* the exception of the progress function or of a signal handler; guarded by the GIL */
  volatile int stop = 0;

  ~Job() {
    gconv_manifest_close(manifest);
    gconv_operation_free(operation);
    gconv_outputs_free(&outputs);
    gconv_inputs_free(&inputs);
    gconv_texts_free(&specs);
    gconv_texts_free(&exclude);
    Py_XDECREF(raised);
  }
  void check(gconv_status status) const {
    if (status != GCONV_OK)
      raise(status, message.text);
  }
  /* Stores the current exception, if it is the first one, and ends the run. */
  void keep_raised() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
      PyException_SetTraceback(value, trace);
    if (raised)
      Py_XDECREF(value);
    else
      raised = value;
    Py_XDECREF(type);
    Py_XDECREF(trace);
    stop = 1;
  }
};

static nb::list texts_of(char *const *items, size_t count) {
  nb::list list;
  for (size_t i = 0; i < count; i++)
    list.append(nb::steal(PyUnicode_DecodeFSDefault(items[i])));
  return list;
}

static nb::dict report_of(const gconv_report &report) {
  nb::dict told =
      dict_of("input", nb::steal(PyUnicode_DecodeFSDefault(report.input->path)), "outputs",
              texts_of(report.outputs, report.output_count), "written", report.written, "passed", report.passed, "failed",
              report.failed, "errors", report.errors ? texts_of(report.errors->items, report.errors->count) : nb::list(),
              "elapsed_ms", report.elapsed_ms);
  if (report.executed)
    put(told, "pixels", report.pixels, "device", report.plan.device, "algorithm", report.plan.algorithm, "total_ms",
        report.total_ms, "decode_ms", report.decode_ms, "encode_ms", report.encode_ms, "kernel_ms",
        report.timings.kernel_ms);
  if (report.verified)
    put(told, "max_error", report.verification.max_error, "allowed", report.verification.allowed);
  return told;
}

static void tell(const gconv_report *report, void *user) {
  Job *job = (Job *)user;
  nb::gil_scoped_acquire acquired;
  try {
    job->progress(report_of(*report));
  } catch (nb::python_error &error) {
    error.restore();
    job->keep_raised();
  } catch (std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    job->keep_raised();
  }
}

static bool note_progress(const char *, double done, void *user) {
  ((std::atomic<double> *)user)->store(done);
  return true;
}

/* Runs the batch, and looks for signals and at the watcher from time to time. */
static gconv_status run_batch(Job *job) {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;
  std::atomic<double> progress{0};
  gconv_status status = GCONV_OK;
  nb::gil_scoped_release released;
  std::thread thread([&] {
    gconv_control control = {}; /* stops the images that are being processed, too */
    control.stop = &job->stop;
    control.progress = note_progress;
    control.user = &progress;
    gconv_control_use(&control);
    gconv_status result = gconv_batch_run(&job->batch, &job->summary, &job->message);
    std::lock_guard<std::mutex> guard(lock);
    status = result;
    done = true;
    changed.notify_all();
  });
  for (;;) {
    std::unique_lock<std::mutex> guard(lock);
    if (changed.wait_for(guard, std::chrono::milliseconds(50), [&] { return done; }))
      break;
    guard.unlock();
    nb::gil_scoped_acquire acquired;
    if (!job->stop && (PyErr_CheckSignals() || !tell_watcher("running a job", progress.load())))
      job->keep_raised();
  }
  thread.join();
  return status;
}

static void take_paths(const nb::list &paths, gconv_texts *texts) {
  for (nb::handle path : paths)
    if (!gconv_texts_add(texts, strdup(path_of(path).c_str())))
      raise(GCONV_NO_MEMORY, "no memory for the names of inputs");
}

static void find_inputs(Job *job, const nb::list &inputs, const nb::list &exclude, bool recursive) {
  take_paths(inputs, &job->specs);
  take_paths(exclude, &job->exclude);
  job->inputs.exclude = &job->exclude;
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_inputs_find(&job->specs, recursive, job->output.c_str(), &job->inputs, &job->message);
  }
  job->check(status);
}

static void name_outputs(Job *job, const nb::dict &given, bool each_filter) {
  gconv_naming naming = {};
  const std::string format = value_of(given, "format", std::string());
  naming.output = job->output.c_str();
  naming.same = format == "same";
  if (!format.empty() && !naming.same && !(naming.format = gconv_format_by_name(format.c_str())))
    refuse("format=\"%s\": gconv.formats() lists the formats that are known", format.c_str());
  naming.suffix = job->suffix.empty() ? nullptr : job->suffix.c_str();
  naming.filters = &job->filters;
  naming.each_filter = each_filter;
  naming.planes = value_of(given, "planes", 0);
  job->check(gconv_outputs_name(&job->inputs, &naming, &job->outputs, &job->message));
  job->check(gconv_outputs_check(&job->inputs, &job->outputs, &job->message));
  if (job->inputs.missed.count > 0) /* a run is all or nothing */
    refuse("%s", job->inputs.missed.items[0]);
}

static nb::dict summary_of(const Job &job) {
  const gconv_batch_summary &summary = job.summary;
  return dict_of("begun", summary.begun, "written", summary.written, "passed", summary.passed, "failed", summary.failed,
                 "device", summary.device.name, "device_reason", summary.device_reason, "warned", summary.warned, "wall_ms",
                 summary.wall_ms);
}

/* `model`: None, or a network or a support vector machine in place of filters; then `filters` has names for {filter}. */
static nb::dict run_job(const nb::list &inputs, const nb::list &filters, nb::handle model, const nb::dict &options,
                        nb::handle output, const nb::dict &given, nb::object progress) {
  Job job;
  gconv_shard shard = {};
  job.output = path_of(output);
  job.device = value_of(given, "device", std::string("auto"));
  job.suffix = value_of(given, "suffix", std::string());
  job.progress = progress;
  find_inputs(&job, inputs, nb::cast<nb::list>(given["exclude"]), value_of(given, "recursive", false));
  read_filters_given(filters, &job.filters);
  const bool each =
      model.is_none() ? value_of(options, "combine", 0) == (int)GCONV_COMBINE_NONE : value_of(given, "each", false);
  name_outputs(&job, given, each);
  check_written(given, job.outputs.format);
  if (model.is_none()) {
    std::string algorithm;
    gconv_options wanted = read_options(options, &algorithm);
    wanted.format = job.outputs.format;
    check(make_filters(job.filters, options, wanted, &job.operation));
  } else {
    const std::string present = value_of(given, "present", std::string("tensor"));
    job.operation = model_operation(model, present, job.outputs.format, options);
  }
  const std::string part = value_of(given, "shard", std::string());
  if (!part.empty()) {
    if (gconv_shard_parse(part.c_str(), &shard, &job.message) != GCONV_OK)
      refuse("shard=\"%s\": %s", part.c_str(), job.message.text);
    gconv_shard_take(&shard, &job.inputs, &job.outputs);
  }
  if (given.contains("digest")) {
    size_t removed;
    job.check(gconv_manifest_open(&job.outputs, &shard, nb::cast<uint64_t>(given["digest"]), &removed, &job.manifest,
                                  &job.message));
  }
  gconv_batch &batch = job.batch;
  batch.inputs = &job.inputs;
  batch.outputs = &job.outputs;
  batch.operation = job.operation;
  batch.device = job.device.c_str();
  batch.cpu_may_begin = job.device == "auto";
  take(given, "threads", batch.threads, "jobs", batch.jobs, "memory", batch.memory, "max_pixels", batch.max_pixels,
       "quality", batch.quality, "png_level", batch.png_level, "lossless", batch.lossless, "strip", batch.strip,
       "preserve_times", batch.preserve_times, "compression", batch.tiff_compression, "existing", batch.existing,
       "fail_fast", batch.fail_fast, "verify", batch.verify);
  batch.manifest = job.manifest;
  batch.watch = true;
  batch.tolerance = -1;
  batch.stop = &job.stop;
  batch.report = tell;
  batch.user = &job;
  const gconv_status status = job.inputs.count > 0 ? run_batch(&job) : GCONV_OK; /* a shard may have no inputs */
  if (job.raised) {
    PyObject *value = job.raised;
    job.raised = nullptr;
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    throw nb::python_error();
  }
  job.check(status);
  return summary_of(job);
}

void add_jobs(nb::module_ &module) {
  module.def("run_job", &run_job, nb::arg("inputs"), nb::arg("filters"), nb::arg("model").none(), nb::arg("options"),
             nb::arg("output"), nb::arg("given"), nb::arg("progress"));
}

} // namespace gconv_python
