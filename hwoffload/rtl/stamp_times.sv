// SPDX-License-Identifier: Apache-2.0
//
// stamp_times computes the times of S1.3 and S1.4 from the stamp of a packet that arrives at
// t3, in ns of the card's clock. Times of stamps are modulo 2^48. It does what echo of
// hwoffload/card does, and gives the same bits.
//
// measured: the echo measures tx_ns, rx_ns and rtt_ns. counted: it belongs into the window as
// well, because its packet left after valid_after_ns.
module stamp_times (
    input  logic        has_t1,
    input  logic        has_echo,
    input  logic        feedback,      // an acknowledgement
    input  logic [47:0] t1,
    input  logic [47:0] echo_t1,
    input  logic [47:0] echo_t2,
    input  logic [63:0] t3,
    input  logic [63:0] last_echo_t1,
    input  logic [63:0] valid_after,
    input  logic [63:0] last_tx,
    output logic [63:0] in_tx,         // S1.3: T2 - T1 of the peer's data
    output logic        measured,
    output logic        counted,
    output logic [63:0] echo_at,       // T1 of the packet that is echoed, not modulo 2^48
    output logic [63:0] tx,            // S1.4: T2 - T1
    output logic [63:0] rx,            // S1.4: T3 - T2
    output logic [63:0] rtt,
    output logic [63:0] turnaround
);

  localparam logic signed [63:0] MAX_RTT = 64'sd10_000_000_000;
  localparam logic signed [63:0] MAX_ECHO_AGE = 64'sd1_000_000_000;

  // The difference of two times modulo 2^48 as a signed number.
  function automatic logic [63:0] diff48(input logic [47:0] a, input logic [47:0] b);
    logic [47:0] d;
    d = a - b;
    diff48 = {{16{d[47]}}, d};
  endfunction

  logic [63:0] waited, whole;
  logic signed [63:0] newer, total;
  logic repeated;
  assign in_tx = diff48(t3[47:0], t1);
  assign waited = diff48(t1, echo_t2);
  assign whole = diff48(t3[47:0], echo_t1);
  assign echo_at = t3 - whole;
  assign newer = echo_at - last_echo_t1;
  assign repeated = last_echo_t1 != 64'd0 && newer <= 64'sd0 && newer > -MAX_ECHO_AGE;

  // An echo that comes with data has waited for the data: only the rest is the network's.
  assign turnaround = feedback ? waited : 64'd0;
  assign total = feedback ? whole : whole - waited;
  assign rtt = total;
  assign measured = has_echo && !repeated && (feedback || has_t1) && total >= 64'sd0 && total <= MAX_RTT;

  assign tx = last_tx + diff48(echo_t2 - echo_t1, last_tx[47:0]);
  assign rx = rtt - tx;

  logic signed [63:0] since;
  assign since   = echo_at - valid_after;
  assign counted = measured && since >= 64'sd0;

endmodule
