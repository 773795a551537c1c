# `cpack -G DEB` from a build folder: libreyolo (the client alone) and libreyolod (daemon, worker with LibTorch, units).
# What other folders install without a component belongs to libreyolod.
set(_units ${CMAKE_SOURCE_DIR}/deploy/systemd)
install(FILES ${_units}/libreyolod.service DESTINATION lib/systemd/system)
install(FILES ${_units}/libreyolod.sysusers DESTINATION lib/sysusers.d RENAME libreyolod.conf)
install(FILES ${_units}/libreyolod.tmpfiles DESTINATION lib/tmpfiles.d RENAME libreyolod.conf)
install(FILES ${_units}/libreyolod.default ${_units}/libreyolod.textproto DESTINATION ${CMAKE_INSTALL_DATADIR}/libreyolod)

# The manual pages are made from the client's own table, so they need both executables.
if(TARGET libreyolo AND TARGET libreyolod)
  set(_man ${CMAKE_BINARY_DIR}/man)
  add_custom_command(
    OUTPUT ${_man}/stamp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${_man}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/scripts/gen_man_pages.py ${CMAKE_BINARY_DIR}/bin ${_man}
    COMMAND ${CMAKE_COMMAND} -E touch ${_man}/stamp
    DEPENDS libreyolo libreyolod ${CMAKE_SOURCE_DIR}/scripts/gen_man_pages.py
    VERBATIM)
  add_custom_target(man_pages ALL DEPENDS ${_man}/stamp)
  install(DIRECTORY ${_man}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT client)
  install(DIRECTORY ${_man}/man8 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()

set(CPACK_PACKAGE_NAME libreyolod)
set(CPACK_PACKAGE_VENDOR "libreyolod")
set(CPACK_PACKAGE_CONTACT "The libreyolod authors <libreyolod@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "profiles YOLO training and inference")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL client Unspecified)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME libreyolo)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME libreyolod)
set(CPACK_COMPONENT_CLIENT_DESCRIPTION "The command line that asks a libreyolod and reads its profiles.")
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION "The daemon that measures on this host's devices, and its worker.")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "libreyolo (= ${PROJECT_VERSION})")
# System libraries as the linker sees them; LibTorch, CUPTI and the CUDA runtime travel in the package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  ${LIBREYOLO_TORCH_ROOT}/torch/lib ${LIBREYOLO_TORCH_ROOT}/nvidia/cu13/lib)
set(_debian ${CMAKE_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA ${_debian}/postinst;${_debian}/prerm;${_debian}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
