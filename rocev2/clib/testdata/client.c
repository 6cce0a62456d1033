/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of verbs for the agents of fakeagent_test.go. Usage: client CASE, one of cases.
 * It prints the first check that fails, and exits with status 1 then. A line on stdout is for the test.
 */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "loopback.h"

#define SIGNALS 3 /* of a timer */

static struct ibv_device *device;
static struct ibv_context *context;

static void open_device(void)
{
	context = ibv_open_device(device);
	CHECK(context != NULL);
}

/* readable reports whether a descriptor is readable, at once or within a time in ms; -1 is for ever. */
static int readable(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, ms) == 1;
}

/* The names of a device that is listed stay, whatever devices come. The test adds one in front. */
static void names(void)
{
	int n;
	char before[sizeof device->dev_name];
	strcpy(before, device->dev_name);
	puts("listed");
	fflush(stdout);
	CHECK(getchar() == '\n');
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(n == 2 && list[1] == device);
	CHECK(strcmp(device->dev_name, before) == 0);
	CHECK(strcmp(list[0]->dev_name, device->dev_name) != 0 && strcmp(list[0]->dev_path, device->dev_path) != 0);
	ibv_free_device_list(list);
}

static void *query_port(void *arg)
{
	struct ibv_port_attr a;
	(void)arg;
	CHECK(ibv_query_port(context, 1, &a) == 0);
	return NULL;
}

static void receive(enum ibv_event_type type)
{
	struct ibv_async_event e;
	CHECK(ibv_get_async_event(context, &e) == 0 && e.event_type == type);
	ibv_ack_async_event(&e);
}

/* GIDs that were requested before a change are not used after it, nor while a thread requests them again. */
static void port(void)
{
	union ibv_gid gid;
	pthread_t thread;
	CHECK(ibv_query_gid(context, 1, 0, &gid) == 0 && gid.raw[15] == 1); /* the agent has announced a change before its reply */
	receive(IBV_EVENT_GID_CHANGE);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	CHECK(cq != NULL);
	CHECK(pthread_create(&thread, NULL, query_port, NULL) == 0);
	receive(IBV_EVENT_CQ_ERR); /* the agent has the request of the thread */
	CHECK(ibv_query_gid(context, 1, 0, &gid) == 0 && gid.raw[15] == 2);
	CHECK(pthread_join(thread, NULL) == 0 && ibv_destroy_cq(cq) == 0);
}

