// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveAll receives until the client has finished. It returns the client's last message, and how many
// messages the receive queues got: the engine answers by itself, and only SEND takes what the application posts.
func (e *end) receiveAll(ctx context.Context, t *controlConn) (finished message, messages uint64, err error) {
	receiving, cancel := context.WithCancel(ctx)
	defer cancel()
	// The duration of a counted run is unknown; TCP detects a client that is gone.
	limit := time.Time{}
	if p := e.plan; p.Count == 0 {
		limit = time.Now().Add(p.Warmup + p.Duration + 10*time.Minute)
	}
	_ = t.conn.SetReadDeadline(limit)
	got := make(chan result, 1)
	go func() {
		r := e.receive(receiving)
		if r.err != nil { // the client would wait for receives for ever
			_ = t.conn.SetReadDeadline(time.Unix(1, 0))
		}
		got <- r
	}()
	finished, err = t.next()
	cancel()
	r := <-got
	if r.err != nil {
		err = r.err
	}
	return finished, r.messages, err
}

// report returns the last message to the client: how many messages arrived, and how.
func (e *end) report(finished *message, messages uint64) message {
	m := message{Messages: messages, Counters: e.counters()}
	if e.plan.Op != "send" {
		m.Messages = finished.Messages
	}
	// With fewer messages than busy queue pairs, the client has not listed the idle ones.
	if e.plan.Check && e.plan.Op != "read" && finished.Messages >= uint64(len(e.qps)-min(len(finished.Idle), len(e.qps))) {
		m.Bad = e.compare(finished.Idle)
	}
	return m
}

// result has the messages that the receive queues got.
type result struct {
	messages uint64
	err      error
}

// receive polls completions and posts the receives again, until ctx has ended and no completion
// is left.
func (e *end) receive(ctx context.Context) (r result) {
	var batch [256]verbs.Completion
	for {
		n := e.cq.Poll(batch[:])
		for i := range batch[:n] {
			w := &batch[i]
			if w.Status != verbs.StatusSuccess {
				r.err = e.failure(fmt.Sprintf("receive on queue pair %#x", w.QPN), w.Status)
				return r
			}
			r.messages++
			if err := e.postRecv(int(w.WRID)); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				r.err = err
				return r
			}
		}
		if n > 0 {
			continue
		}
		if err := e.cq.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				r.err = err
			}
			return r
		}
	}
}
