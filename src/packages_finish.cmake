# SPDX-License-Identifier: MIT
# CPack runs this on the folders that it makes packages of (src/packages.cmake). It puts licence, changes and completions where
# Debian has them, and compresses texts. The symbols of the shared library tell packages of other programs which version they need.
cmake_minimum_required(VERSION 3.22)
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${ARGN}: ${failed}")
  endif()
endfunction()

file(READ ${CPACK_GCONV_SOURCE}/LICENSE licence)
string(REGEX REPLACE "^.*authors\n\n" "" licence "${licence}")
string(REGEX REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REGEX REPLACE "\n(.)" "\n \\1" licence "${licence}")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of $SOURCE_DATE_EPOCH, if that is set

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
  set(doc ${share}/doc/${package})
  file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gconv

Files: *
Copyright: 2026 The gconv authors
License: Expat

Files: images/* docs/edges.png docs/gallery/*
Copyright: Rachel Michetti
License: CC0-1.0
 On Debian systems, the text is in /usr/share/common-licenses/CC0-1.0.

License: Expat
 ${licence}")
  file(WRITE ${doc}/changelog.Debian "gconv (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * A package of version ${CPACK_PACKAGE_VERSION}, made by CPack.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
  file(COPY_FILE ${CPACK_GCONV_SOURCE}/CHANGELOG.md ${doc}/changelog)
  file(REMOVE ${doc}/LICENSE ${doc}/CHANGELOG.md)
  if(EXISTS ${share}/zsh/site-functions) # zsh reads that folder only below /usr/local
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  file(GLOB modules ${share}/../lib/*/pkgconfig/*.pc ${share}/../lib/pkgconfig/*.pc)
  foreach(module IN LISTS modules) # the package has a fixed prefix, in which compilers search by default
    file(READ ${module} text)
    string(REGEX REPLACE "^prefix=[^\n]*" "prefix=${CPACK_PACKAGING_INSTALL_PREFIX}" text "${text}")
    file(WRITE ${module} "${text}")
  endforeach()
  file(GLOB texts ${doc}/changelog ${doc}/changelog.Debian ${share}/man/man1/*.1)
  run(gzip -9nf ${texts})
endforeach()

list(GET CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA 0 symbols)
list(GET CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA 1 triggers)
file(WRITE ${triggers} "activate-noawait ldconfig\n")
file(GLOB_RECURSE libraries ${CPACK_TEMPORARY_DIRECTORY}/library/*.so.*)
list(TRANSFORM libraries PREPEND -e)
run(dpkg-gensymbols -q -v${CPACK_PACKAGE_VERSION} -p${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} ${libraries} -O${symbols})

foreach(script IN LISTS CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA) # modules are compiled to bytecode when they are installed
  set(verb compile)
  if(script MATCHES "prerm$")
    set(verb clean)
  endif()
  file(WRITE ${script} "#!/bin/sh\nset -e\nif command -v py3${verb} >/dev/null; then\n  py3${verb} -p python3-gconv\nfi\n")
endforeach()
