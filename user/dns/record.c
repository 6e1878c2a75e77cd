/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <arpa/nameser.h>
#include <errno.h>

/* SvcParamKeys (RFC 9460, 14.3.2). */
#define KEY_MANDATORY 0
#define KEY_IPV4HINT  4
#define KEY_ECH	      5
#define KEY_IPV6HINT  6

/* Octets of a SvcParam's key and length. */
#define PARAM_HEAD 4

/* Data that is octets, then names, then octets. */
struct layout {
	uint16_t type;
	uint8_t before, names, after;
};

/* Types of fixed length, and those whose names a server may compress (RFC 3597, 4; RFC 6672). */
static const struct layout layouts[] = {
	{ns_t_a, 4, 0, 0},  {ns_t_aaaa, 16, 0, 0}, {ns_t_ns, 0, 1, 0},	  {ns_t_md, 0, 1, 0},
	{ns_t_mf, 0, 1, 0}, {ns_t_cname, 0, 1, 0}, {ns_t_soa, 0, 2, 20},  {ns_t_mb, 0, 1, 0},
	{ns_t_mg, 0, 1, 0}, {ns_t_mr, 0, 1, 0},	   {ns_t_ptr, 0, 1, 0},	  {ns_t_minfo, 0, 2, 0},
	{ns_t_mx, 2, 1, 0}, {ns_t_rp, 0, 2, 0},	   {ns_t_afsdb, 2, 1, 0}, {ns_t_rt, 2, 1, 0},
	{ns_t_px, 2, 2, 0}, {ns_t_srv, 6, 1, 0},   {ns_t_kx, 2, 1, 0},	  {ns_t_dname, 0, 1, 0},
};

int pg_record_read(const struct pg_dns_message *message, size_t *offset,
		   struct pg_record *ret_record)
{
	size_t at = *offset;
	uint32_t ttl;

	if (pg_dns_name_skip(message, &at) < 0 || at + RRFIXEDSZ > message->size)
		return -EBADMSG;
	ttl = pg_dns_load32(message, at + 4);
	*ret_record = (struct pg_record){
		.owner = *offset,
		.type = pg_dns_load16(message, at),
		.class = pg_dns_load16(message, at + 2),
		.ttl = ttl < PG_ANSWER_TTL_MAX_S ? ttl : PG_ANSWER_TTL_MAX_S,
		.data = at + RRFIXEDSZ,
		.data_size = pg_dns_load16(message, at + 8),
	};
	/* A TTL with the top bit set means zero (RFC 2181, 8). */
	if (ttl > INT32_MAX)
		ret_record->ttl = 0;
	if (ret_record->data + ret_record->data_size > message->size)
		return -EBADMSG;
	*offset = ret_record->data + ret_record->data_size;
	return 0;
}

/* Copies the name at *offset, which must end at end or before it, and moves behind it. */
static int copy_name(const struct pg_dns_message *message, size_t *offset, size_t end,
		     struct pg_dns_writer *writer)
{
	struct pg_dns_name name;
	size_t at = *offset;

	if (pg_dns_name_read(message, at, &name) < 0 || pg_dns_name_skip(message, offset) < 0 ||
	    *offset > end)
		return -EBADMSG;
	pg_dns_put_name(writer, &name);
	return 0;
}

static bool is_stripped(uint16_t key)
{
	return key == KEY_IPV4HINT || key == KEY_ECH || key == KEY_IPV6HINT;
}

struct param {
	uint16_t key;
	size_t value;
	uint16_t size;
};

/* Reads the SvcParam at *offset and moves behind it. */
static int read_param(const struct pg_dns_message *message, size_t *offset, size_t end,
		      struct param *ret_param)
{
	if (end - *offset < PARAM_HEAD)
		return -EBADMSG;
	*ret_param = (struct param){
		.key = pg_dns_load16(message, *offset),
		.value = *offset + PARAM_HEAD,
		.size = pg_dns_load16(message, *offset + 2),
	};
	if (end - ret_param->value < ret_param->size)
		return -EBADMSG;
	*offset = ret_param->value + ret_param->size;
	return 0;
}

/*
 * Whether the SvcParams are well-formed: keys increase, those in "mandatory" too, and each of these
 * is there (RFC 9460, 2.2 and 8). Since both lists are in order, one walk sees it.
 */
