// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// bytesConn is a connection whose client has sent everything already.
type bytesConn struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *bytesConn) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *bytesConn) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// ramDevice is a Device of memory without any rules. An access outside of it panics.
type ramDevice struct{ mem [4096]byte }

func (d *ramDevice) Size() uint64              { return uint64(len(d.mem)) }
func (d *ramDevice) Err() error                { return nil }
func (d *ramDevice) Close() error              { return nil }
func (d *ramDevice) R32(addr uint64) uint32    { return binary.LittleEndian.Uint32(d.mem[addr:]) }
func (d *ramDevice) R64(addr uint64) uint64    { return binary.LittleEndian.Uint64(d.mem[addr:]) }
func (d *ramDevice) W32(addr uint64, v uint32) { binary.LittleEndian.PutUint32(d.mem[addr:], v) }
func (d *ramDevice) W64(addr uint64, v uint64) { binary.LittleEndian.PutUint64(d.mem[addr:], v) }

// Any bytes of a client: no access outside of the device, and each answer is well-formed and
// belongs to a read. Only the last one may be an error.
func FuzzSession(f *testing.F) {
	f.Add(appendMessage(nil, opR32, 0, 8))
	f.Add(appendMessage(appendMessage(nil, opW64, 0, 8, 1<<40), opR64, 0, 8))
	f.Add(appendMessage(nil, opR64, 0, 4092))
	f.Add([]byte{opW32, 0, 16, 0, 1})
	f.Fuzz(func(t *testing.T, request []byte) {
		c := &bytesConn{in: bytes.NewReader(request)}
		err := session{&ramDevice{}, c}.run()
		var body [maxBody]byte
		for c.out.Len() > 0 {
			m, e := readMessage(&c.out, body[:])
			switch {
			case e != nil:
				t.Fatalf("malformed answer: %v", e)
			case m.status != 0:
				if err == nil || c.out.Len() > 0 || !strings.Contains(err.Error(), string(m.body)) {
					t.Fatalf("answer %q, %d bytes follow, error %v", m.body, c.out.Len(), err)
				}
			case m.op != opR32 && m.op != opR64 || len(m.body) != 8:
				t.Fatalf("answer %#x with %d bytes", m.op, len(m.body))
			}
		}
	})
}
