/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_options.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "policy/print.h"

/* What a document given on the command line is called in messages. */
#define INLINE_NAME "--policy"

/* The text is the source's from then on. */
static int read_argument(const char *argument, struct pg_policy_source *ret_source,
			 struct pg_error *err)
{
	const char *first = argument + strspn(argument, " \t\r\n");
	pg_autofree char *text = NULL;
	const char *name = argument;
	size_t size = 0;
	int result;

	if (*first == '{') {
		name = INLINE_NAME;
		size = strlen(argument);
		text = strdup(argument);
		result = text ? 0 : pg_fail_errno(err, -ENOMEM, "cannot read %s", name);
	} else {
		result = pg_file_read(argument, PG_POLICY_DOCUMENT_MAX, &text, &size, err);
	}
	if (result == -EFBIG) {
		/* Its text does not matter: the parser refuses the size, in its own words. */
		text = calloc(1, 1);
		size = PG_POLICY_DOCUMENT_MAX + 1;
		result = text ? 0 : pg_fail_errno(err, -ENOMEM, "cannot read %s", name);
	}
	if (result < 0)
		return result;
	ret_source->name = name;
	ret_source->text = PG_TAKE_PTR(text);
	ret_source->size = size;
	return 0;
}

int pg_policy_options_add(struct pg_policy_options *options, const char *argument,
			  struct pg_error *err)
{
	struct pg_policy_source *sources =
		realloc(options->sources, (options->source_count + 1) * sizeof(*options->sources));
	int result;

	if (!sources)
		return pg_fail_errno(err, -ENOMEM, "cannot read %s", argument);
	options->sources = sources;
	for (size_t i = 0; i < options->source_count; i++)
		if (!strcmp(argument, "-") && !strcmp(sources[i].name, "-"))
			return pg_fail(err, -EINVAL,
				       "standard input was read already; \"-\" can be given once");
	result = read_argument(argument, &sources[options->source_count], err);
	if (result == 0)
		options->source_count++;
	return result;
}

static int parse_phase(const char *argument, size_t size, enum pg_phase *ret_phase)
{
	pg_autofree char *name = strndup(argument, size);

	return name ? pg_phase_parse(name, ret_phase) : -ENOMEM;
}

int pg_policy_options_allow(struct pg_policy_options *options, const char *argument,
			    struct pg_error *err)
{
	const char *equals = strchr(argument, '=');
	struct pg_policy_addition *additions;
	enum pg_phase phase;

	if (!equals || parse_phase(argument, (size_t)(equals - argument), &phase) < 0)
		return pg_fail(err, -EINVAL,
			       "--allow needs PHASE=ENTRY, where PHASE is setup, run or verifier, "
			       "not \"%s\"",
			       argument);
	additions = realloc(options->additions,
			    (options->addition_count + 1) * sizeof(*options->additions));
	if (!additions)
		return pg_fail_errno(err, -ENOMEM, "cannot read --allow");
	options->additions = additions;
	additions[options->addition_count++] =
		(struct pg_policy_addition){.phase = phase, .entry = equals + 1};
	return 0;
}

static int log_phase(const struct pg_policy *policy, enum pg_phase phase,
		     const struct pg_policy_source *sources)
{
	pg_autofree char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);
	int result;

	if (!out)
		return -ENOMEM;
	result = pg_phase_policy_print_json(out, &policy->phases[phase], sources);
	if (fclose(out) == EOF || result < 0)
		return -ENOMEM;
	pg_log_debug("%s policy %s", pg_phase_name(phase), line);
	return 0;
}

static int log_policy(const struct pg_policy *policy, const struct pg_policy_source *sources)
{
	int result = 0;

	for (int i = 0; i < PG_PHASE_COUNT; i++)
		pg_log_info("%s_network_mode=%s", pg_phase_name((enum pg_phase)i),
			    pg_mode_name(policy->phases[i].mode));
	if (!pg_log_enabled(PG_LOG_DEBUG))
		return 0;
	for (int i = 0; i < PG_PHASE_COUNT && result == 0; i++)
		result = log_phase(policy, (enum pg_phase)i, sources);
	return result;
}

int pg_policy_options_load(const struct pg_policy_options *options, struct pg_policy **ret_policy,
			   struct pg_diagnostics *diagnostics)
{
	pg_autopolicy struct pg_policy *policy = NULL;
	int result = pg_policy_parse(options->sources, options->source_count, options->additions,
				     options->addition_count, options->form, &policy, diagnostics);

	if (result == 0)
		result = log_policy(policy, options->sources);
	if (result == 0)
		*ret_policy = PG_TAKE_PTR(policy);
	return result;
}

void pg_policy_options_clear(struct pg_policy_options *options)
{
	for (size_t i = 0; i < options->source_count; i++)
		free((char *)options->sources[i].text);
	free(options->sources);
	free(options->additions);
	*options = (struct pg_policy_options){0};
}
