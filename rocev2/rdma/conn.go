// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Conn is a reliable connection (RC) to a peer. Any goroutine may call its methods, several at a
// time too.
//
// A method that waits takes a context and returns when it ends. The operation itself is not taken
// back then: a message may still arrive. If the peer does not answer, operations fail after the
// retries of the queue pair (WithAttr), 7.2 s by default. After a failure the connection is
// of no further use; Close it. Messages that arrived before can still be received.
//
// Who waits polls the completion queue for all others, so that the answer is found without a switch
// of goroutines if one goroutine works alone.
type Conn struct {
	host          *host
	o             options
	pd            verbs.PD
	cq            verbs.CQ
	qp            verbs.QP
	id            cm.ID
	local, remote Addr
	private       []byte // private data of the peer

	recvMem  buffers
	recvs    []*Message
	inbox    chan *Message // arrived and not received; room for all receives
	sends    sends
	lead     chan struct{} // full while somebody polls the completion queue
	comps    [32]verbs.Completion
	recvOpen atomic.Int32 // receives posted and not completed
	alive    keepAlive

	established chan struct{} // closed: both ends are connected, or never will be
	reply       chan cm.Event // Dial: Reply or Failed
	dead        chan struct{} // closed: err is set, no operation begins
	drained     chan struct{} // closed: every operation has completed
	released    chan struct{} // closed: the communication manager has reported the end

	wasConnected bool // both ends were connected; set before established is closed

	mu         sync.Mutex
	err        error // reason why dead is closed
	isUp       bool
	isReleased bool
	isGone     bool // the QPN is free again
	isClosed   bool // the application has closed the connection, and its memory is released
	closing    atomic.Bool
	hungUp     error       // result of Disconnect in drain; errNotYet: it was not called
	flushed    atomic.Bool // a request was flushed, and the device is asked why
}

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// PeerPrivate returns the private data that the peer sent with its request or acceptance, padded
// with zeros.
func (c *Conn) PeerPrivate() []byte { return c.private }

// MaxMessage returns the longest message in bytes that Send and Recv copy.
func (c *Conn) MaxMessage() int { return c.o.maxMessage }

// MaxSGE returns how many elements the list of an operation of Start has at most.
func (c *Conn) MaxSGE() int { return max(1, min(maxSGE, c.host.dev.Limits().SGE)) }

// QP returns the queue pair, to look at its attributes. Work is posted by the methods of Conn.
func (c *Conn) QP() verbs.QP { return c.qp }

// Device returns the device.
func (c *Conn) Device() verbs.Device { return c.host.dev }

// PD returns the protection domain: regions and windows of it can be used with the connection.
func (c *Conn) PD() verbs.PD { return c.pd }

// Err returns why the connection has ended, or nil.
func (c *Conn) Err() error {
	if c.closing.Load() {
		return net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// newConn makes queue pair, completion queue and receive buffers, with the receives posted.
func newConn(h *host, o options) (*Conn, error) {
	c := &Conn{
		host: h, o: o, pd: o.pd, lead: make(chan struct{}, 1), inbox: make(chan *Message, o.recvs),
		established: make(chan struct{}), reply: make(chan cm.Event, 4), dead: make(chan struct{}),
		drained: make(chan struct{}), released: make(chan struct{}), hungUp: errNotYet,
	}
	if c.pd == nil {
		c.pd = h.pd
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.destroy())
	}
	return c, nil
}

// maxSGE and maxInline limit the list and the inline data of an operation.
const (
	maxSGE    = 16
	maxInline = 256
)

func (c *Conn) open() (err error) {
	dev := c.host.dev
	c.sends.init(c.o.sends, c.o.maxMessage, min(maxInline, dev.Limits().Inline))
	mem, err := Alloc(dev, c.o.recvs*c.o.maxMessage)
	if err != nil {
		return err
	}
	// Two more than operations: the keep-alive, and the work request that ends a Wait.
	var mr verbs.MR
	c.cq, c.qp, mr, err = createPair(dev, c.pd, c.o.sends+c.o.recvs+2, verbs.QPInit{
		Type: verbs.RC, MaxSend: c.o.sends + 2, MaxRecv: c.o.recvs, MaxSendSGE: c.MaxSGE(), MaxInline: c.sends.inline,
	}, mem)
	if err != nil {
		return errors.Join(err, Free(dev, mem))
	}
	c.recvMem.use(mem, mr)
	for i := range c.o.recvs {
		m := &Message{c: c, mem: mem[i*c.o.maxMessage:][:c.o.maxMessage:c.o.maxMessage]}
		m.wr = verbs.RecvWR{ID: recvBit | uint64(i), SGL: []verbs.SGE{{
			Addr: mr.VA() + uint64(i*c.o.maxMessage), Len: uint32(c.o.maxMessage), LKey: mr.LKey(),
		}}}
		c.recvs = append(c.recvs, m)
		if err := m.post(); err != nil {
			return err
		}
	}
	return nil
}

// freeMemory gives the buffers back. The queue pair is in ERR and drained.
func (c *Conn) freeMemory() error {
	return oneEnd(c.recvMem.free(c.host.dev), c.sends.mem.free(c.host.dev))
}

// destroy destroys what newConn and Close have left.
func (c *Conn) destroy() error {
	if c.qp == nil {
		return nil
	}
	return errors.Join(destroyPair(c.host.dev, c.qp, c.cq), c.freeMemory())
}
