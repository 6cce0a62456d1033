// SPDX-License-Identifier: Apache-2.0

// The judge's helper: libibverbs behind a line protocol. One line in, one line out:
//
//	17 reg_mr pd=1 len=4096 access=0xf
//	17 ok mr=2 addr=0x7f0000000000 lkey=0x101 rkey=0x101
//	18 reg_mr pd=9 len=4096 access=0xf
//	18 error 22 reg_mr: no pd 9
//
// The number is the caller's and comes back with the answer; behind "error" stands an errno.
// Numbers are decimal, or hexadecimal after 0x. Objects are named by handles that are never
// used twice.
#ifndef JUDGE_H
#define JUDGE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_BYTES (256 * 1024)
#define MAX_ARGS 64
#define MAX_SGE 32

// A call is one line while it is worked on. The first failure wins; handlers parse all they need,
// and return if parsed() is false.
struct call {
	const char *name;
	struct {
		const char *key, *value;
		bool used;
	} args[MAX_ARGS];
	int nargs;

	int error; // errno, 0 while all is well
	char why[256];
	char *reply; // LINE_MAX_BYTES
	size_t replied;
};

// args.c
bool split(struct call *c, char *line);
void fail(struct call *c, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
void say(struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool parsed(struct call *c);
bool has(struct call *c, const char *key);
const char *text(struct call *c, const char *key);
uint64_t need(struct call *c, const char *key);
uint64_t number(struct call *c, const char *key, uint64_t missing);
uint64_t choice(struct call *c, const char *key, const char *const *names, const uint64_t *values);
bool gid_of(struct call *c, const char *key, union ibv_gid *gid);
int sges(struct call *c, struct ibv_sge *list);
int from_hex(const char *hex, uint8_t *out, size_t max);

// objects.c
enum kind { NONE, PD, MR, CQ, QP, SRQ, MW, AH };

struct mr {
	struct ibv_mr *mr;
	uint8_t *mem;
	size_t len; // the memory's, page-aligned size is map
	size_t map;
};

struct cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
};

uint64_t add_object(enum kind kind, void *p);
void *object(struct call *c, const char *key, enum kind kind);
void *optional(struct call *c, const char *key, enum kind kind);

// The device that `open` opened; handlers that need it call device().
extern struct ibv_context *context;
bool device(struct call *c);

// pattern.c
void pattern_fill(uint8_t *p, uint64_t len, uint64_t seed, uint64_t skip);
int64_t pattern_check(const uint8_t *p, uint64_t len, uint64_t seed, uint64_t skip, uint64_t *bad);

// poll.c
uint64_t now_ns(void);
int wait_cq(struct cq *cq, struct ibv_wc *wc, int max, uint64_t deadline_ns);

// post.c
int send_request(struct call *c, struct ibv_send_wr *wr, struct ibv_sge *list);

// Commands.
void do_open(struct call *c);
void do_gid(struct call *c);
void do_pd(struct call *c);
void do_reg_mr(struct call *c);
void do_cq(struct call *c);
void do_srq(struct call *c);
void do_arm_srq(struct call *c);
void do_mw(struct call *c);
void do_ah(struct call *c);
void do_destroy(struct call *c);
void do_fill(struct call *c);
void do_check(struct call *c);
void do_peek(struct call *c);
void do_poke(struct call *c);
void do_qp(struct call *c);
void do_modify(struct call *c);
void do_query(struct call *c);
void do_post_send(struct call *c);
void do_post_recv(struct call *c);
void do_poll(struct call *c);
void do_async(struct call *c);
void do_run(struct call *c);
void do_run_recv(struct call *c);

#endif
