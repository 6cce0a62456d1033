// SPDX-License-Identifier: Apache-2.0
//
// entry_engine changes entries of the destination table: by a packet that arrives (S1.3,
// S1.4), and by the commands of block calls. It loads the lines that it needs, changes them,
// and stores them.
//
// start is 1 for one clock, with op and its operands, while busy is 0. done is 1 for one
// clock; result is field done of register calls.result.
module entry_engine (
    input logic clk,
    input logic rst,

    input  logic         start,
    input  logic [  1:0] op,
    input  logic [  9:0] element,
    input  logic [  5:0] fields,   // of apply: enum sr_agent_set of bpf/lib/abi.h
    input  logic [ 63:0] shift,    // register calls.shift_ns
    input  logic [ 63:0] now,      // arrival of the packet, or time of the command
    input  logic [1023:0] params,  // block fourcase
    output logic         busy,
    output logic         done,
    output logic         result,

    input logic [63:0] pkt_bytes,
    input logic        pkt_feedback,
    input logic [ 7:0] pkt_syndrome,
    input logic        pkt_ce,
    input logic [ 7:0] pkt_flags,
    input logic [63:0] pkt_token,
    input logic [47:0] pkt_t1,
    input logic [47:0] pkt_echo_t1,
    input logic [47:0] pkt_echo_t2,
    input logic [31:0] pkt_credit,
    input logic [15:0] pkt_credit_seq,

    output logic [ 10:0] table_entry,
    output logic [  3:0] table_line,
    output logic         table_write,
    output logic [511:0] table_wdata,
    input  logic [511:0] table_rdata
);

  localparam logic [1:0] RECEIVE = 2'd0;
  localparam logic [1:0] COLLECT = 2'd1;
  localparam logic [1:0] APPLY = 2'd2;
  localparam logic [1:0] DECIDE = 2'd3;

  // Entry of the buffer in the table.
  localparam logic [10:0] BUFFER = 11'd1024;

  // fourcase.ModeLiteral.
  localparam logic [31:0] LITERAL = 32'd1;
  localparam int MODE = softroce_regs_pkg::FOURCASE_MODE_OFS * 8;

  // loop.BoundPolicy: a card by itself has no other bound.
  localparam logic [7:0] BOUND_POLICY = 8'd1;

  // Bits of fields.
  localparam int SET_POLICY = 0;
  localparam int SET_CLASS = 1;
  localparam int SET_NODE = 2;
  localparam int SET_CAPS = 3;
  localparam int SHIFT_NEXT_TX = 4;
  localparam int KEEP_ECHOES = 5;

  // First bits of fields.
  localparam int QUEUED = softroce_regs_pkg::DEST_QUEUED_WORD_QUEUED_BIT;
  localparam int NODE = softroce_regs_pkg::DEST_NODE_BIT;
  localparam int WIN_TX = softroce_regs_pkg::DEST_WIN_TX_NS_BIT;
  localparam int WIN_RX = softroce_regs_pkg::DEST_WIN_RX_NS_BIT;
  localparam int WIN_RTT = softroce_regs_pkg::DEST_WIN_RTT_NS_BIT;
  localparam int VALID_AFTER = softroce_regs_pkg::DEST_VALID_AFTER_NS_BIT;
  localparam int WIN_SAMPLES = softroce_regs_pkg::DEST_WIN_SAMPLES_BIT;
  localparam int WIN_CE = softroce_regs_pkg::DEST_WIN_CE_BIT;
  localparam int RATE = softroce_regs_pkg::DEST_RATE_BPS_BIT;
  localparam int ENGINE_RATE = softroce_regs_pkg::DEST_ENGINE_RATE_BPS_BIT;
  localparam int WIN_ENGINE_PACED = softroce_regs_pkg::DEST_WIN_ENGINE_PACED_BIT;
  localparam int WIN_ENGINE = softroce_regs_pkg::DEST_WIN_ENGINE_WORD_WIN_ENGINE_BIT;
  localparam int BOUND = softroce_regs_pkg::DEST_WIN_ENGINE_WORD_BOUND_BIT;
  localparam int WIN_RNR = softroce_regs_pkg::DEST_CREDIT_SEQ_WORD_WIN_RNR_BIT;
  localparam int TX_PACKETS = softroce_regs_pkg::DEST_TX_PACKETS_BIT;
  localparam int STACK_RATE = softroce_regs_pkg::DEST_STACK_RATE_BPS_BIT;
  localparam int NEXT_TX = softroce_regs_pkg::DEST_NEXT_TX_NS_BIT;
  localparam int CLASS_ID = softroce_regs_pkg::DEST_CLASS_ID_BIT;
  localparam int CAPS = softroce_regs_pkg::DEST_CAPS_WORD_CAPS_BIT;
  localparam int WIN_LOSS = softroce_regs_pkg::DEST_WIN_LOSS_BIT;
  localparam int WIN_PACED = softroce_regs_pkg::DEST_WIN_PACED_BIT;
  localparam int WIN_DUE = softroce_regs_pkg::DEST_WIN_DUE_WORD_WIN_DUE_BIT;

  localparam int POLICY_REGS = softroce_regs_pkg::DEST_POLICY_RATE_BPS_BIT;

  // A window without a sample.
  localparam logic [63:0] NO_SAMPLE = {1'b0, {63{1'b1}}};

  typedef enum logic [2:0] {
    IDLE,
    LOAD,    // lines of the entry
    MERGE,   // apply: lines of the buffer
    COPY,    // collect: lines to the buffer
    POLICY,  // decide: wait for the policy
    WORK,    // change the lines
    STORE
  } state_t;
  state_t state;
  assign busy = state != IDLE;

  // The operation, from its start on.
  logic [1:0] kind;
  logic [10:0] entry;
  logic [5:0] what;
  logic [63:0] at;
  logic rate_changed, stack_changed;

  // The entry, and its lines that are to be loaded or stored. A line that was addressed arrives one clock
  // later.
  logic [4607:0] held;
  logic [8:0] pending;
  logic [3:0] current, arriving;
  logic arrives;
  always_comb begin
    current = 4'd0;
    for (int i = 8; i >= 0; i--) if (pending[i]) current = i[3:0];
  end
  assign table_entry = state == MERGE || state == COPY ? BUFFER : entry;
  assign table_line  = current;
  // A line of the entry. Constant places keep the synthesis from a shifter of the whole entry.
  function automatic logic [511:0] line_of(input logic [4607:0] all, input logic [3:0] number);
    line_of = 512'd0;
    for (int i = 0; i < 9; i++) if (number == 4'(i)) line_of = all[512*i+:512];
  endfunction

  assign table_write = (state == COPY || state == STORE) && pending != 9'd0;
  always_comb begin
    table_wdata = line_of(held, current);
    if (state == COPY && current == 4'd0) table_wdata[QUEUED+:8] = 8'd0;
  end

  // What a line of the entry is with a line of the buffer. Fields are at the same places of
  // both; % 512 is the place in a line.
  logic [511:0] merged;
  always_comb begin
    merged = line_of(held, arriving);
    case (arriving)
      4'd0: if (what[SET_NODE]) merged[NODE%512+:32] = table_rdata[NODE%512+:32];
      4'd2:
      if (what[SET_POLICY]) begin
        merged[RATE%512+:64] = table_rdata[RATE%512+:64];
        merged[ENGINE_RATE%512+:64] = table_rdata[ENGINE_RATE%512+:64];
        merged[BOUND%512+:8] = table_rdata[BOUND%512+:8];
      end
      4'd3: begin
        if (what[SET_POLICY]) merged[STACK_RATE%512+:64] = table_rdata[STACK_RATE%512+:64];
        if (what[SET_CLASS]) merged[CLASS_ID%512+:32] = table_rdata[CLASS_ID%512+:32];
        if (what[SET_CAPS]) merged[CAPS%512+:16] = table_rdata[CAPS%512+:16];
      end
      default: if (what[SET_POLICY]) merged = table_rdata;  // the policy's registers
    endcase
  end

  logic [4607:0] received;
  receive_update receive (
      .now(at), .bytes(pkt_bytes), .feedback(pkt_feedback), .syndrome(pkt_syndrome), .ce(pkt_ce),
      .flags(pkt_flags), .token(pkt_token), .t1(pkt_t1), .echo_t1(pkt_echo_t1), .echo_t2(pkt_echo_t2),
      .credit(pkt_credit), .credit_seq(pkt_credit_seq), .entry(held), .next(received)
  );

  logic policy_start, policy_done;
  logic [1535:0] decided;
  four_case literal (
      .clk, .rst, .start(policy_start), .policy(held[POLICY_REGS+:1536]), .params,
      .idle(held[TX_PACKETS+:64] == 64'd0), .samples(held[WIN_SAMPLES+:32]), .win_tx(held[WIN_TX+:64]),
      .win_rx(held[WIN_RX+:64]), .win_rtt(held[WIN_RTT+:64]), .now(at),
      .done(policy_done), .result(decided)
  );

  // The rate that decide sets; it is the policy's first register.
  logic [63:0] rate;
  assign rate = decided[63:0];

  // The time before which echoes are of packets at an earlier rate: when the packets that
  // wait have left.
  function automatic logic [63:0] later(input logic [63:0] empty, input logic [63:0] time_now);
    logic [63:0] ahead;
    ahead = empty - time_now;
    later = !ahead[63] && ahead != 64'd0 ? empty : time_now;
  endfunction

  logic [63:0] empty, shifted;
  logic some_wait, changed;
  assign empty = held[NEXT_TX+:64];
  assign shifted = empty + shift;
  assign some_wait = later(empty, at) != at;
  assign changed = kind == DECIDE
      ? rate != held[RATE+:64] || rate != held[STACK_RATE+:64] && some_wait
      : rate_changed || stack_changed && some_wait;

  // The lines after the operation.
  logic [4607:0] work;
  always_comb begin
    work = held;
    if (kind == RECEIVE) work = received;
    if (kind == COLLECT || kind == DECIDE) begin
      work[QUEUED+:8] = 8'd0;
      work[WIN_TX+:64] = NO_SAMPLE;
      work[WIN_RX+:64] = NO_SAMPLE;
      work[WIN_RTT+:64] = NO_SAMPLE;
      work[WIN_SAMPLES+:32] = 32'd0;
      work[WIN_CE+:32] = 32'd0;
      work[WIN_ENGINE_PACED+:32] = 32'd0;
      work[WIN_ENGINE+:8] = 8'd0;
      work[WIN_RNR+:8] = 8'd0;
      work[WIN_LOSS+:32] = 32'd0;
      work[WIN_PACED+:32] = 32'd0;
      work[WIN_DUE+:8] = 8'd0;
    end
    if (kind == DECIDE) begin
      work[RATE+:64] = rate;
      work[ENGINE_RATE+:64] = rate;
      work[STACK_RATE+:64] = rate;
      work[BOUND+:8] = BOUND_POLICY;
      work[POLICY_REGS+:1536] = decided;
    end
    if ((kind == DECIDE || kind == APPLY) && changed) work[VALID_AFTER+:64] = later(empty, at);
    if (kind == APPLY && what[SHIFT_NEXT_TX]) begin
      work[NEXT_TX+:64] = shifted;
      if (!what[KEEP_ECHOES]) work[VALID_AFTER+:64] = later(shifted, at);
    end
  end

  logic loaded, has_window;
  assign loaded = pending == 9'd0;  // the last line arrives in this clock
  assign has_window = held[QUEUED+:8] != 8'd0;

  always_ff @(posedge clk) begin
    done <= 1'b0;
    policy_start <= 1'b0;
    arrives <= 1'b0;
    if (rst) begin
      state <= IDLE;
    end else begin
      if (state != IDLE && state != WORK && pending != 9'd0) begin
        pending  <= pending & (pending - 9'd1);
        arriving <= current;
        arrives  <= state == LOAD || state == MERGE;
      end
      for (int i = 0; i < 9; i++)
        if (arrives && arriving == 4'(i)) held[512*i+:512] <= state == MERGE ? merged : table_rdata;
      if (state == MERGE && arrives) begin
        if (arriving == 4'd2) rate_changed <= merged[RATE%512+:64] != held[RATE+:64];
        if (arriving == 4'd3) stack_changed <= merged[STACK_RATE%512+:64] != held[STACK_RATE+:64];
      end
      case (state)
        IDLE:
        if (start) begin
          kind  <= op;
          entry <= {1'b0, element};
          what  <= fields;
          at    <= now;
          rate_changed  <= 1'b0;
          stack_changed <= 1'b0;
          case (op)
            RECEIVE: pending <= 9'b000111111;
            default: pending <= 9'b111111111;
          endcase
          state <= LOAD;
        end
        LOAD:
        if (loaded && !arrives) begin
          result <= 1'b1;
          state  <= WORK;
          if (kind == APPLY) begin
            pending <= 9'b111001101;
            state   <= MERGE;
          end else if (kind != RECEIVE && !has_window || kind == DECIDE && params[MODE+:32] != LITERAL) begin
            result <= 1'b0;
            done   <= 1'b1;
            state  <= IDLE;
          end else if (kind == COLLECT) begin
            pending <= 9'b111111111;
            state   <= COPY;
          end else if (kind == DECIDE) begin
            policy_start <= 1'b1;
            state <= POLICY;
          end
        end
        MERGE: if (loaded && !arrives) state <= WORK;
        COPY: if (loaded) state <= WORK;
        POLICY: if (policy_done) state <= WORK;
        WORK: begin
          held  <= work;
          state <= STORE;
          case (kind)
            RECEIVE: pending <= 9'b000110111;
            COLLECT: pending <= 9'b000010111;
            default: pending <= 9'b111011111;
          endcase
        end
        default:
        if (loaded) begin
          done  <= 1'b1;
          state <= IDLE;
        end
      endcase
    end
  end

endmodule
