/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What librdmacm.so.1 of this project uses of its libibverbs.so.1: messages for the communication manager of the agent, and
 * its events. The names have the version SOFTROCE_1. Both libraries are installed together.
 */
#ifndef SOFTROCE_CM_H
#define SOFTROCE_CM_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "softroce_proto.h"

/* softroce_call sends a request and waits for its reply of exactly that length. It returns 0 or errno. */
int softroce_call(struct ibv_context *context, uint16_t type, const void *body, size_t bytes, void *reply, size_t reply_bytes);

/*
 * softroce_send sends a request whose reply nobody needs. It never waits: what the socket has no room for, the thread of the
 * context sends later. Only the function of events may call it. Without memory the message is lost.
 */
void softroce_send(struct ibv_context *context, uint16_t type, const void *body, size_t bytes);

/*
 * softroce_cm_open opens the communication manager. The thread of the context calls on_event with each event, and with NULL at
 * the end of the device, the last time; on_event must not wait for a reply. It returns 0 or errno.
 */
int softroce_cm_open(struct ibv_context *context, void (*on_event)(void *arg, const struct softroce_cm_event *event), void *arg);

#endif
