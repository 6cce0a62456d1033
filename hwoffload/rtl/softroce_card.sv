// SPDX-License-Identifier: Apache-2.0
//
// softroce_card is the card: registers, destination table and window of the DDR behind one
// register bus. It does one thing at a time: an access of the bus, a command, or a packet.
//
// Bus: bus_valid and the request hold until bus_done is 1 for one clock, with bus_rdata. The
// address is a multiple of 8 bytes; bus_enable selects the halves of 32 bits. Addresses with
// bit 28 are in the window of the DDR (S2.5).
//
// DDR: ddr_valid and the request hold until ddr_done is 1, with ddr_rdata.
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

    output logic        ddr_valid,
    output logic        ddr_write,
    output logic [33:0] ddr_addr,
    output logic [ 1:0] ddr_enable,
    output logic [63:0] ddr_wdata,
    input  logic        ddr_done,
    input  logic [63:0] ddr_rdata
);

  typedef enum logic [1:0] {
    CLEAR,
    IDLE,
    ACCESS,  // a word was read
    MEMORY   // an access to the DDR
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

  // The word that an access changes, and its next value.
  logic [63:0] stored, value, enabled, next;
  assign enabled = {{32{bus_enable[1]}}, {32{bus_enable[0]}}};
  assign value = (stored ^ reset) & (rw | ro | rw1c);
  assign next = (value & ~(rw & enabled) | bus_wdata & rw & enabled) & ~(bus_wdata & rw1c & enabled);

  logic store_write;
  assign store_write = state == CLEAR || state == ACCESS && bus_write;
  register_store store (
      .clk,
      .addr (state == CLEAR ? clear_addr : index),
      .write(store_write),
      .wdata(state == CLEAR ? 64'd0 : next ^ reset),
      .rdata(stored)
  );

  // The window of the DDR.
  logic [5:0] window;
  logic window_write;
  assign window_write = state == ACCESS && bus_write && bus_enable[0]
      && bus_addr[27:0] == 28'(softroce_regs_pkg::DDR_BASE + softroce_regs_pkg::DDR_WINDOW_OFS);
  assign ddr_valid = state == MEMORY;
  assign ddr_write = bus_write;
  assign ddr_addr = {window, bus_addr[27:0]};
  assign ddr_enable = bus_enable;
  assign ddr_wdata = bus_wdata;

  always_ff @(posedge clk) begin
    bus_done <= 1'b0;
    if (rst) begin
      state <= CLEAR;
      clear_addr <= 28'd0;
      window <= 6'd0;
    end else begin
      case (state)
        CLEAR: begin
          clear_addr <= clear_addr + 28'd1;
          if (clear_addr == 28'(softroce_regs_pkg::STORE_WORDS - 1)) state <= IDLE;
        end
        IDLE: if (bus_valid && !bus_done) state <= bus_addr[28] ? MEMORY : ACCESS;
        ACCESS: begin
          if (window_write) window <= next[5:0];
          bus_rdata <= value;
          bus_done <= 1'b1;
          state <= IDLE;
        end
        MEMORY:
        if (ddr_done) begin
          bus_rdata <= ddr_rdata;
          bus_done <= 1'b1;
          state <= IDLE;
        end
      endcase
    end
  end

endmodule
