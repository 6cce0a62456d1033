// SPDX-License-Identifier: Apache-2.0

#include "judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// split takes "name key=value key=value ..." apart, in place.
bool split(struct call *c, char *line)
{
	char *save = NULL;

	c->name = strtok_r(line, " ", &save);
	if (!c->name) {
		c->name = "";
		fail(c, EINVAL, "empty line");
		return false;
	}
	for (char *word; (word = strtok_r(NULL, " ", &save));) {
		char *eq = strchr(word, '=');

		if (!eq) {
			fail(c, EINVAL, "%.60s is no key=value", word);
			return false;
		}
		if (c->nargs == MAX_ARGS) {
			fail(c, E2BIG, "more than %d arguments", MAX_ARGS);
			return false;
		}
		*eq = 0;
		c->args[c->nargs].key = word;
		c->args[c->nargs].value = eq + 1;
		c->nargs++;
	}
	return true;
}

void fail(struct call *c, int error, const char *format, ...)
{
	va_list ap;

	if (c->error)
		return;
	c->error = error ? error : EIO;
	va_start(ap, format);
	vsnprintf(c->why, sizeof(c->why), format, ap);
	va_end(ap);
}

void say(struct call *c, const char *format, ...)
{
	size_t room = LINE_MAX_BYTES - c->replied;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(c->reply + c->replied, room, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		fail(c, ENOBUFS, "the answer is longer than a line");
	else
		c->replied += n;
}

// parsed is false after a failure, and if an argument was given that nobody asked for.
bool parsed(struct call *c)
{
	for (int i = 0; i < c->nargs; i++)
		if (!c->args[i].used)
			fail(c, EINVAL, "unknown argument %.60s", c->args[i].key);
	return !c->error;
}

bool has(struct call *c, const char *key)
{
	for (int i = 0; i < c->nargs; i++)
		if (!strcmp(c->args[i].key, key))
			return true;
	return false;
}

// text returns NULL for what was not given.
const char *text(struct call *c, const char *key)
{
	for (int i = 0; i < c->nargs; i++)
		if (!c->args[i].used && !strcmp(c->args[i].key, key)) {
			c->args[i].used = true;
			return c->args[i].value;
		}
	return NULL;
}

static uint64_t to_number(struct call *c, const char *key, const char *value)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(value, &end, 0);
	if (errno || end == value || *end || *value == '-')
		fail(c, EINVAL, "%s=%.60s is no number", key, value);
	return n;
}

uint64_t number(struct call *c, const char *key, uint64_t missing)
{
	const char *value = text(c, key);

	return value ? to_number(c, key, value) : missing;
}

uint64_t need(struct call *c, const char *key)
{
	const char *value = text(c, key);

	if (!value) {
		fail(c, EINVAL, "%s= is missing", key);
		return 0;
	}
	return to_number(c, key, value);
}

// choice looks a word up in names, which ends with NULL.
uint64_t choice(struct call *c, const char *key, const char *const *names, const uint64_t *values)
{
	const char *value = text(c, key);

	if (!value) {
		fail(c, EINVAL, "%s= is missing", key);
		return 0;
	}
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], value))
			return values[i];
	fail(c, EINVAL, "%s=%.60s is unknown", key, value);
	return 0;
}

// from_hex returns the number of bytes, or -1.
int from_hex(const char *hex, uint8_t *out, size_t max)
{
	size_t n = strlen(hex);

	if (n % 2 || n / 2 > max)
		return -1;
	for (size_t i = 0; i < n / 2; i++) {
		char digits[3] = {hex[2 * i], hex[2 * i + 1], 0}, *end;

		out[i] = strtoul(digits, &end, 16);
		if (*end || end == digits)
			return -1;
	}
	return n / 2;
}

// gid_of reads 32 hex digits in wire order.
bool gid_of(struct call *c, const char *key, union ibv_gid *gid)
{
	const char *value = text(c, key);

	if (!value)
		return false;
	if (from_hex(value, gid->raw, sizeof(gid->raw)) != (int)sizeof(gid->raw)) {
		fail(c, EINVAL, "%s=%.60s is no GID of 32 hex digits", key, value);
		return false;
	}
	return true;
}

static int sep_count(const char *s)
{
	int n = 0;

	while ((s = strchr(s, ':'))) {
		n++;
		s++;
	}
	return n;
}

// sges reads any number of sge=addr:len:lkey.
int sges(struct call *c, struct ibv_sge *list)
{
	const char *value;
	int n = 0;

	while ((value = text(c, "sge"))) {
		char *end;

		if (n == MAX_SGE) {
			fail(c, E2BIG, "more than %d sge", MAX_SGE);
			return n;
		}
		list[n].addr = strtoull(value, &end, 0);
		if (*end == ':')
			list[n].length = strtoull(end + 1, &end, 0);
		if (*end == ':')
			list[n].lkey = strtoull(end + 1, &end, 0);
		if (*end || sep_count(value) != 2) {
			fail(c, EINVAL, "sge=%.60s is not addr:len:lkey", value);
			return n;
		}
		n++;
	}
	return n;
}
