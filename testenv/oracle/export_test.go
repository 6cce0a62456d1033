// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// What the tests of package oracle_test, where the engine is a side, share with those of rxe
// against rxe: the machines above all.
var (
	Machines = machines
	RunTable = runTable
)

// Pair is what Machines returns.
type Pair = pair

// Net is where the machines are plugged in.
func (p *pair) Net() *rxepeer.Net { return p.net }

// HostDrops counts the packets that the host has dropped in front of the machines.
func (p *pair) HostDrops() (uint64, error) { return p.hostDrops() }

// Judge is that of the first machine.
func (p *pair) Judge() *Judge { return p.a }

// SecondJudge is that of the second machine.
func (p *pair) SecondJudge() *Judge { return p.b }

// Guest has close called before the machines go.
func (p *pair) Guest(close func() error) { p.guests = append(p.guests, close) }

// Bench is one of both judges.
func (p *pair) Bench(t *testing.T) *Bench { return p.bench(t) }

// SentBy counts the packets that a judge has sent.
func SentBy(j *Judge) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		c, err := j.VM.RxeCounters(ctx)
		return c["sent_pkts"], err
	}
}
