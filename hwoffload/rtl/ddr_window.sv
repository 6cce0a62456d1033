// SPDX-License-Identifier: Apache-2.0
//
// ddr_window decodes an address in BAR space to a DDR address (S2.5): bits 0 to 27 of the DDR
// address are the offset in the window of 256 MB, bits 28 to 33 the selected window. Bits 32
// and 33 are the bank (S2.1).
//
// bar_addr is in bytes, relative to the BAR; 29 bits cover registers and window. select is the
// register ddr.window. in_window is 0 for the address of a register, and then the others have
// no meaning. bank_addr is the address in bytes in the bank.
//
// Latency: none, it has no clock.
module ddr_window (
    input  logic [28:0] bar_addr,
    input  logic [ 5:0] select,
    output logic        in_window,
    output logic [33:0] ddr_addr,
    output logic [ 1:0] bank,
    output logic [31:0] bank_addr
);

  // The window lies at a multiple of its size, so the upper bits tell it from the registers.
  localparam logic [31:0] BASE = softroce_regs_pkg::DDR_WINDOW_BASE_RESET;
  localparam logic [31:0] BYTES = softroce_regs_pkg::DDR_WINDOW_BYTES_RESET;

  assign in_window = ({3'd0, bar_addr} & ~(BYTES - 32'd1)) == BASE;
  assign ddr_addr = {select, bar_addr[27:0]};
  assign bank = ddr_addr[33:32];
  assign bank_addr = ddr_addr[31:0];

endmodule
