// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// visitors is how many goroutines of a client visit servers at the same time.
const visitors = 3

// visitLimit bounds a visit, and one that takes longer fails the soak: its operations end by themselves after some seconds,
// with or without an answer of the peer.
const visitLimit = 5 * time.Minute

// visit connects to servers, again and again, until the context or the device ends.
func (p *soakProgram) visit(ctx context.Context, dev verbs.Device) {
	var all sync.WaitGroup
	lost, lose := context.WithCancel(ctx)
	defer lose()
	kinds := &deck{rand: rand.New(rand.NewPCG(p.Seed, visitors)), hosts: len(p.Spare)}
	for i := range uint64(visitors) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(p.Seed, i))
			for lost.Err() == nil {
				v, began := kinds.draw(), monotonic()
				err := p.visitOne(dev, r, v)
				if !p.visitEnded(v, began, err) {
					lose()
				} else if err != nil {
					pause(lost, 50*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// visitOne makes one visit. The end of the program does not interrupt it.
func (p *soakProgram) visitOne(dev verbs.Device, r *rand.Rand, v soakVisit) error {
	ctx, cancel := context.WithTimeout(context.Background(), visitLimit)
	defer cancel()
	peer := p.peer(v)
	at := func(port uint16) string { return netip.AddrPortFrom(peer, port).String() }
	switch v.transport {
	case datagramVisit:
		return p.sendDatagrams(ctx, dev, r, peer)
	case disorderedVisit:
		return p.disorder(ctx, dev, r, at(disorderedPort))
	case sealedVisit:
		return p.talk(ctx, dev, r, at(sealedPort), soakEncryption(false))
	}
	return p.talk(ctx, dev, r, at(plainPort))
}

// talk makes a connection, and compares what WRITE, READ and SEND have transferred.
func (p *soakProgram) talk(ctx context.Context, dev verbs.Device, r *rand.Rand, address string, options ...rdma.Option) (err error) {
	c, err := rdma.Dial(ctx, dev, address, options...)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := c.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close: %w", closeErr)
		}
	}()
	p.add(func(d *SoakProgress) { d.Connections++ })
	buf := make([]byte, c.MaxMessage())
	n, err := c.Recv(ctx, buf)
	if err != nil {
		return err
	}
	var remote rdma.Remote
	if err := remote.UnmarshalBinary(buf[:n]); err != nil || remote.Len != soakMemory {
		return fmt.Errorf("%w: the description of the memory is %x: %w", errWrong, buf[:n], err)
	}
	for range 1 + r.IntN(20) {
		if err := p.exchange(ctx, c, r, remote, buf); err != nil {
			return err
		}
	}
	return nil
}

// exchange writes random data, has the server check it, reads it back, and sends a message that comes back.
func (p *soakProgram) exchange(ctx context.Context, c *rdma.Conn, r *rand.Rand, remote rdma.Remote, buf []byte) error {
	data := randomBytes(r, 1+r.IntN(soakMemory/2))
	from := r.IntN(soakMemory - len(data))
	to, err := remote.Slice(uint64(from), uint64(len(data)))
	if err != nil {
		return err
	}
	if err := c.Write(ctx, data, to); err != nil {
		return err
	}
	ask := binary.LittleEndian.AppendUint32([]byte{askChecksum}, uint32(from))
	if err := c.Send(ctx, binary.LittleEndian.AppendUint32(ask, uint32(len(data)))); err != nil {
		return err
	}
	n, err := c.Recv(ctx, buf)
	if err != nil {
		return err
	}
	if sum := crc32.Checksum(data, castagnoli); n != 4 || binary.LittleEndian.Uint32(buf) != sum {
		return fmt.Errorf("%w: after a WRITE of %d bytes at %d to %s the peer's checksum is %x, not %08x",
			errWrong, len(data), from, c.RemoteAddr(), buf[:n], sum)
	}
	back := make([]byte, len(data))
	if err := c.Read(ctx, back, to); err != nil {
		return err
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("%w: READ of %d bytes at %d from %s: %s", errWrong, len(data), from, c.RemoteAddr(), firstDifference(back, data))
	}
	message := append([]byte{askEcho}, randomBytes(r, r.IntN(soakMessage))...)
	if err := c.Send(ctx, message); err != nil {
		return err
	}
	if n, err = c.Recv(ctx, buf); err != nil {
		return err
	}
	if !bytes.Equal(buf[:n], message) {
		return fmt.Errorf("%w: a message of %d bytes to %s came back with %d: %s",
			errWrong, len(message), c.RemoteAddr(), n, firstDifference(buf[:n], message))
	}
	p.add(func(d *SoakProgress) { d.Operations += 5; d.Bytes += 2*uint64(len(data)) + 2*uint64(len(message)) })
	return nil
}

// disorder makes a connection in out-of-order mode, and compares what WRITE and READ have transferred.
func (p *soakProgram) disorder(ctx context.Context, dev verbs.Device, r *rand.Rand, address string) error {
	e, err := newSoakEnd(dev, verbs.QPInit{Type: verbs.RC, OutOfOrder: true}, 2*soakMemory)
	if err != nil {
		return err
	}
	defer e.close()
	link, err := rdma.Connect(ctx, dev, address, e.qp)
	if err != nil {
		return err
	}
	defer link.Close()
	p.add(func(d *SoakProgress) { d.Connections++ })
	var remote rdma.Remote
	if err := remote.UnmarshalBinary(link.PeerPrivate()); err != nil || remote.Len != soakMemory {
		return fmt.Errorf("%w: the description of the memory is %x: %w", errWrong, link.PeerPrivate(), err)
	}
	sent, back := e.memory[:soakMemory], e.memory[soakMemory:]
	for range 1 + r.IntN(10) {
		n := 1 + r.IntN(soakMemory)
		copy(sent, randomBytes(r, n))
		wr := verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: remote.Addr, RKey: remote.RKey, SGL: []verbs.SGE{e.sge(0, n)}}
		if err := e.do(ctx, wr); err != nil {
			return err
		}
		clear(back)
		wr.Op, wr.SGL = verbs.OpRead, []verbs.SGE{e.sge(soakMemory, n)}
		if err := e.do(ctx, wr); err != nil {
			return err
		}
		if !bytes.Equal(sent[:n], back[:n]) {
			return fmt.Errorf("%w: out-of-order mode, %d bytes to %s: %s", errWrong, n, address, firstDifference(back[:n], sent[:n]))
		}
		p.add(func(d *SoakProgress) { d.Operations += 2; d.Bytes += 2 * uint64(n) })
	}
	return nil
}

