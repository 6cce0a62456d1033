// SPDX-License-Identifier: Apache-2.0
//
// region_accept decides whether the card accepts an element of block mr (S2.3), and writes register
// mr.state of the element. Its verdicts are those of rocev2/mr.
//
// start is 1 for one clock, with element and valid, the new value of mr.control.valid, while the
// module is idle. An element that is not valid becomes unusable. A region is usable if its key names
// the element, its rights and its range are possible, and all of its pages are in block mtt and at
// multiples of their size. A window has only a key, and is not bound. Regions of other kinds are
// not usable. done is 1 for one clock, after the write.
//
// Registers are words of 64 bits: mem_req, mem_write, mem_wdata and mem_addr, an address in the BAR,
// hold until mem_ack, which comes with mem_data.
//
// Latency: 13 clocks, and 2 for each page, if mem_ack comes in the clock after mem_req.
module region_accept (
    input  logic        clk,
    input  logic        rst,

    input  logic        start,
    input  logic        valid,
    input  logic [ 9:0] element,
    output logic        done,

    output logic        mem_req,
    output logic        mem_write,
    output logic [31:0] mem_addr,
    output logic [63:0] mem_wdata,
    input  logic        mem_ack,
    input  logic [63:0] mem_data
);

  localparam logic [1:0] REGION = 2'd0;  // of mr.control.kind
  localparam logic [1:0] WINDOW = 2'd3;
  localparam logic [5:0] MIN_SHIFT = 6'd12;
  localparam logic [5:0] MAX_SHIFT = 6'd30;
  localparam logic [63:0] DDR_BYTES = 64'h4_0000_0000;

  typedef enum logic [2:0] {
    IDLE,
    CONTROL,
    PAGES,
    VA,
    LENGTH,
    FIRST,
    PAGE,
    STATE
  } state_t;
  state_t state;

  logic [9:0] number;
  logic zero_based, atomic;
  logic [5:0] shift;
  logic [63:0] va;
  logic [34:0] length;
  logic [16:0] page;  // element of block mtt
  logic [16:0] left;  // pages
  logic usable, invalid;

  // Fields of the word that was read.
  logic [15:0] key_element;
  logic [7:0] key_variant;
  logic [31:0] mtt_first, first_byte;
  logic [1:0] kind;
  logic local_write, remote_write, remote_atomic;
  logic [5:0] shift_read;
  assign shift_read = mem_data[32+softroce_regs_pkg::MR_PAGES_PAGE_SHIFT_LSB+:6];
  assign key_element = mem_data[63:48];
  assign key_variant = mem_data[47:40];
  assign kind = mem_data[softroce_regs_pkg::MR_CONTROL_KIND_LSB+:2];
  assign local_write = mem_data[softroce_regs_pkg::MR_CONTROL_LOCAL_WRITE_LSB];
  assign remote_write = mem_data[softroce_regs_pkg::MR_CONTROL_REMOTE_WRITE_LSB];
  assign remote_atomic = mem_data[softroce_regs_pkg::MR_CONTROL_REMOTE_ATOMIC_LSB];
  assign mtt_first = mem_data[31:0];
  assign first_byte = mem_data[63:32];

  logic [30:0] page_bytes;
  logic [35:0] end_byte;  // from the start of the first page
  logic [23:0] pages;
  assign page_bytes = 31'd1 << shift;
  assign end_byte = {4'd0, first_byte} + {1'b0, length} + {5'd0, page_bytes} - 36'd1;
  assign pages = 24'(end_byte >> shift);

  // The word that was read is possible.
  logic possible;
  always_comb begin
    possible = 1'b1;
    case (state)
      // IBTA 10.6.3: remote write and remote atomic need local write.
      CONTROL:
      possible = key_element == {6'd0, number} && {key_element, key_variant} != 24'd0
          && (kind == WINDOW || kind == REGION && (local_write || !remote_write && !remote_atomic));
      PAGES: possible = shift_read >= MIN_SHIFT && shift_read <= MAX_SHIFT;
      VA: possible = !zero_based || mem_data == 64'd0;
      LENGTH: possible = mem_data != 64'd0 && mem_data <= DDR_BYTES && va <= -mem_data;
      FIRST:
      possible = first_byte < {1'b0, page_bytes} && (!atomic || first_byte[2:0] == va[2:0])
          && {8'd0, mtt_first} + {16'd0, pages} <= {8'd0, softroce_regs_pkg::MTT_COUNT};
      PAGE: possible = (mem_data[29:0] & 30'(page_bytes - 31'd1)) == 30'd0;
      default: ;
    endcase
  end
  logic [31:0] base;
  assign base = softroce_regs_pkg::MR_BASE + {22'd0, number} * softroce_regs_pkg::MR_STRIDE;
  assign mem_req = state != IDLE;
  assign mem_write = state == STATE;
  assign mem_wdata = {62'd0, invalid, usable};
  always_comb
    case (state)
      CONTROL: mem_addr = base + softroce_regs_pkg::MR_CONTROL_OFS;
      PAGES: mem_addr = base + softroce_regs_pkg::MR_DOMAIN_OFS;
      VA: mem_addr = base + softroce_regs_pkg::MR_VA_OFS;
      LENGTH: mem_addr = base + softroce_regs_pkg::MR_LENGTH_OFS;
      FIRST: mem_addr = base + softroce_regs_pkg::MR_MTT_FIRST_OFS;
      PAGE: mem_addr = softroce_regs_pkg::MTT_BASE + {15'd0, page} * softroce_regs_pkg::MTT_STRIDE;
      default: mem_addr = base + softroce_regs_pkg::MR_STATE_OFS;
    endcase

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) state <= IDLE;
    else if (state == IDLE) begin
      if (start) begin
        number <= element;
        usable <= 1'b0;
        invalid <= 1'b0;
        state <= valid ? CONTROL : STATE;
      end
    end else if (mem_ack) begin
      case (state)
        CONTROL: begin
          atomic <= remote_atomic;
          zero_based <= mem_data[softroce_regs_pkg::MR_CONTROL_ZERO_BASED_LSB];
          usable <= possible && kind == WINDOW;
          invalid <= possible && kind == WINDOW;
          state <= possible && kind == REGION ? PAGES : STATE;
        end
        PAGES: begin
          shift <= shift_read;
          state <= possible ? VA : STATE;
        end
        VA: begin
          va <= mem_data;
          state <= possible ? LENGTH : STATE;
        end
        LENGTH: begin
          length <= mem_data[34:0];
          state <= possible ? FIRST : STATE;
        end
        FIRST: begin
          page <= mtt_first[16:0];
          left <= pages[16:0];
          state <= possible ? PAGE : STATE;
        end
        PAGE: begin
          page <= page + 17'd1;
          left <= left - 17'd1;
          usable <= possible && left == 17'd1;
          if (!possible || left == 17'd1) state <= STATE;
        end
        default: begin
          done  <= 1'b1;
          state <= IDLE;
        end
      endcase
    end
  end

endmodule
