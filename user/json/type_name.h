/* SPDX-License-Identifier: Apache-2.0 */
/* For those that see cJSON. */
#pragma once

#include <cjson/cJSON.h>

/* What the value is, in words that follow "this is". */
const char *pg_json_type_name(const cJSON *item);
