// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/hwoffload/regs"

// command executes the commands of a write to a WO field.
func (m *Model) command(addr uint64, bits uint32) {
	if addr >= regs.CallsBase && addr < regs.CallsBase+regs.CallsStride {
		m.calls(addr-regs.CallsBase, bits)
		return
	}
	if addr >= regs.TaskBase && addr < regs.TaskBase+regs.TaskStride {
		m.tasks.command(addr-regs.TaskBase, bits)
		return
	}
	if m.data.command(addr, bits) {
		return
	}
	if addr >= regs.DdrBase && addr < regs.DdrBase+regs.DdrStride {
		m.ddrCommand(addr-regs.DdrBase, bits)
		return
	}
	if bits == 0 || addr < regs.PortsBase || addr >= regs.PortsBase+regs.PortsCount*regs.PortsStride {
		return
	}
	port := addr - (addr-regs.PortsBase)%regs.PortsStride
	if addr-port == regs.PortsCommandOffset && regs.PortsCommand(bits).ClearCounters() {
		for at := uint64(regs.PortsTxPacketsOffset); at < regs.PortsRxIcrcErrorsOffset+8; at += 4 {
			if w, value := m.find(port + at); w != nil {
				*value = w.reset()
			}
		}
	}
}
