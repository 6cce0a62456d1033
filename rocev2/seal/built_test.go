// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// begun returns a packet that has all but its data.
func begun(t *testing.T, s *Sealer, d *rocev2.Datagram, n int) (b []byte, p *Built) {
	t.Helper()
	d.Src, d.Dst, d.Sealed = hostA, hostB, true
	b = make([]byte, d.Len(n+Overhead))
	if _, err := d.Begin(b, n+Overhead); err != nil {
		t.Fatal(err)
	}
	return b, s.Built(d, b, n+Overhead)
}

// Data is sealed from where it is, and stays as it is. The receiver gets it.
func TestBuilt(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	for _, n := range []int{1, 15, 16, 17, 1024, 4096} {
		memory := random(n)
		before := bytes.Clone(memory)
		d := &rocev2.Datagram{Opcode: rocev2.RCWriteOnly, DestQP: 2}
		b, p := begun(t, s, d, n)
		p.Put(nil, memory)
		if p.Err() != nil || !bytes.Equal(memory, before) {
			t.Fatalf("%d bytes: %v, memory changed: %v", n, p.Err(), !bytes.Equal(memory, before))
		}
		got, err := open(o, 0, b[:d.Seal(b)])
		if err != nil || !bytes.Equal(got, memory) {
			t.Errorf("%d bytes: %v, the same data: %v", n, err, bytes.Equal(got, memory))
		}
	}
}

// A packet that got no data, or too little, is not sealed and says so.
func TestBuiltWithoutData(t *testing.T) {
	s, _ := pair(t, AES128GCM, Limits{})
	d := &rocev2.Datagram{Opcode: rocev2.RCWriteOnly, DestQP: 2}
	_, p := begun(t, s, d, 100)
	if p.Err() != ErrNoData {
		t.Errorf("before Put: %v", p.Err())
	}
	if p.Put(nil, make([]byte, 99)); p.Err() != ErrShort {
		t.Errorf("99 bytes for 100: %v", p.Err())
	}
	if p.Put(nil, make([]byte, 100)); p.Err() != nil {
		t.Error(p.Err())
	}
	if _, p = begun(t, s, d, 100); p.Err() != ErrNoData {
		t.Errorf("the next packet: %v", p.Err())
	}
}

// An application that writes to memory while it is sent gets a packet with some old and some new bytes, as
// without encryption. The tag is that of the ciphertext that leaves, so the peer can open it.
func TestMemoryThatChanges(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	const size = 4093 // the last block is not whole
	memory := make([]byte, size)
	var stop atomic.Bool
	changed := make(chan bool, 1)
	go func() {
		for n := byte(0); !stop.Load(); n++ {
			for i := range memory {
				memory[i] = n
			}
			select {
			case changed <- true:
			default:
			}
		}
		close(changed)
	}()
	mixed := 0
	for i := 0; i < 100000 && mixed < 20; i++ {
		d := &rocev2.Datagram{Opcode: rocev2.RCWriteOnly, DestQP: 2}
		b, p := begun(t, s, d, size)
		<-changed
		p.Put(nil, memory)
		got, err := open(o, 0, b[:d.Seal(b)])
		if err != nil {
			t.Fatalf("packet %d, %d mixed before it: %v", i, mixed, err)
		}
		if got[0] != got[size-1] {
			mixed++
		}
	}
	stop.Store(true)
	for range changed {
	}
	t.Logf("%d packets with old and new bytes", mixed)
}
