// SPDX-License-Identifier: Apache-2.0
//
// task_descriptor reads the descriptor of a task from its slot in the DDR (docs/reference/wire-format.md), and
// judges it as rocev2/task does, for a card with the kernel CRC-32C.
//
// start is 1 for one clock, with the DDR address of the slot, a multiple of 256. done is 1 for one
// clock. status is STATUS_* then, and id is the number of the task. With STATUS_OK, operand_* and
// result_* are the memory that the task reads and writes. All hold until the next start.
//
// Reads of the DDR: mem_req and mem_addr hold until mem_ack, which comes with mem_data.
//
// Latency: 20 clocks, and 8 for each operand after the first, with a memory that answers at once.
module task_descriptor (
    input  logic        clk,
    input  logic        rst,

    input  logic        start,
    input  logic [33:0] slot,
    output logic        done,

    output logic        mem_req,
    output logic [33:0] mem_addr,
    input  logic        mem_ack,
    input  logic [63:0] mem_data,

    output logic [ 7:0] status,
    output logic [23:0] id,
    output logic [63:0] operand_va,
    output logic [31:0] operand_length,
    output logic [31:0] operand_key,
    output logic [63:0] result_va,
    output logic [31:0] result_key
);

  // As in rocev2/task.
  localparam logic [7:0] STATUS_OK = 8'd0;
  localparam logic [7:0] STATUS_DESCRIPTOR = 8'd1;
  localparam logic [7:0] STATUS_KERNEL = 8'd2;
  localparam logic [7:0] STATUS_OPERAND = 8'd3;
  localparam logic [7:0] STATUS_TOO_LARGE = 8'd4;
  localparam logic [7:0] STATUS_ACCESS = 8'd5;
  localparam logic [7:0] VERSION = 8'd1;
  localparam logic [7:0] MAX_OPERANDS = 8'd6;
  localparam logic [15:0] CRC32C = 16'd7;
  localparam logic [34:0] MAX_BYTES = 35'd67108864;  // of operands and result together

  typedef enum logic [2:0] {
    IDLE,
    HEADER,
    COUNT,
    WORDS,  // of the result, and of the operands
    JUDGE,  // task_operand judges one of them
    DECIDE
  } state_t;
  state_t state;

  logic [4:0] index;  // of the word in the slot
  logic [2:0] operands, left;  // operands, and those that were not read
  logic [15:0] kernel;
  logic in_result;  // the words are those of the result
  logic wrong;  // a part of the descriptor is not valid
  logic result_fits;  // for the kernel
  logic other_node;  // a part is in the memory of another node
  logic [34:0] total;

  logic [63:0] word;  // the first byte is in bits 63 to 56
  always_comb for (int i = 0; i < 8; i++) word[8*i+:8] = mem_data[8*(7-i)+:8];

  logic judged, valid, origin, one_uint32;
  logic [63:0] va;
  logic [31:0] length, key;
  task_operand part (
      .clk, .rst, .word_valid(state == WORDS && mem_ack), .word_number(2'(index[1:0] - 2'd2)), .word,
      .done(judged), .valid, .va, .length, .key, .origin, .one_uint32
  );

  assign mem_req = state == HEADER || state == COUNT || state == WORDS;
  logic unused;
  assign unused = &{1'b0, slot[7:0]};
  assign mem_addr = {slot[33:8], index, 3'd0};

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) state <= IDLE;
    else
      case (state)
        IDLE:
        if (start) begin
          index <= 5'd0;
          in_result <= 1'b1;
          other_node <= 1'b0;
          total <= 35'd0;
          state <= HEADER;
        end
        HEADER:
        if (mem_ack) begin
          kernel <= word[47:32];
          id <= word[23:0];
          wrong <= word[63:56] != VERSION || word[55:49] != 7'd0 || word[31:24] != 8'd0;
          index <= 5'd1;
          state <= COUNT;
        end
        COUNT:
        if (mem_ack) begin
          operands <= word[58:56];
          left <= word[58:56];
          index <= 5'd2;
          state <= WORDS;
          if (wrong || word[63:56] > MAX_OPERANDS || word[55:0] != 56'd0) begin
            wrong <= 1'b1;
            state <= DECIDE;
          end
        end
        WORDS:
        if (mem_ack) begin
          index <= index + 5'd1;
          if (index[1:0] == 2'd1) state <= JUDGE;  // the fourth
        end
        JUDGE:
        if (judged) begin
          in_result <= 1'b0;
          wrong <= !valid;
          other_node <= other_node || origin;
          total <= total + {3'd0, length};
          if (in_result) begin
            result_va <= va;
            result_key <= key;
            result_fits <= one_uint32;
          end else begin
            operand_va <= va;
            operand_length <= length;
            operand_key <= key;
            left <= left - 3'd1;
          end
          state <= !valid || left == 3'd0 || !in_result && left == 3'd1 ? DECIDE : WORDS;
        end
        default: begin
          if (wrong) status <= STATUS_DESCRIPTOR;
          else if (kernel != CRC32C) status <= STATUS_KERNEL;
          else if (total > MAX_BYTES) status <= STATUS_TOO_LARGE;
          else if (operands != 3'd1 || !result_fits) status <= STATUS_OPERAND;
          else if (other_node) status <= STATUS_ACCESS;
          else status <= STATUS_OK;
          done  <= 1'b1;
          state <= IDLE;
        end
      endcase
  end

endmodule
