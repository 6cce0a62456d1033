// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// messages returns n random messages: WRITE with and without notification, and READ.
func messages(seed uint64, n, longest int) []wiretest.OOOMessage {
	rng := rand.New(rand.NewPCG(seed, 9))
	ops := make([]wiretest.OOOMessage, n)
	for i := range ops {
		op := &ops[i]
		*op = wiretest.OOOMessage{Op: verbs.OpWrite, Notify: true, Len: rng.IntN(longest + 1)}
		switch rng.IntN(8) {
		case 0, 1:
			*op = wiretest.OOOMessage{Op: verbs.OpRead, Len: op.Len}
		case 2:
			op.Notify = false
		case 3:
			op.Len = rng.IntN(3)
		}
	}
	return ops
}

// dataPackets counts the packets with data.
func dataPackets(ops []wiretest.OOOMessage, payload int) (reads, writes uint64) {
	for _, op := range ops {
		switch n := uint64((op.Len + payload - 1) / payload); {
		case op.Len == 0:
		case op.Op == verbs.OpRead:
			reads += n
		default:
			writes += n
		}
	}
	return reads, writes
}

// TestMessages sends 100000 messages over a wire that permutes the packets of some hundred
// messages, loses 5 % and duplicates 10 % of them, in both directions (S3.5). The application
// checks that memory is equal, that each notification comes exactly once, and not early.
func TestMessages(t *testing.T) {
	n := 100_000
	if s := os.Getenv("OOO_MESSAGES"); s != "" { // the mutants need fewer
		n, _ = strconv.Atoi(s)
	}
	const worlds = 20
	for seed := range uint64(worlds) {
		cfg := config()
		cfg.PMTU, cfg.Payload = rocev2.PMTU256, []int{256, 300}[seed%2]
		cfg.Window = 64 << (seed % 4)
		cfg.SendPSN, cfg.RecvPSN = 1<<24-rocev2.PSN(seed*100), 1<<23
		cfg.SendPSN &= rocev2.PSNMask
		ops := messages(seed, n/worlds, 1200)
		w := newWorld(seed, cfg, 1+int(seed%3), 32, ops)
		delay := []qp.Time{50, 400}[seed/10] * wiretest.Microsecond
		w.faults(wiretest.Faults{Loss: 0.05, Duplicate: 0.10, Reorder: 1, ReorderBy: delay})
		w.run(t)
		a, b := &w.nodes[0].Count, &w.nodes[1].Count
		reads, writes := dataPackets(ops, cfg.Payload)
		if a.ReadPlaced != reads || b.Placed != writes {
			t.Errorf("world %d: data of %d READ and %d WRITE packets placed, want %d and %d", seed, a.ReadPlaced, b.Placed, reads, writes)
		}
		if w.app.Completed != n/worlds || a.Resent == 0 || b.Duplicates == 0 || a.Repeated == 0 {
			t.Errorf("world %d: %d messages; source %+v; target %+v", seed, w.app.Completed, *a, *b)
		}
		if testing.Verbose() && seed < 4 {
			t.Logf("window %d: source %+v; target %+v", cfg.Window, *a, *b)
		}
	}
}
