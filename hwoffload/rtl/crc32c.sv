// SPDX-License-Identifier: Apache-2.0
//
// crc32c computes CRC-32C (Castagnoli, RFC 3385) over words of 64 bits.
//
// In a clock with valid = 1, the lowest `bytes` bytes of data are added, bits 0 to 7 first.
// bytes is 0 to 8. first = 1 starts a new sum with them. crc is the sum of what was added
// before this clock, in the form of hash/crc32: initial value and result inverted.
//
// Latency: 1 clock; a word in each clock.
module crc32c (
    input  logic        clk,
    input  logic        rst,
    input  logic        valid,
    input  logic        first,
    input  logic [63:0] data,
    input  logic [ 3:0] bytes,
    output logic [31:0] crc
);

  localparam logic [31:0] POLYNOMIAL = 32'h82f63b78;  // reflected

  function automatic logic [31:0] add_byte(input logic [31:0] old, input logic [7:0] value);
    add_byte = old ^ {24'd0, value};
    for (int i = 0; i < 8; i++)
      add_byte = {1'b0, add_byte[31:1]} ^ (add_byte[0] ? POLYNOMIAL : 32'd0);
  endfunction

  logic [31:0] sum;  // not inverted
  logic [31:0] next;
  always_comb begin
    next = first ? ~32'd0 : sum;
    for (int i = 0; i < 8; i++) if (bytes > 4'(i)) next = add_byte(next, data[8*i+:8]);
  end

  always_ff @(posedge clk)
    if (rst) sum <= ~32'd0;
    else if (valid) sum <= next;

  assign crc = ~sum;

endmodule
