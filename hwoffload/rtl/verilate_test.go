// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// counter answers after as many clocks as it is asked for.
const counter = `
module counter (input logic clk, input logic rst, input logic start, input logic [39:0] n,
                output logic done, output logic [39:0] left);
  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) left <= 40'd7;
    else if (start) left <= n;
    else if (left != 40'd0) begin
      left <= left - 40'd1;
      done <= left == 40'd1;
    end
  end
endmodule
`

var counterPorts = rtl.Ports{Clock: "clk", Inputs: []string{"start", "n"}, Outputs: []string{"done", "left"}}

func startCounter(t *testing.T, text string) (*rtl.Bench, error) {
	require.Command(t, rtl.Programs...)
	b, err := rtl.StartBench(t.Context(), "counter", counterPorts, rtl.Source{Name: "counter.sv", Text: text})
	if err == nil {
		t.Cleanup(b.Close)
	}
	return b, err
}

func TestBench(t *testing.T) {
	b, err := startCounter(t, counter)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Cycle(1, 5)
	if err != nil || got[1] != 7 {
		t.Errorf("after reset %v, %v; want 7 left", got, err)
	}
	if got, err = b.Cycle(0, 0); err != nil || got[1] != 5 {
		t.Errorf("after the start %v, %v; want 5 left", got, err)
	}
	var in [][]uint64
	for n := range uint64(1000) {
		in = append(in, []uint64{1, n + 1})
	}
	results, err := b.Run(in)
	if err != nil || len(results) != len(in) {
		t.Fatalf("%d results, %v; want %d", len(results), err, len(in))
	}
	for i, r := range results {
		if r.Clocks != i+2 || r.Outputs[0] != 1 {
			t.Fatalf("start with %d: %+v; want done after %d clocks", i+1, r, i+2)
		}
	}
	if _, err := b.Cycle(1); err == nil {
		t.Error("one value for two inputs is accepted")
	}
}

// A module that gives no answer, and one that Verilator refuses, end with an error that says so.
func TestBenchErrors(t *testing.T) {
	b, err := startCounter(t, counter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run([][]uint64{{1, 0}}); err == nil || !strings.Contains(err.Error(), "no answer after") {
		t.Errorf("a module without an answer: %v", err)
	}
	if _, err := b.Cycle(1, 1); err == nil {
		t.Error("the simulation has ended, and answers")
	}
	_, err = startCounter(t, strings.Replace(counter, "<= n;", "<= n[38:0];", 1))
	if err == nil || !strings.Contains(err.Error(), "WIDTH") {
		t.Errorf("a module with a warning: %v", err)
	}
}
