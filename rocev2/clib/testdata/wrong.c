/* SPDX-License-Identifier: Apache-2.0 */
/* A program with an overflow of the heap and a data race, which sanitizers report. The runtime of threads sometimes misses
 * a single access, so both threads go on until each has made many. Relaxed accesses do not order the others. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { ACCESSES = 1000 };

static int shared;
static int made[2]; /* accesses of each thread */

static void *add(void *arg)
{
	int *own = arg, *other = own == made ? made + 1 : made;
	do {
		shared++;
		__atomic_fetch_add(own, 1, __ATOMIC_RELAXED);
		sched_yield();
	} while (__atomic_load_n(own, __ATOMIC_RELAXED) < ACCESSES || __atomic_load_n(other, __ATOMIC_RELAXED) < ACCESSES);
	return NULL;
}

int main(void)
{
	volatile size_t n = 8;
	pthread_t thread;
	if (pthread_create(&thread, NULL, add, made + 1) != 0)
		return 1;
	add(made);
	pthread_join(thread, NULL);
	volatile char *p = malloc(n);
	p[n] = 1;
	free((void *)p);
	return 0;
}
