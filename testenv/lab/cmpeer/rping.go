// SPDX-License-Identifier: Apache-2.0

package cmpeer

import (
	"encoding/binary"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Rping exchanges texts as rping(1) does. The client tells where its text is; the server reads it,
// and writes it back to where the client says next. What tells is a SEND of address, key and length,
// 16 bytes big-endian.
type Rping struct{ *App }

// Places in the memory of an App: 16 bytes to send, 16 to receive, the text.
const (
	infoLen = 16
	textAt  = 2 * infoLen
	textMax = 4096
)

// Start posts the first receive. It is called before the connection.
func (r Rping) Start() error { return r.recv(infoLen, infoLen) }

func (r Rping) do(wr verbs.SendWR) error {
	wr.Flags = verbs.Signaled
	if err := r.QP.PostSend(&wr); err != nil {
		return err
	}
	_, err := r.complete(wr.Op, 1)
	return err
}

// tell sends the place of the text.
func (r Rping) tell(n int) error {
	binary.BigEndian.PutUint64(r.buf, r.mr.VA()+textAt)
	binary.BigEndian.PutUint32(r.buf[8:], r.mr.RKey())
	binary.BigEndian.PutUint32(r.buf[12:], uint32(n))
	return r.do(verbs.SendWR{Op: verbs.OpSend, SGL: r.sge(0, infoLen)})
}

// told takes the peer's SEND and posts the next receive.
func (r Rping) told() (va uint64, key uint32, n int, err error) {
	if _, err := r.complete(verbs.OpRecv, 1); err != nil {
		return 0, 0, 0, err
	}
	info := r.buf[infoLen:textAt]
	va, key, n = binary.BigEndian.Uint64(info), binary.BigEndian.Uint32(info[8:]), int(binary.BigEndian.Uint32(info[12:]))
	if n > textMax {
		return 0, 0, 0, fmt.Errorf("the peer's text has %d bytes", n)
	}
	return va, key, n, r.Start()
}

// Serve answers count pings and returns the last text.
func (r Rping) Serve(count int) (text string, err error) {
	for range count {
		va, key, n, err := r.told()
		if err != nil {
			return text, fmt.Errorf("source: %w", err)
		}
		if err := r.do(verbs.SendWR{Op: verbs.OpRead, SGL: r.sge(textAt, n), RemoteAddr: va, RKey: key}); err != nil {
			return text, fmt.Errorf("read: %w", err)
		}
		text = string(r.buf[textAt : textAt+n])
		if err := r.tell(0); err != nil {
			return text, err
		}
		if va, key, _, err = r.told(); err != nil {
			return text, fmt.Errorf("sink: %w", err)
		}
		if err := r.do(verbs.SendWR{Op: verbs.OpWrite, SGL: r.sge(textAt, n), RemoteAddr: va, RKey: key}); err != nil {
			return text, fmt.Errorf("write: %w", err)
		}
		if err := r.tell(0); err != nil {
			return text, err
		}
	}
	return text, nil
}

// Ping sends a text as the client and wants it back.
func (r Rping) Ping(text string) error {
	n := len(text)
	copy(r.buf[textAt:], text)
	for step := range 2 { // the source, then the sink
		if err := r.tell(n); err != nil {
			return err
		}
		if _, _, _, err := r.told(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step == 0 {
			clear(r.buf[textAt:][:textMax])
		}
	}
	if got := string(r.buf[textAt : textAt+n]); got != text {
		return fmt.Errorf("%q came back, want %q", got, text)
	}
	return nil
}
