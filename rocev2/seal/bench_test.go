// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
)

// BenchmarkPacket compares what a packet costs at both ends together: copy from memory, headers,
// ICRC; parse, verify, copy to memory; the same with seal and open. Batches of both take turns,
// and the shortest batch of each counts, so that other load on the machine affects neither.
func BenchmarkPacket(b *testing.B) {
	for _, size := range []int{1024, 4096} {
		for _, suite := range []Suite{AES128GCM, AES256GCM} {
			b.Run(fmt.Sprintf("%v/%d", suite, size), func(b *testing.B) {
				plain, sealed := newPath(b, size, 0), newPath(b, size, suite)
				b.ReportAllocs()
				for b.Loop() {
					plain.batch(b)
					sealed.batch(b)
				}
				b.ReportMetric(plain.best, "ns-plain/packet")
				b.ReportMetric(sealed.best, "ns-sealed/packet")
				b.ReportMetric(plain.best/sealed.best, "of-plain")
			})
		}
	}
}

// path is a sender and a receiver.
type path struct {
	s                     *Sealer
	o                     *Opener
	extra                 int
	datagram              rocev2.Datagram
	memory, target, frame []byte
	best                  float64 // ns of a packet
}

func newPath(b *testing.B, size int, suite Suite) *path {
	p := &path{
		datagram: rocev2.Datagram{Src: hostA, Dst: hostB, Opcode: rocev2.RCWriteMiddle, DestQP: 2},
		memory:   random(size), target: make([]byte, size), frame: make([]byte, 9000), best: math.Inf(1),
	}
	if suite != 0 {
		p.s, p.o = pair(b, suite, Limits{})
		p.extra, p.datagram.Sealed = Overhead, true
	}
	return p
}

func (p *path) batch(b *testing.B) {
	const packets = 20
	start := time.Now()
	for range packets {
		if err := p.packet(); err != nil {
			b.Fatal(err)
		}
	}
	p.best = min(p.best, float64(time.Since(start))/packets)
}

func (p *path) packet() error {
	place, err := p.datagram.Begin(p.frame, len(p.memory)+p.extra)
	if err != nil {
		return err
	}
	if p.s == nil {
		copy(place, p.memory)
	} else {
		built := p.s.Built(&p.datagram, p.frame, len(place))
		if built.Put(Plain(place), p.memory); built.Err() != nil {
			return built.Err()
		}
	}
	in, err := rocev2.ParseIP(p.frame[:p.datagram.Seal(p.frame)])
	if err != nil {
		return err
	}
	if err := in.VerifyICRC(); err != nil {
		return err
	}
	if p.o != nil {
		if err := p.o.OpenPacket(0, &in); err != nil {
			return err
		}
	}
	copy(p.target, in.Payload())
	return nil
}
