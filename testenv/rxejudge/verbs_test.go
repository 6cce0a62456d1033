// SPDX-License-Identifier: Apache-2.0

package rxejudge

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// oddAtomic is what rxe's library does not even send; another requester has to ask its responder.
const oddAtomic = "atomic at an odd address"

// TestRefusals shows that rxe refuses what it must, and what both ends see of it.
func TestRefusals(t *testing.T) {
	ctx, p := machines(t)
	b := p.bench(t)
	for i, r := range Refusals() {
		t.Run(r.Name, func(t *testing.T) {
			err := b.Refuse(ctx, r, i%2 == 1)
			if r.Name == oddAtomic {
				if !errors.Is(err, ErrNotSent) {
					t.Errorf("%v, want a refusal by libibverbs", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEfficiency measures the repetitions of rxe's go-back-N: none on a clean wire, many at 5 %
// loss.
func TestEfficiency(t *testing.T) {
	ctx, p := machines(t)
	b := p.bench(t)
	sent := func(ctx context.Context) (uint64, error) {
		c, err := p.a.VM.RxeCounters(ctx)
		return c["sent_pkts"], err
	}
	for _, tc := range []struct {
		netem    string
		low, top float64
		count    int
	}{{"", 1, 1, 64}, {"loss 1%", 1.005, 20, 64}, {"loss 5%", 1.5, 50, 64}} {
		t.Run("netem "+tc.netem, func(t *testing.T) {
			e, err := b.Efficiency(ctx, Link{Service: RC, PMTU: 1024, Netem: tc.netem}, false, 65536, tc.count, 16, sent)
			if err != nil {
				t.Fatal(err)
			}
			got := e.PerDelivered()
			t.Logf("%d packets delivered, %d sent: %.2f sent per packet delivered, %v", e.Delivered, e.Sent, got, e.Run.Took.Round(time.Millisecond))
			if got < tc.low || got > tc.top {
				t.Errorf("%.3f packets sent per packet delivered, want %v to %v", got, tc.low, tc.top)
			}
		})
	}
}

// TestSharedReceiveQueue wants the event when fewer receives are left than the limit.
func TestSharedReceiveQueue(t *testing.T) {
	ctx, p := machines(t)
	ends, err := connectPair(ctx, p.a, p.b, Link{Service: RC, PMTU: 1024, SRQ: true}, AllRights)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEnds(ctx, t, ends)
	const posted, limit = 8, 4
	wrs := make([]RecvWR, posted)
	for i := range wrs {
		wrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{{ends[1].sink, 100 * i, 100}}}
	}
	if err := errors.Join(ends[1].srq.PostRecv(ctx, wrs...), ends[1].srq.Arm(ctx, limit)); err != nil {
		t.Fatal(err)
	}
	for i := range posted {
		if err := ends[0].qp.PostSend(ctx, SendWR{Op: Send, SGEs: []SGE{{ends[0].source, 0, 100}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := poll(ctx, ends[0], ends[0].sendCQ, "send", 1); err != nil {
			t.Fatal(err)
		}
		wait := time.Duration(0)
		if left := posted - 1 - i; left < limit {
			wait = 5 * time.Second
		}
		e, err := p.b.AsyncEvent(ctx, wait)
		for e != nil && e.Type != EventSRQLimit && err == nil { // COMM_EST and the like
			e, err = p.b.AsyncEvent(ctx, wait)
		}
		if err != nil {
			t.Fatal(err)
		}
		if wait == 0 && e != nil {
			t.Fatalf("event with %d receives left", posted-1-i)
		}
		if wait > 0 {
			if e == nil || e.SRQ != ends[1].srq {
				t.Fatalf("event %+v, want the SRQ's limit with %d receives left", e, posted-1-i)
			}
			return
		}
	}
}

// TestReceiverNotReady posts the receive after the message: it arrives all the same.
func TestReceiverNotReady(t *testing.T) {
	ctx, p := machines(t)
	ends, err := connectPair(ctx, p.a, p.b, Link{Service: RC, PMTU: 1024}, AllRights)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEnds(ctx, t, ends)
	before, err := p.a.VM.RxeCounters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := ends[0].qp.PostSend(ctx, SendWR{Op: Send, SGEs: []SGE{{ends[0].source, 0, 2000}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := ends[0].sendCQ.Poll(ctx, 1, 100*time.Millisecond); err != nil || len(got) > 0 {
		t.Fatalf("completed without a receive: %+v, %v", got, err)
	}
	if err := ends[1].qp.PostRecv(ctx, RecvWR{SGEs: []SGE{{ends[1].sink, 0, 2000}}}); err != nil {
		t.Fatal(err)
	}
	for i, cq := range []CQ{ends[0].sendCQ, ends[1].recvCQ} {
		if _, err := poll(ctx, ends[i], cq, "completion", 1); err != nil {
			t.Error(err)
		}
	}
	after, err := p.a.VM.RxeCounters(ctx)
	if err != nil || after["rcvd_rnr_err"] == before["rcvd_rnr_err"] {
		t.Errorf("no RNR NAK was counted (%v)", err)
	}
}

// TestRun moves many messages without a line of protocol for each, on both sides at once.
func TestRun(t *testing.T) {
	ctx, p := machines(t)
	ends, err := connectPair(ctx, p.a, p.b, Link{Service: RC, PMTU: 4096}, AllRights)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEnds(ctx, t, ends)
	const count, depth, size = 500, 32, 8192
	if err := ends[0].source.Fill(ctx, 0, depth*size, 1, 0); err != nil {
		t.Fatal(err)
	}
	run := func(e *end, cq CQ, mr MR) Run {
		return Run{CQ: cq, Count: count, Depth: depth, Stride: size, Wait: time.Minute, WR: SendWR{Op: Send, SGEs: []SGE{{mr, 0, size}}}}
	}
	type end struct {
		RunResult
		err error
	}
	received := make(chan end)
	go func() {
		r, err := ends[1].qp.RunRecv(ctx, run(ends[1], ends[1].recvCQ, ends[1].sink))
		received <- end{r, err}
	}()
	sent, err := ends[0].qp.Run(ctx, run(ends[0], ends[0].sendCQ, ends[0].source))
	got := <-received
	if err != nil || got.err != nil || sent.Done != count || got.Done != count || sent.Late || sent.Errors > 0 {
		t.Fatalf("sent %+v, %v; received %+v", sent, err, got)
	}
	if m, err := ends[1].sink.Check(ctx, 0, depth*size, 1, 0); err != nil || m.Bad > 0 {
		t.Errorf("%+v, %v", m, err)
	}
	t.Logf("%d messages of %d bytes in %v", count, size, sent.Took.Round(time.Millisecond))
}

// TestManyQueuePairs holds 500 of them at once.
func TestManyQueuePairs(t *testing.T) {
	ctx, p := machines(t)
	pd, err := p.a.NewPD(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := p.a.NewCQ(ctx, 100)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]bool{}
	var made []interface{ Destroy(context.Context) error }
	start := time.Now()
	for range 500 {
		qp, err := pd.NewQP(ctx, QPConfig{Service: RC, SendCQ: cq, RecvCQ: cq, SendWR: 4, RecvWR: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := qp.ToInit(ctx, InitAttr{Rights: AllRights &^ MWBind}); err != nil {
			t.Fatal(err)
		}
		seen[qp.QPN()] = true
		made = append(made, qp)
	}
	t.Logf("500 queue pairs in %v", time.Since(start).Round(time.Millisecond))
	for _, o := range append(made, cq, pd) {
		if err := o.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d different QPNs", len(seen))
	}
}

// TestHelperErrors shows that a wrong command says what is wrong with it.
func TestHelperErrors(t *testing.T) {
	ctx, p := machines(t)
	for line, want := range map[string]syscall.Errno{
		"":                                   syscall.EINVAL,
		"nonesuch":                           syscall.ENOSYS,
		"pd colour=red":                      syscall.EINVAL,
		"pd word":                            syscall.EINVAL,
		"reg_mr pd=999999999 len=1 access=0": syscall.EINVAL,
		"reg_mr len=1 access=0":              syscall.EINVAL,
		"cq depth=many":                      syscall.EINVAL,
		"cq depth=-1":                        syscall.EINVAL,
		"destroy handle=0":                   syscall.EINVAL,
		"gid gid=00112233445566778899aabbccddeeff": syscall.ENOENT,
		"gid gid=00":    syscall.EINVAL,
		"open dev=rxe9": syscall.EBUSY,
	} {
		_, err := p.a.conn.do(ctx, "%s", line)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
	}
	// A caller that gives up leaves the conversation in order.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	cq, err := p.a.NewCQ(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cq.Poll(short, 1, 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller out of time: %v", err)
	}
	if err := cq.Destroy(ctx); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func closeEnds(ctx context.Context, t *testing.T, ends [2]*end) {
	t.Helper()
	for _, e := range ends {
		if err := e.close(ctx); err != nil {
			t.Error(fmt.Errorf("%s: %w", e.side.Name(), err))
		}
	}
}
