// SPDX-License-Identifier: Apache-2.0

// Package rtl has the sources of the card in SystemVerilog. Package sim simulates them, and
// docs/card/card-rtl.md describes them.
package rtl

import "embed"

// Files are the sources.
//
//go:embed *.sv
var Files embed.FS

// Card are the names of the files that module softroce_card needs, packages first.
var Card = []string{
	"softroce_regs_pkg.sv", "softroce_decode.sv", "register_store.sv", "dest_table.sv", "stamp_times.sv",
	"receive_update.sv", "four_case.sv", "entry_engine.sv", "ddr_window.sv", "ns_clock.sv",
	"crc32c.sv", "crc32c_core.sv", "compute_cores.sv", "mr_check.sv", "region_accept.sv", "page_port.sv", "task_operand.sv",
	"task_descriptor.sv", "task_ring.sv", "task_engine.sv", "softroce_card.sv",
}
