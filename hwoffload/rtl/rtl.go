// SPDX-License-Identifier: Apache-2.0

// Package rtl has the sources of the card in SystemVerilog, and simulates them with Verilator and a
// C++ compiler. Internal to this project. docs/card/card-rtl.md describes the sources, and says
// what is simulated.
//
// Start builds the simulator of the card, which is a program of its own, starts it and connects to
// it: a Card is a hwoffload.Device whose registers are those of the simulated modules. StartBench
// simulates one module: a Bench sets its inputs and reads its outputs, clock by clock. BuildModule
// is for any C++ main.
//
// Programs are kept in the user's cache directory, by a hash of their sources, so that a
// second build takes no time. Those that were built more than a month ago are removed.
package rtl

import "embed"

// Files are the sources.
//
//go:embed *.sv
var Files embed.FS

// CardFiles are the names of the files that module softroce_card needs, packages first.
var CardFiles = []string{
	"softroce_regs_pkg.sv", "softroce_decode.sv", "register_store.sv", "dest_table.sv", "stamp_times.sv",
	"receive_update.sv", "four_case.sv", "entry_engine.sv", "ddr_window.sv", "ns_clock.sv",
	"crc32c.sv", "crc32c_core.sv", "compute_cores.sv", "mr_check.sv", "region_accept.sv", "page_port.sv", "task_operand.sv",
	"task_descriptor.sv", "task_ring.sv", "task_engine.sv", "softroce_card.sv",
}
