# LibTorch from its unpacked wheel (scripts/fetch_libtorch.sh). find_package(Torch) is not used: it would turn the CUDA
# language on and link everything. The worker links libtorch_cpu and libc10 only; CUDA is loaded at run time.
set(_torch ${LIBREYOLO_TORCH_ROOT}/torch)
set(_cuda ${LIBREYOLO_TORCH_ROOT}/nvidia/cu13)
foreach(_file ${_torch}/lib/libtorch_cpu.so ${_torch}/lib/libc10.so ${_torch}/include/ATen/ATen.h
        ${_cuda}/lib/libcupti.so.13 ${_cuda}/lib/libcudart.so.13)
  if(NOT EXISTS ${_file})
    message(FATAL_ERROR "LibTorch: ${_file} is missing.\n"
      "Run scripts/fetch_libtorch.sh, set LIBREYOLO_TORCH_ROOT, or configure with -DLIBREYOLO_WORKER=OFF.")
  endif()
endforeach()

add_library(libreyolo_c10 SHARED IMPORTED GLOBAL)
set_target_properties(libreyolo_c10 PROPERTIES IMPORTED_LOCATION ${_torch}/lib/libc10.so)
add_library(libreyolo_torch SHARED IMPORTED GLOBAL)
set_target_properties(libreyolo_torch PROPERTIES IMPORTED_LOCATION ${_torch}/lib/libtorch_cpu.so)
target_link_libraries(libreyolo_torch INTERFACE libreyolo_c10)
# Last in the search order: the folder also carries fmt, protobuf and pybind11, which must not shadow the system's.
target_compile_options(libreyolo_torch INTERFACE
  "SHELL:-idirafter ${_torch}/include" "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include")
target_link_options(libreyolo_torch INTERFACE "-Wl,-rpath-link,${_torch}/lib:${_cuda}/lib")
add_library(libreyolo::torch ALIAS libreyolo_torch)

add_library(libreyolo_cupti_headers INTERFACE)
target_include_directories(libreyolo_cupti_headers SYSTEM INTERFACE ${_cuda}/include)
target_link_libraries(libreyolo_cupti_headers INTERFACE ${CMAKE_DL_LIBS})
add_library(libreyolo::cupti_headers ALIAS libreyolo_cupti_headers)

pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(png REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp)
