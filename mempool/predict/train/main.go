// SPDX-License-Identifier: Apache-2.0

// Command train generates mempool/predict/start.json: the weights with which the network of a node begins.
// It trains with synthetic demands, so that the file has no data of others. `go generate ./mempool/predict` runs it.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments, need the name of the file to write", len(args))
	}
	cfg := predict.DefaultTrainConfig(1)
	cfg.Horizons = []int{1, 3, 12}
	n, err := predict.Train(cfg, Traces(1, 1000, 200))
	if err != nil {
		return err
	}
	state := n.State()
	state.Mean, state.Variance = nil, nil
	for i, w := range state.Weights {
		// Four digits suffice, and rounding makes the file equal on machines whose last digits differ.
		if state.Weights[i], err = strconv.ParseFloat(strconv.FormatFloat(w, 'g', 4, 64), 64); err != nil || math.IsNaN(w) {
			return fmt.Errorf("weight %d is %v", i, w)
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], append(text, '\n'), 0o644)
}
