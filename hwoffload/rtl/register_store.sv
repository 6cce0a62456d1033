// SPDX-License-Identifier: Apache-2.0
//
// register_store holds the registers that the driver writes, except those of the destination
// table: words of 64 bits, at the places of softroce_decode. A word holds its value XOR its
// value after reset, so a cleared store is a card after reset.
//
// rdata has the word of the address of the clock before.
module register_store (
    input  logic        clk,
    input  logic [27:0] addr,
    input  logic        write,
    input  logic [63:0] wdata,
    output logic [63:0] rdata
);

  localparam int WORDS = softroce_regs_pkg::STORE_WORDS;
  localparam int BITS = $clog2(WORDS);

  logic [63:0] mem[WORDS];

  always_ff @(posedge clk) begin
    rdata <= mem[addr[BITS-1:0]];
    if (write) mem[addr[BITS-1:0]] <= wdata;
  end

  // Places end below the length of the store.
  logic unused;
  assign unused = &{1'b0, addr[27:BITS]};

endmodule
