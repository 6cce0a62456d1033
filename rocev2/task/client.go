// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ClientConfig are the properties of a Client.
type ClientConfig struct {
	PD verbs.PD

	// QP is a queue pair of service RC in INIT or later, connected to that of a Server. QPInit
	// has what it is created with. CQ is its completion queue for both directions. The client
	// is the only user of both.
	QP verbs.QP
	CQ verbs.CQ

	// Depth is how many tasks can be sent and not answered; 0 for DefaultDepth.
	Depth int
}

// Client sends tasks to the server at the other end of a queue pair (S1.7). All methods may be
// called concurrently.
type Client struct {
	config ClientConfig
	arena  verbs.DM // descriptors, and behind them answers
	free   chan int // slots without a task
	cancel context.CancelFunc
	ended  chan struct{} // closed when the connection has ended, or Close was called
	close  sync.Once

	lock  sync.Mutex
	next  ID
	calls map[ID]*call
	slots []*call // calls by slot
	err   error   // reason why no task can be sent any more
}

// call is a task that was sent.
type call struct {
	id       ID
	slot     int
	sent     bool // the SEND has its completion
	answered bool
	answer   chan Answer // answer; the channel has room for one
}

// ErrClosed is the error of a client that was closed.
var ErrClosed = errors.New("task: the client was closed")

// NewClient posts the receives of a client and starts its goroutine. Close ends it.
func NewClient(c ClientConfig) (*Client, error) {
	depth, err := checkDepth(c.Depth)
	if err != nil {
		return nil, err
	}
	k := &Client{
		config: c, free: make(chan int, depth), ended: make(chan struct{}), calls: map[ID]*call{}, slots: make([]*call, depth),
	}
	if k.arena, err = verbs.NewMemory(c.PD, depth*servedBytes, verbs.AccessLocalWrite); err != nil {
		return nil, fmt.Errorf("task: client: %w", err)
	}
	for i := range depth {
		k.free <- i
		if err := k.receive(i); err != nil {
			return nil, errors.Join(err, k.arena.Deregister())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go k.run(ctx)
	return k, nil
}

// Do sends a task and waits for its answer. It gives the descriptor its id. The error is an
// *Error if the task failed at the server. If ctx ends first, the task may still be executed,
// and its result be written.
func (k *Client) Do(ctx context.Context, d *Descriptor) error {
	var slot int
	select {
	case slot = <-k.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-k.ended:
		return k.reason()
	}
	c, err := k.send(slot, d)
	if err != nil {
		k.free <- slot
		return err
	}
	select {
	case a := <-c.answer:
		return outcome(a)
	case <-ctx.Done():
		return ctx.Err()
	case <-k.ended:
	}
	select {
	case a := <-c.answer: // came before the end
		return outcome(a)
	default:
		return k.reason()
	}
}

func outcome(a Answer) error {
	if a.Status != StatusOK {
		return &Error{Status: a.Status}
	}
	return nil
}

func (k *Client) reason() error {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.err
}

// send posts the SEND of a task.
func (k *Client) send(slot int, d *Descriptor) (*call, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.err != nil {
		return nil, k.err
	}
	d.ID = k.next
	if err := d.check(); err != nil {
		return nil, err
	}
	at := slot * SlotLen
	b, err := d.Append(make([]byte, 0, SlotLen))
	if err == nil {
		_, err = k.arena.WriteAt(b, int64(at))
	}
	if err != nil {
		return nil, err
	}
	err = k.config.QP.PostSend(&verbs.SendWR{
		ID: uint64(slot*kinds + kindAnswer), Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited,
		SGL: []verbs.SGE{{Addr: k.arena.VA() + uint64(at), Len: uint32(len(b)), LKey: k.arena.LKey()}},
	})
	if err != nil {
		return nil, fmt.Errorf("task: client: %w", err)
	}
	c := &call{id: d.ID, slot: slot, answer: make(chan Answer, 1)}
	k.calls[c.id], k.slots[slot] = c, c
	k.next = (k.next + 1) & MaxID
	return c, nil
}

// at is where the answer of a receive is in the arena.
func (k *Client) at(i int) int { return len(k.slots)*SlotLen + i*AnswerLen }

func (k *Client) receive(i int) error {
	wr := verbs.RecvWR{
		ID: uint64(i*kinds + kindRecv), SGL: []verbs.SGE{{Addr: k.arena.VA() + uint64(k.at(i)), Len: AnswerLen, LKey: k.arena.LKey()}},
	}
	if err := k.config.QP.PostRecv(&wr); err != nil {
		return fmt.Errorf("task: client: %w", err)
	}
	return nil
}

// run handles completions until the client ends.
func (k *Client) run(ctx context.Context) {
	defer close(k.ended)
	for {
		var batch [32]verbs.Completion
		n := k.config.CQ.Poll(batch[:])
		for i := range batch[:n] {
			if err := k.complete(&batch[i]); err != nil {
				k.end(err)
				return
			}
		}
		if n > 0 {
			continue
		}
		if err := k.config.CQ.Wait(ctx, false); err != nil {
			if ctx.Err() != nil {
				err = ErrClosed
			}
			k.end(err)
			return
		}
	}
}

// end stores why the client has ended. run closes ended afterwards.
func (k *Client) end(err error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.err = err
}

func (k *Client) complete(c *verbs.Completion) error {
	i := int(c.WRID / kinds)
	switch {
	case c.Status != verbs.StatusSuccess:
		return fmt.Errorf("task: client: the connection has ended: %s", c.Status)
	case i >= len(k.slots):
		return fmt.Errorf("task: client: a completion of work request %d: does another user have its completion queue?", c.WRID)
	case c.WRID%kinds == kindAnswer:
		k.lock.Lock()
		defer k.lock.Unlock()
		k.slots[i].sent = true
		k.finish(k.slots[i])
		return nil
	}
	a := AnswerOf(c.Imm)
	if err := k.read(i, c, &a); err != nil {
		return err
	}
	if err := k.receive(i); err != nil {
		return err
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if t := k.calls[a.ID]; t != nil && !t.answered { // else it is an answer of no task of this client
		t.answered = true
		t.answer <- a
		k.finish(t)
	}
	return nil
}

// read reads the answer of a receive, if it is not in the completion.
func (k *Client) read(i int, c *verbs.Completion, a *Answer) (err error) {
	if c.HasImm {
		return nil
	}
	var b [AnswerLen]byte
	if readAt(k.arena, b[:], int64(k.at(i))) != mem.FaultNone {
		return errors.New("task: client: the memory of answers failed")
	}
	*a, err = ParseAnswer(b[:min(c.Bytes, AnswerLen)])
	return err
}

// finish frees the slot of a task that was sent and answered. The lock must be held.
func (k *Client) finish(c *call) {
	if c.sent && c.answered {
		delete(k.calls, c.id)
		k.slots[c.slot] = nil
		k.free <- c.slot
	}
}

// Close ends the client. Do returns ErrClosed then; results of tasks that were sent may still be
// written. The caller destroys the queue pair afterwards.
func (k *Client) Close() error {
	var err error
	k.close.Do(func() {
		k.cancel()
		<-k.ended
		err = k.arena.Deregister()
	})
	return err
}
