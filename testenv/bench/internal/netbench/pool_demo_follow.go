// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/softroce/softroce-xdp/mempool/lease"
)

// follow is what samples of the server's state show of the division.
type follow struct {
	demand, leased   []float64 // bytes of the wave
	mapDemand        uint64    // the most of the map, bytes
	periods, network uint64    // predicted, and of these by the network
}

// add takes a sample.
func (f *follow) add(s lease.Status) {
	w := find(s, waveName)
	if w.Name != "" {
		f.demand = append(f.demand, float64(w.Demand))
		f.leased = append(f.leased, float64(leased(s, w)))
	}
	f.periods, f.network = 0, 0
	for _, n := range s.Nodes {
		f.periods += n.Expected.Periods
		f.network += n.Expected.ByNetwork
	}
	f.mapDemand = max(f.mapDemand, find(s, "map").Demand)
}

// correlation is Pearson's of two series of one length; 0 without variation.
func correlation(a, b []float64) float64 {
	if c := stat.Correlation(a, b, nil); !math.IsNaN(c) {
		return c
	}
	return 0
}

func (f follow) share() float64 { return float64(f.network) / float64(max(f.periods, 1)) }

func (f follow) String() string {
	return fmt.Sprintf("  correlation of h3's space with its demand: %.2f\n  most that the map kept in the pool: %s\n"+
		"  %d of %d predictions by the network (%.0f %%), the others by the fallback",
		correlation(f.demand, f.leased), mib(f.mapDemand), f.network, f.periods, 100*f.share())
}

// Bounds of the verdict.
const (
	leastCorrelation = 0.5
	leastShare       = 0.5
)

// verdict is an error if the division did not do what the demonstration shows.
func (f follow) verdict() error {
	var errs []error
	if c := correlation(f.demand, f.leased); c < leastCorrelation {
		errs = append(errs, fmt.Errorf("the space of h3 does not follow its demand: correlation %.2f", c))
	}
	if f.share() <= leastShare {
		errs = append(errs, fmt.Errorf("%.0f %% of the predictions are the network's", 100*f.share()))
	}
	if f.mapDemand == 0 {
		errs = append(errs, errors.New("the map kept nothing in the pool"))
	}
	return errors.Join(errs...)
}
