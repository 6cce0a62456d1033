// SPDX-License-Identifier: Apache-2.0
//
// task_operand reads an operand of a task, 32 bytes of its descriptor (docs/reference/wire-format.md), and
// judges it as rocev2/task does.
//
// word_valid is 1 for one clock with each of the four words, in the order of word_number. Bits 63 to
// 56 of a word are its first byte in memory. done is 1 for one clock, 4 clocks after the last word.
// valid and the fields then hold until the next word: type, length and extents fit, reserved bits
// are 0, and the operand ends at or below the last address.
module task_operand (
    input  logic        clk,
    input  logic        rst,
    input  logic        word_valid,
    input  logic [ 1:0] word_number,
    input  logic [63:0] word,

    output logic        done,
    output logic        valid,
    output logic [63:0] va,
    output logic [31:0] length,  // bytes
    output logic [31:0] key,
    output logic        origin,  // the memory of another node
    output logic        one_uint32  // a single element of type uint32
);

  // Types of elements, as in rocev2/task.
  localparam logic [7:0] INT8 = 8'd1;
  localparam logic [7:0] UINT8 = 8'd5;
  localparam logic [7:0] UINT32 = 8'd7;
  localparam logic [7:0] FLOAT32 = 8'd9;
  localparam logic [7:0] FLOAT64 = 8'd10;

  logic [7:0] kind;
  logic reserved_zero;
  logic [31:0] extent_0, extent_1, extent_2;
  logic [2:0] step;  // multiplications that follow the last word, from bit 0 on

  // log2 of the bytes of an element: int8 to int64, uint8 to uint64, float32, float64.
  logic [1:0] size;
  always_comb
    if (kind < UINT8) size = 2'(kind - INT8);
    else if (kind < FLOAT32) size = 2'(kind - UINT8);
    else size = {1'b1, kind == FLOAT64};

  // The length that type and extents demand. An extent that is not used counts as 1.
  logic [31:0] factor, product;
  logic overflow;
  logic [63:0] multiplied;
  assign factor = step[1] ? extent_1 : extent_2;
  assign multiplied = {32'd0, product} * {32'd0, factor == 32'd0 ? 32'd1 : factor};

  logic extents_valid, ends;
  assign ends = va <= -{32'd0, length};
  assign extents_valid = extent_0 != 32'd0 && (extent_1 != 32'd0 || extent_2 == 32'd0);

  always_ff @(posedge clk) begin
    step <= {step[1:0], word_valid && word_number == 2'd3};
    done <= step[2];
    if (rst) begin
      step <= 3'd0;
      done <= 1'b0;
    end else if (word_valid) begin
      case (word_number)
        2'd0: va <= word;
        2'd1: {length, key} <= word;
        2'd2: begin
          kind <= word[63:56];
          origin <= word[48];
          reserved_zero <= word[55:49] == 7'd0 && word[47:32] == 16'd0;
          extent_0 <= word[31:0];
        end
        default: {extent_1, extent_2} <= word;
      endcase
    end
    if (step[0]) {overflow, product} <= {|(extent_0 >> (6'd32 - {4'd0, size})), extent_0 << size};
    if (step[1]) begin
      product <= multiplied[31:0];
      overflow <= overflow || multiplied[63:32] != 32'd0;
    end
    if (step[2])
      valid <= kind >= INT8 && kind <= FLOAT64 && reserved_zero && extents_valid && ends
          && !overflow && multiplied == {32'd0, length};
    one_uint32 <= kind == UINT32 && extent_0 == 32'd1 && extent_1 == 32'd0;
  end

endmodule
