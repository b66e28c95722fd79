# SPDX-License-Identifier: MIT
# CPack makes a Debian package of each installed component that is named in this file.
#   cmake --preset packages && cmake --build --preset packages        build-packages/*.deb
# The maintainer is $DEBFULLNAME <$DEBEMAIL>, as for other tools of Debian. src/packages_finish.cmake adds what Debian wants.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/src/packages_finish.cmake)
set(CPACK_GCONV_SOURCE ${PROJECT_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(maintainer "$ENV{DEBFULLNAME}")
set(address "$ENV{DEBEMAIL}")
if(NOT maintainer)
  set(maintainer "The gconv authors")
endif()
if(NOT address)
  set(address nobody@example.org)
endif()
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${maintainer} <${address}>")

# ---- gconv: the program ----
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME gconv)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION graphics)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "filter and convolve images, exactly and fast
gconv applies filters (Gaussian, Sobel, Laplacian, or those of a file) to
photos and arrays: PNG, JPEG, TIFF, WebP, PNM, .npy. It also runs and trains
small neural networks and support vector machines on images and tables.
.
Borders, anchors and rounding are documented, and results are the same on
each machine.")
# Libraries that gconv loads at run time, when a file needs them: dpkg-shlibdeps cannot find these.
set(loaded "")
foreach(name ${GCONV_LOADED} WEBPDEMUX WEBPMUX)
  if(GCONV_WITH_${name})
    execute_process(COMMAND dpkg-query --search */${${name}_FILE} OUTPUT_VARIABLE package ERROR_QUIET)
    if(package MATCHES "^([a-z0-9+.-]+)")
      list(APPEND loaded ${CMAKE_MATCH_1})
    endif()
  endif()
endforeach()
list(REMOVE_DUPLICATES loaded)
list(JOIN loaded ", " loaded)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "${loaded}")

# ---- libgconv0: the shared library; the number is that of its binary interface ----
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libgconv${GCONV_ABI})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/packages/symbols
  ${PROJECT_BINARY_DIR}/packages/triggers)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "${loaded}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS gconv) # which has the files of filters
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "filter and convolve images: shared library
The library behind gconv: it reads and writes images, applies filters and
networks to them, and trains these, on all processors or on a GPU.")

# ---- libgconv-dev: to build programs with it ----
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgconv-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libgconv${GCONV_ABI} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS gconv)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "filter and convolve images: files for developers
The headers of libgconv, and what compilers, pkg-config and CMake need to find
it. The package gconv has an example, in /usr/share/doc/gconv/docs.")

# ---- python3-gconv: where the Python package is built (GCONV_PYTHON_MODULE), for the Python that it is built with ----
if(TARGET gconv_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(folder lib/python3/dist-packages/gconv)
  install(TARGETS gconv_python LIBRARY DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY src/python/gconv/ DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
  file(CREATE_LINK ../../../../../bin/gconv ${PROJECT_BINARY_DIR}/packages/gconv SYMBOLIC) # for python3 -m gconv
  install(FILES ${PROJECT_BINARY_DIR}/packages/gconv DESTINATION ${folder}/bin COMPONENT python EXCLUDE_FROM_ALL)
  execute_process(COMMAND ${GCONV_PYTHON} -c "import sys; v = sys.version_info; print(f'{v[0]}.{v[1]}~), python3 (<< {v[0]}.{v[1] + 1}')"
    OUTPUT_VARIABLE versions OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-gconv)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= ${versions}), python3-numpy, gconv (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/packages/postinst ${PROJECT_BINARY_DIR}/packages/prerm)
  set(CPACK_DEBIAN_PYTHON_DESCRIPTION "filter and convolve images: Python package
gconv for arrays of NumPy, PyTorch, CuPy and JAX, without copies, with the
interfaces of scipy.ndimage and OpenCV besides its own.")
endif()
include(CPack)
