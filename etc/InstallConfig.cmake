# SPDX-License-Identifier: Apache-2.0
# Run by cmake --install. To where phasegated looks, whatever the prefix is; the host's own settings
# are never touched.
set(directory "$ENV{DESTDIR}/etc/phasegate")
set(file "${directory}/phasegated.conf")
if(EXISTS "${file}")
	message(STATUS "Kept: ${file}")
	return()
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory "${directory}" ERROR_QUIET)
execute_process(
	COMMAND ${CMAKE_COMMAND} -E copy "${CMAKE_CURRENT_LIST_DIR}/phasegated.conf" "${file}"
	RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
	message(STATUS "Not installed, for want of the right: ${file}")
else()
	message(STATUS "Installing: ${file}")
endif()
