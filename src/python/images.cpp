/* SPDX-License-Identifier: MIT */
/* Image files to arrays of NumPy, and back. */
#include "core.hpp"

#include <cstdlib>
#include <cstring>

namespace gconv_python {

/* An image that is freed with the array that shows its pixels. */
struct ImageOwner {
  gconv_image image = {};
  ~ImageOwner() {
    gconv_image_free(&image);
  }
};

static nb::dict describe(const gconv_image &image) {
  nb::dict info;
  info["frames"] = image.frames;
  info["height"] = image.height;
  info["width"] = image.width;
  info["channels"] = image.channels;
  info["alpha"] = image.alpha;
  info["dtype"] = type_name(image.type);
  info["pixels_per_metre"] = nb::make_tuple(image.pixels_per_metre_y, image.pixels_per_metre_x);
  info["comment"] = image.comment ? nb::object(nb::bytes(image.comment, strlen(image.comment))) : nb::none();
  info["icc"] = image.icc ? nb::object(nb::bytes(image.icc, image.icc_bytes)) : nb::none();
  info["exif"] = image.exif ? nb::object(nb::bytes(image.exif, image.exif_bytes)) : nb::none();
  info["xmp"] = image.xmp ? nb::object(nb::bytes(image.xmp, image.xmp_bytes)) : nb::none();
  info["jpeg_quality"] = image.jpeg_quality;
  return info;
}

/* An array of the pixels of an image that `owner` frees: N and C stand where there are several of them. */
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
  static const nb::dlpack::dtype types[3] = {nb::dtype<uint8_t>(), nb::dtype<uint16_t>(), nb::dtype<float>()};
  return nb::ndarray<nb::numpy>(image.data, count, shape, owner, stride, types[image.type], nb::device::cpu::value).cast();
}

/* (array, axes, what else the file says) */
static nb::tuple read_image(nb::handle given, uint64_t max_pixels) {
  auto made = std::make_unique<ImageOwner>();
  const std::string path = path_of(given);
  gconv_read_options options = {};
  options.max_pixels = max_pixels;
  call([&] { return gconv_image_read(path.c_str(), &options, &made->image); });
  ImageOwner *kept = made.release();
  nb::capsule owner(kept, [](void *memory) noexcept { delete (ImageOwner *)memory; });
  std::string axes;
  nb::object array = show(kept->image, owner, &axes);
  return nb::make_tuple(array, axes, describe(kept->image));
}

static nb::dict read_header(nb::handle given) {
  ImageOwner made;
  const std::string path = path_of(given);
  const gconv_format_info *format = nullptr;
  call([&] { return gconv_image_read_header(path.c_str(), &made.image, &format); });
  nb::dict info = describe(made.image);
  info["format"] = format ? format->name : "";
  return info;
}

static void write_image(nb::handle given_path, nb::handle array, nb::handle axes_text, const nb::dict &given) {
  const std::string path = path_of(given_path);
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
  options.keep_existing = value_of(given, "keep_existing", false);
  options.quality = value_of(given, "quality", 0);
  options.lossless = value_of(given, "lossless", false);
  options.png_level = value_of(given, "png_level", 0);
  options.tiff_compression = (gconv_tiff_compression)value_of(given, "compression", (int)GCONV_TIFF_NONE);
  image.alpha = value_of(given, "alpha", !image.planar && image.channels % 2 == 0);
  image.pixels_per_metre_y = value_of(given, "pixels_per_metre_y", 0.0);
  image.pixels_per_metre_x = value_of(given, "pixels_per_metre_x", 0.0);
  call([&] { return gconv_image_write(path.c_str(), &options, &image); });
}

static nb::list list_formats() {
  nb::list list;
  for (size_t i = 0; gconv_format_at(i); i++) {
    const gconv_format_info *info = gconv_format_at(i);
    nb::list types;
    for (int type = 0; type < 3; type++)
      if (info->holds[type])
        types.append(type_name((gconv_type)type));
    nb::dict entry;
    entry["name"] = info->name;
    entry["extensions"] = info->extensions;
    entry["help"] = info->help;
    entry["reads"] = info->reads;
    entry["writes"] = info->writes;
    entry["dtypes"] = nb::tuple(types);
    list.append(entry);
  }
  return list;
}

void add_images(nb::module_ &module) {
  module.def("read_image", &read_image, nb::arg("path"), nb::arg("max_pixels"));
  module.def("read_header", &read_header, nb::arg("path"));
  module.def("write_image", &write_image, nb::arg("path"), nb::arg("array"), nb::arg("axes").none(), nb::arg("options"));
  module.def("formats", &list_formats);
}

} // namespace gconv_python
