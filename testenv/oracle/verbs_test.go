// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// oddAtomic is what rxe's library does not even send; another requester has to ask its responder.
const oddAtomic = "atomic at an odd address"

// TestRefusals shows that rxe refuses what it must, and what both ends see of it.
func TestRefusals(t *testing.T) {
	ctx, p := machines(t)
	b := p.bench(t)
	for i, r := range Refusals() {
		t.Run(r.Name, func(t *testing.T) {
			err := b.Refuse(ctx, r, i%2 == 1)
			if r.Name == oddAtomic {
				if !errors.Is(err, ErrNotSent) {
					t.Errorf("%v, want a refusal by libibverbs", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestScenarios shows that rxe passes those that ask a requester or responder in general.
func TestScenarios(t *testing.T) {
	ctx, p := machines(t)
	for i, s := range Scenarios() {
		if s.ByEngine {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			a, b := p.a, p.b
			if i%2 == 1 {
				a, b = b, a
			}
			if err := s.Run(ctx, a, b); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestManyQueuePairs holds 500 of them at once.
func TestManyQueuePairs(t *testing.T) {
	_, p := machines(t)
	pd, err := p.a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := p.a.CreateCQ(100)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]bool{}
	var made []verbs.QP
	start := time.Now()
	for range 500 {
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := verbs.ToInit(qp, verbs.Endpoint{}, verbs.Attr{Access: peerRights}); err != nil {
			t.Fatal(err)
		}
		seen[qp.QPN()] = true
		made = append(made, qp)
	}
	t.Logf("500 queue pairs in %v", time.Since(start).Round(time.Millisecond))
	for _, qp := range made {
		if err := qp.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(cq.Destroy(), pd.Free()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 500 {
		t.Errorf("%d different QPNs", len(seen))
	}
}

// TestHelperErrors shows that a wrong command says what is wrong with it.
func TestHelperErrors(t *testing.T) {
	ctx, p := machines(t)
	for line, want := range map[string]syscall.Errno{
		"":                                   syscall.EINVAL,
		"nonesuch":                           syscall.ENOSYS,
		"pd colour=red":                      syscall.EINVAL,
		"pd word":                            syscall.EINVAL,
		"reg_mr pd=999999999 len=1 access=0": syscall.EINVAL,
		"reg_mr len=1 access=0":              syscall.EINVAL,
		"cq depth=many":                      syscall.EINVAL,
		"cq depth=-1":                        syscall.EINVAL,
		"destroy handle=0":                   syscall.EINVAL,
		"gid gid=00112233445566778899aabbccddeeff": syscall.ENOENT,
		"gid gid=00":    syscall.EINVAL,
		"open dev=rxe9": syscall.EBUSY,
	} {
		_, err := p.a.conn.do(ctx, "%s", line)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
	}
	// A caller that gives up leaves the conversation in order.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	cq, err := p.a.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(short, cq, 1, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller out of time: %v", err)
	}
	if err := cq.Destroy(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
