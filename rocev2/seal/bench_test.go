// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// BenchmarkPacket compares what a packet costs: building it from memory with its ICRC, and
// parsing, verifying and copying it to memory at the receiver; the same with sealing and opening
// between. The goodput of the codec alone is the ratio of the two lines of a size.
func BenchmarkPacket(b *testing.B) {
	for _, size := range []int{1024, 4096} {
		b.Run(fmt.Sprintf("plain/%d", size), func(b *testing.B) { benchmark(b, size, 0) })
		for _, suite := range []Suite{AES128GCM, AES256GCM} {
			b.Run(fmt.Sprintf("%v/%d", suite, size), func(b *testing.B) { benchmark(b, size, suite) })
		}
	}
}

func benchmark(b *testing.B, size int, suite Suite) {
	var s *Sealer
	var o *Opener
	extra := 0
	if suite != 0 {
		s, o = pair(b, suite, Limits{})
		extra = Overhead
	}
	d := rocev2.Datagram{Src: hostA, Dst: hostB, Opcode: rocev2.RCWriteMiddle, DestQP: 2, Sealed: suite != 0}
	memory, target, frame := random(size), make([]byte, size), make([]byte, 9000)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		place, err := d.Begin(frame, size+extra)
		if err != nil {
			b.Fatal(err)
		}
		if s != nil {
			copy(Plain(place), memory)
			err = s.SealDatagram(frame)
		} else {
			copy(place, memory)
		}
		if err != nil {
			b.Fatal(err)
		}
		p, err := rocev2.ParseIP(frame[:d.Seal(frame)])
		if err == nil {
			err = p.VerifyICRC()
		}
		if err == nil && o != nil {
			err = o.OpenPacket(0, &p)
		}
		if err != nil {
			b.Fatal(err)
		}
		copy(target, p.Payload())
	}
}
