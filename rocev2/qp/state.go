// SPDX-License-Identifier: Apache-2.0

package qp

// State is where a queue pair stands (IBTA 10.3.1).
type State uint8

// The states.
const (
	Reset State = iota
	Init
	RTR // ready to receive
	RTS // ready to send
	SQD // send queue drained (or draining)
	SQE // send queue in error (UC, UD)
	Err
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}
