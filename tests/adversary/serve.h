/* SPDX-License-Identifier: Apache-2.0 */
/* The server of the inbound tests. */
#pragma once

/* Of the first kind; the others are at the ports behind it. */
#define SERVE_PORT 8000

/* Does not return unless it cannot begin. */
int serve(void);
