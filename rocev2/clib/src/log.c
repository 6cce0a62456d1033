/* SPDX-License-Identifier: Apache-2.0 */
/* What the library writes to stderr: why a device cannot be used, and with SOFTROCE_LOG what it refuses. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softroce.h"

/*
 * write_line writes one line in one call, so that lines of several threads do not mix. Bytes that are not printable ASCII
 * become '?': texts of the agent do not control the terminal.
 */
static void write_line(const char *format, va_list args)
{
	char text[1280];
	vsnprintf(text, sizeof text, format, args);
	for (char *p = text; *p != 0; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	fprintf(stderr, "softroce libibverbs: %s\n", text);
}

static bool logging(void)
{
	const char *v = secure_getenv("SOFTROCE_LOG");
	return v != NULL && *v != 0 && strcmp(v, "0") != 0;
}

void complain(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	write_line(format, args);
	va_end(args);
}

void note(const char *format, ...)
{
	if (!logging())
		return;
	va_list args;
	va_start(args, format);
	write_line(format, args);
	va_end(args);
}

/* unsupported notes a verb that the library does not have, each name once. The names are string constants. */
int unsupported(const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const char *noted[256];
	static size_t n;
	if (!logging())
		return EOPNOTSUPP;
	pthread_mutex_lock(&lock);
	bool known = n == sizeof noted / sizeof *noted;
	for (size_t i = 0; i < n; i++)
		known = known || strcmp(noted[i], name) == 0;
	if (!known)
		noted[n++] = name;
	pthread_mutex_unlock(&lock);
	if (!known)
		note("%s: not supported", name);
	return EOPNOTSUPP;
}
