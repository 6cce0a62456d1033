// SPDX-License-Identifier: Apache-2.0

//go:build timing

package rates

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var (
	figuresRuns = flag.Int("receiver.runs", 1, "runs of each receiverScenario")
	figuresDir  = flag.String("receiver.out", "", "write the picture and the table into this directory")
)

// TestReceiverFigures measures (make bench-receiver). It judges nothing: the figures depend on the machine.
func TestReceiverFigures(t *testing.T) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0))) // all hosts are in this process
	all := map[string][]runReceiver{}
	var table strings.Builder
	for i := range scenarios {
		s := &scenarios[i]
		for range *figuresRuns {
			t.Run(s.Name, func(t *testing.T) {
				r := s.play(t)
				for _, d := range s.directions() {
					t.Logf("%s: off %.0f, on %.0f bit/s, %d dropped", d, r.off[d], r.on[d], r.dropped)
				}
				all[s.Name] = append(all[s.Name], r)
			})
		}
		if len(all[s.Name]) == *figuresRuns { // not excluded by -run, and without an error
			s.table(&table, all[s.Name])
		}
	}
	t.Logf("\n%s", table.String())
	if *figuresDir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*figuresDir, "receiver.txt"), []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := os.Create(filepath.Join(*figuresDir, "receiver.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := figure(all).WriteSVG(w); err != nil {
		t.Fatal(err)
	}
}
