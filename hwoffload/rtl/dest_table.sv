// SPDX-License-Identifier: Apache-2.0
//
// dest_table is the memory of the destination table (S1.2): entries of nine lines of 64 bytes,
// as struct dest_regs has them. Entry 1024 is the buffer of block calls. Beside the memory it
// has a bit for each entry that has a window to evaluate, its field queued.
//
// rdata has the line that was addressed in the clock before. Bit i of enable writes the 32
// bits from 32 i on. With clear, addr = clear_addr is set to 0.
module dest_table (
    input  logic         clk,
    input  logic         clear,
    input  logic [ 13:0] clear_addr,
    input  logic [ 10:0] entry,
    input  logic [  3:0] line,
    input  logic [ 15:0] enable,
    input  logic [511:0] wdata,
    output logic [511:0] rdata,
    output logic [1023:0] active
);

  localparam int LINES = 9 * 1025;
  localparam int QUEUED = softroce_regs_pkg::DEST_QUEUED_WORD_QUEUED_BIT;

  logic [511:0] mem[LINES];

  logic [13:0] addr;
  logic [15:0] write;
  logic [511:0] value;
  assign addr  = clear ? clear_addr : {3'd0, entry} * 14'd9 + {10'd0, line};
  assign write = clear ? 16'hffff : enable;
  assign value = clear ? 512'd0 : wdata;

  always_ff @(posedge clk) begin
    rdata <= mem[addr];
    for (int i = 0; i < 16; i++) begin
      if (write[i]) mem[addr][i*32+:32] <= value[i*32+:32];
    end
  end

  always_ff @(posedge clk) begin
    if (clear) active <= 1024'd0;
    else if (line == 4'd0 && enable[QUEUED/32] && !entry[10])
      active[entry[9:0]] <= wdata[QUEUED+:8] != 8'd0;
  end

endmodule
