# SPDX-License-Identifier: Apache-2.0
# One interface target with the flags of every C file in user/ and tests/.
add_library(pg_flags INTERFACE)
target_compile_definitions(pg_flags INTERFACE _GNU_SOURCE PG_VERSION="${PROJECT_VERSION}")
target_compile_options(pg_flags INTERFACE
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
	-Wwrite-strings -Wvla -Wimplicit-fallthrough -Wswitch-enum -Wno-unused-parameter
	-fstack-protector-strong)
target_include_directories(pg_flags INTERFACE
	${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/user)
if(PHASEGATE_WERROR)
	target_compile_options(pg_flags INTERFACE -Werror)
endif()
if(PHASEGATE_SANITIZE)
	target_compile_options(pg_flags INTERFACE
		-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(pg_flags INTERFACE -fsanitize=address,undefined)
endif()
if(PHASEGATE_FUZZ)
	target_compile_options(pg_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
