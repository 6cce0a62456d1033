// SPDX-License-Identifier: Apache-2.0
//
// mr_check with the registers of blocks mr and mtt in memory. A write has an address in the
// BAR. A read is answered after 1 + slow clocks.
module mr_check_tb (
    input  logic        clk,
    input  logic        rst,
    input  logic        start,
    input  logic [31:0] key,
    input  logic [23:0] pd,
    input  logic [63:0] va,
    input  logic [31:0] length,
    input  logic [ 4:0] rights,
    input  logic [ 3:0] slow,
    input  logic        write,
    input  logic [31:0] write_addr,
    input  logic [63:0] write_data,
    output logic        done,
    output logic        ready,
    output logic [ 2:0] fault,
    output logic [33:0] ddr_addr,
    output logic [31:0] ddr_bytes
);

  localparam int MR_WORDS = 8192;
  localparam int MTT_WORDS = 65536;
  logic [63:0] mr[MR_WORDS];
  logic [63:0] mtt[MTT_WORDS];

  logic mem_req, mem_ack;
  logic [31:0] mem_addr;
  logic [63:0] mem_data;
  logic [3:0] waited;

  mr_check dut (
      .clk, .rst, .req_valid(start), .req_ready(ready), .req_key(key), .req_pd(pd), .req_va(va),
      .req_length(length), .req_rights(rights), .mem_req, .mem_addr, .mem_ack, .mem_data, .done,
      .fault, .ddr_addr, .ddr_bytes
  );

  // An address that is outside of both blocks reads 0 here, and ends the simulation.
  logic is_mr, is_mtt;
  assign is_mr = mem_addr >= softroce_regs_pkg::MR_BASE
      && mem_addr < softroce_regs_pkg::MR_BASE + MR_WORDS * 8;
  assign is_mtt = mem_addr >= softroce_regs_pkg::MTT_BASE
      && mem_addr < softroce_regs_pkg::MTT_BASE + MTT_WORDS * 8;

  always_ff @(posedge clk) begin
    mem_ack <= 1'b0;
    waited  <= 4'd0;
    if (mem_req && !mem_ack && waited < slow) waited <= waited + 4'd1;
    else if (mem_req && !mem_ack) begin
      if (!is_mr && !is_mtt || mem_addr[2:0] != 3'd0) $fatal(1, "mr_check reads %h", mem_addr);
      mem_data <= is_mtt ? mtt[mem_addr[18:3]] : mr[mem_addr[15:3]];
      mem_ack  <= 1'b1;
    end
    if (write && write_addr >= softroce_regs_pkg::MTT_BASE) mtt[write_addr[18:3]] <= write_data;
    else if (write) mr[write_addr[15:3]] <= write_data;
  end

endmodule
