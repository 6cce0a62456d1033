// SPDX-License-Identifier: Apache-2.0

package bpf

import "github.com/cilium/ebpf"

// RunAgentCall calls the agent call program for the first n slots of the call buffer, and
// returns the number of slots done. op is AgentCollect, AgentApply or AgentRead. The call
// buffer has one user at a time.
func RunAgentCall(prog *ebpf.Program, op uint32, n int) (int, error) {
	h := callHeader{op: op, count: uint32(n)}
	return call(prog, "agent call", h.bytes(), nil)
}
