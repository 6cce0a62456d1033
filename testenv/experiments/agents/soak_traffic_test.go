// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A client makes all kinds of visits to all hosts before it makes one of them again.
func TestSoakDeck(t *testing.T) {
	const hosts = 3
	d := &deck{rand: rand.New(rand.NewPCG(1, 1)), hosts: hosts}
	for round := range 3 {
		seen := map[string]int{}
		for range transports*2*hosts + 1 {
			seen[d.draw().String()]++
		}
		for _, v := range allVisits(hosts) {
			if seen[v.String()] != 1 {
				t.Errorf("round %d: %d visits %v", round, seen[v.String()], v)
			}
		}
	}
}

// Traffic of a kind is missing unless one program of the host has succeeded with it in a visit that began later, and a
// failure is judged if its visit began later and its address exists.
func TestSoakJudgesTraffic(t *testing.T) {
	const hosts, since = 2, 100
	names := func() (all []string) {
		for _, v := range allVisits(hosts) {
			all = append(all, v.String())
		}
		return all
	}()
	const one = "encrypted RC over IPv6 to host 2"
	for _, c := range []struct {
		name            string
		change          func(first, second *SoakProgress)
		missing, failed []string
	}{
		{"all", func(first, _ *SoakProgress) { first.recordTraffic(one, since+1, nil) }, nil, nil},
		{"by another program", func(_, second *SoakProgress) { second.recordTraffic(one, since+1, nil) }, nil, nil},
		{"not at all", func(_, _ *SoakProgress) {}, []string{one}, nil},
		{"before", func(first, _ *SoakProgress) { first.recordTraffic(one, since, nil) }, []string{one}, nil},
		{
			"failed",
			func(first, _ *SoakProgress) { first.recordTraffic(one, since+1, errors.New("refused")) },
			[]string{one}, []string{one + ": refused"},
		},
		{
			"failed, then not", func(first, _ *SoakProgress) {
				first.recordTraffic(one, since+1, errors.New("refused"))
				first.recordTraffic(one, since+2, nil)
			}, nil, []string{one + ": refused"},
		},
		{
			"failed before, and its end was later than that of others", func(first, _ *SoakProgress) {
				first.recordTraffic(one, since+1, errors.New("refused"))
				first.recordTraffic(one, since-1, errors.New("lost"))
			}, []string{one}, []string{one + ": refused"},
		},
		{"failed before", func(first, _ *SoakProgress) {
			first.recordTraffic(one, since-1, errors.New("lost"))
			first.recordTraffic(one, since+1, nil)
		}, nil, nil},
		{"an address that is not there", func(first, _ *SoakProgress) {
			first.recordTraffic(one, since+1, nil)
			first.recordTraffic(soakVisit{spare: true}.String(), since+1, errors.New("no neighbour"))
		}, nil, nil},
	} {
		var first, second SoakProgress
		for _, name := range names {
			if name != one {
				first.recordTraffic(name, since+1, nil)
			}
		}
		c.change(&first, &second)
		if got := missingTraffic(soakClient, hosts, since, []SoakProgress{first, second}); !slices.Equal(got, c.missing) {
			t.Errorf("%s: missing %q, want %q", c.name, got, c.missing)
		}
		if got := failedTraffic(since, first); !slices.Equal(got, c.failed) {
			t.Errorf("%s: failed %q, want %q", c.name, got, c.failed)
		}
	}
	var server SoakProgress
	server.recordTraffic(datagramsReceived(true), since+1, nil)
	if got := missingTraffic(soakServer, hosts, since, []SoakProgress{server}); !slices.Equal(got, []string{"UD messages received over IPv4"}) {
		t.Errorf("server: missing %q", got)
	}
}

// A visit that began without faults and has failed is a problem of the period, also if the program ends well.
func TestSoakJudgesQuietFailures(t *testing.T) {
	for _, c := range []struct {
		quietSince, began int64
		problems          int
	}{{0, 101, 0}, {100, 100, 0}, {100, 101, 1}} {
		s := &soak{SoakConfig: SoakConfig{Line: func(string) {}}, period: &SoakPeriod{}, quietSince: c.quietSince}
		var done SoakProgress
		done.recordTraffic(allVisits(1)[0].String(), c.began, errors.New("refused"))
		s.count(&soakRun{kind: soakClient, cmd: &topo.Cmd{Cmd: &exec.Cmd{Process: &os.Process{Pid: 1}}}}, done)
		if len(s.result.Problems) != c.problems {
			t.Errorf("%+v: problems %q", c, s.result.Problems)
		}
		if d := s.period.Done.Traffic["RC over IPv4"]; d.Failed != 1 {
			t.Errorf("%+v: the period has %+v", c, s.period.Done.Traffic)
		}
	}
}
