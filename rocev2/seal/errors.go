// SPDX-License-Identifier: Apache-2.0

package seal

// Error is the reason why a packet was not sealed or not opened. It is one byte, so returning
// it does not allocate; the constants compare with == and errors.Is.
type Error uint8

// The reasons. An Opener counts each of them; a packet with one of them must be dropped without
// an answer, like one with a wrong ICRC.
const (
	errNone      Error = iota
	ErrShort           // no room for the headers of the opcode and Overhead
	ErrOpcode          // packets with this opcode are never sealed
	ErrPad             // a pad byte is not zero
	ErrEpoch           // neither the previous, the present nor the next epoch
	ErrReplay          // the counter was received already
	ErrOld             // the counter is left of the window
	ErrForged          // the tag does not match: another key, or changed bytes
	ErrNoData          // nothing has given the packet its data (Built)
	ErrExhausted       // no more epochs, or too many forged packets: connect again
	numErrors
)

var errorText = [numErrors]string{
	errNone:      "no error",
	ErrShort:     "packet too short for epoch, counter and tag",
	ErrOpcode:    "packets with this opcode are not encrypted: allowed are those of RC, UC and between queue pairs",
	ErrPad:       "pad bytes of an encrypted packet must be zero",
	ErrEpoch:     "epoch of another key",
	ErrReplay:    "packet was received already",
	ErrOld:       "packet is older than the replay window",
	ErrForged:    "tag does not match: wrong key or changed packet",
	ErrNoData:    "packet got no data",
	ErrExhausted: "keys are used up: connect again",
}

// Error returns a lower-case sentence with the package name.
func (e Error) Error() string {
	if e < numErrors {
		return "seal: " + errorText[e]
	}
	return "seal: unknown error"
}
