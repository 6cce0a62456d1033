/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of softroce_cm.h. */
#include <sys/socket.h>

#include "softroce.h"
#include "softroce_cm.h"

EXPORT int softroce_call(struct ibv_context *context, uint16_t type, const void *body, size_t bytes, void *reply, size_t reply_bytes)
{
	return call(to_context(context), (struct message){.type = type, .body = body, .bytes = bytes}, (struct answer){reply, reply_bytes, NULL});
}

EXPORT void softroce_send(struct ibv_context *context, uint16_t type, const void *body, size_t bytes)
{
	struct context *c = to_context(context);
	struct message m = {.type = type, .body = body, .bytes = bytes};
	if (gone(c) != ALIVE)
		return;
	int state = cancel_off();
	uint32_t seq = next_seq(c);
	if (pthread_mutex_trylock(&c->send_lock) == 0) {
		send_message(c->socket, seq, &m, MSG_DONTWAIT);
		pthread_mutex_unlock(&c->send_lock);
	}
	cancel_on(state);
}

EXPORT int softroce_cm_open(struct ibv_context *context, void (*on_event)(void *arg, const struct softroce_cm_event *event), void *arg)
{
	struct context *c = to_context(context);
	pthread_mutex_lock(&c->lock);
	bool free = c->cm_event == NULL;
	if (free) {
		c->cm_event = on_event;
		c->cm_arg = arg;
	}
	pthread_mutex_unlock(&c->lock);
	if (!free)
		return EBUSY;
	int error = call(c, (struct message){.type = SOFTROCE_MSG_CM_OPEN}, (struct answer){0});
	if (error != 0) {
		pthread_mutex_lock(&c->lock);
		c->cm_event = NULL;
		pthread_mutex_unlock(&c->lock);
	}
	return error;
}

/* on_cm_event gives an event to librdmacm; NULL: the device has ended. The caller has no lock. */
void on_cm_event(struct context *c, const struct softroce_cm_event *e)
{
	pthread_mutex_lock(&c->lock);
	void (*event)(void *, const struct softroce_cm_event *) = c->cm_event;
	void *arg = c->cm_arg;
	pthread_mutex_unlock(&c->lock);
	if (event != NULL)
		event(arg, e);
}
