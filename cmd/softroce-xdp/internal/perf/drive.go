// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A Moment is the state of a run.
type Moment struct {
	Elapsed  time.Duration
	Messages uint64
	Bytes    uint64
}

// Client runs plans against servers. Progress, if not nil, is called about every Interval.
type Client struct {
	Device    verbs.Device
	Interface string
	Interval  time.Duration
	Progress  func(Moment)
	// Encryption encrypts the queue pairs; nil: they are plain.
	Encryption *rdma.Encryption
}

// Run runs a plan against the server at host:port, and returns the result. After the end of ctx
// it returns within a second, with the result until then and the error of the context.
func (c *Client) Run(ctx context.Context, server string, p Plan) (*Result, error) {
	p.Encrypted = c.Encryption != nil
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var d net.Dialer
	dctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := d.DialContext(dctx, "tcp", server)
	if err != nil {
		return nil, dialError(server, err)
	}
	defer conn.Close()
	t := newControlConn(ctx, conn)
	release := t.guard()

	e, err := newEnd(ctx, c.Device, &p)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if p.Op != "read" {
		e.fillAll()
	}
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	port, err := c.Device.Port()
	if err != nil {
		return nil, err
	}
	local, err := address(port, remote.Addr())
	if err != nil {
		return nil, err
	}
	rails, mtu, err := e.rails(remote.Addr(), port.MTU)
	if err != nil {
		return nil, err
	}
	pairs := e.pairs()
	if err := e.offers(conn, c.Encryption, pairs); err != nil {
		return nil, err
	}
	if err := t.send(message{Plan: &p, Addr: local, Rails: rails, MTU: mtu, Pairs: pairs}); err != nil {
		return nil, err
	}
	peer, err := t.receive(answerTime)
	if err != nil {
		return nil, err
	}
	pmtu, err := p.pmtu(min(mtu, peer.MTU))
	if err != nil {
		return nil, err
	}
	if p.Service == "ud" && int(p.Size) > pmtu.Bytes() {
		if !p.Fit {
			return nil, fmt.Errorf("a datagram holds at most the path MTU of %d bytes, not %d: leave --size out, or lower it", pmtu.Bytes(), p.Size)
		}
		p.Size = uint32(pmtu.Bytes())
	}
	if err := e.finish(c.Encryption, peer.Pairs); err != nil {
		return nil, err
	}
	if err := e.connect(ctx, &peer, len(rails), pmtu, false); err != nil {
		return nil, err
	}
	if err := t.send(message{}); err != nil {
		return nil, err
	}
	if _, err := t.receive(answerTime); err != nil {
		return nil, err
	}

	r := &Result{Plan: p, Interface: c.Interface, Local: local.String(), Peer: peer.Addr.String(), PMTU: pmtu.Bytes()}
	if !release() {
		return nil, ctx.Err()
	}
	// The server sends nothing before the client has finished, unless it has failed.
	_ = conn.SetReadDeadline(time.Time{})
	answers := make(chan answer, 1)
	go func() {
		m, err := t.next()
		answers <- answer{m, err}
	}()
	run := &run{end: e, peer: &peer, client: c, answers: answers}
	stop := run.sampleLimits(ctx)
	runErr := run.drive(ctx, r)
	r.Limits = stop()
	if runErr != nil && (ctx.Err() == nil || r.Messages == 0) {
		return nil, runErr
	}
	idle := run.idle()
	if p.Check && p.Op == "read" {
		if bad := e.compare(idle); bad != "" {
			return nil, fmt.Errorf("%w: what was read is not what the peer has: %s", ErrData, bad)
		}
	}
	r.Sent, r.Counters, r.GivenUp = run.done, e.counters(), run.outstanding
	// After an interrupt, the wait for the server's figures is short.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(drainTime)) })()
	if err := t.send(message{Messages: run.done, Idle: idle}); err != nil {
		return unanswered(ctx, r, err)
	}
	if ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	}
	a := <-answers
	if a.err != nil {
		return unanswered(ctx, r, a.err)
	}
	end := a.message
	if end.Bad != "" {
		return nil, fmt.Errorf("%w: the peer compared: %s", ErrData, end.Bad)
	}
	r.Received, r.PeerCount, r.Answered, r.Checked = end.Messages, end.Counters, true, p.Check && len(idle) == 0
	return r, ctx.Err()
}

// ErrData is what a run with Check ends with if the data is wrong.
var ErrData = errors.New("the data is not what was sent")

// unanswered returns the result without the server's figures: an error, unless the run was
// interrupted.
func unanswered(ctx context.Context, r *Result, err error) (*Result, error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	return nil, err
}

// dialError returns why no server was reached, and what to do.
func dialError(server string, err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %q: write a name that resolves or an address", dns.Name)
	case errors.As(err, &dns):
		return fmt.Errorf("the name %q does not resolve now: %s; an address needs no name server", dns.Name, dns.Err)
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer: does `softroce-xdp perf server` run there, and may this host reach it?", server)
	case errors.As(err, &op):
		err = op.Err
	}
	return fmt.Errorf("%s: %w: does `softroce-xdp perf server` run there?", server, err)
}

