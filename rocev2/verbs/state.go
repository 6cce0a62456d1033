// SPDX-License-Identifier: Apache-2.0

package verbs

// QPType is the transport service of a queue pair.
type QPType uint8

// The services.
const (
	RC QPType = iota + 1 // reliable connection
	UC                   // unreliable connection
	UD                   // unreliable datagram
)

var typeNames = [...]string{RC: "RC", UC: "UC", UD: "UD"}

func (t QPType) String() string {
	if t >= RC && t <= UD {
		return typeNames[t]
	}
	return "unknown service"
}

// Has reports whether the service has an operation (IBTA 9.1).
func (t QPType) Has(op Op) bool {
	switch op {
	case OpSend, OpSendImm:
		return true
	case OpWrite, OpWriteImm, OpLocalInv, OpBindWindow:
		return t != UD
	case OpSendInv, OpRead, OpCompareSwap, OpFetchAdd:
		return t == RC
	}
	return false
}

// State is a state of a queue pair (IBTA 10.3.1).
type State uint8

// The states.
const (
	StateReset State = iota
	StateInit
	StateRTR // ready to receive
	StateRTS // ready to send
	StateSQD // send queue drained or draining
	StateSQE // send queue in error (UC, UD)
	StateErr
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}
