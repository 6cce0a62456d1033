// SPDX-License-Identifier: Apache-2.0

package predict

import (
	_ "embed"
	"encoding/json"
	"sync"
)

//go:generate go run ../../testenv/experiments/predict -start start.json

//go:embed start.json
var startText []byte

// StartNetwork returns the network with which a Node begins if nothing better is known. It was
// trained by testenv/experiments/predict with synthetic demands, for horizons from 1 to 12 periods.
func StartNetwork() *Network { return loadStart().Clone() }

var loadStart = sync.OnceValue(func() *Network {
	var s NetworkState
	err := json.Unmarshal(startText, &s)
	if err == nil {
		var n *Network
		if n, err = RestoreNetwork(s); err == nil {
			return n
		}
	}
	panic("predict: start.json: " + err.Error()) // the file is part of this package; a test reads it
})
