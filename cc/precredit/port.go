// SPDX-License-Identifier: Apache-2.0

package precredit

// Port is what pre-credit with one peer needs of the host.
type Port interface {
	// InFlight returns the bytes of data in flight to the peer. busy: packets are outstanding, READs
	// included.
	InFlight() (bytes uint64, busy bool)
	// AheadOfRate returns how many bytes have left to the peer before the rate of the policy allows them.
	AheadOfRate(now int64) uint32
	// Apply limits the bytes in flight to the peer to window, 0 = no limit, and lets the flows that have
	// stopped waiting send.
	Apply(window uint32, released []*Flow)
	// SendData sends the next packet of a flow. It calls Peer.WantsAck if it sends one, and Peer.Sent for
	// the credit in its stamp.
	SendData(now int64, f *Flow) Result
	// SendReturn sends a CREDIT_RETURN to the peer.
	SendReturn(r Return)
}

// Result says what came of Port.SendData.
type Result uint8

// The results.
const (
	ResultSent   Result = iota // a packet has left, or is taken for lost; another one may follow
	ResultLast                 // a packet has left, the last one of this Send
	ResultFull                 // no packet can leave to the peer until the next Send
	ResultNone                 // the flow has no packet that may leave now
	ResultFailed               // the flow has no data any more
)
