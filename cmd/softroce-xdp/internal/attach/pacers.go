// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// pacerFact is one way of making packets wait.
type pacerFact struct {
	Name  pacer.Kind `json:"name"`
	Works bool       `json:"works"`
	Why   string     `json:"why,omitempty"` // reason if the pacer does not work
}

func tryPacers() []pacerFact {
	var out []pacerFact
	for _, kind := range pacer.Kinds {
		if kind == pacer.None {
			continue
		}
		p := pacerFact{Name: kind, Works: true}
		if err := pacer.Try(kind); err != nil {
			p.Works, p.Why = false, err.Error()
		}
		out = append(out, p)
	}
	return out
}

// rootQdisc names the root qdisc as tc does.
func rootQdisc(l netlink.Link) (string, error) {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return "", fmt.Errorf("list qdiscs: %w", err)
	}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q.Type(), nil
		}
	}
	return "noqueue", nil
}
