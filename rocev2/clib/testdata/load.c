/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of verbs that uses many objects. Usage:
 *
 *	load cycles PROCESSES N  processes open the device, exchange a message and close everything, N times in all
 *	load queues N            that many queue pairs at the same time
 *	load threads T N         threads post and poll until there are N completions
 *	load kill N              processes that post are killed
 *	load leave N             processes that post exit and close nothing
 *	load order N             objects are destroyed in any order
 *
 * It prints the first check that fails, and exits with status 1 then.
 */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "loopback.h"

#define BYTES 64
#define DEPTH 8     /* messages of a queue pair at a time */
#define WARM_UP 15  /* cycles of a process after which the caches of malloc are full */
#define LEAK 16     /* bytes of malloc that each cycle after the first half may leave: fewer than its smallest chunk */

/* Everything that one queue pair needs. */
struct set {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char memory[2][BYTES];
};

static void make(struct set *s)
{
	s->context = opened();
	CHECK((s->pd = ibv_alloc_pd(s->context)) != NULL);
	CHECK((s->mr = ibv_reg_mr(s->pd, s->memory, sizeof s->memory, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((s->channel = ibv_create_comp_channel(s->context)) != NULL);
	CHECK((s->cq = ibv_create_cq(s->context, 2 * DEPTH, NULL, s->channel, 0)) != NULL);
	s->qp = connected(s->pd, s->cq, IBV_QPT_RC, NULL, DEPTH);
}

static void end(struct set *s)
{
	CHECK(ibv_destroy_qp(s->qp) == 0 && ibv_destroy_cq(s->cq) == 0 && ibv_destroy_comp_channel(s->channel) == 0);
	CHECK(ibv_dereg_mr(s->mr) == 0 && ibv_dealloc_pd(s->pd) == 0 && ibv_close_device(s->context) == 0);
}

/* completions polls until there are that many. */
static void completions(struct ibv_cq *cq, long n)
{
	struct ibv_wc wc[16];
	while (n > 0) {
		int found = ibv_poll_cq(cq, n < 16 ? (int)n : 16, wc);
		CHECK(found >= 0);
		for (int i = 0; i < found; i++)
			CHECK(wc[i].status == IBV_WC_SUCCESS);
		n -= found;
	}
}

static void message(struct set *s)
{
	post_recv(s->qp, s->mr, s->memory[1], BYTES, 0);
	post_send(s->qp, s->mr, s->memory[0], BYTES, 0);
}

/* descriptors counts those of this process, and lines of its maps with memory of the agent. */
static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;
	CHECK(d != NULL && f != NULL);
	while (readdir(d) != NULL)
		n++;
	while (fgets(line, sizeof line, f) != NULL)
		n += strstr(line, "memfd:") != NULL;
	closedir(d);
	fclose(f);
	return n;
}

/* in_use is the memory of malloc in bytes. It is 0 with a sanitizer. */
static size_t in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void cycle(long n)
{
	struct set s;
	size_t before = 0;
	int had = descriptors();
	for (long i = 0; i < n; i++) {
		if (i == n / 2)
			before = in_use();
		make(&s);
		memset(s.memory, (int)i, BYTES);
		message(&s);
		completions(s.cq, 2);
		CHECK(memcmp(s.memory[0], s.memory[1], BYTES) == 0);
		end(&s);
	}
	CHECK(descriptors() == had);
	size_t after = in_use();
	if (n / 2 >= WARM_UP && after > before + LEAK * (size_t)(n - n / 2)) {
		dprintf(1, "%zu bytes of malloc after %ld cycles, %zu after half of them\n", after, n, before);
		_exit(1);
	}
}

/* children runs processes, and returns when all have exited with status 0. */
static void children(long processes, void (*run)(long), long n)
{
	int status;
	for (long i = 0; i < processes; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			run(n);
			_exit(0);
		}
	}
	for (long i = 0; i < processes; i++)
		CHECK(wait(&status) > 0 && status == 0);
}

static void queues(long n)
{
	struct set s;
	struct ibv_qp **qp = calloc((size_t)n, sizeof(*qp));
	make(&s);
	struct ibv_cq *cq = ibv_create_cq(s.context, 2 * (int)n, NULL, NULL, 0);
	CHECK(qp != NULL && cq != NULL);
	for (long i = 0; i < n; i++)
		qp[i] = connected(s.pd, cq, IBV_QPT_RC, NULL, 1);
	for (long i = 0; i < n; i++) {
		post_recv(qp[i], s.mr, s.memory[1], BYTES, 0);
		post_send(qp[i], s.mr, s.memory[0], BYTES, 0);
	}
	completions(cq, 2 * n);
	for (long i = 0; i < n; i++) {
		CHECK(ibv_destroy_cq(cq) == EBUSY);
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	}
	CHECK(ibv_destroy_cq(cq) == 0);
	end(&s);
	free(qp);
}

static struct ibv_pd *shared_pd;
static struct ibv_mr *shared_mr;
static struct ibv_cq *shared_cq;
static char shared_memory[2][BYTES];

/* take takes completions of any thread, and counts each for the thread that its work request names. */
static void take(void)
{
	struct ibv_wc wc[DEPTH];
	int found = ibv_poll_cq(shared_cq, DEPTH, wc);
	CHECK(found >= 0);
	for (int i = 0; i < found; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS);
		__atomic_add_fetch((long *)(uintptr_t)wc[i].wr_id, 1, __ATOMIC_SEQ_CST);
	}
}

