// SPDX-License-Identifier: Apache-2.0
//
// crc32c_core is a compute core (S1.1): it computes the CRC-32C of a range of the DDR.
//
// Task: task_* are taken in a clock in which task_valid and task_ready are 1. task_addr is a DDR
// address in bytes, of any alignment, task_length is in bytes. The MR check comes before this
// module: a range is not checked here, and addresses wrap at 16 GB. The sum of no bytes is 0.
//
// Memory: rd_addr is the address of a word of 8 bytes, taken when rd_valid and rd_ready are 1.
// The words come back on data in the same order, each in a clock in which data_valid is 1, at
// the earliest in the clock after the address. The core takes a word in each clock.
//
// Result: result_valid, result_tag and result_crc hold until result_ready is 1. busy is 1 from
// the task on until then.
//
// Cancel: while no read is without its data, a clock with cancel = 1 ends the task. Its result then
// has no meaning.
//
// Latency: 3 clocks from the task to result_valid, and 1 for each word after the first, if the
// memory answers in the clock after rd_valid; 1 for no bytes. One task at a time.
module crc32c_core (
    input  logic        clk,
    input  logic        rst,

    input  logic        task_valid,
    output logic        task_ready,
    input  logic [33:0] task_addr,
    input  logic [31:0] task_length,
    input  logic [15:0] task_tag,
    input  logic        cancel,

    output logic        rd_valid,
    input  logic        rd_ready,
    output logic [33:0] rd_addr,
    input  logic        data_valid,
    input  logic [63:0] data,

    output logic        result_valid,
    input  logic        result_ready,
    output logic [15:0] result_tag,
    output logic [31:0] result_crc,
    output logic        busy
);

  logic [30:0] next_word;  // address of the next read, in words
  logic [29:0] reads;  // left to do
  logic [31:0] left;  // bytes left to add
  logic [2:0] skip;  // bytes before the operand in the next word
  logic first;
  logic empty;
  logic [31:0] crc;

  // How many words the range touches: up to 2^29 + 1.
  logic [29:0] touched;
  assign touched = 30'(({1'b0, task_length} + {30'd0, task_addr[2:0]} + 33'd7) >> 3);

  logic [3:0] room;  // bytes of the word from skip on
  logic [3:0] added;
  assign room = 4'd8 - {1'b0, skip};
  assign added = left < {28'd0, room} ? left[3:0] : room;

  crc32c adder (
      .clk,
      .rst,
      .valid(data_valid),
      .first,
      .data (data >> {skip, 3'd0}),
      .bytes(added),
      .crc
  );

  assign task_ready = !busy;
  assign rd_valid   = reads != 30'd0;
  assign rd_addr    = {next_word, 3'd0};
  assign result_crc = empty ? 32'd0 : crc;

  always_ff @(posedge clk) begin
    if (rst) begin
      busy <= 1'b0;
      result_valid <= 1'b0;
      reads <= 30'd0;
    end else if (!busy) begin
      if (task_valid) begin
        next_word <= task_addr[33:3];
        reads <= task_length == 32'd0 ? 30'd0 : touched;
        left <= task_length;
        skip <= task_addr[2:0];
        first <= 1'b1;
        empty <= task_length == 32'd0;
        result_tag <= task_tag;
        result_valid <= task_length == 32'd0;
        busy <= 1'b1;
      end
    end else begin
      if (rd_valid && rd_ready) begin
        next_word <= next_word + 31'd1;
        reads <= reads - 30'd1;
      end
      if (data_valid) begin
        left <= left - {28'd0, added};
        skip <= 3'd0;
        first <= 1'b0;
        result_valid <= left == {28'd0, added};
      end
      if (cancel) begin
        reads <= 30'd0;
        result_valid <= 1'b1;
      end
      if (result_valid && result_ready) begin
        result_valid <= 1'b0;
        busy <= 1'b0;
      end
    end
  end

endmodule
