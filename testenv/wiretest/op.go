// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Op is a send work request as a scenario describes it. Offsets are taken modulo
// what there is room for, so that any numbers make a valid request.
type Op struct {
	Kind   verbs.Op
	Len    int // bytes of data; 8 for atomics
	Cuts   int // number of cuts, into 1..4 list elements
	Source int // place in the pool of data
	Remote int // place in the peer's target
	Flags  verbs.Flags
	Imm    uint32
	A, B   uint64  // operands of atomics
	Delay  qp.Time // delay after the request before it was posted

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
		{o.Flags&verbs.Signaled != 0, "signaled"},
		{o.Flags&verbs.Solicited != 0, "solicited"},
		{o.Flags&verbs.Fence != 0, "fence"},
		{o.Flags&verbs.Inline != 0, "inline"},
		{o.Relay, "relay"}, {o.BadKey, "bad key"}, {o.BadRange, "bad range"},
	} {
		if f.set {
			s += " " + f.name
		}
	}
	return s
}

func opName(k verbs.Op) string {
	names := [...]string{
		verbs.OpSend: "SEND", verbs.OpSendImm: "SEND_IMM", verbs.OpSendInv: "SEND_INV",
		verbs.OpWrite: "WRITE", verbs.OpWriteImm: "WRITE_IMM", verbs.OpRead: "READ",
		verbs.OpCompareSwap: "COMPARE_SWAP", verbs.OpFetchAdd: "FETCH_ADD",
		verbs.OpLocalInv: "LOCAL_INV", verbs.OpBindWindow: "BIND", verbs.OpRecv: "RECV",
		verbs.OpRecvWriteImm: "RECV_WRITE_IMM",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprint(uint8(k))
}

func isSend(k verbs.Op) bool {
	return k == verbs.OpSend || k == verbs.OpSendImm || k == verbs.OpSendInv
}
func isWrite(k verbs.Op) bool  { return k == verbs.OpWrite || k == verbs.OpWriteImm }
func isAtomic(k verbs.Op) bool { return k == verbs.OpCompareSwap || k == verbs.OpFetchAdd }
func isLocal(k verbs.Op) bool  { return k == verbs.OpLocalInv || k == verbs.OpBindWindow }

// receives says whether the peer's receive queue gets a completion.
func receives(k verbs.Op) bool { return isSend(k) || k == verbs.OpWriteImm }

// message is what must come out of a receive queue.
type message struct {
	kind      verbs.Op
	data      []byte
	remote    int // place in target of a WRITE with immediate
	imm       uint32
	invKey    uint32
	solicited bool
}

// posted is a work request on a send queue.
type posted struct {
	id   uint64
	op   Op
	data []byte // data of SEND and WRITE; expected data of a READ; the old value of an ATOMIC
	at   int    // place in the target
	land []span // places in the landing region
	end  int    // the landing ring is free up to here when it is done
	pin  bool   // no: the next request reads the landing place
}

type span struct{ off, n int }

func (s span) overlaps(t span) bool { return s.off < t.off+t.n && t.off < s.off+s.n }
func (s span) holds(off, n int) bool {
	return off >= s.off && off+n <= s.off+s.n
}
