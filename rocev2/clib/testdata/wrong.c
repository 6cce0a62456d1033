/* SPDX-License-Identifier: Apache-2.0 */
/* A program with an overflow of the heap and a data race, which sanitizers report. */
#include <pthread.h>
#include <stdlib.h>

static int shared;

static void *add(void *arg)
{
	(void)arg;
	shared++;
	return NULL;
}

int main(void)
{
	volatile size_t n = 8;
	pthread_t thread;
	if (pthread_create(&thread, NULL, add, NULL) != 0)
		return 1;
	shared++;
	pthread_join(thread, NULL);
	volatile char *p = malloc(n);
	p[n] = 1;
	free((void *)p);
	return 0;
}
