// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"math/rand/v2"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// traffic adds all flows.
func (r *run) traffic(seed uint64) error {
	random := scenario.NewRand(seed, streamTraffic)
	for i, t := range r.s.Traffic {
		var err error
		switch {
		case t.Flows != nil:
			err = r.flows(t.Flows)
		case t.OnOff != nil:
			err = r.onOff(t.OnOff)
		default:
			err = r.drawn(t, rand.New(rand.NewPCG(random.Uint64(), uint64(i))))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endless is a size that no run gets to the end of.
const endless = 1 << 40

func (r *run) flows(f *scenario.Flows) (err error) {
	f.EachPair(r.s.Topology.Size(), func(src, dst int, at scenario.Time) {
		for range f.Count {
			if err == nil {
				err = r.flow(f, src, dst, at)
			}
		}
	})
	return err
}

func (r *run) flow(f *scenario.Flows, src, dst int, at scenario.Time) error {
	spec := sim.FlowSpec{Src: src, Dst: dst, Bytes: int64(f.Bytes), Start: time.Duration(at), Tag: r.tagAt(at)}
	if f.Bytes == 0 {
		spec.Bytes, spec.Tag = endless, tagLong
	}
	flow, err := r.net.Add(spec)
	switch {
	case err != nil:
		return err
	case spec.Tag == tagLong:
		r.long = append(r.long, &longFlow{Flow: flow, start: at})
	case spec.Tag == tagMessage:
		r.started++
	}
	return nil
}

// tagAt says whether a message that starts then counts.
func (r *run) tagAt(at scenario.Time) int64 {
	if at >= r.s.Measure.From && at < r.s.Measure.To {
		return tagMessage
	}
	return tagOther
}

// headers of a data packet: Ethernet with FCS, preamble and gap, IPv4, UDP, BTH and
// ICRC.
const headers = 82

// onOff sends what the rate carries in each stretch as one message.
func (r *run) onOff(o *scenario.OnOff) error {
	n, stop := r.s.Topology.Size(), o.Stop
	if stop == 0 {
		stop = r.s.Measure.To + r.s.Measure.Drain
	}
	// Rates count what the wire carries.
	payload := float64(r.s.Transport.MTU) / float64(r.s.Transport.MTU+headers)
	on := o.On
	if o.Off == 0 {
		on = stop - o.Start
	}
	for at := o.Start; at < stop && on > 0; at += on + o.Off {
		bytes := int64(float64(o.Rate) / 8e9 * float64(min(on, stop-at)) * payload)
		for _, src := range o.From.Of(n) {
			for _, dst := range o.To.Of(n) {
				if src == dst || bytes == 0 {
					continue
				}
				if _, err := r.net.Add(sim.FlowSpec{Src: src, Dst: dst, Bytes: bytes, Start: time.Duration(at)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// drawn adds the flows of a workload or of incasts.
func (r *run) drawn(t scenario.Traffic, random *rand.Rand) error {
	hosts, rate := r.s.Topology.Size(), uint64(r.s.Links.Host)
	var flows []scenario.Flow
	var err error
	if w := t.Workload; w != nil {
		sizes, e := scenario.ByName(w.Sizes)
		if e != nil {
			return e
		}
		flows, err = scenario.Uniform{Sizes: sizes, Hosts: hosts, RateBps: rate, Load: float64(w.Load), From: int64(w.From), To: int64(w.To)}.Flows(random)
	} else {
		n := t.Incast
		flows, err = scenario.IncastFlows{Senders: n.Senders, Bytes: int64(n.Bytes), Hosts: hosts, RateBps: rate, Load: float64(n.Load), From: int64(n.From), To: int64(n.To)}.Flows(random)
	}
	if err != nil {
		return err
	}
	for _, f := range flows {
		tag := r.tagAt(scenario.Time(f.At))
		if tag == tagMessage {
			r.started++
		}
		if _, err := r.net.Add(sim.FlowSpec{Src: f.Src, Dst: f.Dst, Bytes: f.Bytes, Start: time.Duration(f.At), Tag: tag}); err != nil {
			return err
		}
	}
	return nil
}

// crossRates are the hosts that obey nobody.
func crossRates(s *scenario.Scenario) map[int]uint64 {
	rates := map[int]uint64{}
	for _, t := range s.Traffic {
		if t.OnOff != nil {
			for _, h := range t.OnOff.From.Of(s.Topology.Size()) {
				rates[h] = uint64(t.OnOff.Rate)
			}
		}
	}
	return rates
}
