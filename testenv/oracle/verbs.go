// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// object is what the helper made under a handle.
type object struct {
	j      *Judge
	handle uint64
}

func (o object) Destroy(ctx context.Context) error {
	_, err := o.j.conn.do(ctx, "destroy handle=%d", o.handle)
	if err == nil {
		o.j.mu.Lock()
		delete(o.j.qps, o.handle)
		delete(o.j.srqs, o.handle)
		o.j.mu.Unlock()
	}
	return err
}

// make sends a command that makes an object and stores further numbers of the answer.
func (j *Judge) make(ctx context.Context, kind string, more map[string]*uint64, args string) (object, error) {
	got, err := j.conn.do(ctx, "%s", args)
	if err != nil {
		return object{}, err
	}
	h, err := got.number(kind)
	return object{j, h}, errors.Join(err, got.into(more))
}

type judgePD struct{ object }

// NewPD allocates a protection domain.
func (j *Judge) NewPD(ctx context.Context) (PD, error) {
	o, err := j.make(ctx, "pd", nil, "pd")
	return judgePD{o}, err
}

type judgeMR struct {
	object
	size             int
	addr, lkey, rkey uint64
}

func (p judgePD) RegMR(ctx context.Context, size, offset int, rights Access) (MR, error) {
	m := &judgeMR{size: size}
	var err error
	m.object, err = p.j.make(ctx, "mr", map[string]*uint64{"addr": &m.addr, "lkey": &m.lkey, "rkey": &m.rkey},
		fmt.Sprintf("reg_mr pd=%d len=%d offset=%d access=%#x", p.handle, size, offset, uint32(rights)))
	return m, err
}

func (m *judgeMR) Addr() uint64 { return m.addr }
func (m *judgeMR) Len() int     { return m.size }
func (m *judgeMR) LKey() uint32 { return uint32(m.lkey) }
func (m *judgeMR) RKey() uint32 { return uint32(m.rkey) }

func (m *judgeMR) Fill(ctx context.Context, off, n int, seed, skip uint64) error {
	_, err := m.j.conn.do(ctx, "fill mr=%d off=%d len=%d seed=%#x skip=%d", m.handle, off, n, seed, skip)
	return err
}

func (m *judgeMR) Check(ctx context.Context, off, n int, seed, skip uint64) (Mismatch, error) {
	got, err := m.j.conn.do(ctx, "check mr=%d off=%d len=%d seed=%#x skip=%d", m.handle, off, n, seed, skip)
	if err != nil {
		return Mismatch{}, err
	}
	bad, err := got.number("bad")
	if err != nil || bad == 0 {
		return Mismatch{First: -1}, err
	}
	first, err := got.number("first")
	return Mismatch{Bad: int(bad), First: int(first)}, err
}

func (m *judgeMR) Peek(ctx context.Context, off, n int) ([]byte, error) {
	got, err := m.j.conn.do(ctx, "peek mr=%d off=%d len=%d", m.handle, off, n)
	if err != nil {
		return nil, err
	}
	data, err := got.text("data")
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(data)
}

func (m *judgeMR) Poke(ctx context.Context, off int, data []byte) error {
	_, err := m.j.conn.do(ctx, "poke mr=%d off=%d data=%x", m.handle, off, data)
	return err
}

type judgeMW struct {
	object
	rkey uint64
}

func (p judgePD) NewMW(ctx context.Context) (MW, error) {
	w := &judgeMW{}
	var err error
	w.object, err = p.j.make(ctx, "mw", map[string]*uint64{"rkey": &w.rkey}, fmt.Sprintf("mw pd=%d", p.handle))
	return w, err
}

func (w *judgeMW) RKey() uint32 { return uint32(w.rkey) }

type judgeAH struct{ object }

func (p judgePD) NewAH(ctx context.Context, to netip.Addr) (AH, error) {
	sgid, err := p.j.sgid(ctx, to)
	if err != nil {
		return nil, err
	}
	o, err := p.j.make(ctx, "ah", nil, fmt.Sprintf("ah pd=%d dgid=%s sgid=%d", p.handle, gid(to), sgid))
	return judgeAH{o}, err
}

type judgeCQ struct{ object }

// NewCQ makes a completion queue of at least depth entries.
func (j *Judge) NewCQ(ctx context.Context, depth int) (CQ, error) {
	o, err := j.make(ctx, "cq", nil, fmt.Sprintf("cq depth=%d", depth))
	return judgeCQ{o}, err
}

func (q judgeCQ) Poll(ctx context.Context, n int, wait time.Duration) ([]Completion, error) {
	var all []Completion
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		got, err := q.j.conn.do(ctx, "poll cq=%d n=%d wait_ms=%d", q.handle, min(n-len(all), 1024), millis(min(left, slice)))
		if err != nil {
			return all, err
		}
		for _, s := range got.all("wc") {
			c, err := parseWC(s)
			if err != nil {
				return all, err
			}
			all = append(all, c)
		}
		if len(all) >= n || left <= slice && time.Now().After(deadline) {
			return all, nil
		}
	}
}

type judgeSRQ struct{ object }

func (p judgePD) NewSRQ(ctx context.Context, depth int) (SRQ, error) {
	o, err := p.j.make(ctx, "srq", nil, fmt.Sprintf("srq pd=%d depth=%d", p.handle, depth))
	if err != nil {
		return nil, err
	}
	s := &judgeSRQ{o}
	p.j.mu.Lock()
	p.j.srqs[o.handle] = s
	p.j.mu.Unlock()
	return s, nil
}

func (s *judgeSRQ) Arm(ctx context.Context, limit int) error {
	_, err := s.j.conn.do(ctx, "arm_srq srq=%d limit=%d", s.handle, limit)
	return err
}

func (s *judgeSRQ) PostRecv(ctx context.Context, wrs ...RecvWR) error {
	return s.j.postRecv(ctx, fmt.Sprintf("srq=%d", s.handle), wrs)
}
