/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

struct body {
	char *data;
	size_t size, limit;
	int error;
};

static size_t take(char *data, size_t size, size_t count, void *userdata)
{
	struct body *body = userdata;
	const size_t more = size * count;
	char *larger;

	if (more > body->limit - body->size) {
		body->error = -EFBIG;
		return 0;
	}
	larger = realloc(body->data, body->size + more + 1);
	if (!larger) {
		body->error = -ENOMEM;
		return 0;
	}
	memcpy(larger + body->size, data, more);
	body->data = larger;
	body->size += more;
	body->data[body->size] = '\0';
	return more;
}

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void clean_up(CURL **curl)
{
	if (*curl)
		curl_easy_cleanup(*curl);
}

/* Called once a second at least. */
static int is_cancelled(void *userdata, curl_off_t to_receive, curl_off_t received,
			curl_off_t to_send, curl_off_t sent)
{
	const atomic_bool *cancelled = userdata;

	return atomic_load(cancelled);
}

static CURLcode heed(CURL *curl, const atomic_bool *cancelled)
{
	CURLcode code = curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_cancelled);

	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)cancelled);
	return code ? code : curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

static CURLcode prepare(CURL *curl, const char *socket, const char *url, long timeout_ms,
			struct body *body)
{
	CURLcode code = curl_easy_setopt(curl, CURLOPT_URL, url);

	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
	/* The environment's proxies are not for a socket of this host. */
	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_PROXY, "");
	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
	if (!code)
		code = curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	return code ? code : curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
}

static int fail(CURLcode code, const struct body *body, const char *socket, struct pg_error *err)
{
	switch ((int)code) {
	case CURLE_COULDNT_CONNECT:
		return pg_fail(err, -ENOTCONN, "nobody answers at %s", socket);
	case CURLE_OPERATION_TIMEDOUT:
		return pg_fail(err, -ETIMEDOUT, "%s does not answer in time", socket);
	case CURLE_ABORTED_BY_CALLBACK:
		return pg_fail(err, -ECANCELED, "%s is not asked any more", socket);
	case CURLE_OUT_OF_MEMORY:
		return pg_fail(err, -ENOMEM, "no memory to ask %s", socket);
	case CURLE_WRITE_ERROR:
		if (body->error == -EFBIG)
			return pg_fail(err, -EFBIG, "%s answers with more than %zu octets", socket,
				       body->limit);
		return pg_fail(err, -ENOMEM, "no memory for the answer of %s", socket);
	}
	return pg_fail(err, -EPROTO, "%s: %s", socket, curl_easy_strerror(code));
}

int pg_http_get(const char *socket, const char *path, size_t limit, uint64_t deadline,
		const atomic_bool *cancelled, char **ret_body, size_t *ret_size,
		struct pg_error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	PG_CLEANUP(clean_up) CURL *curl = NULL;
	struct body body = {.limit = limit};
	const uint64_t now = pg_monotonic_ns();
	pg_autofree char *url = NULL;
	long status = 0;
	CURLcode code;

	if (now >= deadline)
		return pg_fail(err, -ETIMEDOUT, "no time is left to ask %s", socket);
	pthread_once(&once, start_curl);
	curl = curl_easy_init();
	if (!curl || asprintf(&url, "http://localhost%s", path) < 0) {
		url = NULL;
		return pg_fail(err, -ENOMEM, "no memory to ask %s", socket);
	}
	code = prepare(curl, socket, url, (long)((deadline - now) / PG_NSEC_PER_MSEC) + 1, &body);
	if (!code && cancelled)
		code = heed(curl, cancelled);
	if (!code)
		code = curl_easy_perform(curl);
	if (!code)
		code = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (!code && status == 200 && body.data) {
		*ret_body = body.data;
		*ret_size = body.size;
		return 0;
	}
	free(body.data);
	if (code)
		return fail(code, &body, socket, err);
	if (status == 404)
		return pg_fail(err, -ENOENT, "%s knows no %s", socket, path);
	return pg_fail(err, -EPROTO, "%s answers %s with status %ld", socket, path, status);
}
