# ly_proto_library(NAME PROTOS a.proto ... [GRPC] [DEPS ...])
# Generates C++ from protos below proto/ into the build tree and makes libreyolo::NAME of them. Generated code is a
# system header to everybody else, so our warnings stay ours.
find_program(LIBREYOLO_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

function(ly_proto_library name)
  cmake_parse_arguments(ARG "GRPC" "" "PROTOS;DEPS" ${ARGN})
  set(out ${CMAKE_BINARY_DIR}/generated)
  set(root ${CMAKE_SOURCE_DIR}/proto)
  set(sources)
  foreach(proto ${ARG_PROTOS})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(outputs ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
    set(args --cpp_out=${out})
    if(ARG_GRPC)
      list(APPEND outputs ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
      list(APPEND args --grpc_out=${out} --plugin=protoc-gen-grpc=${LIBREYOLO_GRPC_PLUGIN})
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
      COMMAND protobuf::protoc ${args} -I ${root} ${root}/${proto}
      DEPENDS ${root}/${proto}
      COMMENT "Generating ${proto}"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(ly_${name} STATIC ${sources})
  target_include_directories(ly_${name} SYSTEM PUBLIC ${out})
  target_link_libraries(ly_${name} PUBLIC protobuf::libprotobuf ${ARG_DEPS})
  if(ARG_GRPC)
    target_link_libraries(ly_${name} PUBLIC gRPC::grpc++)
  endif()
  add_library(libreyolo::${name} ALIAS ly_${name})
endfunction()
