/* SPDX-License-Identifier: Apache-2.0 */
#include "type_name.h"

const char *pg_json_type_name(const cJSON *item)
{
	if (cJSON_IsNull(item))
		return "null";
	if (cJSON_IsBool(item))
		return "a boolean";
	if (cJSON_IsNumber(item))
		return "a number";
	if (cJSON_IsString(item))
		return "a string";
	return cJSON_IsArray(item) ? "an array" : "an object";
}
