// SPDX-License-Identifier: Apache-2.0
//
// ns_clock at five frequencies: below and above 1 GHz, exact and with a remainder.
module ns_clock_tb (
    input  logic        clk,
    input  logic        rst,
    input  logic        run,
    input  logic        load,
    input  logic [63:0] load_ns,
    output logic [63:0] ns_322265625,
    output logic [63:0] ns_250000000,
    output logic [63:0] ns_1000000000,
    output logic [63:0] ns_4294967295,
    output logic [63:0] ns_3
);

  ns_clock by_default (.clk, .rst, .run, .load, .load_ns, .ns(ns_322265625));
  ns_clock #(.CLK_HZ(32'd250000000)) exact (.clk, .rst, .run, .load, .load_ns, .ns(ns_250000000));
  ns_clock #(.CLK_HZ(32'd1000000000)) one (.clk, .rst, .run, .load, .load_ns, .ns(ns_1000000000));
  ns_clock #(.CLK_HZ(32'd4294967295)) fast (.clk, .rst, .run, .load, .load_ns, .ns(ns_4294967295));
  ns_clock #(.CLK_HZ(32'd3)) slow (.clk, .rst, .run, .load, .load_ns, .ns(ns_3));

endmodule
