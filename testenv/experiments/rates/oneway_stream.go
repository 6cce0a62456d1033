// SPDX-License-Identifier: Apache-2.0

package rates

// The files oneway_*.go measure traffic that is not acknowledged packet by packet: READ
// responses, UC and UD. The sender of the data gets its feedback (S1.4) in ECHO packets.

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// Kind is a kind of traffic between two engines.
type Kind struct {
	Name string
	Type verbs.QPType
	Op   verbs.Op
	Size int // bytes of a message
	Deep int // messages in flight
	PMTU rocev2.PMTU
	V6   bool
}

// qkey is what engines.Connect gives queue pairs of UD.
const qkey = 7

// Stream is a pair of queue pairs. A READ is posted where its data arrive.
type Stream struct {
	kind      Kind
	qp        verbs.QP
	cq        verbs.CQ
	local     verbs.MR
	remote    verbs.MR
	ah        verbs.AH // UD, with the queue pair there
	remoteQPN uint32
	Completed atomic.Uint64 // bytes of completed messages
}

// end makes one end of a stream.
func end(h *engines.Host, k Kind) (x verbs.QP, cq verbs.CQ, m verbs.MR, pd verbs.PD, err error) {
	if pd, err = h.Dev.AllocPD(); err != nil {
		return nil, nil, nil, nil, err
	}
	if m, err = pd.RegMR(make([]byte, k.Size), engines.Access); err != nil {
		return nil, nil, nil, nil, err
	}
	if cq, err = h.Dev.CreateCQ(k.Deep + 1); err != nil {
		return nil, nil, nil, nil, err
	}
	x, err = pd.CreateQP(verbs.QPInit{Type: k.Type, SendCQ: cq, RecvCQ: cq, MaxSend: k.Deep})
	return x, cq, m, pd, err
}

// Connect makes a stream that h posts, to or from peer.
func Connect(h, peer *engines.Host, k Kind) (s *Stream, err error) {
	s = &Stream{kind: k}
	var pd verbs.PD
	if s.qp, s.cq, s.local, pd, err = end(h, k); err != nil {
		return nil, err
	}
	far, _, remote, _, err := end(peer, k)
	if err != nil {
		return nil, err
	}
	s.remote = remote
	if err := engines.Connect(s.qp, far, h.Addr(k.V6), peer.Addr(k.V6), k.PMTU); err != nil {
		return nil, err
	}
	if k.Type == verbs.UD {
		ah, err := pd.CreateAH(verbs.AddressVector{Src: h.Addr(k.V6), Dst: peer.Addr(k.V6), HopLimit: 64})
		if err != nil {
			return nil, err
		}
		s.ah, s.remoteQPN = ah, far.QPN()
	}
	return s, nil
}

func (s *Stream) post() error {
	wr := &verbs.SendWR{
		Op: s.kind.Op, Flags: verbs.Signaled, AH: s.ah, RemoteQPN: s.remoteQPN, RemoteQKey: qkey,
		SGL: []verbs.SGE{{Addr: s.local.VA(), Len: uint32(s.kind.Size), LKey: s.local.LKey()}},
	}
	if s.kind.Op != verbs.OpSend {
		wr.RemoteAddr, wr.RKey = s.remote.VA(), s.remote.RKey()
	}
	return s.qp.PostSend(wr)
}

// Run keeps messages in flight until ctx ends.
func (s *Stream) Run(ctx context.Context) error {
	out := make([]verbs.Completion, s.kind.Deep)
	for posted := 0; ; {
		for ; posted < s.kind.Deep && ctx.Err() == nil; posted++ {
			if err := s.post(); err != nil {
				return err
			}
		}
		if posted == 0 {
			return nil
		}
		n := s.cq.Poll(out)
		if n == 0 {
			// What was posted before ctx ended is not waited for.
			if err := s.cq.Wait(ctx, false); err != nil {
				return nil
			}
			continue
		}
		for _, c := range out[:n] {
			if c.Status != verbs.StatusSuccess {
				return fmt.Errorf("%s: a message completed with %v", s.kind.Name, c.Status)
			}
		}
		posted -= n
		s.Completed.Add(uint64(n * s.kind.Size))
	}
}

// show is what matters in host at's entry of host of.
func show(at, of int, r *bpf.DestRegs) string {
	if r == nil {
		return fmt.Sprintf("[%d has no entry of %d] ", at, of)
	}
	p := &r.Policy
	return fmt.Sprintf("[%d of %d: rate %.1f M, case %d action %d row %d, %d decisions, %d cuts, rx %d us, q %d us] ", at, of,
		float64(r.RateBps)/1e6, p.CaseNo, p.Action, p.Row, p.Decisions, p.Decreases, r.RxNs/1000, p.QueueingTxNs/1000)
}
