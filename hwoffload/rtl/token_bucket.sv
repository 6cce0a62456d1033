// SPDX-License-Identifier: Apache-2.0
//
// token_bucket computes when a packet leaves (S1.8, S1.9), with the same bits as the data plane
// (bpf/lib/pace.h). The bucket of a destination is the time at which it is empty. The caller
// keeps that time with the rate in the destination table, and writes the new one back before
// the next packet to the same destination.
//
// Request: req_* are taken in a clock in which req_valid and req_ready are 1. Times are in ns
// on the clock of the pacer, and wrap at 2^64. rate_bps is in bit/s; 0 = unpaced: the packet
// leaves now, and next_tx_ns stays. bytes is the length of the L2 frame. burst_ns is what a
// destination that was idle may send at once, as time at its rate.
//
// Answer: done is 1 for one clock. The others hold until the next request: leaves_ns is the
// departure of the packet, next_tx_ns that of the next one. paced is 1 if the packet has to
// wait. overflow is 1 if the backlog was above 8 s already, so that the packet did not
// lengthen it.
//
// Latency: 67 clocks from the request to done, 1 of them if rate_bps is 0. One packet at a time.
module token_bucket (
    input  logic        clk,
    input  logic        rst,

    input  logic        req_valid,
    output logic        req_ready,
    input  logic [63:0] req_now_ns,
    input  logic [31:0] req_bytes,
    input  logic [63:0] req_rate_bps,
    input  logic [63:0] req_burst_ns,
    input  logic [63:0] req_next_tx_ns,

    output logic        done,
    output logic [63:0] leaves_ns,
    output logic [63:0] next_tx_ns,
    output logic        paced,
    output logic        overflow
);

  localparam logic [63:0] MAX_WAIT_NS = 64'd8000000000;  // PACE_MAX_WAIT_NS
  localparam logic [63:0] BIT_SECONDS = 64'd8000000000;  // ns of a byte at 1 bit/s

  logic busy;
  logic dividing;
  logic [63:0] base;  // when the bucket was empty
  logic [63:0] divided;
  logic [63:0] rate;
  logic cost_done;
  logic [63:0] cost;  // ns of the frame at the rate

  // Times are compared by their signed difference.
  logic [63:0] wait_ns;
  logic waits, too_long, idle;
  assign wait_ns  = req_next_tx_ns - req_now_ns;
  assign waits    = $signed(wait_ns) > $signed(64'd0);
  assign too_long = $signed(wait_ns) > $signed(MAX_WAIT_NS);
  assign idle     = $signed(wait_ns) < $signed(-req_burst_ns);

  assign req_ready = !busy;

  divide #(
      .WIDTH(64)
  ) divider (
      .clk,
      .rst,
      .start(dividing),
      .dividend(divided),
      .divisor(rate),
      .done(cost_done),
      .quotient(cost)
  );

  always_ff @(posedge clk) begin
    done <= 1'b0;
    dividing <= 1'b0;
    if (rst) begin
      busy <= 1'b0;
    end else if (!busy) begin
      if (req_valid) begin
        leaves_ns <= req_now_ns;
        next_tx_ns <= req_next_tx_ns;
        paced <= 1'b0;
        overflow <= 1'b0;
        if (req_rate_bps == 64'd0) done <= 1'b1;
        else begin
          if (waits) leaves_ns <= req_next_tx_ns;
          paced <= waits;
          overflow <= too_long;
          base <= idle ? req_now_ns - req_burst_ns : req_next_tx_ns;
          divided <= {32'd0, req_bytes} * BIT_SECONDS;
          rate <= req_rate_bps;
          dividing <= 1'b1;
          busy <= 1'b1;
        end
      end
    end else if (cost_done) begin
      next_tx_ns <= overflow ? base : base + cost;
      done <= 1'b1;
      busy <= 1'b0;
    end
  end

endmodule
