// SPDX-License-Identifier: Apache-2.0

package mad

// Error says why bytes are not the message that they were taken for. It is one byte, so that
// returning it as an error does not allocate; the constants compare with == and errors.Is.
type Error uint8

// What Parse functions and setters return.
const (
	errNone      Error = iota
	ErrLength          // a MAD has exactly 256 bytes
	ErrVersion         // base version other than 1
	ErrClass           // another management class than communication management, or not version 2
	ErrMethod          // messages of the communication manager have the method Send
	ErrAttr            // another message
	ErrIPVersion       // IP addressing header of another version, or neither IPv4 nor IPv6
	ErrFamily          // source and destination must both be IPv4 or both be IPv6
	ErrPrivate         // more private data than the message has room for
)

var errorText = [...]string{
	errNone:      "no error",
	ErrLength:    "a MAD has 256 bytes, this has more or fewer",
	ErrVersion:   "the base version of the MAD is not 1",
	ErrClass:     "not a MAD of communication management (class 7, version 2)",
	ErrMethod:    "the method of the MAD is not Send (3)",
	ErrAttr:      "the MAD is another message",
	ErrIPVersion: "the IP addressing header is not of version 0, or names neither IPv4 nor IPv6",
	ErrFamily:    "source and destination must both be IPv4 or both be IPv6 addresses",
	ErrPrivate:   "too much private data: each message has a limit, see its PrivateLen constant",
}

// Error returns a lower-case sentence with the package name.
func (e Error) Error() string {
	if int(e) < len(errorText) {
		return "mad: " + errorText[e]
	}
	return "mad: unknown error"
}
