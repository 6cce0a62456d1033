// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/rocev2"
)

// patternPeriod is prime, so that no message or packet size is a multiple of it
// and data that landed in the wrong place does not look right.
const patternPeriod = 65521

// pattern is patternPeriod random bytes, repeated far enough for a slice of one
// packet to start anywhere.
var pattern = func() []byte {
	b := make([]byte, patternPeriod+maxPMTU)
	rng := rand.NewPCG(0x5352, 1)
	for i := 0; i < patternPeriod; i++ {
		b[i] = byte(rng.Uint64() >> 32)
	}
	copy(b[patternPeriod:], b)
	return b
}()

// maxPMTU is the largest path MTU in bytes.
const maxPMTU = 4096

// patternAt returns the n bytes that belong at virtual address va of queue pair
// qpn; n is at most maxPMTU.
func patternAt(qpn uint32, va uint64, n int) []byte {
	start := (va + uint64(qpn)*40503) % patternPeriod
	return pattern[start : start+uint64(n)]
}

func patternMatches(qpn uint32, va uint64, payload []byte) bool {
	return bytes.Equal(payload, patternAt(qpn, va, len(payload)))
}

// firstPSN and rkeyOf stand for what connection set-up would have agreed on.
func firstPSN(qpn uint32) rocev2.PSN {
	return rocev2.PSN(qpn*2654435761>>8) & rocev2.PSNMask
}

func rkeyOf(qpn uint32) uint32 { return qpn<<8 ^ 0x5352 }
