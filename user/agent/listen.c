/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "environment/record.h"

/* More than connect in the time that an operation takes. */
#define BACKLOG 512

static int use_passed(int fd, struct pg_error *err)
{
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0)
		return pg_fail(err, -EINVAL,
			       "the socket that systemd passes is no listening Unix socket");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return pg_fail_errno(err, -errno, "cannot use the socket that systemd passes");
	return 0;
}

static int remove_stale(const struct sockaddr_un *address, struct pg_error *err)
{
	pg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat file;

	if (lstat(address->sun_path, &file))
		return 0;
	if (!S_ISSOCK(file.st_mode))
		return pg_fail(err, -EEXIST, "%s is there and is no socket", address->sun_path);
	/* EAGAIN: the other's backlog is full, so it is alive. */
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	    errno != ECONNREFUSED)
		return pg_fail(err, -EADDRINUSE, "another agent serves %s", address->sun_path);
	if (unlink(address->sun_path))
		return pg_fail_errno(err, -errno, "cannot remove %s", address->sun_path);
	return 0;
}

/* The directory and its parents may be missing: /run is empty after a boot. */
static int make_directory(const struct pg_config *config, struct pg_error *err)
{
	pg_autofree char *copy = strdup(config->socket);
	const mode_t mode = config->has_group ? 0711 : 0700;
	const char *directory;

	if (!copy)
		return pg_fail(err, -ENOMEM, "no memory for the socket's path");
	directory = dirname(copy);
	if (mkdir(directory, mode) && errno != EEXIST)
		return pg_fail_errno(err, -errno, "cannot make %s", directory);
	/* Records of Environments are beside it, each in a directory of its own that is closed. */
	if (config->has_group && strcmp(directory, PG_RECORD_ROOT) == 0 && chmod(directory, mode))
		return pg_fail_errno(err, -errno, "cannot open %s to the group", directory);
	return 0;
}

static int bind_closed(int fd, const struct sockaddr_un *address, struct pg_error *err)
{
	const mode_t old = umask(0177);
	const int error = bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;

	umask(old);
	return error ? pg_fail_errno(err, error, "cannot bind to %s", address->sun_path) : 0;
}

/* Nobody can connect before the mode is right, since nobody listens. */
static int open_to_group(const struct pg_config *config, struct pg_error *err)
{
	if (!config->has_group)
		return 0;
	if (lchown(config->socket, (uid_t)-1, config->group) || chmod(config->socket, 0660))
		return pg_fail_errno(err, -errno, "cannot give %s to the group", config->socket);
	return 0;
}

int pg_listen(const struct pg_config *config, int passed_fd, int *ret_fd, bool *ret_made,
	      struct pg_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pg_autoclose int fd = -1;
	int error;

	*ret_made = false;
	if (passed_fd >= 0) {
		*ret_fd = passed_fd;
		return use_passed(passed_fd, err);
	}
	if (strlen(config->socket) >= sizeof(address.sun_path))
		return pg_fail(err, -ENAMETOOLONG, "the path of a socket is shorter than %s",
			       config->socket);
	strcpy(address.sun_path, config->socket);
	error = make_directory(config, err);
	if (!error)
		error = remove_stale(&address, err);
	if (error)
		return error;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return pg_fail_errno(err, -errno, "cannot make a socket");
	error = bind_closed(fd, &address, err);
	if (error)
		return error;
	error = open_to_group(config, err);
	if (!error && listen(fd, BACKLOG))
		error = pg_fail_errno(err, -errno, "cannot listen at %s", config->socket);
	if (error) {
		unlink(config->socket);
		return error;
	}
	*ret_made = true;
	*ret_fd = PG_TAKE_FD(fd);
	return 0;
}
