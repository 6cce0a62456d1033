// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/bits"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// sample is a flow as the classifier sees it, and what it is.
type sample struct {
	x     precredit.Normalized
	known bool // the application said its size
	sizes int  // index in scenario.All
	small bool
}

// bdps are the bandwidth-delay products that flows meet: 1 to 400 Gbit/s, 10 us to
// 1 ms.
var bdps = []uint64{30_000, 62_500, 150_000, 500_000, 1_250_000}

// dataset draws n flows of each distribution.
func dataset(seed uint64, n int) []sample {
	var all []sample
	for i, sizes := range scenario.All() {
		r := scenario.NewRand(seed, uint64(i))
		for range n {
			bytes := uint64(sizes.Sample(r))
			bdp := bdps[r.IntN(len(bdps))]
			f := application(r, bytes)
			f.BDPBytes = bdp
			all = append(all, sample{f.Normalize(), f.TotalBytes != 0, i, bytes <= bdp})
		}
	}
	return all
}

// application draws what an application that sends so many bytes lets one know. These
// are assumptions, after how message libraries work:
//
//   - Six in ten hand over the whole message at once. The others are streams: total
//     unknown, the first work request is a chunk of 4 KiB to 1 MiB, or all of it if
//     it is shorter than that.
//   - Eager and rendezvous: up to 8 KiB most messages are SENDs, beyond it most are
//     moved by WRITE or READ. One in five does otherwise.
//   - Half of all regions are arenas of 16 MiB to 1 GiB, which say nothing about the
//     flow. The others are registered for the message, in whole pages or the next
//     power of two; for a stream that is its ring of eight chunks.
func application(r *rand.Rand, bytes uint64) precredit.Features {
	f := precredit.Features{TotalBytes: bytes, PostedBytes: bytes}
	buffer := bytes
	if r.IntN(10) >= 6 {
		chunk := uint64(4096) << (2 * r.IntN(5))
		f.TotalBytes = 0
		f.PostedBytes = min(bytes, chunk)
		buffer = 8 * chunk
	}
	f.Verb = precredit.VerbSend
	if eager := bytes <= 8192; eager == (r.IntN(5) == 0) {
		f.Verb = precredit.VerbWrite
		if r.IntN(3) == 0 {
			f.Verb = precredit.VerbRead
		}
	}
	switch r.IntN(4) {
	case 0, 1:
		f.RegionBytes = 16 << 20 << r.IntN(7)
	case 2:
		f.RegionBytes = (buffer + 4095) &^ 4095
	case 3:
		f.RegionBytes = 1 << bits.Len64(max(buffer, 2)-1)
	}
	return f
}
