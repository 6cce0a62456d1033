// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

const (
	messageBytes = 1 << 20 // memory that the data comes from, and goes to
	dataAt       = 22      // behind the header and the number
	crcBytes     = 4
)

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i) + byte(i>>8)*3
	}
}

// place is where the data of packet n of n bytes is in a message.
func (l *loop) place(n uint64) int {
	size := l.spec.Size - dataAt - crcBytes
	return int(n%uint64(messageBytes/size)) * size
}

// put copies the data of packet n to its frame, and computes its CRC.
func (l *loop) put(frame []byte, n uint64) {
	end, at := l.spec.Size-crcBytes, l.place(n)
	copy(frame[dataAt:end], l.memory[0][at:])
	binary.LittleEndian.PutUint32(frame[end:], crc32.ChecksumIEEE(frame[:end]))
}

// take checks the CRC of packet n, and copies its data.
func (l *loop) take(p xsk.Packet, n uint64) bool {
	at, left, sum := l.place(n), l.spec.Size, uint32(0)
	var crc [crcBytes]byte
	for i := range p.Segments() {
		b := p.Segment(i)
		left -= len(b)
		if left < crcBytes { // the CRC begins here or before
			k := min(len(b), crcBytes-left)
			copy(crc[crcBytes-left-k:], b[len(b)-k:])
			b = b[:len(b)-k]
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		if i == 0 {
			b = b[dataAt:]
		}
		at += copy(l.memory[1][at:], b)
	}
	return left == 0 && sum == binary.LittleEndian.Uint32(crc[:])
}
