// SPDX-License-Identifier: Apache-2.0
//
// ns_clock counts nanoseconds on a clock of any frequency: the time of timestamps (S1.3) and
// of the rate limiter (S1.8). CLK_HZ is the frequency, 1 to 4294967295. n clocks after it was
// set, ns is the value that was set plus n * 10^9 / CLK_HZ, rounded down: the part that is
// left over is kept in units of 1/CLK_HZ ns, so that no error adds up. Clocks with run = 0 do not
// count.
//
// load sets the time to load_ns, in ns. rst sets 0. Latency: 1 clock.
module ns_clock #(
    parameter logic [31:0] CLK_HZ = 32'd322265625  // 100 GbE: 10.3125 GHz / 32
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        run,
    input  logic        load,
    input  logic [63:0] load_ns,
    output logic [63:0] ns
);

  localparam logic [31:0] SECOND = 32'd1000000000;
  localparam logic [31:0] WHOLE = SECOND / CLK_HZ;  // ns of a clock
  localparam logic [31:0] REST = SECOND % CLK_HZ;

  logic [31:0] part;  // below CLK_HZ
  logic [32:0] sum;
  logic        carry;
  assign sum   = {1'b0, part} + {1'b0, REST};
  assign carry = sum >= {1'b0, CLK_HZ};

  always_ff @(posedge clk) begin
    if (rst || load) begin
      ns   <= rst ? 64'd0 : load_ns;
      part <= 32'd0;
    end else if (run) begin
      ns   <= ns + {32'd0, WHOLE} + {63'd0, carry};
      part <= 32'(carry ? sum - {1'b0, CLK_HZ} : sum);
    end
  end

endmodule
