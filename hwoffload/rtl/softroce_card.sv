// SPDX-License-Identifier: Apache-2.0
//
// softroce_card is the card: registers, destination table and window of the DDR behind one
// register bus. It does one thing at a time: an access of the bus, a command, or a packet.
//
// Bus: bus_valid and the request hold until bus_done is 1 for one clock, with bus_rdata. The
// address is a multiple of 8 bytes; bus_enable selects the halves of 32 bits. The upper half of
// the address space is the window of the DDR (S2.5).
//
// DDR: ddr_valid and the request hold until ddr_done is 1, with ddr_rdata. Bit i of ddr_enable writes
// byte i. Each core of block task reads through a port of its own: core_addr is taken when
// core_valid and core_ready are 1. The words come back in the same order, each in a clock in which
// core_arrived is 1, at the earliest in the clock after. Element i of a vector belongs to core i.
//
// Packet: pkt_valid and the fields of its stamp hold until pkt_done is 1 for one clock. The
// packet is one of the peer with entry pkt_element, and has arrived at pkt_at.
//
// Time: the clock of the card counts nanoseconds while now_run is 1; CLK_HZ is the frequency of clk.
// now_set sets it.
module softroce_card #(
    parameter logic [31:0] CLK_HZ = 32'd322265625,
    parameter int CORES = softroce_regs_pkg::TASK_CORES_RESET
) (
    input  logic        clk,
    input  logic        rst,
    output logic        ready,  // after rst all memories are cleared first

    input  logic        now_set,
    input  logic [63:0] now_value,
    input  logic        now_run,

    input  logic        bus_valid,
    input  logic        bus_write,
    input  logic [28:0] bus_addr,
    input  logic [ 1:0] bus_enable,
    input  logic [63:0] bus_wdata,
    output logic        bus_done,
    output logic [63:0] bus_rdata,

    input  logic        pkt_valid,
    output logic        pkt_done,
    input  logic [ 9:0] pkt_element,
    input  logic [63:0] pkt_at,
    input  logic [63:0] pkt_bytes,
    input  logic        pkt_feedback,
    input  logic [ 7:0] pkt_syndrome,
    input  logic        pkt_ce,
    input  logic [ 7:0] pkt_flags,
    input  logic [63:0] pkt_token,
    input  logic [47:0] pkt_t1,
    input  logic [47:0] pkt_echo_t1,
    input  logic [47:0] pkt_echo_t2,
    input  logic [31:0] pkt_credit,
    input  logic [15:0] pkt_credit_seq,

    output logic        ddr_valid,
    output logic        ddr_write,
    output logic [33:0] ddr_addr,
    output logic [ 7:0] ddr_enable,
    output logic [63:0] ddr_wdata,
    input  logic        ddr_done,
    input  logic [63:0] ddr_rdata,

    output logic                working,  // a task is executed, or waits for it
    output logic [   CORES-1:0] core_valid,
    input  logic [   CORES-1:0] core_ready,
    output logic [64*CORES-1:0] core_addr,
    input  logic [   CORES-1:0] core_arrived,
    input  logic [64*CORES-1:0] core_data
);

  typedef enum logic [3:0] {
    CLEAR,
    IDLE,
    ACCESS,   // a word was read
    MEMORY,   // an access to the DDR
    COMMAND,  // a command of block calls
    REGION,   // mr.control.valid has changed
    LOOKUP,   // mr_check reads a word
    TASK,     // an access of block task to the DDR
    PACKET
  } state_t;
  state_t state;
  assign ready = state != CLEAR;

  logic [63:0] now;
  ns_clock #(
      .CLK_HZ(CLK_HZ)
  ) clock (.clk, .rst, .run(now_run), .load(now_set), .load_ns(now_value), .ns(now));

  logic [27:0] clear_addr;
  logic [27:0] index;
  logic [63:0] rw, ro, rw1c, reset;
  logic [27:0] word_addr;  // of the word that is read or written
  softroce_decode decode (.addr(word_addr), .index, .rw, .ro, .rw1c, .reset);

  // Operations of the entry engine.
  localparam logic [1:0] RECEIVE = 2'd0;
  localparam logic [1:0] COLLECT = 2'd1;
  localparam logic [1:0] APPLY = 2'd2;
  localparam logic [1:0] DECIDE = 2'd3;

  // What the access is to. The buffer of block calls is the last entry of the table.
  localparam logic [27:0] CALLS = softroce_regs_pkg::CALLS_BASE[27:0];
  localparam logic [27:0] ACTIVE = CALLS + softroce_regs_pkg::CALLS_ACTIVE_OFS[27:0];
  localparam logic [27:0] COLLECT_APPLY = CALLS + softroce_regs_pkg::CALLS_COLLECT_OFS[27:0];
  localparam logic [27:0] RESULT_DECIDE = CALLS + softroce_regs_pkg::CALLS_RESULT_OFS[27:0];
  localparam logic [27:0] NOW = CALLS + softroce_regs_pkg::CALLS_NOW_NS_OFS[27:0];
  localparam logic [27:0] SHIFT = CALLS + softroce_regs_pkg::CALLS_SHIFT_NS_OFS[27:0];
  localparam logic [27:0] BUFFER = CALLS + softroce_regs_pkg::CALLS_BUFFER_OFS[27:0];
  localparam logic [27:0] DEST = softroce_regs_pkg::DEST_BASE[27:0];
  localparam logic [27:0] DEST_BYTES = 28'(softroce_regs_pkg::DEST_COUNT * softroce_regs_pkg::DEST_STRIDE);
  localparam logic [27:0] FOURCASE = softroce_regs_pkg::FOURCASE_BASE[27:0];
  localparam logic [27:0] WINDOW = 28'(softroce_regs_pkg::DDR_BASE + softroce_regs_pkg::DDR_WINDOW_OFS);

  logic [27:0] addr;
  logic in_dest, in_buffer, in_table, in_params;
  logic [27:0] in_block;  // bytes from the start of block dest, or of the buffer
  assign addr = bus_addr[27:0];
  assign in_dest = addr >= DEST && addr < DEST + DEST_BYTES;
  assign in_buffer = addr >= BUFFER && addr < BUFFER + 28'd576;
  assign in_table = in_dest || in_buffer;
  assign in_params = addr >= FOURCASE && addr < FOURCASE + 28'd128;
  assign in_block = in_dest ? addr - DEST : addr - BUFFER;

  logic [31:0] low, high;
  logic unused;
  logic [1:0] bank;
  logic [31:0] region_addr, lookup_addr;  // of words that the card itself reads
  logic [31:0] bank_addr;
  assign unused = &{1'b0, in_block, low, high, bank, bank_addr, region_addr[31:28], lookup_addr[31:28]};
  assign low  = bus_wdata[31:0];
  assign high = bus_wdata[63:32];

  // Commands.
  logic command;
  logic [1:0] operation;
  logic [9:0] operand;
  always_comb begin
    command = 1'b0;
    operation = COLLECT;
    operand = low[9:0];
    if (addr == COLLECT_APPLY && bus_enable[0] && low[31]) command = 1'b1;
    else if (addr == COLLECT_APPLY && bus_enable[1] && high[31]) begin
      command = 1'b1;
      operation = APPLY;
      operand = high[9:0];
    end else if (addr == RESULT_DECIDE && bus_enable[1] && high[31]) begin
      command = 1'b1;
      operation = DECIDE;
      operand = high[9:0];
    end
  end

  // Block task, and block mr: a change of valid.
  localparam logic [27:0] TASK_BLOCK = softroce_regs_pkg::TASK_BASE[27:0];
  localparam logic [27:0] MR = softroce_regs_pkg::MR_BASE[27:0];
  localparam logic [27:0] MR_BYTES = 28'(softroce_regs_pkg::MR_COUNT * softroce_regs_pkg::MR_STRIDE);
  logic in_task, task_live, changes_region;
  logic [27:0] in_mr;  // bytes from the start of block mr
  logic [63:0] task_value;
  assign in_task = addr >= TASK_BLOCK && addr < TASK_BLOCK + softroce_regs_pkg::TASK_STRIDE[27:0];
  assign in_mr = addr - MR;
  assign changes_region = addr >= MR && in_mr < MR_BYTES && in_mr[5:0] == softroce_regs_pkg::MR_CONTROL_OFS[5:0]
      && value[softroce_regs_pkg::MR_CONTROL_VALID_LSB] != next[softroce_regs_pkg::MR_CONTROL_VALID_LSB];

  // Registers that the card sets.
  logic result, hardware;
  logic now_valid;  // mr.control.valid after the change
  logic [31:0] now_high;  // of the time whose low half was read
  logic [63:0] set_by_card;
  logic [1023:0] active;
  always_comb begin
    hardware = 1'b1;
    set_by_card = 64'd0;
    if (addr >= ACTIVE && addr < COLLECT_APPLY) set_by_card = active[{addr[6:3], 6'd0}+:64];
    else if (addr == RESULT_DECIDE) set_by_card = {63'd0, result};
    else if (addr == NOW) set_by_card = bus_enable[0] ? now : {now_high, 32'd0};
    else if (in_task && task_live) set_by_card = task_value;
    else hardware = 1'b0;
  end

  // The word that an access changes, and its next value. Block fourcase is in registers, as
  // the policy reads all of it at once; they hold their value XOR the value after reset, as
  // the register store does.
  logic [511:0] line;
  logic [1023:0] params;
  logic [63:0] stored, old, value, enabled, next;
  assign enabled = {{32{bus_enable[1]}}, {32{bus_enable[0]}}};
  always_comb begin
    old = stored ^ reset;
    if (in_table) old = line[{in_block[5:3], 6'd0}+:64];
    if (in_params) old = params[{addr[6:3], 6'd0}+:64] ^ reset;
  end
  assign value = hardware ? set_by_card : old & (rw | ro | rw1c);
  assign next = (value & ~(rw & enabled) | bus_wdata & rw & enabled) & ~(bus_wdata & rw1c & enabled);

  logic write;
  assign write = state == ACCESS && bus_write;
  register_store store (
      .clk,
      .addr (state == CLEAR ? clear_addr : index),
      .write(state == CLEAR || region_write || write && !in_table && (rw | rw1c) != 64'd0),
      .wdata(state == CLEAR ? 64'd0 : (region_write ? region_wdata : next) ^ reset),
      .rdata(stored)
  );

  // The words that the card itself reads are those that the driver reads. One is read in the first
  // clock of its state, and is there in the second.
  logic region_start, region_done, region_req, region_write, region_writes, looked;
  logic [63:0] region_wdata, found;
  logic lookup_req;
  assign found = (stored ^ reset) & (rw | ro | rw1c);
  assign region_write = state == REGION && region_req && region_writes && !looked;
  always_comb begin
    word_addr = bus_addr[27:0];
    if (state == REGION) word_addr = region_addr[27:0];
    if (state == LOOKUP) word_addr = lookup_addr[27:0];
  end
  always_ff @(posedge clk) looked <= !rst && !looked && (state == REGION && region_req || state == LOOKUP);

  region_accept regions (
      .clk, .rst, .start(region_start), .valid(now_valid), .element(in_mr[15:6]), .done(region_done),
      .mem_req(region_req), .mem_write(region_writes), .mem_addr(region_addr), .mem_wdata(region_wdata),
      .mem_ack(looked && state == REGION), .mem_data(found)
  );

  logic task_req, task_writes;
  logic [33:0] task_addr;
  logic [7:0] task_enable;
  logic [63:0] task_wdata;
  task_engine #(
      .CORES(CORES)
  ) tasks (
      .clk, .rst, .now, .reg_write(write && in_task), .offset(addr[11:0]), .reg_wdata(next),
      .command(bus_wdata & enabled), .reg_live(task_live), .reg_value(task_value),
      .flush(write && changes_region && !next[softroce_regs_pkg::MR_CONTROL_VALID_LSB]), .mr_req(lookup_req),
      .mr_addr(lookup_addr), .mr_ack(looked && state == LOOKUP), .mr_data(found), .ddr_req(task_req),
      .ddr_write(task_writes), .ddr_addr(task_addr), .ddr_enable(task_enable), .ddr_wdata(task_wdata),
      .ddr_ack(state == TASK && ddr_done), .ddr_rdata, .working, .core_valid, .core_ready, .core_addr,
      .core_arrived, .core_data
  );

  logic engine_start, engine_busy, engine_done, engine_result, table_write;
  logic [10:0] engine_entry, table_entry;
  logic [3:0] engine_line, table_line;
  logic [511:0] engine_wdata;
  logic [63:0] shift;
  entry_engine engine (
      .clk, .rst, .start(engine_start), .op(state == PACKET ? RECEIVE : operation),
      .element(state == PACKET ? pkt_element : operand), .fields(high[21:16]), .shift,
      .now(state == PACKET ? pkt_at : now), .params(params ^ softroce_regs_pkg::FOURCASE_IMAGE),
      .busy(engine_busy), .done(engine_done), .result(engine_result), .pkt_bytes, .pkt_feedback,
      .pkt_syndrome, .pkt_ce, .pkt_flags, .pkt_token, .pkt_t1, .pkt_echo_t1, .pkt_echo_t2, .pkt_credit,
      .pkt_credit_seq, .table_entry(engine_entry), .table_line(engine_line),
      .table_write, .table_wdata(engine_wdata), .table_rdata(line)
  );

  // The table belongs to the engine while it is busy, and to the bus otherwise.
  logic [15:0] table_enable;
  assign table_entry = engine_busy ? engine_entry : in_dest ? {1'b0, in_block[19:10]} : 11'd1024;
  assign table_line = engine_busy ? engine_line : in_block[9:6];
  always_comb begin
    table_enable = 16'd0;
    if (engine_busy) table_enable = {16{table_write}};
    else if (write && in_table && rw != 64'd0) table_enable[{in_block[5:3], 1'b0}+:2] = 2'b11;
  end
  dest_table entries (
      .clk, .clear(state == CLEAR), .clear_addr(clear_addr[13:0]), .entry(table_entry),
      .line(table_line), .enable(table_enable), .wdata(engine_busy ? engine_wdata : {8{next}}),
      .rdata(line), .active
  );

  // The window of the DDR.
  logic [5:0] window;
  logic in_window;
  logic [33:0] window_addr;
  ddr_window windows (
      .bar_addr(bus_addr), .select(window), .in_window, .ddr_addr(window_addr), .bank, .bank_addr
  );
  assign ddr_valid = state == MEMORY || state == TASK;
  assign ddr_write = state == TASK ? task_writes : bus_write;
  assign ddr_addr = state == TASK ? task_addr : window_addr;
  assign ddr_enable = state == TASK ? task_enable : {{4{bus_enable[1]}}, {4{bus_enable[0]}}};
  assign ddr_wdata = state == TASK ? task_wdata : bus_wdata;

  // Copies of registers that the card itself uses.
  always_ff @(posedge clk) begin
    if (state == CLEAR) begin
      params <= 1024'd0;
      shift  <= 64'd0;
      window <= 6'd0;
    end else if (write) begin
      if (in_params) params[{addr[6:3], 6'd0}+:64] <= next ^ reset;
      if (addr == SHIFT) shift <= next;
      if (addr == WINDOW) window <= next[5:0];
    end
  end

  always_ff @(posedge clk) begin
    bus_done <= 1'b0;
    pkt_done <= 1'b0;
    engine_start <= 1'b0;
    region_start <= 1'b0;
    if (rst) begin
      state <= CLEAR;
      clear_addr <= 28'd0;
      result <= 1'b0;
    end else begin
      case (state)
        CLEAR: begin
          clear_addr <= clear_addr + 28'd1;
          if (clear_addr == 28'(softroce_regs_pkg::STORE_WORDS - 1)) state <= IDLE;
        end
        IDLE:
        if (pkt_valid && !pkt_done) begin
          engine_start <= 1'b1;
          state <= PACKET;
        end else if (bus_valid && !bus_done) state <= in_window ? MEMORY : ACCESS;
        else if (lookup_req) state <= LOOKUP;
        else if (task_req) state <= TASK;
        ACCESS: begin
          bus_rdata <= value;
          if (addr == NOW && bus_enable[0]) now_high <= now[63:32];
          if (bus_write && command) begin
            engine_start <= 1'b1;
            state <= COMMAND;
          end else if (bus_write && changes_region) begin
            region_start <= 1'b1;
            now_valid <= next[softroce_regs_pkg::MR_CONTROL_VALID_LSB];
            state <= REGION;
          end else begin
            bus_done <= 1'b1;
            state <= IDLE;
          end
        end
        MEMORY:
        if (ddr_done) begin
          bus_rdata <= ddr_rdata;
          bus_done <= 1'b1;
          state <= IDLE;
        end
        REGION:
        if (region_done) begin
          bus_done <= 1'b1;
          state <= IDLE;
        end
        LOOKUP: if (looked) state <= IDLE;
        TASK: if (ddr_done) state <= IDLE;
        COMMAND:
        if (engine_done) begin
          result <= engine_result;
          bus_done <= 1'b1;
          state <= IDLE;
        end
        default:
        if (engine_done) begin
          pkt_done <= 1'b1;
          state <= IDLE;
        end
      endcase
    end
  end

endmodule
