/* SPDX-License-Identifier: Apache-2.0 */
/* The head of the report: what the figures are of. */
#include "bench.h"

#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

static void cpu_model(char *model, size_t size)
{
	pg_autofclose FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(model, size, "unknown CPU");
	while (file && fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ':');

		if (strncmp(line, "model name", strlen("model name")) != 0 || !value)
			continue;
		value[strcspn(value, "\n")] = '\0';
		snprintf(model, size, "%s", value + 2);
		return;
	}
}

void machine_describe(void)
{
	const time_t now = time(NULL);
	char model[256], date[32], text[512];
	struct utsname system;
	struct sysinfo info;
	double load[1] = {0};
	struct tm utc;

	uname(&system);
	sysinfo(&info);
	cpu_model(model, sizeof(model));
	(void)!getloadavg(load, 1);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
	snprintf(text, sizeof(text), "%ld x %s, %.1f GiB", sysconf(_SC_NPROCESSORS_ONLN), model,
		 (double)info.totalram * info.mem_unit / (1 << 30));
	results_machine("machine", text);
	snprintf(text, sizeof(text), "%s %s", system.release, system.machine);
	results_machine("kernel", text);
	results_machine("date", date);
	snprintf(text, sizeof(text), "%.2f", load[0]);
	results_machine("load average at the start", text);
}
