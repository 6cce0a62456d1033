// SPDX-License-Identifier: Apache-2.0

package vmm

// HandlerPID returns the process that serves the faults of a map.
func (m *Map) HandlerPID() int { return m.cmd.Process.Pid }

// MemFD returns the memory of a map.
func (m *Map) MemFD() int { return m.memfd }
