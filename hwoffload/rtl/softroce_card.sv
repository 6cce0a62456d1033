// SPDX-License-Identifier: Apache-2.0
//
// softroce_card is the card: registers, destination table and window of the DDR behind one
// register bus. It does one thing at a time: an access of the bus, a command, or a packet.
//
// Bus: bus_valid and the request hold until bus_done is 1 for one clock, with bus_rdata. The
// address is a multiple of 8 bytes; bus_enable selects the halves of 32 bits. The upper half of
// the address space is the window of the DDR (S2.5).
//
// DDR: ddr_valid and the request hold until ddr_done is 1, with ddr_rdata.
//
// Packet: pkt_valid and the fields of its stamp hold until pkt_done is 1 for one clock. The
// packet is one of the peer with entry pkt_element, and has arrived at pkt_at.
//
// Time: the clock of the card counts now_step nanoseconds in each clock. now_set sets it.
module softroce_card (
    input  logic        clk,
    input  logic        rst,
    output logic        ready,  // after rst all memories are cleared first

    input  logic        now_set,
    input  logic [63:0] now_value,
    input  logic [15:0] now_step,

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
    output logic [ 1:0] ddr_enable,
    output logic [63:0] ddr_wdata,
    input  logic        ddr_done,
    input  logic [63:0] ddr_rdata
);

  typedef enum logic [2:0] {
    CLEAR,
    IDLE,
    ACCESS,   // a word was read
    MEMORY,   // an access to the DDR
    COMMAND,  // a command of block calls
    PACKET
  } state_t;
  state_t state;
  assign ready = state != CLEAR;

  logic [63:0] now;
  always_ff @(posedge clk) begin
    if (rst) now <= 64'd0;
    else if (now_set) now <= now_value;
    else now <= now + {48'd0, now_step};
  end

  logic [27:0] clear_addr;
  logic [27:0] index;
  logic [63:0] rw, ro, rw1c, reset;
  softroce_decode decode (.addr(bus_addr[27:0]), .index, .rw, .ro, .rw1c, .reset);

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
  logic [31:0] bank_addr;
  assign unused = &{1'b0, in_block, low, high, bank, bank_addr};
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

  // Registers that the card sets.
  logic result, hardware;
  logic [31:0] now_high;  // of the time whose low half was read
  logic [63:0] set_by_card;
  logic [1023:0] active;
  always_comb begin
    hardware = 1'b1;
    set_by_card = 64'd0;
    if (addr >= ACTIVE && addr < COLLECT_APPLY) set_by_card = active[{addr[6:3], 6'd0}+:64];
    else if (addr == RESULT_DECIDE) set_by_card = {63'd0, result};
    else if (addr == NOW) set_by_card = bus_enable[0] ? now : {now_high, 32'd0};
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
      .write(state == CLEAR || write && !in_table && (rw | rw1c) != 64'd0),
      .wdata(state == CLEAR ? 64'd0 : next ^ reset),
      .rdata(stored)
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
  ddr_window windows (.bar_addr(bus_addr), .select(window), .in_window, .ddr_addr, .bank, .bank_addr);
  assign ddr_valid = state == MEMORY;
  assign ddr_write = bus_write;
  assign ddr_enable = bus_enable;
  assign ddr_wdata = bus_wdata;

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
        ACCESS: begin
          bus_rdata <= value;
          if (addr == NOW && bus_enable[0]) now_high <= now[63:32];
          if (bus_write && command) begin
            engine_start <= 1'b1;
            state <= COMMAND;
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
