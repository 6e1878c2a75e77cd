/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody else's program: it knows the public header and the shared library, and nothing more. */
#include <phasegate/phasegate.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct phasegate_client *client = NULL;
	struct phasegate_error *error = NULL;
	char *json = NULL;
	int result = phasegate_open(argc > 1 ? argv[1] : NULL, &client, &error);

	if (!result)
		result = phasegate_list(client, &json, &error);
	puts(result ? error->code : json);
	phasegate_free(json);
	phasegate_error_free(error);
	phasegate_close(client);
	return result != 0;
}
