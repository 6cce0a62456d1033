// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// BenchmarkWrite compares the ways to put packets of 1 KB and 4 KB into the memory of an
// application, one by one and as a burst of 64 KB:
//
//	host      copy to memory of this process
//	arena     copy to memory that both processes have mapped
//	process   one write through the descriptor for each packet
//	combined  packets are copied to a buffer, which is written at once
//	vector    one pwritev for all packets
func BenchmarkWrite(b *testing.B) {
	const burst = 64 << 10
	packet := 4 << 10
	a := startApplication(b)
	const size = 16 << 20
	addr := a.mapped("plain", size/processPage)
	host, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(host)
	shared, err := CreateArena(size)
	if err != nil {
		b.Fatal(err)
	}
	defer shared.Close()
	if _, err := shared.Alloc(size); err != nil { // populates it
		b.Fatal(err)
	}
	packets, buffer := pattern(burst), make([]byte, burst)
	toMemory := func(m []byte) func(at uint64, n int) error {
		return func(at uint64, n int) error {
			for i := 0; i < n; i += packet {
				copy(m[at+uint64(i):][:packet], packets[i:])
			}
			return nil
		}
	}
	vector := make([][]byte, 0, 64)
	ways := []struct {
		name  string
		write func(at uint64, n int) error
	}{
		{"host", toMemory(host)},
		{"arena", toMemory(shared.Bytes())},
		{"process", func(at uint64, n int) error {
			for i := 0; i < n; i += packet {
				if err := a.WriteAt(packets[i:i+packet], addr+at+uint64(i)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"combined", func(at uint64, n int) error {
			for i := 0; i < n; i += packet {
				copy(buffer[i:], packets[i:i+packet])
			}
			return a.WriteAt(buffer[:n], addr+at)
		}},
		{"vector", func(at uint64, n int) error {
			vector = vector[:0]
			for i := 0; i < n; i += packet {
				vector = append(vector, packets[i:i+packet])
			}
			_, err := unix.Pwritev(a.mem, vector, int64(addr+at))
			return err
		}},
	}
	for _, c := range [][2]int{{1 << 10, 1 << 10}, {4 << 10, 4 << 10}, {1 << 10, burst}, {4 << 10, burst}} {
		n := c[1]
		for _, w := range ways {
			packet = c[0]
			b.Run(fmt.Sprintf("packet=%d/bytes=%d/%s", packet, n, w.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				at := uint64(0)
				for b.Loop() {
					if err := w.write(at, n); err != nil {
						b.Fatal(err)
					}
					at = (at + uint64(n)) % size
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n/packet), "ns/packet")
			})
		}
	}
}

// BenchmarkDevice is the cost of a packet in an engine without a network, from the work request
// to its completion, with the target of WRITEs of 64 KB in memory of this process, in an arena
// and in memory of another process. The source is memory of this process.
func BenchmarkDevice(b *testing.B) {
	const size = 64 << 10
	a, d := startApplication(b), openDevice(b)
	shared, err := CreateArena(size)
	if err != nil {
		b.Fatal(err)
	}
	defer shared.Close()
	spec, err := a.Spec(a.mapped("plain", size/processPage), size, everything)
	if err != nil {
		b.Fatal(err)
	}
	targets := []struct {
		name string
		spec mr.Spec
	}{
		{"host", mr.Spec{Host: make([]byte, size), Access: everything}},
		{"arena", mr.Spec{Host: shared.Bytes(), Access: everything}},
		{"process", spec},
	}
	for _, pmtu := range []rocev2.PMTU{rocev2.PMTU1024, rocev2.PMTU4096} {
		for _, to := range targets {
			b.Run(fmt.Sprintf("pmtu=%d/%s", pmtu.Bytes(), to.name), func(b *testing.B) {
				d.t = b
				r := d.register(to.spec)
				x, _ := d.pairWith(pmtu)
				wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: d.here(0, size), RemoteAddr: r.VA(), RKey: r.RKey()}
				outstanding, out := 0, make([]verbs.Completion, 16)
				b.SetBytes(size)
				for b.Loop() {
					if err := x.PostSend(&wr); err != nil {
						b.Fatal(err)
					}
					for outstanding++; outstanding > 8; {
						n := d.cq.Poll(out)
						for _, c := range out[:n] {
							if c.Status != verbs.StatusSuccess {
								b.Fatal(c.Status)
							}
						}
						outstanding -= n
					}
				}
				for ; outstanding > 0; outstanding -= d.cq.Poll(out) {
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size/pmtu.Bytes()), "ns/packet")
			})
		}
	}
}

// BenchmarkCheck prints what a registration costs for each GB of populated memory.
func BenchmarkCheck(b *testing.B) {
	const size = 1 << 28
	a := startApplication(b)
	addr := a.mapped("plain", size/processPage)
	for b.Loop() {
		if err := a.Check(addr, size, everything); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)*(1<<30)/size, "us/GB")
}
