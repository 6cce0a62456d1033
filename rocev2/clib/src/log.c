/* SPDX-License-Identifier: Apache-2.0 */
/* What the library writes to stderr: why a device cannot be used, and with SOFTROCE_LOG what it refuses. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softroce.h"

/*
 * write_line writes one line in one call, so that lines of several threads do not mix. Bytes that are not printable ASCII
 * become '?': texts of the agent do not control the terminal. Callers have locks, and calls wait for the thread of a context.
 * So a line is lost if stderr is a pipe that is full, or that nobody reads. A line has less than PIPE_BUF bytes: if a pipe
 * takes any byte, it takes the line.
 */
static void write_line(const char *format, va_list args)
{
	char text[1280];
	vsnprintf(text, sizeof text, format, args);
	for (char *p = text; *p != 0; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	char line[sizeof text + 32];
	struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
	int n = snprintf(line, sizeof line, "softroce libibverbs: %s\n", text), state = cancel_off();
	if (poll(&p, 1, 0) == 1 && (p.revents & (POLLOUT | POLLERR)) == POLLOUT && write(STDERR_FILENO, line, (size_t)n) < n)
		n = 0; /* there is no other place to say it */
	cancel_on(state);
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

/* note_once notes a verb that the library does not have, each name once. */
static void note_once(const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const char *noted[256];
	static size_t n;
	pthread_mutex_lock(&lock);
	bool known = n == sizeof noted / sizeof *noted;
	for (size_t i = 0; i < n; i++)
		known = known || strcmp(noted[i], name) == 0;
	if (!known)
		noted[n++] = name;
	pthread_mutex_unlock(&lock);
	if (!known)
		note("%s: not supported", name);
}

/* unsupported returns EOPNOTSUPP, which it sets too. The names are string constants. */
int unsupported(const char *name)
{
	if (logging())
		note_once(name);
	return errno = EOPNOTSUPP;
}
