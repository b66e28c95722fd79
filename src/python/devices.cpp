/* SPDX-License-Identifier: MIT */
/* Opens devices when they are first needed. All plans of the process share them. */
#include "core.hpp"

#include <map>

namespace gconv_python {

/* Never freed: plans that other modules hold may be freed after this module. */
struct State {
  std::mutex lock;
  std::map<std::pair<std::string, int>, gconv_device *> devices; /* by name and threads */
  std::atomic<int> threads{0};
};
static State *state = new State;
static std::atomic<unsigned> forks{0};

unsigned generation() {
  return forks.load(std::memory_order_relaxed);
}

/* Returns the device called `name` with `threads` threads. */
static gconv_device *open_device(const std::string &name, int threads) {
  if (state->lock.try_lock()) { /* keep the GIL, as nobody is opening a device */
    auto found = state->devices.find({name, threads});
    gconv_device *open = found != state->devices.end() ? found->second : nullptr;
    state->lock.unlock();
    if (open)
      return open;
  }
  gconv_device *device = nullptr;
  gconv_status status = GCONV_OK;
  std::string error;
  {
    nb::gil_scoped_release released; /* starting a GPU takes a moment, and may warn */
    std::lock_guard<std::mutex> guard(state->lock);
    gconv_device *&entry = state->devices[{name, threads}];
    if (!entry) {
      status = gconv_device_open(name.c_str(), threads, &entry);
      if (status != GCONV_OK)
        error = gconv_last_error();
    }
    device = entry;
  }
  if (status != GCONV_OK)
    raise(status, error.c_str());
  return device;
}

gconv_device *device_named(const std::string &name) {
  return open_device(name, state->threads);
}

gconv_device *lone_cpu() {
  return open_device("cpu", 1);
}

static void set_threads(int count) {
  if (count < 0)
    refuse("threads=%d: give the number of threads, or 0 for one a processor", count);
  state->threads = count;
}

/* Called in the child of a fork. The lock may belong to a thread that the child lacks. */
static void forget() {
  state = new State;
  forks++;
}

static nb::list list_devices() {
  nb::list found;
  gconv_device_info info;
  for (size_t i = 0; gconv_device_at(i, &info); i++)
    found.append(dict_of("name", info.name, "description", info.description, "memory_bytes", info.memory_bytes, "usable",
                         info.usable, "reason", info.reason, "driver", info.driver));
  return found;
}

static nb::list list_algorithms() {
  nb::list found;
  const auto add = [&](const gconv_algorithm_info *(*at)(size_t), const char *of) {
    for (size_t i = 0; const gconv_algorithm_info *info = at(i); i++)
      found.append(dict_of("name", info->name, "device", info->device, "of", of, "exact", info->exact, "help", info->help));
  };
  add(gconv_algorithm_at, "filters");
  add(gconv_layer_algorithm_at, "layers");
  return found;
}

static nb::list list_built_with() {
  nb::list found;
  for (size_t i = 0; gconv_built_with(i); i++)
    found.append(gconv_built_with(i));
  return found;
}

/* Warnings of the library become warnings of Python; they may come from any of its threads. */
static void log(gconv_log_level level, const char *text, void *) {
  if (level != GCONV_LOG_WARNING || !Py_IsInitialized())
    return;
  nb::gil_scoped_acquire acquired;
  PyObject *type, *value, *trace; /* keeps an exception that is being raised */
  PyErr_Fetch(&type, &value, &trace);
  try {
    nb::module_::import_("gconv._errors").attr("warn")(text);
  } catch (...) {
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

void add_devices(nb::module_ &module) {
  gconv_set_log(log, nullptr);
  module.def("version", &gconv_version);
  module.def("built_with", &list_built_with);
  module.def("devices", &list_devices);
  module.def("algorithms", &list_algorithms);
  module.def("set_threads", &set_threads, nb::arg("count"));
  module.def("forget", &forget);
}

} // namespace gconv_python
