# SPDX-License-Identifier: Apache-2.0
# Run by pg_man(). The source's title is the page's header, so its sections move up one level.
file(READ ${SOURCE} text)
string(REGEX REPLACE "^# [^\n]*\n" "" text "${text}")
string(REGEX REPLACE "\n## " "\n# " text "${text}")
string(REGEX REPLACE "\n### " "\n## " text "${text}")
file(WRITE ${PAGE}.md "${text}")
execute_process(
	COMMAND ${LOWDOWN} -s -tman -M title=${NAME} -M section=${SECTION} ${PAGE}.md
	OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
# Terminals have no font of constant width but their own. The first line asks for tbl(1).
string(REPLACE "\\fC" "\\fB" text "${text}")
file(WRITE ${PAGE} "'\\\" t\n${text}")