// run is the client's side while messages flow.
type run struct {
	*end
	peer        *message
	client      *Client
	answers     <-chan answer // the server's last word
	done        uint64        // messages completed
	posted      []uint64
	open        []int // messages outstanding on each queue pair
	outstanding int   // messages outstanding on all queue pairs
	wr          verbs.SendWR
	sgl         [1]verbs.SGE
}

// answer is the last message of the server, or the error instead of it.
type answer struct {
	message
	err error
}

// stallTime is the longest time without a completion after the last post.
const stallTime = 30 * time.Second

// drainTime is the time for which an interrupted run waits for outstanding messages, and then
// again for the server's answer.
const drainTime = 300 * time.Millisecond

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
	p := r.plan
	r.posted, r.open = make([]uint64, p.QPs), make([]int, p.QPs)
	var stop <-chan time.Time
	if p.Duration != 0 {
		t := time.NewTimer(p.Warmup + p.Duration)
		defer t.Stop()
		stop = t.C
	}
	hist := newHistogram()
	begin := time.Now()
	measuring, from := p.Warmup == 0, uint64(0)
	next := begin.Add(r.client.Interval)
	ending := false
	var batch [256]verbs.Completion
	var giveUp time.Time // once interrupted: what is outstanding then is given up
	moved := begin       // when a message was last posted or completed
	posted := begin      // --latency: when the outstanding message was
	for {
		now := time.Now()
		select {
		case a := <-r.answers:
			if a.err == nil {
				a.err = errors.New("the peer has ended the run")
			}
			return a.err
		default:
		}
		if giveUp.IsZero() && ctx.Err() != nil {
			giveUp = now.Add(drainTime)
		}
		if !ending {
			select {
			case <-stop:
				ending = true
			default:
				ending = !giveUp.IsZero()
			}
			if !measuring && now.Sub(begin) >= p.Warmup {
				measuring, begin, from, next = true, now, r.done, now.Add(r.client.Interval)
				hist.Reset()
			}
			if ending {
				out.Messages, out.Seconds = r.done-from, now.Sub(begin).Seconds()
			}
		}
		if r.client.Progress != nil && measuring && !ending && now.After(next) {
			n := r.done - from
			r.client.Progress(Moment{now.Sub(begin), n, n * uint64(p.Size)})
			next = following(next, now, r.client.Interval)
		}
		if !ending {
			if moved = now; r.outstanding == 0 {
				posted = now
			}
			if err := r.refill(); err != nil {
				return err
			}
			if r.outstanding == 0 && r.finished() {
				out.Messages, out.Seconds = r.done-from, now.Sub(begin).Seconds()
				break
			}
		}
		if ending && (r.outstanding == 0 || !giveUp.IsZero() && now.After(giveUp)) {
			break
		}
		if ending && now.Sub(moved) > stallTime {
			return fmt.Errorf("%d messages are outstanding and none has completed for %v: the peer does not accept them any more", r.outstanding, stallTime)
		}
		n := 0
		if r.outstanding > 0 {
			var err error
			if n, err = r.poll(ctx, giveUp, batch[:]); err != nil {
				return err
			}
		}
		for i := range batch[:n] {
			w := &batch[i]
			if w.Status != verbs.StatusSuccess {
				return r.failure(fmt.Sprintf("queue pair %d (%#x)", w.WRID, w.QPN), w.Status)
			}
			r.open[w.WRID]--
			r.outstanding--
			r.done++
			moved = now
		}
		if p.Latency && n > 0 {
			if err := hist.RecordValue(int64(time.Since(posted))); err != nil {
				return fmt.Errorf("a message took more than a minute: %w", err)
			}
		}
	}
	out.Bytes = out.Messages * uint64(p.Size)
	if out.Seconds > 0 {
		out.PerSecond = float64(out.Messages) / out.Seconds
		out.Bps = uint64(float64(out.Bytes) * 8 / out.Seconds)
	}
	if p.Latency {
		out.Latency = latencyOf(hist)
	}
	return nil
}

// following returns the time of the next progress report after now; the previous one was due at
// next. After a stall of several intervals there is one report, not one for each.
func following(next, now time.Time, interval time.Duration) time.Time {
	if interval <= 0 {
		return now
	}
	return next.Add(interval * (1 + now.Sub(next)/interval))
}

// refill posts until every queue pair has `depth` messages outstanding.
func (r *run) refill() error {
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

// poll waits for completions: a second at most, less if the context ends, and until
// giveUp if it has. For latency it never sleeps.
func (r *run) poll(ctx context.Context, giveUp time.Time, batch []verbs.Completion) (int, error) {
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
	if !giveUp.IsZero() {
		ctx, limit = context.Background(), giveUp
	}
	wait, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if err := r.cq.Wait(wait, false); err != nil && wait.Err() == nil {
		return 0, err // the device is gone
	}
	return r.cq.Poll(batch), nil
}
