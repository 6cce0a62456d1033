// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/internal/tokenbucket"
)

var tokenBucket = module{
	top:   "token_bucket",
	files: []string{"divide.sv", "token_bucket.sv"},
	ports: rtl.Ports{
		Clock:   "clk",
		Inputs:  []string{"req_valid", "req_now_ns", "req_bytes", "req_rate_bps", "req_burst_ns", "req_next_tx_ns"},
		Outputs: []string{"done", "req_ready", "leaves_ns", "next_tx_ns", "paced", "overflow"},
	},
}

// departure is how many clocks a packet takes, as token_bucket.sv says.
const departure = 67

// packet is a packet to a bucket.
type packet struct {
	bucket tokenbucket.Bucket
	now    uint64
	bytes  uint32
}

func (p *packet) inputs() []uint64 {
	return []uint64{1, p.now, uint64(p.bytes), p.bucket.RateBps, p.bucket.BurstNs, p.bucket.NextTxNs}
}

// compare compares an answer with the reference.
func (p *packet) compare(t *testing.T, got rtl.Result) {
	t.Helper()
	after := p.bucket
	leaves := after.Departure(p.now, p.bytes)
	o := got.Outputs
	if o[2] != leaves || o[3] != after.NextTxNs || (o[4] == 1) != (leaves != p.now) {
		t.Fatalf("%+v: leaves at %d, next at %d, paced %d; want %d and %d", p, o[2], o[3], o[4], leaves, after.NextTxNs)
	}
	paced := p.bucket.RateBps != 0
	backlog := paced && int64(p.bucket.NextTxNs-p.now) > 8_000_000_000
	if (o[5] == 1) != backlog {
		t.Fatalf("%+v: overflow %d", p, o[5])
	}
	if want := map[bool]int{false: 1, true: departure}[paced]; got.Clocks != want {
		t.Fatalf("%+v: %d clocks, want %d", p, got.Clocks, want)
	}
}

// Random packets leave when the data plane lets them leave, bit for bit. The reference is
// compared with the BPF program by a test of package bpf.
func TestTokenBucket(t *testing.T) {
	b := tokenBucket.start(t)
	r := rand.New(rand.NewPCG(1, 1))
	var packets []packet
	var in [][]uint64
	for range quantity(100_000) {
		p := packet{bucket: tokenbucket.RandomBucket(r)}
		p.now = p.bucket.RandomTime(r)
		p.bytes = pick(r, 0, 64, 1514, math.MaxUint32, r.Uint32N(1<<16), r.Uint32N(1<<16), r.Uint32())
		packets = append(packets, p)
		in = append(in, p.inputs())
	}
	results, err := b.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range packets {
		packets[i].compare(t, results[i])
	}
}

// A sequence of packets to one bucket: 10,000 of random lengths at a rate that divides nothing.
// The time that the last one leaves is the sum of what each takes, rounded down per packet as
// in the data plane, and that is all.
func TestTokenBucketSequence(t *testing.T) {
	b := tokenBucket.start(t)
	r := rand.New(rand.NewPCG(1, 1))
	const start, rate = 1 << 50, 99_999_999_977
	p := packet{bucket: tokenbucket.Bucket{RateBps: rate, NextTxNs: start}, now: start}
	sum := uint64(start)
	for range quantity(10_000) {
		p.bytes = 64 + r.Uint32N(4096)
		results, err := b.Run([][]uint64{p.inputs()})
		if err != nil {
			t.Fatal(err)
		}
		p.compare(t, results[0])
		if results[0].Outputs[2] != sum {
			t.Fatalf("leaves at %d, want %d", results[0].Outputs[2], sum)
		}
		p.bucket.NextTxNs = results[0].Outputs[3]
		sum += uint64(p.bytes) * 8_000_000_000 / rate
	}
}

// No error of the clock adds up: after n clocks it is at n * 10^9 / frequency, rounded down.
func TestNSClock(t *testing.T) {
	frequencies := []uint64{322265625, 250000000, 1000000000, 4294967295, 3}
	m := module{
		top:   "ns_clock_tb",
		files: []string{"ns_clock.sv", "tb/ns_clock_tb.sv"},
		ports: rtl.Ports{Clock: "clk", Inputs: []string{"run", "load", "load_ns"},
			Outputs: []string{"ns_322265625", "ns_250000000", "ns_1000000000", "ns_4294967295", "ns_3"}},
	}
	b := m.start(t)
	for _, from := range []uint64{5, math.MaxUint64 - 1000} {
		in := [][]uint64{{from & 1, 1, from}}
		for i := range quantity(50_000) {
			in = append(in, []uint64{min(uint64(i)%7, 1), 0, 0}) // one clock in seven does not count
		}
		results, err := b.Cycles(in)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results[1:] {
			n := i - (i+6)/7 // clocks that count since it was set
			for j, hz := range frequencies {
				hi, lo := bits.Mul64(uint64(n), 1_000_000_000)
				passed, _ := bits.Div64(hi, lo, hz)
				if r.Outputs[j] != from+passed {
					t.Fatalf("%d Hz: %d after %d clocks from %d, want %d", hz, r.Outputs[j], n, from, from+passed)
				}
			}
		}
	}
}
