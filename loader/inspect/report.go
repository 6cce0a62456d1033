// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/loader"
)

// Report is what the agent has found, repaired and sampled. It replaces the file when that changes.
type Report struct {
	Findings []Finding `json:"findings,omitempty"` // present
	// Repairs counts the repairs since the agent started.
	Repairs map[Kind]int `json:"repairs,omitempty"`
	// Counters are the judged counters one to two minutes ago.
	Counters map[string]uint64 `json:"counters,omitempty"`

	// Missing is why there is no present report: the agent writes or confirms it every second.
	Missing error `json:"-"`
}

// reportLife is the age from which a report is not present: a look is late by a
// second on a busy machine.
const reportLife = 5 * time.Second

// judged are the counters of the data plane whose growth is a problem.
var judged = []string{"tx_table_full", "tx_too_big", "rx_strip_failed", "tx_stamp_failed", "events_lost", "active_lost", "tx_gso"}

// Judged reports whether the growth of a counter is a problem.
func Judged(counter string) bool { return slices.Contains(judged, counter) }

// ReadReport reads the report of the agent of an interface.
func ReadReport(runDir, ifname string) (r Report) {
	b, age, err := loader.ReadReport(runDir, ifname)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && age > reportLife {
		err = fmt.Errorf("the last one is %v old", age.Round(time.Second))
	}
	r.Missing = err
	return r
}

// Merge adds to the findings of another process what only the agent knows.
func (r *Report) Merge(found []Finding) []Finding {
	if r.Missing != nil {
		return append(found, Finding{Kind: Unread, Text: fmt.Sprintf("the agent does not report (%v): what it has found is not shown; see its log", r.Missing)})
	}
	for _, f := range r.Findings {
		i := slices.IndexFunc(found, func(x Finding) bool { return x.Kind == f.Kind })
		switch {
		case i >= 0:
			found[i].Note = f.Note
		case f.Kind == Pacer, f.Kind == Hello, f.Kind == Unread:
			found = append(found, f)
		}
	}
	return found
}
