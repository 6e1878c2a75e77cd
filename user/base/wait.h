/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a descriptor, until somebody wants the wait to end. */
#pragma once

#include "cleanup.h"

/*
 * Waits until fd (-1: none) is readable or has ended. Returns 1 if it is, 0 if timeout_ms (-1: no
 * limit) is up or the wait was disturbed, -ECANCELED as soon as interrupt_fd (-1: none) is
 * readable, or another negative errno. Reads nothing.
 */
int pg_wait_readable(int fd, int interrupt_fd, int timeout_ms) PG_MUST_CHECK;
