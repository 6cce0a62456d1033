/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices, and contexts. A device is an interface with a socket of an agent. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "softroce.h"

#define RUN_DIR "/run/softroce-xdp" /* default directory of the sockets */
#define SUFFIX ".sock"

/*
 * fork_lock has the lists of this file, and the descriptors that a context keeps while they change. fork takes it: the child
 * closes the descriptors of its parent.
 */
pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *devices;
static struct context *contexts;

/* run_dir is the directory of the sockets. The user of a set-user-ID program does not choose it: an agent gets access to memory. */
static const char *run_dir(void)
{
	const char *d = secure_getenv("SOFTROCE_RUN_DIR");
	return d != NULL && *d != 0 ? d : RUN_DIR;
}

/* decode is the interface of a socket's name: %25 is %, %2E is a dot. It returns false if the name is no socket's. */
static bool decode(const char *file, char *name, size_t room)
{
	size_t n = strlen(file), used = 0;
	if (n <= strlen(SUFFIX) || strcmp(file + n - strlen(SUFFIX), SUFFIX) != 0)
		return false;
	for (size_t i = 0; i < n - strlen(SUFFIX); i++) {
		if (used + 1 >= room)
			return false;
		char ch = file[i];
		if (strncmp(file + i, "%25", 3) == 0 || strncmp(file + i, "%2E", 3) == 0) {
			ch = file[i + 2] == '5' ? '%' : '.';
			i += 2;
		}
		name[used++] = ch;
	}
	name[used] = 0;
	return used > 0;
}

/* chosen reports whether SOFTROCE_DEV, a list of interfaces with commas, has the interface. Without it all are chosen. */
static bool chosen(const char *ifname)
{
	const char *list = secure_getenv("SOFTROCE_DEV");
	if (list == NULL || *list == 0)
		return true;
	size_t n = strlen(ifname);
	for (const char *at = list; (at = strstr(at, ifname)) != NULL; at++) {
		if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ','))
			return true;
	}
	return false;
}

/* reachable returns 0 if an agent listens at the socket and this user may use it, or errno. */
static int reachable(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	int error = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? 0 : errno;
	close(fd);
	return error == EAGAIN ? 0 : error; /* EAGAIN: others wait for the agent */
}

/* known returns the device of an interface. Its names stay as they are: programs read them without a lock. */
static struct device *known(const char *ifname, const char *path)
{
	unsigned number = 0;
	for (struct device *d = devices; d != NULL; d = d->next, number++) {
		if (strcmp(d->path, path) == 0)
			return d;
	}
	struct device *d = calloc(1, sizeof *d);
	if (d == NULL)
		return NULL;
	d->ibv.node_type = IBV_NODE_CA;
	d->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->ifname, sizeof d->ifname, "%s", ifname);
	snprintf(d->path, sizeof d->path, "%s", path);
	snprintf(d->ibv.name, sizeof d->ibv.name, "softroce_%.50s", ifname);
	for (char *p = d->ibv.name; *p != 0; p++) {
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p) == NULL)
			*p = '_';
	}
	snprintf(d->ibv.dev_name, sizeof d->ibv.dev_name, "uverbs%u", number);
	snprintf(d->ibv.dev_path, sizeof d->ibv.dev_path, "/sys/class/infiniband_verbs/uverbs%u", number);
	snprintf(d->ibv.ibdev_path, sizeof d->ibv.ibdev_path, "/sys/class/infiniband/%s", d->ibv.name);
	d->next = devices;
	devices = d;
	return d;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* explain says once why there is no device. */
