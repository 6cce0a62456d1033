// SPDX-License-Identifier: Apache-2.0

package qp

// Limits of what is outstanding.
const (
	// PSNs between the oldest outstanding packet and the newest, so that old and new
	// answers can be told apart (IBTA 9.7.1).
	maxOutstanding = 1<<23 - 1

	// The widest window, and with half as many again the READ responses that may be
	// outstanding unless one READ alone has more. Without loss nothing else holds a sender back, and a
	// receiver that does not come to run for a moment must have frames for all that
	// arrives: ours has 4096, and a packet of PMTU 4096 takes two.
	maxWindow = 1024

	// The window before anything was heard. It doubles each round trip, so that the
	// first loss on a bad path costs little: with 1024 packets behind it, it cost
	// as many again.
	initialWindow = 64

	// Packets that the responder of another engine of ours keeps behind a gap.
	sackWindow = 128

	minWindowAfterNAK = 4 // after a loss that the peer reported
	minWindow         = 1 // after one that only silence told

	// A window that has carried so many packets, and so many times itself, without
	// loss opens twice as wide each round trip.
	lossFreePackets = 256
	lossFreeWindows = 8
)

// window limits the packets beyond the last acknowledged one. Pacing is left to
// congestion control; what this is for is the waste of go-back-N, where each loss
// costs all packets behind it: at loss rate p, a window of w sends 1 + p·w packets
// for one that arrives. So it halves with each loss and opens by one a round trip,
// which balances near sqrt(1.5/p): 6 packets and 1.4 at 5 %. It begins at first and doubles
// each round trip until the first loss.
type window struct {
	size      uint32
	ssthresh  uint32 // below this it doubles each round trip
	ackedRest uint32 // packets acknowledged that did not make a whole step
	lossFree  uint32 // packets since the last loss
	undoSize  uint32 // size before the silence that shrank it, to restore
}

func (w *window) start() { *w = window{size: initialWindow, ssthresh: maxWindow} }

// acked opens the window for n packets that arrived.
func (w *window) acked(n uint32) {
	if w.size == maxWindow {
		return
	}
	if w.lossFree < 1<<30 {
		w.lossFree += n
	}
	if w.size < w.ssthresh || w.lossFree > max(lossFreePackets, lossFreeWindows*w.size) {
		w.size = min(w.size+n, maxWindow)
		return
	}
	if w.ackedRest += n; w.ackedRest >= w.size {
		w.ackedRest -= w.size
		w.size++
	}
}

// onLoss closes the window after the loss of one of flight packets, not below least.
func (w *window) onLoss(flight uint64, least uint32) {
	w.size = max(uint32(min(flight/2, maxWindow)), least)
	w.ssthresh, w.ackedRest, w.lossFree, w.undoSize = 0, 0, 0, 0
}

// onSilence closes the window when nothing is heard of flight packets. It opens
// quickly again if they turn out to have arrived.
func (w *window) onSilence(flight uint64) {
	w.undoSize = max(w.undoSize, w.size)
	w.ssthresh = max(uint32(min(flight/2, maxWindow)), minWindowAfterNAK)
	w.size, w.ackedRest, w.lossFree = minWindow, 0, 0
}

// undo takes the last silent back.
func (w *window) undo() { w.size, w.undoSize = max(w.size, w.undoSize), 0 }

// ackEvery is after how many packets an ACK is asked for: 64 at the latest, as rxe
// answers no other packet, and four times in a window.
func (w *window) ackEvery() uint32 { return min(64, max(1, w.size/4)) }
