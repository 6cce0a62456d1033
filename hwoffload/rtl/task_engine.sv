// SPDX-License-Identifier: Apache-2.0
//
// task_engine is block task (S1.1): it takes descriptors from the ring in the DDR, has the cores
// execute them, writes results and answers. mr_check judges and translates each access to the memory
// of a task (S2.6). The engine does one thing at a time, and all cores work meanwhile.
//
// Registers: as in task_ring. reg_live = 1: reg_value is the word at offset.
//
// flush = 1: a region has ended. No word of a region is read or written that was checked before.
//
// Regions: mr_req and mr_addr, an address in the BAR, hold until mr_ack, which comes with mr_data.
// DDR: ddr_req and the request hold until ddr_ack, which comes with ddr_rdata. Bit i of ddr_enable
// writes byte i. core_* are reads of the cores, as in crc32c_core, with 64 bits per address.
module task_engine #(
    parameter int CORES = 4
) (
    input logic clk,
    input logic rst,
    input logic [63:0] now,

    input  logic        reg_write,
    input  logic [11:0] offset,
    input  logic [63:0] reg_wdata,
    input  logic [63:0] command,
    output logic        reg_live,
    output logic [63:0] reg_value,
    input  logic        flush,

    output logic        mr_req,
    output logic [31:0] mr_addr,
    input  logic        mr_ack,
    input  logic [63:0] mr_data,

    output logic        ddr_req,
    output logic        ddr_write,
    output logic [33:0] ddr_addr,
    output logic [ 7:0] ddr_enable,
    output logic [63:0] ddr_wdata,
    input  logic        ddr_ack,
    input  logic [63:0] ddr_rdata,

    output logic                working,  // a task is executed, or waits for it
    output logic [   CORES-1:0] core_valid,
    input  logic [   CORES-1:0] core_ready,
    output logic [64*CORES-1:0] core_addr,
    input  logic [   CORES-1:0] core_arrived,
    input  logic [64*CORES-1:0] core_data
);

  // As in rocev2/task and rocev2/mem.
  localparam logic [7:0] STATUS_OK = 8'd0;
  localparam logic [7:0] STATUS_ACCESS = 8'd5;
  localparam logic [7:0] STATUS_MEMORY = 8'd6;
  localparam logic [2:0] FAULT_BACKEND = 3'd7;
  localparam logic [7:0] ANSWER_VERSION = 8'd1;

  localparam logic [4:0] READ = 5'd0;  // rights
  localparam logic [4:0] WRITE = 5'd1;
  localparam int INDEX = $clog2(CORES);

  typedef enum logic [2:0] {
    IDLE,
    DESCRIBE,  // read a descriptor
    OPERAND,  // check the operand
    RESULT,  // check the place of the result, before the task starts
    START,
    PLACE,  // translate the place of the result
    STORE,  // write the result, byte by byte
    ANSWER
  } state_t;
  state_t state;

  logic pending, slot_valid, answered, described;
  logic [31:0] status;
  logic [15:0] consumer, completion_producer;
  logic [23:0] pd;
  logic [33:0] slot, answer_addr;
  logic [CORES-1:0] busy;
  task_ring ring (
      .clk, .rst, .write(reg_write), .offset, .value(reg_wdata), .command, .status, .consumer,
      .completion_producer, .idle(state == IDLE && busy == '0), .pending, .pd, .slot_valid, .slot,
      .taken(described), .answer(answer_addr), .answered
  );

  logic describe, slot_req;
  logic [33:0] slot_addr;
  logic [7:0] judged;
  logic [23:0] id;
  logic [63:0] operand_va, result_va;
  logic [31:0] operand_length, operand_key, result_key;
  task_descriptor descriptor (
      .clk, .rst, .start(describe), .slot, .done(described), .mem_req(slot_req), .mem_addr(slot_addr),
      .mem_ack(slot_req && ddr_ack), .mem_data(ddr_rdata), .status(judged), .id, .operand_va,
      .operand_length, .operand_key, .result_va, .result_key
  );

  // The task of each core.
  logic [23:0] ids[CORES];
  logic [63:0] places[CORES];
  logic [31:0] result_keys[CORES], operand_keys[CORES];
  logic [63:0] began[CORES];
  logic [63:0] ended;  // when the core of the result was free again

  // A result that is written, and the answer.
  logic [INDEX-1:0] core;
  logic computed;  // the task was executed by the core
  logic [31:0] crc;
  logic [2:0] written;  // bytes of the result
  logic [2:0] room;  // bytes that may be written at place
  logic [33:0] place;
  logic [7:0] outcome;
  logic [23:0] answer_id;

  // The cores.
  logic start, task_ready, result_valid;
  logic [2:0] skip;  // bytes of the first word before the operand
  logic [15:0] result_tag;
  logic [31:0] result_crc;
  logic [INDEX-1:0] finished;  // the core with a result
  assign finished = result_tag[INDEX-1:0];
  logic [INDEX-1:0] free;  // the core that takes the next task
  logic [CORES-1:0] rd_valid, rd_ready, core_cancel, failed;
  logic [3*CORES-1:0] faults;
  logic [34*CORES-1:0] rd_addr;
  logic [64*CORES-1:0] busy_clocks;
  logic [32*CORES-1:0] results;
  always_comb begin
    free = '0;
    for (int i = CORES - 1; i >= 0; i--) if (!busy[i]) free = INDEX'(i);
  end
  assign start = state == START && !pending;
  compute_cores #(
      .CORES(CORES)
  ) cores (
      .clk, .rst, .task_valid(start), .task_ready, .task_addr({31'd0, skip}), .task_length(operand_length),
      .task_tag(16'(free)), .cancel(core_cancel), .rd_valid, .rd_ready, .rd_addr, .data_valid(core_arrived),
      .data(core_data), .result_valid, .result_ready(state == IDLE), .result_tag, .result_crc, .busy,
      .busy_clocks, .tasks(results)
  );

  // The checks. The engine and the ports of the cores take turns; the engine is first.
  logic check, checking, check_ready, check_done, stale, own;
  logic [CORES-1:0] port_check, port_turn, port_checks;
  logic [63:0] check_va;
  logic [31:0] check_key, check_length, checked_bytes;
  logic [4:0] check_rights;
  logic [2:0] fault;
  logic [33:0] checked_addr;
  logic [64*CORES-1:0] port_va;
  logic [32*CORES-1:0] port_length;
  assign check = (state == OPERAND || state == RESULT || state == PLACE) && !checking;
  assign port_turn = check || !check_ready ? '0 : port_check & (~port_check + CORES'(1));
  always_comb begin
    check_rights = state == OPERAND ? READ : WRITE;
    check_va = state == OPERAND ? operand_va : state == RESULT ? result_va : places[core] + {61'd0, written};
    check_key = state == OPERAND ? operand_key : state == RESULT ? result_key : result_keys[core];
    check_length = state == OPERAND ? operand_length : 32'd4 - {29'd0, written};
    if (!check) begin
      check_rights = READ;
      for (int i = 0; i < CORES; i++)
        if (port_turn[i]) begin
          check_va = port_va[64*i+:64];
          check_key = operand_keys[i];
          check_length = port_length[32*i+:32];
        end
    end
  end
  mr_check checks (
      .clk, .rst, .req_valid(check || port_turn != '0), .req_ready(check_ready), .req_key(check_key),
      .req_pd(pd), .req_va(check_va), .req_length(check_length), .req_rights(check_rights),
      .mem_req(mr_req), .mem_addr(mr_addr), .mem_ack(mr_ack), .mem_data(mr_data), .done(check_done),
      .fault, .ddr_addr(checked_addr), .ddr_bytes(checked_bytes)
  );
  always_ff @(posedge clk) begin
    if (rst) {checking, own, port_checks} <= '0;
    else begin
      if (check_ready && (check || port_turn != '0)) {own, port_checks} <= {check, port_turn};
      if (check && check_ready) checking <= 1'b1;
      else if (own && check_done) checking <= 1'b0;
    end
    if (check) stale <= 1'b0;
    if (flush) stale <= 1'b1;
  end

  for (genvar i = 0; i < CORES; i++) begin : port
    page_port pages (
        .clk, .rst, .start(start && free == INDEX'(i)), .start_va(operand_va),
        .start_length(operand_length), .flush, .cancel(pending), .failed(failed[i]),
        .fault(faults[3*i+:3]), .core_valid(rd_valid[i]), .core_ready(rd_ready[i]),
        .core_cancel(core_cancel[i]), .mem_valid(core_valid[i]), .mem_ready(core_ready[i]),
        .mem_addr(core_addr[64*i+:34]), .mem_arrived(core_arrived[i]), .check_valid(port_check[i]),
        .check_taken(port_turn[i]), .check_va(port_va[64*i+:64]), .check_length(port_length[32*i+:32]),
        .check_done(port_checks[i] && check_done), .check_fault(fault), .check_addr(checked_addr),
        .check_bytes(checked_bytes)
    );
    assign core_addr[64*i+34+:30] = 30'd0;
  end

  // Accesses to the DDR: descriptors, one byte of a result, answers.
  logic [1:0] byte_number;
  assign byte_number = written[1:0];
  assign ddr_req = slot_req || state == STORE && !pending || state == ANSWER && !pending;
  assign ddr_write = !slot_req;
  always_comb begin
    ddr_addr = slot_req ? slot_addr : state == STORE ? {place[33:3], 3'd0} : answer_addr;
    ddr_enable = state == STORE ? 8'd1 << place[2:0] : 8'hff;
    ddr_wdata = {8{crc[{byte_number, 3'd0}+:8]}};
    if (state != STORE) ddr_wdata = {answer_id[7:0], answer_id[15:8], answer_id[23:16], 24'd0, outcome, ANSWER_VERSION};
  end
  assign answered = state == ANSWER && ddr_ack;

  // What follows a check.
  logic [7:0] refusal;
  assign refusal = fault == FAULT_BACKEND ? STATUS_MEMORY : STATUS_ACCESS;
  logic checked;  // the engine has an answer of mr_check that is valid
  assign checked = own && checking && check_done && !stale && !flush;
  assign describe = state == IDLE && !result_valid && slot_valid && task_ready;

  always_ff @(posedge clk) begin
    if (rst) state <= IDLE;
    else
      case (state)
        IDLE: begin
          written <= 3'd0;
          computed <= result_valid;
          if (result_valid) begin
            core <= finished;
            crc <= result_crc;
            answer_id <= ids[finished];
            ended <= now;
            outcome <= faults[3*finished+:3] == FAULT_BACKEND ? STATUS_MEMORY : STATUS_ACCESS;
            if (!pending) state <= failed[finished] ? ANSWER : PLACE;
          end else if (describe) state <= DESCRIBE;
        end
        DESCRIBE:
        if (described) begin
          answer_id <= id;
          outcome <= judged;
          state <= pending ? IDLE : judged == STATUS_OK ? OPERAND : ANSWER;
        end
        OPERAND, RESULT:
        if (checked) begin
          outcome <= refusal;
          if (state == OPERAND) skip <= checked_addr[2:0];
          state <= fault != 3'd0 ? ANSWER : state == OPERAND ? RESULT : START;
        end
        START: state <= IDLE;
        PLACE:
        if (checked) begin
          outcome <= fault != 3'd0 ? refusal : STATUS_OK;
          place <= checked_addr;
          room <= checked_bytes[2:0];
          state <= fault != 3'd0 ? ANSWER : STORE;
        end
        STORE:
        if (pending) state <= IDLE;
        else if (flush) state <= PLACE;
        else if (ddr_ack) begin
          place <= place + 34'd1;
          written <= written + 3'd1;
          room <= room - 3'd1;
          if (written == 3'd3) state <= ANSWER;
          else if (room == 3'd1) state <= PLACE;
        end
        default: if (pending || ddr_ack) state <= IDLE;
      endcase
    if (start) begin
      ids[free] <= id;
      places[free] <= result_va;
      result_keys[free] <= result_key;
      operand_keys[free] <= operand_key;
      began[free] <= now;
    end
  end

  // Counters of the cores.
  logic [64*CORES-1:0] busy_ns, executed, errors;
  logic [63:0] took;
  assign took = ended - began[core];
  for (genvar i = 0; i < CORES; i++) begin : counter
    always_ff @(posedge clk)
      if (rst) begin
        busy_ns[64*i+:64] <= 64'd0;
        executed[64*i+:64] <= 64'd0;
        errors[64*i+:64] <= 64'd0;
      end else if (answered && computed && core == INDEX'(i)) begin
        busy_ns[64*i+:64] <= busy_ns[64*i+:64] + took;
        executed[64*i+:64] <= executed[64*i+:64] + 64'd1;
        errors[64*i+:64] <= errors[64*i+:64] + {63'd0, outcome != STATUS_OK};
      end
  end

  always_comb begin
    reg_live  = 1'b1;
    reg_value = 64'd0;
    if (offset == softroce_regs_pkg::TASK_COMMAND_OFS[11:0]) reg_value = {status, 32'd0};
    else if (offset == softroce_regs_pkg::TASK_SUBMIT_OFS[11:0]) reg_value = {16'd0, consumer, 32'd0};
    else if (offset == softroce_regs_pkg::TASK_COMPLETION_PRODUCER_OFS[11:0]) reg_value = {48'd0, completion_producer};
    else if (offset < softroce_regs_pkg::TASK_CORE_BUSY_NS_OFS[11:0]) reg_live = 1'b0;
    for (int i = 0; i < CORES; i++) begin
      if (offset == 12'(softroce_regs_pkg::TASK_CORE_BUSY_NS_OFS + 8 * i)) reg_value = busy_ns[64*i+:64];
      if (offset == 12'(softroce_regs_pkg::TASK_CORE_TASKS_OFS + 8 * i)) reg_value = executed[64*i+:64];
      if (offset == 12'(softroce_regs_pkg::TASK_CORE_ERRORS_OFS + 8 * i)) reg_value = errors[64*i+:64];
    end
  end

  assign working = state != IDLE || busy != '0 || slot_valid || pending;

  logic unused;
  assign unused = &{1'b0, busy_clocks, results, rd_addr, checked_bytes, result_tag};

endmodule
