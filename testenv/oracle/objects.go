// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// object is what the helper made under a handle.
type object struct {
	j      *Judge
	handle uint64
}

// Destroy, Free and Deregister are one command for objects of all kinds.
func (o object) Destroy() error {
	_, err := o.j.do("destroy handle=%d", o.handle)
	if err == nil {
		o.j.mu.Lock()
		delete(o.j.objects, o.handle)
		o.j.mu.Unlock()
	}
	return err
}

func (o object) Free() error       { return o.Destroy() }
func (o object) Deregister() error { return o.Destroy() }

// make sends a command that makes an object and stores further numbers of the answer.
func (j *Judge) make(kind string, more map[string]*uint64, format string, args ...any) (object, error) {
	got, err := j.do(format, args...)
	if err != nil {
		return object{}, err
	}
	h, err := got.number(kind)
	return object{j, h}, errors.Join(err, got.into(more))
}

// add has the judge find an object of a handle again: for events and for requests that bind windows.
func (j *Judge) add(handle uint64, o any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.objects[handle] = o
}

// find returns the object of a kind that is meant, or nil.
func find[T any](j *Judge, meant func(*T) bool) *T {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.objects {
		if o, ok := o.(*T); ok && meant(o) {
			return o
		}
	}
	return nil
}

type judgePD struct{ object }

// AllocPD allocates a protection domain.
func (j *Judge) AllocPD() (verbs.PD, error) {
	o, err := j.make("pd", nil, "pd")
	return judgePD{o}, err
}

// RegMR is for memory of this process, which rxe does not have. Judge.NewMemory is the other way.
func (p judgePD) RegMR([]byte, verbs.Access) (verbs.MR, error) { return nil, errors.ErrUnsupported }

// judgeMR is a region of memory in the machine.
type judgeMR struct {
	object
	size             int
	addr, lkey, rkey uint64
}

// NewMemory implements Side.
func (j *Judge) NewMemory(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error) {
	m := &judgeMR{size: size}
	var err error
	m.object, err = j.make("mr", map[string]*uint64{"addr": &m.addr, "lkey": &m.lkey, "rkey": &m.rkey},
		"reg_mr pd=%d len=%d offset=%d access=%#x", pd.(judgePD).handle, size, offset, uint8(rights))
	if err != nil {
		return nil, err
	}
	j.add(m.handle, m)
	return m, nil
}

func (m *judgeMR) VA() uint64   { return m.addr }
func (m *judgeMR) Len() uint64  { return uint64(m.size) }
func (m *judgeMR) LKey() uint32 { return uint32(m.lkey) }
func (m *judgeMR) RKey() uint32 { return uint32(m.rkey) }

func (m *judgeMR) fill(off, n int, seed, skip uint64) error {
	_, err := m.j.do("fill mr=%d off=%d len=%d seed=%#x skip=%d", m.handle, off, n, seed, skip)
	return err
}

func (m *judgeMR) check(off, n int, seed, skip uint64) (mismatch, error) {
	got, err := m.j.do("check mr=%d off=%d len=%d seed=%#x skip=%d", m.handle, off, n, seed, skip)
	if err != nil {
		return mismatch{}, err
	}
	bad, err := got.number("bad")
	if err != nil || bad == 0 {
		return mismatch{First: -1}, err
	}
	first, err := got.number("first")
	return mismatch{Bad: int(bad), First: int(first)}, err
}

// ReadAt reads 64 KB at most.
func (m *judgeMR) ReadAt(p []byte, off int64) (int, error) {
	got, err := m.j.do("peek mr=%d off=%d len=%d", m.handle, off, len(p))
	if err != nil {
		return 0, err
	}
	data, err := got.text("data")
	if err != nil {
		return 0, err
	}
	return hex.Decode(p, []byte(data))
}

// WriteAt writes 64 KB at most.
func (m *judgeMR) WriteAt(p []byte, off int64) (int, error) {
	if _, err := m.j.do("poke mr=%d off=%d data=%x", m.handle, off, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

type judgeMW struct {
	object
	rkey uint64
}

func (p judgePD) AllocMW() (verbs.MW, error) {
	w := &judgeMW{}
	var err error
	w.object, err = p.j.make("mw", map[string]*uint64{"rkey": &w.rkey}, "mw pd=%d", p.handle)
	if err != nil {
		return nil, err
	}
	p.j.add(w.handle, w)
	return w, nil
}

// RKey is the key that the window was allocated with.
func (w *judgeMW) RKey() uint32 { return uint32(w.rkey) }

type judgeAH struct{ object }

func (p judgePD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	to, err := p.j.avArgs(av)
	if err != nil {
		return nil, err
	}
	o, err := p.j.make("ah", nil, "ah pd=%d%s", p.handle, to)
	return judgeAH{o}, err
}

// judgeCQ is a completion queue that only collect polls.
type judgeCQ struct {
	object
	unused // of verbs.CQ
}

type unused struct{ verbs.CQ }

// CreateCQ makes a completion queue of at least depth entries.
func (j *Judge) CreateCQ(depth int) (verbs.CQ, error) {
	o, err := j.make("cq", nil, "cq depth=%d", depth)
	return &judgeCQ{object: o}, err
}

func (q *judgeCQ) collect(ctx context.Context, n int, wait time.Duration) ([]verbs.Completion, error) {
	var all []verbs.Completion
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

func (p judgePD) CreateSRQ(depth, maxSGE int) (verbs.SRQ, error) {
	o, err := p.j.make("srq", nil, "srq pd=%d depth=%d sge=%d", p.handle, depth, maxSGE)
	if err != nil {
		return nil, err
	}
	s := &judgeSRQ{o}
	p.j.add(o.handle, s)
	return s, nil
}

func (s *judgeSRQ) SetLimit(n int) error {
	_, err := s.j.do("arm_srq srq=%d limit=%d", s.handle, n)
	return err
}

func (s *judgeSRQ) PostRecv(wr *verbs.RecvWR) error { return s.postRecv([]verbs.RecvWR{*wr}) }

func (s *judgeSRQ) postRecv(wrs []verbs.RecvWR) error {
	return s.j.postRecv(fmt.Sprintf("srq=%d", s.handle), wrs)
}
