// SPDX-License-Identifier: Apache-2.0
//
// Two compute cores with a memory of 16 GB whose words are a function of their addresses.
//
// gap = 1: the memory takes a read now and then only. An address is answered three clocks later.
// together = 1: no core reads before both are busy: each task waits for the start of the other.
module compute_cores_tb (
    input  logic        clk,
    input  logic        rst,
    input  logic        task_valid,
    input  logic [33:0] task_addr,
    input  logic [31:0] task_length,
    input  logic [15:0] task_tag,
    input  logic        result_ready,
    input  logic        gap,
    input  logic        together,
    input  logic [ 1:0] cancel,  // has an effect on a core without a read in flight
    output logic        result_valid,
    output logic        task_ready,
    output logic [15:0] result_tag,
    output logic [31:0] result_crc,
    output logic [ 1:0] busy,
    output logic [63:0] busy_clocks_0,
    output logic [63:0] busy_clocks_1,
    output logic [31:0] tasks_0,
    output logic [31:0] tasks_1
);

  logic [1:0] rd_valid, rd_ready, data_valid;
  logic [67:0] rd_addr;
  logic [127:0] data;

  compute_cores dut (
      .clk, .rst, .task_valid, .task_ready, .task_addr, .task_length, .task_tag, .cancel(ends),
      .rd_valid, .rd_ready, .rd_addr, .data_valid, .data, .result_valid, .result_ready, .result_tag,
      .result_crc, .busy, .busy_clocks({busy_clocks_1, busy_clocks_0}), .tasks({tasks_1, tasks_0})
  );

  logic [1:0] ends;
  logic [15:0] noise;
  logic met;
  always_ff @(posedge clk)
    if (rst) begin
      noise <= 16'd1;
      met   <= 1'b0;
    end else begin
      noise <= {noise[14:0], noise[15] ^ noise[13] ^ noise[12] ^ noise[10]};
      met   <= met || &busy;
    end

  for (genvar i = 0; i < 2; i++) begin : port
    logic [2:0] taken;
    logic [33:0] addr[3];
    assign rd_ready[i] = (!gap || noise[3*i+:2] == 2'd0) && (!together || met);
    always_ff @(posedge clk) begin
      taken <= rst ? 3'd0 : {taken[1:0], rd_valid[i] && rd_ready[i]};
      addr[0] <= rd_addr[34*i+:34];
      addr[1] <= addr[0];
      addr[2] <= addr[1];
      if (!rst && rd_valid[i] && rd_addr[34*i+:3] != 3'd0) $fatal(1, "read at %h", rd_addr[34*i+:34]);
    end
    assign ends[i] = cancel[i] && taken == 3'd0 && !rd_ready[i];
    assign data_valid[i] = taken[2];
    assign data[64*i+:64] = {30'd0, addr[2]} * 64'h9e3779b97f4a7c15;
  end

endmodule
