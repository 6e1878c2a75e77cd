/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include <linux/vm_sockets.h>

#include "inspect.h"

/* Whether AF_VSOCK leads anywhere: to the hypervisor, if this is a guest, to guests, or to others
 * on this host. Nothing is done that would load a module. */
static bool leads_anywhere(void)
{
	pg_autoclose int fd = open("/dev/vsock", O_RDONLY | O_CLOEXEC);
	unsigned int cid = VMADDR_CID_ANY;

	if (fd < 0)
		return false;
	if (ioctl(fd, IOCTL_VM_SOCKETS_GET_LOCAL_CID, &cid) == 0 && cid != VMADDR_CID_ANY)
		return true;
	return access("/sys/module/vhost_vsock", F_OK) == 0 ||
	       access("/sys/module/vsock_loopback", F_OK) == 0;
}

void pg_inspect_vsock(struct pg_inspection *inspection)
{
	if (!inspection->contained || !leads_anywhere())
		return;
	if (inspection->unfiltered)
		pg_exposures_add(inspection->found, PG_EXPOSURE_VSOCK, inspection->member,
				 "%s may use AF_VSOCK, and this host has it: no filter of system"
				 " calls is in force for it",
				 inspection->name);
	else
		pg_exposures_add(inspection->found, PG_EXPOSURE_VSOCK_FILTERED, inspection->member,
				 "this host has AF_VSOCK: whether the filter of system calls of %s"
				 " denies it cannot be told",
				 inspection->name);
}
