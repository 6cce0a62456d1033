// SPDX-License-Identifier: Apache-2.0

package cmpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// PerftestPort is where perftest listens by default.
const PerftestPort = 18515

// Perftest is one end of `ib_send_bw -R` (perftest 24.07). The two ends make two connections at the
// same port. Over the first one, they exchange what they have by SENDs in turn: the client sends
// first, the server answers with a message of the same length. The second connection has the data.
//
// The messages, all numbers big-endian: the version of the protocol, 16 bytes of text; twice 4 bytes
// about buffers; the PMTU as one digit with a zero byte; and then, seven times, a record of a queue
// pair. The second connection is made between the first and the second record, the data follows the
// sixth record. At the end, the server disconnects the second connection.
type Perftest struct {
	Control, Data *App
	Messages      int // number of messages
	Size          int // bytes of each message
}

// A record of a queue pair: 4 bytes each of LID, outstanding READs, QPN, PSN and rkey, 4 bytes unused,
// 8 of an address, 16 of the GID, 4 each of the SRQ's number and of the index of the GID.
const (
	recordLen = 56
	recordQPN = 8
	recordPSN = 12
	recordGID = 32
)

// window is how many receives are posted at a time.
func (p *Perftest) window() int { return min(p.Messages, 32, sendAt/p.Size) }

// Serve is the end without -c: Control listens at the port already.
func (p *Perftest) Serve(port uint16) error {
	service := mad.IPServiceID(mad.PortTCP, port)
	if err := errors.Join(p.Control.recv(0, recordLen), p.Data.PostRecvs(p.window(), p.Size), p.Control.Accept()); err != nil {
		return fmt.Errorf("first connection: %w", err)
	}
	// The client calls again when the first record is answered.
	if err := errors.Join(p.Control.Session.Unlisten(service), p.Data.Session.Listen(service, 0)); err != nil {
		return err
	}
	return p.run(false, p.Data.Accept, func() error {
		for i := range p.Messages {
			c, err := p.Data.complete(verbs.OpRecv, 1)
			if err != nil || int(c.Bytes) != p.Size {
				return fmt.Errorf("message %d has %d bytes: %w", i, c.Bytes, err)
			}
			if i+p.window() < p.Messages {
				if err := p.Data.recv(i%p.window()*p.Size, p.Size); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Call is the client.
func (p *Perftest) Call(local, peer netip.Addr, port uint16) error {
	if err := errors.Join(p.Control.recv(0, recordLen), p.Control.Dial(local, peer, port)); err != nil {
		return fmt.Errorf("first connection: %w", err)
	}
	again := func() error {
		for {
			err := p.Data.Dial(local, peer, port)
			var r *cm.RejectedError
			if !errors.As(err, &r) || r.Reason != mad.ReasonInvalidServiceID {
				return err
			}
			if _, err := p.Data.Await(cm.Gone); err != nil { // the server does not listen again yet
				return err
			}
		}
	}
	return p.run(true, again, func() error {
		for left := p.Messages; left > 0; left -= min(left, p.window()) {
			if err := p.Data.Send(min(left, p.window()), p.Size); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Perftest) run(client bool, connect, data func() error) error {
	version, err := p.exchange(client, append([]byte("6.23"), make([]byte, 12)...))
	if err != nil || !strings.Contains(string(version), ".") {
		return fmt.Errorf("version %q: %w", version, err)
	}
	for _, m := range [][]byte{{0, 0, 0x10, 0}, {0, 0, 0, 64}, {'3', 0}} { // PMTU 1024 is 3
		if _, err := p.exchange(client, m); err != nil {
			return fmt.Errorf("parameters: %w", err)
		}
	}
	if err := p.record(client, false); err != nil {
		return err
	}
	if err := connect(); err != nil {
		return fmt.Errorf("second connection: %w", err)
	}
	for i := range 5 {
		if err := p.record(client, i > 0); err != nil {
			return err
		}
	}
	if err := data(); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if err := p.record(client, true); err != nil {
		return err
	}
	if client {
		_, err := p.Data.Await(cm.Disconnected)
		return err
	}
	return p.Data.HangUp()
}

// record exchanges the records. With connected, that of the peer has the queue pair of the second
// connection.
func (p *Perftest) record(client, connected bool) error {
	mine := make([]byte, recordLen)
	binary.BigEndian.PutUint32(mine[recordQPN:], p.Data.QP.QPN())
	binary.BigEndian.PutUint32(mine[recordPSN:], 0x222)
	b, err := p.exchange(client, mine)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if !connected {
		return nil
	}
	a, err := p.Data.QP.Query()
	if qpn := binary.BigEndian.Uint32(b[recordQPN:]); err == nil && qpn != a.DestQPN {
		err = fmt.Errorf("the record has queue pair %#x, the connection %#x: % x", qpn, a.DestQPN, b)
	}
	return err
}

// exchange sends a message and returns that of the peer.
func (p *Perftest) exchange(client bool, mine []byte) ([]byte, error) {
	if client {
		if err := p.Control.tell(mine); err != nil {
			return nil, err
		}
	}
	theirs, err := p.Control.hear(len(mine))
	if err == nil && !client {
		err = p.Control.tell(mine)
	}
	return theirs, err
}

func (a *App) tell(b []byte) error {
	copy(a.buf[sendAt:], b)
	if err := a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sge(sendAt, len(b))}); err != nil {
		return err
	}
	_, err := a.complete(verbs.OpSend, 1)
	return err
}

func (a *App) hear(n int) ([]byte, error) {
	c, err := a.complete(verbs.OpRecv, 1)
	if err != nil {
		return nil, err
	}
	if int(c.Bytes) != n {
		return nil, fmt.Errorf("a message of %d bytes, want %d", c.Bytes, n)
	}
	return append([]byte(nil), a.buf[:n]...), a.recv(0, recordLen)
}
