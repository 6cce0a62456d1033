/* SPDX-License-Identifier: Apache-2.0 */
/* A program with an overflow of the heap and a data race, which sanitizers report. The runtime of threads sometimes misses
 * a single access, so both threads make many at the same time. Relaxed accesses do not order the others. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { ACCESSES = 1000 };

static int shared;
static int accesses; /* of the second thread */
static int enough;

static void *add(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
		shared++;
		__atomic_fetch_add(&accesses, 1, __ATOMIC_RELAXED);
		sched_yield();
	}
	return NULL;
}

int main(void)
{
	volatile size_t n = 8;
	pthread_t thread;
	if (pthread_create(&thread, NULL, add, NULL) != 0)
		return 1;
	while (__atomic_load_n(&accesses, __ATOMIC_RELAXED) < ACCESSES) {
		shared++;
		sched_yield();
	}
	__atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	volatile char *p = malloc(n);
	p[n] = 1;
	free((void *)p);
	return 0;
}
