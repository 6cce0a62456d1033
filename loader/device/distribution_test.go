// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// spread is a distribution region of one process with destinations and an origin in others.
type spread struct {
	t      *testing.T
	ctx    context.Context
	hub    *client.Device
	region *rdma.Distribution
	to     []*rdma.Conn // the hub's
	origin *rdma.Conn
	dests  []*client.Device
	sinks  [][]byte
}

// newSpread connects n destinations and an origin, all by address. b makes the region's memory.
func newSpread(t *testing.T, dir string, n, size int, b func(*client.Device) []byte) *spread {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	s := &spread{t: t, ctx: ctx, hub: open(t, dir)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := s.hub.AllocPD()
	must(err)
	var group []rdma.Destination
	for range n {
		dev := open(t, dir)
		sink := make([]byte, size)
		peer, c := dialedPair(s, dev, s.hub, rdma.WithPD(pd))
		m, err := peer.Register(sink, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		must(err)
		s.to, s.dests, s.sinks = append(s.to, c), append(s.dests, dev), append(s.sinks, sink)
		group = append(group, rdma.Destination{QP: c.QP(), Memory: m.Remote()})
	}
	s.region, err = rdma.Distribute(pd, b(s.hub), group...)
	must(err)
	_, s.origin = dialedPair(s, s.hub, open(t, dir), rdma.WithPD(pd))
	return s
}

// dialedPair has a device accept a connection that another one dials. The options are those of the hub.
func dialedPair(s *spread, accepts, dials *client.Device, hub ...rdma.Option) (accepted, dialed *rdma.Conn) {
	s.t.Helper()
	of := map[*client.Device][]rdma.Option{s.hub: hub}
	l, err := rdma.Listen(s.ctx, accepts, "127.0.0.1:0", of[accepts]...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept(s.ctx)
		done <- err
	}()
	if dialed, err = rdma.Dial(s.ctx, dials, l.Addr().String(), of[dials]...); err == nil {
		err = <-done
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return accepted, dialed
}

// write has the origin write p to the beginning of the region, and returns the report.
func (s *spread) write(p []byte) mr.Report {
	s.t.Helper()
	if err := s.origin.Write(s.ctx, p, s.region.Remote()); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, s.origin.MaxMessage())
	n, err := s.origin.Recv(s.ctx, b)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := rdma.ParseReport(b[:n])
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// A process has a distribution region, in memory of its own or of its arena. What the origin writes is at
// all destinations when it has the report, while the process uses the same connections itself. A
// destination that ends fails alone. What the process leaves ends with it.
func TestDistributionOfProcess(t *testing.T) {
	const size = 12000
	for name, memory := range map[string]func(*client.Device) []byte{
		"own memory": func(*client.Device) []byte { return make([]byte, size) },
		"arena": func(d *client.Device) []byte {
			b, err := d.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer // which the test reads when the server has ended
			t.Cleanup(func() {
				if log.Len() > 0 {
					t.Error(log.String())
				}
			})
			server, dir := serve(t, device.Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
			s := newSpread(t, dir, 3, size, memory)
			data := bytes.Repeat([]byte("distribution"), size/12+1)[:size]
			var busy []*rdma.Op
			for i := range 40 {
				o, err := s.to[0].Start(s.ctx, &verbs.SendWR{Op: verbs.OpWrite}) // 0 bytes
				if err != nil {
					t.Fatal(err)
				}
				busy = append(busy, o)
				data[0] = byte(i)
				if r := s.write(data[:size-i]); !r.Delivered() || r.Destinations != 3 || r.Length != uint32(size-i) {
					t.Fatalf("message %d: %+v", i, r)
				}
				for d, sink := range s.sinks {
					if !bytes.Equal(sink[:size-i], data[:size-i]) {
						t.Fatalf("message %d at destination %d differs", i, d)
					}
				}
			}
			for _, o := range busy {
				if _, err := o.Wait(s.ctx); err != nil {
					t.Error(err)
				}
			}
			s.dests[1].Close()
			testkit.Eventually(t, "four processes are open", func() bool { return len(server.Status().Processes) == 4 })
			if r := s.write(data); r.Status[0] != 0 || r.Status[1] == 0 || r.Status[2] != 0 {
				t.Errorf("without destination 1: %+v", r)
			}
			want := mr.DistributionStats{Arrived: 41, Reports: 41, Delivered: [4]uint64{41, 40, 41}, Failed: [4]uint64{1: 1}}
			testkit.Eventually(t, "the last report is acknowledged", func() error {
				if st, err := s.region.Stats(); err != nil || st != want {
					return fmt.Errorf("%+v, %w, want %+v", st, err, want)
				}
				return nil
			})
			_, err := rdma.RegisterMemory(s.to[0].PD(), make([]byte, 1), 0)
			if err != nil {
				t.Error(err)
			}
			// One more message, and the process ends in its middle.
			if err := s.origin.Write(s.ctx, data, s.region.Remote()); err != nil {
				t.Fatal(err)
			}
			s.hub.Close()
			testkit.Eventually(t, "three processes are left", func() bool { return len(server.Status().Processes) == 3 })
		})
	}
}

// What makes no group is refused, and a region without a group has no counters of one.
func TestDistributionRefused(t *testing.T) {
	_, dir := serve(t, device.Config{})
	d, other := open(t, dir), open(t, dir)
	x, y := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC}), newEnd(t, other, 4096, verbs.QPInit{Type: verbs.RC})
	pd := x.pd.(mr.Distributor)
	for name, g := range map[string]mr.Group{
		"no destination":                nil,
		"five destinations":             make(mr.Group, 5),
		"a queue pair twice":            {{QPN: x.qp.QPN()}, {QPN: x.qp.QPN()}},
		"queue pair of another":         {{QPN: y.qp.QPN()}},
		"no queue pair":                 {{QPN: 0xffffff}},
		"beyond the last address":       {{QPN: x.qp.QPN(), VA: ^uint64(0)}},
		"number with more than 24 bits": {{QPN: 1<<24 | x.qp.QPN()}},
	} {
		if r, err := pd.Distribute(make([]byte, 100), g); err == nil {
			t.Errorf("%s: registered, %v", name, r)
		}
	}
	if _, err := pd.Distribute(nil, mr.Group{{QPN: x.qp.QPN()}}); !errors.Is(err, verbs.ErrRange) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := rdma.Distribute(x.pd, make([]byte, 100), rdma.Destination{QP: x.qp, Memory: rdma.Remote{Len: 99}}); err == nil {
		t.Error("a destination that is too short is not refused")
	}
	if _, err := (&client.Distribution{MR: x.mr.(*client.MR)}).Stats(); err == nil {
		t.Error("a region without a group has counters")
	}
}

// The messages that a distribution region remembers count as work requests of its process, until the region ends.
func TestDistributionCounts(t *testing.T) {
	most := limits.Defaults()
	const regions = 8
	most.Process[limits.WRs] = (regions + 1) * mr.DistributionDepth // the queue pair has some of them
	_, dir := serve(t, device.Config{Limits: &most})
	x := newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: verbs.RC, MaxSend: 16, MaxRecv: 16})
	one := func() (mr.DistributionRegion, error) {
		return x.pd.(mr.Distributor).Distribute(make([]byte, 100), mr.Group{{QPN: x.qp.QPN()}})
	}
	var last mr.DistributionRegion
	for range regions {
		r, err := one()
		if err != nil {
			t.Fatal(err)
		}
		last = r
	}
	if _, err := one(); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("one more: %v", err)
	}
	if err := last.Deregister(); err != nil {
		t.Fatal(err)
	}
	if _, err := one(); err != nil {
		t.Errorf("in the place of one that has ended: %v", err)
	}
}
