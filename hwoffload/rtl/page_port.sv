// SPDX-License-Identifier: Apache-2.0
//
// page_port gives a core the words of its operand, one page after the other. mr_check translates the
// address of each page before its first word is read.
//
// start is 1 for one clock, with the virtual address and the length of the operand in bytes, while
// no read is in flight. The core then reads all words of the operand in order.
//
// flush = 1: a region has ended; the next word is read after another check. cancel = 1: no word
// is read any more.
//
// check_valid, check_va and check_length hold until check_taken. check_done comes with the answer of
// mr_check. After a fault, failed is 1 until the next start, and fault is its number, 0 after
// cancel. core_cancel is 1 from then on, when all words that were read have arrived.
module page_port (
    input  logic        clk,
    input  logic        rst,

    input  logic        start,
    input  logic [63:0] start_va,
    input  logic [31:0] start_length,
    input  logic        flush,
    input  logic        cancel,
    output logic        failed,
    output logic [ 2:0] fault,

    input  logic        core_valid,
    output logic        core_ready,
    output logic        core_cancel,

    output logic        mem_valid,
    input  logic        mem_ready,
    output logic [33:0] mem_addr,
    input  logic        mem_arrived,

    output logic        check_valid,
    input  logic        check_taken,
    output logic [63:0] check_va,
    output logic [31:0] check_length,
    input  logic        check_done,
    input  logic [ 2:0] check_fault,
    input  logic [33:0] check_addr,
    input  logic [31:0] check_bytes
);

  logic [63:0] va;  // of the next word
  logic [31:0] left;  // bytes of the operand from there on
  logic [31:0] piece;  // of them, those in the page
  logic [33:0] addr;  // of the next word in the DDR; only the first one is not aligned
  logic checking;  // mr_check works on the page
  logic stale;  // its answer is of before a flush
  logic [5:0] in_flight;  // words that were read and have not arrived

  logic [31:0] bytes;  // of the operand in the next word
  assign bytes = 32'd8 - {29'd0, addr[2:0]};

  assign mem_valid = core_valid && piece != 32'd0 && in_flight != '1;
  assign mem_addr = {addr[33:3], 3'd0};
  assign core_ready = mem_valid && mem_ready;
  assign core_cancel = failed && in_flight == 6'd0 && !checking;

  assign check_valid = core_valid && piece == 32'd0 && left != 32'd0 && !checking && !failed;
  assign check_va = va;
  assign check_length = left;

  always_ff @(posedge clk) begin
    if (rst) begin
      failed <= 1'b0;
      checking <= 1'b0;
      in_flight <= 6'd0;
      piece <= 32'd0;
      left <= 32'd0;
    end else begin
      in_flight <= in_flight + {5'd0, core_ready} - {5'd0, mem_arrived};
      if (core_ready) begin
        va <= va + {32'd0, bytes};
        addr <= {addr[33:3] + 31'd1, 3'd0};
        left <= left > bytes ? left - bytes : 32'd0;
        piece <= piece > bytes ? piece - bytes : 32'd0;
      end
      if (check_valid && check_taken) begin
        checking <= 1'b1;
        stale <= 1'b0;
      end
      if (checking && check_done) begin
        checking <= 1'b0;
        if (check_fault != 3'd0) begin
          failed <= 1'b1;
          fault  <= check_fault;
        end else if (!stale && !failed) begin
          addr  <= check_addr;
          piece <= check_bytes;
        end
      end
      if (flush) begin
        piece <= 32'd0;
        stale <= 1'b1;
      end
      // The core wants more words than the operand has: the region has another alignment now.
      if (cancel || core_valid && piece == 32'd0 && left == 32'd0) begin
        piece  <= 32'd0;
        failed <= 1'b1;
        fault  <= 3'd0;
      end
      if (start) begin
        va <= start_va;
        left <= start_length;
        piece <= 32'd0;
        failed <= 1'b0;
      end
    end
  end

endmodule
