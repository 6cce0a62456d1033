/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The convention of the programs that are attached nowhere and only called, by
 * BPF_PROG_TEST_RUN: agent_call.h for the agent, engine.h for the engine. The packet starts
 * with struct sr_call, and the return value is the number of slots done.
 *
 * The programs are of type TC. A "syscall" program would look more natural, but it is
 * sleepable, and kernel 6.1 refuses queues in such programs.
 */
#ifndef SOFTROCE_CALL_H
#define SOFTROCE_CALL_H

/* call_of returns the call in a packet, NULL if its operation is not from first to last. */
static __always_inline const struct sr_call *call_of(struct __sk_buff *skb, __u32 first, __u32 last)
{
	const struct sr_call *call = (void *)(long)skb->data;

	if ((void *)(call + 1) > (void *)(long)skb->data_end)
		return NULL;
	return call->op < first || call->op > last ? NULL : call;
}

#endif
