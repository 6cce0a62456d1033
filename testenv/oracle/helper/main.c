// SPDX-License-Identifier: Apache-2.0

#include "judge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct {
	const char *name;
	void (*run)(struct call *c);
} commands[] = {
	{"open", do_open}, {"gid", do_gid}, {"pd", do_pd}, {"reg_mr", do_reg_mr}, {"cq", do_cq}, {"srq", do_srq},
	{"arm_srq", do_arm_srq}, {"mw", do_mw}, {"ah", do_ah}, {"destroy", do_destroy}, {"fill", do_fill},
	{"check", do_check}, {"peek", do_peek}, {"poke", do_poke}, {"qp", do_qp}, {"modify", do_modify},
	{"query", do_query}, {"post_send", do_post_send}, {"post_recv", do_post_recv}, {"poll", do_poll}, {"async", do_async}, {"run", do_run}, {"run_recv", do_run_recv},
};

static void dispatch(struct call *c, char *line)
{
	if (!split(c, line))
		return;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(commands[i].name, c->name)) {
			commands[i].run(c);
			return;
		}
	fail(c, ENOSYS, "unknown command");
}

// answer works on one line, "NUMBER command ...".
static void answer(FILE *out, char *line)
{
	static char reply[LINE_MAX_BYTES];
	struct call c = {.reply = reply};
	char *rest;
	uint64_t id = strtoull(line, &rest, 10);

	reply[0] = 0;
	dispatch(&c, rest);
	if (c.error)
		fprintf(out, "%" PRIu64 " error %d %s: %s: %s\n", id, c.error, c.name, c.why, strerror(c.error));
	else
		fprintf(out, "%" PRIu64 " ok%s\n", id, reply);
	fflush(out);
}

// open_port opens a virtio-serial port by its name.
static int open_port(const char *name)
{
	char dev[128];

	snprintf(dev, sizeof(dev), "/dev/virtio-ports/%s", name);
	return open(dev, O_RDWR);
}

// The one argument is the port's name, or "-" for stdin and stdout.
int main(int argc, char **argv)
{
	static char line[LINE_MAX_BYTES];
	struct rlimit files = {65536, 65536}; // a completion channel each; fewer will do for fewer queues
	FILE *in = stdin, *out = stdout;

	if (argc != 2) {
		fprintf(stderr, "usage: rxejudge PORT|-\n");
		return 2;
	}
	if (strcmp(argv[1], "-")) {
		int fd = open_port(argv[1]);

		if (fd < 0) {
			fprintf(stderr, "rxejudge: no virtio-serial port %s: %s\n", argv[1], strerror(errno));
			return 1;
		}
		in = fdopen(fd, "r");
		out = fdopen(dup(fd), "w");
	}
	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (!in || !out) {
		perror("rxejudge");
		return 1;
	}
	fprintf(out, "0 ok\n");
	fflush(out);
	while (fgets(line, sizeof(line), in)) {
		size_t n = strcspn(line, "\n");

		if (!line[n]) {
			fprintf(stderr, "rxejudge: a line without end\n");
			return 1;
		}
		line[n] = 0;
		answer(out, line);
	}
	return 0;
}
