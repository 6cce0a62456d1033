/* SPDX-License-Identifier: Apache-2.0 */
/* What the library says with SOFTROCE_LOG. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

int unsupported(const char *name)
{
	const char *v = secure_getenv("SOFTROCE_LOG");
	if (v != NULL && *v != 0 && strcmp(v, "0") != 0)
		fprintf(stderr, "softroce librdmacm: %s: not supported\n", name);
	return failed(EOPNOTSUPP);
}
