// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// BenchmarkReceive is the way of a packet from its frame through the guard and the queue pair: a WRITE that was
// executed before, so that each one is the same. Packets without the token are those of a plain peer, and forged
// ones of a peer that stamps.
func BenchmarkReceive(b *testing.B) {
	for _, c := range []struct {
		name           string
		stamps, proven bool
	}{{"proven", true, true}, {"plain", false, false}, {"forged", true, false}} {
		b.Run(c.name, func(b *testing.B) {
			l := newLoopback(b, 1)
			x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
			y := l.e.qps.Lookup(x.q.Attr().DestQPN)
			l.e.dests.rails[0].due = never
			l.e.Begin(testNow())
			x.dest.stamps, x.dest.guard = c.stamps, guard{provenAt: 1, room: 1500}
			d := rocev2.Datagram{Src: us, Dst: us, SrcPort: 0xC000, IPID: 1, Opcode: rocev2.RCWriteOnly, DestQP: y.num,
				PSN: y.q.Attr().RQPSN.Add(-1), VA: l.region.VA(), RKey: l.region.RKey(), DMALen: 64, Payload: make([]byte, 64)}
			frame, err := d.AppendTo(make([]byte, etherLen, 256))
			if err != nil {
				b.Fatal(err)
			}
			binary.BigEndian.PutUint16(frame[12:], 0x0800)
			p, err := rocev2.ParseFrame(frame)
			if err == nil {
				err = p.PutICRC()
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				l.e.rx.frame(frame, Meta{Proven: c.proven}, false)
			}
			if dropped := l.e.count.unproven[unprovenData] != 0; dropped != (c.name == "forged") {
				b.Errorf("dropped: %v", dropped)
			}
		})
	}
}
