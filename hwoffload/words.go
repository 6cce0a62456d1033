// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"bufio"
	"encoding/binary"
)

// ReadWords reads words of 64 bits from addr on, each as by R64. Behind a socket this is much
// faster than one access after the other. After a failure the words are all ones.
func ReadWords(d Device, addr uint64, out []uint64) {
	if s, ok := d.(interface {
		R64s(addr uint64, dst []uint64)
	}); ok {
		s.R64s(addr, out)
		return
	}
	for i := range out {
		out[i] = d.R64(addr + uint64(i)*8)
	}
}

// wordsAhead is the number of words that are read together at most.
const wordsAhead = 512

// readAhead executes a read of 64 bits together with those of the words behind it that have
// arrived already, so that a server that is itself a client asks for all at once.
func (c session) readAhead(in *bufio.Reader, out []byte, m *message) ([]byte, error) {
	v, err := m.words(1)
	if err != nil {
		return out, err
	}
	var words [wordsAhead]uint64
	n := uint64(1)
	const request = headLen + 8
	for ; n < wordsAhead && in.Buffered() >= request; n++ {
		next, err := in.Peek(request)
		if err != nil || next[0] != opR64 || binary.LittleEndian.Uint16(next[2:]) != 8 || binary.LittleEndian.Uint64(next[headLen:]) != v[0]+8*n ||
			v[0]+8*n > c.device.Size()-8 {
			break
		}
		in.Discard(request)
	}
	var wrong Fault // the device would keep the failure
	if !wrong.Check(v[0], 8, c.device.Size()) {
		return out, wrong.Err()
	}
	ReadWords(c.device, v[0], words[:n])
	if err := c.device.Err(); err != nil {
		return out, err
	}
	for _, w := range words[:n] {
		out = appendMessage(out, opR64, 0, w)
	}
	return out, nil
}