// sendDatagrams sends UD messages, which the server compares if they arrive.
func (p *soakProgram) sendDatagrams(ctx context.Context, dev verbs.Device, r *rand.Rand, peer netip.Addr) error {
	to, err := rdma.Resolve(ctx, dev, netip.AddrPortFrom(peer, datagramPort).String())
	if err != nil {
		return err
	}
	e, err := newSoakEnd(dev, verbs.QPInit{Type: verbs.UD}, 1024)
	if err != nil {
		return err
	}
	defer e.close()
	if err := verbs.Connect(e.qp, verbs.Endpoint{QKey: datagramKey}, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
		return err
	}
	ah, err := e.pd.CreateAH(verbs.AddressVector{Dst: to.Addr})
	if err != nil {
		return err
	}
	defer func() { _ = ah.Destroy() }()
	for range 1 + r.IntN(30) {
		m := randomBytes(r, datagramMin+r.IntN(datagramMax))
		m[4] = 4
		if peer.Is6() {
			m[4] = 6
		}
		binary.LittleEndian.PutUint32(m, crc32.Checksum(m[4:], castagnoli))
		copy(e.memory, m)
		err := e.do(ctx, verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{e.sge(0, len(m))}, AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey})
		if err != nil {
			return err
		}
		p.add(func(d *SoakProgress) { d.Operations++; d.Bytes += uint64(len(m)) })
	}
	return nil
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, (n+7)&^7)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}

// firstDifference describes where two slices differ.
func firstDifference(got, want []byte) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d: %x, not %x", i, got[i:min(len(got), i+8)], want[i:min(len(want), i+8)])
		}
	}
	return fmt.Sprintf("%d bytes, not %d", len(got), len(want))
}
