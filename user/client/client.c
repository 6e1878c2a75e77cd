/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

PHASEGATE_API int phasegate_open(const char *socket, struct phasegate_client **ret_client,
				 struct phasegate_error **ret_error)
{
	struct phasegate_client *client;

	if (!socket)
		socket = secure_getenv("PHASEGATE_SOCKET");
	if (!socket || !*socket)
		socket = PHASEGATE_SOCKET_DEFAULT;
	if (strlen(socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return client_bad_argument(ret_error, "the path of the socket is too long: %s",
					   socket);
	client = calloc(1, sizeof(*client));
	if (!client)
		return client_no_memory(ret_error);
	client->timeout_ms = CLIENT_TIMEOUT_MS;
	client->socket = strdup(socket);
	client->curl = curl_easy_init();
	if (!client->socket || !client->curl) {
		phasegate_close(client);
		return client_no_memory(ret_error);
	}
	*ret_client = client;
	return 0;
}

PHASEGATE_API void phasegate_close(struct phasegate_client *client)
{
	if (!client)
		return;
	curl_easy_cleanup(client->curl);
	free(client->socket);
	free(client);
}

PHASEGATE_API void phasegate_set_timeout(struct phasegate_client *client, unsigned int ms)
{
	client->timeout_ms = ms;
}

PHASEGATE_API void phasegate_free(char *text)
{
	free(text);
}