/* post_and_poll is a thread, which posts to a queue pair of its own. */
static void *post_and_poll(void *arg)
{
	struct ibv_qp *qp = connected(shared_pd, shared_cq, IBV_QPT_RC, NULL, DEPTH);
	long messages = *(long *)arg, completed;
	__atomic_store_n(&completed, 0, __ATOMIC_SEQ_CST); /* other threads count */
	for (long posted = 0; posted < messages;) {
		for (int i = 0; i < DEPTH && posted < messages; i++, posted++) {
			post_recv(qp, shared_mr, shared_memory[1], BYTES, (uintptr_t)&completed);
			post_send(qp, shared_mr, shared_memory[0], BYTES, (uintptr_t)&completed);
		}
		while (__atomic_load_n(&completed, __ATOMIC_SEQ_CST) < 2 * posted)
			take();
	}
	return qp;
}

static void threads(long count, long n)
{
	struct set s;
	long share = n / 2 / count;
	pthread_t *thread = calloc((size_t)count, sizeof *thread);
	make(&s);
	shared_pd = s.pd;
	CHECK((shared_mr = ibv_reg_mr(s.pd, shared_memory, sizeof shared_memory, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK(thread != NULL && (shared_cq = ibv_create_cq(s.context, (int)(2 * DEPTH * count), NULL, NULL, 0)) != NULL);
	for (long i = 0; i < count; i++)
		CHECK(pthread_create(&thread[i], NULL, post_and_poll, &share) == 0);
	for (long i = 0; i < count; i++) {
		void *qp;
		CHECK(pthread_join(thread[i], &qp) == 0 && ibv_destroy_qp(qp) == 0);
	}
	CHECK(ibv_destroy_cq(shared_cq) == 0 && ibv_dereg_mr(shared_mr) == 0);
	end(&s);
	free(thread);
}

static int first_message = -1; /* descriptor to which posts writes a byte after its first message */

/* posts exchanges messages until the process is killed, or n times. A message is in flight when it returns. */
static void posts(long n)
{
	static struct set s;
	make(&s);
	for (long i = 0; n == 0 || i < n; i++) {
		message(&s);
		completions(s.cq, 2);
		if (i == 0 && first_message >= 0)
			CHECK(write(first_message, "", 1) == 1);
	}
	message(&s);
}

/* killed kills processes: half of them from before they open the device on, and half after their first message. */
static void killed(long n)
{
	for (long i = 0; i < n; i++) {
		int status, ends[2];
		char byte;
		CHECK(pipe(ends) == 0);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			first_message = ends[1];
			posts(0);
		}
		close(ends[1]);
		if (i % 2 == 1)
			CHECK(read(ends[0], &byte, 1) == 1);
		usleep((useconds_t)(i * 997 % 50000));
		CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		close(ends[0]);
	}
}

enum { CONTEXT, PD, MR, CHANNEL, CQ, SRQ, QP, AH, OBJECTS };

/* Objects that use another one, which cannot be destroyed before them. */
static const unsigned users[OBJECTS] = {
	[PD] = 1 << MR | 1 << SRQ | 1 << QP | 1 << AH, [CHANNEL] = 1 << CQ, [CQ] = 1 << QP, [SRQ] = 1 << QP,
};

/* order destroys objects in the order of a random number: EBUSY as long as others use an object, 0 then. */
static void order(long n)
{
	for (long i = 0; i < n; i++) {
		struct set s;
		struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
		make(&s);
		CHECK(ibv_destroy_qp(s.qp) == 0);
		struct ibv_srq *srq = ibv_create_srq(s.pd, &init);
		CHECK(srq != NULL);
		s.qp = connected(s.pd, s.cq, IBV_QPT_RC, srq, DEPTH);
		struct ibv_ah_attr address = own_address(s.context);
		struct ibv_ah *ah = ibv_create_ah(s.pd, &address);
		CHECK(ah != NULL);
		unsigned there = (1 << OBJECTS) - 2;
		while (there != 0) {
			int k = rand() % OBJECTS;
			if ((there & 1u << k) == 0)
				continue;
			int error = k == PD ? ibv_dealloc_pd(s.pd) : k == MR ? ibv_dereg_mr(s.mr) : k == CHANNEL ? ibv_destroy_comp_channel(s.channel) :
				k == CQ ? ibv_destroy_cq(s.cq) : k == SRQ ? ibv_destroy_srq(srq) : k == QP ? ibv_destroy_qp(s.qp) : ibv_destroy_ah(ah);
			int want = (there & users[k]) != 0 ? EBUSY : 0;
			if (error != want) {
				dprintf(1, "object %d with %#x there: %d (%s), want %d\n", k, there, error, strerror(error), want);
				_exit(1);
			}
			if (error == 0)
				there &= ~(1u << k);
		}
		CHECK(ibv_close_device(s.context) == 0);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 3 || argc == 4);
	long n = atol(argv[2]), m = argc == 4 ? atol(argv[3]) : 0;
	if (strcmp(argv[1], "cycles") == 0) {
		children(n, cycle, m / n);
	} else if (strcmp(argv[1], "queues") == 0) {
		queues(n);
	} else if (strcmp(argv[1], "threads") == 0) {
		threads(n, m);
	} else if (strcmp(argv[1], "kill") == 0) {
		killed(n);
	} else if (strcmp(argv[1], "leave") == 0) {
		children(n, posts, 10);
	} else {
		CHECK(strcmp(argv[1], "order") == 0);
		order(n);
	}
	puts("ok");
	return 0;
}
