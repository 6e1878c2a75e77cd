/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int pg_dns_options_resolver(struct pg_dns_options *options, const char *argument,
			    struct pg_error *err)
{
	const bool environment = !strcmp(argument, "environment");

	if (options->environment || (environment && options->resolver_count))
		return pg_fail(
			err, -EINVAL,
			"--resolver environment stands alone: it means the nameservers of the"
			" Environment's own resolv.conf and no others");
	options->environment = environment;
	if (environment)
		return 0;
	if (options->resolver_count == PG_NAMESERVERS_MAX)
		return pg_fail(err, -E2BIG, "at most %d --resolver options are used",
			       PG_NAMESERVERS_MAX);
	if (pg_endpoint_parse(argument, PG_PORT_DNS, &options->resolvers[options->resolver_count]))
		return pg_fail(err, -EINVAL,
			       "--resolver %s: give an address, with a port if it is not 53:"
			       " 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:5353; or"
			       " \"environment\"",
			       argument);
	options->resolver_count++;
	return 0;
}

int pg_dns_options_hosts(struct pg_dns_options *options, const char *argument, struct pg_error *err)
{
	if (options->hosts)
		return pg_fail(err, -EINVAL, "--hosts is given twice");
	/* It is read when there is an Environment to read it for; a slip is said before that. */
	if (access(argument, R_OK))
		return pg_fail_errno(err, -errno, "--hosts: cannot read %s", argument);
	options->hosts = argument;
	return 0;
}

/* What a setting that is a number may be. */
struct number {
	unsigned int min, max;
	const char *unit;
};

static int read_number(const char *key, const struct number *number, const char *text,
		       unsigned int *ret_value, struct pg_error *err)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < number->min ||
	    value > number->max)
		return pg_fail(err, -EINVAL, "--dns %s=%s: give %u to %u %s", key, text,
			       number->min, number->max, number->unit);
	*ret_value = (unsigned int)value;
	return 0;
}

/* One of two words. */
static int read_word(const char *key, const char *text, const char *no, const char *yes,
		     bool *ret_value, struct pg_error *err)
{
	*ret_value = !strcmp(text, yes);
	if (*ret_value || !strcmp(text, no))
		return 0;
	return pg_fail(err, -EINVAL, "--dns %s=%s: it is %s or %s", key, text, no, yes);
}

static int set(struct pg_dns_settings *settings, const char *key, const char *value,
	       struct pg_error *err)
{
	static const struct number seconds = {0, PG_LEARNED_SETTING_MAX, "seconds"};
	static const struct number names = {1, 1000000, "names a minute"};
	static const struct number addresses = {1, PG_LEARNED_MAX, "addresses"};
	bool second = false;
	int error;

	if (!strcmp(key, "floor"))
		return read_number(key, &seconds, value, &settings->floor_s, err);
	if (!strcmp(key, "grace"))
		return read_number(key, &seconds, value, &settings->grace_s, err);
	if (!strcmp(key, "wildcard-budget"))
		return read_number(key, &names, value, &settings->wildcard_per_minute, err);
	if (!strcmp(key, "addresses"))
		return read_number(key, &addresses, value, &settings->addresses_max, err);
	if (!strcmp(key, "private"))
		return read_word(key, value, "learn", "deny", &settings->forbid_private, err);
	if (!strcmp(key, "denied")) {
		error = read_word(key, value, "nxdomain", "refused", &second, err);
		settings->denial = second ? PG_DENIAL_REFUSED : PG_DENIAL_NXDOMAIN;
		return error;
	}
	return pg_fail(err, -EINVAL,
		       "--dns %s=: the settings are floor, grace, wildcard-budget, addresses,"
		       " private and denied",
		       key);
}

int pg_dns_options_setting(struct pg_dns_options *options, const char *argument,
			   struct pg_error *err)
{
	const char *equals = strchr(argument, '=');
	pg_autofree char *key = NULL;

	if (!equals)
		return pg_fail(err, -EINVAL, "--dns %s: give KEY=VALUE, as in --dns floor=30",
			       argument);
	key = strndup(argument, (size_t)(equals - argument));
	if (!key)
		return pg_fail(err, -ENOMEM, "not enough memory for an option");
	return set(&options->settings, key, equals + 1, err);
}

int pg_dns_options_complete(struct pg_dns_options *options, struct pg_error *err)
{
	int error = 0;

	/* Never without being asked for: who controls a namespace can answer in their place. */
	if (options->environment || options->resolv_conf)
		error = pg_resolv_conf_read(options->resolv_conf, options->own_resolvers,
					    PG_NAMESERVERS_MAX, &options->own_resolver_count, err);
	if (error || options->environment || options->resolver_count)
		return error;
	error = pg_resolv_conf_read(NULL, options->resolvers, PG_NAMESERVERS_MAX,
				    &options->resolver_count, err);
	return error ? pg_error_prefix(err, "the policy has host names; name a nameserver with"
					    " --resolver ADDR[:PORT]")
		     : 0;
}
