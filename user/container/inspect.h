/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/container/: replies of Docker's API, which Podman has, too. Pure functions. */
#pragma once

#include "container.h"
#include "json/json.h"

/* Containers of one host; each is some two thousand octets. */
#define PG_CONTAINER_LIST_OCTETS (16UL * 1024 * 1024)
/* One, with all of its environment. */
#define PG_CONTAINER_OCTETS	 (2UL * 1024 * 1024)

/* A document of a runtime. -EPROTO: it is none. */
int pg_container_parse(const char *text, size_t size, struct pg_json **ret_json,
		       struct pg_error *err) PG_MUST_CHECK;

/* GET /containers/ID/json. -ESRCH: it does not run; -EPROTO: something is missing. */
int pg_container_read(const struct pg_json *json, struct pg_container *container,
		      struct pg_error *err) PG_MUST_CHECK;

/* GET /networks/NAME: whether it leads nowhere but to its own containers. */
bool pg_container_network_is_internal(const struct pg_json *json);

/* GET /containers/json; takes the document over. -EPROTO: it is no list. */
int pg_neighbours_read(struct pg_json **json, struct pg_neighbours *ret_neighbours,
		       struct pg_error *err) PG_MUST_CHECK;

/* The string of the member, or of that member of the member (second NULL: none); NULL if it is
 * absent or empty. */
const char *pg_container_text(const struct pg_json_value *object, const char *first,
			      const char *second);

/* The proxies among the elements "NAME=VALUE" of an array (NULL: none). -ENOMEM */
int pg_container_read_proxies(struct pg_container *container,
			      const struct pg_json_value *array) PG_MUST_CHECK;

/* Devices of the host among the elements of an array (NULL: none), in this member. -ENOMEM */
int pg_container_read_devices(struct pg_container *container, const struct pg_json_value *array,
			      const char *member) PG_MUST_CHECK;

/* A copy; NULL stays NULL. -ENOMEM */
int pg_container_copy(char **to, const char *from) PG_MUST_CHECK;
