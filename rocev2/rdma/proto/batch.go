// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"encoding/binary"
	"fmt"
)

// TBatch is a message with several requests, which the server executes in order, up to the first that fails. Each
// one has a Header, of which Type counts, and its body. The reply has a Header with the Status and the body for each
// request that was executed; instead of a body, the text of the error behind the last one. Descriptors of the reply
// are in the order of the requests.
//
// A queue pair and a completion queue that the batch itself makes have the handle 0 in the requests behind them.
const TBatch Type = 0x300

// MaxBatch is how many requests a batch has at most.
const MaxBatch = 8

// Part is a request of a batch: a pointer to its structure, and one to that of its reply, which may be nil.
type Part struct {
	Type           Type
	Request, Reply any
}

// role is what a request of a batch does.
type role int

const (
	none   role = iota // batches do not have it
	makes              // an object
	ends               // an object
	others             // those of a queue pair and of the communication manager
)

func roleOf(t Type) role {
	switch t {
	case TCreateCQ, TCreateQP, TRegArena:
		return makes
	case TDestroyCQ, TDestroyQP:
		return ends
	case TModifyQP, TCMAccept, TCMReady, TCMDisconnect:
		return others
	}
	return none
}

// AppendBatch appends the message of a batch.
func AppendBatch(b []byte, seq uint32, parts []Part) []byte {
	b = Append(b, Header{Type: TBatch, Seq: seq}, nil)
	for _, p := range parts {
		b = Append(b, Header{Type: p.Type}, p.Request)
	}
	return b
}

// DecodeBatch reads the body of a batch. A batch makes objects or ends some: the descriptors of what it has made are
// sent behind the last request. One that waits for a neighbour does neither, since the server executes what does in
// the order of the messages.
func DecodeBatch(b []byte) ([]Part, error) {
	var parts []Part
	var seen [others + 1]bool
	for len(b) > 0 {
		h, rest, err := Split(b)
		if err != nil {
			return nil, err
		}
		req, reply, _ := Bodies(h.Type)
		n := sizeOf(req)
		switch {
		case len(parts) == MaxBatch:
			return nil, fmt.Errorf("%w: a batch of more than %d requests", ErrProtocol, MaxBatch)
		case roleOf(h.Type) == none:
			return nil, fmt.Errorf("%w: type %d in a batch", ErrProtocol, h.Type)
		case len(rest) < n:
			return nil, fmt.Errorf("%w: a request of type %d in a batch has %d bytes, not %d", ErrProtocol, h.Type, len(rest), n)
		}
		if err := Decode(rest[:n], req); err != nil {
			return nil, err
		}
		seen[roleOf(h.Type)] = true
		parts, b = append(parts, Part{h.Type, req, reply}), rest[n:]
	}
	switch {
	case seen[makes] && seen[ends]:
		return nil, fmt.Errorf("%w: a batch that makes objects and ends some", ErrProtocol)
	case (seen[makes] || seen[ends]) && BatchWaits(parts):
		return nil, fmt.Errorf("%w: a batch that waits for a neighbour and makes or ends objects", ErrProtocol)
	}
	return parts, nil
}

// BatchWaits is Waits for a batch.
func BatchWaits(parts []Part) bool {
	for _, p := range parts {
		if Waits(p.Type, p.Request) {
			return true
		}
	}
	return false
}

// DecodeResults reads the results of a batch into the replies of its parts. It returns how many were executed
// without an error, and the error of the first that was not.
func DecodeResults(b []byte, parts []Part) (done int, err error) {
	for i := range parts {
		h, rest, err := Split(b)
		if err != nil {
			return i, err
		}
		if h.Status != StatusOK {
			return i, &Error{Status: h.Status, Text: string(rest)}
		}
		n := sizeOf(parts[i].Reply)
		if err := Decode(rest[:min(n, len(rest))], parts[i].Reply); err != nil {
			return i, err
		}
		b = rest[n:]
	}
	return len(parts), nil
}

// sizeOf is the length of a body.
func sizeOf(body any) int {
	if body == nil {
		return 0
	}
	return binary.Size(body)
}
