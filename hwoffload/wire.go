// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The protocol of a card behind a stream socket. Numbers are little-endian. The client is the
// driver, the server has the card.
//
// The client starts with 8 bytes: "SRCS", the version of the protocol (8 bits), 24 zero bits.
// The server answers with 16 bytes: "SRCS", its version, a status (enum below), 16 zero bits,
// the length of the address space (64).
//
// After that the client sends requests. A request has an operation (8), 8 zero bits, the
// length of the body in bytes (16), and the body. Reads are answered in the order of their
// requests, writes are not answered. An answer has the operation, a status (8), the length of
// the body (16), and the body: the value (64), or the text of an error if the status is not 0.
// After an error the server closes the connection.
//
// Operations from OpSimulator on are those of a simulator; hwoffload/rtl defines them.
const (
	opR32 = 1 // body: address (64)
	opR64 = 2
	opW32 = 3 // body: address (64), value (64)
	opW64 = 4

	// OpSimulator is the first operation that only simulators have.
	OpSimulator = 0x40
)

const (
	wireMagic   = "SRCS"
	wireVersion = 1

	helloLen   = 8
	welcomeLen = 16
	headLen    = 4
	maxBody    = 1024 // bytes of a body
)

// Status of the server's first message.
const (
	welcomeOK      = 0
	welcomeVersion = 1 // the server has another version of the protocol
	welcomeBusy    = 2 // another client uses the card
)

var (
	errNoProtocol = errors.New("the other side does not use the protocol of cards")
)

func versionError(theirs byte) error {
	return fmt.Errorf("the other side has version %d of the protocol, this program version %d: use a program and a card of the same version", theirs, wireVersion)
}

// hello is the client's first message.
func hello() []byte { return append([]byte(wireMagic), wireVersion, 0, 0, 0) }

// welcome is the server's first message.
func welcome(status byte, size uint64) []byte {
	b := append([]byte(wireMagic), wireVersion, status, 0, 0)
	return binary.LittleEndian.AppendUint64(b, size)
}

// readHello reads the client's first message. status says what to answer.
func readHello(r io.Reader) (status byte, err error) {
	var b [helloLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	switch {
	case string(b[:4]) != wireMagic:
		return 0, errNoProtocol
	case b[4] != wireVersion:
		return welcomeVersion, versionError(b[4])
	}
	return welcomeOK, nil
}

// readWelcome reads the server's first message, and returns the length of the address space.
func readWelcome(r io.Reader) (size uint64, err error) {
	var b [welcomeLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	switch {
	case string(b[:4]) != wireMagic:
		return 0, errNoProtocol
	case b[4] != wireVersion || b[5] == welcomeVersion:
		return 0, versionError(b[4])
	case b[5] == welcomeBusy:
		return 0, ErrInUse
	case b[5] != welcomeOK:
		return 0, fmt.Errorf("status %d, which this program does not know: use a newer one", b[5])
	}
	return binary.LittleEndian.Uint64(b[8:]), nil
}

// appendMessage appends a message. status is 0 in requests.
func appendMessage(b []byte, op, status byte, body ...uint64) []byte {
	b = append(b, op, status)
	b = binary.LittleEndian.AppendUint16(b, uint16(8*len(body)))
	for _, v := range body {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// message is a request or an answer. Its body is valid until the next one is read.
type message struct {
	op, status byte
	body       []byte
}

// readMessage reads a message into buf, which has room for maxBody bytes.
func readMessage(r io.Reader, buf []byte) (m message, err error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err // io.EOF: there is no further message
	}
	n := int(binary.LittleEndian.Uint16(head[2:]))
	if n > maxBody {
		return m, fmt.Errorf("message %#x with %d bytes: the longest has %d", head[0], n, maxBody)
	}
	m = message{head[0], head[1], buf[:n]}
	if _, err := io.ReadFull(r, m.body); err != nil {
		return m, fmt.Errorf("message %#x: %w", m.op, noEOF(err))
	}
	return m, nil
}

// noEOF turns the end of a stream inside of a message into an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// words returns the n numbers of a body.
func (m *message) words(n int) (v [2]uint64, err error) {
	if len(m.body) != 8*n {
		return v, fmt.Errorf("message %#x with %d bytes: it has %d", m.op, len(m.body), 8*n)
	}
	for i := range n {
		v[i] = binary.LittleEndian.Uint64(m.body[8*i:])
	}
	return v, nil
}
