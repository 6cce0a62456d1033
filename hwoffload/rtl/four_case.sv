// SPDX-License-Identifier: Apache-2.0
//
// four_case makes one step of the four-case policy in mode literal (S1.6). It does what
// fourcase.Step of package cc/fourcase does with the samples of one window of a sender that
// uses its rate, and gives the same bits. Integers only; times in ns, rates in bit/s.
//
// policy has the policy's registers by their addresses, params those of block fourcase. start
// is 1 for one clock, with all inputs. done is 1 for one clock, and result then has the
// registers after the step. A step without a decision takes 1 clock, one that decreases the
// rate 15, and another one 4.
module four_case (
    input  logic          clk,
    input  logic          rst,
    input  logic          start,
    input  logic [1535:0] policy,
    input  logic [1023:0] params,
    input  logic          idle,      // no data was sent yet
    input  logic [  31:0] samples,
    input  logic [  63:0] win_tx,
    input  logic [  63:0] win_rx,
    input  logic [  63:0] win_rtt,
    input  logic [  63:0] now,
    output logic          done,
    output logic [1535:0] result
);

  // First bits of the policy's registers.
  localparam int BASE = softroce_regs_pkg::DEST_POLICY_RATE_BPS_BIT;
  localparam int RATE = 0;
  localparam int DECIDED = softroce_regs_pkg::DEST_POLICY_DECIDED_NS_BIT - BASE;
  localparam int DECREASED = softroce_regs_pkg::DEST_POLICY_DECREASED_NS_BIT - BASE;
  localparam int BASE_SINCE = softroce_regs_pkg::DEST_POLICY_BASE_SINCE_NS_BIT - BASE;
  localparam int BASE_TX = softroce_regs_pkg::DEST_POLICY_BASE_TX_NS_BIT - BASE;
  localparam int BASE_RX = softroce_regs_pkg::DEST_POLICY_BASE_RX_NS_BIT - BASE;
  localparam int BASE_RTT = softroce_regs_pkg::DEST_POLICY_BASE_RTT_NS_BIT - BASE;
  localparam int NEXT_TX = softroce_regs_pkg::DEST_POLICY_NEXT_BASE_TX_NS_BIT - BASE;
  localparam int NEXT_RX = softroce_regs_pkg::DEST_POLICY_NEXT_BASE_RX_NS_BIT - BASE;
  localparam int NEXT_RTT = softroce_regs_pkg::DEST_POLICY_NEXT_BASE_RTT_NS_BIT - BASE;
  localparam int QUEUE_TX = softroce_regs_pkg::DEST_POLICY_QUEUEING_TX_NS_BIT - BASE;
  localparam int QUEUE_RX = softroce_regs_pkg::DEST_POLICY_QUEUEING_RX_NS_BIT - BASE;
  localparam int TREND_TX = softroce_regs_pkg::DEST_POLICY_TREND_TX_NS_BIT - BASE;
  localparam int TREND_RX = softroce_regs_pkg::DEST_POLICY_TREND_RX_NS_BIT - BASE;
  localparam int RATE_BEFORE = softroce_regs_pkg::DEST_POLICY_RATE_BEFORE_DECREASE_BPS_BIT - BASE;
  localparam int DECISIONS = softroce_regs_pkg::DEST_POLICY_DECISIONS_BIT - BASE;
  localparam int DECREASES = softroce_regs_pkg::DEST_POLICY_DECREASES_BIT - BASE;
  localparam int INCREASES = softroce_regs_pkg::DEST_POLICY_INCREASES_BIT - BASE;
  localparam int DECREASE_Q10 = softroce_regs_pkg::DEST_POLICY_DECREASE_Q10_BIT - BASE;
  localparam int PATIENCE = softroce_regs_pkg::DEST_POLICY_FLOOR_PATIENCE_WORD_POLICY_FLOOR_PATIENCE_BIT - BASE;
  localparam int CASE_NO = softroce_regs_pkg::DEST_POLICY_CASE_NO_WORD_POLICY_CASE_NO_BIT - BASE;
  localparam int ROW = softroce_regs_pkg::DEST_POLICY_CASE_NO_WORD_POLICY_ROW_BIT - BASE;
  localparam int ACTION = softroce_regs_pkg::DEST_POLICY_CASE_NO_WORD_POLICY_ACTION_BIT - BASE;
  localparam int STATE = softroce_regs_pkg::DEST_POLICY_CASE_NO_WORD_POLICY_STATE_BIT - BASE;

  // fourcase.State*, fourcase.Action and fourcase.NoRow.
  localparam int STATE_BASE = STATE;
  localparam int STATE_TREND = STATE + 2;
  localparam int STATE_RTT = STATE + 3;
  localparam logic [7:0] HOLD = 8'd1;
  localparam logic [7:0] RAISE = 8'd2;
  localparam logic [7:0] CUT = 8'd3;
  localparam logic [7:0] BIG_CUT = 8'd4;
  localparam logic [7:0] NO_ROW = 8'd255;
  localparam logic [15:0] FLOOR_PATIENCE = 16'd4;
  localparam int FLOOR_SHIFT = 6;

  // Parameters.
  logic [63:0] min_rate, max_rate, initial_rate, interval, floor;
  logic signed [63:0] band;
  logic [31:0] raise_q10, big_cut_q10, small_cut_q10;
  assign min_rate = params[softroce_regs_pkg::FOURCASE_MIN_RATE_BPS_OFS*8+:64];
  assign max_rate = params[softroce_regs_pkg::FOURCASE_MAX_RATE_BPS_OFS*8+:64];
  assign initial_rate = params[softroce_regs_pkg::FOURCASE_INITIAL_RATE_BPS_OFS*8+:64];
  assign interval = params[softroce_regs_pkg::FOURCASE_INTERVAL_NS_OFS*8+:64];
  assign band = params[softroce_regs_pkg::FOURCASE_LITERAL_DEADBAND_NS_OFS*8+:64];
  assign raise_q10 = params[softroce_regs_pkg::FOURCASE_RAISE_Q10_OFS*8+:32];
  assign big_cut_q10 = params[softroce_regs_pkg::FOURCASE_BIG_CUT_Q10_OFS*8+:32];
  assign small_cut_q10 = params[softroce_regs_pkg::FOURCASE_SMALL_CUT_Q10_OFS*8+:32];
  assign floor = min_rate[63:FLOOR_SHIFT] == 58'd0 ? 64'd1 : min_rate >> FLOOR_SHIFT;

  // Parameters of other modes.
  logic unused;
  assign unused = &{1'b0, params};

  typedef enum logic [2:0] {
    IDLE,
    SELECT,  // find the case
    AMOUNT,  // multiply
    DECIDE,  // change the rate
    DIVIDE   // the size of a decrease
  } state_t;
  state_t state;
  logic [1535:0] p;
  assign result = p;

  // The rate before the step, within its limits.
  logic [63:0] wanted, raised, rate;
  always_comb begin
    wanted = policy[RATE+:64];
    if (wanted == 64'd0) wanted = initial_rate != 64'd0 ? initial_rate : max_rate;
    raised = wanted > floor ? wanted : floor;
    rate   = raised < max_rate ? raised : max_rate;
  end

  // The times of the window, 0 = not measured. A peer that echoes nothing has RTTs only.
  localparam logic [63:0] NO_SAMPLE = {1'b0, {63{1'b1}}};
  logic one_way, rtt_known, rtt_only, feedback, first;
  logic [63:0] measured_tx, measured_rx, measured_rtt, tx, rtt, q_tx, q_rx;
  assign one_way = samples != 32'd0 && win_tx != NO_SAMPLE;
  assign measured_tx = one_way ? win_tx : 64'd0;
  assign measured_rx = one_way ? win_rx : 64'd0;
  assign measured_rtt = win_rtt != NO_SAMPLE ? win_rtt : 64'd0;
  assign feedback = one_way || win_rtt != NO_SAMPLE;
  assign rtt_known = !measured_rtt[63] && measured_rtt != 64'd0;
  assign rtt_only = rtt_known && measured_tx == 64'd0 && measured_rx == 64'd0;
  assign tx = rtt_only ? measured_rtt : measured_tx;
  assign rtt = rtt_known ? measured_rtt : measured_tx + measured_rx;
  assign first = !policy[STATE_BASE] || policy[STATE_RTT] != rtt_only;
  assign q_tx = tx - policy[BASE_TX+:64];
  assign q_rx = measured_rx - policy[BASE_RX+:64];

  // The case: literalCase of package fourcase.
  logic signed [63:0] lead, queue_tx, queue_rx, trend_tx, trend_rx;
  logic tx_grew, rx_grew, tx_shrank, rx_shrank, above;
  logic [7:0] action, case_no;
  logic [31:0] q10;
  assign queue_tx = p[QUEUE_TX+:64];
  assign queue_rx = p[QUEUE_RX+:64];
  assign trend_tx = p[TREND_TX+:64];
  assign trend_rx = p[TREND_RX+:64];
  assign tx_grew = trend_tx > band;
  assign rx_grew = trend_rx > band;
  assign tx_shrank = trend_tx < -band;
  assign rx_shrank = trend_rx < -band;
  assign above = queue_tx > 64'sd0 && queue_rx > 64'sd0;
  always_comb begin
    action = HOLD;
    case_no = 8'd0;
    q10 = 32'd0;
    if (tx_grew && rx_grew && lead < 64'sd0) begin
      action = BIG_CUT;
      case_no = 8'd1;
      q10 = big_cut_q10;
    end else if (tx_grew && rx_grew && lead > 64'sd0) begin
      action = CUT;
      case_no = 8'd2;
      q10 = small_cut_q10;
    end else if (queue_tx <= band && queue_rx <= band) begin
      action = RAISE;
      case_no = 8'd4;
      q10 = raise_q10;
    end else if (tx_grew && rx_shrank && above) case_no = 8'd3;
    else if (tx_shrank && rx_shrank && above) case_no = 8'd4;
  end

  // The decision: decide of package fourcase. A decrease at the lowest rate waits.
  logic [31:0] factor;
  logic [63:0] amount, old_rate, least, lowered, grown, new_rate;
  logic [7:0] chosen;
  logic [15:0] patience, new_patience;
  logic cuts, waits, raises;
  assign old_rate = p[RATE+:64];
  assign patience = p[PATIENCE+:16];
  assign waits = old_rate <= min_rate && (patience < FLOOR_PATIENCE || old_rate == floor);
  assign cuts = chosen == CUT || chosen == BIG_CUT;
  assign raises = chosen == RAISE && old_rate != max_rate;
  assign least = old_rate <= min_rate ? floor : min_rate;
  assign lowered = amount < old_rate ? old_rate - amount : 64'd0;
  assign grown = old_rate + amount < max_rate ? old_rate + amount : max_rate;
  always_comb begin
    new_rate = old_rate;
    new_patience = patience;
    if (cuts && waits) begin
      if (!trend_tx[63] && patience < FLOOR_PATIENCE) new_patience = patience + 16'd1;
    end else if (cuts) begin
      new_rate = lowered > least ? lowered : least;
      if (old_rate <= min_rate) new_patience = 16'd0;
    end else if (raises) new_rate = grown;
    if (new_rate > min_rate) new_patience = 16'd0;
  end

  logic [63:0] product;
  assign product = (old_rate * {32'd0, factor}) >> 10;

  // The quotient of the decrease and the rate before it, from its highest bit down.
  logic [63:0] whole;
  logic [64:0] rest;
  logic [3:0] steps;
  logic bigger;
  assign bigger = rest >= {1'b0, whole};

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) state <= IDLE;
    else
      case (state)
        IDLE:
        if (start) begin
          p <= policy;
          p[RATE+:64] <= rate;
          lead <= tx - measured_rx;
          if (!feedback) done <= 1'b1;
          else if (first) begin
            p[BASE_TX+:64] <= tx;
            p[BASE_RX+:64] <= measured_rx;
            p[BASE_RTT+:64] <= rtt;
            p[NEXT_TX+:64] <= tx;
            p[NEXT_RX+:64] <= measured_rx;
            p[NEXT_RTT+:64] <= rtt;
            p[BASE_SINCE+:64] <= now;
            p[QUEUE_TX+:64] <= 64'd0;
            p[QUEUE_RX+:64] <= 64'd0;
            p[TREND_TX+:64] <= 64'd0;
            p[TREND_RX+:64] <= 64'd0;
            p[STATE+:8] <= {4'd0, rtt_only, 3'b111};
            done <= 1'b1;
          end else if (idle || now - policy[DECIDED+:64] < interval) done <= 1'b1;
          else begin
            p[QUEUE_TX+:64] <= q_tx;
            p[QUEUE_RX+:64] <= q_rx;
            p[TREND_TX+:64] <= policy[STATE_TREND] ? q_tx - policy[QUEUE_TX+:64] : 64'd0;
            p[TREND_RX+:64] <= policy[STATE_TREND] ? q_rx - policy[QUEUE_RX+:64] : 64'd0;
            p[STATE_TREND] <= 1'b1;
            state <= SELECT;
          end
        end
        SELECT: begin
          chosen <= action;
          factor <= q10;
          p[CASE_NO+:8] <= case_no;
          p[ROW+:8] <= NO_ROW;
          state <= AMOUNT;
        end
        AMOUNT: begin
          amount <= product == 64'd0 ? 64'd1 : product;
          state  <= DECIDE;
        end
        DECIDE: begin
          p[DECIDED+:64] <= now;
          p[DECISIONS+:32] <= p[DECISIONS+:32] + 32'd1;
          p[DECREASE_Q10+:32] <= 32'd0;
          p[INCREASES+:32] <= 32'd0;
          p[RATE+:64] <= new_rate;
          p[PATIENCE+:16] <= new_patience;
          p[ACTION+:8] <= cuts && !waits || raises ? chosen : HOLD;
          state <= IDLE;
          done  <= 1'b1;
          if (cuts && !waits) begin
            p[RATE_BEFORE+:64] <= old_rate;
            p[DECREASED+:64] <= now;
            p[DECREASES+:32] <= p[DECREASES+:32] + 32'd1;
            whole <= old_rate;
            rest <= {1'b0, old_rate - new_rate};
            steps <= 4'd11;
            state <= DIVIDE;
            done  <= 1'b0;
          end
          if (raises) begin
            p[INCREASES+:32] <= p[INCREASES+:32] + 32'd1;
            if (p[RATE_BEFORE+:64] != 64'd0 && new_rate >= p[RATE_BEFORE+:64]) begin
              p[RATE_BEFORE+:64] <= 64'd0;
              p[INCREASES+:32] <= 32'd1;
            end
          end
        end
        default: begin
          p[DECREASE_Q10+:32] <= {p[DECREASE_Q10+:31], bigger};
          rest <= {bigger ? rest[63:0] - whole : rest[63:0], 1'b0};
          steps <= steps - 4'd1;
          if (steps == 4'd1) begin
            state <= IDLE;
            done  <= 1'b1;
          end
        end
      endcase
  end

endmodule
