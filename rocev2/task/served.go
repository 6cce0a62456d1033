// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// servedBytes is the registered memory of a served task: a descriptor and an answer.
const servedBytes = SlotLen + AnswerLen

// served is a task of a server, from the receive of its descriptor until its answer was sent.
// The server's loop is its only user, but for the Memory methods, which cores call while the
// loop leaves it alone.
type served struct {
	server *Server
	index  int
	at     int64 // offset of descriptor and answer in the server's arena

	idle    bool // no task is served: the receive is posted
	d       Descriptor
	fetched bool         // the operands of the peer were requested, for this descriptor
	reads   int          // READs that have not ended
	ready   func(*Error) // function that is called then

	// Operands of the peer, and the result if it is the peer's, one behind the other in the
	// order of the descriptor; nil for none.
	stage verbs.DM
}

func (p *served) id(kind int) uint64 { return uint64(p.index*kinds + kind) }

// receive posts the receive of the next descriptor.
func (p *served) receive() error {
	p.d, p.fetched, p.idle = Descriptor{}, false, true
	if p.room() > keepStage {
		if err := p.unstage(); err != nil {
			return err
		}
	}
	wr := verbs.RecvWR{ID: p.id(kindRecv), SGL: p.server.sgl(p.at, SlotLen)}
	if err := p.server.config.QP.PostRecv(&wr); err != nil {
		return fmt.Errorf("task: server: %w", err)
	}
	p.server.fetchWaiting()
	return nil
}

// received submits the task of a descriptor of n bytes.
func (p *served) received(n uint32) error {
	p.idle = false
	var slot [SlotLen]byte
	b := slot[:min(n, SlotLen)]
	if readAt(p.server.arena, b, p.at) != mem.FaultNone {
		return errArena
	}
	d, err := Parse(b)
	if err != nil {
		p.server.end(p.index, Answer{ID: d.ID, Status: StatusDescriptor})
		return nil
	}
	p.d = d
	t := Task{Descriptor: d, Memory: p, Done: func(a Answer) { p.server.end(p.index, a) }}
	if p.staged() > 0 {
		t.Fetch = p.fetch
	}
	p.server.origin.Submit(t)
	return nil
}

// errArena is why a server ends whose own memory fails.
var errArena = errors.New("task: server: the memory of descriptors and answers failed")

// staged is how many bytes of the task are the peer's.
func (p *served) staged() (n int) {
	for i := range p.d.Operands {
		if p.d.Operands[i].Origin {
			n += int(p.d.Operands[i].Length)
		}
	}
	if p.d.Result.Origin {
		n += int(p.d.Result.Length)
	}
	return n
}

// place is where an operand of the peer, or nil for its result, is in stage.
func (p *served) place(o *Operand) (at int) {
	for i := range p.d.Operands {
		have := &p.d.Operands[i]
		if o != nil && *have == *o {
			return at
		}
		if have.Origin {
			at += int(have.Length)
		}
	}
	return at
}

// fetch gets the operands of the peer. The executor has checked the task.
func (p *served) fetch(ready func(*Error)) {
	p.ready = ready
	p.server.waiting = append(p.server.waiting, p)
	p.server.fetchWaiting()
}

// fetchWaiting gets the operands of the tasks that wait for memory, as far as there is some. A task
// that has all memory of the server for itself, and not enough, fails.
func (s *Server) fetchWaiting() {
	for len(s.waiting) > 0 {
		p := s.waiting[0]
		err := p.makeStage()
		others := false
		for i := range s.slots {
			if q := &s.slots[i]; err != nil && q != p && q.idle {
				err = errors.Join(q.unstage(), p.makeStage())
			} else if q != p && q.stage != nil {
				others = true
			}
		}
		if err != nil && others {
			return // until one of them has ended
		}
		s.waiting = s.waiting[1:]
		if err != nil {
			p.ready(fail(StatusMemory, "%v", err))
			continue
		}
		p.read()
	}
}

// read reads the operands of the peer to stage.
func (p *served) read() {
	p.fetched, p.reads = true, 0
	at := 0
	for i := range p.d.Operands {
		o := &p.d.Operands[i]
		if !o.Origin {
			continue
		}
		p.reads++
		p.server.send(verbs.SendWR{
			ID: p.id(kindRead), Op: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: o.VA, RKey: o.Key, SGL: p.sgl(at, o.Length),
		})
		at += int(o.Length)
	}
	if p.reads == 0 {
		p.ready(nil)
	}
}

// keepStage is how much memory a slot keeps between tasks.
const keepStage = 64 << 10

// makeStage makes stage large enough. It is as large as the executor allows at most.
func (p *served) makeStage() error {
	n := p.staged()
	if n <= p.room() {
		return nil
	}
	if err := p.unstage(); err != nil {
		return err
	}
	var err error
	p.stage, err = verbs.NewMemory(p.server.config.PD, max(n, 4096), verbs.AccessLocalWrite)
	return err
}

// room is the length of stage in bytes.
func (p *served) room() int {
	if p.stage == nil {
		return 0
	}
	return int(p.stage.Len())
}

func (p *served) unstage() error {
	if p.stage == nil {
		return nil
	}
	err := p.stage.Deregister()
	p.stage = nil
	return err
}

func (p *served) sgl(at int, n uint32) []verbs.SGE {
	return []verbs.SGE{{Addr: p.stage.VA() + uint64(at), Len: n, LKey: p.stage.LKey()}}
}

// answer sends the result, if it is the peer's, and the answer. Its receive is posted again
// when they have arrived.
func (p *served) answer(a Answer) error {
	wr := verbs.SendWR{ID: p.id(kindAnswer), Op: verbs.OpWriteImm, Flags: verbs.Signaled | verbs.Solicited, Imm: a.Immediate()}
	write := a.Status == StatusOK && p.fetched && p.d.Result.Origin
	if write {
		wr.RemoteAddr, wr.RKey, wr.SGL = p.d.Result.VA, p.d.Result.Key, p.sgl(p.place(nil), p.d.Result.Length)
	}
	if p.d.Immediate {
		p.server.send(wr)
		return nil
	}
	if write {
		p.server.send(verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey, SGL: wr.SGL, ID: p.id(kindAnswer)})
	}
	at := p.at + SlotLen
	if writeAt(p.server.arena, a.Append(nil), at) != mem.FaultNone {
		return errArena
	}
	p.server.send(verbs.SendWR{
		ID: p.id(kindAnswer), Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited, SGL: p.server.sgl(at, AnswerLen),
	})
	return nil
}

// Check, Read and Write are the Memory of the task: of the peer in stage, and of this node.

// Check implements Memory. The peer's NIC checks the peer's keys.
func (p *served) Check(o *Operand, need verbs.Access) mem.Fault {
	if o.Origin {
		return mem.FaultNone
	}
	return p.server.config.Memory.Check(o, need)
}

// Read implements Memory.
func (p *served) Read(o *Operand, dst []byte) mem.Fault {
	if !o.Origin {
		return p.server.config.Memory.Read(o, dst)
	}
	return readAt(p.stage, dst, int64(p.place(o)))
}

// Write implements Memory. It is called for the result only.
func (p *served) Write(o *Operand, src []byte) mem.Fault {
	if !o.Origin {
		return p.server.config.Memory.Write(o, src)
	}
	return writeAt(p.stage, src, int64(p.place(nil)))
}
