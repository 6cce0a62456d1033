// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// interruptedRun concludes a run of one message that was interrupted, with a server that needs so long for its
// figures. It returns what the user reads, and after which time.
func interruptedRun(t *testing.T, needs time.Duration) (string, time.Duration) {
	here, peer := net.Pipe()
	var server sync.WaitGroup
	defer server.Wait()
	defer here.Close()
	server.Go(func() {
		conn := newControlConn(t.Context(), peer)
		if _, err := conn.next(); err != nil {
			t.Error(err)
		}
		time.Sleep(needs)
		_ = conn.send(message{Messages: 1})
	})
	ctx, interrupt := context.WithCancel(t.Context())
	conn := newControlConn(ctx, here)
	p := goodPlan()
	p.Check = true
	r := finishedRun(&p, conn)
	interrupt()
	begin := time.Now()
	res, err := r.conclude(conn, &Result{Plan: p})
	took := time.Since(begin)
	if res == nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", res, err)
	}
	var out strings.Builder
	res.Write(&out, false)
	return out.String(), took
}

// finishedRun is a run of one message, which has completed.
func finishedRun(p *Plan, conn *controlConn) *run {
	return &run{end: &end{plan: p, dev: portDevice{}, qps: make([]verbs.QP, 1)}, posted: []uint64{1}, open: []int{0}, answers: conn.last(), done: 1}
}

// An interrupted run waits two seconds for the figures of the server, which compares the data first.
func TestFiguresAfterInterrupt(t *testing.T) {
	for needs, want := range map[time.Duration]string{
		0:                               "data checked: all bytes arrived as they were sent\n",
		2*time.Second - time.Nanosecond: "data checked: all bytes arrived as they were sent\n",
		2*time.Second + time.Nanosecond: "data not checked: the peer has not sent its figures in time\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			out, took := interruptedRun(t, needs)
			if !strings.HasSuffix(out, want) || took > 2*time.Second {
				t.Errorf("figures after %v: after %v the output is %q, want %q at its end", needs, took, out, want)
			}
		})
	}
}

// A run that both ends have interrupted ends: the server says so once, and sends no figures.
func TestInterruptAtBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, peer := net.Pipe()
		var server sync.WaitGroup
		defer server.Wait()
		defer here.Close()
		server.Go(func() {
			conn := newControlConn(t.Context(), peer)
			_ = conn.send(message{Error: "interrupted"})
			_, _ = conn.next()
		})
		ctx, interrupt := context.WithCancel(t.Context())
		conn := newControlConn(ctx, here)
		p := goodPlan()
		r := finishedRun(&p, conn)
		synctest.Wait()
		interrupt()
		if err := r.interrupted(ctx, time.Now()); err == nil {
			t.Fatal("the run does not see that the server has ended it")
		}
		res, err := r.conclude(conn, &Result{Plan: p})
		if res == nil || !errors.Is(err, context.Canceled) || res.Answered {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
