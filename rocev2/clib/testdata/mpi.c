/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of MPI. Usage: mpi messages|windows|fork|killed|endless|latency BYTES. Each rank checks what it receives, and ends the job
 * at the first difference. The first rank prints "ok", or what was measured.
 */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, ranks;

/* CHECK prints a check that fails, and ends the job. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

static void *memory(size_t bytes)
{
	void *p = malloc(bytes);
	CHECK(p != NULL);
	return p;
}

/* around sends a message to the next rank, and checks the one of the previous rank. */
static void around(int bytes)
{
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	unsigned char *sent = memory((size_t)bytes), *received = memory((size_t)bytes);
	for (int i = 0; i < bytes; i++)
		sent[i] = (unsigned char)(rank + i * 7 + bytes);
	MPI_Sendrecv(sent, bytes, MPI_BYTE, next, 1, received, bytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < bytes; i++)
		CHECK(received[i] == (unsigned char)(previous + i * 7 + bytes));
	free(sent);
	free(received);
}

static void sums(int n)
{
	double *own = memory((size_t)n * sizeof *own), *sum = memory((size_t)n * sizeof *sum);
	for (int i = 0; i < n; i++)
		own[i] = rank + i;
	MPI_Allreduce(own, sum, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		CHECK(sum[i] == (double)ranks * i + ranks * (ranks - 1) / 2);
	free(own);
	free(sum);
}

static void all_to_all(int n)
{
	int *own = memory((size_t)(n * ranks) * sizeof *own), *got = memory((size_t)(n * ranks) * sizeof *got);
	for (int i = 0; i < n * ranks; i++)
		own[i] = rank * 1000000 + i;
	MPI_Alltoall(own, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD);
	for (int from = 0; from < ranks; from++) {
		for (int i = 0; i < n; i++)
			CHECK(got[from * n + i] == from * 1000000 + rank * n + i);
	}
	free(own);
	free(got);
}

static void messages(void)
{
	for (int bytes = 1; bytes <= 1 << 20; bytes *= 4)
		around(bytes);
	for (int n = 1; n <= 1 << 18; n *= 8)
		sums(n);
	for (int n = 1; n <= 1 << 16; n *= 16)
		all_to_all(n);
}

/* Memory of other ranks is written, read and added to. */
static void windows(void)
{
	enum { N = 50000 };
	int *shared, next = (rank + 1) % ranks;
	int *mine = memory(N * sizeof *mine);
	MPI_Win win;
	MPI_Win_allocate(N * sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < N; i++)
		mine[i] = rank * N + i;
	MPI_Put(mine, N, MPI_INT, next, 0, N, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < N; i++)
		CHECK(shared[i] == (rank + ranks - 1) % ranks * N + i);
	memset(mine, 0, N * sizeof *mine);
	MPI_Win_fence(0, win);
	MPI_Get(mine, N, MPI_INT, next, 0, N, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < N; i++)
		CHECK(mine[i] == rank * N + i);

	int64_t one = 1, *counter, last = 0;
	MPI_Win counters;
	MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &counters);
	*counter = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, counters);
	for (int i = 0; i < 100; i++) {
		MPI_Fetch_and_op(&one, &last, MPI_INT64_T, 0, 0, MPI_SUM, counters);
		MPI_Win_flush(0, counters);
	}
	MPI_Win_unlock_all(counters);
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(rank != 0 || *counter == 100 * ranks);
	MPI_Win_free(&counters);
	MPI_Win_free(&win);
	free(mine);
}

/* Children that end at once, and one that executes another program, while messages go on. */
static void forks(void)
{
	for (int i = 0; i < 5; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			if (i == 0)
				execlp("true", "true", (char *)NULL);
			_exit(i == 0);
		}
		around(100000);
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		around(100000);
	}
}

/* endless exchanges messages until the job is ended. */
static void endless(void)
{
	for (long round = 0; ; round++) {
		around(100000);
		if (rank == 0 && round == 10) {
			puts("the job runs");
			fflush(stdout);
		}
	}
}

static void killed(void)
{
	around(100000);
	if (rank == ranks - 1)
		raise(SIGKILL);
	endless();
}

/* latency measures messages from rank to rank and back, of ranks 0 and 1. */
static void latency(int bytes)
{
	enum { BEFORE = 100 };
	int rounds = bytes < 65536 ? 2000 : 200;
	unsigned char *b = memory((size_t)bytes);
	double start = 0;
	memset(b, 1, (size_t)bytes);
	for (int i = 0; i < BEFORE + rounds && rank < 2; i++) {
		if (i == BEFORE)
			start = MPI_Wtime();
		if (rank == 0)
			MPI_Send(b, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(b, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(b, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	double half = (MPI_Wtime() - start) / rounds / 2;
	if (rank == 0)
		printf("%d bytes: %.2f us, %.3f Gbit/s\n", bytes, half * 1e6, bytes * 8 / half / 1e9);
	free(b);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"messages", messages}, {"windows", windows}, {"fork", forks}, {"killed", killed}, {"endless", endless}};
	size_t i = 0;
	while (i < sizeof cases / sizeof *cases && strcmp(cases[i].name, name) != 0)
		i++;
	if (i < sizeof cases / sizeof *cases) {
		cases[i].run();
	} else {
		CHECK(strcmp(name, "latency") == 0 && argc == 3);
		latency(atoi(argv[2]));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		puts("ok");
	MPI_Finalize();
	return 0;
}
