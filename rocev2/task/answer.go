// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/binary"
	"fmt"
)

// AnswerLen is the length of an answer in bytes.
const AnswerLen = 8

// Answer is the outcome of a task. Its bytes, big-endian, in a SEND or in a slot of a ring:
//
//	0 version(8)=1  1 status(8)  2 zero(24)  5 task id(24)
type Answer struct {
	ID     ID
	Status Status
	Err    error // reason why a task of this host failed; not part of the bytes
}

// Append appends the bytes of the answer to b.
func (a Answer) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, version, byte(a.Status), 0, 0), uint32(a.ID)&MaxID)
}

// ParseAnswer reads an answer.
func ParseAnswer(b []byte) (Answer, error) {
	if len(b) != AnswerLen {
		return Answer{}, fmt.Errorf("task: an answer of %d bytes: it has %d", len(b), AnswerLen)
	}
	if b[0] != version {
		return Answer{}, fmt.Errorf("task: an answer of version %d: only %d is known", b[0], version)
	}
	if b[2] != 0 || b[3] != 0 || b[4] != 0 {
		return Answer{}, fmt.Errorf("task: reserved bits of an answer are not 0: %x", b)
	}
	return Answer{ID: ID(binary.BigEndian.Uint32(b[4:])), Status: Status(b[1])}, nil
}

// Immediate is the answer as immediate data: bits 8 to 31 are the task id, bits 0 to 7 the
// status.
func (a Answer) Immediate() uint32 { return uint32(a.ID)<<8 | uint32(a.Status) }

// AnswerOf reads an answer that is immediate data.
func AnswerOf(imm uint32) Answer { return Answer{ID: ID(imm >> 8), Status: Status(imm)} }

// answerTo is the answer to a task with an outcome; err is nil on success.
func answerTo(id ID, err *Error) Answer {
	if err == nil {
		return Answer{ID: id}
	}
	return Answer{ID: id, Status: err.Status, Err: err}
}
