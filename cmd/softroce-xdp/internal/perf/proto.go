// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// DefaultPort is the TCP port of the server.
const DefaultPort = 18516

// protoVersion changes with every change of the messages.
const protoVersion = 4

// The conversation is one JSON object a line. The client speaks first:
//
//	client  hello     the plan and the client's queue pairs
//	server  hello     its queue pairs and memory, or an error; they are ready to receive
//	client  ready     so are the client's: sends may begin in both directions
//	server  ready
//	client  finished  after the last completion
//	server  finished  with what arrived
//
// If one side closes the connection, the other one ends the run at once.
type message struct {
	Version  int               `json:"version,omitempty"`
	Error    string            `json:"error,omitempty"`
	Plan     *Plan             `json:"plan,omitempty"`
	Addr     netip.Addr        `json:"address,omitzero"` // the RoCE address
	Rails    []netip.Addr      `json:"rails,omitempty"`  // addresses of the further interfaces
	MTU      int               `json:"mtu,omitempty"`    // MTU of the interfaces
	Pairs    []pair            `json:"queue_pairs,omitempty"`
	Buffer   uint64            `json:"buffer,omitempty"` // address of the memory; each pair has Size bytes
	RKey     uint32            `json:"rkey,omitempty"`
	Messages uint64            `json:"messages,omitempty"` // client: sent; server: arrived
	Idle     []int             `json:"idle,omitempty"`     // client: queue pairs on which nothing has completed
	Bad      string            `json:"bad_data,omitempty"` // place where the check failed
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// pair is a queue pair as its peer needs to know it.
type pair struct {
	QPN  uint32 `json:"qpn"`
	PSN  uint32 `json:"psn"`
	QKey uint32 `json:"qkey,omitempty"`

	// Handshake is the offer or the answer of an encrypted run.
	Handshake []byte `json:"handshake,omitempty"`
}

// controlConn is one end of the TCP connection on which client and server agree.
type controlConn struct {
	ctx  context.Context
	conn net.Conn
	enc  *json.Encoder
	dec  *json.Decoder
}

// answerTime is the longest time for an answer of the peer, which may have to create thousands
// of queue pairs.
const answerTime = 30 * time.Second

func newControlConn(ctx context.Context, c net.Conn) *controlConn {
	// The input of an unverified peer is limited to the size that 16384 queue pairs need.
	return &controlConn{ctx, c, json.NewEncoder(c), json.NewDecoder(io.LimitReader(c, 16<<20))}
}

// guard closes the connection when the context ends, until release is called. release reports
// whether the connection is still open.
func (t *controlConn) guard() (release func() bool) {
	return context.AfterFunc(t.ctx, func() { _ = t.conn.Close() })
}

func (t *controlConn) send(m message) error {
	m.Version = protoVersion
	_ = t.conn.SetWriteDeadline(time.Now().Add(answerTime))
	if err := t.enc.Encode(m); err != nil {
		return fmt.Errorf("tell the peer: %w", err)
	}
	return nil
}

// ask sends a message and waits for the answer.
func (t *controlConn) ask(m message) (message, error) {
	if err := t.send(m); err != nil {
		return message{}, err
	}
	return t.receive(answerTime)
}

// receive waits for the peer's next message, at most for d.
func (t *controlConn) receive(d time.Duration) (message, error) {
	_ = t.conn.SetReadDeadline(time.Now().Add(d))
	return t.next()
}

// next is receive without setting a deadline.
func (t *controlConn) next() (message, error) {
	var m message
	err := t.dec.Decode(&m)
	switch {
	case err != nil && t.ctx.Err() != nil:
		return m, t.ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return m, errors.New("the peer does not answer; the server has one run at a time: is it busy with another?")
	case errors.Is(err, io.EOF):
		return m, errors.New("the peer hung up")
	case err != nil:
		return m, fmt.Errorf("receive from the peer: %w", err)
	case m.Error != "":
		return m, fmt.Errorf("the peer says: %s", texts.Printable(m.Error))
	case m.Version != protoVersion:
		return m, fmt.Errorf("the peer speaks version %d of the protocol, this program %d: run the same version on both", m.Version, protoVersion)
	}
	return m, nil
}
