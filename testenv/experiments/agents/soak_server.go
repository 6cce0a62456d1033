// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Sizes of a connection of a soak.
const (
	soakMemory  = 64 << 10 // bytes of the server that a client writes and reads
	soakMessage = 8 << 10  // longest message
	datagramMin = 5        // CRC-32C, and the version of IP
	datagramMax = 900      // random bytes of a UD message, below any PMTU
	datagramKey = 0x1357   // Q_Key
	soakAccess  = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
)

// First bytes of the messages of a client.
const (
	askEcho     = 'E' // the server sends the message back
	askChecksum = 'C' // with offset and length, 32 bits each: the server sends the CRC-32C of its memory
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func soakRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x50414B)) }

// soakEncryption are the keys of an end: all servers have one key pair, and all clients another.
func soakEncryption(server bool) rdma.Option {
	own, peer := byte(1), byte(2)
	if server {
		own, peer = peer, own
	}
	identity := func(b byte) *seal.Identity {
		i, err := seal.IdentityOf(bytes.Repeat([]byte{b}, 32))
		if err != nil {
			panic(err)
		}
		return i
	}
	keys := []seal.PublicKey{identity(peer).Public()}
	return rdma.WithEncryption(rdma.Encryption{Identity: identity(own), Peers: func(netip.Addr) []seal.PublicKey { return keys }})
}

// serve accepts all kinds of connections on a device until the context or the device ends.
func (p *soakProgram) serve(ctx context.Context, dev verbs.Device) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, part := range []func(context.Context, verbs.Device) error{
		func(ctx context.Context, dev verbs.Device) error { return p.accept(ctx, dev, plainPort) },
		func(ctx context.Context, dev verbs.Device) error {
			return p.accept(ctx, dev, sealedPort, soakEncryption(true))
		},
		p.acceptDisordered,
		p.receiveDatagrams,
	} {
		all.Go(func() {
			if err := part(ctx, dev); err != nil && ctx.Err() == nil {
				p.fail(err)
			}
			cancel() // a part ends with the device: the others do, too
		})
	}
	all.Wait()
}

// accept serves the connections of a port.
func (p *soakProgram) accept(ctx context.Context, dev verbs.Device, port int, options ...rdma.Option) error {
	l, err := rdma.Listen(ctx, dev, fmt.Sprintf(":%d", port), options...)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		p.add(func(d *SoakProgress) { d.Connections++ })
		all.Go(func() {
			if err := p.answer(ctx, c); err != nil && ctx.Err() == nil {
				p.fail(err)
			}
		})
	}
}

// answer lends memory to a client and answers its messages until it closes the connection.
func (p *soakProgram) answer(ctx context.Context, c *rdma.Conn) error {
	var memory []byte
	var region *rdma.Region
	defer func() { // the connection ends first: its client writes to the memory
		_ = c.Close()
		if region != nil {
			_ = region.Deregister()
		}
		if memory != nil {
			_ = rdma.Free(c.Device(), memory)
		}
	}()
	var err error
	if memory, err = rdma.Alloc(c.Device(), soakMemory); err != nil {
		return err
	}
	if region, err = c.Register(memory, soakAccess); err != nil {
		return err
	}
	remote, _ := region.Remote().MarshalBinary()
	if err := c.Send(ctx, remote); err != nil {
		return err
	}
	for {
		m, err := c.RecvMessage(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := answerTo(m.Bytes(), memory)
		n := m.Len()
		if err == nil {
			err = c.Send(ctx, reply)
		}
		_ = m.Release()
		if err != nil {
			return err
		}
		p.add(func(d *SoakProgress) { d.Operations++; d.Bytes += uint64(n) })
	}
}

// answerTo returns the answer to a message.
func answerTo(message, memory []byte) ([]byte, error) {
	switch {
	case len(message) > 0 && message[0] == askEcho:
		return message, nil
	case len(message) == 9 && message[0] == askChecksum:
		from, n := binary.LittleEndian.Uint32(message[1:]), binary.LittleEndian.Uint32(message[5:])
		if uint64(from)+uint64(n) <= uint64(len(memory)) {
			return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(memory[from:from+n], castagnoli)), nil
		}
	}
	return nil, fmt.Errorf("%w: a message of %d bytes, %x", errWrong, len(message), message[:min(len(message), 16)])
}

// acceptDisordered accepts queue pairs in out-of-order mode and lends memory to each.
func (p *soakProgram) acceptDisordered(ctx context.Context, dev verbs.Device) error {
	l, err := rdma.Listen(ctx, dev, fmt.Sprintf(":%d", disorderedPort))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		r, err := l.Next(ctx)
		if err != nil {
			return fmt.Errorf("next request: %w", err)
		}
		all.Go(func() {
			if err := p.lend(ctx, dev, r); err != nil && ctx.Err() == nil {
				p.fail(err)
			}
		})
	}
}

