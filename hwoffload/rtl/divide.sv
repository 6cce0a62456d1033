// SPDX-License-Identifier: Apache-2.0
//
// divide divides unsigned numbers, one bit of the quotient in each clock.
//
// start takes dividend and divisor; it is ignored while a division is in progress. done is 1
// for one clock, and quotient holds until the next start. A divisor of 0 gives a quotient of
// all ones. Latency: WIDTH + 1 clocks from start to done.
module divide #(
    parameter int WIDTH = 64
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             start,
    input  logic [WIDTH-1:0] dividend,
    input  logic [WIDTH-1:0] divisor,
    output logic             done,
    output logic [WIDTH-1:0] quotient
);

  localparam int COUNT = $clog2(WIDTH + 1);

  logic [COUNT-1:0] left;  // clocks
  logic [WIDTH-1:0] by;
  logic [WIDTH-1:0] rest;
  logic [WIDTH:0] next;  // the rest and the next bit of the dividend
  logic fits;
  assign next = {rest, quotient[WIDTH-1]};
  assign fits = next >= {1'b0, by};

  // The dividend leaves the register at the top while the quotient enters below.
  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) left <= '0;
    else if (left != '0) begin
      rest <= WIDTH'(fits ? next - {1'b0, by} : next);
      quotient <= {quotient[WIDTH-2:0], fits};
      left <= left - 1'b1;
      done <= left == COUNT'(1);
    end else if (start) begin
      quotient <= dividend;
      by <= divisor;
      rest <= '0;
      left <= COUNT'(WIDTH);
    end
  end

endmodule
