// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
)

// An encrypted run has a handshake for each queue pair. Offer and answer are in the messages with the queue
// pairs; they name the ends by the addresses of the TCP connection.

// addrs returns the addresses of both ends of a TCP connection: of the client and of the server.
func addrs(client, server net.Addr) (c, s netip.Addr, err error) {
	a, err1 := netip.ParseAddrPort(client.String())
	b, err2 := netip.ParseAddrPort(server.String())
	return a.Addr().Unmap(), b.Addr().Unmap(), errors.Join(err1, err2)
}

// binding is what both ends know of a queue pair of the client.
func binding(client, server netip.Addr, p *pair) seal.Binding {
	return seal.Binding{Initiator: client, Responder: server, QPN: p.QPN, CommID: p.PSN}
}

// offers puts an offer into the description of each queue pair of the client. It does nothing for a plain run.
func (e *end) offers(c net.Conn, with *rdma.Encryption, pairs []pair) error {
	if with == nil {
		return nil
	}
	us, them, err := addrs(c.LocalAddr(), c.RemoteAddr())
	if err != nil {
		return err
	}
	for i := range pairs {
		h, err := with.Offer(binding(us, them, &pairs[i]))
		if err != nil {
			return fmt.Errorf("--encrypt: %w", err)
		}
		pairs[i].Handshake, e.handshakes = h.Message(), append(e.handshakes, h)
	}
	return nil
}

// answer takes the offers of the client, encrypts the queue pairs, and returns their description with the answers.
func (e *end) answer(c net.Conn, with *rdma.Encryption, offers []pair) ([]pair, error) {
	pairs := e.pairs()
	if with == nil {
		return pairs, nil
	}
	them, us, err := addrs(c.RemoteAddr(), c.LocalAddr())
	if err != nil {
		return nil, err
	}
	for i, x := range e.qps {
		if pairs[i].Handshake, err = with.Accept(x, binding(them, us, &offers[i]), rocev2.PSN(pairs[i].PSN), offers[i].Handshake); err != nil {
			return nil, fmt.Errorf("--encrypt: %w", err)
		}
	}
	return pairs, nil
}

// finish takes the answers of the server, and encrypts the queue pairs.
func (e *end) finish(with *rdma.Encryption, answers []pair) error {
	if with == nil {
		return nil
	}
	if len(answers) != len(e.qps) {
		return fmt.Errorf("the peer made %d queue pairs for our %d", len(answers), len(e.qps))
	}
	for i, x := range e.qps {
		if err := with.Finish(x, e.handshakes[i], seal.Accepted{QPN: answers[i].QPN, PSN: answers[i].PSN}, answers[i].Handshake); err != nil {
			return fmt.Errorf("--encrypt: %w", err)
		}
	}
	return nil
}

// sameEncryption refuses a plain client of an encrypting server, and the opposite.
func sameEncryption(p *Plan, with *rdma.Encryption) error {
	switch {
	case p.Encrypted && with == nil:
		return errors.New("the run is to be encrypted, and the server does not: start it with --encrypt")
	case !p.Encrypted && with != nil:
		return errors.New("the server takes encrypted runs only: use --encrypt")
	}
	return nil
}