/* A signal of a completion queue whose destruction the agent refuses is not lost. */
static void refused(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *from, *cq = ibv_create_cq(context, 10, NULL, channel, 0);
	void *user;
	CHECK(cq != NULL && ibv_destroy_cq(cq) == EBUSY);
	CHECK(ibv_get_cq_event(channel, &from, &user) == 0 && from == cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

/* A signal between the agent's change to another ring and the program's is not lost. */
static void resized(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0);
	CHECK(cq != NULL && ibv_resize_cq(cq, 100) == 0);
	CHECK(readable(channel->fd, 0));
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

/* A ring that the agent has moved, and whose descriptor has not come, ends the context. */
static void moved(void)
{
	struct ibv_wc wc;
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	CHECK(cq != NULL && ibv_resize_cq(cq, 100) == EMFILE);
	receive(IBV_EVENT_DEVICE_FATAL);
	CHECK(ibv_poll_cq(cq, 1, &wc) == -1 && ibv_destroy_cq(cq) == 0);
}

static struct ibv_pd *pd;
static struct ibv_cq *queue;

static void register_memory(void)
{
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr != NULL && ibv_dereg_mr(mr) == 0);
}

static void resize_queue(void) { CHECK(ibv_resize_cq(queue, 100) == 0); }
static void destroy_queue(void) { CHECK(ibv_destroy_cq(queue) == 0); }

static void *cancelled_thread(void *arg)
{
	void (**run)(void) = arg;
	CHECK(pthread_cancel(pthread_self()) == 0);
	(*run)();
	pthread_testcancel();
	return NULL;
}

/* in_cancelled runs a function in a thread that is cancelled at its first cancellation point. */
static void in_cancelled(void (*run)(void))
{
	pthread_t thread;
	void *result;
	CHECK(pthread_create(&thread, NULL, cancelled_thread, &run) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

/* A thread that is cancelled has no lock: this one uses the same objects after it. */
static void cancelled(void)
{
	struct ibv_wc wc;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK((pd = ibv_alloc_pd(context)) != NULL && (queue = ibv_create_cq(context, 10, NULL, channel, 0)) != NULL);
	in_cancelled(register_memory);
	register_memory();
	in_cancelled(resize_queue); /* the agent signals meanwhile */
	CHECK(ibv_poll_cq(queue, 1, &wc) == 0 && readable(channel->fd, 0));
	in_cancelled(destroy_queue);
	CHECK(ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* Events of an object that is destroyed make no descriptor readable. */
static void forgotten(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context); /* the agent has sent the events before its reply */
	CHECK(cq != NULL && pd != NULL && readable(channel->fd, -1) && readable(context->async_fd, -1));
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	CHECK(!readable(channel->fd, 0));
	CHECK(!readable(context->async_fd, 0));
	CHECK(ibv_destroy_comp_channel(channel) == 0);
}

static int sockets(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		char path[300], target[300] = "";
		snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
		n += readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "socket:", 7) == 0;
	}
	closedir(d);
	return n;
}

static void *opens(void *arg)
{
	(void)arg;
	open_device();
	return NULL;
}

/* The child of a fork has no socket of a device that another thread opens at that time. */
static void forks(void)
{
	pthread_t thread;
	int status;
	CHECK(sockets() == 0);
	CHECK(pthread_create(&thread, NULL, opens, NULL) == 0);
	while (sockets() == 0)
		usleep(1000);
	pid_t child = fork();
	if (child == 0)
		_exit(sockets());
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	puts("forked"); /* the agent answers after this line */
	fflush(stdout);
	CHECK(pthread_join(thread, NULL) == 0 && sockets() > 0);
}

static volatile int ticks;

static void tick(int number)
{
	static const char line[] = "interrupted\n";
	int error = errno;
	(void)number;
	if (++ticks == SIGNALS && write(1, line, sizeof line - 1) < 0)
		_exit(1);
	errno = error;
}

static void start_timer(void)
{
	struct sigaction a = {.sa_handler = tick};
	struct itimerval t = {.it_interval = {0, 10000}, .it_value = {0, 10000}};
	CHECK(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static void stop_timer(void) { CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0); }

/* Signals interrupt the connection to an agent that accepts it after this program's line on stdout. */
static void interrupted(void)
{
	start_timer();
	open_device();
	stop_timer();
}

/* Signals do not extend the time in which an agent must answer. */
static void silent(void)
{
	start_timer();
	CHECK(ibv_open_device(device) == NULL && errno == ETIMEDOUT);
	stop_timer();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		int opens;
	} cases[] = {
		{"names", names, 0}, {"port", port, 1}, {"refused", refused, 1}, {"resized", resized, 1}, {"moved", moved, 1},
		{"cancelled", cancelled, 1}, {"forgotten", forgotten, 1}, {"forks", forks, 0}, {"interrupted", interrupted, 0},
		{"silent", silent, 0},
	};
	size_t i = 0;
	CHECK(argc == 2);
	while (i < sizeof cases / sizeof *cases && strcmp(argv[1], cases[i].name) != 0)
		i++;
	CHECK(i < sizeof cases / sizeof *cases);
	device = only_device();
	if (cases[i].opens)
		open_device();
	cases[i].run();
	CHECK(context == NULL || ibv_close_device(context) == 0);
	puts("ok");
	return 0;
}
