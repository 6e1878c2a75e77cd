/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that were none. A Unix socket whose backlog is full refuses a connect that does not
 * wait with EAGAIN. curl takes it for one in progress, and then fails without an errno. Nothing has
 * been sent then, so the request may be made again.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

int client_close_socket(void *userdata, curl_socket_t fd)
{
	struct phasegate_client *client = userdata;
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);

	/* Also said of one to which the connect has failed, which curl reports itself. */
	if (getpeername(fd, (struct sockaddr *)&peer, &size) && errno == ENOTCONN)
		client->never_connected = true;
	return close(fd);
}
