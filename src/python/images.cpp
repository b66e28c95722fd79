/* SPDX-License-Identifier: MIT */
/* Reads images of files and of bytes into arrays of NumPy, and makes files and bytes of arrays. */
#include "core.hpp"

#include <cstdlib>
#include <cstring>

namespace gconv_python {

/* An image that is freed with the array that shows its pixels. */
using ImageOwner = Owned<gconv_image, gconv_image_free>;

static nb::object bytes_of(const void *bytes, size_t count) {
  return bytes ? nb::object(nb::bytes(bytes, count)) : nb::none();
}

static nb::dict describe(const gconv_image &image) {
  return dict_of("frames", image.frames, "height", image.height, "width", image.width, "channels", image.channels, "alpha",
                 image.alpha, "dtype", type_name(image.type), "pixels_per_metre",
                 nb::make_tuple(image.pixels_per_metre_y, image.pixels_per_metre_x), "comment",
                 bytes_of(image.comment, image.comment ? strlen(image.comment) : 0), "icc",
                 bytes_of(image.icc, image.icc_bytes), "exif", bytes_of(image.exif, image.exif_bytes), "xmp",
                 bytes_of(image.xmp, image.xmp_bytes), "jpeg_quality", image.jpeg_quality);
}

/* Makes a NumPy array that shows an image's pixels; `owner` frees the image. Axes N and C of length 1 are left out. */
static nb::object show(const gconv_image &image, nb::capsule owner, std::string *axes) {
  const int64_t size = (int64_t)gconv_type_bytes(image.type), planes = image.planar ? image.channels : 1;
  const int64_t row = (int64_t)image.row_bytes / size, plane = (int64_t)image.plane_bytes / size;
  size_t shape[4];
  int64_t stride[4];
  size_t count = 0;
  const auto add = [&](char letter, int32_t length, int64_t step) {
    *axes += letter;
    shape[count] = (size_t)length;
    stride[count++] = step;
  };
  if (image.frames > 1)
    add('N', image.frames, planes * plane);
  if (image.planar && image.channels > 1)
    add('C', image.channels, plane);
  add('H', image.height, row);
  add('W', image.width, image.planar ? 1 : image.channels);
  if (!image.planar && image.channels > 1)
    add('C', image.channels, 1);
  static const nb::dlpack::dtype types[] = {nb::dtype<uint8_t>(), nb::dtype<uint16_t>(), nb::dtype<float>(),
                                            nb::dtype<int16_t>()};
  return nb::ndarray<nb::numpy>(image.data, count, shape, owner, stride, types[image.type], nb::device::cpu::value).cast();
}

/* A caller's bytes (of bytes, bytearray, memoryview or an array), which stay alive as long as this struct. */
struct Bytes {
  Py_buffer buffer = {};
  Bytes(nb::handle given) {
    if (PyObject_GetBuffer(given.ptr(), &buffer, PyBUF_SIMPLE) != 0) /* accepts only contiguous memory */
      throw nb::python_error();
  }
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  ~Bytes() {
    PyBuffer_Release(&buffer);
  }
  gconv_bytes_in as_input(const std::string &member) const {
    gconv_bytes_in from = {};
    from.name = "the bytes";
    from.member = member.empty() ? nullptr : member.c_str();
    from.data = buffer.buf ? buffer.buf : "";
    from.size = (size_t)buffer.len;
    return from;
  }
};

/* Returns (array, axes, a dict of metadata). read(options, image) reads the image, without the GIL. */
template <typename Read> nb::tuple show_read(uint64_t max_pixels, Read read) {
  auto made = std::make_unique<ImageOwner>();
  gconv_read_options options = {};
  options.max_pixels = max_pixels;
  call([&] { return read(&options, made.get()); });
  ImageOwner *kept = made.release();
  nb::capsule owner(kept, [](void *memory) noexcept { delete (ImageOwner *)memory; });
  std::string axes;
  nb::object array = show(*kept, owner, &axes);
  return nb::make_tuple(array, axes, describe(*kept));
}

static nb::tuple read_image(nb::handle given, uint64_t max_pixels) {
  const std::string path = path_of(given);
  return show_read(max_pixels, [&](const gconv_read_options *options, gconv_image *image) {
    return gconv_image_read(path.c_str(), options, image);
  });
}

static nb::tuple decode(nb::handle given, const std::string &member, uint64_t max_pixels) {
  const Bytes bytes(given);
  const gconv_bytes_in from = bytes.as_input(member);
  return show_read(max_pixels, [&](const gconv_read_options *options, gconv_image *image) {
    return gconv_image_decode(&from, options, image);
  });
}

/* read(image, format) reads the header, without the GIL. */
template <typename Read> nb::dict describe_read(Read read) {
  ImageOwner made;
  const gconv_format_info *format = nullptr;
  call([&] { return read(&made, &format); });
  nb::dict info = describe(made);
  info["format"] = format ? format->name : "";
  return info;
}

static nb::dict read_header(nb::handle given) {
  const std::string path = path_of(given);
  return describe_read([&](gconv_image *image, const gconv_format_info **format) {
    return gconv_image_read_header(path.c_str(), image, format);
  });
}

static nb::dict decode_header(nb::handle given, const std::string &member) {
  const Bytes bytes(given);
  const gconv_bytes_in from = bytes.as_input(member);
  return describe_read(
      [&](gconv_image *image, const gconv_format_info **format) { return gconv_image_decode_header(&from, image, format); });
}

void check_written(const nb::dict &options, const gconv_format_info *format) {
  const struct {
    const char *name, *formats;
    bool can;
  } rows[] = {{"quality", "JPEG or WebP", format && format->quality},
              {"lossless", "WebP", format && format->lossless},
              {"png_level", "PNG", format && format->level},
              {"compression", "TIFF", format && format->compression}};
  for (const auto &row : rows)
    if (format && !row.can && value_of(options, row.name, 0) != 0)
      refuse("%s= is for %s, and the results are %s", row.name, row.formats, format->name);
}

/* Calls write(options, image), without the GIL, with the caller's options and image. path: NULL without a file. */
template <typename Write>
void give_image(nb::handle array, nb::handle axes_text, const nb::dict &given, const char *path, Write write) {
  Samples samples;
  gconv_array seen;
  gconv_image image;
  if (!see(array, "the image", false, &samples))
    refuse("the image is no array of NumPy");
  const Axes axes = read_axes(axes_text, samples.dimensions);
  if (samples.device >= 0 || !lay_out(samples, axes, nullptr, &seen, &image))
    refuse("the image must be copied into contiguous memory of the host first");
  const std::string format = value_of(given, "format", std::string());
  gconv_write_options options = {};
  if (!format.empty() && !(options.format = gconv_format_by_name(format.c_str())))
    refuse("format=\"%s\": gconv.formats() lists the formats that are known", format.c_str());
  check_written(given, options.format || !path ? options.format : gconv_format_by_path(path));
  image.alpha = !image.planar && image.channels % 2 == 0;
  if (image.channels % 2 != 0 && value_of(given, "alpha", false))
    refuse("alpha=True: the channels are %d, and alpha is the last of 2 or 4", (int)image.channels);
  take(given, "keep_existing", options.keep_existing, "quality", options.quality, "lossless", options.lossless, "png_level",
       options.png_level, "compression", options.tiff_compression, "alpha", image.alpha, "pixels_per_metre_y",
       image.pixels_per_metre_y, "pixels_per_metre_x", image.pixels_per_metre_x);
  /* the library reads metadata and copies them: it never writes to them */
  const auto metadata = [&](const char *name, void *&bytes, size_t &size) {
    if (!given.contains(name))
      return;
    nb::bytes found = nb::cast<nb::bytes>(given[name]);
    bytes = (void *)found.c_str();
    size = found.size();
  };
  void *xmp = nullptr, *comment = nullptr;
  size_t comment_bytes = 0;
  metadata("icc", image.icc, image.icc_bytes);
  metadata("exif", image.exif, image.exif_bytes);
  metadata("xmp", xmp, image.xmp_bytes);
  metadata("comment", comment, comment_bytes);
  if (comment && memchr(comment, 0, comment_bytes))
    refuse("metadata: the comment has a byte of 0, which would end the comment: leave it out");
  image.xmp = (char *)xmp;
  image.comment = (char *)comment;
  call([&] { return write(&options, &image); });
}

static void write_image(nb::handle given_path, nb::handle array, nb::handle axes_text, const nb::dict &given) {
  const std::string path = path_of(given_path);
  give_image(array, axes_text, given, path.c_str(), [&](const gconv_write_options *options, const gconv_image *image) {
    return gconv_image_write(path.c_str(), options, image);
  });
}

static void free_bytes(gconv_bytes_out *out) {
  free(out->data);
}

static nb::bytes encode(nb::handle array, nb::handle axes_text, const nb::dict &given) {
  Owned<gconv_bytes_out, free_bytes> out;
  give_image(array, axes_text, given, nullptr, [&](const gconv_write_options *options, const gconv_image *image) {
    return gconv_image_encode(&out, options, image);
  });
  return nb::bytes(out.data, out.size);
}

static nb::list list_formats() {
  nb::list list;
  for (size_t i = 0; gconv_format_at(i); i++) {
    const gconv_format_info *info = gconv_format_at(i);
    nb::list types;
    for (size_t type = 0; type < sizeof info->holds / sizeof info->holds[0]; type++)
      if (info->holds[type])
        types.append(type_name((gconv_type)type));
    list.append(dict_of("name", info->name, "extensions", info->extensions, "help", info->help, "reads", info->reads,
                        "writes", info->writes, "dtypes", nb::tuple(types)));
  }
  return list;
}

void add_images(nb::module_ &module) {
  module.def("read_image", &read_image, nb::arg("path"), nb::arg("max_pixels"));
  module.def("read_header", &read_header, nb::arg("path"));
  module.def("decode", &decode, nb::arg("bytes"), nb::arg("member"), nb::arg("max_pixels"));
  module.def("decode_header", &decode_header, nb::arg("bytes"), nb::arg("member"));
  module.def("encode", &encode, nb::arg("array"), nb::arg("axes").none(), nb::arg("options"));
  module.def("write_image", &write_image, nb::arg("path"), nb::arg("array"), nb::arg("axes").none(), nb::arg("options"));
  module.def("formats", &list_formats);
}

} // namespace gconv_python