static void explain(int denied, const char *path)
{
	static bool said;
	if (said)
		return;
	said = true;
	if (denied != 0)
		complain("%s: %s: ask for `attach --nic-group` or `--nic-mode`", path, strerror(denied));
	else
		complain("no device is served in %s: run `softroce-xdp attach --nic INTERFACE`", run_dir());
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct dirent **files = NULL;
	int n = scandir(run_dir(), &files, NULL, by_name), found = 0, denied = n < 0 && errno == EACCES ? EACCES : 0;
	char path[108], refused[108] = "";
	struct ibv_device **list = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *list);
	snprintf(refused, sizeof refused, "%s", run_dir());
	int state = cancel_off(); /* connect and close are cancellation points */
	pthread_mutex_lock(&fork_lock);
	for (int i = 0; i < n; i++) {
		char ifname[64];
		struct device *d;
		int length = snprintf(path, sizeof path, "%s/%s", run_dir(), files[i]->d_name);
		if (list == NULL || length >= (int)sizeof path || !decode(files[i]->d_name, ifname, sizeof ifname) || !chosen(ifname))
			continue;
		int error = reachable(path);
		if (error == EACCES) {
			denied = EACCES;
			memcpy(refused, path, sizeof refused);
		}
		if (error != 0 || (d = known(ifname, path)) == NULL)
			continue;
		list[found++] = &d->ibv;
	}
	if (list != NULL && found == 0)
		explain(denied, refused);
	pthread_mutex_unlock(&fork_lock);
	cancel_on(state);
	for (int i = 0; i < n; i++)
		free(files[i]);
	free(files);
	if (num != NULL)
		*num = list != NULL ? found : 0;
	return list != NULL ? list : fail(ENOMEM);
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }

EXPORT const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1; /* the kernel has no such device */
}

/* ibv_get_device_guid opens the device the first time, because the agent knows the address of the interface. */
EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct device *d = to_device(device);
	pthread_mutex_lock(&fork_lock);
	__be64 guid = d->guid;
	pthread_mutex_unlock(&fork_lock);
	if (guid != 0)
		return guid;
	struct ibv_context *c = ibv_open_device(device);
	if (c == NULL)
		return 0;
	guid_of(to_context(c), &guid); /* 0 after an error */
	ibv_close_device(c);
	pthread_mutex_lock(&fork_lock);
	d->guid = guid;
	pthread_mutex_unlock(&fork_lock);
	return guid;
}

/* What fork does to contexts: the child has no thread, and does not use what the parent has. */
static void before_fork(void) { pthread_mutex_lock(&fork_lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&fork_lock); }
static void after_fork_child(void)
{
	for (struct context *c = contexts; c != NULL; c = c->next)
		control_forked(c);
	pthread_mutex_unlock(&fork_lock);
}

__attribute__((constructor)) static void start(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

static void set_operations(struct context *c)
{
	struct verbs_context *v = &c->verbs;
	unsupported_operations(v);
	v->sz = sizeof *v;
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->create_cq_ex = create_cq_ex;
	v->create_qp_ex = create_qp_ex;
	v->modify_cq = modify_cq;
	v->alloc_parent_domain = alloc_parent_domain;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->advise_mr = advise_mr;
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->context.ops.post_send = post_send;
	v->context.ops.post_recv = post_recv;
	v->context.ops.post_srq_recv = post_srq_recv;
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
}

static void unlink_context(struct context *c)
{
	pthread_mutex_lock(&fork_lock);
	struct context **at = &contexts;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	pthread_mutex_unlock(&fork_lock);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->device = to_device(device);
	c->events_end = &c->events;
	pthread_mutex_init(&c->memory_lock, NULL);
	pthread_mutex_init(&c->port_lock, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	set_operations(c);
	struct ibv_context *v = &c->verbs.context;
	v->device = device;
	v->cmd_fd = -1;
	v->num_comp_vectors = 1;
	v->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&v->mutex, NULL);
	control_init(c);
	pthread_mutex_lock(&fork_lock); /* before it has a socket, which the child of a fork would keep open */
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&fork_lock);
	v->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	int error = v->async_fd < 0 ? errno : control_open(c);
	if (error != 0) {
		unlink_context(c);
		if (v->async_fd >= 0)
			close(v->async_fd);
		free(c);
		return fail(error);
	}
	return v;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct context *c = to_context(context);
	control_close(c);
	unlink_context(c);
	close(context->async_fd);
	while (c->events != NULL) {
		struct async *e = c->events;
		c->events = e->next;
		free(e);
	}
	free(c);
	return 0;
}
