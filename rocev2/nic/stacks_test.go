// SPDX-License-Identifier: Apache-2.0

//go:build !race

package nic_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// stacks are the engine and the host's own stack on one host, which send to the same
// destination as fast as they may.
type stacks struct {
	t     *testing.T
	hosts []*engines.Host
	rate  float64 // rate of the destination, bit/s of L2 frames
	from  *loader.Attachment
	to    *loader.Attachment

	stopEngine, stopStack func()
}

func newStacks(t *testing.T, pacer string) *stacks {
	rate := 50e6
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, "--pacer", pacer, "--policy", "mode=fixed", "--rate", fmt.Sprint(int(rate)))
	x := &stacks{t: t, hosts: hosts, rate: rate, from: hosts[0].Attachment(t), to: hosts[1].Attachment(t)}
	hosts[0].MustOpen(t, nic.Options{})
	hosts[1].MustOpen(t, nic.Options{})
	// Somebody listens, and the first packet to somebody has the pacer set up.
	var ends [2]*load.Endpoint
	for i, h := range hosts {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		ends[i] = ep
	}
	if _, err := ends[0].Send(t.Context(), load.Flow{To: hosts[1].IPv4(), Bytes: 1, MessageBytes: 1}); err != nil {
		t.Fatal(err)
	}
	x.until("the destination is paced", func(d *bpf.DestRegs) bool {
		return d.RateBps != 0 && (d.ClassId != 0 || pacer != "htb")
	})
	t.Cleanup(func() {
		for _, stop := range []func(){x.stopEngine, x.stopStack} {
			if stop != nil {
				stop()
			}
		}
	})
	return x
}

// engine has the engine write without end.
func (x *stacks) engine() {
	a, b := connected(x.t, x.hosts, patient)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, 1<<14), RemoteAddr: b.va, RKey: b.key}
		for ctx.Err() == nil {
			pump(x.t, a, &wr, 8, 50*time.Millisecond)
		}
	}()
	x.stopEngine = func() { cancel(); <-done; x.stopEngine = nil }
}

// stack has a socket send datagrams without end, with up to 64 in flight as rdma_rxe has;
// twice the rate, where nothing pushes back.
func (x *stacks) stack(open bool) {
	const size = 1024
	var conn *net.UDPConn
	err := x.hosts[0].Do(func() (err error) {
		conn, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.hosts[1].IPv4(), rocev2.UDPPort)))
		return err
	})
	if err == nil {
		var raw interface{ Control(func(uintptr)) error }
		if raw, err = conn.SyscallConn(); err == nil {
			err = errors.Join(raw.Control(func(fd uintptr) {
				err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1),
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64*2300))
			}), err)
		}
	}
	if err != nil {
		x.t.Fatal(err)
	}
	var end atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		packet := make([]byte, 20+size+4)
		// So many in a row as take a millisecond: a pacer that drops would refuse most of a
		// longer row, and the socket could not use its half.
		each := 8 * (size + 66) / (2 * x.rate)
		row := uint32(max(1e-3/each, 1))
		packet[0], packet[2], packet[3], packet[6] = 0x64, 0xff, 0xff, 0x12 // UD SEND to a queue pair that nobody has
		for psn := uint32(0); !end.Load(); psn++ {
			packet[9], packet[10], packet[11] = byte(psn>>16), byte(psn>>8), byte(psn)
			// What comes back is refused, and the buffer may be full.
			_, _ = conn.Write(packet)
			if open && psn%row == row-1 {
				time.Sleep(time.Duration(float64(row) * each * 1e9))
			}
		}
	}()
	x.stopStack = func() { end.Store(true); <-done; x.stopStack = nil }
}

func (x *stacks) row(a *loader.Attachment, of netip.Addr) bpf.DestRegs {
	r, found, err := a.Lookup(of)
	if err != nil || !found {
		x.t.Fatalf("no entry (%v)", err)
	}
	return r.Regs
}

