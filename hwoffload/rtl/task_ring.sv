// SPDX-License-Identifier: Apache-2.0
//
// task_ring has the registers of block task: its commands, and the indexes of the rings of
// descriptors and answers (S1.1).
//
// Registers: offset is that of a word of the block. In a clock with write = 1, value is the new value
// of its RW fields and command that of its WO fields, of bits that are not written 0. status,
// consumer and completion_producer are the RO registers.
//
// A command begins with pending = 1 and running = 0. It ends when idle is 1: no task is executed.
//
// Descriptors: slot_valid is 1 if there is one at slot. taken = 1 moves to the next. Answers: the next
// one is written at answer. answered = 1 moves to the next; there is always room for it.
module task_ring (
    input  logic        clk,
    input  logic        rst,

    input  logic        write,
    input  logic [11:0] offset,
    input  logic [63:0] value,
    input  logic [63:0] command,
    output logic [31:0] status,
    output logic [15:0] consumer,
    output logic [15:0] completion_producer,

    input  logic        idle,
    output logic        pending,
    output logic [23:0] pd,
    output logic        slot_valid,
    output logic [33:0] slot,
    input  logic        taken,
    output logic [33:0] answer,
    input  logic        answered
);

  localparam logic [3:0] MAX_LOG2 = 4'd9;
  localparam logic [63:0] DDR_BYTES = 64'h4_0000_0000;

  // Registers that the driver writes.
  logic [63:0] ring_base, answer_base;
  logic [3:0] log2;
  logic [23:0] domain;

  // Rings after the start that is pending, and the present ones.
  logic [33:0] next_base, base, next_answers, answers;
  logic [3:0] next_log2, used_log2;
  logic [23:0] next_pd;
  logic running, refused, started, restarts;

  // Words with commands. Their RW fields are not in the same words.
  logic [11:0] word;
  logic start, stop, submit, free;
  assign word = {offset[11:3], 3'd0};
  assign start = write && word == softroce_regs_pkg::TASK_COMMAND_OFS[11:0]
      && command[softroce_regs_pkg::TASK_COMMAND_START_LSB];
  assign stop = write && word == softroce_regs_pkg::TASK_COMMAND_OFS[11:0]
      && command[softroce_regs_pkg::TASK_COMMAND_STOP_LSB];
  assign submit = write && word == softroce_regs_pkg::TASK_SUBMIT_OFS[11:0]
      && command[softroce_regs_pkg::TASK_SUBMIT_SUBMIT_START_LSB];
  assign free = write && word + 12'd4 == softroce_regs_pkg::TASK_RELEASE_OFS[11:0]
      && command[32+softroce_regs_pkg::TASK_RELEASE_RELEASE_START_LSB];

  // The rings that a start would use.
  logic [63:0] ring_bytes, answer_bytes;
  logic possible;
  assign ring_bytes = 64'd256 << log2;
  assign answer_bytes = 64'd8 << log2;
  assign possible = log2 <= MAX_LOG2 && ring_base[7:0] == 8'd0 && answer_base[2:0] == 3'd0
      && ring_base <= DDR_BYTES - ring_bytes && answer_base <= DDR_BYTES - answer_bytes;

  // Indexes. In order: released, completion_producer, consumer, producer, and at most one ring ahead
  // of the first.
  logic [15:0] producer, released, mask;
  logic [15:0] submitted, freed, ahead, taken_ahead, freed_ahead;
  assign mask = (16'd1 << used_log2) - 16'd1;
  assign submitted = command[softroce_regs_pkg::TASK_SUBMIT_PRODUCER_LSB+:16];
  assign freed = command[32+softroce_regs_pkg::TASK_RELEASE_COMPLETION_CONSUMER_LSB+:16];
  assign ahead = submitted - released;
  assign taken_ahead = consumer - released;
  assign freed_ahead = freed - released;

  assign slot_valid = running && consumer != producer;
  assign slot = base + {10'd0, consumer & mask, 8'd0};
  assign answer = answers + {15'd0, completion_producer & mask, 3'd0};
  assign status = {29'd0, pending, refused, running};

  always_ff @(posedge clk) begin
    if (rst) begin
      ring_base <= 64'd0;
      answer_base <= 64'd0;
      log2 <= 4'd0;
      domain <= 24'd0;
    end else if (write) begin
      if (word == softroce_regs_pkg::TASK_RING_BASE_OFS[11:0]) ring_base <= value;
      if (word == softroce_regs_pkg::TASK_COMPLETION_BASE_OFS[11:0]) answer_base <= value;
      if (word == softroce_regs_pkg::TASK_RING_OFS[11:0]) begin
        log2   <= value[softroce_regs_pkg::TASK_RING_LOG2_ENTRIES_LSB+:4];
        domain <= value[32+softroce_regs_pkg::TASK_DOMAIN_PD_LSB+:24];
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      running <= 1'b0;
      refused <= 1'b0;
      pending <= 1'b0;
      producer <= 16'd0;
      consumer <= 16'd0;
      released <= 16'd0;
      completion_producer <= 16'd0;
    end else if (start || stop) begin
      running <= 1'b0;
      pending <= 1'b1;
      refused <= start && !possible;
      started <= start && possible;
      restarts <= start;
      next_base <= ring_base[33:0];
      next_answers <= answer_base[33:0];
      next_log2 <= log2;
      next_pd <= domain;
    end else if (pending) begin
      if (idle) begin
        pending <= 1'b0;
        running <= started;
        if (restarts) begin
          base <= next_base;
          answers <= next_answers;
          used_log2 <= next_log2;
          pd <= next_pd;
          producer <= 16'd0;
          consumer <= 16'd0;
          released <= 16'd0;
          completion_producer <= 16'd0;
        end
      end
    end else begin
      if (submit && running && ahead <= mask + 16'd1 && ahead >= taken_ahead + 16'(taken)) producer <= submitted;
      if (free && running && freed_ahead <= completion_producer - released) released <= freed;
      if (taken) consumer <= consumer + 16'd1;
      if (answered) completion_producer <= completion_producer + 16'd1;
    end
  end

  logic unused;
  assign unused = &{1'b0, offset[2:0]};

endmodule
