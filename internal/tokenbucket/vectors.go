// SPDX-License-Identifier: Apache-2.0

// Package tokenbucket has test vectors and a reference for the token buckets that pace one
// destination: bpf/lib/pace.h for packets of the kernel stack, rocev2/engine for those of an
// engine, hwoffload/rtl/token_bucket.sv on the card. The vectors are for tests; the model of the
// card (hwoffload/card) paces by the reference.
package tokenbucket

// Vector is a sequence of packets to a destination that was idle before.
type Vector struct {
	Name    string
	FrameNs int64 // time of one frame at the rate; 0: there is no rate
	BurstNs int64
	Packets []Packet
	EmptyNs int64 // time at which the bucket is empty at the end; of no meaning without a rate
}

// Packet is handed over at one time and leaves at another, in ns since the start.
type Packet struct{ At, Leaves int64 }

// All are the vectors.
var All = []Vector{
	{
		Name: "three at once", FrameNs: 1000,
		Packets: []Packet{{0, 0}, {0, 1000}, {0, 2000}}, EmptyNs: 3000,
	},
	{
		Name: "a burst after idle, and no more", FrameNs: 1000, BurstNs: 2000,
		Packets: []Packet{{0, 0}, {0, 0}, {0, 0}, {0, 1000}, {0, 2000}}, EmptyNs: 3000,
	},
	{
		Name: "a short pause earns what it lasted", FrameNs: 1000, BurstNs: 2000,
		Packets: []Packet{{0, 0}, {0, 0}, {0, 0}, {0, 1000}, {0, 2000}, {4000, 4000}, {4000, 4000}, {4000, 5000}}, EmptyNs: 6000,
	},
	{
		Name:    "no rate",
		Packets: []Packet{{0, 0}, {0, 0}, {0, 0}},
	},
}