// until waits for the destination's registers.
func (x *stacks) until(what string, so func(*bpf.DestRegs) bool) {
	x.t.Helper()
	testkit.Eventually(x.t, what, func() error {
		d := x.row(x.from, x.hosts[1].IPv4())
		if so(&d) {
			return nil
		}
		return fmt.Errorf("rates %d, stack %d, engine %d", d.RateBps, d.StackRateBps, d.EngineRateBps)
	})
}

// measure is what arrives at the destination in a second, bit/s of frames: all of it, and
// the engine's part. A machine that stalls makes it less.
func (x *stacks) measure() (all, engine float64) {
	read := func() (all, engine uint64) {
		r, d := x.row(x.to, x.hosts[0].IPv4()), x.row(x.from, x.hosts[1].IPv4())
		return r.RxBytes + 14*r.RxPackets, d.EngineBytes + 14*d.EnginePackets
	}
	start := time.Now()
	all0, engine0 := read()
	time.Sleep(time.Second)
	all1, engine1 := read()
	took := time.Since(start).Seconds()
	return float64(all1-all0) * 8 / took, float64(engine1-engine0) * 8 / took
}

// shares measures until each has at least these parts of what is sent, and all no more than the
// rate. Less may be a machine that is busy, and more one that did not run for a while and takes
// what has waited; a pacer that is wrong is so every time.
func (x *stacks) shares(what string, leastStack, leastEngine float64) {
	x.t.Helper()
	const tries = 20
	for i := 1; ; i++ {
		all, engine := x.measure()
		stack := all - engine
		x.t.Logf("%s: %.3f of the rate, of this %.3f by the kernel stack and %.3f by the engine", what, all/x.rate, stack/all, engine/all)
		if all > 1.05*x.rate {
			if i >= tries {
				x.t.Fatalf("%s: %.3f times the destination's rate is sent", what, all/x.rate)
			}
			continue
		}
		even := stack >= leastStack*all && engine >= leastEngine*all
		switch full := all >= .95*x.rate; {
		case even && full:
			return
		case even && i >= require.Tries(tries):
			require.Missed(x.t, "%s: only %.3f of the rate is sent", what, all/x.rate)
			return
		case i == tries:
			x.t.Fatalf("%s: %.3f by the kernel stack and %.3f by the engine, want at least %.2f and %.2f", what, stack/all, engine/all, leastStack, leastEngine)
		}
	}
}

// A destination has one rate, whichever stack of this host sends to it (S1.9): one that is alone
// has all of it, two have half each, and it follows when they come and go.
func TestTwoStacksOneDestination(t *testing.T) {
	names := []string{"htb", "police"}
	if pacer.Try(pacer.EDT) == nil { // it needs fq, which not every kernel has
		names = append(names, "edt")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			x := newStacks(t, name)
			police := name == "police"
			has := func(part func(*bpf.DestRegs) uint64, of float64) func(*bpf.DestRegs) bool {
				return func(d *bpf.DestRegs) bool {
					return float64(part(d)) >= of*x.rate && float64(part(d)) <= (of+.05)*x.rate
				}
			}
			stackRate := func(d *bpf.DestRegs) uint64 { return d.StackRateBps }
			engineRate := func(d *bpf.DestRegs) uint64 { return d.EngineRateBps }

			x.engine()
			x.until("the whole rate for the engine", has(engineRate, 1))
			x.shares("the engine alone", 0, .95)
			x.stack(police) // the latecomer
			x.until("half for the engine", has(engineRate, .5))
			x.shares("both", .4, .4)
			x.stopEngine()
			x.until("the whole rate for the kernel stack", has(stackRate, 1))
			x.shares("the kernel stack alone", .95, 0)
			x.engine() // the latecomer
			x.until("half for the kernel stack", has(stackRate, .5))
			x.shares("both again", .4, .4)
			x.stopStack()
			x.until("the whole rate for the engine", has(engineRate, 1))
			x.shares("the engine alone again", 0, .95)
		})
	}
}