static bool params_valid(const struct pg_dns_message *message, size_t offset, size_t end)
{
	struct param param, mandatory = {.size = 0};
	size_t named = 0; /* octets of "mandatory" whose keys were found */
	int last = -1;

	while (offset < end) {
		if (read_param(message, &offset, end, &param) < 0 || param.key <= last)
			return false;
		last = param.key;
		if (param.key == KEY_MANDATORY) {
			if (param.size == 0 || param.size % 2)
				return false;
			mandatory = param;
			continue;
		}
		if (named == mandatory.size)
			continue;
		/* A key that is 0, out of order or not there is met by none that follows. */
		if (pg_dns_load16(message, mandatory.value + named) == param.key)
			named += 2;
	}
	return named == mandatory.size;
}

/* Copies "mandatory" without the keys that are stripped; the whole of it if none is left. */
static void copy_mandatory(const struct pg_dns_message *message, const struct param *param,
			   struct pg_dns_writer *writer)
{
	uint16_t left = 0;

	for (size_t i = 0; i < param->size; i += 2)
		left += is_stripped(pg_dns_load16(message, param->value + i)) ? 0 : 2;
	if (left == 0)
		return;
	pg_dns_put16(writer, KEY_MANDATORY);
	pg_dns_put16(writer, left);
	for (size_t i = 0; i < param->size; i += 2) {
		uint16_t key = pg_dns_load16(message, param->value + i);

		if (!is_stripped(key))
			pg_dns_put16(writer, key);
	}
}

/* Copies SVCB or HTTPS data: a priority, a name, parameters. */
static int copy_service(const struct pg_dns_message *message, size_t offset, size_t end,
			struct pg_dns_writer *writer)
{
	struct pg_dns_name target;
	struct param param;
	size_t at;

	if (end - offset < 2)
		return -EBADMSG;
	at = offset + 2;
	/* The name must not be compressed (RFC 9460, 2.2). */
	if (pg_dns_name_read(message, at, &target) < 0 || target.size > end - at ||
	    memcmp(target.octets, message->data + at, target.size) != 0)
		return -EBADMSG;
	at += target.size;
	if (!params_valid(message, at, end))
		return -EBADMSG;
	pg_dns_put(writer, message->data + offset, at - offset);
	while (at < end) {
		size_t begin = at;

		if (read_param(message, &at, end, &param) < 0)
			return -EBADMSG;
		if (param.key == KEY_MANDATORY)
			copy_mandatory(message, &param, writer);
		else if (!is_stripped(param.key))
			pg_dns_put(writer, message->data + begin, at - begin);
	}
	return 0;
}

static const struct layout *find_layout(uint16_t type)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(layouts); i++) {
		if (layouts[i].type == type)
			return &layouts[i];
	}
	return NULL;
}

int pg_record_copy_data(const struct pg_dns_message *message, const struct pg_record *record,
			struct pg_dns_writer *writer)
{
	const size_t end = record->data + record->data_size;
	const struct layout *layout = find_layout(record->type);
	size_t at = record->data;

	if (record->type == PG_DNS_TYPE_SVCB || record->type == PG_DNS_TYPE_HTTPS)
		return copy_service(message, at, end, writer);
	if (!layout) {
		pg_dns_put(writer, message->data + at, record->data_size);
		return 0;
	}
	if (record->data_size < layout->before)
		return -EBADMSG;
	pg_dns_put(writer, message->data + at, layout->before);
	at += layout->before;
	for (unsigned int i = 0; i < layout->names; i++) {
		int r = copy_name(message, &at, end, writer);

		if (r < 0)
			return r;
	}
	if (end - at != layout->after)
		return -EBADMSG;
	pg_dns_put(writer, message->data + at, layout->after);
	return 0;
}

void pg_record_put_head(struct pg_dns_writer *writer, const struct pg_dns_name *owner,
			uint16_t type, uint32_t ttl, uint16_t data_size)
{
	pg_dns_put_name(writer, owner);
	pg_dns_put16(writer, type);
	pg_dns_put16(writer, ns_c_in);
	pg_dns_put32(writer, ttl);
	pg_dns_put16(writer, data_size);
}
