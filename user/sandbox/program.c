/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void pg_program_release(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

int pg_program_export(scmp_filter_ctx filter, struct sock_fprog *ret_program)
{
	pg_autoclose int file = memfd_create("filter", MFD_CLOEXEC);
	pg_autofree struct sock_filter *code = NULL;
	struct stat status;
	int error;

	if (file < 0)
		return -errno;
	error = seccomp_export_bpf(filter, file);
	if (error)
		return error;
	if (fstat(file, &status))
		return -errno;
	if (!status.st_size || (size_t)status.st_size > BPF_MAXINSNS * sizeof(*code))
		return -E2BIG;
	code = malloc((size_t)status.st_size);
	if (!code)
		return -ENOMEM;
	if (pread(file, code, (size_t)status.st_size, 0) != status.st_size)
		return -EIO;
	ret_program->len = (unsigned short)((size_t)status.st_size / sizeof(*code));
	ret_program->filter = PG_TAKE_PTR(code);
	return 0;
}

int pg_program_load(const struct sock_fprog *program, unsigned int flags)
{
	const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);

	/* With TSYNC a thread's id: one that has another filter. */
	return result < 0 ? -errno : result > 0 ? -ESRCH : 0;
}
