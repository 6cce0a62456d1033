// SPDX-License-Identifier: Apache-2.0

package qp

// Limits of the outstanding packets of one queue pair, in addition to verbs.MaxOutstanding.
const (
	// The largest window. 1.5 times as many READ responses may be outstanding, unless one READ
	// alone has more. Without loss nothing else limits a sender. A receiver that is not
	// scheduled for a moment needs frames for all packets that arrive: a softroce receiver has
	// 4096, and a packet of PMTU 4096 takes two.
	maxWindow = 1024

	// The window at the start. It doubles each round trip, so that the first loss on a bad path
	// costs little: go-back-N sends the packets after the loss again.
	initialWindow = 64

	minWindowAfterNAK = 4 // after a reported loss
	minWindow         = 1 // after silence

	// A window that has carried this many packets, and this many times its size, without loss
	// doubles each round trip.
	lossFreePackets = 256
	lossFreeWindows = 8
)

// window is the loss window: it limits the packets after the last acknowledged one. It
// bounds the cost of go-back-N, which sends all packets after a loss again: at loss rate p,
// a window w sends 1 + p·w packets for each one received. Congestion control does the
// pacing. The window halves with each loss and grows by one packet a round trip, which
// balances near sqrt(1.5/p): 6 packets and 1.4 sent at 5 %. It starts at initialWindow and
// doubles each round trip until the first loss.
type window struct {
	size      uint32
	ssthresh  uint32 // size below which the window doubles each round trip
	ackedRest uint32 // packets acknowledged since the last increase
	lossFree  uint32 // packets since the last loss
	undoSize  uint32 // size before onSilence
}

func (w *window) start() { *w = window{size: initialWindow, ssthresh: maxWindow} }

// acked grows the window after n packets were acknowledged.
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

// onSilence closes the window if there is no response to flight packets. It grows quickly
// again if they turn out to have arrived.
func (w *window) onSilence(flight uint64) {
	w.undoSize = max(w.undoSize, w.size)
	w.ssthresh = max(uint32(min(flight/2, maxWindow)), minWindowAfterNAK)
	w.size, w.ackedRest, w.lossFree = minWindow, 0, 0
}

// undo restores the size before the last onSilence: it was spurious.
func (w *window) undo() { w.size, w.undoSize = max(w.size, w.undoSize), 0 }

// ackEvery returns after how many packets an ACK is requested: at most 64, since rxe
// acknowledges no other packets, and four times in a window.
func (w *window) ackEvery() uint32 { return min(64, max(1, w.size/4)) }
