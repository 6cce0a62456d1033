// SPDX-License-Identifier: Apache-2.0
//
// mr_check translates an access to memory into a DDR address, or refuses it (S2.3, S2.6). Its
// verdicts, and their order, are those of rocev2/mr: an access that has several faults gets
// the first of FAULT_*.
//
// Request: req_* are taken in a clock in which req_valid and req_ready are 1. Bits 16 to 31 of
// the key are the element of block mr. req_length is in bytes. req_rights are the bits of
// mr.control that the access needs: local write, remote write, remote read, remote atomic,
// bind windows, from bit 0 on. An access without a remote right is one of this card's own
// queue pairs, for which a window is no key. An access of no bytes needs no key (IBTA
// 9.7.4.1.5). Bindings of windows are not in these blocks: an access to a window is refused.
//
// Answer: done is 1 for one clock. fault, ddr_addr and ddr_bytes then hold until the next
// request. ddr_bytes is how many bytes of the access are in the page of its first byte. The
// caller asks again for the rest, with the address and the length of the rest. The whole
// length is checked each time, so the first answer decides on the access.
//
// Registers of blocks mr and mtt are read as words of 64 bits: mem_req and mem_addr, an
// address in the BAR, hold until mem_ack, which comes with mem_data. The word with valid and
// key is read again at the end: a region that the driver has changed meanwhile is refused.
//
// Latency: 18 clocks from the request to done if mem_ack comes in the clock after mem_req; 16
// of them are of the 8 reads. An access of no bytes takes 1 clock. One access at a time.
module mr_check (
    input  logic        clk,
    input  logic        rst,

    input  logic        req_valid,
    output logic        req_ready,
    input  logic [31:0] req_key,
    input  logic [23:0] req_pd,
    input  logic [63:0] req_va,
    input  logic [31:0] req_length,
    input  logic [ 4:0] req_rights,

    output logic        mem_req,
    output logic [31:0] mem_addr,
    input  logic        mem_ack,
    input  logic [63:0] mem_data,

    output logic        done,
    output logic [ 2:0] fault,
    output logic [33:0] ddr_addr,
    output logic [31:0] ddr_bytes
);

  // As in rocev2/mem, in the order of their precedence.
  localparam logic [2:0] FAULT_NONE = 3'd0;
  localparam logic [2:0] FAULT_KEY = 3'd1;
  localparam logic [2:0] FAULT_PD = 3'd2;
  localparam logic [2:0] FAULT_STATE = 3'd3;
  localparam logic [2:0] FAULT_RANGE = 3'd4;
  localparam logic [2:0] FAULT_RIGHTS = 3'd5;
  localparam logic [2:0] FAULT_ALIGN = 3'd6;
  localparam logic [2:0] FAULT_BACKEND = 3'd7;  // the driver wrote an impossible region

  localparam logic [4:0] REMOTE = 5'b01110;  // of req_rights
  localparam int ATOMIC = 3;
  localparam logic [1:0] WINDOW = 2'd3;  // of mr.control.kind
  localparam logic [5:0] MIN_SHIFT = 6'd12;
  localparam logic [5:0] MAX_SHIFT = 6'd30;

  // The states that read have the word that they wait for.
  typedef enum logic [3:0] {
    IDLE,
    CONTROL,
    STATE,
    DOMAIN,
    VA,
    LENGTH,
    FIRST,
    TRANSLATE,
    PAGE,
    AGAIN
  } state_t;
  state_t state;

  logic [31:0] key;
  logic [23:0] pd;
  logic [63:0] va;
  logic [31:0] bytes;
  logic [4:0] need;

  logic [4:0] rights;  // of the region
  logic window;
  logic invalid;
  logic [5:0] shift;
  logic [63:0] offset;  // of the access in the region
  logic [31:0] mtt_first;
  logic [64:0] position;  // of the access, from the start of the first page

  // Fields of the word that was read.
  logic word_valid, word_usable, word_window;
  logic [31:0] word_key;
  assign word_valid  = mem_data[softroce_regs_pkg::MR_CONTROL_VALID_LSB];
  assign word_window = mem_data[softroce_regs_pkg::MR_CONTROL_KIND_LSB+:2] == WINDOW;
  assign word_key    = mem_data[63:32];
  assign word_usable = mem_data[softroce_regs_pkg::MR_STATE_USABLE_LSB];

  // The range, when the length of the region was read. A sum that could wrap is not formed,
  // and an address below the region wraps to an offset that is too large.
  logic in_range;
  assign in_range = offset <= mem_data && {32'd0, bytes} <= mem_data - offset;

  // The page, from position on. The element of block mtt is below 2^16.
  logic [65:0] page_index;
  logic [29:0] page_mask;
  logic [29:0] in_page;
  logic [30:0] page_left;
  logic translatable;
  assign page_index = {1'b0, position >> shift} + {34'd0, mtt_first};
  assign page_mask = 30'((31'd1 << shift) - 31'd1);
  assign in_page = position[29:0] & page_mask;
  assign page_left = {1'b0, page_mask} - {1'b0, in_page} + 31'd1;
  assign translatable = shift >= MIN_SHIFT && shift <= MAX_SHIFT
      && page_index < {34'd0, softroce_regs_pkg::MTT_COUNT};

  // What is read in this state.
  logic [31:0] element;
  assign element = softroce_regs_pkg::MR_BASE + {16'd0, key[31:16]} * softroce_regs_pkg::MR_STRIDE;
  always_comb begin
    mem_req = 1'b1;
    case (state)
      CONTROL, AGAIN: mem_addr = element + softroce_regs_pkg::MR_CONTROL_OFS;
      STATE: mem_addr = element + softroce_regs_pkg::MR_STATE_OFS;
      DOMAIN: mem_addr = element + softroce_regs_pkg::MR_DOMAIN_OFS;
      VA: mem_addr = element + softroce_regs_pkg::MR_VA_OFS;
      LENGTH: mem_addr = element + softroce_regs_pkg::MR_LENGTH_OFS;
      FIRST: mem_addr = element + softroce_regs_pkg::MR_MTT_FIRST_OFS;
      PAGE: mem_addr = softroce_regs_pkg::MTT_BASE + page_index[31:0] * softroce_regs_pkg::MTT_STRIDE;
      default: begin
        mem_req  = 1'b0;
        mem_addr = 32'd0;
      end
    endcase
  end

  // The fault that the word shows, in the order above; FAULT_NONE goes on.
  logic [2:0] found;
  always_comb begin
    found = FAULT_NONE;
    case (state)
      CONTROL, AGAIN:
      if (!word_valid || word_key != key) found = FAULT_KEY;
      else if (word_window && (need & REMOTE) == 5'd0) found = FAULT_KEY;
      STATE: if (!word_usable) found = FAULT_KEY;
      DOMAIN:
      if (mem_data[softroce_regs_pkg::MR_DOMAIN_PD_LSB+:24] != pd) found = FAULT_PD;
      else if (invalid || window) found = FAULT_STATE;
      LENGTH:
      if (!in_range) found = FAULT_RANGE;
      else if ((rights & need) != need) found = FAULT_RIGHTS;
      else if (need[ATOMIC] && va[2:0] != 3'd0) found = FAULT_ALIGN;
      TRANSLATE: if (!translatable) found = FAULT_BACKEND;
      PAGE: if ((mem_data[29:0] & page_mask) != 30'd0) found = FAULT_BACKEND;
      default: ;
    endcase
  end

  assign req_ready = state == IDLE;

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) begin
      state <= IDLE;
    end else if (state == IDLE) begin
      if (req_valid) begin
        key <= req_key;
        pd <= req_pd;
        va <= req_va;
        bytes <= req_length;
        need <= req_rights;
        fault <= FAULT_NONE;
        ddr_addr <= 34'd0;
        ddr_bytes <= 32'd0;
        if (req_length == 32'd0) done <= 1'b1;
        else if (req_key[31:16] >= softroce_regs_pkg::MR_COUNT[15:0]) begin
          fault <= FAULT_KEY;
          done  <= 1'b1;
        end else state <= CONTROL;
      end
    end else if (!mem_req || mem_ack) begin
      if (found != FAULT_NONE) begin
        fault <= found;
        ddr_addr <= 34'd0;
        ddr_bytes <= 32'd0;
        done <= 1'b1;
        state <= IDLE;
      end else begin
        case (state)
          CONTROL: begin
            rights <= mem_data[softroce_regs_pkg::MR_CONTROL_LOCAL_WRITE_LSB+:5];
            window <= word_window;
            state <= STATE;
          end
          STATE: begin
            invalid <= mem_data[softroce_regs_pkg::MR_STATE_INVALID_LSB];
            state   <= DOMAIN;
          end
          DOMAIN: begin
            shift <= mem_data[32+softroce_regs_pkg::MR_PAGES_PAGE_SHIFT_LSB+:6];
            state <= VA;
          end
          VA: begin
            offset <= va - mem_data;
            state  <= LENGTH;
          end
          LENGTH: state <= FIRST;
          FIRST: begin
            mtt_first <= mem_data[31:0];
            position <= {1'b0, offset} + {33'd0, mem_data[63:32]};
            state <= TRANSLATE;
          end
          TRANSLATE: state <= PAGE;
          PAGE: begin
            ddr_addr <= mem_data[softroce_regs_pkg::MTT_PAGE_PAGE_ADDRESS_LSB+:34] | {4'd0, in_page};
            ddr_bytes <= bytes < {1'b0, page_left} ? bytes : {1'b0, page_left};
            state <= AGAIN;
          end
          default: begin
            done  <= 1'b1;
            state <= IDLE;
          end
        endcase
      end
    end
  end

endmodule