// lend accepts a request with a queue pair in out-of-order mode, and waits until the connection ends.
func (p *soakProgram) lend(ctx context.Context, dev verbs.Device, r *rdma.Request) error {
	e, err := newSoakEnd(dev, verbs.QPInit{Type: verbs.RC, OutOfOrder: true}, soakMemory)
	if err != nil {
		return errors.Join(err, r.Reject(nil))
	}
	defer e.close()
	remote, _ := rdma.Remote{Addr: e.mr.VA(), Len: soakMemory, RKey: e.mr.RKey()}.MarshalBinary()
	link, err := r.AcceptQP(ctx, e.qp, rdma.WithPrivate(remote))
	if err != nil {
		return fmt.Errorf("accept a queue pair: %w", err)
	}
	p.add(func(d *SoakProgress) { d.Connections++ })
	select {
	case <-link.Done():
	case <-ctx.Done():
	}
	_ = link.Close()
	return nil
}

// receiveDatagrams announces a UD queue pair and compares what arrives: four bytes of CRC-32C, the version
// of IP, then data.
func (p *soakProgram) receiveDatagrams(ctx context.Context, dev verbs.Device) error {
	const depth, slot = 64, 1024
	e, err := newSoakEnd(dev, verbs.QPInit{Type: verbs.UD, MaxRecv: depth}, depth*slot)
	if err != nil {
		return fmt.Errorf("datagrams: %w", err)
	}
	defer e.close()
	if err := verbs.Connect(e.qp, verbs.Endpoint{QKey: datagramKey}, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
		return fmt.Errorf("datagrams: %w", err)
	}
	a, err := rdma.Announce(ctx, dev, fmt.Sprintf(":%d", datagramPort), e.qp, datagramKey)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	defer a.Close()
	post := func(i uint64) error {
		return e.qp.PostRecv(&verbs.RecvWR{ID: i, SGL: []verbs.SGE{e.sge(int(i)*slot, slot)}})
	}
	for i := range uint64(depth) {
		if err := post(i); err != nil {
			return fmt.Errorf("datagrams: %w", err)
		}
	}
	for {
		c, err := e.next(ctx)
		if err != nil {
			return fmt.Errorf("datagrams: %w", err)
		}
		if c.Status != verbs.StatusSuccess {
			return fmt.Errorf("datagrams: %s", c.Status)
		}
		m := e.memory[int(c.WRID)*slot:][:c.Bytes][verbs.GRHLen:]
		if len(m) < datagramMin || binary.LittleEndian.Uint32(m) != crc32.Checksum(m[4:], castagnoli) {
			p.fail(fmt.Errorf("%w: a datagram of %d bytes, %x", errWrong, len(m), m[:min(len(m), 16)]))
		} else {
			p.add(func(d *SoakProgress) {
				d.Datagrams++
				d.Bytes += uint64(len(m))
				d.recordTraffic(datagramsReceived(m[4] == 6), monotonic(), nil)
			})
		}
		if err := post(c.WRID); err != nil {
			return fmt.Errorf("datagrams: %w", err)
		}
	}
}

// soakEnd is a queue pair with memory and a completion queue of its own.
type soakEnd struct {
	dev    verbs.Device
	pd     verbs.PD
	cq     verbs.CQ
	qp     verbs.QP
	mr     verbs.MR
	memory []byte
}

func newSoakEnd(dev verbs.Device, init verbs.QPInit, n int) (_ *soakEnd, err error) {
	e := &soakEnd{dev: dev}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.memory, err = rdma.Alloc(dev, n); err != nil {
		return nil, err
	}
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(256); err != nil {
		return nil, err
	}
	if e.mr, err = e.pd.RegMR(e.memory, soakAccess); err != nil {
		return nil, err
	}
	init.SendCQ, init.RecvCQ = e.cq, e.cq
	e.qp, err = e.pd.CreateQP(init)
	return e, err
}

// close destroys what there is. After the end of the device each call returns its error.
func (e *soakEnd) close() {
	if e.qp != nil {
		_ = e.qp.Destroy()
	}
	if e.mr != nil {
		_ = e.mr.Deregister()
	}
	if e.cq != nil {
		_ = e.cq.Destroy()
	}
	if e.pd != nil {
		_ = e.pd.Free()
	}
	if e.memory != nil {
		_ = rdma.Free(e.dev, e.memory)
	}
}

func (e *soakEnd) sge(from, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.VA() + uint64(from), Len: uint32(n), LKey: e.mr.LKey()}
}

// next waits for a completion.
func (e *soakEnd) next(ctx context.Context) (verbs.Completion, error) {
	var out [1]verbs.Completion
	for {
		if e.cq.Poll(out[:]) == 1 {
			return out[0], nil
		}
		if err := e.cq.Wait(ctx, false); err != nil {
			return out[0], err
		}
	}
}

// do executes a work request and waits for its completion.
func (e *soakEnd) do(ctx context.Context, wr verbs.SendWR) error {
	wr.Flags |= verbs.Signaled
	if err := e.qp.PostSend(&wr); err != nil {
		return err
	}
	c, err := e.next(ctx)
	if err == nil && c.Status != verbs.StatusSuccess {
		err = fmt.Errorf("operation %v: %s", wr.Op, c.Status)
	}
	return err
}
