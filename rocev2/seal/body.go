// SPDX-License-Identifier: Apache-2.0

package seal

import "github.com/softroce/softroce-xdp/rocev2"

// Sealable reports whether packets with this opcode are sealed on an encrypted queue pair:
// those of RC and UC, and the packets of this project that go to a queue pair. Packets without
// payload are sealed too, so that nobody can forge an ACK or an atomic operation. CNPs, control
// packets and UD are not sealed.
func Sealable(op rocev2.Opcode) bool {
	switch op.Class() {
	case rocev2.ClassRC, rocev2.ClassUC:
		return true
	case rocev2.ClassControl:
		return op == rocev2.OpSACK || op >= rocev2.OpOWrite && op <= rocev2.OpONak
	}
	return false
}

// Plain returns the place of the plain data in the place of the payload that Datagram.Begin
// has returned for Overhead bytes more. It panics if place is shorter than Overhead.
func Plain(place []byte) []byte {
	return place[HeadLen : len(place)-TagLen : len(place)-TagLen]
}

// maxHeaders is more than BTH and extended headers of every opcode have, in bytes.
const maxHeaders = 64

// maskedByte is the byte of the BTH with FECN and BECN, which the ICRC does not cover either.
const maskedByte = 4

// associated is the scratch memory of one packet. It is part of a Sealer or Opener because
// arguments of an interface method would otherwise be allocated.
type associated struct {
	nonce [saltLen + 8]byte
	data  [maxHeaders + HeadLen]byte
}

// headers returns the length of BTH and extended headers in a body from BTH to tag.
func headers(body []byte) (int, error) {
	if len(body) < rocev2.BTHLen+Overhead {
		return 0, ErrShort
	}
	op := rocev2.Opcode(body[0])
	if !Sealable(op) {
		return 0, ErrOpcode
	}
	n := rocev2.BTHLen + int(op.Info().ExtLen)
	if len(body) < n+Overhead {
		return 0, ErrShort
	}
	return n, nil
}

// set copies the associated data: BTH with the masked byte as ones, extended headers, epoch and
// counter. head is the length of the first two.
func (a *associated) set(body []byte, head int) []byte {
	n := copy(a.data[:], body[:head+HeadLen])
	a.data[maskedByte] = 0xFF
	return a.data[:n]
}

// blocks is how many blocks of AES a packet with n bytes of plain data takes: one for each
// 16 bytes, and one for the tag.
func blocks(n int) uint64 { return uint64(n+15)/16 + 1 }
