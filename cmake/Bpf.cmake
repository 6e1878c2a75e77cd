# SPDX-License-Identifier: Apache-2.0
# pg_bpf_object(NAME SOURCE): compiles SOURCE (a .bpf.c) to NAME.bpf.o with CO-RE relocations and
# makes the interface target NAME_skeleton, whose users can include "NAME.skel.h".
find_program(CLANG_BPF NAMES clang REQUIRED)
find_program(BPFTOOL bpftool PATHS /usr/sbin /sbin REQUIRED)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
	set(PG_BPF_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
	set(PG_BPF_ARCH arm64)
else()
	message(FATAL_ERROR "no BPF build for processor ${CMAKE_SYSTEM_PROCESSOR}")
endif()

function(pg_bpf_object name source)
	set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
	set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/skeleton/${name}.skel.h)
	add_custom_command(
		OUTPUT ${object}
		COMMAND ${CLANG_BPF} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_${PG_BPF_ARCH}
			-Wall -Wextra -Werror -Wno-unused-parameter
			-I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/vmlinux -I${CMAKE_SOURCE_DIR}/bpf
			-MD -MF ${object}.d -MT ${object}
			-c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
		DEPENDS ${source}
		DEPFILE ${object}.d
		COMMENT "BPF ${name}" VERBATIM)
	add_custom_command(
		OUTPUT ${skeleton}
		COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/skeleton
		COMMAND ${BPFTOOL} gen skeleton ${object} name ${name}_bpf > ${skeleton}
		DEPENDS ${object}
		COMMENT "Skeleton ${name}" VERBATIM)
	add_custom_target(${name}_skeleton_file DEPENDS ${skeleton})
	add_library(${name}_skeleton INTERFACE)
	add_dependencies(${name}_skeleton ${name}_skeleton_file)
	target_include_directories(${name}_skeleton SYSTEM INTERFACE
		${CMAKE_CURRENT_BINARY_DIR}/skeleton)
endfunction()
