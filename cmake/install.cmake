# `cmake --install`: a tree that can be moved as a whole. The daemon finds the worker beside itself; the worker finds
# LibTorch by its own place; LibTorch finds CUPTI and the CUDA runtime by theirs ($ORIGIN/../../nvidia/cu13/lib), so the
# two folders below lib/libreyolo keep the layout of the wheels.
if(LIBREYOLO_WORKER)
  set(_runtime ${CMAKE_INSTALL_LIBDIR}/libreyolo)
  file(RELATIVE_PATH _to_runtime /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${_runtime})
  # The build tree has the same layout, by links. With another run path there CMake would leave room at its end, which the
  # loader reads as "the current folder": whoever can write where the daemon was started could slip the worker a library.
  set_target_properties(libreyolo-worker PROPERTIES INSTALL_RPATH "$ORIGIN/${_to_runtime}/torch/lib"
    BUILD_WITH_INSTALL_RPATH ON)
  foreach(_part torch nvidia)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${_runtime})
    file(CREATE_LINK ${LIBREYOLO_TORCH_ROOT}/${_part} ${CMAKE_BINARY_DIR}/${_runtime}/${_part} SYMBOLIC)
  endforeach()
  install(TARGETS libreyolo-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  file(GLOB _gomp ${LIBREYOLO_TORCH_ROOT}/torch/lib/libgomp*)
  install(PROGRAMS ${LIBREYOLO_TORCH_ROOT}/torch/lib/libtorch_cpu.so ${LIBREYOLO_TORCH_ROOT}/torch/lib/libc10.so ${_gomp}
    DESTINATION ${_runtime}/torch/lib)
  install(PROGRAMS ${LIBREYOLO_TORCH_ROOT}/nvidia/cu13/lib/libcupti.so.13
    ${LIBREYOLO_TORCH_ROOT}/nvidia/cu13/lib/libcudart.so.13
    DESTINATION ${_runtime}/nvidia/cu13/lib)
  # The libraries' own licences and notices travel with them.
  file(GLOB _licenses RELATIVE ${LIBREYOLO_TORCH_ROOT} ${LIBREYOLO_TORCH_ROOT}/*.dist-info/licenses)
  foreach(_folder ${_licenses})
    string(REGEX REPLACE "-[^/]*/licenses$" "" _wheel ${_folder})
    install(DIRECTORY ${LIBREYOLO_TORCH_ROOT}/${_folder}/
      DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libreyolod/licenses/${_wheel})
  endforeach()
endif()
install(FILES LICENSE THIRD_PARTY.md README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libreyolod)
