// SPDX-License-Identifier: Apache-2.0
//
// compute_cores executes tasks on several cores at once (S1.1). A task goes to the first core
// that is free, and task_ready is 0 while none is. Results leave in the order in which they
// are done; if several are, the cores take turns. The tag tells whose a result is.
//
// Tasks, memory ports and results are those of crc32c_core, which is the kind of core here.
// Each core has a memory port of its own: element i of a vector belongs to core i.
//
// busy_clocks has 64 bits per core: for how many clocks it was busy since rst. tasks has 32
// bits per core: how many results have left. Both wrap.
//
// Latency: none in addition to that of a core. A task may start in each clock.
module compute_cores #(
    parameter int CORES = 2
) (
    input  logic clk,
    input  logic rst,

    input  logic        task_valid,
    output logic        task_ready,
    input  logic [33:0] task_addr,
    input  logic [31:0] task_length,
    input  logic [15:0] task_tag,
    input  logic [CORES-1:0] cancel,

    output logic [   CORES-1:0] rd_valid,
    input  logic [   CORES-1:0] rd_ready,
    output logic [34*CORES-1:0] rd_addr,
    input  logic [   CORES-1:0] data_valid,
    input  logic [64*CORES-1:0] data,

    output logic        result_valid,
    input  logic        result_ready,
    output logic [15:0] result_tag,
    output logic [31:0] result_crc,

    output logic [   CORES-1:0] busy,
    output logic [64*CORES-1:0] busy_clocks,
    output logic [32*CORES-1:0] tasks
);

  logic [CORES-1:0] free;
  logic [CORES-1:0] starts;  // at most one bit
  logic [CORES-1:0] finished;
  logic [CORES-1:0] chosen;  // whose result leaves: at most one bit
  logic [CORES-1:0] last;  // whose result left before
  logic [16*CORES-1:0] tags;
  logic [32*CORES-1:0] crcs;

  // The lowest bit of a set.
  assign starts = task_valid ? free & (~free + CORES'(1)) : '0;
  assign task_ready = |free;

  // Cores above the last one come first.
  logic [CORES-1:0] above;
  assign above = finished & ~(last | (last - CORES'(1)));
  assign chosen = |above ? above & (~above + CORES'(1)) : finished & (~finished + CORES'(1));
  assign result_valid = |finished;

  always_comb begin
    result_tag = 16'd0;
    result_crc = 32'd0;
    for (int i = 0; i < CORES; i++)
      if (chosen[i]) begin
        result_tag = tags[16*i+:16];
        result_crc = crcs[32*i+:32];
      end
  end

  always_ff @(posedge clk)
    if (rst) last <= CORES'(1) << (CORES - 1);
    else if (result_valid && result_ready) last <= chosen;

  for (genvar i = 0; i < CORES; i++) begin : core
    crc32c_core kernel (
        .clk,
        .rst,
        .task_valid(starts[i]),
        .task_ready(free[i]),
        .task_addr,
        .task_length,
        .task_tag,
        .cancel(cancel[i]),
        .rd_valid(rd_valid[i]),
        .rd_ready(rd_ready[i]),
        .rd_addr(rd_addr[34*i+:34]),
        .data_valid(data_valid[i]),
        .data(data[64*i+:64]),
        .result_valid(finished[i]),
        .result_ready(result_ready && chosen[i]),
        .result_tag(tags[16*i+:16]),
        .result_crc(crcs[32*i+:32]),
        .busy(busy[i])
    );

    always_ff @(posedge clk)
      if (rst) begin
        busy_clocks[64*i+:64] <= 64'd0;
        tasks[32*i+:32] <= 32'd0;
      end else begin
        busy_clocks[64*i+:64] <= busy_clocks[64*i+:64] + {63'd0, busy[i]};
        tasks[32*i+:32] <= tasks[32*i+:32] + {31'd0, finished[i] && result_ready && chosen[i]};
      end
  end

endmodule
