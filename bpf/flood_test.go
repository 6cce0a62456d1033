// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A million spoofed sources, stamped and echoing, find nothing to fill: the table
// keeps its entries and their registers, and no event reaches the agent.
func TestSpoofedFlood(t *testing.T) {
	const sources = 1_000_000
	l := newLab(t)
	l.know(peer4, aware)
	l.know(peer6, aware)
	before4, before6 := l.regs(peer4), l.regs(peer6)
	f := fromPeer(t, stamped(write(64), rocev2.Stamp{Flags: 15, T1: 1, EchoT1: 2, EchoT2: 3, Credit: 4}))
	o := ebpf.RunOptions{Data: f, DataOut: make([]byte, len(f))}
	for i := range uint32(sources) {
		binary.BigEndian.PutUint32(f[offIP+12:], 11<<24+i)
		o.DataOut = o.DataOut[:len(f)]
		if verdict, err := l.objs.SoftroceIngress.Run(&o); verdict != xdpPass || err != nil {
			t.Fatal(verdict, err)
		}
	}
	if n := l.entries(); n != 2 || l.regs(peer4) != before4 || l.regs(peer6) != before6 {
		t.Errorf("%d entries\n%+v\n%+v", n, l.regs(peer4), l.regs(peer6))
	}
	if c := l.counters(); c["rx_unknown_peer"] != sources || c["rx_stamped"] != sources {
		t.Error(c)
	}
	l.wantNoEvent()

	// The live peers are served as before.
	_, out := l.in(fromPeer(t, stamped(write(64), someStamp)))
	if !bytes.Equal(out, fromPeer(t, write(64))) || l.regs(peer4).RxPackets != 1 {
		t.Error("the flood left something behind")
	}
}

// A flood of HELLOs from as many sources gets the answers of one rate limit, and
// the agent as many events.
func TestHelloFlood(t *testing.T) {
	const sources, rate, burst = 100_000, 1000, 65
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloRate = rate })
	oneCPU(t)
	d := hello(false)
	answered, events := 0, 0
	b := make([]byte, 0, 256)
	for i := range uint32(sources) {
		d.Src = addr4(11<<24 + i)
		datagram, err := d.AppendTo(b[:0])
		if err != nil {
			t.Fatal(err)
		}
		if verdict, _ := l.in(ethernet(usMAC, peerMAC, datagram)); verdict == xdpTX {
			answered++
		}
		l.at(labStart + uint64(i)*1000) // a million HELLOs a second
	}
	for _, ok := l.event(); ok; _, ok = l.event() {
		events++
	}
	// It lasted 100 ms: the burst and a tenth of the rate.
	if want := burst + rate/10; answered < want-1 || answered > want+1 || events != answered {
		t.Errorf("%d answers and %d events to %d HELLOs in 100 ms, want %d", answered, events, sources, want)
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
}
