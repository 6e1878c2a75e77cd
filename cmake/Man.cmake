# SPDX-License-Identifier: Apache-2.0
# pg_man(NAME SECTION): makes the manual page NAME(SECTION) of docs/NAME.SECTION.md, and installs it.
# Without lowdown(1) there are none; the sources can be read as they are.
find_program(LOWDOWN lowdown)
if(NOT LOWDOWN)
	message(STATUS "No manual pages: lowdown is not there")
endif()
add_custom_target(man ALL)

function(pg_man name section)
	if(NOT LOWDOWN)
		return()
	endif()
	set(source ${CMAKE_SOURCE_DIR}/docs/${name}.${section}.md)
	set(page ${CMAKE_BINARY_DIR}/man/${name}.${section})
	add_custom_command(
		OUTPUT ${page}
		COMMAND ${CMAKE_COMMAND} -DLOWDOWN=${LOWDOWN} -DSOURCE=${source} -DPAGE=${page}
			-DNAME=${name} -DSECTION=${section} -P ${CMAKE_SOURCE_DIR}/cmake/ManPage.cmake
		DEPENDS ${source} ${CMAKE_SOURCE_DIR}/cmake/ManPage.cmake
		COMMENT "Manual ${name}(${section})" VERBATIM)
	add_custom_target(man_${name} DEPENDS ${page})
	add_dependencies(man man_${name})
	install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endfunction()
