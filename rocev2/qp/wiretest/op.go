// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Op is a send work request as a scenario describes it. Offsets are taken modulo
// what there is room for, so that any numbers make a valid request.
type Op struct {
	Kind   qp.Operation
	Len    int // bytes of data; 8 for atomics
	Cuts   int // into 1..4 list elements
	Source int // where in the pool of data
	Remote int // where in the peer's target
	Flags  qp.Flags
	Imm    uint32
	A, B   uint64  // operands of atomics
	Delay  qp.Time // after the request before it was posted

	// Relay sends on what the READ before it brings: the same buffer, fenced.
	Relay bool

	// BadKey makes a remote operation use a key that nobody has, BadRange an
	// address behind the end.
	BadKey, BadRange bool
}

func (o Op) String() string {
	s := fmt.Sprintf("%s len=%d cuts=%d remote=%d", opName(o.Kind), o.Len, o.Cuts, o.Remote)
	for _, f := range []struct {
		set  bool
		name string
	}{
		{o.Flags&qp.Signaled != 0, "signaled"},
		{o.Flags&qp.Solicited != 0, "solicited"},
		{o.Flags&qp.Fence != 0, "fence"},
		{o.Flags&qp.Inline != 0, "inline"},
		{o.Relay, "relay"}, {o.BadKey, "bad key"}, {o.BadRange, "bad range"},
	} {
		if f.set {
			s += " " + f.name
		}
	}
	return s
}

func opName(k qp.Operation) string {
	names := [...]string{
		qp.OpSend: "SEND", qp.OpSendImm: "SEND_IMM", qp.OpSendInv: "SEND_INV",
		qp.OpWrite: "WRITE", qp.OpWriteImm: "WRITE_IMM", qp.OpRead: "READ",
		qp.OpCompareSwap: "COMPARE_SWAP", qp.OpFetchAdd: "FETCH_ADD",
		qp.OpLocalInv: "LOCAL_INV", qp.OpBindWindow: "BIND", qp.OpRecv: "RECV",
		qp.OpRecvWriteImm: "RECV_WRITE_IMM",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprint(uint8(k))
}

func isSend(k qp.Operation) bool {
	return k == qp.OpSend || k == qp.OpSendImm || k == qp.OpSendInv
}
func isWrite(k qp.Operation) bool  { return k == qp.OpWrite || k == qp.OpWriteImm }
func isAtomic(k qp.Operation) bool { return k == qp.OpCompareSwap || k == qp.OpFetchAdd }
func isLocal(k qp.Operation) bool  { return k == qp.OpLocalInv || k == qp.OpBindWindow }

// receives says whether the peer's receive queue gets a completion.
func receives(k qp.Operation) bool { return isSend(k) || k == qp.OpWriteImm }

// message is what must come out of a receive queue.
type message struct {
	kind      qp.Operation
	data      []byte
	remote    int // of WRITE with immediate: where it went
	imm       uint32
	invKey    uint32
	solicited bool
}

// posted is a work request on a send queue.
type posted struct {
	id   uint64
	op   Op
	data []byte // of SEND and WRITE; what a READ must bring; the old value of an ATOMIC
	at   int    // where in the target
	land []span // where in the landing region
	end  int    // the landing ring is free up to here when it is done
	pin  bool   // no: the next request reads the landing place
}

type span struct{ off, n int }

func (s span) overlaps(t span) bool { return s.off < t.off+t.n && t.off < s.off+s.n }
func (s span) holds(off, n int) bool {
	return off >= s.off && off+n <= s.off+s.n
}
