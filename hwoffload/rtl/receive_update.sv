// SPDX-License-Identifier: Apache-2.0
//
// receive_update changes an entry by a packet that arrives at now
// (S1.3, S1.4). It does what Model.Receive of hwoffload/card does, and gives the same bits.
module receive_update (
    input  logic [  63:0] now,
    input  logic [  63:0] bytes,
    input  logic          feedback,
    input  logic [   7:0] syndrome,    // AETH syndrome of feedback
    input  logic          ce,
    input  logic [   7:0] flags,
    input  logic [  63:0] token,
    input  logic [  47:0] t1,
    input  logic [  47:0] echo_t1,
    input  logic [  47:0] echo_t2,
    input  logic [  31:0] credit,
    input  logic [  15:0] credit_seq,
    input  logic [4607:0] entry,
    output logic [4607:0] next
);

  // Flags of a stamp (package rocev2).
  localparam int T1 = 0;
  localparam int ECHO = 1;
  localparam int CREDIT = 2;
  localparam int CE = 3;

  // AETH syndromes (IBTA 9.7.5.1.2): bits 7 to 5, and a NAK because of a PSN.
  localparam logic [2:0] RNR_NAK = 3'd1;
  localparam logic [2:0] NAK = 3'd3;
  localparam logic [7:0] NAK_SEQUENCE = 8'h60;

  // First bits of fields.
  localparam int RX_TOKEN = softroce_regs_pkg::DEST_RX_TOKEN_BIT;
  localparam int PEER_T1 = softroce_regs_pkg::DEST_PEER_T1_NS_BIT;
  localparam int IN_TX = softroce_regs_pkg::DEST_IN_TX_NS_BIT;
  localparam int ECHO_GUARD = softroce_regs_pkg::DEST_ECHO_GUARD_BIT;
  localparam int RX_PACKETS = softroce_regs_pkg::DEST_RX_PACKETS_BIT;
  localparam int RX_BYTES = softroce_regs_pkg::DEST_RX_BYTES_BIT;
  localparam int LAST_RX = softroce_regs_pkg::DEST_LAST_RX_NS_BIT;
  localparam int QUEUED = softroce_regs_pkg::DEST_QUEUED_WORD_QUEUED_BIT;
  localparam int CE_PENDING = softroce_regs_pkg::DEST_QUEUED_WORD_CE_PENDING_BIT;
  localparam int TX = softroce_regs_pkg::DEST_TX_NS_BIT;
  localparam int RX = softroce_regs_pkg::DEST_RX_NS_BIT;
  localparam int WIN_TX = softroce_regs_pkg::DEST_WIN_TX_NS_BIT;
  localparam int WIN_RX = softroce_regs_pkg::DEST_WIN_RX_NS_BIT;
  localparam int WIN_RTT = softroce_regs_pkg::DEST_WIN_RTT_NS_BIT;
  localparam int LAST_ECHO = softroce_regs_pkg::DEST_LAST_ECHO_T1_NS_BIT;
  localparam int VALID_AFTER = softroce_regs_pkg::DEST_VALID_AFTER_NS_BIT;
  localparam int WIN_SAMPLES = softroce_regs_pkg::DEST_WIN_SAMPLES_BIT;
  localparam int WIN_CE = softroce_regs_pkg::DEST_WIN_CE_BIT;
  localparam int TURNAROUND = softroce_regs_pkg::DEST_TURNAROUND_NS_BIT;
  localparam int CREDIT_BIT = softroce_regs_pkg::DEST_CREDIT_BIT;
  localparam int CREDIT_SEQ = softroce_regs_pkg::DEST_CREDIT_SEQ_WORD_CREDIT_SEQ_BIT;
  localparam int WIN_RNR = softroce_regs_pkg::DEST_CREDIT_SEQ_WORD_WIN_RNR_BIT;
  localparam int CAP_STAMP = softroce_regs_pkg::DEST_CAPS_WORD_CAPS_BIT;  // SR_CAP_STAMP is bit 0
  localparam int WIN_LOSS = softroce_regs_pkg::DEST_WIN_LOSS_BIT;
  localparam int NAKS = softroce_regs_pkg::DEST_NAKS_BIT;
  localparam int RNRS = softroce_regs_pkg::DEST_RNRS_BIT;
  localparam int CES = softroce_regs_pkg::DEST_CES_BIT;
  localparam int RX_UNSTAMPED = softroce_regs_pkg::DEST_RX_UNSTAMPED_BIT;

  logic measured, counted;
  logic [63:0] in_tx, echo_at, tx, rx, rtt, turnaround;
  stamp_times times (
      .has_t1(flags[T1]), .has_echo(flags[ECHO]), .feedback, .t1, .echo_t1, .echo_t2, .t3(now),
      .last_echo_t1(entry[LAST_ECHO+:64]), .valid_after(entry[VALID_AFTER+:64]),
      .last_tx(entry[TX+:64]), .in_tx, .measured, .counted, .echo_at, .tx, .rx, .rtt, .turnaround
  );

  function automatic logic [63:0] smaller(input logic signed [63:0] a, input logic signed [63:0] b);
    smaller = a < b ? a : b;
  endfunction

  logic accepted;
  assign accepted = token != 64'd0 && token == entry[RX_TOKEN+:64];

  // A sign of loss counts from the first echo of a packet that left under the present rate.
  logic [63:0] settled;
  logic loss_counts;
  assign settled = entry[LAST_ECHO+:64] - entry[VALID_AFTER+:64];
  assign loss_counts = !entry[CAP_STAMP] || !settled[63];

  always_comb begin
    next = entry;
    next[RX_PACKETS+:64] = entry[RX_PACKETS+:64] + 64'd1;
    next[RX_BYTES+:64] = entry[RX_BYTES+:64] + bytes;
    if (!accepted) next[RX_UNSTAMPED+:64] = entry[RX_UNSTAMPED+:64] + 64'd1;
    else begin
      if (feedback && syndrome[7:5] == RNR_NAK) begin
        next[RNRS+:64] = entry[RNRS+:64] + 64'd1;
        next[WIN_RNR+:8] = 8'd1;
        next[QUEUED+:8] = 8'd1;
      end
      if (feedback && syndrome[7:5] == NAK) begin
        next[NAKS+:64] = entry[NAKS+:64] + 64'd1;
        if (syndrome == NAK_SEQUENCE && loss_counts) next[WIN_LOSS+:32] = entry[WIN_LOSS+:32] + 32'd1;
        next[QUEUED+:8] = 8'd1;
      end
      next[LAST_RX+:64] = now;
      if (ce) begin
        next[CES+:64] = entry[CES+:64] + 64'd1;
        next[CE_PENDING+:8] = 8'd1;
      end
      if (flags[T1]) begin
        next[PEER_T1+:64] = {16'd0, t1};
        next[IN_TX+:64] = in_tx;
        next[ECHO_GUARD+:64] = ~({16'd0, t1} ^ in_tx);
      end
      if (measured) begin
        next[LAST_ECHO+:64] = echo_at;
        next[TX+:64] = tx;
        next[RX+:64] = rx;
        if (flags[T1]) next[TURNAROUND+:64] = turnaround;
      end
      if (counted) begin
        next[WIN_TX+:64] = smaller(entry[WIN_TX+:64], tx);
        next[WIN_RX+:64] = smaller(entry[WIN_RX+:64], rx);
        next[WIN_RTT+:64] = smaller(entry[WIN_RTT+:64], rtt);
        next[WIN_SAMPLES+:32] = entry[WIN_SAMPLES+:32] + 32'd1;
      end
      if (flags[CREDIT]) begin
        next[CREDIT_BIT+:32] = credit;
        next[CREDIT_SEQ+:16] = credit_seq;
      end
      if (flags[CE]) next[WIN_CE+:32] = entry[WIN_CE+:32] + 32'd1;
      if (flags[T1] || flags[ECHO] || flags[CE]) next[QUEUED+:8] = 8'd1;
    end
  end

  logic unused;
  assign unused = &{1'b0, flags[7:4], settled};

endmodule
