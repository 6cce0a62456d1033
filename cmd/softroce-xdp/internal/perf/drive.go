// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// run is the client's side while messages flow.
type run struct {
	*end
	peer        *message
	client      *Client
	answers     <-chan answer // the server's last word
	answered    *answer       // what came from answers
	done        uint64        // messages completed
	posted      []uint64
	open        []int // messages outstanding on each queue pair
	outstanding int   // messages outstanding on all queue pairs
	wr          verbs.SendWR
	sgl         [1]verbs.SGE

	ending bool      // nothing is posted any more
	giveUp time.Time // once interrupted: what is outstanding then is given up
	moved  time.Time // when a message was last posted or completed
	sentAt time.Time // --latency: when the outstanding message was posted
}

// stallTime is the longest time without a completion after the last post.
const stallTime = 30 * time.Second

// drainTime is the time for which an interrupted run waits for outstanding messages.
const drainTime = 300 * time.Millisecond

// figuresTime is the time for which an interrupted run then waits for the server's figures. Before the server
// sends them, it compares the data of a run with Check.
const figuresTime = 2 * time.Second

// request prepares the work request of queue pair i.
func (r *run) request(i int) *verbs.SendWR {
	s := r.sge(i)
	s.Len = r.plan.Size
	r.sgl[0] = s
	r.wr = verbs.SendWR{
		ID: uint64(i), Op: r.plan.operation(), Flags: verbs.Signaled, SGL: r.sgl[:],
		RemoteAddr: r.peer.Buffer + uint64(i)*r.stride, RKey: r.peer.RKey, Add: 1,
	}
	if r.ah != nil {
		r.wr.AH, r.wr.RemoteQPN, r.wr.RemoteQKey = r.ah, r.peer.Pairs[i].QPN, r.peer.Pairs[i].QKey
	}
	return &r.wr
}

// drive posts and polls until the plan is fulfilled. Its figures are of the time
// after the warm-up.
func (r *run) drive(ctx context.Context, out *Result) error {
	r.posted, r.open = make([]uint64, r.plan.QPs), make([]int, r.plan.QPs)
	m := newMeasurement(r.plan, r.client, time.Now())
	defer m.timer.Stop()
	defer m.result(out)
	var batch [256]verbs.Completion
	for {
		now := time.Now()
		if err := r.interrupted(ctx, now); err != nil {
			return err
		}
		if !r.ending {
			r.ending = !r.giveUp.IsZero() || m.tick(now, r.done)
		}
		if !r.ending {
			if err := r.refill(now); err != nil {
				return err
			}
			r.ending = r.outstanding == 0 && r.finished()
		}
		if r.ending {
			m.end(now, r.done)
			if over, err := r.over(now); over || err != nil {
				return err
			}
		}
		n, err := r.poll(ctx, batch[:])
		if err != nil {
			return err
		}
		if err := r.complete(batch[:n], now); err != nil {
			return err
		}
		if r.plan.Latency && n > 0 {
			if err := m.latency(time.Since(r.sentAt)); err != nil {
				return err
			}
		}
	}
}

// interrupted returns why the server has ended the run. After the end of ctx it sets when outstanding
// messages are given up.
func (r *run) interrupted(ctx context.Context, now time.Time) error {
	if r.giveUp.IsZero() && ctx.Err() != nil {
		r.giveUp = now.Add(drainTime)
	}
	select {
	case a := <-r.answers:
		if a.err == nil {
			a.err = errors.New("the peer has ended the run")
		}
		r.answered = &a
		return a.err
	default:
		return nil
	}
}

// over reports whether a run that is ending has ended.
func (r *run) over(now time.Time) (bool, error) {
	if r.outstanding == 0 || !r.giveUp.IsZero() && now.After(r.giveUp) {
		return true, nil
	}
	if now.Sub(r.moved) > stallTime {
		return false, fmt.Errorf("%d messages are outstanding and none has completed for %v: the peer does not accept them any more",
			r.outstanding, stallTime)
	}
	return false, nil
}

// refill posts until every queue pair has `depth` messages outstanding.
func (r *run) refill(now time.Time) error {
	if r.moved = now; r.outstanding == 0 {
		r.sentAt = now
	}
	for i := range r.qps {
		for r.open[i] < r.plan.Depth && (r.plan.Count == 0 || r.posted[i] < r.plan.Count) {
			err := r.qps[i].PostSend(r.request(i))
			if errors.Is(err, verbs.ErrQueueFull) {
				break // its completion was seen before its room was made
			}
			if err != nil {
				return err
			}
			r.open[i]++
			r.posted[i]++
			r.outstanding++
		}
	}
	if r.outstanding == 0 {
		runtime.Gosched()
	}
	return nil
}

// finished reports whether all messages of a counted run were posted.
func (r *run) finished() bool {
	if r.plan.Count == 0 {
		return false
	}
	for _, n := range r.posted {
		if n < r.plan.Count {
			return false
		}
	}
	return true
}

// idle returns the queue pairs on which no message has completed, as in a run that was
// interrupted early: it is unknown how much of their data has arrived.
func (r *run) idle() (all []int) {
	for i, n := range r.posted {
		if n == uint64(r.open[i]) {
			all = append(all, i)
		}
	}
	return all
}

// poll waits for completions if messages are outstanding: a second at most, less if the context ends,
// and until giveUp if it has. For latency it never sleeps.
func (r *run) poll(ctx context.Context, batch []verbs.Completion) (int, error) {
	if r.outstanding == 0 {
		return 0, nil
	}
	for range 1000 {
		if n := r.cq.Poll(batch); n > 0 {
			return n, nil
		}
		if !r.plan.Latency {
			break
		}
	}
	if r.plan.Latency {
		return 0, nil
	}
	limit := time.Now().Add(time.Second)
	if !r.giveUp.IsZero() {
		ctx, limit = context.Background(), r.giveUp
	}
	wait, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if err := r.cq.Wait(wait, false); err != nil && wait.Err() == nil {
		return 0, err // the device is gone
	}
	return r.cq.Poll(batch), nil
}

// complete counts completions.
func (r *run) complete(batch []verbs.Completion, now time.Time) error {
	for i := range batch {
		w := &batch[i]
		if w.Status != verbs.StatusSuccess {
			return r.failure(fmt.Sprintf("queue pair %d (%#x)", w.WRID, w.QPN), w.Status)
		}
		r.open[w.WRID]--
		r.outstanding--
		r.done++
		r.moved = now
	}
	return nil
}
