// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// FuzzReceive gives a queue pair with messages in flight packets with any headers. Nothing panics,
// no time is lost in loops, and bytes change only where the peer may write.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0xCC, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 255})
	f.Add([]byte{0xC8, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0x5A})
	f.Add([]byte{0xCD, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 5})
	f.Add([]byte{0xCA, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte{0xCF, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xCE, 0, 0, 4, 0, 0, 0, 0})

	f.Fuzz(func(t *testing.T, in []byte) {
		memory := &wiretest.Memory{}
		local := memory.Register(0, 8192, verbs.AccessLocalWrite)
		open := memory.Register(0, 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		local.Written = func(_ uint32, off int, data []byte) {
			if off < 4096 {
				t.Fatalf("%d bytes written at %d, outside of the READ", len(data), off)
			}
		}
		var queues ooo.Queues
		if _, err := queues.Create(5, 2); err != nil {
			t.Fatal(err)
		}
		q, err := ooo.New(ooo.Config{QPN: 1, PeerQPN: 2, PMTU: rocev2.PMTU1024, Window: 64, Messages: 4, Paths: 3, Memory: memory, Queues: &queues})
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpWrite} {
			r := ooo.Request{Op: op, Notify: i == 2, Local: verbs.SGE{Addr: local.Addr, Len: 3000, LKey: local.Key}, RemoteAddr: open.Addr, RKey: open.Key}
			if op == verbs.OpRead {
				r.Local.Addr += 4096
			}
			if err := q.Post(&r); err != nil {
				t.Fatal(err)
			}
		}
		now := ooo.Millisecond
		var out ooo.Outbound
		for len(in) > 4 && !q.Ended() {
			for q.NextData(now, &out) {
				out.Fill(make([]byte, out.PayloadLen))
			}
			now += ooo.Time(in[3]) * 10 * ooo.Microsecond
			n := fuzzReceive(q, now, in)
			in = in[min(n, len(in)):]
			for q.NextAck(&out) {
				if _, err := out.AppendTo(nil); err == nil {
					t.Fatal("no address is set")
				}
			}
			q.Expire(now)
		}
	})
}

var fuzzAddr = netip.AddrFrom4([4]byte{10, 0, 0, 1})

// fuzzReceive builds a packet from the start of the input and returns what it has used.
func fuzzReceive(q *ooo.QP, now ooo.Time, in []byte) int {
	op := 0xC8 | rocev2.Opcode(in[0])&7
	if !op.Known() {
		op = rocev2.OpOAck
	}
	d := rocev2.Datagram{Src: fuzzAddr, Dst: fuzzAddr, Opcode: op, PSN: rocev2.PSN(in[1])<<16 | rocev2.PSN(in[2])<<8 | rocev2.PSN(in[3])}
	if op == rocev2.OpOWrite || op == rocev2.OpOReadResp {
		d.Payload = make([]byte, 4*int(in[0]>>3))
	}
	b, _ := d.AppendTo(nil)
	ext := int(op.Info().ExtLen)
	copy(b[20+8+12:][:ext], in[4:])
	p, err := rocev2.ParseIP(b)
	if err == nil {
		q.Receive(now, &p, uint32(in[1]))
	}
	return 4 + ext
}
